package ptx

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"ossian/internal/cuda/emu/arith"
)

func f32(v uint64) float32 { return math.Float32frombits(uint32(v)) }
func f64(v uint64) float64 { return math.Float64frombits(v) }

// nan32 and nan64 are what conversions keep of NaN of 64 bits, as an H100 does; result if a is a number.
func nan32(a, result uint64) uint64 {
	if f64(a) == f64(a) {
		return result
	}
	return a>>63<<31 | 0x7fc0_0000 | a<<12>>41
}

func nan64(a, result uint64) uint64 {
	if f64(a) == f64(a) {
		return result
	}
	return a | 1<<51
}

// r32 are the bits of a float32 result.
func r32(x float32) uint64 {
	if x != x {
		return 0x7fff_ffff
	}
	return uint64(math.Float32bits(x))
}

func r64(x float64) uint64 {
	if x != x {
		return 0x7ff8_0000_0000_0000
	}
	return math.Float64bits(x)
}

// exact computes a·b+c without rounding; ok is false where a number is no finite one.
func exact(a, b, c float64) (v *big.Float, ok bool) {
	for _, x := range []float64{a, b, c} {
		if x != x || math.IsInf(x, 0) {
			return nil, false
		}
	}
	big := func(x float64) *big.Float { return new(big.Float).SetPrec(4000).SetFloat64(x) }
	v = big(a)
	return v.Mul(v, big(b)).Add(v, big(c)), true
}

// fma32 is a·b+c rounded once: to nearest, or down.
func fma32(a, b, c float32, down bool) uint64 {
	v, ok := exact(float64(a), float64(b), float64(c))
	if !ok {
		return r32(float32(float64(a)*float64(b) + float64(c)))
	}
	r, accuracy := v.Float32()
	if v.Sign() == 0 {
		return r32(a*b + c) // the sign of zero
	}
	if down && accuracy == big.Above {
		r = math.Nextafter32(r, float32(math.Inf(-1)))
	}
	return r32(r)
}

// halves are all finite values of a 16-bit type in order, with their bits.
func halves(read func(v uint32) float64) (values []float64, codes []uint32) {
	for v := range uint32(0x8000) {
		if x := read(v); !math.IsInf(x, 0) && x == x {
			values, codes = append(values, x), append(codes, v)
		}
	}
	return values, codes
}

var (
	f16Values, f16Codes   = halves(func(v uint32) float64 { return float64(arith.FromF16(v)) })
	bf16Values, bf16Codes = halves(func(v uint32) float64 { return float64(math.Float32frombits(v << 16)) })
)

// nearest16 rounds an exact value to 16 bits by looking at all there are: ties to the even code, and
// from half a step behind the last one on to infinity.
func nearest16(v *big.Float, values []float64, codes []uint32) uint64 {
	sign := uint64(0)
	if v.Signbit() {
		sign = 0x8000
	}
	size := new(big.Float).Abs(v)
	x, _ := size.Float64()
	i, _ := slices.BinarySearch(values, x)
	i = min(max(i-1, 0), len(values)-1)
	for i+1 < len(values) && size.Cmp(big.NewFloat(values[i+1])) >= 0 {
		i++
	}
	for i > 0 && size.Cmp(big.NewFloat(values[i])) < 0 {
		i--
	}
	step := values[len(values)-1] - values[len(values)-2]
	if i+1 < len(values) {
		step = values[i+1] - values[i]
	}
	middle := new(big.Float).SetPrec(200).Add(big.NewFloat(values[i]), big.NewFloat(step/2))
	if c := size.Cmp(middle); c > 0 || (c == 0 && codes[i]&1 != 0) {
		return sign | uint64(codes[i]+1)
	}
	return sign | uint64(codes[i])
}

// half16 makes an operation of a·b+c on a 16-bit type from its exact value.
func half16(t string, f func(a, b, c float64) (x, y, z float64)) func(a, b, c uint64) uint64 {
	read := func(v uint64) float64 { return float64(arith.FromF16(uint32(v))) }
	values, codes := f16Values, f16Codes
	if t == "bf16" {
		read = func(v uint64) float64 { return float64(math.Float32frombits(uint32(v) << 16)) }
		values, codes = bf16Values, bf16Codes
	}
	inf := uint64(codes[len(codes)-1] + 1)
	return func(a, b, c uint64) uint64 {
		x, y, z := f(read(a), read(b), read(c))
		v, ok := exact(x, y, z)
		switch r := x*y + z; {
		case !ok && r != r:
			return 0x7fff
		case !ok:
			return inf | uint64(math.Float64bits(r)>>48&0x8000)
		case v.Sign() == 0:
			return math.Float64bits(r) >> 48 & 0x8000
		}
		return nearest16(v, values, codes)
	}
}

