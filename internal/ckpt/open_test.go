package ckpt

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ossian/internal/model"
	"ossian/internal/synth"
	"ossian/internal/tensor"
)

// Both containers of every family open to the spec that was written and to the
// same values: joined gates, stacked experts, permuted heads and nibble orders.
func TestOpenFamilies(t *testing.T) {
	for _, preset := range []string{"gpt-oss-tiny", "qwen3-tiny", "qwen3-wide-tiny", "qwen3moe-tiny", "llama-tiny", "llama3-tiny", "llama-linear-tiny"} {
		t.Run(preset, func(t *testing.T) {
			t.Parallel()
			written, err := synth.Preset(preset)
			if err != nil {
				t.Fatal(err)
			}
			hf := mustOpen(t, writeSynth(t, preset, synth.Options{}))
			gguf := mustOpen(t, writeSynth(t, preset, synth.Options{Format: synth.GGUF}))
			sameParams(t, gguf, hf)
			if !reflect.DeepEqual(hf.Spec, &written.Spec) {
				t.Errorf("Hugging Face spec\n%+v, want\n%+v", hf.Spec, written.Spec)
			}
			want := written.Spec
			if want.RoPE.Scaling == model.ScalingLlama3 { // GGUF has the divisors, not the formula
				if d := gguf.Spec.RoPE.Divisors; len(d) != want.HeadDim/2 || d[0] != 1 || d[len(d)-1] != 8 {
					t.Errorf("divisors %v, want 1 to 8", d)
				}
				want.RoPE = gguf.Spec.RoPE
			}
			if !reflect.DeepEqual(gguf.Spec, &want) {
				t.Errorf("GGUF spec\n%+v, want\n%+v", gguf.Spec, want)
			}
			for _, m := range []*Model{hf, gguf} {
				if len(m.Unknown) != 0 {
					t.Errorf("%s: unknown tensors %q", m.Format, m.Unknown)
				}
				if m.Template == "" || len(m.Stops) == 0 || m.Special["eos_token"] == "" {
					t.Errorf("%s: template %q, stops %v, special %v", m.Format, m.Template, m.Stops, m.Special)
				}
				if err := m.Verify(t.Context(), nil, nil); err != nil {
					t.Error(err)
				}
			}
			if !slices.Equal(hf.Stops, gguf.Stops) || !slices.Equal(hf.Unused, gguf.Unused) || hf.Template != gguf.Template || hf.BOS != gguf.BOS {
				t.Errorf("containers differ: stops %v %v, unused %v %v, begin %d %d", hf.Stops, gguf.Stops, hf.Unused, gguf.Unused, hf.BOS, gguf.BOS)
			}
		})
	}
}

func TestOpenTypes(t *testing.T) {
	for _, c := range []struct {
		preset string
		format synth.Format
		types  []tensor.DType
	}{
		{"qwen3-wide-tiny", synth.GGUF, []tensor.DType{tensor.F32, tensor.F16, tensor.BF16, tensor.Q8_0, tensor.Q4_0, tensor.Q4_1, tensor.Q5_0, tensor.Q5_1, tensor.IQ4_NL, tensor.Q4_K, tensor.Q5_K, tensor.Q6_K}},
		{"llama-tiny", synth.HuggingFace, []tensor.DType{tensor.F32, tensor.F16, tensor.BF16}},
	} {
		for _, dt := range c.types {
			t.Run(fmt.Sprint(c.preset, "/", dt), func(t *testing.T) {
				t.Parallel()
				exact := mustOpen(t, writeSynth(t, c.preset, synth.Options{Type: tensor.F32, Format: c.format}))
				m := mustOpen(t, writeSynth(t, c.preset, synth.Options{Type: dt, Format: c.format}))
				for _, name := range []string{"layers.0.q", "layers.1.up", "layers.0.down"} {
					got, want := m.Params[name], exact.Params[name]
					if got.DType != dt {
						t.Fatalf("%s is %v, want %v", name, got.DType, dt)
					}
					g, w := values(t, &got), values(t, &want)
					var err2, sum2 float64
					for i := range w {
						err2 += math.Pow(float64(g[i]-w[i]), 2)
						sum2 += math.Pow(float64(w[i]), 2)
					}
					if rel := math.Sqrt(err2 / sum2); rel > 0.15 {
						t.Errorf("%s: relative error %.3f", name, rel)
					}
				}
			})
		}
	}
}

