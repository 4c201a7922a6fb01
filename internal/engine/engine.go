// Package engine runs requests. Its users submit token ids and receive token ids;
// they need not know that one goroutine drives scheduler and runner for all of
// them, what happens when it panics or hangs, or how work ends when the process
// shuts down.
package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ossian/internal/board"
	"ossian/internal/draft"
	"ossian/internal/runner"
	"ossian/internal/sample"
	"ossian/internal/sched"
)

// Errors of Submit and Recv. A *LimitError is the other one to test for.
var (
	ErrInvalid     = errors.New("engine: invalid request")                    // Submit: it would be refused again
	ErrQueueFull   = errors.New("engine: too many requests wait")             // Submit: try again later
	ErrQueueTokens = errors.New("engine: too many prompt tokens wait")        // Submit: try again later
	ErrRestarting  = errors.New("engine: restarting after a fault")           // Submit: try again later
	ErrDraining    = errors.New("engine: draining")                           // Submit: try elsewhere
	ErrStopped     = errors.New("engine: stopped")                            // Submit and Recv: Run has ended or is about to
	ErrInterrupted = errors.New("engine: a fault interrupted the generation") // Recv: the request may be submitted again
	ErrConstraint  = errors.New("engine: a constraint failed")                // Recv: a fault of its own, in the log
)

// A LimitError says that a request can never run, because its prompt leaves no
// room for output.
type LimitError struct {
	Prompt int // its tokens
	Output int // tokens that were asked for; 0 = as many as fit
	Max    int // tokens, prompt and output
}

// Error says by how much the prompt is too long, and what to do.
func (e *LimitError) Error() string {
	return fmt.Sprintf("engine: prompt has %d tokens, prompt and output may have %d: shorten the prompt to leave room for output", e.Prompt, e.Max)
}

// A Request asks for the continuation of a prompt.
type Request struct {
	Tokens     []int32 // prompt, at least one id; the engine reads it until the first token is out
	MaxTokens  int     // output tokens; 0 or more than the context has room for = what it has room for
	MinTokens  int     // output tokens before which no id of Stops is chosen
	Stops      []int32 // ids that end the output; the one that did is its last token
	Params     sample.Params
	Allowed    []uint64                // ids that may ever be chosen, one bit each; nil = all; the engine only reads it
	Constraint func() sched.Constraint // makes one for each attempt, on the loop; nil = free
	Tenant     uint32                  // who shares fairly with others: usually one API key
	Priority   int                     // within the tenant, lower runs first
	Salt       uint64                  // only requests with the same salt share cached prefixes
	Deadline   time.Time               // ends with FinishDeadline; zero = none
	StartBy    time.Time               // the same, but only while it waits; zero = none
	Shown      *board.Sequence         // is told how far it is; nil = nobody is
	Prediction []int32                 // ids that the output may have parts of; nil = none; the engine only reads it
	Follows    bool                    // on another of somebody who holds the engine (Hold): it is taken while the engine drains
}

// due returns when a request that waits runs out of time; zero = never.
func (r *Request) due() time.Time {
	if r.StartBy.IsZero() || (!r.Deadline.IsZero() && r.Deadline.Before(r.StartBy)) {
		return r.Deadline
	}
	return r.StartBy
}

// A Config is what an operator may choose. The zero value is a sensible server.
type Config struct {
	// Sched says how steps are made. MaxQueue counts requests beyond those that can
	// run side by side; they and MaxQueueTokens are enforced by Submit.
	Sched sched.Config

	// StepTime is how long a step may take while replies are being written: prompts
	// beside them are cut into chunks that fit, as earlier steps have shown. 0 = any.
	StepTime time.Duration

	// CrowdTime is the same while two requests or more wait for their first token: where steps are
	// too short for prompts to be read as fast as they come, the line only grows. Less than
	// StepTime, as 0, = StepTime.
	CrowdTime time.Duration

	Stall     time.Duration // a step that takes longer is a fault, unless steps usually take so long; 0 = 10 s
	FirstStep time.Duration // the same for the first step of a runner, and after a minute of rest; 0 = 10 min
	Restarts  int           // faults survived within an hour; 0 = 3, negative = none

	// Open makes a runner in place of one that has failed; nil = such a fault is
	// the end. It should give up when ctx ends. After a fault outside the runner
	// the runner is used again.
	Open func(ctx context.Context) (runner.Runner, error)

	Clock func() time.Time // nil = time.Now

	// Prefixes makes what is told which prefixes are cached, one for each loop, the first of New:
	// from then on the last loop's is gone. nil = nobody is told.
	Prefixes func() PrefixObserver

	// Guesses says what steps guess, if the runner takes guesses; nil = nothing. They change no
	// output. What was learned outlives the loop.
	Guesses *draft.Settings

	// Step is told the new tokens of each finished step and its time, by the loop,
	// which waits for it; nil = nobody is. Of probes it is told nothing.
	Step func(tokens int, took time.Duration)
}

