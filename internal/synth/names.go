package synth

import (
	"fmt"
	"math"
	"strings"

	"ossian/internal/model"
	"ossian/internal/tensor"
)

// Names of formats.md 5 and models.md 1.4, 2.3. Every family uses the same names
// for what it has in common with the others.
var (
	hfNames = map[string]string{
		"embed": "model.embed_tokens.weight", "norm": "model.norm.weight", "head": "lm_head.weight",
		"attn_norm": "input_layernorm.weight", "ffn_norm": "post_attention_layernorm.weight",
		"q": "self_attn.q_proj.weight", "k": "self_attn.k_proj.weight", "v": "self_attn.v_proj.weight", "o": "self_attn.o_proj.weight",
		"q_bias": "self_attn.q_proj.bias", "k_bias": "self_attn.k_proj.bias", "v_bias": "self_attn.v_proj.bias", "o_bias": "self_attn.o_proj.bias",
		"q_norm": "self_attn.q_norm.weight", "k_norm": "self_attn.k_norm.weight", "sinks": "self_attn.sinks",
		"router_bias": "mlp.router.bias", "up_bias": "mlp.experts.gate_up_proj_bias", "down_bias": "mlp.experts.down_proj_bias",
		"down": "mlp.down_proj.weight",
	}
	ggufNames = map[string]string{
		"embed": "token_embd.weight", "norm": "output_norm.weight", "head": "output.weight",
		"attn_norm": "attn_norm.weight", "ffn_norm": "ffn_norm.weight",
		"q": "attn_q.weight", "k": "attn_k.weight", "v": "attn_v.weight", "o": "attn_output.weight",
		"q_bias": "attn_q.bias", "k_bias": "attn_k.bias", "v_bias": "attn_v.bias", "o_bias": "attn_output.bias",
		"q_norm": "attn_q_norm.weight", "k_norm": "attn_k_norm.weight", "sinks": "attn_sinks.weight",
		"router": "ffn_gate_inp.weight", "router_bias": "ffn_gate_inp.bias",
		"down": "ffn_down.weight", "down_bias": "ffn_down_exps.bias",
	}
)

// hfEntries lists the tensors of the Hugging Face form.
func hfEntries(options *Options) []*entry {
	var out []*entry
	gptOSS, experts := options.Model.Family == "gpt-oss", options.Model.FFN.Experts > 0
	for _, param := range params(options) {
		prefix := ""
		if param.layer >= 0 {
			prefix = fmt.Sprintf("model.layers.%d.", param.layer)
		}
		made := entry{name: prefix + hfNames[param.name], dtype: options.Type, shape: param.shape, param: param}
		// Gate and up, experts and MXFP4 become several tensors.
		switch {
		case param.name == "router" && gptOSS:
			made.name = prefix + "mlp.router.weight"
		case param.name == "router":
			made.name = prefix + "mlp.gate.weight"
		case gptOSS && param.name == "up":
			out = append(out, mxfp4(made, prefix+"mlp.experts.gate_up_proj")...)
			continue
		case gptOSS && param.name == "down":
			out = append(out, mxfp4(made, prefix+"mlp.experts.down_proj")...)
			continue
		case param.name == "up" || (experts && param.name == "down"):
			out = append(out, projections(made, prefix+"mlp.")...)
			continue
		}
		out = append(out, &made)
	}
	return out
}

// mxfp4 gives codes and scales tensors of their own, models.md 1.6.
func mxfp4(e entry, name string) []*entry {
	shape := e.param.shape
	blocks, scales := e, e
	blocks.name, blocks.dtype, blocks.shape = name+"_blocks", tensor.MXFP4HF, shape
	scales.name, scales.dtype, scales.shape, scales.scales = name+"_scales", tensor.MXFP4HF, shape, true
	return []*entry{&blocks, &scales}
}

