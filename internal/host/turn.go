package host

// Whose turn it is. The rule, in words:
//
//  1. A request for a model in memory begins at once. One for another model waits in line.
//  2. The model whose first request has waited longest is loaded next, one at a time. If there
//     is room for it, nobody has to go.
//  3. Otherwise a model that nobody holds makes room, the one used longest ago first, but not
//     before it has been in memory for as long as loading it took, or for a turn.
//  4. If all are held, the one that has been in memory longest takes requests for one turn more,
//     counted from when the other was first waited for and from when this one was loaded. Then
//     it is closed: what it has goes on to its end, new requests for it wait in line like
//     others. When it has nothing left it makes room.
//
// So nobody's request is ended for another, and nobody starves: who waits is behind at most one
// turn of each other model, the requests that these have in it, and the loading.
//
// All of this is a function of the entries and the time; Host.mu is held.

import "time"

// A step is what Run does next.
type step struct {
	unload *entry    // first
	load   *entry    // then
	at     time.Time // otherwise: when to look again; zero = when something changes
	done   bool
}

// next decides what Run does next.
func (h *Host) next(now time.Time) step {
	// Whoever was told to leave goes first: room for others depends on it.
	for _, e := range h.entries {
		if e.state == Leaving && e.leases == 0 {
			return step{unload: e}
		}
	}
	if h.fatal != nil || (h.stopped && (h.alone() || h.inMemory() == 0)) {
		return step{done: true}
	}
	if h.stopped {
		return step{}
	}
	want := h.wanted()
	if want == nil {
		return step{}
	}
	if h.inMemory() < h.cfg.Resident {
		return step{load: want}
	}
	// Without one that is idle Run sleeps until the first may go, or until somebody lets go.
	idle, at := h.idle(now)
	if idle == nil {
		return step{at: at}
	}
	return step{unload: idle, load: want}
}

// inMemory counts the models that take memory.
func (h *Host) inMemory() (n int) {
	for _, e := range h.entries {
		if e.state != Unloaded {
			n++
		}
	}
	return n
}

// wanted returns the model that is to be loaded next: at the start the first ones, then that
// whose first request has waited longest; nil = none.
func (h *Host) wanted() (want *entry) {
	for _, e := range h.entries {
		switch {
		case e.state != Unloaded:
		case e.first:
			return e
		case len(e.waiting) > 0 && (want == nil || e.waiting[0].since.Before(want.waiting[0].since)):
			want = e
		}
	}
	return want
}

// idle returns the model that can make room at once, or when the first of those that nobody holds
// can; zero = none is.
func (h *Host) idle(now time.Time) (idle *entry, at time.Time) {
	for _, model := range h.entries {
		if model.state != Loaded || model.leases > 0 {
			continue
		}
		if may := model.mayGo(h.cfg.Turn); now.Before(may) {
			if at.IsZero() || may.Before(at) {
				at = may
			}
			continue
		}
		if idle == nil || model.used.Before(idle.used) {
			idle = model
		}
	}
	return idle, at
}

// open reports whether a model takes requests.
func (h *Host) open(entry *entry, now time.Time) bool {
	if entry.state != Loaded {
		return false
	}
	want := h.wanted()
	if want == nil || len(want.waiting) == 0 || h.inMemory() < h.cfg.Resident {
		return true
	}
	for _, other := range h.entries { // the one that has been in memory longest has to go
		if other.state == Loaded && other.since.Before(entry.since) {
			return true
		}
	}
	began := want.waiting[0].since
	if began.Before(entry.since) {
		began = entry.since
	}
	return now.Before(began.Add(h.cfg.Turn))
}

// settle gives leases to those who wait for a model that takes requests. It is called after
// each change that may open one.
func (h *Host) settle(now time.Time) {
	for _, model := range h.entries {
		if len(model.waiting) == 0 || !h.open(model, now) {
			continue
		}
		for _, w := range model.waiting {
			w.lease = h.lend(model)
			close(w.done)
		}
		h.line -= len(model.waiting)
		model.waiting = nil
	}
	h.tell()
}

// tell wakes who looks at what has changed: Run and Drain.
func (h *Host) tell() {
	close(h.changed)
	h.changed = make(chan struct{})
	select {
	case h.wake <- struct{}{}:
	default:
	}
}
