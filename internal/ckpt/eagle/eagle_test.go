package eagle

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ossian/internal/ckpt"
	"ossian/internal/ckpt/eagle/eagletest"
	"ossian/internal/cpu"
	"ossian/internal/cuda"
	"ossian/internal/cuda/emu"
	"ossian/internal/model"
	"ossian/internal/model/modeltest"
	"ossian/internal/runner"
	"ossian/internal/sample"
	"ossian/internal/synth"
	"ossian/internal/tensor"
)

// target writes and opens the model that the golden heads read.
func target(t testing.TB) *ckpt.Model {
	t.Helper()
	want := eagletest.Want(t)
	m, err := synth.Preset(want.Preset)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), want.Preset)
	if err := synth.Write(t.Context(), path, synth.Options{Model: m, Seed: want.Seed}, nil); err != nil {
		t.Fatal(err)
	}
	checkpoint, err := ckpt.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { checkpoint.Close() })
	return checkpoint
}

// A rig is a target and a head, computed exactly or on a card.
type rig struct {
	t      *testing.T
	target runner.Runner
	head   *model.Head
	out    int
	blocks []runner.BlockID
}

// limited returns lim with its blocks for each group of a model.
func limited(spec *model.Spec, lim model.Limits) model.Limits {
	windows, _ := spec.Groups()
	lim.Blocks = slices.Repeat(lim.Blocks, len(windows))
	return lim
}

// onProcessors returns devices for a target and for a head, which compute exactly.
func onProcessors(t *testing.T, target, head *model.Spec, lim model.Limits) (of, beside model.Joiner) {
	cfg := cpu.Config{Threads: 2, Exact: true, KV: tensor.F32, Weights: "bf16"}
	var all [2]model.Joiner
	for i, spec := range []*model.Spec{target, head} {
		device, err := cpu.New(spec, limited(spec, lim), cfg)
		if err != nil {
			t.Fatal(err)
		}
		all[i] = device
	}
	return all[0], all[1]
}

// onCard returns them on an emulated card, which is asked in the end what was left behind.
func onCard(t *testing.T, target, head *model.Spec, lim model.Limits) (of, beside model.Joiner) {
	machine := emu.New(emu.Card{})
	t.Cleanup(func() {
		if err := machine.Close(); err != nil {
			t.Error(err)
		}
	})
	first, err := cuda.New(target, limited(target, lim), cuda.Config{Driver: machine.Driver()})
	if err != nil {
		t.Fatal(err)
	}
	second, err := cuda.New(head, limited(head, lim), cuda.Config{Beside: first})
	if err != nil {
		t.Fatal(err)
	}
	return first, second
}

// newRig puts target and head on devices that open returns.
func newRig(t *testing.T, of *ckpt.Model, head *Head, length int, open func(t *testing.T, target, head *model.Spec, lim model.Limits) (of, beside model.Joiner)) *rig {
	t.Helper()
	lim := model.Limits{MaxSeqs: 2, MaxTokens: 64, MaxLen: length, BlockSize: 16, Blocks: []int{(length + 15) / 16}}
	device, beside := open(t, of.Spec, &head.Spec.Spec, lim)
	r, err := &rig{t: t, out: head.Spec.Out}, error(nil)
	if r.target, err = model.NewDecoder(of.Spec, of.Params, device, limited(of.Spec, lim), nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.target.Close() })
	if r.head, err = model.NewHead(head.Spec, head.Params, beside, lim); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.head.Close() })
	if err := r.head.Follow(r.target); err != nil {
		t.Fatal(err)
	}
	for block := range lim.Blocks[0] {
		r.blocks = append(r.blocks, runner.BlockID(lim.Blocks[0]-1-block)) // not in order
	}
	return r
}

