// Package messages is Anthropic's Messages API, POST /v1/messages and its count of tokens, for
// clients that speak it alone. A request becomes the chat that asks for the same, so that a model
// gets one prompt for one conversation; what differs is how the answer is written.
package messages

import (
	"context"
	"errors"
	"net/http"

	"ossian/internal/api"
	chatapi "ossian/internal/api/chat"
	"ossian/internal/chat"
	"ossian/internal/generate"
	"ossian/internal/host"
	"ossian/internal/wire"
	"ossian/internal/wire/messages"
)

// A Handler answers messages.
type Handler struct {
	front   *api.Front
	service *generate.Service
}

// New returns a handler.
func New(front *api.Front, service *generate.Service) *Handler { return &Handler{front, service} }

// Create answers POST /v1/messages.
func (h *Handler) Create(w *api.Reply, r *http.Request, caller *api.Caller, body []byte) error {
	delivery, err := h.deliver(w, r, caller, body)
	if err != nil {
		return err
	}
	caller.Release()
	return delivery.Run(r.Context())
}

// CountTokens answers POST /v1/messages/count_tokens.
func (h *Handler) CountTokens(reply *api.Reply, r *http.Request, caller *api.Caller, body []byte) error {
	req, model, err := h.decode(r.Context(), reply, caller, body, true)
	if err != nil {
		return err
	}
	prompt, err := h.service.Render(model, "messages", h.conversation(req))
	if err != nil {
		return unrenderable(err, req)
	}
	return reply.Send(struct {
		Tokens int `json:"input_tokens"`
	}{len(prompt.IDs())})
}

// decode reads a request and finds its model.
func (h *Handler) decode(ctx context.Context, w *api.Reply, caller *api.Caller, body []byte, counted bool) (*messages.Request, *host.Model, error) {
	lim := h.front.Limits()
	req, err := messages.Decode(body, lim)
	if err != nil {
		return nil, nil, err
	}
	if err := h.front.Unknown(w, req.Ignored); err != nil {
		return nil, nil, err
	}
	if err := req.Validate(lim, counted); err != nil {
		return nil, nil, err
	}
	model, err := caller.Model(ctx, h.service, req.Chat.Model)
	if problem, ok := errors.AsType[*wire.Error](err); ok && problem.Code == wire.CodeModelNotFound {
		named := *problem
		named.Message += "; --served-model-name NAME [NAME …] gives it more names"
		return nil, nil, &named
	}
	return req, model, err
}

func (h *Handler) conversation(req *messages.Request) *chat.Conversation {
	return chatapi.Conversation(&req.Chat, h.front.Clock())
}

// deliver takes a request through the stages of a chat.
func (h *Handler) deliver(reply *api.Reply, r *http.Request, caller *api.Caller, body []byte) (*api.Delivery, error) {
	req, model, err := h.decode(r.Context(), reply, caller, body, false)
	if err != nil {
		return nil, err
	}
	conv := h.conversation(req)
	prompt, err := h.service.Render(model, "messages", conv)
	if err != nil {
		return nil, unrenderable(err, req)
	}
	ids, _, err := h.service.Encode(model, prompt, generate.Room{Param: "messages", Output: req.Chat.MaxTokens})
	if err != nil {
		return nil, err
	}
	known := generate.Known(conv)
	rules, constraint, err := h.constraint(r.Context(), reply, model, known, req)
	if err != nil {
		return nil, unrenderable(err, req)
	}
	gen := &generate.Generation{Sampling: &req.Chat.Sampling, Label: caller.Label, Model: model, Tenant: caller.Tenant, Received: caller.Received, Prompts: [][]int32{ids},
		MaxTokens: req.Chat.MaxTokens, Constraint: constraint, Parser: func() chat.Parser { return model.Format.Parser(known) },
		HideReasoning: !req.Thinking, Items: true, OneCall: rules.OneCall}
	codec := h.codec(reply, req, model, len(ids)) // before the job: its id is drawn before the seed
	gen.ReplyID, gen.ModelName, gen.Observer = codec.reply.ID, req.Chat.Model, caller.Observer
	job, err := h.service.Start(r.Context(), gen)
	if err != nil {
		return nil, err
	}
	if req.Chat.Stream {
		return h.front.Events(reply, job, codec), nil
	}
	return h.front.Whole(reply, job, codec, codec.body), nil
}

// constraint returns what answers are held to, and tells what that leaves out.
func (h *Handler) constraint(ctx context.Context, reply *api.Reply, model *host.Model, known *chat.Conversation, req *messages.Request) (*chat.Rules, generate.Constraints, error) {
	answer, at, err := generate.Form(&req.Chat.Sampling)
	if err != nil {
		return nil, nil, err
	}
	if answer != nil {
		at.Answer = "output_config.format.schema"
	}
	at.Tool = func(i int) string { return req.ToolPath(i) + ".input_schema" }
	rules := generate.Rules(answer, req.Chat.Tools, &req.Chat.ToolChoice, req.Chat.ParallelToolCalls, req.Chat.ThinkingTokens())
	fresh, ignored, err := h.service.Constrain(ctx, model, known, rules, at)
	if err != nil {
		return nil, nil, err
	}
	return rules, fresh, h.front.Ignored(reply, ignored)
}

// unrenderable names what a format cannot write with the paths of the request.
func unrenderable(err error, req *messages.Request) error {
	problem, ok := errors.AsType[*chat.Error](err)
	if !ok {
		return err
	}
	told := api.Unrenderable(problem, "tools")
	if problem.Turn >= 0 && problem.Turn < len(req.From) {
		told.Param = req.From[problem.Turn]
	}
	return told
}
