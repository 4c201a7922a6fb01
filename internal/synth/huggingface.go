package synth

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"ossian/internal/model"
	"ossian/internal/tensor"
)

// huggingFace writes the directory: formats.md 1, 2 and 7.
func (w *writer) huggingFace(dir string, o *Options) error {
	entries := hfEntries(o)
	if err := w.plan(entries); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o777); err != nil {
		return err
	}
	v, err := newVocabulary(&o.Model)
	if err != nil {
		return err
	}
	files := map[string]any{
		"config.json":            config(o, v),
		"generation_config.json": generationConfig(o, v),
		"tokenizer.json":         v.tokenizerJSON(),
		"tokenizer_config.json":  v.tokenizerConfig(),
	}
	for name, value := range files {
		err := w.file(filepath.Join(dir, name), func(b *bufio.Writer) error {
			e := json.NewEncoder(b)
			e.SetEscapeHTML(false)
			e.SetIndent("", " ")
			return e.Encode(value)
		})
		if err != nil {
			return err
		}
	}
	return w.shards(dir, o.ShardBytes, entries)
}

func (w *writer) shards(dir string, limit int64, entries []*entry) error {
	shards := [][]*entry{nil}
	var size int64
	for _, e := range entries {
		n := e.bytes()
		if size > 0 && size+n > limit {
			shards, size = append(shards, nil), 0
		}
		last := len(shards) - 1
		shards[last], size = append(shards[last], e), size+n
	}
	names := map[string]string{}
	for i, entries := range shards {
		name := "model.safetensors"
		if len(shards) > 1 {
			name = fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(shards))
		}
		err := w.file(filepath.Join(dir, name), func(b *bufio.Writer) error { return w.safetensors(b, entries) })
		if err != nil {
			return err
		}
		for _, e := range entries {
			names[e.name] = name
		}
	}
	if len(shards) == 1 {
		return nil
	}
	return w.file(filepath.Join(dir, "model.safetensors.index.json"), func(b *bufio.Writer) error {
		return json.NewEncoder(b).Encode(map[string]any{
			"metadata": map[string]any{"total_size": w.total}, "weight_map": names})
	})
}

func (w *writer) safetensors(b *bufio.Writer, entries []*entry) error {
	type info struct {
		DType   string   `json:"dtype"`
		Shape   []int    `json:"shape"`
		Offsets [2]int64 `json:"data_offsets"`
	}
	header := map[string]any{"__metadata__": map[string]string{"format": "pt"}}
	var at int64
	for _, e := range entries {
		i := info{e.dtype.String(), e.shape, [2]int64{at, at + e.bytes()}}
		if e.dtype == tensor.MXFP4HF {
			i.DType, i.Shape = "U8", append(append([]int(nil), e.shape[:2]...), e.cols()/32)
			if !e.scales {
				i.Shape = append(i.Shape, 16)
			}
		}
		header[e.name], at = i, i.Offsets[1]
	}
	text, err := json.Marshal(header)
	if err != nil {
		return err
	}
	for len(text)%8 != 0 {
		text = append(text, ' ')
	}
	if err := binary.Write(b, binary.LittleEndian, uint64(len(text))); err != nil {
		return err
	}
	if _, err := b.Write(text); err != nil {
		return err
	}
	for _, e := range entries {
		if err := w.tensor(b, e); err != nil {
			return err
		}
	}
	w.report()
	return nil
}

