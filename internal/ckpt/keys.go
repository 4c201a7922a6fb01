package ckpt

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"ossian/internal/model"
	"ossian/internal/tensor"
	"ossian/internal/token"
)

// architectures are the values of general.architecture in GGUF files.
var architectures = map[string]string{"gpt-oss": "gpt-oss", "gptoss": "gpt-oss", "qwen3": "qwen3", "qwen3moe": "qwen3moe", "llama": "llama"}

// metadata reads the keys of a GGUF file. The first error sticks.
type metadata struct {
	file string
	keys map[string]value
	arch string // as the file spells it; "A." in formats.md 5
	err  error
}

// fail notes what a key holds and what was expected.
func (m *metadata) fail(key, want string) {
	if v := m.keys[key]; m.err == nil {
		m.err = damaged(m.file, v.at, "key "+key, want, v.text())
	}
}

// missing reports that key is not there.
func (m *metadata) missing(key string) {
	if m.err == nil {
		m.err = incomplete(m.file, "key "+key+" is missing")
	}
}

// int returns the architecture's key, an int32 not below 1, or def; def 0 means it
// must be given. Per-layer arrays count when all layers agree.
func (m *metadata) int(def int, key string) int {
	key = m.arch + "." + key
	stored, ok := m.keys[key]
	if !ok {
		if def == 0 {
			m.missing(key)
		}
		return def
	}
	list, ok := stored.integers()
	if !ok || len(list) == 0 || list[0] < 1 || list[0] > math.MaxInt32 {
		m.fail(key, fmt.Sprintf("an integer from 1 to %d", math.MaxInt32))
		return def
	}
	for layer, n := range list {
		if n != list[0] && m.err == nil {
			m.err = unsupported(m.file, "key "+key, "one value for all layers", fmt.Sprintf("%d for layer 0 and %d for layer %d", list[0], n, layer))
		}
	}
	return int(list[0])
}

// float returns the architecture's key, a finite number, or def.
func (m *metadata) float(def float64, key string) float64 {
	key = m.arch + "." + key
	v, ok := m.keys[key]
	if !ok {
		return def
	}
	f, ok := v.number()
	if !ok || math.IsNaN(f) || math.IsInf(f, 0) {
		m.fail(key, "a finite number")
		return def
	}
	return f
}

// string returns a key, "" when absent.
func (m *metadata) string(key string) string {
	v, ok := m.keys[key]
	if ok && v.typ != ggufString {
		m.fail(key, "a string")
		return ""
	}
	return strings.ToValidUTF8(string(v.raw), "\ufffd")
}

// bool returns a key, false when absent.
func (m *metadata) bool(key string) bool {
	v, ok := m.keys[key]
	if ok && v.typ != ggufBool {
		m.fail(key, "a bool")
		return false
	}
	return ok && v.raw[0] == 1
}

// id returns a token id, -1 when absent.
func (m *metadata) id(key string) int32 {
	v, ok := m.keys[key]
	if !ok {
		return -1
	}
	number, ok := v.integer()
	if !ok || number < -1 || number > math.MaxInt32 {
		if number == math.MaxUint32 { // how some writers say "none"
			return -1
		}
		m.fail(key, "a token id")
		return -1
	}
	return int32(number)
}

// strings returns an array of strings that must be there.
func (m *metadata) strings(key string) []string {
	v, ok := m.keys[key]
	if !ok {
		m.missing(key)
		return nil
	}
	list, ok := v.strings()
	if !ok {
		m.fail(key, fmt.Sprintf("an array of at most %d strings", maxStrings))
	}
	return list
}

