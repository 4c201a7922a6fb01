package kern

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/sys/cpu"

	"ossian/internal/tensor"
)

// bf16Levels are the levels with each order of sums that they have.
func bf16Levels(t *testing.T, f func(t *testing.T, l Level)) {
	defer func(was bool) { chained = was }(chained)
	for _, order := range []bool{false, true} {
		for _, l := range levels() {
			if order && (l == AMX || l.wide() && !cpu.X86.HasAVX512BF16) || !order && l.neon() {
				continue
			}
			chained = order
			t.Run(fmt.Sprintf("%v, chained %v", l, order), func(t *testing.T) { f(t, l) })
		}
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
					what := fmt.Sprintf("[%d, %d], chained %v", out, in, chained)
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

// TestBF16Bits: kernels give the bits of bf16Go for numbers of any size: subnormal ones, such as
// become so in products and sums, infinities and NaN. Everything lies between guard pages.
func TestBF16Bits(t *testing.T) {
	special := []uint16{0, 0x8000, 1, 0x807f, 0x0080, 0x8080, 0x0100, 0x1f80, 0x2000, 0x9fff, 0x203f, 0x3f80, 0xbf81, 0x5f80, 0x7f7f, 0xff7f}
	random := func(rng *rand.Rand, kind int) uint16 {
		switch {
		case kind == 0:
			return tensor.ToBF16(float32(rng.NormFloat64()))
		case kind == 1: // products around 2^-126
			return uint16(rng.IntN(1<<12)) + 63<<7 - 1<<11 - 63<<6 | uint16(rng.IntN(2))<<15
		case kind == 3 && rng.IntN(40) == 0:
			return []uint16{0x7f80, 0xff80, 0x7fc1}[rng.IntN(3)]
		}
		return special[rng.IntN(len(special))]
	}
	bf16Levels(t, func(t *testing.T, l Level) {
		rng := rand.New(rand.NewPCG(3, 3))
		for round := range 400 {
			nb, T, groups, kind, front := 1+rng.IntN(5), 1+rng.IntN(maxTileAMX), 1, round%4, rng.IntN(2) == 0
			switch {
			case l == AMX:
				groups = 1 + rng.IntN(5)
			case rng.IntN(4) > 0: // else one, as at the end of a task
				groups = l.bf16Together(l.bf16Rows(T), 1, 1+rng.IntN(2))
			}
			rows := T
			if l != AMX {
				rows = l.bf16Rows(T)
			}
			size := nb * layouts[bf16x16].quants
			w := guarded[byte](t, groups*size, front)
			for i := 0; i < len(w); i += 2 {
				binary.LittleEndian.PutUint16(w[i:], random(rng, kind))
			}
			tile, plain := guarded[byte](t, rows*nb*l.BF16Bytes(bf16Block), front), make([]byte, rows*nb*4*bf16Block)
			for row := range rows {
				x := make([]float32, nb*bf16Block)
				for i := range x {
					x[i] = tensor.BF16ToFloat(random(rng, kind))
				}
				l.roundBF16(tile, rows, row, x)
				Go.roundBF16(plain, rows, row, x)
			}
			width := groups * groupRows
			got, want := guarded[float32](t, rows*width, front), make([]float32, rows*groupRows)
			if l == AMX {
				product := tileProduct{w: w, a: tile, nb: nb, rows: rows, groups: groups, size: size, tiles: 1, y: got, ldy: width}
				product.run()
			} else {
				l.bf16Tile(w, size, groups, rng.IntN(8192), rng.IntN(64), tile, nb, rows, got)
			}
			for g := range groups {
				bf16Go(w[g*size:], plain, nb, rows, want)
				for i, v := range want {
					at := i/groupRows*width + g*groupRows + i%groupRows
					if math.Float32bits(got[at]) != math.Float32bits(v) && !(got[at] != got[at] && v != v) {
						t.Fatalf("kind %d, %d blocks, %d rows, group %d of %d: element %d is %x, want %x", kind, nb, rows, g, groups, i, got[at], v)
					}
				}
			}
		}
	})
}

// TestBF16Rounding: levels round rows of a tile to the same values, whatever the floats are.
func TestBF16Rounding(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	for _, l := range levels() {
		for nb := 1; nb < 40; nb++ {
			T, x := 1+rng.IntN(12), make([]float32, nb*bf16Block)
			for i := range x {
				x[i] = math.Float32frombits(rng.Uint32())
			}
			row, tile := rng.IntN(T), guarded[byte](t, T*nb*l.BF16Bytes(bf16Block), nb%2 == 0)
			l.roundBF16(tile, T, row, x)
			for i, v := range x {
				at, want := (i/bf16Block*T+row)*bf16Block+i%bf16Block, tensor.ToBF16(v)
				got := uint16(0)
				if l.pairs() {
					got = binary.LittleEndian.Uint16(tile[2*at:])
				} else {
					got = uint16(binary.LittleEndian.Uint32(tile[4*at:]) >> 16)
				}
				if got != want {
					t.Fatalf("%v: %x of %d blocks, row %d of %d, is rounded to %x, want %x", l, math.Float32bits(v), nb, row, T, got, want)
				}
			}
		}
	}
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
		m.Use(l, l.Fetches()[0])
		got := make([]float32, rows*out)
		m.Mul(p, got, &a, nil, []Job{{}})
		if !slices.Equal(got, want) {
			t.Errorf("%v with activations that another level has rounded: other results", l)
		}
	}
	testMul(t, p, tensor.BF16, Options{Level: Detect(), BF16: true}) // 83 wide
}
