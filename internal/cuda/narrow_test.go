package cuda

import (
	"math"
	"math/rand/v2"
	"testing"

	"ossian/internal/cuda/driver"
)

// TestNarrow rounds rows to bf16 and holds every element to the definition: nearest, ties to even,
// zeros behind the width.
func TestNarrow(t *testing.T) {
	type narrowArgs struct {
		dst, src      driver.Ptr
		width, stride int32
	}
	const rows = 3
	for _, width := range []int{1, 63, 64, 200} {
		stride := (width + 63) / 64 * 64
		rng := rand.New(rand.NewPCG(1, uint64(width)))
		values := make([]float32, rows*stride)
		for i := range values {
			values[i] = math.Float32frombits(rng.Uint32()>>1&^0x4000_0000 | uint32(i&1)<<31)
		}
		values[0] = math.Float32frombits(0x3f80_8000) // a tie, to even below
		r := newRig(t)
		args := narrowArgs{r.alloc(rows * stride * 2), upload(r, values), int32(width), int32(stride)}
		launch(r.q, "narrow", driver.Dim3{X: rows, Y: 1, Z: 1}, 128, 0, &args)
		for i, got := range download[uint16](r, args.dst, rows*stride) {
			want := uint16(0)
			if i%stride < width {
				bits := math.Float32bits(values[i])
				want = uint16((bits + 0x7fff + bits>>16&1) >> 16)
			}
			if got != want {
				t.Fatalf("width %d: element %d of %g is %#x, want %#x", width, i, values[i], got, want)
			}
		}
	}
}