// both applies an operation to the halves of a pair.
func both(f func(a, b, c uint64) uint64) func(a, b, c uint64) uint64 {
	return func(a, b, c uint64) uint64 {
		return f(a&0xffff, b&0xffff, c&0xffff) | f(a>>16&0xffff, b>>16&0xffff, c>>16&0xffff)<<16
	}
}

func sum16(a, b, _ float64) (x, y, z float64)  { return a, 1, b }
func diff16(a, b, _ float64) (x, y, z float64) { return a, 1, -b }
func prod16(a, b, _ float64) (x, y, z float64) {
	zero := 0.0
	if math.Signbit(a) != math.Signbit(b) {
		zero = math.Copysign(0, -1)
	}
	return a, b, zero
}
func fma16(a, b, c float64) (x, y, z float64) { return a, b, c }

// least is min where a number beats NaN.
func least(a, b float64) float64 {
	switch {
	case a != a:
		return b
	case b != b:
		return a
	}
	return math.Min(a, b)
}

func flushed(x float32) float32 {
	if math.Abs(float64(x)) < 0x1p-126 {
		return float32(math.Copysign(0, float64(x)))
	}
	return x
}

var floatOps = []op{
	{"add.rn.f32 $o, $a, $b", "ww>w", func(a, b, _ uint64) uint64 { return r32(f32(a) + f32(b)) }},
	{"sub.f32 $o, $a, $b", "ww>w", func(a, b, _ uint64) uint64 { return r32(f32(a) - f32(b)) }},
	{"mul.rn.f32 $o, $a, $b", "ww>w", func(a, b, _ uint64) uint64 { return r32(f32(a) * f32(b)) }},
	{"mul.rn.ftz.f32 $o, $a, $b", "ww>w", func(a, b, _ uint64) uint64 { return r32(flushed(flushed(f32(a)) * flushed(f32(b)))) }},
	{"add.sat.f32 $o, $a, $b", "ww>w", func(a, b, _ uint64) uint64 {
		if x := f32(a) + f32(b); x > 0 {
			return r32(min(x, 1))
		}
		return 0
	}},
	{"add.rm.f32 $o, $a, $b", "ww>w", func(a, b, _ uint64) uint64 { return fma32(f32(a), 1, f32(b), true) }},
	{"fma.rm.f32 $o, $a, $b, $c", "www>w", func(a, b, c uint64) uint64 { return fma32(f32(a), f32(b), f32(c), true) }},
	{"fma.rn.f32 $o, $a, $b, $c", "www>w", func(a, b, c uint64) uint64 { return fma32(f32(a), f32(b), f32(c), false) }},
	{"div.rn.f32 $o, $a, $b", "ww>w", func(a, b, _ uint64) uint64 { return r32(f32(a) / f32(b)) }},
	{"rcp.rn.f32 $o, $a", "w>w", func(a, _, _ uint64) uint64 { return r32(1 / f32(a)) }},
	{"sqrt.rn.f32 $o, $a", "w>w", func(a, _, _ uint64) uint64 { return r32(float32(math.Sqrt(float64(f32(a))))) }},
	{"min.f32 $o, $a, $b", "ww>w", func(a, b, _ uint64) uint64 { return r32(float32(least(float64(f32(a)), float64(f32(b))))) }},
	{"max.f32 $o, $a, $b", "ww>w", func(a, b, _ uint64) uint64 { return r32(float32(-least(-float64(f32(a)), -float64(f32(b))))) }},
	{"max.NaN.f32 $o, $a, $b", "ww>w", func(a, b, _ uint64) uint64 {
		if f32(a) != f32(a) || f32(b) != f32(b) {
			return 0x7fff_ffff
		}
		return r32(max(f32(a), f32(b)))
	}},
	{"abs.f32 $o, $a", "w>w", func(a, _, _ uint64) uint64 { return a & 0x7fff_ffff }},
	{"neg.f32 $o, $a", "w>w", func(a, _, _ uint64) uint64 { return a ^ 0x8000_0000 }},
	{"copysign.f32 $o, $a, $b", "ww>w", func(a, b, _ uint64) uint64 { return a&0x8000_0000 | b&0x7fff_ffff }},
	{"add.rn.f64 $o, $a, $b", "dd>d", func(a, b, _ uint64) uint64 { return r64(f64(a) + f64(b)) }},
	{"mul.f64 $o, $a, $b", "dd>d", func(a, b, _ uint64) uint64 { return r64(f64(a) * f64(b)) }},
	{"fma.rn.f64 $o, $a, $b, $c", "ddd>d", func(a, b, c uint64) uint64 { return r64(math.FMA(f64(a), f64(b), f64(c))) }},
	{"div.rn.f64 $o, $a, $b", "dd>d", func(a, b, _ uint64) uint64 { return r64(f64(a) / f64(b)) }},
	{"sqrt.rn.f64 $o, $a", "d>d", func(a, _, _ uint64) uint64 { return r64(math.Sqrt(f64(a))) }},
	{"min.f64 $o, $a, $b", "dd>d", func(a, b, _ uint64) uint64 { return r64(least(f64(a), f64(b))) }},

	{"setp.lt.f32 $o, $a, $b", "ww>p", func(a, b, _ uint64) uint64 { return b2u(f32(a) < f32(b)) }},
	{"setp.ne.f32 $o, $a, $b", "ww>p", func(a, b, _ uint64) uint64 { return b2u(f32(a) < f32(b) || f32(a) > f32(b)) }},
	{"setp.neu.f32 $o, $a, $b", "ww>p", func(a, b, _ uint64) uint64 { return b2u(f32(a) != f32(b)) }},
	{"setp.leu.f64 $o, $a, $b", "dd>p", func(a, b, _ uint64) uint64 { return b2u(!(f64(a) > f64(b))) }},
	{"setp.nan.f32 $o, $a, $b", "ww>p", func(a, b, _ uint64) uint64 { return b2u(f32(a) != f32(a) || f32(b) != f32(b)) }},
	{"setp.num.f64 $o, $a, $b", "dd>p", func(a, b, _ uint64) uint64 { return b2u(f64(a) == f64(a) && f64(b) == f64(b)) }},
	{"testp.infinite.f32 $o, $a", "w>p", func(a, _, _ uint64) uint64 { return b2u(math.IsInf(float64(f32(a)), 0)) }},
	{"testp.subnormal.f64 $o, $a", "d>p", func(a, _, _ uint64) uint64 { return b2u(a<<1 != 0 && a>>52&0x7ff == 0) }},

	{"add.rn.bf16 $o, $a, $b", "hh>h", half16("bf16", sum16)},
	{"fma.rn.bf16x2 $o, $a, $b, $c", "www>w", both(half16("bf16", fma16))},
	{"mul.rn.bf16x2 $o, $a, $b", "ww>w", both(half16("bf16", prod16))},
	{"add.rn.f16x2 $o, $a, $b", "ww>w", both(half16("f16", sum16))},
	{"sub.f16 $o, $a, $b", "hh>h", half16("f16", diff16)},
	{"mul.f16x2 $o, $a, $b", "ww>w", both(half16("f16", prod16))},
	{"fma.rn.f16 $o, $a, $b, $c", "hhh>h", half16("f16", fma16)},
	{"neg.bf16x2 $o, $a", "w>w", func(a, _, _ uint64) uint64 { return a ^ 0x8000_8000 }},
	{"abs.f16 $o, $a", "h>h", func(a, _, _ uint64) uint64 { return a & 0x7fff }},

	{"setp.gt.f16 $o, $a, $b", "hh>p", func(a, b, _ uint64) uint64 { return b2u(arith.FromF16(uint32(a)) > arith.FromF16(uint32(b))) }},
	{"setp.lt.ftz.f32 $o, $a, $b", "ww>p", func(a, b, _ uint64) uint64 { return b2u(flushed(f32(a)) < flushed(f32(b))) }},
	{"fma.rn.relu.bf16x2 $o, $a, $b, $c", "www>w", both(relu16(half16("bf16", fma16)))},
	{"fma.rn.sat.f16 $o, $a, $b, $c", "hhh>h", sat16(half16("f16", fma16))},
	{"max.bf16x2 $o, $a, $b", "ww>w", both(func(a, b, _ uint64) uint64 {
		return to16("bf16", -least(-float64(f32(a<<16)), -float64(f32(b<<16))))
	})},
	{"min.f16 $o, $a, $b", "hh>h", func(a, b, _ uint64) uint64 {
		return to16("f16", least(float64(arith.FromF16(uint32(a))), float64(arith.FromF16(uint32(b)))))
	}},
	{"sub.rz.f32 $o, $a, $b", "ww>w", func(a, b, _ uint64) uint64 { return toZero(f32(a), 1, -f32(b)) }},
	{"mul.rz.f32 $o, $a, $b", "ww>w", func(a, b, _ uint64) uint64 {
		return toZero(f32(a), f32(b), float32(math.Copysign(0, float64(f32(a)*f32(b)))))
	}},
	{"fma.rn.ftz.f32 $o, $a, $b, $c", "www>w", func(a, b, c uint64) uint64 {
		return r32(flushed(f32(fma32(flushed(f32(a)), flushed(f32(b)), flushed(f32(c)), false))))
	}},
	{"mul.sat.ftz.f32 $o, $a, $b", "ww>w", func(a, b, _ uint64) uint64 {
		if x := flushed(flushed(f32(a)) * flushed(f32(b))); x > 0 {
			return r32(min(x, 1))
		}
		return 0
	}},
	{"sub.f64 $o, $a, $b", "dd>d", func(a, b, _ uint64) uint64 { return r64(f64(a) - f64(b)) }},
	{"max.f64 $o, $a, $b", "dd>d", func(a, b, _ uint64) uint64 { return r64(-least(-f64(a), -f64(b))) }},
	{"neg.f64 $o, $a", "d>d", func(a, _, _ uint64) uint64 { return a ^ 1<<63 }},
	{"abs.f64 $o, $a", "d>d", func(a, _, _ uint64) uint64 { return a &^ (1 << 63) }},
	{"copysign.f64 $o, $a, $b", "dd>d", func(a, b, _ uint64) uint64 { return a&(1<<63) | b&^(1<<63) }},
	{"set.lt.f16.f16 $o, $a, $b", "hh>h", func(a, b, _ uint64) uint64 { return 0x3c00 * b2u(arith.FromF16(uint32(a)) < arith.FromF16(uint32(b))) }},

	{"cvt.rn.bf16.f32 $o, $a", "w>h", func(a, _, _ uint64) uint64 { return to16("bf16", float64(f32(a))) }},
	{"cvt.rn.f16.f32 $o, $a", "w>h", func(a, _, _ uint64) uint64 { return to16("f16", float64(f32(a))) }},
	{"cvt.rn.f16.f64 $o, $a", "d>h", func(a, _, _ uint64) uint64 { return to16("f16", f64(a)) }},
	{"cvt.rn.bf16x2.f32 $o, $a, $b", "ww>w", func(a, b, _ uint64) uint64 {
		return to16("bf16", float64(f32(a)))<<16 | to16("bf16", float64(f32(b)))
	}},
	{"cvt.rz.bf16x2.f32 $o, $a, $b", "ww>w", func(a, b, _ uint64) uint64 { return cut16(a)<<16 | cut16(b) }},
	{"cvt.rn.relu.bf16x2.f32 $o, $a, $b", "ww>w", func(a, b, _ uint64) uint64 {
		relu := func(v uint64) uint64 {
			if x := float64(f32(v)); x > 0 || x != x {
				return to16("bf16", x)
			}
			return 0
		}
		return relu(a)<<16 | relu(b)
	}},
	{"cvt.f32.f16 $o, $a", "h>w", func(a, _, _ uint64) uint64 { return r32(arith.FromF16(uint32(a))) }},
	{"cvt.f64.f32 $o, $a", "w>d", func(a, _, _ uint64) uint64 { return r64(float64(f32(a))) }},
	{"cvt.rn.f32.f64 $o, $a", "d>w", func(a, _, _ uint64) uint64 { return nan32(a, r32(float32(f64(a)))) }},
	{"cvt.rz.f32.f64 $o, $a", "d>w", func(a, _, _ uint64) uint64 {
		if f64(a) != f64(a) {
			return nan32(a, 0)
		}
		x := f64(a)
		r := float32(x)
		if math.Abs(float64(r)) > math.Abs(x) {
			r = math.Nextafter32(r, 0)
		}
		return r32(r)
	}},
	{"cvt.rn.f32.s32 $o, $a", "w>w", func(a, _, _ uint64) uint64 { return r32(float32(s32(a))) }},
	{"cvt.rn.f32.u64 $o, $a", "d>w", func(a, _, _ uint64) uint64 { return r32(float32(a)) }},
	{"cvt.rn.f64.s64 $o, $a", "d>d", func(a, _, _ uint64) uint64 { return r64(float64(int64(a))) }},
	{"cvt.rz.f32.u32 $o, $a", "w>w", func(a, _, _ uint64) uint64 {
		r := float32(a)
		if float64(r) > float64(a) {
			r = math.Nextafter32(r, 0)
		}
		return r32(r)
	}},
	{"cvt.rn.f16.s32 $o, $a", "w>h", func(a, _, _ uint64) uint64 { return to16("f16", float64(s32(a))) }},
	{"cvt.rni.f32.f32 $o, $a", "w>w", func(a, _, _ uint64) uint64 { return r32(float32(math.RoundToEven(float64(f32(a))))) }},
	{"cvt.rmi.f64.f64 $o, $a", "d>d", func(a, _, _ uint64) uint64 { return nan64(a, r64(math.Floor(f64(a)))) }},
	{"cvt.sat.f32.f32 $o, $a", "w>w", func(a, _, _ uint64) uint64 {
		if x := f32(a); x > 0 {
			return r32(min(x, 1))
		}
		return 0
	}},
	{"cvt.rzi.s32.f32 $o, $a", "w>w", func(a, _, _ uint64) uint64 { return toInt(math.Trunc(float64(f32(a))), 32, true, 0) }},
	{"cvt.rni.s32.f32 $o, $a", "w>w", func(a, _, _ uint64) uint64 { return toInt(math.RoundToEven(float64(f32(a))), 32, true, 0) }},
	{"cvt.rpi.u32.f32 $o, $a", "w>w", func(a, _, _ uint64) uint64 { return toInt(math.Ceil(float64(f32(a))), 32, false, 0) }},
	{"cvt.rzi.u8.f32 $o, $a", "w>w", func(a, _, _ uint64) uint64 { return toInt(math.Trunc(float64(f32(a))), 8, false, 0) }},
	{"cvt.rzi.s64.f64 $o, $a", "d>d", func(a, _, _ uint64) uint64 { return toInt(math.Trunc(f64(a)), 64, true, 1<<63) }},
	{"cvt.rzi.u64.f32 $o, $a", "w>d", func(a, _, _ uint64) uint64 { return toInt(math.Trunc(float64(f32(a))), 64, false, 1<<63) }},
	{"cvt.rmi.s32.f64 $o, $a", "d>w", func(a, _, _ uint64) uint64 { return toInt(math.Floor(f64(a)), 32, true, 1<<31) }},
}

