package arith

import "math"

// Factors are the two matrices of a product by mma, 16 rows and 8 columns of 16 elements, widened. Sums
// are those of an H100 (see Dot). Rows and columns of zeros, which small models have many of, are not
// multiplied: they add nothing.
type Factors struct {
	Half  bool        // of f16, else bf16
	rows  [24]Sixteen // of the first one, then columns of the second
	any   [24]uint32  // of each of them: the bits that are set in some element
	wrong uint32      // not 0: an element is infinite or NaN
}

// Take widens a register of fragments: in four lanes each, two elements from a column on of eight rows.
// Eights 0 and 1 are the rows of the first matrix, 2 is the columns of the second.
func (f *Factors) Take(r *[32]uint32, eight, column int) {
	rows, set := f.rows[8*eight:][:8], f.any[8*eight:][:8]
	exponent, last := uint32(0x7f80_7f80), uint32(0x0080_0080)
	if f.Half {
		exponent, last = 0x7c00_7c00, 0x0400_0400
	}
	for lane, v := range r {
		if v == 0 { // as rows are
			continue
		}
		row, at := &rows[lane/4], (column+lane%4*2)&15
		if f.Half {
			row.Set(at, FromF16(v&0xffff))
			row.Set(at+1, FromF16(v>>16))
		} else {
			row.Set(at, F32(v<<16))
			row.Set(at+1, F32(v&^0xffff))
		}
		set[lane/4] |= v
		f.wrong |= (v&exponent + last) & 0x8000_8000 // carried from an exponent of ones
	}
}

// Add returns what becomes of a register of the sums, of four: two elements of a row in each lane, of rows
// 8 further on in the last two registers.
func (f *Factors) Add(register int, sums *[32]uint32) (out [32]uint32) {
	for lane := range sums {
		row, column := lane/4+register>>1*8, 16+lane%4*2+register&1
		if f.wrong != 0 || (f.any[row]&0x7fff_7fff != 0 && f.any[column]&0x7fff_7fff != 0) {
			out[lane] = Bits32(Dot(F32(sums[lane]), &f.rows[row], &f.rows[column]))
		} else {
			out[lane] = Bits32(F32(sums[lane]) + 0)
		}
	}
	return out
}

// A Sixteen is a row of 16 elements that a tensor core multiplies at once, of bf16 or f16.
type Sixteen struct {
	values    [16]float32
	exponents [16]int32 // of values, biased as in float32; of 0: none
}

// Exponents of what has none: 0, which never makes the largest of a sum, and what is infinite or NaN, which
// always does.
const (
	none    = -1 << 20
	endless = 1 << 22
)

// exponentOf returns the biased exponent of a float32.
func exponentOf(v float32) int32 {
	switch exponent := int32(Bits32(v) >> 23 & 0xff); {
	case v == 0:
		return none
	case exponent == 0xff:
		return endless
	default:
		return exponent
	}
}

// Set sets an element.
func (s *Sixteen) Set(i int, v float32) { s.values[i], s.exponents[i] = v, exponentOf(v) }

// fractionBits are the bits that a term of a sum keeps behind the binary point of the largest term.
const fractionBits = 25

// Dot adds the products of 16 pairs to start as the tensor core of an H100 does, which was found by
// recordings of one: no bit of 4,096 sums differs (emu/testdata/conformance). All 17 terms are aligned to
// the largest exponent, that of a product being the sum of its factors', and cut behind 25 bits; their sum
// is exact, and cut to float32.
func Dot(start float32, a, b *Sixteen) float32 {
	largest := exponentOf(start) + 127
	for i, exponent := range &a.exponents {
		largest = max(largest, exponent+b.exponents[i])
	}
	if largest < 0 || largest >= 2*127+126 { // all terms are zero; or the sum may be infinite, or one of them is
		return plainDot(start, a, b)
	}
	scale := math.Float64frombits(uint64(1023+2*127+fractionBits-largest) << 52)
	sum := int64(float64(start) * scale)
	for i, v := range &a.values {
		sum += int64(float64(v) * float64(b.values[i]) * scale)
	}
	return cut(float64(sum) / scale)
}

// cut rounds towards zero. The sum of 17 terms has fewer than 32 bits: v is exact.
func cut(v float64) float32 {
	const behind = 1<<29 - 1 // bits of float64 that float32 has not
	if exponent := math.Float64bits(v) >> 52 & 0x7ff; exponent > 1023-127 && exponent < 1023+128 {
		return float32(math.Float64frombits(math.Float64bits(v) &^ behind))
	}
	return float32(v)
}

// plainDot is the sum where terms are infinite, NaN or all zero.
func plainDot(start float32, a, b *Sixteen) float32 {
	for i, v := range &a.values {
		start += v * b.values[i]
	}
	return start
}
