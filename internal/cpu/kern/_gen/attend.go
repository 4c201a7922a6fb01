package main

import (
	"fmt"

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
	turned, to, ldy := GP64(), GP64(), GP64()
	MOVQ(argument("scratch"), turned)
	MOVQ(argument("ldy"), ldy)
	tileOp("TILESTORED", tile(0), Mem{Base: turned, Index: row, Scale: 1})
	MOVQ(y, to)
	for j := range 4 { // see packKeys
		var v [4]reg.VecVirtual
		for r := range v {
			v[r] = ZMM()
			VMOVDQU32(Mem{Base: turned, Disp: 64*r + 16*j}, v[r].AsX())
			for quarter := 1; quarter < 4; quarter++ {
				VINSERTI32X4(Imm(uint64(quarter)), Mem{Base: turned, Disp: 64*(r+4*quarter) + 16*j}, v[r], v[r])
			}
		}
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
