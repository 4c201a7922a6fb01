package main

import (
	"fmt"
	"slices"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// A bf16Kernel multiplies groups of 16 rows of BF16 with T activation rows, in one of the two
// orders of bf16Go.
type bf16Kernel struct {
	isa    isa
	name   string
	chain  bool // order of machines that multiply pairs and have no tiles
	native bool // activations are pairs of BF16, else float32
	T, G   int
	ahead  reg.GPVirtual
}

// bf16Kernels are the most rows of a kernel for one group. Those with AVX-512 take further groups
// too, as bf16Groups says.
var bf16Kernels = []bf16Kernel{
	{isa: avx512, name: "bf16Tiled", T: 8},
	{isa: avx2, name: "bf16Tiled", T: 3},
	{isa: avx2, name: "bf16Chain", T: 6, chain: true},
}

// pairsKernel is for AVX-512 with instructions for pairs, with one group and with two.
var pairsKernel = bf16Kernel{isa: avx512, name: "bf16Native", T: 12, chain: true, native: true}

// bf16Groups are the numbers of row groups that a kernel takes for few rows, beside one: two places
// to read memory at and, for one row, sums enough to keep the multipliers busy.
var bf16Groups = [][]int{1: {2, 4}, 2: {2}, 3: {2}, 4: {2}, 5: {2}, 6: {2}}

func bf16All() {
	for _, k := range append(slices.Clone(bf16Kernels), pairsKernel) {
		for _, kernel := range k.all() {
			kernel.write()
		}
	}
}

// all returns the kernels for up to T rows.
func (k *bf16Kernel) all() (kernels []bf16Kernel) {
	for T := 1; T <= k.T; T++ {
		for _, G := range k.groups(T) {
			kernel := *k
			kernel.T, kernel.G = T, G
			kernels = append(kernels, kernel)
		}
	}
	return kernels
}

// groups returns the numbers of groups of the kernels for T rows, one last.
func (k *bf16Kernel) groups(T int) []int {
	switch {
	case k.native:
		return []int{2, 1}
	case k.isa.size == 64 && T < len(bf16Groups):
		return append(slices.Clone(bf16Groups[T]), 1)
	}
	return []int{1}
}

// function is the name of the kernel.
func (k *bf16Kernel) function() string {
	name := fmt.Sprintf("%s%d%s", k.name, k.T, k.isa.name)
	if k.G > 1 {
		name = fmt.Sprintf("%s%dGroups%d%s", k.name, k.T, k.G, k.isa.name)
	}
	return name
}

// parts is the registers of 16 float32.
func (k *bf16Kernel) parts() int { return lanes * 4 / k.isa.size }

// write writes the kernel. Like the instructions for pairs and for tiles, it takes what is
// below 2^-126 for 0, in any control word.
func (k *bf16Kernel) write() {
	signature, doc := "func(w, a *byte, nb, size, ahead int, y *float32)", fmt.Sprintf("y is [%d, %d].", k.T, 16*k.G)
	if k.native {
		signature, doc = "func(w, a *byte, nb, size, ahead, drift int, y *float32, ldy, gap int)", "Rows of y are ldy bytes apart, results of groups gap bytes. ahead grows by drift with every block."
	}
	function(k.function(), signature,
		fmt.Sprintf("multiplies %d groups of BF16 rows, size bytes apart, with a tile of %d rows, nb blocks of 32; see bf16Go. It asks for weights ahead bytes further on. %s", k.G, k.T, doc))
	w, a, nb, size, y := param("w"), param("a"), param("nb"), param("size"), param("y")
	k.ahead = param("ahead")
	control := AllocLocal(8)
	var drift reg.GPVirtual
	if k.native {
		drift = param("drift")
		k.results(y, func(_ int, to Mem) { prefetchWrite(to) })
	} else {
		STMXCSR(control)
		LDMXCSR(flushing)
	}
	groups := []reg.GPVirtual{w}
	for g := 1; g < k.G; g++ {
		next := GP64()
		MOVQ(groups[g-1], next)
		ADDQ(size, next)
		groups = append(groups, next)
	}
	acc := make([][]reg.VecVirtual, k.T*k.G) // [row, group] of registers
	for i := range acc {
		acc[i] = k.isa.zeroed()
	}
	Label("block")
	switch {
	case k.native:
		k.paired(groups, a, acc)
	case k.chain:
		k.chained(groups, a, acc)
	default:
		k.tiled(groups, a, acc)
	}
	for _, w := range groups {
		ADDQ(U32(1024), w)
	}
	if k.native {
		ADDQ(U32(64*k.T), a)
		ADDQ(drift, k.ahead)
	} else {
		ADDQ(U32(128*k.T), a)
	}
	DECQ(nb)
	JNZ(LabelRef("block"))
	if k.native {
		k.results(y, func(i int, to Mem) { VMOVUPS(acc[i][0], to) })
		end()
		return
	}
	LDMXCSR(control)
	for i := range acc {
		for part, v := range acc[i] {
			VMOVUPS(v, Mem{Base: y, Disp: 64*i + part*k.isa.size})
		}
	}
	end()
}

// results calls f for where the results of each row and group go.
func (k *bf16Kernel) results(y reg.GPVirtual, f func(i int, to Mem)) {
	row, ldy, gap := GP64(), param("ldy"), param("gap")
	MOVQ(y, row)
	for t := range k.T {
		for g := range k.G { // up to two
			to := Mem{Base: row}
			if g > 0 {
				to.Index, to.Scale = gap, 1
			}
			f(t*k.G+g, to)
		}
		ADDQ(ldy, row)
	}
}

// paired adds a block as chained does, pairs at a time. Two groups share each pair of activations, so
// that loads are fewer than products. What is asked for stops at the second-level cache: it is as much as
// the first has room for.
func (k *bf16Kernel) paired(groups []reg.GPVirtual, a reg.GPVirtual, acc [][]reg.VecVirtual) {
	for pair := range 16 {
		weights := make([]reg.VecVirtual, k.G)
		for g, w := range groups {
			PREFETCHT1(Mem{Base: w, Index: k.ahead, Scale: 1, Disp: 64 * pair})
			weights[g] = k.isa.vec()
			VMOVUPS(Mem{Base: w, Disp: 64 * pair}, weights[g])
		}
		for t := range k.T {
			x := Op(Mem{Base: a, Disp: 64*t + 4*pair})
			if k.G > 1 { // with one group a register would save no load
				v := k.isa.vec()
				VPBROADCASTD(x, v)
				x = v
			}
			for g, w := range weights {
				bf16Pairs(x, w, acc[t*k.G+g][0])
			}
		}
	}
}

// chained adds a block: the odd product of every pair, then the even one.
func (k *bf16Kernel) chained(groups []reg.GPVirtual, a reg.GPVirtual, acc [][]reg.VecVirtual) {
	for pair := range 16 {
		for g, w := range groups {
			PREFETCHT0(Mem{Base: w, Index: k.ahead, Scale: 1, Disp: 64 * pair})
			for even := range 2 {
				weights := k.half(w, pair, 1-even)
				for t := range k.T {
					k.multiply(a, t, 2*pair+1-even, weights, acc[t*k.G+g])
				}
			}
		}
	}
}

// tiled adds a block: the sums of even and of odd products for themselves, then together.
func (k *bf16Kernel) tiled(groups []reg.GPVirtual, a reg.GPVirtual, acc [][]reg.VecVirtual) {
	for g, w := range groups {
		sums := make([][2][]reg.VecVirtual, k.T)
		for pair := range 16 {
			PREFETCHT0(Mem{Base: w, Index: k.ahead, Scale: 1, Disp: 64 * pair})
			for odd := range 2 {
				weights := k.half(w, pair, odd)
				for t := range sums {
					if pair == 0 {
						sums[t][odd] = k.isa.zeroed()
					}
					k.multiply(a, t, 2*pair+odd, weights, sums[t][odd])
				}
			}
		}
		// What blocks gave before comes last, as tiles add it.
		for t := range sums {
			for part, even := range sums[t][0] {
				VADDPS(sums[t][1][part], even, even)
				VADDPS(even, acc[t*k.G+g][part], acc[t*k.G+g][part])
			}
		}
	}
}

// half loads the even or the odd elements of a pair of 16 rows as float32.
func (k *bf16Kernel) half(w reg.GPVirtual, pair, odd int) []reg.VecVirtual {
	v := k.isa.regs()
	for part, r := range v {
		m := Mem{Base: w, Disp: 64*pair + part*k.isa.size}
		switch {
		case k.isa.size == 64 && odd == 1:
			VMOVUPS(m, r)
			VPANDD(highHalf, r, r)
		case k.isa.size == 64:
			VPSLLD(Imm(16), m, r)
		case odd == 1:
			VMOVUPS(m, r)
			VPAND(highHalf, r, r)
		default:
			VMOVUPS(m, r)
			VPSLLD(Imm(16), r, r)
		}
	}
	return v
}

// multiply adds to sums the products of weights with element i of row t.
func (k *bf16Kernel) multiply(a reg.GPVirtual, t, i int, weights, sums []reg.VecVirtual) {
	x := Mem{Base: a, Disp: 128*t + 4*i}
	if k.isa.size == 64 {
		VFMADD231PS_BCST(x, weights[0], sums[0])
		return
	}
	v := k.isa.vec()
	VBROADCASTSS(x, v)
	for part, w := range weights {
		VFMADD231PS(v, w, sums[part])
	}
}

// bf16Pairs adds to each float32 of acc the product of two odd and then of two even BF16
// elements (VDPBF16PS), x being a register or a pair for all lanes.
func bf16Pairs(x Op, w, acc reg.VecVirtual) {
	Instruction(&ir.Instruction{Opcode: "VDPBF16PS", Operands: []Op{x, w, acc},
		Inputs: []Op{x, w, acc}, Outputs: []Op{acc}, ISA: []string{"AVX512_BF16"}})
}

// roundPairs writes the kernel that rounds a row of a tile, as toBF16 does, to 64 bytes a block. The cores
// have read the row that was there before: their copies are called in some blocks ahead of the
// stores, which would wait for that one by one.
func roundPairs() {
	pairsRound, pairsLast, pairsQuiet := repeat("pairsRound", 0x7fff), repeat("pairsLast", 1), repeat("pairsQuiet", 0x40<<16)
	var high [16]uint32 // the words 1, 3, 5, …
	for i := range high {
		high[i] = uint32(4*i+3)<<16 | uint32(4*i+1)
	}
	pairsHigh := words("pairsHigh", high[:]...)
	function("roundPairsAVX512", "func(dst *byte, x *float32, nb, step int)",
		"rounds nb blocks of 32 floats to BF16, 64 bytes each, step bytes apart.")
	dst, x, nb, step := param("dst"), param("x"), param("nb"), param("step")
	rounds, lasts, quiets, order := ZMM(), ZMM(), ZMM(), ZMM()
	VPBROADCASTD(pairsRound, rounds)
	VPBROADCASTD(pairsLast, lasts)
	VPBROADCASTD(pairsQuiet, quiets)
	VMOVDQU32(pairsHigh, order)
	ahead := GP64()
	MOVQ(step, ahead)
	SHLQ(Imm(4), ahead)
	Label("loop")
	prefetchWrite(Mem{Base: dst, Index: ahead, Scale: 1})
	var halves [2]reg.VecVirtual
	for i := range halves {
		halves[i] = roundHigh(x, 64*i, rounds, lasts, quiets)
	}
	VPERMT2W(halves[1], order, halves[0])
	VMOVDQU32(halves[0], Mem{Base: dst})
	ADDQ(U32(128), x)
	ADDQ(step, dst)
	DECQ(nb)
	JNZ(LabelRef("loop"))
	end()
}

// roundHigh returns 16 floats rounded to BF16 in the high half of each word.
func roundHigh(x reg.GPVirtual, off int, rounds, lasts, quiets reg.VecVirtual) reg.VecVirtual {
	v, r := ZMM(), ZMM()
	VMOVUPS(Mem{Base: x, Disp: off}, v)
	VPSRLD(Imm(16), v, r)
	VPANDD(lasts, r, r)
	VPADDD(rounds, r, r)
	VPADDD(v, r, r)
	k := K()
	VCMPPS(Imm(3), v, v, k)
	VPORD(quiets, v, k, r)
	return r
}

// prefetchWrite asks for a line to write to (PREFETCHW).
func prefetchWrite(m Mem) {
	Instruction(&ir.Instruction{Opcode: "PREFETCHW", Operands: []Op{m}, Inputs: []Op{m}})
}
