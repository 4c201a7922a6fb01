package ptx

import (
	"math/bits"

	"ossian/internal/cuda/emu/arith"
	"ossian/internal/cuda/emu/exec"
)

// This file is what treats registers as rows of bits.

// logic is and, or, xor and not, of predicates too.
func (p *parser) logic() {
	t := p.last()
	if t != "pred" {
		p.integer(t)
		return
	}
	p.in.Kind = exec.PurePred
	count := 3
	if p.op == "not" {
		count = 2
	}
	p.want(count, count)
	p.in.Dst = p.predDst(p.args[0])
	if p.in.Dst < 0 {
		p.fail("%s without a result", p.op)
	}
	x, nx := p.pred(p.args[1])
	y, ny := x, nx
	if count == 3 {
		y, ny = p.pred(p.args[2])
	}
	combine := map[string]func(a, b uint32) uint32{
		"and": func(a, b uint32) uint32 { return a & b }, "or": func(a, b uint32) uint32 { return a | b },
		"xor": func(a, b uint32) uint32 { return a ^ b }, "not": func(a, _ uint32) uint32 { return ^a },
	}[p.op]
	p.in.Run = func(w *exec.Warp, _ uint32) { w.Out = combine(flip(w.P[x], nx), flip(w.P[y], ny)) }
}

func flip(v uint32, neg bool) uint32 {
	if neg {
		return ^v
	}
	return v
}

// shift is shl and shr. Shifts beyond the size give zeros, or copies of the sign.
func (p *parser) shift() {
	t, size := p.lastType()
	p.want(3, 3)
	p.result(size)
	d, x, n := p.in.Dst, p.src(p.args[1], size), p.src(p.args[2], 32)
	left, signed := p.op == "shl", t[0] == 's'
	switch {
	case size == 64:
		p.in.Run = func(w *exec.Warp, _ uint32) {
			D, X, N := &w.D[d], &w.D[x], &w.R[n]
			for i := range D {
				switch {
				case left:
					D[i] = X[i] << N[i]
				case signed:
					D[i] = uint64(int64(X[i]) >> N[i])
				default:
					D[i] = X[i] >> N[i]
				}
			}
		}
	case left && size == 32:
		p.in.Run = func(w *exec.Warp, _ uint32) {
			D, X, N := &w.R[d], &w.R[x], &w.R[n]
			for i := range D {
				D[i] = X[i] << N[i]
			}
		}
	case left:
		p.lanes2(x, n, func(a, n uint32) uint32 { return a << n & 0xffff })
	case signed && size == 32:
		p.lanes2(x, n, func(a, n uint32) uint32 { return uint32(int32(a) >> n) })
	case signed:
		p.lanes2(x, n, func(a, n uint32) uint32 { return uint32(int16(a)>>n) & 0xffff })
	default:
		p.in.Run = func(w *exec.Warp, _ uint32) {
			D, X, N := &w.R[d], &w.R[x], &w.R[n]
			for i := range D {
				D[i] = X[i] >> N[i]
			}
		}
	}
}

// funnel shifts two registers as one.
func (p *parser) funnel() {
	left := p.one("l", "r") == "l"
	clamp := p.one("wrap", "clamp") == "clamp"
	p.has("b32")
	p.want(4, 4)
	p.result(32)
	p.lanes3(p.src(p.args[1], 32), p.src(p.args[2], 32), p.src(p.args[3], 32), func(low, high, n uint32) uint32 {
		if n &= 0xffff_ffff; clamp {
			n = min(n, 32)
		} else {
			n &= 31
		}
		both := uint64(high)<<32 | uint64(low)
		if left {
			return uint32(both << n >> 32)
		}
		return uint32(both >> n)
	})
}

// lop3 is any function of three bits, given as its table.
func (p *parser) lop3() {
	p.has("b32")
	p.want(5, 5)
	p.result(32)
	table := uint32(p.immediate(p.args[4]))
	p.lanes3(p.src(p.args[1], 32), p.src(p.args[2], 32), p.src(p.args[3], 32), func(a, b, c uint32) (v uint32) {
		for i := range uint32(8) {
			if table>>i&1 != 0 {
				v |= flip(a, i&4 == 0) & flip(b, i&2 == 0) & flip(c, i&1 == 0)
			}
		}
		return v
	})
}

