package generate

import (
	"slices"
	"strings"
	"sync"
	"time"

	"ossian/internal/chat"
	"ossian/internal/engine"
	"ossian/internal/tools"
)

// A turn is what an answer with built-in tools has beside its text: the calls of the step, and
// the conversation as the model knows it by now.
//
// The step is sampled, then its calls are answered in their order, those that are independent side
// by side, then the next one begins; with calls that nobody answers the answer ends:
//
//	sampled, read → (Answer.paused) calls answered → next → sampled, read … → finish
type turn struct {
	box   *tools.Box
	conv  chat.Conversation // its turns are the choice's own from the request's on
	cites *citer            // nil = no displays to cite

	// Of the step.
	calls     []*stepCall // complete, and not answered by Step.Results before the last
	open      *stepCall   // whose arguments are being sampled
	arguments strings.Builder
	reasoning strings.Builder // what the turn says, for formats that cannot keep ids
	text      strings.Builder
	function  bool // the client has to answer a call

	// Of the answer.
	begun     int  // calls that deltas told of
	run       int  // calls that have run, or would have
	python    int  // of these, those of Python
	misused   int  // results in a row that say that the call makes no sense
	unknown   int  // calls of tools that nobody offered
	in        mute // what the step may not call
	held      mute // and those behind it
	thought   int  // ids of reasoning
	spoke     bool // there was text, reasoned: reasoning: more of it begins a line
	reasoned  bool
	pending   bool           // the calls are those of the conversation
	told      bool           // of them
	used      []stepUsage    // of the steps that have ended
	times     engine.Times   // of the first of them
	prompt    []int32        // of the step
	submitted bool           // the engine has the step
	fresh     bool           // no token of a later step has come
	runs      sync.WaitGroup // calls that have not ended
	active    int            // calls whose end has not arrived
	lost      bool           // a session does not end: nobody touches the box
}

// A mute says what a step may not call.
type mute uint8

const (
	muteNone     mute = iota
	muteBuiltins      // tools that the server runs
	muteAll           // anything: the step is to be the answer
)

// A stepUsage is what a step took, in tokens.
type stepUsage struct{ prompt, cached, output int }

// A stepCall is a call of a step.
type stepCall struct {
	ToolCall
	first   *ToolCall // as deltas have it while its arguments come
	id      string    // of the conversation, and of tools.Call
	unknown bool      // nobody offered the tool, and nobody is told
	began   time.Time // while it runs
	started bool      // it has been run
	gave    *ran      // what it gave, until its turn comes
	result  string    // what the model gets to read
	done    bool      // there is a result
}

// sampled takes down an id of the step.
func (t *turn) sampled(a *Answer, id int32) {
	step := &a.Steps[len(a.Steps)-1]
	step.IDs = append(step.IDs, id)
}

// read takes down what an event says of the step, and tells of calls.
func (t *turn) read(answer *Answer, event *chat.Event) {
	if event.Part == chat.Reasoning {
		t.thought += event.Count
	}
	switch part := event.Part; {
	case event.Kind == chat.Start && (part.Visible() || part == chat.Reasoning):
		t.parted(event)
	case event.Kind == chat.Delta && part.Visible():
		t.text.WriteString(event.Text)
		t.spoke = true
	case event.Kind == chat.Delta && part == chat.Reasoning:
		t.reasoning.WriteString(event.Text)
		t.reasoned = true
	case event.Kind == chat.Start && part == chat.Calling:
		t.function = true
	case part == chat.Builtin || (part == chat.Hidden && (event.Name != "" || t.open != nil)):
		t.call(answer, event)
	}
}

// parted separates text of a step from that of steps before it, as a parser does within one.
func (t *turn) parted(event *chat.Event) {
	if event.Part == chat.Content { // the model did not wait for what a tool of its own would give
		t.calls = slices.DeleteFunc(t.calls, func(call *stepCall) bool { return call.unknown })
	}
	if event.Text == "" && ((event.Part.Visible() && t.spoke) || (event.Part == chat.Reasoning && t.reasoned)) {
		event.Text = "\n"
	}
	into := &t.text
	if event.Part == chat.Reasoning {
		into = &t.reasoning
	}
	if into.Len() > 0 {
		into.WriteByte('\n')
	}
}

