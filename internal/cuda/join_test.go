package cuda

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"ossian/internal/cuda/driver"
	"ossian/internal/cuda/emu"
	"ossian/internal/model"
	"ossian/internal/model/modeltest"
	"ossian/internal/runner"
	"ossian/internal/sample"
	"ossian/internal/tensor"
)

// TestJoinRows copies rows of each form into columns of each: widths on both sides of a block's, rows one
// by one and by number, with a tail that becomes zero and without. Nothing else is written.
func TestJoinRows(t *testing.T) {
	r, rng := newRig(t), rand.New(rand.NewPCG(1, 6))
	const kept = 0x4040 // of bytes that nobody writes: 3 and a bit in either form
	for _, width := range []int{1, 255, 256, 257, 600} {
		for _, index := range [][]int32{nil, {2, 0, 2}} {
			x := normal(rng, 3*width, 1)
			for i, v := range x {
				if x[i] = tensor.BF16ToFloat(tensor.ToBF16(v)); i%7 == 0 {
					x[i] = v // which bf16 has to round
				}
			}
			stride, col, tail := rowStride(width)+64, 5, 3
			for dst := range joinKernels {
				for src := range joinKernels[dst] {
					size := func(of int) int { return map[form]int{asFloat32: 4, asBF16: 2}[form(of)] }
					at := upload(r, slices.Repeat([]uint16{kept}, 3*stride*size(dst)/2))
					args := joinArgs{dst: at + driver.Ptr(col*size(dst)), src: r.uploadRows(x, width), width: int32(width), tail: int32(tail), dstStride: int32(stride), srcStride: int32(rowStride(width))}
					if form(src) == asBF16 {
						wide := args.src
						args.src = r.alloc(3 * rowStride(width) * 2)
						r.q.narrow(args.src, wide, width, 3)
					}
					if index != nil {
						args.index = upload(r, index)
					}
					r.q.join(args, form(dst), form(src), 3)
					got := download[uint16](r, at, 3*stride*size(dst)/2)
					for i, have := range got {
						row, column := i*2/size(dst)/stride, i*2/size(dst)%stride-col
						want := uint32(kept<<16 | kept)
						switch {
						case column >= 0 && column < width:
							if index != nil {
								row = int(index[row])
							}
							want = math.Float32bits(x[row*width+column])
							if form(src) == asBF16 || form(dst) == asBF16 {
								want = uint32(tensor.ToBF16(x[row*width+column])) << 16
							}
						case column >= width && column < width+tail:
							want = 0
						}
						half := want >> 16
						if form(dst) == asFloat32 {
							half = want >> (16 * (i % 2)) & 0xffff
						}
						if uint32(have) != half {
							t.Fatalf("%s, width %d, index %v: half word %d is %#04x, want %#04x of %#08x", joinKernels[dst][src], width, index, i, have, half, want)
						}
					}
				}
			}
		}
	}
}

// tinyHead is a head for a model, with all that heads may have, and its parameters.
func tinyHead(of *model.Spec, layers int) (*model.HeadSpec, map[string]tensor.Tensor) {
	head := &model.HeadSpec{Target: of.Hidden, Out: 100, Head: true, NormFeatures: true, Spec: model.Spec{Family: "llama", Name: "head", Layers: 1, Hidden: 64, Vocab: of.Vocab,
		Heads: 4, KVHeads: 2, HeadDim: 16, MaxLen: of.MaxLen, Eps: of.Eps, RoPE: model.RoPE{Base: 10000}, Windows: []int{0}, FFN: model.FFN{Inner: 96}}}
	for layer := range layers {
		head.Boundaries = append(head.Boundaries, layer)
	}
	head.Embed = of.Hidden != head.Spec.Hidden
	rng, params := rand.New(rand.NewPCG(4, 4)), map[string]tensor.Tensor{}
	for _, param := range model.HeadParams(head) {
		elems := 1
		for _, n := range param.Shape {
			elems *= n
		}
		params[param.Name] = tensor.Tensor{Name: param.Name, DType: tensor.F32, Shape: param.Shape, Data: floatBytes(normal(rng, elems, 0.1))}
	}
	return head, params
}

