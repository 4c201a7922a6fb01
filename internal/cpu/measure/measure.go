// Package measure times the kernels of the CPU beside what the machine can do in the same moments.
package measure

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
	"unsafe"

	"ossian/internal/cpu/kern"
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

// Kernels are the names that Run knows.
func Kernels() (names []string) {
	for _, dtype := range measured {
		names = append(names, dtype.String())
	}
	names = append(names, roundedBF16)
	for _, dtype := range []tensor.DType{tensor.BF16, tensor.F8_E4M3} {
		names = append(names, "keys "+dtype.String(), "values "+dtype.String())
	}
	return names
}

// roundedBF16 names the products of BF16 weights with activations rounded to BF16.
const roundedBF16 = "BF16 by BF16"

// measured are the types of weights that Run knows.
var measured = [...]tensor.DType{tensor.MXFP4, tensor.Q4_0, tensor.Q4_1, tensor.Q5_0, tensor.Q5_1, tensor.IQ4_NL, tensor.Q4_K, tensor.Q5_K, tensor.Q6_K, tensor.Q8_0,
	tensor.BF16, tensor.F16, tensor.F32}

// Run times the kernels of these names on every instruction set of the machine,
// with several numbers of rows, each for about that long, and reports them one by
// one. Weights have the shape of an expert of gpt-oss-20b. It takes half a gigabyte
// and more than a second for each name. Errors: no memory, an unknown name, the end
// of ctx.
func Run(ctx context.Context, names []string, threads int, each time.Duration, report func(Measurement)) error {
	m := meter{ctx: ctx, each: each, report: report, size: measureBytes, out: 5760, in: 2880}
	return m.all(names, threads)
}

// measureBytes is more than the caches hold that a few cores have to themselves.
const measureBytes = 256 << 20

// A meter is a measurement under way; one goroutine uses it.
type meter struct {
	ctx     context.Context
	pool    *kern.Pool
	each    time.Duration
	report  func(Measurement)
	size    int // bytes that a kernel or a reader goes around in
	out, in int // of a matrix

	ones []float32 // what is read for the limit
	at   int       // where the next part begins
	sums []float32 // keep the reads alive
}

// all measures the named kernels with a pool of so many threads.
func (m *meter) all(names []string, threads int) error {
	for _, name := range names {
		if !slices.Contains(Kernels(), name) {
			return fmt.Errorf("no kernel %q; expected some of %q", name, Kernels())
		}
	}
	m.pool = kern.NewPool(threads)
	defer m.pool.Close()
	mem, err := kern.Alloc(m.size)
	if err != nil {
		return err
	}
	defer kern.Free(mem)
	m.ones = floatsOf(mem)
	m.pool.Run(len(m.ones)/readPiece, func(_, chunk int) {
		for i := range m.ones[chunk*readPiece:][:readPiece] { // untouched memory would be one page of zeros
			m.ones[chunk*readPiece+i] = 1
		}
	})
	m.sums = make([]float32, readPieces)
	for _, dtype := range measured {
		if slices.Contains(names, dtype.String()) {
			if err := m.products(dtype.String(), dtype, kern.Options{}); err != nil {
				return err
			}
		}
	}
	if slices.Contains(names, roundedBF16) {
		if err := m.products(roundedBF16, tensor.BF16, kern.Options{BF16: true}); err != nil {
			return err
		}
	}
	return m.attention(names)
}

const (
	readPiece  = 64 << 10 // floats of a chunk
	readPieces = 32       // chunks of a read
)

// floatsOf views bytes, which must be aligned, as float32.
func floatsOf(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

// read reads the next part of memory and returns its bytes.
func (m *meter) read() float64 {
	pieces := min(readPieces, len(m.ones)/readPiece)
	if m.at+pieces*readPiece > len(m.ones) {
		m.at = 0
	}
	from := m.ones[m.at:]
	m.pool.Run(pieces, func(_, chunk int) { m.sums[chunk] = kern.SumSq(kern.Detect(), from[chunk*readPiece:][:readPiece]) })
	m.at += pieces * readPiece
	return float64(4 * pieces * readPiece)
}

// peak returns the operations of multiply-adds in registers.
func (m *meter) peak(level kern.Level, f kern.Factor) float64 {
	const loops = 20_000
	chunks := 4 * m.pool.Workers()
	m.pool.Run(chunks, func(_, _ int) { level.Peak(f, loops) })
	return float64(chunks) * loops * level.PeakOps(f)
}

// run times op with its limits in turns and reports it.
func (m *meter) run(result Measurement, level kern.Level, f kern.Factor, bytes, ops float64, op func()) error {
	// The kernel and its limits in turns, so that a disturbance of the machine meets all.
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
		if level > kern.Go {
			start = time.Now()
			done := m.peak(level, f)
			peaks = append(peaks, done/time.Since(start).Seconds())
		}
	}
	seconds := median(took)
	result.ISA, result.Bytes, result.Ops, result.Read = level.String(), bytes/seconds, ops/seconds, median(reads)
	result.Share = result.Bytes / result.Read
	if level > kern.Go {
		result.Peak = median(peaks)
		result.Share = max(result.Share, result.Ops/result.Peak)
	}
	m.report(result)
	return nil
}

// median returns the upper median of x, which it sorts.
func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

// rowsOf lists how many rows are measured: few for Go, which is slow.
func rowsOf(l kern.Level) []int {
	if l == kern.Go {
		return []int{1}
	}
	return []int{1, 2, 4, 8, 16, 32, 64, 512}
}

