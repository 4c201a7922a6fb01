package arith

import "math"

// A Float16 says how one of the types is read and made.
type Float16 struct {
	Read func(v uint32) float64
	Make func(x float64) uint32 // of a value that is exact or rounded to odd
}

// Float16s are the types by name.
var Float16s = map[string]Float16{
	"f16":  {func(v uint32) float64 { return float64(FromF16(v)) }, func(x float64) uint32 { return ToF16(odd32(x)) }},
	"bf16": {func(v uint32) float64 { return float64(F32(v << 16)) }, func(x float64) uint32 { return ToBF16(odd32(x)) }},
}

// odd32 rounds to float32 to odd: rounding the result to 16 bits is as good as rounding x.
func odd32(x float64) float32 {
	r := float32(x)
	if float64(r) == x || x != x {
		return r
	}
	v := math.Float32bits(r)
	if math.Abs(float64(r)) > math.Abs(x) {
		v--
	}
	return math.Float32frombits(v | 1)
}

// ToBF16 rounds to the nearest bfloat16, ties to even.
func ToBF16(x float32) uint32 {
	if x != x {
		return 0x7fff
	}
	v := math.Float32bits(x)
	return (v + 0x7fff + v>>16&1) >> 16
}

// ToF16 rounds to the nearest Float16, ties to even.
func ToF16(x float32) uint32 {
	v := math.Float32bits(x)
	sign, v := v>>16&0x8000, v&0x7fff_ffff
	switch {
	case v > 0x7f80_0000:
		return 0x7fff
	case v >= 0x4780_0000: // 65536
		return sign | 0x7c00
	case v < 0x3880_0000: // below 2^-14: units of 2^-24, which the sum with 0.5 leaves at its end
		sum := math.Float32frombits(v) + 0.5
		return sign | (math.Float32bits(sum) - 0x3f00_0000)
	}
	v += 0xfff + v>>13&1
	return sign | (v-0x3800_0000)>>13
}

// FromF16 is exact.
func FromF16(v uint32) float32 {
	sign, exponent, fraction := v&0x8000<<16, v>>10&31, v&0x3ff
	switch exponent {
	case 0:
		return math.Float32frombits(sign | math.Float32bits(float32(fraction)/(1<<24)))
	case 31:
		return math.Float32frombits(sign | 0x7f80_0000 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
}

// FusedBF16 returns a·b+c of three bfloat16, rounded once.
func FusedBF16(a, b, c float32) uint32 {
	if r := float32(float64(a)*float64(b) + float64(c)); math.Float32bits(r)&0xffff != 0x8000 { // no tie: the exact sum lies on the same side of it
		return ToBF16(r)
	}
	return ToBF16(odd32(OddSum(float64(a)*float64(b), float64(c))))
}

// Halves returns how the two elements of a word, bf16 or f16, become float32.
func Halves(t string) func(v uint32) (low, high float32) {
	if t == "f16" {
		return func(v uint32) (low, high float32) { return FromF16(v & 0xffff), FromF16(v >> 16) }
	}
	return func(v uint32) (low, high float32) { return F32(v << 16), F32(v &^ 0xffff) }
}
