package main

import "fmt"

// A bf16Kernel multiplies 16 rows of BF16 with T activation rows in the chained order of bf16Go:
// of each pair the odd product, then the even one. BFDOT and BFMMLA would round sums otherwise
// than IEEE 754 says, BFMLALT and BFMLALB do not.
type bf16Kernel struct {
	*assembler
	T      int
	native bool // activations are pairs of BF16 (FEAT_BF16), else float32
	w, x   gp
	acts   []vec
	acc    [4][]vec // of each four weight rows, by activation row
	mask   vec      // of odd elements
}

// bf16Rows returns the most rows of a kernel: as many as there are registers for.
func bf16Rows(native bool) int {
	if native {
		return 6
	}
	return 5
}

// flushToZero is the bit of FPCR by which what is below 2^-126 counts as 0.
const flushToZero = 1 << 24

// bf16 writes the kernel.
func (a *assembler) bf16(T int, native bool) {
	name, form, size := "Float", "float32", 128
	if native {
		name, form, size = "Native", "BF16", 64
	}
	a.function(fmt.Sprintf("bf16%s%d", name, T), "func(w, a *byte, nb int, y *float32)",
		fmt.Sprintf("multiplies a group of BF16 rows with a tile of %d rows in %s, nb blocks of 32; see bf16Go. y is [%d, 16].", T, form, T))
	k := &bf16Kernel{assembler: a, T: T, native: native, acts: a.take(T), w: a.param("w"), x: a.param("a")}
	nb, y, was, flushing := a.param("nb"), a.param("y"), a.gp(), a.gp()
	for q := range k.acc {
		k.acc[q] = a.take(T)
		for _, v := range k.acc[q] {
			a.zero(v)
		}
	}
	if !native {
		k.mask = a.vec()
		a.word32(k.mask, 0xffff0000)
	}
	a.line("MOVD FPCR, R%d", was)
	a.line("ORR $%d, R%d, R%d", flushToZero, was, flushing)
	a.line("MOVD R%d, FPCR", flushing)
	loop := a.label()
	for i := range 16 {
		a.prefetch(k.w, ahead+64*i)
	}
	words := 2 // of weights, for which a register has activations
	if native {
		words = 4
	}
	for first := 0; first < 16; first += words {
		for t, v := range k.acts {
			a.load(v, 16, k.x, size*t+first/words*16)
		}
		for word := range words {
			k.word(first+word, word)
		}
	}
	a.add(k.w, 1024)
	a.add(k.x, size*T)
	a.again(loop, nb, 1)
	a.line("MOVD R%d, FPCR", was)
	for q := range k.acc {
		for t, v := range k.acc[q] {
			a.store(v, 16, y, 64*t+16*q)
		}
	}
	a.ret()
}

// word adds the products of a word of all rows, a pair of each, with those activations.
func (k *bf16Kernel) word(word, lane int) {
	for q, sums := range k.acc {
		even := k.vec()
		k.load(even, 16, k.w, 64*word+16*q)
		if k.native {
			for t, sum := range sums {
				k.half("bfmlalt", sum, even, k.acts[t], 2*lane+1)
			}
			for t, sum := range sums {
				k.half("bfmlalb", sum, even, k.acts[t], 2*lane)
			}
			k.free(even)
			continue
		}
		odd := k.vec()
		k.and(odd, even, k.mask)
		k.shl("S4", even, even, 16)
		for t, sum := range sums {
			k.lane("fmla", sum, odd, k.acts[t], 2*lane+1)
		}
		for t, sum := range sums {
			k.lane("fmla", sum, even, k.acts[t], 2*lane)
		}
		k.free(even, odd)
	}
}
