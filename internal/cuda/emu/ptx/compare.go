package ptx

import (
	"math"

	"ossian/internal/cuda/emu/arith"
	"ossian/internal/cuda/emu/exec"
)

// This file is comparisons and selections.

// comparer returns how a lane of two registers is compared.
func (p *parser) comparer(t, a, b string, ftz bool) func(w *exec.Warp, lane int) uint8 {
	size := arith.TypeBits(t)
	if size < 16 {
		p.fail("type .%s of %s is not known", t, p.op)
	}
	x, y := p.src(a, size), p.src(b, size)
	switch t {
	case "f32":
		return func(w *exec.Warp, i int) uint8 {
			u, v := w.R[x][i], w.R[y][i]
			if ftz {
				u, v = arith.Flush(u), arith.Flush(v)
			}
			return arith.Outcome(float64(arith.F32(u)), float64(arith.F32(v)))
		}
	case "f64":
		return func(w *exec.Warp, i int) uint8 { return arith.Outcome(arith.F64(w.D[x][i]), arith.F64(w.D[y][i])) }
	case "f16", "bf16":
		read := arith.Float16s[t].Read
		return func(w *exec.Warp, i int) uint8 { return arith.Outcome(read(w.R[x][i]), read(w.R[y][i])) }
	case "s64":
		return func(w *exec.Warp, i int) uint8 { return arith.Outcome(int64(w.D[x][i]), int64(w.D[y][i])) }
	case "u64", "b64":
		return func(w *exec.Warp, i int) uint8 { return arith.Outcome(w.D[x][i], w.D[y][i]) }
	case "s32":
		return func(w *exec.Warp, i int) uint8 { return arith.Outcome(int32(w.R[x][i]), int32(w.R[y][i])) }
	case "s16":
		return func(w *exec.Warp, i int) uint8 {
			return arith.Outcome(int32(int16(w.R[x][i])), int32(int16(w.R[y][i])))
		}
	case "u32", "b32", "u16", "b16":
		return func(w *exec.Warp, i int) uint8 { return arith.Outcome(w.R[x][i], w.R[y][i]) }
	}
	p.fail("type .%s of %s is not known", t, p.op)
	return nil
}

// comparison takes the modifiers of setp and set, and returns which lanes fulfil it. relation is 0
// where a predicate has its say too.
func (p *parser) comparison(t string, args []string) (func(w *exec.Warp) uint32, uint8) {
	ftz := p.has("ftz")
	name := p.next()
	relation, ok := arith.Relations[name]
	if float := t[0] == 'f' || t[:2] == "bf"; !ok || (!float && (relation > 7 || name == "num")) {
		p.fail("comparison .%s of .%s is not known", name, t)
	}
	combine := p.one("and", "or", "xor")
	compare := p.comparer(t, args[0], args[1], ftz)
	plain := func(w *exec.Warp) (m uint32) {
		for i := range 32 {
			if compare(w, i)&relation != 0 {
				m |= 1 << i
			}
		}
		return m
	}
	if combine == "" {
		return plain, relation
	}
	if len(args) != 3 {
		p.fail("%s.%s without a predicate", p.op, combine)
	}
	q, neg := p.pred(args[2])
	return func(w *exec.Warp) uint32 {
		v := flip(w.P[q], neg)
		switch combine {
		case "and":
			return plain(w) & v
		case "or":
			return plain(w) | v
		}
		return plain(w) ^ v
	}, 0
}

// setp sets one or two predicates by a comparison.
func (p *parser) setp() {
	t := p.last()
	p.want(3, 4)
	if arith.TypeBits(t) < 16 {
		p.fail("type .%s of setp is not known", t)
	}
	to, other := p.pair(p.args[0])
	holds, relation := p.comparison(t, p.args[1:])
	if other == "" {
		if p.in.Kind, p.in.Dst = exec.PurePred, p.predDst(to); p.in.Dst < 0 {
			p.fail("setp without a result")
		}
		p.in.Run = func(w *exec.Warp, _ uint32) { w.Out = holds(w) }
		if relation != 0 {
			p.fastCompare(t, relation)
		}
		return
	}
	if relation == 0 {
		p.fail("setp with two results and a combination is not known")
	}
	p.in.Kind = exec.Effect
	d, e := p.predDst(to), p.predDst(other)
	p.in.Run = func(w *exec.Warp, m uint32) {
		v := holds(w)
		if d >= 0 {
			w.P[d] = w.P[d]&^m | v&m
		}
		if e >= 0 {
			w.P[e] = w.P[e]&^m | ^v&m
		}
	}
}

// fastCompare replaces the closures of comparisons of 32-bit integers.
func (p *parser) fastCompare(t string, relation uint8) {
	if t != "s32" && t != "u32" && t != "b32" {
		return
	}
	x, y := p.src(p.args[1], 32), p.src(p.args[2], 32)
	bias := uint32(0)
	if t == "s32" {
		bias = 1 << 31 // makes signed order unsigned
	}
	const equal, greater = 2, 4
	neg := relation == 5 || relation == 3 || relation == 6 // not equal, not greater, not less
	if neg {
		relation ^= 7
	}
	if relation == greater {
		x, y = y, x
	}
	p.in.Run = func(w *exec.Warp, _ uint32) {
		X, Y := &w.R[x], &w.R[y]
		m := uint32(0)
		for i := range X {
			a, b := uint64(X[i]^bias), uint64(Y[i]^bias)
			if relation == equal {
				a, b = a^b, 1
			}
			m |= uint32((a-b)>>63) << i // the borrow of a-b: a is less
		}
		w.Out = flip(m, neg)
	}
}

