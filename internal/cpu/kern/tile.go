package kern

import (
	"encoding/binary"
	"math"
	"unsafe"

	"ossian/internal/tensor"
)

// In this file and in the assembly, a is an activation tile in bytes, T its rows and t one of
// them, nb the blocks of 32 elements in a row and b one of them, r a weight row of its group.

// An activation tile holds T rows, quantised to int8 in blocks of 32. Block b
// takes 44·T bytes: T·32 int8 quants, then T float32 scales, T int32 and T
// 32-bit words whose meaning depends on the family (finish).
const tileBytes = 44

// maxTile is the most rows of an activation tile, the registers' limit.
const maxTile = 16

// tileRows returns how many of n rows the next tile takes. With AVX-512 there are
// kernels for 1 to 6 rows, for 7 of nibbles, and for 2 to 6 of two row groups at a time; of
// q6k for 1 to 8, 12 and 16; with NEON alone for 1
// and 2, with the others for 1 to 4.
func (f family) tileRows(l Level, n int) int {
	switch {
	case l == Go:
		return min(n, maxTile)
	case l == NEON:
		return min(n, 2)
	case !l.wide():
		return min(n, 4)
	case f.pairs(l) && (n > maxPair+1 || (n > maxPair && !f.nibbles())): // as even as may be, so that none is small
		tiles := (n + maxPair - 1) / maxPair
		return (n + tiles - 1) / tiles
	case n >= 16:
		return 16
	case n >= 12:
		return 12
	}
	return min(n, 8)
}

// quantise writes row x as row t of a tile of T rows. Per block of 32:
// scale = max|x|/127, quant = round to even(x·(127/max|x|)). A block with an
// infinity or a NaN gets it as its scale, which then reaches the results.
// The words after the scales are the sums of quants 0-15 and 16-31.
func (l Level) quantise(x []float32, a []byte, T, t int) {
	_ = a[:tileBytes*T*(len(x)/32)]
	if l == Go {
		quantiseGo(x, a, T, t)
		return
	}
	quantiseAsm(l, &x[0], len(x)/32, &a[32*t], &a[32*T+4*t], 4*T, tileBytes*T)
}

// residual writes to rest what the quants of row t of a tile leave of x:
// x - quant·scale.
func (l Level) residual(x []float32, a []byte, T, t int, rest []float32) {
	nb := len(x) / 32
	_, _ = a[:tileBytes*T*nb], rest[:len(x)]
	if l == Go {
		residualGo(x, a, T, t, rest)
		return
	}
	residualAsm(l, &x[0], nb, &a[32*t], &a[32*T+4*t], tileBytes*T, &rest[0])
}

// tile multiplies a row group with an activation tile; see tileGo.
func (l Level) tile(g group, a []byte, nb, T int, bias *[groupRows]float32, y *[maxTile * groupRows]float32) {
	_, _, _ = g.quants[:nb*layouts[g.f].quants], g.scales[:g.f.scalesAt(nb-1)+layouts[g.f].scales], a[:tileBytes*T*nb]
	if l == Go {
		g.tileGo(a, nb, T, bias[:], y[:])
		return
	}
	tileKernel(l, g.f, T, &g.quants[0], &g.scales[0], &a[0], nb, &bias[0], &y[0])
}

// The rows of a tile for which there are kernels for two row groups.
const minPair, maxPair = 2, 6

// pairs reports whether a level has kernels for two row groups of a family.
func (f family) pairs(l Level) bool { return l.wide() && f < q6k }

// pair is tile for row group i of matrix e and the next, whose 32 results for row t
// go to y[t]. T is minPair to maxPair; with Options.Fine it is even, and the second
// half are residuals, whose products have been added. Meanwhile memory from ahead on
// is fetched, so many lines of 64 bytes with every block.
func (m *Matrix) pair(e, i int, a []byte, T int, ahead *byte, lines int, bias *[2 * groupRows]float32, y *[maxPair]*[2 * groupRows]float32) {
	nb := m.in / 32
	data := m.mem[(e*m.groups+i)*m.size:][:2*m.size] // and no group: what is stored to be loaded in other pieces waits for all stores before
	_ = a[:tileBytes*T*nb]
	pairKernel(m.fam, T, m.opt.Fine, &data[0], &data[nb*layouts[m.fam].quants], &a[0], ahead, lines, nb, m.size, &bias[0], (**float32)(unsafe.Pointer(y)))
}

