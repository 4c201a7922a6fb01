package token

import (
	"slices"
	"strings"
)

// A Prompt is built from parts: control ids, trusted markup and anyone's text.
// The text between two ids is encoded in one go, so how it was cut into parts does
// not show. A Prompt belongs to one goroutine.
type Prompt struct {
	t     *BPE
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
func (t *BPE) Prompt() *Prompt { return &Prompt{t: t} }

// Control adds the token id.
func (p *Prompt) Control(id int32) {
	p.marks = append(p.marks, mark{len(p.text), len(p.text), id})
}

// Begin adds the id that the tokenizer wants in front of text, which the caller adds
// next, unless it is spelled there already.
func (p *Prompt) Begin(text string) {
	if bos, add := p.t.BOS(); add && !strings.HasPrefix(text, p.t.Text(bos)) {
		p.Control(bos)
	}
}

// Cut keeps the text so far and the text to come from being encoded in one go.
func (p *Prompt) Cut() { p.Control(-1) }

// Markup adds trusted template text. Added tokens spelled in it, or across
// several Markups in a row, become ids.
func (p *Prompt) Markup(s string) {
	if s == "" {
		return
	}
	start := len(p.text)
	p.text = append(p.text, s...)
	if n := len(p.marks) - 1; n >= 0 && p.marks[n].end == start && p.marks[n].start < start {
		p.marks[n].end = len(p.text)
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
	if len(p.t.Missing()) > 0 {
		return 0 // some bytes become no id
	}
	n := len(p.text)
	if p.t.nfc {
		n /= 4 // U+1FBE and two marks, 7 bytes, are 2 when composed; nothing shrinks more
	}
	return n / max(p.t.widest, 1)
}

// IDs encodes all parts so far.
func (p *Prompt) IDs() []int32 {
	var ids []int32
	text, done := string(p.text), 0
	cut := func(start, end int, id int32) {
		ids = p.t.Encode(ids, text[done:start])
		if id >= 0 {
			ids = append(ids, id)
		}
		done = end
	}
	for _, m := range p.marks {
		if m.start == m.end {
			cut(m.start, m.end, m.id)
			continue
		}
		for i := m.start; i < m.end; {
			if id, n := p.t.match.at(text[i:m.end]); n > 0 {
				cut(i, i+n, id)
				i += n
				continue
			}
			i++
		}
	}
	return p.t.Encode(ids, text[done:])
}

// A matcher finds added tokens by spelling, the longest first.
type matcher struct {
	names   map[string]int32
	first   [256]bool // bytes that added tokens begin with
	lengths []int     // of added tokens, descending
}

func newMatcher(names map[string]int32) matcher {
	m := matcher{names: names}
	for name := range names {
		m.first[name[0]] = true
		m.lengths = append(m.lengths, len(name))
	}
	slices.Sort(m.lengths)
	slices.Reverse(m.lengths)
	m.lengths = slices.Compact(m.lengths)
	return m
}

// at returns the longest added token that s begins with, and its length or 0.
func (m *matcher) at(s string) (id int32, n int) {
	if !m.first[s[0]] {
		return 0, 0
	}
	for _, n := range m.lengths {
		if n <= len(s) {
			if id, ok := m.names[s[:n]]; ok {
				return id, n
			}
		}
	}
	return 0, 0
}
