package chat

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"ossian/internal/chat/chars"
	"ossian/internal/chat/mend"
	"ossian/internal/chat/words"
)

// maxHeader is how many tokens a header, or text where one should be, may have
// before it is taken for content (harmony.md 9, S3 and S10).
const maxHeader = 64

// A headPiece is a token of a header.
type headerToken struct {
	piece
	marker int32 // <|channel|> or <|constrain|>; 0 = text
}

// A section is the text of a header up to the next marker.
type section struct {
	marker int32
	text   string
	pieces []headerToken
}

// A header is what stands between <|start|> and <|message|>.
type header struct {
	channel   string // "" = none that is known
	recipient string // "" = the user
	hidden    bool   // a result that the model invented, or a message in another's name
	content   []piece
	rules     []mend.Rule // that were applied while it was read

	channels   int
	recipients []string // all recipients named
	bareTool   string   // a tool named without to=
}

// hold adds a token to the header being read; it counts with the message.
func (p *harmonyParser) hold(id int32) {
	tok := headerToken{piece: piece{token: p.out.token}}
	if id == p.format.channel || id == p.format.constrain {
		tok.marker = id
	} else if tok.raw = p.out.tok.Text(id); tok.raw == "" {
		return
	}
	p.tokens = append(p.tokens, tok)
}

// sections splits the held tokens at the markers among them.
func (p *harmonyParser) sections() []section {
	var all []section
	for at, tok := range p.tokens {
		if tok.marker != 0 || len(all) == 0 {
			all = append(all, section{marker: tok.marker})
		}
		last := &all[len(all)-1]
		last.text += tok.raw
		last.pieces = append(last.pieces, p.tokens[at])
	}
	return all
}

// header reads what was held. With salvage there is no <|message|>, and the text
// behind the header's words is the header's content (harmony.md 9, S9).
func (p *harmonyParser) header(salvage bool) header {
	var head header
	all := p.sections()
	for i, section := range all {
		at := head.read(p, section, salvage && i == len(all)-1)
		if salvage && i == len(all)-1 && at < len(section.text) {
			if head.channels == 0 {
				at = head.withoutChannel(p, section)
			}
			head.content = behind(section.pieces, at)
		}
	}
	head.address()
	return head
}

// withoutChannel returns where content begins in the only section of a header
// without any marker: there, words such as final are text.
func (head *header) withoutChannel(parser *harmonyParser, sec section) int {
	head.channel, head.bareTool = "", ""
	if parser.loose {
		head.recipients = nil
		return 0
	}
	at := 0
	if parser.begun {
		at = head.author(parser, sec.text)
	}
	for {
		from := at + chars.Spaces(sec.text[at:])
		size := words.Recipient(sec.text[from:])
		if size == 0 {
			return from
		}
		at = from + size
	}
}

// behind returns the pieces from byte at on.
func behind(pieces []headerToken, at int) []piece {
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
func (head *header) read(parser *harmonyParser, sec section, salvage bool) (at int) {
	switch sec.marker {
	case parser.format.channel:
		head.channels++
		at = head.readChannel(sec.text)
	case parser.format.constrain:
		at = chars.Spaces(sec.text)
		at += chars.Letters(sec.text[at:])
	default:
		at = head.author(parser, sec.text)
	}
	// Behind its first word a section may have recipients, types and tools in any order;
	// other words belong to the content with salvage, and are passed over without.
	for {
		from := at + chars.Spaces(sec.text[at:])
		word := sec.text[from:]
		if end := strings.IndexFunc(word, unicode.IsSpace); end >= 0 {
			word = word[:end]
		}
		if word == "" {
			return len(sec.text)
		}
		size := head.word(parser, word, sec.marker)
		if size == 0 && salvage {
			return from
		}
		if size == 0 {
			size = len(word)
		}
		at = from + size
	}
}

// author takes the role at the beginning of a header. Models repeat it, and
// sometimes write in another's name.
func (head *header) author(parser *harmonyParser, text string) int {
	at := chars.Spaces(text)
	for strings.HasPrefix(text[at:], "assistant") {
		at += len("assistant")
		if strings.HasPrefix(text[at:], ":") {
			at += strings.IndexFunc(text[at:]+" ", unicode.IsSpace)
		}
		at += chars.Spaces(text[at:])
	}
	if !parser.begun { // the prompt has said who speaks
		return at
	}
	word := text[at:]
	if end := strings.IndexFunc(word, func(r rune) bool { return unicode.IsSpace(r) || r == ':' }); end >= 0 {
		word = word[:end]
	}
	if slices.Contains([]string{"system", "developer", "user", "tool"}, word) || (parser.isTool(word) && at == chars.Spaces(text)) {
		head.hidden = true
		return at + len(word)
	}
	return at
}

// word takes a word of a header and returns how many of its bytes belong to it.
func (head *header) word(parser *harmonyParser, word string, marker int32) int {
	if size := words.Recipient(word); size > 0 {
		head.recipients = append(head.recipients, word[len("to="):size])
		return size
	}
	switch {
	case word == "json" || word == "code" || word == "assistant":
		return len(word)
	case marker == 0 && (word == analysis || word == commentary || word == final):
		head.channel = word
		return len(word)
	case parser.isTool(word):
		head.bareTool = word
		return len(word)
	}
	return 0
}

// readChannel takes the channel behind its marker (S6).
func (head *header) readChannel(text string) int {
	channel, size, misspelt := words.Channel(text)
	if head.channel = cmp.Or(channel, head.channel); misspelt {
		head.rules = append(head.rules, mend.MisspeltChannel)
	}
	return size
}

// address decides whom the message is for (S5, S8).
func (head *header) address() {
	if head.channels > 1 {
		head.rules = append(head.rules, mend.SeveralChannels)
	}
	self := false // the model writes to itself: such a message is a result
	for _, name := range head.recipients {
		switch {
		case name == "assistant":
			self = true
		case name == "" || name == "all" || name == "user":
		case head.recipient == "":
			head.recipient = name
		case head.recipient != name:
			head.rules = append(head.rules, mend.OddRecipient)
		}
	}
	if head.recipient == "" {
		head.recipient = head.bareTool
	}
	if self && head.recipient == "" {
		head.rules = append(head.rules, mend.OddRecipient)
		head.hidden = head.hidden || head.channels < 2
	}
	if head.hidden {
		head.recipient = ""
	}
}

// isTool reports whether a word of a header names a function or an offered tool.
func (p *harmonyParser) isTool(word string) bool {
	if !utf8.ValidString(word) {
		return false
	}
	if strings.HasPrefix(word, "functions.") || p.conv.builtin(word) {
		return true
	}
	_, ok := p.names.Find(word)
	return ok
}
