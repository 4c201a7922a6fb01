package emu

import "math"

// This file is arithmetic of float32 and float64. add, sub, mul, fma, div.rn, sqrt.rn and rcp.rn
// give the bits that hardware gives. What hardware only approximates (.approx, .full) is computed in
// float64, rounded, and then, for half of all inputs, moved by one unit in the last place: a hash of
// the input and Card.Seed says which and whereto, so that results repeat but nobody can rely on them.
// NaN results have the one form that hardware makes.

const (
	nan32 = 0x7fff_ffff
	nan64 = 0x7ff8_0000_0000_0000
)

func f32(x uint32) float32 { return math.Float32frombits(x) }
func f64(x uint64) float64 { return math.Float64frombits(x) }

func bits32(x float32) uint32 {
	if x != x {
		return nan32
	}
	return math.Float32bits(x)
}

func bits64(x float64) uint64 {
	if x != x {
		return nan64
	}
	return math.Float64bits(x)
}

// oddSum returns a+b rounded to odd: where the sum is not exact, the last bit of what is returned is
// set. Rounding that again to at most 51 bits gives what one rounding of the true sum would.
func oddSum(a, b float64) float64 {
	s := a + b
	v := math.Float64bits(s)
	if v&1 != 0 || math.IsInf(s, 0) || s != s {
		return s
	}
	back := s - a
	lost := (a - (s - back)) + (b - back)
	if lost == 0 {
		return s
	}
	if (lost > 0) == (s > 0) {
		return math.Float64frombits(v + 1)
	}
	return math.Float64frombits(v - 1)
}

// fused returns a·b+c with one rounding.
func fused(a, b, c uint32) uint32 {
	product, addend := float64(f32(a))*float64(f32(b)), float64(f32(c))
	s := product + addend
	if math.Float64bits(s)&0x0fff_ffff != 0 { // not near a tie of float32: rounding twice does no harm
		return bits32(float32(s))
	}
	return bits32(float32(oddSum(product, addend)))
}

// directed rounds a value that was rounded to odd to float32: rz to zero, rm down, rp up.
func directed(v float64, mode string) float32 {
	r := float32(v)
	exact := float64(r)
	switch {
	case exact > v && (mode == "rm" || (mode == "rz" && v > 0)):
		return math.Nextafter32(r, float32(math.Inf(-1)))
	case exact < v && (mode == "rp" || (mode == "rz" && v < 0)):
		return math.Nextafter32(r, float32(math.Inf(1)))
	}
	return r
}

// flush turns subnormal numbers to zeros of their sign.
func flush(x uint32) uint32 {
	if x&0x7f80_0000 == 0 {
		return x & 0x8000_0000
	}
	return x
}

// saturate clamps to [0, 1].
func saturate(x uint32) uint32 {
	if v := f32(x); v >= 1 {
		return 0x3f80_0000
	} else if v > 0 {
		return x
	}
	return 0
}

// float32 decodes arithmetic on float32.
func (p *parser) float32() {
	ftz, sat, nan := p.has("ftz"), p.has("sat"), p.has("NaN")
	rounding := p.one("rn", "rz", "rm", "rp", "approx", "full")
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
		f = func(a, b, c uint32) uint32 { return saturate(flush(plain(flush(a), flush(b), flush(c)))) }
	case ftz:
		f = func(a, b, c uint32) uint32 { return flush(plain(flush(a), flush(b), flush(c))) }
	case sat:
		f = func(a, b, c uint32) uint32 { return saturate(plain(a, b, c)) }
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
				return bits32(directed(oddSum(float64(f32(a)), float64(f32(b))), rounding))
			}
		case "sub":
			return func(a, b, _ uint32) uint32 {
				return bits32(directed(oddSum(float64(f32(a)), -float64(f32(b))), rounding))
			}
		case "mul":
			return func(a, b, _ uint32) uint32 { return bits32(directed(float64(f32(a))*float64(f32(b)), rounding)) }
		case "fma":
			return func(a, b, c uint32) uint32 {
				return bits32(directed(oddSum(float64(f32(a))*float64(f32(b)), float64(f32(c))), rounding))
			}
		}
		return nil
	}
	switch p.op {
	case "add":
		return func(a, b, _ uint32) uint32 { return bits32(f32(a) + f32(b)) }
	case "sub":
		return func(a, b, _ uint32) uint32 { return bits32(f32(a) - f32(b)) }
	case "mul":
		return func(a, b, _ uint32) uint32 { return bits32(f32(a) * f32(b)) }
	case "fma":
		return fused
	case "div":
		if seed := p.seed; rounding != "rn" {
			return func(a, b, _ uint32) uint32 { return nudge(a^b*31, bits32(f32(a)/f32(b)), seed) }
		}
		return func(a, b, _ uint32) uint32 { return bits32(f32(a) / f32(b)) }
	case "abs":
		return func(a, _, _ uint32) uint32 { return a &^ (1 << 31) }
	case "neg":
		return func(a, _, _ uint32) uint32 { return a ^ 1<<31 }
	case "copysign":
		return func(a, b, _ uint32) uint32 { return a&(1<<31) | b&^(1<<31) }
	case "min":
		return func(a, b, _ uint32) uint32 { return bits32(lesser(f32(a), f32(b), nan)) }
	case "max":
		return func(a, b, _ uint32) uint32 { return bits32(-lesser(-f32(a), -f32(b), nan)) }
	}
	return nil
}

