package sample

import "math"

// A weight is a probability relative to the most likely id's in units of 2^-39.
// One has 40 bits, so that it shares 64 with an id and the weights of a whole
// vocabulary add up in 64. An id below 2^-40 of the most likely one has weight 0
// and is never drawn.
const (
	idBits     = 24
	weightBits = 64 - idBits
	one        = 1 << (weightBits - 1)
)

// weight returns exp(x)·one, rounded, for x <= 0; 0 for NaN.
func weight(x float64) uint64 {
	if !(x > -28) {
		return 0
	}
	return uint64(int64(exp(x)*one + 0.5)) // int64: one instruction
}

// exp is e^x for -708 < x <= 0, 0 below and for NaN, within 1e-13 of the truth.
// math.Exp differs between processors.
func exp(x float64) float64 {
	if !(x > -708) {
		return 0
	}
	return exponential(x)
}

// exponential is exp between its bounds, small enough to become a part of the loops
// over a vocabulary. The conversions forbid the compiler to fuse multiplications with
// additions, which would do the same as another processor's math.Exp.
//
// With x = (k/64)·ln(2) + r and |r| <= ln(2)/128 it is 2^floor(k/64) times a table
// entry times the series of e^r up to r^5/5!.
func exponential(x float64) float64 {
	k := int(float64(x*(64*math.Log2E)) - 0.5) // x <= 0: truncation rounds to nearest
	r := x - float64(float64(k)*(math.Ln2/64))
	r2 := r * r
	poly := 0.5 + float64(r*(1.0/6)) + float64(r2*(1.0/24+float64(r*(1.0/120))))
	return float64((1+(r+float64(r2*poly)))*pow2[k&63]) * math.Float64frombits(uint64(1023+k>>6)<<52)
}

// Powers returns 2^(j/64) for j < 64: the table of exponential, for devices that compute weights.
func Powers() [64]float64 { return pow2 }

// pow2[j] is 2^(j/64), made of products of square roots because these are rounded
// the same everywhere.
var pow2 = func() (t [64]float64) {
	for j := range t {
		t[j] = 1
		root := 2.0
		for bit := 32; bit > 0; bit /= 2 {
			root = math.Sqrt(root)
			if j&bit != 0 {
				t[j] *= root
			}
		}
	}
	return t
}()
