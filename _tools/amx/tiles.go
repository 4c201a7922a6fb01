package main

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Eight tiles of at most 16 rows of 64 bytes: palette 1 of Intel's manual, volume 1, chapter 18.
const (
	tileCount = 8
	tileRows  = 16
	rowBytes  = 64
)

// A tile is the part of a register that is configured.
type tile struct {
	rows, bytes int // bytes of a row
	data        [tileRows][rowBytes]byte
}

// Tiles are those of one thread; none is configured at first.
type tiles [tileCount]tile

// configure takes what LDTILECFG reads: the palette, at 16 the bytes of a row of each tile, and at
// 48 their rows.
func (all *tiles) configure(config *[64]byte) error {
	*all = tiles{}
	if config[0] == 0 {
		return nil
	}
	if config[0] != 1 || config[1] != 0 {
		return fmt.Errorf("palette %d beginning in row %d: only palette 1 from row 0 on is known", config[0], config[1])
	}
	for i := range all {
		t := &all[i]
		t.bytes, t.rows = int(binary.LittleEndian.Uint16(config[16+2*i:])), int(config[48+i])
		if t.bytes > rowBytes || t.rows > tileRows {
			return fmt.Errorf("tile %d: %d rows of %d bytes, of at most 16 of 64", i, t.rows, t.bytes)
		}
	}
	return nil
}

// configured reports whether tiles may be used.
func (all *tiles) configured(numbers ...int) error {
	for _, i := range numbers {
		if all[i].rows == 0 || all[i].bytes == 0 {
			return fmt.Errorf("tile %d is not configured", i)
		}
	}
	return nil
}

// multiply is TDPBF16PS: to each of sums, in F32, it adds products of a row of left with a column of
// right. Elements of BF16 lie in pairs: those of right of two rows of the matrix it stands for. Even
// and odd products have a sum each, rounded once with each product; the two are added last.
// Subnormal numbers count as 0, as operands and as results.
func (all *tiles) multiply(sums, left, right int) error {
	c, a, b := &all[sums], &all[left], &all[right]
	if err := all.configured(sums, left, right); err != nil {
		return err
	}
	if sums == left || sums == right || left == right {
		return fmt.Errorf("tiles %d, %d and %d: the processor refuses one that is named twice", sums, left, right)
	}
	if c.bytes%4 != 0 || a.rows != c.rows || b.bytes != c.bytes || b.rows*4 != a.bytes {
		return fmt.Errorf("sums %d×%d, factors %d×%d and %d×%d (rows × bytes) do not fit", c.rows, c.bytes, a.rows, a.bytes, b.rows, b.bytes)
	}
	var even, odd [tileRows][rowBytes / 4]float32 // of right, as numbers
	for k := range b.rows {
		for n := range b.bytes / 4 {
			even[k][n], odd[k][n] = pair(b.data[k][4*n:])
		}
	}
	for m := range c.rows {
		var first, second [rowBytes / 4]float32
		for k := range b.rows {
			x, y := pair(a.data[m][4*k:])
			for n := range b.bytes / 4 {
				first[n] = multiplyAdd(x, even[k][n], first[n])
				second[n] = multiplyAdd(y, odd[k][n], second[n])
			}
		}
		for n := range c.bytes / 4 {
			at := c.data[m][4*n:]
			old := flush(math.Float32frombits(binary.LittleEndian.Uint32(at)))
			binary.LittleEndian.PutUint32(at, math.Float32bits(flush(old+flush(first[n]+second[n]))))
		}
	}
	return nil
}

// pair returns two elements of BF16.
func pair(bytes []byte) (even, odd float32) {
	both := binary.LittleEndian.Uint32(bytes)
	return flush(math.Float32frombits(both << 16)), flush(math.Float32frombits(both &^ 0xffff))
}

// flush makes a subnormal number 0 with its sign.
func flush(x float32) float32 {
	if bits := math.Float32bits(x); bits&0x7f800000 == 0 {
		return math.Float32frombits(bits & 0x80000000)
	}
	return x
}

// multiplyAdd returns x·y + z, rounded once. A product of BF16 is exact in float64. The sum there is
// exact, too, unless one of product and z is 2^29 times the other; then the sum in float64 is nearer
// to the larger, a number of float32, than to the middle between that and the next. So rounding it
// once more gives what rounding once gives.
func multiplyAdd(x, y, z float32) float32 {
	return flush(float32(float64(x)*float64(y) + float64(z)))
}
