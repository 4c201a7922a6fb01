package server

import (
	"slices"
	"strings"
	"unicode/utf8"

	"ossian/internal/chat"
	"ossian/internal/engine"
	"ossian/internal/sample"
	"ossian/internal/sched"
	"ossian/internal/token"
	"ossian/internal/wire"
)

// A field is the part of a choice that a delta adds to.
type field uint8

const (
	noField field = iota
	content
	reasoning
	callArguments // adds to the latest call
	callName      // begins a call
	begins        // a message of text or reasoning, with plan.items
	ends          // what was begun, with plan.items
)

// A delta is a piece of one choice. Concatenated deltas are the choice, whether it
// is streamed or not (LIF-4).
type delta struct {
	field    field
	text     string
	call     int                 // index of the call
	custom   bool                // of one of plan.customs
	logprobs []wire.TokenLogprob // of tokens that end in text; they never split
	part     chat.Part           // begins: what the message is for
	cut      bool                // ends: the output ended first
}

// joins reports whether d can be one piece with an earlier delta.
func (d *delta) joins(before *delta) bool {
	return d.field == before.field && d.field < callName && d.call == before.call
}

// size is what d takes where it is kept, in bytes.
func (d *delta) size() int64 {
	n := int64(len(d.text))
	for i := range d.logprobs {
		n += int64(1+len(d.logprobs[i].Top)) * logprobOutSize
	}
	return n
}

// A plan is what the choices of one request have in common.
type plan struct {
	tok           *token.BPE
	stops         []int32 // the model's ids that end an answer; nil with ignore_eos
	stopIDs       []int32 // the caller's, which are not part of the text
	minTokens     int     // before which neither those nor stop strings end
	keepStop      bool    // stop strings stay in the text
	endless       bool    // ignore_eos
	showReasoning bool
	oneCall       bool     // parallel_tool_calls false
	items         bool     // messages stay apart: deltas say where they begin and end
	named         bool     // tool_choice names the tool: its call is no tool_calls (api.md 2.2)
	customs       []string // names of tools whose calls are told apart
	logprobs      bool
	top           int  // alternatives per token
	every         bool // tokens that are not shown have log probabilities, too
	echoed        bool // and those of the echoed prompt
	table         bool // prompt_logprobs
	tableTop      int  // alternatives in it
	asIDs         bool // tokens are shown as token_id:N
	keepIDs       bool // return_token_ids
	salvaged      func(rule string)
}

// An answer turns the ids of one choice into deltas. It finds where the choice ends
// before the engine does: stop strings, and what only the parser sees.
type answer struct {
	*plan
	parser chat.Parser
	stop   stopper
	begun  bool                   // has what precedes its first token
	prompt [][]wire.PromptLogprob // from then on, if they were asked for

	size   int64   // bytes of memory of log probabilities and of what a collection has
	deltas []delta // new since the caller took them
	newIDs []int32 // the same, with return_token_ids

	tokens, reasoned int     // ids that belong to the answer; of these, reasoning
	likely           float64 // sum of the ids' log probabilities, where they are known
	calls            int     // begun
	custom           bool    // the latest call is of one of plan.customs
	over             bool    // the turn has ended with too few tokens
	said             bool    // the content has text
	thought, unknown bool    // there was reasoning, a call of a tool that nobody offered
	done, closed     bool    // closed: the parser is
	finish           string  // wire.Finish…, once done
	reason           wire.StopReason

	events    []chat.Event // scratch
	last      int32        // the latest id
	held      []piece      // text that may be the beginning of a stop string
	logprobOf [][]sample.Logprob
	entries   []wire.TokenLogprob // of tokens whose text is not out
	leadText  string              // belongs before the next text
	leadBytes string              // the same, of its bytes
}

// Sizes in memory, in bytes: a list of log probabilities without its elements, one of the
// engine's, and one as replies have it.
const (
	logprobsSize   = 24
	logprobSize    = 8
	logprobOutSize = 64
)

// A piece is what one token adds to the visible text. Of the tokens of one
// character the last has the text; the bytes are those of the token.
type piece struct {
	text, bytes string
	token       int  // its index in the answer
	hidden      bool // has no text because it is not to be shown
}

