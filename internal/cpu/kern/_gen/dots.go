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
	function(fmt.Sprintf("dots%s%d%s", f, T, isa.name), "func(w, x **byte, n, next int, y *float32, ldy int)",
		fmt.Sprintf("multiplies %d rows of %s with %d of float32, n elements, a multiple of 16; y[ldy·t+r]. It prefetches what lies next bytes behind the rows.", isa.dotR, f, T))
	w, x, n := pointers("w", isa.dotR), pointers("x", T), param("n")
	p := newProducts(isa, f, w, x)
	p.sum(n, "next")
	p.storeAll()
	end()
}

// products are the sums of dot products of weight (or key) rows and activation
// (or query) rows in registers.
type products struct {
	isa  isa
	f    string
	w, x []reg.GPVirtual
	acc  [][][]reg.VecVirtual // [row of x][row of w]
}

func newProducts(isa isa, f string, w, x []reg.GPVirtual) *products {
	p := &products{isa: isa, f: f, w: w, x: x, acc: make([][][]reg.VecVirtual, len(x))}
	for t := range x {
		for range w {
			p.acc[t] = append(p.acc[t], isa.regs())
		}
	}
	return p
}

func (p *products) zero() {
	for _, rows := range p.acc {
		for _, v := range rows {
			for _, r := range v {
				VXORPS(r, r, r)
			}
		}
	}
}

// sum loops over n elements, a multiple of 16; prefetch is a parameter, a distance in
// bytes.
func (p *products) sum(n Op, prefetch string) {
	p.zero()
	size := elementSize(p.f)
	k := GP64()
	XORQ(k, k)
	far := param(prefetch)
	Label("loop")
	for part := range lanes * 4 / p.isa.size {
		at := part * p.isa.size / 4 // the first lane of this register
		wv := make([]reg.VecVirtual, len(p.w))
		for r := range wv {
			if part == 0 {
				PREFETCHT0(Mem{Base: p.w[r], Index: far, Scale: 1})
			}
			wv[r] = p.isa.vec()
			float(p.isa, p.f, Mem{Base: p.w[r], Index: k, Scale: uint8(size), Disp: at * size}, wv[r])
		}
		for t := range p.x {
			xv := p.isa.vec()
			VMOVUPS(Mem{Base: p.x[t], Index: k, Scale: 4, Disp: at * 4}, xv)
			for r := range wv {
				VFMADD231PS(xv, wv[r], p.acc[t][r][part])
			}
		}
	}
	ADDQ(Imm(uint64(lanes*size)), far)
	ADDQ(Imm(lanes), k)
	CMPQ(k, n)
	JL(LabelRef("loop"))
}

// storeAll writes the sums to y, those of a row of x ldy floats behind the last.
func (p *products) storeAll() {
	y, ld := param("y"), param("ldy")
	for t := range p.x {
		p.store(t, Mem{Base: y})
		if t+1 < len(p.x) {
			LEAQ(Mem{Base: y, Index: ld, Scale: 4}, y)
		}
	}
}

// store writes the sums of row t of x, one for each row of w.
func (p *products) store(t int, to Mem) {
	halves := make([]reg.VecVirtual, len(p.w))
	for r := range halves {
		halves[r] = p.isa.halve(p.acc[t][r])
	}
	s := p.isa.reduce(halves)
	if len(p.w) == 4 {
		VMOVUPS(s.AsX(), to)
	} else {
		VMOVSD(s.AsX(), to)
	}
}

// scores writes dst[h][j] = q[h]·k[j] for T heads; see scoreGo.
func scores(isa isa, f string, T int) {
	function(fmt.Sprintf("scores%s%d%s", f, T, isa.name), "func(dst *float32, ldd int, q *float32, ldq int, k *byte, ldk, d, n, next int)",
		fmt.Sprintf("multiplies n keys of %s, a multiple of %d, with %d queries of d floats, a multiple of 16; strides are in bytes. It prefetches what lies next bytes behind the keys.", f, isa.dotR, T))
	stride := func(name string) Mem { // read where it is: the general registers are all taken
		p, err := Param(name).Resolve()
		if err != nil {
			panic(err)
		}
		return p.Addr
	}
	rows := func(first, ld string, n int) []reg.GPVirtual {
		p := []reg.GPVirtual{param(first)}
		for i := 1; i < n; i++ {
			p = append(p, GP64())
			MOVQ(p[i-1], p[i])
			ADDQ(stride(ld), p[i])
		}
		return p
	}
	k, q, dst, n := rows("k", "ldk", isa.dotR), rows("q", "ldq", T), param("dst"), param("n")
	p := newProducts(isa, f, k, q)
	Label("keys")
	p.sum(stride("d"), "next")
	row := GP64()
	MOVQ(dst, row)
	for t := range q {
		p.store(t, Mem{Base: row})
		ADDQ(stride("ldd"), row)
	}
	ADDQ(Imm(uint64(4*isa.dotR)), dst)
	for r := range k { // one row for each row of the last step
		for range k {
			ADDQ(stride("ldk"), k[r])
		}
	}
	SUBQ(Imm(uint64(isa.dotR)), n)
	JNZ(LabelRef("keys"))
	end()
}

// weigh writes acc[h] += Σ_j p[h][j]·v[j] for a number of heads; see weighGo.
// The columns go through registers, as many at a time as keep both multipliers busy, then 16.
func weigh(isa isa, f string, heads int) {
	function(fmt.Sprintf("weigh%s%d%s", f, heads, isa.name), "func(acc *float32, lda int, p *float32, ldp int, v *byte, ldv, n, d, next int)",
		fmt.Sprintf("adds n weighted rows of %s to %d rows of d floats, a multiple of 16; strides are in bytes. It prefetches what lies next bytes behind the rows.", f, heads))
	acc, lda, ldp, d := param("acc"), param("lda"), param("ldp"), param("d")
	v := param("v")
	wide := 64
	if isa.size == 32 {
		wide = [...]int{1: 64, 2: 32, 3: 16, 4: 16}[heads]
	}
	Label("wide")
	CMPQ(d, Imm(uint64(wide)))
	JL(LabelRef("narrow"))
	weighColumns(isa, f, heads, wide, acc, lda, ldp, v)
	ADDQ(U32(wide*4), acc)
	ADDQ(U32(wide*elementSize(f)), v)
	SUBQ(U32(wide), d)
	JMP(LabelRef("wide"))
	Label("narrow")
	if wide > 16 {
		TESTQ(d, d)
		JZ(LabelRef("end"))
		weighColumns(isa, f, heads, 16, acc, lda, ldp, v)
		ADDQ(U32(16*4), acc)
		ADDQ(Imm(uint64(16*elementSize(f))), v)
		SUBQ(Imm(16), d)
		JMP(LabelRef("narrow"))
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
	p, at, n, ldv, far := make([]reg.GPVirtual, heads), GP64(), param("n"), param("ldv"), param("next")
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
	b := make([]reg.VecVirtual, heads)
	for h := range p {
		b[h] = isa.vec()
		VBROADCASTSS(Mem{Base: p[h]}, b[h])
		ADDQ(Imm(4), p[h])
	}
	for i := 0; i < columns*elementSize(f); i += 64 {
		PREFETCHT0(Mem{Base: at, Index: far, Scale: 1, Disp: i})
	}
	for i := range regs {
		x := isa.vec()
		float(isa, f, Mem{Base: at, Disp: i * isa.size / 4 * elementSize(f)}, x)
		for h := range p {
			VFMADD231PS(x, b[h], sum[h][i])
		}
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
