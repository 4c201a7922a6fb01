// Package host knows which models are served. Its users ask for one by any of its
// names and hold it while they need it; they need not know how weights come into memory,
// who runs the engine, whether that has happened yet, or which model had to make room.
//
//	Acquire → Lease → Release
//
// A model that is leased is never taken out of memory (reliability.md OPS-6).
package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"ossian/internal/chat"
	"ossian/internal/engine"
	"ossian/internal/metrics"
	"ossian/internal/sample"
	"ossian/internal/token"
)

// Errors of Acquire. Others are a *WithdrawnError, a *LoadError, and engine.ErrDraining and
// engine.ErrStopped of a host that ends.
var (
	ErrNotFound  = errors.New("host: no such model")
	ErrLoading   = errors.New("host: the model is being loaded")          // of a host with one model: others wait
	ErrQueueFull = errors.New("host: too many requests wait for a model") // try again later
	ErrWaited    = errors.New("host: waited too long for the model")
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
	Name        string // in replies; the host sets it
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
	Close       func() error // called once, when the engine has ended and nobody holds the model; nil = nothing is left
}

// Facts say what a model is, to whoever asks. Nothing is computed with them.
type Facts struct {
	Family       string // the architecture, as checkpoints name it: gpt-oss, qwen3, …
	Parameters   int64
	Quantization string   // the type of element that takes the most bytes: mxfp4, bf16, …
	Device       string   // that computes
	Efforts      []string // of reasoning that make a difference (chat.Efforts); nil = none does
	Memory       Memory
}

// A Memory is what was planned for a model, in bytes.
type Memory struct {
	Planned int64 // in all: what the process, or the card, takes at most
	Weights int64
	KV      int64 // keys and values, which are not there at the start: they come with requests, and stay as prefix cache
}

// Load reads the weights of a card's model and returns it. Its engine does not run yet.
type Load func(ctx context.Context, card *Card) (*Model, error)

// A Config says how models share the process. The zero value has one in memory at a time.
type Config struct {
	Resident int           // models in memory at once; 0 = 1
	Turn     time.Duration // how long a model goes on taking requests while another is waited for; 0 = 10 s
	Queue    int           // requests that wait for models at most; 0 = 1024

	// Check finds out, without the weights, whether a model can be loaded, and its tokens of
	// context: of each of several at the start, and again before another makes room for it.
	Check func(ctx context.Context, card *Card) (maxLen int, err error)
	// Final returns what everybody who asks for a model is told whose engine ended with that
	// error, if it is never to be loaded again; "" = it may be.
	Final func(error) string

	Log *slog.Logger // nil = nothing is logged
}

// A Host holds the models of this process. Any number of goroutines may use it.
type Host struct {
	cfg     Config
	entries []*entry
	wake    chan struct{}  // holds one signal for Run: something below has changed
	engines sync.WaitGroup // that run

	mu       sync.Mutex // guards what follows, and all of the entries
	unloaded []func(*Model)
	line     int           // requests that wait, of all models
	changed  chan struct{} // closed at the next change, for Drain
	draining bool          // nobody gets in line
	stopped  bool          // nothing more is loaded
	fatal    error         // of the only model: why Run ends
}

// A WithdrawnError says that the model was found wrong while it was served: nothing more is
// computed with it.
type WithdrawnError struct {
	Problem string // for everybody who asks: it names no path
}

// Error says what is wrong.
func (e *WithdrawnError) Error() string { return "the model was unloaded: " + e.Problem }

// A LoadError says that a model could not be loaded, or that its engine broke, which the log
// says more about. It names no path.
type LoadError struct {
	Name  string
	Retry time.Duration // after which a request has it tried again
}

// Error says which model, and when to try again.
func (e *LoadError) Error() string {
	return fmt.Sprintf("the model %q could not be loaded, which the server's log says more about; a request in %d s has it tried again", e.Name, e.Seconds())
}

// Seconds returns Retry, rounded up.
func (e *LoadError) Seconds() int { return max(int(math.Ceil(e.Retry.Seconds())), 1) }

