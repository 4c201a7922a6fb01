package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"ossian/internal/cpu/kern"
	"ossian/internal/sample"
)

// Kernels weigh the ids of a vocabulary as package sample does, to the bit, and write
// nothing behind the room for them.
func TestWeighIDs(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	odd := []float32{float32(math.NaN()), float32(math.Inf(-1)), -math.MaxFloat32, 1e-42, 0, float32(math.Copysign(0, -1))}
	for _, l := range kern.Levels() {
		d := &Device{opt: kern.Options{Level: l}}
		for n := range 3000 {
			size, spread := r.IntN(200), math.Exp(r.Float64()*8-3)
			x := make([]float32, size)
			top := float32(r.NormFloat64() * 10)
			for i := range x {
				if x[i] = top - float32(math.Abs(r.NormFloat64())*spread); r.IntN(30) == 0 {
					x[i] = min(odd[r.IntN(len(odd))], top)
				}
			}
			w := sample.Weighing{Top: float64(top), Scale: math.Exp(r.NormFloat64()), First: r.IntN(1000), Least: 1}
			if size > 0 && r.IntN(2) == 0 {
				x[r.IntN(size)] = top
			}
			w.Bound = float32(w.Top - 28/w.Scale)
			if r.IntN(3) == 0 {
				w.Least = r.Uint64N(1 << 40)
			}
			want, got := make([]uint64, size), make([]uint64, size+8)
			for i := range 8 {
				got[size+i] = 0xdead
			}
			a, sum := sample.Weights(want, x, w)
			b, total := d.weighIDs(got[:size:size], x, w)
			if a != b || sum != total || !slices.Equal(want[:a], got[:b]) || slices.ContainsFunc(got[size:], func(k uint64) bool { return k != 0xdead }) {
				t.Fatalf("%v, case %d: %d ids of weight %d, want %d of %d\n%x\n%x", l, n, b, total, a, sum, got, want)
			}
		}
	}
}

func BenchmarkSample(b *testing.B) {
	r := rand.New(rand.NewPCG(4, 4))
	x := make([]float32, 201_088)
	for _, l := range kern.Levels() {
		for _, spread := range []float64{2, 30} {
			for i := range x {
				x[i] = float32(r.NormFloat64() * spread)
			}
			b.Run(fmt.Sprintf("%v/%g", l, spread), func(b *testing.B) {
				s := sample.Sampler{Weights: (&Device{opt: kern.Options{Level: l}}).weighIDs}
				p := &sample.Params{Temperature: 1}
				for n := range b.N {
					s.Pick(x, nil, p, nil, uint64(n))
				}
			})
		}
	}
}
