package main

// Operations on rows of float32 have one implementation for all levels above Go; the level that
// they get is not looked at.

// elementwise writes a loop over n floats, a multiple of 16: body gets the offset in bytes of
// each register in its rows, of which each of pointers moves on by so many bytes.
func (a *assembler) elementwise(n gp, body func(offset int), bytes int, pointers ...gp) {
	loop := a.label()
	for offset := 0; offset < 4*lanes; offset += 16 {
		body(offset)
	}
	for _, p := range pointers {
		a.add(p, bytes)
	}
	a.again(loop, n, lanes)
}

// quantise writes the quantiser of blocks of 32; see quantiseGo.
func (a *assembler) quantise() {
	a.function("quantiseAsm", "func(l Level, x *float32, nb int, q, s *byte, ld, step int)",
		"quantises nb blocks of 32: quants to q, scale to s, their sums to s+ld and s+2ld; the next block is step bytes on.")
	x, nb, q, s, ld, step := a.param("x"), a.param("nb"), a.param("q"), a.param("s"), a.param("ld"), a.param("step")
	at := a.gp()
	abs, tiny, c127, least := a.vec(), a.vec(), a.vec(), a.vec()
	a.word32(abs, 0x7fffffff)
	a.number(tiny, 1e-30)
	a.number(c127, 127)
	a.number(least, -127)
	loop := a.label()
	v, top, other := a.take(8), a.vec(), a.vec()
	for i := range v {
		a.load(v[i], 16, x, 16*i)
		if i == 0 {
			a.and(top, v[0], abs)
			continue
		}
		a.and(other, v[i], abs)
		a.three("VUMAX", "S4", top, top, other)
	}
	a.three("VUMAX", "S4", top, top, tiny)
	a.op("umaxv", top, top)
	a.dup(top, top, 0)
	a.op("fdiv", other, c127, top) // the factor of all
	a.op("fdiv", top, top, c127)
	a.store(top, 4, s, 0)
	for i := range v {
		a.op("fmul", v[i], v[i], other)
		a.op("fmaxnm", v[i], v[i], least) // a NaN too
		a.op("fcvtns", v[i], v[i])
	}
	a.copyTo(at, s)
	for h := range 2 {
		a.addInt(top, v[4*h], v[4*h+1])
		a.addInt(other, v[4*h+2], v[4*h+3])
		a.addInt(top, top, other)
		a.op("addv", top, top)
		a.addReg(at, ld)
		a.store(top, 4, at, 0)
	}
	for i := 0; i < 8; i += 4 {
		a.even("H8", v[i], v[i], v[i+1])
		a.even("H8", v[i+2], v[i+2], v[i+3])
		a.even("B16", v[i], v[i], v[i+2])
		a.store(v[i], 16, q, 4*i)
	}
	a.add(x, 128)
	a.addReg(q, step)
	a.addReg(s, step)
	a.again(loop, nb, 1)
	a.ret()
}

// residual writes what quantise leaves over; see residualGo.
func (a *assembler) residual() {
	a.function("residualAsm", "func(l Level, x *float32, nb int, q, s *byte, step int, rest *float32)",
		"stores what the quants q of nb blocks of 32, step bytes apart, with the scales s leave of x.")
	x, nb, q, s, step, rest := a.param("x"), a.param("nb"), a.param("q"), a.param("s"), a.param("step"), a.param("rest")
	scale, v, n, halves := a.vec(), a.vec(), a.vec(), a.take(2)
	loop := a.label()
	a.load(scale, 4, s, 0)
	a.dup(scale, scale, 0)
	for i := range 2 {
		a.load(halves[0], 16, q, 16*i)
		a.op("sxtl28h", halves[1], halves[0])
		a.op("sxtl8h", halves[0], halves[0])
		for j := range 4 {
			a.op([]string{"sxtl4s", "sxtl24s"}[j%2], n, halves[j/2])
			a.op("scvtf", n, n)
			a.load(v, 16, x, 64*i+16*j)
			a.fmls(v, n, scale)
			a.store(v, 16, rest, 64*i+16*j)
		}
	}
	a.add(x, 128)
	a.add(rest, 128)
	a.addReg(q, step)
	a.addReg(s, step)
	a.again(loop, nb, 1)
	a.ret()
}

