package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// quantise writes the quantiser of blocks of 32; see quantiseGo.
func quantise(isa isa) {
	function("quantise"+isa.name, "func(x *float32, nb int, q, s *byte, ld, step int)",
		"quantises nb blocks of 32: quants to q, scale to s, their sums to s+ld and s+2ld; the next block is step bytes on.")
	x, nb, q, s, ld, step := param("x"), param("nb"), param("q"), param("s"), param("ld"), param("step")
	c127 := constant("max127"+isa.name, 127)
	Label("loop")
	v := append(isa.regs(), isa.regs()...) // elements 0-15, then 16-31
	abs := append(isa.regs(), isa.regs()...)
	for i := range v {
		VMOVUPS(Mem{Base: x, Disp: i * isa.size}, v[i])
		if isa.size == 64 {
			VPANDD_BCST(absMask, v[i], abs[i])
		} else {
			VPAND(absMask, v[i], abs[i])
		}
		if i > 0 {
			VPMAXUD(abs[i], abs[0], abs[0])
		}
	}
	top := maximum(isa, abs[0], VPMAXUD)
	VPMAXUD(tiny, top, top)
	inv, invs := XMM(), isa.vec()
	VMOVSS(c127, inv)
	VDIVSS(top, inv, inv)
	VBROADCASTSS(inv, invs)
	VDIVSS(c127, top, top)
	VMOVSS(top, Mem{Base: s})
	for i := range v {
		VMULPS(invs, v[i], v[i])
		VCVTPS2DQ(v[i], v[i])
		if isa.size == 64 {
			VPMAXSD_BCST(minus127, v[i], v[i])
		} else {
			VPMAXSD(minus127, v[i], v[i])
		}
	}
	sums(isa, v, s, ld)
	storeBytes(isa, v, q)
	ADDQ(U32(128), x)
	ADDQ(step, q)
	ADDQ(step, s)
	DECQ(nb)
	JNZ(LabelRef("loop"))
	end()
}

// residual writes what quantise leaves over; see residualGo.
func residual(isa isa) {
	function("residual"+isa.name, "func(x *float32, nb int, q, s *byte, step int, rest *float32)",
		"stores what the quants q of nb blocks of 32, step bytes apart, with the scales s leave of x.")
	x, nb, q, s, step, rest := param("x"), param("nb"), param("q"), param("s"), param("step"), param("rest")
	Label("loop")
	scale := isa.vec()
	VBROADCASTSS(Mem{Base: s}, scale)
	for i := range 128 / isa.size {
		v, n := isa.vec(), isa.vec()
		VPMOVSXBD(Mem{Base: q, Disp: i * isa.size / 4}, n)
		VCVTDQ2PS(n, n)
		VMOVUPS(Mem{Base: x, Disp: i * isa.size}, v)
		VFNMADD231PS(scale, n, v)
		VMOVUPS(v, Mem{Base: rest, Disp: i * isa.size})
	}
	ADDQ(U32(128), x)
	ADDQ(U32(128), rest)
	ADDQ(step, q)
	ADDQ(step, s)
	DECQ(nb)
	JNZ(LabelRef("loop"))
	end()
}

// maximum returns the largest word of v, by pick, VPMAXUD or VMAXPS, in the low lane
// of an XMM.
func maximum(isa isa, v reg.VecVirtual, pick func(...Op)) reg.VecVirtual {
	if isa.size == 64 {
		h := YMM()
		VEXTRACTI64X4(Imm(1), v, h)
		pick(h, v.AsY(), h)
		v = h
	}
	m, h := XMM(), XMM()
	VEXTRACTI128(Imm(1), v.AsY(), m)
	pick(v.AsX(), m, m)
	VPSHUFD(Imm(0x4e), m, h)
	pick(h, m, m)
	VPSHUFD(Imm(0xb1), m, h)
	pick(h, m, m)
	return m
}

// largest writes the maximum of float32 numbers.
func largest(isa isa) {
	function("largest"+isa.name, "func(x *float32, n int) float32", "returns the largest of x, none NaN; n is a multiple of 16.")
	x, n := param("x"), param("n")
	top := isa.vec()
	VMOVUPS(Mem{Base: x}, top)
	elementwise(isa, n, func(off int) { VMAXPS(Mem{Base: x, Disp: off}, top, top) }, func() { ADDQ(Imm(64), x) })
	r, err := ReturnIndex(0).Resolve()
	if err != nil {
		panic(err)
	}
	VMOVSS(maximum(isa, top, VMAXPS).AsX(), r.Addr)
	end()
}

