package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"ossian/internal/cuda/driver"
	"ossian/internal/model"
	"ossian/internal/tensor"
)

// normal returns n values of standard deviation sd.
func normal(rng *rand.Rand, n int, sd float64) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64() * sd)
	}
	return x
}

// uploadRows lays rows of a width at their stride; the tails are never written.
func (r *rig) uploadRows(x []float32, width int) driver.Ptr {
	r.t.Helper()
	stride := rowStride(width)
	at := r.alloc(len(x) / width * stride * 4)
	for i := 0; i < len(x)/width; i++ {
		r.must(r.drv.CopyToDevice(at+driver.Ptr(i*stride*4), floatBytes(x[i*width:][:width])))
	}
	return at
}

// floatBytes are the bytes of x as the device has them.
func floatBytes(x []float32) []byte {
	var data []byte
	for _, v := range x {
		bits := math.Float32bits(v)
		data = append(data, byte(bits), byte(bits>>8), byte(bits>>16), byte(bits>>24))
	}
	return data
}

// floatRows reads rows of a width back without their tails.
func (r *rig) floatRows(at driver.Ptr, rows, width int) (x []float32) {
	r.t.Helper()
	for i := range rows {
		x = append(x, download[float32](r, at+driver.Ptr(i*rowStride(width)*4), width)...)
	}
	return x
}

// halfRows reads bf16 rows back, and fails where a tail is not zero.
func (r *rig) halfRows(at driver.Ptr, rows, width int) (x []float32) {
	r.t.Helper()
	stride := rowStride(width)
	all := download[uint16](r, at, rows*stride)
	for i, v := range all {
		if i%stride < width {
			x = append(x, tensor.BF16ToFloat(v))
		} else if v != 0 {
			r.t.Fatalf("row %d: element %d behind width %d is %#04x, want 0", i/stride, i%stride, width, v)
		}
	}
	return x
}

// within fails unless got is within share of the size of want plus rest, or both are no numbers.
func within(t *testing.T, what string, got []float32, want []float64, share, rest float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	for i, v := range got {
		if math.IsNaN(float64(v)) && math.IsNaN(want[i]) {
			continue
		}
		if tol := share*math.Abs(want[i]) + rest; !(math.Abs(float64(v)-want[i]) <= tol) {
			t.Fatalf("%s: value %d is %v, want %v ± %.2g", what, i, v, want[i], tol)
		}
	}
}

// halfError is how far a rounding to bf16 may be off, relatively, and a little for what came before.
const halfError = 1.0/256 + 1e-5

// TestNarrow holds roundings of any finite number to tensor's, ties included.
func TestNarrow(t *testing.T) {
	r, rng := newRig(t), rand.New(rand.NewPCG(1, 1))
	for _, width := range []int{1, 63, 64, 200} {
		x := make([]float32, 3*width)
		for i := range x {
			x[i] = math.Float32frombits(rng.Uint32() &^ 0x4000_0000)
		}
		x[0], x[width] = math.Float32frombits(0x3f80_8000), math.Float32frombits(0xbf81_8000) // ties, below and above even
		dst := r.alloc(3 * rowStride(width) * 2)
		r.q.narrow(dst, r.uploadRows(x, width), width, 3)
		for i, got := range r.halfRows(dst, 3, width) {
			if want := half(x[i]); got != want {
				t.Fatalf("width %d: value %d, %v, is %v, want %v", width, i, x[i], got, want)
			}
		}
	}
}

// normOf is models.md 1.2.
func normOf(x []float64, weight []float32, eps float64) []float64 {
	sum, y := 0.0, make([]float64, len(x))
	for _, v := range x {
		sum += v * v
	}
	for i, v := range x {
		y[i] = float64(weight[i]) * v / math.Sqrt(sum/float64(len(x))+eps)
	}
	return y
}

