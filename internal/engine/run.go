package engine

// The supervisor: the goroutine of Run, which watches one loop after another. A loop ends
// in one of three ways:
//
//	                 its work is over        a fault: an error, a panic  it hangs
//	found by         run returns nil         run returns an error        watch: no progress in time
//	life.fate        returned                returned                    abandoned; returned, should it come back
//	streams          none, or ErrStopped     those that gave nothing     only those that it never saw
//	                                         wait for the next loop,     wait for the next loop; the
//	                                         once; the others:           others: ErrInterrupted
//	                                         ErrInterrupted
//	runner           closed                  used again if it was not    left to the loop, which closes
//	                                         being called, else closed   it should it come back;
//	                                         and opened again            another one is opened
//	steps in flight  nobody waits for them   collected by the next loop  lost
//	                                         if the runner is used again
//	then             Run returns             the next life, or Run       the next life, or Run
//	                                         returns an error            returns an error
//
// Who may read what of a life: its loop everything. The supervisor reads eng and runner,
// which never change, and the atomics at any time; the rest only when run has returned.
// Of a life that hangs the rest is its loop's for good. Should that loop go on, it takes no
// mail and hands nothing out: before, it finds under Engine.mu that Engine.life is another
// one. What it would publish is dropped.

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"ossian/internal/runner"
	"ossian/internal/sched"
)

// errStalled is the fault of a loop that makes no progress.
var errStalled = errors.New("engine: no step finished in time")

// watchEvery is how often the supervisor looks after what the loop does not.
const watchEvery = 250 * time.Millisecond

// Run drives the engine until it is drained or ctx ends, which cuts everything
// off; then it closes the runner. It is called once. An error says that the engine
// is broken beyond what Config allows to repair. A call of the runner that never
// returns cannot be ended: its goroutine is left behind.
func (e *Engine) Run(ctx context.Context) error {
	defer close(e.done)
	defer context.AfterFunc(ctx, e.interrupt)()
	current := e.firstLife
	e.firstLife = nil
	var faults []time.Time // within an hour
	for {
		e.mu.Lock()
		e.life, e.phase = current, Running
		e.mu.Unlock()
		e.post() // what came before it, or was kept for it
		fault := e.watch(current)
		if fault == nil {
			e.shut(ErrStopped)
			return e.closeRunner(current)
		}
		now := e.cfg.Clock()
		faults = append(slices.DeleteFunc(faults, func(t time.Time) bool { return now.Sub(t) > time.Hour }), now)
		kept := e.rescue(fault) // first: from here on the failed loop reaches nobody
		e.report(current, fault, kept)
		next, err := e.replace(ctx, current, fault, len(faults))
		if err != nil {
			e.shut(ErrInterrupted)
			return errors.Join(err, e.closeRunner(current))
		}
		e.log.Warn("engine loop restarted", "faults_within_hour", len(faults))
		current = next
	}
}

// watch runs a loop and returns its fault; nil = its work is over. After errStalled the
// loop is still there.
func (e *Engine) watch(life *life) error {
	done := make(chan error, 1)
	go func() {
		debug.SetPanicOnFault(true) // mapped weights whose file was cut are an error of this loop
		err := life.run()
		// Loop and supervisor may decide at the same time; the first decides.
		if !life.fate.CompareAndSwap(alive, returned) {
			life.fate.Store(returned)
			err = errors.Join(err, e.closeRunner(life)) // nobody else will
			e.log.Warn("given up loop has ended", "error", err)
		}
		done <- err
	}()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	seen := e.elapsed()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			// One look at the clock: what passes while this is looked at is for the next tick to see.
			now := e.elapsed()
			life.look(now, now-seen-watchEvery)
			seen = now
			if life.stalled(now) && life.fate.CompareAndSwap(alive, abandoned) {
				return errStalled
			}
		}
	}
}

// report logs a fault with what helps to find its cause.
func (e *Engine) report(life *life, fault error, kept int) {
	stats := e.Stats()
	attrs := []any{"fault", fault, "kept", kept, "running", stats.Running, "waiting", stats.Waiting, "kv_blocks", stats.KV.Blocks, "kv_held", stats.KV.Held, "steps", stats.Steps}
	if panicErr, ok := errors.AsType[*panicError](fault); ok {
		attrs = append(attrs, "stack", string(panicErr.stack))
	}
	if fault == errStalled {
		buf := make([]byte, 1<<20)
		attrs = append(attrs, "limit", time.Duration(life.busyLimit.Load()), "goroutines", string(buf[:runtime.Stack(buf, true)]))
	}
	e.log.Error("engine loop failed", attrs...)
}

