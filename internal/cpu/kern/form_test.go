package kern

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"ossian/internal/tensor"
)

// written returns what WritePacked gives for w, put together.
func written(t *testing.T, w *tensor.Tensor, o Options, p *Pool) (mem []byte, decode bool) {
	t.Helper()
	f := FormOf(w, o)
	var mu sync.Mutex
	seen := map[int]bool{}
	mem = make([]byte, f.Bytes)
	decode, err := WritePacked(w, o, p, func(i int, b []byte) error {
		mu.Lock()
		defer mu.Unlock()
		if seen[i] || (len(b) != f.Piece && int64(i*f.Piece+len(b)) != f.Bytes) {
			t.Errorf("%s: piece %d, %d bytes of %d, seen before: %v", w.Name, i, len(b), f.Piece, seen[i])
		}
		seen[i] = true
		copy(mem[i*f.Piece:], b)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := (f.Bytes + int64(f.Piece) - 1) / int64(f.Piece); int64(len(seen)) != want {
		t.Errorf("%s: %d pieces, want %d", w.Name, len(seen), want)
	}
	return mem, decode
}

// TestWritePacked: the pieces of every packed family are the bytes that Pack makes, on
// every level, and a matrix of them multiplies to the same bits.
func TestWritePacked(t *testing.T) {
	p := NewPool(2)
	defer p.Close()
	for _, dt := range dtypes {
		for _, shape := range [][3]int{{1, 1, 256}, {3, 37, 512}, {2, 1100, 1024}} {
			rng := rand.New(rand.NewPCG(11, uint64(dt)))
			w := randomTensor(rng, dt, shape[0], shape[1], shape[2])
			var first []byte
			for _, l := range levels() {
				o := Options{Level: l, Q8: dt != tensor.BF16, BF16: true}
				m := pack(t, w, o, p)
				mem, decode := written(t, w, o, p)
				if !bytes.Equal(mem, m.mem) {
					t.Fatalf("%s %v %v: other bytes than Pack's", w.Name, shape, l)
				}
				if first == nil {
					first = bytes.Clone(mem)
				} else if !bytes.Equal(first, mem) {
					t.Fatalf("%s %v: other bytes with %v", w.Name, shape, l)
				}
				got, err := Map(w, o, mem, decode)
				if err != nil {
					t.Fatal(err)
				}
				in, out := shape[2], shape[1]
				x := randomFloats(rng, 3*in)
				var a Acts
				a.Set(x, 3, in)
				y, z := make([]float32, 3*out), make([]float32, 3*out)
				m.Mul(p, y, &a, nil, []Job{{E: shape[0] - 1}})
				got.Mul(p, z, &a, nil, []Job{{E: shape[0] - 1}})
				if !slices.Equal(y, z) {
					t.Errorf("%s %v %v: the mapped matrix multiplies to other bits", w.Name, shape, l)
				}
				if !got.Resembles(w) {
					t.Errorf("%s %v %v: does not resemble what it was made of", w.Name, shape, l)
				}
				mem[len(mem)-m.size] ^= 1
				if got.Resembles(w) {
					t.Errorf("%s %v %v: a changed byte of the last row group was not seen", w.Name, shape, l)
				}
				got.Close()
			}
		}
	}
}

// A scale too large for the kernels is remembered.
func TestWritePackedLarge(t *testing.T) {
	p := NewPool(1)
	defer p.Close()
	w := randomTensor(rand.New(rand.NewPCG(1, 1)), tensor.MXFP4HF, 1, 20, 64)
	w.Scales[31] = 230
	mem, decode := written(t, w, Options{}, p)
	m, err := Map(w, Options{}, mem, decode)
	if err != nil || !decode || !m.opt.Exact {
		t.Errorf("decode %v, exact %v, %v", decode, m.opt.Exact, err)
	}
}

// Errors of write, shapes and sizes.
func TestWritePackedErrors(t *testing.T) {
	p := NewPool(2)
	defer p.Close()
	w := randomTensor(rand.New(rand.NewPCG(1, 1)), tensor.Q8_0, 1, 64, 64)
	full := errors.New("the disk is full")
	if _, err := WritePacked(w, Options{}, p, func(int, []byte) error { return full }); !errors.Is(err, full) {
		t.Errorf("the error of write became %v", err)
	}
	if _, err := Map(w, Options{}, make([]byte, 100), false); err == nil {
		t.Error("100 bytes were taken for a matrix")
	}
	w.Shape = []int{64}
	if _, err := WritePacked(w, Options{}, p, nil); err == nil {
		t.Error("a vector was packed")
	}
	for dt, q8 := range map[tensor.DType]bool{tensor.BF16: false, tensor.U8: true} {
		v := &tensor.Tensor{Name: "v", DType: dt, Shape: []int{4, 64}}
		if f := FormOf(v, Options{Q8: q8}); f != (Form{}) {
			t.Errorf("%v: form %+v, want none", dt, f)
		}
	}
}