// relu16 makes negative results zero.
func relu16(f func(a, b, c uint64) uint64) func(a, b, c uint64) uint64 {
	return func(a, b, c uint64) uint64 {
		if v := f(a, b, c); v&0x8000 == 0 {
			return v
		}
		return 0
	}
}

// sat16 clamps results of f16 to [0, 1]; NaN becomes 0.
func sat16(f func(a, b, c uint64) uint64) func(a, b, c uint64) uint64 {
	return func(a, b, c uint64) uint64 {
		v := f(a, b, c)
		if v&0x8000 != 0 || v > 0x7c00 {
			return 0
		}
		return min(v, 0x3c00)
	}
}

// toZero is a·b+c rounded to zero.
func toZero(a, b, c float32) uint64 {
	v, ok := exact(float64(a), float64(b), float64(c))
	if !ok || v.Sign() == 0 {
		return r32(float32(float64(a)*float64(b) + float64(c)))
	}
	r, accuracy := v.Float32()
	if (v.Sign() > 0 && accuracy == big.Above) || (v.Sign() < 0 && accuracy == big.Below) {
		r = math.Nextafter32(r, 0)
	}
	return r32(r)
}

// to16 rounds a float64 to a 16-bit type.
func to16(t string, x float64) uint64 {
	return half16(t, func(float64, float64, float64) (a, b, c float64) { return x, 1, math.Copysign(0, x) })(0, 0, 0)
}

