package ckpt

import (
	"fmt"
	"slices"
	"strings"

	"ossian/internal/tensor"
)

// huggingFaceNames spells the parameters that are stored as they are, models.md
// 1.4 and 2.3.
var huggingFaceNames = map[string]string{
	"embed": "model.embed_tokens.weight", "norm": "model.norm.weight", "head": "lm_head.weight",
	"attn_norm": "input_layernorm.weight", "ffn_norm": "post_attention_layernorm.weight",
	"q": "self_attn.q_proj.weight", "k": "self_attn.k_proj.weight", "v": "self_attn.v_proj.weight", "o": "self_attn.o_proj.weight",
	"q_bias": "self_attn.q_proj.bias", "k_bias": "self_attn.k_proj.bias", "v_bias": "self_attn.v_proj.bias", "o_bias": "self_attn.o_proj.bias",
	"q_norm": "self_attn.q_norm.weight", "k_norm": "self_attn.k_norm.weight", "sinks": "self_attn.sinks",
	"down": "mlp.down_proj.weight", "down_bias": "mlp.down_proj.bias", "router": "mlp.gate.weight",
}

// gptOssNames replace those above in gpt-oss.
var gptOssNames = map[string]string{
	"router": "mlp.router.weight", "router_bias": "mlp.router.bias",
	"up_bias": "mlp.experts.gate_up_proj_bias", "down_bias": "mlp.experts.down_proj_bias",
}

// originalNames spells the original gpt-oss layout, models.md 1.5; q, k and v are
// rows of one tensor.
var originalNames = map[string]string{
	"embed": "embedding.weight", "norm": "norm.scale", "head": "unembedding.weight",
	"attn_norm": "attn.norm.scale", "ffn_norm": "mlp.norm.scale", "o": "attn.out.weight", "o_bias": "attn.out.bias",
	"sinks": "attn.sinks", "router": "mlp.gate.weight", "router_bias": "mlp.gate.bias",
	"up_bias": "mlp.mlp1_bias", "down_bias": "mlp.mlp2_bias",
}

// ggufNames spells the parameters of GGUF files, formats.md 5; the later ones
// occur in files that Ollama made.
var ggufNames = map[string][]string{
	"embed": {"token_embd.weight"}, "norm": {"output_norm.weight"}, "head": {"output.weight"},
	"attn_norm": {"attn_norm.weight"}, "ffn_norm": {"ffn_norm.weight"},
	"q": {"attn_q.weight"}, "k": {"attn_k.weight"}, "v": {"attn_v.weight"}, "o": {"attn_output.weight", "attn_out.weight"},
	"q_bias": {"attn_q.bias"}, "k_bias": {"attn_k.bias"}, "v_bias": {"attn_v.bias"}, "o_bias": {"attn_output.bias", "attn_out.bias"},
	"q_norm": {"attn_q_norm.weight"}, "k_norm": {"attn_k_norm.weight"}, "sinks": {"attn_sinks.weight", "attn_sinks"},
	"router": {"ffn_gate_inp.weight"}, "router_bias": {"ffn_gate_inp.bias"},
	"down": {"ffn_down.weight"}, "down_bias": {"ffn_down.bias"},
}

// buildHuggingFace returns a parameter of a Hugging Face checkpoint: stored under one name, or
// made of several tensors where the writer keeps gate, up and experts apart.
func (a *assembler) buildHuggingFace(layer int, part string, shape []int) tensor.Tensor {
	prefix := ""
	if layer >= 0 {
		prefix = fmt.Sprintf("model.layers.%d.", layer)
	}
	name, ok := huggingFaceNames[part]
	if a.spec.Family == "gpt-oss" {
		if own, has := gptOssNames[part]; has {
			name, ok = own, true
		}
	}
	experts := len(shape) == 3
	switch {
	case a.spec.Family == "gpt-oss" && part == "up":
		return a.gptOssExperts(shape, prefix+"mlp.experts.gate_up_proj", "_blocks", "_scales", true)
	case a.spec.Family == "gpt-oss" && part == "down":
		return a.gptOssExperts(shape, prefix+"mlp.experts.down_proj", "_blocks", "_scales", true)
	case part == "up" && experts:
		half := []int{shape[1] / 2, shape[2]}
		return a.interleaved(tensor.Interleave, a.experts(shape[0], half, prefix, "gate_proj"), a.experts(shape[0], half, prefix, "up_proj"))
	case part == "down" && experts:
		return a.experts(shape[0], shape[1:], prefix, "down_proj")
	case part == "up":
		half := []int{shape[0] / 2, shape[1]}
		return a.interleaved(tensor.Interleave, a.take(half, prefix+"mlp.gate_proj.weight"), a.take(half, prefix+"mlp.up_proj.weight"))
	case part == "up_bias" && !ok:
		half := []int{shape[0] / 2}
		return a.interleaved(tensor.InterleaveElems, a.take(half, prefix+"mlp.gate_proj.bias"), a.take(half, prefix+"mlp.up_proj.bias"))
	}
	return a.take(shape, prefix+name)
}