// rescue takes the streams away from a loop that failed, and returns how many go
// on. Those that have given nothing yet wait for the next loop, once; the others
// fail. After a stall only those that the loop never saw are kept, for the loop may
// still be running.
func (e *Engine) rescue(fault error) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.life, e.reason = nil, fault.Error()
	if fault == errStalled {
		e.stalls++
	}
	// Whoever is in the inbox is untouched, even if the loop hangs.
	unseen := make(map[*Stream]bool, len(e.inbox))
	for _, stream := range e.inbox {
		unseen[stream] = true
	}
	e.inbox, e.stops, e.inboxTokens = e.inbox[:0], e.stops[:0], 0
	e.waiting.Store(0)
	// In the order of ids, which is that of acceptance, all but those that have to fail.
	for _, id := range slices.Sorted(maps.Keys(e.live)) {
		stream := e.live[id]
		if !unseen[stream] && (fault == errStalled || !stream.rewind()) {
			e.endStream(stream, sched.FinishError, ErrInterrupted, e.cfg.Clock())
			continue
		}
		e.inbox = append(e.inbox, stream)
		e.inboxTokens += len(stream.req.Tokens)
	}
	return len(e.inbox)
}

// replace returns the next life after a fault, the count-th within an hour.
func (e *Engine) replace(ctx context.Context, failed *life, fault error, count int) (*life, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("engine: not restarted: %w: %w", context.Cause(ctx), fault)
	}
	if count > e.cfg.Restarts {
		return nil, fmt.Errorf("engine: %d faults within an hour, %d allowed: %w", count, max(e.cfg.Restarts, 0), fault)
	}
	runner, owed := failed.runner, 0
	// errStalled is asked first: while a loop hangs, its inRunner may not be read.
	if fault == errStalled || failed.inRunner {
		var err error
		if runner, err = e.reopen(ctx, failed, fault); err != nil {
			return nil, err
		}
	} else {
		owed = failed.owed + len(failed.inFlight) // the runner gives steps back in order
	}
	next, err := e.newLife(runner, owed)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.restarts++
	next.expect()              // how long a step may take, as of a first one
	e.publishing.Lock()        // a loop that was given up may be at it
	next.earlier = e.published // counters of Stats go on from there
	e.publishing.Unlock()
	return next, nil
}

// reopen makes a new runner in place of one that cannot be used any more.
func (e *Engine) reopen(ctx context.Context, failed *life, fault error) (runner.Runner, error) {
	if e.cfg.Open == nil {
		return nil, fmt.Errorf("engine: runner %s failed and cannot be opened again: %w", e.info.Name, fault)
	}
	e.mu.Lock()
	e.phase = Restarting
	e.mu.Unlock()
	if err := e.closeRunner(failed); err != nil {
		e.log.Warn("failed runner does not close", "error", err)
	}
	reopened, err := e.callOpen(ctx)
	if err != nil {
		return nil, fmt.Errorf("engine: opening runner %s again: %w", e.info.Name, err)
	}
	if got := reopened.Info(); !reflect.DeepEqual(got, e.info) {
		return nil, errors.Join(fmt.Errorf("engine: runner opened again is %+v, was %+v", got, e.info), reopened.Close())
	}
	return reopened, nil
}

// callOpen calls Config.Open, whose panic is an error. Meanwhile, which may be long, the
// requests that wait for the new loop still end in time.
func (e *Engine) callOpen(ctx context.Context) (opened runner.Runner, err error) {
	done := make(chan struct{})
	go func() {
		debug.SetPanicOnFault(true)
		defer close(done)
		defer func() {
			if value := recover(); value != nil {
				err = panicked(value)
			}
		}()
		opened, err = e.cfg.Open(ctx)
	}()
	// Reads of opened and err come after done is closed.
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return opened, err
		case <-tick.C:
			e.expireInbox()
		}
	}
}

// expireInbox ends those of the inbox that were stopped or whose time is over.
func (e *Engine) expireInbox() {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.cfg.Clock()
	e.inbox = slices.DeleteFunc(e.inbox, func(stream *Stream) bool {
		finish := sched.FinishAbort
		if !stream.stopped.Load() {
			if due := stream.req.due(); due.IsZero() || now.Before(due) {
				return false
			}
			finish = sched.FinishDeadline
		}
		e.inboxTokens -= len(stream.req.Tokens)
		e.endStream(stream, finish, nil, now)
		return true
	})
}

// closeRunner closes the runner of a life unless that was done. It may be broken:
// a panic is an error, and one that hangs is left behind. One that an abandoned
// loop is calling is left to that loop.
func (e *Engine) closeRunner(l *life) error {
	runner := l.runner
	if l.fate.Load() == abandoned || l.runnerClosed.Swap(true) {
		return nil
	}
	done := make(chan error, 1)
	go func() {
		defer func() {
			if value := recover(); value != nil {
				done <- fmt.Errorf("engine: closing runner %s: panic: %v", e.info.Name, value)
			}
		}()
		done <- runner.Close()
	}()
	// Whoever shuts down cannot wait for a device that does not answer.
	select {
	case err := <-done:
		return err
	case <-time.After(e.cfg.Stall):
		return fmt.Errorf("engine: closing runner %s takes longer than %v", e.info.Name, e.cfg.Stall)
	}
}

// shut ends all streams for good: no loop runs any more that may write to them.
func (e *Engine) shut(why error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.life, e.phase = nil, Stopped
	e.endAll(why)
}
