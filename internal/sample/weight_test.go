package sample

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestExp(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	worst := 0.0
	for i := range 200_000 {
		x := -rng.Float64() * []float64{1e-9, 1, 30, 707}[i%4]
		worst = max(worst, math.Abs(exp(x)/math.Exp(x)-1))
	}
	if worst > 1e-13 {
		t.Errorf("relative error %v, want at most 1e-13", worst)
	}
	for x, want := range map[float64]float64{0: 1, math.Inf(-1): 0, -710: 0, math.NaN(): 0} {
		if got := exp(x); got != want {
			t.Errorf("exp(%v) = %v, want %v", x, got, want)
		}
	}
}

func TestWeight(t *testing.T) {
	for x, want := range map[float64]uint64{0: one, -math.Ln2: one / 2, -27.7: 1, -27.8: 0, math.Inf(-1): 0, math.NaN(): 0} {
		if got := weight(x); got != want {
			t.Errorf("weight(%v) = %d, want %d", x, got, want)
		}
	}
}

// TestWeigh holds the loop over the vocabulary to key, id by id, and its sum to the keys.
func TestWeigh(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for round := range 200 {
		x := make([]float32, 500)
		for i := range x {
			x[i] = float32(rng.NormFloat64() * []float64{0.1, 3, 20, 1e30}[round%4])
		}
		for _, l := range [][]float32{{nan, -inf, 0, float32(math.Copysign(0, -1)), math.MaxFloat32, -math.MaxFloat32}, {inf, inf, nan}, {nan, -inf}}[round%3] {
			if round%5 > 0 {
				x[rng.IntN(len(x))] = l
			}
		}
		at := argmax(x)
		p := &Params{Temperature: []float32{math.SmallestNonzeroFloat32, 0.01, 0.7, 1, 2}[round%5], MinP: []float32{0, 0, 1e-6, 0.1, 1}[round/5%5]}
		least := uint64(1)
		if p.MinP > 0 {
			least = uint64(math.Ceil(float64(p.MinP) * one))
		}
		var want []uint64
		sum := uint64(0)
		for id, l := range x {
			if k := key(l, x[at], 1/float64(p.Temperature), int32(id)); k>>idBits >= least {
				want, sum = append(want, k), sum+k>>idBits
			}
		}
		var s Sampler
		if total := s.weigh(x, x[at], p); !slices.Equal(s.keys, want) || total != sum || len(want) == 0 {
			t.Fatalf("round %d, temperature %v, min-p %v: %d ids that weigh %d, want %d and %d", round, p.Temperature, p.MinP, len(s.keys), total, len(want), sum)
		}
	}
}