// step runs one row and returns what it draws, and the head's log probabilities.
func (r *rig) step(on runner.Runner, tokens []int32, start int) (int32, []float64) {
	r.t.Helper()
	row := runner.Row{Start: start, Len: len(tokens), Tables: slices.Repeat([][]runner.BlockID{r.blocks}, len(on.Info().Groups)), Sample: true, Ahead: 1, Params: &sample.Params{Logprobs: true, TopLogprobs: r.out}}
	if err := on.Launch(&runner.Batch{Tokens: tokens, Rows: []runner.Row{row}}); err != nil {
		r.t.Fatal(err)
	}
	result, err := on.Collect()
	if err != nil {
		r.t.Fatal(err)
	}
	out := make([]float64, r.out)
	for _, likely := range result.Logprobs[0][1:] {
		if on == runner.Runner(r.head) {
			out[likely.ID] = float64(likely.Logprob)
		}
	}
	return result.Tokens[0][0], out
}

// TestGoldenHeads computes heads of both families of configurations, with every switch, and compares
// log probabilities with those of plain torch behind the hidden states of transformers: behind the
// target's states, in chunks, and behind the head's own. Sums in float32 differ by their order
// (models.md 5.2).
func TestGoldenHeads(t *testing.T) { goldenHeads(t, onProcessors, 1e-4) }

// TestGoldenHeadsOnACard is the same on a card, its kernels emulated with every check, where states and
// matrices are rounded to bf16.
func TestGoldenHeadsOnACard(t *testing.T) { goldenHeads(t, onCard, 0.15) }

func goldenHeads(t *testing.T, on func(t *testing.T, target, head *model.Spec, lim model.Limits) (of, beside model.Joiner), most float64) {
	want, of := eagletest.Want(t), target(t)
	for i, c := range eagletest.Cases(t) {
		t.Run(c.Name, func(t *testing.T) {
			dir := t.TempDir()
			eagletest.Write(t, dir, c.Config, c.Tensors(of.Spec.Hidden))
			head, err := Open(dir, of.Spec, c.Offset)
			if err != nil {
				t.Fatal(err)
			}
			defer head.Files.Close()
			if !Is(c.Config) || Is([]byte(`{"model_type":"llama"}`)) || Is([]byte("{")) {
				t.Error("heads are not told from models")
			}
			r, logprobs := newRig(t, of, head, len(want.IDs)+8, on), c.Rows(t)
			from, guess, drawn := 0, int32(0), int32(0)
			for at, position := range want.Positions {
				var got []float64
				n := position + 1 - from
				drawn, _ = r.step(r.target, want.IDs[from:position+1], from)
				places := make([]int32, n)
				for k := range places {
					places[k] = int32(k)
				}
				behind := append(slices.Clone(want.IDs[from+1:position+1]), drawn)
				if position+1 < len(want.IDs) {
					behind[n-1] = want.IDs[position+1]
				}
				r.head.Take(places, false)
				guess, got = r.step(r.head, behind, from)
				compare(t, fmt.Sprint("position ", position), got, logprobs[at], most)
				from = position + 1
			}
			if drawn != want.Cases[i].Drawn {
				t.Errorf("the target draws %d, want %d", drawn, want.Cases[i].Drawn)
			}
			for at, id := range want.Cases[i].Guesses {
				if guess != id {
					t.Errorf("guess %d is %d, want %d", at, guess, id)
				}
				if at+1 == len(want.Cases[i].Guesses) {
					break
				}
				var got []float64
				r.head.Take([]int32{0}, true)
				guess, got = r.step(r.head, []int32{guess}, from+at)
				compare(t, fmt.Sprint("behind guess ", at), got, logprobs[len(want.Positions)+at], most)
			}
		})
	}
}

