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
func (w *writer) huggingFace(dir string, options *Options) error {
	entries := hfEntries(options)
	if err := w.plan(entries); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o777); err != nil {
		return err
	}
	vocab, err := newVocabulary(&options.Model)
	if err != nil {
		return err
	}
	// Everything but the weights is small and written first.
	files := map[string]any{
		"config.json":            config(options, vocab),
		"generation_config.json": generationConfig(options, vocab),
		"tokenizer.json":         vocab.tokenizerJSON(),
		"tokenizer_config.json":  vocab.tokenizerConfig(),
	}
	for name, value := range files {
		err := w.file(filepath.Join(dir, name), func(out *bufio.Writer) error {
			encoder := json.NewEncoder(out)
			encoder.SetEscapeHTML(false)
			encoder.SetIndent("", " ")
			return encoder.Encode(value)
		})
		if err != nil {
			return err
		}
	}
	return w.shards(dir, options.ShardBytes, entries)
}

// shards writes the tensors into one file, or into several with an index, each of them with at
// most limit bytes of tensors unless one alone has more.
func (w *writer) shards(dir string, limit int64, entries []*entry) error {
	// The names say how many files there are, so the tensors are dealt out first.
	shards := [][]*entry{nil}
	var size int64
	for _, entry := range entries {
		bytes := entry.bytes()
		if size > 0 && size+bytes > limit {
			shards, size = append(shards, nil), 0
		}
		last := len(shards) - 1
		shards[last], size = append(shards[last], entry), size+bytes
	}
	names := map[string]string{}
	for i, entries := range shards {
		name := "model.safetensors"
		if len(shards) > 1 {
			name = fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(shards))
		}
		err := w.file(filepath.Join(dir, name), func(out *bufio.Writer) error { return w.safetensors(out, entries) })
		if err != nil {
			return err
		}
		for _, entry := range entries {
			names[entry.name] = name
		}
	}
	if len(shards) == 1 {
		return nil
	}
	return w.file(filepath.Join(dir, "model.safetensors.index.json"), func(out *bufio.Writer) error {
		return json.NewEncoder(out).Encode(map[string]any{
			"metadata": map[string]any{"total_size": w.total}, "weight_map": names})
	})
}

// safetensors writes one file: the header's length, the header, the tensors.
func (w *writer) safetensors(out *bufio.Writer, entries []*entry) error {
	type info struct {
		DType   string   `json:"dtype"`
		Shape   []int    `json:"shape"`
		Offsets [2]int64 `json:"data_offsets"`
	}
	header := map[string]any{"__metadata__": map[string]string{"format": "pt"}}
	var at int64
	for _, entry := range entries {
		described := info{entry.dtype.String(), entry.shape, [2]int64{at, at + entry.bytes()}}
		if entry.dtype == tensor.MXFP4HF { // codes and scales are plain bytes there
			described.DType, described.Shape = "U8", append(append([]int(nil), entry.shape[:2]...), entry.cols()/32)
			if !entry.scales {
				described.Shape = append(described.Shape, 16)
			}
		}
		header[entry.name], at = described, described.Offsets[1]
	}
	text, err := json.Marshal(header)
	if err != nil {
		return err
	}
	for len(text)%8 != 0 { // data begins at a multiple of 8
		text = append(text, ' ')
	}
	if err := binary.Write(out, binary.LittleEndian, uint64(len(text))); err != nil {
		return err
	}
	if _, err := out.Write(text); err != nil {
		return err
	}
	for _, entry := range entries {
		if err := w.tensor(out, entry); err != nil {
			return err
		}
	}
	w.report()
	return nil
}

