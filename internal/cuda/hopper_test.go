package cuda

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"ossian/internal/cuda/driver"
	"ossian/internal/cuda/emu"
	"ossian/internal/cuda/kernels"
	"ossian/internal/tensor"
)

// onHopper makes q find a kernel in the module for sm_90a, which launch does not: these kernels are
// unproven until a card has run them.
func onHopper(r *rig, kernel string) {
	r.t.Helper()
	for _, module := range kernels.Modules() {
		if module.Name == "product_wgmma" && module.Arch == "90a" {
			if _, ok := r.q.modules[module.Name]; !ok {
				loaded, err := r.drv.ModuleLoad(module.PTX)
				r.must(err)
				r.q.modules[module.Name] = loaded
			}
			function, err := r.drv.GetFunction(r.q.modules[module.Name], kernel)
			r.must(err)
			r.q.functions[kernel] = function
		}
	}
}

// boxes describes rows of bf16 of which boxes of 64 × rows are copied.
func boxes(r *rig, at driver.Ptr, width, stride, count, rows int) driver.TensorMap {
	r.t.Helper()
	described, err := r.drv.EncodeTensor(&driver.TensorBox{Base: at, Size: [2]uint64{uint64(width), uint64(count)}, Stride: uint64(2 * stride),
		Box: [2]uint32{64, uint32(rows)}, Swizzle128: true, ElementType: driver.BFloat16})
	r.must(err)
	return described
}

// runHopper returns what a kernel for tiles of some tokens makes of the first tokens of x. plain are rows
// of weights in bf16 for wgmma_plain, else none.
func runHopper(r *rig, kernel string, tile int, x activations, w *matrix, plain, bias driver.Ptr, tokens int) [][]float32 {
	r.t.Helper()
	onHopper(r, kernel)
	stride := pad64(w.rows)
	dst := r.alloc(4 * tokens * stride)
	r.must(r.drv.SetAsync(dst, 0xff, uint64(4*tokens*stride), r.q.stream))
	args := tensorProductArgs{x: boxes(r, x.at, x.stride, x.stride, tokens, tile)}
	stage := tile * 128
	if plain != 0 {
		args.weights = boxes(r, plain, pad64(w.cols), pad64(w.cols), w.rows, 64)
		stage += 128 * 128
	}
	args.product = productArgs{dst: dst, weights: w.data, lift: w.lift, bias: bias, rows: int32(w.rows), units: int32(w.units()), chunks: int32(w.chunks()),
		tokens: int32(tokens), dstStride: int32(stride)}
	launch(r.q, kernel, driver.Dim3{X: uint32(ceil(w.rows, 128)), Y: uint32(ceil(tokens, tile)), Z: 1}, 288, uint32(4*stage+1024), &args)
	return rowsOf(download[float32](r, dst, tokens*stride), w.rows, stride)
}

// major is the compute capability of the rig's card.
func (r *rig) major() int {
	r.t.Helper()
	device, err := r.drv.DeviceGet(0)
	r.must(err)
	major, err := r.drv.DeviceAttribute(device, driver.ComputeMajor)
	r.must(err)
	return major
}

// TestHopper compares products by warpgroups with float64, and the bits of all tiles.
func TestHopper(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	for _, dtype := range []tensor.DType{tensor.MXFP4HF, tensor.BF16} {
		for _, shape := range [][2]int{{40, 96}, {200, 1056}} {
			rows, cols := shape[0], shape[1]
			t.Run(fmt.Sprintf("%v/%dx%d", dtype, rows, cols), func(t *testing.T) {
				r := newRigOn(t, emu.Card{Major: 9, SharedOptin: 232448})
				if r.major() != 9 {
					t.Skip("this card is no Hopper")
				}
				source, weights := encoded(t, dtype, normals(rng, rows*cols, 1), rows, cols)
				w, bias := onCard(r, source, false), normals(rng, rows, 1)
				x := newActivations(r, normals(rng, 130*cols, 1), cols)
				biasAt := upload(r, bias)
				all := runHopper(r, "wgmma_"+w.format.name+"_128", 128, x, w, 0, biasAt, 130)
				for token, row := range all {
					want, bound := make([]float64, rows), make([]float64, rows)
					for i := range want {
						want[i], bound[i] = product(weights[i*cols:][:cols], x.rows[token], float64(bias[i]))
					}
					compare(t, fmt.Sprint("token ", token), row, want, bound)
				}
				for _, tokens := range []int{1, 37} {
					for i, row := range runHopper(r, "wgmma_"+w.format.name+"_8", 8, x.from(29), w, 0, biasAt, tokens) {
						sameBits(t, fmt.Sprintf("tile of 8, token %d of %d", i, tokens), row, all[29+i])
					}
				}
				if dtype == tensor.BF16 {
					plain := newActivations(r, weights, cols)
					for i, row := range runHopper(r, "wgmma_plain_128", 128, x, w, plain.at, biasAt, 130) {
						sameBits(t, fmt.Sprint("plain weights, token ", i), row, all[i])
					}
				}
			})
		}
	}
}