func TestOpenShards(t *testing.T) {
	path := writeSynth(t, "llama-tiny", synth.Options{ShardBytes: 60_000})
	whole := mustOpen(t, writeSynth(t, "llama-tiny", synth.Options{}))
	sharded := mustOpen(t, path)
	if len(sharded.maps) < 3 {
		t.Fatalf("%d shards, want several", len(sharded.maps))
	}
	sameParams(t, sharded, whole)
	// Without an index all files count.
	if err := os.Remove(filepath.Join(path, indexName)); err != nil {
		t.Fatal(err)
	}
	sameParams(t, mustOpen(t, path), whole)
}

func TestOpenSplitGGUF(t *testing.T) {
	single := writeSynth(t, "qwen3-tiny", synth.Options{Format: synth.GGUF})
	stem := filepath.Join(t.TempDir(), "split")
	writeSplit(t, takeApart(t, single), stem, 3)
	sameParams(t, mustOpen(t, stem+"-00001-of-00003.gguf"), mustOpen(t, single))

	for _, c := range []struct {
		name, open, remove, want string
		kind                     Kind
	}{
		{"second part", stem + "-00002-of-00003.gguf", "", "the first one, " + stem + "-00001-of-00003.gguf", Unsupported},
		{"part missing", stem + "-00001-of-00003.gguf", stem + "-00003-of-00003.gguf", "-00003-of-00003.gguf", Incomplete},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.remove != "" {
				if err := os.Remove(c.remove); err != nil {
					t.Fatal(err)
				}
			}
			wantError(t, c.open, c.kind, c.want)
		})
	}
	renamed := filepath.Join(t.TempDir(), "renamed.gguf")
	mustWrite(t, renamed, mustRead(t, stem+"-00001-of-00003.gguf"))
	wantError(t, renamed, Incomplete, "whose name must end in -00001-of-00003.gguf")
}

func writeSplit(t testing.TB, g *ggufImage, stem string, parts int) {
	t.Helper()
	per := (len(g.tensors) + parts - 1) / parts
	for i := range parts {
		part := &ggufImage{tensors: g.tensors[i*per : min((i+1)*per, len(g.tensors))]}
		if i == 0 {
			part.keys = slices.Clone(g.keys)
		}
		part.setU16("split.no", uint16(i))
		part.setU16("split.count", uint16(parts))
		part.set("split.tensors.count", ggufI32, binary.LittleEndian.AppendUint32(nil, uint32(len(g.tensors))))
		mustWrite(t, fmt.Sprintf("%s-%05d-of-%05d.gguf", stem, i+1, parts), part.encode())
	}
}

// toOriginal rewrites a Hugging Face gpt-oss directory in the original layout.
func toOriginal(t testing.TB, path string) {
	t.Helper()
	shard := filepath.Join(path, "model.safetensors")
	byName := map[string]stEntry{}
	for _, e := range takeApartShard(t, shard) {
		byName[e.name] = e
	}
	rename := strings.NewReplacer("model.embed_tokens.weight", "embedding.weight", "lm_head.weight", "unembedding.weight",
		"model.norm.weight", "norm.scale", "model.layers.", "block.", "input_layernorm.weight", "attn.norm.scale",
		"post_attention_layernorm.weight", "mlp.norm.scale", "self_attn.sinks", "attn.sinks", "self_attn.o_proj", "attn.out",
		"mlp.router", "mlp.gate", "mlp.experts.gate_up_proj_bias", "mlp.mlp1_bias", "mlp.experts.down_proj_bias", "mlp.mlp2_bias",
		"mlp.experts.gate_up_proj_", "mlp.mlp1_weight.", "mlp.experts.down_proj_", "mlp.mlp2_weight.")
	var out []stEntry
	for name, e := range byName {
		stem, isQ := strings.CutSuffix(name, "self_attn.q_proj.weight")
		kind := ".weight"
		if !isQ {
			stem, isQ = strings.CutSuffix(name, "self_attn.q_proj.bias")
			kind = ".bias"
		}
		switch {
		case isQ:
			k, v := byName[stem+"self_attn.k_proj"+kind], byName[stem+"self_attn.v_proj"+kind]
			e.shape = append([]int{e.shape[0] + k.shape[0] + v.shape[0]}, e.shape[1:]...)
			e.data = slices.Concat(e.data, k.data, v.data)
			e.name = rename.Replace(stem) + "attn.qkv" + kind
		case strings.Contains(name, "k_proj") || strings.Contains(name, "v_proj"):
			continue
		default:
			e.name = rename.Replace(name)
		}
		out = append(out, e)
	}
	mustWrite(t, shard, encodeShard(out, nil))
	editJSON(t, filepath.Join(path, "config.json"), func(m map[string]any) {
		rope := m["rope_scaling"].(map[string]any)
		m["num_experts"], m["experts_per_token"] = m["num_local_experts"], m["num_experts_per_tok"]
		m["initial_context_length"], m["rope_scaling_factor"] = rope["original_max_position_embeddings"], rope["factor"]
		m["rope_ntk_alpha"], m["rope_ntk_beta"] = 1, 32
		for _, key := range []string{"model_type", "rope_scaling", "num_local_experts", "num_experts_per_tok", "layer_types",
			"max_position_embeddings", "rms_norm_eps", "quantization_config", "attention_bias", "tie_word_embeddings", "hidden_act"} {
			delete(m, key)
		}
	})
}

