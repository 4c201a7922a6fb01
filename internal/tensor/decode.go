package tensor

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Len returns the number of elements of r.
func (r Row) Len() int {
	elems, size := r.DType.Block()
	return len(r.Data) / size * elems
}

// Floats decodes r into dst, which holds exactly r.Len() elements. Every type is
// decoded exactly as formats.md 4 defines it; the one rounding is that of the
// final addition in Q4_1, Q5_1, Q4_K and Q5_K. Integer types have no decoder: Numeric
// tells.
func (r Row) Floats(dst []float32) {
	if len(dst) != r.Len() {
		panic(fmt.Sprintf("tensor: %d floats for a row of %d elements", len(dst), r.Len()))
	}
	elems, size := r.DType.Block()
	src := r.Data
	switch r.DType {
	case F32:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
		return
	case F16:
		for i := range dst {
			dst[i] = Half(binary.LittleEndian.Uint16(src[2*i:]))
		}
		return
	case BF16:
		for i := range dst {
			dst[i] = BF16ToFloat(binary.LittleEndian.Uint16(src[2*i:]))
		}
		return
	case MXFP4HF:
		for i := range len(dst) / elems {
			decodeMXFP4HF(dst[i*elems:][:elems], src[i*size:][:size], r.Scales[i])
		}
		return
	}
	// Blocks whose scales are among their bytes.
	decode := blockDecoder(r.DType)
	for i := range len(dst) / elems {
		decode(dst[i*elems:][:elems], src[i*size:][:size])
	}
}

// Numeric reports whether rows of type t can be decoded by Row.Floats.
func (t DType) Numeric() bool { return t >= F32 && t <= Q6_K }

// blockDecoder returns what decodes one block b of type t, all its bytes, into dst, all
// its elements. In the formulas below d is the block's scale, m or dmin its minimum, q a
// quantised value.
func blockDecoder(t DType) func(dst []float32, b []byte) {
	switch t {
	case MXFP4:
		return decodeMXFP4
	case Q8_0:
		return decodeQ8_0
	case Q4_0:
		return decodeQ4_0
	case Q4_1:
		return decodeQ4_1
	case Q5_0:
		return decodeQ5_0
	case Q5_1:
		return decodeQ5_1
	case IQ4_NL:
		return decodeIQ4_NL
	case Q4_K:
		return decodeQ4_K
	case Q5_K:
		return decodeQ5_K
	case Q6_K:
		return decodeQ6_K
	}
	panic(fmt.Sprintf("tensor: %v has no floats", t))
}

// half reads a half, little-endian.
func half(b []byte) float32 { return Half(binary.LittleEndian.Uint16(b)) }

// decodeMXFP4: b[0] is the scale; element j is in the low nibble of byte 1+j, j+16 in the
// high one. fp4 has doubled values, hence half of the scale.
func decodeMXFP4(dst []float32, b []byte) {
	d := E8M0Half(b[0])
	for j, q := range b[1:17] {
		dst[j] = float32(fp4[q&15]) * d
		dst[j+16] = float32(fp4[q>>4]) * d
	}
}

// decodeMXFP4HF: elements 2j and 2j+1 are in byte j, the first in the low nibble.
func decodeMXFP4HF(dst []float32, b []byte, scale byte) {
	d := E8M0Half(scale)
	for j, q := range b[:16] {
		dst[2*j] = float32(fp4[q&15]) * d
		dst[2*j+1] = float32(fp4[q>>4]) * d
	}
}

// decodeQ8_0: d, then signed bytes; d·q.
func decodeQ8_0(dst []float32, b []byte) {
	d := half(b)
	for j, q := range b[2:34] {
		dst[j] = float32(int8(q)) * d
	}
}

// decodeQ4_0: d, then nibbles as in MXFP4; d·(q-8).
func decodeQ4_0(dst []float32, b []byte) {
	d := half(b)
	for j, q := range b[2:18] {
		dst[j] = float32(int(q&15)-8) * d
		dst[j+16] = float32(int(q>>4)-8) * d
	}
}

// decodeQ4_1: d, m, then nibbles as in MXFP4; d·q + m.
func decodeQ4_1(dst []float32, b []byte) {
	d, m := half(b), half(b[2:])
	for j, q := range b[4:20] {
		dst[j] = float32(q&15)*d + m
		dst[j+16] = float32(q>>4)*d + m
	}
}