// A head beside a mixture of experts reads on a card what it does on processors, whose sums over experts
// wait there for the norm behind them.
func TestBesideExperts(t *testing.T) {
	spec, params := modeltest.Tiny("gpt-oss", modeltest.Options{Small: true})
	of := &ckpt.Model{Spec: spec, Params: params}
	head := &Head{Params: map[string]tensor.Tensor{}, Spec: &model.HeadSpec{Target: spec.Hidden, Boundaries: []int{0, 1, spec.Layers}, Out: 90, Embed: true, Head: true, NormBeforeFC: true, NormBeforeResidual: true, NormOutput: true,
		Spec: model.Spec{Family: "llama", Name: "head", Layers: 1, Hidden: 64, Vocab: spec.Vocab, Heads: 4, KVHeads: 2, HeadDim: 16, MaxLen: spec.MaxLen, Eps: spec.Eps, RoPE: model.RoPE{Base: 10000}, Windows: []int{0}, FFN: model.FFN{Inner: 96}}}}
	rng := rand.New(rand.NewPCG(5, 5))
	for _, param := range model.HeadParams(head.Spec) {
		stored := tensor.Tensor{Name: param.Name, DType: tensor.F32, Shape: param.Shape}
		for range stored.Elems() {
			value := 1 + rng.NormFloat64()/4 // of a norm
			if len(param.Shape) > 1 {
				value = rng.NormFloat64() / math.Sqrt(float64(param.Shape[1]))
			}
			stored.Data = binary.LittleEndian.AppendUint32(stored.Data, math.Float32bits(float32(value)))
		}
		head.Params[param.Name] = stored
	}
	tokens := make([]int32, 40)
	for i := range tokens {
		tokens[i] = rng.Int32N(int32(spec.Vocab))
	}
	var all [2][][]float64
	for i, on := range []func(*testing.T, *model.Spec, *model.Spec, model.Limits) (model.Joiner, model.Joiner){onProcessors, onCard} {
		r := newRig(t, of, head, 64, on)
		for from := 0; from < len(tokens)-1; from += 13 {
			n := min(13, len(tokens)-1-from)
			r.step(r.target, tokens[from:from+n], from)
			places := make([]int32, n)
			for k := range places {
				places[k] = int32(k)
			}
			r.head.Take(places, false)
			_, got := r.step(r.head, tokens[from+1:from+1+n], from)
			all[i] = append(all[i], got)
		}
		r.head.Take([]int32{0}, true)
		_, got := r.step(r.head, tokens[:1], len(tokens)-1)
		all[i] = append(all[i], got)
	}
	for step, want := range all[0] {
		compare(t, fmt.Sprint("step ", step), all[1][step], want, 0.15)
	}
}

// compare reports log probabilities that are further than that from those of the reference.
func compare(t *testing.T, where string, got, want []float64, most float64) {
	t.Helper()
	worst, at := 0.0, 0
	for i := range want {
		if off := math.Abs(got[i] - want[i]); !(off <= worst) {
			worst, at = off, i
		}
	}
	t.Logf("%s: %.2g", where, worst)
	if !(worst <= most) {
		t.Errorf("%s: id %d has %v, want %v", where, at, got[at], want[at])
	}
}