func (a *assembler) scaleMul() {
	a.function("scaleMulAsm", "func(l Level, dst, x, w *float32, n int, k float32)", "computes dst = x·k·w; n is a multiple of 16.")
	dst, x, w, n, k := a.param("dst"), a.param("x"), a.param("w"), a.param("n"), a.paramLanes("k")
	v, u := a.vec(), a.vec()
	a.elementwise(n, func(offset int) {
		a.load(v, 16, x, offset)
		a.load(u, 16, w, offset)
		a.op("fmul", v, v, k)
		a.op("fmul", v, v, u)
		a.store(v, 16, dst, offset)
	}, 64, dst, x, w)
	a.ret()
}

func (a *assembler) mulAdd() {
	a.function("mulAddAsm", "func(l Level, dst, x *float32, n int, k float32)", "computes dst += k·x; n is a multiple of 16.")
	dst, x, n, k := a.param("dst"), a.param("x"), a.param("n"), a.paramLanes("k")
	v, u := a.vec(), a.vec()
	a.elementwise(n, func(offset int) {
		a.load(v, 16, dst, offset)
		a.load(u, 16, x, offset)
		a.fmla(v, u, k)
		a.store(v, 16, dst, offset)
	}, 64, dst, x)
	a.ret()
}

func (a *assembler) times() {
	a.function("timesAsm", "func(l Level, dst, x *float32, n int, k float32)", "computes dst = k·x; n is a multiple of 16.")
	dst, x, n, k := a.param("dst"), a.param("x"), a.param("n"), a.paramLanes("k")
	v := a.vec()
	a.elementwise(n, func(offset int) {
		a.load(v, 16, x, offset)
		a.op("fmul", v, v, k)
		a.store(v, 16, dst, offset)
	}, 64, dst, x)
	a.ret()
}

// rotate writes the rotation of pairs; see Rotate. Products are rounded before they are added.
func (a *assembler) rotate() {
	a.function("rotateAsm", "func(l Level, a, b, cos, sin *float32, n int)", "rotates n pairs, a multiple of 16.")
	first, second, cos, sin, n := a.param("a"), a.param("b"), a.param("cos"), a.param("sin"), a.param("n")
	x, y, c, s, xc, ys := a.vec(), a.vec(), a.vec(), a.vec(), a.vec(), a.vec()
	a.elementwise(n, func(offset int) {
		a.load(x, 16, first, offset)
		a.load(y, 16, second, offset)
		a.load(c, 16, cos, offset)
		a.load(s, 16, sin, offset)
		a.op("fmul", xc, x, c)
		a.op("fmul", ys, y, s)
		a.op("fmul", y, y, c)
		a.op("fmul", x, x, s)
		a.op("fsub", xc, xc, ys)
		a.op("fadd", y, y, x)
		a.store(xc, 16, first, offset)
		a.store(y, 16, second, offset)
	}, 64, first, second, cos, sin)
	a.ret()
}

// An exponential is the constants of the exponential function in registers; see expGo.
type exponential struct {
	*assembler
	least, most, log2e, high, low vec
	c                             []vec // 1/6!, 1/5!, …, 1
	n, p, q, mask                 vec   // scratch
}

func (a *assembler) exponential() *exponential {
	e := &exponential{assembler: a, least: a.vec(), most: a.vec(), log2e: a.vec(), high: a.vec(), low: a.vec(), c: a.take(6), n: a.vec(), p: a.vec(), q: a.vec(), mask: a.vec()}
	a.number(e.least, -87)
	a.number(e.most, 88)
	a.number(e.log2e, 1.44269504088896341)
	a.number(e.high, 0.693359375)
	a.number(e.low, -2.12194440e-4)
	for i, x := range []float64{1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1} {
		a.number(e.c[i], x)
	}
	return e
}

// apply replaces x by exp(x).
func (e *exponential) apply(x vec) {
	e.op("fcmgt", e.mask, e.least, x) // not for a NaN
	e.op("fmin", x, x, e.most)        // a NaN stays
	e.op("fmul", e.n, x, e.log2e)
	e.op("frintn", e.n, e.n)
	e.fmls(x, e.n, e.high)
	e.fmls(x, e.n, e.low)
	p, next := e.p, e.q
	e.move(p, e.c[0])
	for _, c := range append(e.c[1:len(e.c):len(e.c)], e.c[5]) {
		e.move(next, c)
		e.fmla(next, p, x)
		p, next = next, p
	}
	e.op("fcvtns", e.n, e.n)
	e.shl("S4", e.n, e.n, 23)
	e.addInt(x, p, e.n)
	e.op("bic", x, x, e.mask)
}

