package tensor

import "math"

// Half converts an IEEE half to float32. The conversion is exact.
func Half(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exp, frac := uint32(h>>10&31), uint32(h&0x3ff)
	switch exp {
	case 0: // subnormal: frac · 2^-24
		v := float32(frac) * 0x1p-24
		return math.Float32frombits(math.Float32bits(v) | sign)
	case 31: // infinity or NaN
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// ToHalf converts f to an IEEE half, to nearest, ties to even; what is too large
// becomes infinity.
func ToHalf(f float32) uint16 {
	bits := math.Float32bits(f)
	sign, bits := uint16(bits>>16&0x8000), bits&0x7fffffff
	switch {
	case bits > 0x7f800000: // NaN stays NaN whatever bits are cut off
		return sign | 0x7e00
	case bits >= 0x47800000: // 2^16 and more
		return sign | 0x7c00
	case bits < 0x38800000: // below 2^-14: adding 0.5 leaves f·2^24, rounded, in the low bits
		v := math.Float32frombits(bits) + 0.5
		return sign | uint16(math.Float32bits(v)-math.Float32bits(0.5))
	}
	// Round to nearest, ties to even, by adding half of the last place, less one where it is
	// even.
	bits += 0xfff + bits>>13&1 // may carry into the exponent and so up to infinity
	return sign | uint16((bits-112<<23)>>13)
}

// BF16ToFloat converts a bfloat16 to float32. The conversion is exact.
func BF16ToFloat(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }

// ToBF16 converts f to bfloat16, to nearest, ties to even.
func ToBF16(f float32) uint16 {
	b := math.Float32bits(f)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40 // NaN stays NaN whatever bits are cut off
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// E4M3ToFloat returns the value of an E4M3 code (OCP 8-bit floating point: exponent
// bias 7, no infinities, NaN only where all other bits are set).
func E4M3ToFloat(c byte) float32 {
	if c&0x7f == 0x7f {
		return float32(math.NaN())
	}
	return Half(uint16(c&0x80)<<8|uint16(c&0x7f)<<7) * 256 // the same bits in a half, whose bias is 15
}

// ToE4M3 converts f to E4M3, to nearest, ties to even; what is too large, infinity
// included, becomes ±448, the largest number.
func ToE4M3(f float32) byte {
	bits := math.Float32bits(f)
	sign, bits := byte(bits>>24&0x80), bits&0x7fffffff
	switch {
	case bits > 0x7f800000:
		return sign | 0x7f
	case bits >= 0x43e00000: // 448
		return sign | 0x7e
	case bits < 0x3c800000: // below 2^-6: adding 2^14 leaves f·2^9, rounded, in the low bits
		v := math.Float32frombits(bits) + 0x1p14
		return sign | byte(math.Float32bits(v)-math.Float32bits(0x1p14))
	}
	bits += 0x7ffff + bits>>20&1 // may carry into the exponent
	return sign | byte((bits-120<<23)>>20)
}

// E8M0Half returns half of the value of an E8M0 scale byte, 2^(e-128): the
// factor for the doubled E2M1 integers of FP4. 255 is NaN (models.md 1.6).
func E8M0Half(e byte) float32 {
	switch {
	case e == 255:
		return float32(math.NaN())
	case e < 2: // 2^-128 and 2^-127 are subnormal
		return math.Float32frombits(0x00200000 << e)
	}
	return math.Float32frombits(uint32(e-1) << 23)
}

// fp4 has twice the value of each E2M1 code, an integer (models.md 1.6).
var fp4 = [16]int8{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}
