package cuda

import (
	"math/rand/v2"
	"slices"
	"testing"

	"ossian/internal/cuda/driver"
	"ossian/internal/cuda/kernels"
	"ossian/internal/tensor"
)

// A loop that did nothing would look like the fastest of all cards: these tests hold what
// kernels/measure.cu and measure90.cu compute to plain loops. Numbers are whole and small, so sums are
// exact in any order.

// wholeNumbers returns n whole numbers in bf16, and what they are.
func wholeNumbers(rng *rand.Rand, n int) (bits []uint16, values []float32) {
	for range n {
		v := float32(rng.IntN(9) - 4)
		bits, values = append(bits, tensor.ToBF16(v)), append(values, v)
	}
	return bits, values
}

// TestMeasureMemory: what was read is what is there, and a copy is one, also where pieces are no multiple
// of what threads take at once.
func TestMeasureMemory(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 1))
	for _, pieces := range []int{1, 511, 4 * 512, 9*512 + 77} {
		r := newRig(t)
		data := make([]uint32, 4*pieces)
		for i := range data {
			data[i] = rng.Uint32()
		}
		args := measureArgs{src: upload(r, data), dst: r.alloc(16 * max(pieces, 512)), pieces: uint64(pieces)}
		launch(r.q, "measure_copy", driver.Dim3{X: 2, Y: 1, Z: 1}, 256, 0, &args)
		if !slices.Equal(download[uint32](r, args.dst, len(data)), data) {
			t.Errorf("%d pieces: the copy differs", pieces)
		}
		launch(r.q, "measure_read", driver.Dim3{X: 2, Y: 1, Z: 1}, 256, 0, &args)
		want := make([]uint32, 4*512)
		for i, v := range data {
			want[i%len(want)] ^= v
		}
		if !slices.Equal(download[uint32](r, args.dst, len(want)), want) {
			t.Errorf("%d pieces: threads read something else", pieces)
		}
	}
}

// fragmentsOf lays rows of 16 k out as lanes hold them as A (common.cuh): 16 rows, 8 elements a lane.
func fragmentsOf(rows []uint16) (lanes []uint16) {
	for lane := range 32 {
		g, k := lane/4, 2*(lane%4)
		for _, at := range [][2]int{{g, k}, {g + 8, k}, {g, k + 8}, {g + 8, k + 8}} {
			lanes = append(lanes, rows[16*at[0]+at[1]], rows[16*at[0]+at[1]+1])
		}
	}
	return lanes
}

// TestMeasureMMA compares sums of products by warps.
func TestMeasureMMA(t *testing.T) {
	const rounds, warps = 3, 8
	rng := rand.New(rand.NewPCG(31, 2))
	a, aValues := wholeNumbers(rng, 16*16)
	b, bValues := wholeNumbers(rng, 64*16) // eight times eight columns of 16 k
	src := fragmentsOf(a)
	for lane := range 32 {
		for column := lane / 4; column < 64; column += 8 {
			k := 16*column + 2*(lane%4)
			src = append(src, b[k], b[k+1], b[k+8], b[k+9])
		}
	}
	r := newRig(t)
	args := measureArgs{src: upload(r, src), dst: r.alloc(32 * warps * 128), rounds: rounds}
	launch(r.q, "measure_mma", driver.Dim3{X: 1, Y: 1, Z: 1}, 32*warps, 0, &args)
	for i, got := range download[float32](r, args.dst, 32*warps*32) {
		lane, product, c := i/32%32, i/4%8, i%4
		row, column := lane/4+c/2*8, 8*product+2*(lane%4)+c%2
		want := float32(0)
		for k := range 16 {
			want += rounds * aValues[16*row+k] * bValues[16*column+k]
		}
		if got != want {
			t.Fatalf("lane %d, product %d, element %d: %v, want %v", lane, product, c, got, want)
		}
	}
}

// TestMeasureHopper compares sums of products by warpgroups.
func TestMeasureHopper(t *testing.T) {
	const rounds, tokens = 7, 128 // more than the compiler takes at a time, and a rest
	r := newHopper(t)
	rng := rand.New(rand.NewPCG(31, 3))
	x, xValues := wholeNumbers(rng, tokens*64)
	src := x
	var weights [4][]float32
	for step := range weights {
		rows, values := wholeNumbers(rng, 16*16)
		src, weights[step] = append(src, fragmentsOf(rows)...), values
	}
	for _, module := range kernels.Modules() {
		if module.Name == "measure90" {
			loaded, err := r.drv.ModuleLoad(module.PTX)
			r.must(err)
			r.q.modules[module.Name] = loaded
			r.q.functions["measure_wgmma"], err = r.drv.GetFunction(loaded, "measure_wgmma")
			r.must(err)
		}
	}
	args := measureArgs{src: upload(r, src), dst: r.alloc(256 * tokens / 2 * 4), rounds: rounds}
	launch(r.q, "measure_wgmma", driver.Dim3{X: 1, Y: 1, Z: 1}, 256, 0, &args)
	for i, got := range download[float32](r, args.dst, 256*tokens/2) {
		lane, at, c := i/(tokens/2)%32, i/4%(tokens/8), i%4
		row, token := lane/4+c/2*8, 8*at+2*(lane%4)+c%2
		want := float32(0)
		for k := range 64 {
			want += rounds * weights[k/16][16*row+k%16] * xValues[64*token+k]
		}
		if got != want {
			t.Fatalf("lane %d, tokens from %d, element %d: %v, want %v", lane, 8*at, c, got, want)
		}
	}
}
