package kern

import (
	"unsafe"

	"ossian/internal/tensor"
)

// Products of BF16 weights with activations rounded to BF16 (Options.BF16) have 16 lanes
// too: of every 32 elements, lane l takes pair l and adds the product of its odd element,
// then that of the even one. Products of two BF16 are exact, so all levels agree bit for bit, unless
// one is below 2^-126, which machines that multiply pairs take for 0.

// bf16Block is how many elements the lanes take at a time.
const bf16Block = 2 * lanes

// pairs reports whether the level multiplies pairs of BF16 as they lie. Else activations are
// kept as float32 of the same values: of every 32 the odd ones and then the even ones.
func (l Level) pairs() bool { return (l == AVX512 || l == I8MM) && nativeBF16 }

// BF16Bytes returns the bytes of a row of n activations rounded to BF16.
func (l Level) BF16Bytes(n int) int {
	if l.pairs() {
		return 2 * n
	}
	return 4 * n
}

// roundBF16 rounds the elements of x, whole blocks, into row.
func (l Level) roundBF16(row []byte, x []float32) {
	if l.pairs() {
		ToBF16(l, unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(row))), len(x)), x)
		return
	}
	var half [bf16Block]uint16
	to := floatsOf(row)
	for k := 0; k < len(x); k += bf16Block {
		ToBF16(l, half[:], x[k:][:bf16Block])
		t := (*[bf16Block]float32)(to[k:])
		for i := range lanes {
			t[i], t[lanes+i] = tensor.BF16ToFloat(half[2*i+1]), tensor.BF16ToFloat(half[2*i])
		}
	}
}

// bf16Dots computes y[t·ldy+r] = w[r]·x[t] for four BF16 rows and T <= maxDot rows of
// roundBF16, n elements each; next as in dots.
func (l Level) bf16Dots(w *[dotRows]unsafe.Pointer, x *[maxDot]unsafe.Pointer, n, T, next int, y []float32, ldy int) {
	if l > Go {
		bf16DotsAsm(l, w, x, n, T, next, &y[0], ldy)
		return
	}
	for t := range T {
		for r := range dotRows {
			y[t*ldy+r] = bf16DotGo(w[r], unsafe.Slice((*float32)(x[t]), n))
		}
	}
}

// bf16OneRowWeights is how many weight rows bf16OneRow takes at a time.
const bf16OneRowWeights = 64

// bf16OneRow computes y[r] = w[r]·x for some times four rows with AVX-512, as bf16Dots does;
// w[n:n+dotRows] is what is read next.
func bf16OneRow(w *[bf16OneRowWeights + dotRows]unsafe.Pointer, n int, x []byte, in int, y []float32) {
	bf16OneRowAsm((**byte)(unsafe.Pointer(w)), &x[0], in, n/dotRows, &y[:n][0])
}

// bf16DotGo defines the order of the sums of bf16Dots and bf16OneRow; x is as roundBF16
// leaves it for levels without pairs.
func bf16DotGo(w unsafe.Pointer, x []float32) float32 {
	var acc [lanes]float32
	for k := 0; k < len(x); k += bf16Block {
		xk := (*[bf16Block]float32)(x[k:])
		for l := range acc {
			acc[l] += bf16.element(w, k+2*l+1) * xk[l]
			acc[l] += bf16.element(w, k+2*l) * xk[lanes+l]
		}
	}
	return reduce(&acc)
}
