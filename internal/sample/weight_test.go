package sample

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Known answers of philox4x32-10: Random123's kat_vectors.
func TestPhilox(t *testing.T) {
	const all = math.MaxUint32
	tests := []struct {
		name    string
		c, want [4]uint32
		k       [2]uint32
	}{
		{"zeros", [4]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}, [2]uint32{}},
		{"ones", [4]uint32{all, all, all, all}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}, [2]uint32{all, all}},
		{"digits of pi", [4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, [4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1},
			[2]uint32{0xa4093822, 0x299f31d0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := philox(tt.c, tt.k); got != tt.want {
				t.Errorf("got %08x, want %08x", got, tt.want)
			}
		})
	}
	if a, b := draw(1, 1<<32), draw(1<<32, 1); a == b || a == draw(1, 0) {
		t.Errorf("upper halves of seed and step do not matter: %x, %x", a, b)
	}
}

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
