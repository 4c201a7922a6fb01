package chat

import (
	"cmp"
	"strings"

	"ossian/internal/chat/calljson"
	"ossian/internal/chat/declare"
)

// textSchema is what families that write all calls as JSON have for a tool that takes
// text: the arguments that their templates can show.
const textSchema = `{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}`

// codeSchema is the same of a program.
const codeSchema = `{"type":"object","properties":{"code":{"type":"string"}},"required":["code"],"additionalProperties":false}`

// schema is what a tool takes that takes text, as an object.
func (in Input) schema() string {
	if in == code {
		return codeSchema
	}
	return textSchema
}

// object is the arguments as such families write them. Who has none may have sent nothing.
func (c *Call) object() string {
	if !c.Text {
		return cmp.Or(strings.TrimSpace(c.Arguments), "{}")
	}
	member := "input"
	if c.code {
		member = "code"
	}
	return `{"` + member + `":` + string(declare.Quoted(c.Arguments)) + `}`
}

// A textToolParser takes the text out of calls of tools that take text. What begins like
// JSON waits for its end.
type textToolParser struct {
	Parser
	texts map[string]bool // the tools whose text may be wrapped

	fresh   []Event // scratch
	waiting bool    // in a call of theirs whose text may be wrapped
	held    strings.Builder
}

// wrapped reports whether families that write all calls as JSON wrap a tool's input.
func wrapped(in Input) bool { return in != JSON }

// withTextTools returns parser, with the text taken out where input says that it may be wrapped.
func withTextTools(parser Parser, c *Conversation, input func(Input) bool) Parser {
	textual := &textToolParser{Parser: parser, texts: map[string]bool{}}
	for _, tool := range c.Tools {
		if input(tool.Input) {
			textual.texts[tool.Name] = true
		}
	}
	if len(textual.texts) == 0 {
		return parser
	}
	return textual
}

// Push implements Parser.
func (t *textToolParser) Push(dst []Event, id int32) []Event {
	t.fresh = t.Parser.Push(t.fresh[:0], id)
	return t.read(dst)
}

// Close implements Parser.
func (t *textToolParser) Close(dst []Event) []Event {
	t.fresh = t.Parser.Close(t.fresh[:0])
	return t.read(dst)
}

// read passes fresh on. Deltas of a call that waits lose their text, but stay: they
// account for ids.
func (t *textToolParser) read(dst []Event) []Event {
	for _, event := range t.fresh {
		switch {
		case event.Part != Calling:
		case event.Kind == Start:
			t.waiting = t.texts[event.Name]
			t.held.Reset()
		case !t.waiting:
		case event.Kind == Delta:
			// The first character tells: JSON waits for End, other text is what was meant.
			t.held.WriteString(event.Text)
			event.Text, event.Bytes = "", ""
			if begins := strings.TrimLeft(t.held.String(), " \t\r\n"); begins != "" && begins[0] != '"' && begins[0] != '{' {
				event.Text, event.Bytes, t.waiting = t.held.String(), t.held.String(), false
			}
		case event.Kind == End:
			if text := calljson.Unwrap(t.held.String(), event.Cut); text != "" {
				dst = append(dst, Event{Kind: Delta, Part: Calling, Text: text, Bytes: text, Token: event.Token, Call: event.Call})
			}
			t.waiting = false
		}
		dst = append(dst, event)
	}
	return dst
}
