package ptx

import (
	"math/bits"

	"ossian/internal/cuda/emu/arith"
	"ossian/internal/cuda/emu/exec"
)

// This file is what lanes of a warp tell each other. A collective instruction names the lanes that
// take part; whoever is named has to be there, and whoever is there has to be named.

// collective makes an instruction of a member mask; do sees those who take part.
func (p *parser) collective(sync, members string, do func(w *exec.Warp, m uint32)) {
	if !p.has(sync) {
		p.fail("%s without .sync: %s", p.op, p.in.Text)
	}
	mask := p.src(members, 32)
	p.in.Kind = exec.Effect
	p.in.Run = func(w *exec.Warp, m uint32) {
		masks := &w.R[mask]
		for lane := range masks {
			if m>>lane&1 == 0 {
				continue
			}
			if named := masks[lane]; named&w.Live != m {
				w.FailLane(exec.LaunchFailed, lane, "the member mask is %08x, lanes %08x are alive, %08x are here", named, w.Live, m)
			}
		}
		do(w, m)
	}
}

// shfl exchanges registers.
func (p *parser) shfl() {
	mode := p.one("up", "down", "bfly", "idx")
	p.has("b32")
	p.want(5, 5)
	to, valid := p.pair(p.args[0])
	d := p.dst(to, 32)
	q := -1
	if valid != "" {
		q = p.predDst(valid)
	}
	a, b, c := p.src(p.args[1], 32), p.src(p.args[2], 32), p.src(p.args[3], 32)
	p.collective("sync", p.args[4], func(w *exec.Warp, m uint32) {
		from := w.R[a]
		var in uint32
		for lane := range 32 {
			if m>>lane&1 == 0 {
				continue
			}
			source, ok := arith.Shuffle(mode, lane, int(w.R[b][lane]&31), w.R[c][lane])
			if m>>source&1 == 0 {
				w.FailLane(exec.LaunchFailed, lane, "reads a register of lane %d, which takes no part", source)
			}
			if ok {
				in |= 1 << lane
			}
			w.R[d][lane] = from[source]
		}
		if q >= 0 {
			w.P[q] = w.P[q]&^m | in
		}
	})
}

// pair splits "%r1|%p2".
func (p *parser) pair(s string) (a, b string) {
	for i := range s {
		if s[i] == '|' {
			return s[:i], s[i+1:]
		}
	}
	return s, ""
}

// vote combines a predicate of all lanes.
func (p *parser) vote() {
	mode := p.one("all", "any", "uni", "ballot")
	p.one("pred", "b32")
	p.want(3, 3)
	d := 0
	if mode == "ballot" {
		d = p.dst(p.args[0], 32)
	} else {
		if d = p.predDst(p.args[0]); d < 0 {
			p.fail("%s without a result", p.op)
		}
	}
	q, neg := p.pred(p.args[1])
	p.collective("sync", p.args[2], func(w *exec.Warp, m uint32) {
		v := w.P[q]
		if neg {
			v = ^v
		}
		v &= m
		var yes bool
		switch mode {
		case "ballot":
			eachLane(m, func(lane int) { w.R[d][lane] = v })
			return
		case "all":
			yes = v == m
		case "any":
			yes = v != 0
		default:
			yes = v == m || v == 0
		}
		w.P[d] &^= m
		if yes {
			w.P[d] |= m
		}
	})
}

// match finds the lanes that have the same value.
func (p *parser) match() {
	all := p.one("any", "all") == "all"
	_, size := p.lastType()
	p.want(3, 3)
	to, same := p.pair(p.args[0])
	d, q := p.dst(to, 32), -1
	if same != "" {
		q = p.predDst(same)
	}
	a := p.src(p.args[1], size)
	value := func(w *exec.Warp, lane int) uint64 {
		if size == 64 {
			return w.D[a][lane]
		}
		return uint64(w.R[a][lane])
	}
	p.collective("sync", p.args[2], func(w *exec.Warp, m uint32) {
		var out exec.Lanes32
		for lane := range 32 {
			for other := range 32 {
				if (m>>lane)&(m>>other)&1 != 0 && value(w, lane) == value(w, other) {
					out[lane] |= 1 << other
				}
			}
		}
		for lane := range 32 {
			if m>>lane&1 == 0 {
				continue
			}
			if all && out[lane] != m {
				out[lane] = 0
			}
			w.R[d][lane] = out[lane]
		}
		if q >= 0 {
			w.P[q] &^= m
			if out[first(m)] == m {
				w.P[q] |= m
			}
		}
	})
}

func (p *parser) activemask() {
	p.has("b32")
	p.want(1, 1)
	d := p.dst(p.args[0], 32)
	p.in.Kind = exec.Effect
	p.in.Run = func(w *exec.Warp, m uint32) {
		eachLane(m, func(lane int) { w.R[d][lane] = m })
	}
}

// redux combines a register of all lanes.
func (p *parser) redux() {
	t, size := p.lastType()
	if size != 32 || t == "f32" {
		p.fail("redux of type .%s is not known", t)
	}
	op := p.one("add", "min", "max", "and", "or", "xor")
	p.want(3, 3)
	d, a := p.dst(p.args[0], 32), p.src(p.args[1], 32)
	combine, ok := arith.Combine32[op+"."+t]
	if !ok {
		return
	}
	p.collective("sync", p.args[2], func(w *exec.Warp, m uint32) {
		v := w.R[a][bits.TrailingZeros32(m)]
		for lane := bits.TrailingZeros32(m) + 1; lane < 32; lane++ {
			if m>>lane&1 != 0 {
				v = combine(v, w.R[a][lane])
			}
		}
		eachLane(m, func(lane int) { w.R[d][lane] = v })
	})
}
