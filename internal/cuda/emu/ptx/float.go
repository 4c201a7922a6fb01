package ptx

import (
	"math"

	"ossian/internal/cuda/emu/arith"
	"ossian/internal/cuda/emu/exec"
)

// This file is arithmetic of float32 and float64. add, sub, mul, fma, div.rn, sqrt.rn and rcp.rn
// give the bits that hardware gives. What hardware only approximates (.approx, .full) is computed in
// float64, rounded, and then, for half of all inputs, moved by one unit in the last place: a hash of
// the input and Card.Seed says which and whereto, so that results repeat but nobody can rely on them.
// NaN results have the one form that hardware makes.

// float32 decodes arithmetic on float32.
func (p *parser) float32() {
	ftz, sat, nan := p.has("ftz"), p.has("sat"), p.has("NaN")
	rounding := p.one("rn", "rz", "rm", "rp", "approx", "full")
	if p.op == "div" && (rounding == "approx" || rounding == "full") && !sat {
		p.want(3, 3)
		p.result(32)
		p.approximate2(p.src(p.args[1], 32), p.src(p.args[2], 32), ftz, func(a float32) bool { return a == 0 }, func(a, b uint32) float64 {
			return float64(arith.F32(a)) / float64(arith.F32(b))
		})
		return
	}
	f := p.operation32(rounding, nan)
	if f == nil {
		return
	}
	count := len(p.args) - 1
	if want := operandCount(p.op); count != want {
		p.fail("%s with %d operands", p.op, count+1)
	}
	p.result(32)
	src := [3]int{}
	for i := range count {
		src[i] = p.src(p.args[i+1], 32)
	}
	plain := f
	switch {
	case ftz && sat:
		f = func(a, b, c uint32) uint32 {
			return arith.Saturate(arith.Flush(plain(arith.Flush(a), arith.Flush(b), arith.Flush(c))))
		}
	case ftz:
		f = func(a, b, c uint32) uint32 { return arith.Flush(plain(arith.Flush(a), arith.Flush(b), arith.Flush(c))) }
	case sat:
		f = func(a, b, c uint32) uint32 { return arith.Saturate(plain(a, b, c)) }
	}
	p.lanes3(src[0], src[1], src[2], f)
	if !ftz && !sat && (rounding == "rn" || rounding == "") {
		p.fastFloat(src)
	}
}

// operandCount returns how many operands an operation reads.
func operandCount(op string) int {
	switch op {
	case "fma", "mad":
		return 3
	case "abs", "neg":
		return 1
	}
	return 2
}

// operation32 returns what an operation does; operands that it does not have are ignored.
func (p *parser) operation32(rounding string, nan bool) func(a, b, c uint32) uint32 {
	if rounding == "rz" || rounding == "rm" || rounding == "rp" {
		switch p.op {
		case "add":
			return func(a, b, _ uint32) uint32 {
				return arith.Bits32(arith.Directed(arith.OddSum(float64(arith.F32(a)), float64(arith.F32(b))), rounding))
			}
		case "sub":
			return func(a, b, _ uint32) uint32 {
				return arith.Bits32(arith.Directed(arith.OddSum(float64(arith.F32(a)), -float64(arith.F32(b))), rounding))
			}
		case "mul":
			return func(a, b, _ uint32) uint32 {
				return arith.Bits32(arith.Directed(float64(arith.F32(a))*float64(arith.F32(b)), rounding))
			}
		case "fma":
			return func(a, b, c uint32) uint32 {
				return arith.Bits32(arith.Directed(arith.OddSum(float64(arith.F32(a))*float64(arith.F32(b)), float64(arith.F32(c))), rounding))
			}
		}
		return nil
	}
	switch p.op {
	case "add":
		return func(a, b, _ uint32) uint32 { return arith.Bits32(arith.F32(a) + arith.F32(b)) }
	case "sub":
		return func(a, b, _ uint32) uint32 { return arith.Bits32(arith.F32(a) - arith.F32(b)) }
	case "mul":
		return func(a, b, _ uint32) uint32 { return arith.Bits32(arith.F32(a) * arith.F32(b)) }
	case "fma":
		return arith.Fused
	case "div":
		if rounding != "rn" {
			return nil
		}
		return func(a, b, _ uint32) uint32 { return arith.Bits32(arith.F32(a) / arith.F32(b)) }
	case "abs":
		return func(a, _, _ uint32) uint32 { return a &^ (1 << 31) }
	case "neg":
		return func(a, _, _ uint32) uint32 { return a ^ 1<<31 }
	case "copysign":
		return func(a, b, _ uint32) uint32 { return a&(1<<31) | b&^(1<<31) }
	case "min":
		return func(a, b, _ uint32) uint32 { return arith.Bits32(arith.Lesser(arith.F32(a), arith.F32(b), nan)) }
	case "max":
		return func(a, b, _ uint32) uint32 { return arith.Bits32(-arith.Lesser(-arith.F32(a), -arith.F32(b), nan)) }
	}
	return nil
}

