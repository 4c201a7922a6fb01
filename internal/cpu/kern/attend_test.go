package kern

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"ossian/internal/tensor"
)

// TestAttendProducts: queries by packed keys and weights by packed values are the products of what
// they are rounded to, in the same bits on all levels of an order of sums, for one row and many, and
// where a token alone takes keys and values as they lie. Packed rows and results lie between guard
// pages.
func TestAttendProducts(t *testing.T) {
	for _, c := range []struct{ dim, keys, rows int }{{32, 32, 1}, {64, 96, 5}, {128, 256, 70}, {96, 64, 33}, {128, 64, 16}, {224, 32, 11}} {
		rng := rand.New(rand.NewPCG(uint64(c.dim), uint64(c.keys)))
		cached := make([]uint16, c.keys*c.dim)
		for i := range cached {
			cached[i] = tensor.ToBF16(float32(rng.NormFloat64()))
		}
		rows := make([]*uint16, c.keys+FetchRows)
		for i := range rows {
			rows[i] = &cached[i%c.keys*c.dim]
		}
		queries, weights := randomFloats(rng, c.rows*c.dim), randomFloats(rng, c.rows*c.keys)
		rounded := func(x []float32, i int) float64 { return float64(tensor.BF16ToFloat(tensor.ToBF16(x[i]))) }
		value := func(key, i int) float64 { return float64(tensor.BF16ToFloat(cached[key*c.dim+i])) }
		first := map[bool][2][]float32{} // by order
		bf16Levels(t, func(t *testing.T, l Level) {
			if l.neon() {
				t.Skip("has no such kernels")
			}
			t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
				packed := guarded[byte](t, 2*c.keys*c.dim, false)
				scratch := guarded[byte](t, RowsScratch(c.rows, max(c.dim, c.keys)), false)
				scores, sums := guarded[float32](t, c.rows*c.keys, false), guarded[float32](t, c.rows*c.dim, false)
				PackKeys(l, packed, rows, c.dim)
				MulRows(l, scores, c.keys, queries, c.dim, c.rows, c.dim, packed, c.keys/groupRows, scratch)
				alone := make([]float32, c.keys)
				MulRows(l, alone, c.keys, queries[(c.rows-1)*c.dim:], c.dim, 1, c.dim, packed, c.keys/groupRows, scratch)
				if !slices.Equal(alone, scores[(c.rows-1)*c.keys:]) {
					t.Error("a query alone has other scores than among others")
				}
				if !PackValues(l, packed, rows, c.dim) {
					t.Error("finite values are said not to be")
				}
				MulRows(l, sums, c.dim, weights, c.keys, c.rows, c.keys, packed, c.dim/groupRows, scratch)
				if first[chained][0] == nil {
					first[chained] = [2][]float32{slices.Clone(scores), slices.Clone(sums)}
				}
				if !slices.Equal(scores, first[chained][0]) || !slices.Equal(sums, first[chained][1]) {
					t.Errorf("other bits than %v", levels()[0])
				}
				if l.OneToken(c.rows) {
					testOneToken(t, l, c.dim, cached, rows, queries, weights, scores, sums)
				}
				for row := range c.rows {
					for key := range c.keys {
						want, size := 0.0, 0.0
						for i := range c.dim {
							product := rounded(queries, row*c.dim+i) * value(key, i)
							want, size = want+product, size+math.Abs(product)
						}
						if got := float64(scores[row*c.keys+key]); !(math.Abs(got-want) <= 1e-6*size) {
							t.Fatalf("query %d by key %d: %v, want %v", row, key, got, want)
						}
					}
					for i := range c.dim {
						want, size := 0.0, 0.0
						for key := range c.keys {
							product := rounded(weights, row*c.keys+key) * value(key, i)
							want, size = want+product, size+math.Abs(product)
						}
						if got := float64(sums[row*c.dim+i]); !(math.Abs(got-want) <= 1e-6*size) {
							t.Fatalf("weights %d by element %d of values: %v, want %v", row, i, got, want)
						}
					}
				}
			})
		})
	}
}

