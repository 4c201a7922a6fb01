package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"ossian/internal/chat"
	"ossian/internal/host"
	"ossian/internal/token"
	"ossian/internal/wire"
)

// chat answers POST /v1/chat/completions. What prepares a job returns before it
// runs: while tokens come, the stack holds nothing else.
func (s *Server) chat(w *reply, r *http.Request, c *caller, body []byte) error {
	j, err := s.chatJob(w, r, c, body)
	if err != nil {
		return err
	}
	s.release(c)
	return j.drive(r.Context())
}

func (s *Server) chatJob(w *reply, r *http.Request, c *caller, body []byte) (*job, error) {
	q, err := wire.DecodeChat(body, s.lim())
	if err != nil {
		return nil, err
	}
	if err := s.ignored(w, q.Ignored); err != nil {
		return nil, err
	}
	if err := q.Validate(s.lim()); err != nil {
		return nil, err
	}
	field, err := s.reasoningField(r)
	if err != nil {
		return nil, err
	}
	m, err := s.find(q.Model)
	if err != nil {
		return nil, err
	}
	if err := chatLater(q); err != nil {
		return nil, err
	}
	rules, at, err := chatRules(q)
	if err != nil {
		return nil, err
	}
	prompt, conv, err := s.render(m, q)
	if err != nil {
		return nil, err
	}
	ids, err := s.encode(w, m, "messages", prompt, q.TruncatePrompt, q.MaxOutput())
	if err != nil {
		return nil, err
	}
	g := &generation{Sampling: &q.Sampling, prompts: [][]int32{ids}, most: q.MaxOutput()}
	if q.Logprobs {
		top := int64(0)
		if q.TopLogprobs != nil {
			top = *q.TopLogprobs
		}
		g.logprobs = &top
	}
	if g.held, err = s.constrain(r.Context(), w, m, conv, rules, at); err != nil {
		return nil, err
	}
	if last := q.Messages[len(q.Messages)-1]; q.Echo && last.Role == "assistant" {
		g.echo = []string{strings.Join(last.Content, "\n")}
	}
	p := s.plan(m, g.Sampling, g.logprobs)
	p.showReasoning = q.ShowReasoning()
	p.oneCall, p.named = rules.OneCall, q.ToolChoice.Mode == "named"
	p.customs = customs(q.Tools)
	g.parser = func() chat.Parser { return m.Format.Parser(conv) }
	enc := &chatEncoder{s: s, head: s.head("chatcmpl-", q.RequestID, m), field: field, logprobs: q.Logprobs}
	if q.ReturnTokenIDs {
		enc.promptIDs = ids
	}
	enc.stream = wire.NewChatStream(enc.head, q.StreamOptions, field)
	return s.newJob(w, r, c, m, p, g, enc)
}

// customs returns the names of the custom tools.
func customs(tools []wire.Tool) (names []string) {
	for i := range tools {
		if tools[i].Type == "custom" {
			names = append(names, tools[i].Name)
		}
	}
	return names
}

// chatRules returns what the answers to a request are held to.
func chatRules(q *wire.ChatRequest) (*chat.Rules, places, error) {
	answer, at, err := form(&q.Sampling)
	at.tool = func(i int) string {
		if t := &q.Tools[i]; t.Type == "custom" {
			return fmt.Sprintf("tools[%d].%s", i, toolPlace(t))
		}
		return fmt.Sprintf("tools[%d].function.parameters", i)
	}
	r := &chat.Rules{Answer: answer, Thinking: budget(q.ThinkingTokens())}
	r.Tools, r.MustCall, r.OneCall = toolRules(q.Tools, &q.ToolChoice, q.ParallelToolCalls)
	return r, at, err
}

// chatLater refuses what later versions do.
func chatLater(q *wire.ChatRequest) error {
	if err := later(&q.Sampling); err != nil {
		return err
	}
	if q.WebSearch != nil {
		return wire.Unsupported("web_search_options", "built-in tools are not supported")
	}
	for i := range q.Tools {
		if t := q.Tools[i].Type; t != "function" && t != "custom" {
			return wire.Unsupported(fmt.Sprintf("tools[%d].type", i), "only tools of type function or custom are supported")
		}
	}
	return nil
}

var roles = map[string]chat.Role{"system": chat.System, "developer": chat.Developer, "user": chat.User, "assistant": chat.Assistant, "tool": chat.ToolRole}

