package main

import (
	"bytes"
	"fmt"
)

// dispatchers writes the Go functions that choose among the kernels for families and numbers of
// rows. Switches, not tables of functions, keep the arguments from escaping.
func dispatchers() []byte {
	var b bytes.Buffer
	b.WriteString("\nfunc tileKernel(l Level, f family, T int, w, s, a *byte, nb int, bias, y *float32) {\n")
	// With one row there is nothing to pair: dot products, the machine has them too.
	for _, level := range []struct {
		condition string
		isa       isa
	}{{"l == NEON", neon}, {"l == I8MM && T > 1", i8mm}, {"l == DotProd || l == I8MM && T == 1", dotprod}} {
		fmt.Fprintf(&b, "if %s {\nswitch f {\n", level.condition)
		for _, f := range families {
			fmt.Fprintf(&b, "case %s:\nswitch T {\n", f.name)
			for _, T := range level.isa.rows {
				fmt.Fprintf(&b, "case %d:\n%sTile%d%s(w, s, a, nb, bias, y)\n", T, f.name, T, level.isa.name)
			}
			b.WriteString("}\n")
		}
		b.WriteString("}\n}\n")
	}
	b.WriteString("}\n")
	byRows := func(signature, kernel, args string, count int, families ...string) {
		fmt.Fprintf(&b, "\nfunc %s {\nswitch f {\n", signature)
		for _, f := range families {
			fmt.Fprintf(&b, "case %s:\nswitch T {\n", map[string]string{"BF16": "bf16", "F16": "f16", "F32": "f32", "E4M3": "e4m3"}[f])
			for T := 1; T <= count; T++ {
				fmt.Fprintf(&b, "case %d:\n%s%s%d(%s)\n", T, kernel, f, T, args)
			}
			b.WriteString("}\n")
		}
		b.WriteString("}\n}\n")
	}
	byRows("dotsRows(f family, T int, w, x **byte, n, next int, y *float32, ldy int)", "dots", "w, x, n, next, y, ldy", dotT, "BF16", "F16", "F32")
	byRows("scoresKernel(f family, T int, dst *float32, ldd int, q *float32, ldq int, k *byte, ldk, d, n, next int)", "scores", "dst, ldd, q, ldq, k, ldk, d, n, next", dotT, "BF16", "F32", "E4M3")
	byRows("weighKernel(_ Level, f family, T int, acc *float32, lda int, p *float32, ldp int, v *byte, ldv, n, d, next int)", "weigh", "acc, lda, p, ldp, v, ldv, n, d, next", weighHeads, "BF16", "F32", "E4M3")
	b.WriteString("\nfunc bf16Kernel(native bool, T int, w, a *byte, nb int, y *float32) {\n")
	for _, native := range []bool{true, false} {
		condition, name := "native", "Native"
		if !native {
			condition, name = "!native", "Float"
		}
		fmt.Fprintf(&b, "if %s {\nswitch T {\n", condition)
		for T := 1; T <= bf16Rows(native); T++ {
			fmt.Fprintf(&b, "case %d:\nbf16%s%d(w, a, nb, y)\n", T, name, T)
		}
		b.WriteString("}\n}\n")
	}
	b.WriteString("}\n")
	return b.Bytes()
}
