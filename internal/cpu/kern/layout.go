package kern

import (
	"encoding/binary"
	"math"

	"ossian/internal/tensor"
)

// A family is a packed form of weights. The first eight hold blocks of 32
// elements of 16 rows ("x16", kernels.md 5) and multiply with int8 activations;
// bf16x16 has them in words of two elements, and no scales; the others are rows as the
// checkpoint stores them.
//
// A row group of 16 rows lies in one piece: first the quants of all its blocks,
// then their scales. The quants of a block are 32-bit words, [word][row]: nibble
// families have 4 words, whose byte j holds elements 4z+j (low) and 16+4z+j
// (high) for word z; byte families have 8 words, byte j holding element 4z+j. A
// quant is unsigned: zero, a constant of the family, stands for the weight 0.
type family uint8

const (
	mx4     family = iota // E2M1 nibbles (doubled: 0..24 after the table); per block 16 E8M0 bytes
	q4                    // nibbles; per block 16 f16 scales
	q4m                   // nibbles; per block 16 f16 scales, 16 f16 minima
	q4k                   // nibbles; per 8 blocks 16 f16 d, 16 f16 -dmin; per block 16 u8 scales, 16 u8 minima
	q8                    // bytes; per block 16 f16 scales
	q5m                   // bytes; scales as q4m
	q5k                   // bytes; scales as q4k
	q6k                   // bytes; per 8 blocks 16 f16 d; per block 16 s8 scales of elements 0-15, 16 of elements 16-31
	bf16x16               // pairs of elements, no scales; multiplies activations in BF16, or none
	bf16                  // rows as stored
	f16
	f32
	e4m3 // keys and values only

	packed = q6k + 1 // the number of families that multiply int8
)

// super is how many blocks share the f16 factors of a K-quant.
const super = 8

// layouts are the sizes of the packed families.
var layouts = [packed + 1]struct {
	quants int   // bytes of the quants of a block of 16 rows
	scales int   // bytes of its scales
	head   int   // bytes before the scales of every 8 blocks
	zero   int32 // the quant that means 0
}{
	mx4: {quants: 256, scales: 16, zero: 12},
	q4:  {quants: 256, scales: 32, zero: 8},
	q4m: {quants: 256, scales: 64},
	q4k: {quants: 256, scales: 32, head: 64},
	q8:  {quants: 512, scales: 32, zero: 128},
	q5m: {quants: 512, scales: 64},
	q5k: {quants: 512, scales: 32, head: 64},
	q6k: {quants: 512, scales: 32, head: 32, zero: 32},

	bf16x16: {quants: 1024},
}

func (f family) nibbles() bool { return f <= q4k }

// minima reports whether weights are scale·quant + minimum.
func (f family) minima() bool { return f == q4m || f == q4k || f == q5m || f == q5k }

// groupBytes returns the bytes of a row group of nb blocks, a multiple of 64 so
// that every group starts at a cache line.
func (f family) groupBytes(nb int) int {
	layout := &layouts[f]
	return (nb*(layout.quants+layout.scales) + nb/super*layout.head + 63) &^ 63
}

// scalesAt returns the offset of the scales of block b from those of the group.
func (f family) scalesAt(b int) int {
	layout := &layouts[f]
	if layout.head == 0 {
		return b * layout.scales
	}
	return b*layout.scales + (b/super+1)*layout.head
}

// family returns the family that keeps t with these options.
func (o Options) family(t *tensor.Tensor) (f family, ok bool) {
	f, ok = familyOf(t.DType)
	switch {
	case o.Q8 && f > packed:
		return q8, ok
	case ok && f == bf16 && o.BF16 && t.Cols()%bf16Block == 0:
		return bf16x16, true
	}
	return f, ok
}

// familyOf returns the family that keeps weights of a type unless options say otherwise; there is none for types that
// are no weights.
func familyOf(t tensor.DType) (f family, ok bool) {
	switch t {
	case tensor.MXFP4, tensor.MXFP4HF:
		return mx4, true
	case tensor.Q4_0:
		return q4, true
	case tensor.Q4_1:
		return q4m, true
	case tensor.Q4_K:
		return q4k, true
	case tensor.Q8_0, tensor.Q5_0, tensor.IQ4_NL: // the quants of the latter two need fewer bits, or few of the values
		return q8, true
	case tensor.Q5_1:
		return q5m, true
	case tensor.Q5_K:
		return q5k, true
	case tensor.Q6_K:
		return q6k, true
	case tensor.BF16:
		return bf16, true
	case tensor.F16:
		return f16, true
	case tensor.F32:
		return f32, true
	}
	return 0, false
}