func TestOpenOriginalLayout(t *testing.T) {
	path := writeSynth(t, "gpt-oss-tiny", synth.Options{})
	want := mustOpen(t, writeSynth(t, "gpt-oss-tiny", synth.Options{}))
	toOriginal(t, path)
	m := mustOpen(t, path)
	sameParams(t, m, want)
	if !reflect.DeepEqual(m.Spec, want.Spec) {
		t.Errorf("spec\n%+v, want\n%+v", m.Spec, want.Spec)
	}
	if m.Format != "safetensors, original layout" || len(m.Unknown) != 0 {
		t.Errorf("format %q, unknown %q", m.Format, m.Unknown)
	}
	q, k := m.Params["layers.0.q"], m.Params["layers.0.k"]
	if &q.Data[len(q.Data)-1:][:2][1] != &k.Data[0] {
		t.Error("q and k were copied out of the fused tensor")
	}
	// A checkpoint of OpenAI has no tokenizer: the built-in one has more ids than this toy.
	if err := os.Remove(filepath.Join(path, "tokenizer.json")); err != nil {
		t.Fatal(err)
	}
	wantError(t, path, Inconsistent, "at most 400 ids")
}

// Files that other programs wrote differ in names, in how gate and up are stored
// and in which keys they leave out; all open to the same model.
func TestOpenGGUFVariants(t *testing.T) {
	path := writeSynth(t, "gpt-oss-tiny", synth.Options{Format: synth.GGUF})
	want := mustOpen(t, path)
	for _, c := range []struct {
		name   string
		change func(g *ggufImage)
	}{
		{"integers of another width", func(g *ggufImage) {
			for i, k := range g.keys {
				if k.typ == ggufU32 {
					g.keys[i].typ, g.keys[i].body = ggufU64, append(slices.Clone(k.body), 0, 0, 0, 0)
				}
			}
		}},
		{"per-layer arrays", func(g *ggufImage) {
			k := g.key("gpt-oss.attention.head_count_kv")
			body := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(nil, ggufU32), 4)
			k.typ, k.body = ggufArray, append(body, slices.Concat(k.body, k.body, k.body, k.body)...)
		}},
		{"alignment 64", func(g *ggufImage) {
			g.set("general.alignment", ggufU32, []byte{64, 0, 0, 0})
			for i := range g.tensors { // padded data keeps the offsets of encode valid
				d := g.tensors[i].data
				g.tensors[i].data = append(slices.Clone(d), make([]byte, -len(d)&63)...)
			}
			g.set("padding", ggufString, binary.LittleEndian.AppendUint64(nil, 0))
			for len(g.headerOnly())%64 != 0 {
				k := g.key("padding")
				k.body = append(k.body, ' ')
				binary.LittleEndian.PutUint64(k.body, uint64(len(k.body)-8))
			}
		}},
		{"fused gate and up", fuseGateUp},
		{"names of Ollama", toOllama},
		{"rope keys left out", func(g *ggufImage) {
			g.drop("gpt-oss.rope.scaling.type")
			g.drop("gpt-oss.rope.scaling.factor")
			g.drop("gpt-oss.rope.freq_base")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := takeApart(t, path)
			c.change(g)
			changed := filepath.Join(t.TempDir(), "changed.gguf")
			mustWrite(t, changed, g.encode())
			got := mustOpen(t, changed)
			sameParams(t, got, want)
			if !reflect.DeepEqual(got.Spec, want.Spec) {
				t.Errorf("spec\n%+v, want\n%+v", got.Spec, want.Spec)
			}
			if len(got.Unknown) != 0 {
				t.Errorf("unknown %q", got.Unknown)
			}
		})
	}
}

