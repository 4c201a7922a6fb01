package token

import (
	"errors"
	"fmt"
	"regexp"
)

// A Vocab is the tokenizer of a GGUF file, its tokenizer.ggml keys.
type Vocab struct {
	Model  string   // "gpt2" for byte-level BPE
	Pre    string   // how text is split, such as "qwen2"
	Tokens []string // [ids] in the byte alphabet; added tokens as plain text
	Types  []int32  // [ids] 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte
	Merges []string // "left right", most important first

	BOS, EOS       int32 // -1 = none
	AddBOS, AddEOS bool  // put BOS before, EOS after plain text
}

// FromGGUF reads the vocabulary of a GGUF file (formats.md §6). It copies what it
// keeps, so v's strings may lie in a mapped file that is closed later.
func FromGGUF(v Vocab) (*BPE, error) {
	bpe, err := v.build()
	if err != nil {
		return nil, fmt.Errorf("GGUF tokenizer: %w", err)
	}
	return bpe, nil
}

// build checks a vocabulary and makes the tokenizer of it.
func (v *Vocab) build() (*BPE, error) {
	size := len(v.Tokens)
	switch {
	case v.Model != "gpt2":
		return nil, fmt.Errorf("tokenizer.ggml.model %q, only gpt2 (byte-level BPE) is supported", v.Model)
	case size > maxVocab:
		return nil, fmt.Errorf("%d tokens, at most %d are supported", size, maxVocab)
	case len(v.Types) != size:
		return nil, fmt.Errorf("%d token types for %d tokens", len(v.Types), size)
	case v.AddEOS:
		return nil, errors.New("tokenizer.ggml.add_eos_token: a vocabulary that ends every text is for embedding models")
	}
	src := &source{tokens: make([]string, size), class: make([]class, size), bos: v.BOS, eos: v.EOS, addBOS: v.AddBOS}
	rule, err := ruleOf(v.Pre)
	if err != nil {
		return nil, err
	}
	src.scan, src.whole, src.nfc = rule.scan, rule.whole, rule.nfc
	ids := make(map[string]int32, size)
	for id, text := range v.Tokens {
		kind, ok := classOfType(v.Types[id])
		if !ok {
			return nil, fmt.Errorf("token %d (%q) has type %d, expected 1 to 5", id, text, v.Types[id])
		}
		// Fillers get no text, so several may be spelled alike.
		if kind == unused || (kind == added && filler.MatchString(text)) {
			continue
		}
		if other, ok := ids[text]; ok {
			return nil, fmt.Errorf("tokens %d and %d are both %q", other, id, text)
		}
		ids[text] = int32(id)
		src.set(int32(id), text, kind)
	}
	for rank, line := range v.Merges {
		pair, err := parseMerge(line)
		if err == nil {
			err = src.join(ids, pair)
		}
		if err != nil {
			return nil, fmt.Errorf("merge %d: %w", rank, err)
		}
	}
	return src.build()
}

// filler matches what converters put where a vocabulary is smaller than the embedding; some
// give it the type of added tokens.
var filler = regexp.MustCompile(`^\[PAD\d+\]$`)

// classOfType translates tokenizer.ggml.token_type. Type 6 (byte) belongs to
// another model kind.
func classOfType(kind int32) (c class, ok bool) {
	switch kind {
	case 1:
		return plain, true
	case 2, 3:
		return control, true
	case 4:
		return added, true
	case 5:
		return unused, true
	}
	return unused, false
}