// TestAddNorm holds norms of every kind of width to float64: below a group of four, across the ends of
// a step of a block and of what threads keep; a row that is no number keeps to itself.
func TestAddNorm(t *testing.T) {
	const rows, eps = 3, 1e-5
	r, rng := newRig(t), rand.New(rand.NewPCG(1, 2))
	for _, width := range []int{1, 2, 7, 96, 577, 1023, 1024, 1026, 2880, 8192, 8195, 9300} {
		for _, add := range []bool{false, true} {
			sum, delta, weight := normal(rng, rows*width, 3), normal(rng, rows*width, 1), normal(rng, width, 1)
			sum[width+width/2] = float32(math.NaN())
			deltaAt := driver.Ptr(0)
			if add {
				deltaAt = r.uploadRows(delta, width)
			}
			sumAt, dst := r.uploadRows(sum, width), r.alloc(rows*rowStride(width)*2)
			r.q.addNorm(dst, sumAt, deltaAt, upload(r, weight), width, rows, eps)
			var want, wantSum []float64
			for i := range rows {
				row := make([]float64, width)
				for k := range row {
					row[k] = float64(sum[i*width+k])
					if add {
						row[k] = float64(sum[i*width+k] + delta[i*width+k])
					}
				}
				wantSum, want = append(wantSum, row...), append(want, normOf(row, weight, eps)...)
			}
			what := fmt.Sprintf("width %d, add %v", width, add)
			within(t, what+": sum", r.floatRows(sumAt, rows, width), wantSum, 0, 0)
			within(t, what, r.halfRows(dst, rows, width), want, halfError, 0)
		}
	}
}

// TestAddNormEach looks at the sum of squares by rows that have one element each that is not zero: in
// a sum of thousands one that is missing would not show.
func TestAddNormEach(t *testing.T) {
	const width, rows = 13333, 64
	r := newRig(t)
	x, weight := make([]float32, rows*width), make([]float32, width)
	for i := range weight {
		weight[i] = 1
	}
	at := func(row int) int { return (row*2741 + row*row) % width }
	for row := range rows {
		x[row*width+at(row)] = float32(row + 1)
	}
	for _, add := range []bool{false, true} {
		dst, sum, delta := r.alloc(rows*rowStride(width)*2), r.uploadRows(x, width), driver.Ptr(0)
		if add {
			delta = r.uploadRows(x, width)
		}
		r.q.addNorm(dst, sum, delta, upload(r, weight), width, rows, 0)
		got := r.halfRows(dst, rows, width)
		for row := range rows {
			want := make([]float64, width)
			want[at(row)] = math.Sqrt(width)
			within(t, fmt.Sprintf("row %d, add %v", row, add), got[row*width:][:width], want, halfError, 0)
		}
	}
}

// TestAddNormBatch checks that the bits of a row do not depend on others.
func TestAddNormBatch(t *testing.T) {
	const width, rows = 2880, 5
	r, rng := newRig(t), rand.New(rand.NewPCG(1, 3))
	x, weight := normal(rng, rows*width, 1), upload(r, normal(rng, width, 1))
	all := r.alloc(rows * rowStride(width) * 2)
	r.q.addNorm(all, r.uploadRows(x, width), 0, weight, width, rows, 1e-6)
	want := r.halfRows(all, rows, width)
	for i := range rows {
		one := r.alloc(rowStride(width) * 2)
		r.q.addNorm(one, r.uploadRows(x[i*width:][:width], width), 0, weight, width, 1, 1e-6)
		within(t, fmt.Sprint("row ", i), r.halfRows(one, 1, width), wide(want[i*width:][:width]), 0, 0)
	}
}

// wide converts to float64.
func wide(x []float32) []float64 {
	y := make([]float64, len(x))
	for i, v := range x {
		y[i] = float64(v)
	}
	return y
}

func TestSelectRows(t *testing.T) {
	r, rng := newRig(t), rand.New(rand.NewPCG(1, 4))
	for _, width := range []int{1, 96, 2880} {
		x := normal(rng, 4*width, 1)
		for i, v := range x {
			x[i] = tensor.BF16ToFloat(tensor.ToBF16(v))
		}
		src, dst := r.alloc(4*rowStride(width)*2), r.alloc(3*rowStride(width)*2)
		r.q.narrow(src, r.uploadRows(x, width), width, 4)
		index := []int32{2, 0, 2}
		r.q.selectRows(dst, src, upload(r, index), width, 3)
		got := r.halfRows(dst, 3, width)
		for i, from := range index {
			within(t, fmt.Sprintf("width %d, row %d", width, i), got[i*width:][:width], wide(x[int(from)*width:][:width]), 0, 0)
		}
	}
}

