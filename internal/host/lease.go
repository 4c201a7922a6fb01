package host

import (
	"context"
	"slices"
	"sync"
	"time"

	"ossian/internal/board"
	"ossian/internal/engine"
)

// A Lease keeps its model in memory until it is released.
type Lease struct {
	*Model
	host  *Host
	entry *entry
	probe bool // it is no use of the model
	once  sync.Once
}

// Release gives the model back, which must not be used any more. It may be called again.
func (l *Lease) Release() {
	l.once.Do(func() {
		l.host.mu.Lock()
		defer l.host.mu.Unlock()
		l.entry.leases--
		if !l.probe {
			l.entry.used = time.Now()
		}
		if l.entry.leases == 0 && (l.entry.state == Leaving || !l.host.alone()) {
			l.host.tell()
		}
	})
}

// lend returns a lease of a model in memory; h.mu is held.
func (h *Host) lend(e *entry) *Lease {
	e.leases++
	return &Lease{Model: e.model, host: h, entry: e}
}

// Acquire returns a lease of the model of that name, "" = the first. Where there are several it
// waits for the model's turn until by, in line with others and with caller on its board, or until
// ctx ends; of a single one that is not loaded the error is ErrLoading. Whoever holds a lease must
// not ask for another one: that may wait for the end of the first.
func (h *Host) Acquire(ctx context.Context, name string, by time.Time, caller board.Caller) (*Lease, error) {
	h.mu.Lock()
	entry := h.lookup(name)
	if entry == nil {
		h.mu.Unlock()
		return nil, ErrNotFound
	}
	now := time.Now()
	if err := h.refusal(entry, now); err != nil {
		h.mu.Unlock()
		return nil, err
	}
	if h.open(entry, now) {
		defer h.mu.Unlock()
		return h.lend(entry), nil
	}
	if h.line >= h.cfg.Queue {
		h.mu.Unlock()
		return nil, ErrQueueFull
	}
	waiting := &waiter{since: now, done: make(chan struct{})}
	entry.waiting = append(entry.waiting, waiting)
	h.line++
	// The model may be free right now: whoever waits does not go to sleep then.
	h.settle(now)
	h.mu.Unlock()
	defer caller.Wait(entry.Names[0]).Drop()
	return h.wait(ctx, entry, waiting, by)
}

// refusal returns why a request for a model is not taken; nil = it is lent, or waits. h.mu is
// held.
func (h *Host) refusal(entry *entry, now time.Time) error {
	switch {
	case entry.withdrawn != nil:
		return entry.withdrawn
	case h.alone() && entry.state == Loaded:
		return nil // the engine itself says when it drains
	case h.stopped:
		return engine.ErrStopped
	case h.alone():
		return ErrLoading
	case h.draining:
		return engine.ErrDraining
	case entry.state == Loaded:
		return nil
	}
	return entry.refusal(now)
}

// wait waits in line.
func (h *Host) wait(ctx context.Context, entry *entry, waiting *waiter, by time.Time) (*Lease, error) {
	late := time.NewTimer(time.Until(by))
	defer late.Stop()
	var err error
	select {
	case <-waiting.done:
		return waiting.lease, waiting.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-late.C:
		err = ErrWaited
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.Index(entry.waiting, waiting)
	if i < 0 { // it was served at this moment
		return waiting.lease, waiting.err
	}
	entry.waiting = slices.Delete(entry.waiting, i, i+1)
	h.line--
	h.settle(time.Now()) // a model that was to make room may go on
	return nil, err
}

// refuse ends the wait of all who wait for a model; h.mu is held.
func (h *Host) refuse(e *entry, why error) {
	for _, w := range e.waiting {
		w.err = why
		close(w.done)
	}
	h.line -= len(e.waiting)
	e.waiting = nil
}

// Resident returns leases of the models in memory, to look after them. They are to be released
// soon: meanwhile no other model comes.
func (h *Host) Resident() (leases []*Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.entries {
		if e.state == Loaded {
			lease := h.lend(e)
			lease.probe = true
			leases = append(leases, lease)
		}
	}
	return leases
}

// Available reports whether a request for some model would be taken: one is in memory, or, of
// several, can be loaded once those at the start have been.
func (h *Host) Available() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	for _, e := range h.entries {
		switch {
		case e.state == Loaded && e.model.Engine.Health().State == engine.Running:
			return true
		case !h.alone() && e.state != Loaded && !e.first && e.refusal(now) == nil && h.line < h.cfg.Queue && !h.entries[0].first:
			return true
		}
	}
	return false
}
