package generate

import (
	"slices"

	"ossian/internal/chat"
	"ossian/internal/draft"
	"ossian/internal/engine"
	"ossian/internal/generate/stops"
	"ossian/internal/sample"
	"ossian/internal/sched"
	"ossian/internal/tools"
	"ossian/internal/wire"
)

// An Answer turns the ids of one choice into deltas. It finds where the choice ends
// before the engine does: stop strings, and what only the parser sees.
//
// reading → Done. While it reads, the end of a turn that comes before min_tokens is
// noted, and counts when there are enough.
type Answer struct {
	spec   *choiceSpec
	parser chat.Parser
	stops  stops.Finder
	begun  bool // has what precedes its first token

	// What outputs read. They empty Deltas with Taken, and NewIDs, as they take them.
	Deltas         []Delta
	NewIDs         []int32                // of which Deltas were made, if the generation asks for ids
	PromptLogprobs [][]wire.PromptLogprob // from its first token on, if they were asked for
	Tokens         int                    // ids that belong to the answer
	Reasoned       int                    // of these, reasoning
	Done           bool                   // it has ended: ids are not its own any more
	Finish         string                 // wire.Finish…, once done
	Stop           wire.StopReason        // what ended it, once done

	Steps []Step     // with Builtin: the ids, and what calls gave
	Tools *tools.Box // with Builtin: what the choice may use, until the job is closed

	predicted    *draft.Prediction // nil = none
	turn         *turn             // with Builtin; else nil
	paused       bool              // a step has ended with calls: ids are not its own before the next begins
	base         int               // tokens of earlier steps, which the parser does not know
	size         int64             // bytes of memory: log probabilities, and what the output has booked
	logprobSum   float64           // of the ids, where log probabilities are known
	lastID       int32
	calls        int  // begun
	custom       bool // the latest call is of a custom tool
	turnOver     bool // the turn has ended with too few tokens
	said         bool // the content has text
	thought      bool // there was reasoning
	unknown      bool // there was a call of a tool that nobody offered
	cutShort     bool // by the bound of its length: what is half was not written wrongly
	parserClosed bool

	events    []chat.Event        // scratch
	held      []piece             // text that may be the beginning of a stop string
	logprobOf [][]sample.Logprob  // [token], until its piece is released
	entries   []wire.TokenLogprob // of tokens whose text is not out
	leadText  string              // belongs before the next text
	leadBytes string              // the same, of its bytes
}

// NewAnswer returns an answer to a generation that has not begun.
func NewAnswer(g *Generation) *Answer { return g.answer(g.choiceSpec()) }

func (g *Generation) answer(spec *choiceSpec) *Answer {
	return &Answer{spec: spec, parser: g.Parser(), stops: stops.New(g.Stop), predicted: draft.NewPrediction(spec.prediction)}
}

// Push adds the next id.
func (a *Answer) Push(token *engine.Token) {
	if a.Done || a.paused {
		return
	}
	a.Tokens++
	a.predicted.Push(token.ID)
	if a.turn != nil {
		a.turn.sampled(a, token.ID)
	}
	a.lastID = token.ID
	if len(token.Logprobs) > 0 {
		a.logprobSum += float64(token.Logprobs[0].Logprob)
	}
	if a.spec.tokenIDs {
		a.NewIDs = append(a.NewIDs, token.ID)
	}
	if a.spec.logprobs {
		a.logprobOf = append(a.logprobOf, token.Logprobs)
		a.size += logprobsSize + int64(len(token.Logprobs))*logprobSize
	}
	// min_tokens counts the tokens before the one that ends: that one may come next.
	enough := a.Tokens > a.spec.minTokens
	// A stop id of the caller's is not part of the text; one that is the model's, too, the
	// parser has to see.
	if enough && slices.Contains(a.spec.stopIDs, token.ID) && !slices.Contains(a.spec.modelStops, token.ID) {
		a.hide(a.Tokens - 1)
		a.conclude(wire.FinishStop, wire.StopReason{Token: token.ID, ByID: true})
		return
	}
	a.events = a.parser.Push(a.events[:0], token.ID)
	a.read()
	if a.turnOver && !a.Done && !a.paused && enough { // by no id of this moment: the turn ended before
		a.conclude(wire.FinishStop, wire.StopReason{})
	}
}

// Close takes over how the engine ended the answer, if it is not done.
func (a *Answer) Close(finish sched.Finish) {
	switch {
	case a.Done || a.paused:
	case finish == sched.FinishLength:
		a.conclude(wire.FinishLength, wire.StopReason{})
	default:
		a.conclude(wire.FinishStop, a.stopReason())
	}
}

// Taken empties Deltas: the output has them.
func (a *Answer) Taken() {
	clear(a.Deltas)
	a.Deltas = a.Deltas[:0]
}

// Book accounts for n more bytes that the output keeps of the answer.
func (a *Answer) Book(n int64) { a.size += n }

// Mean returns the mean log probability of the answer's ids.
func (a *Answer) Mean() float64 { return a.logprobSum / float64(max(a.Tokens, 1)) }

// EmptyReason says why the answer has neither text nor calls, "" if it has (LIF-8).
func (a *Answer) EmptyReason() string {
	length := a.Finish == wire.FinishLength
	switch {
	case a.said || a.calls > 0:
		return ""
	case a.Stop.Text != "":
		return wire.EmptyStopString
	case a.unknown && !length:
		return wire.EmptyUnknownTool
	case a.thought && length:
		return wire.EmptyLengthInReasoning
	case a.thought:
		return wire.EmptyStopInReasoning
	case length:
		return wire.EmptyLength
	}
	return wire.EmptyStop
}

