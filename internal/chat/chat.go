// Package chat turns conversations into token ids and token ids into events.
// Callers need not know how a model family writes roles, reasoning, tools and
// calls, which ids are markers, or what a model does when it gets its own format
// wrong: a Parser accepts any ids, loses no text and never mistakes text that
// merely spells a marker for one, and text of users and tools never becomes a
// control id (reliability.md PAR-1 to PAR-3, SEC-6).
//
// Three formats: harmony for gpt-oss, qwen in code, template for all others; the last
// two read answers with one tagParser, which finds calls between tags or, where the
// template writes none, at the beginning of the answer. Each format has a prompt, a parser and a
// constraint; eventWriter makes the events for all parsers.
//
// How a call's arguments become Deltas of part Calling. With harmony a call is a
// message with a recipient: its text is the arguments and goes through eventWriter as
// it is sampled (harmonyParser.begin, .text). Between call tags, callReader waits for
// the name, then passes on what is behind "arguments": as it comes. Of tools that take
// text, textToolParser behind either parser takes the text out of the JSON around it.
package chat

import (
	"errors"
	"fmt"
	"slices"

	"ossian/internal/token"
)

// A Format is one family's way of writing conversations. It is immutable and safe
// for concurrent use.
type Format interface {
	// Render adds the conversation to p, up to where the model takes over. What is
	// wrong with the conversation itself is an *Error.
	Render(p *token.Prompt, c *Conversation) error
	// Stops are the ids that end an answer, ascending.
	Stops() []int32
	// Parser returns the parser of one answer to a conversation that Render took and
	// that stays as it is meanwhile.
	Parser(c *Conversation) Parser
	// Constraint returns what makes constraints that hold answers to such a
	// conversation to rules; nil = nothing does. Besides errors of compile it may return
	// a *FormError, a *ToolsError, or NoCallsError where rules ask for a call that there cannot be.
	Constraint(c *Conversation, r *Rules, compile Compile) (func() Constraint, error)
	// Tools reports whether models are shown tools. Where they are not, Render refuses
	// conversations that offer some, unless the answer must be a call.
	Tools() bool
}

// A Parser turns the ids of one answer, stop id included, into events. It is total:
// any ids give a well-formed list, the same however they arrive. It belongs to one
// goroutine and one answer.
//
// Well-formed: every Delta and End belongs to the message that the latest Start
// opened, salvage and accounting events apart, and every message that was begun is
// ended, at the latest by Close.
type Parser interface {
	// Push appends the events of the next id to dst.
	Push(dst []Event, id int32) []Event
	// Close appends the events of the end of the output. Nothing may be pushed afterwards.
	Close(dst []Event) []Event
}

// Facts are what New has to know of a model; ckpt.Model has them.
type Facts struct {
	Family    string            // "gpt-oss", "qwen3", …: the architecture
	Tokenizer *token.BPE        //
	Template  string            // Jinja text; "" = none
	Named     map[string]string // more of the model's own templates, by name; passed over where Template is Chosen
	Chosen    bool              // somebody wants this template in place of the model's own
	Special   map[string]string // bos_token, eos_token, … as the template spells them
	Stops     []int32           // ids that end an answer, ascending
}

// ErrNoTemplate is what New returns for a model that came without a chat template
// and whose family has no format of its own.
var ErrNoTemplate = errors.New("the checkpoint has no chat template")

// ErrFixed is what New returns where a template is chosen for a model whose format is
// code: its answers would not be read as that template has them.
var ErrFixed = errors.New("gpt-oss was trained on one format, harmony, which is not written by a template here")

// ErrWhole is what Render returns where a prompt cannot be gone on with
// (Conversation.Since): the conversation has to be rendered as a whole.
var ErrWhole = errors.New("the chat template does not tell what follows an answer")

// New picks the format of a model: harmony for gpt-oss, the code for Qwen3 where it
// writes what the template writes, and the template for all others.
func New(facts Facts) (Format, error) {
	// A chosen template says nothing of the model: then its vocabulary alone decides
	// whether it speaks harmony.
	if facts.Family == "gpt-oss" {
		own := facts
		if facts.Chosen {
			own.Template = ""
		}
		if harmony := newHarmony(own); harmony != nil && facts.Chosen {
			return nil, ErrFixed
		} else if harmony != nil {
			return harmony, nil
		}
	}
	template, err := newTemplate(facts)
	if err != nil && !errors.Is(err, ErrNoTemplate) {
		return nil, err
	}
	if coded := newQwen(facts, template); coded != nil {
		return coded, nil
	}
	if template == nil {
		return nil, err
	}
	return template, nil
}

// An Error says what in a conversation cannot be rendered: the caller's fault.
type Error struct {
	Turn     int  // index into Conversation.Turns, -1 = none in particular
	Tool     int  // index into Conversation.Tools, -1 = none in particular
	Tools    bool // Conversation.Tools are at fault, all of them
	Response bool // Conversation.Response is at fault
	Problem  string
}

// Error says which turn or tool it is, and why.
func (e *Error) Error() string {
	switch {
	case e.Turn >= 0:
		return fmt.Sprintf("turn %d: %s", e.Turn, e.Problem)
	case e.Tool >= 0:
		return fmt.Sprintf("tool %d: %s", e.Tool, e.Problem)
	}
	return e.Problem
}

// turnError is the fault of one turn, generalError of none in particular.
func turnError(turn int, format string, args ...any) error {
	return &Error{Turn: turn, Tool: -1, Problem: fmt.Sprintf(format, args...)}
}

func generalError(format string, args ...any) error { return turnError(-1, format, args...) }

// stops returns the model's stop ids and the given ones, ascending.
func stops(f Facts, more ...int32) []int32 {
	all := append(slices.Clone(f.Stops), more...)
	slices.Sort(all)
	return slices.Compact(all)
}
