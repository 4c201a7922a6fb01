// Package generate is between the words of requests and the engine: what a request
// means for sampling, which prompt it has, what its answers are held to, and what
// becomes of the tokens that come back. Its users, the handlers of the APIs, bring a
// Generation and get answers as deltas; they need not know ids, masks, stop strings,
// log probabilities or how several choices are read at once. It knows no HTTP.
//
// A request goes down once:
//
//	conversation → Render, Encode → Form, ToolRules, Constrain → Generation → Start
//
// and comes up once: Job.Run reads the engine's streams into Answers and tells an
// Output after every token.
package generate

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"strings"
	"sync/atomic"

	"ossian/internal/board"
	"ossian/internal/engine"
	"ossian/internal/grammar"
	"ossian/internal/host"
	"ossian/internal/limits"
	"ossian/internal/metrics"
	"ossian/internal/token"
	"ossian/internal/wire"
)

var (
	// ErrGone is what an Output returns when nobody reads the reply any more: the request
	// was given up, it did not fail.
	ErrGone = errors.New("server: the client is gone")
	// ErrWaited ends a request that did not begin in time.
	ErrWaited = errors.New("server: waited too long in the queue")
	// ErrTooLong ends one that did not end in time.
	ErrTooLong = errors.New("server: the request took too long")
)

// Gone reports whether err means that nobody reads the reply any more.
func Gone(err error) bool { return errors.Is(err, ErrGone) || errors.Is(err, context.Canceled) }

// A Config is what a Service needs.
type Config struct {
	Host    *host.Host
	Limits  func() *limits.Set // those in force; they may change between calls
	Metrics *metrics.Server
	Log     *slog.Logger
	Random  func() uint64 // seeds of requests that bring none
	Seed    *int64        // the same for all of these; nil = a new one for each
	Strict  bool          // refuse schemas with parts that output is not held to
	Loose   bool          // leave headers of answers to the model where nothing is asked of them (chat.Rules.Loose)
	Replies *atomic.Int64 // bytes that replies take until they are sent, of all jobs together
	Board   *board.Board  // of the jobs; nil = one that nobody looks at

	Vocabulary MakeVocabulary // nil = grammar.NewVocabulary
}

// MakeVocabulary makes what grammars have to know of a tokenizer.
type MakeVocabulary func(*token.BPE) *grammar.Vocabulary

// A Service turns requests into jobs of the engine. Its methods may be called by any
// goroutine.
type Service struct {
	cfg      Config
	saltSeed maphash.Seed // of prefix caches, new with every process
	masks    atomic.Pointer[modelMask]
	grammars *grammars
}

// New returns a service.
func New(cfg Config) *Service {
	if cfg.Vocabulary == nil {
		cfg.Vocabulary = grammar.NewVocabulary
	}
	if cfg.Board == nil {
		cfg.Board = new(board.Board)
	}
	s := &Service{cfg: cfg, saltSeed: maphash.MakeSeed(), grammars: newGrammars(cfg.Vocabulary, cfg.Metrics.Grammars)}
	if cfg.Host != nil { // else the users bring models of their own
		cfg.Host.OnUnload(s.forget)
	}
	return s
}

// forget drops what was kept of a model that is out of memory.
func (s *Service) forget(model *host.Model) {
	s.grammars.forget(model)
	if known := s.masks.Load(); known != nil && known.model == model {
		s.masks.CompareAndSwap(known, nil)
	}
}

// Find returns a lease of the model of that name, "" for the first, which the caller has to
// release. It may wait for the model's turn, and is among the requests meanwhile. The error is a
// *wire.Error, or why there is no model now.
func (s *Service) Find(ctx context.Context, name string, caller board.Caller) (*host.Lease, error) {
	lim := s.cfg.Limits()
	caller.Board = s.cfg.Board
	lease, err := s.cfg.Host.Acquire(ctx, name, caller.Received.Add(min(lim.Time(limits.QueueWait), lim.Time(limits.RequestTime))), caller)
	switch {
	case errors.Is(err, host.ErrNotFound):
		return nil, s.NotFound(name)
	case errors.Is(err, host.ErrWaited):
		s.cfg.Metrics.Refused(limits.QueueWait.String())
		return nil, ErrWaited
	case errors.Is(err, host.ErrQueueFull):
		s.cfg.Metrics.Refused(limits.Queue.String())
	}
	return lease, err
}

// NotFound is the error for a name that no model has.
func (s *Service) NotFound(name string) *wire.Error {
	names := s.cfg.Host.Names()
	for i, known := range names {
		names[i] = fmt.Sprintf("%.200q", known)
	}
	does := "does"
	if len(names) > 1 {
		does = "do"
	}
	return &wire.Error{Message: fmt.Sprintf("the model %.200q does not exist; %s %s", name, strings.Join(names, ", "), does), Type: wire.TypeInvalidRequest,
		Param: "model", Code: wire.CodeModelNotFound}
}

// Rejected counts a request that the engine did not take.
func (s *Service) Rejected(model *host.Model, err error) {
	switch {
	case errors.Is(err, engine.ErrQueueFull):
		s.reject(model, metrics.RejectQueue, limits.Queue)
	case errors.Is(err, engine.ErrQueueTokens):
		s.reject(model, metrics.RejectTokens, limits.QueueTokens)
	case errors.Is(err, engine.ErrDraining) || errors.Is(err, engine.ErrStopped):
		s.reject(model, metrics.RejectDraining, 0)
	}
}

// reject counts a request that was not accepted; limit 0 = no limit is to blame.
func (s *Service) reject(model *host.Model, why metrics.Rejection, limit limits.ID) {
	if limit != 0 {
		s.cfg.Metrics.Refused(limit.String())
	}
	if model.Metrics != nil {
		model.Metrics.Rejected(why)
	}
}
