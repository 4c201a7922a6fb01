package tensor

import (
	"math"
	"testing"
)

// Any bytes decode, to what the formulas of formats.md 4 say.
func FuzzFloats(f *testing.F) {
	f.Add(byte(MXFP4), make([]byte, 34))
	f.Add(byte(MXFP4HF), []byte("0123456789abcdef\xff"))
	f.Add(byte(Q6_K), make([]byte, 210))
	f.Add(byte(Q4_K), []byte("seed"))
	f.Fuzz(func(t *testing.T, kind byte, data []byte) {
		dt := F32 + DType(kind)%(Q6_K-F32+1)
		elems, size := dt.Block()
		row := Row{DType: dt, Data: data[:len(data)/size*size]}
		if dt == MXFP4HF {
			blocks := len(data) / (size + 1)
			row = Row{DType: dt, Data: data[:blocks*size], Scales: data[blocks*size:][:blocks]}
		}
		got := make([]float32, row.Len())
		row.Floats(got)
		for i, v := range got {
			if dt < MXFP4 {
				break // TestHalf and TestBF16 know all their values
			}
			scale := byte(127)
			if dt == MXFP4HF {
				scale = row.Scales[i/elems]
			}
			want := float32(element(dt, row.Data[i/elems*size:][:size], scale, i%elems))
			if (dt == MXFP4 && row.Data[i/elems*size] == 255) || scale == 255 {
				want = float32(math.NaN())
			}
			if v != want && (v == v || want == want) {
				t.Fatalf("%v element %d is %v, want %v", dt, i, v, want)
			}
		}
	})
}
