// Package token turns text into token ids and back. Callers do not need to know
// which file a vocabulary came from, how text is split before merging, how merges
// are searched, or where a character begins inside a token; and they cannot make
// a control id out of text by accident (reliability.md SEC-6).
package token

import (
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strings"
	"sync"
)

// A BPE is one byte-level byte-pair vocabulary. It is immutable and safe for
// concurrent use.
type BPE struct {
	text    string           // the bytes of all tokens, in id order
	ends    []uint32         // [Vocab()] end of each token in text
	class   []class          // [Vocab()]
	bytes   [256]int32       // id of a single byte, -1 if the vocabulary lacks it
	pieces  table            // strings that are one token without merging
	seed    maphash.Seed     // of long strings in pieces
	longest int              // bytes of the longest string in pieces
	widest  int              // bytes of the longest token of any class
	byRank  bool             // ranks are ids: what two tokens make together is looked up in pieces
	pairs   table            // if not byRank: what two tokens make together
	names   map[string]int32 // added tokens by spelling
	match   matcher          // the same, for finding them in Markup
	scan    scanner
	nfc     bool
	bos     int32
	eos     int32
	addBOS  bool
	pool    sync.Pool // *scratch, of Encode
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

// IsControl reports whether id is a control token. Tokens that are added but part
// of the visible text, such as <think> in Qwen3, are not control tokens.
func (t *BPE) IsControl(id int32) bool { return t.is(id, control) }

// is reports whether id is of a class; ids outside the vocabulary are of none.
func (t *BPE) is(id int32, kind class) bool {
	return id >= 0 && int(id) < len(t.class) && t.class[id] == kind
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
	tokens []string      // [ids] spelled as bytes
	class  []class       // [ids]
	merges []sourceMerge // in rank order
	byRank bool          // instead of merges: all that makes a token is one, its rank is its id
	whole  bool          // a piece that is a token needs no merging (ignore_merges)
	scan   scanner
	nfc    bool
	bos    int32
	eos    int32
	addBOS bool
}

// A sourceMerge makes id of two neighbours.
type sourceMerge struct{ left, right, id int32 }

// build makes the tokenizer.
func (s *source) build() (*BPE, error) {
	bpe := &BPE{
		class: s.class, seed: maphash.MakeSeed(), byRank: s.byRank, names: map[string]int32{},
		scan: s.scan, nfc: s.nfc, bos: s.bos, eos: s.eos, addBOS: s.addBOS,
	}
	if err := bpe.layOut(s.tokens); err != nil {
		return nil, err
	}
	if err := bpe.nameAdded(); err != nil {
		return nil, err
	}
	if s.addBOS && !bpe.is(s.bos, control) {
		return nil, fmt.Errorf("begin-of-text id %d is not a control token", s.bos)
	}
	// Indexing whole pieces merges tokens: pairs must be there before.
	bpe.pairs = newTable(len(s.merges), bpe.seed)
	for rank, m := range s.merges {
		key := pair(m.left, m.right)
		*bpe.pairs.at(key) = slot{key, merge{int32(rank), m.id}}
	}
	bpe.indexPieces(s.whole || bpe.byRank)
	return bpe, nil
}

// layOut stores the tokens in one string and finds the single bytes.
func (t *BPE) layOut(tokens []string) error {
	text := strings.Join(tokens, "")
	if len(text) > math.MaxInt32 {
		return fmt.Errorf("tokens have %d bytes together, at most %d are supported", len(text), math.MaxInt32)
	}
	for i := range t.bytes {
		t.bytes[i] = -1
	}
	t.text, t.ends = text, make([]uint32, len(tokens))
	end := 0
	for i, token := range tokens {
		end += len(token)
		t.ends[i] = uint32(end)
		t.widest = max(t.widest, len(token))
		if len(token) == 1 && t.class[i] == plain {
			t.bytes[token[0]] = int32(i)
		}
	}
	return nil
}

// nameAdded fills names and match.
func (t *BPE) nameAdded() error {
	for at, kind := range t.class {
		if kind != added && kind != control {
			continue
		}
		id := int32(at)
		text := t.Text(id)
		if text == "" {
			return fmt.Errorf("added token %d is empty", id)
		}
		if other, ok := t.names[text]; ok {
			return fmt.Errorf("added tokens %d and %d are both %q", other, id, text)
		}
		t.names[text] = id
	}
	t.match = newMatcher(t.names)
	return nil
}

// indexPieces fills pieces. Unless all is set it leaves out the tokens that merging
// would spell with others, so that looking a whole piece up is a shortcut and never
// a different answer.
func (t *BPE) indexPieces(all bool) {
	t.pieces = newTable(len(t.class), t.seed)
	var state scratch
	var ids []int32
	for i, kind := range t.class {
		id := int32(i)
		text := t.Text(id)
		if kind != plain || text == "" {
			continue
		}
		if !all { // a shortcut must not change the answer
			ids = t.merge(ids[:0], text, &state)
			if len(ids) != 1 || ids[0] != id {
				continue
			}
		}
		key := t.key(text)
		*t.pieces.at(key) = slot{key, merge{id, id}}
		t.longest = max(t.longest, len(text))
	}
}
