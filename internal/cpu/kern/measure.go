package kern

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
	"unsafe"

	"ossian/internal/tensor"
)

// A Measurement is what one kernel reached, and what the machine did in the same
// moments. A multiply-add counts as two operations; figures are medians per second.
type Measurement struct {
	Kernel string  `json:"kernel"` // the type of the weights, "keys BF16", "values F8_E4M3", …
	ISA    string  `json:"isa"`
	Rows   int     `json:"rows"`                   // activation rows, or queries that share keys
	Bytes  float64 `json:"bytes_per_second"`       // of weights, keys or values, which come from memory
	Ops    float64 `json:"ops_per_second"`         // of products, the quantising of activations included
	Read   float64 `json:"read_bytes_per_second"`  // the limit of Bytes: plain reading
	Peak   float64 `json:"peak_ops_per_second"`    // the limit of Ops: multiply-adds of int8, BF16 or float32 within registers; 0 = not known
	Share  float64 `json:"share_of_nearest_limit"` // of the limit that the kernel comes nearest to
}

// Kernels are the names that Measure knows.
func Kernels() (names []string) {
	for _, t := range measured {
		names = append(names, t.String())
	}
	names = append(names, roundedBF16)
	for _, f := range []tensor.DType{tensor.BF16, tensor.F8_E4M3} {
		names = append(names, "keys "+f.String(), "values "+f.String())
	}
	return names
}

// roundedBF16 names the products of BF16 weights with activations rounded to BF16.
const roundedBF16 = "BF16 by BF16"

var measured = [...]tensor.DType{tensor.MXFP4, tensor.Q4_0, tensor.Q4_1, tensor.Q4_K, tensor.Q5_K, tensor.Q6_K, tensor.Q8_0,
	tensor.BF16, tensor.F16, tensor.F32}

// Measure times the kernels of these names on every instruction set of the machine,
// with several numbers of rows, each for about that long, and reports them one by
// one. Weights have the shape of an expert of gpt-oss-20b. It takes half a gigabyte
// and more than a second for each name. Errors: no memory, an unknown name, the end
// of ctx.
func Measure(ctx context.Context, names []string, threads int, each time.Duration, report func(Measurement)) error {
	m := meter{ctx: ctx, each: each, report: report, size: measureBytes, out: 5760, in: 2880}
	return m.all(names, threads)
}

// measureBytes is more than the caches hold that a few cores have to themselves.
const measureBytes = 256 << 20

type meter struct {
	ctx     context.Context
	pool    *Pool
	each    time.Duration
	report  func(Measurement)
	size    int // bytes that a kernel or a reader goes around in
	out, in int // of a matrix

	ones []float32 // what is read for the limit
	at   int       // where the next part begins
	sums []float32 // keep the reads alive
}

func (m *meter) all(names []string, threads int) error {
	for _, n := range names {
		if !slices.Contains(Kernels(), n) {
			return fmt.Errorf("no kernel %q; expected some of %q", n, Kernels())
		}
	}
	m.pool = NewPool(threads)
	defer m.pool.Close()
	mem, err := alloc(m.size)
	if err != nil {
		return err
	}
	defer free(mem)
	m.ones = floatsOf(mem)
	m.pool.Run(len(m.ones)/readPiece, func(_, c int) {
		for i := range m.ones[c*readPiece:][:readPiece] { // untouched memory would be one page of zeros
			m.ones[c*readPiece+i] = 1
		}
	})
	m.sums = make([]float32, readPieces)
	for _, t := range measured {
		if slices.Contains(names, t.String()) {
			if err := m.products(t.String(), t, Options{}); err != nil {
				return err
			}
		}
	}
	if slices.Contains(names, roundedBF16) {
		if err := m.products(roundedBF16, tensor.BF16, Options{BF16: true}); err != nil {
			return err
		}
	}
	return m.attention(names)
}

const (
	readPiece  = 64 << 10 // floats of a chunk
	readPieces = 32       // chunks of a read
)

