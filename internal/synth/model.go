package synth

import (
	"fmt"
	"slices"
	"strings"

	"ossian/internal/model"
)

// A Model is what to write: a Spec and the tokenizer around it.
type Model struct {
	model.Spec
	Tokenizer Tokenizer
	Text      int // ordinary tokens: 256 bytes, then merges; control tokens and unused rows of the embedding come on top
}

// A Tokenizer is a published tokenizer whose pre-tokenizer, control tokens and
// chat format are imitated. The vocabulary is made up.
type Tokenizer uint8

const (
	Harmony Tokenizer = iota // gpt-oss
	Qwen                     // Qwen3
	SmolLM                   // SmolLM2: control tokens are ids 0-16
	Llama3
)

// Shorten returns m with the first n layers only; n = 0 keeps all.
func (m Model) Shorten(n int) Model {
	if n > 0 && n < m.Layers {
		m.Layers, m.Windows = n, m.Windows[:n]
	}
	return m
}

// knownFamily reports whether f is written at all.
func knownFamily(f string) bool {
	return slices.Contains([]string{"gpt-oss", "qwen3", "qwen3moe", "llama"}, f)
}

// Presets lists the names that Preset knows.
func Presets() []string {
	var names []string
	for _, preset := range presets() {
		names = append(names, preset.Name)
	}
	return names
}

// Preset returns the model of that name. The published sizes are those of
// models.md 1.1, 2.1 and 3; names ending in "-tiny" are for tests.
func Preset(name string) (Model, error) {
	for _, preset := range presets() {
		if preset.Name == name {
			return preset, nil
		}
	}
	return Model{}, fmt.Errorf("no synthetic model is called %q; there are %s", name, strings.Join(Presets(), ", "))
}

// presets are the models that have a name.
func presets() []Model {
	qwen := Model{Tokenizer: Qwen, Text: 151643, Spec: model.Spec{Vocab: 151936}}
	smol := Model{Tokenizer: SmolLM, Text: 49152 - 17, Spec: model.Spec{Vocab: 49152}}
	oss := Model{Tokenizer: Harmony, Text: harmonyText, Spec: model.Spec{Vocab: 201088, Heads: 64, KVHeads: 8, HeadDim: 64, MaxLen: 131072}}
	return append([]Model{
		gptOSS("gpt-oss-20b", oss, 24, 2880, 2880, 32, 4, 128, 4096),
		gptOSS("gpt-oss-120b", oss, 36, 2880, 2880, 128, 4, 128, 4096),
		qwen3("qwen3-0.6b", qwen, 28, 1024, 3072, 16, 8, 128, true),
		qwen3("qwen3-1.7b", qwen, 28, 2048, 6144, 16, 8, 128, true),
		qwen3("qwen3-4b", qwen, 36, 2560, 9728, 32, 8, 128, true),
		qwen3("qwen3-8b", qwen, 36, 4096, 12288, 32, 8, 128, false),
		qwen3moe("qwen3-30b-a3b", qwen, 48, 2048, 32, 4, 128, 128, 8, 768),
		llama("smollm2-135m", smol, 30, 576, 1536, 9, 3, 64, true),
		llama("smollm2-360m", smol, 32, 960, 2560, 15, 5, 64, true),
	}, tiny()...)
}

