package kern

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"ossian/internal/tensor"
)

// bf16Levels are the levels, the best of them also without the machine's own instruction.
func bf16Levels(t *testing.T, f func(t *testing.T, l Level)) {
	for _, l := range levels() {
		t.Run(l.String(), func(t *testing.T) { f(t, l) })
	}
	if best := Detect(); best.pairs() {
		nativeBF16 = false
		defer func() { nativeBF16 = true }()
		t.Run(best.String()+" without pairs", func(t *testing.T) { f(t, best) })
	}
}

// TestBF16Activations: products with rounded activations are those of the rounded values,
// in every bit the same on all levels. Weights end, and begin, at pages that may not be
// touched.
func TestBF16Activations(t *testing.T) {
	p := NewPool(2)
	defer p.Close()
	const rows = 23
	first := map[string][]float32{}
	bf16Levels(t, func(t *testing.T, l Level) {
		for _, in := range []int{32, 96, 1056} {
			for _, out := range []int{1, 4, 17, 150} {
				for _, front := range []bool{false, true} {
					rng := rand.New(rand.NewPCG(uint64(in), uint64(out)))
					w := randomTensor(rng, tensor.BF16, 1, out, in)
					data := guarded[byte](t, len(w.Data), front)
					copy(data, w.Data)
					w.Data = data
					x, bias := randomFloats(rng, rows*in), randomFloats(rng, out)
					for i := range x {
						x[i] *= float32(math.Pow(10, float64(i/32%9-4)))
					}
					m := pack(t, w, Options{Level: l, BF16: true}, p)
					got := make([]float32, rows*out)
					var a Acts
					a.Set(x, rows, in)
					m.Mul(p, got, &a, bias, []Job{{}})
					a.Set(x, 1, in)
					alone := make([]float32, out)
					m.Mul(p, alone, &a, bias, []Job{{}})
					if !slices.Equal(alone, got[:out]) {
						t.Fatalf("[%d, %d], front %v: one row alone is %v, among others %v", out, in, front, alone, got[:out])
					}
					what := fmt.Sprintf("[%d, %d]", out, in)
					if first[what] == nil {
						first[what] = slices.Clone(got)
					}
					row := make([]float32, in)
					for i, v := range got {
						m.Row(0, i%out, row)
						rounded := slices.Clone(x[i/out*in:][:in])
						for k := range rounded {
							rounded[k] = tensor.BF16ToFloat(tensor.ToBF16(rounded[k]))
						}
						want, size := reference(row, rounded, bias[i%out], false)
						if math.Abs(float64(v)-want) > 1e-6*size {
							t.Fatalf("%s, front %v: element %d is %v, want %v ± %v", what, front, i, v, want, 1e-6*size)
						}
						if f := first[what][i]; math.Float32bits(v) != math.Float32bits(f) {
							t.Fatalf("%s, front %v: element %d is %x, %v gives %x", what, front, i, v, levels()[0], f)
						}
					}
				}
			}
		}
	})
}

func TestBF16Invariance(t *testing.T) {
	pools := []*Pool{NewPool(1), NewPool(3)}
	for _, p := range pools {
		defer p.Close()
	}
	bf16Levels(t, func(t *testing.T, l Level) { testInvariance(t, pools, tensor.BF16, Options{Level: l, BF16: true}) })
}

// TestBF16Changes: the form of the activations follows the level, and rows that are not
// whole blocks are multiplied as float32.
func TestBF16Changes(t *testing.T) {
	p := NewPool(1)
	defer p.Close()
	rng := rand.New(rand.NewPCG(8, 8))
	const rows, out, in = 5, 20, 64
	x, want := randomFloats(rng, rows*in), make([]float32, rows*out)
	m := pack(t, randomTensor(rng, tensor.BF16, 1, out, in), Options{BF16: true}, p)
	var a Acts
	a.Set(x, rows, in)
	m.Mul(p, want, &a, nil, []Job{{}})
	for _, l := range levels() {
		m.Use(l)
		got := make([]float32, rows*out)
		m.Mul(p, got, &a, nil, []Job{{}})
		if !slices.Equal(got, want) {
			t.Errorf("%v with activations that another level has rounded: other results", l)
		}
	}
	testMul(t, p, tensor.BF16, Options{Level: Detect(), BF16: true}) // 83 wide
}