func TestOpenGGUFVersion2(t *testing.T) {
	path := writeSynth(t, "llama-tiny", synth.Options{Format: synth.GGUF})
	old := filepath.Join(t.TempDir(), "old.gguf")
	data := mustRead(t, path)
	data[4] = 2
	mustWrite(t, old, data)
	sameParams(t, mustOpen(t, old), mustOpen(t, path))
}

// GGUF's attention factor multiplies the usual one.
func TestOpenGGUFAttentionFactor(t *testing.T) {
	g := takeApart(t, writeSynth(t, "qwen3-wide-tiny", synth.Options{Format: synth.GGUF}))
	g.set("qwen3.rope.scaling.attn_factor", ggufF32, binary.LittleEndian.AppendUint32(nil, math.Float32bits(2)))
	path := filepath.Join(t.TempDir(), "factor.gguf")
	mustWrite(t, path, g.encode())
	if got, want := mustOpen(t, path).Spec.RoPE.Attention, 2*(0.1*math.Log(4)+1); math.Abs(got-want) > 1e-12 {
		t.Errorf("attention factor %v, want %v", got, want)
	}
}

// headerOnly is what precedes the data.
func (g *ggufImage) headerOnly() []byte {
	none := &ggufImage{keys: g.keys}
	for _, t := range g.tensors {
		t.data = nil
		none.tensors = append(none.tensors, t)
	}
	b := none.encode()
	last := none.fields[len(none.fields)-1]
	return b[:last.at+last.size]
}

// fuseGateUp writes all gate rows, then all up rows of each expert into one tensor.
func fuseGateUp(g *ggufImage) {
	for i := range 4 {
		for _, suffix := range []string{".weight", ".bias"} {
			name := func(part string) string { return fmt.Sprintf("blk.%d.ffn_%s_exps%s", i, part, suffix) }
			gate, up := *g.tensor(name("gate")), *g.tensor(name("up"))
			experts := int(gate.ne[len(gate.ne)-1])
			fused := ggufTensor{name: name("gate_up"), typ: gate.typ, ne: slices.Clone(gate.ne)}
			fused.ne[len(fused.ne)-2] *= 2
			size := len(gate.data) / experts
			for e := range experts {
				fused.data = slices.Concat(fused.data, gate.data[e*size:(e+1)*size], up.data[e*size:(e+1)*size])
			}
			g.dropTensor(gate.name)
			g.dropTensor(up.name)
			g.tensors = append(g.tensors, fused)
		}
	}
}

// toOllama fuses q, k and v and renames what formats.md 5 lists.
func toOllama(g *ggufImage) {
	for i := range g.keys {
		g.keys[i].name = strings.Replace(g.keys[i].name, "gpt-oss.", "gptoss.", 1)
	}
	g.setString("general.architecture", "gptoss")
	g.drop("gptoss.expert_feed_forward_length")
	for i := range 4 {
		for _, suffix := range []string{".weight", ".bias"} {
			name := func(part string) string { return fmt.Sprintf("blk.%d.%s%s", i, part, suffix) }
			q, k, v := *g.tensor(name("attn_q")), *g.tensor(name("attn_k")), *g.tensor(name("attn_v"))
			fused := ggufTensor{name: name("attn_qkv"), typ: q.typ, ne: slices.Clone(q.ne), data: slices.Concat(q.data, k.data, v.data)}
			at := len(q.ne) - 1
			fused.ne[at] += k.ne[at] + v.ne[at]
			for _, part := range []string{"attn_q", "attn_k", "attn_v"} {
				g.dropTensor(name(part))
			}
			g.tensors = append(g.tensors, fused)
			g.tensor(name("attn_output")).name = name("attn_out")
		}
		g.tensor(fmt.Sprintf("blk.%d.attn_sinks.weight", i)).name = fmt.Sprintf("blk.%d.attn_sinks", i)
		g.tensor(fmt.Sprintf("blk.%d.post_attention_norm.weight", i)).name = fmt.Sprintf("blk.%d.ffn_norm.weight", i)
	}
}

