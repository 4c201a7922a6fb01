package ptx

import (
	"ossian/internal/cuda/emu/arith"
	"ossian/internal/cuda/emu/exec"
)

// atom reads and writes memory in one step; red does so without a result. Blocks of kernels that do
// this to global memory run one after another.
func (p *parser) atom() {
	a := p.atomFields()
	p.has("noftz")
	t, bits := p.lastType()
	op := p.one("add", "min", "max", "inc", "dec", "exch", "cas", "and", "or", "xor")
	args := p.args
	to := ""
	if p.op == "atom" {
		p.want(3, 4)
		to, args = args[0], args[1:]
	}
	if want := map[bool]int{true: 3, false: 2}[op == "cas"]; len(args) != want || bits < 32 {
		p.fail("form of %s is not known: %s", p.op, p.in.Text)
	}
	a.Address, a.size, a.total = p.address(args[0]), bits/8, bits/8
	if a.space != "global" {
		p.k.Grain = min(p.k.Grain, a.total)
	}
	change := arith.Change(op, t)
	if change == nil {
		return
	}
	d, b, c := -1, p.src(args[1], bits), 0
	if to != "" && to != "_" {
		d = p.dst(to, bits)
	}
	if op == "cas" {
		c = p.src(args[2], bits)
	}
	get, put := p.get(bits), p.put(bits)
	p.in.Kind = exec.Effect
	p.in.Run = func(w *exec.Warp, m uint32) {
		a.count(w, m)
		for lane := range 32 {
			if m>>lane&1 == 0 {
				continue
			}
			w.Block.Count.Atomics++
			room := atomicRoom(w, a, lane, a.Of(w, lane))
			old := a.value(room)
			third := uint64(0)
			if op == "cas" {
				third = get(w, c, lane)
			}
			a.set(room, change(old, get(w, b, lane), third))
			if d >= 0 {
				put(w, d, lane, old)
			}
		}
	}
}

// atomicRoom returns the bytes that an atomic access changes, which somebody has to have written.
func atomicRoom(w *exec.Warp, a *access, lane int, at uint64) []byte {
	if a.space == "shared" || (a.space == "" && spaceOf(at) == "shared") {
		return w.SharedAtomic(lane, at, a.total)
	}
	a.read(w, lane, at)
	return a.write(w, lane, at)
}

func (a *access) value(b []byte) uint64 {
	if a.size == 8 {
		return le.Uint64(b)
	}
	return uint64(le.Uint32(b))
}

func (a *access) set(b []byte, v uint64) {
	if a.size == 8 {
		le.PutUint64(b, v)
		return
	}
	le.PutUint32(b, uint32(v))
}