// sums stores the sums of both halves of a block.
func sums(isa isa, v []reg.VecVirtual, s, ld reg.GPVirtual) {
	var half [2]reg.VecVirtual
	for i := range half {
		half[i] = YMM()
		if isa.size == 64 {
			VEXTRACTI64X4(Imm(1), v[i], half[i])
			VPADDD(half[i], v[i].AsY(), half[i])
			continue
		}
		VPADDD(v[2*i], v[2*i+1], half[i])
	}
	h := XMM()
	VPHADDD(half[1], half[0], half[0])
	VPHADDD(half[0], half[0], half[0])
	VEXTRACTI128(Imm(1), half[0], h)
	VPADDD(h, half[0].AsX(), h)
	VMOVD(h, Mem{Base: s, Index: ld, Scale: 1})
	VPEXTRD(Imm(1), h, Mem{Base: s, Index: ld, Scale: 2})
}

func storeBytes(isa isa, v []reg.VecVirtual, q reg.GPVirtual) {
	if isa.size == 64 {
		VPMOVSDB(v[0], Mem{Base: q})
		VPMOVSDB(v[1], Mem{Base: q, Disp: 16})
		return
	}
	order := YMM()
	VMOVDQU(packOrder, order)
	VPACKSSDW(v[1], v[0], v[0]) // packing works in 128-bit lanes; the last step restores the order
	VPACKSSDW(v[3], v[2], v[2])
	VPACKSSWB(v[2], v[0], v[0])
	VPERMD(v[0], order, v[0])
	VMOVDQU(v[0], Mem{Base: q})
}

// elementwise writes a loop over n floats, a multiple of 16: body gets the offset
// in bytes of each register in its rows.
func elementwise(isa isa, n reg.GPVirtual, body func(off int), advance func()) {
	Label("loop")
	for off := 0; off < lanes*4; off += isa.size {
		body(off)
	}
	advance()
	SUBQ(Imm(lanes), n)
	JNZ(LabelRef("loop"))
}

func scaleMul(isa isa) {
	function("scaleMul"+isa.name, "func(dst, x, w *float32, n int, k float32)", "computes dst = x·k·w; n is a multiple of 16.")
	dst, x, w, n := param("dst"), param("x"), param("w"), param("n")
	k := broadcast("k", isa.vec())
	elementwise(isa, n, func(off int) {
		v := isa.vec()
		VMULPS(Mem{Base: x, Disp: off}, k, v)
		VMULPS(Mem{Base: w, Disp: off}, v, v)
		VMOVUPS(v, Mem{Base: dst, Disp: off})
	}, func() {
		ADDQ(Imm(64), dst)
		ADDQ(Imm(64), x)
		ADDQ(Imm(64), w)
	})
	end()
}

func times(isa isa) {
	function("times"+isa.name, "func(dst, x *float32, n int, k float32)", "computes dst = k·x; n is a multiple of 16.")
	dst, x, n := param("dst"), param("x"), param("n")
	k := broadcast("k", isa.vec())
	elementwise(isa, n, func(off int) {
		v := isa.vec()
		VMULPS(Mem{Base: x, Disp: off}, k, v)
		VMOVUPS(v, Mem{Base: dst, Disp: off})
	}, func() {
		ADDQ(Imm(64), dst)
		ADDQ(Imm(64), x)
	})
	end()
}

// rotate writes the rotation of pairs; see Rotate. Products are rounded before they are added.
func rotate(isa isa) {
	function("rotate"+isa.name, "func(a, b, cos, sin *float32, n int)", "rotates n pairs, a multiple of 16.")
	a, b, cos, sin, n := param("a"), param("b"), param("cos"), param("sin"), param("n")
	elementwise(isa, n, func(off int) {
		x, y, c, s := isa.vec(), isa.vec(), isa.vec(), isa.vec()
		VMOVUPS(Mem{Base: cos, Disp: off}, c)
		VMOVUPS(Mem{Base: sin, Disp: off}, s)
		VMULPS(Mem{Base: a, Disp: off}, c, x)
		VMULPS(Mem{Base: b, Disp: off}, s, y)
		VSUBPS(y, x, x)
		VMULPS(Mem{Base: b, Disp: off}, c, c)
		VMULPS(Mem{Base: a, Disp: off}, s, s)
		VADDPS(s, c, c)
		VMOVUPS(x, Mem{Base: a, Disp: off})
		VMOVUPS(c, Mem{Base: b, Disp: off})
	}, func() {
		for _, p := range []reg.GPVirtual{a, b, cos, sin} {
			ADDQ(Imm(64), p)
		}
	})
	end()
}

