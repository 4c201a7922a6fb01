package kern

import (
	"unsafe"

	"ossian/internal/tensor"
)

// The float32 dot product of all levels has 16 lanes: lane l takes the elements
// k ≡ l (mod 16) in order, by fused multiply-add where the level has one. The lanes are summed by
// reduce, and the last n mod 16 products added one by one.
const (
	lanes   = 16
	dotRows = 4 // weight rows of a kernel call
	maxDot  = 6 // activation rows of a kernel call
)

// dotGo defines the order of the sums of dots: element k of a row of weights by that of x.
func dotGo(w, x []float32) float32 {
	var acc [lanes]float32
	n := len(x) &^ (lanes - 1)
	for k := 0; k < n; k += lanes {
		wk, xk := (*[lanes]float32)(w[k:]), (*[lanes]float32)(x[k:])
		for l := range acc {
			acc[l] += wk[l] * xk[l]
		}
	}
	sum := reduce(&acc)
	for k := n; k < len(x); k++ {
		sum += w[k] * x[k]
	}
	return sum
}

// reduce sums lanes as vector registers halve: l+8, then neighbours in fours.
func reduce(acc *[lanes]float32) float32 {
	var s [8]float32
	for i := range s {
		s[i] = acc[i] + acc[i+8]
	}
	return ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]))
}

// dots computes y[t·ldy+r] = w[r]·x[t] for four weight rows of a family that keeps
// rows as stored (on level Go: f32) and T <= maxDot float32 rows, n elements each. What
// is read next lies that many bytes behind each row of w; nothing needs to be there.
func (l Level) dots(f family, w *[dotRows]unsafe.Pointer, x *[maxDot]unsafe.Pointer, n, T, next int, y []float32, ldy int) {
	// Assembly does whole lanes; what is left is added here, in the order of dotGo.
	main := n &^ (lanes - 1)
	if l > Go && main > 0 {
		dotsAsm(l, f, w, x, main, T, next, &y[0], ldy)
	}
	if l > Go && main == n {
		return
	}
	for t := range T {
		xt := unsafe.Slice((*float32)(x[t]), n)
		for r := range dotRows {
			d := &y[t*ldy+r]
			switch {
			case l == Go:
				*d = dotGo(unsafe.Slice((*float32)(w[r]), n), xt)
				continue
			case main == 0:
				*d = 0
			}
			for k := main; k < n; k++ {
				*d = fma(f.element(w[r], k), xt[k], *d)
			}
		}
	}
}

// element returns element k of a row as stored, which need not be aligned.
func (f family) element(w unsafe.Pointer, k int) float32 {
	switch f {
	case bf16:
		b := (*[2]byte)(unsafe.Add(w, 2*k))
		return tensor.BF16ToFloat(uint16(b[0]) | uint16(b[1])<<8)
	case f16:
		b := (*[2]byte)(unsafe.Add(w, 2*k))
		return tensor.Half(uint16(b[0]) | uint16(b[1])<<8)
	case e4m3:
		return tensor.E4M3ToFloat(*(*byte)(unsafe.Add(w, k))) * e4m3Unit
	}
	return *(*float32)(unsafe.Add(w, 4*k))
}