// gptOssExperts returns the experts [E, out, in] of gpt-oss: MXFP4 in two tensors, or, of
// fine-tunes that were merged without quantising them again, floats in one, which the Hugging
// Face layout has in columns, [E, in, out].
func (a *assembler) gptOssExperts(shape []int, name, blocks, scales string, columns bool) tensor.Tensor {
	if _, ok := a.find(name); !ok || a.err != nil {
		return a.blocks(shape, name, blocks, scales)
	}
	if _, both := a.find(name + blocks); both {
		a.err = a.refuse(name, "experts are stored twice", "either "+name+" or "+name+blocks, "both")
		return tensor.Tensor{}
	}
	if !columns {
		return a.take(shape, name)
	}
	floats := a.take([]int{shape[0], shape[2], shape[1]}, name)
	if a.err != nil {
		return tensor.Tensor{}
	}
	floats.Shape, floats.Columns = shape, true
	return floats
}

// blocks joins the two U8 tensors of MXFP4 experts [E, out, in], models.md 1.6.
func (a *assembler) blocks(shape []int, name, blocks, scales string) tensor.Tensor {
	count, out, in := shape[0], shape[1], shape[2]
	if in%32 != 0 && a.err == nil {
		a.err = unsupported(a.where, "inner size of MXFP4 experts", "a multiple of 32", in)
	}
	data := a.raw(tensor.U8, []int{count, out, in / 32, 16}, name+blocks)
	scale := a.raw(tensor.U8, []int{count, out, in / 32}, name+scales)
	if a.err != nil {
		return tensor.Tensor{}
	}
	joined := tensor.Tensor{Name: data.Name, DType: tensor.MXFP4HF, Shape: shape, Data: data.Data, Scales: scale.Data}
	if data.Drop != nil && scale.Drop != nil {
		joined.Drop = func() { data.Drop(); scale.Drop() }
	}
	return joined
}

// experts stacks the matrices of one projection of all experts.
func (a *assembler) experts(count int, shape []int, prefix, projection string) tensor.Tensor {
	if found, ok := a.find(prefix+"mlp.experts."+projection, prefix+"mlp.experts.gate_up_proj"); ok && a.err == nil {
		a.err = found.error(Unsupported, "experts are fused", "one tensor per expert, "+prefix+"mlp.experts.0."+projection+".weight", found.typeName)
	}
	var parts []tensor.Tensor
	for expert := 0; expert < count && a.err == nil; expert++ {
		parts = append(parts, a.take(shape, fmt.Sprintf("%smlp.experts.%d.%s.weight", prefix, expert, projection)))
	}
	if a.err != nil {
		return tensor.Tensor{}
	}
	return a.try(tensor.Stack(fmt.Sprintf("%smlp.experts.*.%s.weight", prefix, projection), parts))
}

// buildOriginal returns a parameter of the original gpt-oss layout.
func (a *assembler) buildOriginal(layer int, part string, shape []int) tensor.Tensor {
	prefix := ""
	if layer >= 0 {
		prefix = fmt.Sprintf("block.%d.", layer)
	}
	switch part {
	case "up":
		return a.gptOssExperts(shape, prefix+"mlp.mlp1_weight", ".blocks", ".scales", false)
	case "down":
		return a.gptOssExperts(shape, prefix+"mlp.mlp2_weight", ".blocks", ".scales", false)
	}
	if name, ok := originalNames[part]; ok {
		return a.take(shape, prefix+name)
	}
	return a.fused(part, shape, prefix+"attn.qkv")
}

