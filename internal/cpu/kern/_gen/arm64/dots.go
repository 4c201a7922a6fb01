package main

import "fmt"

// The shapes of the products in float32: the registers hold the 16 lanes of the sums of two
// weight rows (or keys) × three activation rows (or queries).
const (
	lanes      = 16
	dotR       = 2
	dotT       = 3
	weighHeads = 4 // most heads of a weigh kernel
)

// elementSize returns the bytes of an element.
func elementSize(f string) int { return map[string]int{"F32": 4, "BF16": 2, "F16": 2, "E4M3": 1}[f] }

// pointers loads n of the pointers at a parameter.
func (a *assembler) pointers(name string, n int) []gp {
	list := a.param(name)
	p := make([]gp, n)
	for i := range p {
		p[i] = a.gp()
		a.line("MOVD %d(R%d), R%d", 8*i, list, p[i])
	}
	a.freeGP(list)
	return p
}

// widened loads count elements of a type at r + offset, 4, 8 or 16, as float32, four in a register.
func (a *assembler) widened(f string, r gp, offset, count int) (v []vec) {
	v = a.take(count / 4)
	size := elementSize(f)
	switch f {
	case "F32":
		for i := range v {
			a.load(v[i], 16, r, offset+16*i)
		}
	case "E4M3":
		a.load(v[0], count*size, r, offset)
		a.codes(v)
	default:
		low, high := "shll", "shll2"
		if f == "F16" {
			low, high = "fcvtl", "fcvtl2"
		}
		for i := 0; i < len(v); i += 2 {
			a.load(v[i], min(count*size, 16), r, offset+8*i)
			if len(v) > 1 {
				a.op(high, v[i+1], v[i])
			}
			a.op(low, v[i], v[i])
		}
	}
	return v
}

// codes turns the codes in v[0] into float32, as halves that are 1/256 of their values. The sign
// comes with a copy in bit 14. Adding a unit of the last place flips bit 14 for NaN alone: the
// exclusive or of the two leaves 0 there, and for NaN 1, a half's NaN.
func (a *assembler) codes(v []vec) {
	unit, bit := a.vec(), a.vec()
	a.line("VMOVI $128, V%d.B16", unit)
	a.line("VUSHR $8, V%d.H8, V%d.H8", unit, unit) // 0x0080
	a.line("VMOVI $64, V%d.B16", bit)
	a.line("VSHL $8, V%d.H8, V%d.H8", bit, bit) // 0x4000
	halves := []vec{v[0]}
	if len(v) == 4 {
		halves = []vec{v[0], v[2]}
		a.op("sxtl28h", v[2], v[0])
	}
	a.op("sxtl8h", v[0], v[0])
	next := a.vec()
	for _, h := range halves {
		a.shl("H8", h, h, 7)
		a.three("VADD", "H8", next, h, unit)
		a.and(next, next, bit)
		a.eor(h, h, next)
	}
	for i := len(halves) - 1; i >= 0; i-- {
		if len(v) > 1 {
			a.op("fcvtl2", v[2*i+1], v[2*i])
		}
		a.op("fcvtl", v[2*i], v[2*i])
	}
	a.free(unit, bit, next)
}

// A products is the sums of dot products of weight (or key) rows and activation (or query) rows
// in registers.
type products struct {
	*assembler
	f    string
	w, x []gp
	acc  [][][]vec // [row of x][row of w], four registers each
}

func (a *assembler) products(f string, w, x []gp) *products {
	p := &products{assembler: a, f: f, w: w, x: x, acc: make([][][]vec, len(x))}
	for t := range x {
		for range w {
			p.acc[t] = append(p.acc[t], a.take(lanes/4))
		}
	}
	return p
}

// cleared makes the sums 0.
func (p *products) cleared() {
	for _, rows := range p.acc {
		for _, v := range rows {
			for _, r := range v {
				p.zero(r)
			}
		}
	}
}

