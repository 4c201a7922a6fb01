package main

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestDecode: encodings as an assembler wrote them and GNU objdump 2.44 reads them.
func TestDecode(t *testing.T) {
	const rax, rcx, rdi, rsi, r8, r9, r10, r12, r13 = 0, 1, 7, 6, 8, 9, 10, 12, 13
	for code, want := range map[string]instruction{
		"c4e278490f":           {op: configure, length: 5, base: rdi, index: -1},
		"c4e27849442000":       {op: configure, length: 7, base: rax, index: -1},
		"c4c2784904cc":         {op: configure, length: 6, base: r12, index: rcx, scale: 3},
		"c4e27849c0":           {op: release, length: 5, index: -1},
		"c4e27b49d8":           {op: zero, length: 5, tile: 3, index: -1},
		"c4827a4b4c0840":       {op: store, length: 7, tile: 1, base: r8, index: r9, displacement: 64},
		"c4a27b4b541700":       {op: load, length: 7, tile: 2, base: rdi, index: r10},
		"c4c27b4b740d00":       {op: load, length: 7, tile: 6, base: r13, index: rcx},
		"c4c2794bac0a00040000": {op: load, length: 10, tile: 5, base: r10, index: rcx, displacement: 1024},
		"c4e27b4b6c37c0":       {op: load, length: 7, tile: 5, base: rdi, index: rsi, displacement: -64},
		"c4e2425cdd":           {op: pairs, length: 5, tile: 3, left: 5, right: 7, index: -1},
	} {
		bytes, err := hex.DecodeString(code)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decode(append(bytes, make([]byte, 11)...))
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", code, got, err, want)
		}
	}
	for _, code := range []string{
		"c4e2435ecd",   // TDPBSSD: int8
		"c4e2425dcc",   // none
		"c4e3424bcc",   // another map
		"c4e27b4b0500", // relative to the instruction
		"0f0b", "",
	} {
		bytes, err := hex.DecodeString(code)
		if err != nil {
			t.Fatal(err)
		}
		if in, err := decode(append(bytes, make([]byte, 11)...)); err == nil {
			t.Errorf("%q is read as %+v", code, in)
		}
	}
}

// TestMultiplyAdd holds the sum to one that is rounded once, from exact numbers, where product and z
// are alike and where one is up to 2^60 times the other.
func TestMultiplyAdd(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	random := func(bits, exponent int) float32 { // of so many bits
		mantissa := 1<<(bits-1) | rng.IntN(1<<(bits-1))
		if rng.IntN(4) == 0 { // few of them are set
			mantissa = 1<<(bits-1) | rng.IntN(2)
		}
		return float32(math.Copysign(math.Ldexp(float64(mantissa), exponent-bits+1), rng.Float64()-0.5))
	}
	exactly := func(v float32) *big.Float { return new(big.Float).SetPrec(300).SetFloat64(float64(v)) }
	for range 200_000 {
		x, y, z := random(8, rng.IntN(30)), random(8, rng.IntN(30)), random(24, rng.IntN(60))
		want, _ := exactly(z).Add(exactly(z), new(big.Float).SetPrec(300).Mul(exactly(x), exactly(y))).Float32()
		if got := multiplyAdd(x, y, z); got != want {
			t.Fatalf("%g·%g + %g = %g, want %g", x, y, z, got, want)
		}
	}
}

// TestMultiply: a product by hand, of 2 × 4 and 4 × 2, with sums that begin with numbers, and what
// counts as 0.
func TestMultiply(t *testing.T) {
	var all tiles
	config := [64]byte{0: 1, 16: 8, 18: 8, 20: 8, 48: 2, 49: 2, 50: 2}
	if err := all.configure(&config); err != nil {
		t.Fatal(err)
	}
	bf16 := func(values ...float32) (bytes []byte) {
		for _, v := range values {
			bytes = binary.LittleEndian.AppendUint16(bytes, uint16(math.Float32bits(v)>>16))
		}
		return bytes
	}
	copy(all[1].data[0][:], bf16(1, 2, 3, 4))
	copy(all[1].data[1][:], bf16(0, 0x1p-130, 0, 1))
	copy(all[2].data[0][:], bf16(1, 10, 100, 1000)) // rows 0 and 1 of the matrix: 1 100, 10 1000
	copy(all[2].data[1][:], bf16(2, 20, 200, 2000)) // rows 2 and 3
	for m, row := range [][]float32{{0.5, -1}, {1e-40, 0}} {
		for n, v := range row {
			binary.LittleEndian.PutUint32(all[0].data[m][4*n:], math.Float32bits(v))
		}
	}
	if err := all.multiply(0, 1, 2); err != nil {
		t.Fatal(err)
	}
	for m, row := range [][]float32{{1 + 20 + 6 + 80 + 0.5, 100 + 2000 + 600 + 8000 - 1}, {20, 2000}} {
		for n, want := range row {
			if got := math.Float32frombits(binary.LittleEndian.Uint32(all[0].data[m][4*n:])); got != want {
				t.Errorf("[%d, %d]: %g, want %g", m, n, got, want)
			}
		}
	}
	if err := all.multiply(0, 1, 5); err == nil || !strings.Contains(err.Error(), "tile 5 is not configured") {
		t.Errorf("a tile that is not configured: %v", err)
	}
	if err := all.multiply(0, 1, 1); err == nil || !strings.Contains(err.Error(), "named twice") {
		t.Errorf("one tile as both factors: %v", err)
	}
	config[50] = 3
	if err := all.configure(&config); err != nil {
		t.Fatal(err)
	}
	if err := all.multiply(0, 1, 2); err == nil || !strings.Contains(err.Error(), "do not fit") {
		t.Errorf("factors that do not fit: %v", err)
	}
	config[16] = 65
	if err := all.configure(&config); err == nil {
		t.Error("65 bytes in a row are taken")
	}
}
