package kern

import (
	"encoding/binary"
	"math"
	"runtime"
	"unsafe"

	"ossian/internal/tensor"
)

// Products of BF16 weights with activations rounded to BF16 (Options.BF16). The weights lie in
// row groups (bf16x16) in words of two elements, word by word: what an instruction for tiles
// wants, and what others multiply with one activation at a time, each row in a lane of its own.
//
// There are two orders of sums (bf16Go), because the instructions have two. A machine has one
// of them on all its levels, for any number of rows, and all levels agree bit for bit. Whatever is
// below 2^-126, a weight, an activation or a sum, counts as 0.

// bf16Block is how many elements of a row a tile of weights has.
const bf16Block = 32

// maxTileAMX is the most rows of an activation tile for the level AMX, two of the machine's.
const maxTileAMX = 32

// BF16Bytes returns the bytes of a row of n activations rounded to BF16.
func (l Level) BF16Bytes(n int) int {
	if l.pairs() {
		return 2 * n
	}
	return 4 * n
}

// bf16Rows returns how many of n rows the next tile takes: as many as kernels take at most, or
// so that no tile is small.
func (l Level) bf16Rows(n int) int {
	most := maxTile
	switch {
	case l == AMX:
		most = maxTileAMX
	case l.wide() && chained:
		most = 12
	case l.wide():
		most = 8
	case l == AVX2 && chained:
		most = 6
	case l == AVX2:
		most = 3
	case l.neon() && l.pairs():
		most = 6
	case l.neon():
		most = 5
	}
	tiles := (n + most - 1) / most
	return (n + tiles - 1) / tiles
}

// roundBF16 rounds x, whole blocks, into row t of a tile of T rows: block by block of the
// tile, row by row.
func (l Level) roundBF16(tile []byte, T, t int, x []float32) {
	size := l.BF16Bytes(bf16Block)
	_ = tile[:T*l.BF16Bytes(len(x))]
	if l.bf16Vectors() {
		roundPairsAsm(&tile[t*size], &x[0], len(x)/bf16Block, T*size)
		return
	}
	var halves [16][bf16Block]uint16 // some blocks at a time, for a call costs as much as a block
	for b := 0; b*bf16Block < len(x); {
		count := min(len(x)/bf16Block-b, len(halves))
		flat := unsafe.Slice(&halves[0][0], count*bf16Block)
		ToBF16(l, flat, x[b*bf16Block:][:len(flat)])
		for i := range count {
			to, half := unsafe.Pointer(&tile[((b+i)*T+t)*size]), &halves[i]
			if l.pairs() {
				*(*[bf16Block]uint16)(to) = *half
				continue
			}
			for k, v := range half {
				(*[bf16Block]float32)(to)[k] = tensor.BF16ToFloat(v)
			}
		}
		b += count
	}
}

// bf16Tile computes y[t·16G+16g+r] = w[g][r]·x[t] for G row groups of nb blocks, size bytes
// apart, and a tile of T rows, and asks for weights ahead bytes further on, drift more with every
// block; G is 1 or that of bf16Together. It is for the levels below AMX.
func (l Level) bf16Tile(w []byte, size, G, ahead, drift int, tile []byte, nb, T int, y []float32) {
	_, _, _ = w[:(G-1)*size+nb*layouts[bf16x16].quants], tile[:nb*T*l.BF16Bytes(bf16Block)], y[:T*G*groupRows]
	if !l.hasBF16() {
		bf16Go(w, tile, nb, T, y)
		return
	}
	bf16Asm(l, T, G, &w[0], &tile[0], nb, size, ahead, drift, &y[0])
}

// bf16Together returns how many row groups are read side by side for so many tiles, of T rows. One
// row in one sum keeps the multipliers busy with four; else few rows wait for memory.
func (l Level) bf16Together(T, tiles, streams int) int {
	switch {
	case l.bf16Vectors():
		return 2
	case !l.wide() || T > 6 || tiles > 1:
		return 1
	case T == 1 && streams == 1:
		return 4
	}
	return streams
}

