package kern

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"ossian/internal/tensor"
)

// levels are the implementations this machine has; TestLevels tells if one is missing.
func levels() []Level { return Levels() }

// exact returns the first level whose bits those behind it repeat.
func exact() Level {
	if have := levels(); runtime.GOARCH != "arm64" && len(have) > 1 {
		return have[1]
	}
	return Go
}

var dtypes = []tensor.DType{tensor.F32, tensor.F16, tensor.BF16, tensor.MXFP4, tensor.MXFP4HF, tensor.Q8_0,
	tensor.Q4_0, tensor.Q4_1, tensor.Q5_0, tensor.Q5_1, tensor.IQ4_NL, tensor.Q4_K, tensor.Q5_K, tensor.Q6_K}

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

// width returns a row length that the type allows, with a ragged tail where it can.
func width(dt tensor.DType) int {
	step, _ := dt.Block()
	if step == 1 {
		return 83
	}
	return max(2*step, 96)
}

func pack(t testing.TB, w *tensor.Tensor, o Options, p *Pool) *Matrix {
	t.Helper()
	m, err := Pack(w, o, p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

func testMul(t *testing.T, p *Pool, dt tensor.DType, o Options) {
	rng := rand.New(rand.NewPCG(1, uint64(dt)))
	const e, rows = 3, 37
	in := width(dt)
	for _, out := range []int{1, 3, 15, 16, 17, 50} {
		m := pack(t, randomTensor(rng, dt, e, out, in), o, p)
		x, bias := randomFloats(rng, rows*in), randomFloats(rng, e*out)
		dst := make([]float32, rows*out)
		var a Acts
		a.Set(x, rows, in)
		m.Mul(p, dst, &a, bias, []Job{{E: 1}})
		w := make([]float32, in)
		for i := range out {
			m.Row(1, i, w)
			for r := range rows {
				want, size := reference(w, x[r*in:][:in], bias[out+i], m.quantised())
				if got := float64(dst[r*out+i]); math.Abs(got-want) > 1e-5*size {
					t.Fatalf("out %d: row %d, element %d: got %v, want %v ± %v", out, r, i, got, want, 1e-5*size)
				}
			}
		}
	}
}

// TestBatchInvariance compares every row with the product of that row alone: for
// every number of rows, jobs that choose and scatter rows, several jobs at once,
// and other numbers of workers. No bit may differ (models.md 5.1).
func TestBatchInvariance(t *testing.T) {
	pools := []*Pool{NewPool(1), NewPool(3)}
	for _, p := range pools {
		defer p.Close()
	}
	for _, l := range levels() {
		for _, dt := range dtypes {
			for _, exact := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v/%s/exact=%v", l, name(dt), exact), func(t *testing.T) {
					testInvariance(t, pools, dt, Options{Level: l, Exact: exact})
				})
			}
		}
	}
}

func testInvariance(t *testing.T, pools []*Pool, dt tensor.DType, o Options) {
	const e, out = 3, 37
	in, rows := width(dt), 67
	if o.BF16 {
		in = 96
	}
	if o.Level == Go {
		rows = 19 // slow, and one loop for every tile
	}
	rng := rand.New(rand.NewPCG(3, uint64(dt)))
	m := pack(t, randomTensor(rng, dt, e, out, in), o, pools[0])
	x, bias := randomFloats(rng, rows*in), randomFloats(rng, e*out)
	var a Acts
	alone := make([][]float32, e) // [e][rows·out]
	for i := range alone {
		alone[i] = make([]float32, rows*out)
		for r := range rows {
			a.Set(x[r*in:], 1, in)
			m.Mul(pools[0], alone[i][r*out:][:out], &a, bias, []Job{{E: i}})
		}
	}
	same := func(what string, e, row int, got []float32) {
		t.Helper()
		for i, v := range got {
			if want := alone[e][row*out+i]; math.Float32bits(v) != math.Float32bits(want) {
				t.Fatalf("%s: row %d, element %d: got %x, alone %x", what, row, i, v, want)
			}
		}
	}
	for _, p := range pools {
		for n := 1; n <= min(40, rows); n++ {
			a.Set(x, n, in)
			dst := make([]float32, n*out)
			for range 2 { // the second time with the tiles of the first
				clear(dst)
				m.Mul(p, dst, &a, bias, []Job{{E: 2}})
				for r := range n {
					same(fmt.Sprintf("%d workers, %d rows", p.Workers(), n), 2, r, dst[r*out:][:out])
				}
			}
		}
		a.Set(x, rows, in)
		for round := range 10 {
			to := rng.Perm(2 * rows)
			var jobs []Job
			for at := 0; at < len(to); {
				j := Job{E: rng.IntN(e)}
				for range min(1+rng.IntN(25), len(to)-at) {
					j.X = append(j.X, int32(rng.IntN(rows)))
					j.Y = append(j.Y, int32(to[at]))
					at++
				}
				jobs = append(jobs, j)
			}
			dst := make([]float32, len(to)*out)
			m.Mul(p, dst, &a, bias, jobs)
			for _, j := range jobs {
				for i, r := range j.X {
					same(fmt.Sprintf("%d workers, scattered %d", p.Workers(), round), j.E, int(r), dst[int(j.Y[i])*out:][:out])
				}
			}
		}
	}
}

