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
	Facts       Facts
	Unchanged   func() error // nil, or why what it was loaded from is not as it was; nil = nobody looks
}

// Facts say what a model is, to whoever asks. Nothing is computed with them.
type Facts struct {
	Family       string // the architecture, as checkpoints name it: gpt-oss, qwen3, …
	Parameters   int64
	Quantization string   // the type of element that takes the most bytes: mxfp4, bf16, …
	Device       string   // that computes
	Efforts      []string // of reasoning that make a difference (chat.Efforts); nil = none does
}

// Load reads the weights and returns the model, whose engine does not run yet.
type Load func(ctx context.Context) (*Model, error)

// A Host holds the model of this process. Any number of goroutines may use it.
//
// A model is loading → found → withdrawn, and then no other one is loaded.
type Host struct {
	Card
	model     atomic.Pointer[Model]
	withdrawn atomic.Pointer[WithdrawnError] // nil = it was not
}

// A WithdrawnError says that the model was found wrong while it was served: nothing more is
// computed with it.
type WithdrawnError struct {
	Problem string // for everybody who asks: it names no path
}

// Error says what is wrong.
func (e *WithdrawnError) Error() string { return "the model was unloaded: " + e.Problem }

// New returns a host whose model is not loaded.
func New(card Card) (*Host, error) {
	if len(card.Names) == 0 || slices.Contains(card.Names, "") {
		return nil, fmt.Errorf("host: model names %q: at least one expected, none empty", card.Names)
	}
	return &Host{Card: card}, nil
}

// Run loads the model and runs its engine until it has been drained, ctx ends or
// the engine cannot go on. The model is found once a token has gone through it.
func (h *Host) Run(ctx context.Context, load Load) error {
	model, err := load(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ran := make(chan error, 1)
	go func() { ran <- model.Engine.Run(ctx) }()
	if err := model.Engine.Probe(ctx); err != nil {
		cancel()
		return errors.Join(fmt.Errorf("warming up: %w", err), <-ran)
	}
	h.model.Store(model)
	return <-ran
}

// Withdraw takes the model back, which is found no more, and reports whether there was one.
func (h *Host) Withdraw(problem string) bool {
	if h.model.Load() == nil {
		return false
	}
	h.withdrawn.Store(&WithdrawnError{problem})
	h.model.Store(nil)
	return true
}

// Find returns the model of that name; "" is the only one. The error is
// ErrNotFound, ErrLoading or a *WithdrawnError.
func (h *Host) Find(name string) (*Model, error) {
	if !h.Knows(name) {
		return nil, ErrNotFound
	}
	if withdrawn := h.withdrawn.Load(); withdrawn != nil {
		return nil, withdrawn
	}
	if model := h.model.Load(); model != nil {
		return model, nil
	}
	return nil, ErrLoading
}

// Knows reports whether Find knows the name, loaded or not.
func (h *Host) Knows(name string) bool { return name == "" || slices.Contains(h.Names, name) }

// Drain ends the engine: see engine.Engine.Drain. Without a model it does nothing.
func (h *Host) Drain(ctx context.Context) error {
	if model := h.model.Load(); model != nil {
		return model.Engine.Drain(ctx)
	}
	return nil
}

// Snapshot returns eng's state for its metrics.
func Snapshot(eng *engine.Engine) metrics.Snapshot {
	stats := eng.Stats()
	var groups []metrics.Group
	for _, g := range stats.Groups {
		groups = append(groups, metrics.Group(g))
	}
	return metrics.Snapshot{
		Running: stats.Running, Waiting: stats.Waiting, WaitingTokens: int64(stats.WaitingTokens), Groups: groups,
		Accepted: stats.Accepted, Prompt: stats.Prompt, Generation: stats.Generated,
		Cached: stats.Cached, PrefixQueries: stats.CacheQueries, PrefixHits: stats.CacheHits, Recomputed: stats.Recomputed,
		Preemptions: stats.Preemptions, Steps: stats.Steps, Stalls: uint64(stats.Stalls), Starts: uint64(stats.Starts),
	}
}
