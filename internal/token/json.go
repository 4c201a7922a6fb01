package token

import (
	"errors"
	"fmt"
	"strings"
)

// FromJSON reads a Hugging Face tokenizer.json with a byte-level BPE model, in the
// subset of formats.md §7. It refuses what it cannot reproduce exactly and says
// which part that is.
func FromJSON(data []byte) (*BPE, error) {
	file, err := readJSON(data)
	if err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	bpe, err := file.build()
	if err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	return bpe, nil
}

// A jsonFile is a tokenizer.json, the parts that are read.
type jsonFile struct {
	Normalizer    *jsonStep   `json:"normalizer"`
	PreTokenizer  *jsonStep   `json:"pre_tokenizer"`
	PostProcessor *jsonStep   `json:"post_processor"`
	Decoder       *jsonStep   `json:"decoder"`
	AddedTokens   []jsonAdded `json:"added_tokens"`
	Model         struct {
		Type         string   `json:"type"`
		Dropout      *float64 `json:"dropout"`
		Unk          *string  `json:"unk_token"`
		Prefix       *string  `json:"continuing_subword_prefix"`
		Suffix       *string  `json:"end_of_word_suffix"`
		ByteFallback bool     `json:"byte_fallback"`
		IgnoreMerges bool     `json:"ignore_merges"`

		// See jsonText.
		Vocab  map[string]int32 `json:"vocab"`
		Merges []jsonMerge      `json:"merges"`
	} `json:"model"`
}

// A jsonMerge is two neighbours as a file spells them.
type jsonMerge struct{ left, right string }

// jsonStep is any normalizer, pre-tokenizer, post-processor or decoder: the union
// of the fields of the accepted types.
type jsonStep struct {
	Type string `json:"type"`

	Normalizers   []jsonStep `json:"normalizers"`   // Sequence
	PreTokenizers []jsonStep `json:"pretokenizers"` // Sequence
	Processors    []jsonStep `json:"processors"`    // Sequence

	Pattern  struct{ Regex, String *string } `json:"pattern"` // Split
	Behavior string                          `json:"behavior"`
	Invert   bool                            `json:"invert"`

	IndividualDigits bool  `json:"individual_digits"` // Digits
	AddPrefixSpace   bool  `json:"add_prefix_space"`  // ByteLevel
	UseRegex         *bool `json:"use_regex"`         // ByteLevel; absent = true

	Single []struct { // TemplateProcessing
		SpecialToken *struct{ ID string }
		Sequence     *struct{ ID string }
	} `json:"single"`
	SpecialTokens map[string]struct{ IDs []int32 } `json:"special_tokens"`
}

