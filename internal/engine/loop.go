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
// dropped, and nothing that the loop did wrong can outlive it. Who may read what of it
// is said in run.go.
type life struct {
	eng      *Engine // never changes, and so does runner
	runner   runner.Runner
	sched    *sched.Scheduler
	prefixes PrefixObserver // nil = nobody is told
	inFlight []step         // oldest first
	owed     int            // steps that an earlier life launched and did not collect
	paused   bool           // launches nothing until what is in flight is over
	inRunner bool           // the runner has been called and has not returned without error
	lastEnd  time.Time      // of the last step
	earlier  sched.Stats    // counters of earlier lives

	adds, stops []*Stream // scratch of mail

	perStep, perToken time.Duration // what steps may take: see timeLimit
	lastTook          time.Duration // by the step that ended last, but for the first
	lastTokens        int           // its tokens
	chunkers          chunkers
	masks             maskTime
	guessLog          guessLog

	// For the supervisor, which reads them while the loop runs.
	busySince    atomic.Int64 // when it began to work on what it works on, in ns since epoch; 0 = it rests
	busyLimit    atomic.Int64 // how long it may, in ns
	fate         atomic.Int32 // alive → returned, or alive → abandoned → returned
	runnerClosed atomic.Bool  // so that it is closed once
	pulse        atomic.Int64 // Batch.Pulse of its steps
	felt         int64        // of the supervisor alone: pulse when it last looked
}

// A step is a batch that was launched and is not collected.
type step struct {
	batch        *runner.Batch
	launchedAt   time.Time
	tokens       int
	promptTokens int // of these, in chunks of prompts
	counted      int // of these, not of probes
}

// What has become of a loop. Whoever changes the value first is right.
const (
	alive     int32 = iota
	returned        // run is over, whatever it gave
	abandoned       // it hangs, others take over
)

// newLife returns a life that has not begun, on a runner that gives owed steps back first.
func (e *Engine) newLife(owned runner.Runner, owed int) (*life, error) {
	cfg := e.cfg.Sched // Submit has refused what is too much
	cfg.MaxQueue, cfg.MaxQueueTokens = math.MaxInt, 0
	var prefixes PrefixObserver
	if e.cfg.Prefixes != nil {
		prefixes = e.cfg.Prefixes()
		cfg.Observer = prefixes
	}
	scheduler, err := sched.New(cfg, owned.Info())
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	return &life{eng: e, runner: owned, sched: scheduler, prefixes: prefixes, owed: owed, chunkers: newChunkers(&e.cfg, owned.Info().MaxTokens), masks: maskTime{clock: e.cfg.Clock}}, nil
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

// Error says what the panic was about, without its stack.
func (p *panicError) Error() string { return fmt.Sprintf("panic: %v", p.value) }

// errAbandoned ends a loop that hung, was given up and came back.
var errAbandoned = errors.New("engine: loop was given up")

// run is the loop: mail, plan and launch, collect, hand out. It returns nil when its
// work is over: drained, or cut off.
func (l *life) run() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicked(p)
		}
	}()
	l.markBusy()
	// Nobody waits for the steps that an earlier life launched.
	for ; l.owed > 0; l.owed-- {
		if _, err := l.collect(); err != nil {
			return err
		}
	}
	for !l.mail() {
		if err := l.launch(); err != nil {
			return err
		}
		if len(l.inFlight) == 0 {
			l.rest()
			continue
		}
		result, err := l.collect()
		if err != nil {
			return err
		}
		if err := l.deliver(result); err != nil {
			return err
		}
	}
	l.sayGuesses(l.eng.cfg.Clock(), true)
	return nil
}

// markBusy marks the start of work: the supervisor counts the time from here on.
func (l *life) markBusy() {
	l.busyLimit.Store(int64(l.timeLimit(0)))
	l.busySince.Store(max(int64(l.eng.elapsed()), 1))
}

// rest waits for mail.
func (l *life) rest() {
	if !l.sched.Idle() {
		panic("engine: the scheduler has work and plans nothing")
	}
	l.publish(true)
	l.busySince.Store(0)
	<-l.eng.wake
	l.markBusy()
}

// mail takes over what came in since the last call. It reports whether the loop is
// to end.
func (l *life) mail() bool {
	engine := l.eng
	if !engine.mailed.Swap(false) {
		return false
	}
	engine.mu.Lock()
	if engine.life != l {
		engine.post() // it was the other loop's
	}
	if engine.life != l || engine.cut || engine.drained() {
		engine.mu.Unlock()
		return true
	}
	// The two lists change places, so that neither is allocated again.
	l.adds, engine.inbox = engine.inbox, l.adds[:0]
	l.stops, engine.stops = engine.stops, l.stops[:0]
	engine.waiting.Add(int64(engine.inboxTokens))
	engine.inboxTokens = 0
	forgets := len(engine.forgets)
	engine.mu.Unlock()
	if l.paused = forgets > 0 && len(l.inFlight) > 0; l.paused {
		engine.mailed.Store(true) // steps in flight use blocks of sequences that have ended
	} else if forgets > 0 {
		l.forget(forgets)
	}
	for _, stream := range l.adds {
		l.add(stream)
	}
	for _, stream := range l.stops {
		l.sched.Abort(stream.ID)
		engine.endFor(l, stream, sched.FinishAbort, nil)
	}
	clear(l.adds)
	clear(l.stops)
	return false
}