// The dialects of config.json, models.md 1.1, 2.1, 2.4 and 3.
func TestReadConfig(t *testing.T) {
	const base = `"num_hidden_layers": 4, "hidden_size": 64, "vocab_size": 100, "num_attention_heads": 4, "intermediate_size": 96, "max_position_embeddings": 4096`
	const oss = `"model_type": "gpt_oss", "num_experts_per_tok": 2, "num_local_experts": 8, ` + base
	for _, c := range []struct {
		name, json string
		check      func(s *model.Spec) bool
	}{
		{"llama defaults", `"model_type": "llama", ` + base, func(s *model.Spec) bool {
			return s.KVHeads == 4 && s.HeadDim == 16 && s.Eps == 1e-6 && !s.Tied && s.RoPE.Base == 10000 && s.MaxLen == 4096 && !s.QKVBias
		}},
		{"llama biases", `"model_type": "llama", "attention_bias": true, "mlp_bias": true, "tie_word_embeddings": true, ` + base, func(s *model.Spec) bool {
			return s.QKVBias && s.OBias && s.FFN.Bias && s.Tied
		}},
		{"old rope", `"model_type": "llama", "rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 2}, ` + base, func(s *model.Spec) bool {
			return s.RoPE.Base == 5e5 && s.RoPE.Scaling == model.ScalingLinear && s.RoPE.Factor == 2
		}},
		{"new rope", `"model_type": "llama", "rope_parameters": {"rope_theta": 5e5, "rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 512}, ` + base, func(s *model.Spec) bool {
			return s.RoPE.Base == 5e5 && s.RoPE.Scaling == model.ScalingLlama3 && s.RoPE.Original == 512 && s.RoPE.LowFreq == 1 && s.RoPE.HighFreq == 4
		}},
		{"null rope", `"model_type": "llama", "rope_scaling": null, "head_dim": null, ` + base, func(s *model.Spec) bool {
			return s.RoPE.Scaling == model.ScalingNone && s.HeadDim == 16
		}},
		{"floats for integers", `"model_type": "llama", "num_key_value_heads": 2.0, ` + base, func(s *model.Spec) bool { return s.KVHeads == 2 }},
		{"qwen3 yarn", `"model_type": "qwen3", "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}, ` + base, func(s *model.Spec) bool {
			return s.HeadDim == 128 && s.QKNorm && s.RoPE.Truncate && s.RoPE.BetaFast == 32 && s.MaxLen == 8192
		}},
		{"qwen3 yarn without its factor", `"model_type": "qwen3", "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "attn_factor": 0.8782488562869419, "original_max_position_embeddings": 2048}, ` + base, func(s *model.Spec) bool {
			return math.Abs(s.RoPE.Attention-1) < 1e-12
		}},
		{"qwen3 windows", `"model_type": "qwen3", "use_sliding_window": true, "sliding_window": 50, "max_window_layers": 3, ` + base, func(s *model.Spec) bool {
			return slices.Equal(s.Windows, []int{0, 0, 0, 50})
		}},
		{"qwen3 windows off", `"model_type": "qwen3", "use_sliding_window": false, "sliding_window": 50, "max_window_layers": 3, ` + base, func(s *model.Spec) bool {
			return slices.Equal(s.Windows, []int{0, 0, 0, 0})
		}},
		{"qwen3moe", `"model_type": "qwen3_moe", "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "norm_topk_prob": true, "mlp_only_layers": [], ` + base, func(s *model.Spec) bool {
			return s.FFN.Experts == 8 && s.FFN.Inner == 32 && s.FFN.Renorm && s.FFN.Dense == nil
		}},
		{"qwen3moe sparse step", `"model_type": "qwen3_moe", "num_local_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "decoder_sparse_step": 2, "mlp_only_layers": [1], ` + base, func(s *model.Spec) bool {
			return slices.Equal(s.FFN.Dense, []bool{true, true, true, false}) && s.FFN.DenseInner == 96 && !s.FFN.Renorm
		}},
		{"gpt-oss defaults", oss, func(s *model.Spec) bool {
			return s.HeadDim == 64 && slices.Equal(s.Windows, []int{128, 0, 128, 0}) && s.RoPE.Scaling == model.ScalingYaRN && s.RoPE.Factor == 32 &&
				s.RoPE.Original == 4096 && s.RoPE.Base == 150000 && !s.RoPE.Truncate && s.Sinks && s.QKVBias && s.OBias && s.Eps == 1e-5
		}},
		{"gpt-oss layer types", oss + `, "sliding_window": 7, "layer_types": ["full_attention", "sliding_attention", "full_attention", "full_attention"]`, func(s *model.Spec) bool {
			return slices.Equal(s.Windows, []int{0, 7, 0, 0})
		}},
		{"gpt-oss is never truncated", oss + `, "rope_scaling": {"rope_type": "yarn", "factor": 8, "truncate": true, "original_max_position_embeddings": 128}`, func(s *model.Spec) bool {
			return !s.RoPE.Truncate && s.RoPE.Factor == 8 && s.RoPE.Original == 128
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, _, err := readConfig("config.json", []byte("{"+c.json+"}"))
			if err != nil {
				t.Fatal(err)
			}
			if !c.check(s) {
				t.Errorf("spec %+v", s)
			}
		})
	}
}