// conclude ends the answer from outside: it closes the parser and lets out what was held
// back, in which a stop string may still be found.
func (a *Answer) conclude(finish string, stop wire.StopReason) {
	a.parserClosed, a.cutShort = true, finish == wire.FinishLength
	a.events = a.parser.Close(a.events[:0])
	a.read()
	if !a.Done && !a.paused {
		a.release(len(a.held))
		a.end(finish, stop)
	}
}

// end finishes the answer, or its step where calls are to be run first.
func (a *Answer) end(finish string, stop wire.StopReason) {
	if a.turn != nil && len(a.turn.calls) > 0 && finish == wire.FinishStop && (!stop.ByID || slices.Contains(a.spec.modelStops, stop.Token)) {
		a.paused = true
		a.turn.cites.flush(a)
		return
	}
	a.finish(finish, stop)
}

// finish says how the answer ended.
func (a *Answer) finish(finish string, stop wire.StopReason) {
	// A call that the request named is answered with stop, as OpenAI does: there was no choice.
	if finish == wire.FinishStop && a.calls > 0 && !a.spec.namedCall {
		finish = wire.FinishToolCalls
	}
	if a.turn != nil {
		a.turn.finish(a)
	}
	if len(a.entries) > 0 && a.spec.hiddenLogprobs { // of hidden tokens behind the text
		a.Deltas = append(a.Deltas, Delta{Field: Content, Logprobs: a.entries})
		a.entries = nil
	}
	a.Done, a.Finish, a.Stop = true, finish, stop
}

// stopReason is the latest id if it is the caller's stop id.
func (a *Answer) stopReason() wire.StopReason {
	if slices.Contains(a.spec.stopIDs, a.lastID) {
		return wire.StopReason{Token: a.lastID, ByID: true}
	}
	return wire.StopReason{}
}

// read turns the parser's events into deltas.
func (a *Answer) read() {
	for i := range a.events {
		event := &a.events[i]
		event.Token += a.base
		a.count(a.events[i : i+1])
		if a.turn != nil {
			a.turn.read(a, event)
		}
		a.note(event)
		switch {
		case event.Kind == chat.Salvage && a.cutShort: // a header that max_tokens cut is no malformed one
		case event.Kind == chat.Salvage:
			a.spec.salvaged(event.Rule.String())
		case event.Kind == chat.TurnEnd && !a.spec.ignoreEOS && a.Tokens <= a.spec.minTokens:
			a.turnOver = true
		case event.Kind == chat.TurnEnd && !a.spec.ignoreEOS:
			a.release(len(a.held))
			a.end(wire.FinishStop, a.stopReason())
		case event.Kind == chat.Skip:
			a.hide(event.Token)
		case event.Part.Visible():
			a.visible(event)
		case event.Part == chat.Reasoning:
			a.reason(event)
		case event.Part == chat.Calling:
			a.call(event)
		}
		if a.Done || a.paused { // what is left only counts
			a.count(a.events[i+1:])
			if !a.parserClosed {
				a.parserClosed = true
				a.count(a.parser.Close(nil))
			}
			return
		}
	}
}

// count adds up the tokens of reasoning.
func (a *Answer) count(events []chat.Event) {
	for i := range events {
		if events[i].Part.Reasons() {
			a.Reasoned += events[i].Count
		}
	}
}

// note takes down what begins, and ends, with an event.
func (a *Answer) note(event *chat.Event) {
	if event.Kind == chat.Start {
		a.thought = a.thought || event.Part == chat.Reasoning
		a.unknown = a.unknown || (event.Part == chat.Hidden && event.Name != "")
	}
	if a.spec.items {
		a.bound(event)
	}
}

// bound tells where messages begin and end. No stop string goes from one to another.
func (a *Answer) bound(event *chat.Event) {
	if !event.Part.Visible() && event.Part != chat.Reasoning && event.Part != chat.Calling {
		return
	}
	switch {
	case event.Kind == chat.End:
		a.release(len(a.held))
		a.stops.Reset()
		if a.turn != nil {
			a.turn.cites.end(a)
		}
		a.Deltas = append(a.Deltas, Delta{Field: ItemEnds, Cut: event.Cut})
	case event.Kind == chat.Start && event.Part != chat.Calling:
		a.Deltas = append(a.Deltas, Delta{Field: ItemBegins, Part: event.Part})
	}
}

// reason takes text of reasoning. What stands between messages, the text of a Start, has
// no place where they are apart.
func (a *Answer) reason(event *chat.Event) {
	between := a.spec.items && event.Kind == chat.Start
	if event.Text != "" && a.spec.showReasoning && !between {
		a.Deltas = append(a.Deltas, Delta{Field: Reasoning, Text: event.Text})
	}
}

// call takes the name of a call, a piece of its arguments, or its end.
func (a *Answer) call(event *chat.Event) {
	switch {
	case event.Kind == chat.Start:
		a.calls++
		a.custom = slices.Contains(a.spec.customTools, event.Name)
		a.Deltas = append(a.Deltas, Delta{Field: CallName, Text: event.Name, Call: event.Call, Custom: a.custom})
	case event.Kind == chat.End && a.spec.oneCall && !event.Cut:
		a.release(len(a.held))
		a.end(wire.FinishStop, wire.StopReason{})
	case event.Text != "":
		a.Deltas = append(a.Deltas, Delta{Field: CallArguments, Text: event.Text, Call: event.Call, Custom: a.custom})
	}
}
