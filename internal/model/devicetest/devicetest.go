// Package devicetest is the suite that every model.Device passes: each operation
// against a float64 loop written from models.md, and the promise that results do
// not depend on batches, chunks or blocks. A device under test adds two methods
// to reach its buffers; nothing else of it is known here.
package devicetest

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"ossian/internal/model"
	"ossian/internal/runner"
	"ossian/internal/sample"
	"ossian/internal/tensor"
)

// A Device is a model.Device whose buffers a test can reach.
type Device interface {
	model.Device
	Write(b model.Buf, x []float32) // makes x, whole rows, the content of b
	Read(b model.Buf) []float32     // copies the rows that the last operation wrote
}

// A Subject is a device under test.
type Subject struct {
	Open func(t *testing.T, s *model.Spec, l model.Limits) Device // closed by the suite
	// Twins open devices that must give the same bits, such as ones with more threads.
	Twins []func(t *testing.T, s *model.Spec, l model.Limits) Device
	// Models are small whole models, of every family; modeltest makes some.
	Models []Model
	Int8   bool // quantised matrices multiply with int8 activations
	// Acts is the type of what products and attention read: Invalid or F32, or BF16. With BF16 norms,
	// activations, attention and selected rows are rounded to it, and so are the inputs of
	// operations that read such rows; products, residuals and what routes stay float32.
	Acts tensor.DType
	// Rounds lists the types that Upload rounds to BF16 in matrices and tables.
	Rounds []tensor.DType
	// Lacks lists the types that Upload refuses for matrices and tables, with an error that names
	// the type and the device.
	Lacks []tensor.DType
	// KV is the type of cached keys and values. With F8_E4M3 each vector of a head has
	// a scale, the power of two that brings its largest magnitude to [128, 256).
	KV tensor.DType
	// Half, 1 or 2, is which half of the cases of attention is run, each with all shapes and windows:
	// for devices of which others with the same structure run the rest. 0 runs all.
	Half int
}

// A Model is a Spec with its parameters.
type Model struct {
	Spec   *model.Spec
	Params map[string]tensor.Tensor
}

// Run runs the suite. Tolerances, relative to the sum of the absolute terms of
// a result where there is one: 1e-5 for products and sums; for quantised
// weights with int8 activations the exact bound of their rounding; 2e-6 for
// activations and norms; 1e-4 of the largest value for attention, 4e-3 where its
// probabilities are BF16. Results that are BF16 are what rounding makes of a value that
// keeps to these bounds.
func Run(t *testing.T, subject Subject) {
	t.Run("Embed", subject.embed)
	t.Run("AddNorm", subject.addNorm)
	t.Run("Linear", subject.linear)
	t.Run("Linears", subject.linears)
	t.Run("LinearNaN", subject.linearNaN)
	t.Run("Rotate", subject.rotate)
	t.Run("Attend", subject.attend)
	t.Run("Windows", subject.windows)
	t.Run("GLU", subject.glu)
	t.Run("Route", subject.route)
	t.Run("Experts", subject.experts)
	t.Run("Select", subject.choose)
	t.Run("Join", subject.join)
	t.Run("Sample", subject.sample)
	t.Run("Score", subject.score)
	t.Run("Pending", subject.pending)
	t.Run("History", subject.history)
	t.Run("Refuses", subject.refuses)
	t.Run("Invariance", subject.invariance)
}

// Invariance runs what Run does with whole models alone, for devices on which that takes long.
func Invariance(t *testing.T, s Subject) { s.invariance(t) }

// spec is a small dense model with odd sizes; tests change what they are about.
func spec() *model.Spec {
	return &model.Spec{Family: "llama", Name: "devicetest", Layers: 1, Hidden: 96, Vocab: 71, Heads: 4, KVHeads: 2, HeadDim: 6,
		MaxLen: 4096, Eps: 1e-5, RoPE: model.RoPE{Base: 10000}, Windows: []int{0}, FFN: model.FFN{Inner: 35}}
}

// limits are those of most tests; blocks are never short.
func limits(s *model.Spec) model.Limits {
	windows, _ := s.Groups()
	return model.Limits{MaxSeqs: 4, MaxTokens: 64, MaxLen: 1024, BlockSize: 16, Blocks: slices.Repeat([]int{256}, len(windows)), Depth: 1}
}

// A bench is an open device with what tests of it share.
type bench struct {
	t    *testing.T
	s    Subject
	dev  Device
	spec *model.Spec
	lim  model.Limits
	rng  *rand.Rand
}

// open opens the device under test, which is closed with the test.
func (s Subject) open(t *testing.T, spec *model.Spec, lim model.Limits) *bench {
	t.Helper()
	dev := s.Open(t, spec, lim)
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return &bench{t: t, s: s, dev: dev, spec: spec, lim: lim, rng: rand.New(rand.NewPCG(1, 2))}
}

// normal returns n values of standard deviation sd.
func (b *bench) normal(n int, sd float64) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(b.rng.NormFloat64() * sd)
	}
	return x
}

// buf returns a buffer; x, if any, becomes its content.
func (b *bench) buf(rows, width int, x []float32) model.Buf {
	b.t.Helper()
	bufs, err := b.dev.Alloc(max(rows, b.lim.MaxTokens), width)
	if err != nil {
		b.t.Fatal(err)
	}
	if x != nil {
		b.dev.Write(bufs[0], x)
	}
	return bufs[0]
}

