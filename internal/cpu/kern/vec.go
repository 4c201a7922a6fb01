package kern

import (
	"fmt"
	"math"
	"unsafe"

	"ossian/internal/tensor"
)

// Float is how keys and values are stored: float32, the bits of a bfloat16, or an
// E4M3 code, which stands for 1/256 of its value: the bits of a half without its
// last seven, which is how kernels read it. ToE4M3 makes up for the 256.
type Float interface{ float32 | uint16 | uint8 }

// familyOfFloat returns the family whose kernels read keys and values of that type.
func familyOfFloat[F Float]() family {
	switch unsafe.Sizeof(F(0)) {
	case 1:
		return e4m3
	case 2:
		return bf16
	}
	return f32
}

// e4m3Unit is what 1 in E4M3 stands for in keys and values.
const e4m3Unit = 1.0 / 256

// widen returns the value that v stands for.
func widen[F Float](v F) float32 {
	switch unsafe.Sizeof(v) {
	case 1:
		return tensor.E4M3ToFloat(*(*uint8)(unsafe.Pointer(&v))) * e4m3Unit
	case 2:
		return math.Float32frombits(uint32(*(*uint16)(unsafe.Pointer(&v))) << 16)
	}
	return *(*float32)(unsafe.Pointer(&v))
}

// Scores computes dst[h·ldd+j] = q[h]·k[j] for some query heads and n keys of d
// elements. q is [heads, d]; key j lies at k[j·ldk:]. Each key is loaded once for
// several heads. The order of a sum is that of the matrix kernels (16 lanes). Meanwhile as much
// memory from ahead on is fetched, unless it is nil.
func Scores[F Float](l Level, dst []float32, ldd int, q []float32, heads, d int, k []F, ldk, n int, ahead *F) {
	if n == 0 || heads == 0 {
		return
	}
	checkHeads("scores", len(dst), ldd, n, len(q), len(k), ldk, heads, d)
	done := 0
	if l > Go && d%lanes == 0 {
		done = scoresAsm(l, dst, ldd, q, heads, d, unsafe.Pointer(&k[0]), int(unsafe.Sizeof(k[0]))*ldk, familyOfFloat[F](), n, distance(&k[0], ahead))
	}
	for h := range heads {
		for j := done; j < n; j++ {
			dst[h*ldd+j] = score(l, q[h*d:][:d], k[j*ldk:][:d])
		}
	}
}

// score is one dot product of Scores.
func score[F Float](l Level, q []float32, k []F) float32 {
	if l == Go || len(q) == 0 {
		return scoreGo(q, k)
	}
	p := unsafe.Pointer(&k[0])
	var y [dotRows]float32
	l.dots(familyOfFloat[F](), &[dotRows]unsafe.Pointer{p, p, p, p}, &[maxDot]unsafe.Pointer{unsafe.Pointer(&q[0])}, len(q), 1, 0, y[:], dotRows)
	return y[0]
}

const weighHeads = 4 // most heads of a kernel call

// Weigh adds n weighted value rows to acc: acc[h] += Σ_j p[h·ldp+j]·v[j], one
// fused multiply-add after the other in the order of j, whatever n is: parts of a
// sequence may be added by several calls. acc is [heads, d]; value j lies at
// v[j·ldv:]. ahead is as in Scores.
func Weigh[F Float](l Level, acc []float32, heads, d int, p []float32, ldp int, v []F, ldv, n int, ahead *F) {
	if n == 0 || heads == 0 {
		return
	}
	checkHeads("weigh", len(p), ldp, n, len(acc), len(v), ldv, heads, d)
	main, next := l.whole(d), distance(&v[0], ahead)
	for h := 0; h < heads && main > 0; {
		step := min(heads-h, weighHeads)
		weighKernel(l, familyOfFloat[F](), step, &acc[h*d], 4*d, &p[h*ldp], 4*ldp, (*byte)(unsafe.Pointer(&v[0])), int(unsafe.Sizeof(v[0]))*ldv, n, main, next)
		next = 0
		h += step
	}
	for h := 0; h < heads && main < d; h++ {
		weighGo(acc[h*d+main:(h+1)*d], p[h*ldp:][:n], v[main:], ldv)
	}
}