// bf16Vectors reports whether the level multiplies pairs of BF16 in vectors of AVX-512.
func (l Level) bf16Vectors() bool { return l == AVX512 && l.pairs() }

// bf16Go defines the order of sums. In blocks of 32, of their own from zero, sums of the products
// of even elements and of odd ones; then both together are added to what the blocks before
// gave (TDPBF16PS). Where the machine is chained, one sum: of each pair the odd product, then
// the even one (VDPBF16PS; BFMLALT, then BFMLALB).
func bf16Go(w, tile []byte, nb, T int, y []float32) {
	clear(y[:T*groupRows])
	for b := range nb {
		weights := w[b*layouts[bf16x16].quants:][:layouts[bf16x16].quants]
		for t := range T {
			x := (*[bf16Block]float32)(unsafe.Pointer(&tile[(b*T+t)*4*bf16Block]))
			for r := range groupRows {
				sum := &y[t*groupRows+r]
				var even, odd float32
				for k := range bf16Block / 2 {
					pair := binary.LittleEndian.Uint32(weights[64*k+4*r:])
					low, high := math.Float32frombits(pair<<16), math.Float32frombits(pair&0xffff0000)
					if chained {
						*sum = fmaFlushed(low, x[2*k], fmaFlushed(high, x[2*k+1], *sum))
						continue
					}
					even, odd = fmaFlushed(low, x[2*k], even), fmaFlushed(high, x[2*k+1], odd)
				}
				if !chained {
					*sum = flushed(*sum + flushed(even+odd))
				}
			}
		}
	}
}

// leastNormal is the least magnitude that flushed keeps.
const leastNormal = 0x1p-126

// flushed is v, or a zero of its sign if it is smaller than float32 numbers normally are.
func flushed(v float32) float32 {
	if v < leastNormal && v > -leastNormal {
		return v * 0
	}
	return v
}

// fmaFlushed is a·b+c rounded once, a and b being BF16 and c flushed; whatever is below 2^-126
// counts as 0.
func fmaFlushed(a, b, c float32) float32 {
	a, b = flushed(a), flushed(b)
	product := a * b // exact, since it has 16 bits, unless it is very small or very large
	if size := product * product; (size >= 0x1p-120 && size < math.MaxFloat32) || a == 0 || b == 0 {
		return flushed(product + c)
	}
	return fmaRare(a, b, c)
}

// fmaRare is fmaFlushed for products of any size.
func fmaRare(a, b, c float32) float32 {
	sum := sumToOdd(float64(a)*float64(b), float64(c))
	if size := math.Abs(sum); size < leastNormal { // amd64 takes what rounds to the least for that, arm64 for 0
		if size >= leastNormal*(1-0x1p-25) && !flushesFirst {
			return float32(math.Copysign(leastNormal, sum))
		}
		return float32(math.Copysign(0, sum))
	}
	return flushed(float32(sum))
}

// flushesFirst reports whether kernels look at what is below 2^-126 before they round it.
const flushesFirst = runtime.GOARCH == "arm64"

// packBF16 packs rows of data into the row group mem, word by word.
func packBF16(mem []byte, rows [][]byte) {
	for r, data := range rows {
		for k := 0; k+4 <= len(data); k += 4 {
			*(*[4]byte)(mem[16*k+4*r:]) = *(*[4]byte)(data[k:])
		}
	}
}

// bf16Floats decodes row r of the group to dst.
func (g group) bf16Floats(r int, dst []float32) {
	for k := 0; k+2 <= len(dst); k += 2 {
		pair := binary.LittleEndian.Uint32(g.quants[32*k+4*r:])
		dst[k], dst[k+1] = math.Float32frombits(pair<<16), math.Float32frombits(pair&0xffff0000)
	}
}
