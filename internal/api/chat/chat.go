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

// Render answers POST /v1/chat/completions/render: the ids that the same body would have
// computed, and the same errors up to there. The engine has no part in it.
func (h *Handler) Render(reply *api.Reply, r *http.Request, caller *api.Caller, body []byte) error {
	made, err := h.prepare(reply, r, caller, body)
	if err != nil {
		return err
	}
	if err := generate.CheckSampling(made.model, &made.req.Sampling); err != nil {
		return err
	}
	return reply.Send(wire.Rendered{TokenIDs: made.ids})
}

// A prepared request is one whose prompt is known.
type prepared struct {
	req    *wire.ChatRequest
	model  *host.Model
	offers []tools.Offer
	conv   *chat.Conversation
	rules  *chat.Rules
	at     generate.Places
	field  wire.ReasoningField
	ids    []int32
}

// prepare takes a request through its stages up to the ids of its prompt: each may refuse it, so
// their order is the order in which errors are found.
func (h *Handler) prepare(reply *api.Reply, r *http.Request, caller *api.Caller, body []byte) (made prepared, err error) {
	if made.req, made.field, err = h.decode(reply, r, body); err != nil {
		return made, err
	}
	if made.model, err = caller.Model(r.Context(), h.service, made.req.Model); err != nil {
		return made, err
	}
	if err = h.later(made.req); err != nil {
		return made, err
	}
	// Only what the model and the server offer is left to disagree with.
	if made.offers, err = h.offers(r.Context(), reply, made.model, made.req); err != nil {
		return made, err
	}
	if made.rules, made.at, err = rulesOf(made.req, made.offers); err != nil {
		return made, err
	}
	made.conv = conversation(made.req, h.front.Clock(), made.offers)
	if made.ids, err = h.prompt(reply, made.model, made.req, made.conv); err != nil {
		return made, Unrenderable(err, made.req)
	}
	return made, nil
}

// deliver takes a request through the stages behind its prompt. kept: the request stays in memory
// until the answers have ended.
func (h *Handler) deliver(reply *api.Reply, r *http.Request, caller *api.Caller, body []byte) (delivery *api.Delivery, kept bool, err error) {
	made, err := h.prepare(reply, r, caller, body)
	if err != nil {
		return nil, false, err
	}
	req, model := made.req, made.model
	// From here on only what parsers need of the conversation is held, unless it goes on.
	known := generate.Known(made.conv)
	constraint, err := h.constraint(r.Context(), reply, model, known, made.rules, made.at)
	if err != nil {
		return nil, false, Unrenderable(err, req)
	}
	gen := generation(req, model, known, made.ids, made.rules.OneCall)
	gen.Label, gen.Tenant, gen.Received, gen.Constraint, gen.Observer = caller.Label, caller.Tenant, caller.Received, constraint, caller.Observer
	codec := h.codec(req, model, made.ids, made.field) // before the job: its id is drawn before the seed
	gen.ReplyID, gen.ModelName = codec.head.ID, req.Model
	if len(made.offers) > 0 {
		gen.Builtin = &generate.Builtin{Conversation: made.conv, Rules: *made.rules, Places: made.at, Open: h.opener(caller, made.offers), Waits: true, Links: h.front.CitationLinks}
	}
	job, err := h.service.Start(r.Context(), gen)
	if err != nil {
		return nil, false, err
	}
	return h.front.Choices(reply, job, codec, gen.Sampling, 1), gen.Builtin != nil, nil
}

// decode reads a request, and how its reply names reasoning.
func (h *Handler) decode(w *api.Reply, r *http.Request, body []byte) (*wire.ChatRequest, wire.ReasoningField, error) {
	lim := h.front.Limits()
	req, err := wire.DecodeChat(body, lim)
	if err != nil {
		return nil, 0, err
	}
	if err := h.front.Unknown(w, req.Ignored); err != nil {
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
	served := h.front.Toolbox != nil
	if req.WebSearch != nil && !served {
		return wire.Unserved("web_search", "web_search_options")
	}
	for i := range req.Tools {
		at := fmt.Sprintf("tools[%d].type", i)
		switch kind := req.Tools[i].Type; {
		case kind == "function" || kind == "custom":
		case !wire.IsServerTool(kind):
			return &wire.Error{Message: fmt.Sprintf("function, custom, web_search, code_interpreter or mcp expected, found %.40q", kind), Type: wire.TypeInvalidRequest, Param: at, Code: wire.CodeUnsupportedTool}
		case !served:
			return wire.Unserved(kind, at)
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
	if req.Prediction != nil { // no answer can have more of it
		gen.Prediction = model.Tokenizer.Encode(nil, strings.Join(req.Prediction.Content, ""))
		gen.Prediction = gen.Prediction[:min(len(gen.Prediction), model.Engine.Capacity())]
	}
	for i := range req.Tools {
		if req.Tools[i].Type == "custom" {
			gen.CustomTools = append(gen.CustomTools, req.Tools[i].Name)
		}
	}
	return gen
}
