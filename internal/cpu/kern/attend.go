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

// PairsAttention reports whether the machine multiplies BF16 keys and values with BF16: in tiles, or
// in pairs with AVX-512. All its levels do. ARM's machines have no such kernels, and keep float32.
func PairsAttention() bool {
	return AMX.Available() || (AVX512.Available() && AVX512.pairs())
}

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
				row := [groupRows]float32(results[t*groupRows:]) // quicker than copy
				*(*[groupRows]float32)(dst[(first+t)*ldd+g*groupRows:]) = row
			}
		}
		first += tiles * count
	}
}

// KeysGroups is how many groups of 16 keys further on Keys asks memory for.
const KeysGroups = FetchRows / groupRows

// OneToken reports whether the level has Keys and WeighRows, which a token alone need not pack
// keys and values for, with so many queries.
func (l Level) OneToken(queries int) bool {
	return l.wide() && l.pairs() && queries <= groupRows
}

// PackQueries returns what Keys takes of so many queries of dim elements, at most 16, that lie one
// behind the other: themselves, or a packed group in dst of 32·dim bytes.
func PackQueries(l Level, dst []byte, halves []uint16, queries, dim int) []byte {
	if chained {
		return unsafe.Slice((*byte)(unsafe.Pointer(&halves[0])), 2*queries*dim)
	}
	var rows [groupRows + FetchRows]*uint16
	for i := range rows { // rows behind the queries are anything
		rows[i] = &halves[i%queries*dim]
	}
	PackKeys(l, dst, rows[:], dim)
	return dst
}

// Keys computes dst[r·ldd+j] = query r · key j, the bits being those of MulRows, and may write more
// rows, up to 16. queries is of PackQueries. Each of groups points to 16 keys of dim elements, one
// behind the other, whole blocks of groups; behind them are KeysGroups more, which are asked for
// only.
func Keys(dst []float32, ldd int, queries []byte, groups []*uint16, dim int) {
	n := len(groups) - KeysGroups
	if !chained {
		_, _ = queries[:2*groupRows*dim], dst[:(groupRows-1)*ldd+n*groupRows]
		var turned [4 * groupRows * groupRows]byte
		keysAsm(&queries[0], &groups[0], n, dim/bf16Block, 2*dim, &turned[0], &dst[0], 4*ldd)
		return
	}
	for first, count := 0, len(queries)/(2*dim); first < count; first += pairedKeys {
		to := dst[first*ldd:]
		rows := min(count-first, pairedKeys)
		_ = to[:(rows-1)*ldd+n*groupRows]
		keysPairsKernel(rows, &queries[2*dim*first], (**byte)(unsafe.Pointer(&groups[0])), n/2, dim/bf16Block, 2*dim, &to[0], 4*ldd)
	}
}

// pairedKeys is how many queries share each read of keys, at most.
const pairedKeys = 8

// WeighRows computes acc[h] = Σ_j p[h·ldp+j]·row j of dim elements, whole blocks, the bits being
// those of MulRows; AsBF16 has rounded p. Rows are whole blocks, and behind them are FetchRows more,
// which are asked for only.
func WeighRows(acc []float32, heads, dim int, p []float32, ldp int, rows []*uint16) {
	n := len(rows) - FetchRows
	_, _ = acc[:heads*dim], p[:(heads-1)*ldp+n]
	at := (**byte)(unsafe.Pointer(&rows[0]))
	for h := 0; h < heads; h += weighHeads {
		together, to, weights := min(heads-h, weighHeads), &acc[h*dim], &p[h*ldp]
		if chained {
			weighPairsKernel(together, to, 4*dim, (*byte)(unsafe.Pointer(weights)), 4*ldp, at, n/2, dim/bf16Block)
			continue
		}
		weighRowsKernel(together, to, 4*dim, weights, 4*ldp, at, n/bf16Block, dim/bf16Block)
	}
}

// AsBF16 rounds each x, whole blocks, to BF16 in the form that WeighRows takes: float32, or BF16 in
// the first half of the memory. It is for levels with OneToken.
func AsBF16(x []float32) {
	if chained {
		ToBF16(AVX512, unsafe.Slice((*uint16)(unsafe.Pointer(&x[0])), len(x)), x)
		return
	}
	asBF16Asm(&x[:len(x)/bf16Block*bf16Block][0], len(x))
}
