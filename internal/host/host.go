// Package host knows which models are served. Its users ask for one by any of its
// names, at any time; they need not know how weights come into memory, who runs the
// engine, or whether that has happened yet.
package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"ossian/internal/chat"
	"ossian/internal/engine"
	"ossian/internal/metrics"
	"ossian/internal/sample"
	"ossian/internal/token"
)

// Errors of Find.
var (
	ErrNotFound = errors.New("host: no such model")
	ErrLoading  = errors.New("host: the model is being loaded")
)

// A Card says what is known of a model before its weights are read.
type Card struct {
	Names   []string  // that requests may use, at least one; the first is reported
	Root    string    // what was loaded: a name or a path's last element, shown to clients
	Created time.Time // of this server's copy of it
	MaxLen  int       // tokens of context, as far as known; 0 = unknown
}

// A Model is one that answers. Nothing in it changes.
type Model struct {
	Engine      *engine.Engine
	Tokenizer   *token.BPE
	Format      chat.Format   // nil = it has no chat template
	Stops       []int32       // ids that end a text, ascending
	Vocab       int           // ids that have logits
	Unused      []int32       // of these, ids without a meaning, ascending: never to be sampled
	Defaults    sample.Params // where a request says nothing; Seed and Prompt do not count
	Fingerprint string        // of build and weights, system_fingerprint
	Metrics     *metrics.Model
}

// Load reads the weights and returns the model, whose engine does not run yet.
type Load func(ctx context.Context) (*Model, error)

// A Host holds the model of this process. Any number of goroutines may use it.
type Host struct {
	Card
	model atomic.Pointer[Model]
}

// New returns a host whose model is not loaded.
func New(c Card) (*Host, error) {
	if len(c.Names) == 0 || slices.Contains(c.Names, "") {
		return nil, fmt.Errorf("host: model names %q: at least one expected, none empty", c.Names)
	}
	return &Host{Card: c}, nil
}

// Run loads the model and runs its engine until it has been drained, ctx ends or
// the engine cannot go on. The model is found once a token has gone through it.
func (h *Host) Run(ctx context.Context, load Load) error {
	m, err := load(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ran := make(chan error, 1)
	go func() { ran <- m.Engine.Run(ctx) }()
	if err := m.Engine.Probe(ctx); err != nil {
		cancel()
		return errors.Join(fmt.Errorf("warming up: %w", err), <-ran)
	}
	h.model.Store(m)
	return <-ran
}

// Find returns the model of that name; "" is the only one. The error is
// ErrNotFound or ErrLoading.
func (h *Host) Find(name string) (*Model, error) {
	if !h.Knows(name) {
		return nil, ErrNotFound
	}
	if m := h.model.Load(); m != nil {
		return m, nil
	}
	return nil, ErrLoading
}

// Knows reports whether Find knows the name, loaded or not.
func (h *Host) Knows(name string) bool { return name == "" || slices.Contains(h.Names, name) }

// Drain ends the engine: see engine.Engine.Drain. Without a model it does nothing.
func (h *Host) Drain(ctx context.Context) error {
	if m := h.model.Load(); m != nil {
		return m.Engine.Drain(ctx)
	}
	return nil
}

// Snapshot returns e's state for its metrics.
func Snapshot(e *engine.Engine) metrics.Snapshot {
	s := e.Stats()
	var groups []metrics.Group
	for _, g := range s.Groups {
		groups = append(groups, metrics.Group(g))
	}
	return metrics.Snapshot{
		Running: s.Running, Waiting: s.Waiting, WaitingTokens: int64(s.WaitingTokens), Groups: groups,
		Accepted: s.Accepted, Prompt: s.Prompt, Generation: s.Generated,
		Begun: s.Begun, PrefixQueries: s.CacheQueries, PrefixHits: s.CacheHits, Recomputed: s.Recomputed,
		Preemptions: s.Preemptions, Steps: s.Steps, Stalls: uint64(s.Stalls), Starts: uint64(s.Starts),
	}
}