// spec translates the keys of formats.md 5. What GGUF does not say is read from
// the tensors: the vocabulary, which projections have biases, and whether the
// output projection is the embedding.
func (m *metadata) spec(assembler *assembler) *model.Spec {
	m.arch = m.string("general.architecture")
	spec := &model.Spec{Family: architectures[m.arch]}
	if m.checkKind(len(assembler.tensors)); m.err != nil {
		return spec
	}
	if spec.Family == "" {
		if _, ok := m.keys["general.architecture"]; !ok {
			m.missing("general.architecture")
		} else if m.err == nil {
			m.err = unsupported(m.file, "general.architecture", "gpt-oss, qwen3, qwen3moe or llama", fmt.Sprintf("%q", clip(m.arch)))
		}
		return spec
	}
	spec.Name = clip(clean(m.string("general.name")))
	spec.Layers, spec.Hidden, spec.Heads = m.int(0, "block_count"), m.int(0, "embedding_length"), m.int(0, "attention.head_count")
	spec.KVHeads = m.int(spec.Heads, "attention.head_count_kv")
	spec.HeadDim = m.int(max(spec.Hidden/max(spec.Heads, 1), 1), "attention.key_length")
	for _, key := range []string{"attention.value_length", "rope.dimension_count"} {
		if length := m.int(max(spec.HeadDim, 1), key); length != spec.HeadDim && m.err == nil {
			m.err = unsupported(m.file, "key "+m.arch+"."+key, fmt.Sprintf("the key length %d", spec.HeadDim), length)
		}
	}
	spec.MaxLen = m.int(0, "context_length")
	spec.Eps = float32(m.float(1e-5, "attention.layer_norm_rms_epsilon"))
	spec.QKNorm = spec.Family == "qwen3" || spec.Family == "qwen3moe"
	m.feedForward(assembler, spec)
	m.rope(spec)
	if spec.Layers <= maxLayers {
		spec.Windows = make([]int, spec.Layers)
		for layer := 0; layer < spec.Layers && spec.Family == "gpt-oss"; layer += 2 {
			spec.Windows[layer] = m.int(128, "attention.sliding_window")
		}
	}
	// The rest is told by which tensors there are.
	spec.QKVBias = spec.Family == "gpt-oss" || assembler.anyLayer("attn_q.bias", "attn_k.bias", "attn_v.bias", "attn_qkv.bias")
	spec.OBias = spec.Family == "gpt-oss" || assembler.anyLayer("attn_output.bias", "attn_out.bias")
	if embed, ok := assembler.find("token_embd.weight"); ok && len(embed.shape) == 2 {
		spec.Vocab = embed.shape[0]
	} else if m.err == nil {
		m.err = &Error{Kind: Incomplete, File: m.file, Tensor: "token_embd.weight", Offset: -1, Problem: "a matrix of embeddings is missing"}
	}
	_, head := assembler.find("output.weight")
	spec.Tied = !head && spec.Family != "gpt-oss"
	return spec
}

// checkKind refuses GGUF files that hold no model.
func (m *metadata) checkKind(tensors int) {
	kinds := map[string]string{ // by general.type or general.architecture
		"adapter":       "an adapter (LoRA): merge it into its base model, and give the result",
		"mmproj":        "a projector of images, which lies beside a model: give the model's own file",
		"imatrix":       "an importance matrix, with which models are quantised",
		"vocab":         "a vocabulary without weights",
		"clip":          "a projector of images (clip), which lies beside a model: give the model's own file",
		"controlvector": "a control vector, which changes how a model writes",
	}
	found := cmp.Or(kinds[m.string("general.type")], kinds[m.arch])
	pooled, _ := m.keys[m.arch+".pooling_type"].integer()
	switch {
	case found == "" && (pooled > 0 || strings.Contains(m.arch, "bert")):
		found = "one that makes embeddings, no text (" + clip(m.arch) + ")"
	case found == "" && tensors == 0:
		found = kinds["vocab"]
	}
	if found != "" && m.err == nil {
		m.err = unsupported(m.file, "kind of GGUF file", "a model that writes text", found)
	}
}

// anyLayer reports whether any layer has one of the tensors: if one layer does,
// all must, and a file that lost some is not a model without biases.
func (a *assembler) anyLayer(parts ...string) bool {
	for name := range a.tensors {
		rest, _ := strings.CutPrefix(name, "blk.")
		if _, part, _ := strings.Cut(rest, "."); slices.Contains(parts, part) {
			return true
		}
	}
	return false
}

// feedForward reads the width of the feed-forward part and, of mixtures, the experts.
func (m *metadata) feedForward(assembler *assembler, spec *model.Spec) {
	switch spec.Family {
	case "gpt-oss":
		spec.Sinks = true
		spec.FFN = model.FFN{Renorm: true, Bias: true, Activation: model.SwiGLU}
	case "qwen3moe":
		spec.FFN = model.FFN{Renorm: true}
	default:
		spec.FFN.Inner = m.int(0, "feed_forward_length")
		spec.FFN.Bias = assembler.anyLayer("ffn_gate.bias", "ffn_up.bias", "ffn_down.bias")
		if n := m.keys[m.arch+".expert_count"]; n.raw != nil && m.err == nil {
			if count, _ := n.integer(); count > 0 {
				m.err = unsupported(m.file, "key "+m.arch+".expert_count", "0", n.text())
			}
		}
		return
	}
	spec.FFN.Experts, spec.FFN.TopK = m.int(0, "expert_count"), m.int(0, "expert_used_count")
	if _, ok := m.keys[m.arch+".expert_feed_forward_length"]; ok {
		spec.FFN.Inner = m.int(0, "expert_feed_forward_length")
	} else {
		spec.FFN.Inner = m.int(0, "feed_forward_length")
	}
}

