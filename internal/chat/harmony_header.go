package chat

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxHeader is how many tokens a header, or text where one should be, may have
// before it is taken for content (harmony.md 9, S3 and S10).
const maxHeader = 64

// A headPiece is a token of a header.
type headPiece struct {
	piece
	marker int32 // <|channel|> or <|constrain|>; 0 = text
}

// A section is the text of a header up to the next marker.
type section struct {
	marker int32
	text   string
	pieces []headPiece
}

// A header is what stands between <|start|> and <|message|>.
type header struct {
	channel   string // "" = none that is known
	recipient string // "" = the user
	hidden    bool   // a result that the model invented, or a message in another's name
	rest      []piece
	rules     []Rule

	channels int
	to       []string // all recipients named
	bare     string   // a tool named without to=
}

// hold adds a token to the header being read; it counts with the message.
func (p *harmonyParser) hold(id int32) {
	hp := headPiece{piece: piece{token: p.w.token}}
	if id == p.h.channel || id == p.h.constrain {
		hp.marker = id
	} else if hp.raw = p.w.tok.Text(id); hp.raw == "" {
		return
	}
	p.head = append(p.head, hp)
}

func (p *harmonyParser) sections() []section {
	var all []section
	for i, hp := range p.head {
		if hp.marker != 0 || len(all) == 0 {
			all = append(all, section{marker: hp.marker})
		}
		s := &all[len(all)-1]
		s.text += hp.raw
		s.pieces = append(s.pieces, p.head[i])
	}
	return all
}

// header reads what was held. With salvage there is no <|message|>, and the text
// behind the header's words is content: rest (harmony.md 9, S9).
func (p *harmonyParser) header(salvage bool) header {
	var d header
	all := p.sections()
	for i, s := range all {
		at := d.read(p, s, salvage && i == len(all)-1)
		if salvage && i == len(all)-1 && at < len(s.text) {
			if d.channels == 0 {
				at = d.withoutChannel(p, s)
			}
			d.rest = behind(s.pieces, at)
		}
	}
	d.address()
	return d
}

// withoutChannel returns where content begins in the only section of a header
// without any marker: there, words such as final are text.
func (d *header) withoutChannel(p *harmonyParser, s section) int {
	d.channel, d.bare = "", ""
	if p.loose {
		d.to = nil
		return 0
	}
	at := 0
	if p.begun {
		at = d.author(p, s.text)
	}
	for {
		from := at + spaces(s.text[at:])
		n := recipientLen(s.text[from:])
		if n == 0 {
			return from
		}
		at = from + n
	}
}

// behind returns the pieces from byte at on.
func behind(pieces []headPiece, at int) []piece {
	var rest []piece
	for _, hp := range pieces {
		if at < len(hp.raw) {
			p := hp.piece
			p.raw = p.raw[max(at, 0):]
			rest = append(rest, p)
		}
		at -= len(hp.raw)
	}
	return rest
}

// read takes the words of a section and returns where it stopped: at the end, or
// with salvage before the first word that does not belong to a header.
func (d *header) read(p *harmonyParser, s section, salvage bool) (at int) {
	switch s.marker {
	case p.h.channel:
		d.channels++
		at = d.readChannel(s.text)
	case p.h.constrain:
		at = spaces(s.text)
		at += letters(s.text[at:])
	default:
		at = d.author(p, s.text)
	}
	for {
		from := at + spaces(s.text[at:])
		word := s.text[from:]
		if end := strings.IndexFunc(word, unicode.IsSpace); end >= 0 {
			word = word[:end]
		}
		if word == "" {
			return len(s.text)
		}
		n := d.word(p, word, s.marker)
		if n == 0 && salvage {
			return from
		}
		if n == 0 {
			n = len(word)
		}
		at = from + n
	}
}

