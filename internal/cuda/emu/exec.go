package emu

import (
	"fmt"
	"math/bits"
	"runtime"
)

type (
	lanes32 = [32]uint32
	lanes64 = [32]uint64
)

const allLanes = ^uint32(0)

// A group is a set of lanes of a warp that are at the same place.
type group struct {
	pc   int
	mask uint32
}

// A warp executes a kernel for 32 lanes at a time. Lanes that diverge form groups; the one with the
// smallest pc runs, and groups that meet are joined.
type warp struct {
	id    int
	block *block
	r     []lanes32 // registers of up to 32 bits; those of 16 have zeros above
	d     []lanes64
	p     []uint32 // predicates, a bit per lane
	out   uint32   // what an instruction of kind purePred computed
	carry uint32   // condition code of each lane
	live  uint32   // lanes that have not ended
	run   []group  // by pc
	in    *inst    // being executed
	found []*alloc // by site: the allocation it touched last
	local []byte   // of all lanes
	lset  []byte   // shadow of local

	waits  bool // at a barrier
	wanted int  // which one
	done   bool

	know   []uint32 // of each warp: how much of what it did happened before this warp's present
	own    uint32   // this warp's own time, which barriers advance
	syncs  uint32   // times the lanes of this warp have synchronised among themselves
	copies []asyncCopy
	groups []int // ends of cp.async groups in copies
}

// A fault is what a kernel did wrong; it ends the launch.
type fault struct {
	code int
	text string
}

func describe(format string, a ...any) string { return fmt.Sprintf(format, a...) }

// fail ends the launch with a fault of the whole warp.
func (w *warp) fail(code int, format string, a ...any) { w.failLane(code, -1, format, a...) }

// failLane ends the launch with a fault of one lane.
func (w *warp) failLane(code, lane int, format string, a ...any) {
	where := describe("kernel %s, block %v, warp %d", w.block.k.name, w.block.at, w.id)
	if lane >= 0 {
		where += describe(", lane %d (thread %d)", lane, w.id*32+lane)
	}
	if w.in != nil {
		panic(fault{code, describe("%s, PTX line %d: %s\n\t%s", where, w.in.line, describe(format, a...), w.in.text)})
	}
	panic(fault{code, describe("%s: %s", where, describe(format, a...))})
}

// reset prepares a warp for a block. Registers hold poison again.
func (w *warp) reset(threads int) {
	copy(w.r, w.block.k.regs32)
	copy(w.d, w.block.k.regs64)
	clear(w.p)
	clear(w.lset)
	w.live = allLanes
	if n := threads - w.id*32; n < 32 {
		w.live = 1<<n - 1
	}
	w.run = append(w.run[:0], group{0, w.live})
	w.waits, w.done, w.carry = false, false, 0
	clear(w.know)
	w.own, w.syncs = 1, 1
	w.copies, w.groups = w.copies[:0], w.groups[:0]
	w.in = nil
}

// exec runs until a barrier, a failed wait, or the end.
func (w *warp) exec() {
	code := w.block.k.code
	count := &w.block.count
	for {
		g := &w.run[0]
		in := &code[g.pc]
		m := g.mask
		if in.guard >= 0 {
			if in.neg {
				m &^= w.p[in.guard]
			} else {
				m &= w.p[in.guard]
			}
		}
		count.Warp++
		count.Lane += int64(bits.OnesCount32(m))
		if g.mask != allLanes {
			count.Diverged++
		}
		g.pc++
		switch in.kind {
		case pure32, pure64, purePred:
			w.pure(in, m)
		case effect:
			if m != 0 {
				w.effect(in, m)
			}
		case spin:
			w.in = in
			if m != 0 && !in.spin(w, m) {
				g.pc-- // tries again
				return
			}
		case branch:
			w.branch(in, m)
		case leave:
			if w.leave(m); w.done {
				return
			}
		case barrier:
			w.in = in
			if m != 0 {
				if in.run(w, m); w.waits {
					return
				}
			}
		}
		if len(w.run) > 1 && w.run[0].pc >= w.run[1].pc {
			w.sort()
		}
	}
}

// pure runs an instruction that computes all lanes of one register and keeps those outside of m.
func (w *warp) pure(in *inst, m uint32) {
	switch {
	case in.kind == purePred:
		in.run(w, m)
		w.p[in.dst] = w.p[in.dst]&^m | w.out&m
	case m == allLanes:
		in.run(w, m)
	case m == 0:
	case in.kind == pure32:
		dst := &w.r[in.dst]
		old := *dst
		in.run(w, m)
		for i := range old {
			if m>>i&1 == 0 {
				dst[i] = old[i]
			}
		}
	default:
		dst := &w.d[in.dst]
		old := *dst
		in.run(w, m)
		for i := range old {
			if m>>i&1 == 0 {
				dst[i] = old[i]
			}
		}
	}
}

// effect runs an instruction that does more than compute a register. Where cards share memory they
// take turns, and others get their chance behind each access.
func (w *warp) effect(in *inst, m uint32) {
	w.in = in
	mem := &w.block.card.machine.mem
	if !in.global || !mem.peers.Load() {
		in.run(w, m)
		return
	}
	func() {
		mem.turn.Lock()
		defer mem.turn.Unlock()
		in.run(w, m)
	}()
	runtime.Gosched()
}

// branch sends the lanes m of the running group elsewhere.
func (w *warp) branch(in *inst, m uint32) {
	g := &w.run[0]
	if in.target < g.pc && w.block.count.Warp > w.block.limit {
		w.in = in
		w.fail(launchTimeout, "the block has run more than %d instructions", w.block.limit)
	}
	switch {
	case m == 0:
	case in.run != nil: // indirect: each lane has its own target
		w.in = in
		in.run(w, m)
	case m == g.mask:
		g.pc = in.target
		w.sort()
	default:
		g.mask &^= m
		w.run = append(w.run, group{in.target, m})
		w.sort()
	}
}

// leave ends lanes.
func (w *warp) leave(m uint32) {
	g := &w.run[0]
	g.mask &^= m
	w.live &^= m
	if g.mask == 0 {
		w.run = append(w.run[:0], w.run[1:]...)
		w.done = len(w.run) == 0
	}
}

// sort puts the group with the smallest pc first and joins groups that meet.
func (w *warp) sort() {
	r := w.run
	if len(r) == 1 {
		return
	}
	for i := 1; i < len(r); i++ {
		for k := i; k > 0 && r[k].pc < r[k-1].pc; k-- {
			r[k], r[k-1] = r[k-1], r[k]
		}
	}
	n := 0
	for i := 1; i < len(r); i++ {
		if r[i].pc == r[n].pc {
			r[n].mask |= r[i].mask
		} else {
			n++
			r[n] = r[i]
		}
	}
	w.run = r[:n+1]
}

// all ends the launch where lanes are missing from an instruction that a whole warp executes.
func (w *warp) all(m uint32) {
	if m != allLanes {
		w.fail(launchFailed, "executed by lanes %08x: all 32 are needed", m)
	}
}
