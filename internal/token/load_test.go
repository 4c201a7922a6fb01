package token

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
)

// tiny is a complete tokenizer.json; tests replace parts of it.
const tiny = `{
 "normalizer": null,
 "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
 "post_processor": {"type": "ByteLevel"},
 "decoder": {"type": "ByteLevel"},
 "added_tokens": [{"id": 5, "content": "<s>", "special": true}, {"id": 6, "content": "<t>", "special": false}],
 "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "Ġ": 3, "Ġa": 4}, "merges": ["a b", "Ġ a"]}
}`

func TestFromJSON(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, old, new string
		text           string
		want           []int32
	}{
		{"as is", "", "", "ab a", []int32{2, 4}},
		{"pairs", `"a b", "Ġ a"`, `["a", "b"], ["Ġ", "a"]`, "ab a", []int32{2, 4}},
		{"order of merges", `"a b", "Ġ a"`, `"Ġ a", "a b"`, " ab", []int32{4, 1}},
		{"bytes without a token are dropped", "", "", "axb", []int32{2}},
		{"token that merges cannot reach", `"a b", `, ``, "ab", []int32{0, 1}},
		{"ignore_merges reaches it", `"merges": ["a b", `, `"ignore_merges": true, "merges": [`, "ab", []int32{2}},
		{"merge into an added token", `{"id": 5, "content": "<s>"`, `{"id": 2, "content": "ab"`, "ab", []int32{0, 1}},
		{"added token does not match", "", "", "a<s>", []int32{0}},
		{"added token that is in the vocabulary", `"ab": 2`, `"ab": 2, "<t>": 6, "<s>": 5`, "ab", []int32{2}},
		{"token outside the alphabet", `"ab": 2`, `"ab": 2, "a b": 7`, "ab", []int32{2}},
	} {
		bpe, err := FromJSON([]byte(strings.Replace(tiny, c.old, c.new, 1)))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := bpe.Encode(nil, c.text); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q gave %v, want %v", c.name, c.text, got, c.want)
		}
	}
}

func TestFromJSONBeginOfText(t *testing.T) {
	t.Parallel()
	const template = `{"type": "Sequence", "processors": [{"type": "ByteLevel"}, {"type": "TemplateProcessing",
		"single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
		"special_tokens": {"<s>": {"id": "<s>", "ids": [5], "tokens": ["<s>"]}}}]}`
	bpe, err := FromJSON([]byte(strings.Replace(tiny, `{"type": "ByteLevel"}`, template, 1)))
	if err != nil {
		t.Fatal(err)
	}
	if id, add := bpe.BOS(); id != 5 || !add {
		t.Errorf("BOS() = %d, %v, want 5, true", id, add)
	}
	if id, add := mustHarmony(t).BOS(); id != -1 || add {
		t.Errorf("harmony: BOS() = %d, %v, want -1, false", id, add)
	}
}