// fastFloat replaces the closures of the most frequent operations by ones without a call per lane.
func (p *parser) fastFloat(src [3]int) {
	d, x, y := p.in.Dst, src[0], src[1]
	switch p.op {
	case "add":
		p.in.Run = func(w *exec.Warp, _ uint32) {
			D, X, Y := &w.R[d], &w.R[x], &w.R[y]
			for i := range D {
				D[i] = arith.Bits32(arith.F32(X[i]) + arith.F32(Y[i]))
			}
		}
	case "sub":
		p.in.Run = func(w *exec.Warp, _ uint32) {
			D, X, Y := &w.R[d], &w.R[x], &w.R[y]
			for i := range D {
				D[i] = arith.Bits32(arith.F32(X[i]) - arith.F32(Y[i]))
			}
		}
	case "fma":
		z := src[2]
		p.in.Run = func(w *exec.Warp, _ uint32) {
			D, X, Y, Z := &w.R[d], &w.R[x], &w.R[y], &w.R[z]
			for i := range D {
				s := float64(arith.F32(X[i]))*float64(arith.F32(Y[i])) + float64(arith.F32(Z[i]))
				if math.Float64bits(s)&0x0fff_ffff != 0 { // far from a tie: arith.Fused sees to the others
					D[i] = arith.Bits32(float32(s))
				} else {
					D[i] = arith.Fused(X[i], Y[i], Z[i])
				}
			}
		}
	case "mul":
		p.in.Run = func(w *exec.Warp, _ uint32) {
			D, X, Y := &w.R[d], &w.R[x], &w.R[y]
			for i := range D {
				D[i] = arith.Bits32(arith.F32(X[i]) * arith.F32(Y[i]))
			}
		}
	}
}

// float64 decodes arithmetic on float64.
func (p *parser) float64() {
	p.has("rn")
	nan := p.has("NaN")
	count := operandCount(p.op)
	p.want(count+1, count+1)
	p.result(64)
	src := [3]int{}
	for i := range count {
		src[i] = p.src(p.args[i+1], 64)
	}
	var f func(a, b, c float64) float64
	switch p.op {
	case "add":
		f = func(a, b, _ float64) float64 { return a + b }
	case "sub":
		f = func(a, b, _ float64) float64 { return a - b }
	case "mul":
		f = func(a, b, _ float64) float64 { return a * b }
	case "div":
		f = func(a, b, _ float64) float64 { return a / b }
	case "fma":
		f = math.FMA
	case "min":
		f = func(a, b, _ float64) float64 { return arith.Lesser(a, b, nan) }
	case "max":
		f = func(a, b, _ float64) float64 { return -arith.Lesser(-a, -b, nan) }
	case "abs":
		p.wide1(src[0], func(a uint64) uint64 { return a &^ (1 << 63) })
		return
	case "neg":
		p.wide1(src[0], func(a uint64) uint64 { return a ^ 1<<63 })
		return
	case "copysign":
		p.wide2(src[0], src[1], func(a, b uint64) uint64 { return a&(1<<63) | b&^(1<<63) })
		return
	default:
		return
	}
	p.wide3(src[0], src[1], src[2], func(a, b, c uint64) uint64 { return arith.Bits64(f(arith.F64(a), arith.F64(b), arith.F64(c))) })
}

// approximate decodes those, and the exact forms that some have.
func (p *parser) approximate() {
	t, size := p.lastType()
	ftz := p.has("ftz")
	kind := p.one("approx", "rn")
	p.want(2, 2)
	p.result(size)
	x := p.src(p.args[1], size)
	f := arith.Approximations[p.op]
	exact := kind == "rn" && (p.op == "rcp" || p.op == "sqrt")
	switch {
	case t == "f64" && exact:
		p.wide1(x, func(a uint64) uint64 { return arith.Bits64(f(arith.F64(a))) })
	case t == "f64" && kind == "approx" && ftz && (p.op == "rcp" || p.op == "rsqrt"):
		p.wide1(x, func(a uint64) uint64 { return arith.Bits64(f(arith.F64(a))) &^ 0xffff_ffff }) // only the upper half is computed
	case t == "f64" && kind == "approx" && p.op == "rsqrt":
		d := p.in.Dst
		p.in.Run = func(w *exec.Warp, _ uint32) {
			for i, a := range w.D[x] {
				w.D[d][i] = arith.Nudge64(a, arith.Bits64(f(arith.F64(a))), w.Block.Device.Seed)
			}
		}
	case t != "f32" || (kind != "approx" && !exact):
	default:
		sure := func(a float32) bool { return a == 0 }
		if p.op == "ex2" { // powers of two are exact: CUDA's own exp and tanh build on that
			sure = func(a float32) bool { return a == float32(math.Trunc(float64(a))) }
		}
		if exact {
			sure = func(float32) bool { return true }
		}
		p.approximate2(x, x, ftz, sure, func(a, _ uint32) float64 { return f(float64(arith.F32(a))) })
	}
}

// approximate2 computes a function of two float32 whose result is off by a unit in the last place for
// some inputs, but not where sure says so of the first one.
func (p *parser) approximate2(x, y int, ftz bool, sure func(a float32) bool, f func(a, b uint32) float64) {
	d := p.in.Dst
	p.in.Run = func(w *exec.Warp, _ uint32) {
		seed := w.Block.Device.Seed
		X, Y := w.R[x], w.R[y] // copies: the result may go to one of them
		for i := range w.R[d] {
			a, b := X[i], Y[i]
			if i > 0 && a == X[i-1] && b == Y[i-1] { // lanes often have the same
				w.R[d][i] = w.R[d][i-1]
				continue
			}
			if ftz {
				a, b = arith.Flush(a), arith.Flush(b)
			}
			v := arith.Bits32(float32(f(a, b)))
			if !sure(arith.F32(a)) {
				v = arith.Nudge(a^b*31, v, seed)
			}
			if ftz {
				v = arith.Flush(v)
			}
			w.R[d][i] = v
		}
	}
}
