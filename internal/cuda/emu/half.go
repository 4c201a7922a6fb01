package emu

import (
	"math"
	"strings"
)

// This file is arithmetic of the 16-bit floating types, alone and in pairs. Operations are done on
// float64, rounded to odd where they are not exact, and rounded once to 16 bits.

// A float16 says how one of the types is read and made.
type float16 struct {
	read func(v uint32) float64
	make func(x float64) uint32 // of a value that is exact or rounded to odd
}

var float16s = map[string]float16{
	"f16":  {func(v uint32) float64 { return float64(fromF16(v)) }, func(x float64) uint32 { return toF16(odd32(x)) }},
	"bf16": {func(v uint32) float64 { return float64(f32(v << 16)) }, func(x float64) uint32 { return toBF16(odd32(x)) }},
}

// odd32 rounds to float32 to odd: rounding the result to 16 bits is as good as rounding x.
func odd32(x float64) float32 {
	r := float32(x)
	if float64(r) == x || x != x {
		return r
	}
	v := math.Float32bits(r)
	if math.Abs(float64(r)) > math.Abs(x) {
		v--
	}
	return math.Float32frombits(v | 1)
}

// toBF16 rounds to the nearest bfloat16, ties to even.
func toBF16(x float32) uint32 {
	if x != x {
		return 0x7fff
	}
	v := math.Float32bits(x)
	return (v + 0x7fff + v>>16&1) >> 16
}

// toF16 rounds to the nearest float16, ties to even.
func toF16(x float32) uint32 {
	v := math.Float32bits(x)
	sign, v := v>>16&0x8000, v&0x7fff_ffff
	switch {
	case v > 0x7f80_0000:
		return 0x7fff
	case v >= 0x4780_0000: // 65536
		return sign | 0x7c00
	case v < 0x3880_0000: // below 2^-14: units of 2^-24, which the sum with 0.5 leaves at its end
		sum := math.Float32frombits(v) + 0.5
		return sign | (math.Float32bits(sum) - 0x3f00_0000)
	}
	v += 0xfff + v>>13&1
	return sign | (v-0x3800_0000)>>13
}

// fromF16 is exact.
func fromF16(v uint32) float32 {
	sign, exponent, fraction := v&0x8000<<16, v>>10&31, v&0x3ff
	switch exponent {
	case 0:
		return math.Float32frombits(sign | math.Float32bits(float32(fraction)/(1<<24)))
	case 31:
		return math.Float32frombits(sign | 0x7f80_0000 | fraction<<13)
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
}

// half decodes arithmetic on f16, bf16 and their pairs.
func (p *parser) half(t string) {
	t, pair := strings.CutSuffix(t, "x2")
	kind := float16s[t]
	p.has("rn")
	ftz, sat, relu, nan := p.has("ftz"), p.has("sat"), p.has("relu"), p.has("NaN")
	f := p.operation16(kind, nan)
	if f == nil || (ftz && t == "bf16") {
		return
	}
	if relu || sat || ftz {
		f = adjusted(f, kind, ftz, sat, relu)
	}
	count := operandCount(p.op)
	p.want(count+1, count+1)
	size := 16
	if pair {
		size = 32
	}
	p.result(size)
	src := [3]int{}
	for i := range count {
		src[i] = p.src(p.args[i+1], size)
	}
	if !pair {
		p.lanes3(src[0], src[1], src[2], f)
		return
	}
	p.lanes3(src[0], src[1], src[2], func(a, b, c uint32) uint32 {
		return f(a&0xffff, b&0xffff, c&0xffff) | f(a>>16, b>>16, c>>16)<<16
	})
}

// operation16 returns what an operation does to one half; operands that it does not have are ignored.
func (p *parser) operation16(kind float16, nan bool) func(a, b, c uint32) uint32 {
	read, round := kind.read, kind.make
	switch p.op {
	case "add":
		return func(a, b, _ uint32) uint32 { return round(oddSum(read(a), read(b))) }
	case "sub":
		return func(a, b, _ uint32) uint32 { return round(oddSum(read(a), -read(b))) }
	case "mul":
		return func(a, b, _ uint32) uint32 { return round(read(a) * read(b)) }
	case "fma":
		return func(a, b, c uint32) uint32 { return round(oddSum(read(a)*read(b), read(c))) }
	case "neg":
		return func(a, _, _ uint32) uint32 { return a ^ 0x8000 }
	case "abs":
		return func(a, _, _ uint32) uint32 { return a & 0x7fff }
	case "min":
		return func(a, b, _ uint32) uint32 { return round(lesser(read(a), read(b), nan)) }
	case "max":
		return func(a, b, _ uint32) uint32 { return round(-lesser(-read(a), -read(b), nan)) }
	}
	return nil
}

// adjusted adds what modifiers ask for.
func adjusted(f func(a, b, c uint32) uint32, kind float16, ftz, sat, relu bool) func(a, b, c uint32) uint32 {
	flush := func(v uint32) uint32 {
		if ftz && v&0x7c00 == 0 {
			return v & 0x8000
		}
		return v
	}
	return func(a, b, c uint32) uint32 {
		v := flush(f(flush(a), flush(b), flush(c)))
		if x := kind.read(v); (relu || sat) && x == x {
			v = kind.make(max(x, 0))
			if sat {
				v = kind.make(min(max(x, 0), 1))
			}
		} else if sat {
			v = 0
		}
		return v
	}
}
