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

// families are the names of the packed layouts in Form.Layout.
var families = [packed]string{mx4: "mx4", q4: "q4", q4m: "q4m", q4k: "q4k", q8: "q8", q5k: "q5k", q6k: "q6k"}

// pieceBytes is about how much is packed, handed over and let go at a time by a worker.
const pieceBytes = 1 << 20

// FormOf returns the form in which Pack keeps t with these options, told by shape and
// type alone; Bytes is 0 for matrices that stay where t has them.
func FormOf(t *tensor.Tensor, o Options) Form {
	if PackedBytes(t, o) == 0 {
		return Form{}
	}
	m, err := newMatrix(t, Options{Q8: o.Q8})
	if err != nil {
		return Form{} // Pack says what is wrong
	}
	return Form{Layout: fmt.Sprintf("%s [%d %d %d]", families[m.fam], m.e, m.out, m.in), Bytes: m.bytes, Piece: m.piece() * m.size}
}

// piece returns the row groups of a piece.
func (m *Matrix) piece() int { return max(1, pieceBytes/m.size) }

// WritePacked gives write the packed form of t, which FormOf says is packed, in pieces:
// each once, several at a time, in no order; piece i begins at byte i·Form.Piece, and b
// is write's until it returns. Whether kernels cannot multiply some of the weights is for
// Map. The first error ends it. Sources that were read are told so, as by Pack.
func WritePacked(t *tensor.Tensor, o Options, p *Pool, write func(piece int, b []byte) error) (decode bool, err error) {
	m, err := newMatrix(t, o)
	if err != nil {
		return false, err
	}
	var large atomic.Bool
	var mu sync.Mutex
	bufs := make([][]byte, p.Workers())
	units, per := m.e*m.groups, m.piece()
	pieces := (units + per - 1) / per
	step := max(1, packedAtOnce/(groupRows*t.DType.RowBytes(m.in)*per))
	for from := 0; from < pieces && err == nil; from += step {
		p.Run(min(step, pieces-from), func(worker, c int) {
			first := (from + c) * per
			n := min(per, units-first)
			if bufs[worker] == nil {
				bufs[worker] = make([]byte, per*m.size)
			}
			b := bufs[worker][:n*m.size]
			clear(b)
			for i := range n {
				if m.packGroup(t, first+i, m.fam.group(b[i*m.size:][:m.size:m.size], m.in/32)) {
					large.Store(true)
				}
			}
			if failed := write(from+c, b); failed != nil {
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
	m, err := newMatrix(t, o)
	if err != nil {
		return nil, err
	}
	if m.fam >= packed || int64(len(mem)) != m.bytes {
		return nil, fmt.Errorf("tensor %q: %d bytes of a packed form, expected %d", t.Name, len(mem), FormOf(t, o).Bytes)
	}
	m.mem, m.mapped = mem, true
	m.opt.Exact = m.opt.Exact || decode
	return m, nil
}

// Resembles reports whether the first and the last row group of a packed matrix are what
// t is packed to.
func (m *Matrix) Resembles(t *tensor.Tensor) bool {
	mem := make([]byte, m.size)
	for _, i := range []int{0, m.e*m.groups - 1} {
		clear(mem)
		m.packGroup(t, i, m.fam.group(mem, m.in/32))
		if !bytes.Equal(mem, m.mem[i*m.size:][:m.size]) {
			return false
		}
	}
	return true
}
