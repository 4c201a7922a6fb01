package chat

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"ossian/internal/chat/calljson"
	"ossian/internal/chat/declare"
	"ossian/internal/chat/fence"
	"ossian/internal/chat/mask"
	"ossian/internal/chat/shown"
	"ossian/internal/jinja"
	"ossian/internal/token"
)

// A template renders conversations with the Jinja text that came with the model.
// Tool calls are shown as far as it can express them. Where it writes them between
// <tool_call> and </tool_call>, single ids, they are recognised there, else as objects
// with a name that the answer begins with (bareReader).
type template struct {
	tok     *token.BPE
	tmpl    *jinja.Template
	toolUse *jinja.Template // where tools are offered; nil = tmpl
	special map[string]string
	fence   *fence.Fence
	tags    tags
	stops   []int32
	textIDs mask.Text
	bare    string // the member that holds the arguments of calls without tags; "" = calls have tags
	shows   bool   // tools are shown
	single  bool   // a turn with several calls is refused
}

// newTemplate compiles the templates of a model, and tries what they do with calls and
// tools: nothing else tells.
func newTemplate(facts Facts) (*template, error) {
	named := facts.Named
	if facts.Chosen {
		named = nil
	}
	text := cmp.Or(facts.Template, named["default"], named["tool_use"])
	if text == "" {
		return nil, ErrNoTemplate
	}
	tmpl, err := jinja.Compile(text)
	if err != nil {
		return nil, err // which says that it is the template's
	}
	made := &template{tok: facts.Tokenizer, tmpl: tmpl, special: facts.Special, fence: fence.New(facts.Tokenizer), tags: findTags(facts.Tokenizer), stops: stops(facts)}
	if text := named["tool_use"]; text != "" {
		if made.toolUse, err = jinja.Compile(text); err != nil {
			return nil, fmt.Errorf("chat template tool_use: %w", err)
		}
	}
	made.shows = made.showsTools()
	if made.bare = made.bareCalls(); made.bare != "" {
		made.tags.callOpen, made.tags.callClose = -1, -1
		// Calls of Llama may end in two ways, of which files often name one.
		for _, name := range []string{"<|eot_id|>", "<|eom_id|>"} {
			if id, ok := facts.Tokenizer.ID(name); ok {
				made.stops = stops(facts, append(made.stops, id)...)
			}
		}
	}
	made.textIDs = made.tags.text(facts.Tokenizer)
	return made, nil
}

// bareCalls finds out how calls are written, and returns the member in which calls without
// tags have their arguments, "" where they have tags. Where a template writes calls in
// another form, or none, models are made to write them so where they must call.
func (t *template) bareCalls() string {
	probe := shown.Mark(0)
	text, found := t.writtenCall(probe)
	at := strings.Index(text, probe)
	open := strings.LastIndex(text[:max(at, 0)], "{")
	tagged := t.tags.callOpen >= 0
	// No call was written, or none that holds its arguments as an object.
	if !found || open < 0 {
		if tagged {
			return ""
		}
		return "arguments"
	}
	name, begin, verdict := calljson.Bare([]byte(text[open:]), func(name string) bool { return name == probe })
	switch {
	case tagged && (verdict == calljson.Never || strings.HasSuffix(strings.TrimSpace(text[:open]), "<tool_call>")):
		return ""
	case verdict == calljson.Begun && name == probe && strings.Contains(text[open:open+begin], `"parameters"`):
		return "parameters"
	}
	return "arguments"
}

// writtenCall returns a usual conversation in which the template writes a call of the
// function probe, and whether there is one. It notes whether several calls are refused.
func (t *template) writtenCall(probe string) (text string, found bool) {
	calls := []Call{{ID: "probe0000", Name: probe, Arguments: `{"a": 1}`}, {ID: "probe0001", Name: probe, Arguments: `{"a": 2}`}}
	var offered []Tool
	if t.toolUse != nil { // which writes calls as well
		offered = []Tool{{Name: "another"}}
	}
	for _, tools := range [][]Tool{offered, {{Name: "another"}}} {
		for _, turns := range usual() {
			called := func(count int) (string, error) {
				with := append(slices.Clip(turns), Turn{Role: Assistant, Calls: calls[:count]})
				return t.text(&Conversation{Turns: with, Tools: tools, NoPrompt: true, Now: time.Unix(0, 0)})
			}
			one, err := called(1)
			_, several := called(2)
			t.single = t.single || (err == nil && several != nil)
			if one = fence.Plain(one); err == nil && strings.Contains(one, probe) {
				return one, true
			}
		}
	}
	return "", false
}

