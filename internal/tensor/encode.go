package tensor

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Encode stores the row src as type t: dst takes t.RowBytes(len(src)) bytes, and
// for MXFP4HF scales takes one byte per 32 elements (nil for other types). Values
// must be finite. F16, BF16, Q8_0, Q4_0 and MXFP4 follow formats.md 4; Q4_1,
// Q5_0, Q5_1, IQ4_NL and the K types are plain min-max quantisers without the error search of other
// tools: right, but not the best possible.
func Encode(t DType, dst, scales []byte, src []float32) {
	if len(dst) != t.RowBytes(len(src)) || (t == MXFP4HF && len(scales) != len(src)/32) {
		panic(fmt.Sprintf("tensor: %d elements of %v into %d bytes and %d scales", len(src), t, len(dst), len(scales)))
	}
	elems, size := t.Block()
	for i := range len(src) / elems {
		values, block := src[i*elems:][:elems], dst[i*size:][:size]
		switch t {
		case F32:
			binary.LittleEndian.PutUint32(block, math.Float32bits(values[0]))
		case F16:
			binary.LittleEndian.PutUint16(block, ToHalf(values[0]))
		case BF16:
			binary.LittleEndian.PutUint16(block, ToBF16(values[0]))
		case MXFP4:
			block[0] = encodeMXFP4(block[1:], values, 1, 16)
		case MXFP4HF:
			scales[i] = encodeMXFP4(block, values, 2, 1)
		case Q8_0:
			encodeQ8_0(block, values)
		case Q4_0:
			encodeQ4_0(block, values)
		case Q4_1:
			encodeQ4_1(block, values)
		case Q5_0:
			encodeQ5_0(block, values)
		case Q5_1:
			encodeQ5_1(block, values)
		// A block of the plain types is one element.
		case IQ4_NL:
			encodeIQ4_NL(block, values)
		case Q4_K, Q5_K:
			encodeQ45_K(t, block, values)
		case Q6_K:
			encodeQ6_K(block, values)
		default:
			panic(fmt.Sprintf("tensor: %v has no encoder", t))
		}
	}
}

// extremes returns the element of largest magnitude, the smallest and the largest.
func extremes(x []float32) (big, lo, hi float32) {
	big, lo, hi = x[0], x[0], x[0]
	for _, value := range x {
		lo, hi = min(lo, value), max(hi, value)
		if abs(value) > abs(big) {
			big = value
		}
	}
	return big, lo, hi
}

// abs clears the sign bit.
func abs(v float32) float32 { return math.Float32frombits(math.Float32bits(v) &^ (1 << 31)) }

// divide returns x/d rounded half away from zero and limited to [lo, hi]; 0 when d is 0.
func divide(x, d float32, lo, hi int) int {
	if d == 0 {
		return 0
	}
	return int(min(max(math.Round(float64(x)/float64(d)), float64(lo)), float64(hi)))
}

// putHalf writes v as a half, little-endian.
func putHalf(b []byte, v float32) { binary.LittleEndian.PutUint16(b, ToHalf(v)) }

// encodeMXFP4 packs 32 values; byte j holds element j·step in the low nibble and the
// element gap further on in the high one. It returns the scale byte: the exponent of the
// largest value less that of the largest E2M1 number, 2, biased by 127 (models.md 1.6).
func encodeMXFP4(dst []byte, x []float32, step, gap int) (scale byte) {
	if big, _, _ := extremes(x); big != 0 {
		_, exp := math.Frexp(float64(abs(big))) // |big| = f·2^exp, f in [0.5, 1)
		scale = byte(min(max(exp-1-2+127, 0), 254))
	}
	d := float64(E8M0Half(scale))
	for j := range dst {
		dst[j] = nearestFP4(float64(x[j*step])/d) | nearestFP4(float64(x[j*step+gap])/d)<<4
	}
	return scale
}

// nearestFP4 returns the E2M1 code whose doubled value is nearest to v, the one
// of smaller magnitude when two are.
func nearestFP4(v float64) byte {
	best := byte(0)
	for n := byte(1); n < 8; n++ {
		if math.Abs(math.Abs(v)-float64(fp4[n])) < math.Abs(math.Abs(v)-float64(fp4[best])) {
			best = n
		}
	}
	if v < 0 && best != 0 {
		best |= 8
	}
	return best
}

// encodeQ8_0 maps the largest magnitude to 127.
func encodeQ8_0(dst []byte, x []float32) {
	big, _, _ := extremes(x)
	d := abs(big) / 127
	putHalf(dst, d)
	for j, v := range x {
		dst[2+j] = byte(divide(v, d, -127, 127))
	}
}

// encodeQ4_0 maps the value of largest magnitude to -8, the end that has one number more.
func encodeQ4_0(dst []byte, x []float32) {
	big, _, _ := extremes(x)
	d := big / -8
	putHalf(dst, d)
	quantised := func(v float32) byte {
		if d == 0 {
			return 8
		}
		return byte(min(15, v/d+8.5))
	}
	for j := range 16 {
		dst[2+j] = quantised(x[j]) | quantised(x[j+16])<<4
	}
}