// config is config.json in the dialect of the published checkpoints.
func config(o *Options, v *vocabulary) map[string]any {
	s := &o.Model.Spec
	architecture := map[string][2]string{
		"gpt-oss": {"gpt_oss", "GptOssForCausalLM"}, "qwen3": {"qwen3", "Qwen3ForCausalLM"},
		"qwen3moe": {"qwen3_moe", "Qwen3MoeForCausalLM"}, "llama": {"llama", "LlamaForCausalLM"},
	}[s.Family]
	c := map[string]any{
		"model_type": architecture[0], "architectures": []string{architecture[1]},
		"torch_dtype": torchType(o.Type), "hidden_act": "silu", "attention_bias": s.QKVBias,
		"num_hidden_layers": s.Layers, "hidden_size": s.Hidden, "intermediate_size": s.FFN.Inner, "vocab_size": s.Vocab,
		"num_attention_heads": s.Heads, "num_key_value_heads": s.KVHeads, "head_dim": s.HeadDim,
		"max_position_embeddings": s.MaxLen, "rms_norm_eps": s.Eps, "tie_word_embeddings": s.Tied,
		"rope_theta": decimal(s.RoPE.Base), "rope_scaling": ropeScaling(&s.RoPE),
		"bos_token_id": v.id(v.bos), "eos_token_id": v.id(v.eos), "pad_token_id": v.id(v.pad),
	}
	switch s.Family {
	case "gpt-oss":
		gptOSSConfig(s, c)
	case "qwen3moe":
		c["num_experts"], c["num_experts_per_tok"], c["moe_intermediate_size"] = s.FFN.Experts, s.FFN.TopK, s.FFN.Inner
		c["intermediate_size"] = 3 * s.Hidden // of dense layers, which there are none of
		c["norm_topk_prob"], c["decoder_sparse_step"], c["mlp_only_layers"] = s.FFN.Renorm, 1, []int{}
		fallthrough
	case "qwen3":
		c["use_sliding_window"], c["sliding_window"] = false, nil
	case "llama":
		c["mlp_bias"] = false
	}
	return c
}

// A decimal is written with a decimal point, as Python writes a float: strict
// readers refuse 7 where they expect 7.0.
type decimal float64

func (d decimal) MarshalJSON() ([]byte, error) {
	b := strconv.AppendFloat(nil, float64(d), 'f', -1, 64)
	if !bytes.ContainsRune(b, '.') {
		b = append(b, ".0"...)
	}
	return b, nil
}

func gptOSSConfig(s *model.Spec, c map[string]any) {
	types := make([]string, s.Layers)
	for i, window := range s.Windows {
		types[i] = "full_attention"
		if window > 0 {
			types[i], c["sliding_window"] = "sliding_attention", window
		}
	}
	c["layer_types"] = types
	c["num_local_experts"], c["num_experts_per_tok"], c["experts_per_token"] = s.FFN.Experts, s.FFN.TopK, s.FFN.TopK
	c["initial_context_length"], c["swiglu_limit"] = s.RoPE.Original, decimal(model.SwiGLULimit)
	c["quantization_config"] = map[string]any{"quant_method": "mxfp4", "modules_to_not_convert": []string{
		"model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"}}
}

func ropeScaling(r *model.RoPE) any {
	switch r.Scaling {
	case model.ScalingLinear:
		return map[string]any{"rope_type": "linear", "factor": decimal(r.Factor)}
	case model.ScalingYaRN:
		return map[string]any{"rope_type": "yarn", "factor": decimal(r.Factor), "original_max_position_embeddings": r.Original,
			"beta_fast": decimal(r.BetaFast), "beta_slow": decimal(r.BetaSlow), "truncate": r.Truncate}
	case model.ScalingLlama3:
		return map[string]any{"rope_type": "llama3", "factor": decimal(r.Factor), "original_max_position_embeddings": r.Original,
			"low_freq_factor": decimal(r.LowFreq), "high_freq_factor": decimal(r.HighFreq)}
	}
	return nil
}

func torchType(t tensor.DType) string {
	switch t {
	case tensor.F32:
		return "float32"
	case tensor.F16:
		return "float16"
	}
	return "bfloat16"
}

// generationConfig follows models.md 1.1 and 2.4.
func generationConfig(o *Options, v *vocabulary) map[string]any {
	var stops []int
	for _, name := range v.stops {
		stops = append(stops, v.id(name))
	}
	g := map[string]any{"bos_token_id": v.id(v.bos), "eos_token_id": stops, "pad_token_id": v.id(v.pad)}
	switch o.Model.Tokenizer {
	case Harmony:
		g["do_sample"] = true
	case Qwen:
		g["do_sample"], g["temperature"], g["top_p"], g["top_k"] = true, 0.6, 0.95, 20
	}
	return g
}