// Tools implements Format.
func (t *template) Tools() bool { return t.shows }

// Stops implements Format.
func (t *template) Stops() []int32 { return t.stops }

// Render implements Format.
func (t *template) Render(prompt *token.Prompt, conv *Conversation) error {
	offers := len(conv.Builtins) > 0 && !conv.NoCalls
	conv, _ = conv.withFunctions()
	if conv.Since > 0 {
		return t.since(prompt, conv)
	}
	text, err := t.text(conv)
	if err != nil {
		return err
	}
	if err := t.judge(conv, text); err != nil {
		return err
	}
	// Whether results can be shown matters only where built-in tools are offered.
	if offers {
		if err := t.answers(conv); err != nil {
			return err
		}
	}
	prompt.Begin(text)
	fence.Write(prompt, text)
	return nil
}

// answers refuses a conversation whose last tool is one that the server runs where the template
// has no place for a call of it or for what that gives.
func (t *template) answers(conv *Conversation) error {
	const id = "probe0000"
	probe := *conv
	probe.Continue = false
	probe.Turns = append(slices.Clip(conv.Turns), Turn{Role: Assistant, Calls: []Call{{ID: id, Name: conv.Tools[len(conv.Tools)-1].Name, Arguments: "{}"}}},
		Turn{Role: ToolRole, CallID: id, Parts: []string{"-"}})
	text, err := t.text(&probe)
	if err == nil {
		err = t.judge(&probe, text)
	}
	if err != nil {
		return &Error{Turn: -1, Tool: -1, Tools: true, Problem: "the model's chat template has no place for tools that the server runs: " + err.Error()}
	}
	return nil
}

// since writes what follows the prompt before turn Since: its ids, and what of the text is
// behind the end of that turn.
func (t *template) since(prompt *token.Prompt, conv *Conversation) error {
	until := *conv
	until.Turns, until.NoPrompt = conv.Turns[:conv.Since+1], true
	before, err := t.text(&until)
	if err != nil {
		return ErrWhole
	}
	text, err := t.text(conv)
	rest, ok := strings.CutPrefix(text, before)
	if err != nil || !ok {
		return ErrWhole
	}
	// What the template writes behind the id that ends an answer, such as a line break.
	ids := conv.Turns[conv.Since].Output
	last := len(ids) - 1
	if last < 0 || !slices.Contains(t.stops, ids[last]) {
		return ErrWhole
	}
	end := t.tok.Text(ids[last])
	at := strings.LastIndex(before, end)
	if at < 0 || strings.Trim(before[at+len(end):], " \n") != "" {
		return ErrWhole
	}
	for _, id := range ids {
		prompt.Control(id)
	}
	fence.Write(prompt, before[at+len(end):]+rest)
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
	tmpl := t.tmpl
	if t.toolUse != nil && len(conv.offered()) > 0 {
		tmpl = t.toolUse
	}
	text, err := tmpl.Render(vars, clock)
	if raised, ok := errors.AsType[*jinja.RaisedError](err); ok {
		return "", generalError("the chat template refuses the conversation: %s", raised.Message)
	}
	if err != nil { // a template that renders others has no place for something in this one
		return "", generalError("the chat template cannot render the conversation: %v", err)
	}
	if !conv.Continue {
		return text, nil
	}
	end := strings.LastIndex(text, fence.OpenEnd)
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
		vars.Set("model_identity", t.fence.Text(conv.Identity))
	}
	if len(conv.Vars) > 0 {
		value, err := jinja.FromJSON(conv.Vars)
		more, ok := value.(*jinja.Dict)
		if err != nil || !ok {
			return nil, generalError("template variables: a JSON object expected")
		}
		for i := range more.Len() {
			name, value := more.Entry(i)
			vars.Set(name.(string), t.fence.Value(value))
		}
	}
	turns := conv.Turns
	if t.single {
		turns = oneByOne(turns)
	}
	messages := make([]jinja.Value, len(turns))
	for i := range turns {
		messages[i] = t.message(&turns[i], conv.Continue && i == len(turns)-1)
	}
	vars.Set("messages", jinja.NewList(messages...))
	vars.Set("add_generation_prompt", !conv.NoPrompt && !conv.Continue)
	tools, err := conv.declarations()
	if err != nil {
		return nil, err
	}
	vars.Set("tools", nil)
	if len(tools) > 0 {
		vars.Set("tools", t.fence.Value(jinja.NewList(tools...)))
	}
	for name, text := range t.special {
		vars.Set(name, text)
	}
	return vars, nil
}

