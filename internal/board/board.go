// Package board knows which requests there are: those that wait, for their model or in its queue,
// those that run and the last that have ended. Whoever works on a request writes numbers as they change, with atomics;
// whoever looks reads them all at once. Its users need not know how the two stay out of each
// other's way: a reader takes no lock that the engine's loop takes.
//
// Nothing here has a word of a request or of an answer: names and numbers only.
package board

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Kept is how many requests that have ended stay on a board.
const Kept = 100

// A Label names a request.
type Label struct {
	ID    string // X-Request-Id
	Route string // its pattern
	Model string // by the name that replies have
}

// A Phase is what the engine does for a sequence.
type Phase int32

// The phases. A sequence is Away before the engine has it and after that, which may be more
// than once: with tools each step of an answer is a sequence of the engine's.
const (
	Away    Phase = iota
	Queued        // waits for its first slot
	Prefill       // its prompt is being computed, no token has come
	Decode        // tokens come
)

// A Sequence is one choice of a request. The engine writes it; anybody reads it.
type Sequence struct{ phase, prompt, cached, done atomic.Int64 }

// Queue says that the engine has a prompt of that many tokens, and has not begun.
func (s *Sequence) Queue(prompt int) {
	if s != nil {
		s.prompt.Store(int64(prompt))
		s.cached.Store(0)
		s.done.Store(0)
		s.phase.Store(int64(Queued))
	}
}

// Read says how many tokens of the prompt are computed, of which the first were found in the
// prefix cache.
func (s *Sequence) Read(cached, done int) {
	if s != nil {
		s.cached.Store(int64(cached))
		s.done.Store(int64(done))
		s.phase.Store(int64(Prefill))
	}
}

// Speak says that the first token has come.
func (s *Sequence) Speak(cached int) {
	if s != nil {
		s.cached.Store(int64(cached))
		s.done.Store(s.prompt.Load())
		s.phase.Store(int64(Decode))
	}
}

// Leave says that the engine is done with it.
func (s *Sequence) Leave() {
	if s != nil {
		s.phase.Store(int64(Away))
	}
}

// A Request is one on a board. What is exported does not change.
type Request struct {
	Label
	Tenant    uint32 // who sent it
	Received  time.Time
	Sequences []Sequence // choices, those of the first prompt first; none = it waits for its model
	PerPrompt int        // choices
	Tools     bool       // the server's own may run

	board       *Board
	output      atomic.Int64 // tokens
	first, last atomic.Int64 // tokens, in ns since Received; 0 = none has come

	// Guarded by the board, and set when it ends.
	end                  string
	took                 time.Duration
	prompt, cached, made int // tokens of all steps; made: output
}

// Output says that so many more tokens have come.
func (r *Request) Output(tokens int, now time.Time) {
	since := max(int64(now.Sub(r.Received)), 1)
	r.first.CompareAndSwap(0, since)
	r.last.Store(since)
	r.output.Add(int64(tokens))
}

// A Progress is how far a request is before its first token.
type Progress struct {
	Prompt, Cached, Done int // tokens of the prompt: all; found in the prefix cache; computed, those among them
	Before               int // requests of the same model that came earlier and wait
}

// Progress returns how far a request is.
func (r *Request) Progress() Progress {
	p := r.read()
	p.Before = r.board.before(r)
	return p
}

// read adds up its prompts. Choices of one prompt share it.
func (r *Request) read() (p Progress) {
	for i := 0; i < len(r.Sequences); i += r.PerPrompt {
		one := &r.Sequences[i]
		p.Prompt += int(one.prompt.Load())
		p.Cached += int(one.cached.Load())
		p.Done += int(one.done.Load())
	}
	return p
}

// state is what is done for a request that has not ended: the furthest of its sequences says.
func (r *Request) state() string {
	furthest := Away
	for i := range r.Sequences {
		furthest = max(furthest, Phase(r.Sequences[i].phase.Load()))
	}
	switch {
	case furthest == Queued || len(r.Sequences) == 0:
		return Waiting
	case furthest == Prefill:
		return Reading
	case furthest == Away && r.Tools:
		return Calling
	}
	return Writing
}