// Biases that llama configurations may switch on come out in the order of both
// containers.
func TestOpenLlamaBiases(t *testing.T) {
	dir := writeSynth(t, "llama-tiny", synth.Options{Type: tensor.F32})
	editJSON(t, filepath.Join(dir, "config.json"), func(m map[string]any) { m["attention_bias"], m["mlp_bias"] = true, true })
	gguf := takeApart(t, writeSynth(t, "llama-tiny", synth.Options{Type: tensor.F32, Format: synth.GGUF}))
	shard := filepath.Join(dir, "model.safetensors")
	entries := takeApartShard(t, shard)
	ramp := func(n int, at func(i int) int) []byte {
		f := make([]float32, n)
		for i := range f {
			f[i] = float32(at(i))
		}
		b := make([]byte, 4*n)
		tensor.Encode(tensor.F32, b, nil, f)
		return b
	}
	same := func(i int) int { return i }
	permuted := func(i int) int { return i/32*32 + i%2*16 + i%32/2 } // GGUF row 2j+a is row a·16+j
	for layer := range 3 {
		for _, b := range []struct {
			hf, gguf string
			n        int
			order    func(int) int
		}{
			{"self_attn.q_proj", "attn_q", 96, permuted}, {"self_attn.k_proj", "attn_k", 32, permuted}, {"self_attn.v_proj", "attn_v", 32, same},
			{"self_attn.o_proj", "attn_output", 96, same}, {"mlp.gate_proj", "ffn_gate", 160, same}, {"mlp.up_proj", "ffn_up", 160, same}, {"mlp.down_proj", "ffn_down", 96, same},
		} {
			entries = append(entries, stEntry{fmt.Sprintf("model.layers.%d.%s.bias", layer, b.hf), "F32", []int{b.n}, ramp(b.n, same)})
			gguf.tensors = append(gguf.tensors, ggufTensor{fmt.Sprintf("blk.%d.%s.bias", layer, b.gguf), 0, []uint64{uint64(b.n)}, ramp(b.n, b.order)})
		}
	}
	mustWrite(t, shard, encodeShard(entries, nil))
	path := filepath.Join(t.TempDir(), "biased.gguf")
	mustWrite(t, path, gguf.encode())
	hf := mustOpen(t, dir)
	sameParams(t, mustOpen(t, path), hf)
	q, up := hf.Params["layers.0.q_bias"], hf.Params["layers.0.up_bias"]
	if got := values(t, &q)[:3]; !slices.Equal(got, []float32{0, 1, 2}) {
		t.Errorf("q bias begins %v", got)
	}
	if got := values(t, &up)[:4]; !slices.Equal(got, []float32{0, 0, 1, 1}) {
		t.Errorf("up bias begins %v, want gate and up in turn", got)
	}
	gguf.dropTensor("blk.0.attn_k.bias")
	path = filepath.Join(t.TempDir(), "lost.gguf")
	mustWrite(t, path, gguf.encode())
	wantError(t, path, Incomplete, "blk.0.attn_k.bias")
}