// cut16 drops the lower half of a float32.
func cut16(v uint64) uint64 {
	if f32(v) != f32(v) {
		return 0x7fff
	}
	return v >> 16
}

// toInt clamps a whole number to an integer type.
func toInt(x float64, size int, signed bool, nan uint64) uint64 {
	least, most := new(big.Int), new(big.Int).Lsh(big.NewInt(1), uint(size))
	if signed {
		most.Rsh(most, 1)
		least.Neg(most)
	}
	most.Sub(most, big.NewInt(1))
	v := new(big.Int)
	switch {
	case x != x:
		return nan
	case math.IsInf(x, 1):
		v = most
	case math.IsInf(x, -1):
		v = least
	default:
		big.NewFloat(x).Int(v)
	}
	if v.Cmp(least) < 0 {
		v = least
	} else if v.Cmp(most) > 0 {
		v = most
	}
	mask := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(size)), big.NewInt(1))
	return new(big.Int).And(v, mask).Uint64()
}

func TestFloats(t *testing.T) {
	for _, o := range floatOps {
		check(t, o)
	}
}

// TestHalves goes through every value of the 16-bit types, there and back.
func TestHalves(t *testing.T) {
	for v := range uint32(1 << 16) {
		if x := arith.FromF16(v); x == x && arith.ToF16(x) != v {
			t.Fatalf("f16 %#x is %g and comes back as %#x", v, x, arith.ToF16(x))
		}
		if x := math.Float32frombits(v << 16); x == x && arith.ToBF16(x) != v {
			t.Fatalf("bf16 %#x is %g and comes back as %#x", v, x, arith.ToBF16(x))
		}
	}
	for v, want := range map[uint32]float32{0x3c00: 1, 0xc000: -2, 0x7bff: 65504, 1: 0x1p-24, 0x400: 0x1p-14, 0x3555: 0.333251953125} {
		if got := arith.FromF16(v); got != want {
			t.Errorf("f16 %#x is %g, want %g", v, got, want)
		}
	}
}

