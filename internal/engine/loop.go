package engine

import (
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"ossian/internal/runner"
	"ossian/internal/sched"
)

// A life is one loop with everything it owns. After a fault the whole value is
// dropped, and nothing that the loop did wrong can outlive it.
type life struct {
	eng    *Engine
	runner runner.Runner
	sched  *sched.Scheduler
	flight []launched  // oldest first
	owed   int         // steps that an earlier life launched and did not collect
	pause  bool        // launches nothing until what is in flight is over
	inside bool        // the runner has been called and has not returned without error
	ended  time.Time   // of the last step
	before sched.Stats // counters of earlier lives

	adds, stops []*Stream // scratch of mail

	perStep, perToken time.Duration // what steps may take
	took              time.Duration // by the step that ended last, but for the first
	tookFor           int           // its tokens
	chunk             chunker

	// For the watch over the loop.
	since  atomic.Int64 // when it began to work on what it works on, in ns since epoch; 0 = it rests
	limit  atomic.Int64 // how long it may, in ns
	ending atomic.Int32
	closed atomic.Bool // the runner
}

type launched struct {
	batch  *runner.Batch
	at     time.Time
	tokens int
	prompt int // of these, in chunks of prompts
}

// What has become of a loop. Whoever changes the value first is right.
const (
	alive int32 = iota
	returned
	abandoned // it hangs, others take over
)

func (e *Engine) newLife(r runner.Runner, owed int) (*life, error) {
	cfg := e.cfg.Sched // Submit has refused what is too much
	cfg.MaxQueue, cfg.MaxQueueTokens = math.MaxInt, 0
	s, err := sched.New(cfg, r.Info())
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	return &life{eng: e, runner: r, sched: s, owed: owed, chunk: newChunker(e.cfg.StepTime, r.Info().MaxTokens)}, nil
}

// A panicError is a panic of the loop.
type panicError struct {
	value any
	stack []byte
}

// panicked returns the error of a panic with value. One that comes from another goroutine
// brings the stack of that.
func panicked(value any) *panicError {
	stack := debug.Stack()
	if from, ok := value.(interface{ Stack() []byte }); ok {
		stack = slices.Concat(from.Stack(), []byte("\nhanded on to\n"), stack)
	}
	return &panicError{value, stack}
}

func (p *panicError) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// errAbandoned ends a loop that hung, was given up and came back.
var errAbandoned = errors.New("engine: loop was given up")

// run is the loop. It returns nil when its work is over: drained, or cut off.
func (l *life) run() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
		}
	}()
	l.begin()
	for ; l.owed > 0; l.owed-- {
		if _, err := l.collect(); err != nil {
			return err
		}
	}
	for !l.mail() {
		if err := l.launch(); err != nil {
			return err
		}
		if len(l.flight) == 0 {
			l.rest()
			continue
		}
		res, err := l.collect()
		if err != nil {
			return err
		}
		if err := l.deliver(res); err != nil {
			return err
		}
	}
	return nil
}

// begin marks the start of work.
func (l *life) begin() {
	l.limit.Store(int64(l.allowed(0)))
	l.since.Store(max(int64(l.eng.since()), 1))
}

// rest waits for mail.
func (l *life) rest() {
	if !l.sched.Idle() {
		panic("engine: the scheduler has work and plans nothing")
	}
	l.publish(true)
	l.since.Store(0)
	<-l.eng.wake
	l.begin()
}

// mail takes over what came in since the last call. It reports whether the loop is
// to end.
func (l *life) mail() bool {
	e := l.eng
	if !e.mailed.Swap(false) {
		return false
	}
	e.mu.Lock()
	if e.life != l {
		e.post() // it was the other loop's
	}
	if e.life != l || e.cut || (e.draining && len(e.live) == 0) {
		e.mu.Unlock()
		return true
	}
	l.adds, e.adds = e.adds, l.adds[:0]
	l.stops, e.stops = e.stops, l.stops[:0]
	e.waiting.Add(int64(e.addTokens))
	e.addTokens = 0
	forgets := len(e.forgets)
	e.mu.Unlock()
	if l.pause = forgets > 0 && len(l.flight) > 0; l.pause {
		e.mailed.Store(true) // steps in flight use blocks of sequences that have ended
	} else if forgets > 0 {
		l.forget(forgets)
	}
	for _, s := range l.adds {
		l.add(s)
	}
	for _, s := range l.stops {
		l.sched.Abort(s.ID)
		e.end(l, s, sched.FinishAbort, nil)
	}
	clear(l.adds)
	clear(l.stops)
	return false
}

// forget empties the prefix cache for the first n who wait for that. They are in the list
// until it is done: if this loop fails meanwhile, the next one answers them.
func (l *life) forget(n int) {
	dropped, e := l.sched.ForgetPrefixes(), l.eng
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.life != l {
		return
	}
	for _, waits := range e.forgets[:n] {
		waits <- dropped
		dropped = 0
	}
	e.forgets = slices.Delete(e.forgets, 0, n)
}