// A group is one row group of a packed family. Throughout this file b is a block of it, r
// one of its 16 rows, and z a word of a block's quants.
type group struct {
	f      family
	quants []byte
	scales []byte
}

// group lays a group of nb blocks over b, which has groupBytes(nb).
func (f family) group(b []byte, nb int) group {
	n := nb * layouts[f].quants
	return group{f: f, quants: b[:n:n], scales: b[n:]}
}

// nibs stores the 16 nibble bytes of block b, row r, in canonical order.
func (g group) nibs(b, r int, lo, hi uint64) {
	d := (*[192 + 4]byte)(g.quants[b*256+4*r:])
	binary.LittleEndian.PutUint32(d[0:], uint32(lo))
	binary.LittleEndian.PutUint32(d[64:], uint32(lo>>32))
	binary.LittleEndian.PutUint32(d[128:], uint32(hi))
	binary.LittleEndian.PutUint32(d[192:], uint32(hi>>32))
}

// bytes stores the 32 quants of block b, row r, each exclusive-ored with flip.
func (g group) bytes(b, r int, src []byte, flip uint64) {
	d, s := (*[448 + 4]byte)(g.quants[b*512+4*r:]), (*[32]byte)(src)
	for z := range 4 {
		v := binary.LittleEndian.Uint64(s[8*z:]) ^ flip
		binary.LittleEndian.PutUint32(d[128*z:], uint32(v))
		binary.LittleEndian.PutUint32(d[128*z+64:], uint32(v>>32))
	}
}

// put copies 16-bit factor i (0 scale, 1 minimum) of the block or of its eight.
func put(s []byte, i, r int, src []byte) { copy(s[32*i+2*r:][:2], src) }

// Masks of eight bytes: their low and high nibbles, lowest bits, lowest pairs, and signs.
const (
	low4   = 0x0f0f0f0f0f0f0f0f
	high4  = 0xf0f0f0f0f0f0f0f0
	bits1  = 0x0101010101010101
	bits2  = 0x0303030303030303
	signs8 = 0x8080808080808080
)

// pack stores a row as row r of the group.
func (g group) pack(r int, row tensor.Row) {
	data := row.Data
	_, size := row.DType.Block()
	le := binary.LittleEndian
	// Types before Q4_K have blocks of 32 elements, as the group has; K-quants have super of them
	// in one block.
	for b := 0; b*size < len(data) && row.DType < tensor.Q4_K; b++ {
		blk, s := data[b*size:][:size], g.scales[g.f.scalesAt(b):]
		switch row.DType {
		case tensor.MXFP4:
			s[r] = blk[0]
			g.nibs(b, r, le.Uint64(blk[1:]), le.Uint64(blk[9:]))
		case tensor.MXFP4HF:
			s[r] = row.Scales[b]
			lo, hi := splitHalves(le.Uint64(blk), le.Uint64(blk[8:]))
			g.nibs(b, r, lo, hi)
		case tensor.Q4_0:
			put(s, 0, r, blk)
			g.nibs(b, r, le.Uint64(blk[2:]), le.Uint64(blk[10:]))
		case tensor.Q4_1:
			put(s, 0, r, blk)
			put(s, 1, r, blk[2:])
			g.nibs(b, r, le.Uint64(blk[4:]), le.Uint64(blk[12:]))
		case tensor.Q5_0:
			put(s, 0, r, blk)
			quants := quants5(blk[2:])
			for k := range quants { // from 16 for the weight 0 to that of the family
				quants[k] += byte(layouts[q8].zero) - 16
			}
			g.bytes(b, r, quants[:], 0)
		case tensor.IQ4_NL:
			put(s, 0, r, blk)
			var quants [32]byte
			for j, nibbles := range blk[2:18] {
				quants[j], quants[16+j] = byte(tensor.NonLinear[nibbles&15]), byte(tensor.NonLinear[nibbles>>4])
			}
			g.bytes(b, r, quants[:], signs8)
		case tensor.Q5_1:
			put(s, 0, r, blk)
			put(s, 1, r, blk[2:])
			quants := quants5(blk[4:])
			g.bytes(b, r, quants[:], 0)
		case tensor.Q8_0:
			put(s, 0, r, blk)
			g.bytes(b, r, blk[2:], signs8)
		}
	}
	for b := 0; b*size < len(data) && row.DType >= tensor.Q4_K; b++ {
		g.packK(b*super, r, row.DType, data[b*size:][:size])
	}
}