// forget empties the prefix cache for the first of those who wait for that. They are in
// the list until it is done: if this loop fails meanwhile, the next one answers them.
func (l *life) forget(waiting int) {
	dropped, engine := l.sched.ForgetPrefixes(), l.eng
	l.flush()
	engine.mu.Lock()
	defer engine.mu.Unlock()
	if engine.life != l {
		return
	}
	for _, waits := range engine.forgets[:waiting] {
		waits <- dropped
		dropped = 0
	}
	engine.forgets = slices.Delete(engine.forgets, 0, waiting)
}

// flush passes on which prefixes are cached.
func (l *life) flush() {
	if l.prefixes != nil {
		l.prefixes.Flush()
	}
}

// add gives a stream's request to the scheduler.
func (l *life) add(stream *Stream) {
	if stream.stopped.Load() {
		l.eng.endFor(l, stream, sched.FinishAbort, nil)
		return
	}
	req := &stream.req
	seq := &sched.Seq{ID: stream.ID, Tenant: req.Tenant, Priority: req.Priority, Salt: req.Salt, Tokens: req.Tokens, MaxTokens: stream.MaxTokens,
		MinTokens: req.MinTokens, Stops: req.Stops, Params: &req.Params, Allowed: req.Allowed, Deadline: req.Deadline,
		StartBy: req.StartBy, Probe: stream.probe, Prediction: req.Prediction, Owner: stream}
	if req.Constraint != nil {
		seq.Constraint = &guard{make: req.Constraint, log: l.eng.log, id: stream.ID, masks: &l.masks}
	}
	if err := l.sched.Add(seq); err != nil {
		l.eng.endFor(l, stream, sched.FinishError, fmt.Errorf("engine: %w", err))
		return
	}
	stream.seq = seq
}

// launch keeps the runner busy.
func (l *life) launch() error {
	for len(l.inFlight) < l.eng.info.Depth && !l.paused {
		now := l.eng.cfg.Clock()
		l.sched.LimitPrompts(l.chunkers.limit(l.sched.Unanswered()))
		l.masks.begin()
		batch := l.sched.Plan(now)
		l.reportGuesses()
		l.flush()
		if batch == nil {
			return nil
		}
		tokens := len(batch.Tokens)
		for _, before := range l.inFlight {
			tokens += before.tokens
		}
		l.busyLimit.Store(int64(l.timeLimit(tokens)))
		l.publish(false) // who has a row in it runs; on some devices Launch is the whole step
		l.tell()
		l.inRunner = true
		batch.Pulse = &l.pulse
		if err := l.runner.Launch(batch); err != nil {
			return fmt.Errorf("launch: %w", err)
		}
		l.inRunner = false
		l.inFlight = append(l.inFlight, step{batch, now, len(batch.Tokens), promptTokens(batch), l.sched.Counted()})
	}
	return nil
}

// reportGuesses says when nothing is guessed any more. Replies are not affected.
func (l *life) reportGuesses() {
	if fault := l.sched.GuessFault(); fault != nil {
		l.eng.log.Error("speculation has failed and is off until the next start; replies are as without it", "panic", fault.Value, "stack", string(fault.Stack))
	}
}

// collect finishes the oldest step in flight.
func (l *life) collect() (*runner.Result, error) {
	l.inRunner = true
	result, err := l.runner.Collect()
	if err != nil {
		return nil, fmt.Errorf("collect: %w", err)
	}
	l.inRunner = false
	return result, nil
}

// deliver records the result of the oldest step and hands out what it brought.
func (l *life) deliver(result *runner.Result) error {
	if l.fate.Load() == abandoned {
		return errAbandoned
	}
	now, step := l.eng.cfg.Clock(), l.inFlight[0]
	l.inFlight = slices.Delete(l.inFlight, 0, 1)
	outputs := l.sched.Commit(step.batch, result, now)
	l.flush()
	l.tell()
	if step.launchedAt.Before(l.lastEnd) {
		step.launchedAt = l.lastEnd // steps run one after another
	}
	took := now.Sub(step.launchedAt)
	if !l.lastEnd.IsZero() {
		l.lastTook, l.lastTokens = took, step.tokens
		if step.promptTokens == 0 {
			l.sched.ObserveStep(step.tokens, took-result.Guessing)
		}
	}
	l.lastEnd = now
	l.chunkers.learn(step.promptTokens, took)
	// Counted before it is handed out: who has an answer finds it in the figures.
	l.publish(false)
	if l.eng.cfg.Step != nil && step.counted > 0 {
		l.eng.cfg.Step(step.counted, took)
	}
	if !l.handOut(outputs, step.tokens, took, now) {
		return errAbandoned
	}
	at := max(int64(now.Sub(l.eng.epoch)), 1)
	l.eng.progress.Store(at)
	l.busySince.Store(at)
	l.sayGuesses(now, false)
	return nil
}

