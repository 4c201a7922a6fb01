// Package arith says what operations of PTX do with values: integers, float32 and float64, the 16-bit
// floating types, conversions. It knows no registers and no instructions.
//
// add, sub, mul, fma, division and square root give the bits that hardware gives. What hardware only
// approximates is computed in float64, rounded, and then, for half of all inputs, moved by one unit
// in the last place (Nudge). NaN results have the one form that hardware makes.
package arith

import "math"

// NaN as hardware makes it.
const (
	NaN32 = 0x7fff_ffff
	NaN64 = 0x7ff8_0000_0000_0000
)

// F32 reads a float32 from its bits.
func F32(x uint32) float32 { return math.Float32frombits(x) }

// F64 reads a float64 from its bits.
func F64(x uint64) float64 { return math.Float64frombits(x) }

// Bits32 returns the bits of a result, NaN in the form of hardware.
func Bits32(x float32) uint32 {
	if x != x {
		return NaN32
	}
	return math.Float32bits(x)
}

// Bits64 returns the bits of a result, NaN in the form of hardware.
func Bits64(x float64) uint64 {
	if x != x {
		return NaN64
	}
	return math.Float64bits(x)
}

// OddSum returns a+b rounded to odd: where the sum is not exact, the last bit of what is returned is
// set. Rounding that again to at most 51 bits gives what one rounding of the true sum would.
func OddSum(a, b float64) float64 {
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

// Fused returns a·b+c with one rounding.
func Fused(a, b, c uint32) uint32 {
	product, addend := float64(F32(a))*float64(F32(b)), float64(F32(c))
	s := product + addend
	if math.Float64bits(s)&0x0fff_ffff != 0 { // not near a tie of float32: rounding twice does no harm
		return Bits32(float32(s))
	}
	return Bits32(float32(OddSum(product, addend)))
}

// Directed rounds a value that was rounded to odd to float32: rz to zero, rm down, rp up.
func Directed(v float64, mode string) float32 {
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

// Flush turns subnormal numbers to zeros of their sign.
func Flush(x uint32) uint32 {
	if x&0x7f80_0000 == 0 {
		return x & 0x8000_0000
	}
	return x
}

// Saturate clamps to [0, 1].
func Saturate(x uint32) uint32 {
	if v := F32(x); v >= 1 {
		return 0x3f80_0000
	} else if v > 0 {
		return x
	}
	return 0
}

// Lesser is min of the standard: a number beats NaN, unless nan says that NaN wins; -0 is below +0.
func Lesser[T float32 | float64](a, b T, nan bool) T {
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

// Nudge moves the result v of an approximation for input x by a unit in the last place, or leaves it.
// Zeros, subnormal numbers, infinities and NaN stay.
func Nudge(x, v uint32, seed uint64) uint32 {
	moved := v + uint32(step(uint64(x), seed))
	if outermost(v) || outermost(moved) {
		return v
	}
	return moved
}

// outermost says whether a float32 is zero, subnormal, infinite or NaN.
func outermost(v uint32) bool {
	exponent := v >> 23 & 0xff
	return exponent == 0 || exponent == 0xff
}

// Nudge64 does so for float64.
func Nudge64(x, v, seed uint64) uint64 {
	if exponent := v >> 52 & 0x7ff; exponent < 2 || exponent > 0x7fd {
		return v
	}
	return v + uint64(step(x, seed))
}

// step is 1 for a quarter of inputs, -1 for another one, else 0.
func step(x, seed uint64) int64 {
	h := (x + seed + 1) * 0x9e37_79b9_7f4a_7c15
	h ^= h >> 32
	switch h * 0xd6e8_feb8_6659_fd93 >> 62 {
	case 0:
		return 1
	case 1:
		return -1
	}
	return 0
}

// Approximations are functions that hardware approximates.
var Approximations = map[string]func(x float64) float64{
	"rcp": func(x float64) float64 { return 1 / x }, "sqrt": math.Sqrt, "rsqrt": func(x float64) float64 { return 1 / math.Sqrt(x) },
	"ex2": math.Exp2, "lg2": math.Log2, "sin": math.Sin, "cos": math.Cos, "tanh": math.Tanh,
}