// products measures matrices of type dtype under a name.
func (m *meter) products(name string, dtype tensor.DType, opt kern.Options) error {
	block, _ := dtype.Block()
	in := m.in / block * block
	stack, done, err := m.weights(dtype, in)
	if err != nil {
		return err
	}
	defer done()
	matrix, err := kern.Pack(stack, opt, m.pool)
	if err != nil {
		return err
	}
	defer matrix.Close()
	count, _, _ := matrix.Shape()
	rng := rand.New(rand.NewPCG(1, 2))
	// Each run takes the next matrix of the stack, so that weights come from memory.
	for _, level := range kern.Levels() {
		matrix.Use(level, level.Fetches()[0])
		for _, rows := range rowsOf(level) {
			acts, dst, job := normal(rng, rows*in), make([]float32, rows*m.out), make([]kern.Job, 1)
			var quantised kern.Acts
			ops := 2 * float64(rows) * float64(m.out) * float64(in)
			err := m.run(Measurement{Kernel: name, Rows: rows}, level, matrix.Factor(), float64(matrix.Bytes())/float64(count), ops, func() {
				quantised.Set(acts, rows, in)
				matrix.Mul(m.pool, dst, &quantised, nil, job)
				job[0].E = (job[0].E + 1) % count
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// normal returns n random values of standard deviation 1.
func normal(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
	}
	return x
}

// weights makes a stack of matrices out of 16 random rows. Packing copies quantised
// rows; the others are copied here, since they are read where they are.
func (m *meter) weights(dtype tensor.DType, in int) (*tensor.Tensor, func(), error) {
	rowBytes := dtype.RowBytes(in)
	count := max(2, m.size/(m.out*rowBytes))
	few := tensor.Tensor{Name: dtype.String(), DType: dtype, Shape: []int{16, in}, Data: make([]byte, 16*rowBytes)}
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 16 {
		tensor.Encode(dtype, few.Data[i*rowBytes:][:rowBytes], nil, normal(rng, in))
	}
	// Types in blocks are packed: the 16 rows may stand for all. The others are read where they
	// lie, and must be as many bytes as caches do not hold.
	stack := &tensor.Tensor{Name: dtype.String(), DType: dtype, Shape: []int{count, m.out, in}}
	if block, _ := dtype.Block(); block > 1 {
		stack.Parts, stack.Map = []tensor.Tensor{few}, func(row int) (part, sub int) { return 0, row % 16 }
		return stack, func() {}, nil
	}
	data, err := kern.Alloc(count * m.out * rowBytes)
	if err != nil {
		return nil, nil, err
	}
	for i := 0; i < len(data); i += len(few.Data) {
		copy(data[i:], few.Data)
	}
	stack.Data = data
	return stack, func() { kern.Free(data) }, nil
}

// attention measures the products with cached keys and values: 8 queries for each
// head of 64, 1024 keys at a time.
func (m *meter) attention(names []string) error {
	const dim, keys, queries = 64, 1024, 8
	for _, dtype := range []tensor.DType{tensor.BF16, tensor.F8_E4M3} {
		if !slices.Contains(names, "keys "+dtype.String()) && !slices.Contains(names, "values "+dtype.String()) {
			continue
		}
		piece := keys * dtype.RowBytes(dim)
		mem, err := kern.Alloc(m.size / 2 / piece * piece)
		if err != nil {
			return err
		}
		for i := range mem {
			mem[i] = 0x3c // about 0.01 in BF16, 1.5 in E4M3: nothing subnormal
		}
		at := 0
		part := func() []byte { // an eighth of the memory, another one each time
			bytes := max(len(mem)/8/piece, 1) * piece
			if at+bytes > len(mem) {
				at = 0
			}
			at += bytes
			return mem[at-bytes : at]
		}
		err = m.attend(dtype, names, part, dim, keys, queries)
		kern.Free(mem)
		if err != nil {
			return err
		}
	}
	return nil
}

// attend measures the kernels for keys and for values of a type, if names has them. part
// returns the next piece of memory that plays them.
func (m *meter) attend(dtype tensor.DType, names []string, part func() []byte, dim, keys, queries int) error {
	rng := rand.New(rand.NewPCG(1, 3))
	query, piece := normal(rng, queries*dim), keys*dtype.RowBytes(dim)
	scores := make([][]float32, m.pool.Workers())
	sums := make([][]float32, m.pool.Workers())
	for i := range scores {
		scores[i], sums[i] = normal(rng, queries*keys), make([]float32, queries*dim)
	}
	for _, what := range []string{"keys", "values"} {
		name := what + " " + dtype.String()
		if !slices.Contains(names, name) {
			continue
		}
		// The kernels have a type for each kind of element, hence the four calls.
		for _, level := range kern.Levels() {
			work := func(data []byte, worker int) {
				switch {
				case dtype == tensor.F8_E4M3 && what == "keys":
					kern.Scores(level, scores[worker], keys, query, queries, dim, data, dim, keys, nil)
				case dtype == tensor.F8_E4M3:
					kern.Weigh(level, sums[worker], queries, dim, scores[worker], keys, data, dim, keys, nil)
				case what == "keys":
					kern.Scores(level, scores[worker], keys, query, queries, dim, halves(data), dim, keys, nil)
				default:
					kern.Weigh(level, sums[worker], queries, dim, scores[worker], keys, halves(data), dim, keys, nil)
				}
			}
			bytes := float64(len(part()))
			ops := 2 * float64(queries) * bytes / float64(dtype.RowBytes(1))
			err := m.run(Measurement{Kernel: name, Rows: queries}, level, kern.Floats, bytes, ops, func() {
				data := part()
				m.pool.Run(len(data)/piece, func(worker, chunk int) { work(data[chunk*piece:][:piece], worker) })
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// halves views bytes, which must be aligned, as 16-bit elements.
func halves(b []byte) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/2)
}
