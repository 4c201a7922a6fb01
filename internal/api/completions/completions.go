// Package completions is the Completions API, POST /v1/completions: text in, text out,
// without a conversation.
package completions

import (
	"context"
	"fmt"
	"net/http"

	"ossian/internal/api"
	"ossian/internal/generate"
	"ossian/internal/host"
	"ossian/internal/wire"
)

// A Handler completes texts.
type Handler struct {
	front   *api.Front
	service *generate.Service
}

// New returns a handler.
func New(front *api.Front, service *generate.Service) *Handler { return &Handler{front, service} }

// Complete answers POST /v1/completions. What prepares a delivery returns before it runs:
// while tokens come, the stack holds nothing else.
func (h *Handler) Complete(w *api.Reply, r *http.Request, caller *api.Caller, body []byte) error {
	delivery, err := h.deliver(w, r, caller, body)
	if err != nil {
		return err
	}
	caller.Release()
	return delivery.Run(r.Context())
}

// Render answers POST /v1/completions/render: the ids of each prompt that the same body would have
// computed, and the same errors up to there. The engine has no part in it.
func (h *Handler) Render(reply *api.Reply, r *http.Request, caller *api.Caller, body []byte) error {
	req, model, prompts, err := h.prepare(reply, r, caller, body)
	if err != nil {
		return err
	}
	if err := generate.CheckSampling(model, &req.Sampling); err != nil {
		return err
	}
	rendered := make([]wire.Rendered, len(prompts))
	for i := range prompts {
		rendered[i].TokenIDs = prompts[i]
	}
	return reply.Send(rendered)
}

// prepare takes a request through its stages up to the ids of its prompts: each may refuse it, so
// their order is the order in which errors are found.
func (h *Handler) prepare(reply *api.Reply, r *http.Request, caller *api.Caller, body []byte) (req *wire.CompletionRequest, model *host.Model, prompts [][]int32, err error) {
	if req, err = h.decode(reply, body); err != nil {
		return nil, nil, nil, err
	}
	if model, err = caller.Model(r.Context(), h.service, req.Model); err != nil {
		return nil, nil, nil, err
	}
	if later := generate.Later(&req.Sampling); later != nil {
		return nil, nil, nil, later
	}
	if prompts, err = h.prompts(reply, model, req); err != nil {
		return nil, nil, nil, err
	}
	return req, model, prompts, nil
}

// deliver takes a request through the stages behind its prompts.
func (h *Handler) deliver(reply *api.Reply, r *http.Request, caller *api.Caller, body []byte) (*api.Delivery, error) {
	req, model, prompts, err := h.prepare(reply, r, caller, body)
	if err != nil {
		return nil, err
	}
	constraint, err := h.constraint(r.Context(), reply, model, req)
	if err != nil {
		return nil, err
	}
	gen := generation(req, model, prompts)
	gen.Label, gen.Tenant, gen.Received, gen.Constraint, gen.Observer = caller.Label, caller.Tenant, caller.Received, constraint, caller.Observer
	codec := h.codec(req, model, prompts) // before the job: its id is drawn before the seed
	gen.ReplyID, gen.ModelName = codec.head.ID, req.Model
	job, err := h.service.Start(r.Context(), gen)
	if err != nil {
		return nil, err
	}
	return h.front.Choices(reply, job, codec, gen.Sampling, len(prompts)), nil
}

// decode reads a request.
func (h *Handler) decode(w *api.Reply, body []byte) (*wire.CompletionRequest, error) {
	lim := h.front.Limits()
	req, err := wire.DecodeCompletion(body, lim)
	if err != nil {
		return nil, err
	}
	if err := h.front.Unknown(w, req.Ignored); err != nil {
		return nil, err
	}
	if err := req.Validate(lim); err != nil {
		return nil, err
	}
	return req, nil
}

// prompts returns the ids of all prompts.
func (h *Handler) prompts(w *api.Reply, model *host.Model, req *wire.CompletionRequest) (all [][]int32, err error) {
	for i := range req.Prompts {
		ids, dropped, err := h.prompt(model, req, i)
		w.Truncated(dropped)
		if err != nil {
			return nil, err
		}
		all = append(all, ids)
	}
	return all, nil
}

// prompt returns the ids of prompt i, and how many of them were left out.
func (h *Handler) prompt(model *host.Model, req *wire.CompletionRequest, i int) (ids []int32, dropped int, err error) {
	prompt, most := &req.Prompts[i], req.MaxOutput()
	room := generate.Room{Param: "prompt", Truncate: req.TruncatePrompt, Output: &most}
	if len(req.Prompts) > 1 {
		room.Param = fmt.Sprintf("prompt[%d]", i)
	}
	if prompt.IDs == nil {
		return h.service.Encode(model, generate.Text(model.Tokenizer, prompt.Text, req.AddSpecial), room)
	}
	if err := generate.CheckIDs(model, room.Param, prompt.IDs); err != nil {
		return nil, 0, err
	}
	return h.service.Fit(model, prompt.IDs, room)
}

// constraint returns what makes the constraints of choices, and tells what they leave out.
func (h *Handler) constraint(ctx context.Context, reply *api.Reply, model *host.Model, req *wire.CompletionRequest) (generate.Constraints, error) {
	answer, at, err := generate.Form(&req.Sampling)
	if err != nil {
		return nil, err
	}
	fresh, ignored, err := h.service.ConstrainText(ctx, model, answer, at)
	if err != nil {
		return nil, err
	}
	return fresh, h.front.Ignored(reply, ignored)
}

// generation returns what a request asks for. The caller adds who asks, and the constraint.
func generation(req *wire.CompletionRequest, model *host.Model, prompts [][]int32) *generate.Generation {
	most := req.MaxOutput()
	gen := &generate.Generation{Sampling: &req.Sampling, Model: model, Prompts: prompts, MaxTokens: &most, Logprobs: req.Logprobs,
		Parser:         generate.Plain(model, &req.Sampling, req.SkipSpecial == nil || *req.SkipSpecial),
		HiddenLogprobs: req.Logprobs != nil, EchoLogprobs: req.Logprobs != nil && req.Echo}
	if req.BestOf != nil {
		gen.BestOf = int(*req.BestOf)
	}
	if req.Echo {
		for _, ids := range prompts {
			gen.Echo = append(gen.Echo, model.Tokenizer.Decode(ids))
		}
	}
	return gen
}
