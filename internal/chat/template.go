package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"ossian/internal/jinja"
	"ossian/internal/token"
)

// A template renders conversations with the Jinja text that came with the model.
// Tool calls are shown as far as it can express them, and recognised where they
// stand between <tool_call> and </tool_call> as single ids.
type template struct {
	tok     *token.BPE
	tmpl    *jinja.Template
	special map[string]string
	fence   *fence
	tags    tags
	stops   []int32
	words   words
}

func newTemplate(f Facts) (*template, error) {
	if f.Template == "" {
		return nil, ErrNoTemplate
	}
	tmpl, err := jinja.Compile(f.Template)
	if err != nil {
		return nil, fmt.Errorf("chat template: %w", err)
	}
	t := &template{tok: f.Tokenizer, tmpl: tmpl, special: f.Special, fence: newFence(f.Tokenizer), tags: findTags(f.Tokenizer), stops: stops(f)}
	t.words = t.tags.words(f.Tokenizer)
	return t, nil
}

// Stops implements Format.
func (t *template) Stops() []int32 { return t.stops }

// Render implements Format.
func (t *template) Render(p *token.Prompt, c *Conversation) error {
	text, err := t.text(c)
	if err != nil {
		return err
	}
	p.Begin(text)
	unfence(p, text)
	return nil
}

// text renders c, with marks where text must not become tokens.
func (t *template) text(c *Conversation) (string, error) {
	vars, err := t.vars(c)
	if err != nil {
		return "", err
	}
	var clock func() time.Time
	if !c.Now.IsZero() {
		clock = func() time.Time { return c.Now }
	}
	text, err := t.tmpl.Render(vars, clock)
	if raised, ok := errors.AsType[*jinja.RaisedError](err); ok {
		return "", generalError("the chat template refuses the conversation: %s", raised.Message)
	}
	if err != nil { // a template that renders others has no place for something in this one
		return "", generalError("the chat template cannot render the conversation: %v", err)
	}
	if !c.Continue {
		return text, nil
	}
	end := strings.LastIndex(text, stop)
	if end < 0 {
		return "", turnError(len(c.Turns)-1, "the chat template leaves out the text that is to be continued")
	}
	return text[:end], nil
}

// vars are the variables of the reference library (formats.md 13).
func (t *template) vars(c *Conversation) (*jinja.Dict, error) {
	if _, err := c.check(); err != nil {
		return nil, err
	}
	vars := jinja.NewDict()
	vars.Set("documents", nil)
	switch c.Effort {
	case "":
	case "none": // the switch of models that either think or do not
		vars.Set("enable_thinking", false)
	default:
		vars.Set("enable_thinking", true)
		vars.Set("reasoning_effort", c.Effort)
	}
	if c.Identity != "" {
		vars.Set("model_identity", t.fence.text(c.Identity))
	}
	if len(c.Vars) > 0 {
		v, err := jinja.FromJSON(c.Vars)
		more, ok := v.(*jinja.Dict)
		if err != nil || !ok {
			return nil, generalError("template variables: a JSON object expected")
		}
		for i := range more.Len() {
			name, v := more.Entry(i)
			vars.Set(name.(string), t.fence.value(v))
		}
	}
	messages := make([]jinja.Value, len(c.Turns))
	for i := range c.Turns {
		messages[i] = t.message(&c.Turns[i], c.Continue && i == len(c.Turns)-1)
	}
	vars.Set("messages", jinja.NewList(messages...))
	vars.Set("add_generation_prompt", !c.NoPrompt && !c.Continue)
	tools, err := c.declarations()
	if err != nil {
		return nil, err
	}
	vars.Set("tools", nil)
	if len(tools) > 0 {
		vars.Set("tools", t.fence.value(jinja.NewList(tools...)))
	}
	for name, text := range t.special {
		vars.Set(name, text)
	}
	return vars, nil
}

// roleNames are the roles that templates know: for most, a developer is none.
var roleNames = [...]string{System: "system", Developer: "system", User: "user", Assistant: "assistant", ToolRole: "tool"}