// distance returns the bytes from one element to another, 0 for none.
func distance[F Float](from, to *F) int {
	if to == nil {
		return 0
	}
	return int(uintptr(unsafe.Pointer(to)) - uintptr(unsafe.Pointer(from)))
}

// whole returns how many of n elements the level's kernels take; Go does the rest.
func (l Level) whole(n int) int {
	if l == Go {
		return 0
	}
	return n &^ (lanes - 1)
}

// checkHeads panics where Scores or Weigh would reach beyond a slice.
func checkHeads(op string, scores, lds, n, rows, kv, ldkv, heads, d int) {
	if lds < n || scores < (heads-1)*lds+n || rows < heads*d || ldkv < d || kv < (n-1)*ldkv+d {
		panic(fmt.Sprintf("kern: %s of %d heads, %d dims, %d tokens: %d scores (stride %d), %d floats in rows, %d in keys or values (stride %d)",
			op, heads, d, n, scores, lds, rows, kv, ldkv))
	}
}

// scoreGo defines the order of the sum of score.
func scoreGo[F Float](q []float32, k []F) float32 {
	var acc [lanes]float32
	n := len(q) &^ (lanes - 1)
	for i := 0; i < n; i += lanes {
		ki, qi := (*[lanes]F)(k[i:]), (*[lanes]float32)(q[i:])
		for l := range acc {
			acc[l] += widen(ki[l]) * qi[l]
		}
	}
	sum := reduce(&acc)
	for i := n; i < len(q); i++ {
		sum += widen(k[i]) * q[i]
	}
	return sum
}

// weighGo is Weigh for one head, and defines it but for the fusing of multiply-adds.
func weighGo[F Float](acc, p []float32, v []F, ldv int) {
	for j, w := range p {
		row := v[j*ldv:][:len(acc)]
		for i, x := range row {
			acc[i] += w * widen(x)
		}
	}
}

// SumSq returns the sum of squares of x, in the order of the matrix kernels.
func SumSq(l Level, x []float32) float32 {
	if l == Go || len(x) == 0 {
		return dotGo(x, x)
	}
	p := unsafe.Pointer(&x[0])
	var y [dotRows]float32
	l.dots(f32, &[dotRows]unsafe.Pointer{p, p, p, p}, &[maxDot]unsafe.Pointer{p}, len(x), 1, 2048, y[:], dotRows)
	return y[0]
}

// ScaleMul computes dst[i] = x[i]·k·w[i], rounded after each product. dst may be x.
func ScaleMul(l Level, dst, x, w []float32, k float32) {
	checkLen("scaleMul", len(dst), len(x), len(w))
	whole := l.whole(len(x))
	if whole > 0 {
		scaleMulAsm(l, &dst[0], &x[0], &w[0], whole, k)
	}
	scaleMulGo(dst[whole:], x[whole:], w[whole:], k)
}

// scaleMulGo defines ScaleMul.
func scaleMulGo(dst, x, w []float32, k float32) {
	for i, v := range x {
		dst[i] = float32(v*k) * w[i]
	}
}

// Add computes dst[i] += x[i].
func Add(l Level, dst, x []float32) { MulAdd(l, dst, x, 1) }

// MulAdd computes dst[i] += k·x[i].
func MulAdd(l Level, dst, x []float32, k float32) {
	checkLen("mulAdd", len(dst), len(x), len(x))
	whole := l.whole(len(x))
	if whole > 0 {
		mulAddAsm(l, &dst[0], &x[0], whole, k)
	}
	mulAddGo(dst[whole:], x[whole:], k)
}

// mulAddGo defines MulAdd but for the fusing of multiply-adds.
func mulAddGo(dst, x []float32, k float32) {
	for i, v := range x {
		dst[i] += k * v
	}
}

