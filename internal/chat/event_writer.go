package chat

import (
	"strings"
	"unicode/utf8"

	"ossian/internal/chat/chars"
	"ossian/internal/chat/mend"
	"ossian/internal/token"
)

// A piece is a token, or what of it belongs to a message.
type piece struct {
	token int    // index of the pushed id
	raw   string // need not be valid UTF-8
	count int    // ids accounted for with it
}

// maxHeld bounds how many tokens of line breaks an eventWriter holds back: more are text.
// Behind them there is room for the parts of a character, at most 3 bytes.
const maxHeld = 8

// An eventWriter makes events of the tokens of one message after another. It holds back
// what only begins a character: every token becomes visible with exactly one event,
// and a character with the token that ends it, or with the end of its message. It keeps
// count of ids that no event has told. A message: start or later, any number of text or
// piece, end.
type eventWriter struct {
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

	held      [maxHeld + utf8.UTFMax]piece // line breaks, or parts of a character
	heldCount int
	bytes     []byte // what a token that had its event left unfinished, then those of held
	leftover  int    // how many of them that token left
}

func newEventWriter(tok *token.BPE) eventWriter { return eventWriter{tok: tok, token: -1} }

// next counts one more pushed id.
func (w *eventWriter) next() {
	w.token++
	w.owed++
}

// emit appends event and accounts for the ids that are owed.
func (w *eventWriter) emit(dst []Event, event Event) []Event {
	event.Token = w.token
	event.Count += w.owed
	w.owed = 0
	if event.Part == Calling {
		event.Call = w.calls - 1
	}
	return append(dst, event)
}

// start begins a message; an open one must have been ended.
func (w *eventWriter) start(dst []Event, part Part, name string) []Event {
	w.open, w.part, w.began, w.lead, w.tail = true, part, false, false, false
	return w.begin(dst, name)
}

// begin appends the Start of the open message.
func (w *eventWriter) begin(dst []Event, name string) []Event {
	part := w.part
	if part == Calling {
		w.calls++
	}
	event := Event{Kind: Start, Part: part, Name: name}
	if (part.Visible() && w.visible) || (part == Reasoning && w.reasoned) {
		event.Text = "\n"
	}
	return w.emit(dst, event)
}

// later begins a message once it has text. lead and tail: see eventWriter.
func (w *eventWriter) later(part Part, lead, tail bool) {
	w.open, w.lazy, w.part, w.began, w.lead, w.tail = true, true, part, false, lead, tail
}

// text adds the text of the id being pushed, or a part of it, to the open message.
func (w *eventWriter) text(dst []Event, raw string) []Event {
	if raw == "" {
		return dst // no text has that id: it counts with the next event
	}
	p := piece{w.token, raw, w.owed}
	w.owed = 0
	return w.piece(dst, p)
}

// piece adds a token to the open message.
func (w *eventWriter) piece(dst []Event, next piece) []Event {
	if w.heldCount > 0 && chars.Unfinished(w.bytes) == 0 && strings.Trim(next.raw, "\n") != "" {
		dst = w.release(dst, len(w.bytes)) // line breaks before text are inside
	}
	// The usual case: whole characters, nothing before them, no line break that may be a tag's.
	if len(w.bytes) == 0 && utf8.ValidString(next.raw) && (w.began || !w.lead) && !(w.tail && next.raw[len(next.raw)-1] == '\n') {
		return w.delta(dst, next, next.raw)
	}
	w.held[w.heldCount] = next
	w.heldCount++
	w.bytes = append(w.bytes, next.raw...)
	if w.heldCount < maxHeld && w.tail && next.raw[len(next.raw)-1] == '\n' {
		return dst
	}
	return w.release(dst, len(w.bytes)-chars.Unfinished(w.bytes))
}

// delta appends a Delta of a token and the text that it completes, and the Start before the
// first one.
func (w *eventWriter) delta(dst []Event, from piece, text string) []Event {
	if w.lazy {
		w.lazy = false
		from.count += w.owed
		w.owed = 0
		dst = w.begin(dst, "")
	}
	w.began = true
	w.visible = w.visible || w.part.Visible()
	w.reasoned = w.reasoned || w.part == Reasoning
	event := Event{Kind: Delta, Part: w.part, Text: text, Bytes: from.raw, Token: from.token, Count: from.count}
	if w.part == Calling {
		event.Call = w.calls - 1
	}
	return append(dst, event)
}

// release makes events of the held tokens that begin before the given byte, without
// line breaks that belong to the marker before. The text of all is that of the last:
// characters have no place of their own in their tokens. The text of what is behind
// end waits.
func (w *eventWriter) release(dst []Event, end int) []Event {
	from := 0
	if w.lead && !w.began {
		for from < end && w.bytes[from] == '\n' {
			from++
		}
	}
	// Tokens before the last have events without text, so that each has one of its own.
	text := chars.Valid(w.bytes[from:end])
	at, done := w.leftover, 0
	for ; done < w.heldCount && at < end; done++ {
		piece := w.held[done]
		first, last := max(from-at, 0), min(len(w.bytes)-at, len(piece.raw))
		at += len(piece.raw)
		if first >= last {
			w.owed += piece.count
			continue
		}
		piece.raw = piece.raw[first:last]
		if at < end {
			dst = w.delta(dst, piece, "")
			continue
		}
		dst = w.delta(dst, piece, text)
		text = ""
	}
	if text != "" { // what a token left behind that had its event
		dst = w.delta(dst, piece{token: w.token}, text)
	}
	w.heldCount, w.leftover = copy(w.held[:], w.held[done:w.heldCount]), max(at-end, 0)
	w.bytes = w.bytes[:copy(w.bytes, w.bytes[end:])]
	return dst
}

// flush releases what is held at the end of a message, a character that was begun as
// U+FFFD. tight drops line breaks at the end.
func (w *eventWriter) flush(dst []Event, tight bool) []Event {
	for tight && len(w.bytes) > 0 && w.bytes[len(w.bytes)-1] == '\n' {
		w.bytes = w.bytes[:len(w.bytes)-1]
	}
	dst = w.release(dst, len(w.bytes))
	for _, p := range w.held[:w.heldCount] {
		w.owed += p.count
	}
	w.heldCount, w.leftover = 0, 0
	return dst
}

// end ends the open message, if there is one. tight: see flush. cut: the output ended
// before the message did.
func (w *eventWriter) end(dst []Event, tight, cut bool) []Event {
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
func (w *eventWriter) salvage(dst []Event, r mend.Rule) []Event {
	return append(dst, Event{Kind: Salvage, Rule: r, Token: w.token})
}

// skip accounts for ids that belong to no message, as part of the answer's part.
func (w *eventWriter) skip(dst []Event, part Part) []Event {
	if w.owed == 0 {
		return dst
	}
	return w.emit(dst, Event{Kind: Skip, Part: part})
}