// TestLevelsAgree: the assembly levels give the same bits, and portable Go stays
// within 1e-6 of the sum of absolute terms; on arm64, where it fuses what they do, it
// gives the same bits, too.
func TestLevelsAgree(t *testing.T) {
	p := NewPool(1)
	defer p.Close()
	const out, rows = 33, 21
	for _, dt := range dtypes {
		t.Run(name(dt), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(4, uint64(dt)))
			in := width(dt) * 5
			w := randomTensor(rng, dt, 1, out, in)
			x := randomFloats(rng, rows*in)
			for i := range x { // a wide range of magnitudes, and blocks of zeros
				x[i] *= float32(math.Pow(10, float64(i/32%9-4)))
				if i/32%11 == 0 {
					x[i] = 0
				}
			}
			y := map[Level][]float32{}
			for _, l := range levels() {
				m := pack(t, w, Options{Level: l}, p)
				var a Acts
				a.Set(x, rows, in)
				y[l] = make([]float32, rows*out)
				m.Mul(p, y[l], &a, nil, []Job{{}})
			}
			row := make([]float32, in)
			for i := range rows * out {
				for l, v := range y {
					if first := exact(); l > first && math.Float32bits(v[i]) != math.Float32bits(y[first][i]) {
						t.Fatalf("element %d: %v gives %x, %v %x", i, l, v[i], first, y[first][i])
					}
				}
				w.Row(i % out).Floats(row)
				_, size := reference(row, x[i/out*in:][:in], 0, false)
				if l := levels()[len(levels())-1]; math.Abs(float64(y[l][i]-y[Go][i])) > 1e-6*size {
					t.Fatalf("element %d: %v gives %v, %v %v, terms %v", i, l, y[l][i], Go, y[Go][i], size)
				}
			}
		})
	}
}

// TestMXFP4Orders: the nibble orders of both containers hold the same weights and
// give the same bits.
func TestMXFP4Orders(t *testing.T) {
	p := NewPool(1)
	defer p.Close()
	const out, in, rows = 20, 320, 5
	rng := rand.New(rand.NewPCG(5, 5))
	hf := randomTensor(rng, tensor.MXFP4HF, 1, out, in)
	gguf := &tensor.Tensor{Name: "gguf", DType: tensor.MXFP4, Shape: hf.Shape}
	for i := range hf.Scales { // formats.md 4, element by element
		a := hf.Data[16*i:][:16]
		element := func(k int) byte { return a[k/2] >> (4 * (k % 2)) & 15 }
		gguf.Data = append(gguf.Data, hf.Scales[i])
		for j := range 16 {
			gguf.Data = append(gguf.Data, element(j)|element(j+16)<<4)
		}
	}
	x := randomFloats(rng, rows*in)
	for _, l := range levels() {
		var y [2][rows * out]float32
		for i, w := range []*tensor.Tensor{hf, gguf} {
			m := pack(t, w, Options{Level: l}, p)
			var a Acts
			a.Set(x, rows, in)
			m.Mul(p, y[i][:], &a, nil, []Job{{}})
		}
		if y[0] != y[1] {
			t.Errorf("%v: the orders differ", l)
		}
	}
}

// TestE8M0 multiplies with every exponent byte the loader lets pass, 0 and 1 among
// them, whose weights are subnormal; products stay in the range of float32. A matrix
// with exponents from 224 on is beyond the kernels and multiplied decoded.
func TestE8M0(t *testing.T) {
	for _, n := range []int{224, 225, 255} {
		t.Run(fmt.Sprintf("%d exponents", n), func(t *testing.T) { testE8M0(t, n) })
	}
}

func testE8M0(t *testing.T, n int) {
	p := NewPool(1)
	defer p.Close()
	const in = 32
	w := &tensor.Tensor{Name: "scales", DType: tensor.MXFP4, Shape: []int{n, in}}
	for e := range n {
		w.Data = append(w.Data, byte(e))
		for j := range 16 {
			w.Data = append(w.Data, byte(j*17))
		}
	}
	rng := rand.New(rand.NewPCG(6, 6))
	x, row := randomFloats(rng, in), make([]float32, in)
	for _, l := range levels() {
		for _, factor := range []float32{1, 1e-6, 1e6} {
			xs := make([]float32, in)
			for i := range xs {
				xs[i] = x[i] * factor
			}
			m := pack(t, w, Options{Level: l}, p)
			var a Acts
			a.Set(xs, 1, in)
			if m.quantised() != (n <= 224) {
				t.Fatalf("quantised: %v", m.quantised())
			}
			y := make([]float32, n)
			m.Mul(p, y, &a, nil, []Job{{}})
			for e, got := range y {
				m.Row(0, e, row)
				want, size := reference(row, xs, 0, m.quantised())
				if size > math.MaxFloat32 {
					continue // the order of the sum decides what overflows
				}
				tiny := 0x1p-149 // of one rounding; decoded weights round every product
				if !m.quantised() {
					tiny *= in
				}
				if float64(got) != want && math.Abs(float64(got)-want) > 1e-5*size+tiny {
					t.Errorf("%v, exponent %d, activations ·%v: got %v, want %v", l, e, factor, got, want)
				}
			}
		}
	}
}

