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
	t, err := v.build()
	if err != nil {
		return nil, fmt.Errorf("GGUF tokenizer: %w", err)
	}
	return t, nil
}

func (v *Vocab) build() (*BPE, error) {
	n := len(v.Tokens)
	switch {
	case v.Model != "gpt2":
		return nil, fmt.Errorf("tokenizer.ggml.model %q, only gpt2 (byte-level BPE) is supported", v.Model)
	case n > maxVocab:
		return nil, fmt.Errorf("%d tokens, at most %d are supported", n, maxVocab)
	case len(v.Types) != n:
		return nil, fmt.Errorf("%d token types for %d tokens", len(v.Types), n)
	case v.AddEOS:
		return nil, errors.New("tokenizer.ggml.add_eos_token: a vocabulary that ends every text is for embedding models")
	}
	s := &source{tokens: make([]string, n), class: make([]class, n), bos: v.BOS, eos: v.EOS, addBOS: v.AddBOS}
	var err error
	if s.scan, s.whole, err = preScanner(v.Pre); err != nil {
		return nil, err
	}
	s.nfc = v.Pre == "qwen2"
	ids := make(map[string]int32, n)
	for i, text := range v.Tokens {
		kind, ok := classOfType(v.Types[i])
		if !ok {
			return nil, fmt.Errorf("token %d (%q) has type %d, expected 1 to 5", i, text, v.Types[i])
		}
		if kind == unused || (kind == added && filler.MatchString(text)) {
			continue
		}
		if other, ok := ids[text]; ok {
			return nil, fmt.Errorf("tokens %d and %d are both %q", other, i, text)
		}
		ids[text] = int32(i)
		s.set(int32(i), text, kind)
	}
	for rank, line := range v.Merges {
		m, err := parseMerge(line)
		if err == nil {
			err = s.join(ids, m)
		}
		if err != nil {
			return nil, fmt.Errorf("merge %d: %w", rank, err)
		}
	}
	return s.build()
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