func floatsOf(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

// read reads the next part of memory and returns its bytes.
func (m *meter) read() float64 {
	n := min(readPieces, len(m.ones)/readPiece)
	if m.at+n*readPiece > len(m.ones) {
		m.at = 0
	}
	from := m.ones[m.at:]
	m.pool.Run(n, func(_, c int) { m.sums[c] = SumSq(Detect(), from[c*readPiece:][:readPiece]) })
	m.at += n * readPiece
	return float64(4 * n * readPiece)
}

// A factor is what kernels multiply.
type factor uint8

const (
	floats factor = iota
	ints          // int8
	pairs         // of BF16
)

func (m *Matrix) factor() factor {
	switch {
	case m.quantised():
		return ints
	case m.rounded() && m.opt.Level.pairs():
		return pairs
	}
	return floats
}

// peak returns the operations of multiply-adds in registers.
func (m *meter) peak(l Level, f factor) float64 {
	const loops = 20_000
	chunks := 4 * m.pool.Workers()
	m.pool.Run(chunks, func(_, _ int) { l.peak(f, loops) })
	return float64(chunks) * loops * l.peakOps(f)
}

// peakOps returns the operations of one loop of peak: twelve registers of multiply-adds.
func (l Level) peakOps(f factor) float64 {
	ops := 12 * 2 * 8.0
	if l == AVX512 {
		ops *= 2
	}
	switch f {
	case ints:
		ops *= 4
	case pairs:
		ops *= 2
	}
	return ops
}

// run times op with its limits in turns and reports it.
func (m *meter) run(k Measurement, l Level, f factor, bytes, ops float64, op func()) error {
	var took, reads, peaks []float64
	for began := time.Now(); len(took) < 3 || time.Since(began) < m.each; {
		if err := m.ctx.Err(); err != nil {
			return err
		}
		start := time.Now()
		op()
		took = append(took, time.Since(start).Seconds())
		start = time.Now()
		read := m.read()
		reads = append(reads, read/time.Since(start).Seconds())
		if l > Go {
			start = time.Now()
			done := m.peak(l, f)
			peaks = append(peaks, done/time.Since(start).Seconds())
		}
	}
	seconds := median(took)
	k.ISA, k.Bytes, k.Ops, k.Read = l.String(), bytes/seconds, ops/seconds, median(reads)
	k.Share = k.Bytes / k.Read
	if l > Go {
		k.Peak = median(peaks)
		k.Share = max(k.Share, k.Ops/k.Peak)
	}
	m.report(k)
	return nil
}

func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

// rowsOf lists how many rows are measured: few for Go, which is slow.
func rowsOf(l Level) []int {
	if l == Go {
		return []int{1}
	}
	return []int{1, 2, 4, 8, 16, 64}
}

// products measures matrices of type t under a name.
func (m *meter) products(name string, t tensor.DType, o Options) error {
	block, _ := t.Block()
	in := m.in / block * block
	w, done, err := m.weights(t, in)
	if err != nil {
		return err
	}
	defer done()
	x, err := Pack(w, o, m.pool)
	if err != nil {
		return err
	}
	defer x.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	for l := Go; l <= Detect(); l++ {
		x.opt.Level = l
		for _, rows := range rowsOf(l) {
			acts, dst, job := normal(rng, rows*in), make([]float32, rows*m.out), make([]Job, 1)
			var a Acts
			ops := 2 * float64(rows) * float64(m.out) * float64(in)
			err := m.run(Measurement{Kernel: name, Rows: rows}, l, x.factor(), float64(x.bytes)/float64(x.e), ops, func() {
				a.Set(acts, rows, in)
				x.Mul(m.pool, dst, &a, nil, job)
				job[0].E = (job[0].E + 1) % x.e
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func normal(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// weights makes a stack of matrices out of 16 random rows. Packing copies quantised
// rows; the others are copied here, since they are read where they are.
func (m *meter) weights(t tensor.DType, in int) (*tensor.Tensor, func(), error) {
	n := t.RowBytes(in)
	e := max(2, m.size/(m.out*n))
	few := tensor.Tensor{Name: t.String(), DType: t, Shape: []int{16, in}, Data: make([]byte, 16*n)}
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 16 {
		tensor.Encode(t, few.Data[i*n:][:n], nil, normal(rng, in))
	}
	w := &tensor.Tensor{Name: t.String(), DType: t, Shape: []int{e, m.out, in}}
	if k, _ := t.Block(); k > 1 {
		w.Parts, w.Map = []tensor.Tensor{few}, func(row int) (part, sub int) { return 0, row % 16 }
		return w, func() {}, nil
	}
	data, err := alloc(e * m.out * n)
	if err != nil {
		return nil, nil, err
	}
	for i := 0; i < len(data); i += len(few.Data) {
		copy(data[i:], few.Data)
	}
	w.Data = data
	return w, func() { free(data) }, nil
}

// attention measures the products with cached keys and values: 8 queries for each
// head of 64, 1024 keys at a time.
func (m *meter) attention(names []string) error {
	const dim, keys, queries = 64, 1024, 8
	for _, t := range []tensor.DType{tensor.BF16, tensor.F8_E4M3} {
		if !slices.Contains(names, "keys "+t.String()) && !slices.Contains(names, "values "+t.String()) {
			continue
		}
		piece := keys * t.RowBytes(dim)
		mem, err := alloc(m.size / 2 / piece * piece)
		if err != nil {
			return err
		}
		for i := range mem {
			mem[i] = 0x3c // about 0.01 in BF16, 1.5 in E4M3: nothing subnormal
		}
		at := 0
		part := func() []byte { // an eighth of the memory, another one each time
			n := max(len(mem)/8/piece, 1) * piece
			if at+n > len(mem) {
				at = 0
			}
			at += n
			return mem[at-n : at]
		}
		err = m.attend(t, names, part, dim, keys, queries)
		free(mem)
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *meter) attend(t tensor.DType, names []string, part func() []byte, dim, keys, queries int) error {
	rng := rand.New(rand.NewPCG(1, 3))
	q, piece := normal(rng, queries*dim), keys*t.RowBytes(dim)
	scores := make([][]float32, m.pool.Workers())
	sums := make([][]float32, m.pool.Workers())
	for i := range scores {
		scores[i], sums[i] = normal(rng, queries*keys), make([]float32, queries*dim)
	}
	for _, what := range []string{"keys", "values"} {
		name := what + " " + t.String()
		if !slices.Contains(names, name) {
			continue
		}
		for l := Go; l <= Detect(); l++ {
			work := func(b []byte, w int) {
				switch {
				case t == tensor.F8_E4M3 && what == "keys":
					Scores(l, scores[w], keys, q, queries, dim, b, dim, keys, nil)
				case t == tensor.F8_E4M3:
					Weigh(l, sums[w], queries, dim, scores[w], keys, b, dim, keys, nil)
				case what == "keys":
					Scores(l, scores[w], keys, q, queries, dim, halves(b), dim, keys, nil)
				default:
					Weigh(l, sums[w], queries, dim, scores[w], keys, halves(b), dim, keys, nil)
				}
			}
			bytes := float64(len(part()))
			ops := 2 * float64(queries) * bytes / float64(t.RowBytes(1))
			err := m.run(Measurement{Kernel: name, Rows: queries}, l, floats, bytes, ops, func() {
				b := part()
				m.pool.Run(len(b)/piece, func(w, c int) { work(b[c*piece:][:piece], w) })
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func halves(b []byte) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/2)
}
