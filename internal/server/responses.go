package server

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math"
	"net/http"
	"strings"

	"ossian/internal/chat"
	"ossian/internal/host"
	"ossian/internal/sched"
	"ossian/internal/store"
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

// asked is a request for a response whose prompt is known.
type asked struct {
	q         *response.Request
	m         *host.Model
	owner     string
	store     bool                    // the response is to be kept
	conv      *chat.Conversation      // the prompt's
	ids       []int32                 // the prompt
	truncated int                     // turns left out of it
	one       bool                    // it has one call at most
	held      func() sched.Constraint // to the forms that are asked for; nil = free
}

// respond answers POST /v1/responses. A body whose items are kept until the response is
// stored counts as long.
func (s *Server) respond(w *reply, r *http.Request, c *caller, body []byte) error {
	a, err := s.asked(w, c, body)
	if err != nil {
		return err
	}
	if err := s.constrainResponse(r.Context(), w, a); err != nil {
		return err
	}
	if a.q.Background {
		return s.background(w, r, c, a)
	}
	e := s.responder(a)
	j, err := s.respondJob(w, r, c, a, e)
	if err != nil {
		return err
	}
	if !a.store {
		s.release(c)
	}
	return j.drive(r.Context())
}

// inputTokens answers POST /v1/responses/input_tokens.
func (s *Server) inputTokens(w *reply, _ *http.Request, c *caller, body []byte) error {
	a, err := s.asked(w, c, body)
	if err != nil {
		return err
	}
	return sendJSON(w, response.InputTokens{Object: "response.input_tokens", Tokens: len(a.ids)})
}

// asked reads a request.
func (s *Server) asked(w *reply, c *caller, body []byte) (*asked, error) {
	q, err := response.Decode(body, s.lim())
	if err != nil {
		return nil, err
	}
	if err := s.ignored(w, q.Ignored); err != nil {
		return nil, err
	}
	if err := q.Validate(s.lim()); err != nil {
		return nil, err
	}
	return s.prepare(w, c, q)
}

// prepare finds out the prompt of a request that is valid.
func (s *Server) prepare(w *reply, c *caller, q *response.Request) (*asked, error) {
	m, err := s.find(q.Model)
	if err != nil {
		return nil, err
	}
	if err := later(&q.Sampling); err != nil {
		return nil, err
	}
	a := &asked{q: q, m: m, owner: s.owner(c.tenant)}
	if a.store, err = s.storing(w, q); err != nil {
		return nil, err
	}
	links, err := s.chain(c, q.Previous, a.owner)
	if err != nil {
		return nil, err
	}
	if err := s.resolve(q.Input, a.owner, m.Fingerprint); err != nil {
		return nil, err
	}
	conv, h, err := s.converse(q, links, a.owner)
	if err != nil {
		return nil, err
	}
	a.conv = conv
	return a, s.prompt(w, a, h)
}

// constrainResponse finds out what the answer is held to.
func (s *Server) constrainResponse(ctx context.Context, w *reply, a *asked) error {
	answer, at, err := form(&a.q.Sampling)
	if err != nil {
		return err
	}
	if rest, ok := strings.CutPrefix(at.answer, "response_format"); ok { // here it is flat
		at.answer = "text.format" + strings.TrimPrefix(rest, ".json_schema")
	}
	at.tool = func(i int) string { return a.q.ToolPath(i) + "." + toolPlace(&a.q.Tools[i]) }
	r := &chat.Rules{Answer: answer, Thinking: budget(a.q.ThinkingTokens())}
	r.Tools, r.MustCall, a.one = toolRules(a.q.Tools, &a.q.ToolChoice, a.q.ParallelToolCalls)
	r.OneCall = a.one
	a.held, err = s.constrain(ctx, w, a.m, a.conv, r, at)
	return err
}