// conversation translates a request.
func (s *Server) conversation(q *wire.ChatRequest) *chat.Conversation {
	c := &chat.Conversation{Effort: q.Effort(), Now: s.cfg.Clock(), Vars: q.TemplateArgs, Continue: q.ContinueFinal, NoCalls: q.ToolChoice.Mode == "none",
		NoPrompt: q.AddGenerationPrompt != nil && !*q.AddGenerationPrompt && !q.ContinueFinal}
	if f := q.ResponseFormat; f != nil && f.Type == "json_schema" {
		c.Response = &chat.ResponseFormat{Name: f.JSONSchema.Name, Description: f.JSONSchema.Description, Schema: f.JSONSchema.Schema}
	}
	for i := range q.Messages {
		msg := &q.Messages[i]
		t := chat.Turn{Role: roles[msg.Role], Name: msg.Name, Parts: msg.Content, Reasoning: msg.Reasoning, CallID: msg.ToolCallID}
		if msg.Refusal != "" {
			t.Parts = append(slices.Clone(t.Parts), msg.Refusal)
		}
		for _, call := range msg.ToolCalls {
			t.Calls = append(t.Calls, chat.Call{ID: call.ID, Name: call.Name, Arguments: call.Arguments, Text: call.Custom})
		}
		c.Turns = append(c.Turns, t)
	}
	for i := range q.Tools {
		c.Tools = append(c.Tools, chatTool(&q.Tools[i]))
	}
	return c
}

// render returns the prompt of a request, and what parsers have to know of the
// conversation: a stream does not keep the request's body.
func (s *Server) render(m *host.Model, q *wire.ChatRequest) (*token.Prompt, *chat.Conversation, error) {
	c := s.conversation(q)
	p, err := s.write(m, "messages", c)
	if err != nil {
		return nil, nil, err
	}
	return p, known(c), nil
}

// write returns the prompt of a conversation that came in a field of the request.
func (s *Server) write(m *host.Model, param string, c *chat.Conversation) (*token.Prompt, error) {
	if m.Format == nil {
		return nil, wire.Unsupported(param, "this model has no chat template: use /v1/completions")
	}
	p := m.Tokenizer.Prompt()
	if err := m.Format.Render(p, c); err != nil {
		if _, ok := errors.AsType[*chat.Error](err); !ok {
			s.log.Warn("chat template failed", "error", err)
			err = wire.Invalid(param, "the model's chat template cannot write this conversation")
		}
		return nil, err
	}
	return p, nil
}

// known returns what parsers have to know of a conversation.
func known(c *chat.Conversation) *chat.Conversation {
	known := *c
	known.Response = nil // part of the body
	if known.Turns = nil; c.Continue {
		known.Turns = c.Turns[len(c.Turns)-1:]
	}
	known.Tools = make([]chat.Tool, len(c.Tools))
	for i := range c.Tools {
		known.Tools[i] = chat.Tool{Name: c.Tools[i].Name, Input: c.Tools[i].Input}
	}
	known.Vars = json.RawMessage(bytes.Clone(c.Vars))
	return &known
}

// encode returns the ids of a prompt, or says that they are too many. Where the bytes
// alone show it, nothing is encoded: a body can hold millions of tokens.
func (s *Server) encode(w *reply, m *host.Model, param string, p *token.Prompt, keep, most *int64) ([]int32, error) {
	if n := p.AtLeast(); keep == nil && n >= m.Engine.Capacity() {
		return nil, s.tooLong(m, param, fmt.Sprintf("at least %d", n), most)
	}
	return s.fit(w, m, param, p.IDs(), keep, most)
}

// fit applies truncate_prompt_tokens, reports what it did, and refuses a prompt that
// leaves no room for output (LIF-7). most is what was asked for; nil = as much as fits.
func (s *Server) fit(w *reply, m *host.Model, param string, ids []int32, keep, most *int64) ([]int32, error) {
	room := m.Engine.Capacity() - 1
	if most != nil {
		room = int(max(int64(m.Engine.Capacity())-*most, 1))
	}
	ids, dropped := truncate(ids, keep, room)
	if dropped > 0 {
		w.Header().Set("x-ossian-truncated", strconv.Itoa(dropped))
	}
	if len(ids) >= m.Engine.Capacity() {
		return nil, s.tooLong(m, param, strconv.Itoa(len(ids)), most)
	}
	return ids, nil
}