// call takes the begin of a call, a piece of its arguments, or its end.
func (t *turn) call(answer *Answer, event *chat.Event) {
	switch {
	case event.Kind == chat.Start:
		t.open = &stepCall{ToolCall: ToolCall{Recipient: event.Name}, unknown: event.Part == chat.Hidden}
		t.arguments.Reset()
		// What is unknown was never offered: nobody is told of such a call.
		if !t.open.unknown {
			t.begin(answer, t.open)
		}
	case t.open == nil:
	case event.Kind == chat.End:
		t.open.Arguments = t.arguments.String()
		switch {
		case !event.Cut:
			t.calls = append(t.calls, t.open)
		case !t.open.unknown:
			answer.Deltas = append(answer.Deltas, Delta{Field: ToolEnds, Cut: true, Tool: t.open.told()})
		}
		t.open = nil
	case event.Text != "":
		t.arguments.WriteString(event.Text)
		if !t.open.unknown {
			answer.Deltas = append(answer.Deltas, Delta{Field: ToolArguments, Text: event.Text, Tool: t.open.first})
		}
	}
}

// begin tells of a call.
func (t *turn) begin(a *Answer, call *stepCall) {
	call.Index = t.begun
	call.Offer, call.Tool = t.box.Find(call.Recipient)
	call.first = call.told()
	t.begun++
	a.Deltas = append(a.Deltas, Delta{Field: ToolBegins, Tool: call.first})
}

// told is the call as deltas have it from here on.
func (c *stepCall) told() *ToolCall {
	told := c.ToolCall
	return &told
}

// next returns the first call without a result, nil = all have one.
func (t *turn) next() *stepCall {
	for _, call := range t.calls {
		if !call.done {
			return call
		}
	}
	return nil
}

// answer gives a call its result.
func (t *turn) answer(a *Answer, call *stepCall, result *tools.Result) {
	call.done, call.result = true, result.Text
	if call.Result = result; !call.unknown {
		a.Deltas = append(a.Deltas, Delta{Field: ToolEnds, Tool: call.told()})
	}
	if result.Outcome != tools.Misused {
		t.misused = 0
	} else if t.misused++; t.misused >= maxMisused {
		t.held = muteAll
	}
}

// ask tells that the client has to agree to a call and to all behind it.
func (t *turn) ask(a *Answer, from *stepCall) {
	at := slices.Index(t.calls, from)
	for _, call := range t.calls[at:] {
		if call.done = true; !call.unknown {
			a.Deltas = append(a.Deltas, Delta{Field: ToolAsks, Tool: call.told()})
		}
	}
	t.calls = t.calls[:at]
}

// finish tells of calls that do not run any more.
func (t *turn) finish(answer *Answer) {
	t.cites.flush(answer)
	for _, call := range t.calls {
		if !call.done && !call.unknown {
			answer.Deltas = append(answer.Deltas, Delta{Field: ToolEnds, Cut: true, Tool: call.told()})
		}
	}
	t.note(answer)
}

// note takes down what the step's calls gave.
func (t *turn) note(a *Answer) {
	if len(a.Steps) == 0 {
		return
	}
	step := &a.Steps[len(a.Steps)-1]
	for _, call := range t.calls {
		if call.done {
			step.Results = append(step.Results, StepResult{Recipient: call.Recipient, Text: call.result})
		}
	}
}

// said appends the step to the conversation: the answer so far, its calls, their results.
func (t *turn) said(a *Answer) {
	if !t.pending {
		step := &a.Steps[len(a.Steps)-1]
		made := chat.Turn{Role: chat.Assistant, Output: step.IDs, Reasoning: t.reasoning.String(), Preamble: true}
		if t.text.Len() > 0 {
			made.Parts = []string{t.text.String()}
		}
		for _, call := range t.calls {
			// A name without a namespace would be a function of the client's, and is rendered as
			// one.
			function := call.unknown && !strings.Contains(call.Recipient, ".")
			made.Calls = append(made.Calls, chat.Call{ID: call.id, Name: call.Recipient, Arguments: call.Arguments, Builtin: !function})
		}
		t.conv.Since = len(t.conv.Turns)
		t.conv.Turns = append(slices.Clip(t.conv.Turns), made)
	}
	t.conv.Turns = slices.Clip(t.conv.Turns)
	for _, call := range t.calls {
		result := chat.Turn{Role: chat.ToolRole, Name: call.Recipient, Parts: []string{call.result}}
		if !t.pending {
			result.CallID = call.id
		}
		t.conv.Turns = append(t.conv.Turns, result)
	}
}

// usage returns what the steps took, with the one that the engine has.
func (t *turn) usage(a *Answer) []stepUsage {
	if !t.submitted {
		return t.used
	}
	return append(slices.Clip(t.used), stepUsage{prompt: len(t.prompt), output: a.Tokens - a.base})
}

// step begins the next step of the answer.
func (a *Answer) step(parser chat.Parser) {
	t := a.turn
	t.calls, t.open, t.function, t.pending, t.fresh, t.in = nil, nil, false, false, true, t.held
	t.reasoning.Reset()
	t.text.Reset()
	a.stops.Reset()
	a.paused, a.turnOver, a.parserClosed = false, false, false
	a.parser, a.base = parser, a.Tokens
	a.Steps = append(a.Steps, Step{})
}
