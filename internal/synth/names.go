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
func hfEntries(o *Options) []*entry {
	var out []*entry
	gptOSS, experts := o.Model.Family == "gpt-oss", o.Model.FFN.Experts > 0
	for _, p := range params(o) {
		prefix := ""
		if p.layer >= 0 {
			prefix = fmt.Sprintf("model.layers.%d.", p.layer)
		}
		e := entry{name: prefix + hfNames[p.name], dtype: o.Type, shape: p.shape, param: p}
		switch {
		case p.name == "router" && gptOSS:
			e.name = prefix + "mlp.router.weight"
		case p.name == "router":
			e.name = prefix + "mlp.gate.weight"
		case gptOSS && p.name == "up":
			out = append(out, mxfp4(e, prefix+"mlp.experts.gate_up_proj")...)
			continue
		case gptOSS && p.name == "down":
			out = append(out, mxfp4(e, prefix+"mlp.experts.down_proj")...)
			continue
		case p.name == "up" || (experts && p.name == "down"):
			out = append(out, projections(e, prefix+"mlp.")...)
			continue
		}
		out = append(out, &e)
	}
	return out
}

// mxfp4 gives codes and scales tensors of their own, models.md 1.6.
func mxfp4(e entry, name string) []*entry {
	s := e.param.shape
	blocks, scales := e, e
	blocks.name, blocks.dtype, blocks.shape = name+"_blocks", tensor.MXFP4HF, s
	scales.name, scales.dtype, scales.shape, scales.scales = name+"_scales", tensor.MXFP4HF, s, true
	return []*entry{&blocks, &scales}
}

// projections gives gate and up, and each expert, a tensor of its own.
func projections(e entry, prefix string) []*entry {
	s := e.param.shape
	rows, cols := s[len(s)-2], s[len(s)-1]
	parts := []string{"down_proj"}
	if e.param.name == "up" {
		parts = []string{"gate_proj", "up_proj"}
	}
	var out []*entry
	for j := range e.param.rows / rows {
		dir := prefix
		if len(s) == 3 {
			dir = fmt.Sprintf("%sexperts.%d.", prefix, j)
		}
		for a, part := range parts {
			f := e
			f.name, f.shape = dir+part+".weight", []int{rows / len(parts), cols}
			f.from = func(row int) int { return j*rows + len(parts)*row + a }
			out = append(out, &f)
		}
	}
	return out
}

// ggufEntries lists the tensors of the GGUF form.
func ggufEntries(o *Options) []*entry {
	var out []*entry
	s := &o.Model.Spec
	for _, p := range params(o) {
		prefix := ""
		if p.layer >= 0 {
			prefix = fmt.Sprintf("blk.%d.", p.layer)
		}
		e := entry{name: prefix + ggufNames[p.name], dtype: o.Type, shape: p.shape, param: p}
		if len(p.shape) == 1 || p.name == "router" || strings.HasSuffix(p.name, "_bias") {
			e.dtype = tensor.F32
		} else if s.Family == "gpt-oss" && (p.name == "up" || p.name == "down") {
			e.dtype = tensor.MXFP4
		}
		switch {
		case p.name == "ffn_norm" && s.Family == "gpt-oss":
			e.name = prefix + "post_attention_norm.weight"
		case (p.name == "q" || p.name == "k") && s.Family == "llama":
			e.from = pairs(s.HeadDim)
		case p.name == "down" && s.FFN.Experts > 0:
			e.name = prefix + "ffn_down_exps.weight"
		case p.name == "up" || p.name == "up_bias":
			out = append(out, split(e, prefix)...)
			continue
		}
		out = append(out, &e)
	}
	if s.RoPE.Scaling == model.ScalingLlama3 {
		d := divisors(s)
		out = append(out, &entry{name: "rope_freqs.weight", dtype: tensor.F32, shape: []int{len(d)}, fixed: d})
	}
	return out
}

// pairs is the order of llama q and k rows in GGUF: within a head, row 2j+a is
// row a·dim/2+j of the Hugging Face form (formats.md 5).
func pairs(dim int) func(int) int {
	return func(row int) int {
		head, r := row/dim, row%dim
		return head*dim + r%2*(dim/2) + r/2
	}
}

// split takes gate and up apart: gate0, up0, gate1, … becomes all gates, all ups.
func split(e entry, prefix string) []*entry {
	shape := append([]int(nil), e.shape...)
	axis, kind, suffix := len(shape)-2, "weight", ""
	if e.param.name == "up_bias" {
		axis, kind = 1, "bias"
	}
	if len(shape) == 3 || axis == 1 {
		suffix = "_exps"
	}
	shape[axis] /= 2
	var out []*entry
	for a, part := range []string{"gate", "up"} {
		f := e
		f.name, f.shape = prefix+"ffn_"+part+suffix+"."+kind, shape
		f.from = func(row int) int { return 2*row + a }
		out = append(out, &f)
	}
	return out
}

// divisors are the GGUF form of Llama 3 frequency scaling, models.md 3.
func divisors(s *model.Spec) []float32 {
	r := &s.RoPE
	d := make([]float32, s.HeadDim/2)
	for i := range d {
		wave := 2 * math.Pi * math.Pow(r.Base, 2*float64(i)/float64(s.HeadDim))
		smooth := (float64(r.Original)/wave - r.LowFreq) / (r.HighFreq - r.LowFreq)
		smooth = min(max(smooth, 0), 1)
		d[i] = float32(1 / ((1-smooth)/r.Factor + smooth))
	}
	return d
}
