package sample

import (
	"math"
	"math/rand/v2"
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