// quants5 returns the 5-bit quants of a Q5_0 or Q5_1 block behind its factors: fifth bits,
// then nibbles.
func quants5(blk []byte) (quants [32]byte) {
	fifth := binary.LittleEndian.Uint32(blk)
	for j, nibbles := range blk[4:20] {
		quants[j] = nibbles&15 | byte(fifth>>j&1)<<4
		quants[16+j] = nibbles>>4 | byte(fifth>>(16+j)&1)<<4
	}
	return quants
}

// packFloats stores x as row r of a group of q8: per block the least f16 scale of
// max|x|/127 or more that rounding gives, and the quants nearest to x/scale. What is
// not finite, or too large for an f16 scale, makes the block NaN.
func (g group) packFloats(r int, x []float32) {
	for b := range len(x) / 32 {
		xs, top := x[32*b:][:32], float32(0)
		for _, v := range xs {
			top = max(top, math.Float32frombits(math.Float32bits(v)&^(1<<31)))
		}
		half := tensor.ToHalf(top / 127)
		if top > 127.49*tensor.Half(half) { // the scale was rounded down so far that 127 would not do
			half++
		}
		inv := float32(0)
		if half != 0 {
			inv = 1 / tensor.Half(half)
		}
		var q [32]byte
		for k, v := range xs {
			q[k] = byte(roundInt8(float32(v * inv))) // rounded, whatever the compiler fuses: packed bytes outlive a build
		}
		binary.LittleEndian.PutUint16(g.scales[g.f.scalesAt(b)+2*r:], half)
		g.bytes(b, r, q[:], signs8)
	}
}

// large reports whether a scale of a group of mx4 is 2^97 or more, which tile kernels
// take for granted it is not.
func (g group) large() bool {
	var top uint64
	for s := g.scales; len(s) >= 8; s = s[8:] {
		v := binary.LittleEndian.Uint64(s)
		top |= v & (v << 1) & (v << 2) // an exponent of 224 or more has the three upper bits
	}
	return top&signs8 != 0
}

// splitHalves turns 32 nibbles in the order of models.md 1.6 (element 2b low, 2b+1 high in
// byte b; the bytes in a, b) into that of formats.md 4 (element j low, j+16 high in byte j).
func splitHalves(a, b uint64) (lo, hi uint64) {
	even := a&low4 | b&low4<<4
	odd := a>>4&low4 | b&high4
	return spread(even) | spread(odd)<<8, spread(even>>32) | spread(odd>>32)<<8
}

// spread moves the low four bytes of v to the even bytes.
func spread(v uint64) uint64 {
	v &= 0xffffffff
	v = (v | v<<16) & 0x0000ffff0000ffff
	return (v | v<<8) & 0x00ff00ff00ff00ff
}

// packK stores the 256 elements of a K-quant block, formats.md 4, as blocks b0 to
// b0+7 of row r.
func (g group) packK(b0, r int, t tensor.DType, blk []byte) {
	head := g.scales[g.f.scalesAt(b0)-layouts[g.f].head:]
	if t == tensor.Q6_K {
		put(head, 0, r, blk[208:])
		g.packQ6(b0, r, blk)
		return
	}
	put(head, 0, r, blk)
	put(head, 1, r, []byte{blk[2], blk[3] ^ 0x80}) // -dmin: kernels add the minimum
	for i := range super {
		s := g.scales[g.f.scalesAt(b0+i):]
		s[r], s[16+r] = scaleMin(blk[4:16], i)
	}
	if t == tensor.Q5_K {
		g.packQ5(b0, r, blk[16:48], blk[48:])
		return
	}
	// 32 bytes hold two blocks: low nibbles, then high ones.
	le := binary.LittleEndian
	for c := range 4 {
		var v [4]uint64
		for i := range v {
			v[i] = le.Uint64(blk[16+32*c+8*i:])
		}
		g.nibs(b0+2*c, r, v[0]&low4|v[2]&low4<<4, v[1]&low4|v[3]&low4<<4)
		g.nibs(b0+2*c+1, r, v[0]>>4&low4|v[2]&high4, v[1]>>4&low4|v[3]&high4)
	}
}

// scaleMin unpacks the 6-bit scale and minimum of sub-block t, formats.md 4.
func scaleMin(b []byte, t int) (sc, mn byte) {
	if t < 4 {
		return b[t] & 63, b[t+4] & 63
	}
	return b[t+4]&15 | b[t-4]>>6<<4, b[t+4]>>4 | b[t]>>6<<4
}

