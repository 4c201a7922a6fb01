// Package event has the events that parsers make of answers, and Writer, which makes them of the
// tokens of one message after another. Whoever uses it need not know half characters, line breaks
// that belong to markers, or which ids no event has told of yet.
package event

import "ossian/internal/chat/mend"

// A Kind says what happens to a message.
type Kind uint8

// A message is a Start, any number of Deltas and an End. TurnEnd says that the answer
// is complete and sampling should stop, Salvage that the model broke its format. Skip
// accounts for ids that belong to no message.
const (
	Start Kind = iota
	Delta
	End
	TurnEnd
	Salvage
	Skip
)

// A Part says what a message is for.
type Part uint8

// Hidden is what neither the user nor the caller's tools should see: calls of tools
// that nobody offered (Event.Name says which) and results that the model invented.
// It counts as reasoning, and so does Builtin.
const (
	Hidden    Part = iota
	Reasoning      // chain of thought
	Preamble       // text for the user before a call
	Content        // the answer
	Calling        // a call of one of Conversation.Tools; text is its arguments
	Builtin        // a call of one of Conversation.Builtins; text is its arguments
)

// Visible reports whether the part is text for the user, what the Chat API calls content.
func (p Part) Visible() bool { return p == Preamble || p == Content }

// Reasons reports whether tokens of the part count as reasoning (harmony.md 13).
func (p Part) Reasons() bool { return p == Hidden || p == Reasoning || p == Builtin }

// An Event is one thing that an answer does.
//
// Text is complete characters. That of a Start is what separates the message from an
// earlier one of the same field where an API joins them, "\n" or "" (harmony.md 9): the
// Chat API treats it like that of a Delta, the Responses API ignores it.
//
// For logprobs: every token of visible text has exactly one event with Bytes and
// Part.Visible(), in order. The Bytes of a message are the Text of its Deltas, except
// that Text has U+FFFD for bytes that are no UTF-8, of a character that its end cuts
// off, too. When a token begins a character that it does not end, its Bytes are up to 3
// ahead of the Text. The line break of a Start belongs to no token: it goes before the
// Bytes of the next.
type Event struct {
	Kind  Kind
	Part  Part
	Text  string
	Bytes string    // of the token that became visible; a character may need several
	Token int       // which pushed id the event is about, counted from 0
	Count int       // ids that this event accounts for; after Close all add up to those pushed
	Call  int       // of Calling: index of the call in the answer
	Name  string    // with Start of Calling, Builtin, and Hidden calls: the tool as declared
	Cut   bool      // with End: the output ended before the message did
	Rule  mend.Rule // with Salvage: what was mended
}