func TestFromJSONRefuses(t *testing.T) {
	t.Parallel()
	pre := `{"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}`
	post := `"post_processor": {"type": "ByteLevel"}`
	for _, c := range []struct{ name, old, new, want string }{
		{"no JSON", "{", "[", "tokenizer.json:"},
		{"model kind", `"BPE"`, `"Unigram"`, `model type "Unigram"`},
		{"byte fallback", `"type": "BPE"`, `"type": "BPE", "byte_fallback": true`, "byte_fallback"},
		{"dropout", `"type": "BPE"`, `"type": "BPE", "dropout": 0.1`, "dropout"},
		{"prefix", `"type": "BPE"`, `"type": "BPE", "continuing_subword_prefix": "##"`, "continuing_subword_prefix"},
		{"suffix", `"type": "BPE"`, `"type": "BPE", "end_of_word_suffix": "</w>"`, "end_of_word_suffix"},
		{"unknown token", `"type": "BPE"`, `"type": "BPE", "unk_token": "a"`, "unk_token"},
		{"decoder", `"decoder": {"type": "ByteLevel"}`, `"decoder": {"type": "Metaspace"}`, `decoder "Metaspace"`},
		{"normalizer", `"normalizer": null`, `"normalizer": {"type": "NFKC"}`, `normalizer "NFKC"`},
		{"nested normalizer", `"normalizer": null`, `"normalizer": {"type": "Sequence", "normalizers": [{"type": "Lowercase"}]}`, `"Lowercase"`},
		{"no pre-tokenizer", pre, `null`, "0 steps"},
		{"byte level without splitting", "true}", "false}", "use_regex false"},
		{"prefix space", `"add_prefix_space": false`, `"add_prefix_space": true`, "add_prefix_space"},
		{"three steps", pre, `{"type": "Sequence", "pretokenizers": [` + pre + "," + pre + "," + pre + `]}`, "3 steps"},
		{"unknown pattern", pre, splitJSON(`\\w+`, "Isolated"), `pattern "\\w+"`},
		{"unknown behavior", pre, splitJSON(`\\s+`, "Removed"), `behavior "Removed"`},
		{"string pattern", pre, strings.Replace(splitJSON(" ", "Isolated"), "Regex", "String", 1), "without a Regex"},
		{"post-processor", post, `"post_processor": {"type": "BertProcessing"}`, `post_processor "BertProcessing"`},
		{"token after the text", post, `"post_processor": {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A"}}, {"SpecialToken": {"id": "<s>"}}]}`, "at most one token before"},
		{"unknown token before the text", post, `"post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<x>"}}, {"Sequence": {"id": "A"}}]}`, `token "<x>" has 0 ids`},
		{"begin of text is plain", post, `"post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "a"}}, {"Sequence": {"id": "A"}}], "special_tokens": {"a": {"ids": [0]}}}`, "begin-of-text id 0"},
		{"negative id", `"a": 0`, `"a": -1`, "has id -1"},
		{"huge id", `"a": 0`, `"a": 2000000000`, "has id 2000000000"},
		{"huge added id", `"id": 5`, `"id": 1048576`, "has id 1048576"},
		{"id twice", `"b": 1`, `"b": 0`, "has id 0, which is taken"},
		{"added id taken", `"id": 5`, `"id": 1`, "has id 1, which is taken"},
		{"added id 0 taken", `"id": 5`, `"id": 0`, "has id 0, which is taken"},
		{"added text twice", `"<t>"`, `"<s>"`, `both "<s>"`},
		{"empty added token", `"<t>"`, `""`, "added token 6 is empty"},
		{"lstrip", `"special": true`, `"special": true, "lstrip": true`, "lstrip"},
		{"merge of unknown tokens", `"a b"`, `"a c"`, `merge 0: "a" and "c"`},
		{"merge into an unknown token", `"a b"`, `"b a"`, `merge 0: "b" and "a"`},
		{"merge of one", `"a b"`, `"ab"`, `merge 0: "ab"`},
		{"merge of three", `"a b", "Ġ a"`, `["a", "b", "a"]`, "has 3 parts"},
		{"merges in two forms", `"a b"`, `["a", "b"]`, `merge 1: '"' at byte`},
	} {
		text := strings.Replace(tiny, c.old, c.new, 1)
		if text == tiny {
			t.Errorf("%s: nothing to replace", c.name)
		}
		if _, err := FromJSON([]byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want one with %q", c.name, err, c.want)
		}
	}
}

func splitJSON(pattern, behavior string) string {
	return `{"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": "` + pattern + `"}, "behavior": "` + behavior +
		`", "invert": false}, {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]}`
}

func TestFromGGUFRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(v *Vocab)
		want   string
	}{
		{"model kind", func(v *Vocab) { v.Model = "llama" }, `tokenizer.ggml.model "llama"`},
		{"splitter", func(v *Vocab) { v.Pre = "deepseek-llm" }, `tokenizer.ggml.pre "deepseek-llm"`},
		{"types missing", func(v *Vocab) { v.Types = nil }, "0 token types for 4 tokens"},
		{"type", func(v *Vocab) { v.Types[0] = 6 }, `token 0 ("a") has type 6`},
		{"text twice", func(v *Vocab) { v.Tokens[1] = "a" }, "tokens 0 and 1 are both"},
		{"merge", func(v *Vocab) { v.Merges[0] = "a" }, `merge 0: "a"`},
		{"merge of unknown tokens", func(v *Vocab) { v.Merges[0] = "a c" }, `merge 0: "a" and "c"`},
		{"end of text", func(v *Vocab) { v.AddEOS = true }, "add_eos_token"},
		{"begin of text", func(v *Vocab) { v.AddBOS, v.BOS = true, 9 }, "begin-of-text id 9"},
		{"begin of text absent", func(v *Vocab) { v.AddBOS = true }, "begin-of-text id -1"},
		{"size", func(v *Vocab) { v.Tokens = make([]string, maxVocab+1) }, "at most 1048576"},
	} {
		v := tinyVocab()
		mustGGUF(t, v)
		c.change(&v)
		if _, err := FromGGUF(v); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %v, want one with %q", c.name, err, c.want)
		}
	}
}

func tinyVocab() Vocab {
	return Vocab{Model: "gpt2", Pre: "qwen2", BOS: -1, EOS: 3,
		Tokens: []string{"a", "b", "ab", "<s>"}, Types: []int32{1, 1, 1, 3}, Merges: []string{"a b"}}
}

// try uses everything a loaded vocabulary can do.
func try(t *testing.T, bpe *BPE) {
	text := "ab <s>日" + strings.Repeat("ab", 80)
	ids := bpe.Encode(nil, text)
	for _, id := range ids {
		if !bpe.is(id, plain) {
			t.Fatalf("text gave id %d, %q", id, bpe.Text(id))
		}
	}
	p := bpe.Prompt()
	p.Markup(text)
	for _, a := range bpe.Added() {
		p.Markup(a.Text)
	}
	bpe.Decode(p.IDs())
	bpe.BOS()
}