// oneByOne returns turns as if every call had been made and answered alone.
func oneByOne(turns []Turn) (all []Turn) {
	for at := 0; at < len(turns); at++ {
		turn := turns[at]
		if len(turn.Calls) < 2 {
			all = append(all, turn)
			continue
		}
		end := at + 1 // of its results
		for end < len(turns) && turns[end].Role == ToolRole {
			end++
		}
		results := slices.Clone(turns[at+1 : end])
		for i := range turn.Calls {
			one := Turn{Role: Assistant, Calls: turn.Calls[i : i+1]}
			if i == 0 { // what was said before the calls
				one.Parts, one.Reasoning = turn.Parts, turn.Reasoning
			}
			all = append(all, one)
			if of := slices.IndexFunc(results, func(result Turn) bool { return result.CallID == turn.Calls[i].ID }); of >= 0 {
				all = append(all, results[of])
				results = slices.Delete(results, of, of+1)
			}
		}
		all = append(all, results...)
		at = end - 1
	}
	return all
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
	content := t.fence.Text(text)
	if open {
		content += fence.OpenEnd
	}
	msg.Set("content", content)
	if turn.Name != "" {
		msg.Set("name", t.fence.Text(turn.Name))
	}
	if reasoning != "" {
		// The names that published templates read it from.
		for _, name := range []string{"reasoning_content", "reasoning", "thinking"} {
			msg.Set(name, t.fence.Text(reasoning))
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
		msg.Set("tool_call_id", t.fence.Text(turn.CallID))
	}
	return msg
}

// call is a call as the reference library has it: templates expect the arguments
// as a mapping, and get text only where they are none.
func (t *template) call(call Call) *jinja.Dict {
	function := jinja.NewDict()
	function.Set("name", t.fence.Text(call.Name))
	function.Set("arguments", t.fence.Text(call.Arguments))
	if arguments, err := jinja.FromJSON([]byte(call.object())); err == nil {
		if wrapped, ok := arguments.(*jinja.Dict); ok {
			function.Set("arguments", t.fence.Value(wrapped))
		}
	}
	wrapped := jinja.NewDict()
	wrapped.Set("id", t.fence.Text(call.ID))
	wrapped.Set("type", "function")
	wrapped.Set("function", function)
	return wrapped
}

// declarations returns the offered tools as models are shown them in JSON.
func (c *Conversation) declarations() ([]jinja.Value, error) {
	var all []jinja.Value
	for i, tool := range c.offered() {
		if tool.Unshown {
			continue
		}
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
	parameters := t.Parameters
	if t.Input != JSON {
		parameters = json.RawMessage(t.Input.schema())
	}
	return declare.Function(t.Name, t.Description, parameters)
}

// Parser implements Format.
func (t *template) Parser(c *Conversation) Parser {
	c, recipients := c.withFunctions()
	return withRecipients(withTextTools(newTagParser(t.tok, t.tags, t.bare != "", t.stops, c, t.begins(c)), c, wrapped), recipients)
}

// Constraint implements Format.
func (t *template) Constraint(c *Conversation, r *Rules, compile Compile) (func() Constraint, error) {
	return newTagConstraint(&tagRules{tags: t.tags, textIDs: t.textIDs, stops: t.stops, bare: t.bare}, t.begins, c, r, compile)
}

// begins says where the template's prompt leaves the model: some open the reasoning.
func (t *template) begins(conv *Conversation) thinkPlace {
	// A conversation of one word is rendered and what follows the word is looked at: only
	// the template itself knows.
	const user = "\uFDD2" // no template writes it
	short := &Conversation{Turns: []Turn{{Role: User, Parts: []string{user}}}, Effort: conv.Effort, Now: conv.Now, Vars: conv.Vars}
	if t.toolUse != nil { // tools choose the template
		short.Tools, short.NoCalls = conv.Tools, conv.NoCalls
	}
	if conv.Continue {
		short.Turns, short.Continue = append(short.Turns, conv.Turns[len(conv.Turns)-1]), true
	}
	state := beforeThinking
	if text, err := t.text(short); err == nil && t.tags.open >= 0 {
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
