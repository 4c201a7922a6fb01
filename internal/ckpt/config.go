package ckpt

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"ossian/internal/model"
)

// families are the values of model_type in config.json.
var families = map[string]string{"gpt_oss": "gpt-oss", "qwen3": "qwen3", "qwen3_moe": "qwen3moe", "llama": "llama"}

// supportedFamilies are the keys of families, for messages.
const supportedFamilies = "gpt_oss, qwen3, qwen3_moe or llama"

// readConfig translates config.json in any of its dialects (models.md 1.1, 2.1, 3).
// original says that it is the configuration of an original gpt-oss checkpoint.
func readConfig(file string, data []byte) (spec *model.Spec, original bool, err error) {
	config, err := parseObject(file, data)
	if err != nil {
		return nil, false, err
	}
	spec = &model.Spec{}
	switch {
	case config.has("model_type"):
		modelType := config.string("", "model_type")
		if spec.Family = families[modelType]; spec.Family == "" && *config.err == nil {
			return nil, false, unsupported(file, "model_type", supportedFamilies, modelType)
		}
	case config.has("num_experts") && config.has("experts_per_token") && config.has("initial_context_length"):
		spec.Family, original = "gpt-oss", true
	default:
		return nil, false, incomplete(file, "key model_type is missing; expected "+supportedFamilies+", or the configuration of an original gpt-oss checkpoint")
	}
	// Each part reads its keys; the first error of all is returned below.
	checkQuantization(config, spec.Family)
	checkTask(config)
	commonConfig(config, spec)
	switch spec.Family {
	case "gpt-oss":
		gptOssConfig(config, spec)
	case "qwen3moe":
		moeConfig(config, spec)
	default:
		spec.FFN.Inner = config.needInt("intermediate_size")
	}
	ropeConfig(config, spec, original)
	if spec.Windows == nil && *config.err == nil {
		spec.Windows = windowConfig(config, spec)
	}
	if *config.err != nil {
		return nil, false, *config.err
	}
	if err := spec.Validate(); err != nil {
		return nil, false, damaged(file, -1, "configuration", "a model that can exist", err)
	}
	return spec, original, nil
}

// checkQuantization refuses weights that were quantised in a way that is not read.
func checkQuantization(config object, family string) {
	const want = "none, or mxfp4 in gpt_oss; take the unquantised repository or a GGUF file"
	if config.has("quantization") { // of MLX, which may write quantization_config as well
		config.unsupported("quantization", want, "that of MLX")
	}
	if !config.has("quantization_config") {
		return
	}
	method := config.object("quantization_config").string("", "quant_method")
	if method != "mxfp4" || family != "gpt-oss" {
		config.unsupported("quantization_config.quant_method", want, method)
	}
}

// checkTask refuses models that end in something else than the likelihood of tokens, such as
// Qwen3ForSequenceClassification.
func checkTask(config object) {
	var names []string
	config.decode("architectures", "a list of names", &names)
	for _, name := range names {
		if strings.HasSuffix(name, "Classification") || strings.HasSuffix(name, "RewardModel") {
			config.unsupported("architectures", "a model that writes text", name)
		}
	}
}

// commonConfig reads the keys that all families share; defaults are the families' own.
func commonConfig(config object, spec *model.Spec) {
	spec.Layers = config.needInt("num_hidden_layers")
	spec.Hidden = config.needInt("hidden_size")
	spec.Vocab = config.needInt("vocab_size")
	spec.Heads = config.needInt("num_attention_heads")
	spec.KVHeads = config.int(spec.Heads, 1, "num_key_value_heads")
	spec.Tied = config.bool(false, "tie_word_embeddings")
	headDim, eps := 128, 1e-6 // of Qwen3
	switch spec.Family {
	case "llama":
		headDim = spec.Hidden / max(spec.Heads, 1)
		spec.FFN.Bias = config.bool(false, "mlp_bias")
	case "gpt-oss":
		headDim, eps = 64, 1e-5
	default:
		spec.QKNorm = true
	}
	spec.HeadDim = config.int(headDim, 1, "head_dim")
	spec.Eps = float32(config.float(eps, "rms_norm_eps"))
	spec.QKVBias = config.bool(spec.Family == "gpt-oss", "attention_bias")
	spec.OBias = spec.QKVBias
	if act := config.string("silu", "hidden_act"); act != "silu" {
		config.unsupported("hidden_act", "silu", act)
	}
}

