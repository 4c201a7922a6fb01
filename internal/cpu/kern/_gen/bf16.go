package main

import (
	"fmt"
	"os"
	"regexp"
	"strconv"

	. "github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// bf16Dots writes a kernel of dotR weight rows × T activation rows, both BF16; see
// bf16DotGo. Activations are pairs of BF16 if native, else float32, 16 odd and 16 even
// ones in turns.
func bf16Dots(isa isa, T int, native bool) {
	name, form := isa.name, "odd and even float32"
	if native {
		name, form = "Native", "BF16"
	}
	function(fmt.Sprintf("bf16Dots%d%s", T, name), "func(w, x **byte, n, next int, y *float32, ldy int)",
		fmt.Sprintf("multiplies %d rows of BF16 with %d of %s, n elements, a multiple of 32; y[ldy·t+r]. It prefetches what lies next bytes behind the rows.", isa.dotR, T, form))
	w, x, n := pointers("w", isa.dotR), pointers("x", T), param("n")
	p := newProducts(isa, "BF16", w, x)
	p.blocks(native, n, param("next"))
	p.storeAll()
	end()
}

// bf16OneRow writes a kernel of many times four weight rows × 1 activation row for AVX-512.
func bf16OneRow(native bool) {
	name, form := avx512.name, "odd and even float32"
	if native {
		name, form = "Native", "BF16"
	}
	function("bf16OneRow"+name, "func(w **byte, x *byte, n, quads int, y *float32)",
		fmt.Sprintf("multiplies quads times 4 rows of BF16, of which w has 4 more to prefetch, with 1 of %s, n elements, a multiple of 32.", form))
	list, x, n, quads, y := param("w"), param("x"), param("n"), param("quads"), param("y")
	Label("rows")
	w, far := make([]reg.GPVirtual, avx512.dotR), GP64()
	for r := range w {
		w[r] = GP64()
		MOVQ(Mem{Base: list, Disp: 8 * r}, w[r])
	}
	ADDQ(Imm(uint64(8*len(w))), list)
	MOVQ(Mem{Base: list}, far)
	SUBQ(w[0], far)
	p := newProducts(avx512, "BF16", w, []reg.GPVirtual{x})
	p.blocks(native, n, far)
	p.store(0, Mem{Base: y})
	ADDQ(Imm(uint64(4*len(w))), y)
	DECQ(quads)
	JNZ(LabelRef("rows"))
	end()
}

// blocks sums n elements, a multiple of 32, and prefetches what lies far bytes behind them.
func (p *products) blocks(native bool, n, far reg.GPVirtual) {
	p.zero()
	k := GP64()
	XORQ(k, k)
	Label("loop")
	for _, w := range p.w {
		PREFETCHT0(Mem{Base: w, Index: far, Scale: 1})
	}
	if native {
		p.pairs(k)
	} else {
		p.oddAndEven(k)
	}
	ADDQ(Imm(64), far)
	ADDQ(Imm(32), k)
	CMPQ(k, n)
	JL(LabelRef("loop"))
}

// pairs adds the products of 32 elements from k on.
func (p *products) pairs(k reg.GPVirtual) {
	wv := make([]reg.VecVirtual, len(p.w))
	for r := range wv {
		wv[r] = p.isa.vec()
		VMOVUPS(Mem{Base: p.w[r], Index: k, Scale: 2}, wv[r])
	}
	for t := range p.x {
		xv := p.isa.vec()
		VMOVUPS(Mem{Base: p.x[t], Index: k, Scale: 2}, xv)
		for r := range wv {
			bf16Pairs(xv, wv[r], p.acc[t][r][0])
		}
	}
}

// oddAndEven adds the same, in the same order, without an instruction for pairs.
func (p *products) oddAndEven(k reg.GPVirtual) {
	for part := range lanes * 4 / p.isa.size {
		at := part * p.isa.size
		for even := range 2 {
			wv := make([]reg.VecVirtual, len(p.w))
			for r := range wv {
				wv[r] = p.isa.vec()
				m := Mem{Base: p.w[r], Index: k, Scale: 2, Disp: at}
				VMOVUPS(m, wv[r])
				if even == 1 {
					VPSLLD(Imm(16), wv[r], wv[r])
				} else if p.isa.size == 64 {
					VPANDD(highHalf, wv[r], wv[r])
				} else {
					VPAND(highHalf, wv[r], wv[r])
				}
			}
			for t := range p.x {
				xv := p.isa.vec()
				VMOVUPS(Mem{Base: p.x[t], Index: k, Scale: 4, Disp: at + 64*even}, xv)
				for r := range wv {
					VFMADD231PS(xv, wv[r], p.acc[t][r][part])
				}
			}
		}
	}
}

// bf16Pairs adds to each float32 of acc the product of two odd and then of two even BF16
// elements (VDPBF16PS). Neither avo nor Go's assembler knows it: encode writes its bytes.
func bf16Pairs(x, w, acc reg.VecVirtual) {
	Instruction(&ir.Instruction{Opcode: "VDPBF16PS", Operands: []Op{x, w, acc},
		Inputs: []Op{x, w, acc}, Outputs: []Op{acc}, ISA: []string{"AVX512_BF16"}})
}

var unknown = regexp.MustCompile(`VDPBF16PS +Z(\d+), Z(\d+), Z(\d+)`)

// encode writes the bytes of the instructions in an assembly file that the assembler
// does not know: EVEX.512.F3.0F38.W0 52 /r (Intel's manual, volume 2).
func encode(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text = unknown.ReplaceAllFunc(text, func(line []byte) []byte {
		m := unknown.FindSubmatch(line)
		n := func(i int) uint32 { v, _ := strconv.Atoi(string(m[i])); return uint32(v) }
		src, other, dst := n(1), n(2), n(3)
		bit := func(v uint32, i int) uint32 { return ^v >> i & 1 } // stored inverted
		p0 := bit(dst, 3)<<7 | bit(src, 4)<<6 | bit(src, 3)<<5 | bit(dst, 4)<<4 | 2
		p1 := (^other&15)<<3 | 4 | 2
		p2 := 2<<5 | bit(other, 4)<<3
		return fmt.Appendf(nil, "LONG $0x%08x; WORD $0x%04x // %s", p2<<24|p1<<16|p0<<8|0x62, (0xc0|dst&7<<3|src&7)<<8|0x52, line)
	})
	return os.WriteFile(file, text, 0o644)
}
