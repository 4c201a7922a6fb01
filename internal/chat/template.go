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
	textIDs textIDs
}

func newTemplate(facts Facts) (*template, error) {
	if facts.Template == "" {
		return nil, ErrNoTemplate
	}
	tmpl, err := jinja.Compile(facts.Template)
	if err != nil {
		return nil, fmt.Errorf("chat template: %w", err)
	}
	made := &template{tok: facts.Tokenizer, tmpl: tmpl, special: facts.Special, fence: newFence(facts.Tokenizer), tags: findTags(facts.Tokenizer), stops: stops(facts)}
	made.textIDs = made.tags.textIDs(facts.Tokenizer)
	return made, nil
}

// Stops implements Format.
func (t *template) Stops() []int32 { return t.stops }

// Render implements Format.
func (t *template) Render(prompt *token.Prompt, conv *Conversation) error {
	text, err := t.text(conv)
	if err != nil {
		return err
	}
	prompt.Begin(text)
	unfence(prompt, text)
	return nil
}

// text renders conv, with marks where text must not become tokens.
func (t *template) text(conv *Conversation) (string, error) {
	vars, err := t.vars(conv)
	if err != nil {
		return "", err
	}
	var clock func() time.Time
	if !conv.Now.IsZero() {
		clock = func() time.Time { return conv.Now }
	}
	text, err := t.tmpl.Render(vars, clock)
	if raised, ok := errors.AsType[*jinja.RaisedError](err); ok {
		return "", generalError("the chat template refuses the conversation: %s", raised.Message)
	}
	if err != nil { // a template that renders others has no place for something in this one
		return "", generalError("the chat template cannot render the conversation: %v", err)
	}
	if !conv.Continue {
		return text, nil
	}
	end := strings.LastIndex(text, openEndMark)
	if end < 0 {
		return "", turnError(len(conv.Turns)-1, "the chat template leaves out the text that is to be continued")
	}
	return text[:end], nil
}

// vars are the variables of the reference library (formats.md 13).
func (t *template) vars(conv *Conversation) (*jinja.Dict, error) {
	if _, err := conv.check(); err != nil {
		return nil, err
	}
	// What comes later wins: effort and identity, Vars, then turns, tools, special tokens.
	vars := jinja.NewDict()
	vars.Set("documents", nil)
	switch conv.Effort {
	case "":
	case "none": // the switch of models that either think or do not
		vars.Set("enable_thinking", false)
	default:
		vars.Set("enable_thinking", true)
		vars.Set("reasoning_effort", conv.Effort)
	}
	if conv.Identity != "" {
		vars.Set("model_identity", t.fence.text(conv.Identity))
	}
	if len(conv.Vars) > 0 {
		value, err := jinja.FromJSON(conv.Vars)
		more, ok := value.(*jinja.Dict)
		if err != nil || !ok {
			return nil, generalError("template variables: a JSON object expected")
		}
		for i := range more.Len() {
			name, value := more.Entry(i)
			vars.Set(name.(string), t.fence.value(value))
		}
	}
	messages := make([]jinja.Value, len(conv.Turns))
	for i := range conv.Turns {
		messages[i] = t.message(&conv.Turns[i], conv.Continue && i == len(conv.Turns)-1)
	}
	vars.Set("messages", jinja.NewList(messages...))
	vars.Set("add_generation_prompt", !conv.NoPrompt && !conv.Continue)
	tools, err := conv.declarations()
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

// message is a turn; open leaves it to be continued.
func (t *template) message(turn *Turn, open bool) *jinja.Dict {
	msg := jinja.NewDict()
	msg.Set("role", roleNames[turn.Role])
	text, reasoning := turn.text(), turn.Reasoning
	if turn.Role == Assistant && reasoning == "" && t.tags.close >= 0 { // clients that know no reasoning sent it as text
		reasoning, text = splitThinking(text)
	}
	content := t.fence.text(text)
	if open {
		content += openEndMark
	}
	msg.Set("content", content)
	if turn.Name != "" {
		msg.Set("name", t.fence.text(turn.Name))
	}
	if reasoning != "" {
		// The names that published templates read it from.
		for _, name := range []string{"reasoning_content", "reasoning", "thinking"} {
			msg.Set(name, t.fence.text(reasoning))
		}
	}
	if len(turn.Calls) > 0 {
		calls := make([]jinja.Value, len(turn.Calls))
		for i, call := range turn.Calls {
			calls[i] = t.call(call)
		}
		msg.Set("tool_calls", jinja.NewList(calls...))
	}
	if turn.CallID != "" {
		msg.Set("tool_call_id", t.fence.text(turn.CallID))
	}
	return msg
}

// call is a call as the reference library has it: templates expect the arguments
// as a mapping, and get text only where they are none.
func (t *template) call(call Call) *jinja.Dict {
	function := jinja.NewDict()
	function.Set("name", t.fence.text(call.Name))
	function.Set("arguments", t.fence.text(call.Arguments))
	if arguments, err := jinja.FromJSON([]byte(call.object())); err == nil {
		if wrapped, ok := arguments.(*jinja.Dict); ok {
			function.Set("arguments", t.fence.value(wrapped))
		}
	}
	wrapped := jinja.NewDict()
	wrapped.Set("id", t.fence.text(call.ID))
	wrapped.Set("type", "function")
	wrapped.Set("function", function)
	return wrapped
}

// declarations returns the offered tools as models are shown them in JSON.
func (c *Conversation) declarations() ([]jinja.Value, error) {
	var all []jinja.Value
	for i, tool := range c.offered() {
		declared, err := jinja.FromJSON(tool.declaration())
		if err != nil {
			return nil, &Error{Turn: -1, Tool: i, Problem: err.Error()}
		}
		all = append(all, declared)
	}
	return all, nil
}

// declaration is the tool in the form {"type": "function", "function": {…}}.
func (t *Tool) declaration() json.RawMessage {
	if t.JSON != nil && t.Input == JSON {
		return t.JSON
	}
	// Members in the order in which published declarations have them; templates print it.
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

// quoted is s as a JSON string.
func quoted(s string) []byte {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings have a JSON form
	}
	return text
}

// Parser implements Format.
func (t *template) Parser(c *Conversation) Parser {
	return withTextTools(newTagParser(t.tok, t.tags, t.stops, c, t.begins(c)), c, wrapped)
}

// Constraint implements Format.
func (t *template) Constraint(c *Conversation, r *Rules, compile Compile) (func() Constraint, error) {
	return newTagConstraint(&tagRules{tags: t.tags, textIDs: t.textIDs, stops: t.stops}, t.begins, c, r, compile)
}

// begins says where the template's prompt leaves the model: some open the reasoning.
func (t *template) begins(conv *Conversation) thinkPlace {
	// A conversation of one word is rendered and what follows the word is looked at: only
	// the template itself knows.
	const user = "\uFDD2" // no template writes it
	probe := &Conversation{Turns: []Turn{{Role: User, Parts: []string{user}}}, Effort: conv.Effort, Now: conv.Now, Vars: conv.Vars}
	if conv.Continue {
		probe.Turns, probe.Continue = append(probe.Turns, conv.Turns[len(conv.Turns)-1]), true
	}
	state := beforeThinking
	if text, err := t.text(probe); err == nil && t.tags.open >= 0 {
		tail := text[max(strings.LastIndex(text, user), 0):]
		opened, closed := strings.LastIndex(tail, "<think>"), strings.LastIndex(tail, "</think>")
		switch {
		case opened > closed:
			state = insideThinking
		case closed >= 0:
			state = behindThinking
		}
	}
	return state
}