// lesser is min of the standard: a number beats NaN, unless nan says that NaN wins; -0 is below +0.
func lesser[T float32 | float64](a, b T, nan bool) T {
	switch {
	case a != a:
		if nan {
			return a
		}
		return b
	case b != b:
		if nan {
			return b
		}
		return a
	}
	return min(a, b)
}

// fastFloat replaces the closures of the most frequent operations by ones without a call per lane.
func (p *parser) fastFloat(src [3]int) {
	d, x, y := p.in.dst, src[0], src[1]
	switch p.op {
	case "add":
		p.in.run = func(w *warp, _ uint32) {
			D, X, Y := &w.r[d], &w.r[x], &w.r[y]
			for i := range D {
				D[i] = bits32(f32(X[i]) + f32(Y[i]))
			}
		}
	case "sub":
		p.in.run = func(w *warp, _ uint32) {
			D, X, Y := &w.r[d], &w.r[x], &w.r[y]
			for i := range D {
				D[i] = bits32(f32(X[i]) - f32(Y[i]))
			}
		}
	case "mul":
		p.in.run = func(w *warp, _ uint32) {
			D, X, Y := &w.r[d], &w.r[x], &w.r[y]
			for i := range D {
				D[i] = bits32(f32(X[i]) * f32(Y[i]))
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
		f = func(a, b, _ float64) float64 { return lesser(a, b, nan) }
	case "max":
		f = func(a, b, _ float64) float64 { return -lesser(-a, -b, nan) }
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
	p.wide3(src[0], src[1], src[2], func(a, b, c uint64) uint64 { return bits64(f(f64(a), f64(b), f64(c))) })
}

// nudge moves the result of an approximation of input x.
func nudge(x, v uint32, seed uint64) uint32 {
	if exponent := v >> 23 & 0xff; exponent == 0 || exponent == 0xff {
		return v // zero, subnormal, infinite or no number
	}
	h := (uint64(x) + seed + 1) * 0x9e37_79b9_7f4a_7c15
	h ^= h >> 32
	moved := v
	switch h * 0xd6e8_feb8_6659_fd93 >> 62 {
	case 0:
		moved++
	case 1:
		moved--
	}
	if exponent := moved >> 23 & 0xff; exponent == 0 || exponent == 0xff {
		return v
	}
	return moved
}

// approximations are functions that hardware approximates.
var approximations = map[string]func(x float64) float64{
	"rcp": func(x float64) float64 { return 1 / x }, "sqrt": math.Sqrt, "rsqrt": func(x float64) float64 { return 1 / math.Sqrt(x) },
	"ex2": math.Exp2, "lg2": math.Log2, "sin": math.Sin, "cos": math.Cos, "tanh": math.Tanh,
}

// approximate decodes those, and the exact forms that some have.
func (p *parser) approximate() {
	t, size := p.lastType()
	ftz := p.has("ftz")
	kind := p.one("approx", "rn")
	p.want(2, 2)
	p.result(size)
	x := p.src(p.args[1], size)
	f, seed := approximations[p.op], p.seed
	exact := kind == "rn" && (p.op == "rcp" || p.op == "sqrt")
	switch {
	case t == "f64" && exact:
		p.wide1(x, func(a uint64) uint64 { return bits64(f(f64(a))) })
	case t == "f64" && kind == "approx" && ftz && (p.op == "rcp" || p.op == "rsqrt"):
		p.wide1(x, func(a uint64) uint64 { return bits64(f(f64(a))) &^ 0xffff_ffff }) // only the upper half is computed
	case t != "f32" || (kind != "approx" && !exact):
	default:
		p.lanes1(x, func(a uint32) uint32 {
			if ftz {
				a = flush(a)
			}
			v := bits32(float32(f(float64(f32(a)))))
			if !exact && a<<1 != 0 { // results for zero are documented
				v = nudge(a, v, seed)
			}
			if ftz {
				v = flush(v)
			}
			return v
		})
	}
}
