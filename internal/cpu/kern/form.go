package kern

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"

	"ossian/internal/tensor"
)

// A Form is what the bytes of a packed matrix depend on besides the weights. They are
// the same on every machine and with every instruction set, so that they can be kept in
// a file; a change of the layout changes the names in families.
type Form struct {
	Layout string // "mx4 [32 5760 2880]"
	Bytes  int64  // as PackedBytes
	Piece  int    // bytes of a piece for WritePacked; the last of a matrix may be shorter
}

// families are the names of the layouts in Form.Layout; those of rows as stored are for
// what was columns.
var families = [e4m3]string{bf16x16: "bf16x16", bf16: "bf16", f16: "f16", f32: "f32", mx4: "mx4", q4: "q4", q4m: "q4m", q4k: "q4k", q8: "q8", q5m: "q5m", q5k: "q5k", q6k: "q6k"}

// pieceBytes is about how much is packed, handed over and let go at a time by a worker.
const pieceBytes = 1 << 20

// FormOf returns the form in which Pack keeps t with these options, told by shape and
// type alone; Bytes is 0 for matrices that stay where t has them.
func FormOf(t *tensor.Tensor, o Options) Form {
	if PackedBytes(t, o) == 0 {
		return Form{}
	}
	matrix, err := newMatrix(t, Options{Q8: o.Q8, BF16: o.BF16})
	if err != nil {
		return Form{} // Pack says what is wrong
	}
	return Form{Layout: fmt.Sprintf("%s [%d %d %d]", families[matrix.fam], matrix.e, matrix.out, matrix.in), Bytes: matrix.bytes, Piece: matrix.piece() * matrix.size}
}

// piece returns the row groups of a piece.
func (m *Matrix) piece() int { return max(1, pieceBytes/m.size) }

// WritePacked gives write the packed form of t, which FormOf says is packed, in pieces:
// each once, several at a time, in no order; piece i begins at byte i·Form.Piece, and data
// is write's until it returns. Whether kernels cannot multiply some of the weights is for
// Map. The first error ends it. Sources that were read are told so, as by Pack.
func WritePacked(t *tensor.Tensor, o Options, pool *Pool, write func(piece int, data []byte) error) (decode bool, err error) {
	matrix, err := newMatrix(t, o)
	if err != nil {
		return false, err
	}
	var large atomic.Bool
	var mu sync.Mutex // guards err while the pool runs
	bufs := make([][]byte, pool.Workers())
	units, per := matrix.e*matrix.groups, matrix.piece()
	pieces := (units + per - 1) / per
	// A run of the pool is step pieces; between runs, what was read of t is let go.
	step := max(1, packedAtOnce/(groupRows*t.DType.RowBytes(matrix.in)*per))
	for from := 0; from < pieces && err == nil; from += step {
		pool.Run(min(step, pieces-from), func(worker, chunk int) {
			first := (from + chunk) * per
			groups := min(per, units-first)
			if bufs[worker] == nil {
				bufs[worker] = make([]byte, per*matrix.size)
			}
			data := bufs[worker][:groups*matrix.size]
			clear(data)
			for i := range groups {
				if matrix.packGroup(t, first+i, data[i*matrix.size:][:matrix.size:matrix.size]) {
					large.Store(true)
				}
			}
			if failed := write(from+chunk, data); failed != nil {
				mu.Lock()
				defer mu.Unlock()
				err = failed
			}
		})
		t.Release()
	}
	return large.Load(), err
}

// Map makes a Matrix of mem, which WritePacked made of t with options of the same Form;
// decode is what it returned. mem must start at a multiple of 64 bytes and outlive the
// matrix. Nothing of t is read.
func Map(t *tensor.Tensor, o Options, mem []byte, decode bool) (*Matrix, error) {
	matrix, err := newMatrix(t, o)
	if err != nil {
		return nil, err
	}
	if matrix.size == 0 || int64(len(mem)) != matrix.bytes {
		return nil, fmt.Errorf("tensor %q: %d bytes of a packed form, expected %d", t.Name, len(mem), FormOf(t, o).Bytes)
	}
	matrix.use(mem)
	matrix.mapped = true
	matrix.opt.Exact = matrix.opt.Exact || decode
	return matrix, nil
}

// Resembles reports whether the first and the last row group of a packed matrix are what
// t is packed to.
func (m *Matrix) Resembles(t *tensor.Tensor) bool {
	mem := make([]byte, m.size)
	for _, unit := range []int{0, m.e*m.groups - 1} {
		clear(mem)
		m.packGroup(t, unit, mem)
		if !bytes.Equal(mem, m.mem[unit*m.size:][:m.size]) {
			return false
		}
	}
	return true
}
