package arith

// Factors are the two matrices of a product by mma, 16 rows and 8 columns of 16 elements, widened. The
// products of elements are exact, and sums are float32 in an order that is the emulator's own, as
// hardware has one of its own. Rows and columns of zeros, which small models have many of, are not
// multiplied: they add +0.
type Factors struct {
	Half  bool            // of f16, else bf16
	rows  [24][16]float32 // of the first one, then columns of the second
	any   [24]uint32      // of each of them: the bits that are set in some element
	wrong uint32          // not 0: an element is infinite or NaN
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
			row[at], row[at+1] = FromF16(v&0xffff), FromF16(v>>16)
		} else {
			row[at], row[at+1] = F32(v<<16), F32(v&^0xffff)
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
		sum := float32(0)
		if f.wrong != 0 || (f.any[row]&0x7fff_7fff != 0 && f.any[column]&0x7fff_7fff != 0) {
			sum = dot(&f.rows[row], &f.rows[column])
		}
		out[lane] = Bits32(F32(sums[lane]) + sum)
	}
	return out
}

// dot is the sum of the products of two rows.
func dot(a, b *[16]float32) float32 {
	var s0, s1, s2, s3 float32
	for i := 0; i < 16; i += 4 {
		s0 += a[i] * b[i]
		s1 += a[i+1] * b[i+1]
		s2 += a[i+2] * b[i+2]
		s3 += a[i+3] * b[i+3]
	}
	return (s0 + s1) + (s2 + s3)
}