// decodeQ5_0: d, 32 bits of which bit j is the fifth of element j, then nibbles as in MXFP4;
// d·(q-16).
func decodeQ5_0(dst []float32, b []byte) {
	d, fifth := half(b), binary.LittleEndian.Uint32(b[2:])
	for j, q := range b[6:22] {
		dst[j] = float32(int(q&15|byte(fifth>>j&1)<<4)-16) * d
		dst[j+16] = float32(int(q>>4|byte(fifth>>(j+16)&1)<<4)-16) * d
	}
}

// decodeQ5_1: d, m, then fifth bits and nibbles as in Q5_0; d·q + m.
func decodeQ5_1(dst []float32, b []byte) {
	d, m, fifth := half(b), half(b[2:]), binary.LittleEndian.Uint32(b[4:])
	for j, q := range b[8:24] {
		dst[j] = float32(q&15|byte(fifth>>j&1)<<4)*d + m
		dst[j+16] = float32(q>>4|byte(fifth>>(j+16)&1)<<4)*d + m
	}
}

// NonLinear are the values of the nibbles of IQ4_NL, denser around 0: constants of the format, as
// kvalues_iq4nl in ggml.
var NonLinear = [16]int8{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// decodeIQ4_NL: d, then nibbles as in MXFP4; d·NonLinear[q].
func decodeIQ4_NL(dst []float32, b []byte) {
	d := half(b)
	for j, q := range b[2:18] {
		dst[j] = float32(NonLinear[q&15]) * d
		dst[j+16] = float32(NonLinear[q>>4]) * d
	}
}

// ScaleMin unpacks the 6-bit scale and minimum of sub-block t, 0 <= t < 8, from
// the 12 scale bytes of a Q4_K or Q5_K block (formats.md 4).
func ScaleMin(b []byte, t int) (scale, minimum byte) {
	if t < 4 {
		return b[t] & 63, b[t+4] & 63
	}
	return b[t+4]&15 | b[t-4]>>6<<4, b[t+4]>>4 | b[t]>>6<<4
}

// decodeQ4_K: d, dmin, 12 bytes for ScaleMin, 128 bytes of nibbles. Sub-blocks of 32
// elements have a scale and a minimum each: (d·scale)·q - dmin·minimum. Two of them share
// 32 bytes, the first in the low nibbles.
func decodeQ4_K(dst []float32, b []byte) {
	d, dmin := half(b), half(b[2:])
	for group := range 4 { // groups of 64 elements in 32 bytes
		sc0, mn0 := ScaleMin(b[4:16], 2*group)
		sc1, mn1 := ScaleMin(b[4:16], 2*group+1)
		d0, m0 := d*float32(sc0), dmin*float32(mn0)
		d1, m1 := d*float32(sc1), dmin*float32(mn1)
		y := dst[64*group:][:64]
		for at, q := range b[16+32*group:][:32] {
			y[at] = d0*float32(q&15) - m0
			y[at+32] = d1*float32(q>>4) - m1
		}
	}
}

// decodeQ5_K: as Q4_K with 32 bytes before the nibbles, of which bit s of byte l is the
// fifth bit of element l of sub-block s.
func decodeQ5_K(dst []float32, b []byte) {
	d, dmin := half(b), half(b[2:])
	qh := b[16:48]
	for group := range 4 {
		sc0, mn0 := ScaleMin(b[4:16], 2*group)
		sc1, mn1 := ScaleMin(b[4:16], 2*group+1)
		d0, m0 := d*float32(sc0), dmin*float32(mn0)
		d1, m1 := d*float32(sc1), dmin*float32(mn1)
		y := dst[64*group:][:64]
		for at, q := range b[48+32*group:][:32] {
			h := qh[at] >> (2 * group)
			y[at] = d0*float32(q&15|h&1<<4) - m0
			y[at+32] = d1*float32(q>>4|h>>1&1<<4) - m1
		}
	}
}

// decodeQ6_K: 128 bytes of low nibbles, 64 bytes of upper pairs of bits, 16 signed scales
// of 16 elements each, d; (d·scale)·(q-32).
func decodeQ6_K(dst []float32, b []byte) {
	d := half(b[208:])
	for half := range 2 { // halves of 128 elements
		y := dst[128*half:][:128]
		ql, qh, sc := b[64*half:][:64], b[128+32*half:][:32], b[192+8*half:][:8]
		for at, h := range qh {
			for k := range 4 { // elements l, l+32, l+64, l+96
				q := ql[at+k&1*32] >> (k >> 1 * 4) & 15
				q |= h >> (2 * k) & 3 << 4
				y[at+32*k] = d * float32(int8(sc[at/16+2*k])) * float32(int(q)-32)
			}
		}
	}
}
