package main

import (
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

// amxBF16 writes a kernel of pairs of row groups of BF16 × one tile of up to 16 activation rows
// ("Short"), one of 17 to 32 ("Tall"), or any number of those ("Many").
func amxBF16(shape string) {
	function("bf16Tiles"+shape+"AMX", "func(config, w, a *byte, nb, rowBytes, groups, size, tiles, step int, c *float32, ldc int, y *float32, ldy int)",
		"adds to c, or to 0 if it is nil, the products of groups of BF16 rows, size bytes apart, with tiles of activations, step bytes apart, nb blocks of 32 of rowBytes each, and stores the sums in y; see bf16Go. Rows of c and y are ldc and ldy bytes apart.")
	w, groups := param("w"), AllocLocal(8)
	left := param("groups")
	MOVQ(left, groups)
	tileOp("LDTILECFG", Mem{Base: param("config")})
	k := amxKernel{tall: shape != "Short", many: shape == "Many", w: w, stride: GP64(), c: param("c"), y: param("y"), tiles: AllocLocal(8)}
	MOVQ(U32(64), k.stride)
	Label("pairs")
	CMPQ(groups, Imm(2))
	JL(LabelRef("last"))
	k.groups("pair", 2)
	ADDQ(argument("size"), w)
	ADDQ(argument("size"), w)
	SUBQ(Imm(2), groups)
	JMP(LabelRef("pairs"))
	Label("last")
	CMPQ(groups, Imm(0))
	JE(LabelRef("done"))
	k.groups("one", 1)
	Label("done")
	tileOp("TILERELEASE")
	end()
}

// argument is where a parameter lies: there are more than registers.
func argument(name string) Mem {
	p, err := Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return p.Addr
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

// An amxKernel is the registers of a kernel of row groups.
type amxKernel struct {
	tall, many      bool // two of the machine's tiles of activations at a time; and more times than once
	w, stride, c, y reg.GPVirtual
	tiles           Mem // left
}

// rows is how many of the machine's tiles the activations take.
func (k *amxKernel) rows() int {
	if k.tall {
		return 2
	}
	return 1
}

// groups multiplies one or two row groups with all tiles of activations and moves c and y on.
func (k *amxKernel) groups(id string, groups int) {
	first, sums, out, ahead := GP64(), GP64(), GP64(), GP64()
	MOVQ(argument("tiles"), first)
	MOVQ(first, k.tiles)
	MOVQ(argument("a"), first)
	MOVQ(k.c, sums)
	MOVQ(k.y, out)
	// What follows the groups: lines of it are asked for block by block.
	MOVQ(argument("size"), ahead)
	LEAQ(Mem{Base: k.w, Index: ahead, Scale: uint8(groups)}, ahead)
	Label(id + "tiles")
	TESTQ(k.c, k.c)
	JZ(LabelRef(id + "zero"))
	k.move(groups, sums, "ldc", func(t int, m Mem) { tileOp("TILELOADD", m, tile(t)) })
	JMP(LabelRef(id + "begin"))
	Label(id + "zero")
	for t := range k.rows() {
		for g := range groups {
			tileOp("TILEZERO", tile(2*t+g))
		}
	}
	Label(id + "begin")
	k.blocks(id, groups, first, ahead)
	k.move(groups, out, "ldy", func(t int, m Mem) { tileOp("TILESTORED", tile(t), m) })
	ADDQ(argument("step"), first)
	DECQ(k.tiles)
	JNZ(LabelRef(id + "tiles"))
	TESTQ(k.c, k.c)
	JZ(LabelRef(id + "new"))
	ADDQ(U32(64*groups), k.c)
	Label(id + "new")
	ADDQ(U32(64*groups), k.y)
}

// blocks adds the products of all blocks of one or two row groups and a tile of activations.
func (k *amxKernel) blocks(id string, groups int, first, ahead reg.GPVirtual) {
	a, left, size := GP64(), GP64(), GP64()
	MOVQ(first, a)
	MOVQ(argument("nb"), left)
	MOVQ(argument("size"), size)
	at := []reg.GPVirtual{GP64(), GP64()}
	MOVQ(k.w, at[0])
	MOVQ(k.w, at[1])
	ADDQ(size, at[1])
	Label(id)
	// Between the products, lest they wait for one another.
	prefetch := func(g, from, to int) {
		if g >= groups {
			return
		}
		if !k.many { // weights come from memory: all of the block some further on
			for line := from; line < to; line++ {
				PREFETCHT0(Mem{Base: at[g], Disp: amxAhead + 64*line})
			}
			return
		}
		// Weights stay in the first-level cache, which activations pass by: for each tile of
		// activations a few lines of the next groups.
		for line := from / 8; line < to/8; line++ {
			PREFETCHT1([]Mem{{Base: ahead, Disp: 64 * line}, {Base: ahead, Index: size, Scale: 1, Disp: 64 * line}}[g])
		}
	}
	activations := "TILELOADD"
	if k.many {
		activations = "TILELOADDT1"
	}
	load := func(op string, base reg.GPVirtual, disp, t int) {
		tileOp(op, Mem{Base: base, Index: k.stride, Scale: 1, Disp: disp}, tile(t))
	}
	load("TILELOADD", at[0], 0, 6)
	load(activations, a, 0, 4)
	tileOp("TDPBF16PS", tile(6), tile(4), tile(0))
	prefetch(0, 0, 8)
	if groups == 2 {
		load("TILELOADD", at[1], 0, 7)
		tileOp("TDPBF16PS", tile(7), tile(4), tile(1))
	}
	prefetch(0, 8, 16)
	if k.tall {
		load(activations, a, 1024, 5)
		tileOp("TDPBF16PS", tile(6), tile(5), tile(2))
	}
	prefetch(1, 0, 8)
	if k.tall && groups == 2 {
		tileOp("TDPBF16PS", tile(7), tile(5), tile(3))
	}
	prefetch(1, 8, 16)
	ADDQ(U32(1024), at[0])
	ADDQ(U32(1024), at[1])
	if k.many {
		ADDQ(U32(128), ahead)
	}
	ADDQ(argument("rowBytes"), a)
	DECQ(left)
	JNZ(LabelRef(id))
}

// amxAhead is how far ahead of their use weights are asked for that come from memory.
const amxAhead = ahead

// move moves the tiles of sums of so many row groups, and base to the rows of the next tile.
func (k *amxKernel) move(groups int, row reg.GPVirtual, stride string, move func(tile int, m Mem)) {
	ld := GP64()
	MOVQ(argument(stride), ld)
	for t := range k.rows() {
		for g := range groups {
			move(2*t+g, Mem{Base: row, Index: ld, Scale: 1, Disp: 64 * g})
		}
		rows := GP64()
		MOVQ(argument("rowBytes"), rows) // 64 for each row
		if t+1 < k.rows() {
			MOVQ(U32(64*16), rows)
		} else if k.tall {
			SUBQ(U32(64*16), rows)
		}
		SHRQ(Imm(6), rows)
		IMULQ(ld, rows)
		ADDQ(rows, row)
	}
}