// rope reads RoPE, which early files of gpt-oss describe in part.
func (m *metadata) rope(spec *model.Spec) {
	rope := &spec.RoPE
	kind := m.string(m.arch + ".rope.scaling.type")
	base := 10000.0
	if spec.Family == "gpt-oss" {
		base, kind = 150000, "yarn" // early files leave the type out
	}
	rope.Base = m.float(base, "rope.freq_base")
	switch kind {
	case "", "none":
		return
	case "linear":
		rope.Scaling = model.ScalingLinear
	case "yarn":
		rope.Scaling = model.ScalingYaRN
	default:
		if m.err == nil {
			m.err = unsupported(m.file, "key "+m.arch+".rope.scaling.type", "none, linear or yarn", kind)
		}
		return
	}
	factor := 0.0
	if spec.Family == "gpt-oss" {
		factor = 32
	}
	rope.Factor = m.float(factor, "rope.scaling.factor")
	if !(rope.Factor >= 1 && rope.Factor <= 1e6) {
		m.fail(m.arch+".rope.scaling.factor", "a number from 1 to 1e6")
	}
	if kind == "linear" {
		return
	}
	trained := 4096
	if spec.Family != "gpt-oss" {
		trained = max(spec.MaxLen, 1)
		rope.Truncate = true
	}
	rope.Original = m.int(trained, "rope.scaling.original_context_length")
	rope.BetaFast, rope.BetaSlow = m.float(32, "rope.scaling.yarn_beta_fast"), m.float(1, "rope.scaling.yarn_beta_slow")
	if rope.BetaSlow <= 0 || rope.BetaFast < rope.BetaSlow {
		m.fail(m.arch+".rope.scaling.yarn_beta_slow", "0 < slow <= fast")
	}
	// In GGUF the factor multiplies the usual one, in config.json it replaces it.
	if multiple := m.float(1, "rope.scaling.attn_factor"); multiple != 1 && multiple > 0 {
		rope.Attention = multiple * (0.1*math.Log(rope.Factor) + 1)
	}
}

// divisors reads rope_freqs, which holds the frequency scaling of Llama 3.
func (a *assembler) divisors() []float32 {
	found, ok := a.find("rope_freqs.weight")
	if !ok || a.spec.Family != "llama" {
		return nil
	}
	freqs := a.raw(tensor.F32, []int{a.spec.HeadDim / 2}, found.name)
	if a.err != nil {
		return nil
	}
	divisors := make([]float32, a.spec.HeadDim/2)
	freqs.Row(0).Floats(divisors)
	for i, v := range divisors {
		if !(v > 0 && v < math.MaxFloat32) {
			a.err = found.error(Damaged, fmt.Sprintf("element %d", i), "a finite divisor > 0", v)
		}
	}
	return divisors
}

// vocab translates the keys of formats.md 6.
func (m *metadata) vocab(family string) token.Vocab {
	const prefix = "tokenizer.ggml."
	vocab := token.Vocab{Model: m.string(prefix + "model"), Pre: m.string(prefix + "pre"), Tokens: m.strings(prefix + "tokens"), Merges: m.strings(prefix + "merges"),
		BOS: m.id(prefix + "bos_token_id"), EOS: m.id(prefix + "eos_token_id"), AddBOS: m.bool(prefix + "add_bos_token"), AddEOS: m.bool(prefix + "add_eos_token")}
	if _, told := m.keys[prefix+"add_bos_token"]; !told { // as in llama.cpp
		vocab.AddBOS = token.BeginsText(vocab.Pre) && vocab.BOS >= 0
	}
	if family == "gpt-oss" && (vocab.Pre == "" || vocab.Pre == "default") {
		vocab.Pre = "gpt-4o" // files of converters that did not know the name
	}
	types, ok := m.keys[prefix+"token_type"]
	list, isInts := types.integers()
	if ok && !isInts {
		m.fail(prefix+"token_type", fmt.Sprintf("an array of at most %d integers", maxStrings))
	} else if !ok {
		m.missing(prefix + "token_type")
	}
	vocab.Types = make([]int32, len(list))
	for i, n := range list {
		vocab.Types[i] = int32(n)
	}
	return vocab
}
