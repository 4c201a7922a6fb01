package kern

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"ossian/internal/tensor"
)

// TestFine holds 15-bit activations to the product with the unquantised ones. A
// residual is at most half a quant of 1/127 of the block's largest value, and is
// itself cut into 127 quants: 1/(2·127·2·127) of the largest value remains.
func TestFine(t *testing.T) {
	p := NewPool(2)
	defer p.Close()
	const e, rows, out = 2, 37, 21
	for _, dt := range dtypes {
		rng := rand.New(rand.NewPCG(6, uint64(dt)))
		in := width(dt)
		w := randomTensor(rng, dt, e, out, in)
		x, bias := randomFloats(rng, rows*in), randomFloats(rng, e*out)
		byLevel := map[Level][]float32{}
		for _, l := range levels() {
			m := pack(t, w, Options{Level: l, Fine: true}, p)
			dst := make([]float32, rows*out)
			var a Acts
			a.Set(x, rows, in)
			m.Mul(p, dst, &a, bias, []Job{{E: 1}})
			byLevel[l] = dst
			row := make([]float32, in)
			for i := range out {
				m.Row(1, i, row)
				for r := range rows {
					xs := x[r*in:][:in]
					want, size := reference(row, xs, bias[out+i], false)
					limit := 1e-5*size + m.remains(row, xs)
					if got := float64(dst[r*out+i]); math.Abs(got-want) > limit {
						t.Fatalf("%v %s: row %d, element %d: got %v, want %v ± %v", l, name(dt), r, i, got, want, limit)
					}
				}
			}
		}
		for _, l := range levels()[1:] {
			if !slices.Equal(byLevel[exact()], byLevel[l]) {
				t.Errorf("%s: %v and %v differ", name(dt), exact(), l)
			}
		}
	}
}

// remains is the most that the last quants can move a product.
func (m *Matrix) remains(w, x []float32) (sum float64) {
	if !m.quantised() {
		return 0
	}
	for b := 0; b < len(x); b += 32 {
		top := 0.0
		for _, v := range x[b:min(b+32, len(x))] {
			top = max(top, math.Abs(float64(v)))
		}
		for k := b; k < min(b+32, len(x)); k++ {
			sum += math.Abs(float64(w[k])) * top / (4 * 127 * 127)
		}
	}
	return sum
}

func TestFineBatchInvariance(t *testing.T) {
	pools := []*Pool{NewPool(1), NewPool(3)}
	for _, p := range pools {
		defer p.Close()
	}
	for _, l := range levels() {
		for _, dt := range dtypes {
			t.Run(fmt.Sprintf("%v/%s", l, name(dt)), func(t *testing.T) {
				testInvariance(t, pools, dt, Options{Level: l, Fine: true})
			})
		}
	}
}

// TestFineShares changes between matrices of one family that want other forms of
// the same activations.
func TestFineShares(t *testing.T) {
	p := NewPool(1)
	defer p.Close()
	rng := rand.New(rand.NewPCG(7, 0))
	const out, in = 16, 64
	w := randomTensor(rng, tensor.Q8_0, 1, out, in)
	fine, coarse := pack(t, w, Options{Level: Detect(), Fine: true}, p), pack(t, w, Options{Level: Detect()}, p)
	x := randomFloats(rng, 3*in)
	var a, b Acts
	a.Set(x, 3, in)
	for range 2 {
		for _, m := range []*Matrix{fine, coarse} {
			got, want := make([]float32, 3*out), make([]float32, 3*out)
			m.Mul(p, got, &a, nil, []Job{{}})
			b.Set(x, 3, in)
			m.Mul(p, want, &b, nil, []Job{{}})
			if !slices.Equal(got, want) {
				t.Fatalf("fine=%v: the shared form gives %v, its own %v", m.opt.Fine, got, want)
			}
		}
	}
}