// oneRow is tile for whole row groups i to i+groups-1 of matrix e and one activation row, with
// Options.Fine and its residual, whose products have been added. The results, 16 for each
// group, go to y; bias is as long, or nil.
func (m *Matrix) oneRow(e, i, groups int, a []byte, bias, y []float32) {
	b, step, second := m.mem[(e*m.groups+i)*m.size:][:groups*m.size], 4*groupRows, 1
	if fetchesPages {
		second = 0
	}
	if y = y[:groups*groupRows]; bias == nil {
		step = 0
	}
	for streams := m.opt.Fetch.Streams; groups > 0; streams = 1 { // an odd group is left for one stream
		each, start := groups/streams, &noBias[0]
		if each == 0 {
			continue
		}
		if bias != nil {
			start, bias = &bias[:each*streams*groupRows][0], bias[each*streams*groupRows:]
		}
		oneRowKernel(m.opt.Level, m.fam, m.opt.Fine, streams, &b[0], &a[0], m.in/32, each, m.size, m.opt.Fetch.Ahead, second, start, step, &y[0])
		groups, b, y = groups-each*streams, b[each*streams*m.size:], y[each*streams*groupRows:]
	}
}

// noBias is added where there is no bias.
var noBias [groupRows]float32

const tinyBits = 0x0da24260 // 1e-30: keeps the reciprocal finite; smaller activations become 0

// quantiseGo defines quantise.
func quantiseGo(x []float32, a []byte, T, t int) {
	for b := range len(x) / 32 {
		blk := a[b*tileBytes*T:]
		xs := x[b*32:][:32]
		top := uint32(tinyBits)
		for _, v := range xs { // as integers, so that a NaN is the largest
			top = max(top, math.Float32bits(v)&0x7fffffff)
		}
		big := math.Float32frombits(top)
		inv := 127 / big
		q := blk[32*t:][:32]
		var sums [2]int32
		for k, v := range xs {
			n := roundInt8(float32(v * inv))
			q[k] = byte(n)
			sums[k/16] += n
		}
		s := blk[32*T+4*t:]
		binary.LittleEndian.PutUint32(s, math.Float32bits(big/127))
		binary.LittleEndian.PutUint32(s[4*T:], uint32(sums[0]))
		binary.LittleEndian.PutUint32(s[8*T:], uint32(sums[1]))
	}
}

// residualGo defines residual.
func residualGo(x []float32, a []byte, T, t int, rest []float32) {
	for b := range len(x) / 32 {
		blk := a[b*tileBytes*T:]
		scale := math.Float32frombits(binary.LittleEndian.Uint32(blk[32*T+4*t:]))
		for k, q := range blk[32*t:][:32] {
			rest[b*32+k] = fma(-float32(int8(q)), scale, x[b*32+k])
		}
	}
}

// roundInt8 rounds to even; a NaN gives -127.
func roundInt8(v float32) int32 {
	if !(v > -127) {
		return -127
	}
	const magic, magicBits = 3 << 22, 0x4b400000 // at this size the last bit of a float32 is worth 1
	return int32(math.Float32bits(v+magic) - magicBits)
}

// finish turns the sums of quants 0-15 and 16-31, as quantise leaves them for
// row t, into what the family's kernels start from.
func (f family) finish(a []byte, nb, T, t int) {
	zero := layouts[f].zero
	for b := range nb {
		s := a[b*tileBytes*T+32*T+4*t:][: 8*T+4 : 8*T+4]
		s0, s1 := int32(binary.LittleEndian.Uint32(s[4*T:])), int32(binary.LittleEndian.Uint32(s[8*T:]))
		switch {
		case f == q6k: // a sum to start from for each half
			s0, s1 = -zero*s0, -zero*s1
		case f.minima(): // nothing, and scale·sum for the minimum
			scale := math.Float32frombits(binary.LittleEndian.Uint32(s))
			s0, s1 = 0, int32(math.Float32bits(scale*float32(s0+s1)))
		default: // a sum to start from
			s0, s1 = -zero*(s0+s1), 0
		}
		if f == mx4 { // E2M1 values are doubled in the kernels
			scale := math.Float32frombits(binary.LittleEndian.Uint32(s))
			binary.LittleEndian.PutUint32(s, math.Float32bits(scale/2))
		}
		binary.LittleEndian.PutUint32(s[4*T:], uint32(s0))
		binary.LittleEndian.PutUint32(s[8*T:], uint32(s1))
	}
}