func TestOpenText(t *testing.T) {
	path := writeSynth(t, "qwen3-tiny", synth.Options{})
	config := filepath.Join(path, "tokenizer_config.json")
	if err := os.Remove(filepath.Join(path, "chat_template.jinja")); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	editJSON(t, config, func(m map[string]any) {
		m["chat_template"] = "plain"
		m["eos_token"] = map[string]any{"content": "<|im_end|>", "special": true}
	})
	m := mustOpen(t, path)
	if m.Template != "plain" || m.Special["eos_token"] != "<|im_end|>" {
		t.Errorf("template %q, special %v", m.Template, m.Special)
	}
	editJSON(t, config, func(m map[string]any) {
		m["chat_template"] = []map[string]string{{"name": "tool_use", "template": "x"}, {"name": "default", "template": "named"}}
	})
	if m := mustOpen(t, path); m.Template != "named" {
		t.Errorf("template %q, want the default of the list", m.Template)
	}
	mustWrite(t, filepath.Join(path, "chat_template.jinja"), []byte("file"))
	mustWrite(t, filepath.Join(path, "generation_config.json"),
		[]byte(`{"bos_token_id": 5, "eos_token_id": [7, 6, 100000], "do_sample": true, "temperature": 0.6, "top_p": 0.95, "top_k": 20, "min_p": null}`))
	m = mustOpen(t, path)
	if m.Template != "file" {
		t.Errorf("template %q, want that of the file", m.Template)
	}
	g := m.Generation
	if g.Temperature == nil || *g.Temperature != 0.6 || *g.TopP != 0.95 || *g.TopK != 20 || !*g.Sample || g.MinP != nil || g.RepetitionPenalty != nil {
		t.Errorf("generation %+v", g)
	}
	if m.BOS != 5 || !slices.Contains(m.Stops, 6) || !slices.Contains(m.Stops, 7) || slices.Contains(m.Stops, 100000) {
		t.Errorf("begin %d, stops %v", m.BOS, m.Stops)
	}
}

func TestOpenUnused(t *testing.T) {
	m := mustOpen(t, writeSynth(t, "gpt-oss-tiny", synth.Options{}))
	for id := range int32(m.Spec.Vocab) {
		text := m.Tokenizer.Text(id)
		want := text == "" || strings.Contains(text, "<|reserved_") || text == "<|endofprompt|>"
		if got := slices.Contains(m.Unused, id); got != want {
			t.Errorf("id %d (%q): unused %v, want %v", id, text, got, want)
		}
	}
	if len(m.Unused) == 0 || len(m.Unused) == m.Spec.Vocab {
		t.Errorf("%d unused ids of %d", len(m.Unused), m.Spec.Vocab)
	}
}

// A stored copy of the tied output projection is known; other extras are listed.
func TestOpenUnknownTensors(t *testing.T) {
	path := writeSynth(t, "llama-tiny", synth.Options{})
	shard := filepath.Join(path, "model.safetensors")
	entries := takeApartShard(t, shard)
	i := slices.IndexFunc(entries, func(e stEntry) bool { return e.name == "model.embed_tokens.weight" })
	head := entries[i]
	head.name = "lm_head.weight"
	entries = append(entries, head, stEntry{"z.extra", "F8_E4M3", []int{3}, []byte{1, 2, 3}}, stEntry{"a.extra", "I64", []int{}, make([]byte, 8)}, stEntry{"empty", "F32", []int{0, 5}, nil})
	mustWrite(t, shard, encodeShard(entries, nil))
	if m := mustOpen(t, path); !slices.Equal(m.Unknown, []string{"a.extra", "empty", "z.extra"}) {
		t.Errorf("unknown %q", m.Unknown)
	}
}

func TestDropKeepsValues(t *testing.T) {
	m := mustOpen(t, writeSynth(t, "gpt-oss-tiny", synth.Options{}))
	for name, p := range m.Params {
		before := values(t, &p)
		p.Release()
		if after := values(t, &p); !slices.Equal(before, after) {
			t.Errorf("%s changed when its pages were dropped", name)
		}
	}
}

