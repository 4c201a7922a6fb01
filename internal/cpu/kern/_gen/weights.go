package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// weights writes the weights of a vocabulary, eight ids at a time; see kern.Weights. Every
// operation is one of exponential in package sample, in its order and rounded as there.
func weights() {
	c := map[string]Mem{}
	for _, v := range []struct {
		name  string
		value float64
	}{
		{"Least", -28}, {"Steps", 64 * math.Log2E}, {"Half", 0.5}, {"Step", math.Ln2 / 64}, {"C3", 1.0 / 6}, {"C4", 1.0 / 24}, {"C5", 1.0 / 120}, {"One", 1}, {"Unit", 1 << 39},
	} {
		c[v.name] = quads("weight"+v.name, math.Float64bits(v.value))
	}
	ids := quads("weightIDs", 0, 1, 2, 3, 4, 5, 6, 7)
	eight, bias, bit4, bit5 := quads("weightEight", 8), quads("weightBias", 1023), quads("weightBit4", 16), quads("weightBit5", 32)

	powers := quads("weightPowers", pow2()...)

	function("weightsAVX512", "func(keys *uint64, x *float32, n int, from, scale float64, bound float32, least, code uint64) (kept int, total uint64)",
		"fills keys for n logits, a multiple of 8, and returns their number and the sum of their weights. Up to 7 more words of keys are written, none beyond the n-th.")
	keys, x, n := param("keys"), param("x"), param("n")
	from, scale, least, code, bound := ZMM(), ZMM(), ZMM(), ZMM(), YMM()
	wide := func(name string, v reg.VecVirtual) {
		p, err := Param(name).Resolve()
		if err != nil {
			panic(err)
		}
		VBROADCASTSD(p.Addr, v)
	}
	wide("from", from)
	wide("scale", scale)
	wide("least", least)
	wide("code", code)
	broadcast("bound", bound)
	VPSUBQ(ids, code, code)
	tab := make([]reg.VecVirtual, 8)
	for i := range tab {
		tab[i] = ZMM()
		VMOVUPD(powers.Offset(64*i), tab[i])
	}
	total, first := ZMM(), GP64()
	VPXORQ(total, total, total)
	MOVQ(keys, first)

	Label("loop")
	l, at := YMM(), ZMM()
	high, near, seen, kept := K(), K(), GP64(), GP64()
	VMOVUPS(Mem{Base: x}, l)
	VCMPPS(Imm(0x1d), bound, l, high) // l >= bound, false for NaN
	VCVTPS2PD(l, at)
	VSUBPD(from, at, at)
	VMULPD(scale, at, at)
	VCMPPD_BCST(Imm(0x1e), c["Least"], at, high, near) // at > -28, and the above
	KMOVB(near, seen.As32())
	TESTL(seen.As32(), seen.As32())
	JZ(LabelRef("next"))

	k, r, r2, p, q := ZMM(), ZMM(), ZMM(), ZMM(), ZMM()
	VMULPD_BCST(c["Steps"], at, k)
	VSUBPD_BCST(c["Half"], k, k)
	VCVTTPD2QQ(k, k)
	VCVTQQ2PD(k, r)
	VMULPD_BCST(c["Step"], r, r)
	VSUBPD(r, at, r)
	VMULPD(r, r, r2)
	VMULPD_BCST(c["C3"], r, p)
	VADDPD_BCST(c["Half"], p, p)
	VMULPD_BCST(c["C5"], r, q)
	VADDPD_BCST(c["C4"], q, q)
	VMULPD(r2, q, q)
	VADDPD(q, p, p)
	VMULPD(p, r2, p)
	VADDPD(p, r, p)
	VADDPD_BCST(c["One"], p, p)

	odd, upper := K(), K()
	VPTESTMQ_BCST(bit4, k, odd)
	VPTESTMQ_BCST(bit5, k, upper)
	entry := make([]reg.VecVirtual, 4)
	for i := range entry { // the low four bits of k choose among sixteen
		entry[i] = ZMM()
		VMOVDQA64(k, entry[i])
		VPERMI2PD(tab[2*i+1], tab[2*i], entry[i])
	}
	VMOVAPD(entry[1], odd, entry[0])
	VMOVAPD(entry[3], odd, entry[2])
	VMOVAPD(entry[2], upper, entry[0])
	VMULPD(entry[0], p, p)
	VPSRAQ(Imm(6), k, k)
	VPADDQ_BCST(bias, k, k)
	VPSLLQ(Imm(52), k, k)
	VMULPD(k, p, p)
	VMULPD_BCST(c["Unit"], p, p)
	VADDPD_BCST(c["Half"], p, p)
	w, keep := ZMM(), K()
	VCVTTPD2QQ(p, w)
	VPCMPUQ(Imm(5), least, w, near, keep) // w >= least
	VPADDQ(w, total, keep, total)
	VPSLLQ(Imm(24), w, w)
	VPADDQ(code, w, w)
	VPCOMPRESSQ_Z(w, keep, w)
	VMOVDQU64(w, Mem{Base: keys})
	KMOVB(keep, kept.As32())
	POPCNTL(kept.As32(), kept.As32())
	LEAQ(Mem{Base: keys, Index: kept, Scale: 8}, keys)
	Label("next")
	VPSUBQ_BCST(eight, code, code)
	ADDQ(Imm(32), x)
	SUBQ(Imm(8), n)
	JNZ(LabelRef("loop"))

	SUBQ(first, keys)
	SHRQ(Imm(3), keys)
	Store(keys, ReturnIndex(0))
	h, s := YMM(), XMM()
	VEXTRACTI64X4(Imm(1), total, h)
	VPADDQ(total.AsY(), h, h)
	VEXTRACTI128(Imm(1), h, s)
	VPADDQ(h.AsX(), s, s)
	top := XMM()
	VPSHUFD(Imm(0x4e), s, top)
	VPADDQ(top, s, s)
	sum := GP64()
	VMOVQ(s, sum)
	Store(sum, ReturnIndex(1))
	end()
}

// pow2 returns the bits of 2^(j/64), made as in package sample.
func pow2() (t []uint64) {
	for j := range 64 {
		v, root := 1.0, 2.0
		for bit := 32; bit > 0; bit /= 2 {
			if root = math.Sqrt(root); j&bit != 0 {
				v *= root
			}
		}
		t = append(t, math.Float64bits(v))
	}
	return t
}

// quads makes a constant of words of 64 bits.
func quads(name string, v ...uint64) Mem {
	m := GLOBL(name, RODATA|NOPTR)
	for i, w := range v {
		DATA(8*i, U64(w))
	}
	return m
}
