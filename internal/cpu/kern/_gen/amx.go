package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// Tiles are numbered: 0 to 3 take sums, [rows, groups], 4 and 5 activations, 6 and 7 weights.
// A kernel configures them first and releases them last, so that none outlives a call: the
// scheduler of Go does not interrupt assembly, and need not know of them.

// tileOp emits an instruction for tiles. Operands are in Go's order, sources first.
func tileOp(op string, operands ...Op) {
	Instruction(&ir.Instruction{Opcode: op, Operands: operands, Inputs: operands, ISA: []string{"AMX_TILE"}})
}

func tile(i int) Op { return Imm(uint64(i)) }

// amxBF16 writes the kernel of pairs of row groups of BF16 × up to 16 activation rows, or up
// to 32 in two tiles.
func amxBF16(tiles int) {
	function(fmt.Sprintf("bf16Tiles%dAMX", tiles), "func(config, w, a *byte, nb, rowBytes, groups, size int, y *float32, ldy int)",
		fmt.Sprintf("multiplies groups of BF16 rows, size bytes apart, with %d tiles of activations, nb blocks of 32 of rowBytes each; see bf16Go. Rows of y are ldy bytes apart.", tiles))
	config, w, nb, rowBytes, groups, size, y, ldy := param("config"), param("w"), param("nb"), param("rowBytes"), param("groups"), param("size"), param("y"), param("ldy")
	tileOp("LDTILECFG", Mem{Base: config})
	stride := GP64()
	MOVQ(U32(64), stride)
	Label("pairs")
	CMPQ(groups, Imm(2))
	JL(LabelRef("last"))
	second := GP64()
	MOVQ(w, second)
	ADDQ(size, second)
	amxGroups("pair", tiles, []reg.GPVirtual{w, second}, nb, rowBytes, stride, y, ldy)
	LEAQ(Mem{Base: w, Index: size, Scale: 2}, w)
	SUBQ(Imm(2), groups)
	JMP(LabelRef("pairs"))
	Label("last")
	TESTQ(groups, groups)
	JZ(LabelRef("done"))
	amxGroups("one", tiles, []reg.GPVirtual{w}, nb, rowBytes, stride, y, ldy)
	Label("done")
	tileOp("TILERELEASE")
	end()
}

// peakAMX writes a loop of twelve products of tiles; see peak.
func peakAMX() {
	function("peakBF16AMX", "func(config *byte, n int)", "runs n times twelve products of tiles.")
	config, n := param("config"), param("n")
	tileOp("LDTILECFG", Mem{Base: config})
	Label("loop")
	for i := range 12 {
		tileOp("TDPBF16PS", tile(6+i%2), tile(4+i/2%2), tile(i%4))
	}
	DECQ(n)
	JNZ(LabelRef("loop"))
	tileOp("TILERELEASE")
	end()
}

// amxGroups multiplies one or two row groups and moves y on.
func amxGroups(id string, tiles int, groups []reg.GPVirtual, nb, rowBytes, stride, y, ldy reg.GPVirtual) {
	for t := range tiles {
		for g := range groups {
			tileOp("TILEZERO", tile(2*t+g))
		}
	}
	a, left := param("a"), GP64()
	MOVQ(nb, left)
	weights := make([]reg.GPVirtual, len(groups))
	for g := range groups {
		weights[g] = GP64()
		MOVQ(groups[g], weights[g])
	}
	Label(id)
	// Between the products, lest they wait for one another: from memory with one tile, from the
	// second-level cache with two.
	far := ahead / tiles
	prefetch := func(g, from, to int) {
		for line := from; line < to && g < len(groups); line++ {
			PREFETCHT0(Mem{Base: weights[g], Disp: far + 64*line})
		}
	}
	load := func(base reg.GPVirtual, disp, t int) {
		tileOp("TILELOADD", Mem{Base: base, Index: stride, Scale: 1, Disp: disp}, tile(t))
	}
	load(weights[0], 0, 6)
	load(a, 0, 4)
	tileOp("TDPBF16PS", tile(6), tile(4), tile(0))
	prefetch(0, 0, 8)
	if len(groups) == 2 {
		load(weights[1], 0, 7)
		tileOp("TDPBF16PS", tile(7), tile(4), tile(1))
	}
	prefetch(0, 8, 16)
	if tiles == 2 {
		load(a, 1024, 5)
		tileOp("TDPBF16PS", tile(6), tile(5), tile(2))
	}
	prefetch(1, 0, 8)
	if tiles == 2 && len(groups) == 2 {
		tileOp("TDPBF16PS", tile(7), tile(5), tile(3))
	}
	prefetch(1, 8, 16)
	for g := range groups {
		ADDQ(U32(1024), weights[g])
	}
	ADDQ(rowBytes, a)
	DECQ(left)
	JNZ(LabelRef(id))
	row := GP64()
	MOVQ(y, row)
	for t := range tiles {
		for g := range groups {
			tileOp("TILESTORED", tile(2*t+g), Mem{Base: row, Index: ldy, Scale: 1, Disp: 64 * g})
		}
		if t+1 < tiles {
			for range 16 {
				ADDQ(ldy, row)
			}
		}
	}
	ADDQ(U32(64*len(groups)), y)
}