// TestApproximations holds them to a unit in the last place, to their documented values, and to differ
// from the rounded result for some inputs and between seeds.
func TestApproximations(t *testing.T) {
	for name, f := range map[string]func(x float64) float64{
		"ex2.approx.f32": math.Exp2, "ex2.approx.ftz.f32": math.Exp2, "lg2.approx.f32": math.Log2, "rsqrt.approx.f32": func(x float64) float64 { return 1 / math.Sqrt(x) },
		"rcp.approx.f32": func(x float64) float64 { return 1 / x }, "sqrt.approx.f32": math.Sqrt, "sin.approx.f32": math.Sin, "cos.approx.f32": math.Cos, "tanh.approx.f32": math.Tanh,
	} {
		in := inputs("w>w")
		off := 0
		for i, got := range apply(t, op{text: name + " $o, $a", sig: "w>w"}, in) {
			x := f32(in[0][i])
			want := float32(f(float64(x)))
			if math.Abs(float64(want)) < 0x1p-126 && want != 0 {
				continue
			}
			d := int64(int32(got)) - int64(int32(r32(want)))
			if d < -1 || d > 1 || (d != 0 && (x == 0 || (name[0] == 'e' && x == float32(math.Trunc(float64(x)))))) {
				t.Errorf("%s of %g: %g, want %g", name, x, f32(got), want)
				break
			}
			if d != 0 {
				off++
			}
		}
		if off == 0 {
			t.Errorf("%s is always exact", name)
		}
	}
	if a, b := arith.Nudge64(9, 0x3ff0_0000_0000_0000, 1), uint64(0x3ff0_0000_0000_0000); a > b+1 || a < b-1 || arith.Nudge64(9, 0, 1) != 0 {
		t.Error("an approximation in float64 is far off, or zero moves")
	}
	if a, b := arith.Nudge(1, 0x3f80_0000, 1), arith.Nudge(1, 0x3f80_0000, 1); a != b {
		t.Error("an approximation does not repeat")
	}
	differ := false
	for x := range uint32(100) {
		differ = differ || arith.Nudge(x, 0x3f80_0000, 1) != arith.Nudge(x, 0x3f80_0000, 2)
	}
	if !differ {
		t.Error("the seed changes nothing")
	}
}