func (a *assembler) expSum() {
	a.function("expSumAsm", "func(l Level, x *float32, n int, m float32) float32", "replaces x by exp(x-m) and returns the sum; n is a multiple of 16.")
	x, n, m := a.param("x"), a.param("n"), a.paramLanes("m")
	e, v, sums := a.exponential(), a.vec(), a.take(4)
	for _, s := range sums {
		a.zero(s)
	}
	a.elementwise(n, func(offset int) {
		a.load(v, 16, x, offset)
		a.op("fsub", v, v, m)
		e.apply(v)
		a.store(v, 16, x, offset)
		a.op("fadd", sums[offset/16], sums[offset/16], v)
	}, 64, x)
	p := &products{assembler: a, acc: [][][]vec{{sums}}}
	a.result(p.reduced(0))
	a.ret()
}

func (a *assembler) swiglu() {
	a.function("swigluAsm", "func(l Level, dst, gu *float32, n int, alpha, limit, plus float32)",
		"computes dst[i] = swish(gate)·(up+plus), see swigluGo; n is a multiple of 16.")
	dst, gu, n := a.param("dst"), a.param("gu"), a.param("n")
	alpha, limit, plus, lower := a.paramLanes("alpha"), a.paramLanes("limit"), a.paramLanes("plus"), a.vec()
	a.op("fneg", lower, limit)
	a.op("fneg", alpha, alpha)
	ex, g, u, v, w := a.exponential(), a.vec(), a.vec(), a.vec(), a.vec()
	loop := a.label()
	for offset := 0; offset < 4*lanes; offset += 16 {
		a.load(v, 16, gu, 2*offset)
		a.load(w, 16, gu, 2*offset+16)
		a.even("S4", g, v, w)
		a.odd("S4", u, v, w)
		a.op("fmin", g, g, limit)
		a.op("fmin", u, u, limit)
		a.op("fmax", u, u, lower)
		a.op("fmul", v, g, alpha)
		ex.apply(v)
		a.op("fadd", v, v, ex.c[5])
		a.op("fdiv", g, g, v)
		a.op("fadd", u, u, plus)
		a.op("fmul", g, g, u)
		a.store(g, 16, dst, offset)
	}
	a.add(dst, 64)
	a.add(gu, 128)
	a.again(loop, n, lanes)
	a.ret()
}

// toBF16 writes the rounding to bfloat16; see tensor.ToBF16.
func (a *assembler) toBF16() {
	a.function("toBF16Asm", "func(l Level, dst *uint16, x *float32, n int)", "rounds to nearest even; n is a multiple of 16.")
	dst, x, n := a.param("dst"), a.param("x"), a.param("n")
	round, last, quiet := a.vec(), a.vec(), a.vec()
	a.word32(round, 0x7fff)
	a.word32(last, 1)
	a.word32(quiet, 0x400000)
	v, number, pair := a.vec(), a.vec(), a.take(2)
	loop := a.label()
	for offset := 0; offset < 4*lanes; offset += 16 {
		r := pair[offset/16%2]
		a.load(v, 16, x, offset)
		a.op("fcmeq", number, v, v)
		a.shr("S4", r, v, 16)
		a.and(r, r, last)
		a.addInt(r, r, round)
		a.addInt(r, r, v)
		a.or(v, v, quiet)
		a.line("VBIF V%d.B16, V%d.B16, V%d.B16", number, v, r) // where it is none, v
		if offset/16%2 == 1 {
			a.odd("H8", pair[0], pair[0], pair[1])
			a.store(pair[0], 16, dst, offset/32*16)
		}
	}
	a.add(dst, 32)
	a.add(x, 64)
	a.again(loop, n, lanes)
	a.ret()
}

func (a *assembler) maxBits() {
	a.function("maxBitsAsm", "func(l Level, x *float32, n int) uint32", "returns the largest magnitude of x as bits; n is a multiple of 16.")
	x, n := a.param("x"), a.param("n")
	abs, top, v := a.vec(), a.vec(), a.vec()
	a.word32(abs, 0x7fffffff)
	a.zero(top)
	a.elementwise(n, func(offset int) {
		a.load(v, 16, x, offset)
		a.and(v, v, abs)
		a.three("VUMAX", "S4", top, top, v)
	}, 64, x)
	a.op("umaxv", top, top)
	a.result(top)
	a.ret()
}