// reasoningField is under which name the reply has reasoning.
func (s *Server) reasoningField(r *http.Request) (wire.ReasoningField, error) {
	text := r.Header.Get("x-ossian-reasoning-field")
	if text == "" {
		return s.cfg.ReasoningField, nil
	}
	f, ok := wire.ParseReasoningField(text)
	if !ok {
		return f, wire.Invalid("x-ossian-reasoning-field", "reasoning, reasoning_content or both expected")
	}
	return f, nil
}

// find returns the model of that name.
func (s *Server) find(name string) (*host.Model, error) {
	m, err := s.host.Find(name)
	if errors.Is(err, host.ErrNotFound) {
		return nil, &wire.Error{Message: fmt.Sprintf("the model %.200q does not exist; %q does", name, s.host.Names[0]), Type: wire.TypeInvalidRequest,
			Param: "model", Code: wire.CodeModelNotFound}
	}
	return m, err
}

// head is what replies and chunks begin with.
func (s *Server) head(prefix, id string, m *host.Model) wire.Head {
	if id == "" || len(id) > 256 {
		return wire.Head{ID: s.newID(prefix), Created: s.cfg.Clock().Unix(), Model: s.host.Names[0], Fingerprint: m.Fingerprint}
	}
	return wire.Head{ID: prefix + id, Created: s.cfg.Clock().Unix(), Model: s.host.Names[0], Fingerprint: m.Fingerprint}
}

// chatEncoder writes chat replies.
type chatEncoder struct {
	s         *Server
	head      wire.Head
	field     wire.ReasoningField
	stream    *wire.ChatStream
	logprobs  bool
	promptIDs []int32 // nil = not asked for or sent
	d         wire.Delta
	call      wire.CallDelta
}

func (e *chatEncoder) begin(dst []byte, i int, usage *wire.Usage) []byte {
	e.d = wire.Delta{Index: i, Role: true, PromptIDs: e.promptIDs}
	e.promptIDs = nil
	return e.stream.Append(dst, &e.d, usage)
}

func (e *chatEncoder) chunk(dst []byte, i int, d *delta, ids []int32, usage *wire.Usage) []byte {
	e.d = wire.Delta{Index: i, TokenIDs: ids}
	switch d.field {
	case reasoning:
		e.d.Reasoning = d.text
	case content:
		e.d.Content = d.text
		e.d.Logprobs = e.given(d.logprobs)
	case callName:
		e.call = wire.CallDelta{Index: d.call, ID: e.s.newID("call_"), Name: d.text, Custom: d.custom}
		e.d.Call = &e.call
	case callArguments:
		e.call = wire.CallDelta{Index: d.call, Arguments: d.text, Custom: d.custom}
		e.d.Call = &e.call
	}
	return e.stream.Append(dst, &e.d, usage)
}

// given returns logprobs as they are sent: not null if they were asked for.
func (e *chatEncoder) given(l []wire.TokenLogprob) []wire.TokenLogprob {
	if l == nil && e.logprobs {
		return []wire.TokenLogprob{}
	}
	return l
}

func (e *chatEncoder) end(dst []byte, i int, a *answer, usage *wire.Usage) []byte {
	e.d = wire.Delta{Index: i, Finish: a.finish, Stop: a.reason, Empty: a.silence(), TokenIDs: a.newIDs}
	return e.stream.Append(dst, &e.d, usage)
}

func (e *chatEncoder) finish(dst []byte, u *wire.Usage) []byte {
	return append(e.stream.AppendUsage(dst, u), wire.Done...)
}

func (e *chatEncoder) fail(dst []byte, err *wire.Error) []byte {
	return append(wire.AppendErrorEvent(dst, err), wire.Done...)
}

func (e *chatEncoder) reply(dst []byte, answers []*answer, choices []choice, usage wire.Usage) []byte {
	r := wire.ChatReply{Head: e.head, Usage: usage, Field: e.field, PromptIDs: e.promptIDs, PromptLogprobs: answers[0].prompt}
	for i := range choices {
		c, a := &choices[i], answers[i]
		out := wire.ChatChoice{Content: c.content.String(), Reasoning: c.reasoning.String(), Calls: c.calls, Logprobs: e.given(c.logprobs),
			Finish: a.finish, Stop: a.reason, Empty: a.silence(), TokenIDs: a.newIDs}
		for k := range out.Calls {
			out.Calls[k].ID, out.Calls[k].Arguments = e.s.newID("call_"), c.arguments[k].String()
		}
		r.Choices = append(r.Choices, out)
	}
	return r.Append(dst)
}
