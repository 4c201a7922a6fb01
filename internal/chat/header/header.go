// Package header reads the headers of messages as gpt-oss writes them, and breaks them: channels,
// recipients and types of content in any order and more than once (harmony.md 8 and 9). Whoever
// uses it need not know which words belong to a header.
package header

import (
	"cmp"
	"slices"
	"strings"
	"unicode"

	"ossian/internal/chat/chars"
	"ossian/internal/chat/event"
	"ossian/internal/chat/mend"
	"ossian/internal/chat/words"
)

// Max is how many tokens a header, or text where one should be, may have before it is taken for
// content (harmony.md 9, S3 and S10).
const Max = 64

// A headerToken is a token of a header.
type headerToken struct {
	event.Piece
	marker int32 // <|channel|> or <|constrain|>; 0 = text
}

// A section is the text of a header up to the next marker.
type section struct {
	marker int32
	text   string
	pieces []headerToken
}

// A Header is what stands between <|start|> and <|message|>.
type Header struct {
	Channel   string // "" = none that is known
	Recipient string // "" = the user
	Hidden    bool   // a result that the model invented, or a message in another's name
	Content   []event.Piece
	Rules     []mend.Rule // that were applied while it was read
	Channels  int         // how many it named

	recipients []string // all recipients named
	bareTool   string   // a tool named without to=
}

// A Reader reads one header after another.
type Reader struct {
	Channel   int32                 // the id of <|channel|>
	Constrain int32                 // and that of <|constrain|>
	IsTool    func(string) bool     // whether a word names a function or an offered tool
	Text      func(id int32) string // of an id
	Begun     bool                  // the header follows a <|start|> that was sampled
	Loose     bool                  // it may be text: nothing introduced it

	tokens []headerToken // the header so far
}

// Begin begins a header.
func (r *Reader) Begin(begun, loose bool) {
	r.tokens, r.Begun, r.Loose = r.tokens[:0], begun, loose
}

// Len returns how many tokens the header has.
func (r *Reader) Len() int { return len(r.tokens) }

// Hold adds the token-th id of an answer to the header; it counts with the message.
func (r *Reader) Hold(token int, id int32) {
	tok := headerToken{Piece: event.Piece{Token: token}}
	if id == r.Channel || id == r.Constrain {
		tok.marker = id
	} else if tok.Raw = r.Text(id); tok.Raw == "" {
		return
	}
	r.tokens = append(r.tokens, tok)
}

// sections splits the held tokens at the markers among them.
func (r *Reader) sections() []section {
	var all []section
	for at, tok := range r.tokens {
		if tok.marker != 0 || len(all) == 0 {
			all = append(all, section{marker: tok.marker})
		}
		last := &all[len(all)-1]
		last.text += tok.Raw
		last.pieces = append(last.pieces, r.tokens[at])
	}
	return all
}

// Read reads what was held. With salvage there is no <|message|>, and the text
// behind the header's words is the header's content (harmony.md 9, S9).
func (r *Reader) Read(salvage bool) Header {
	var head Header
	all := r.sections()
	for i, section := range all {
		at := head.read(r, section, salvage && i == len(all)-1)
		if salvage && i == len(all)-1 && at < len(section.text) {
			if head.Channels == 0 {
				at = head.withoutChannel(r, section)
			}
			head.Content = behind(section.pieces, at)
		}
	}
	head.address()
	return head
}

// withoutChannel returns where content begins in the only section of a header
// without any marker: there, words such as final are text.
func (head *Header) withoutChannel(reader *Reader, sec section) int {
	head.Channel, head.bareTool = "", ""
	if reader.Loose {
		head.recipients = nil
		return 0
	}
	at := 0
	if reader.Begun {
		at = head.author(reader, sec.text)
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
func behind(pieces []headerToken, at int) []event.Piece {
	var rest []event.Piece
	for _, hp := range pieces {
		if at < len(hp.Raw) {
			p := hp.Piece
			p.Raw = p.Raw[max(at, 0):]
			rest = append(rest, p)
		}
		at -= len(hp.Raw)
	}
	return rest
}

// read takes the words of a section and returns where it stopped: at the end, or
// with salvage before the first word that does not belong to a header.
func (head *Header) read(reader *Reader, sec section, salvage bool) (at int) {
	switch sec.marker {
	case reader.Channel:
		head.Channels++
		at = head.readChannel(sec.text)
	case reader.Constrain:
		at = chars.Spaces(sec.text)
		at += chars.Letters(sec.text[at:])
	default:
		at = head.author(reader, sec.text)
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
		size := head.word(reader, word, sec.marker)
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
func (head *Header) author(reader *Reader, text string) int {
	at := chars.Spaces(text)
	for strings.HasPrefix(text[at:], "assistant") {
		at += len("assistant")
		if strings.HasPrefix(text[at:], ":") {
			at += strings.IndexFunc(text[at:]+" ", unicode.IsSpace)
		}
		at += chars.Spaces(text[at:])
	}
	if !reader.Begun { // the prompt has said who speaks
		return at
	}
	word := text[at:]
	if end := strings.IndexFunc(word, func(r rune) bool { return unicode.IsSpace(r) || r == ':' }); end >= 0 {
		word = word[:end]
	}
	if slices.Contains([]string{"system", "developer", "user", "tool"}, word) || (reader.IsTool(word) && at == chars.Spaces(text)) {
		head.Hidden = true
		return at + len(word)
	}
	return at
}

// word takes a word of a header and returns how many of its bytes belong to it.
func (head *Header) word(reader *Reader, word string, marker int32) int {
	if size := words.Recipient(word); size > 0 {
		head.recipients = append(head.recipients, word[len("to="):size])
		return size
	}
	switch {
	case word == "json" || word == "code" || word == "assistant":
		return len(word)
	case marker == 0 && (word == words.Analysis || word == words.Commentary || word == words.Final):
		head.Channel = word
		return len(word)
	case reader.IsTool(word):
		head.bareTool = word
		return len(word)
	}
	return 0
}

// readChannel takes the channel behind its marker (S6).
func (head *Header) readChannel(text string) int {
	channel, size, misspelt := words.Channel(text)
	if head.Channel = cmp.Or(channel, head.Channel); misspelt {
		head.Rules = append(head.Rules, mend.MisspeltChannel)
	}
	return size
}

// address decides whom the message is for (S5, S8).
func (head *Header) address() {
	if head.Channels > 1 {
		head.Rules = append(head.Rules, mend.SeveralChannels)
	}
	self := false // the model writes to itself: such a message is a result
	for _, name := range head.recipients {
		switch {
		case name == "assistant":
			self = true
		case name == "" || name == "all" || name == "user":
		case head.Recipient == "":
			head.Recipient = name
		case head.Recipient != name:
			head.Rules = append(head.Rules, mend.OddRecipient)
		}
	}
	if head.Recipient == "" {
		head.Recipient = head.bareTool
	}
	if self && head.Recipient == "" {
		head.Rules = append(head.Rules, mend.OddRecipient)
		head.Hidden = head.Hidden || head.Channels < 2
	}
	if head.Hidden {
		head.Recipient = ""
	}
}