// tileGo multiplies a row group with an activation tile: y[t][r], 16 floats per
// row t. It is the definition of the generated kernels. Per block, in order:
//
//	acc = fma(float(Σ quant·int8 - zero·Σ int8) · x scale, weight scale, acc)
//	acc = fma(minimum, x scale·Σ int8, acc)
//
// and at the end acc + bias. The scales of mx4, powers of two, change places with
// those of x: their product with the sum is exact.
func (g group) tileGo(a []byte, nb, T int, bias, y []float32) {
	var acc [maxTile][groupRows]float32
	var w [32]uint8
	for b := range nb {
		blk := a[b*tileBytes*T:][:tileBytes*T]
		aux := blk[32*T:]
		word := func(i, t int) uint32 { return binary.LittleEndian.Uint32(aux[4*(i*T+t):]) }
		for r := range groupRows {
			g.unpack(b, r, &w)
			scale0, _, minimum := g.factors(b, r)
			if g.f == mx4 {
				scale0 *= 2 // the tile's scale is halved instead: exact
			}
			for t := range T {
				q := (*[32]byte)(blk[32*t:])
				sum0 := dot16((*[16]uint8)(w[:16]), (*[16]byte)(q[:16]))
				sum1 := dot16((*[16]uint8)(w[16:]), (*[16]byte)(q[16:]))
				scale := math.Float32frombits(word(0, t))
				c := &acc[t][r]
				if g.f == q6k {
					*c = g.halves(b, r, sum0+int32(word(1, t)), sum1+int32(word(2, t)), scale, *c)
					continue
				}
				sum := float32(sum0 + sum1 + int32(word(1, t)))
				if g.f == mx4 {
					*c = fma(sum*scale0, scale, *c)
					continue
				}
				*c = fma(sum*scale, scale0, *c)
				if g.f.minima() {
					*c = fma(minimum, math.Float32frombits(word(2, t)), *c)
				}
			}
		}
	}
	for t := range T {
		for r := range groupRows {
			y[t*groupRows+r] = acc[t][r] + bias[r]
		}
	}
}

// halves is the step of q6k: the two integer scales apply before that of the
// activations, exactly, since |Σ|·|scale| < 2^24.
func (g group) halves(b, r int, sum0, sum1 int32, scale, acc float32) float32 {
	s := g.scales[g.f.scalesAt(b):]
	head := g.scales[g.f.scalesAt(b&^(super-1))-layouts[g.f].head:]
	d := tensor.Half(binary.LittleEndian.Uint16(head[2*r:]))
	v := sum0*int32(int8(s[r])) + sum1*int32(int8(s[16+r]))
	return fma(float32(v)*scale, d, acc)
}

// dot16 is written out: the portable product spends its time here.
func dot16(u *[16]uint8, v *[16]byte) int32 {
	m := func(k int) int32 { return int32(u[k]) * int32(int8(v[k])) }
	return m(0) + m(1) + m(2) + m(3) + m(4) + m(5) + m(6) + m(7) +
		m(8) + m(9) + m(10) + m(11) + m(12) + m(13) + m(14) + m(15)
}

// fma returns a·b + c rounded once, as the instruction of that name does. In float64 the
// product is exact, and its sum rounded once more: that shows only where it lies halfway
// between two float32, of which those below 2^-126 are closer together than a mask tells.
func fma(a, b, c float32) float32 {
	product, addend := float64(a)*float64(b), float64(c)
	sum := product + addend
	const halfway, below = 1 << 28, 1<<29 - 1
	if math.Float64bits(sum)&below != halfway && math.Abs(sum) >= leastNormal {
		return float32(sum)
	}
	return float32(sumToOdd(product, addend))
}

// sumToOdd returns a + b, its last bit made odd where it is not exact: then a further rounding
// to a float32 gives that of the exact sum.
func sumToOdd(a, b float64) float64 {
	sum := a + b
	// What the sum lacks, exactly (D. E. Knuth, The Art of Computer Programming 2, 4.2.2).
	part := sum - a
	lacks := (a - (sum - part)) + (b - part)
	bits := math.Float64bits(sum)
	if bits&1 == 1 || !(lacks > 0 || lacks < 0) { // a NaN is neither
		return sum
	}
	if (lacks > 0) == (sum > 0) {
		return math.Float64frombits(bits + 1)
	}
	return math.Float64frombits(bits - 1)
}
