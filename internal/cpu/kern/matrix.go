package kern

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"ossian/internal/tensor"
)

// groupRows is the number of rows of a row group.
const groupRows = 16

// A Matrix is a stack of E matrices [out, in], immutable once packed (but for Use), and
// safe for concurrent use.
//
// Other BF16, F16 and F32 stay where the tensor has them, which must outlive the
// matrix. Quantised types, with Options.Q8 all, BF16 with Options.BF16, and columns are
// repacked outside the Go heap. Interleave makes one matrix of two.
type Matrix struct {
	e, out, in int
	fam        family
	opt        Options
	bytes      int64

	mem    []byte // row groups, those of matrix 0 first: of packed families, and of rows that were columns
	mapped bool   // mem belongs to somebody else
	groups int    // row groups per matrix
	size   int    // bytes of a row group; 0 = rows stay where the tensor has them

	base   unsafe.Pointer   // rows as stored: row i of matrix e at base + (e·pitch + i)·stride …
	stride int              // bytes
	pitch  int              // rows from one matrix to the next
	rows   []unsafe.Pointer // … or, if they are scattered, at rows[e·out + i]

	halves *[2]*Matrix // of Interleave: they have the rows, and of the fields above e, out, in, opt and bytes count
}

// Pack makes a Matrix of t, which is [out, in] or [E, out, in], plain or composed.
// The work is spread over the pool. When t has been copied, Pack tells its sources so
// (tensor.Tensor.Release). Errors: a shape or type without kernels, a level this
// machine lacks, no memory.
func Pack(t *tensor.Tensor, o Options, pool *Pool) (*Matrix, error) {
	matrix, err := newMatrix(t, o)
	if err != nil {
		return nil, err
	}
	if matrix.size == 0 {
		matrix.refer(t)
		return matrix, nil
	}
	mem, err := Alloc(int(matrix.bytes))
	if err != nil {
		return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	matrix.use(mem)
	matrix.pack(t, pool)
	return matrix, nil
}

// newMatrix checks t and lays out its matrix, which has no contents yet.
func newMatrix(t *tensor.Tensor, o Options) (*Matrix, error) {
	fam, ok := familyOf(t.DType)
	if !ok {
		return nil, fmt.Errorf("tensor %q: type %v has no matrix kernel; expected F32, F16, BF16, MXFP4, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, IQ4_NL, Q4_K, Q5_K or Q6_K", t.Name, t.DType)
	}
	if !o.Level.Available() {
		return nil, fmt.Errorf("tensor %q: kernels for %v asked for, this machine or build has at most %v", t.Name, o.Level, Detect())
	}
	if o.Fetch.Streams == 0 {
		o.Fetch = o.Level.Fetches()[0]
	}
	matrix := &Matrix{e: 1, fam: fam, opt: o}
	switch shape := t.Shape; len(shape) {
	case 2:
		matrix.out, matrix.in = shape[0], shape[1]
	case 3:
		matrix.e, matrix.out, matrix.in = shape[0], shape[1], shape[2]
	}
	block, _ := t.DType.Block()
	if len(t.Shape) > 0 {
		matrix.fam, _ = o.family(t)
	}
	if o.Q8 && fam > packed {
		block = 32
	}
	if matrix.e < 1 || matrix.out < 1 || matrix.in < 1 || matrix.in%block != 0 {
		return nil, fmt.Errorf("tensor %q: shape %v of %v; expected [out, in] or [experts, out, in], rows of whole blocks of %d", t.Name, t.Shape, t.DType, block)
	}
	if size := matrix.fam.repacked(t); size > 0 {
		matrix.groups, matrix.size = (matrix.out+groupRows-1)/groupRows, size
		matrix.bytes = int64(matrix.e) * int64(matrix.groups) * int64(matrix.size)
	}
	return matrix, nil
}

// repacked returns the bytes of a row group in which t is repacked; 0 = it stays as it is.
func (f family) repacked(t *tensor.Tensor) int {
	switch {
	case f <= packed:
		return f.groupBytes(t.Cols() / 32)
	case t.Columns:
		return groupRows * t.DType.RowBytes(t.Cols())
	}
	return 0
}

// use takes the memory of the row groups.
func (m *Matrix) use(mem []byte) {
	m.mem = mem
	if m.fam > packed {
		m.base, m.stride, m.pitch = unsafe.Pointer(&mem[0]), m.size/groupRows, m.groups*groupRows
	}
}

// refer takes the rows where they are.
func (m *Matrix) refer(t *tensor.Tensor) {
	m.stride, m.pitch = t.DType.RowBytes(m.in), m.out
	m.bytes = int64(m.e) * int64(m.out) * int64(m.stride)
	if t.Parts == nil {
		m.base = unsafe.Pointer(&t.Data[:m.bytes][0])
		return
	}
	m.rows = make([]unsafe.Pointer, m.e*m.out)
	for i := range m.rows {
		m.rows[i] = unsafe.Pointer(&t.Row(i).Data[:m.stride][0])
	}
}

// pack packs all row groups of t into m.mem, packedAtOnce bytes of t at a time.
func (m *Matrix) pack(t *tensor.Tensor, pool *Pool) {
	var large atomic.Bool
	units := m.e * m.groups
	step := max(1, packedAtOnce/(groupRows*t.DType.RowBytes(m.in)))
	for from := 0; from < units; from += step {
		pool.Run(min(step, units-from), func(_, chunk int) {
			if m.packGroup(t, from+chunk, m.mem[(from+chunk)*m.size:][:m.size:m.size]) {
				large.Store(true)
			}
		})
		t.Release()
	}
	m.opt.Exact = m.opt.Exact || large.Load() // the kernels cannot, decoded weights can
}

// packedAtOnce is how many bytes of a tensor are packed before those that were read are
// let go: a whole one and its packed form are more than the memory plan has room for.
const packedAtOnce = 64 << 20

// packGroup packs a row group of all into the zeroed mem, and reports whether the kernels
// cannot multiply it.
func (m *Matrix) packGroup(t *tensor.Tensor, unit int, mem []byte) (large bool) {
	expert, first := unit/m.groups, unit%m.groups*groupRows
	if m.fam > packed { // columns that become rows
		for r := range min(groupRows, m.out-first) {
			copy(mem[r*m.size/groupRows:], t.Row(expert*m.out+first+r).Data)
		}
		return false
	}
	if m.fam == bf16x16 {
		var rows [groupRows][]byte
		count := min(groupRows, m.out-first)
		for r := range count {
			rows[r] = t.Row(expert*m.out + first + r).Data
		}
		packBF16(mem, rows[:count])
		return false
	}
	g := m.fam.group(mem, m.in/32)
	var floats []float32
	if n, _ := t.DType.Block(); n == 1 {
		floats = make([]float32, m.in)
	}
	for r := range min(groupRows, m.out-first) {
		row := t.Row(expert*m.out + first + r)
		if floats == nil {
			g.pack(r, row)
			continue
		}
		row.Floats(floats)
		g.packFloats(r, floats)
	}
	return m.fam == mx4 && g.large()
}

// part returns the memory of the rows that a worker of so many is to multiply: its part
// of the tasks, about; nothing if the rows are scattered.
func (m *Matrix) part(worker, workers int) []byte {
	switch {
	case m.mem != nil:
		return m.mem[worker*m.groups/workers*m.size : (worker+1)*m.groups/workers*m.size]
	case m.base != nil:
		from, to := worker*m.out/workers, (worker+1)*m.out/workers
		return unsafe.Slice((*byte)(m.row(0, from)), (to-from)*m.stride)
	}
	return nil
}

// unit returns row group i of all.
func (m *Matrix) unit(i int) group { return m.fam.group(m.mem[i*m.size:][:m.size:m.size], m.in/32) }

// group returns row group i of matrix e.
func (m *Matrix) group(e, i int) group {
	return m.unit(e*m.groups + i)
}

// row returns row i of matrix e of a family that keeps rows as stored.
func (m *Matrix) row(e, i int) unsafe.Pointer {
	if m.rows != nil {
		return m.rows[e*m.out+i]
	}
	return unsafe.Add(m.base, (e*m.pitch+i)*m.stride)
}

// Shape returns the number of matrices and their sides.
func (m *Matrix) Shape() (e, out, in int) { return m.e, m.out, m.in }

// Bytes returns what a product with the whole matrix reads.
func (m *Matrix) Bytes() int64 { return m.bytes }

// Level returns the instruction set that computes.
func (m *Matrix) Level() Level { return m.opt.Level }

// Use sets the instruction set that computes, which must be Available, and how it asks for
// weights, in one of its ways. No other method may be running.
func (m *Matrix) Use(l Level, f Fetch) {
	m.opt.Level, m.opt.Fetch = l, f
	if m.halves != nil {
		m.halves[0].Use(l, f)
		m.halves[1].Use(l, f)
	}
}

// Like reports whether the products of m and o are of one kind: layout, options and sides.
func (m *Matrix) Like(o *Matrix) bool {
	if m.halves != nil && o.halves != nil {
		return m.halves[0].Like(o.halves[0]) && m.halves[1].Like(o.halves[1])
	} else if m.halves != nil || o.halves != nil {
		return false
	}
	return m.fam == o.fam && m.opt == o.opt && m.out == o.out && m.in == o.in
}

// Close frees the packed form, unless it is somebody else's. No other method may be running or follow.
func (m *Matrix) Close() {
	if m.halves != nil {
		m.halves[0].Close()
		m.halves[1].Close()
	}
	if m.mem != nil && !m.mapped {
		Free(m.mem)
	}
	m.mem = nil
}

// Row writes row i of matrix e to dst [in], decoded exactly.
func (m *Matrix) Row(e, i int, dst []float32) {
	if e < 0 || e >= m.e || i < 0 || i >= m.out || len(dst) != m.in {
		panic(fmt.Sprintf("kern: row %d of matrix %d into %d floats; the stack is [%d, %d, %d]", i, e, len(dst), m.e, m.out, m.in))
	}
	if m.halves != nil {
		m.halves[i&1].Row(e, i>>1, dst)
		return
	}
	if m.fam <= packed {
		m.group(e, i/groupRows).floats(i%groupRows, dst)
		return
	}
	dtype := [...]tensor.DType{tensor.BF16, tensor.F16, tensor.F32}[m.fam-bf16]
	tensor.Row{DType: dtype, Data: unsafe.Slice((*byte)(m.row(e, i)), m.stride)}.Floats(dst)
}
