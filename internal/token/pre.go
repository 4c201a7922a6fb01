package token

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A preRule is what a name of tokenizer.ggml.pre stands for.
type preRule struct {
	scan  scanner
	whole bool // a piece that is a token needs no merging (ignore_merges)
	nfc   bool // text is normalised first
	begin bool // plain text begins with BOS, unless tokenizer.ggml.add_bos_token says otherwise
}

// preRules are the names of tokenizer.ggml.pre whose splitter is known here. Converters name
// them after models, so that one splitter has many names: those that llama.cpp gives the same
// expression and the same flags stand together (src/llama-vocab.cpp there). NFC is that
// of Qwen's own tokenizer; GGUF says nothing about it, and the others are not known to have it.
var preRules = func() map[string]preRule {
	rules := map[string]preRule{}
	add := func(rule preRule, names ...string) {
		for _, name := range names {
			rules[name] = rule
		}
	}
	add(preRule{scan: scanO200k, whole: true}, "gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2")
	add(preRule{scan: scanQwen2, nfc: true}, "qwen2")
	add(preRule{scan: scanQwen2}, "deepseek-r1-qwen", "f2llmv2", "grok-2", "hunyuan", "kormo", "megrez", "solar-open", "stablelm2")
	add(preRule{scan: scanLlama3, whole: true, begin: true}, "llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "jina-v5-nano", "lfm2", "midm-2.0", "pixtral")
	add(preRule{scan: scanLlama3}, "chatglm-bpe", "dbrx", "glm4", "smaug-bpe")
	add(preRule{scan: scanSmolLM}, "smollm", "codeshell", "command-r", "exaone", "mellum2", "minerva-7b", "refact", "starcoder")
	add(preRule{scan: scanGPT2}, "gpt-2", "a.x-4.0", "exaone4", "gigachat", "granite-docling", "jais", "jina-de", "jina-es", "jina-v1-en",
		"jina-v2-code", "jina-v2-de", "jina-v2-es", "mellum", "modern-bert", "mpt", "olmo", "phi-2", "roberta-bpe", "trillion")
	return rules
}()

// ruleOf returns what a name of tokenizer.ggml.pre stands for.
func ruleOf(pre string) (preRule, error) {
	rule, ok := preRules[pre]
	if ok {
		return rule, nil
	}
	known := strings.Join(slices.Sorted(maps.Keys(preRules)), ", ")
	if pre == "" || pre == "default" {
		return rule, fmt.Errorf("tokenizer.ggml.pre %q does not say how text is split: convert the model again with a newer converter; known are %s", pre, known)
	}
	return rule, fmt.Errorf("tokenizer.ggml.pre %.100q, a splitter that is not known here; known are %s", pre, known)
}

// BeginsText reports whether plain text begins with BOS by a tokenizer.ggml.pre name, where
// a file does not say.
func BeginsText(pre string) bool { return preRules[pre].begin }