// sum adds the products of n elements, a multiple of 16, and prefetches what lies far bytes
// behind the rows of w. n and the pointers to the rows are used up.
func (p *products) sum(n, far gp) {
	p.cleared()
	at := p.gp()
	loop := p.label()
	for _, w := range p.w {
		p.line("ADD R%d, R%d, R%d", far, w, at)
		p.prefetch(at, 0)
	}
	const half = 8 // elements at a time
	for part := 0; part < lanes; part += half {
		rows := make([][]vec, len(p.w))
		for r, w := range p.w {
			rows[r] = p.widened(p.f, w, part*elementSize(p.f), half)
		}
		for t, x := range p.x {
			for i := range half / 4 {
				v := p.vec()
				p.load(v, 16, x, 4*part+16*i)
				for r := range rows {
					p.fmla(p.acc[t][r][part/4+i], rows[r][i], v)
				}
				p.free(v)
			}
		}
		for _, v := range rows {
			p.free(v...)
		}
	}
	p.step(lanes*elementSize(p.f), 4*lanes)
	p.again(loop, n, lanes)
	p.freeGP(at)
}

// step moves on by so many bytes in the rows of w and x.
func (p *products) step(w, x int) {
	for _, r := range p.w {
		p.add(r, w)
	}
	for _, r := range p.x {
		p.add(r, x)
	}
}

// reduced sums the lanes of row t of x, as reduce in Go does, to one number for each row of w
// in the low lanes of a register.
func (p *products) reduced(t int) vec {
	var s [dotR]vec
	for r, v := range p.acc[t] {
		p.op("fadd", v[0], v[0], v[2])
		p.op("fadd", v[1], v[1], v[3])
		p.op("faddp", v[0], v[0], v[1])
		s[r] = v[0]
	}
	p.op("faddp", s[0], s[0], s[len(p.acc[t])-1])
	p.op("faddp", s[0], s[0], s[0])
	return s[0]
}

// results stores all sums at y, those of a row of x ldy floats behind the last.
func (p *products) results() {
	y, ld := p.param("y"), p.param("ldy")
	for t := range p.x {
		p.store(p.reduced(t), 8, y, 0)
		if t+1 < len(p.x) {
			p.line("ADD R%d<<2, R%d, R%d", ld, y, y)
		}
	}
	p.ret()
}

// dots writes a kernel of two weight rows × T activation rows; see dotGo.
func (a *assembler) dots(f string, T int) {
	a.function(fmt.Sprintf("dots%s%d", f, T), "func(w, x **byte, n, next int, y *float32, ldy int)",
		fmt.Sprintf("multiplies %d rows of %s with %d of float32, n elements, a multiple of 16; y[ldy·t+r]. It prefetches what lies next bytes behind the rows.", dotR, f, T))
	p := a.products(f, a.pointers("w", dotR), a.pointers("x", T))
	p.sum(a.param("n"), a.param("next"))
	p.results()
}

// scores writes dst[h][j] = q[h]·k[j] for T heads; see scoreGo.
func (a *assembler) scores(f string, T int) {
	a.function(fmt.Sprintf("scores%s%d", f, T), "func(dst *float32, ldd int, q *float32, ldq int, k *byte, ldk, d, n, next int)",
		fmt.Sprintf("multiplies n keys of %s, a multiple of %d, with %d queries of d floats, a multiple of 16; strides are in bytes. It prefetches what lies next bytes behind the keys.", f, dotR, T))
	dst, ldd, q, ldq, k, ldk := a.param("dst"), a.param("ldd"), a.param("q"), a.param("ldq"), a.param("k"), a.param("ldk")
	n, far := a.param("n"), a.param("next")
	w, x := []gp{a.gp(), a.gp()}, make([]gp, T)
	for t := range x {
		x[t] = a.gp()
	}
	left, row := a.gp(), a.gp()
	p := a.products(f, w, x)
	keys := a.label()
	a.copyTo(w[0], k)
	a.line("ADD R%d, R%d, R%d", ldk, k, w[1])
	a.line("ADD R%d, R%d, R%d", ldk, w[1], k)
	for t := range x {
		if t == 0 {
			a.copyTo(x[0], q)
			continue
		}
		a.line("ADD R%d, R%d, R%d", ldq, x[t-1], x[t])
	}
	a.line("MOVD d+%d(FP), R%d", a.params["d"].offset, left)
	p.sum(left, far)
	a.copyTo(row, dst)
	for t := range x {
		a.store(p.reduced(t), 8, row, 0)
		if t+1 < T {
			a.addReg(row, ldd)
		}
	}
	a.add(dst, 4*dotR)
	a.again(keys, n, dotR)
	a.ret()
}