// gptOssConfig is the feed-forward part of gpt-oss, models.md 1.1.
func gptOssConfig(config object, spec *model.Spec) {
	spec.Sinks = true
	spec.FFN = model.FFN{Inner: config.needInt("intermediate_size"), Experts: config.needInt("num_local_experts", "num_experts"),
		TopK: config.needInt("num_experts_per_tok", "experts_per_token"), Renorm: true, Bias: true, Activation: model.SwiGLU}
	if limit := config.float(model.SwiGLULimit, "swiglu_limit"); limit != model.SwiGLULimit {
		config.unsupported("swiglu_limit", "7", limit)
	}
	if alpha := config.float(model.SwiGLUAlpha, "swiglu_alpha"); alpha != model.SwiGLUAlpha {
		config.unsupported("swiglu_alpha", "1.702", alpha)
	}
}

// moeConfig is the feed-forward part of qwen3_moe, models.md 2.1.
func moeConfig(config object, spec *model.Spec) {
	spec.FFN = model.FFN{Inner: config.needInt("moe_intermediate_size"), Experts: config.needInt("num_experts", "num_local_experts"),
		TopK: config.needInt("num_experts_per_tok"), Renorm: config.bool(false, "norm_topk_prob")}
	step := config.int(1, 1, "decoder_sparse_step")
	var only []int
	config.decode("mlp_only_layers", "a list of layers", &only)
	if (step == 1 && len(only) == 0) || *config.err != nil || spec.Layers > maxLayers {
		return
	}
	spec.FFN.DenseInner = config.needInt("intermediate_size")
	spec.FFN.Dense = make([]bool, spec.Layers)
	for layer := range spec.FFN.Dense {
		spec.FFN.Dense[layer] = slices.Contains(only, layer) || (layer+1)%step != 0
	}
}

// maxLayers is the bound of model.Spec, needed before per-layer slices are made.
const maxLayers = 1 << 12

// windowConfig returns the attention window of every layer.
func windowConfig(config object, spec *model.Spec) []int {
	if spec.Layers > maxLayers {
		config.fail("num_hidden_layers", "at most 4096", spec.Layers)
		return nil
	}
	windows := make([]int, spec.Layers)
	window, first := 0, 0
	switch {
	case spec.Family == "gpt-oss":
		window = config.int(128, 1, "sliding_window")
	case spec.Family != "llama" && config.bool(false, "use_sliding_window"):
		window = config.int(4096, 1, "sliding_window")
		first = config.int(28, 0, "max_window_layers")
	}
	// layer_types, where it is given, says it for each layer; else the families' rules do.
	var types []string
	config.decode("layer_types", "a list of attention types", &types)
	if types != nil && len(types) != spec.Layers {
		config.fail("layer_types", fmt.Sprintf("%d entries, one a layer", spec.Layers), len(types))
		return nil
	}
	for layer := range windows {
		slides := layer >= first
		if spec.Family == "gpt-oss" {
			slides = layer%2 == 0
		}
		if types != nil {
			slides = types[layer] == "sliding_attention"
			if !slides && types[layer] != "full_attention" {
				config.unsupported("layer_types", "sliding_attention or full_attention", types[layer])
			}
		}
		if slides {
			windows[layer] = window
		}
	}
	return windows
}

