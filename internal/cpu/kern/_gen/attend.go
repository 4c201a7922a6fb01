package main

import (
	"fmt"
	"math/bits"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// fetchRows is how many rows ahead the kernels below ask memory for; kern.FetchRows.
const fetchRows = 64

// packKeys writes the transposition of 16 rows into a row group; see packKeysGo.
func packKeys() {
	function("packKeysAVX512", "func(dst *byte, rows **byte, groups, blocks int)",
		"packs groups of 16 rows of BF16, each of blocks of 32 elements, word by word; see packKeysGo. It prefetches the rows fetchRows further on.")
	dst, rows, groups, blocks := param("dst"), param("rows"), param("groups"), param("blocks")
	Label("group")
	left, off := GP64(), GP64()
	MOVQ(blocks, left)
	XORQ(off, off)
	Label("block")
	row := GP64()
	at := func(i int) Mem { // row i at this block
		MOVQ(Mem{Base: rows, Disp: 8 * i}, row)
		return Mem{Base: row, Index: off, Scale: 1}
	}
	// v[r][j] holds the four words 4j… of the rows r, r+4, r+8 and r+12, one in each quarter.
	var v [4][4]reg.VecVirtual
	for r := range v {
		for quarter := range 4 {
			from := at(r + 4*quarter)
			for j := range v[r] {
				part := from
				part.Disp = 16 * j
				if quarter == 0 {
					v[r][j] = ZMM()
					VMOVDQU(part, v[r][j].AsX())
					continue
				}
				VINSERTI32X4(Imm(uint64(quarter)), part, v[r][j], v[r][j])
			}
			PREFETCHT0(at(fetchRows + r + 4*quarter))
		}
	}
	for j := range 4 {
		turned := transpose4(v[0][j], v[1][j], v[2][j], v[3][j])
		for word, w := range turned {
			VMOVDQU32(w, Mem{Base: dst, Disp: 64 * (4*j + word)})
		}
	}
	ADDQ(U32(1024), dst)
	ADDQ(Imm(64), off)
	DECQ(left)
	JNZ(LabelRef("block"))
	ADDQ(U32(8*16), rows)
	DECQ(groups)
	JNZ(LabelRef("group"))
	end()
}

// transpose4 turns four words of four registers, in each quarter for itself.
func transpose4(a, b, c, d reg.VecVirtual) (out [4]reg.VecVirtual) {
	ab, cd, abHigh, cdHigh := ZMM(), ZMM(), ZMM(), ZMM()
	VPUNPCKLDQ(b, a, ab)
	VPUNPCKLDQ(d, c, cd)
	VPUNPCKHDQ(b, a, abHigh)
	VPUNPCKHDQ(d, c, cdHigh)
	for i := range out {
		out[i] = ZMM()
	}
	VPUNPCKLQDQ(cd, ab, out[0])
	VPUNPCKHQDQ(cd, ab, out[1])
	VPUNPCKLQDQ(cdHigh, abHigh, out[2])
	VPUNPCKHQDQ(cdHigh, abHigh, out[3])
	return out
}

// packValues writes the pairing of rows; see packValuesGo.
func packValues() {
	order := quads("packValuesOrder", 0, 4, 1, 5, 2, 6, 3, 7)
	magnitude, infinite := repeat("packValuesMagnitude", 0x7fff7fff), repeat("packValuesInfinite", 0x7f807f80)
	function("packValuesAVX512", "func(dst *byte, rows **byte, pairs, columns, size int) uint32",
		"packs pairs of rows of BF16, each of columns of 32 elements, word by word into row groups, size bytes apart, of 16 elements; see packValuesGo. It returns 0 if all are finite, and prefetches the rows fetchRows further on.")
	dst, rows, pairs, columns, size := param("dst"), param("rows"), param("pairs"), param("columns"), param("size")
	places, mask, largest := ZMM(), ZMM(), ZMM()
	VMOVDQU64(order, places)
	VPBROADCASTD(magnitude, mask)
	VPXORD(largest, largest, largest)
	Label("pair")
	left, off, to := GP64(), GP64(), GP64()
	MOVQ(columns, left)
	XORQ(off, off)
	MOVQ(dst, to)
	first, second, first2, second2 := GP64(), GP64(), GP64(), GP64()
	MOVQ(Mem{Base: rows}, first)
	MOVQ(Mem{Base: rows, Disp: 8}, second)
	MOVQ(Mem{Base: rows, Disp: 8 * fetchRows}, first2)
	MOVQ(Mem{Base: rows, Disp: 8 * (fetchRows + 1)}, second2)
	Label("column")
	a, b := ZMM(), ZMM()
	VPERMQ(Mem{Base: first, Index: off, Scale: 1}, places, a)
	VPERMQ(Mem{Base: second, Index: off, Scale: 1}, places, b)
	PREFETCHT0(Mem{Base: first2, Index: off, Scale: 1})
	PREFETCHT0(Mem{Base: second2, Index: off, Scale: 1})
	low, high, size1, size2 := ZMM(), ZMM(), ZMM(), ZMM()
	VPUNPCKLWD(b, a, low)
	VPUNPCKHWD(b, a, high)
	VPANDD(mask, a, size1)
	VPANDD(mask, b, size2)
	VPMAXUW(size1, largest, largest)
	VPMAXUW(size2, largest, largest)
	VMOVDQU32(low, Mem{Base: to})
	ADDQ(size, to)
	VMOVDQU32(high, Mem{Base: to})
	ADDQ(size, to)
	ADDQ(Imm(64), off)
	DECQ(left)
	JNZ(LabelRef("column"))
	ADDQ(Imm(64), dst)
	ADDQ(Imm(16), rows)
	DECQ(pairs)
	JNZ(LabelRef("pair"))
	k, found := K(), GP32()
	limit := ZMM()
	VPBROADCASTD(infinite, limit)
	VPCMPUW(Imm(5), limit, largest, k) // not less
	KMOVD(k, found)
	Store(found, ReturnIndex(0))
	end()
}

// asBF16 writes the rounding of float32 to BF16 in its place; no NaN.
func asBF16() {
	round, last := repeat("asBF16Round", 0x7fff), repeat("asBF16Last", 1)
	function("asBF16AVX512", "func(x *float32, n int)", "rounds to nearest even; n is a multiple of 16.")
	x, n := param("x"), param("n")
	rounds, lasts, highs := ZMM(), ZMM(), ZMM()
	VPBROADCASTD(round, rounds)
	VPBROADCASTD(last, lasts)
	VPBROADCASTD(highHalf, highs)
	elementwise(avx512, n, func(off int) {
		v, r := ZMM(), ZMM()
		VMOVUPS(Mem{Base: x, Disp: off}, v)
		VPSRLD(Imm(16), v, r)
		VPANDD(lasts, r, r)
		VPADDD(rounds, r, r)
		VPADDD(v, r, r)
		VPANDD(highs, r, r)
		VMOVUPS(r, Mem{Base: x, Disp: off})
	}, func() { ADDQ(Imm(64), x) })
	end()
}

// keysAMX writes the product of keys as they lie with up to 16 queries in a row group.
func keysAMX() {
	function("keysAMX", "func(config, q *byte, keys **byte, groups, blocks, stride int, scratch *byte, y *float32, ldy int)",
		"multiplies groups of 16 keys of BF16, rows of blocks of 32 elements that lie stride bytes apart, with a row group of queries: 16 rows of y, ldy bytes apart, one for each query. It prefetches the groups fetchRows further on. scratch has 1 KB.")
	tileOp("LDTILECFG", Mem{Base: param("config")})
	keys, groups, ld, y, row := param("keys"), param("groups"), param("stride"), param("y"), GP64()
	MOVQ(U32(64), row)
	Label("group")
	key, next, q, left := GP64(), GP64(), GP64(), GP64()
	MOVQ(Mem{Base: keys}, key)
	MOVQ(Mem{Base: keys, Disp: 8 * fetchRows / 16}, next)
	MOVQ(argument("q"), q)
	MOVQ(argument("blocks"), left)
	// A tile of sums for the group: keys are the tile of activations, queries that of weights.
	tileOp("TILEZERO", tile(0))
	Label("block")
	tileOp("TILELOADD", Mem{Base: key, Index: ld, Scale: 1}, tile(4))
	tileOp("TILELOADD", Mem{Base: q, Index: row, Scale: 1}, tile(6))
	tileOp("TDPBF16PS", tile(6), tile(4), tile(0))
	for line := range 16 {
		PREFETCHT0(Mem{Base: next, Disp: 64 * line})
	}
	ADDQ(U32(1024), next)
	ADDQ(Imm(64), key)
	ADDQ(U32(1024), q)
	DECQ(left)
	JNZ(LabelRef("block"))
	// The tile has a row for each key; y has one for each query.
	turned, to, ldy := GP64(), GP64(), GP64()
	MOVQ(argument("scratch"), turned)
	MOVQ(argument("ldy"), ldy)
	tileOp("TILESTORED", tile(0), Mem{Base: turned, Index: row, Scale: 1})
	MOVQ(y, to)
	for j := range 4 {
		v := quarters(func(i int) Mem { return Mem{Base: turned, Disp: 64*i + 16*j} })
		for _, w := range transpose4(v[0], v[1], v[2], v[3]) {
			VMOVDQU32(w, Mem{Base: to})
			ADDQ(ldy, to)
		}
	}
	ADDQ(Imm(64), y)
	ADDQ(Imm(8), keys)
	DECQ(groups)
	JNZ(LabelRef("group"))
	tileOp("TILERELEASE")
	end()
}

// quarters loads 16 bytes of each of 16 rows: register r holds those of the rows r, r+4, r+8 and
// r+12, one in each quarter, as transpose4 wants them. Where masks of the quarters are given, loads
// are merged by them, which takes no shuffle.
func quarters(row func(i int) Mem, masks ...reg.OpmaskVirtual) (v [4]reg.VecVirtual) {
	for r := range v {
		v[r] = ZMM()
		VBROADCASTI32X4(row(r), v[r])
		for quarter := 1; quarter < 4; quarter++ {
			if masks != nil {
				VBROADCASTI32X4(row(r+4*quarter), masks[quarter-1], v[r])
				continue
			}
			VINSERTI32X4(Imm(uint64(quarter)), row(r+4*quarter), v[r], v[r])
		}
	}
	return v
}

// quarterMasks returns the masks of all quarters but the first.
func quarterMasks() (masks []reg.OpmaskVirtual) {
	bits := GP32()
	for quarter := 1; quarter < 4; quarter++ {
		masks = append(masks, K())
		MOVL(U32(0xf<<(4*quarter)), bits)
		KMOVW(bits, masks[quarter-1])
	}
	return masks
}

// pairedKeys is the most queries of a keysPairs kernel.
const pairedKeys = 8

// keysPairs writes the product of keys as they lie with some queries as they lie, in pairs. A sum
// takes one pair after the other, so two groups side by side wait less.
func keysPairs(queries int) {
	function(fmt.Sprintf("keysPairs%dAVX512", queries), "func(q *byte, keys **byte, twos, blocks, stride int, y *float32, ldy int)",
		fmt.Sprintf("multiplies groups of 16 keys of BF16, two at a time, with %d queries; keys and queries are rows of blocks of 32 elements, stride bytes apart, rows of y ldy bytes. It prefetches the groups fetchRows further on.", queries))
	keys, left, y := param("keys"), AllocLocal(8), AllocLocal(8) // registers are few
	MOVQ(param("twos"), left)
	MOVQ(param("y"), y)
	steps := [4]reg.GPVirtual{param("stride"), GP64(), GP64(), GP64()} // 1, 3, 5 and 7 strides
	LEAQ(Mem{Base: steps[0], Index: steps[0], Scale: 2}, steps[1])
	LEAQ(Mem{Base: steps[0], Index: steps[0], Scale: 4}, steps[2])
	LEAQ(Mem{Base: steps[1], Index: steps[0], Scale: 4}, steps[3])
	row := func(base reg.GPVirtual, i, disp int) Mem { // row i of 8
		if i == 0 {
			return Mem{Base: base, Disp: disp}
		}
		even := bits.TrailingZeros(uint(i))
		return Mem{Base: base, Index: steps[i>>even/2], Scale: 1 << even, Disp: disp}
	}
	masks := quarterMasks()
	Label("twos")
	var halves [2][2]reg.GPVirtual // of each group, the first eight keys and the others
	for g := range halves {
		halves[g] = [2]reg.GPVirtual{GP64(), GP64()}
		MOVQ(Mem{Base: keys, Disp: 8 * g}, halves[g][0])
		LEAQ(Mem{Base: halves[g][0], Index: steps[0], Scale: 8}, halves[g][1])
	}
	q, blocks, off := param("q"), param("blocks"), GP64()
	XORQ(off, off)
	acc := make([][2]reg.VecVirtual, queries)
	for t := range acc {
		acc[t] = [2]reg.VecVirtual{ZMM(), ZMM()}
		VXORPS(acc[t][0], acc[t][0], acc[t][0])
		VXORPS(acc[t][1], acc[t][1], acc[t][1])
	}
	Label("block")
	for j := range 4 {
		for g, half := range halves {
			next := GP64()
			MOVQ(Mem{Base: keys, Disp: 8 * (fetchRows/16 + g)}, next)
			for line := 4 * j; line < 4*j+4; line++ {
				PREFETCHT0(Mem{Base: next, Index: off, Scale: 1, Disp: 64 * line})
			}
			v := quarters(func(i int) Mem { return row(half[i/8], i%8, 16*j) }, masks...)
			for word, w := range transpose4(v[0], v[1], v[2], v[3]) {
				for t := range acc {
					bf16Pairs(row(q, t, 16*j+4*word), w, acc[t][g])
				}
			}
		}
	}
	for _, at := range []reg.GPVirtual{q, halves[0][0], halves[0][1], halves[1][0], halves[1][1]} {
		ADDQ(Imm(64), at)
	}
	ADDQ(U32(1024), off)
	DECQ(blocks)
	JNZ(LabelRef("block"))
	to, ldy := GP64(), param("ldy")
	MOVQ(y, to)
	for t := range acc {
		VMOVUPS(acc[t][0], Mem{Base: to})
		VMOVUPS(acc[t][1], Mem{Base: to, Disp: 64})
		ADDQ(ldy, to)
	}
	ADDQ(U32(128), y)
	ADDQ(Imm(16), keys)
	DECQ(left)
	JNZ(LabelRef("twos"))
	end()
}

// weighRows writes the product of weights with values as they lie, for a number of queries, in the
// order of sums of tiles.
func weighRows(heads int) {
	function(fmt.Sprintf("weighRows%dAVX512", heads), "func(acc *float32, lda int, p *float32, ldp int, rows **byte, blocks, columns int)",
		fmt.Sprintf("computes %d rows of sums of rows of BF16 by weights that are BF16, blocks of 32 rows of columns of 32 elements; see bf16Go. Strides are in bytes. It prefetches the rows fetchRows further on.", heads))
	control := AllocLocal(8)
	STMXCSR(control)
	LDMXCSR(flushing)
	acc, lda, ldp, columns := param("acc"), param("lda"), param("ldp"), param("columns")
	off := GP64()
	XORQ(off, off)
	most := 2 // registers of a row that stay there
	if heads <= 2 {
		most = 4
	}
	for regs := most; regs >= 2; regs -= 2 { // what is left of columns takes fewer
		Label(label("column%d", regs))
		CMPQ(columns, Imm(uint64(regs/2)))
		JL(LabelRef(label("end%d", regs)))
		weighRowsColumns(heads, regs, acc, lda, ldp, off)
		SUBQ(Imm(uint64(regs/2)), columns)
		JMP(LabelRef(label("column%d", regs)))
		Label(label("end%d", regs))
	}
	LDMXCSR(control)
	end()
}

// weighRowsColumns computes 16 columns for each of so many registers.
func weighRowsColumns(heads, regs int, acc, lda, ldp, off reg.GPVirtual) {
	sums := make([][]reg.VecVirtual, heads)
	for h := range sums {
		sums[h] = make([]reg.VecVirtual, regs)
		for i := range regs {
			sums[h][i] = ZMM()
			VXORPS(sums[h][i], sums[h][i], sums[h][i])
		}
	}
	rows, p, blocks := param("rows"), param("p"), param("blocks")
	Label(label("block%d", regs))
	var parts [2][][]reg.VecVirtual // of even rows, of odd ones
	for odd := range parts {
		parts[odd] = make([][]reg.VecVirtual, heads)
		for h := range heads {
			parts[odd][h] = make([]reg.VecVirtual, regs)
			for i := range regs {
				parts[odd][h][i] = ZMM()
				VXORPS(parts[odd][h][i], parts[odd][h][i], parts[odd][h][i])
			}
		}
	}
	pairs := GP64()
	MOVQ(U32(16), pairs)
	Label(label("pair%d", regs))
	for odd := range 2 {
		row, next := GP64(), GP64()
		MOVQ(Mem{Base: rows, Disp: 8 * odd}, row)
		MOVQ(Mem{Base: rows, Disp: 8 * (fetchRows + odd)}, next)
		for line := range regs / 2 {
			PREFETCHT0(Mem{Base: next, Index: off, Scale: 1, Disp: 64 * line})
		}
		for i := range regs {
			v := ZMM()
			float(avx512, "BF16", Mem{Base: row, Index: off, Scale: 1, Disp: 32 * i}, v)
			weight := GP64()
			MOVQ(p, weight)
			for h := range heads {
				VFMADD231PS_BCST(Mem{Base: weight, Disp: 4 * odd}, v, parts[odd][h][i])
				if h+1 < heads {
					ADDQ(ldp, weight)
				}
			}
		}
	}
	ADDQ(Imm(16), rows)
	ADDQ(Imm(8), p)
	DECQ(pairs)
	JNZ(LabelRef(label("pair%d", regs)))
	for h := range heads {
		for i := range regs {
			VADDPS(parts[1][h][i], parts[0][h][i], parts[0][h][i])
			VADDPS(parts[0][h][i], sums[h][i], sums[h][i])
		}
	}
	DECQ(blocks)
	JNZ(LabelRef(label("block%d", regs)))
	to := GP64()
	MOVQ(acc, to)
	for h := range heads {
		for i := range regs {
			VMOVUPS(sums[h][i], Mem{Base: to, Disp: 64 * i})
		}
		ADDQ(lda, to)
	}
	ADDQ(U32(64*regs), acc)
	ADDQ(U32(32*regs), off)
}

// weighPairs writes the product of pairs of weights with pairs of rows of values as they lie, for a
// number of queries.
func weighPairs(heads int, order [2]Mem) {
	function(fmt.Sprintf("weighPairs%dAVX512", heads), "func(acc *float32, lda int, p *byte, ldp int, rows **byte, pairs, columns int)",
		fmt.Sprintf("computes %d rows of sums of pairs of rows of BF16 by pairs of weights in BF16, rows being columns of 32 elements; see bf16Go. Strides are in bytes. It prefetches the rows fetchRows further on.", heads))
	acc, lda, ldp, columns := param("acc"), param("lda"), param("ldp"), param("columns")
	off, ldp3 := GP64(), GP64()
	XORQ(off, off)
	LEAQ(Mem{Base: ldp, Index: ldp, Scale: 2}, ldp3)
	var places [2]reg.VecVirtual
	for i := range places {
		places[i] = ZMM()
		VMOVDQU64(order[i], places[i])
	}
	most := 4 // columns whose sums stay in registers
	if heads > 3 {
		most = 2
	}
	for n := most; n > 0; n /= 2 { // what is left of columns takes fewer
		Label(label("column%d", n))
		CMPQ(columns, Imm(uint64(n)))
		JL(LabelRef(label("end%d", n)))
		sums := weighPairsColumns(heads, n, ldp, ldp3, off)
		to := GP64()
		MOVQ(acc, to)
		for h := range sums {
			for i, two := range sums[h] {
				for half := range two {
					v := ZMM()
					VMOVDQA64(places[half], v)
					VPERMI2Q(two[1], two[0], v)
					VMOVUPS(v, Mem{Base: to, Disp: 128*i + 64*half})
				}
			}
			ADDQ(lda, to)
		}
		ADDQ(U32(128*n), acc)
		ADDQ(U32(64*n), off)
		SUBQ(Imm(uint64(n)), columns)
		JMP(LabelRef(label("column%d", n)))
		Label(label("end%d", n))
	}
	end()
}

// weighPairsColumns computes n columns. Each has two registers of sums: of the first four elements
// of every eight, and of the others.
func weighPairsColumns(heads, n int, ldp, ldp3, off reg.GPVirtual) (sums [][][2]reg.VecVirtual) {
	for range heads {
		row := make([][2]reg.VecVirtual, n)
		for i := range row {
			row[i] = [2]reg.VecVirtual{ZMM(), ZMM()}
			VXORPS(row[i][0], row[i][0], row[i][0])
			VXORPS(row[i][1], row[i][1], row[i][1])
		}
		sums = append(sums, row)
	}
	rows, p, pairs := param("rows"), param("p"), param("pairs")
	weights := []Mem{{Base: p}, {Base: p, Index: ldp, Scale: 1}, {Base: p, Index: ldp, Scale: 2}, {Base: p, Index: ldp3, Scale: 1}}
	Label(label("pair%d", n))
	var at, next [2]reg.GPVirtual
	for odd := range at {
		at[odd], next[odd] = GP64(), GP64()
		MOVQ(Mem{Base: rows, Disp: 8 * odd}, at[odd])
		MOVQ(Mem{Base: rows, Disp: 8 * (fetchRows + odd)}, next[odd])
	}
	// Words of both rows side by side are pairs of tokens; unpacking takes them by halves of 128 bits,
	// so a register has elements 0 to 3 of every eight, the other 4 to 7.
	for i := range n {
		a, low, high := ZMM(), ZMM(), ZMM()
		second := Mem{Base: at[1], Index: off, Scale: 1, Disp: 64 * i}
		VMOVDQU32(Mem{Base: at[0], Index: off, Scale: 1, Disp: 64 * i}, a)
		VPUNPCKLWD(second, a, low)
		VPUNPCKHWD(second, a, high)
		for odd := range next {
			PREFETCHT0(Mem{Base: next[odd], Index: off, Scale: 1, Disp: 64 * i})
		}
		for h := range heads {
			bf16Pairs(weights[h], low, sums[h][i][0])
			bf16Pairs(weights[h], high, sums[h][i][1])
		}
	}
	ADDQ(Imm(16), rows)
	ADDQ(Imm(4), p)
	DECQ(pairs)
	JNZ(LabelRef(label("pair%d", n)))
	return sums
}