// tell says of sequences that have given nothing yet how far their prompts are.
func (l *life) tell() {
	for seq := range l.sched.Residents() {
		if len(seq.Tokens) == seq.Prompt {
			seq.Owner.(*Stream).req.Shown.Read(seq.Cached, seq.Computed())
		}
	}
}

// handOut gives streams their outputs and counts the step, unless another loop has
// taken over.
func (l *life) handOut(outputs []sched.Output, tokens int, took time.Duration, now time.Time) bool {
	engine := l.eng
	engine.mu.Lock()
	defer engine.mu.Unlock()
	if engine.life != l {
		return false
	}
	for len(outputs) > 0 {
		same := 1 // outputs of a sequence follow one another
		for same < len(outputs) && outputs[same].ID == outputs[0].ID {
			same++
		}
		if stream := engine.live[outputs[0].ID]; stream != nil { // else it was cut off
			engine.give(stream, outputs[:same], now)
			if last := &outputs[same-1]; last.Finish != sched.FinishNone {
				stream.leave()
				engine.endStream(stream, last.Finish, last.Err, now)
			}
		}
		outputs = outputs[same:]
	}
	engine.stepTimes.add(took)
	engine.tokenTimes.add(took / time.Duration(tokens))
	l.expect()
	return true
}

// give gives a stream its tokens of a step and counts them. A prompt is counted with the first: a
// stream without one may begin again in another loop. e.mu is held.
func (e *Engine) give(stream *Stream, outputs []sched.Output, now time.Time) {
	last := len(outputs) - 1
	ending := outputs[last].Finish
	if outputs[last].Token == sched.NoToken {
		outputs = outputs[:last]
	}
	if len(outputs) == 0 {
		return
	}
	first, given := stream.push(outputs, ending, now)
	if stream.probe || !given {
		return
	}
	e.generated += uint64(len(outputs))
	if first {
		e.prompt += uint64(stream.seq.Prompt)
		e.cached += uint64(stream.seq.Cached)
	}
}

// expect takes over what is known about the time of steps; the engine's mutex is held.
func (l *life) expect() {
	l.perStep, l.perToken = 20*l.eng.stepTimes.p99(), 2*l.eng.tokenTimes.p99()
}

// timeLimit returns how long steps of that many tokens may take, or not get on, before the
// loop counts as hanging: HLT-1's max(10 s, 20 × p99 step), but not less than twice the
// time of the tokens one by one, for a chunk of a prompt may follow hours of short
// steps, and than four times the step before it, for each chunk of a long prompt takes
// longer than the last. The first step, and one after a rest in which others may have
// had the memory, may have to wait for weights to come from disk.
func (l *life) timeLimit(tokens int) time.Duration {
	limit := max(l.eng.cfg.Stall, l.perStep, time.Duration(tokens)*l.perToken)
	if l.lastTook > 0 {
		limit = max(limit, 4*l.lastTook*time.Duration(max(1, tokens/l.lastTokens)))
	}
	if l.lastEnd.IsZero() || l.eng.cfg.Clock().Sub(l.lastEnd) > coldAfter {
		limit = max(limit, l.eng.cfg.FirstStep)
	}
	return limit
}

// coldAfter is a rest after which weights may have left the memory.
const coldAfter = time.Minute

// stalled reports whether the loop hangs, at a time since the engine was made.
func (l *life) stalled(now time.Duration) bool {
	since := l.busySince.Load()
	return since != 0 && int64(now)-since > l.busyLimit.Load()
}

// look lets what the loop works on take longer where it is not to blame: a watch that comes late
// slept with the whole process or machine, and the loop did not run either; and a step that gets on,
// however slowly, as where the machine lacks memory or processors, does not hang.
func (l *life) look(now, late time.Duration) {
	since := l.busySince.Load()
	if since == 0 {
		return
	}
	until := since + max(int64(late), 0)
	if pulse := l.pulse.Load(); pulse != l.felt {
		l.felt, until = pulse, int64(now)
	}
	// Never beyond now, or what hangs next would be found later.
	l.busySince.CompareAndSwap(since, min(until, max(int64(now), since)))
}

// endFor ends a stream on behalf of a loop, if it is still that loop's to end.
func (e *Engine) endFor(l *life, stream *Stream, finish sched.Finish, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.life == l {
		stream.leave()
		e.endStream(stream, finish, err, e.cfg.Clock())
	}
}
