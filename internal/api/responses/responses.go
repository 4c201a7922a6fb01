// Package responses is the Responses API: responses that are made for a client that
// waits, or in the background; those that go on from earlier ones; and what can be done
// with stored ones. What a conversation is in the words of this API, items, is made one
// of turns here; what the store has of a response is known here alone.
package responses

import (
	"context"
	"crypto/cipher"
	"encoding/json"
	"net/http"
	"sync"
	"sync/atomic"

	"ossian/internal/api"
	"ossian/internal/chat"
	"ossian/internal/generate"
	"ossian/internal/host"
	"ossian/internal/store"
	"ossian/internal/tools"
	"ossian/internal/wire"
	"ossian/internal/wire/response"
)

// An Archive keeps responses (store.Store, store.Memory). What its methods promise is
// said there.
type Archive interface {
	archiveWriter
	archiveReader
	Stats() store.Stats
}

type archiveWriter interface {
	Create(ctx context.Context, n store.New) error
	Update(ctx context.Context, owner, id string, u store.Update) error
	Cancel(ctx context.Context, owner, id string) error
	Delete(ctx context.Context, owner, id string) error
}

type archiveReader interface {
	Get(owner, id string) (store.Record, error)
	Items(owner, id string, p store.Page) (items []store.Item, more bool, err error)
	Events(ctx context.Context, owner, id string, after int) (events [][]byte, done bool, err error)
	Chain(owner, id string, most int) ([]store.Link, error)
	Find(owner, item string) (string, error)
}

// A Config is what a Handler needs.
type Config struct {
	Archive Archive                    // nil = none is kept
	SealKey *[32]byte                  // encrypts the reasoning that clients keep; nil = a new one
	Owner   func(tenant uint32) string // under which name a key's responses are kept
	Load    *atomic.Int64              // counts requests that generate: those in the background, too
}

// A Handler answers the Responses API.
type Handler struct {
	front   *api.Front
	service *generate.Service
	archive Archive // nil = none
	owner   func(tenant uint32) string
	box     cipher.AEAD
	load    *atomic.Int64

	life    context.Context // of background responses
	cancel  context.CancelFunc
	running sync.WaitGroup // of background responses
	mu      sync.Mutex     // guards tasks
	tasks   map[string]*task
}

// New returns a handler. It has to be closed.
func New(cfg Config, front *api.Front, service *generate.Service) *Handler {
	h := &Handler{front: front, service: service, archive: cfg.Archive, owner: cfg.Owner, box: newBox(cfg.SealKey), load: cfg.Load, tasks: map[string]*task{}}
	h.life, h.cancel = context.WithCancel(context.Background())
	return h
}

// Close ends the responses that are made in the background, and waits until that is
// stored.
func (h *Handler) Close() {
	h.cancel()
	h.running.Wait()
}

// A request is for a response whose prompt is known.
type request struct {
	*response.Request
	model      *host.Model
	caller     *api.Caller
	owner      string
	store      bool                 // the response is to be kept
	conv       *chat.Conversation   // the prompt's
	ids        []int32              // the prompt
	truncated  int                  // turns left out of it
	oneCall    bool                 // the answer has one call at most
	constraint generate.Constraints // of the answer; nil = free
	rules      *chat.Rules          // that the constraint was made of
	places     generate.Places      // the same, in the request

	// Of tools that the server runs.
	offers    []tools.Offer
	listed    []api.Listed       // what their servers have, for the client
	told      map[string]bool    // of these, whom the conversation has told it, by label
	answered  []generate.Pending // calls to which the client has agreed now, or has not
	state     json.RawMessage    // with which they go on; nil = they begin
	root      string             // the first response of the conversation; "" = this one
	container string             // where code ran last; "" = not known
}

// chain is the first response of the conversation, for what goes on from this one; "" = this
// one, or it does not matter.
func (req *request) chain() string {
	if len(req.offers) == 0 && req.state == nil {
		return ""
	}
	return req.root
}

// Create answers POST /v1/responses. A body whose items are kept until the response is
// stored counts as long.
func (h *Handler) Create(reply *api.Reply, r *http.Request, caller *api.Caller, body []byte) error {
	asked, err := h.decode(reply, body)
	if err != nil {
		return err
	}
	req, err := h.prepare(r.Context(), reply, caller, asked)
	if err != nil {
		return err
	}
	if err := h.constrain(r.Context(), reply, req); err != nil {
		return err
	}
	if req.Background {
		if req.PromptProgress { // events are stored, and what they tell would be over
			if err := h.front.Ignored(reply, []string{"stream_options.prompt_progress"}); err != nil {
				return err
			}
		}
		return h.background(reply, r, req)
	}
	delivery, err := h.deliver(r.Context(), reply, req)
	if err != nil {
		return err
	}
	if !req.store && len(req.offers) == 0 { // else its items are stored with the response, or are needed between its steps
		caller.Release()
	}
	return delivery.Run(r.Context())
}

// CountTokens answers POST /v1/responses/input_tokens.
func (h *Handler) CountTokens(reply *api.Reply, r *http.Request, caller *api.Caller, body []byte) error {
	asked, err := h.decode(reply, body)
	if err != nil {
		return err
	}
	req, err := h.prepare(r.Context(), reply, caller, asked)
	if err != nil {
		return err
	}
	return reply.Send(response.InputTokens{Object: "response.input_tokens", Tokens: len(req.ids)})
}