// packQ5 stores the 256 quants of Q5_K, formats.md 4: nibbles in qs, fifth bits in qh.
func (g group) packQ5(b0, r int, qh, qs []byte) {
	le := binary.LittleEndian
	var lo, hi [32]byte
	for c := range 4 {
		for i := 0; i < 32; i += 8 {
			v, h := le.Uint64(qs[32*c+i:]), le.Uint64(qh[i:])>>(2*c)
			le.PutUint64(lo[i:], v&low4|h&bits1<<4)
			le.PutUint64(hi[i:], v>>4&low4|h>>1&bits1<<4)
		}
		g.bytes(b0+2*c, r, lo[:], 0)
		g.bytes(b0+2*c+1, r, hi[:], 0)
	}
}

// packQ6 stores the 256 quants and the 16 scales of Q6_K, formats.md 4: nibbles, then upper
// pairs of bits, each half of the block by itself.
func (g group) packQ6(b0, r int, blk []byte) {
	le := binary.LittleEndian
	var q [4][32]byte
	for half := range 2 {
		ql, qh := blk[64*half:][:64], blk[128+32*half:][:32]
		for i := 0; i < 32; i += 8 {
			a, b, h := le.Uint64(ql[i:]), le.Uint64(ql[32+i:]), le.Uint64(qh[i:])
			le.PutUint64(q[0][i:], a&low4|h&bits2<<4)
			le.PutUint64(q[1][i:], b&low4|h>>2&bits2<<4)
			le.PutUint64(q[2][i:], a>>4&low4|h>>4&bits2<<4)
			le.PutUint64(q[3][i:], b>>4&low4|h>>6&bits2<<4)
		}
		for i := range q {
			b := b0 + 4*half + i
			s := g.scales[g.f.scalesAt(b):]
			s[r], s[16+r] = blk[192+8*half+2*i], blk[192+8*half+2*i+1]
			g.bytes(b, r, q[i][:], 0)
		}
	}
}

// factors returns what turns the quants of block b, row r into weights:
// scale0·(quant-zero) + minimum for elements 0-15, scale1 for the others. All
// are exact: a product of an f16 and an 8-bit integer fits a float32.
func (g group) factors(b, r int) (scale0, scale1, minimum float32) {
	scales := g.scales[g.f.scalesAt(b):]
	half := func(scales []byte, i int) float32 { return tensor.Half(binary.LittleEndian.Uint16(scales[32*i+2*r:])) }
	switch g.f {
	case mx4:
		scale0 = tensor.E8M0Half(scales[r])
	case q4, q8:
		scale0 = half(scales, 0)
	case q4m, q5m:
		return half(scales, 0), half(scales, 0), half(scales, 1)
	case q4k, q5k:
		head := g.scales[g.f.scalesAt(b&^(super-1))-layouts[g.f].head:]
		scale0 = half(head, 0) * float32(scales[r])
		return scale0, scale0, half(head, 1) * float32(scales[16+r])
	case q6k:
		head := g.scales[g.f.scalesAt(b&^(super-1))-layouts[g.f].head:]
		unit := half(head, 0)
		return unit * float32(int8(scales[r])), unit * float32(int8(scales[16+r])), 0
	}
	return scale0, scale0, 0
}

// unpack writes the quants of block b, row r.
func (g group) unpack(b, r int, q *[32]uint8) {
	if !g.f.nibbles() {
		w := g.quants[b*512+4*r:]
		for z := range 8 {
			copy(q[4*z:4*z+4], w[64*z:])
		}
		return
	}
	lut := &nibbles
	if g.f == mx4 {
		lut = &e2m1
	}
	w := (*[192 + 4]byte)(g.quants[b*256+4*r:]) // word z of a row is 64 bytes behind word z-1
	for z := range 4 {
		for j := range 4 {
			v := w[64*z+j]
			q[4*z+j], q[16+4*z+j] = lut[v&15], lut[v>>4]
		}
	}
}

// The quants of nibbles, as the kernels' tables have them: e2m1 is twice the value of
// each code, + 12.
var (
	nibbles = [16]uint8{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	e2m1    = [16]uint8{12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0}
)

// floats decodes row r exactly as tensor.Row.Floats does.
func (g group) floats(r int, dst []float32) {
	if g.f == bf16x16 {
		g.bf16Floats(r, dst)
		return
	}
	zero := layouts[g.f].zero
	var q [32]uint8
	for b := range len(dst) / 32 {
		g.unpack(b, r, &q)
		scale0, scale1, minimum := g.factors(b, r)
		d := dst[32*b:][:32]
		for k := range 16 {
			d[k] = float32(int32(q[k])-zero)*scale0 + minimum
			d[16+k] = float32(int32(q[16+k])-zero)*scale1 + minimum
		}
	}
}
