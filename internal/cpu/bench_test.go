package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"ossian/internal/model"
	"ossian/internal/runner"
	"ossian/internal/sample"
	"ossian/internal/tensor"
)

// The benchmark models have the shapes of real layers and few of them.
func benchSpecs() map[string]*model.Spec {
	return map[string]*model.Spec{
		"gpt-oss": {Family: "gpt-oss", Name: "bench", Layers: 2, Hidden: 2880, Vocab: 8192, Heads: 64, KVHeads: 8, HeadDim: 64, MaxLen: 8192, Eps: 1e-5,
			RoPE:    model.RoPE{Base: 150000, Scaling: model.ScalingYaRN, Factor: 32, Original: 4096, BetaFast: 32, BetaSlow: 1},
			Windows: []int{128, 0}, QKVBias: true, OBias: true, Sinks: true,
			FFN: model.FFN{Inner: 2880, Experts: 32, TopK: 4, Renorm: true, Bias: true, Activation: model.SwiGLU}},
		"dense": {Family: "qwen3", Name: "bench", Layers: 4, Hidden: 1024, Vocab: 8192, Heads: 16, KVHeads: 8, HeadDim: 128, MaxLen: 8192, Eps: 1e-6,
			RoPE: model.RoPE{Base: 1e6}, Windows: make([]int, 4), QKNorm: true, FFN: model.FFN{Inner: 3072}},
		"narrow": {Family: "llama", Name: "bench", Layers: 4, Hidden: 576, Vocab: 8192, Heads: 9, KVHeads: 3, HeadDim: 64, MaxLen: 8192, Eps: 1e-5,
			RoPE: model.RoPE{Base: 1e4}, Windows: make([]int, 4), FFN: model.FFN{Inner: 1536}},
	}
}

// benchParams fills parameters with random bits whose scales are sane: encoding
// hundreds of megabytes would take longer than measuring them.
func benchParams(s *model.Spec) map[string]tensor.Tensor {
	rng := rand.NewChaCha8([32]byte{1})
	params := make(map[string]tensor.Tensor)
	for _, p := range model.Params(s) {
		t := tensor.Tensor{Name: p.Name, DType: tensor.BF16, Shape: p.Shape}
		switch {
		case len(p.Shape) == 3:
			t.DType = tensor.MXFP4HF
		case len(p.Shape) == 2 && p.Shape[1] > 64 && p.Name != "embed" && s.FFN.Experts == 0:
			t.DType = tensor.Q8_0
		}
		t.Data = make([]byte, t.Rows()*t.DType.RowBytes(t.Cols()))
		rng.Read(t.Data)
		switch t.DType {
		case tensor.BF16:
			for i := 1; i < len(t.Data); i += 2 {
				t.Data[i] = t.Data[i]&0x80 | 0x3c // ±0.008 to ±0.03
			}
		case tensor.Q8_0:
			for i := 0; i < len(t.Data); i += 34 {
				t.Data[i], t.Data[i+1] = 0, 0x08 // 2^-13
			}
		case tensor.MXFP4HF:
			t.Scales = make([]byte, t.Elems()/32)
			for i := range t.Scales {
				t.Scales[i] = 120 - byte(math.Ilogb(float64(t.Cols())))/2
			}
		}
		params[p.Name] = t
	}
	return params
}

func BenchmarkStep(b *testing.B) {
	for _, name := range []string{"gpt-oss", "dense"} {
		s := benchSpecs()[name]
		params := benchParams(s)
		lim := model.Limits{MaxSeqs: 8, MaxTokens: 128, MaxLen: 2048, BlockSize: 16, Blocks: []int{8 * 128, 8 * 128}}
		windows, _ := s.Groups()
		lim.Blocks = lim.Blocks[:len(windows)]
		d, err := New(s, lim, Config{})
		if err != nil {
			b.Fatal(err)
		}
		r, err := model.NewDecoder(s, params, d, lim, nil)
		if err != nil {
			b.Fatal(err)
		}
		for _, c := range []struct{ rows, tokens, start int }{{1, 1, 1024}, {8, 1, 1024}, {1, 128, 0}, {1, 128, 1024}} {
			b.Run(fmt.Sprintf("%s/rows=%d/tokens=%d/at=%d", name, c.rows, c.tokens, c.start), func(b *testing.B) {
				batch := benchBatch(s, lim, c.rows, c.tokens, c.start)
				for b.Loop() {
					if err := r.Launch(batch); err != nil {
						b.Fatal(err)
					}
					if _, err := r.Collect(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(c.rows*c.tokens)*float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
			})
		}
		if err := r.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func benchBatch(s *model.Spec, lim model.Limits, rows, tokens, start int) *runner.Batch {
	batch := &runner.Batch{}
	next := runner.BlockID(0)
	for slot := range rows {
		table := make([]runner.BlockID, (start+tokens+lim.BlockSize-1)/lim.BlockSize)
		for i := range table {
			table[i] = next
			next++
		}
		row := runner.Row{Slot: slot, Start: start, Len: tokens, Sample: true, Params: &sample.Params{}}
		for range lim.Blocks {
			row.Tables = append(row.Tables, table)
		}
		for i := range tokens {
			batch.Tokens = append(batch.Tokens, int32((slot*977+i*31)%s.Vocab))
		}
		batch.Rows = append(batch.Rows, row)
	}
	return batch
}

// BenchmarkAttend is the attention of one layer for one token of a long context, or for the last
// ones of a prompt. Layers take turns, as in a model, so that keys and values come from memory.
func BenchmarkAttend(b *testing.B) {
	for _, name := range []string{"gpt-oss", "dense", "narrow"} {
		for _, ctx := range []int{1 << 10, 8 << 10, 32 << 10} {
			for _, kv := range []tensor.DType{tensor.BF16, tensor.F8_E4M3} {
				for _, tokens := range []int{1, 256} {
					b.Run(fmt.Sprintf("%s/%dk/%v/tokens=%d", name, ctx>>10, kv, tokens), func(b *testing.B) { benchAttend(b, *benchSpecs()[name], ctx, kv, tokens) })
				}
			}
		}
	}
}

func benchAttend(b *testing.B, s model.Spec, ctx int, kv tensor.DType, tokens int) {
	s.Layers = max(8, 96<<20/(4*ctx*s.KVDim())) // more than caches hold
	s.Windows, s.MaxLen = make([]int, s.Layers), ctx
	lim := model.Limits{MaxSeqs: 1, MaxTokens: tokens, MaxLen: ctx, BlockSize: 32, Blocks: []int{ctx / 32}}
	d, err := New(&s, lim, Config{KV: kv})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	rng := rand.New(rand.NewPCG(1, 1))
	x := make([]float32, s.HeadDim)
	for i := range d.kv {
		for _, c := range []*cache{&d.kv[i].k, &d.kv[i].v} {
			for at := 0; at < ctx*s.KVDim(); at += s.HeadDim {
				for k := range x {
					x[k] = rng.Float32() - 0.5
				}
				c.put(d, at, x)
			}
		}
	}
	bufs, err := d.Alloc(tokens, s.QDim(), s.QDim())
	if err != nil {
		b.Fatal(err)
	}
	q, dst := bufs[0], bufs[1]
	for i := range at(q).x {
		at(q).x[i] = rng.Float32() - 0.5
	}
	if err := d.Begin(benchBatch(&s, lim, 1, tokens, ctx-tokens)); err != nil {
		b.Fatal(err)
	}
	at(q).wrote(tokens)
	layer := 0
	for b.Loop() {
		d.Attend(dst, q, layer, nil)
		layer = (layer + 1) % s.Layers
	}
}
