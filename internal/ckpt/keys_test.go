package ckpt

import "testing"

// Files of Llama 3 that do not say so begin a text with a token, as llama.cpp has it.
func TestBeginOfTextUnsaid(t *testing.T) {
	pre := func(name string) value { return value{typ: ggufString, raw: []byte(name)} }
	id, no, yes := value{typ: ggufU32, raw: []byte{7, 0, 0, 0}}, value{typ: ggufBool, raw: []byte{0}}, value{typ: ggufBool, raw: []byte{1}}
	const p = "tokenizer.ggml."
	for _, c := range []struct {
		name string
		keys map[string]value
		want bool
	}{
		{"Llama 3", map[string]value{p + "pre": pre("llama-bpe"), p + "bos_token_id": id}, true},
		{"another name of Llama 3's", map[string]value{p + "pre": pre("lfm2"), p + "bos_token_id": id}, true},
		{"its splitter without its flags", map[string]value{p + "pre": pre("smaug-bpe"), p + "bos_token_id": id}, false},
		{"Llama 3 without the token", map[string]value{p + "pre": pre("llama-bpe")}, false},
		{"Llama 3 that says no", map[string]value{p + "pre": pre("llama-bpe"), p + "bos_token_id": id, p + "add_bos_token": no}, false},
		{"another", map[string]value{p + "pre": pre("qwen2"), p + "bos_token_id": id}, false},
		{"another that says yes", map[string]value{p + "pre": pre("qwen2"), p + "bos_token_id": id, p + "add_bos_token": yes}, true},
	} {
		m := &metadata{keys: c.keys}
		if got := m.vocab("llama").AddBOS; got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// Converters that did not know the name of gpt-oss's rules wrote "default", or nothing.
func TestUnnamedRules(t *testing.T) {
	for _, c := range []struct{ family, pre, want string }{
		{"gpt-oss", "default", "gpt-4o"}, {"gpt-oss", "", "gpt-4o"}, {"gpt-oss", "qwen2", "qwen2"}, {"llama", "default", "default"},
	} {
		m := &metadata{keys: map[string]value{}}
		if c.pre != "" {
			m.keys["tokenizer.ggml.pre"] = value{typ: ggufString, raw: []byte(c.pre)}
		}
		if got := m.vocab(c.family).Pre; got != c.want {
			t.Errorf("%s, %q: %q, want %q", c.family, c.pre, got, c.want)
		}
	}
}
