package generate

import (
	"ossian/internal/chat"
	"ossian/internal/tools"
)

// A Builtin is what answers may call of the server itself. The job runs such calls as they are
// made and goes on with what they give, until the answer ends:
//
//	sample → run the calls → the prompt, with what was sampled and what they gave → sample …
//
// Each prompt begins with the one before and the ids that were sampled, so that nothing is
// computed twice.
type Builtin struct {
	// Conversation is what the prompt says, its Builtins among it. It is read until the job ends,
	// and not changed.
	Conversation *chat.Conversation
	// Rules are what Generation.Constraint was made of. What they force holds for the first step
	// alone: behind a call that was forced the model is free.
	Rules  chat.Rules
	Places Places
	// Open returns what a choice may use; the job closes it.
	Open func(choice int) *tools.Box
	// Pending are calls that the conversation ends with and that the client was asked about. They
	// run before anything is generated.
	Pending  []Pending
	MaxCalls *int64 // of all steps; nil = as many as the limits allow
	Waits    bool   // a client waits for the answer: the limit tool-wall counts
	Links    bool   // citations become links; they stay as the model wrote them otherwise
}

// A Pending is a call that waited for the client's word.
type Pending struct {
	Recipient, Arguments string
	ID                   string // of the request for approval
	Declined             bool
	Reason               string // why, in the client's words; "" = none is given
}

// A Step is what was sampled up to calls of built-in tools, and what these gave. The last step
// of an answer has no results.
type Step struct {
	IDs     []int32      `json:"-"` // as they were sampled; none where calls of the conversation come first
	Results []StepResult // in the order of the calls
}

// A StepResult is what the model got to read.
type StepResult struct{ Recipient, Text string }

// A Citation is a mark in the text of a message that says where something is from (api.md 3.7).
type Citation struct {
	Start, End int // in code points of the message's text, the second exclusive
	tools.Source
}

// A ToolCall is what deltas of built-in tools are about. Nobody changes it: later deltas of a
// call have another, with more in it.
type ToolCall struct {
	Index     int // among the answer's; deltas of a call have the same
	Offer     *tools.Offer
	Recipient string // "browser.search"
	Tool      string // "search"; "" = the namespace itself
	Approval  string // the client agreed to it, or did not, under this id; "" = nobody asked
	Declined  bool   // the client did not: the call does not run
	// Arguments are complete from ToolRuns on.
	Arguments string
	Result    *tools.Result // from ToolEnds on; nil = the answer ended before the call, which did not run
}