// largest writes the maximum of float32 numbers.
func (a *assembler) largest() {
	a.function("largestAsm", "func(l Level, x *float32, n int) float32", "returns the largest of x, none NaN; n is a multiple of 16.")
	x, n := a.param("x"), a.param("n")
	top, v := a.vec(), a.vec()
	a.load(top, 16, x, 0)
	a.elementwise(n, func(offset int) {
		a.load(v, 16, x, offset)
		a.op("fmaxnm", top, top, v)
	}, 64, x)
	a.op("fmaxnmv", top, top)
	a.result(top)
	a.ret()
}

// toE4M3 adds to |x·k| the power of two, at least 2^14, whose last place is an eighth of the
// number's own power of two: what the sum gained in units of its last place is the significand,
// 8 to 16 (from 0 for subnormal numbers), correctly rounded.
func (a *assembler) toE4M3() {
	a.function("toE4M3Asm", "func(l Level, dst *uint8, x *float32, n int, k float32)", "converts x·k, none NaN, see tensor.ToE4M3; n is a multiple of 16.")
	dst, x, n, k := a.param("dst"), a.param("x"), a.param("n"), a.paramLanes("k")
	c := a.take(7)
	for i, w := range []uint32{0x7f800000, (127 - 6) << 23, 20 << 23, (127 + 20 - 6) << 3, 0x7e, 0x80, 0x7fffffff} {
		a.word32(c[i], w)
	}
	exponent, least, up, bias, top, sign, abs := c[0], c[1], c[2], c[3], c[4], c[5], c[6]
	m, sums, v := a.vec(), a.take(4), a.vec()
	loop := a.label()
	for i, sum := range sums {
		a.load(v, 16, x, 16*i)
		a.op("fmul", v, v, k)
		a.and(m, v, exponent)
		a.three("VUMAX", "S4", m, m, least)
		a.addInt(m, m, up)
		a.and(sum, v, abs)
		a.op("fadd", sum, sum, m)
		a.subInt(sum, sum, m)
		a.shr("S4", m, m, 20)
		a.subInt(m, m, bias)
		a.addInt(sum, sum, m)
		a.three("VUMIN", "S4", sum, sum, top)
		a.shr("S4", v, v, 24)
		a.and(v, v, sign)
		a.addInt(sum, sum, v)
	}
	a.even("H8", sums[0], sums[0], sums[1])
	a.even("H8", sums[2], sums[2], sums[3])
	a.even("B16", sums[0], sums[0], sums[2])
	a.store(sums[0], 16, dst, 0)
	a.add(x, 64)
	a.add(dst, 16)
	a.again(loop, n, lanes)
	a.ret()
}

// peak writes a loop of multiply-adds on twelve registers, enough to hide their latency: what no
// kernel can beat.
func (a *assembler) peak(name, doc string, step func(d, x vec)) {
	a.function("peak"+name, "func(n int)", doc)
	n, x, d := a.param("n"), a.vec(), a.take(12)
	a.zero(x)
	for _, v := range d {
		a.zero(v)
	}
	loop := a.label()
	for _, v := range d {
		step(v, x)
	}
	a.again(loop, n, 1)
	a.ret()
}

func (a *assembler) peaks() {
	a.peak("F32", "runs n times twelve multiply-adds of float32 within registers.", func(d, x vec) { a.fmla(d, x, x) })
	a.peak("BF16", "runs n times twelve multiply-adds of BF16 within registers.", func(d, x vec) { a.op("bfmlalb", d, x, x) })
	a.peak("Int8NEON", "runs n times twelve multiply-adds of int8 within registers.", func(d, x vec) { a.op("smlal", d, x, x) })
	a.peak("Int8DotProd", "runs n times twelve multiply-adds of int8 within registers.", func(d, x vec) { a.op("sdot", d, x, x) })
	a.peak("Int8I8MM", "runs n times twelve multiply-adds of int8 within registers.", func(d, x vec) { a.op("usmmla", d, x, x) })
}

// waiting writes what the pool does without arithmetic.
func (a *assembler) waiting() {
	a.function("pause", "func()", "tells the core that its thread is waiting in a loop.")
	a.line("YIELD")
	a.ret()
	a.function("prefetch", "func(p *byte, lines int)", "asks for lines of 64 bytes, one or more.")
	p, n := a.param("p"), a.param("lines")
	loop := a.label()
	a.prefetch(p, 0)
	a.add(p, 64)
	a.again(loop, n, 1)
	a.ret()
}
