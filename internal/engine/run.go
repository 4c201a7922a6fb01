package engine

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
			return e.closeRunner(l)
		}
		now := e.cfg.Clock()
		faults = append(slices.DeleteFunc(faults, func(t time.Time) bool { return now.Sub(t) > time.Hour }), now)
		kept := e.rescue(fault)
		e.report(l, fault, kept)
		next, err := e.replace(ctx, l, fault, len(faults))
		if err != nil {
			e.shut(ErrInterrupted)
			return errors.Join(err, e.closeRunner(l))
		}
		e.log.Warn("engine loop restarted", "faults_within_hour", len(faults))
		l = next
	}
}

// watch runs a loop and returns its fault; nil = its work is over.
func (e *Engine) watch(l *life) error {
	done := make(chan error, 1)
	go func() {
		debug.SetPanicOnFault(true) // mapped weights whose file was cut are an error of this loop
		err := l.run()
		if !l.ending.CompareAndSwap(alive, returned) {
			l.ending.Store(returned)
			err = errors.Join(err, e.closeRunner(l)) // nobody else will
			e.log.Warn("given up loop has ended", "error", err)
		}
		done <- err
	}()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	seen := time.Now()
	for {
		select {
		case err := <-done:
			return err
		case <-tick.C:
			now := time.Now()
			if paused := now.Sub(seen) - watchEvery; paused > watchEvery {
				l.forgive(paused) // nothing ran, the loop neither
			}
			seen = now
			if l.stalls() && l.ending.CompareAndSwap(alive, abandoned) {
				return errStalled
			}
		}
	}
}

// report logs a fault with what helps to find its cause.
func (e *Engine) report(l *life, fault error, kept int) {
	st := e.Stats()
	attrs := []any{"fault", fault, "kept", kept, "running", st.Running, "waiting", st.Waiting, "kv_blocks", st.KV.Blocks, "kv_held", st.KV.Held, "steps", st.Steps}
	if p, ok := errors.AsType[*panicError](fault); ok {
		attrs = append(attrs, "stack", string(p.stack))
	}
	if fault == errStalled {
		buf := make([]byte, 1<<20)
		attrs = append(attrs, "limit", time.Duration(l.limit.Load()), "goroutines", string(buf[:runtime.Stack(buf, true)]))
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
	inbox := make(map[*Stream]bool, len(e.adds))
	for _, s := range e.adds {
		inbox[s] = true
	}
	e.adds, e.stops, e.addTokens = e.adds[:0], e.stops[:0], 0
	e.waiting.Store(0)
	for _, id := range slices.Sorted(maps.Keys(e.live)) {
		s := e.live[id]
		if !inbox[s] && (fault == errStalled || !s.rewind()) {
			e.endLocked(s, sched.FinishError, ErrInterrupted, e.cfg.Clock())
			continue
		}
		e.adds = append(e.adds, s)
		e.addTokens += len(s.req.Tokens)
	}
	return len(e.adds)
}

// replace returns the next life after a fault, the count-th within an hour.
func (e *Engine) replace(ctx context.Context, l *life, fault error, count int) (*life, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("engine: not restarted: %w: %w", context.Cause(ctx), fault)
	}
	if count > e.cfg.Restarts {
		return nil, fmt.Errorf("engine: %d faults within an hour, %d allowed: %w", count, max(e.cfg.Restarts, 0), fault)
	}
	r, owed := l.runner, 0
	if fault == errStalled || l.inside { // a loop that hangs still owns the rest of l
		var err error
		if r, err = e.reopen(ctx, l, fault); err != nil {
			return nil, err
		}
	} else {
		owed = l.owed + len(l.flight)
	}
	next, err := e.newLife(r, owed)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.restarts++
	next.expect()
	e.publishing.Lock() // a loop that was given up may be at it
	next.before = e.published
	e.publishing.Unlock()
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
	if err := e.closeRunner(l); err != nil {
		e.log.Warn("failed runner does not close", "error", err)
	}
	r, err := e.renew(ctx)
	if err != nil {
		return nil, fmt.Errorf("engine: opening runner %s again: %w", e.info.Name, err)
	}
	if got := r.Info(); !reflect.DeepEqual(got, e.info) {
		return nil, errors.Join(fmt.Errorf("engine: runner opened again is %+v, was %+v", got, e.info), r.Close())
	}
	return r, nil
}

// renew calls Config.Open, whose panic is an error. Meanwhile, which may be long, the
// requests that wait for the new loop still end in time.
func (e *Engine) renew(ctx context.Context) (r runner.Runner, err error) {
	done := make(chan struct{})
	go func() {
		debug.SetPanicOnFault(true)
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				err = panicked(p)
			}
		}()
		r, err = e.cfg.Open(ctx)
	}()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return r, err
		case <-tick.C:
			e.lapse()
		}
	}
}

// lapse ends those of the inbox that were stopped or whose time is over.
func (e *Engine) lapse() {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.cfg.Clock()
	e.adds = slices.DeleteFunc(e.adds, func(s *Stream) bool {
		finish := sched.FinishAbort
		if !s.stopped.Load() {
			if due := s.req.due(); due.IsZero() || now.Before(due) {
				return false
			}
			finish = sched.FinishDeadline
		}
		e.addTokens -= len(s.req.Tokens)
		e.endLocked(s, finish, nil, now)
		return true
	})
}

// closeRunner closes the runner of a life unless that was done. It may be broken:
// a panic is an error, and one that hangs is left behind. One that an abandoned
// loop is calling is left to that loop.
func (e *Engine) closeRunner(l *life) error {
	r := l.runner
	if l.ending.Load() == abandoned || l.closed.Swap(true) {
		return nil
	}
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
	e.endAll(why)
}
