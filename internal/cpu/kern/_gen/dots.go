package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// pointers loads n of the pointers at a parameter.
func pointers(name string, n int) []reg.GPVirtual {
	list := param(name)
	p := make([]reg.GPVirtual, n)
	for i := range p {
		p[i] = GP64()
		MOVQ(Mem{Base: list, Disp: 8 * i}, p[i])
	}
	return p
}

// dots writes a kernel of dotR weight rows × T activation rows; see dotGo.
func dots(isa isa, f string, T int) {
	function(fmt.Sprintf("dots%s%d%s", f, T, isa.name), "func(w, x **byte, n int, y *float32)",
		fmt.Sprintf("multiplies %d rows of %s with %d of float32, n elements, a multiple of 16; y[4t+r].", isa.dotR, f, T))
	w, x, n := pointers("w", isa.dotR), pointers("x", T), param("n")
	acc := make([][][]reg.VecVirtual, T)
	for t := range acc {
		acc[t] = make([][]reg.VecVirtual, isa.dotR)
		for r := range acc[t] {
			acc[t][r] = isa.zeroed()
		}
	}
	size := elementSize(f)
	k := GP64()
	XORQ(k, k)
	Label("loop")
	for part := range lanes * 4 / isa.size {
		at := part * isa.size / 4 // the first lane of this register
		wv := make([]reg.VecVirtual, isa.dotR)
		for r := range wv {
			if part == 0 {
				PREFETCHT0(Mem{Base: w[r], Index: k, Scale: uint8(size), Disp: ahead / 2})
			}
			wv[r] = isa.vec()
			float(f, Mem{Base: w[r], Index: k, Scale: uint8(size), Disp: at * size}, wv[r])
		}
		for t := range T {
			xv := isa.vec()
			VMOVUPS(Mem{Base: x[t], Index: k, Scale: 4, Disp: at * 4}, xv)
			for r := range wv {
				VFMADD231PS(xv, wv[r], acc[t][r][part])
			}
		}
	}
	ADDQ(Imm(lanes), k)
	CMPQ(k, n)
	JL(LabelRef("loop"))
	y := param("y")
	for t := range acc {
		halves := make([]reg.VecVirtual, isa.dotR)
		for r := range halves {
			halves[r] = isa.halve(acc[t][r])
		}
		s := isa.reduce(halves)
		if isa.dotR == 4 {
			VMOVUPS(s.AsX(), Mem{Base: y, Disp: 16 * t})
		} else {
			VMOVSD(s.AsX(), Mem{Base: y, Disp: 16 * t})
		}
	}
	end()
}

// weigh writes acc[h] += Σ_j p[h][j]·v[j] for a number of heads; see weighGo.
// The columns go through registers, 32 at a time and then 16.
func weigh(isa isa, f string, heads int) {
	function(fmt.Sprintf("weigh%s%d%s", f, heads, isa.name), "func(acc *float32, lda int, p *float32, ldp int, v *byte, ldv, n, d int)",
		fmt.Sprintf("adds n weighted rows of %s to %d rows of d floats, a multiple of 16; strides are in bytes.", f, heads))
	acc, lda, ldp, d := param("acc"), param("lda"), param("ldp"), param("d")
	v := param("v")
	wide := 32
	if isa.size == 32 {
		wide = 16
	}
	Label("wide")
	CMPQ(d, Imm(uint64(wide)))
	JL(LabelRef("narrow"))
	weighColumns(isa, f, heads, wide, acc, lda, ldp, v)
	ADDQ(Imm(uint64(wide*4)), acc)
	ADDQ(Imm(uint64(wide*elementSize(f))), v)
	SUBQ(Imm(uint64(wide)), d)
	JMP(LabelRef("wide"))
	Label("narrow")
	if wide > 16 {
		TESTQ(d, d)
		JZ(LabelRef("end"))
		weighColumns(isa, f, heads, 16, acc, lda, ldp, v)
	}
	Label("end")
	end()
}

func weighColumns(isa isa, f string, heads, columns int, acc, lda, ldp, v reg.GPVirtual) {
	regs := columns * 4 / isa.size
	row := GP64()
	MOVQ(acc, row)
	sum := make([][]reg.VecVirtual, heads)
	each := func(do func(h int)) {
		MOVQ(acc, row)
		for h := range heads {
			if h > 0 {
				ADDQ(lda, row)
			}
			do(h)
		}
	}
	each(func(h int) {
		sum[h] = make([]reg.VecVirtual, regs)
		for i := range sum[h] {
			sum[h][i] = isa.vec()
			VMOVUPS(Mem{Base: row, Disp: i * isa.size}, sum[h][i])
		}
	})
	p, at, n, ldv := make([]reg.GPVirtual, heads), GP64(), param("n"), param("ldv")
	for h := range p {
		if h == 0 {
			p[0] = param("p")
			continue
		}
		p[h] = GP64()
		MOVQ(p[h-1], p[h])
		ADDQ(ldp, p[h])
	}
	MOVQ(v, at)
	loop := label("loop%d", columns)
	Label(loop)
	x := make([]reg.VecVirtual, regs)
	for i := range x {
		x[i] = isa.vec()
		float(f, Mem{Base: at, Disp: i * isa.size / 4 * elementSize(f)}, x[i])
	}
	for h := range p {
		b := isa.vec()
		VBROADCASTSS(Mem{Base: p[h]}, b)
		for i := range x {
			VFMADD231PS(x[i], b, sum[h][i])
		}
		ADDQ(Imm(4), p[h])
	}
	ADDQ(ldv, at)
	DECQ(n)
	JNZ(LabelRef(loop))
	each(func(h int) {
		for i := range sum[h] {
			VMOVUPS(sum[h][i], Mem{Base: row, Disp: i * isa.size})
		}
	})
}
