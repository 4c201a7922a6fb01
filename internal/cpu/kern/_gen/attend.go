package main

import (
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

// lessBF16 writes what rounding to BF16 leaves over; see lessBF16Go.
func lessBF16(isa isa) {
	round, last := repeat("lessRound"+isa.name, 0x7fff), repeat("lessLast"+isa.name, 1)
	function("lessBF16"+isa.name, "func(x *float32, n int)", "takes from each x what it is rounded to in BF16; n is a multiple of 16.")
	x, n := param("x"), param("n")
	rounds, lasts, highs := isa.vec(), isa.vec(), isa.vec()
	VPBROADCASTD(round, rounds)
	VPBROADCASTD(last, lasts)
	VPBROADCASTD(highHalf, highs)
	elementwise(isa, n, func(off int) {
		v, r := isa.vec(), isa.vec()
		VMOVUPS(Mem{Base: x, Disp: off}, v)
		VPSRLD(Imm(16), v, r)
		and(isa, lasts, r, r)
		VPADDD(rounds, r, r)
		VPADDD(v, r, r)
		and(isa, highs, r, r)
		VSUBPS(r, v, v)
		VMOVUPS(v, Mem{Base: x, Disp: off})
	}, func() { ADDQ(Imm(64), x) })
	end()
}
