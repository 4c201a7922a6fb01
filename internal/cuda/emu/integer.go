package emu

import (
	"math/bits"
	"strings"
)

// This file is integer arithmetic. Operations of 16 bits are those of 32 on widened operands, cut
// back afterwards: registers of 16 bits have zeros above.

// combine32 are operations of two 32-bit integers; types that do not matter are left out.
var combine32 = map[string]func(a, b uint32) uint32{
	"add.u32": func(a, b uint32) uint32 { return a + b }, "add.s32": func(a, b uint32) uint32 { return a + b },
	"sub.u32": func(a, b uint32) uint32 { return a - b }, "sub.s32": func(a, b uint32) uint32 { return a - b },
	"mul.lo.u32": func(a, b uint32) uint32 { return a * b }, "mul.lo.s32": func(a, b uint32) uint32 { return a * b },
	"mul.hi.u32": func(a, b uint32) uint32 { return uint32(uint64(a) * uint64(b) >> 32) },
	"mul.hi.s32": func(a, b uint32) uint32 { return uint32(int64(int32(a)) * int64(int32(b)) >> 32) },
	"div.u32": func(a, b uint32) uint32 {
		if b == 0 { // unspecified by the standard; hardware gives this
			return allLanes
		}
		return a / b
	},
	"div.s32": func(a, b uint32) uint32 {
		if b == 0 {
			return allLanes
		}
		return uint32(int32(a) / int32(b))
	},
	"rem.u32": func(a, b uint32) uint32 {
		if b == 0 {
			return a
		}
		return a % b
	},
	"rem.s32": func(a, b uint32) uint32 {
		if b == 0 {
			return a
		}
		return uint32(int32(a) % int32(b))
	},
	"min.u32": func(a, b uint32) uint32 { return min(a, b) }, "min.s32": func(a, b uint32) uint32 { return uint32(min(int32(a), int32(b))) },
	"max.u32": func(a, b uint32) uint32 { return max(a, b) }, "max.s32": func(a, b uint32) uint32 { return uint32(max(int32(a), int32(b))) },
	"and.b32": func(a, b uint32) uint32 { return a & b }, "or.b32": func(a, b uint32) uint32 { return a | b }, "xor.b32": func(a, b uint32) uint32 { return a ^ b },
	"mul24.lo.u32": func(a, b uint32) uint32 { return a & 0xffffff * (b & 0xffffff) },
	"mul24.lo.s32": func(a, b uint32) uint32 { return uint32(int32(a) << 8 >> 8 * (int32(b) << 8 >> 8)) },
}

// combine64 are operations of two 64-bit integers.
var combine64 = map[string]func(a, b uint64) uint64{
	"add.u64": func(a, b uint64) uint64 { return a + b }, "add.s64": func(a, b uint64) uint64 { return a + b },
	"sub.u64": func(a, b uint64) uint64 { return a - b }, "sub.s64": func(a, b uint64) uint64 { return a - b },
	"mul.lo.u64": func(a, b uint64) uint64 { return a * b }, "mul.lo.s64": func(a, b uint64) uint64 { return a * b },
	"mul.hi.u64": func(a, b uint64) uint64 { hi, _ := bits.Mul64(a, b); return hi },
	"mul.hi.s64": func(a, b uint64) uint64 {
		hi, _ := bits.Mul64(a, b) // of the unsigned readings; each negative factor counts 2^64 too much
		return hi - uint64(int64(a)>>63)&b - uint64(int64(b)>>63)&a
	},
	"div.u64": func(a, b uint64) uint64 {
		if b == 0 {
			return ^uint64(0)
		}
		return a / b
	},
	"div.s64": func(a, b uint64) uint64 {
		if b == 0 {
			return ^uint64(0)
		}
		return uint64(int64(a) / int64(b))
	},
	"rem.u64": func(a, b uint64) uint64 {
		if b == 0 {
			return a
		}
		return a % b
	},
	"rem.s64": func(a, b uint64) uint64 {
		if b == 0 {
			return a
		}
		return uint64(int64(a) % int64(b))
	},
	"min.u64": func(a, b uint64) uint64 { return min(a, b) }, "min.s64": func(a, b uint64) uint64 { return uint64(min(int64(a), int64(b))) },
	"max.u64": func(a, b uint64) uint64 { return max(a, b) }, "max.s64": func(a, b uint64) uint64 { return uint64(max(int64(a), int64(b))) },
	"and.b64": func(a, b uint64) uint64 { return a & b }, "or.b64": func(a, b uint64) uint64 { return a | b }, "xor.b64": func(a, b uint64) uint64 { return a ^ b },
}