// marks are what set leaves where a comparison holds, by type of the result.
var marks = map[string]uint32{"u32": exec.AllLanes, "s32": exec.AllLanes, "u16": 0xffff, "s16": 0xffff, "f32": 0x3f80_0000, "f16": 0x3c00, "bf16": 0x3f80}

// set leaves all ones, or 1.0, in a register where a comparison holds, else zero.
func (p *parser) set() {
	t := p.last()
	to := p.last()
	p.want(3, 4)
	yes, ok := marks[to]
	if arith.TypeBits(t) < 16 || !ok {
		p.fail("types of set are not known: %s", p.in.Text)
	}
	p.result(arith.TypeBits(to))
	holds, _ := p.comparison(t, p.args[1:])
	d := p.in.Dst
	p.in.Run = func(w *exec.Warp, _ uint32) {
		m := holds(w)
		for i := range w.R[d] {
			w.R[d][i] = yes & -(m >> i & 1)
		}
	}
}

// selp picks by a predicate.
func (p *parser) selp() {
	_, size := p.lastType()
	p.want(4, 4)
	p.result(size)
	d, x, y := p.in.Dst, p.src(p.args[1], size), p.src(p.args[2], size)
	q, neg := p.pred(p.args[3])
	if size == 64 {
		p.in.Run = func(w *exec.Warp, _ uint32) {
			m := flip(w.P[q], neg)
			D, X, Y := &w.D[d], &w.D[x], &w.D[y]
			for i := range D {
				if m>>i&1 != 0 {
					D[i] = X[i]
				} else {
					D[i] = Y[i]
				}
			}
		}
		return
	}
	p.in.Run = func(w *exec.Warp, _ uint32) {
		m := flip(w.P[q], neg)
		D, X, Y := &w.R[d], &w.R[x], &w.R[y]
		for i := range D {
			if m>>i&1 != 0 {
				D[i] = X[i]
			} else {
				D[i] = Y[i]
			}
		}
	}
}

// slct picks by the sign of a number; zero counts as positive, NaN as negative.
func (p *parser) slct() {
	by := p.last()
	_, size := p.lastType()
	ftz := p.has("ftz")
	p.want(4, 4)
	p.result(size)
	d, x, y, z := p.in.Dst, p.src(p.args[1], size), p.src(p.args[2], size), p.src(p.args[3], 32)
	if by != "s32" && by != "f32" {
		return
	}
	get, put := p.get(size), p.put(size)
	p.in.Run = func(w *exec.Warp, _ uint32) {
		for i := range 32 {
			v := w.R[z][i]
			if ftz {
				v = arith.Flush(v)
			}
			from := y
			if (by == "s32" && int32(v) >= 0) || (by == "f32" && arith.F32(v) >= 0) {
				from = x
			}
			put(w, d, i, get(w, from, i))
		}
	}
}

// testp classifies a number.
func (p *parser) testp() {
	t, size := p.lastType()
	what := p.one("finite", "infinite", "number", "notanumber", "normal", "subnormal")
	p.want(2, 2)
	p.in.Kind, p.in.Dst = exec.PurePred, p.predDst(p.args[0])
	x := p.src(p.args[1], size)
	if (t != "f32" && t != "f64") || what == "" || p.in.Dst < 0 {
		return
	}
	get, least := p.get(size), 0x1p-126
	if size == 64 {
		least = 0x1p-1022
	}
	p.in.Run = func(w *exec.Warp, _ uint32) {
		w.Out = 0
		for i := range 32 {
			v := arith.F64(get(w, x, i))
			if size == 32 {
				v = float64(arith.F32(uint32(get(w, x, i))))
			}
			infinite, size := math.IsInf(v, 0), math.Abs(v)
			if map[string]bool{"finite": !infinite && v == v, "infinite": infinite, "number": v == v, "notanumber": v != v,
				"normal": v == v && !infinite && size >= least, "subnormal": v != 0 && size < least}[what] {
				w.Out |= 1 << i
			}
		}
	}
}

// isspacep asks which window a generic address lies in.
func (p *parser) isspacep() {
	space := p.one("global", "shared", "local", "const", "param")
	p.one("cta", "entry")
	p.want(2, 2)
	p.in.Kind, p.in.Dst = exec.PurePred, p.predDst(p.args[0])
	x := p.src(p.args[1], 64)
	if space == "" || p.in.Dst < 0 {
		return
	}
	p.in.Run = func(w *exec.Warp, _ uint32) {
		w.Out = 0
		for i, at := range w.D[x] {
			if spaceOf(at) == space {
				w.Out |= 1 << i
			}
		}
	}
}

// spaceOf returns the space of a generic address.
func spaceOf(at uint64) string {
	for name, base := range map[string]uint64{"shared": exec.SharedBase, "local": exec.LocalBase, "param": exec.ParamBase} {
		if at-base < exec.WindowSize {
			return name
		}
	}
	return "global"
}