// upload uploads a tensor for a use.
func (b *bench) upload(w tensor.Tensor, use model.Use) model.Weight {
	b.t.Helper()
	up, err := b.dev.Upload(w, use)
	if err != nil {
		b.t.Fatal(err)
	}
	return up
}

// lacks reports whether the device is to refuse w for its type, after it has been seen to do so.
func (b *bench) lacks(w tensor.Tensor, use model.Use) bool {
	b.t.Helper()
	if !slices.Contains(b.s.Lacks, w.DType) {
		return false
	}
	_, err := b.dev.Upload(w, use)
	if err == nil {
		b.t.Fatalf("a tensor of %v was uploaded, an error expected", w.DType)
	}
	for _, name := range []string{w.Name, w.DType.String(), b.dev.Name()} {
		if !strings.Contains(err.Error(), name) {
			b.t.Errorf("upload of %v: error %q does not name %q", w.DType, err, name)
		}
	}
	return true
}

// vector uploads x as a vector of that shape.
func (b *bench) vector(x []float32, shape ...int) model.Weight {
	stored, _ := encode("vector", tensor.F32, x, shape...)
	return b.upload(stored, model.AsVector)
}

// begin starts a step of one row of n tokens at position 0, all of id 1.
func (b *bench) begin(n int) {
	b.t.Helper()
	tables := make([][]runner.BlockID, len(b.lim.Blocks))
	for g := range tables {
		for k := range (n + b.lim.BlockSize - 1) / b.lim.BlockSize {
			tables[g] = append(tables[g], runner.BlockID(k))
		}
	}
	b.beginBatch(&runner.Batch{Tokens: slices.Repeat([]int32{1}, n), Rows: []runner.Row{{Len: n, Tables: tables, Sample: true, Params: &sample.Params{}}}})
}

// beginBatch starts a step.
func (b *bench) beginBatch(batch *runner.Batch) {
	b.t.Helper()
	if err := b.dev.Begin(batch); err != nil {
		b.t.Fatal(err)
	}
}

// end finishes a step and returns its result.
func (b *bench) end() *runner.Result {
	b.t.Helper()
	if err := b.dev.End(); err != nil {
		b.t.Fatal(err)
	}
	result, err := b.dev.Wait()
	if err != nil {
		b.t.Fatal(err)
	}
	return result
}

// encode stores x as a matrix or table of type dt whose bytes begin at an odd address, and
// returns the values that the device computes with.
func (s Subject) encode(name string, dt tensor.DType, x []float32, shape ...int) (tensor.Tensor, []float32) {
	stored, back := encode(name, dt, x, shape...)
	if slices.Contains(s.Rounds, dt) {
		back = rounded(back)
	}
	return stored, back
}

// acts returns x as operations see it that read activations of the type Acts.
func (s Subject) acts(x []float32) []float32 {
	if s.Acts != tensor.BF16 {
		return x
	}
	return rounded(x)
}

// rounded returns x in BF16.
func rounded(x []float32) []float32 {
	y := make([]float32, len(x))
	for i, v := range x {
		y[i] = tensor.BF16ToFloat(tensor.ToBF16(v))
	}
	return y
}

// widen changes bounds of values to those of what becomes of these values where results are of
// the type Acts.
func (s Subject) widen(want, tol []float64) []float64 {
	if s.Acts != tensor.BF16 {
		return tol
	}
	bounds := make([]float64, len(tol))
	for i, v := range want {
		low, _, high := inBF16(v, tol[i])
		bounds[i] = max(v-low, high-v)
	}
	return bounds
}

// inBF16 returns v in BF16, and between which values lies in BF16 what is within tol of v.
func inBF16(v, tol float64) (low, mid, high float64) {
	round := func(v float64) float64 { return float64(tensor.BF16ToFloat(tensor.ToBF16(float32(v)))) }
	return round(v - tol), round(v), round(v + tol)
}

// encode stores x as a tensor of type dt whose bytes begin at an odd address,
// and returns the values that the stored form stands for.
func encode(name string, dt tensor.DType, x []float32, shape ...int) (tensor.Tensor, []float32) {
	cols := shape[len(shape)-1]
	rows := len(x) / cols
	size := dt.RowBytes(cols)
	stored := tensor.Tensor{Name: name, DType: dt, Shape: shape, Data: odd(rows * size)}
	if dt == tensor.MXFP4HF {
		stored.Scales = odd(rows * cols / 32)
	}
	back := make([]float32, len(x))
	for i := range rows {
		row := stored.Row(i)
		tensor.Encode(dt, row.Data, row.Scales, x[i*cols:][:cols])
		row.Floats(back[i*cols:][:cols])
	}
	return stored, back
}

// odd returns n bytes that begin at an odd address.
func odd(n int) []byte { return make([]byte, n+1)[1:] }

// near fails unless got[i] is within tol[i] of want[i], or both are NaN.
func near(t *testing.T, what string, got []float32, want, tol []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	for i, value := range got {
		diff := math.Abs(float64(value) - want[i])
		if diff <= tol[i] || float64(value) == want[i] || (value != value && want[i] != want[i]) {
			continue
		}
		t.Fatalf("%s: value %d is %v, want %v ± %.2g", what, i, value, want[i], tol[i])
	}
}
