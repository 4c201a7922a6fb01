package generate

import (
	"ossian/internal/chat"
	"ossian/internal/wire"
)

// A Field is the part of a choice that a delta adds to.
type Field uint8

// The fields. Deltas before CallName have text that can be joined.
const (
	NoField Field = iota
	Content
	Reasoning
	CallArguments // adds to the latest call
	CallName      // begins a call
	ItemBegins    // a message of text or reasoning, with Generation.Items
	ItemEnds      // what was begun, with Generation.Items

	// Of calls that the server runs, each with Tool: it begins, adds to its arguments, runs, and
	// has ended, or the client has to agree to it first: the answer ends with that. Several calls
	// of one step begin one after another before the first of them runs.
	ToolBegins
	ToolArguments
	ToolRuns
	ToolEnds
	ToolAsks
	// Cited says that text of the message, all of it sent by now, is a citation.
	Cited
)

// A Delta is a piece of one choice. Concatenated deltas are the choice, whether it
// is streamed or not (LIF-4).
type Delta struct {
	Field    Field
	Text     string
	Call     int                 // index of the call
	Custom   bool                // of one of Generation.CustomTools
	Logprobs []wire.TokenLogprob // of tokens that end in Text; they never split
	Part     chat.Part           // ItemBegins: what the message is for
	Cut      bool                // ItemEnds, ToolEnds: the output ended first
	Tool     *ToolCall           // of the Tool fields
	Citation *Citation           // Cited
}

// Joins reports whether d can be one piece with an earlier delta.
func (d *Delta) Joins(before *Delta) bool {
	return d.Field == before.Field && d.Field < CallName && d.Call == before.Call
}

// Size is what d takes where it is kept, in bytes.
func (d *Delta) Size() int64 {
	bytes := int64(len(d.Text))
	if d.Tool != nil && d.Tool.Result != nil {
		bytes += int64(len(d.Tool.Arguments) + len(d.Tool.Result.Text) + len(d.Tool.Result.Output))
	}
	for i := range d.Logprobs {
		bytes += int64(1+len(d.Logprobs[i].Top)) * logprobOutSize
	}
	return bytes
}