// prmt picks bytes of two registers; bit 3 of a selector asks for copies of the byte's sign.
func (p *parser) prmt() {
	p.has("b32")
	mode := p.one("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")
	if mode != "" {
		p.fail("prmt.%s is not known", mode)
	}
	p.want(4, 4)
	p.result(32)
	p.lanes3(p.src(p.args[1], 32), p.src(p.args[2], 32), p.src(p.args[3], 32), func(a, b, selector uint32) (v uint32) {
		both := uint64(b)<<32 | uint64(a)
		for i := range 4 {
			pick := selector >> (4 * i)
			picked := uint32(both >> (pick & 7 * 8) & 0xff)
			if pick&8 != 0 {
				picked = uint32(int32(int8(picked))>>7) & 0xff
			}
			v |= picked << (8 * i)
		}
		return v
	})
}

// bits is popc, clz and brev.
func (p *parser) bits() {
	_, size := p.lastType()
	p.want(2, 2)
	if p.op == "brev" {
		p.result(size)
		if x := p.src(p.args[1], size); size == 64 {
			p.wide1(x, bits.Reverse64)
		} else if size == 32 {
			p.lanes1(x, bits.Reverse32)
		}
		return
	}
	p.result(32)
	x := p.src(p.args[1], size)
	count32, count64 := bits.OnesCount32, bits.OnesCount64
	if p.op == "clz" {
		count32, count64 = bits.LeadingZeros32, bits.LeadingZeros64
	}
	d := p.in.Dst
	switch size {
	case 32:
		p.lanes1(x, func(a uint32) uint32 { return uint32(count32(a)) })
	case 64:
		p.in.Run = func(w *exec.Warp, _ uint32) {
			for i := range w.D[x] {
				w.R[d][i] = uint32(count64(w.D[x][i]))
			}
		}
	}
}

// bfind finds the most significant bit that is not a copy of the sign.
func (p *parser) bfind() {
	t, size := p.lastType()
	amount := p.has("shiftamt")
	p.want(2, 2)
	p.result(32)
	x, d, read := p.src(p.args[1], size), p.in.Dst, p.get(size)
	if size < 32 || t[0] == 'b' {
		p.fail("bfind of type .%s is not known", t)
	}
	p.in.Run = func(w *exec.Warp, _ uint32) {
		for i := range 32 {
			v := read(w, x, i)
			if t == "s32" && int32(v) < 0 {
				v = uint64(^uint32(v))
			} else if t == "s64" && int64(v) < 0 {
				v = ^v
			}
			at := uint32(bits.Len64(v) - 1)
			if amount && v != 0 {
				at = uint32(size) - 1 - at
			}
			w.R[d][i] = at
		}
	}
}

// bfe extracts a field of bits, with its sign for signed types.
func (p *parser) bfe() {
	t, size := p.lastType()
	p.want(4, 4)
	p.result(size)
	x, at, n := p.src(p.args[1], size), p.src(p.args[2], 32), p.src(p.args[3], 32)
	if size < 32 || t[0] == 'b' {
		p.fail("bfe of type .%s is not known", t)
	}
	read, write, d := p.get(size), p.put(size), p.in.Dst
	p.in.Run = func(w *exec.Warp, _ uint32) {
		for i := range 32 {
			write(w, d, i, arith.Extract(read(w, x, i), w.R[at][i]&0xff, w.R[n][i]&0xff, uint32(size), t[0] == 's'))
		}
	}
}

// bfi inserts a field of bits.
func (p *parser) bfi() {
	_, size := p.lastType()
	p.want(5, 5)
	p.result(size)
	x, y := p.src(p.args[1], size), p.src(p.args[2], size)
	at, n := p.src(p.args[3], 32), p.src(p.args[4], 32)
	if size < 32 {
		return
	}
	read, write, d := p.get(size), p.put(size), p.in.Dst
	p.in.Run = func(w *exec.Warp, _ uint32) {
		for i := range 32 {
			from, count := w.R[at][i]&0xff, w.R[n][i]&0xff
			mask := ^uint64(0)
			if count < 64 {
				mask = 1<<count - 1
			}
			mask <<= from
			write(w, d, i, read(w, y, i)&^mask|read(w, x, i)<<from&mask)
		}
	}
}

// dp4a adds the products of four bytes.
func (p *parser) dp4a() {
	tb := p.last()
	ta := p.last()
	p.want(4, 4)
	p.result(32)
	if (ta != "u32" && ta != "s32") || (tb != "u32" && tb != "s32") {
		return
	}
	part := func(v uint32, i int, t string) int32 {
		if t == "s32" {
			return int32(int8(v >> (8 * i)))
		}
		return int32(uint8(v >> (8 * i)))
	}
	p.lanes3(p.src(p.args[1], 32), p.src(p.args[2], 32), p.src(p.args[3], 32), func(a, b, c uint32) uint32 {
		for i := range 4 {
			c += uint32(part(a, i, ta) * part(b, i, tb))
		}
		return c
	})
}