// The states of an Entry, as clients see them.
const (
	Waiting = "queued"
	Reading = "prefill"
	Writing = "decode"
	Calling = "tools" // a tool of the server runs, the engine has nothing of it
	Ended   = "ended"
)

// An Entry is a request as it was at one moment.
type Entry struct {
	Label
	State    string
	Tenant   uint32
	Progress // without Before
	Output   int
	First    time.Duration // to the first token; 0 = none has come
	Rate     float64       // tokens a second from the first to the latest; 0 = fewer than two
	Age      time.Duration // since it came, or until it ended
	End      string        // how; "" = it goes on
}

// entry reads a request; the board's lock is held.
func (r *Request) entry(now time.Time) Entry {
	entry := Entry{Label: r.Label, Tenant: r.Tenant, First: time.Duration(r.first.Load()), Output: int(r.output.Load()), End: r.end}
	if r.end != "" {
		entry.State, entry.Age = Ended, r.took
		entry.Output, entry.Prompt, entry.Cached, entry.Done = r.made, r.prompt, r.cached, r.prompt
	} else {
		entry.State, entry.Age, entry.Progress = r.state(), now.Sub(r.Received), r.read()
	}
	if spoke := time.Duration(r.last.Load()) - entry.First; entry.Output > 1 && spoke > 0 {
		entry.Rate = float64(entry.Output-1) / spoke.Seconds()
	}
	return entry
}

// A Board has the requests of a server. Its methods may be called by any goroutine. How many
// run or wait is bounded by the engine, which takes no more, and Kept bounds those that ended.
type Board struct {
	mu     sync.Mutex // guards what follows, and what of requests says so; never held while the engine is called
	active []*Request // in the order in which they came
	ended  []*Request // the latest last
}

// Add puts a request on the board. It leaves with End or Drop.
func (b *Board) Add(r *Request) *Request {
	r.board = b
	b.mu.Lock()
	defer b.mu.Unlock()
	b.active = append(b.active, r)
	return r
}

// A Caller is a request before its model is there, of which nothing else is known.
type Caller struct {
	Label    // without its model
	Tenant   uint32
	Received time.Time
	Board    *Board // nil = nobody looks
}

// Wait puts the caller on the board while it waits for a model's turn in memory. What it returns
// is to be dropped then.
func (c *Caller) Wait(model string) *Request {
	if c.Board == nil {
		return nil
	}
	label := c.Label
	label.Model = model
	return c.Board.Add(&Request{Label: label, Tenant: c.Tenant, Received: c.Received})
}

// Drop takes a request off that has not begun: it was refused, or it has its model now. Of nothing
// it does nothing.
func (r *Request) Drop() {
	if r == nil {
		return
	}
	b := r.board
	b.mu.Lock()
	defer b.mu.Unlock()
	b.remove(r)
}

// End says how a request has ended, and what it took in all.
func (r *Request) End(how string, prompt, cached, output int, now time.Time) {
	board := r.board
	board.mu.Lock()
	defer board.mu.Unlock()
	board.remove(r)
	r.end, r.took, r.prompt, r.cached, r.made = how, now.Sub(r.Received), prompt, cached, output
	if len(board.ended) == Kept {
		board.ended = slices.Delete(board.ended, 0, 1)
	}
	board.ended = append(board.ended, r)
}

// remove takes a request from those that go on; b.mu is held.
func (b *Board) remove(r *Request) {
	if i := slices.Index(b.active, r); i >= 0 {
		b.active = slices.Delete(b.active, i, i+1)
	}
}

// before counts the requests of the same model that came before this one and wait.
func (b *Board) before(request *Request) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, other := range b.active {
		if other == request {
			break
		}
		if other.Model == request.Model && other.state() == Waiting {
			n++
		}
	}
	return n
}

// Entries returns all requests: those that go on in the order in which they came, then those
// that have ended, the latest first.
func (b *Board) Entries(now time.Time) []Entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make([]Entry, 0, len(b.active)+len(b.ended))
	for _, r := range b.active {
		all = append(all, r.entry(now))
	}
	for _, r := range slices.Backward(b.ended) {
		all = append(all, r.entry(now))
	}
	return all
}
