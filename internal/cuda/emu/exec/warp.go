package exec

import (
	"fmt"
	"math/bits"
	"runtime"
)

// Lanes32 and Lanes64 are a register of a warp.
type (
	Lanes32 = [32]uint32
	Lanes64 = [32]uint64
)

// AllLanes is the mask of a whole warp.
const AllLanes = ^uint32(0)

// A Group is a set of lanes of a warp that are at the same place.
type Group struct {
	PC   int
	Mask uint32
}

// A Warp executes a kernel for 32 lanes at a time. Lanes that diverge form groups; the one with the
// smallest PC runs, and groups that meet are joined.
type Warp struct {
	ID     int // of the warp in its block
	Block  *Block
	R      []Lanes32 // registers of up to 32 bits; those of 16 have zeros above
	D      []Lanes64
	P      []uint32 // predicates, a bit per lane
	Out    uint32   // what an instruction of kind PurePred computed
	Carry  uint32   // condition code of each lane
	Live   uint32   // lanes that have not ended
	Groups []Group  // by PC; the first one runs
	Syncs  uint32   // times the lanes have synchronised among themselves

	inst  *Inst    // being executed
	found []*Alloc // by site: the allocation it touched last
	local []byte   // of all lanes
	lset  []byte   // shadow of local

	waits  bool // at a barrier
	wanted int  // which one
	then   func(yes, votes int)
	done   bool
	know   []uint32 // of each warp, and of what else has a time (hopper.go): how much of what it did happened before this warp's present
	own    uint32   // this warp's own time, which barriers advance

	copies []AsyncCopy
	groups []int // ends of cp.async groups in copies

	touched       uint32  // lanes that have touched shared memory since the lanes synchronised
	touchedAt     uint32  // Syncs then
	refused       bool    // the last wait for an mbarrier was in vain and said so
	pending       clock   // what the next fence tells of other blocks (order.go)
	products      []begun // under way
	productGroups []int   // ends of their groups
}

// A Fault is what a kernel did wrong; it ends the launch.
type Fault struct {
	Code int // of the driver's error
	Text string
}

func describe(format string, a ...any) string { return fmt.Sprintf(format, a...) }

// Fail ends the launch with a fault of the whole warp.
func (w *Warp) Fail(code int, format string, a ...any) { w.FailLane(code, -1, format, a...) }

// FailLane ends the launch with a fault of one lane.
func (w *Warp) FailLane(code, lane int, format string, a ...any) {
	where := describe("kernel %s, block %v, warp %d", w.Block.Kernel.Name, w.Block.At, w.ID)
	if lane >= 0 {
		where += describe(", lane %d (thread %d)", lane, w.ID*32+lane)
	}
	if w.inst != nil {
		panic(Fault{code, describe("%s, PTX line %d: %s\n\t%s", where, w.inst.Line, describe(format, a...), w.inst.Text)})
	}
	panic(Fault{code, describe("%s: %s", where, describe(format, a...))})
}

// reset prepares a warp for a block. Registers hold poison again, but for those of which no path can
// tell: nothing reads them before it sets them.
func (w *Warp) reset() {
	for _, r := range w.Block.Kernel.Early {
		w.R[r] = w.Block.Kernel.Regs32[r]
	}
	for _, r := range w.Block.Kernel.EarlyWide {
		w.D[r] = w.Block.Kernel.Regs64[r]
	}
	clear(w.P)
	clear(w.lset)
	w.Live = AllLanes
	if n := w.Block.Threads - w.ID*32; n < 32 {
		w.Live = 1<<n - 1
	}
	w.Groups = append(w.Groups[:0], Group{0, w.Live})
	w.waits, w.done, w.Carry = false, false, 0
	clear(w.know)
	w.own, w.Syncs = 1, 1
	w.copies, w.groups = w.copies[:0], w.groups[:0]
	w.products, w.productGroups = w.products[:0], w.productGroups[:0]
	w.refused, w.touched, w.pending = false, 0, nil
	w.inst, w.then = nil, nil
}

