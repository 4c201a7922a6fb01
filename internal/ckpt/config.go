package ckpt

import (
	"fmt"
	"math"
	"slices"

	"ossian/internal/model"
)

// families are the values of model_type in config.json.
var families = map[string]string{"gpt_oss": "gpt-oss", "qwen3": "qwen3", "qwen3_moe": "qwen3moe", "llama": "llama"}

const supportedFamilies = "gpt_oss, qwen3, qwen3_moe or llama"

// readConfig translates config.json in any of its dialects (models.md 1.1, 2.1, 3).
// original says that it is the configuration of an original gpt-oss checkpoint.
func readConfig(file string, data []byte) (s *model.Spec, original bool, err error) {
	o, err := parseObject(file, data)
	if err != nil {
		return nil, false, err
	}
	s = &model.Spec{}
	switch {
	case o.has("model_type"):
		modelType := o.string("", "model_type")
		if s.Family = families[modelType]; s.Family == "" && *o.err == nil {
			return nil, false, unsupported(file, "model_type", supportedFamilies, modelType)
		}
	case o.has("num_experts") && o.has("experts_per_token") && o.has("initial_context_length"):
		s.Family, original = "gpt-oss", true
	default:
		return nil, false, incomplete(file, "key model_type is missing; expected "+supportedFamilies+", or the configuration of an original gpt-oss checkpoint")
	}
	checkQuantization(o, s.Family)
	commonConfig(o, s)
	switch s.Family {
	case "gpt-oss":
		gptOssConfig(o, s)
	case "qwen3moe":
		moeConfig(o, s)
	default:
		s.FFN.Inner = o.needInt("intermediate_size")
	}
	ropeConfig(o, s, original)
	if s.Windows == nil && *o.err == nil {
		s.Windows = windowConfig(o, s)
	}
	if *o.err != nil {
		return nil, false, *o.err
	}
	if err := s.Validate(); err != nil {
		return nil, false, damaged(file, -1, "configuration", "a model that can exist", err)
	}
	return s, original, nil
}

func checkQuantization(o object, family string) {
	if !o.has("quantization_config") {
		return
	}
	method := o.object("quantization_config").string("", "quant_method")
	if method != "mxfp4" || family != "gpt-oss" {
		o.unsupported("quantization_config.quant_method", "none, or mxfp4 in gpt_oss; take the unquantised repository or a GGUF file", method)
	}
}

func commonConfig(o object, s *model.Spec) {
	s.Layers = o.needInt("num_hidden_layers")
	s.Hidden = o.needInt("hidden_size")
	s.Vocab = o.needInt("vocab_size")
	s.Heads = o.needInt("num_attention_heads")
	s.KVHeads = o.int(s.Heads, 1, "num_key_value_heads")
	s.Tied = o.bool(false, "tie_word_embeddings")
	headDim, eps := 128, 1e-6
	switch s.Family {
	case "llama":
		headDim = s.Hidden / max(s.Heads, 1)
		s.FFN.Bias = o.bool(false, "mlp_bias")
	case "gpt-oss":
		headDim, eps = 64, 1e-5
	default:
		s.QKNorm = true
	}
	s.HeadDim = o.int(headDim, 1, "head_dim")
	s.Eps = float32(o.float(eps, "rms_norm_eps"))
	s.QKVBias = o.bool(s.Family == "gpt-oss", "attention_bias")
	s.OBias = s.QKVBias
	if act := o.string("silu", "hidden_act"); act != "silu" {
		o.unsupported("hidden_act", "silu", act)
	}
}

func gptOssConfig(o object, s *model.Spec) {
	s.Sinks = true
	s.FFN = model.FFN{Inner: o.needInt("intermediate_size"), Experts: o.needInt("num_local_experts", "num_experts"),
		TopK: o.needInt("num_experts_per_tok", "experts_per_token"), Renorm: true, Bias: true, Activation: model.SwiGLU}
	if limit := o.float(model.SwiGLULimit, "swiglu_limit"); limit != model.SwiGLULimit {
		o.unsupported("swiglu_limit", "7", limit)
	}
	if alpha := o.float(model.SwiGLUAlpha, "swiglu_alpha"); alpha != model.SwiGLUAlpha {
		o.unsupported("swiglu_alpha", "1.702", alpha)
	}
}

// moeConfig is the feed-forward part of qwen3_moe, models.md 2.1.
func moeConfig(o object, s *model.Spec) {
	s.FFN = model.FFN{Inner: o.needInt("moe_intermediate_size"), Experts: o.needInt("num_experts", "num_local_experts"),
		TopK: o.needInt("num_experts_per_tok"), Renorm: o.bool(false, "norm_topk_prob")}
	step := o.int(1, 1, "decoder_sparse_step")
	var only []int
	o.decode("mlp_only_layers", "a list of layers", &only)
	if (step == 1 && len(only) == 0) || *o.err != nil || s.Layers > maxLayers {
		return
	}
	s.FFN.DenseInner = o.needInt("intermediate_size")
	s.FFN.Dense = make([]bool, s.Layers)
	for n := range s.FFN.Dense {
		s.FFN.Dense[n] = slices.Contains(only, n) || (n+1)%step != 0
	}
}

// maxLayers is the bound of model.Spec, needed before per-layer slices are made.
const maxLayers = 1 << 12

