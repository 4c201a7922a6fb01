package ptx

import (
	"strings"

	"ossian/internal/cuda/emu/arith"
	"ossian/internal/cuda/emu/exec"
)

// This file is arithmetic of the 16-bit floating types, alone and in pairs. Operations are done on
// float64, rounded to odd where they are not exact, and rounded once to 16 bits.

// half decodes arithmetic on f16, bf16 and their pairs.
func (p *parser) half(t string) {
	t, pair := strings.CutSuffix(t, "x2")
	kind := arith.Float16s[t]
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
	if t == "bf16" && p.op == "fma" && !relu && !sat && !nan {
		p.fuseBF16(src)
		return
	}
	p.lanes3(src[0], src[1], src[2], func(a, b, c uint32) uint32 {
		return f(a&0xffff, b&0xffff, c&0xffff) | f(a>>16, b>>16, c>>16)<<16
	})
}

// operation16 returns what an operation does to one half; operands that it does not have are ignored.
func (p *parser) operation16(kind arith.Float16, nan bool) func(a, b, c uint32) uint32 {
	read, round := kind.Read, kind.Make
	switch p.op {
	case "add":
		return func(a, b, _ uint32) uint32 { return round(arith.OddSum(read(a), read(b))) }
	case "sub":
		return func(a, b, _ uint32) uint32 { return round(arith.OddSum(read(a), -read(b))) }
	case "mul":
		return func(a, b, _ uint32) uint32 { return round(read(a) * read(b)) }
	case "fma":
		return func(a, b, c uint32) uint32 { return round(arith.OddSum(read(a)*read(b), read(c))) }
	case "neg":
		return func(a, _, _ uint32) uint32 { return a ^ 0x8000 }
	case "abs":
		return func(a, _, _ uint32) uint32 { return a & 0x7fff }
	case "min":
		return func(a, b, _ uint32) uint32 { return round(arith.Lesser(read(a), read(b), nan)) }
	case "max":
		return func(a, b, _ uint32) uint32 { return round(-arith.Lesser(-read(a), -read(b), nan)) }
	}
	return nil
}

// adjusted adds what modifiers ask for.
func adjusted(f func(a, b, c uint32) uint32, kind arith.Float16, ftz, sat, relu bool) func(a, b, c uint32) uint32 {
	flush := func(v uint32) uint32 {
		if ftz && v&0x7c00 == 0 {
			return v & 0x8000
		}
		return v
	}
	return func(a, b, c uint32) uint32 {
		v := flush(f(flush(a), flush(b), flush(c)))
		if x := kind.Read(v); (relu || sat) && x == x {
			v = kind.Make(max(x, 0))
			if sat {
				v = kind.Make(min(max(x, 0), 1))
			}
		} else if sat {
			v = 0
		}
		return v
	}
}

// fuseBF16 is fma of pairs of bf16 without a call of a closure per half.
func (p *parser) fuseBF16(src [3]int) {
	d, x, y, z := p.in.Dst, src[0], src[1], src[2]
	p.in.Run = func(w *exec.Warp, _ uint32) {
		D, X, Y, Z := &w.R[d], &w.R[x], &w.R[y], &w.R[z]
		for i := range D {
			a, b, c := X[i], Y[i], Z[i]
			low := arith.FusedBF16(arith.F32(a<<16), arith.F32(b<<16), arith.F32(c<<16))
			high := arith.FusedBF16(arith.F32(a&^0xffff), arith.F32(b&^0xffff), arith.F32(c&^0xffff))
			D[i] = low | high<<16
		}
	}
}
