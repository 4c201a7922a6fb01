package kern

import (
	"fmt"
	"unsafe"
)

// Attention as products of BF16: cached keys and values become row groups (bf16.go), queries and
// weights of values the activations that meet them. So tiles multiply them, and every order of
// sums is that of bf16Go: the same on all levels of a machine, for one query and for many.
//
// Keys are rows of the groups, and blocks are of dimensions; of values the dimensions are rows,
// and blocks are of tokens. A row that nobody sees counts as zeros.

const (
	// AttendBlock is the number of dimensions, or of tokens, in a block of the sums.
	AttendBlock = bf16Block
	// FetchRows is how many rows further on PackKeys and PackValues ask memory for rows.
	FetchRows = 64
)

// HasTiles reports whether the machine multiplies attention in tiles; all its levels do as they.
func HasTiles() bool { return AMX.Available() && !chained }

// PackKeys packs rows of dim elements, whole blocks, into row groups: dst takes 2·dim bytes for
// each. Rows are whole groups of 16, and behind them are FetchRows more, which are asked for
// only.
func PackKeys(l Level, dst []byte, rows []*uint16, dim int) {
	n := len(rows) - FetchRows
	if n <= 0 || n%groupRows != 0 || dim%bf16Block != 0 || len(dst) < 2*dim*n {
		panic(fmt.Sprintf("kern: %d rows of %d keys for %d bytes", n, dim, len(dst)))
	}
	if l.wide() {
		packKeysAsm(&dst[0], &rows[0], n/groupRows, dim/bf16Block)
		return
	}
	packKeysGo(dst, rows[:n], dim)
}

// packKeysGo defines PackKeys: word k of the 16 rows of a group, two elements each, lie one
// behind the other, then word k+1.
func packKeysGo(dst []byte, rows []*uint16, dim int) {
	for i, row := range rows {
		group := dst[i/groupRows*groupRows*2*dim:]
		for k, word := range unsafe.Slice((*[4]byte)(unsafe.Pointer(row)), dim/2) {
			copy(group[64*k+4*(i%groupRows):], word[:])
		}
	}
}

// PackValues packs rows of dim elements, whole blocks, as columns of row groups: dst takes 2·dim
// bytes for each row. Rows are whole blocks, and behind them are FetchRows more, which are asked
// for only. It reports whether all elements are finite.
func PackValues(l Level, dst []byte, rows []*uint16, dim int) (finite bool) {
	n := len(rows) - FetchRows
	if n <= 0 || n%bf16Block != 0 || dim%bf16Block != 0 || len(dst) < 2*dim*n {
		panic(fmt.Sprintf("kern: %d rows of %d values for %d bytes", n, dim, len(dst)))
	}
	if l.wide() {
		return packValuesAsm(&dst[0], &rows[0], n/2, dim/bf16Block, groupRows*2*n)
	}
	return packValuesGo(dst, rows[:n], dim)
}

// packValuesGo defines PackValues: of two rows, word r of group g is their elements 16g+r.
func packValuesGo(dst []byte, rows []*uint16, dim int) (finite bool) {
	finite = true
	for i, row := range rows {
		for k, v := range unsafe.Slice(row, dim) {
			at := k/groupRows*groupRows*2*len(rows) + i/2*64 + k%groupRows*4 + i%2*2
			dst[at], dst[at+1] = byte(v), byte(v>>8)
			finite = finite && v&0x7f80 != 0x7f80
		}
	}
	return finite
}

// RowsScratch is the bytes of scratch that MulRows needs for so many rows of n elements.
func RowsScratch(rows, n int) int { return 4 * max(rows, maxTile) * n }

// MulRows computes dst[t·ldd+r] = row r of the packed groups · x[t·ldx:] rounded to BF16, for
// rows of n elements, whole blocks, and so many of x.
func MulRows(l Level, dst []float32, ldd int, x []float32, ldx, rows, n int, packed []byte, groups int, scratch []byte) {
	size, nb := groupRows*2*n, n/bf16Block
	_, _, _ = packed[:groups*size], x[:(rows-1)*ldx+n], dst[:(rows-1)*ldd+groups*groupRows]
	var results [maxTile * groupRows]float32
	for first := 0; first < rows; {
		count, tiles := l.bf16Rows(rows-first), 1
		if l == AMX {
			tiles = (rows - first) / count
		}
		bytes := count * l.BF16Bytes(n)
		for t := range tiles * count {
			l.roundBF16(scratch[t/count*bytes:], count, t%count, x[(first+t)*ldx:][:n])
		}
		if l == AMX {
			product := tileProduct{w: packed, a: scratch, nb: nb, rows: count, groups: groups, size: size, tiles: tiles, step: bytes, y: dst[first*ldd:], ldy: ldd}
			product.run()
		}
		for g := 0; g < groups && l != AMX; g++ {
			l.bf16Tile(packed[g*size:], size, 1, oneFar.Ahead, 0, scratch[:bytes], nb, count, results[:])
			for t := range count {
				copy(dst[(first+t)*ldd+g*groupRows:], results[t*groupRows:][:groupRows])
			}
		}
		first += tiles * count
	}
}

// KeysGroups is how many groups of 16 keys further on Keys asks memory for.
const KeysGroups = FetchRows / groupRows

// OneToken reports whether the level has Keys and WeighRows, which a token alone need not pack
// keys and values for, with so many queries.
func (l Level) OneToken(queries int) bool { return l == AMX && queries <= groupRows }

// Keys computes dst[r·ldd+j] = row r of queries, a packed group, · key j, the bits being those of
// MulRows. Each of groups points to 16 keys of dim elements, one behind the other; behind them are
// KeysGroups more, which are asked for only.
func Keys(dst []float32, ldd int, queries []byte, groups []*uint16, dim int) {
	n := len(groups) - KeysGroups
	_, _ = queries[:2*groupRows*dim], dst[:(groupRows-1)*ldd+n*groupRows]
	var turned [4 * groupRows * groupRows]byte
	keysAsm(&queries[0], &groups[0], n, dim/bf16Block, 2*dim, &turned[0], &dst[0], 4*ldd)
}

// WeighRows computes acc[h] = Σ_j p[h·ldp+j]·row j of dim elements, whole blocks, the bits being
// those of MulRows; p are BF16. Rows are whole blocks, and behind them are FetchRows more, which
// are asked for only.
func WeighRows(acc []float32, heads, dim int, p []float32, ldp int, rows []*uint16) {
	blocks := (len(rows) - FetchRows) / bf16Block
	_, _ = acc[:heads*dim], p[:(heads-1)*ldp+blocks*bf16Block]
	for h := 0; h < heads; h += weighHeads {
		weighRowsAsm(min(heads-h, weighHeads), &acc[h*dim], 4*dim, &p[h*ldp], 4*ldp, &rows[0], blocks, dim/bf16Block)
	}
}

// AsBF16 rounds each x, whole blocks, to BF16; for levels with OneToken.
func AsBF16(x []float32) { asBF16Asm(&x[:len(x)/bf16Block*bf16Block][0], len(x)) }