// tiny returns models that are written in milliseconds. Their dimensions are
// awkward on purpose: odd numbers of blocks per row, head dimensions that are not
// hidden size / heads, windows that do not end at block borders.
func tiny() []Model {
	const text = 336
	qwen := Model{Tokenizer: Qwen, Text: text, Spec: model.Spec{Vocab: 384}}
	smol := Model{Tokenizer: SmolLM, Text: text, Spec: model.Spec{Vocab: text + 17}}
	three := Model{Tokenizer: Llama3, Text: text, Spec: model.Spec{Vocab: text + 256}}
	oss := Model{Tokenizer: Harmony, Text: text, Spec: model.Spec{Vocab: 400, Heads: 8, KVHeads: 2, HeadDim: 32, MaxLen: 32768}}
	// These have the frequency scalings, and one has rows long enough for K types.
	untied := llama("llama3-tiny", three, 3, 96, 160, 6, 2, 32, false)
	untied.RoPE = model.RoPE{Base: 500000, Scaling: model.ScalingLlama3, Factor: 8, Original: 512, LowFreq: 1, HighFreq: 4}
	linear := llama("llama-linear-tiny", smol, 2, 64, 96, 4, 1, 32, true)
	linear.RoPE.Scaling, linear.RoPE.Factor = model.ScalingLinear, 4
	wide := qwen3("qwen3-wide-tiny", qwen, 2, 256, 512, 4, 2, 64, false) // K types need rows of 256
	wide.RoPE.Scaling, wide.RoPE.Factor, wide.RoPE.Original = model.ScalingYaRN, 4, 512
	wide.RoPE.BetaFast, wide.RoPE.BetaSlow, wide.RoPE.Truncate = 32, 1, true
	wide.MaxLen = 4 * 512
	return []Model{
		gptOSS("gpt-oss-tiny", oss, 4, 96, 64, 8, 4, 20, 1024),
		qwen3("qwen3-tiny", qwen, 3, 64, 96, 4, 2, 32, true),
		wide,
		qwen3moe("qwen3moe-tiny", qwen, 3, 64, 4, 2, 32, 16, 4, 32),
		llama("llama-tiny", smol, 3, 96, 160, 3, 1, 32, true),
		untied, linear,
	}
}

// gptOSS completes m by models.md 1.1. Even layers see window tokens.
func gptOSS(name string, m Model, layers, hidden, inner, experts, topK, window, original int) Model {
	m.Family, m.Name, m.Layers, m.Hidden, m.Eps = "gpt-oss", name, layers, hidden, 1e-5
	m.QKVBias, m.OBias, m.Sinks = true, true, true
	m.RoPE = model.RoPE{Base: 150000, Scaling: model.ScalingYaRN, Factor: 32, Original: original, BetaFast: 32, BetaSlow: 1}
	m.Windows = make([]int, layers)
	for i := 0; i < layers; i += 2 {
		m.Windows[i] = window
	}
	m.FFN = model.FFN{Inner: inner, Experts: experts, TopK: topK, Renorm: true, Bias: true, Activation: model.SwiGLU}
	return m
}

// qwen3 completes m by models.md 2.1.
func qwen3(name string, m Model, layers, hidden, inner, heads, kvHeads, headDim int, tied bool) Model {
	m.Family, m.Name, m.Layers, m.Hidden, m.Eps = "qwen3", name, layers, hidden, 1e-6
	m.Heads, m.KVHeads, m.HeadDim, m.MaxLen, m.QKNorm, m.Tied = heads, kvHeads, headDim, 40960, true, tied
	m.RoPE.Base = 1e6
	m.Windows = make([]int, layers)
	m.FFN.Inner = inner
	return m
}

// qwen3moe completes m by models.md 2.1.
func qwen3moe(name string, m Model, layers, hidden, heads, kvHeads, headDim, experts, topK, inner int) Model {
	m = qwen3(name, m, layers, hidden, inner, heads, kvHeads, headDim, false)
	m.Family = "qwen3moe"
	m.FFN.Experts, m.FFN.TopK, m.FFN.Renorm = experts, topK, true
	return m
}

// llama completes m by models.md 3.
func llama(name string, m Model, layers, hidden, inner, heads, kvHeads, headDim int, tied bool) Model {
	m = qwen3(name, m, layers, hidden, inner, heads, kvHeads, headDim, tied)
	m.Family, m.Eps, m.MaxLen, m.QKNorm, m.RoPE.Base = "llama", 1e-5, 8192, false, 1e5
	return m
}