// jsonAdded leaves out "normalized": all added tokens are found before NFC, which
// differs only for names that NFC changes or that a mark follows.
type jsonAdded struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	Special    bool   `json:"special"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	SingleWord bool   `json:"single_word"`
}

// parseMerge reads a "left right" line. The byte alphabet has no blank.
func parseMerge(line string) (jsonMerge, error) {
	left, right, ok := strings.Cut(line, " ")
	if !ok || left == "" || right == "" || strings.Contains(right, " ") {
		return jsonMerge{}, fmt.Errorf("%q: expected two tokens separated by one blank", line)
	}
	return jsonMerge{left, right}, nil
}

// build refuses what would split or merge text in other ways than ours, and makes the
// tokenizer of the rest.
func (f *jsonFile) build() (*BPE, error) {
	model := &f.Model
	switch {
	case model.Type != "BPE" && model.Type != "":
		return nil, fmt.Errorf("model type %q, only BPE is supported", model.Type)
	case model.ByteFallback:
		return nil, errors.New("model.byte_fallback is not supported")
	case model.Dropout != nil && *model.Dropout != 0:
		return nil, fmt.Errorf("model.dropout %v, only null is supported", *model.Dropout)
	case model.Prefix != nil && *model.Prefix != "":
		return nil, fmt.Errorf("model.continuing_subword_prefix %q, only null is supported", *model.Prefix)
	case model.Suffix != nil && *model.Suffix != "":
		return nil, fmt.Errorf("model.end_of_word_suffix %q, only null is supported", *model.Suffix)
	case f.Decoder != nil && f.Decoder.Type != "ByteLevel":
		return nil, fmt.Errorf("decoder %q, only ByteLevel is supported", f.Decoder.Type)
	}
	// Each step of the file's pipeline in its order.
	src := &source{whole: model.IgnoreMerges, bos: -1, eos: -1}
	var err error
	if src.nfc, err = f.Normalizer.nfc(); err != nil {
		return nil, err
	}
	if src.scan, err = f.PreTokenizer.scanner(); err != nil {
		return nil, err
	}
	if err := f.fill(src); err != nil {
		return nil, err
	}
	if src.bos, err = f.PostProcessor.bos(); err != nil {
		return nil, err
	}
	src.addBOS = src.bos >= 0
	bpe, err := src.build()
	if err != nil {
		return nil, err
	}
	if missing := bpe.Missing(); model.Unk != nil && len(missing) > 0 {
		return nil, fmt.Errorf("model.unk_token %q with %d bytes missing from the vocabulary is not supported", *model.Unk, len(missing))
	}
	return bpe, nil
}

// fill moves the vocabulary, the added tokens and the merges to src.
func (f *jsonFile) fill(src *source) error {
	// First all ids, since the vocabulary is as large as the highest; then its tokens, and
	// over them the added ones, which may repeat an entry but not take another's id.
	size := int32(0)
	check := func(id int32, text string) error {
		if id < 0 || id >= maxVocab {
			return fmt.Errorf("token %q has id %d, expected 0 to %d", text, id, maxVocab-1)
		}
		size = max(size, id+1)
		return nil
	}
	for text, id := range f.Model.Vocab {
		if err := check(id, text); err != nil {
			return err
		}
	}
	for _, token := range f.AddedTokens {
		if err := check(token.ID, token.Content); err != nil {
			return err
		}
		if token.LStrip || token.RStrip || token.SingleWord {
			return fmt.Errorf("added token %q: lstrip, rstrip and single_word are not supported", token.Content)
		}
	}
	src.tokens, src.class = make([]string, size), make([]class, size)
	for text, id := range f.Model.Vocab {
		if src.class[id] != unused {
			return fmt.Errorf("token %q has id %d, which is taken", text, id)
		}
		src.set(id, text, plain)
	}
	for _, token := range f.AddedTokens {
		kind := added
		if token.Special {
			kind = control
		}
		old, ok := f.Model.Vocab[token.Content]
		same := ok && old == token.ID && src.class[token.ID] <= decodeOnly
		if src.class[token.ID] != unused && !same {
			return fmt.Errorf("added token %q has id %d, which is taken", token.Content, token.ID)
		}
		src.set(token.ID, token.Content, kind)
	}
	src.merges = make([]sourceMerge, 0, len(f.Model.Merges))
	for rank, pair := range f.Model.Merges {
		if err := src.join(f.Model.Vocab, pair); err != nil {
			return fmt.Errorf("merge %d: %w", rank, err)
		}
	}
	return nil
}

// nfc accepts no normalizer, NFC, and sequences of it.
func (n *jsonStep) nfc() (bool, error) {
	if n == nil {
		return false, nil
	}
	switch n.Type {
	case "NFC":
		return true, nil
	case "Sequence":
		for i := range n.Normalizers {
			if _, err := n.Normalizers[i].nfc(); err != nil {
				return false, err
			}
		}
		return len(n.Normalizers) > 0, nil
	}
	return false, fmt.Errorf("normalizer %q, only NFC is supported", n.Type)
}

// bos accepts post-processors that do nothing or put one token before the text,
// and returns that token or -1.
func (p *jsonStep) bos() (int32, error) {
	if p == nil {
		return -1, nil
	}
	switch p.Type {
	case "ByteLevel":
		return -1, nil
	case "Sequence": // any number of steps, of which one may put a token
		bos := int32(-1)
		for i := range p.Processors {
			id, err := p.Processors[i].bos()
			if err != nil {
				return -1, err
			}
			if bos >= 0 && id >= 0 {
				return -1, errors.New("post_processor puts two tokens before the text, at most one is supported")
			}
			bos = max(bos, id)
		}
		return bos, nil
	case "TemplateProcessing":
		return p.template()
	}
	return -1, fmt.Errorf("post_processor %q, only ByteLevel and TemplateProcessing are supported", p.Type)
}

// template accepts one token before the text, or none, and returns it or -1.
func (p *jsonStep) template() (int32, error) {
	items := p.Single
	if len(items) == 1 && items[0].Sequence != nil {
		return -1, nil
	}
	if len(items) != 2 || items[0].SpecialToken == nil || items[1].Sequence == nil {
		return -1, errors.New("post_processor template: expected the text with at most one token before it")
	}
	name := items[0].SpecialToken.ID
	ids := p.SpecialTokens[name].IDs
	if len(ids) != 1 {
		return -1, fmt.Errorf("post_processor template: token %q has %d ids, expected 1", name, len(ids))
	}
	return ids[0], nil
}
