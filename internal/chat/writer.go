package chat

import (
	"strings"
	"unicode/utf8"

	"ossian/internal/token"
)

// A piece is a token, or what of it belongs to a message.
type piece struct {
	token int    // index of the pushed id
	raw   string // need not be valid UTF-8
	count int    // ids accounted for with it
}

// maxHeld bounds how many tokens of line breaks a writer holds back: more are text.
// Behind them there is room for the parts of a character, at most 3 bytes.
const maxHeld = 8

// A writer makes events of the tokens of one message after another. It holds back
// what only begins a character: every token becomes visible with exactly one event,
// and a character with the token that ends it, or with the end of its message. It keeps
// count of ids that no event has told.
type writer struct {
	tok   *token.BPE
	token int // index of the id being pushed
	owed  int // ids pushed that no event accounts for yet

	open  bool // a message was begun
	lazy  bool // its Start waits for text
	lead  bool // line breaks at its beginning belong to the marker before
	tail  bool // line breaks at its end may belong to the marker behind
	began bool // it has had text
	part  Part
	calls int // calls begun

	visible, reasoned bool // an earlier message of that field had text

	held  [maxHeld + utf8.UTFMax]piece // line breaks, or parts of a character
	n     int
	bytes []byte // what a token that had its event left unfinished, then those of held
	left  int    // how many of them that token left
}

func newWriter(tok *token.BPE) writer { return writer{tok: tok, token: -1} }

// next counts one more pushed id.
func (w *writer) next() {
	w.token++
	w.owed++
}

// emit appends e and accounts for the ids that are owed.
func (w *writer) emit(dst []Event, e Event) []Event {
	e.Token = w.token
	e.Count += w.owed
	w.owed = 0
	if e.Part == Calling {
		e.Call = w.calls - 1
	}
	return append(dst, e)
}

// start begins a message; an open one must have been ended.
func (w *writer) start(dst []Event, part Part, name string) []Event {
	w.open, w.part, w.began, w.lead, w.tail = true, part, false, false, false
	return w.begin(dst, name)
}

func (w *writer) begin(dst []Event, name string) []Event {
	part := w.part
	if part == Calling {
		w.calls++
	}
	e := Event{Kind: Start, Part: part, Name: name}
	if (part.Visible() && w.visible) || (part == Reasoning && w.reasoned) {
		e.Text = "\n"
	}
	return w.emit(dst, e)
}

// later begins a message once it has text. lead and tail: see writer.
func (w *writer) later(part Part, lead, tail bool) {
	w.open, w.lazy, w.part, w.began, w.lead, w.tail = true, true, part, false, lead, tail
}

// text adds the text of the id being pushed, or a part of it, to the open message.
func (w *writer) text(dst []Event, raw string) []Event {
	if raw == "" {
		return dst // no text has that id: it counts with the next event
	}
	p := piece{w.token, raw, w.owed}
	w.owed = 0
	return w.piece(dst, p)
}

// piece adds a token to the open message.
func (w *writer) piece(dst []Event, p piece) []Event {
	if w.n > 0 && unfinished(w.bytes) == 0 && strings.Trim(p.raw, "\n") != "" {
		dst = w.release(dst, len(w.bytes)) // line breaks before text are inside
	}
	if len(w.bytes) == 0 && utf8.ValidString(p.raw) && (w.began || !w.lead) && !(w.tail && p.raw[len(p.raw)-1] == '\n') {
		return w.delta(dst, p, p.raw)
	}
	w.held[w.n] = p
	w.n++
	w.bytes = append(w.bytes, p.raw...)
	if w.n < maxHeld && w.tail && p.raw[len(p.raw)-1] == '\n' {
		return dst
	}
	return w.release(dst, len(w.bytes)-unfinished(w.bytes))
}

func (w *writer) delta(dst []Event, p piece, text string) []Event {
	if w.lazy {
		w.lazy = false
		p.count += w.owed
		w.owed = 0
		dst = w.begin(dst, "")
	}
	w.began = true
	w.visible = w.visible || w.part.Visible()
	w.reasoned = w.reasoned || w.part == Reasoning
	e := Event{Kind: Delta, Part: w.part, Text: text, Bytes: p.raw, Token: p.token, Count: p.count}
	if w.part == Calling {
		e.Call = w.calls - 1
	}
	return append(dst, e)
}

// release makes events of the held tokens that begin before the given byte, without
// line breaks that belong to the marker before. The text of all is that of the last:
// characters have no place of their own in their tokens. The text of what is behind
// end waits.
func (w *writer) release(dst []Event, end int) []Event {
	from := 0
	if w.lead && !w.began {
		for from < end && w.bytes[from] == '\n' {
			from++
		}
	}
	text := validText(w.bytes[from:end])
	at, n := w.left, 0
	for ; n < w.n && at < end; n++ {
		p := w.held[n]
		lo, hi := max(from-at, 0), min(len(w.bytes)-at, len(p.raw))
		at += len(p.raw)
		if lo >= hi {
			w.owed += p.count
			continue
		}
		p.raw = p.raw[lo:hi]
		if at < end {
			dst = w.delta(dst, p, "")
			continue
		}
		dst = w.delta(dst, p, text)
		text = ""
	}
	if text != "" { // what a token left behind that had its event
		dst = w.delta(dst, piece{token: w.token}, text)
	}
	w.n, w.left = copy(w.held[:], w.held[n:w.n]), max(at-end, 0)
	w.bytes = w.bytes[:copy(w.bytes, w.bytes[end:])]
	return dst
}

// flush releases what is held at the end of a message, a character that was begun as
// U+FFFD. tight drops line breaks at the end.
func (w *writer) flush(dst []Event, tight bool) []Event {
	for tight && len(w.bytes) > 0 && w.bytes[len(w.bytes)-1] == '\n' {
		w.bytes = w.bytes[:len(w.bytes)-1]
	}
	dst = w.release(dst, len(w.bytes))
	for _, p := range w.held[:w.n] {
		w.owed += p.count
	}
	w.n, w.left = 0, 0
	return dst
}

// end ends the open message, if there is one. tight: see flush. cut: the output ended
// before the message did.
func (w *writer) end(dst []Event, tight, cut bool) []Event {
	if !w.open {
		return dst
	}
	dst = w.flush(dst, tight)
	w.open = false
	if w.lazy {
		w.lazy = false
		return dst
	}
	return w.emit(dst, Event{Kind: End, Part: w.part, Cut: cut})
}

// salvage reports that a rule was applied. It accounts for no ids.
func (w *writer) salvage(dst []Event, r Rule) []Event {
	return append(dst, Event{Kind: Salvage, Rule: r, Token: w.token})
}

// skip accounts for ids that belong to no message, as part of the answer's part.
func (w *writer) skip(dst []Event, part Part) []Event {
	if w.owed == 0 {
		return dst
	}
	return w.emit(dst, Event{Kind: Skip, Part: part})
}

// unfinished returns how many bytes at the end of b begin a character that more
// bytes may complete.
func unfinished(b []byte) int {
	for n := 1; n <= min(len(b), utf8.UTFMax-1); n++ {
		if tail := b[len(b)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

// validText returns b with one U+FFFD for every longest sequence of bytes that
// cannot become a character, as token.Detok does.
func validText(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var out strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 && !utf8.FullRune(b[:1]) {
			for n < len(b) && !utf8.FullRune(b[:n+1]) {
				n++
			}
		}
		out.WriteRune(r)
		b = b[n:]
	}
	return out.String()
}