// New returns a host of at least one model, none of which is loaded. The first is the one
// of requests that name none.
func New(cfg Config, cards ...Card) (*Host, error) {
	cfg.Resident = max(cfg.Resident, 1)
	if cfg.Turn == 0 {
		cfg.Turn = 10 * time.Second
	}
	if cfg.Queue == 0 {
		cfg.Queue = 1024
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	host := &Host{cfg: cfg, wake: make(chan struct{}, 1), changed: make(chan struct{})}
	// Names are of all models together: a request must not mean two.
	known := map[string]bool{}
	for i, card := range cards {
		if len(card.Names) == 0 || slices.Contains(card.Names, "") {
			return nil, fmt.Errorf("host: model names %q: at least one expected, none empty", card.Names)
		}
		for _, name := range card.Names {
			if known[name] {
				return nil, fmt.Errorf("host: two models are named %q", name)
			}
			known[name] = true
		}
		host.entries = append(host.entries, &entry{Card: card, first: i < cfg.Resident})
	}
	if len(host.entries) == 0 {
		return nil, errors.New("host: no model; at least one expected")
	}
	return host, nil
}

// alone reports whether there is one model only, for which nobody waits: requests are told that
// it is being loaded, and what ends its engine ends the host.
func (h *Host) alone() bool { return len(h.entries) == 1 }

// lookup returns the entry of a name, "" = the first; nil = there is none.
func (h *Host) lookup(name string) *entry {
	for _, e := range h.entries {
		if name == "" || slices.Contains(e.Names, name) {
			return e
		}
	}
	return nil
}

// Names returns the reported name of each model.
func (h *Host) Names() (names []string) {
	for _, e := range h.entries {
		names = append(names, e.Names[0])
	}
	return names
}

// Several reports whether there is more than one model.
func (h *Host) Several() bool { return !h.alone() }

// OnUnload has f called with each model that is out of memory, or about to be: nobody holds it
// any more, and what was kept for it is to be forgotten.
func (h *Host) OnUnload(f func(*Model)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unloaded = append(h.unloaded, f)
}

// An Info is what clients may know of a model.
type Info struct {
	Card
	State   State
	Failed  bool // it could not be loaded when that was last tried, or was withdrawn
	Chat    bool // it has a chat template, as far as known; see Host.Show
	Tools   bool // that can write tools
	Waiting int  // requests
	Loaded  bool // it has been: what follows is known
	Facts   Facts
}

// Show tells what the files of the model of that name show before its weights are read: how
// conversations with it are written, nil = it has no chat template. Loading the model shows it, too.
func (h *Host) Show(name string, format chat.Format) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := h.lookup(name); e != nil {
		e.show(format)
	}
}

// Models returns what is known of each model.
func (h *Host) Models() (all []Info) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.entries {
		all = append(all, e.info())
	}
	return all
}

// Model returns what is known of the model of that name; ok = there is one.
func (h *Host) Model(name string) (info Info, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.lookup(name)
	if e == nil {
		return info, false
	}
	return e.info(), true
}

// Waiting returns how many requests wait for the model of that name to be in memory.
func (h *Host) Waiting(name string) int {
	info, _ := h.Model(name)
	return info.Waiting
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
		Guesses: guesses(&stats),
	}
}

// guesses is what became of the guesses of an engine.
func guesses(stats *engine.Stats) metrics.Guesses {
	if stats.MostGuesses == 0 {
		return metrics.Guesses{}
	}
	of := &stats.Guesses
	counted := metrics.Guesses{Most: stats.MostGuesses, Rows: of.Rows, AcceptedAt: of.AcceptedAt[:], StepCosts: make(map[int]float64)}
	for _, source := range stats.GuessedFrom {
		accepted, unchecked := of.Accepted[source], of.Unchecked[source]
		counted.Sources = append(counted.Sources, metrics.GuessedFrom{Source: source.String(), Accepted: accepted, Unchecked: unchecked,
			Refused: of.Guessed[source] - accepted - unchecked})
	}
	for i, cost := range stats.StepCosts {
		counted.StepCosts[2<<i] = cost
	}
	return counted
}
