package cpu

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"ossian/internal/model"
	"ossian/internal/model/modeltest"
	"ossian/internal/tensor"
)

// TestEightBits says which matrices of floats are kept in 8 bits.
func TestEightBits(t *testing.T) {
	mixture := &model.Spec{Hidden: 2880, FFN: model.FFN{Experts: 32}}
	dense := &model.Spec{Hidden: 2880}
	small := &model.Spec{Hidden: 256, FFN: model.FFN{Experts: 32}}
	for _, tt := range []struct {
		name        string
		spec        *model.Spec
		dtype       tensor.DType
		shape       []int
		exact       bool
		auto, asked bool
	}{
		{"projection of a mixture", mixture, tensor.BF16, []int{4096, 2880}, false, true, true},
		{"the same in float32", mixture, tensor.F32, []int{4096, 2880}, false, true, true},
		{"with exact activations", mixture, tensor.BF16, []int{4096, 2880}, true, false, true},
		{"router", mixture, tensor.BF16, []int{32, 2880}, false, false, false},
		{"experts", mixture, tensor.BF16, []int{32, 5760, 2880}, false, false, true},
		{"quantised experts", mixture, tensor.MXFP4, []int{32, 5760, 2880}, false, false, false},
		{"rows of broken blocks", mixture, tensor.BF16, []int{4096, 2896}, false, false, false},
		{"narrow mixture", small, tensor.BF16, []int{512, 256}, false, false, true},
		{"dense model", dense, tensor.F16, []int{4096, 2880}, false, false, true},
	} {
		w := &tensor.Tensor{Name: tt.name, DType: tt.dtype, Shape: tt.shape}
		for weights, want := range map[string]bool{"auto": tt.auto, "q8": tt.asked, "bf16": false} {
			d := &Device{spec: tt.spec, cfg: Config{Weights: weights, Exact: tt.exact}}
			if got := d.eightBits(w); got != want {
				t.Errorf("%s, %s: %v, want %v", tt.name, weights, got, want)
			}
		}
	}
}

// TestEightBitWeights: 8-bit weights move logits a little, whatever the chunks, and
// leave routers as they are; narrow models have them only if asked.
func TestEightBitWeights(t *testing.T) {
	for family, o := range map[string]modeltest.Options{
		"gpt-oss": {Matrix: tensor.BF16}, "qwen3": {Matrix: tensor.F16, Tied: true}, "llama": {Matrix: tensor.F32},
	} {
		t.Run(family, func(t *testing.T) {
			s, params := tinyModel(family, o)
			rng := rand.New(rand.NewPCG(9, 9))
			ids := make([]int32, 40)
			for i := range ids {
				ids[i] = int32(rng.IntN(s.Vocab))
			}
			run := func(weights string, chunk int) []float32 {
				got := logitsOf(t, s, params, Config{Threads: 2, Weights: weights}, ids, chunk, func(d *Device) {
					router := int64(s.Layers * s.FFN.Experts * o.Matrix.RowBytes(s.Hidden))
					if types := d.Memory().Types; weights == "q8" && (types[tensor.Q8_0] == 0 || types[o.Matrix] != router) {
						t.Errorf("bytes by type %v, want %d of %v for routers and the rest in Q8_0", types, router, o.Matrix)
					} else if weights != "q8" && types[tensor.Q8_0] != 0 {
						t.Errorf("%q: bytes by type %v", weights, types)
					}
				})
				return got[len(ids)-1]
			}
			stored, eight := run("bf16", 40), run("q8", 40)
			if !slices.Equal(stored, run("", 40)) {
				t.Error("a narrow model is not as stored by default")
			}
			if !slices.Equal(eight, run("q8", 7)) {
				t.Error("logits of 8-bit weights depend on chunks")
			}
			var diff, size float64
			for i, v := range stored {
				diff += math.Pow(float64(v-eight[i]), 2)
				size += math.Pow(float64(v), 2)
			}
			if l2 := math.Sqrt(diff / size); !(l2 > 0 && l2 < 0.05) {
				t.Errorf("8-bit weights move logits by a relative L2 of %.2g", l2)
			}
		})
	}
}