func mulAdd(isa isa) {
	function("mulAdd"+isa.name, "func(dst, x *float32, n int, k float32)", "computes dst += k·x; n is a multiple of 16.")
	dst, x, n := param("dst"), param("x"), param("n")
	k := broadcast("k", isa.vec())
	elementwise(isa, n, func(off int) {
		v := isa.vec()
		VMOVUPS(Mem{Base: dst, Disp: off}, v)
		VFMADD231PS(Mem{Base: x, Disp: off}, k, v)
		VMOVUPS(v, Mem{Base: dst, Disp: off})
	}, func() {
		ADDQ(Imm(64), dst)
		ADDQ(Imm(64), x)
	})
	end()
}

// exponential replaces x by exp(x); see expGo. c holds the constants of expConstants.
func exponential(isa isa, x reg.VecVirtual, c map[string]Mem) {
	n, p := isa.vec(), isa.vec()
	b := func(name string) reg.VecVirtual {
		v := isa.vec()
		VBROADCASTSS(c[name], v)
		return v
	}
	var k reg.OpmaskVirtual
	mask := isa.vec()
	if isa.size == 64 {
		k = K()
		VCMPPS(Imm(5), b("min"), x, k) // not less: a NaN stays
	} else {
		VCMPPS(Imm(5), b("min"), x, mask)
	}
	VMINPS(x, b("max"), x) // with a NaN the first operand here is the result
	VMULPS(b("log2e"), x, n)
	if isa.size == 64 {
		VRNDSCALEPS(Imm(8), n, n)
	} else {
		VROUNDPS(Imm(8), n, n)
	}
	VFNMADD231PS(b("ln2Hi"), n, x)
	VFNMADD231PS(b("ln2Lo"), n, x)
	VBROADCASTSS(c["c6"], p)
	for _, name := range []string{"c5", "c4", "c3", "c2", "one", "one"} {
		VFMADD213PS(b(name), x, p)
	}
	VCVTPS2DQ(n, n)
	VPSLLD(Imm(23), n, n)
	if isa.size == 64 {
		VPADDD_Z(n, p, k, x)
		return
	}
	VPADDD(n, p, x)
	VANDPS(mask, x, x)
}

func expConstants(suffix string) map[string]Mem {
	c := map[string]Mem{}
	for _, v := range []struct {
		name  string
		value float64
	}{
		{"min", -87}, {"max", 88}, {"log2e", 1.44269504088896341}, {"ln2Hi", 0.693359375}, {"ln2Lo", -2.12194440e-4},
		{"c6", 1.0 / 720}, {"c5", 1.0 / 120}, {"c4", 1.0 / 24}, {"c3", 1.0 / 6}, {"c2", 0.5}, {"one", 1},
	} {
		c[v.name] = constant("exp"+v.name+suffix, v.value)
	}
	return c
}

func expSum(isa isa) {
	c := expConstants("Sum" + isa.name)
	function("expSum"+isa.name, "func(x *float32, n int, m float32) float32", "replaces x by exp(x-m) and returns the sum; n is a multiple of 16.")
	x, n := param("x"), param("n")
	m := broadcast("m", isa.vec())
	acc := isa.zeroed()
	elementwise(isa, n, func(off int) {
		v := isa.vec()
		VMOVUPS(Mem{Base: x, Disp: off}, v)
		VSUBPS(m, v, v)
		exponential(isa, v, c)
		VMOVUPS(v, Mem{Base: x, Disp: off})
		VADDPS(v, acc[off/isa.size], acc[off/isa.size])
	}, func() { ADDQ(Imm(64), x) })
	s := isa.reduce([]reg.VecVirtual{isa.halve(acc)})
	r, err := ReturnIndex(0).Resolve()
	if err != nil {
		panic(err)
	}
	VMOVSS(s.AsX(), r.Addr)
	end()
}

