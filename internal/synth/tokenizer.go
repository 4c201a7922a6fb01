package synth

import "strings"

// Patterns of formats.md 8.
const (
	contraction  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`
	harmonyRegex = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+` + contraction + `?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*` + contraction + `?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	qwenRegex    = contraction + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	llama3Regex  = contraction + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	chatMLTurns  = "{%- for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}{%- endfor %}{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{%- endif %}"
	harmonyTurns = "{%- for message in messages %}{{ '<|start|>' + message['role'] + '<|message|>' + message['content'] + '<|end|>' }}{%- endfor %}{%- if add_generation_prompt %}{{ '<|start|>assistant' }}{%- endif %}"
	llama3Turns  = "{{ '<|begin_of_text|>' }}{%- for message in messages %}{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] + '<|eot_id|>' }}{%- endfor %}{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{%- endif %}"
)

// template is a chat template that has the published one's turns and nothing else.
func (v *vocabulary) template() string {
	return map[Tokenizer]string{Harmony: harmonyTurns, Qwen: chatMLTurns, SmolLM: chatMLTurns, Llama3: llama3Turns}[v.style]
}

// tokenizerJSON is tokenizer.json, formats.md 7. Unused rows are not listed.
func (v *vocabulary) tokenizerJSON() map[string]any {
	// Ordinary tokens are the vocabulary, control tokens are added to it; SmolLM has them in both.
	vocab := map[string]int{}
	var added []map[string]any
	for id, token := range v.tokens {
		kind := v.kinds[id]
		if kind == ordinary || (kind == control && v.style == SmolLM) {
			vocab[token] = id
		}
		if kind == control || kind == user {
			added = append(added, map[string]any{"id": id, "content": token, "special": kind == control,
				"normalized": false, "lstrip": false, "rstrip": false, "single_word": false})
		}
	}
	byteLevel := func(regex bool) map[string]any {
		return map[string]any{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": regex}
	}
	tokenizer := map[string]any{
		"version": "1.0", "truncation": nil, "padding": nil, "normalizer": nil, "added_tokens": added,
		"pre_tokenizer": map[string]any{"type": "Sequence", "pretokenizers": v.preTokenizers(byteLevel)},
		"decoder":       byteLevel(false), "post_processor": byteLevel(false),
		"model": map[string]any{"type": "BPE", "dropout": nil, "unk_token": nil, "continuing_subword_prefix": nil,
			"end_of_word_suffix": nil, "fuse_unk": false, "byte_fallback": false, "vocab": vocab, "merges": v.jsonMerges(),
			"ignore_merges": v.style == Harmony || v.style == Llama3},
	}
	if v.style == Qwen {
		tokenizer["normalizer"] = map[string]any{"type": "NFC"}
	}
	if v.style == Llama3 {
		tokenizer["post_processor"] = v.beginOfText()
	}
	return tokenizer
}

// preTokenizers are what cuts text before merging, formats.md 8.
func (v *vocabulary) preTokenizers(byteLevel func(regex bool) map[string]any) []any {
	regex := map[Tokenizer]string{Harmony: harmonyRegex, Qwen: qwenRegex, Llama3: llama3Regex}[v.style]
	if v.style == SmolLM {
		return []any{map[string]any{"type": "Digits", "individual_digits": true}, byteLevel(true)}
	}
	split := map[string]any{"type": "Split", "pattern": map[string]string{"Regex": regex}, "behavior": "Isolated", "invert": false}
	return []any{split, byteLevel(false)}
}

// jsonMerges writes both accepted forms: SmolLM2 has strings, the others pairs.
func (v *vocabulary) jsonMerges() any {
	if v.style != SmolLM {
		return v.merges
	}
	return v.joinedMerges()
}

// joinedMerges are the merges as "a b".
func (v *vocabulary) joinedMerges() []string {
	out := make([]string, len(v.merges))
	for i, m := range v.merges {
		out[i] = strings.Join(m[:], " ")
	}
	return out
}

// beginOfText is the post-processor that puts the begin token in front.
func (v *vocabulary) beginOfText() map[string]any {
	bos := map[string]any{"SpecialToken": map[string]any{"id": v.bos, "type_id": 0}}
	part := func(name string, n int) map[string]any {
		return map[string]any{"Sequence": map[string]any{"id": name, "type_id": n}}
	}
	return map[string]any{"type": "TemplateProcessing",
		"single":         []any{bos, part("A", 0)},
		"pair":           []any{bos, part("A", 0), part("B", 1)},
		"special_tokens": map[string]any{v.bos: map[string]any{"id": v.bos, "ids": []int{v.id(v.bos)}, "tokens": []string{v.bos}}}}
}

// tokenizerConfig is tokenizer_config.json.
func (v *vocabulary) tokenizerConfig() map[string]any {
	return map[string]any{"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": v.bos, "eos_token": v.eos, "pad_token": v.pad,
		"clean_up_tokenization_spaces": false, "chat_template": v.template()}
}

// keys adds the tokenizer to GGUF metadata, formats.md 6.
func (v *vocabulary) keys(m *metadata) {
	m.add("tokenizer.ggml.model", "gpt2")
	m.add("tokenizer.ggml.pre", map[Tokenizer]string{Harmony: "gpt-4o", Qwen: "qwen2", SmolLM: "smollm", Llama3: "llama-bpe"}[v.style])
	m.add("tokenizer.ggml.tokens", v.tokens)
	m.add("tokenizer.ggml.token_type", v.kinds)
	m.add("tokenizer.ggml.merges", v.joinedMerges())
	m.add("tokenizer.ggml.bos_token_id", uint32(v.id(v.bos)))
	m.add("tokenizer.ggml.eos_token_id", uint32(v.id(v.eos)))
	m.add("tokenizer.ggml.padding_token_id", uint32(v.id(v.pad)))
	m.add("tokenizer.ggml.add_bos_token", v.style == Llama3)
	m.add("tokenizer.chat_template", v.template())
}
