package ptx

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"

	"ossian/internal/cuda/emu/exec"
)

// An op is one instruction held to a definition in Go. sig has a letter per operand, then ">" and
// one for the result: h for 16 bits, w for 32, d for 64, p for a predicate (0 or 1).
type op struct {
	text string // "add.s32 $o, $a, $b"
	sig  string
	want func(a, b, c uint64) uint64
}

func s32(a uint64) int64 { return int64(int32(a)) }
func s16(a uint64) int64 { return int64(int16(a)) }
func w(v int64) uint64   { return uint64(uint32(v)) }
func h(v int64) uint64   { return uint64(uint16(v)) }
func b2u(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func wide(a uint64) *big.Int  { return new(big.Int).SetUint64(a) }
func swide(a uint64) *big.Int { return big.NewInt(int64(a)) }

var integerOps = []op{
	{"add.s32 $o, $a, $b", "ww>w", func(a, b, _ uint64) uint64 { return w(s32(a) + s32(b)) }},
	{"add.u16 $o, $a, $b", "hh>h", func(a, b, _ uint64) uint64 { return h(s16(a) + s16(b)) }},
	{"add.s64 $o, $a, $b", "dd>d", func(a, b, _ uint64) uint64 { return a + b }},
	{"sub.u32 $o, $a, $b", "ww>w", func(a, b, _ uint64) uint64 { return w(s32(a) - s32(b)) }},
	{"sub.s64 $o, $a, $b", "dd>d", func(a, b, _ uint64) uint64 { return a - b }},
	{"mul.lo.s32 $o, $a, $b", "ww>w", func(a, b, _ uint64) uint64 { return w(s32(a) * s32(b)) }},
	{"mul.lo.s16 $o, $a, $b", "hh>h", func(a, b, _ uint64) uint64 { return h(s16(a) * s16(b)) }},
	{"mul.hi.u16 $o, $a, $b", "hh>h", func(a, b, _ uint64) uint64 { return a * b >> 16 }},
	{"mul.hi.s16 $o, $a, $b", "hh>h", func(a, b, _ uint64) uint64 { return h(s16(a) * s16(b) >> 16) }},
	{"mul.hi.u32 $o, $a, $b", "ww>w", func(a, b, _ uint64) uint64 { return a * b >> 32 }},
	{"mul.hi.s32 $o, $a, $b", "ww>w", func(a, b, _ uint64) uint64 { return w(s32(a) * s32(b) >> 32) }},
	{"mul.hi.u64 $o, $a, $b", "dd>d", func(a, b, _ uint64) uint64 { v := wide(a); return v.Mul(v, wide(b)).Rsh(v, 64).Uint64() }},
	{"mul.hi.s64 $o, $a, $b", "dd>d", func(a, b, _ uint64) uint64 {
		v := swide(a)
		return uint64(v.Mul(v, swide(b)).Rsh(v, 64).Int64())
	}},
	{"mul.wide.s32 $o, $a, $b", "ww>d", func(a, b, _ uint64) uint64 { return uint64(s32(a) * s32(b)) }},
	{"mul.wide.u32 $o, $a, $b", "ww>d", func(a, b, _ uint64) uint64 { return a * b }},
	{"mul.wide.s16 $o, $a, $b", "hh>w", func(a, b, _ uint64) uint64 { return w(s16(a) * s16(b)) }},
	{"mul24.lo.u32 $o, $a, $b", "ww>w", func(a, b, _ uint64) uint64 { return w(int64(a & 0xffffff * (b & 0xffffff))) }},
	{"mad.lo.s32 $o, $a, $b, $c", "www>w", func(a, b, c uint64) uint64 { return w(s32(a)*s32(b) + s32(c)) }},
	{"mad.hi.u32 $o, $a, $b, $c", "www>w", func(a, b, c uint64) uint64 { return w(int64(a*b>>32 + c)) }},
	{"mad.wide.s32 $o, $a, $b, $c", "wwd>d", func(a, b, c uint64) uint64 { return uint64(s32(a)*s32(b)) + c }},
	{"mad.wide.u16 $o, $a, $b, $c", "hhw>w", func(a, b, c uint64) uint64 { return w(int64(a*b + c)) }},
	{"mad.lo.u64 $o, $a, $b, $c", "ddd>d", func(a, b, c uint64) uint64 { return a*b + c }},
	{"mad.lo.s16 $o, $a, $b, $c", "hhh>h", func(a, b, c uint64) uint64 { return h(s16(a)*s16(b) + s16(c)) }},
	{"sad.s32 $o, $a, $b, $c", "www>w", func(a, b, c uint64) uint64 { return w(s32(c) + max(s32(a)-s32(b), s32(b)-s32(a))) }},
	{"div.s32 $o, $a, $b", "ww>w", func(a, b, _ uint64) uint64 {
		if b == 0 {
			return 0xffff_ffff
		}
		return w(s32(a) / s32(b))
	}},
	{"div.u64 $o, $a, $b", "dd>d", func(a, b, _ uint64) uint64 {
		if b == 0 {
			return math.MaxUint64
		}
		return a / b
	}},
	{"rem.s32 $o, $a, $b", "ww>w", func(a, b, _ uint64) uint64 {
		if b == 0 {
			return a
		}
		return w(s32(a) % s32(b))
	}},
	{"rem.u32 $o, $a, $b", "ww>w", func(a, b, _ uint64) uint64 {
		if b == 0 {
			return a
		}
		return a % b
	}},
	{"rem.s64 $o, $a, $b", "dd>d", func(a, b, _ uint64) uint64 {
		if b == 0 {
			return a
		}
		return new(big.Int).Rem(swide(a), swide(b)).Uint64()*b2u(int64(a) >= 0) + uint64(new(big.Int).Rem(swide(a), swide(b)).Int64())*b2u(int64(a) < 0)
	}},
	{"min.s32 $o, $a, $b", "ww>w", func(a, b, _ uint64) uint64 { return w(min(s32(a), s32(b))) }},
	{"min.u32 $o, $a, $b", "ww>w", func(a, b, _ uint64) uint64 { return min(a, b) }},
	{"max.s16 $o, $a, $b", "hh>h", func(a, b, _ uint64) uint64 { return h(max(s16(a), s16(b))) }},
	{"max.s64 $o, $a, $b", "dd>d", func(a, b, _ uint64) uint64 { return uint64(max(int64(a), int64(b))) }},
	{"abs.s32 $o, $a", "w>w", func(a, _, _ uint64) uint64 { return w(max(s32(a), -s32(a))) }},
	{"abs.s16 $o, $a", "h>h", func(a, _, _ uint64) uint64 { return h(max(s16(a), -s16(a))) }},
	{"neg.s64 $o, $a", "d>d", func(a, _, _ uint64) uint64 { return -a }},
	{"not.b16 $o, $a", "h>h", func(a, _, _ uint64) uint64 { return a ^ 0xffff }},
	{"cnot.b32 $o, $a", "w>w", func(a, _, _ uint64) uint64 { return b2u(a == 0) }},
	{"and.b32 $o, $a, $b", "ww>w", func(a, b, _ uint64) uint64 { return a & b }},
	{"or.b64 $o, $a, $b", "dd>d", func(a, b, _ uint64) uint64 { return a | b }},
	{"xor.b16 $o, $a, $b", "hh>h", func(a, b, _ uint64) uint64 { return a ^ b }},
	{"shl.b32 $o, $a, $b", "ww>w", func(a, b, _ uint64) uint64 { return w(int64(a << min(b, 63))) }},
	{"shl.b16 $o, $a, $b", "hw>h", func(a, b, _ uint64) uint64 { return h(int64(a << min(b, 63))) }},
	{"shl.b64 $o, $a, $b", "dw>d", func(a, b, _ uint64) uint64 { return a << b }},
	{"shr.u32 $o, $a, $b", "ww>w", func(a, b, _ uint64) uint64 { return a >> b }},
	{"shr.s32 $o, $a, $b", "ww>w", func(a, b, _ uint64) uint64 { return w(s32(a) >> b) }},
	{"shr.s16 $o, $a, $b", "hw>h", func(a, b, _ uint64) uint64 { return h(s16(a) >> b) }},
	{"shr.s64 $o, $a, $b", "dw>d", func(a, b, _ uint64) uint64 { return uint64(int64(a) >> b) }},
	{"shf.l.wrap.b32 $o, $a, $b, $c", "www>w", func(a, b, c uint64) uint64 { return w(int64((b<<32 | a) << (c & 31) >> 32)) }},
	{"shf.r.clamp.b32 $o, $a, $b, $c", "www>w", func(a, b, c uint64) uint64 { return w(int64((b<<32 | a) >> min(c, 32))) }},
	{"lop3.b32 $o, $a, $b, $c, 0x96", "www>w", func(a, b, c uint64) uint64 { return a ^ b ^ c }},
	{"lop3.b32 $o, $a, $b, $c, 0xca", "www>w", func(a, b, c uint64) uint64 { return a&b | ^a&c&0xffff_ffff }},
	{"prmt.b32 $o, $a, $b, 0x3716", "ww>w", func(a, b, _ uint64) uint64 {
		return a>>24&255<<24 | b>>24&255<<16 | a>>8&255<<8 | b>>16&255
	}},
	{"prmt.b32 $o, $a, $b, 0xbaef", "ww>w", func(a, b, _ uint64) uint64 {
		sign := func(v uint64) uint64 { return v & 0x80 >> 7 * 255 }
		return sign(a>>24)<<24 | sign(a>>16)<<16 | sign(b>>16)<<8 | sign(b>>24)
	}},
	{"popc.b32 $o, $a", "w>w", func(a, _, _ uint64) uint64 { return uint64(bits.OnesCount64(a)) }},
	{"popc.b64 $o, $a", "d>w", func(a, _, _ uint64) uint64 { return uint64(bits.OnesCount64(a)) }},
	{"clz.b32 $o, $a", "w>w", func(a, _, _ uint64) uint64 { return uint64(bits.LeadingZeros64(a)) - 32 }},
	{"clz.b64 $o, $a", "d>w", func(a, _, _ uint64) uint64 { return uint64(bits.LeadingZeros64(a)) }},
	{"brev.b32 $o, $a", "w>w", func(a, _, _ uint64) uint64 { return bits.Reverse64(a) >> 32 }},
	{"brev.b64 $o, $a", "d>d", func(a, _, _ uint64) uint64 { return bits.Reverse64(a) }},
	{"bfind.u32 $o, $a", "w>w", func(a, _, _ uint64) uint64 { return w(int64(bits.Len64(a)) - 1) }},
	{"bfind.shiftamt.u32 $o, $a", "w>w", func(a, _, _ uint64) uint64 {
		if a == 0 {
			return 0xffff_ffff
		}
		return uint64(bits.LeadingZeros64(a)) - 32
	}},
	{"bfe.u32 $o, $a, $b, $c", "www>w", func(a, b, c uint64) (v uint64) { return field(a, b&255, c&255, 32, false) }},
	{"bfe.s32 $o, $a, $b, $c", "www>w", func(a, b, c uint64) (v uint64) { return field(a, b&255, c&255, 32, true) }},
	{"bfe.u64 $o, $a, $b, $c", "dww>d", func(a, b, c uint64) (v uint64) { return field(a, b&255, c&255, 64, false) }},
	{"bfe.s64 $o, $a, $b, $c", "dww>d", func(a, b, c uint64) (v uint64) { return field(a, b&255, c&255, 64, true) }},
	{"bfi.b32 $o, $a, $b, $c, 7", "www>w", func(a, b, c uint64) uint64 { return insert(a, b, c&255, 7, 32) }},
	{"bfi.b64 $o, $a, $b, $c, 40", "ddw>d", func(a, b, c uint64) uint64 { return insert(a, b, c&255, 40, 64) }},
	{"dp4a.s32.u32 $o, $a, $b, $c", "www>w", func(a, b, c uint64) uint64 {
		for i := range 4 {
			c += uint64(int64(int8(a>>(8*i))) * int64(uint8(b>>(8*i))))
		}
		return w(int64(c))
	}},
	{"add.cc.u32 %t, $a, $b;\naddc.u32 $o, $c, 0", "www>w", func(a, b, c uint64) uint64 { return w(int64(c + (a+b)>>32)) }},
	{"sub.cc.u32 %t, $a, $b;\nsubc.u32 $o, $c, 0", "www>w", func(a, b, c uint64) uint64 { return w(int64(c - b2u(a < b))) }},
	{"mad.lo.cc.u32 %t, $a, $b, $c;\nmadc.hi.u32 $o, $a, $b, 0", "www>w", func(a, b, c uint64) uint64 { return (a*b + c) >> 32 }},
	{"setp.lt.s32 $o, $a, $b", "ww>p", func(a, b, _ uint64) uint64 { return b2u(s32(a) < s32(b)) }},
	{"setp.hi.u32 $o, $a, $b", "ww>p", func(a, b, _ uint64) uint64 { return b2u(a > b) }},
	{"setp.ne.s64 $o, $a, $b", "dd>p", func(a, b, _ uint64) uint64 { return b2u(a != b) }},
	{"setp.ge.s16 $o, $a, $b", "hh>p", func(a, b, _ uint64) uint64 { return b2u(s16(a) >= s16(b)) }},
	{"setp.le.u64 $o, $a, $b", "dd>p", func(a, b, _ uint64) uint64 { return b2u(a <= b) }},
	{"setp.eq.u32 %q, $a, $b;\nsetp.gt.and.s32 $o, $a, $c, !%q", "www>p", func(a, b, c uint64) uint64 { return b2u(s32(a) > s32(c) && a != b) }},
	{"setp.lt.u32 %q|$o, $a, $b", "ww>p", func(a, b, _ uint64) uint64 { return b2u(a >= b) }},
	{"setp.lt.u32 %q, $a, $b;\nselp.b32 $o, $a, $c, !%q", "www>w", func(a, b, c uint64) uint64 { return a*b2u(a >= b) + c*b2u(a < b) }},
	{"setp.lt.u32 %q, $a, 9;\nselp.b64 $o, $b, $c, %q", "wdd>d", func(a, b, c uint64) uint64 { return b*b2u(a < 9) + c*b2u(a >= 9) }},
	{"set.ge.u32.s32 $o, $a, $b", "ww>w", func(a, b, _ uint64) uint64 { return w(-int64(b2u(s32(a) >= s32(b)))) }},
	{"set.ge.f32.s32 $o, $a, $b", "ww>w", func(a, b, _ uint64) uint64 { return 0x3f80_0000 * b2u(s32(a) >= s32(b)) }},
	{"slct.b32.s32 $o, $a, $b, $c", "www>w", func(a, b, c uint64) uint64 { return a*b2u(s32(c) >= 0) + b*b2u(s32(c) < 0) }},
	{"mov.b64 {%t, $o}, $a", "d>w", func(a, _, _ uint64) uint64 { return a >> 32 }},
	{"mov.b32 {%u, $o}, $a", "w>h", func(a, _, _ uint64) uint64 { return a >> 16 }},
	{"mov.b64 $o, {$a, $b}", "ww>d", func(a, b, _ uint64) uint64 { return a | b<<32 }},
	{"mov.b32 $o, {$a, $b}", "hh>w", func(a, b, _ uint64) uint64 { return a | b<<16 }},
	{"mov.b64 $o, {$a, $b, $c, $a}", "hhh>d", func(a, b, c uint64) uint64 { return a | b<<16 | c<<32 | a<<48 }},
	{"{\n.reg .b32 %t;\nmov.b32 %t, 5;\nadd.u32 $o, $a, %t;\n}", "w>w", func(a, _, _ uint64) uint64 { return w(int64(a + 5)) }},

	{"setp.lt.u32 %q, $a, $b;\nsetp.lt.u32 %po, $b, $c;\nand.pred %q, %q, !%po;\nmov.pred $o, %q", "www>p", func(a, b, c uint64) uint64 { return b2u(a < b && b >= c) }},
	{"setp.lt.u32 %q, $a, $b;\nsetp.lt.u32 %po, $b, $c;\nor.pred $o, %q, %po", "www>p", func(a, b, c uint64) uint64 { return b2u(a < b || b < c) }},
	{"setp.lt.u32 %q, $a, $b;\nsetp.lt.u32 %po, $b, $c;\nxor.pred $o, %q, %po", "www>p", func(a, b, c uint64) uint64 { return b2u((a < b) != (b < c)) }},
	{"setp.lt.u32 %q, $a, $b;\nnot.pred $o, %q", "ww>p", func(a, b, _ uint64) uint64 { return b2u(a >= b) }},
	{"setp.lt.u32 %q, $a, $b;\nmov.pred $o, -1;\n@%q mov.pred $o, 0", "ww>p", func(a, b, _ uint64) uint64 { return b2u(a >= b) }},
	{"setp.lt.u32 %q, $a, $b;\nsetp.gt.or.u32 $o, $a, $c, %q", "www>p", func(a, b, c uint64) uint64 { return b2u(a > c || a < b) }},
	{"setp.lt.u32 %q, $a, $b;\nsetp.gt.xor.u32 $o, $a, $c, %q", "www>p", func(a, b, c uint64) uint64 { return b2u((a > c) != (a < b)) }},
	{"mul.hi.u32 %t, $a, $b;\nsub.cc.u32 %t, %t, $c;\nsubc.cc.u32 %t, $a, $b;\nsubc.u32 $o, $c, $b", "www>w", func(a, b, c uint64) uint64 {
		borrow := b2u(a*b>>32 < c)
		return w(int64(c - b - b2u(a < b+borrow)))
	}},
	{"add.cc.u64 %at, $a, $b;\naddc.u64 $o, $c, 0", "ddd>d", func(a, b, c uint64) uint64 { _, carry := bits.Add64(a, b, 0); return c + carry }},
	{"sub.cc.u64 %at, $a, $b;\nsubc.u64 $o, $c, 0", "ddd>d", func(a, b, c uint64) uint64 { return c - b2u(a < b) }},
	{"mad.lo.cc.u64 %at, $a, $b, $c;\nmadc.hi.u64 $o, $a, $b, 0", "ddd>d", func(a, b, c uint64) uint64 {
		v := wide(a)
		return v.Mul(v, wide(b)).Add(v, wide(c)).Rsh(v, 64).Uint64()
	}},
	{"mad.hi.s32 $o, $a, $b, $c", "www>w", func(a, b, c uint64) uint64 { return w(s32(a)*s32(b)>>32 + s32(c)) }},
	{"mad.wide.s16 $o, $a, $b, $c", "hhw>w", func(a, b, c uint64) uint64 { return w(s16(a)*s16(b) + s32(c)) }},
	{"neg.s16 $o, $a", "h>h", func(a, _, _ uint64) uint64 { return h(-s16(a)) }},
	{"bfind.s32 $o, $a", "w>w", func(a, _, _ uint64) uint64 { return w(int64(bits.Len64(uint64(max(s32(a), ^s32(a))))) - 1) }},
	{"bfind.u64 $o, $a", "d>w", func(a, _, _ uint64) uint64 { return w(int64(bits.Len64(a)) - 1) }},
	{"setp.lt.s32 $o, $a, $b", "ww>p", func(a, b, _ uint64) uint64 { return b2u(s32(a) < s32(b)) }},
	{"setp.eq.u16 $o, $a, $b", "hh>p", func(a, b, _ uint64) uint64 { return b2u(a == b) }},
	{"mov.u32 $o, %t;\nsub.u32 $o, $o, %t;\nadd.u32 $o, $o, $a", "w>w", func(a, _, _ uint64) uint64 { return a }},
	{"fence.acq_rel.gpu;\nmembar.cta;\nprefetch.global.L2 [%at];\nnanosleep.u32 20;\nmov.b32 $o, $a", "w>w", func(a, _, _ uint64) uint64 { return a }},

	{"cvt.s64.s32 $o, $a", "w>d", func(a, _, _ uint64) uint64 { return uint64(s32(a)) }},
	{"cvt.u64.u32 $o, $a", "w>d", func(a, _, _ uint64) uint64 { return a }},
	{"cvt.u32.u64 $o, $a", "d>w", func(a, _, _ uint64) uint64 { return w(int64(a)) }},
	{"cvt.s32.s8 $o, $a", "w>w", func(a, _, _ uint64) uint64 { return w(int64(int8(a))) }},
	{"cvt.u32.u8 $o, $a", "h>w", func(a, _, _ uint64) uint64 { return a & 255 }},
	{"cvt.s16.s8 $o, $a", "w>h", func(a, _, _ uint64) uint64 { return h(int64(int8(a))) }},
	{"cvt.s8.s32 $o, $a", "w>w", func(a, _, _ uint64) uint64 { return w(int64(int8(a))) }},
	{"cvt.u16.u32 $o, $a", "w>h", func(a, _, _ uint64) uint64 { return h(int64(a)) }},
	{"cvt.sat.u8.s32 $o, $a", "w>w", func(a, _, _ uint64) uint64 { return uint64(min(max(s32(a), 0), 255)) }},
	{"cvt.sat.s16.s64 $o, $a", "d>h", func(a, _, _ uint64) uint64 { return h(min(max(int64(a), -32768), 32767)) }},
	{"cvt.sat.s32.u32 $o, $a", "w>w", func(a, _, _ uint64) uint64 { return min(a, math.MaxInt32) }},
}

// field is bfe, a bit at a time as the standard has it.
func field(a, at, n, size uint64, signed bool) (v uint64) {
	sign := uint64(0)
	if signed && n > 0 {
		sign = a >> min(at+n-1, size-1) & 1
	}
	for i := range size {
		bit := sign
		if i < n && at+i < size {
			bit = a >> (at + i) & 1
		}
		v |= bit << i
	}
	return v
}

// insert is bfi, a bit at a time.
func insert(a, b, at, n, size uint64) uint64 {
	for i := uint64(0); i < n && at+i < size; i++ {
		b = b&^(1<<(at+i)) | a>>i&1<<(at+i)
	}
	return b
}

// edges are values at which operations differ.
var edges = []uint64{0, 1, 2, 3, 7, 8, 31, 32, 33, 63, 64, 127, 128, 255, 256, 0x7fff, 0x8000, 0xffff, 0x10000, 0x7f80_0000, 0x7f80_0001, 0x7fff_ffff, 0x8000_0000,
	0x8000_0001, 0x3f80_0000, 0x3f00_0000, 0x3fc0_0000, 0xbf00_0000, 0x4f00_0000, 0x4f80_0000, 0xcf00_0000, 0x0080_0000, 0x007f_ffff, 0xff80_0000, 0xffc0_0000, 0xffff_ffff, 1 << 32,
	0x3ff0_0000_0000_0000, 0x7ff0_0000_0000_0000, 0x7ff8_0000_0000_0000, 0x41e0_0000_0000_0000, 0xc1e0_0000_0020_0000, 0x3fe0_0000_0000_0000,
	0x43e0_0000_0000_0000, 0x43f0_0000_0000_0000, 0xc3e0_0000_0000_0000, 1 << 63, math.MaxInt64, math.MaxUint64}

// apply runs an instruction for inputs, one thread each.
func apply(t testing.TB, o op, in [3][]uint64) []uint64 {
	t.Helper()
	count := len(in[0])
	operands, result, _ := strings.Cut(o.sig, ">")
	var b strings.Builder
	b.WriteString(".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 o)\n{\n" +
		".reg .pred %q, %po; .reg .b16 %ha, %hb, %hc, %ho, %u; .reg .b32 %wa, %wb, %wc, %wo, %t, %i; .reg .b64 %da, %db, %dc, %do, %at, %off;\n" +
		"mov.u32 %i, %ctaid.x; shl.b32 %i, %i, 8; mov.u32 %t, %tid.x; add.u32 %i, %i, %t; mul.wide.u32 %off, %i, 8;\n")
	text := o.text
	for i, kind := range operands {
		name := string("abc"[i])
		fmt.Fprintf(&b, "ld.param.u64 %%at, [%s]; add.u64 %%at, %%at, %%off; ld.global.b%d %%%c%s, [%%at];\n", name, map[rune]int{'h': 16, 'w': 32, 'd': 64}[kind], kind, name)
		text = strings.ReplaceAll(text, "$"+name, "%"+string(kind)+name)
	}
	b.WriteString(strings.ReplaceAll(text, "$o", "%"+result+"o") + ";\n")
	b.WriteString("ld.param.u64 %at, [o]; add.u64 %at, %at, %off;\n")
	if result == "p" {
		b.WriteString("selp.b32 %wo, 1, 0, %po;\n")
		result = "w"
	}
	fmt.Fprintf(&b, "st.global.b%d [%%at], %%%so;\nret;\n}\n", map[string]int{"h": 16, "w": 32, "d": 64}[result], result)
	m, err := Parse(b.String())
	if err != nil {
		t.Fatalf("%s: %v", o.text, err)
	}
	mem := &exec.Memory{}
	device := &exec.Device{Memory: mem, Limit: 1 << 20, Multiprocessors: 1}
	var params []byte
	var out *exec.Alloc
	for i := range 4 {
		a := mem.Alloc(device, uint64(8*count))
		for k := range count {
			v := uint64(0)
			if i < 3 {
				v = in[i][k]
			}
			le.PutUint64(a.Data[8*k:], v)
		}
		a.Written(0, a.Size)
		params = le.AppendUint64(params, a.Base)
		out = a
	}
	grid := exec.Grid{Kernel: m.Kernels["k"], Device: device, Blocks: [3]uint32{uint32(count / 256), 1, 1}, Threads: [3]uint32{256, 1, 1}, Params: params}
	if _, f := grid.Run(); f != nil {
		t.Fatalf("%s: %s", o.text, f.Text)
	}
	results := make([]uint64, count)
	for k := range results {
		results[k] = le.Uint64(out.Data[8*k:])
	}
	return results
}

// inputs are all pairs of edges with a third value, then random ones, cut to the operands' sizes.
func inputs(sig string) (in [3][]uint64) {
	rng := rand.New(rand.NewPCG(1, 2))
	for i, a := range edges {
		for k, b := range edges {
			in[0], in[1], in[2] = append(in[0], a), append(in[1], b), append(in[2], edges[(i*7+k*3)%len(edges)])
		}
	}
	for len(in[0])%256 != 0 || len(in[0]) < 4096 {
		for i := range in {
			v := rng.Uint64() >> (rng.Uint32() % 64)
			if rng.Uint32()%4 == 0 {
				v = -v
			}
			in[i] = append(in[i], v)
		}
	}
	for i, kind := range strings.SplitN(sig, ">", 2)[0] {
		size := map[rune]int{'h': 16, 'w': 32, 'd': 64}[kind]
		for k := range in[i] {
			in[i][k] &= math.MaxUint64 >> (64 - size)
		}
	}
	return in
}

// check holds an instruction to its definition.
func check(t *testing.T, o op) {
	t.Helper()
	in := inputs(o.sig)
	for k, got := range apply(t, o, in) {
		if want := o.want(in[0][k], in[1][k], in[2][k]); got != want {
			t.Errorf("%s of %#x, %#x, %#x: %#x, want %#x", o.text, in[0][k], in[1][k], in[2][k], got, want)
			return
		}
	}
}

func TestIntegers(t *testing.T) {
	for _, o := range integerOps {
		check(t, o)
	}
}