func swiglu(isa isa) {
	c := expConstants("GLU" + isa.name)
	function("swiglu"+isa.name, "func(dst, gu *float32, n int, alpha, limit, plus float32)",
		"computes dst[i] = swish(gate)·(up+plus), see swigluGo; n is a multiple of 16.")
	dst, gu, n := param("dst"), param("gu"), param("n")
	alpha, limit, plus, lower := isa.vec(), isa.vec(), isa.vec(), isa.vec()
	broadcast("alpha", alpha)
	broadcast("limit", limit)
	broadcast("plus", plus)
	zero := isa.vec()
	VXORPS(zero, zero, zero)
	VSUBPS(limit, zero, lower)
	VSUBPS(alpha, zero, alpha)
	one := isa.vec()
	VBROADCASTSS(c["one"], one)
	elementwise(isa, n, func(off int) {
		g, u := deinterleave(isa, gu, 2*off)
		VMINPS(g, limit, g)
		VMINPS(u, limit, u)
		VMAXPS(u, lower, u)
		e := isa.vec()
		VMULPS(alpha, g, e)
		exponential(isa, e, c)
		VADDPS(one, e, e)
		VDIVPS(e, g, g)
		VADDPS(plus, u, u)
		VMULPS(u, g, g)
		VMOVUPS(g, Mem{Base: dst, Disp: off})
	}, func() {
		ADDQ(Imm(64), dst)
		ADDQ(U32(128), gu)
	})
	end()
}

// deinterleave loads pairs and returns their first and their second elements.
func deinterleave(isa isa, p reg.GPVirtual, off int) (even, odd reg.VecVirtual) {
	even, odd = isa.vec(), isa.vec()
	second := isa.vec()
	VMOVUPS(Mem{Base: p, Disp: off}, even)
	VMOVUPS(Mem{Base: p, Disp: off + isa.size}, second)
	if isa.size == 64 {
		VMOVUPS(even, odd)
		e, o := ZMM(), ZMM()
		VMOVDQU32(evens, e)
		VMOVDQU32(odds, o)
		VPERMT2PS(second, e, even)
		VPERMT2PS(second, o, odd)
		return even, odd
	}
	VSHUFPS(Imm(0xdd), second, even, odd)
	VSHUFPS(Imm(0x88), second, even, even)
	VPERMPD(Imm(0xd8), even, even)
	VPERMPD(Imm(0xd8), odd, odd)
	return even, odd
}

func toBF16(isa isa) {
	constants := []Mem{repeat("bf16Round"+isa.name, 0x7fff), repeat("bf16Last"+isa.name, 1), repeat("bf16Quiet"+isa.name, 0x40)}
	function("toBF16"+isa.name, "func(dst *uint16, x *float32, n int)", "rounds to nearest even; n is a multiple of 16.")
	dst, x, n := param("dst"), param("x"), param("n")
	round := rounding(isa, constants)
	Label("loop")
	if isa.size == 64 {
		VPMOVDW(round(Mem{Base: x}), Mem{Base: dst})
	} else {
		a, b := round(Mem{Base: x}), round(Mem{Base: x, Disp: 32})
		VPACKUSDW(b, a, a)
		VPERMQ(Imm(0xd8), a, a)
		VMOVDQU(a, Mem{Base: dst})
	}
	ADDQ(Imm(64), x)
	ADDQ(Imm(32), dst)
	SUBQ(Imm(lanes), n)
	JNZ(LabelRef("loop"))
	end()
	if isa.size == 64 {
		blocksBF16(constants)
	}
}

// blocksBF16 writes the rounding of a row of a tile.
func blocksBF16(constants []Mem) {
	function("blocksBF16AVX512", "func(dst *byte, step int, x *float32, blocks int)", "rounds blocks of 32 to nearest even, into where they are step bytes apart.")
	dst, step, x, blocks := param("dst"), param("step"), param("x"), param("blocks")
	round := rounding(avx512, constants)
	Label("loop")
	for half := range 2 {
		VPMOVDW(round(Mem{Base: x, Disp: 64 * half}), Mem{Base: dst, Disp: 32 * half})
	}
	ADDQ(U32(128), x)
	ADDQ(step, dst)
	DECQ(blocks)
	JNZ(LabelRef("loop"))
	end()
}