// push adds the next id. Once the answer is done ids are not its own any more.
func (a *answer) push(t *engine.Token) {
	if a.done {
		return
	}
	a.tokens++
	a.last = t.ID
	if len(t.Logprobs) > 0 {
		a.likely += float64(t.Logprobs[0].Logprob)
	}
	if a.keepIDs {
		a.newIDs = append(a.newIDs, t.ID)
	}
	if a.logprobs {
		a.logprobOf = append(a.logprobOf, t.Logprobs)
		a.size += logprobsSize + int64(len(t.Logprobs))*logprobSize
	}
	if a.tokens > a.minTokens && slices.Contains(a.stopIDs, t.ID) && !slices.Contains(a.stops, t.ID) {
		a.hide(a.tokens - 1)
		a.end(wire.FinishStop, wire.StopReason{Token: t.ID, ByID: true})
		return
	}
	a.events = a.parser.Push(a.events[:0], t.ID)
	a.read()
	if a.over && !a.done && a.tokens > a.minTokens {
		a.end(wire.FinishStop, wire.StopReason{})
	}
}

// mean returns the mean log probability of the answer's ids.
func (a *answer) mean() float64 { return a.likely / float64(max(a.tokens, 1)) }

// close takes over how the engine ended the answer, if it is not done.
func (a *answer) close(f sched.Finish) {
	switch {
	case a.done:
	case f == sched.FinishLength:
		a.end(wire.FinishLength, wire.StopReason{})
	default:
		a.end(wire.FinishStop, a.stopReason())
	}
}

// end ends the answer and lets out what was held back.
func (a *answer) end(finish string, reason wire.StopReason) {
	a.closed = true
	a.events = a.parser.Close(a.events[:0])
	a.read()
	if !a.done {
		a.release(len(a.held))
		a.stopAs(finish, reason)
	}
}

// stopAs says how the answer ended.
func (a *answer) stopAs(finish string, reason wire.StopReason) {
	if finish == wire.FinishStop && a.calls > 0 && !a.named {
		finish = wire.FinishToolCalls
	}
	if len(a.entries) > 0 && a.every { // of hidden tokens behind the text
		a.deltas = append(a.deltas, delta{field: content, logprobs: a.entries})
		a.entries = nil
	}
	a.done, a.finish, a.reason = true, finish, reason
}