// PromptIDs returns the prompt of a request that is valid.
func (h *Handler) PromptIDs(ctx context.Context, w *api.Reply, caller *api.Caller, asked *response.Request) ([]int32, error) {
	req, err := h.prepare(ctx, w, caller, asked)
	if err != nil {
		return nil, err
	}
	return req.ids, nil
}

// decode reads a request.
func (h *Handler) decode(w *api.Reply, body []byte) (*response.Request, error) {
	lim := h.front.Limits()
	asked, err := response.Decode(body, lim, h.front.Toolbox != nil)
	if err != nil {
		return nil, err
	}
	if err := h.front.Unknown(w, asked.Ignored); err != nil {
		return nil, err
	}
	if err := asked.Validate(lim); err != nil {
		return nil, err
	}
	return asked, nil
}

// prepare finds out the prompt of a request that is valid.
func (h *Handler) prepare(ctx context.Context, reply *api.Reply, caller *api.Caller, asked *response.Request) (*request, error) {
	model, err := caller.Model(ctx, h.service, asked.Model)
	if err != nil {
		return nil, err
	}
	if err := generate.Later(&asked.Sampling); err != nil {
		return nil, err
	}
	req := &request{Request: asked, model: model, caller: caller, owner: h.owner(caller.Tenant)}
	if req.store, err = h.storing(reply, asked); err != nil {
		return nil, err
	}
	// What it goes on from, by id, then its own items with what they refer to.
	links, err := h.chain(caller, asked.Previous, req.owner)
	if err != nil {
		return nil, err
	}
	if err := h.resolve(asked.Input, req.owner, model.Fingerprint); err != nil {
		return nil, err
	}
	if err := h.offer(ctx, reply, req); err != nil {
		return nil, err
	}
	past, err := h.converse(reply, req, links)
	if err != nil {
		return nil, err
	}
	return req, h.prompt(reply, req, past)
}

// storing decides whether a response is kept. A store that does not take writes fails
// those who need it and is passed over for those who only did not say no (DUR-3).
func (h *Handler) storing(reply *api.Reply, asked *response.Request) (bool, error) {
	if !asked.Keep() {
		return false, nil
	}
	problem := "this server keeps no responses"
	if h.archive != nil {
		if h.archive.Stats().Failure == nil {
			return true, nil
		}
		problem = "responses cannot be stored now"
	}
	if needed := asked.Background || asked.Store != nil; !needed {
		reply.Header().Set("x-ossian-not-stored", problem)
		return false, nil
	}
	// The field that cannot do without the store is to blame.
	param := "store"
	if asked.Background {
		param = "background"
	}
	if h.archive == nil {
		return false, wire.Unsupported(param, problem+"; send store false")
	}
	return false, &wire.Error{Message: problem + "; try again, or send store false", Type: wire.TypeOverloaded, Param: param, Code: wire.CodeStoreFailed}
}

// constrain finds out what the answer is held to, and tells what that leaves out.
func (h *Handler) constrain(ctx context.Context, reply *api.Reply, req *request) error {
	answer, at, err := generate.Form(&req.Sampling)
	if err != nil {
		return err
	}
	at.Answer = req.FormPlace(at.Answer)
	at.Tool = func(i int) string { return req.ToolPath(i) + "." + generate.ToolPlace(&req.Tools[i]) }
	rules := generate.Rules(answer, req.Tools, &req.ToolChoice, req.ParallelToolCalls, req.ThinkingTokens())
	rules.Builtins = req.callable()
	req.oneCall, req.rules, req.places = rules.OneCall, rules, at
	fresh, ignored, err := h.service.Constrain(ctx, req.model, req.conv, rules, at)
	if err != nil {
		return err
	}
	req.constraint = fresh
	return h.front.Ignored(reply, ignored)
}

// deliver starts a response that the client waits for, event by event or as a whole.
func (h *Handler) deliver(ctx context.Context, reply *api.Reply, req *request) (*api.Delivery, error) {
	maker := h.maker(req)
	if err := maker.start(ctx); err != nil {
		return nil, err
	}
	if req.Stream {
		delivery := h.front.Events(reply, maker.job, maker)
		if req.RunningUsage() {
			delivery.Running()
		}
		if req.PromptProgress {
			delivery.Progress(maker.progress)
		}
		return delivery, nil
	}
	return h.front.Whole(reply, maker.job, maker, func() []byte { return maker.object.Append(nil) }), nil
}

// generation returns what a request asks for; id is the response's.
func (req *request) generation(front *api.Front, id string) *generate.Generation {
	model, known := req.model, generate.Known(req.conv)
	gen := &generate.Generation{Sampling: &req.Sampling, Label: req.caller.Label, Model: model, Tenant: req.caller.Tenant, Received: req.caller.Received,
		Prompts: [][]int32{req.ids}, MaxTokens: req.MaxOutputTokens, Constraint: req.constraint,
		Parser: func() chat.Parser { return model.Format.Parser(known) },
		Items:  true, OneCall: req.oneCall, TokenIDs: req.store, Builtin: req.builtin(front, id)}
	if req.TopLogprobs != nil || req.Includes("message.output_text.logprobs") {
		top := int64(0)
		if req.TopLogprobs != nil {
			top = *req.TopLogprobs
		}
		gen.Logprobs = &top
	}
	return gen
}