// A PrefixObserver is told by the loop which prefixes are cached. It must not wait for anybody.
type PrefixObserver interface {
	sched.PrefixObserver
	// Flush is called before the tokens of a step are given out whose prefixes it was told of,
	// and before a step is launched that may use blocks again which it was told are gone.
	Flush()
}

// Validate reports the first field of c that is outside its range.
func (c *Config) Validate() error {
	if c.Stall < 0 || c.FirstStep < 0 || c.StepTime < 0 || c.CrowdTime < 0 {
		return fmt.Errorf("engine: stall limits %v and %v, steps of %v and %v: they must not be negative", c.Stall, c.FirstStep, c.StepTime, c.CrowdTime)
	}
	if c.Sched.MaxQueue < 0 || c.Sched.MaxQueueTokens < 0 {
		return fmt.Errorf("engine: queue of %d requests and %d tokens: they must not be negative", c.Sched.MaxQueue, c.Sched.MaxQueueTokens)
	}
	return nil
}

// An Engine runs requests on one runner. All methods but Run may be called from
// any goroutine.
//
// Three kinds of goroutines meet here: those that call it, the supervisor (Run) and the
// loop (life). Locks are taken in the order mu, then Stream.mu or publishing; whoever
// holds one waits for nothing else.
type Engine struct {
	cfg        Config
	log        *slog.Logger
	info       runner.Info
	capacity   int // tokens of a sequence, prompt and output
	maxStreams int // streams that have not ended
	epoch      time.Time

	done      chan struct{} // closed when Run returns
	wake      chan struct{} // holds one signal: mail, for a loop that rests
	mailed    atomic.Bool   // something below has changed
	probing   chan struct{} // held by who runs a probe for Ready
	progress  atomic.Int64  // end of the last finished step, in ns since epoch; 0 = none
	waiting   atomic.Int64  // prompt tokens that wait in the scheduler
	firstLife *life         // made by New for Run

	mu          sync.Mutex // guards the fields from here to tokenTimes
	phase       State      // what Run has come to: Starting, Running, Restarting or Stopped
	draining    bool       // nothing more is accepted, but for who holds the engine
	holds       int        // of Hold, and not released
	cut         bool       // the loop is to end at once
	reason      string     // of the last fault
	restarts    int
	life        *life              // whose loop may write to streams; nil = none
	live        map[uint64]*Stream // accepted and not ended
	inbox       []*Stream          // not yet given to the scheduler, in the order of their ids
	inboxTokens int                // of their prompts
	stops       []*Stream          // the loop is to end them
	forgets     []chan<- int       // who waits for an empty prefix cache: room for one number each
	lastID      uint64
	accepted    uint64 // without probes
	prompt      uint64 // tokens of those of these that got a token
	cached      uint64 // of these, found in the prefix cache
	generated   uint64 // tokens delivered to these
	stalls      int
	stepTimes   pace // of finished steps
	tokenTimes  pace // of finished steps, by their tokens

	publishing sync.Mutex  // guards published; the loop waits for it only before it rests
	published  sched.Stats // of the loop, with what earlier ones have counted
	stepCosts  StepCosts   // as the loop has learned them
}

// New returns an engine that owns the runner. It does nothing until Run is called, but
// takes requests.
func New(owned runner.Runner, cfg Config, log *slog.Logger) (*Engine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	// What the zero values of Config mean.
	setDefault(&cfg.Sched.MaxQueue, 1024)
	setDefault(&cfg.Stall, 10*time.Second)
	setDefault(&cfg.FirstStep, 10*time.Minute)
	setDefault(&cfg.Restarts, 3)
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	if cfg.Guesses != nil && owned.Info().Lookahead > 0 {
		cfg.Sched.Guesses = &sched.Guesses{Settings: cfg.Guesses, Store: cfg.Guesses.NewStore(), Chooser: cfg.Guesses.NewChooser()}
	}
	engine := &Engine{cfg: cfg, log: log, info: owned.Info(), epoch: cfg.Clock(), done: make(chan struct{}), wake: make(chan struct{}, 1),
		probing: make(chan struct{}, 1), live: make(map[uint64]*Stream)}
	first, err := engine.newLife(owned, 0)
	if err != nil {
		return nil, err
	}
	engine.firstLife, engine.capacity = first, first.sched.Capacity()
	engine.maxStreams = min(engine.info.MaxSeqs, engine.info.MaxTokens) + cfg.Sched.MaxQueue
	return engine, nil
}