// config is config.json in the dialect of the published checkpoints.
func config(options *Options, vocab *vocabulary) map[string]any {
	spec := &options.Model.Spec
	architecture := map[string][2]string{
		"gpt-oss": {"gpt_oss", "GptOssForCausalLM"}, "qwen3": {"qwen3", "Qwen3ForCausalLM"},
		"qwen3moe": {"qwen3_moe", "Qwen3MoeForCausalLM"}, "llama": {"llama", "LlamaForCausalLM"},
	}[spec.Family]
	// What all families have; the switch adds what is a family's own.
	keys := map[string]any{
		"model_type": architecture[0], "architectures": []string{architecture[1]},
		"torch_dtype": torchType(options.Type), "hidden_act": "silu", "attention_bias": spec.QKVBias,
		"num_hidden_layers": spec.Layers, "hidden_size": spec.Hidden, "intermediate_size": spec.FFN.Inner, "vocab_size": spec.Vocab,
		"num_attention_heads": spec.Heads, "num_key_value_heads": spec.KVHeads, "head_dim": spec.HeadDim,
		"max_position_embeddings": spec.MaxLen, "rms_norm_eps": spec.Eps, "tie_word_embeddings": spec.Tied,
		"rope_theta": decimal(spec.RoPE.Base), "rope_scaling": ropeScaling(&spec.RoPE),
		"bos_token_id": vocab.id(vocab.bos), "eos_token_id": vocab.id(vocab.eos), "pad_token_id": vocab.id(vocab.pad),
	}
	switch spec.Family {
	case "gpt-oss":
		gptOSSConfig(spec, keys)
	case "qwen3moe":
		keys["num_experts"], keys["num_experts_per_tok"], keys["moe_intermediate_size"] = spec.FFN.Experts, spec.FFN.TopK, spec.FFN.Inner
		keys["intermediate_size"] = 3 * spec.Hidden // of dense layers, which there are none of
		keys["norm_topk_prob"], keys["decoder_sparse_step"], keys["mlp_only_layers"] = spec.FFN.Renorm, 1, []int{}
		fallthrough
	case "qwen3":
		keys["use_sliding_window"], keys["sliding_window"] = false, nil
	case "llama":
		keys["mlp_bias"] = false
	}
	return keys
}

// A decimal is written with a decimal point, as Python writes a float: strict
// readers refuse 7 where they expect 7.0.
type decimal float64

// MarshalJSON writes d with a decimal point and without an exponent.
func (d decimal) MarshalJSON() ([]byte, error) {
	text := strconv.AppendFloat(nil, float64(d), 'f', -1, 64)
	if !bytes.ContainsRune(text, '.') {
		text = append(text, ".0"...)
	}
	return text, nil
}

// gptOSSConfig adds the keys that only gpt-oss has, models.md 1.1.
func gptOSSConfig(spec *model.Spec, keys map[string]any) {
	types := make([]string, spec.Layers)
	for i, window := range spec.Windows {
		types[i] = "full_attention"
		if window > 0 {
			types[i], keys["sliding_window"] = "sliding_attention", window
		}
	}
	keys["layer_types"] = types
	keys["num_local_experts"], keys["num_experts_per_tok"], keys["experts_per_token"] = spec.FFN.Experts, spec.FFN.TopK, spec.FFN.TopK
	keys["initial_context_length"], keys["swiglu_limit"] = spec.RoPE.Original, decimal(model.SwiGLULimit)
	keys["quantization_config"] = map[string]any{"quant_method": "mxfp4", "modules_to_not_convert": []string{
		"model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"}}
}

// ropeScaling is the value of rope_scaling, null for none.
func ropeScaling(rope *model.RoPE) any {
	switch rope.Scaling {
	case model.ScalingLinear:
		return map[string]any{"rope_type": "linear", "factor": decimal(rope.Factor)}
	case model.ScalingYaRN:
		return map[string]any{"rope_type": "yarn", "factor": decimal(rope.Factor), "original_max_position_embeddings": rope.Original,
			"beta_fast": decimal(rope.BetaFast), "beta_slow": decimal(rope.BetaSlow), "truncate": rope.Truncate}
	case model.ScalingLlama3:
		return map[string]any{"rope_type": "llama3", "factor": decimal(rope.Factor), "original_max_position_embeddings": rope.Original,
			"low_freq_factor": decimal(rope.LowFreq), "high_freq_factor": decimal(rope.HighFreq)}
	}
	return nil
}

// torchType names the type of what is not quantised.
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
func generationConfig(o *Options, vocab *vocabulary) map[string]any {
	var stops []int
	for _, name := range vocab.stops {
		stops = append(stops, vocab.id(name))
	}
	keys := map[string]any{"bos_token_id": vocab.id(vocab.bos), "eos_token_id": stops, "pad_token_id": vocab.id(vocab.pad)}
	switch o.Model.Tokenizer {
	case Harmony:
		keys["do_sample"] = true
	case Qwen:
		keys["do_sample"], keys["temperature"], keys["top_p"], keys["top_k"] = true, 0.6, 0.95, 20
	}
	return keys
}
