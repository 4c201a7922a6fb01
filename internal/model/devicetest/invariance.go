package devicetest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"ossian/internal/model"
	"ossian/internal/runner"
	"ossian/internal/tensor"
)

// Specs returns tiny models that between them use every switch of a Spec.
func Specs() []*model.Spec {
	oss := &model.Spec{Family: "gpt-oss", Name: "oss", Layers: 3, Hidden: 64, Vocab: 131, Heads: 8, KVHeads: 2, HeadDim: 16, MaxLen: 4096, Eps: 1e-5,
		RoPE:    model.RoPE{Base: 150000, Scaling: model.ScalingYaRN, Factor: 32, Original: 64, BetaFast: 32, BetaSlow: 1},
		Windows: []int{24, 0, 24}, QKVBias: true, OBias: true, Sinks: true,
		FFN: model.FFN{Inner: 32, Experts: 8, TopK: 3, Renorm: true, Bias: true, Activation: model.SwiGLU}}
	moe := &model.Spec{Family: "qwen3moe", Name: "moe", Layers: 2, Hidden: 32, Vocab: 67, Heads: 4, KVHeads: 1, HeadDim: 16, MaxLen: 4096, Eps: 1e-6,
		RoPE: model.RoPE{Base: 1e6}, Windows: []int{0, 0}, QKNorm: true,
		FFN: model.FFN{Inner: 32, Experts: 4, TopK: 2, Dense: []bool{true, false}, DenseInner: 64}}
	llama := &model.Spec{Family: "llama", Name: "llama", Layers: 2, Hidden: 96, Vocab: 67, Heads: 6, KVHeads: 2, HeadDim: 12, MaxLen: 4096, Eps: 1e-5,
		RoPE:    model.RoPE{Base: 5e5, Scaling: model.ScalingLlama3, Factor: 8, Original: 128, LowFreq: 1, HighFreq: 4},
		Windows: []int{0, 0}, FFN: model.FFN{Inner: 160}, Tied: true}
	return []*model.Spec{oss, moe, llama}
}

// Params makes random parameters for sp: matrices of type dt where their rows
// are whole blocks, all else BF16. Activations stay near 1.
func Params(sp *model.Spec, dt tensor.DType, normal func(n int, sd float64) []float32) map[string]tensor.Tensor {
	params := make(map[string]tensor.Tensor)
	for _, p := range model.Params(sp) {
		n, in := 1, p.Shape[len(p.Shape)-1]
		for _, d := range p.Shape {
			n *= d
		}
		x, kind := normal(n, 1/math.Sqrt(float64(in))), tensor.BF16
		switch part := p.Name[strings.LastIndexByte(p.Name, '.')+1:]; {
		case strings.HasSuffix(part, "norm"):
			x = normal(n, 0.1)
			for i := range x {
				x[i]++
			}
		case part == "router":
			x = normal(n, 1)
		case len(p.Shape) > 1 && !strings.HasSuffix(part, "bias"):
			if block, _ := dt.Block(); in%block == 0 {
				kind = dt
			}
		default:
			x = normal(n, 0.5)
		}
		params[p.Name], _ = encode(p.Name, kind, x, p.Shape...)
	}
	return params
}

// capture keeps the logits of a step.
type capture struct {
	Device
	logits []float32
}

func (c *capture) Sample(logits model.Buf) {
	c.logits = c.Read(logits)
	c.Device.Sample(logits)
}