// exec runs until a barrier, a failed wait, or the end.
func (w *Warp) exec() {
	code := w.Block.Kernel.Code
	count := &w.Block.Count
	for {
		g := &w.Groups[0]
		in := &code[g.PC]
		m := g.Mask
		if in.Guard >= 0 {
			if in.Neg {
				m &^= w.P[in.Guard]
			} else {
				m &= w.P[in.Guard]
			}
		}
		count.Warp++
		count.Lane += int64(bits.OnesCount32(m))
		if g.Mask != AllLanes {
			count.Diverged++
		}
		g.PC++
		switch in.Kind {
		case Pure32, Pure64, PurePred:
			w.pure(in, m)
		case Effect:
			if m != 0 {
				w.effect(in, m)
			}
		case Spin:
			w.inst = in
			if m != 0 && !in.Try(w, m) {
				g.PC-- // tries again
				return
			}
		case Branch:
			w.branch(in, m)
		case Leave:
			if w.leave(m); w.done {
				return
			}
		case Barrier:
			w.inst = in
			if m != 0 {
				if in.Run(w, m); w.waits {
					return
				}
			}
		}
		if len(w.Groups) > 1 && w.Groups[0].PC >= w.Groups[1].PC {
			w.Sort()
		}
	}
}

// pure runs an instruction that computes all lanes of one register and keeps those outside of m.
func (w *Warp) pure(in *Inst, m uint32) {
	switch {
	case in.Kind == PurePred:
		in.Run(w, m)
		w.P[in.Dst] = w.P[in.Dst]&^m | w.Out&m
	case m == AllLanes:
		in.Run(w, m)
	case m == 0:
	case in.Kind == Pure32:
		dst := &w.R[in.Dst]
		old := *dst
		in.Run(w, m)
		for rest := ^m; rest != 0; rest &= rest - 1 {
			i := bits.TrailingZeros32(rest) & 31
			dst[i] = old[i]
		}
	default:
		dst := &w.D[in.Dst]
		old := *dst
		in.Run(w, m)
		for rest := ^m; rest != 0; rest &= rest - 1 {
			i := bits.TrailingZeros32(rest) & 31
			dst[i] = old[i]
		}
	}
}

// effect runs an instruction that does more than compute a register. Where cards share memory they
// take turns, and others get their chance behind each access.
func (w *Warp) effect(in *Inst, m uint32) {
	w.inst = in
	mem := w.Block.Device.Memory
	if !in.Global || !mem.Peers.Load() {
		in.Run(w, m)
		return
	}
	func() {
		mem.turn.Lock()
		defer mem.turn.Unlock()
		in.Run(w, m)
	}()
	runtime.Gosched()
}

// branch sends the lanes m of the running group elsewhere.
func (w *Warp) branch(in *Inst, m uint32) {
	g := &w.Groups[0]
	if in.Target < g.PC && w.Block.Count.Warp > w.Block.limit {
		w.inst = in
		w.Fail(LaunchTimeout, "the block has run more than %d instructions", w.Block.limit)
	}
	switch {
	case m == 0:
	case in.Run != nil: // indirect: each lane has its own target
		w.inst = in
		in.Run(w, m)
	case m == g.Mask:
		g.PC = in.Target
		w.Sort()
	default:
		g.Mask &^= m
		w.Groups = append(w.Groups, Group{in.Target, m})
		w.Sort()
	}
}

// leave ends lanes.
func (w *Warp) leave(m uint32) {
	g := &w.Groups[0]
	g.Mask &^= m
	w.Live &^= m
	if g.Mask == 0 {
		w.Groups = append(w.Groups[:0], w.Groups[1:]...)
		w.done = len(w.Groups) == 0
	}
}

// Sort puts the group with the smallest PC first and joins groups that meet.
func (w *Warp) Sort() {
	r := w.Groups
	if len(r) == 1 {
		return
	}
	for i := 1; i < len(r); i++ {
		for k := i; k > 0 && r[k].PC < r[k-1].PC; k-- {
			r[k], r[k-1] = r[k-1], r[k]
		}
	}
	n := 0
	for i := 1; i < len(r); i++ {
		if r[i].PC == r[n].PC {
			r[n].Mask |= r[i].Mask
		} else {
			n++
			r[n] = r[i]
		}
	}
	w.Groups = r[:n+1]
}

// All ends the launch where lanes are missing from an instruction that a whole warp executes.
func (w *Warp) All(m uint32) {
	if m != AllLanes {
		w.Fail(LaunchFailed, "executed by lanes %08x: all 32 are needed", m)
	}
}