func setDefault[T int | time.Duration](p *T, v T) {
	if *p == 0 {
		*p = v
	}
}

// elapsed returns the time since the engine was made.
func (e *Engine) elapsed() time.Duration { return e.cfg.Clock().Sub(e.epoch) }

// Capacity returns how many tokens, prompt and output, a request can have.
func (e *Engine) Capacity() int { return e.capacity }

// Places returns how many requests may run or wait, and how many of them run side by side.
func (e *Engine) Places() (all, together int) {
	return e.maxStreams, e.maxStreams - e.cfg.Sched.MaxQueue
}

// Device returns what computes.
func (e *Engine) Device() string { return e.info.Name }

// QueueTokens returns how many prompt tokens may wait, 0 = any.
func (e *Engine) QueueTokens() int { return e.cfg.Sched.MaxQueueTokens }

// Submit accepts a request or says why not: ErrInvalid, *LimitError, ErrQueueFull,
// ErrQueueTokens, ErrRestarting, ErrDraining, ErrStopped. It does not wait. When
// ctx ends, at whatever time, the stream stops.
func (e *Engine) Submit(ctx context.Context, req Request) (*Stream, error) {
	return e.submit(ctx, req, false)
}

// submit is Submit, and Probe.
func (e *Engine) submit(ctx context.Context, req Request, probe bool) (*Stream, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := e.check(&req); err != nil {
		return nil, err
	}
	output := e.capacity - len(req.Tokens) // all the context has room for, unless less is asked for
	if req.MaxTokens > 0 {
		output = min(output, req.MaxTokens)
	}
	req.Params.Prompt = len(req.Tokens)
	stream := &Stream{MaxTokens: output, eng: e, req: req, probe: probe, ready: make(chan struct{}, 1), usage: Usage{Prompt: len(req.Tokens)}}
	if ctx.Done() != nil {
		stream.detach = context.AfterFunc(ctx, stream.halt)
	}
	if err := e.accept(stream); err != nil {
		stream.detachContext()
		return nil, err
	}
	e.post()
	return stream, nil
}

// check holds a request to what the loop takes for granted.
func (e *Engine) check(req *Request) error {
	if len(req.Tokens) == 0 || req.MaxTokens < 0 || req.MinTokens < 0 {
		return fmt.Errorf("%w: prompt of %d tokens, output of %d to %d: expected at least 1, 0 and 0", ErrInvalid, len(req.Tokens), req.MinTokens, req.MaxTokens)
	}
	// The long list of ids is looked at only when its length is right.
	if len(req.Tokens) >= e.capacity {
		return &LimitError{Prompt: len(req.Tokens), Output: req.MaxTokens, Max: e.capacity}
	}
	if words := (e.info.Vocab + 63) / 64; req.Allowed != nil && len(req.Allowed) != words {
		return fmt.Errorf("%w: mask of %d words, expected %d", ErrInvalid, len(req.Allowed), words)
	}
	for i, id := range req.Tokens {
		if id < 0 || int(id) >= e.info.Vocab {
			return fmt.Errorf("%w: prompt token %d has id %d, expected 0 to %d", ErrInvalid, i, id, e.info.Vocab-1)
		}
	}
	if i := slices.IndexFunc(req.Prediction, func(id int32) bool { return id < 0 || int(id) >= e.info.Vocab }); i >= 0 {
		return fmt.Errorf("%w: token %d of the prediction has id %d, expected 0 to %d", ErrInvalid, i, req.Prediction[i], e.info.Vocab-1)
	}
	if err := req.Params.Validate(e.info.Vocab); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}

// accept puts a stream into the inbox. A probe goes past the limits and is not counted.
func (e *Engine) accept(stream *Stream) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.refusal(stream.req.Follows); err != nil {
		return err
	}
	prompt := len(stream.req.Tokens)
	if !stream.probe {
		if err := e.queueFull(prompt); err != nil {
			return err
		}
		e.accepted++
	}
	e.lastID++ // ids are in the order of acceptance: rescue restores it by them
	stream.ID, stream.times.Queued = e.lastID, e.cfg.Clock()
	stream.req.Shown.Queue(prompt)
	e.live[stream.ID] = stream
	e.inbox = append(e.inbox, stream)
	e.inboxTokens += prompt
	return nil
}

