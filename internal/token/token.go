// Package token turns text into token ids and back. Callers do not need to know
// which file a vocabulary came from, how text is split before merging, how merges
// are searched, or where a character begins inside a token; and they cannot make
// a control id out of text by accident (reliability.md SEC-6).
package token

import (
	"fmt"
	"slices"
	"sync"
)

// A BPE is one byte-level byte-pair vocabulary. It is immutable and safe for
// concurrent use.
type BPE struct {
	text    string           // the bytes of all tokens, in id order
	ends    []uint32         // [Vocab()] end of each token in text
	class   []class          // [Vocab()]
	pieces  map[string]int32 // pieces that are one token without merging
	pairs   map[uint64]merge // left id <<32 | right id; nil: ranks are ids, looked up by bytes in pieces
	bytes   [256]int32       // id of a single byte, -1 if the vocabulary lacks it
	names   map[string]int32 // added tokens by spelling
	match   matcher          // the same, for finding them in Markup
	longest int              // bytes of the longest entry of pieces
	scan    scanner
	nfc     bool
	bos     int32
	eos     int32
	addBOS  bool
	pool    sync.Pool // *scratch
}

// A merge joins two neighbouring tokens into id; the lowest rank goes first.
type merge struct{ rank, id int32 }

// A class says where an id may come from and what it means.
type class uint8

const (
	unused     class = iota // a hole or a filler: no text, never produced
	plain                   // produced by merging
	decodeOnly              // an entry that no text can produce
	added                   // produced by Markup only, part of the visible text
	control                 // produced by Markup and Control only, hidden from readers
)

// maxVocab bounds ids. The largest published vocabularies have 262,144.
const maxVocab = 1 << 20

// An Added is a token that is recognised by its spelling instead of being merged.
type Added struct {
	ID      int32
	Text    string
	Control bool // "special" in tokenizer.json, type 3 in GGUF: not part of the visible text
}

// Vocab returns the number of ids, fillers included. Model rows from Vocab() on
// have no meaning and must be masked.
func (t *BPE) Vocab() int { return len(t.ends) }

// Text returns the bytes of a token as a string, which need not be valid UTF-8.
// It is empty for ids outside the vocabulary and for fillers: mask those.
func (t *BPE) Text(id int32) string {
	if id < 0 || int(id) >= len(t.ends) {
		return ""
	}
	start := uint32(0)
	if id > 0 {
		start = t.ends[id-1]
	}
	return t.text[start:t.ends[id]]
}

// Bytes appends the bytes of a token to dst.
func (t *BPE) Bytes(dst []byte, id int32) []byte { return append(dst, t.Text(id)...) }

// IsControl reports whether id is a control token. Tokens that are added but part
// of the visible text, such as <think> in Qwen3, are not control tokens.
func (t *BPE) IsControl(id int32) bool { return t.is(id, control) }

func (t *BPE) is(id int32, c class) bool {
	return id >= 0 && int(id) < len(t.class) && t.class[id] == c
}

// ID returns the id of the added token spelled name.
func (t *BPE) ID(name string) (int32, bool) {
	id, ok := t.names[name]
	return id, ok
}

// Added lists the added tokens in id order.
func (t *BPE) Added() []Added {
	list := make([]Added, 0, len(t.names))
	for text, id := range t.names {
		list = append(list, Added{id, text, t.class[id] == control})
	}
	slices.SortFunc(list, func(a, b Added) int { return int(a.ID - b.ID) })
	return list
}

// BOS returns the id that begins a text, or -1, and whether plain text must be
// given one. Templates write their own; a text that begins with it needs no second.
func (t *BPE) BOS() (id int32, add bool) { return t.bos, t.addBOS }

// EOS returns the id that the vocabulary itself names as end of text, or -1. It is
// one of the ids a model may stop with; model configurations name the others.
func (t *BPE) EOS() int32 { return t.eos }

// Missing lists the bytes that the vocabulary cannot express. Encode drops them,
// as the reference encoders do; loaders should log them once.
func (t *BPE) Missing() []byte {
	var list []byte
	for b, id := range t.bytes {
		if id < 0 {
			list = append(list, byte(b))
		}
	}
	return list
}

// source is a vocabulary as the three loaders deliver it.
type source struct {
	tokens []string         // [ids] spelled as bytes
	class  []class          // [ids]
	pairs  map[uint64]merge // nil: ranks are ids
	whole  bool             // a piece that is a token needs no merging (ignore_merges)
	scan   scanner
	nfc    bool
	bos    int32
	eos    int32
	addBOS bool
}

func (s *source) build() (*BPE, error) {
	t := &BPE{
		class: s.class, ends: make([]uint32, len(s.tokens)), pairs: s.pairs,
		pieces: make(map[string]int32, len(s.tokens)), names: map[string]int32{},
		scan: s.scan, nfc: s.nfc, bos: s.bos, eos: s.eos, addBOS: s.addBOS,
	}
	if err := t.fill(s.tokens); err != nil {
		return nil, err
	}
	if s.addBOS && !t.is(s.bos, control) {
		return nil, fmt.Errorf("begin-of-text id %d is not a control token", s.bos)
	}
	t.match = newMatcher(t.names)
	if !s.whole && s.pairs != nil {
		t.dropUnreachable()
	}
	return t, nil
}

// fill lays the tokens out in one string and indexes them.
func (t *BPE) fill(tokens []string) error {
	size := 0
	for _, text := range tokens {
		size += len(text)
	}
	if size >= 1<<31 {
		return fmt.Errorf("tokens have %d bytes together, at most %d are supported", size, 1<<31-1)
	}
	blob := make([]byte, 0, size)
	for i, text := range tokens {
		blob = append(blob, text...)
		t.ends[i] = uint32(len(blob))
	}
	t.text = string(blob)
	for i := range t.bytes {
		t.bytes[i] = -1
	}
	for i := range tokens {
		id, text := int32(i), t.Text(int32(i))
		switch t.class[i] {
		case plain:
			t.pieces[text] = id
			t.longest = max(t.longest, len(text))
			if len(text) == 1 {
				t.bytes[text[0]] = id
			}
		case added, control:
			if other, ok := t.names[text]; ok {
				return fmt.Errorf("added tokens %d and %d are both %q", other, id, text)
			}
			if text == "" {
				return fmt.Errorf("added token %d is empty", id)
			}
			t.names[text] = id
		}
	}
	return nil
}

// dropUnreachable removes pieces that merging would spell with other tokens, so
// that looking a whole piece up is a shortcut and never a different answer.
func (t *BPE) dropUnreachable() {
	var s scratch
	var ids []int32
	for text, id := range t.pieces {
		ids = t.merge(ids[:0], text, &s)
		if len(ids) != 1 || ids[0] != id {
			delete(t.pieces, text)
		}
	}
}