// storing decides whether a response is kept. A store that does not take writes fails
// those who need it and is passed over for those who only did not say no (DUR-3).
func (s *Server) storing(w *reply, q *response.Request) (bool, error) {
	if !q.Keep() {
		return false, nil
	}
	problem := "this server keeps no responses"
	if s.cfg.Archive != nil {
		st := s.cfg.Archive.Stats()
		if st.Failure == nil {
			return true, nil
		}
		problem = "responses cannot be stored now"
	}
	if q.Background || q.Store != nil {
		param := "store"
		if q.Background {
			param = "background"
		}
		if s.cfg.Archive == nil {
			return false, wire.Unsupported(param, problem+"; send store false")
		}
		return false, &wire.Error{Message: problem + "; try again, or send store false", Type: wire.TypeOverloaded, Param: param, Code: wire.CodeStoreFailed}
	}
	w.Header().Set("x-ossian-not-stored", problem)
	return false, nil
}

// owner returns under which name a key's responses are kept. It says nothing about the
// key, and stays the same however keys are arranged (DUR-7).
func (s *Server) owner(tenant uint32) string {
	if tenant == 0 {
		return "local"
	}
	for _, k := range s.live.Load().keys {
		if k.tenant == tenant {
			sum := sha256.Sum256(append([]byte("ossian response owner\x00"), k.sum[:]...))
			return hex.EncodeToString(sum[:16])
		}
	}
	return "" // the key is gone: nothing is its own
}

// respondJob gives the request to the engine.
func (s *Server) respondJob(w *reply, r *http.Request, c *caller, a *asked, e *responder) (*job, error) {
	q := a.q
	g := &generation{Sampling: &q.Sampling, prompts: [][]int32{a.ids}, most: q.MaxOutputTokens, held: a.held}
	if q.TopLogprobs != nil || q.Includes("message.output_text.logprobs") {
		top := int64(0)
		if q.TopLogprobs != nil {
			top = *q.TopLogprobs
		}
		g.logprobs = &top
	}
	p := s.plan(a.m, g.Sampling, g.logprobs)
	p.items, p.keepIDs = true, p.keepIDs || a.store
	p.oneCall = a.one
	conv := known(a.conv)
	g.parser = func() chat.Parser { return a.m.Format.Parser(conv) }
	g.output = func(j *job) output { return e.output(j) }
	return s.newJob(w, r, c, a.m, p, g, nil)
}

// seal encrypts the reasoning of a response for its owner, to be sent back with the
// next request (api.md 3.8).
func (s *Server) seal(text, owner, model string) string {
	nonce := make([]byte, s.box.NonceSize())
	_, _ = rand.Read(nonce) // it never fails
	return base64.StdEncoding.EncodeToString(s.box.Seal(nonce, nonce, []byte(text), []byte(owner+"\x00"+model)))
}

// unseal is the inverse of seal.
func (s *Server) unseal(sealed, owner, model string) (string, bool) {
	data, err := base64.StdEncoding.DecodeString(sealed)
	n := s.box.NonceSize()
	if err != nil || len(data) < n {
		return "", false
	}
	text, err := s.box.Open(nil, data[:n], data[n:], []byte(owner+"\x00"+model))
	return string(text), err == nil
}

// newBox returns the cipher of a key, of a new one for nil.
func newBox(key *[32]byte) cipher.AEAD {
	if key == nil {
		key = new([32]byte)
		_, _ = rand.Read(key[:])
	}
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(fmt.Sprintf("server: a key of %d bytes: %v", len(key), err))
	}
	box, err := cipher.NewGCM(block)
	if err != nil {
		panic(fmt.Sprintf("server: AES-GCM: %v", err))
	}
	return box
}

// inForce returns what the model samples with, in the words of the API.
func (s *Server) inForce(a *asked) (temperature, topP float64) {
	p := s.params(a.m, &a.q.Sampling)
	topP = float64(p.TopP)
	if p.TopP == 0 {
		topP = 1
	} else if p.TopP == math.SmallestNonzeroFloat32 {
		topP = 0
	}
	return float64(p.Temperature), topP
}