// queueFull returns why a prompt of that many tokens finds no place in the queue; e.mu is held.
// Where no prompt waits, a long one may exceed the bound.
func (e *Engine) queueFull(prompt int) error {
	bound, wait := e.cfg.Sched.MaxQueueTokens, e.inboxTokens+int(e.waiting.Load())
	switch {
	case len(e.live) >= e.maxStreams:
		return fmt.Errorf("%w: %d run or wait, at most %d may", ErrQueueFull, len(e.live), e.maxStreams)
	case bound > 0 && wait > 0 && prompt > bound-wait:
		return fmt.Errorf("%w: %d, with %d more than %d", ErrQueueTokens, wait, prompt, bound)
	}
	return nil
}

// refusal returns why no request is taken, or none that follows on another; e.mu is held.
func (e *Engine) refusal(follows bool) error {
	switch {
	case e.phase == Stopped || e.cut:
		return ErrStopped
	case e.draining && !(follows && e.holds > 0):
		return ErrDraining
	case e.phase == Restarting:
		return ErrRestarting
	}
	return nil
}

// Accepting returns the error that Submit would give for any request now. It costs
// nothing: whoever has a request to read can ask first.
func (e *Engine) Accepting() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.refusal(false); err != nil {
		return err
	}
	return e.queueFull(1)
}

// stop tells the loop to end a stream.
func (e *Engine) stop(stream *Stream) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.live[stream.ID] == stream {
		e.stops = append(e.stops, stream)
		e.post()
	}
}

// ForgetPrefixes empties the prefix cache, but for what running requests use, when the
// steps in flight are over. It waits for that, and returns how many blocks of all groups
// held what is gone. Errors to test for: ErrStopped, and that of ctx.
func (e *Engine) ForgetPrefixes(ctx context.Context) (blocks int, err error) {
	dropped := make(chan int, 1)
	e.mu.Lock()
	e.forgets = append(e.forgets, dropped)
	e.mu.Unlock()
	e.post()
	select {
	case blocks = <-dropped:
		return blocks, nil
	case <-e.done:
		return 0, ErrStopped
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// post makes the loop look at what has changed.
func (e *Engine) post() {
	e.mailed.Store(true)
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Drain ends the engine: nothing more is accepted, what was accepted, and what is held, goes on
// until it has ended or ctx ends, the rest fails with ErrStopped. It returns when Run
// does, with the error of ctx if requests were cut off.
func (e *Engine) Drain(ctx context.Context) error {
	e.mu.Lock()
	e.draining = true
	e.mu.Unlock()
	e.post()
	select {
	case <-e.done:
		return nil
	case <-ctx.Done():
	}
	e.interrupt()
	<-e.done
	return ctx.Err()
}

// Ended is closed when Run has returned. For who holds the engine that means that it was cut off.
func (e *Engine) Ended() <-chan struct{} { return e.done }

// interrupt ends all streams at once, and the loop when its step is over.
func (e *Engine) interrupt() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.cut = true
	e.endAll(ErrStopped)
	e.post()
}

// endAll ends every stream with an error; e.mu is held.
func (e *Engine) endAll(why error) {
	now := e.cfg.Clock()
	for _, stream := range e.live {
		e.endStream(stream, sched.FinishError, why, now)
	}
	clear(e.inbox)
	clear(e.stops)
	e.inbox, e.stops, e.inboxTokens = e.inbox[:0], e.stops[:0], 0
}

// endStream ends a stream unless it has ended; e.mu is held.
func (e *Engine) endStream(stream *Stream, finish sched.Finish, err error, now time.Time) {
	if e.live[stream.ID] != stream {
		return
	}
	delete(e.live, stream.ID)
	stream.close(finish, err, now)
	if e.drained() {
		e.post()
	}
}

// drained reports whether a drain is over; e.mu is held.
func (e *Engine) drained() bool { return e.draining && len(e.live) == 0 && e.holds == 0 }

// Hold keeps a drain from ending the engine between requests that follow on one another, until
// release is called, which may be done again.
func (e *Engine) Hold() (release func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.holds++
	return sync.OnceFunc(func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.holds--; e.drained() {
			e.post()
		}
	})
}
