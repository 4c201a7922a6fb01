package ptx

import (
	"strings"

	"ossian/internal/cuda/emu/arith"
	"ossian/internal/cuda/emu/exec"
)

// This file is integer arithmetic. Operations of 16 bits are those of 32 on widened operands, cut
// back afterwards: registers of 16 bits have zeros above.

// arithmetic sends an operation to the decoder for its type.
func (p *parser) arithmetic() {
	if indexOf(p.mods, "cc") >= 0 {
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
	size := arith.TypeBits(t)
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
		if f, ok := arith.Combine64[name+"."+t]; ok {
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
		if f, ok := arith.Unary64[name+"."+t]; ok {
			p.wide1(x, f)
		}
		return
	}
	f, ok := arith.Unary32[name+"."+t[:1]+"32"]
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
	f, ok := arith.Combine32[name+"."+t[:1]+"32"]
	if !ok || t[1:] == "32" {
		return f
	}
	if name == "mul.hi" {
		f = arith.Combine32["mul.lo.s32"]
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
		if f, ok := arith.Combine64[product]; ok {
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
	size := arith.TypeBits(t)
	if size > 32 || t[0] == 'b' {
		return
	}
	p.want(3, 4)
	p.result(2 * size)
	d, x, y := p.in.Dst, p.src(p.args[1], size), p.src(p.args[2], size)
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
	p.in.Run = func(w *exec.Warp, _ uint32) {
		X, Y := &w.R[x], &w.R[y]
		if size == 16 {
			for i := range X {
				v := uint32(multiply(X[i], Y[i]))
				if z >= 0 {
					v += w.R[z][i]
				}
				w.R[d][i] = v
			}
			return
		}
		D := &w.D[d]
		for i := range D {
			v := multiply(X[i], Y[i])
			if z >= 0 {
				v += w.D[z][i]
			}
			D[i] = v
		}
	}
}

// fast32 replaces the closures of the most frequent operations by ones without a call per lane.
func (p *parser) fast32(name string, x, y int) {
	d := p.in.Dst
	switch name {
	case "add":
		p.in.Run = func(w *exec.Warp, _ uint32) {
			D, X, Y := &w.R[d], &w.R[x], &w.R[y]
			for i := range D {
				D[i] = X[i] + Y[i]
			}
		}
	case "sub":
		p.in.Run = func(w *exec.Warp, _ uint32) {
			D, X, Y := &w.R[d], &w.R[x], &w.R[y]
			for i := range D {
				D[i] = X[i] - Y[i]
			}
		}
	case "mul.lo":
		p.in.Run = func(w *exec.Warp, _ uint32) {
			D, X, Y := &w.R[d], &w.R[x], &w.R[y]
			for i := range D {
				D[i] = X[i] * Y[i]
			}
		}
	case "and":
		p.in.Run = func(w *exec.Warp, _ uint32) {
			D, X, Y := &w.R[d], &w.R[x], &w.R[y]
			for i := range D {
				D[i] = X[i] & Y[i]
			}
		}
	case "or":
		p.in.Run = func(w *exec.Warp, _ uint32) {
			D, X, Y := &w.R[d], &w.R[x], &w.R[y]
			for i := range D {
				D[i] = X[i] | Y[i]
			}
		}
	case "xor":
		p.in.Run = func(w *exec.Warp, _ uint32) {
			D, X, Y := &w.R[d], &w.R[x], &w.R[y]
			for i := range D {
				D[i] = X[i] ^ Y[i]
			}
		}
	}
}

// fast64 does so for 64 bits.
func (p *parser) fast64(name string, x, y int) {
	d := p.in.Dst
	switch name {
	case "add":
		p.in.Run = func(w *exec.Warp, _ uint32) {
			D, X, Y := &w.D[d], &w.D[x], &w.D[y]
			for i := range D {
				D[i] = X[i] + Y[i]
			}
		}
	case "mul.lo":
		p.in.Run = func(w *exec.Warp, _ uint32) {
			D, X, Y := &w.D[d], &w.D[x], &w.D[y]
			for i := range D {
				D[i] = X[i] * Y[i]
			}
		}
	}
}

// carried is arithmetic with the condition code: add.cc, addc, sub.cc, subc, mad.cc, madc.
func (p *parser) carried() {
	sets := p.has("cc")
	t, size := p.lastType()
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
	p.in.Kind = exec.Effect
	read, write := p.get(size), p.put(size)
	d, x, y, z := p.dst(p.args[0], size), p.src(p.args[1], size), p.src(p.args[2], size), 0
	if base == "mad" {
		z = p.src(p.args[3], size)
	}
	p.in.Run = func(w *exec.Warp, m uint32) {
		for lane := range 32 {
			if m>>lane&1 == 0 {
				continue
			}
			a, b := read(w, x, lane), read(w, y, lane)
			if base == "mad" {
				a, b = arith.MultiplyPart(t, part, a, b), read(w, z, lane)
			}
			in := uint64(0)
			if uses {
				in = uint64(w.Carry >> lane & 1)
			}
			v, carry := arith.AddOrSubtract(base == "sub", size, a, b, in)
			write(w, d, lane, v)
			if sets {
				w.Carry = w.Carry&^(1<<lane) | uint32(carry)<<lane
			}
		}
	}
}

// get returns how a lane of a register is read.
func (p *parser) get(size int) func(w *exec.Warp, n, lane int) uint64 {
	if size == 64 {
		return func(w *exec.Warp, n, lane int) uint64 { return w.D[n][lane] }
	}
	return func(w *exec.Warp, n, lane int) uint64 { return uint64(w.R[n][lane]) }
}

// put returns how a lane of a register is written.
func (p *parser) put(size int) func(w *exec.Warp, n, lane int, v uint64) {
	if size == 64 {
		return func(w *exec.Warp, n, lane int, v uint64) { w.D[n][lane] = v }
	}
	mask := ^uint64(0) >> (64 - size)
	return func(w *exec.Warp, n, lane int, v uint64) { w.R[n][lane] = uint32(v & mask) }
}