// TestNotFinite: an infinity or NaN in an activation row reaches every result of
// that row as an infinity or NaN, and no other row.
func TestNotFinite(t *testing.T) {
	p := NewPool(1)
	defer p.Close()
	const out, rows = 18, 9
	inf := float32(math.Inf(1))
	for _, l := range levels() {
		for _, dt := range dtypes {
			for _, bad := range []float32{inf, -inf, float32(math.NaN())} {
				rng := rand.New(rand.NewPCG(7, uint64(dt)))
				in := width(dt)
				m := pack(t, randomTensor(rng, dt, 1, out, in), Options{Level: l}, p)
				x := randomFloats(rng, rows*in)
				x[4*in+in-1] = bad
				var a Acts
				a.Set(x, rows, in)
				y := make([]float32, rows*out)
				m.Mul(p, y, &a, nil, []Job{{}})
				for i, v := range y {
					if finite := v-v == 0; finite != (i/out != 4) {
						t.Fatalf("%v, %s, %v in row 4: row %d gives %v", l, name(dt), bad, i/out, v)
					}
				}
			}
		}
	}
}

func TestMulDoesNotAllocate(t *testing.T) {
	p := NewPool(2)
	defer p.Close()
	rng := rand.New(rand.NewPCG(8, 8))
	for _, dt := range []tensor.DType{tensor.MXFP4, tensor.BF16} {
		for _, o := range []Options{{Level: Detect()}, {Level: Detect(), Exact: true}, {Level: Detect(), BF16: true}, {Level: Go}} {
			const e, out, in, rows = 3, 64, 64, 9
			m := pack(t, randomTensor(rng, dt, e, out, in), o, p)
			x, dst := randomFloats(rng, rows*in), make([]float32, rows*out)
			jobs := []Job{{E: 0, X: []int32{1, 2}, Y: []int32{1, 2}}, {E: 2, X: []int32{8}, Y: []int32{0}}}
			whole := make([]Job, 1)
			var a Acts
			step := func() {
				a.Set(x, rows, in)
				m.Mul(p, dst, &a, nil, whole)
				m.Mul(p, dst, &a, nil, jobs)
			}
			if n := testing.AllocsPerRun(20, step); n != 0 {
				t.Errorf("%s, %+v: Mul allocates %v times", name(dt), o, n)
			}
		}
	}
}

func TestPackRefuses(t *testing.T) {
	p := NewPool(1)
	defer p.Close()
	for _, tt := range []struct {
		name  string
		dt    tensor.DType
		shape []int
		level Level
	}{
		{"type without kernel", tensor.I32, []int{2, 2}, Go},
		{"vector", tensor.F32, []int{2}, Go},
		{"four dimensions", tensor.F32, []int{2, 2, 2, 2}, Go},
		{"no rows", tensor.F32, []int{0, 2}, Go},
		{"part of a block", tensor.Q8_0, []int{2, 48}, Go},
		{"level beyond the last", tensor.F32, []int{2, 2}, I8MM + 1},
	} {
		w := &tensor.Tensor{Name: "w", DType: tt.dt, Shape: tt.shape, Data: make([]byte, 4096)}
		if _, err := Pack(w, Options{Level: tt.level}, p); err == nil {
			t.Errorf("%s: packed", tt.name)
		}
	}
}

func TestRow(t *testing.T) {
	p := NewPool(1)
	defer p.Close()
	for _, dt := range dtypes {
		t.Run(name(dt), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(2, uint64(dt)))
			w := randomTensor(rng, dt, 2, 19, 512)
			m := pack(t, w, Options{}, p)
			checkRows(t, m, w)
		})
	}
}

// TestCut: the parts of a task follow one another, none is longer than asked for, all but the last are
// whole units, and workers get as many parts each where there are enough.
func TestCut(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	for range 10_000 {
		unit, workers, groups := 1+rng.IntN(2), 1+rng.IntN(5), 1+rng.IntN(200)
		step := unit * (1 + rng.IntN(20))
		var acts Acts
		acts.cut(task{to: groups, hi: 3}, step, unit, workers)
		at := 0
		for i, part := range acts.tasks {
			if part.from != at || part.to <= at || part.to-at > step || part.hi != 3 || (i+1 < len(acts.tasks) && part.to%unit != 0) {
				t.Fatalf("%d groups for %d workers, up to %d in units of %d: part %d is %+v", groups, workers, step, unit, i, part)
			}
			at = part.to
		}
		if n := len(acts.tasks); at != groups || (n > workers && n%workers != 0 && n < (groups+unit-1)/unit) {
			t.Fatalf("%d groups for %d workers, up to %d in units of %d: %d parts up to %d", groups, workers, step, unit, n, at)
		}
	}
}
