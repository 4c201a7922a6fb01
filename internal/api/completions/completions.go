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

// deliver takes a request through its stages: each may refuse it, so their order is the
// order in which errors are found.
func (h *Handler) deliver(w *api.Reply, r *http.Request, caller *api.Caller, body []byte) (*api.Delivery, error) {
	req, err := h.decode(w, body)
	if err != nil {
		return nil, err
	}
	model, err := caller.Model(r.Context(), h.service, req.Model)
	if err != nil {
		return nil, err
	}
	if err := generate.Later(&req.Sampling); err != nil {
		return nil, err
	}
	prompts, err := h.prompts(w, model, req)
	if err != nil {
		return nil, err
	}
	constraint, err := h.constraint(r.Context(), w, model, req)
	if err != nil {
		return nil, err
	}
	gen := generation(req, model, prompts)
	gen.Label, gen.Tenant, gen.Received, gen.Constraint = caller.Label, caller.Tenant, caller.Received, constraint
	codec := h.codec(req, model, prompts) // before the job: its id is drawn before the seed
	job, err := h.service.Start(r.Context(), gen)
	if err != nil {
		return nil, err
	}
	return h.front.Choices(w, job, codec, gen.Sampling, len(prompts)), nil
}

// decode reads a request.
func (h *Handler) decode(w *api.Reply, body []byte) (*wire.CompletionRequest, error) {
	lim := h.front.Limits()
	req, err := wire.DecodeCompletion(body, lim)
	if err != nil {
		return nil, err
	}
	if err := h.front.Ignored(w, req.Ignored); err != nil {
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
func (h *Handler) constraint(ctx context.Context, w *api.Reply, model *host.Model, req *wire.CompletionRequest) (generate.Constraints, error) {
	answer, at, err := generate.Form(&req.Sampling)
	if err != nil {
		return nil, err
	}
	fresh, ignored, err := h.service.ConstrainText(ctx, model, answer, at)
	if err != nil {
		return nil, err
	}
	return fresh, h.front.Ignored(w, ignored)
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