func TestCloseTwice(t *testing.T) {
	m, err := Open(writeSynth(t, "llama-tiny", synth.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Opening reads headers only: a checkpoint of many gigabytes of zeros, most of it
// holes in the file system, opens long before they could be read.
func TestOpenReadsHeadersOnly(t *testing.T) {
	path := writeSynth(t, "llama-tiny", synth.Options{})
	shard := filepath.Join(path, "model.safetensors")
	entries := takeApartShard(t, shard)
	const extra = 200 << 30
	data := encodeShard(entries, nil)
	header := int(binary.LittleEndian.Uint64(data))
	body := len(data) - 8 - header
	text := strings.TrimRight(string(data[8:8+header]), " ")
	text = strings.TrimSuffix(text, "}") + fmt.Sprintf(`,"hole":{"dtype":"U8","shape":[%d],"data_offsets":[%d,%d]}}`, extra, body, body+extra)
	b := append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)
	b = append(b, data[8+header:]...)
	mustWrite(t, shard, b)
	if err := os.Truncate(shard, int64(len(b)+extra)); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	m := mustOpen(t, path)
	if d := time.Since(start); d > 15*time.Second {
		t.Errorf("opening took %v", d)
	}
	if !slices.Equal(m.Unknown, []string{"hole"}) {
		t.Errorf("unknown %q", m.Unknown)
	}
}

func TestScannerAgreesWithJSON(t *testing.T) {
	for _, text := range []string{`{}`, `{"a":1}`, `{"a":"b\u00e9\n\"","c":[1,2,[]],"d":{"e":null,"f":-1.5e3,"g":true}}`, " { \"a\" : [ ] } ", `{"a":01}`, `{"a":}`, `{"a":1,}`, `{"a" 1}`,
		`{"a":tru}`, `{"a":"\x"}`, `[]`, `{"a":1}x`, `{"a":[1 2]}`, `{"a":"` + "\x01" + `"}`, `{"a":"unclosed`, `{"a":{"b":[}`, ``, `{`, `"a"`, `{"a":nul}`, `{"a":+1}`, `{"\u12":1}`} {
		s := &scanner{path: "x", data: []byte(text)}
		s.object(func(string) { s.skip(0) })
		s.end()
		want := json.Valid([]byte(text)) && strings.HasPrefix(strings.TrimSpace(text), "{")
		if got := s.err == nil; got != want && text != `{"a":"\x"}` { // a skipped string's escapes are not looked at
			t.Errorf("%s: accepted %v, want %v (%v)", text, got, want, s.err)
		}
	}
}

// A directory inside the program gives the same model as one on disk.
func TestOpenFS(t *testing.T) {
	path := writeSynth(t, "gpt-oss-tiny", synth.Options{})
	want := mustOpen(t, path)
	got, err := OpenFS(os.DirFS(path), "built-in")
	if err != nil {
		t.Fatal(err)
	}
	sameParams(t, got, want)
	if got.Spec.Name != "built-in" || got.Sealed || got.Template != want.Template || !slices.Equal(got.Stops, want.Stops) {
		t.Errorf("name %q, sealed %v, stops %v", got.Spec.Name, got.Sealed, got.Stops)
	}
	for _, p := range got.Params {
		if p.Drop != nil { // would clear memory of the program
			t.Errorf("%s can be dropped", p.Name)
		}
	}
	if err := got.Verify(t.Context(), nil, nil); err != nil {
		t.Error(err)
	}
	if err := got.Close(); err != nil {
		t.Error(err)
	}
	if err := os.Remove(filepath.Join(path, "model.safetensors")); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFS(os.DirFS(path), "built-in"); err == nil || !strings.Contains(err.Error(), "model.safetensors") {
		t.Errorf("without weights: %v", err)
	}
}

// Weights can be looked at while the tokenizer is made, which is as Open has it, and what is
// wrong with it comes before what is wrong with the files that are read after it.
func TestStart(t *testing.T) {
	t.Parallel()
	for _, o := range []synth.Options{{}, {Format: synth.GGUF}} {
		path := writeSynth(t, "gpt-oss-tiny", o)
		want := mustOpen(t, path)
		m, err := Start(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { m.Close() })
		if m.Tokenizer != nil {
			t.Errorf("%s: Start has made a tokenizer", want.Format)
		}
		sameParams(t, m, want)
		var wg sync.WaitGroup
		wg.Go(func() { err = m.Verify(t.Context(), nil, nil) })
		finished := m.Finish()
		wg.Wait()
		if err := errors.Join(err, finished, m.Finish()); err != nil {
			t.Fatal(err)
		}
		texts := func(m *Model) []any {
			return []any{m.Tokenizer.Vocab(), m.Template, m.Special, m.Generation, m.BOS, m.Stops, m.Unused, m.Format, m.Unknown, m.Sealed}
		}
		if got, want := texts(m), texts(want); !reflect.DeepEqual(got, want) {
			t.Errorf("finished\n%v, opened\n%v", got, want)
		}
	}
	path := writeSynth(t, "llama-tiny", synth.Options{})
	mustWrite(t, filepath.Join(path, "tokenizer.json"), []byte("{"))
	m, err := Start(path)
	if err != nil {
		t.Fatal(err)
	}
	if e, ok := errors.AsType[*Error](m.Finish()); !ok || e.Kind != Damaged || filepath.Base(e.File) != "tokenizer.json" {
		t.Errorf("Finish: %v", e)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	mustWrite(t, filepath.Join(path, "generation_config.json"), []byte("["))
	wantError(t, path, Damaged, "tokenizer.json")
}
