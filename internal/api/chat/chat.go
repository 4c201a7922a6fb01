// Package chat is the Chat API, POST /v1/chat/completions: its requests as conversations
// and generations, and its replies and chunks.
package chat

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"ossian/internal/api"
	"ossian/internal/chat"
	"ossian/internal/generate"
	"ossian/internal/host"
	"ossian/internal/tools"
	"ossian/internal/wire"
)

// A Handler answers chats.
type Handler struct {
	front   *api.Front
	service *generate.Service
}

// New returns a handler.
func New(front *api.Front, service *generate.Service) *Handler { return &Handler{front, service} }

// Complete answers POST /v1/chat/completions. What prepares a delivery returns before it
// runs: while tokens come, the stack holds nothing else.
func (h *Handler) Complete(w *api.Reply, r *http.Request, caller *api.Caller, body []byte) error {
	delivery, kept, err := h.deliver(w, r, caller, body)
	if err != nil {
		return err
	}
	if !kept {
		caller.Release()
	}
	return delivery.Run(r.Context())
}

// deliver takes a request through its stages: each may refuse it, so their order is the
// order in which errors are found. kept: the request stays in memory until the answers have ended.
func (h *Handler) deliver(w *api.Reply, r *http.Request, caller *api.Caller, body []byte) (delivery *api.Delivery, kept bool, err error) {
	req, field, err := h.decode(w, r, body)
	if err != nil {
		return nil, false, err
	}
	model, err := caller.Model(r.Context(), h.service, req.Model)
	if err != nil {
		return nil, false, err
	}
	if err := h.later(req); err != nil {
		return nil, false, err
	}
	offers, err := h.offers(r.Context(), w, model, req)
	if err != nil {
		return nil, false, err
	}
	rules, at, err := rulesOf(req, offers)
	if err != nil {
		return nil, false, err
	}
	conv := conversation(req, h.front.Clock(), offers)
	ids, err := h.prompt(w, model, req, conv)
	if err != nil {
		return nil, false, Unrenderable(err, req)
	}
	// From here on only what parsers need of the conversation is held, unless it goes on.
	known := generate.Known(conv)
	constraint, err := h.constraint(r.Context(), w, model, known, rules, at)
	if err != nil {
		return nil, false, Unrenderable(err, req)
	}
	gen := generation(req, model, known, ids, rules.OneCall)
	gen.Label, gen.Tenant, gen.Received, gen.Constraint = caller.Label, caller.Tenant, caller.Received, constraint
	codec := h.codec(req, model, ids, field) // before the job: its id is drawn before the seed
	if len(offers) > 0 {
		gen.Builtin = &generate.Builtin{Conversation: conv, Rules: *rules, Places: at, Open: h.opener(caller, offers), Waits: true}
	}
	job, err := h.service.Start(r.Context(), gen)
	if err != nil {
		return nil, false, err
	}
	return h.front.Choices(w, job, codec, gen.Sampling, 1), gen.Builtin != nil, nil
}

// decode reads a request, and how its reply names reasoning.
func (h *Handler) decode(w *api.Reply, r *http.Request, body []byte) (*wire.ChatRequest, wire.ReasoningField, error) {
	lim := h.front.Limits()
	req, err := wire.DecodeChat(body, lim)
	if err != nil {
		return nil, 0, err
	}
	if err := h.front.Ignored(w, req.Ignored); err != nil {
		return nil, 0, err
	}
	if err := req.Validate(lim); err != nil {
		return nil, 0, err
	}
	field, err := h.front.Reasoning(r)
	return req, field, err
}

// Unrenderable names what a format cannot write of a request, with the fields that it
// has. Other errors stay as they are.
func Unrenderable(err error, req *wire.ChatRequest) error {
	if problem, ok := errors.AsType[*chat.Error](err); ok {
		return api.Unrenderable(problem, req.ToolsField())
	}
	return err
}