func (t *template) message(turn *Turn, open bool) *jinja.Dict {
	m := jinja.NewDict()
	m.Set("role", roleNames[turn.Role])
	text, reasoning := turn.text(), turn.Reasoning
	if turn.Role == Assistant && reasoning == "" && t.tags.close >= 0 {
		reasoning, text = splitThinking(text)
	}
	content := t.fence.text(text)
	if open {
		content += stop
	}
	m.Set("content", content)
	if turn.Name != "" {
		m.Set("name", t.fence.text(turn.Name))
	}
	if reasoning != "" {
		// The names that published templates read it from.
		for _, name := range []string{"reasoning_content", "reasoning", "thinking"} {
			m.Set(name, t.fence.text(reasoning))
		}
	}
	if len(turn.Calls) > 0 {
		calls := make([]jinja.Value, len(turn.Calls))
		for i, call := range turn.Calls {
			calls[i] = t.call(call)
		}
		m.Set("tool_calls", jinja.NewList(calls...))
	}
	if turn.CallID != "" {
		m.Set("tool_call_id", t.fence.text(turn.CallID))
	}
	return m
}

// call is a call as the reference library has it: templates expect the arguments
// as a mapping, and get text only where they are none.
func (t *template) call(call Call) *jinja.Dict {
	f := jinja.NewDict()
	f.Set("name", t.fence.text(call.Name))
	f.Set("arguments", t.fence.text(call.Arguments))
	if v, err := jinja.FromJSON([]byte(call.object())); err == nil {
		if d, ok := v.(*jinja.Dict); ok {
			f.Set("arguments", t.fence.value(d))
		}
	}
	d := jinja.NewDict()
	d.Set("id", t.fence.text(call.ID))
	d.Set("type", "function")
	d.Set("function", f)
	return d
}

// declarations returns the offered tools as models are shown them in JSON.
func (c *Conversation) declarations() ([]jinja.Value, error) {
	var all []jinja.Value
	for i, tool := range c.offered() {
		v, err := jinja.FromJSON(tool.declaration())
		if err != nil {
			return nil, &Error{Turn: -1, Tool: i, Problem: err.Error()}
		}
		all = append(all, v)
	}
	return all, nil
}

// declaration is the tool in the form {"type": "function", "function": {…}}.
func (t *Tool) declaration() json.RawMessage {
	if t.JSON != nil && t.Input == JSON {
		return t.JSON
	}
	var out bytes.Buffer
	out.WriteString(`{"type":"function","function":{"name":`)
	out.Write(quoted(t.Name))
	if t.Description != "" {
		out.WriteString(`,"description":`)
		out.Write(quoted(t.Description))
	}
	parameters := t.Parameters
	if t.Input != JSON {
		parameters = json.RawMessage(textSchema)
	}
	if parameters != nil {
		out.WriteString(`,"parameters":`)
		out.Write(parameters)
	}
	out.WriteString(`}}`)
	return out.Bytes()
}

func quoted(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings have a JSON form
	}
	return b
}

// Parser implements Format.
func (t *template) Parser(c *Conversation) Parser {
	return withTexts(newTagParser(t.tok, t.tags, t.stops, c, t.begins(c)), c, wrapped)
}

// Constraint implements Format.
func (t *template) Constraint(c *Conversation, r *Rules, compile Compile) (func() Constraint, error) {
	return newTagConstraint(&tagRules{tags: t.tags, words: t.words, stops: t.stops}, t.begins, c, r, compile)
}

// begins says where the template's prompt leaves the model: some open the reasoning.
func (t *template) begins(c *Conversation) thinking {
	const user = "\uFDD2" // no template writes it
	probe := &Conversation{Turns: []Turn{{Role: User, Parts: []string{user}}}, Effort: c.Effort, Now: c.Now, Vars: c.Vars}
	if c.Continue {
		probe.Turns, probe.Continue = append(probe.Turns, c.Turns[len(c.Turns)-1]), true
	}
	state := mayThink
	if text, err := t.text(probe); err == nil && t.tags.open >= 0 {
		tail := text[max(strings.LastIndex(text, user), 0):]
		opened, closed := strings.LastIndex(tail, "<think>"), strings.LastIndex(tail, "</think>")
		switch {
		case opened > closed:
			state = thinks
		case closed >= 0:
			state = thought
		}
	}
	return state
}