// What is planned for a head is what it takes on its device, and beside the target: to the byte.
func TestHeadFootprint(t *testing.T) {
	s, params := modeltest.Tiny("gpt-oss", small()["gpt-oss"])
	lim := smallLimits(s, 1)
	spec, weights := tinyHead(s, 3)
	own := lim
	own.MaxTokens, own.Blocks = lim.MaxTokens+lim.MaxSeqs, []int{60}
	want, err := Counted(&spec.Spec, own, Config{}, func(device *Device) error {
		_, err := model.NewHead(spec, weights, device, own)
		for range spec.Features() {
			if err == nil {
				_, err = device.Alloc(lim.MaxTokens, spec.Target)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	target := open(t, s, lim, Config{})
	decoder, err := model.NewDecoder(s, params, target.Device, lim, nil)
	if err != nil {
		t.Fatal(err)
	}
	before := target.Memory()
	beside, err := New(&spec.Spec, own, Config{Beside: target.Device})
	if err != nil {
		t.Fatal(err)
	}
	head, err := model.NewHead(spec, weights, beside, own)
	if err != nil {
		t.Fatal(err)
	}
	if err := head.Follow(decoder); err != nil {
		t.Fatal(err)
	}
	got := beside.Memory()
	got.Activations += target.Memory().Activations - before.Activations
	if got.Weights != want.Weights || got.KV != want.KV || got.Activations != want.Activations {
		t.Errorf("a head takes %+v, planned were %+v", got, want)
	}
	if err := beside.Preload(); err != nil {
		t.Error(err)
	}
	// Steps of a head take no more, nor do they have the driver compile anything.
	step := func(on runner.Runner, groups, count, start int) {
		t.Helper()
		row := runner.Row{Start: start, Len: count, Sample: true, Ahead: 1, Params: &sample.Params{}, Tables: slices.Repeat([][]runner.BlockID{{1, 2, 3}}, groups)}
		if err := on.Launch(&runner.Batch{Tokens: make([]int32, count), Rows: []runner.Row{row}}); err != nil {
			t.Fatal(err)
		}
		if _, err := on.Collect(); err != nil {
			t.Fatal(err)
		}
	}
	step(decoder, 2, 9, 0)
	loaded := target.machine.Counters().Calls["ModuleLoad"]
	head.Take([]int32{0, 1, 2, 3, 4, 5, 6, 7, 8}, false)
	step(head, 1, 9, 0)
	head.Take([]int32{0}, true)
	step(head, 1, 1, 9)
	if now := target.machine.Counters().Calls["ModuleLoad"]; now != loaded {
		t.Errorf("%d modules are loaded behind steps of a head, %d before", now, loaded)
	}
	if now := beside.Memory(); now.Total()+target.Memory().Activations-before.Activations != want.Total() {
		t.Errorf("behind steps a head takes %+v, planned were %+v", now, want)
	}
	for _, closing := range []func() error{head.Close, decoder.Close, target.machine.Close} {
		if err := closing(); err != nil {
			t.Error(err)
		}
	}
}

// Copies that would go beyond a buffer end the head's step with an error, and no other's.
func TestJoinRefuses(t *testing.T) {
	s, _ := modeltest.Tiny("llama", small()["llama"])
	lim := smallLimits(s, 1)
	for name, tt := range map[string]struct {
		col  int
		rows []int32
		want string
	}{
		"columns":       {5, nil, "to column 5"},
		"a row":         {0, []int32{0, 3}, "row 3 of 3"},
		"before":        {0, []int32{-1}, "row -1"},
		"too many rows": {0, make([]int32, lim.MaxTokens+1), "Join of 49 rows"},
	} {
		t.Run(name, func(t *testing.T) {
			target := openOn(t, emu.Card{}, s, lim, Config{})
			beside, err := New(s, lim, Config{Beside: target.Device})
			if err != nil {
				t.Fatal(err)
			}
			from, err := target.Alloc(lim.MaxTokens, 20)
			if err != nil {
				t.Fatal(err)
			}
			to, err := beside.Alloc(lim.MaxTokens, 24)
			if err != nil {
				t.Fatal(err)
			}
			target.Write(from[0], make([]float32, 3*20))
			batch := &runner.Batch{Tokens: []int32{1}, Rows: []runner.Row{{Len: 1, Tables: [][]runner.BlockID{{0}}}}}
			if err := beside.Begin(batch); err != nil {
				t.Fatal(err)
			}
			beside.Join(to[0], tt.col, from[0], tt.rows)
			if err := beside.End(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if err := target.Begin(batch); err != nil {
				t.Error(err)
			}
			if err := target.End(); err != nil {
				t.Errorf("the target: %v", err)
			}
			if _, err := target.Wait(); err != nil {
				t.Errorf("the target: %v", err)
			}
			for _, closing := range []func() error{beside.Close, target.Close} {
				if err := closing(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