// weigh writes acc[h] += Σ_j p[h][j]·v[j] for a number of heads; see weighGo. The columns go
// through registers, as many at a time as there are for, then 16.
func (a *assembler) weigh(f string, heads int) {
	a.function(fmt.Sprintf("weigh%s%d", f, heads), "func(acc *float32, lda int, p *float32, ldp int, v *byte, ldv, n, d, next int)",
		fmt.Sprintf("adds n weighted rows of %s to %d rows of d floats, a multiple of 16; strides are in bytes. It prefetches what lies next bytes behind the rows.", f, heads))
	k := &weighing{assembler: a, f: f, heads: heads, acc: a.param("acc"), lda: a.param("lda"), ldp: a.param("ldp"), v: a.param("v")}
	d := a.param("d")
	if wide := [...]int{1: 64, 2: 32, 3: 32, 4: 16}[heads]; wide > 16 {
		a.label()
		wideLoop := fmt.Sprintf("loop%d", a.labels)
		a.line("CMP $%d, R%d", wide, d)
		a.line("BLT narrow")
		k.columns(wide)
		a.line("SUB $%d, R%d, R%d", wide, d, d)
		a.line("B %s", wideLoop)
		fmt.Fprintf(&a.code, "narrow:\n")
		a.line("CBZ R%d, end", d)
	}
	loop := a.label()
	k.columns(16)
	a.again(loop, d, 16)
	fmt.Fprintf(&a.code, "end:\n")
	a.ret()
}

// A weighing is the weigh kernel that is written.
type weighing struct {
	*assembler
	f                string
	heads            int
	acc, lda, ldp, v gp
}

// columns adds all weighted rows to so many columns and moves on to the next.
func (k *weighing) columns(count int) {
	row := k.gp()
	sum := make([][]vec, k.heads)
	each := func(do func(h int)) {
		k.copyTo(row, k.acc)
		for h := range sum {
			if h > 0 {
				k.addReg(row, k.lda)
			}
			do(h)
		}
	}
	each(func(h int) {
		sum[h] = k.take(count / 4)
		for i, v := range sum[h] {
			k.load(v, 16, row, 16*i)
		}
	})
	p := make([]gp, k.heads)
	for h := range p {
		if h == 0 {
			p[0] = k.param("p")
			continue
		}
		p[h] = k.gp()
		k.line("ADD R%d, R%d, R%d", k.ldp, p[h-1], p[h])
	}
	k.rows(p, sum, count)
	each(func(h int) {
		for i, v := range sum[h] {
			k.store(v, 16, row, 16*i)
		}
		k.free(sum[h]...)
	})
	k.freeGP(row)
	k.freeGP(p...)
	k.add(k.acc, 4*count)
	k.add(k.v, count*elementSize(k.f))
}

// rows adds the weighted rows to the sums.
func (k *weighing) rows(p []gp, sum [][]vec, count int) {
	at, n, ldv, far := k.gp(), k.param("n"), k.param("ldv"), k.param("next")
	ahead := k.gp()
	k.copyTo(at, k.v)
	loop := k.label()
	weights := k.take(len(p))
	for h := range p {
		k.line("FMOVS.P 4(R%d), F%d", p[h], weights[h])
	}
	k.line("ADD R%d, R%d, R%d", far, at, ahead)
	for i := 0; i < count*elementSize(k.f); i += 64 {
		k.prefetch(ahead, i)
	}
	const most = 8 // elements at a time
	for i := 0; i < count; i += most {
		v := k.widened(k.f, at, i*elementSize(k.f), most)
		for j := range v {
			for h := range p {
				k.lane("fmla", sum[h][i/4+j], v[j], weights[h], 0)
			}
		}
		k.free(v...)
	}
	k.free(weights...)
	k.addReg(at, ldv)
	k.again(loop, n, 1)
	k.freeGP(at, n, ldv, far, ahead)
}
