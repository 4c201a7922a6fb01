package chat

import "ossian/internal/chat/event"

// What parsers say of answers: the types and words of package event, under the names that
// everybody above knows.
type (
	Kind  = event.Kind
	Part  = event.Part
	Event = event.Event
)

// The kinds of events.
const (
	Start   = event.Start
	Delta   = event.Delta
	End     = event.End
	TurnEnd = event.TurnEnd
	Salvage = event.Salvage
	Skip    = event.Skip
)

// The parts of answers.
const (
	Hidden    = event.Hidden
	Reasoning = event.Reasoning
	Preamble  = event.Preamble
	Content   = event.Content
	Calling   = event.Calling
	Builtin   = event.Builtin
)