// ropeConfig reads MaxLen and RoPE in one of three dialects: rope_parameters with
// everything in it, rope_scaling beside rope_theta, or the flat keys of the
// original gpt-oss.
func ropeConfig(config object, spec *model.Spec, original bool) {
	rope, base, kind := config.object("rope_scaling"), 10000.0, "default"
	if config.has("rope_parameters") {
		rope = config.object("rope_parameters")
	}
	if original {
		rope = config
	}
	if spec.Family == "gpt-oss" {
		base = 150000
		if original || len(rope.fields) == 0 {
			kind = "yarn" // the family's default
		}
	}
	spec.RoPE.Base = rope.float(config.float(base, "rope_theta"), "rope_theta")
	if rotated := rope.float(config.float(1, "partial_rotary_factor"), "partial_rotary_factor"); rotated != 1 {
		config.unsupported("partial_rotary_factor", "1", rotated)
	}
	if rope.has("full_attention") || rope.has("sliding_attention") {
		rope.unsupported("full_attention", "one set of parameters for all layers", "one for each kind of layer")
	}
	switch kind = rope.string(rope.string(kind, "type"), "rope_type"); kind {
	case "default":
	case "linear":
		spec.RoPE.Scaling = model.ScalingLinear
		spec.RoPE.Factor = rope.stretch(0)
	case "llama3":
		spec.RoPE.Scaling = model.ScalingLlama3
		spec.RoPE.Factor = rope.stretch(0)
		spec.RoPE.Original = rope.needInt("original_max_position_embeddings")
		spec.RoPE.LowFreq, spec.RoPE.HighFreq = rope.float(1, "low_freq_factor"), rope.float(4, "high_freq_factor")
		if !(spec.RoPE.LowFreq > 0 && spec.RoPE.HighFreq > spec.RoPE.LowFreq) {
			rope.fail("high_freq_factor", "0 < low_freq_factor < high_freq_factor", fmt.Sprint(spec.RoPE.LowFreq, " and ", spec.RoPE.HighFreq))
		}
	case "yarn":
		yarnConfig(config, rope, spec)
		return
	default:
		rope.unsupported("rope_type", "default, linear, llama3 or yarn", kind)
	}
	spec.MaxLen = config.needInt("max_position_embeddings")
}

// yarnConfig: models.md 1.3. gpt-oss is never truncated; its original length may
// be missing, and its context then is the stretched one.
func yarnConfig(config, rope object, spec *model.Spec) {
	gptOss := spec.Family == "gpt-oss"
	spec.RoPE.Scaling = model.ScalingYaRN
	factor, trained := 0.0, 4096
	if gptOss {
		factor = 32
	} else {
		trained = config.needInt("max_position_embeddings")
	}
	spec.RoPE.Factor = rope.stretch(factor)
	spec.RoPE.Original = rope.int(config.int(trained, 1, "initial_context_length"), 1, "original_max_position_embeddings")
	spec.RoPE.BetaFast = rope.float(32, "beta_fast", "rope_ntk_beta")
	spec.RoPE.BetaSlow = rope.float(1, "beta_slow", "rope_ntk_alpha")
	spec.RoPE.Truncate = !gptOss && rope.bool(true, "truncate")
	spec.RoPE.Attention = rope.float(0, "attention_factor")
	if multiple := rope.float(1, "attn_factor"); spec.RoPE.Attention == 0 && multiple > 0 && multiple != 1 { // it multiplies the usual one
		spec.RoPE.Attention = multiple * (0.1*math.Log(spec.RoPE.Factor) + 1)
	}
	if spec.RoPE.BetaSlow <= 0 || spec.RoPE.BetaFast < spec.RoPE.BetaSlow {
		rope.fail("beta_fast", "0 < beta_slow <= beta_fast", fmt.Sprint(spec.RoPE.BetaSlow, " and ", spec.RoPE.BetaFast))
	}
	for _, key := range []string{"mscale", "mscale_all_dim"} {
		if rope.float(0, key) != 0 {
			rope.unsupported(key, "none", rope.float(0, key))
		}
	}
	stretched := min(spec.RoPE.Factor*float64(spec.RoPE.Original), math.MaxInt32)
	spec.MaxLen = config.int(int(stretched), 1, "max_position_embeddings")
	if !gptOss {
		// Adding rope_scaling is how a model is told to go further; the other key stays.
		spec.MaxLen = max(spec.MaxLen, int(stretched))
	}
}

// stretch returns the factor by which RoPE is stretched; def 0 means it must be given.
func (o object) stretch(def float64) float64 {
	factor := o.float(def, "factor", "rope_scaling_factor")
	if def == 0 && !o.has("factor") {
		o.missing([]string{"factor"})
	}
	if !(factor >= 1 && factor <= 1e6) {
		o.fail("factor", "a number from 1 to 1e6", factor)
	}
	return factor
}
