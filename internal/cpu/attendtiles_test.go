package cpu

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"ossian/internal/cpu/kern"
	"ossian/internal/model"
	"ossian/internal/model/modeltest"
	"ossian/internal/runner"
	"ossian/internal/runner/runnertest"
	"ossian/internal/tensor"
)

// wideModel is a model in BF16 that is wide enough for activations in BF16, with a window, sinks
// and heads of whole blocks: all that attention in row groups knows.
func wideModel() (*model.Spec, map[string]tensor.Tensor) {
	s := &model.Spec{Family: "gpt-oss", Name: "wide", Layers: 2, Hidden: narrow, Vocab: 97, Heads: 6, KVHeads: 2, HeadDim: 64, MaxLen: 512, Eps: 1e-5,
		RoPE: model.RoPE{Base: 10000}, Windows: []int{40, 0}, QKNorm: true, Sinks: true, FFN: model.FFN{Inner: 96}}
	rng := rand.New(rand.NewPCG(11, 11))
	params := make(map[string]tensor.Tensor)
	for _, p := range model.Params(s) {
		t := tensor.Tensor{Name: p.Name, DType: tensor.BF16, Shape: p.Shape}
		scale, mean := 2/math.Sqrt(float64(t.Cols())), 0.0
		if len(p.Shape) == 1 {
			scale, mean = 0.2, 1
		}
		x := make([]float32, t.Rows()*t.Cols())
		for i := range x {
			x[i] = float32(mean + scale*rng.NormFloat64())
		}
		t.Data = make([]byte, 2*len(x))
		tensor.Encode(t.DType, t.Data, nil, x)
		params[p.Name] = t
	}
	return s, params
}

// TestWide: logits of a model whose activations are BF16 are those of the float64 oracle but for
// rounding, and have the same bits token by token, in chunks of any size, on all levels above Go,
// whatever the pools held before, and whether activations are gated with the product before them,
// as from the second chunk on, or after it.
func TestWide(t *testing.T) {
	s, params := wideModel()
	oracle, err := modeltest.NewOracle(s, params)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(7, 7))
	ids := make([]int32, 300) // past the windows and a piece
	for i := range ids {
		ids[i] = int32(rng.IntN(s.Vocab))
	}
	want := oracle.Logits(ids)
	for _, bits := range []int{0, 16} {
		var alone map[int][]float32
		for _, isa := range levels() {
			if isa == kern.Go.String() && len(levels()) > 1 { // which rounds otherwise, and slowly
				continue
			}
			for _, chunk := range []int{1, 7, 48} {
				lim := tinyLimits(s, 1)
				lim.BlockSize = map[int]int{1: 32, 7: 8, 48: 16}[chunk] // a token alone reads whole groups of 16 as they lie
				got := logitsWithin(t, s, params, lim, Config{Threads: 2, ISA: isa, Activations: bits}, ids, chunk, func(d *Device) {
					for i := range d.kv {
						fill(d.kv[i].k.half, 0xffff)
						fill(d.kv[i].v.half, 0x7f80)
					}
				})
				if alone == nil {
					alone = got
				}
				var diff, size float64
				for pos, logits := range got {
					if !slices.Equal(logits, alone[pos]) {
						t.Fatalf("%d bits, %s: position %d in chunks of %d differs from the first level's token by token", bits, isa, pos, chunk)
					}
					for id, v := range logits {
						diff, size = diff+math.Pow(float64(v)-want[pos][id], 2), size+math.Pow(want[pos][id], 2)
					}
				}
				relative, limit := math.Sqrt(diff/size), map[int]float64{0: 0.02, 16: 0.01}[bits]
				t.Logf("%d bits, %s, chunks of %d: relative L2 %.3g", bits, isa, chunk, relative)
				if !(relative <= limit) {
					t.Errorf("%d bits, %s, chunks of %d: relative L2 %.3g, limit %.3g", bits, isa, chunk, relative, limit)
				}
			}
		}
	}
}

// TestWideRunner applies the suite of whole runners to that model.
func TestWideRunner(t *testing.T) {
	s, params := wideModel()
	windows, _ := s.Groups()
	runnertest.Scale{Schedules: 10, Soak: 1000, Every: 8}.Run(t, func(t *testing.T, c runnertest.Config) runner.Runner {
		lim := model.Limits{MaxSeqs: c.MaxSeqs, MaxTokens: c.MaxTokens, MaxLen: c.MaxLen, BlockSize: c.BlockSize, Depth: 2, Lookahead: c.Lookahead}
		for range windows {
			lim.Blocks = append(lim.Blocks, c.Blocks)
		}
		d, err := New(s, lim, Config{Threads: 3})
		if err != nil {
			t.Fatal(err)
		}
		r, err := model.NewDecoder(s, params, d, lim, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	})
}

// TestInfiniteValue: a value that is not finite reaches no token before it, of whose tile it is.
func TestInfiniteValue(t *testing.T) {
	s, _ := wideModel()
	lim := tinyLimits(s, 1)
	d, err := New(s, lim, Config{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	const tokens, at0 = 40, 25
	all, err := d.Alloc(tokens, s.QDim(), s.KVDim(), s.KVDim(), s.QDim())
	if err != nil {
		t.Fatal(err)
	}
	buffers := make([]*buf, len(all))
	rng := rand.New(rand.NewPCG(3, 3))
	for i := range all {
		buffers[i] = at(all[i])
		for k := range buffers[i].x {
			buffers[i].x[k] = float32(rng.NormFloat64())
		}
		buffers[i].wrote(tokens)
	}
	q, k, v, dst := buffers[0], buffers[1], buffers[2], buffers[3]
	if err := d.Begin(benchBatch(s, lim, 1, tokens, 0)); err != nil {
		t.Fatal(err)
	}
	d.Store(1, k, v)
	d.Attend(dst, q, 1, nil)
	want := slices.Clone(dst.x)
	v.row(at0)[3] = float32(math.Inf(1))
	d.Store(1, k, v)
	d.Attend(dst, q, 1, nil)
	if width := s.QDim(); !slices.Equal(dst.x[:at0*width], want[:at0*width]) {
		t.Error("tokens before the value change with it")
	} else if slices.Equal(dst.row(at0), want[at0*width:][:width]) {
		t.Error("the value is not seen by its own token")
	}
}