// add gives a stream's request to the scheduler.
func (l *life) add(s *Stream) {
	if s.stopped.Load() {
		l.eng.end(l, s, sched.FinishAbort, nil)
		return
	}
	r := &s.req
	q := &sched.Seq{ID: s.ID, Tenant: r.Tenant, Priority: r.Priority, Salt: r.Salt, Tokens: r.Tokens, MaxTokens: s.MaxTokens,
		MinTokens: r.MinTokens, Stops: r.Stops, Params: &r.Params, Allowed: r.Allowed, Deadline: r.Deadline,
		StartBy: r.StartBy}
	if r.Constraint != nil {
		q.Constraint = &guard{make: r.Constraint, log: l.eng.log, id: s.ID}
	}
	if err := l.sched.Add(q); err != nil {
		l.eng.end(l, s, sched.FinishError, fmt.Errorf("engine: %w", err))
		return
	}
	s.seq = q
}

// launch keeps the runner busy.
func (l *life) launch() error {
	for len(l.flight) < l.eng.info.Depth && !l.pause {
		now := l.eng.cfg.Clock()
		l.sched.LimitPrompts(l.chunk.limit())
		b := l.sched.Plan(now)
		if b == nil {
			return nil
		}
		tokens := len(b.Tokens)
		for _, f := range l.flight {
			tokens += f.tokens
		}
		l.limit.Store(int64(l.allowed(tokens)))
		l.publish(false) // who has a row in it runs; on some devices Launch is the whole step
		l.inside = true
		if err := l.runner.Launch(b); err != nil {
			return fmt.Errorf("launch: %w", err)
		}
		l.inside = false
		l.flight = append(l.flight, launched{b, now, len(b.Tokens), promptTokens(b)})
	}
	return nil
}

func (l *life) collect() (*runner.Result, error) {
	l.inside = true
	res, err := l.runner.Collect()
	if err != nil {
		return nil, fmt.Errorf("collect: %w", err)
	}
	l.inside = false
	return res, nil
}

// deliver records the result of the oldest step and hands out what it brought.
func (l *life) deliver(res *runner.Result) error {
	if l.ending.Load() == abandoned {
		return errAbandoned
	}
	now, f := l.eng.cfg.Clock(), l.flight[0]
	l.flight = slices.Delete(l.flight, 0, 1)
	outputs := l.sched.Commit(f.batch, res, now)
	if f.at.Before(l.ended) {
		f.at = l.ended // steps run one after another
	}
	took := now.Sub(f.at)
	if !l.ended.IsZero() {
		l.took, l.tookFor = took, f.tokens
	}
	l.ended = now
	l.chunk.learn(f.prompt, took)
	if !l.hand(outputs, f.tokens, took, now) {
		return errAbandoned
	}
	at := max(int64(now.Sub(l.eng.epoch)), 1)
	l.eng.progress.Store(at)
	l.since.Store(at)
	l.publish(false)
	if l.eng.cfg.Step != nil {
		l.eng.cfg.Step(f.tokens, took)
	}
	return nil
}

// hand gives streams their outputs and counts the step, unless another loop has
// taken over.
func (l *life) hand(outputs []sched.Output, tokens int, took time.Duration, now time.Time) bool {
	e := l.eng
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.life != l {
		return false
	}
	for i := range outputs {
		o := &outputs[i]
		s := e.live[o.ID]
		if s == nil {
			continue // cut off
		}
		if o.Token != sched.NoToken {
			s.push(o, now)
		}
		if o.Token != sched.NoToken && !s.probe {
			e.generated++
		}
		if o.Finish != sched.FinishNone {
			s.leave()
			e.endLocked(s, o.Finish, o.Err, now)
		}
	}
	e.steps.add(took)
	e.perToken.add(took / time.Duration(tokens))
	l.expect()
	return true
}

// expect takes over what is known about the time of steps; the engine's mutex is held.
func (l *life) expect() {
	l.perStep, l.perToken = 20*l.eng.steps.p99(), 2*l.eng.perToken.p99()
}

// allowed returns how long steps of that many tokens may take before the loop
// counts as hanging: HLT-1's max(10 s, 20 × p99 step), but not less than twice the
// time of the tokens one by one, for a chunk of a prompt may follow hours of short
// steps, and than four times the step before it, for each chunk of a long prompt takes
// longer than the last. The first step, and one after a rest in which others may have
// had the memory, may have to wait for weights to come from disk.
func (l *life) allowed(tokens int) time.Duration {
	limit := max(l.eng.cfg.Stall, l.perStep, time.Duration(tokens)*l.perToken)
	if l.took > 0 {
		limit = max(limit, 4*l.took*time.Duration(max(1, tokens/l.tookFor)))
	}
	if l.ended.IsZero() || l.eng.cfg.Clock().Sub(l.ended) > coldAfter {
		limit = max(limit, l.eng.cfg.FirstStep)
	}
	return limit
}

// coldAfter is a rest after which weights may have left the memory.
const coldAfter = time.Minute

// stalls reports whether the loop hangs.
func (l *life) stalls() bool {
	since := l.since.Load()
	return since != 0 && int64(l.eng.since())-since > l.limit.Load()
}

// forgive lets what the loop works on take that much longer.
func (l *life) forgive(d time.Duration) {
	if since := l.since.Load(); since != 0 {
		l.since.CompareAndSwap(since, since+int64(d))
	}
}

// end ends a stream on behalf of a loop, if it is still that loop's to end.
func (e *Engine) end(l *life, s *Stream, f sched.Finish, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.life == l {
		s.leave()
		e.endLocked(s, f, err, e.cfg.Clock())
	}
}