// Times computes dst[i] = k·x[i]. dst may be x.
func Times(l Level, dst, x []float32, k float32) {
	checkLen("times", len(dst), len(x), len(x))
	whole := l.whole(len(x))
	if whole > 0 {
		timesAsm(l, &dst[0], &x[0], whole, k)
	}
	for i, v := range x[whole:] {
		dst[whole+i] = k * v
	}
}

// Rotate turns the pairs (a[i], b[i]): a[i]·cos[i] - b[i]·sin[i] and b[i]·cos[i] + a[i]·sin[i],
// every product rounded, so that all levels give the same bits.
func Rotate(l Level, a, b, cos, sin []float32) {
	checkLen("rotate", len(a), len(b), len(b))
	checkLen("rotate", len(a), len(cos), len(sin))
	whole := l.whole(len(a))
	if whole > 0 {
		rotateAsm(l, &a[0], &b[0], &cos[0], &sin[0], whole)
	}
	for i := whole; i < len(a); i++ {
		x, y, c, s := a[i], b[i], cos[i], sin[i]
		a[i], b[i] = float32(x*c)-float32(y*s), float32(y*c)+float32(x*s)
	}
}

// checkLen panics where an operation would reach beyond a slice.
func checkLen(op string, dst, x, w int) {
	if dst != x || x != w {
		panic(fmt.Sprintf("kern: %s of %d, %d and %d elements", op, dst, x, w))
	}
}

// SwiGLU computes dst[i] = silu(g)·u, where gu holds g0, u0, g1, u1, … and
// silu(g) = g/(1+exp(-g)).
func SwiGLU(l Level, dst, gu []float32) {
	swiglu(l, dst, gu, 1, float32(math.Inf(1)), 0)
}

// SwiGLUClamped is SwiGLU as gpt-oss has it (models.md 1.2): g is limited from
// above, u to ±limit, dst[i] = g/(1+exp(-alpha·g))·(u+1).
func SwiGLUClamped(l Level, dst, gu []float32, alpha, limit float32) {
	swiglu(l, dst, gu, alpha, limit, 1)
}

// swiglu computes dst[i] = g/(1+exp(-alpha·g))·(u+plus) with g and u limited.
func swiglu(l Level, dst, gu []float32, alpha, limit, plus float32) {
	checkLen("swiglu", 2*len(dst), len(gu), len(gu))
	whole := l.whole(len(dst))
	if whole > 0 {
		swigluAsm(l, &dst[0], &gu[0], whole, alpha, limit, plus)
	}
	if l == Go || whole == len(dst) {
		swigluGo(dst[whole:], gu[2*whole:], alpha, limit, plus)
		return
	}
	var last [lanes]float32 // the tail must not be rounded differently
	var lastIn [2 * lanes]float32
	copy(lastIn[:], gu[2*whole:])
	swigluAsm(l, &last[0], &lastIn[0], lanes, alpha, limit, plus)
	copy(dst[whole:], last[:])
}

// swigluGo defines swiglu.
func swigluGo(dst, gu []float32, alpha, limit, plus float32) {
	for i := range dst {
		g, u := min(gu[2*i], limit), max(min(gu[2*i+1], limit), -limit)
		dst[i] = g / (1 + expGo(float32(-alpha*g))) * (u + plus)
	}
}

// Max returns the largest of x, at least one number. With a NaN among them it may be
// any of them.
func Max(l Level, x []float32) float32 {
	largest, whole := x[0], l.whole(len(x))
	if l > Go && whole > 0 {
		largest = largestAsm(l, &x[0], whole)
		x = x[whole:]
	}
	for _, v := range x {
		if v > largest {
			largest = v
		}
	}
	return largest
}

// ExpSum replaces x[i] by exp(x[i]-m) and returns the sum, in 16 lanes; the last
// len(x) mod 16 count as lanes of their own, summed last. No x[i] may exceed m by
// more than 88: softmax takes the maximum. Below -87 the result is 0.
func ExpSum(l Level, x []float32, m float32) float32 {
	whole := l.whole(len(x))
	if l == Go {
		return expSumGo(x, m)
	}
	var sum, rest float32
	if whole > 0 {
		sum = expSumAsm(l, &x[0], whole, m)
	}
	if whole < len(x) {
		var last [lanes]float32
		for i := copy(last[:], x[whole:]); i < lanes; i++ {
			last[i] = float32(math.Inf(-1))
		}
		rest = expSumAsm(l, &last[0], lanes, m)
		copy(x[whole:], last[:])
	}
	return sum + rest
}

