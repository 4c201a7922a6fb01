package kern

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"ossian/internal/tensor"
)

// levels are the implementations this machine has; TestLevels tells if one is missing.
func levels() (have []Level) {
	for l := Go; l <= AVX512; l++ {
		if l.Available() {
			have = append(have, l)
		}
	}
	return have
}

var dtypes = []tensor.DType{tensor.F32, tensor.F16, tensor.BF16, tensor.MXFP4, tensor.MXFP4HF, tensor.Q8_0,
	tensor.Q4_0, tensor.Q4_1, tensor.Q4_K, tensor.Q5_K, tensor.Q6_K}

func name(t tensor.DType) string {
	if t == tensor.MXFP4HF {
		return "MXFP4HF"
	}
	return t.String()
}

// randomTensor makes [e, out, in] weights of about unit size by encoding random floats.
func randomTensor(rng *rand.Rand, dt tensor.DType, e, out, in int) *tensor.Tensor {
	t := &tensor.Tensor{Name: name(dt), DType: dt, Shape: []int{e, out, in}}
	n := dt.RowBytes(in)
	t.Data = make([]byte, e*out*n)
	if dt == tensor.MXFP4HF {
		t.Scales = make([]byte, e*out*in/32)
	}
	row := make([]float32, in)
	for i := range e * out {
		for k := range row {
			row[k] = float32(rng.NormFloat64())
		}
		r := t.Row(i)
		tensor.Encode(dt, r.Data, r.Scales, row)
	}
	return t
}

func randomFloats(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// reference returns w·x + bias and Σ|terms| in float64, with the activations as
// a kernel sees them: quantised, or not.
func reference(w, x []float32, bias float32, quantised bool) (y, size float64) {
	for b := 0; b < len(x); b += 32 {
		xs, scale, top := x[b:min(b+32, len(x))], 1.0, 0.0
		for _, v := range xs {
			top = max(top, math.Abs(float64(v)))
		}
		if quantised && top > 1e-30 {
			scale = top / 127
		}
		for k, v := range xs {
			a := float64(v)
			if quantised {
				a = math.RoundToEven(float64(v * (127 / float32(max(top, 1e-30)))))
			}
			y += float64(w[b+k]) * a * scale
			size += math.Abs(float64(w[b+k]) * a * scale)
		}
	}
	return y + float64(bias), size + math.Abs(float64(bias))
}

func TestMul(t *testing.T) {
	p := NewPool(2)
	defer p.Close()
	for _, l := range levels() {
		for _, dt := range dtypes {
			for _, exact := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v/%s/exact=%v", l, name(dt), exact), func(t *testing.T) {
					testMul(t, p, dt, Options{Level: l, Exact: exact})
				})
			}
		}
	}
}

func testMul(t *testing.T, p *Pool, dt tensor.DType, o Options) {
	rng := rand.New(rand.NewPCG(1, uint64(dt)))
	const e, rows = 3, 37
	step, _ := dt.Block()
	for _, out := range []int{1, 15, 16, 17, 50} {
		in := 3 * step
		if step == 1 {
			in = 67
		}
		w := randomTensor(rng, dt, e, out, in)
		m, err := Pack(w, o, p)
		if err != nil {
			t.Fatal(err)
		}
		x, bias := randomFloats(rng, rows*in), randomFloats(rng, e*out)
		dst := make([]float32, rows*out)
		var a Acts
		a.Set(x, rows, in)
		m.Mul(p, dst, &a, bias, []Job{{E: 1}})
		wrow := make([]float32, in)
		for i := range out {
			m.Row(1, i, wrow)
			for r := range rows {
				want, size := reference(wrow, x[r*in:][:in], bias[out+i], m.quantised())
				if got := float64(dst[r*out+i]); math.Abs(got-want) > 1e-5*size {
					t.Fatalf("out %d: row %d, element %d: got %v, want %v ± %v", out, r, i, got, want, 1e-5*size)
				}
			}
		}
		m.Close()
	}
}

func TestRow(t *testing.T) {
	p := NewPool(1)
	defer p.Close()
	for _, dt := range dtypes {
		t.Run(name(dt), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(2, uint64(dt)))
			w := randomTensor(rng, dt, 2, 19, 512)
			m, err := Pack(w, Options{}, p)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			got, want := make([]float32, 512), make([]float32, 512)
			for i := range 2 * 19 {
				m.Row(i/19, i%19, got)
				w.Row(i).Floats(want)
				for k := range got {
					if got[k] != want[k] {
						t.Fatalf("row %d, element %d: got %v, want %v", i, k, got[k], want[k])
					}
				}
			}
		})
	}
}