// unary32 are operations of one 32-bit integer.
var unary32 = map[string]func(a uint32) uint32{
	"abs.s32": func(a uint32) uint32 { return uint32(max(int32(a), -int32(a))) },
	"neg.s32": func(a uint32) uint32 { return -a }, "not.b32": func(a uint32) uint32 { return ^a },
	"cnot.b32": func(a uint32) uint32 {
		if a == 0 {
			return 1
		}
		return 0
	},
}

var unary64 = map[string]func(a uint64) uint64{
	"abs.s64": func(a uint64) uint64 { return uint64(max(int64(a), -int64(a))) },
	"neg.s64": func(a uint64) uint64 { return -a }, "not.b64": func(a uint64) uint64 { return ^a },
}

// arithmetic sends an operation to the decoder for its type.
func (p *parser) arithmetic() {
	if p.has("cc") {
		p.mods = append(p.mods, "cc")
		p.carried()
		return
	}
	t := p.last()
	switch t {
	case "f32":
		p.float32()
	case "f64":
		p.float64()
	case "f16", "f16x2", "bf16", "bf16x2":
		p.half(t)
	case "u16", "s16", "u32", "s32", "u64", "s64", "b16", "b32", "b64":
		p.integer(t)
	default:
		p.fail("type .%s of %s is not known", t, p.op)
	}
}

// integer decodes operations of one, two and three integers.
func (p *parser) integer(t string) {
	if (p.op == "mul" || p.op == "mad") && p.has("wide") {
		p.product(t)
		return
	}
	name := p.op
	if part := p.one("lo", "hi"); part != "" {
		name += "." + part
	}
	size := typeBits(t)
	if p.op == "mad" || p.op == "sad" {
		p.want(4, 4)
		p.result(size)
		p.multiplyAdd(name, t, size)
		return
	}
	p.result(size)
	if len(p.args) == 2 {
		p.integer1(name, t, size)
		return
	}
	p.want(3, 3)
	x, y := p.src(p.args[1], size), p.src(p.args[2], size)
	if size == 64 {
		if f, ok := combine64[name+"."+t]; ok {
			p.wide2(x, y, f)
			p.fast64(name, x, y)
		}
		return
	}
	if f := p.narrow2(name, t); f != nil {
		p.lanes2(x, y, f)
		if size == 32 {
			p.fast32(name, x, y)
		}
	}
}

func (p *parser) integer1(name, t string, size int) {
	x := p.src(p.args[1], size)
	if size == 64 {
		if f, ok := unary64[name+"."+t]; ok {
			p.wide1(x, f)
		}
		return
	}
	f, ok := unary32[name+"."+t[:1]+"32"]
	switch {
	case !ok:
	case size == 32:
		p.lanes1(x, f)
	case t == "s16":
		p.lanes1(x, func(a uint32) uint32 { return f(uint32(int32(int16(a)))) & 0xffff })
	default:
		p.lanes1(x, func(a uint32) uint32 { return f(a) & 0xffff })
	}
}

// narrow2 returns an operation of two integers of 16 or 32 bits.
func (p *parser) narrow2(name, t string) func(a, b uint32) uint32 {
	f, ok := combine32[name+"."+t[:1]+"32"]
	if !ok || t[1:] == "32" {
		return f
	}
	if name == "mul.hi" {
		f = combine32["mul.lo.s32"]
	}
	shift := uint32(0)
	if name == "mul.hi" {
		shift = 16
	}
	if t == "s16" {
		return func(a, b uint32) uint32 { return f(uint32(int32(int16(a))), uint32(int32(int16(b)))) >> shift & 0xffff }
	}
	return func(a, b uint32) uint32 { return f(a, b) >> shift & 0xffff }
}