// encodeQ4_1 maps the smallest value to 0 and the largest to 15.
func encodeQ4_1(dst []byte, x []float32) {
	_, lo, hi := extremes(x)
	d := (hi - lo) / 15
	putHalf(dst, d)
	putHalf(dst[2:], lo)
	q := func(v float32) byte { return byte(divide(v-lo, d, 0, 15)) }
	for j := range 16 {
		dst[4+j] = q(x[j]) | q(x[j+16])<<4
	}
}

// encodeQ5_0 maps the value of largest magnitude to -16, the end that has one number more.
func encodeQ5_0(dst []byte, x []float32) {
	big, _, _ := extremes(x)
	putHalf(dst, big/-16)
	put5(dst[2:], x, func(v float32) byte { return byte(divide(v, big/-16, -16, 15) + 16) })
}

// encodeQ5_1 maps the smallest value to 0 and the largest to 31.
func encodeQ5_1(dst []byte, x []float32) {
	_, lo, hi := extremes(x)
	d := (hi - lo) / 31
	putHalf(dst, d)
	putHalf(dst[2:], lo)
	put5(dst[4:], x, func(v float32) byte { return byte(divide(v-lo, d, 0, 31)) })
}

// put5 stores quants of 5 bits: the fifth bits of all, then nibbles.
func put5(dst []byte, x []float32, quant func(v float32) byte) {
	fifth := uint32(0)
	for j := range 16 {
		low, high := quant(x[j]), quant(x[j+16])
		dst[4+j] = low&15 | high<<4
		fifth |= uint32(low>>4)<<j | uint32(high>>4)<<(j+16)
	}
	binary.LittleEndian.PutUint32(dst, fifth)
}

// encodeIQ4_NL maps the value of largest magnitude to -127, and each to the nearest value.
func encodeIQ4_NL(dst []byte, x []float32) {
	big, _, _ := extremes(x)
	d := big / -127
	putHalf(dst, d)
	quant := func(v float32) (best byte) {
		for q := range NonLinear {
			if abs(v-d*float32(NonLinear[q])) < abs(v-d*float32(NonLinear[best])) {
				best = byte(q)
			}
		}
		return best
	}
	for j := range 16 {
		dst[2+j] = quant(x[j]) | quant(x[j+16])<<4
	}
}

// encodeQ45_K writes a Q4_K or Q5_K block: per sub-block of 32 a minimum <= 0 and
// a step, both rounded to multiples of the block's half-precision dmin and d.
func encodeQ45_K(t DType, dst []byte, x []float32) {
	top := 15
	if t == Q5_K {
		top = 31
	}
	// Steps and minima of the sub-blocks, 6 bits each in units of d and dmin.
	var steps, mins [8]float32
	for sub := range 8 {
		_, lo, hi := extremes(x[32*sub:][:32])
		mins[sub] = -min(lo, 0)
		steps[sub] = (max(hi, 0) + mins[sub]) / float32(top)
	}
	_, _, step := extremes(steps[:])
	_, _, low := extremes(mins[:])
	putHalf(dst, step/63)
	putHalf(dst[2:], low/63)
	// As a reader will see them, so that rounding of the units is made up for.
	d, dmin := half(dst), half(dst[2:])
	clear(dst[4:])
	for sub := range 8 {
		sc, mn := divide(steps[sub], d, 0, 63), divide(mins[sub], dmin, 0, 63)
		putScaleMin(dst[4:16], sub, byte(sc), byte(mn))
		for at, v := range x[32*sub:][:32] {
			q := byte(divide(v+dmin*float32(mn), d*float32(sc), 0, top))
			nibbles := dst[len(dst)-128:]
			nibbles[32*(sub/2)+at] |= q & 15 << (4 * (sub & 1))
			if t == Q5_K {
				dst[16+at] |= q >> 4 << sub
			}
		}
	}
}

// putScaleMin is the inverse of ScaleMin on zeroed bytes.
func putScaleMin(b []byte, t int, scale, minimum byte) {
	if t < 4 {
		b[t] |= scale
		b[t+4] |= minimum
		return
	}
	b[t+4] |= scale&15 | minimum<<4
	b[t-4] |= scale >> 4 << 6
	b[t] |= minimum >> 4 << 6
}

// encodeQ6_K writes a Q6_K block: a step of 8 bits, in units of d, for each 16 elements.
func encodeQ6_K(dst []byte, x []float32) {
	var steps [16]float32
	for sub := range steps {
		big, _, _ := extremes(x[16*sub:][:16])
		steps[sub] = big / -32 // the largest value becomes -32 exactly
	}
	big, _, _ := extremes(steps[:])
	putHalf(dst[208:], abs(big)/127)
	d := half(dst[208:])
	clear(dst[:192])
	for sub, step := range steps {
		sc := divide(step, d, -127, 127)
		dst[192+sub] = byte(sc)
		for l, v := range x[16*sub:][:16] {
			q := byte(divide(v, d*float32(sc), -32, 31) + 32)
			i := 16*sub + l // element of the block; k picks its place as in decodeQ6_K
			n, k, l := i/128, i%128/32, i%32
			dst[64*n+32*(k&1)+l] |= q & 15 << (4 * (k >> 1))
			dst[128+32*n+l] |= q >> 4 << (2 * k)
		}
	}
}