// Heads that do not go with the target, or are none, are refused with words.
func TestRefused(t *testing.T) {
	of, all := target(t), eagletest.Cases(t)
	for _, tt := range []struct {
		name   string
		of     int // case
		change func(config map[string]any, tensors eagletest.Tensors)
		want   string
	}{
		{"no vocabulary", 0, func(c map[string]any, _ eagletest.Tensors) { delete(c, "vocab_size") }, "vocab_size"},
		{"another vocabulary", 0, func(c map[string]any, _ eagletest.Tensors) { c["vocab_size"] = 385 }, "vocabulary of 385"},
		{"two layers", 0, func(c map[string]any, _ eagletest.Tensors) { c["num_hidden_layers"] = 2 }, "num_hidden_layers is 2"},
		{"another kind of layer", 0, func(c map[string]any, _ eagletest.Tensors) { c["model_type"] = "qwen3" }, `model_type is "qwen3"`},
		{"biases", 0, func(c map[string]any, _ eagletest.Tensors) { c["attention_bias"] = true }, "biases"},
		{"another hidden size", 0, func(c map[string]any, _ eagletest.Tensors) { c["target_hidden_size"] = 96 }, "hidden size is 96"},
		{"layers beyond the target's", 0, func(c map[string]any, _ eagletest.Tensors) {
			c["eagle_config"] = map[string]any{"eagle_aux_hidden_state_layer_ids": []int{1, 2, 4}}
		}, "after [1 2 4] layers"},
		{"a layer twice", 0, func(c map[string]any, _ eagletest.Tensors) {
			c["eagle_config"] = map[string]any{"eagle_aux_hidden_state_layer_ids": []int{1, 1, 3}}
		}, "after [1 1 3] layers"},
		{"eagle_config of another type", 0, func(c map[string]any, _ eagletest.Tensors) { c["eagle_config"] = 3 }, "eagle_config"},
		{"another speculator", 1, func(c map[string]any, _ eagletest.Tensors) { c["speculators_model_type"] = "mlp" }, "eagle3 expected"},
		{"no layer", 1, func(c map[string]any, _ eagletest.Tensors) { c["transformer_layer_config"] = []int{} }, "an object expected"},
		{"a tensor is missing", 0, func(_ map[string]any, f eagletest.Tensors) { delete(f, "fc.weight") }, `"fc" is missing`},
		{"no gate", 0, func(_ map[string]any, f eagletest.Tensors) { delete(f, "midlayer.mlp.gate_proj.weight") }, "mlp.gate_proj.weight"},
		{"an unknown tensor", 0, func(_ map[string]any, f eagletest.Tensors) {
			f["midlayer.self_attn.q_norm.weight"] = f["norm.weight"]
		}, "none of an EAGLE3 head"},
		{"a tensor twice", 0, func(_ map[string]any, f eagletest.Tensors) { f["model.norm.weight"] = f["norm.weight"] }, "there twice"},
		{"a shape", 0, func(_ map[string]any, f eagletest.Tensors) { f["norm.weight"] = f["d2t"] }, "found I64"},
		{"no map of ids", 0, func(_ map[string]any, f eagletest.Tensors) { delete(f, "d2t") }, "no tensor d2t"},
		{"a map of another size", 0, func(c map[string]any, _ eagletest.Tensors) { c["draft_vocab_size"] = 99 }, "I64 of [99]"},
		{"ids beyond the vocabulary", 0, func(_ map[string]any, f eagletest.Tensors) { binary.LittleEndian.PutUint64(f["d2t"].Data[8:], 400) }, "id 1 is 401"},
		{"negative ids", 0, func(_ map[string]any, f eagletest.Tensors) {
			binary.LittleEndian.PutUint64(f["d2t"].Data[8:], ^uint64(0)-7)
		}, "id 1 is -7"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, dir, config := &all[tt.of], t.TempDir(), map[string]any{}
			if err := json.Unmarshal(c.Config, &config); err != nil {
				t.Fatal(err)
			}
			tensors := c.Tensors(of.Spec.Hidden)
			tt.change(config, tensors)
			text, err := json.Marshal(config)
			if err != nil {
				t.Fatal(err)
			}
			eagletest.Write(t, dir, text, tensors)
			head, err := Open(dir, of.Spec, c.Offset)
			if err == nil {
				head.Files.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
	if _, err := Open(t.TempDir(), of.Spec, 0); err == nil {
		t.Error("an empty directory is taken for a head")
	}
}

// Whoever does not say which states are read means those of the published training code.
func TestBoundaries(t *testing.T) {
	for _, tt := range []struct {
		layers  []int
		of, add int
		want    []int
	}{
		{nil, 24, 0, []int{2, 12, 21}}, {nil, 36, 1, []int{2, 18, 33}},
		{[]int{24, 30, 36}, 36, 0, []int{24, 30, 36}}, {[]int{17, 1, 33}, 36, 1, []int{2, 18, 34}},
	} {
		if got := boundaries(tt.layers, tt.of, tt.add); !slices.Equal(got, tt.want) {
			t.Errorf("layers %v of %d, offset %d: %v, want %v", tt.layers, tt.of, tt.add, got, tt.want)
		}
	}
}

// No configuration makes the reader panic, and what it opens can be computed. What is in files of
// weights is fuzzed in ckpt.
func FuzzOpen(f *testing.F) {
	of, dir := target(f), f.TempDir()
	for _, c := range eagletest.Cases(f) {
		f.Add([]byte(c.Config))
	}
	eagletest.Write(f, dir, nil, eagletest.Cases(f)[0].Tensors(of.Spec.Hidden))
	f.Fuzz(func(t *testing.T, config []byte) {
		if err := os.WriteFile(filepath.Join(dir, "config.json"), config, 0o600); err != nil {
			t.Fatal(err)
		}
		Is(config)
		head, err := Open(dir, of.Spec, 0)
		if err != nil {
			return
		}
		defer head.Files.Close()
		if err := model.CheckHead(head.Spec, of.Spec, head.Params); err != nil {
			t.Error(err)
		}
	})
}
