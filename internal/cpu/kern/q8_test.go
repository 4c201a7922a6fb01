package kern

import (
	"math"
	"math/rand/v2"
	"testing"

	"ossian/internal/tensor"
)

// TestPackFloats holds every weight to half a step of the quantiser, a step being the
// largest magnitude of the block over 127 as well as an f16 can say it.
func TestPackFloats(t *testing.T) {
	rng := rand.New(rand.NewPCG(10, 1))
	g := q8.group(make([]byte, q8.groupBytes(3)), 3)
	x, got := make([]float32, 96), make([]float32, 96)
	for _, size := range []float64{0, 1e-9, 3e-8, 1e-6, 2e-5, 1e-3, 1, 1e6} {
		for r := range groupRows {
			for i := range x {
				x[i] = float32(rng.NormFloat64() * size)
			}
			g.packFloats(r, x)
			g.floats(r, got)
			for b := range 3 {
				top := 0.0
				for _, v := range x[32*b:][:32] {
					top = max(top, math.Abs(float64(v)))
				}
				step, _, _ := g.factors(b, r)
				if float64(step) > top/127*1.001+0x1p-24 {
					t.Fatalf("size %v: a step of %v for a block up to %v", size, step, top)
				}
				for k := 32 * b; k < 32*b+32; k++ {
					if d := math.Abs(float64(got[k]) - float64(x[k])); d > 0.5001*float64(step) {
						t.Fatalf("size %v: %v became %v with a step of %v", size, x[k], got[k], step)
					}
				}
			}
		}
	}
	for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)), 1e8, -math.MaxFloat32} {
		clear(x)
		x[40] = bad
		g.packFloats(5, x)
		g.floats(5, got)
		for k, v := range got {
			if finite := v-v == 0; finite != (k/32 != 1) {
				t.Errorf("%v in block 1: element %d is %v", bad, k, v)
			}
		}
	}
}

// TestQ8Weights: products are those of the weights that Row shows, which are near those
// of the tensor; tiles and levels are Q8_0's.
func TestQ8Weights(t *testing.T) {
	p := NewPool(2)
	defer p.Close()
	const e, out, in, rows = 2, 21, 96, 5
	for _, dt := range []tensor.DType{tensor.F32, tensor.F16, tensor.BF16} {
		for _, exact := range []bool{false, true} {
			rng := rand.New(rand.NewPCG(10, uint64(dt)))
			w := randomTensor(rng, dt, e, out, in)
			o := Options{Level: Detect(), Q8: true, Exact: exact}
			m := pack(t, w, o, p)
			if m.Bytes() != PackedBytes(w, o) || m.fam != q8 {
				t.Fatalf("%s: %d bytes, %d planned, family %d", name(dt), m.Bytes(), PackedBytes(w, o), m.fam)
			}
			x, bias, dst := randomFloats(rng, rows*in), randomFloats(rng, e*out), make([]float32, rows*out)
			var a Acts
			a.Set(x, rows, in)
			m.Mul(p, dst, &a, bias, []Job{{E: 1}})
			kept, given := make([]float32, in), make([]float32, in)
			for i := range out {
				m.Row(1, i, kept)
				w.Row(out + i).Floats(given)
				for k := range kept {
					if math.Abs(float64(kept[k]-given[k])) > 5.0/127 { // no weight is larger than 10
						t.Fatalf("%s: row %d, element %d: %v became %v", name(dt), i, k, given[k], kept[k])
					}
				}
				for r := range rows {
					want, size := reference(kept, x[r*in:][:in], bias[out+i], !exact)
					if got := float64(dst[r*out+i]); math.Abs(got-want) > 1e-5*size {
						t.Fatalf("%s: row %d, element %d: got %v, want %v", name(dt), r, i, got, want)
					}
				}
			}
		}
		if _, err := Pack(randomTensor(rand.New(rand.NewPCG(1, 1)), dt, 1, 2, 83), Options{Q8: true}, p); err == nil {
			t.Errorf("%s: rows of 83 were packed in blocks of 32", name(dt))
		}
	}
}

// What was read of a large tensor is let go before all of it is packed.
func TestPackReleases(t *testing.T) {
	dropped := 0
	w := tensor.Tensor{Name: "w", DType: tensor.BF16, Shape: []int{3 * packedAtOnce / 2 / 2048, 1024}, Data: make([]byte, 3*packedAtOnce/2), Drop: func() { dropped++ }}
	p := NewPool(2)
	defer p.Close()
	m, err := Pack(&w, Options{Q8: true}, p)
	if err != nil {
		t.Fatal(err)
	}
	m.Close()
	if dropped != 2 {
		t.Errorf("pages were dropped %d times, want 2", dropped)
	}
}