// multiplyAdd is mad and sad.
func (p *parser) multiplyAdd(name, t string, size int) {
	x, y, z := p.src(p.args[1], size), p.src(p.args[2], size), p.src(p.args[3], size)
	if p.op == "sad" {
		if less := p.narrow2("min", t); size == 32 && less != nil {
			p.lanes3(x, y, z, func(a, b, c uint32) uint32 { return c + a + b - 2*less(a, b) })
		}
		return
	}
	product := "mul" + strings.TrimPrefix(name, "mad") + "." + t
	if size == 64 {
		if f, ok := combine64[product]; ok {
			p.wide3(x, y, z, func(a, b, c uint64) uint64 { return f(a, b) + c })
		}
		return
	}
	f := p.narrow2("mul"+strings.TrimPrefix(name, "mad"), t)
	switch {
	case f == nil:
	case size == 16:
		p.lanes3(x, y, z, func(a, b, c uint32) uint32 { return (f(a, b) + c) & 0xffff })
	case name == "mad.lo":
		p.lanes3(x, y, z, func(a, b, c uint32) uint32 { return a*b + c })
	default:
		p.lanes3(x, y, z, func(a, b, c uint32) uint32 { return f(a, b) + c })
	}
}

// product is mul.wide and mad.wide.
func (p *parser) product(t string) {
	size := typeBits(t)
	if size > 32 || t[0] == 'b' {
		return
	}
	p.want(3, 4)
	p.result(2 * size)
	d, x, y := p.in.dst, p.src(p.args[1], size), p.src(p.args[2], size)
	multiply := func(a, b uint32) uint64 { return uint64(a) * uint64(b) }
	switch t {
	case "s32":
		multiply = func(a, b uint32) uint64 { return uint64(int64(int32(a)) * int64(int32(b))) }
	case "s16":
		multiply = func(a, b uint32) uint64 { return uint64(int64(int16(a)) * int64(int16(b))) }
	}
	z := -1
	if (p.op == "mad") != (len(p.args) == 4) {
		p.fail("%s with %d operands", p.op, len(p.args))
	}
	if p.op == "mad" {
		z = p.src(p.args[3], 2*size)
	}
	p.in.run = func(w *warp, _ uint32) {
		X, Y := &w.r[x], &w.r[y]
		if size == 16 {
			for i := range X {
				v := uint32(multiply(X[i], Y[i]))
				if z >= 0 {
					v += w.r[z][i]
				}
				w.r[d][i] = v
			}
			return
		}
		D := &w.d[d]
		for i := range D {
			v := multiply(X[i], Y[i])
			if z >= 0 {
				v += w.d[z][i]
			}
			D[i] = v
		}
	}
}

// fast32 replaces the closures of the most frequent operations by ones without a call per lane.
func (p *parser) fast32(name string, x, y int) {
	d := p.in.dst
	switch name {
	case "add":
		p.in.run = func(w *warp, _ uint32) {
			D, X, Y := &w.r[d], &w.r[x], &w.r[y]
			for i := range D {
				D[i] = X[i] + Y[i]
			}
		}
	case "sub":
		p.in.run = func(w *warp, _ uint32) {
			D, X, Y := &w.r[d], &w.r[x], &w.r[y]
			for i := range D {
				D[i] = X[i] - Y[i]
			}
		}
	case "mul.lo":
		p.in.run = func(w *warp, _ uint32) {
			D, X, Y := &w.r[d], &w.r[x], &w.r[y]
			for i := range D {
				D[i] = X[i] * Y[i]
			}
		}
	case "and":
		p.in.run = func(w *warp, _ uint32) {
			D, X, Y := &w.r[d], &w.r[x], &w.r[y]
			for i := range D {
				D[i] = X[i] & Y[i]
			}
		}
	case "or":
		p.in.run = func(w *warp, _ uint32) {
			D, X, Y := &w.r[d], &w.r[x], &w.r[y]
			for i := range D {
				D[i] = X[i] | Y[i]
			}
		}
	case "xor":
		p.in.run = func(w *warp, _ uint32) {
			D, X, Y := &w.r[d], &w.r[x], &w.r[y]
			for i := range D {
				D[i] = X[i] ^ Y[i]
			}
		}
	}
}