// invariance checks models.md 5.1: the logits of a sequence have the same bits
// alone and in company, whole and in chunks, in any blocks, on every twin.
func (s Subject) invariance(t *testing.T) {
	types := []tensor.DType{tensor.MXFP4HF, tensor.Q8_0, tensor.BF16}
	for i, sp := range Specs() {
		t.Run(fmt.Sprintf("%s/%v", sp.Name, types[i]), func(t *testing.T) {
			lim := limits(sp)
			lim.MaxTokens = 320
			m := newModels(t, s, sp, lim, types[i])
			const n = 290 // beyond a split of 256 keys
			want := m.run(0, []int{n}, constant(1), 0)
			for _, size := range []int{7, 64, n} {
				m.same(fmt.Sprintf("chunks of %d", size), want, m.run(0, []int{n}, constant(size), 0))
			}
			for i := range m.runners {
				m.same(fmt.Sprintf("whole, device %d", i), want, m.run(i, []int{n}, constant(n), 0))
				m.same(fmt.Sprintf("in company, device %d", i), want, m.run(i, []int{40, n, 200, 300}, m.random, 1))
			}
		})
	}
}

// models are runners on the same parameters: the device and its twins.
type models struct {
	*bench
	devs    []*capture
	runners []runner.Runner
}

func newModels(t *testing.T, s Subject, sp *model.Spec, lim model.Limits, dt tensor.DType) *models {
	t.Helper()
	m := &models{bench: s.open(t, sp, lim)}
	params := Params(sp, dt, m.normal)
	opens := append([]func(*testing.T, *model.Spec, model.Limits) Device{s.Open}, s.Twins...)
	for _, open := range opens {
		c := &capture{Device: open(t, sp, lim)}
		r, err := model.NewDecoder(sp, params, c, lim, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := r.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		})
		m.devs, m.runners = append(m.devs, c), append(m.runners, r)
	}
	return m
}

func constant(n int) func(int) int { return func(int) int { return n } }

// random is a chunk size that leaves room for three other rows.
func (m *models) random(int) int { return 1 + m.rng.IntN(m.lim.MaxTokens/4) }

// run computes sequences of the given lengths in chunks and returns the logits
// of the watched one by position.
func (m *models) run(dev int, lengths []int, chunk func(seq int) int, watched int) map[int][]float32 {
	m.t.Helper()
	tokens := make([][]int32, len(lengths))
	for i, n := range lengths {
		for k := range n {
			id := m.rng.IntN(m.spec.Vocab)
			if i == watched {
				id = k * k % m.spec.Vocab
			}
			tokens[i] = append(tokens[i], int32(id))
		}
	}
	lay := newLayout(m.bench, len(lengths))
	got := make(map[int][]float32)
	for {
		var spans []span
		for i, n := range lengths {
			if n := min(chunk(i), n-lay.seqs[i].done); n > 0 {
				spans = append(spans, span{i, n})
			}
		}
		if len(spans) == 0 {
			return got
		}
		m.rng.Shuffle(len(spans), func(i, k int) { spans[i], spans[k] = spans[k], spans[i] })
		batch := lay.batch(spans)
		at := 0
		for _, r := range batch.Rows {
			at += copy(batch.Tokens[at:], tokens[r.Slot][r.Start:r.Start+r.Len])
		}
		if err := runner.Check(batch, m.runners[dev].Info()); err != nil {
			m.t.Fatal(err)
		}
		if err := m.runners[dev].Launch(batch); err != nil {
			m.t.Fatal(err)
		}
		if _, err := m.runners[dev].Collect(); err != nil {
			m.t.Fatal(err)
		}
		for i, r := range batch.Rows {
			if r.Slot == watched {
				got[r.Start+r.Len-1] = slices.Clone(m.devs[dev].logits[i*m.spec.Vocab:][:m.spec.Vocab])
			}
		}
		lay.advance(batch)
	}
}

// same requires equal bits at every position that both runs have.
func (m *models) same(what string, want, got map[int][]float32) {
	m.t.Helper()
	for pos, g := range got {
		for id, v := range g {
			if w := want[pos][id]; math.Float32bits(w) != math.Float32bits(v) {
				m.t.Fatalf("%s: position %d, id %d: logit %v, alone token by token %v", what, pos, id, v, w)
			}
			if v != v {
				m.t.Fatalf("%s: position %d, id %d: logit is NaN", what, pos, id)
			}
		}
	}
}