// fused returns q, k, v or a bias of them as rows of one tensor, in that order.
func (a *assembler) fused(part string, shape []int, name string) tensor.Tensor {
	projection, isBias := strings.CutSuffix(part, "_bias")
	first := map[string]int{"q": 0, "k": a.spec.QDim(), "v": a.spec.QDim() + a.spec.KVDim()}[projection]
	all := append([]int{a.spec.QDim() + 2*a.spec.KVDim()}, shape[1:]...)
	if isBias {
		return rows(a.take(all, name+".bias"), first, shape[0])
	}
	return rows(a.take(all, name+".weight"), first, shape[0])
}

// buildGGUF returns a parameter of a GGUF file.
func (a *assembler) buildGGUF(layer int, part string, shape []int) tensor.Tensor {
	prefix := ""
	if layer >= 0 {
		prefix = fmt.Sprintf("blk.%d.", layer)
	}
	// What is not stored under the names of the table: fused tensors, and those of mixtures.
	moe := a.spec.FFN.Experts > 0
	switch part {
	case "up":
		return a.ggufUp(shape, prefix, ".weight")
	case "up_bias":
		return a.ggufUp(shape, prefix, ".bias")
	case "down":
		if moe {
			return a.take(shape, prefix+"ffn_down_exps.weight")
		}
	case "down_bias":
		if moe {
			return a.take(shape, prefix+"ffn_down_exps.bias")
		}
	case "ffn_norm":
		if a.spec.Family == "gpt-oss" {
			return a.take(shape, prefix+"post_attention_norm.weight", prefix+"ffn_norm.weight")
		}
	case "q", "k", "v", "q_bias", "k_bias", "v_bias":
		if _, ok := a.find(prefix+"attn_qkv.weight", prefix+"attn_qkv.bias"); ok {
			return a.unpermuted(part, a.fused(part, shape, prefix+"attn_qkv"))
		}
	}
	names := make([]string, len(ggufNames[part]))
	for i, name := range ggufNames[part] {
		names[i] = prefix + name
	}
	return a.unpermuted(part, a.take(shape, names...))
}

// ggufUp joins gate and up, or reorders a fused tensor that holds all gate rows of
// an expert before its up rows (formats.md 5).
func (a *assembler) ggufUp(shape []int, prefix, suffix string) tensor.Tensor {
	exps := ""
	if a.spec.FFN.Experts > 0 {
		exps = "_exps"
	}
	// at is the dimension of gate and up: the second from the end, of biases the last.
	join, reorder, at := tensor.Interleave, tensor.Reorder, len(shape)-2
	if suffix == ".bias" {
		join, reorder, at = tensor.InterleaveElems, tensor.ReorderElems, len(shape)-1
	}
	inner := shape[at] / 2
	if fused, ok := a.find(prefix + "ffn_gate_up" + exps + suffix); ok {
		if a.arch == "gptoss" && a.err == nil {
			a.err = fused.error(Unsupported, "the order of gate and up rows is not defined", "separate ffn_gate_exps and ffn_up_exps, or architecture gpt-oss", a.arch)
		}
		taken := a.take(shape, fused.name)
		if a.err != nil {
			return tensor.Tensor{}
		}
		return reorder(taken, func(i int) int { // all gates, all ups → gate0, up0, gate1, …
			row := i % (2 * inner)
			return i - row + row%2*inner + row/2
		})
	}
	half := slices.Clone(shape)
	half[at] = inner
	return a.interleaved(join, a.take(half, prefix+"ffn_gate"+exps+suffix), a.take(half, prefix+"ffn_up"+exps+suffix))
}

// unpermuted undoes what converters do to the q and k rows of the llama family:
// within a head, row 2j+a of the file is row a·HeadDim/2+j (formats.md 5).
func (a *assembler) unpermuted(part string, t tensor.Tensor) tensor.Tensor {
	if a.spec.Family != "llama" || a.err != nil {
		return t
	}
	dim := a.spec.HeadDim
	from := func(i int) int {
		row := i % dim
		return i - row + row%(dim/2)*2 + row/(dim/2)
	}
	switch part {
	case "q", "k":
		return tensor.Reorder(t, from)
	case "q_bias", "k_bias":
		return tensor.ReorderElems(t, from)
	}
	return t
}