// projections gives gate and up, and each expert, a tensor of its own.
func projections(whole entry, prefix string) []*entry {
	shape := whole.param.shape
	rows, cols := shape[len(shape)-2], shape[len(shape)-1]
	parts := []string{"down_proj"}
	if whole.param.name == "up" {
		parts = []string{"gate_proj", "up_proj"}
	}
	// Rows of gate and up alternate in the parameter, matrix by matrix.
	var out []*entry
	for matrix := range whole.param.rows / rows {
		dir := prefix
		if len(shape) == 3 {
			dir = fmt.Sprintf("%sexperts.%d.", prefix, matrix)
		}
		for a, part := range parts {
			one := whole
			one.name, one.shape = dir+part+".weight", []int{rows / len(parts), cols}
			one.from = func(row int) int { return matrix*rows + len(parts)*row + a }
			out = append(out, &one)
		}
	}
	return out
}

// ggufEntries lists the tensors of the GGUF form.
func ggufEntries(options *Options) []*entry {
	var out []*entry
	spec := &options.Model.Spec
	for _, param := range params(options) {
		prefix := ""
		if param.layer >= 0 {
			prefix = fmt.Sprintf("blk.%d.", param.layer)
		}
		made := entry{name: prefix + ggufNames[param.name], dtype: options.Type, shape: param.shape, param: param}
		// Published files keep vectors and routers in float32, and experts of gpt-oss in MXFP4.
		if len(param.shape) == 1 || param.name == "router" || strings.HasSuffix(param.name, "_bias") {
			made.dtype = tensor.F32
		} else if spec.Family == "gpt-oss" && (param.name == "up" || param.name == "down") {
			made.dtype = tensor.MXFP4
		}
		switch {
		case param.name == "ffn_norm" && spec.Family == "gpt-oss":
			made.name = prefix + "post_attention_norm.weight"
		case (param.name == "q" || param.name == "k") && spec.Family == "llama":
			made.from = pairs(spec.HeadDim)
		case param.name == "down" && spec.FFN.Experts > 0:
			made.name = prefix + "ffn_down_exps.weight"
		case param.name == "up" || param.name == "up_bias":
			out = append(out, split(made, prefix)...)
			continue
		}
		out = append(out, &made)
	}
	if spec.RoPE.Scaling == model.ScalingLlama3 {
		freqs := divisors(spec)
		out = append(out, &entry{name: "rope_freqs.weight", dtype: tensor.F32, shape: []int{len(freqs)}, fixed: freqs})
	}
	return out
}

// pairs is the order of llama q and k rows in GGUF: within a head, row 2j+a is
// row a·dim/2+j of the Hugging Face form (formats.md 5).
func pairs(dim int) func(int) int {
	return func(row int) int {
		head, inHead := row/dim, row%dim
		return head*dim + inHead%2*(dim/2) + inHead/2
	}
}

// split takes gate and up apart: gate0, up0, gate1, … becomes all gates, all ups.
func split(whole entry, prefix string) []*entry {
	shape := append([]int(nil), whole.shape...)
	axis, kind, suffix := len(shape)-2, "weight", ""
	if whole.param.name == "up_bias" {
		axis, kind = 1, "bias"
	}
	if len(shape) == 3 || axis == 1 {
		suffix = "_exps"
	}
	shape[axis] /= 2
	var out []*entry
	for a, part := range []string{"gate", "up"} {
		half := whole
		half.name, half.shape = prefix+"ffn_"+part+suffix+"."+kind, shape
		half.from = func(row int) int { return 2*row + a }
		out = append(out, &half)
	}
	return out
}

// divisors are the GGUF form of Llama 3 frequency scaling, models.md 3.
func divisors(spec *model.Spec) []float32 {
	rope := &spec.RoPE
	freqs := make([]float32, spec.HeadDim/2)
	for i := range freqs {
		wave := 2 * math.Pi * math.Pow(rope.Base, 2*float64(i)/float64(spec.HeadDim))
		smooth := (float64(rope.Original)/wave - rope.LowFreq) / (rope.HighFreq - rope.LowFreq)
		smooth = min(max(smooth, 0), 1)
		freqs[i] = float32(1 / ((1-smooth)/rope.Factor + smooth))
	}
	return freqs
}