func FuzzFromJSON(f *testing.F) {
	f.Add([]byte(tiny))
	f.Add([]byte(strings.Replace(tiny, `"a b", "Ġ a"`, `["a", "b"]`, 1)))
	f.Add([]byte(strings.Replace(tiny, "null", `{"type": "Sequence", "normalizers": [{"type": "NFC"}]}`, 1)))
	f.Add([]byte(strings.Replace(tiny, `"BPE"`, `"BPE", "ignore_merges": true`, 1)))
	f.Add([]byte(strings.Replace(tiny, `"ab": 2`, `"a\u0062": 2, "\ud83d\ude00\"\\": 7, "\ud83d": 8`+"\n, \"\xff\" : 9", 1)))
	f.Add([]byte(tiny[:strings.Index(tiny, `a b"`)] + `\`))
	f.Add([]byte(strings.Replace(tiny, `"ab": 2`, `"ab": 02`, 1)))
	f.Add([]byte(strings.Replace(tiny, `"ab": 2`, `"ab": +2`, 1)))
	f.Fuzz(func(t *testing.T, data []byte) {
		sameAsJSON(t, data)
		if bpe, err := FromJSON(data); err == nil {
			try(t, bpe)
		}
	})
}

// sameAsJSON compares what readJSON cuts out with what encoding/json reads.
func sameAsJSON(t *testing.T, data []byte) {
	t.Helper()
	got, err := readJSON(data)
	if err != nil {
		return
	}
	var whole, model map[string]json.RawMessage
	if err := json.Unmarshal(data, &whole); err != nil {
		t.Fatalf("%q was read, encoding/json says %v", data, err)
	}
	if whole["model"] == nil || json.Unmarshal(whole["model"], &model) != nil || model == nil {
		return
	}
	var vocab map[string]int32
	if raw, ok := model["vocab"]; ok && raw[0] == '{' {
		if err := json.Unmarshal(raw, &vocab); err != nil || !maps.Equal(got.Model.Vocab, vocab) {
			t.Errorf("vocabulary %v, encoding/json reads %v, %v", got.Model.Vocab, vocab, err)
		}
	}
	var lines []string
	var pairs [][]string
	if raw, ok := model["merges"]; ok && raw[0] == '[' {
		if json.Unmarshal(raw, &lines) == nil {
			for _, line := range lines {
				pairs = append(pairs, strings.Split(line, " "))
			}
		} else if pairs = nil; json.Unmarshal(raw, &pairs) != nil {
			t.Fatalf("merges %s were read", raw)
		}
		if !slices.EqualFunc(got.Model.Merges, pairs, func(m jsonMerge, p []string) bool { return slices.Equal([]string{m.left, m.right}, p) }) {
			t.Errorf("merges %q, encoding/json reads %q", got.Model.Merges, pairs)
		}
	}
}

func FuzzFromGGUF(f *testing.F) {
	seed, err := json.Marshal(tinyVocab())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, data []byte) {
		var v Vocab
		if json.Unmarshal(data, &v) != nil {
			return
		}
		if bpe, err := FromGGUF(v); err == nil {
			try(t, bpe)
		}
	})
}

// An added token may be listed in the vocabulary too, even with characters that
// the byte alphabet lacks.
func TestFromJSONAddedOutsideAlphabet(t *testing.T) {
	t.Parallel()
	text := strings.NewReplacer(`"<s>"`, `"<end of text>"`, `"ab": 2`, `"ab": 2, "<end of text>": 5`).Replace(tiny)
	bpe, err := FromJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	p := bpe.Prompt()
	p.Markup("ab<end of text>")
	if got := p.IDs(); !slices.Equal(got, []int32{2, 5}) || bpe.Text(5) != "<end of text>" {
		t.Errorf("got %v, token 5 is %q", got, bpe.Text(5))
	}
}

// What fills a vocabulary up is no token, whichever type it has: its text is text.
func TestGGUFFillers(t *testing.T) {
	v := Vocab{Model: "gpt2", Pre: "gpt-2", BOS: -1, EOS: -1}
	for i, text := range []string{"[", "P", "A", "D", "7", "]", "[PAD6]", "[PAD7]", "[PAD]"} {
		v.Tokens, v.Types = append(v.Tokens, text), append(v.Types, 1)
		if i >= 6 {
			v.Types[i] = 4
		}
	}
	bpe := mustGGUF(t, v)
	if ids := bpe.Encode(nil, "[PAD7]"); len(ids) != 6 || bpe.Text(7) != "" || bpe.Text(8) != "[PAD]" {
		t.Errorf("[PAD7] is %v, token 7 %q, token 8 %q", ids, bpe.Text(7), bpe.Text(8))
	}
	v.Pre = "default" // it stands for other rules in every program
	if _, err := FromGGUF(v); err == nil || !strings.Contains(err.Error(), `"default"`) {
		t.Errorf("rules without a name: %v", err)
	}
}