// rounding returns what rounds float32 to BF16, in the low word of each.
func rounding(isa isa, constants []Mem) func(x Mem) reg.VecVirtual {
	rounds, lasts, quiets := isa.vec(), isa.vec(), isa.vec()
	for i, v := range []reg.VecVirtual{rounds, lasts, quiets} {
		VPBROADCASTD(constants[i], v)
	}
	return func(x Mem) reg.VecVirtual {
		v, r, high := isa.vec(), isa.vec(), isa.vec()
		VMOVUPS(x, v)
		VPSRLD(Imm(16), v, high)
		if isa.size == 64 {
			VPANDD(lasts, high, r)
			VPORD(quiets, high, high)
		} else {
			VPAND(lasts, high, r)
			VPOR(quiets, high, high)
		}
		VPADDD(rounds, r, r)
		VPADDD(v, r, r)
		VPSRLD(Imm(16), r, r)
		if isa.size == 64 {
			k := K()
			VCMPPS(Imm(3), v, v, k)
			VMOVDQA32(high, k, r)
			return r
		}
		nan := isa.vec()
		VCMPPS(Imm(3), v, v, nan)
		VBLENDVPS(nan, high, r, r)
		return r
	}
}

func maxBits(isa isa) {
	function("maxBits"+isa.name, "func(x *float32, n int) uint32", "returns the largest magnitude of x as bits; n is a multiple of 16.")
	x, n := param("x"), param("n")
	mask := isa.vec()
	VPBROADCASTD(absMask, mask)
	top := isa.zeroed()[:1]
	elementwise(isa, n, func(off int) {
		v := isa.vec()
		and(isa, Mem{Base: x, Disp: off}, mask, v)
		VPMAXUD(v, top[0], top[0])
	}, func() { ADDQ(Imm(64), x) })
	r := GP32()
	VMOVD(maximum(isa, top[0], VPMAXUD), r)
	Store(r, ReturnIndex(0))
	end()
}

// toE4M3 adds to |x·k| the power of two, at least 2^14, whose last place is an
// eighth of the number's own power of two: what the sum gained in units of its last
// place is the significand, 8 to 16 (from 0 for subnormal numbers), correctly rounded.
func toE4M3(isa isa) {
	consts := []Mem{}
	for _, c := range []struct {
		name string
		v    uint32
	}{{"Exponent", 0x7f800000}, {"Least", (127 - 6) << 23}, {"Up", 20 << 23}, {"Bias", (127 + 20 - 6) << 3}, {"Top", 0x7e}, {"Sign", 0x80}} {
		consts = append(consts, repeat("e4m3"+c.name+isa.name, c.v))
	}
	function("toE4M3"+isa.name, "func(dst *uint8, x *float32, n int, k float32)", "converts x·k, none NaN, see tensor.ToE4M3; n is a multiple of 16.")
	dst, x, n := param("dst"), param("x"), param("n")
	k := broadcast("k", isa.vec())
	var c [7]reg.VecVirtual
	for i, m := range append(consts, absMask) {
		c[i] = isa.vec()
		VPBROADCASTD(m, c[i])
	}
	exponent, least, up, bias, top, sign, abs := c[0], c[1], c[2], c[3], c[4], c[5], c[6]
	part := func(off int) reg.VecVirtual {
		v, m, sum := isa.vec(), isa.vec(), isa.vec()
		VMULPS(Mem{Base: x, Disp: off}, k, v)
		and(isa, exponent, v, m)
		VPMAXUD(least, m, m)
		VPADDD(up, m, m)
		and(isa, abs, v, sum)
		VADDPS(m, sum, sum)
		VPSUBD(m, sum, sum)
		VPSRLD(Imm(20), m, m)
		VPSUBD(bias, m, m)
		VPADDD(m, sum, sum)
		VPMINUD(top, sum, sum)
		VPSRLD(Imm(24), v, v)
		and(isa, sign, v, v)
		VPADDD(v, sum, sum)
		return sum
	}
	Label("loop")
	if isa.size == 64 {
		VPMOVDB(part(0), Mem{Base: dst})
	} else {
		a, b := part(0), part(32)
		h := XMM()
		VPACKUSDW(b, a, a)
		VPERMQ(Imm(0xd8), a, a)
		VEXTRACTI128(Imm(1), a, h)
		VPACKUSWB(h, a.AsX(), a.AsX())
		VMOVDQU(a.AsX(), Mem{Base: dst})
	}
	ADDQ(Imm(64), x)
	ADDQ(Imm(16), dst)
	SUBQ(Imm(lanes), n)
	JNZ(LabelRef("loop"))
	end()
}

func and(isa isa, a Op, b, dst reg.VecVirtual) {
	if isa.size == 64 {
		VPANDD(a, b, dst)
		return
	}
	VPAND(a, b, dst)
}