// silence says why the answer has neither text nor calls, "" if it has (LIF-8).
func (a *answer) silence() string {
	length := a.finish == wire.FinishLength
	switch {
	case a.said || a.calls > 0:
		return ""
	case a.reason.Text != "":
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

func (a *answer) count(events []chat.Event) {
	for i := range events {
		if events[i].Part.Reasons() {
			a.reasoned += events[i].Count
		}
	}
}

// read turns the parser's events into deltas.
func (a *answer) read() {
	for i := range a.events {
		e := &a.events[i]
		a.count(a.events[i : i+1])
		if e.Kind == chat.Start {
			a.thought = a.thought || e.Part == chat.Reasoning
			a.unknown = a.unknown || (e.Part == chat.Hidden && e.Name != "")
		}
		if a.items {
			a.bound(e)
		}
		switch {
		case e.Kind == chat.Salvage:
			a.salvaged(e.Rule.String())
		case e.Kind == chat.TurnEnd && !a.endless && a.tokens <= a.minTokens:
			a.over = true
		case e.Kind == chat.TurnEnd && !a.endless:
			a.release(len(a.held))
			a.stopAs(wire.FinishStop, a.stopReason())
		case e.Kind == chat.Skip:
			a.hide(e.Token)
		case e.Part.Visible():
			a.visible(e)
		case e.Part == chat.Reasoning && e.Text != "" && a.showReasoning && !(a.items && e.Kind == chat.Start):
			a.deltas = append(a.deltas, delta{field: reasoning, text: e.Text})
		case e.Part == chat.Calling && e.Kind == chat.Start:
			a.calls++
			a.custom = slices.Contains(a.customs, e.Name)
			a.deltas = append(a.deltas, delta{field: callName, text: e.Name, call: e.Call, custom: a.custom})
		case e.Part == chat.Calling && e.Kind == chat.End && a.oneCall && !e.Cut:
			a.release(len(a.held))
			a.stopAs(wire.FinishStop, wire.StopReason{})
		case e.Part == chat.Calling && e.Text != "":
			a.deltas = append(a.deltas, delta{field: callArguments, text: e.Text, call: e.Call, custom: a.custom})
		}
		if a.done { // what is left only counts
			a.count(a.events[i+1:])
			if !a.closed {
				a.closed = true
				a.count(a.parser.Close(nil))
			}
			return
		}
	}
}

// stopReason is the latest id if it is the caller's stop id.
func (a *answer) stopReason() wire.StopReason {
	if slices.Contains(a.stopIDs, a.last) {
		return wire.StopReason{Token: a.last, ByID: true}
	}
	return wire.StopReason{}
}

// bound tells where messages begin and end. No stop string goes from one to another.
func (a *answer) bound(e *chat.Event) {
	if !e.Part.Visible() && e.Part != chat.Reasoning && e.Part != chat.Calling {
		return
	}
	switch {
	case e.Kind == chat.End:
		a.release(len(a.held))
		a.stop.reset()
		a.deltas = append(a.deltas, delta{field: ends, cut: e.Cut})
	case e.Kind == chat.Start && e.Part != chat.Calling:
		a.deltas = append(a.deltas, delta{field: begins, part: e.Part})
	}
}

// hide takes a token that is not shown.
func (a *answer) hide(token int) {
	if a.every {
		a.held = append(a.held, piece{token: token, hidden: true})
	}
}

// visible takes text of the content.
func (a *answer) visible(e *chat.Event) {
	if e.Kind == chat.Start {
		if !a.items {
			a.leadText, a.leadBytes = e.Text, e.Text
		}
		return
	}
	if e.Text == "" && e.Bytes == "" {
		return
	}
	p := piece{text: e.Text, bytes: e.Bytes, token: e.Token}
	if p.bytes != "" {
		p.bytes, a.leadBytes = a.leadBytes+p.bytes, ""
	}
	if p.text != "" {
		p.text, a.leadText = a.leadText+p.text, ""
	}
	before := 0 // bytes held
	for i := range a.held {
		before += len(a.held[i].text)
	}
	a.held = append(a.held, p)
	if a.stop != nil {
		if found, at := a.find(p.text); found != "" {
			keep := before + at
			if !a.keepStop {
				keep -= len(found)
			}
			a.held = cut(a.held, keep)
			a.release(len(a.held))
			a.stopAs(wire.FinishStop, wire.StopReason{Text: found})
			return
		}
	}
	// What cannot be part of a stop string is out, whole characters at a time: the bytes
	// of one that is not complete may be cut off.
	n, rest, held := 0, before+len(p.text), a.stop.held()
	for i := range a.held {
		p := &a.held[i]
		if rest -= len(p.text); rest < held {
			break
		}
		if p.text != "" && !(a.logprobs && a.stop != nil && unfinished(p.bytes)) {
			n = i + 1
		}
	}
	a.release(n)
}

// find returns the stop string that ends first in text and where.
func (a *answer) find(text string) (found string, at int) {
	for i := range len(text) {
		if found := a.stop.push(text[i]); found != "" && a.tokens > a.minTokens {
			return found, i + 1
		}
	}
	return "", 0
}

// cut returns the pieces of the first keep bytes of the text, whole characters.
func cut(all []piece, keep int) []piece {
	var joined strings.Builder
	for i := range all {
		joined.WriteString(all[i].bytes)
	}
	spelt := spelling(joined.String(), keep)
	less := false
	for i := range all {
		p := &all[i]
		text, bytes := p.text[:min(keep, len(p.text))], p.bytes[:min(spelt, len(p.bytes))]
		less = less || len(text) < len(p.text) || len(bytes) < len(p.bytes)
		p.text, p.bytes = text, bytes
		keep, spelt = keep-len(text), spelt-len(bytes)
		if less && keep == 0 {
			return all[:i+1]
		}
	}
	return all
}

// spelling returns how many bytes at the beginning of raw give n bytes of text, where
// U+FFFD stands for bytes that are no character.
func spelling(raw string, n int) (used int) {
	for n > 0 && used < len(raw) {
		r, size := utf8.DecodeRuneInString(raw[used:])
		if r == utf8.RuneError && size == 1 { // the longest that may begin a character, at least a byte
			for used+size < len(raw) && !utf8.FullRuneInString(raw[used:used+size]) && !utf8.FullRuneInString(raw[used:used+size+1]) {
				size++
			}
		}
		n -= utf8.RuneLen(r)
		used += size
	}
	return used
}

// release makes deltas of the first n held pieces.
func (a *answer) release(n int) {
	for _, p := range a.held[:n] {
		if a.logprobs && (p.bytes != "" || p.hidden) {
			a.entries = append(a.entries, a.entry(p))
		}
		if p.text != "" {
			a.said = true
			a.deltas = append(a.deltas, delta{field: content, text: p.text, logprobs: a.entries})
			a.entries = nil
		}
	}
	a.held = slices.Delete(a.held, 0, n)
}

// entry is the log probability of a token as replies show it.
func (a *answer) entry(p piece) wire.TokenLogprob {
	all := a.logprobOf[p.token]
	a.logprobOf[p.token] = nil
	a.size -= int64(len(all)) * logprobSize
	t := wire.TokenLogprob{Token: p.bytes, Bytes: p.bytes}
	if len(all) > 0 {
		if p.hidden {
			t.Token = a.tok.Text(all[0].ID)
		}
		a.show(&t, all)
	}
	return t
}

// show fills in the log probabilities of a token: its own, then those of the likeliest.
func (p *plan) show(t *wire.TokenLogprob, all []sample.Logprob) {
	t.Logprob = all[0].Logprob
	if p.asIDs {
		t.Token = tokenID(all[0].ID)
	}
	likeliest := all[1:][:min(p.top, len(all)-1)]
	t.Top = make([]wire.TokenLogprob, 0, len(likeliest)+1) // completions add the token itself
	for _, l := range likeliest {
		text := p.tok.Text(l.ID)
		top := wire.TokenLogprob{Token: text, Bytes: text, Logprob: l.Logprob}
		if p.asIDs {
			top.Token = tokenID(l.ID)
		}
		t.Top = append(t.Top, top)
	}
}

// A raw parser reads text without a format. All of it is content.
type raw struct {
	tok    *token.BPE
	detok  *token.Detok
	hide   bool    // control tokens, skip_special_tokens
	stops  []int32 // always hidden
	pushed int
}

// Push implements chat.Parser.
func (r *raw) Push(dst []chat.Event, id int32) []chat.Event {
	r.pushed++
	if (r.hide && r.tok.IsControl(id)) || slices.Contains(r.stops, id) {
		return append(dst, chat.Event{Kind: chat.Skip, Part: chat.Content, Token: r.pushed - 1, Count: 1})
	}
	return append(dst, chat.Event{Kind: chat.Delta, Part: chat.Content, Text: r.detok.Push(id), Bytes: r.tok.Text(id), Token: r.pushed - 1, Count: 1})
}

// unfinished reports whether more bytes may complete a character at the end of s.
func unfinished(s string) bool {
	for n := 1; n <= min(len(s), utf8.UTFMax-1); n++ {
		if tail := s[len(s)-n:]; utf8.RuneStart(tail[0]) {
			return !utf8.FullRuneInString(tail)
		}
	}
	return false
}

// Close implements chat.Parser.
func (r *raw) Close(dst []chat.Event) []chat.Event {
	return append(dst, chat.Event{Kind: chat.Delta, Part: chat.Content, Text: r.detok.Flush(), Token: max(r.pushed-1, 0)})
}

// A choice collects the deltas of an answer that is not streamed.
type choice struct {
	content, reasoning strings.Builder
	calls              []wire.ToolCall // without ids
	arguments          []*strings.Builder
	logprobs           []wire.TokenLogprob
}

func (c *choice) add(d *delta) {
	switch d.field {
	case content:
		c.content.WriteString(d.text)
		c.logprobs = append(c.logprobs, d.logprobs...)
	case reasoning:
		c.reasoning.WriteString(d.text)
	case callName:
		c.calls = append(c.calls, wire.ToolCall{Name: d.text, Custom: d.custom})
		c.arguments = append(c.arguments, new(strings.Builder))
	case callArguments:
		c.arguments[d.call].WriteString(d.text)
	}
}
