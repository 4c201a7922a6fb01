package token

import (
	"slices"
	"strings"
)

// A Prompt is built from parts: control ids, trusted markup and anyone's text.
// The text between two ids is encoded in one go, so how it was cut into parts does
// not show. A Prompt belongs to one goroutine.
type Prompt struct {
	bpe   *BPE
	text  []byte
	marks []mark
}

// A mark says that text[start:end] is markup or, if the two are equal, that id
// stands there; an id below zero only ends what is encoded in one go.
type mark struct {
	start, end int
	id         int32
}

// Prompt returns an empty prompt.
func (t *BPE) Prompt() *Prompt { return &Prompt{bpe: t} }

// Control adds the token id.
func (p *Prompt) Control(id int32) {
	p.marks = append(p.marks, mark{len(p.text), len(p.text), id})
}

// Begin adds the id that the tokenizer wants in front of text, which the caller adds
// next, unless it is spelled there already.
func (p *Prompt) Begin(text string) {
	if bos, add := p.bpe.BOS(); add && !strings.HasPrefix(text, p.bpe.Text(bos)) {
		p.Control(bos)
	}
}

// Cut keeps the text so far and the text to come from being encoded in one go.
func (p *Prompt) Cut() { p.Control(-1) }

// Markup adds trusted template text. Added tokens spelled in it, or across
// several Markups in a row, become ids.
func (p *Prompt) Markup(text string) {
	if text == "" {
		return
	}
	start := len(p.text)
	p.text = append(p.text, text...)
	if last := len(p.marks) - 1; last >= 0 && p.marks[last].end == start && p.marks[last].start < start {
		p.marks[last].end = len(p.text)
		return
	}
	p.marks = append(p.marks, mark{start, len(p.text), -1})
}

// Text adds anyone's text. No control or added token ever comes out of it, not
// even together with the parts around it (reliability.md SEC-6).
func (p *Prompt) Text(s string) { p.text = append(p.text, s...) }

// AtLeast returns a number that IDs will give no less ids than, from the bytes alone:
// whoever has a bound need not encode a prompt that is far beyond it.
func (p *Prompt) AtLeast() int {
	if len(p.bpe.Missing()) > 0 {
		return 0 // some bytes become no id
	}
	bytes := len(p.text)
	if p.bpe.nfc {
		bytes /= 4 // U+1FBE and two marks, 7 bytes, are 2 when composed; nothing shrinks more
	}
	return bytes / max(p.bpe.widest, 1)
}

// IDs encodes all parts so far.
func (p *Prompt) IDs() []int32 {
	var ids []int32
	// Text up to the next id is encoded in one go; ids are marks, and added tokens that
	// markup spells.
	text, done := string(p.text), 0
	cut := func(start, end int, id int32) {
		ids = p.bpe.Encode(ids, text[done:start])
		if id >= 0 {
			ids = append(ids, id)
		}
		done = end
	}
	for _, mark := range p.marks {
		if mark.start == mark.end {
			cut(mark.start, mark.end, mark.id)
			continue
		}
		for at := mark.start; at < mark.end; {
			if id, size := p.bpe.match.at(text[at:mark.end]); size > 0 {
				cut(at, at+size, id)
				at += size
				continue
			}
			at++
		}
	}
	return p.bpe.Encode(ids, text[done:])
}

// A matcher finds added tokens by spelling, the longest first.
type matcher struct {
	names   map[string]int32
	first   [256]bool // bytes that added tokens begin with
	lengths []int     // of added tokens, descending
}

// newMatcher returns the matcher of added tokens, ids by spelling.
func newMatcher(names map[string]int32) matcher {
	found := matcher{names: names}
	for name := range names {
		found.first[name[0]] = true
		found.lengths = append(found.lengths, len(name))
	}
	slices.Sort(found.lengths)
	slices.Reverse(found.lengths)
	found.lengths = slices.Compact(found.lengths)
	return found
}

// at returns the longest added token that text begins with, and its length or 0.
func (m *matcher) at(text string) (id int32, size int) {
	if !m.first[text[0]] {
		return 0, 0
	}
	for _, size := range m.lengths {
		if size <= len(text) {
			if id, ok := m.names[text[:size]]; ok {
				return id, size
			}
		}
	}
	return 0, 0
}