// fast64 does so for 64 bits.
func (p *parser) fast64(name string, x, y int) {
	d := p.in.dst
	switch name {
	case "add":
		p.in.run = func(w *warp, _ uint32) {
			D, X, Y := &w.d[d], &w.d[x], &w.d[y]
			for i := range D {
				D[i] = X[i] + Y[i]
			}
		}
	case "mul.lo":
		p.in.run = func(w *warp, _ uint32) {
			D, X, Y := &w.d[d], &w.d[x], &w.d[y]
			for i := range D {
				D[i] = X[i] * Y[i]
			}
		}
	}
}

// carried is arithmetic with the condition code: add.cc, addc, sub.cc, subc, mad.cc, madc.
func (p *parser) carried() {
	t, size := p.lastType()
	sets := p.has("cc")
	uses := strings.HasSuffix(p.op, "c")
	base := strings.TrimSuffix(p.op, "c")
	part := p.one("lo", "hi")
	if (base == "mad") != (part != "") || (size != 32 && size != 64) {
		return
	}
	count := 3
	if base == "mad" {
		count = 4
	}
	p.want(count, count)
	p.in.kind = effect
	read, write := p.get(size), p.put(size)
	d, x, y, z := p.dst(p.args[0], size), p.src(p.args[1], size), p.src(p.args[2], size), 0
	if base == "mad" {
		z = p.src(p.args[3], size)
	}
	p.in.run = func(w *warp, m uint32) {
		for lane := range 32 {
			if m>>lane&1 == 0 {
				continue
			}
			a, b := read(w, x, lane), read(w, y, lane)
			if base == "mad" {
				a, b = multiplyPart(t, part, a, b), read(w, z, lane)
			}
			in := uint64(0)
			if uses {
				in = uint64(w.carry >> lane & 1)
			}
			v, carry := addOrSubtract(base == "sub", size, a, b, in)
			write(w, d, lane, v)
			if sets {
				w.carry = w.carry&^(1<<lane) | uint32(carry)<<lane
			}
		}
	}
}

// addOrSubtract returns a ± b ± in in so many bits, with the carry or borrow.
func addOrSubtract(subtract bool, size int, a, b, in uint64) (v, carry uint64) {
	switch {
	case size == 64 && subtract:
		return bits.Sub64(a, b, in)
	case size == 64:
		return bits.Add64(a, b, in)
	case subtract:
		v = a - b - in
		return v & 0xffff_ffff, v >> 63
	}
	v = a + b + in
	return v & 0xffff_ffff, v >> 32
}

// multiplyPart returns half of a product.
func multiplyPart(t, part string, a, b uint64) uint64 {
	if typeBits(t) == 64 {
		return combine64["mul."+part+"."+t](a, b)
	}
	return uint64(combine32["mul."+part+"."+t](uint32(a), uint32(b)))
}

// get returns how a lane of a register is read.
func (p *parser) get(size int) func(w *warp, n, lane int) uint64 {
	if size == 64 {
		return func(w *warp, n, lane int) uint64 { return w.d[n][lane] }
	}
	return func(w *warp, n, lane int) uint64 { return uint64(w.r[n][lane]) }
}

// put returns how a lane of a register is written.
func (p *parser) put(size int) func(w *warp, n, lane int, v uint64) {
	if size == 64 {
		return func(w *warp, n, lane int, v uint64) { w.d[n][lane] = v }
	}
	mask := ^uint64(0) >> (64 - size)
	return func(w *warp, n, lane int, v uint64) { w.r[n][lane] = uint32(v & mask) }
}