// expSumGo defines ExpSum.
func expSumGo(x []float32, m float32) float32 {
	var acc, last [lanes]float32
	for i, v := range x {
		x[i] = expGo(v - m)
		if i < len(x)&^(lanes-1) {
			acc[i%lanes] += x[i]
		} else {
			last[i%lanes] = x[i]
		}
	}
	return reduce(&acc) + reduce(&last)
}

// The exponential function of all levels: exp(x) = 2^n·exp(r), n = round(x/ln 2),
// |r| <= ln 2/2 with ln 2 in two parts, and the series of degree 6. Relative error
// below 6e-7 for -87 <= x <= 88; 0 below, exp(88) above, NaN for NaN.
const (
	expMin, expMax = -87, 88
	log2e          = 1.44269504088896341
	ln2Hi, ln2Lo   = 0.693359375, -2.12194440e-4
	expC3, expC4   = 1.0 / 6, 1.0 / 24
	expC5, expC6   = 1.0 / 120, 1.0 / 720
)

// expGo is exp(x) as above.
func expGo(x float32) float32 {
	if x < expMin {
		return 0
	}
	if x > expMax {
		x = expMax
	}
	n := float32(math.RoundToEven(float64(float32(x * log2e))))
	r := fma(-n, ln2Hi, x)
	r = fma(-n, ln2Lo, r)
	p := float32(expC6)
	for _, c := range [...]float32{expC5, expC4, expC3, 0.5, 1, 1} {
		p = fma(p, r, c)
	}
	if x != x {
		return x
	}
	return math.Float32frombits(math.Float32bits(p) + uint32(int32(n))<<23)
}

// ToBF16 converts to bfloat16, to nearest, ties to even; a NaN stays one.
func ToBF16(l Level, dst []uint16, x []float32) {
	checkLen("toBF16", len(dst), len(x), len(x))
	whole := l.whole(len(x))
	if whole > 0 {
		toBF16Asm(l, &dst[0], &x[0], whole)
	}
	for i := whole; i < len(x); i++ {
		dst[i] = tensor.ToBF16(x[i])
	}
}

// ToE4M3 converts x to codes with one scale, a power of two that brings the largest
// magnitude to [128, 256): x[i] is about value(dst[i])/256·2^(scale-127), value being
// tensor.E4M3ToFloat. Rounding is to nearest, ties to even. What is below 2^-18
// of the largest becomes 0. If x has an element that is not finite, all codes are NaN.
func ToE4M3(l Level, dst []uint8, x []float32) (scale uint8) {
	checkLen("toE4M3", len(dst), len(x), len(x))
	whole := l.whole(len(x))
	var top uint32
	if whole > 0 {
		top = maxBitsAsm(l, &x[0], whole)
	}
	for _, v := range x[whole:] {
		top = max(top, math.Float32bits(v)&0x7fffffff)
	}
	if top >= 0x7f800000 {
		for i := range dst {
			dst[i] = 0x7f
		}
		return 255
	}
	// The scale is the biased exponent of twice the largest power of two in x, kept so that both
	// it and 256 over it are normal numbers.
	exponent := min(max(top>>23+1, 8), 254)
	factor := math.Float32frombits((262 - exponent) << 23) // 256·2^(127-e)
	if whole > 0 {
		toE4M3Asm(l, &dst[0], &x[0], whole, factor)
	}
	for i := whole; i < len(x); i++ {
		dst[i] = tensor.ToE4M3(x[i] * factor)
	}
	return uint8(exponent)
}

// Scale returns the factor of a vector of codes whose scale is s; see ToE4M3.
func Scale(s uint8) float32 { return math.Float32frombits(uint32(s) << 23) }