// testOneToken: of cached keys and values as they lie come the scores and sums of packed ones.
func testOneToken(t *testing.T, l Level, dim int, cached []uint16, rows []*uint16, queries, weights, scores, sums []float32) {
	keys, count := len(cached)/dim, len(queries)/dim
	groups := make([]*uint16, keys/groupRows+KeysGroups)
	for i := range groups {
		groups[i] = &cached[i*groupRows%keys*dim]
	}
	halves := make([]uint16, len(queries))
	ToBF16(l, halves, queries)
	most := count
	if l == AMX {
		most = groupRows
	}
	got := guarded[float32](t, most*keys, false)
	Keys(got, keys, PackQueries(l, make([]byte, 2*groupRows*dim), halves, count, dim), groups, dim)
	if !slices.Equal(got[:count*keys], scores) {
		t.Error("keys as they lie give other scores")
	}
	rounded := slices.Clone(weights)
	for h := range count {
		AsBF16(rounded[h*keys:][:keys])
	}
	acc := guarded[float32](t, count*dim, false)
	WeighRows(acc, count, dim, rounded, keys, rows)
	if !slices.Equal(acc, sums) {
		t.Error("values as they lie give other sums")
	}
}

// TestPackValuesFinite: one element that is not finite is found wherever it is.
func TestPackValuesFinite(t *testing.T) {
	const dim, keys = 64, 32
	for _, l := range levels() {
		for _, bad := range []uint16{0x7f80, 0xff80, 0x7fc0, 0xffff} {
			for at := range dim * keys {
				cached := make([]uint16, keys*dim)
				for i := range cached {
					cached[i] = 0x7f7f // the largest that is
				}
				cached[at] = bad
				rows := make([]*uint16, keys+FetchRows)
				for i := range rows {
					rows[i] = &cached[i%keys*dim]
				}
				if PackValues(l, make([]byte, 2*keys*dim), rows, dim) {
					t.Fatalf("%v: element %d of %#x is said to be finite", l, at, bad)
				}
			}
		}
	}
}

// TestAsBF16: rounding is that of tensor.ToBF16.
func TestAsBF16(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	if !AVX512.Available() {
		t.Skip("this processor has no AVX-512, which rounds here")
	}
	defer func(was bool) { chained = was }(chained)
	x := randomFloats(rng, 96)
	for _, chained = range []bool{false, true} {
		rounded := slices.Clone(x)
		AsBF16(rounded)
		for i, v := range x {
			got, want := rounded[i], tensor.ToBF16(v)
			if chained {
				got = tensor.BF16ToFloat(uint16(math.Float32bits(rounded[i/2]) >> (i % 2 * 16)))
			}
			if got != tensor.BF16ToFloat(want) {
				t.Errorf("chained %v: %v becomes %v, want %v", chained, v, got, tensor.BF16ToFloat(want))
			}
		}
	}
}

// TestMulGated: gated results are those of Mul, gated.
func TestMulGated(t *testing.T) {
	if !AMX.Available() {
		t.Skip("this processor, or the kernel, lends no AMX tiles")
	}
	p := NewPool(2)
	defer p.Close()
	rng := rand.New(rand.NewPCG(9, 9))
	for _, shape := range [][3]int{{17, 32, 1056}, {40, 50, 64}, {300, 272, 1024}} {
		rows, out, in := shape[0], shape[1], shape[2]
		m := pack(t, randomTensor(rng, tensor.BF16, 1, out, in), Options{Level: AMX, BF16: true}, p)
		if !m.Gated(rows) {
			t.Fatalf("%v is not gated", shape)
		}
		x, bias := randomFloats(rng, rows*in), randomFloats(rng, out)
		var a Acts
		a.Set(x, rows, in)
		all, want, got := make([]float32, rows*out), make([]float32, rows*out/2), make([]float32, rows*out/2)
		m.Mul(p, all, &a, bias, []Job{{}})
		for row := range rows {
			SwiGLU(AMX, want[row*out/2:][:out/2], all[row*out:][:out])
		}
		m.MulGated(p, got, &a, bias, []Job{{}}, func(dst, pairs []float32) { SwiGLU(AMX, dst, pairs) })
		if !slices.Equal(got, want) {
			t.Errorf("%v: other results than of Mul and SwiGLU", shape)
		}
	}
}
