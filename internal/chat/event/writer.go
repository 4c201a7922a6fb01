package event

import (
	"strings"
	"unicode/utf8"

	"ossian/internal/chat/chars"
	"ossian/internal/chat/mend"
	"ossian/internal/token"
)

// A Piece is a token, or what of it belongs to a message.
type Piece struct {
	Token int    // index of the pushed id
	Raw   string // need not be valid UTF-8
	Count int    // ids accounted for with it
}

// maxHeld bounds how many tokens of line breaks a Writer holds back: more are text.
// Behind them there is room for the parts of a character, at most 3 bytes.
const maxHeld = 8

// A Writer makes events of the tokens of one message after another. It holds back
// what only begins a character: every token becomes visible with exactly one event,
// and a character with the token that ends it, or with the end of its message. It keeps
// count of ids that no event has told. A message: Start or Later, any number of Text or
// Add, End.
type Writer struct {
	Tok   *token.BPE
	Token int // index of the id being pushed
	Owed  int // ids pushed that no event accounts for yet

	Open  bool // a message was begun
	Part  Part // what it is for
	Calls int  // calls begun

	lazy  bool // its Start waits for text
	lead  bool // line breaks at its beginning belong to the marker before
	tail  bool // line breaks at its end may belong to the marker behind
	began bool // it has had text

	visible, reasoned bool // an earlier message of that field had text

	held      [maxHeld + utf8.UTFMax]Piece // line breaks, or parts of a character
	heldCount int
	bytes     []byte // what a token that had its event left unfinished, then those of held
	leftover  int    // how many of them that token left
}

// New returns the writer of an answer of a model with such tokens.
func New(tok *token.BPE) Writer { return Writer{Tok: tok, Token: -1} }

// Next counts one more pushed id.
func (w *Writer) Next() {
	w.Token++
	w.Owed++
}

// Emit appends event and accounts for the ids that are owed.
func (w *Writer) Emit(dst []Event, event Event) []Event {
	event.Token = w.Token
	event.Count += w.Owed
	w.Owed = 0
	if event.Part == Calling {
		event.Call = w.Calls - 1
	}
	return append(dst, event)
}

// Start begins a message; an open one must have been ended.
func (w *Writer) Start(dst []Event, part Part, name string) []Event {
	w.Open, w.Part, w.began, w.lead, w.tail = true, part, false, false, false
	return w.begin(dst, name)
}

// begin appends the Start of the open message.
func (w *Writer) begin(dst []Event, name string) []Event {
	part := w.Part
	if part == Calling {
		w.Calls++
	}
	event := Event{Kind: Start, Part: part, Name: name}
	if (part.Visible() && w.visible) || (part == Reasoning && w.reasoned) {
		event.Text = "\n"
	}
	return w.Emit(dst, event)
}

// Later begins a message once it has text. lead and tail: see Writer.
func (w *Writer) Later(part Part, lead, tail bool) {
	w.Open, w.lazy, w.Part, w.began, w.lead, w.tail = true, true, part, false, lead, tail
}

// Text adds the text of the id being pushed, or a part of it, to the open message.
func (w *Writer) Text(dst []Event, raw string) []Event {
	if raw == "" {
		return dst // no text has that id: it counts with the next event
	}
	p := Piece{w.Token, raw, w.Owed}
	w.Owed = 0
	return w.Add(dst, p)
}

// Add adds a token to the open message.
func (w *Writer) Add(dst []Event, next Piece) []Event {
	if w.heldCount > 0 && chars.Unfinished(w.bytes) == 0 && strings.Trim(next.Raw, "\n") != "" {
		dst = w.release(dst, len(w.bytes)) // line breaks before text are inside
	}
	// The usual case: whole characters, nothing before them, no line break that may be a tag's.
	if len(w.bytes) == 0 && utf8.ValidString(next.Raw) && (w.began || !w.lead) && !(w.tail && next.Raw[len(next.Raw)-1] == '\n') {
		return w.delta(dst, next, next.Raw)
	}
	w.held[w.heldCount] = next
	w.heldCount++
	w.bytes = append(w.bytes, next.Raw...)
	if w.heldCount < maxHeld && w.tail && next.Raw[len(next.Raw)-1] == '\n' {
		return dst
	}
	return w.release(dst, len(w.bytes)-chars.Unfinished(w.bytes))
}

// delta appends a Delta of a token and the text that it completes, and the Start before the
// first one.
func (w *Writer) delta(dst []Event, from Piece, text string) []Event {
	if w.lazy {
		w.lazy = false
		from.Count += w.Owed
		w.Owed = 0
		dst = w.begin(dst, "")
	}
	w.began = true
	w.visible = w.visible || w.Part.Visible()
	w.reasoned = w.reasoned || w.Part == Reasoning
	event := Event{Kind: Delta, Part: w.Part, Text: text, Bytes: from.Raw, Token: from.Token, Count: from.Count}
	if w.Part == Calling {
		event.Call = w.Calls - 1
	}
	return append(dst, event)
}

// release makes events of the held tokens that begin before the given byte, without
// line breaks that belong to the marker before. The text of all is that of the last:
// characters have no place of their own in their tokens. The text of what is behind
// End waits.
func (w *Writer) release(dst []Event, end int) []Event {
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
		first, last := max(from-at, 0), min(len(w.bytes)-at, len(piece.Raw))
		at += len(piece.Raw)
		if first >= last {
			w.Owed += piece.Count
			continue
		}
		piece.Raw = piece.Raw[first:last]
		if at < end {
			dst = w.delta(dst, piece, "")
			continue
		}
		dst = w.delta(dst, piece, text)
		text = ""
	}
	if text != "" { // what a token left behind that had its event
		dst = w.delta(dst, Piece{Token: w.Token}, text)
	}
	w.heldCount, w.leftover = copy(w.held[:], w.held[done:w.heldCount]), max(at-end, 0)
	w.bytes = w.bytes[:copy(w.bytes, w.bytes[end:])]
	return dst
}

// flush releases what is held at the end of a message, a character that was begun as
// U+FFFD. tight drops line breaks at the end.
func (w *Writer) flush(dst []Event, tight bool) []Event {
	for tight && len(w.bytes) > 0 && w.bytes[len(w.bytes)-1] == '\n' {
		w.bytes = w.bytes[:len(w.bytes)-1]
	}
	dst = w.release(dst, len(w.bytes))
	for _, p := range w.held[:w.heldCount] {
		w.Owed += p.Count
	}
	w.heldCount, w.leftover = 0, 0
	return dst
}

// End ends the open message, if there is one. tight: see flush. cut: the output ended
// before the message did.
func (w *Writer) End(dst []Event, tight, cut bool) []Event {
	if !w.Open {
		return dst
	}
	dst = w.flush(dst, tight)
	w.Open = false
	if w.lazy {
		w.lazy = false
		return dst
	}
	return w.Emit(dst, Event{Kind: End, Part: w.Part, Cut: cut})
}

// Salvage reports that a rule was applied. It accounts for no ids.
func (w *Writer) Salvage(dst []Event, r mend.Rule) []Event {
	return append(dst, Event{Kind: Salvage, Rule: r, Token: w.Token})
}

// Skip accounts for ids that belong to no message, as part of the answer's part.
func (w *Writer) Skip(dst []Event, part Part) []Event {
	if w.Owed == 0 {
		return dst
	}
	return w.Emit(dst, Event{Kind: Skip, Part: part})
}
