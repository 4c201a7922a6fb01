package kern

import (
	"math"
	"slices"
	"testing"

	"ossian/internal/tensor"
)

// FuzzPack packs arbitrary bytes as every block type: rows must decode to what
// tensor.Row.Floats makes of them, and all levels must survive the product with
// the same bits in all assembly levels.
func FuzzPack(f *testing.F) {
	for i := range dtypes {
		f.Add(uint8(i), []byte{1, 0x3c, 0xff, 0x80, 0x7f, byte(i)})
	}
	f.Add(uint8(4), []byte{0})
	p := NewPool(1)
	f.Cleanup(p.Close)
	f.Fuzz(func(t *testing.T, kind uint8, seed []byte) {
		if len(seed) == 0 {
			return
		}
		dt := dtypes[int(kind)%len(dtypes)]
		const out, in = 17, 256
		fill := func(n int) []byte { return slices.Repeat(seed, n/len(seed)+1)[:n] }
		w := &tensor.Tensor{Name: "fuzz", DType: dt, Shape: []int{out, in}, Data: fill(out * dt.RowBytes(in))}
		if dt == tensor.MXFP4HF {
			w.Scales = fill(out * in / 32)
		}
		x := make([]float32, in)
		for i := range x {
			x[i] = float32(int8(seed[i%len(seed)])) / float32(i+1)
		}
		var y [I8MM + 1][out]float32
		for _, l := range levels() {
			m := pack(t, w, Options{Level: l}, p)
			checkRows(t, m, w)
			var a Acts
			a.Set(x, 1, in)
			m.Mul(p, y[l][:], &a, nil, []Job{{}})
		}
		for _, l := range levels()[1:] {
			for i := range out {
				a, b := y[exact()][i], y[l][i]
				if math.Float32bits(a) != math.Float32bits(b) && !(a != a && b != b) {
					t.Fatalf("%s, element %d: %v gives %x and %v %x", name(dt), i, exact(), a, l, b)
				}
			}
		}
	})
}

func checkRows(t *testing.T, m *Matrix, w *tensor.Tensor) {
	t.Helper()
	got, want := make([]float32, m.in), make([]float32, m.in)
	for i := range m.e * m.out {
		m.Row(i/m.out, i%m.out, got)
		w.Row(i).Floats(want)
		for k := range got {
			if got[k] != want[k] && !(got[k] != got[k] && want[k] != want[k]) {
				t.Fatalf("%s, row %d, element %d: got %v, want %v", w.Name, i, k, got[k], want[k])
			}
		}
	}
}