// author takes the role at the beginning of a header. Models repeat it, and
// sometimes write in another's name.
func (d *header) author(p *harmonyParser, text string) int {
	at := spaces(text)
	for strings.HasPrefix(text[at:], "assistant") {
		at += len("assistant")
		if strings.HasPrefix(text[at:], ":") {
			at += strings.IndexFunc(text[at:]+" ", unicode.IsSpace)
		}
		at += spaces(text[at:])
	}
	if !p.begun {
		return at
	}
	word := text[at:]
	if end := strings.IndexFunc(word, func(r rune) bool { return unicode.IsSpace(r) || r == ':' }); end >= 0 {
		word = word[:end]
	}
	if slices.Contains([]string{"system", "developer", "user", "tool"}, word) || (p.isTool(word) && at == spaces(text)) {
		d.hidden = true
		return at + len(word)
	}
	return at
}

// word takes a word of a header and returns how many of its bytes belong to it.
func (d *header) word(p *harmonyParser, word string, marker int32) int {
	if n := recipientLen(word); n > 0 {
		d.to = append(d.to, word[len("to="):n])
		return n
	}
	switch {
	case word == "json" || word == "code" || word == "assistant":
		return len(word)
	case marker == 0 && (word == analysis || word == commentary || word == final):
		d.channel = word
		return len(word)
	case p.isTool(word):
		d.bare = word
		return len(word)
	}
	return 0
}

// recipientLen returns the length of to=NAME at the beginning of s, 0 if there is none.
func recipientLen(s string) int {
	name, ok := strings.CutPrefix(s, "to=")
	if !ok {
		return 0
	}
	end := strings.IndexFunc(name, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_.-$:/", r)
	})
	if end < 0 {
		end = len(name)
	}
	return len("to=") + end
}

// readChannel takes the channel behind its marker (S6).
func (d *header) readChannel(text string) int {
	from := spaces(text)
	at := from
	for at < len(text) && letters(text[at:]) == 0 && !unicode.IsSpace(rune(text[at])) {
		at++
	}
	n := letters(text[at:])
	low := strings.ToLower(text[at : at+n])
	for _, name := range []string{analysis, commentary, final} {
		switch {
		case low == name && at == from:
			d.channel = name
			return at + n
		case strings.HasPrefix(low, name):
			d.channel, n = name, len(name)
		case len(low) >= 3 && strings.HasPrefix(name, low):
			d.channel = name
		default:
			continue
		}
		d.rules = append(d.rules, rule6)
		return at + n
	}
	if low == "thinking" || low == "reasoning" || low == "thought" {
		d.channel = analysis
		d.rules = append(d.rules, rule6)
		return at + n
	}
	if low != "" && !strings.HasPrefix(text[at:], "to=") {
		d.rules = append(d.rules, rule6)
	}
	return from
}

// address decides whom the message is for (S5, S8).
func (d *header) address() {
	if d.channels > 1 {
		d.rules = append(d.rules, rule5)
	}
	self := false
	for _, name := range d.to {
		switch {
		case name == "assistant":
			self = true
		case name == "" || name == "all" || name == "user":
		case d.recipient == "":
			d.recipient = name
		case d.recipient != name:
			d.rules = append(d.rules, rule8)
		}
	}
	if d.recipient == "" {
		d.recipient = d.bare
	}
	if self && d.recipient == "" {
		d.rules = append(d.rules, rule8)
		d.hidden = d.hidden || d.channels < 2
	}
	if d.hidden {
		d.recipient = ""
	}
}

func spaces(s string) int { return len(s) - len(strings.TrimLeftFunc(s, unicode.IsSpace)) }

// letters returns the length of the ASCII letters that s begins with.
func letters(s string) int {
	for i := range len(s) {
		if c := s[i] | 0x20; c < 'a' || c > 'z' {
			return i
		}
	}
	return len(s)
}

// isTool reports whether a word of a header names a function or an offered tool.
func (p *harmonyParser) isTool(word string) bool {
	if !utf8.ValidString(word) {
		return false
	}
	if strings.HasPrefix(word, "functions.") || p.conv.builtin(word) {
		return true
	}
	_, ok := p.names.find(word)
	return ok
}
