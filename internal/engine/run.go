package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"time"

	"ossian/internal/runner"
	"ossian/internal/sched"
)

// errStalled is the fault of a loop that makes no progress.
var errStalled = errors.New("engine: no step finished in time")

// Run drives the engine until it is drained or ctx ends, which cuts everything
// off; then it closes the runner. It is called once. An error says that the engine
// is broken beyond what Config allows to repair. A call of the runner that never
// returns cannot be ended: its goroutine is left behind.
func (e *Engine) Run(ctx context.Context) error {
	defer close(e.done)
	defer context.AfterFunc(ctx, e.interrupt)()
	l := e.first
	e.first = nil
	var faults []time.Time
	for {
		e.mu.Lock()
		e.life, e.phase = l, Running
		e.mu.Unlock()
		e.post() // what came before it, or was kept for it
		fault := e.watch(l)
		if fault == nil {
			e.shut(ErrStopped)
			return e.closeRunner(l.runner)
		}
		e.report(l, fault)
		now := e.cfg.Clock()
		faults = append(slices.DeleteFunc(faults, func(t time.Time) bool { return now.Sub(t) > time.Hour }), now)
		e.rescue(l, fault)
		next, err := e.replace(ctx, l, fault, len(faults))
		if err != nil {
			e.shut(ErrInterrupted)
			if fault != errStalled {
				err = errors.Join(err, e.closeRunner(l.runner))
			}
			return err
		}
		e.log.Warn("engine loop restarted", "faults_within_hour", len(faults))
		l = next
	}
}

// watch runs a loop and returns its fault; nil = its work is over.
func (e *Engine) watch(l *life) error {
	done := make(chan error, 1)
	go func() {
		err := l.run()
		if !l.ending.CompareAndSwap(alive, returned) {
			err = errors.Join(err, e.closeRunner(l.runner)) // nobody else will
			e.log.Warn("given up loop has ended", "error", err)
		}
		done <- err
	}()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			if l.stalls() && l.ending.CompareAndSwap(alive, abandoned) {
				return errStalled
			}
		}
	}
}

// report logs a fault with what helps to find its cause.
func (e *Engine) report(l *life, fault error) {
	st := e.Stats()
	attrs := []any{"fault", fault, "running", st.Running, "waiting", st.Waiting, "kv_blocks", st.KV.Blocks, "kv_held", st.KV.Held, "steps", st.Steps}
	if p, ok := errors.AsType[*panicError](fault); ok {
		attrs = append(attrs, "stack", string(p.stack))
	}
	if fault == errStalled {
		buf := make([]byte, 1<<20)
		attrs = append(attrs, "limit", time.Duration(l.limit.Load()), "goroutines", string(buf[:runtime.Stack(buf, true)]))
	}
	e.log.Error("engine loop failed", attrs...)
}

// rescue takes the streams away from a loop that failed. Those that have given
// nothing yet wait for the next loop, once; the others fail. After a stall only
// those that the loop never saw are kept, for the loop may still be running.
func (e *Engine) rescue(l *life, fault error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.life, e.reason = nil, fault.Error()
	if fault == errStalled {
		e.stalls++
	}
	before := len(e.live)
	inbox := make(map[*Stream]bool, len(e.adds))
	for _, s := range e.adds {
		inbox[s] = true
	}
	e.adds, e.stops, e.addTokens = e.adds[:0], e.stops[:0], 0
	e.waiting.Store(0)
	for _, id := range slices.Sorted(maps.Keys(e.live)) {
		s := e.live[id]
		if fault == errStalled {
			s.seq = nil // the loop may be about to write to it
		}
		if !inbox[s] && (fault == errStalled || !s.rewind()) {
			e.endLocked(s, sched.FinishError, ErrInterrupted, e.cfg.Clock())
			continue
		}
		e.adds = append(e.adds, s)
		e.addTokens += len(s.req.Tokens)
	}
	e.log.Warn("requests rescued", "kept", len(e.adds), "interrupted", before-len(e.adds))
}

// replace returns the next life after a fault, the count-th within an hour.
func (e *Engine) replace(ctx context.Context, l *life, fault error, count int) (*life, error) {
	if count > e.cfg.Restarts {
		return nil, fmt.Errorf("engine: %d faults within an hour, %d allowed: %w", count, max(e.cfg.Restarts, 0), fault)
	}
	r, owed := l.runner, l.owed+len(l.flight)
	if fault == errStalled || l.inside {
		var err error
		if r, err = e.reopen(ctx, l, fault); err != nil {
			return nil, err
		}
		owed = 0
	}
	next, err := e.newLife(r, owed)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.restarts++
	next.expect()
	next.before = e.published
	return next, nil
}

// reopen makes a new runner in place of one that cannot be used any more.
func (e *Engine) reopen(ctx context.Context, l *life, fault error) (runner.Runner, error) {
	if e.cfg.Open == nil {
		return nil, fmt.Errorf("engine: runner %s failed and cannot be opened again: %w", e.info.Name, fault)
	}
	e.mu.Lock()
	e.phase = Restarting
	e.mu.Unlock()
	if fault != errStalled {
		if err := e.closeRunner(l.runner); err != nil {
			e.log.Warn("failed runner does not close", "error", err)
		}
	}
	r, err := e.cfg.Open(ctx)
	if err != nil {
		return nil, fmt.Errorf("engine: opening runner %s again: %w", e.info.Name, err)
	}
	return r, nil
}

// closeRunner closes a runner that may be broken: a panic is an error, and one
// that hangs is left behind.
func (e *Engine) closeRunner(r runner.Runner) error {
	done := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Errorf("engine: closing runner %s: panic: %v", e.info.Name, p)
			}
		}()
		done <- r.Close()
	}()
	select {
	case err := <-done:
		return err
	case <-time.After(e.cfg.Stall):
		return fmt.Errorf("engine: closing runner %s takes longer than %v", e.info.Name, e.cfg.Stall)
	}
}

// shut ends all streams for good.
func (e *Engine) shut(why error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.life, e.phase = nil, Stopped
	for _, s := range e.live {
		e.endLocked(s, sched.FinishError, why, e.cfg.Clock())
	}
	e.adds, e.stops, e.addTokens = nil, nil, 0
}
