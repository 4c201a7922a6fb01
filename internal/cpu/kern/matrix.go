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
// BF16, F16 and F32 stay where the tensor has them, which must outlive the
// matrix. Quantised types, and with Options.Q8 all, are repacked outside the Go
// heap.
type Matrix struct {
	e, out, in int
	fam        family
	opt        Options
	bytes      int64

	mem    []byte // packed families: row groups, those of matrix 0 first
	mapped bool   // mem belongs to somebody else
	groups int    // row groups per matrix
	size   int    // bytes of a row group

	base   unsafe.Pointer   // rows as stored: row i at base + i·stride …
	stride int              // bytes
	rows   []unsafe.Pointer // … or, if they are scattered, at rows[i]
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
	if matrix.fam >= packed {
		matrix.refer(t)
		return matrix, nil
	}
	if matrix.mem, err = alloc(int(matrix.bytes)); err != nil {
		return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	matrix.pack(t, pool)
	return matrix, nil
}

// newMatrix checks t and lays out its matrix, which has no contents yet.
func newMatrix(t *tensor.Tensor, o Options) (*Matrix, error) {
	fam, ok := familyOf(t.DType)
	if !ok {
		return nil, fmt.Errorf("tensor %q: type %v has no matrix kernel; expected F32, F16, BF16, MXFP4, Q8_0, Q4_0, Q4_1, Q4_K, Q5_K or Q6_K", t.Name, t.DType)
	}
	if !o.Level.Available() {
		return nil, fmt.Errorf("tensor %q: kernels for %v asked for, this machine or build has at most %v", t.Name, o.Level, Detect())
	}
	matrix := &Matrix{e: 1, fam: fam, opt: o}
	switch shape := t.Shape; len(shape) {
	case 2:
		matrix.out, matrix.in = shape[0], shape[1]
	case 3:
		matrix.e, matrix.out, matrix.in = shape[0], shape[1], shape[2]
	}
	block, _ := t.DType.Block()
	if o.Q8 && fam >= packed {
		matrix.fam, block = q8, 32
	}
	if matrix.e < 1 || matrix.out < 1 || matrix.in < 1 || matrix.in%block != 0 {
		return nil, fmt.Errorf("tensor %q: shape %v of %v; expected [out, in] or [experts, out, in], rows of whole blocks of %d", t.Name, t.Shape, t.DType, block)
	}
	if matrix.fam < packed {
		matrix.groups = (matrix.out + groupRows - 1) / groupRows
		matrix.size = matrix.fam.groupBytes(matrix.in / 32)
		matrix.bytes = int64(matrix.e) * int64(matrix.groups) * int64(matrix.size)
	}
	return matrix, nil
}

// refer takes the rows where they are.
func (m *Matrix) refer(t *tensor.Tensor) {
	m.stride = t.DType.RowBytes(m.in)
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
			if m.packGroup(t, from+chunk, m.unit(from+chunk)) {
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

// packGroup packs a row group of all into the zeroed g, and reports whether the kernels
// cannot multiply it.
func (m *Matrix) packGroup(t *tensor.Tensor, unit int, g group) (large bool) {
	expert, first := unit/m.groups, unit%m.groups*groupRows
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
	return unsafe.Add(m.base, (e*m.out+i)*m.stride)
}

// Shape returns the number of matrices and their sides.
func (m *Matrix) Shape() (e, out, in int) { return m.e, m.out, m.in }

// Bytes returns what a product with the whole matrix reads.
func (m *Matrix) Bytes() int64 { return m.bytes }

// Level returns the instruction set that computes.
func (m *Matrix) Level() Level { return m.opt.Level }

// Use sets the instruction set that computes, which must be Available. No other method may
// be running.
func (m *Matrix) Use(l Level) { m.opt.Level = l }

// Like reports whether the products of m and o are of one kind: layout, options and sides.
func (m *Matrix) Like(o *Matrix) bool {
	return m.fam == o.fam && m.opt == o.opt && m.out == o.out && m.in == o.in
}

// Close frees the packed form, unless it is somebody else's. No other method may be running or follow.
func (m *Matrix) Close() {
	if m.mem != nil && !m.mapped {
		free(m.mem)
	}
	m.mem = nil
}

// Row writes row i of matrix e to dst [in], decoded exactly.
func (m *Matrix) Row(e, i int, dst []float32) {
	if e < 0 || e >= m.e || i < 0 || i >= m.out || len(dst) != m.in {
		panic(fmt.Sprintf("kern: row %d of matrix %d into %d floats; the stack is [%d, %d, %d]", i, e, len(dst), m.e, m.out, m.in))
	}
	if m.fam < packed {
		m.group(e, i/groupRows).floats(i%groupRows, dst)
		return
	}
	dtype := [...]tensor.DType{tensor.BF16, tensor.F16, tensor.F32}[m.fam-bf16]
	tensor.Row{DType: dtype, Data: unsafe.Slice((*byte)(m.row(e, i)), m.stride)}.Floats(dst)
}