// TestGLU holds both activations to float64, with gates far from zero and some that are no numbers.
func TestGLU(t *testing.T) {
	const rows = 3
	r, rng := newRig(t), rand.New(rand.NewPCG(1, 5))
	for _, kind := range []model.Activation{model.SiLU, model.SwiGLU} {
		for _, width := range []int{1, 15, 64, 577} {
			x := normal(rng, rows*2*width, 3)
			x[0], x[1] = -80, 5 // e^80 inside
			if width > 2 {
				copy(x[2:], []float32{1e4, -1e4, -1e4, 1e4})
				copy(x[6:], []float32{-1e30, 1e30, 1e30, 3})
				x[4*width], x[4*width+3] = float32(math.NaN()), float32(math.NaN())
			}
			var want []float64
			for i := 0; i < len(x); i += 2 {
				gate, up, shift, alpha := float64(x[i]), float64(x[i+1]), 0.0, 1.0
				if kind == model.SwiGLU {
					gate, up = math.Min(gate, model.SwiGLULimit), math.Max(math.Min(up, model.SwiGLULimit), -model.SwiGLULimit)
					shift, alpha = 1, model.SwiGLUAlpha
				}
				want = append(want, gate/(1+math.Exp(-alpha*gate))*(up+shift))
			}
			dst := r.alloc(rows * rowStride(width) * 2)
			r.q.glu(dst, r.uploadRows(x, 2*width), width, rows, kind)
			within(t, fmt.Sprintf("activation %d, width %d", kind, width), r.halfRows(dst, rows, width), want, halfError, 1e-30)
		}
	}
}

// TestRotate holds rotation with and without a norm to float64, for every kind of head.
func TestRotate(t *testing.T) {
	const tokens, eps = 3, 1e-5
	r, rng := newRig(t), rand.New(rand.NewPCG(1, 6))
	for _, h := range []headShape{{heads: 4, kvHeads: 2, dim: 2}, {heads: 3, kvHeads: 3, dim: 6}, {heads: 7, kvHeads: 1, dim: 40},
		{heads: 8, kvHeads: 1, dim: 64}, {heads: 2, kvHeads: 1, dim: 128}, {heads: 1, kvHeads: 1, dim: 256}} {
		for _, norm := range []bool{false, true} {
			turn := make([]float32, 0, tokens*h.dim)
			for range tokens {
				var cos, sin []float32
				for range h.dim / 2 {
					s, c := math.Sincos(rng.Float64() * 100)
					cos, sin = append(cos, float32(1.3*c)), append(sin, float32(1.3*s))
				}
				turn = append(append(turn, cos...), sin...)
			}
			q, k := normal(rng, tokens*h.heads*h.dim, 1), normal(rng, tokens*h.kvHeads*h.dim, 1)
			qAt, kAt := r.uploadRows(q, h.heads*h.dim), r.uploadRows(k, h.kvHeads*h.dim)
			qw, kw := normal(rng, h.dim, 1), normal(rng, h.dim, 1)
			qNorm, kNorm := driver.Ptr(0), driver.Ptr(0)
			if norm {
				qNorm, kNorm = upload(r, qw), upload(r, kw)
			} else {
				qw, kw = nil, nil
			}
			r.q.rotate(rotation{queries: floatRows{qAt, rowStride(h.heads * h.dim)}, keys: floatRows{kAt, rowStride(h.kvHeads * h.dim)}, qNorm: qNorm, kNorm: kNorm, eps: eps},
				&h, &stepArrays{turn: upload(r, turn), count: tokens})
			what := fmt.Sprintf("dim %d, norm %v", h.dim, norm)
			turned(t, what+": q", r.floatRows(qAt, tokens, h.heads*h.dim), q, qw, turn, h.dim, h.heads, eps)
			turned(t, what+": k", r.floatRows(kAt, tokens, h.kvHeads*h.dim), k, kw, turn, h.dim, h.kvHeads, eps)
		}
	}
}

// turned holds heads to their rotation in float64.
func turned(t *testing.T, what string, got, x, norm, turn []float32, dim, heads int, eps float64) {
	t.Helper()
	half := dim / 2
	for i := range len(x) / dim {
		head, angles := wide(x[i*dim:][:dim]), turn[i/heads*dim:][:dim]
		if norm != nil {
			head = normOf(head, norm, eps)
		}
		for pair := range half {
			cos, sin := float64(angles[pair]), float64(angles[pair+half])
			low, high := head[pair]*cos-head[pair+half]*sin, head[pair+half]*cos+head[pair]*sin
			tol := 2e-6 * (math.Abs(head[pair]) + math.Abs(head[pair+half]))
			within(t, what, got[i*dim+pair:][:1], []float64{low}, 0, tol)
			within(t, what, got[i*dim+pair+half:][:1], []float64{high}, 0, tol)
		}
	}
}