// windowConfig returns the attention window of every layer.
func windowConfig(o object, s *model.Spec) []int {
	if s.Layers > maxLayers {
		o.fail("num_hidden_layers", "at most 4096", s.Layers)
		return nil
	}
	windows := make([]int, s.Layers)
	window, first := 0, 0
	switch {
	case s.Family == "gpt-oss":
		window = o.int(128, 1, "sliding_window")
	case s.Family != "llama" && o.bool(false, "use_sliding_window"):
		window = o.int(4096, 1, "sliding_window")
		first = o.int(28, 0, "max_window_layers")
	}
	var types []string
	o.decode("layer_types", "a list of attention types", &types)
	if types != nil && len(types) != s.Layers {
		o.fail("layer_types", fmt.Sprintf("%d entries, one a layer", s.Layers), len(types))
		return nil
	}
	for n := range windows {
		slides := n >= first
		if s.Family == "gpt-oss" {
			slides = n%2 == 0
		}
		if types != nil {
			slides = types[n] == "sliding_attention"
			if !slides && types[n] != "full_attention" {
				o.unsupported("layer_types", "sliding_attention or full_attention", types[n])
			}
		}
		if slides {
			windows[n] = window
		}
	}
	return windows
}

// ropeConfig reads MaxLen and RoPE in one of three dialects: rope_parameters with
// everything in it, rope_scaling beside rope_theta, or the flat keys of the
// original gpt-oss.
func ropeConfig(o object, s *model.Spec, original bool) {
	r, base, kind := o.object("rope_scaling"), 10000.0, "default"
	if o.has("rope_parameters") {
		r = o.object("rope_parameters")
	}
	if original {
		r = o
	}
	if s.Family == "gpt-oss" {
		base = 150000
		if original || len(r.fields) == 0 {
			kind = "yarn" // the family's default
		}
	}
	s.RoPE.Base = r.float(o.float(base, "rope_theta"), "rope_theta")
	if f := r.float(o.float(1, "partial_rotary_factor"), "partial_rotary_factor"); f != 1 {
		o.unsupported("partial_rotary_factor", "1", f)
	}
	if r.has("full_attention") || r.has("sliding_attention") {
		r.unsupported("full_attention", "one set of parameters for all layers", "one for each kind of layer")
	}
	switch kind = r.string(r.string(kind, "type"), "rope_type"); kind {
	case "default":
	case "linear":
		s.RoPE.Scaling = model.ScalingLinear
		s.RoPE.Factor = r.stretch(0)
	case "llama3":
		s.RoPE.Scaling = model.ScalingLlama3
		s.RoPE.Factor = r.stretch(0)
		s.RoPE.Original = r.needInt("original_max_position_embeddings")
		s.RoPE.LowFreq, s.RoPE.HighFreq = r.float(1, "low_freq_factor"), r.float(4, "high_freq_factor")
		if !(s.RoPE.LowFreq > 0 && s.RoPE.HighFreq > s.RoPE.LowFreq) {
			r.fail("high_freq_factor", "0 < low_freq_factor < high_freq_factor", fmt.Sprint(s.RoPE.LowFreq, " and ", s.RoPE.HighFreq))
		}
	case "yarn":
		yarnConfig(o, r, s)
		return
	default:
		r.unsupported("rope_type", "default, linear, llama3 or yarn", kind)
	}
	s.MaxLen = o.needInt("max_position_embeddings")
}

// yarnConfig: models.md 1.3. gpt-oss is never truncated; its original length may
// be missing, and its context then is the stretched one.
func yarnConfig(o, r object, s *model.Spec) {
	gptOss := s.Family == "gpt-oss"
	s.RoPE.Scaling = model.ScalingYaRN
	factor, trained := 0.0, 4096
	if gptOss {
		factor = 32
	} else {
		trained = o.needInt("max_position_embeddings")
	}
	s.RoPE.Factor = r.stretch(factor)
	s.RoPE.Original = r.int(o.int(trained, 1, "initial_context_length"), 1, "original_max_position_embeddings")
	s.RoPE.BetaFast = r.float(32, "beta_fast", "rope_ntk_beta")
	s.RoPE.BetaSlow = r.float(1, "beta_slow", "rope_ntk_alpha")
	s.RoPE.Truncate = !gptOss && r.bool(true, "truncate")
	s.RoPE.Attention = r.float(0, "attention_factor")
	if f := r.float(1, "attn_factor"); s.RoPE.Attention == 0 && f > 0 && f != 1 { // it multiplies the usual one
		s.RoPE.Attention = f * (0.1*math.Log(s.RoPE.Factor) + 1)
	}
	if s.RoPE.BetaSlow <= 0 || s.RoPE.BetaFast < s.RoPE.BetaSlow {
		r.fail("beta_fast", "0 < beta_slow <= beta_fast", fmt.Sprint(s.RoPE.BetaSlow, " and ", s.RoPE.BetaFast))
	}
	for _, key := range []string{"mscale", "mscale_all_dim"} {
		if r.float(0, key) != 0 {
			r.unsupported(key, "none", r.float(0, key))
		}
	}
	stretched := min(s.RoPE.Factor*float64(s.RoPE.Original), math.MaxInt32)
	s.MaxLen = o.int(int(stretched), 1, "max_position_embeddings")
	if !gptOss {
		// Adding rope_scaling is how a model is told to go further; the other key stays.
		s.MaxLen = max(s.MaxLen, int(stretched))
	}
}

// stretch returns the factor by which RoPE is stretched; def 0 means it must be given.
func (o object) stretch(def float64) float64 {
	f := o.float(def, "factor", "rope_scaling_factor")
	if def == 0 && !o.has("factor") {
		o.missing([]string{"factor"})
	}
	if !(f >= 1 && f <= 1e6) {
		o.fail("factor", "a number from 1 to 1e6", f)
	}
	return f
}