// later refuses what later versions do.
func (h *Handler) later(req *wire.ChatRequest) error {
	if err := generate.Later(&req.Sampling); err != nil {
		return err
	}
	served, supported := h.front.Toolbox != nil, "only tools of type function or custom are supported"
	if served {
		supported = "only tools of type function, custom, web_search, code_interpreter and mcp are supported"
	}
	if req.WebSearch != nil && !served {
		return wire.Unsupported("web_search_options", "built-in tools are not supported")
	}
	for i := range req.Tools {
		if kind := req.Tools[i].Type; kind != "function" && kind != "custom" && !(served && wire.IsServerTool(kind)) {
			return wire.Unsupported(fmt.Sprintf("tools[%d].type", i), supported)
		}
	}
	return nil
}

// rulesOf returns what the answers to a request are held to.
func rulesOf(req *wire.ChatRequest, offers []tools.Offer) (*chat.Rules, generate.Places, error) {
	answer, at, err := generate.Form(&req.Sampling)
	at.Tools, at.Choice = req.ToolsField(), req.ChoiceField()
	at.Tool = func(i int) string {
		if tool := &req.Tools[i]; tool.Type == "custom" {
			return req.ToolPlace(i) + "." + generate.ToolPlace(tool)
		}
		return req.ToolField(i, "parameters")
	}
	parallel := req.ParallelToolCalls
	if req.Legacy { // a message has room for one function_call
		parallel = wire.Ptr(false)
	}
	rules := generate.Rules(answer, req.Tools, &req.ToolChoice, parallel, req.ThinkingTokens())
	if chosen := req.ToolChoice.Served; chosen != nil && req.ToolChoice.Mode == "named" { // behind its call the answer goes on
		rules.OneCall = parallel != nil && !*parallel
	}
	rules.Builtins = callable(req, offers)
	return rules, at, err
}

// prompt returns the ids of a conversation.
func (h *Handler) prompt(w *api.Reply, model *host.Model, req *wire.ChatRequest, conv *chat.Conversation) ([]int32, error) {
	prompt, err := h.service.Render(model, "messages", conv)
	if err != nil {
		return nil, err
	}
	ids, dropped, err := h.service.Encode(model, prompt, generate.Room{Param: "messages", Truncate: req.TruncatePrompt, Output: req.MaxOutput()})
	w.Truncated(dropped)
	return ids, err
}

// constraint returns what makes the constraints of choices, and tells what they leave out.
func (h *Handler) constraint(ctx context.Context, w *api.Reply, model *host.Model, known *chat.Conversation, rules *chat.Rules, at generate.Places) (generate.Constraints, error) {
	fresh, ignored, err := h.service.Constrain(ctx, model, known, rules, at)
	if err != nil {
		return nil, err
	}
	return fresh, h.front.Ignored(w, ignored)
}

// generation returns what a request asks for. The caller adds who asks, and the constraint.
func generation(req *wire.ChatRequest, model *host.Model, known *chat.Conversation, ids []int32, oneCall bool) *generate.Generation {
	gen := &generate.Generation{Sampling: &req.Sampling, Model: model, Prompts: [][]int32{ids}, MaxTokens: req.MaxOutput(),
		Parser:        func() chat.Parser { return model.Format.Parser(known) },
		HideReasoning: !req.ShowReasoning(), OneCall: oneCall, NamedCall: req.ToolChoice.Mode == "named" && req.ToolChoice.Served == nil}
	if req.Logprobs {
		top := int64(0)
		if req.TopLogprobs != nil {
			top = *req.TopLogprobs
		}
		gen.Logprobs = &top
	}
	if last := req.Messages[len(req.Messages)-1]; req.Echo && last.Role == "assistant" {
		gen.Echo = []string{strings.Join(last.Content, "\n")}
	}
	for i := range req.Tools {
		if req.Tools[i].Type == "custom" {
			gen.CustomTools = append(gen.CustomTools, req.Tools[i].Name)
		}
	}
	return gen
}
