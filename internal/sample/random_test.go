package sample

import (
	"math"
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
	if a, b := Draw(1, 1<<32), Draw(1<<32, 1); a == b || a == Draw(1, 0) {
		t.Errorf("upper halves of seed and step do not matter: %x, %x", a, b)
	}
}
