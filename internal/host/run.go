package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"ossian/internal/engine"
)

// Run loads the models whose turn it is and runs their engines until the host has been drained or
// ctx ends. A model is lent once a token has gone through it. With a single model Run ends with
// the error of its loading or of its engine, unless Config.Final has it withdrawn; with several
// these are errors of the requests for that model, which is tried again. It is called once.
func (h *Host) Run(ctx context.Context, load Load) error {
	ctx, cancel := context.WithCancel(ctx)
	defer h.end()
	defer h.engines.Wait()
	defer cancel()
	if err := h.checkAll(ctx); err != nil {
		return err
	}
	for ctx.Err() == nil {
		h.mu.Lock()
		step := h.next(time.Now())
		fatal := h.fatal
		h.mu.Unlock()
		switch {
		case step.done:
			return fatal
		case step.unload != nil:
			h.makeRoom(ctx, step.unload, step.load)
		case step.load != nil:
			h.bring(ctx, step.load, load)
		// Nothing is loaded any more; engines end with ctx, and may still say why.
		default:
			h.rest(ctx, step.at)
		}
	}
	cancel()
	h.engines.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.fatal
}

// checkAll looks at several models before the first is loaded: what cannot be served at all is
// told at the start.
func (h *Host) checkAll(ctx context.Context) error {
	if h.alone() || h.cfg.Check == nil {
		return nil
	}
	for _, e := range h.entries {
		if err := h.check(ctx, e); err != nil {
			return fmt.Errorf("model %q: %w", e.Names[0], err)
		}
	}
	return nil
}

// check looks at a model without its weights, unless that was done since it is waited for.
func (h *Host) check(ctx context.Context, entry *entry) error {
	now := time.Now()
	h.mu.Lock()
	known := len(entry.waiting) > 0 && entry.waiting[0].since.Before(entry.checked)
	h.mu.Unlock()
	if h.cfg.Check == nil || known {
		return nil
	}
	maxLen, err := h.cfg.Check(ctx, &entry.Card)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	entry.MaxLen, entry.checked = maxLen, now
	return nil
}

// rest waits until something changes, or at.
func (h *Host) rest(ctx context.Context, at time.Time) {
	var due <-chan time.Time
	if !at.IsZero() {
		timer := time.NewTimer(time.Until(at))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-h.wake:
	case <-due:
	case <-ctx.Done():
	}
}

// makeRoom takes a model that nobody holds out of memory. What the files of the one that is to come
// show is found out before.
func (h *Host) makeRoom(ctx context.Context, e, next *entry) {
	if next != nil {
		if err := h.check(ctx, next); err != nil {
			h.failed(ctx, next, err)
			return
		}
	}
	h.mu.Lock()
	if e.leases > 0 { // somebody was faster
		h.mu.Unlock()
		return
	}
	e.state = Leaving
	model, noted := e.model, e.noted
	h.mu.Unlock()
	_ = model.Engine.Drain(ctx)
	<-noted // what it ended with: withdrawn, say, while the model was still this entry's
	h.forget(model)
	h.cfg.Log.Info("model unloaded", "model", model.Name)
	h.mu.Lock()
	defer h.mu.Unlock()
	e.state, e.model = Unloaded, nil
	h.settle(time.Now())
}

// forget ends what was kept of a model whose engine has ended.
func (h *Host) forget(model *Model) {
	h.mu.Lock()
	told := h.unloaded
	h.mu.Unlock()
	for _, f := range told {
		f(model)
	}
	if model.Close == nil {
		return
	}
	if err := model.Close(); err != nil {
		h.cfg.Log.Warn("closing a model", "model", model.Name, "error", err)
	}
}

// bring loads a model and runs its engine.
func (h *Host) bring(ctx context.Context, entry *entry, load Load) {
	began := time.Now()
	h.mu.Lock()
	entry.state = Loading
	h.mu.Unlock()
	model, err := load(ctx, &entry.Card)
	if err == nil {
		model.Name = entry.Names[0]
		err = h.start(ctx, entry, model, began)
	}
	if err != nil {
		h.failed(ctx, entry, err)
	}
}

// start runs the engine of a model whose loading began at that time, and has the model lent once
// a token has gone through it.
func (h *Host) start(ctx context.Context, entry *entry, model *Model, began time.Time) error {
	ctx, cancel := context.WithCancel(ctx)
	ran, noted, ended := make(chan struct{}), make(chan struct{}), error(nil)
	h.engines.Go(func() {
		defer cancel()
		defer close(noted)
		ended = model.Engine.Run(ctx)
		close(ran)
		h.ended(ctx, entry, model, ended)
	})
	err := model.Engine.Probe(ctx)
	if err != nil {
		err = fmt.Errorf("warming up: %w", err)
		// Files may change while a model is out of memory: clients must not get another one under
		// its name.
	} else if entry.fingerprint != "" && entry.fingerprint != model.Fingerprint {
		err = &WithdrawnError{"its files are no longer those that were served before; put the right ones in their place, and start the server anew"}
	}
	if err == nil && h.enter(entry, model, ran, noted, began) {
		return nil
	}
	cancel()
	<-ran
	h.forget(model)
	return errors.Join(err, ended)
}

// enter has a model lent, unless its engine has ended already.
func (h *Host) enter(entry *entry, model *Model, ran, noted chan struct{}, began time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-ran: // h.ended knows nothing of it yet
		return false
	default:
	}
	now := time.Now()
	entry.state, entry.model, entry.noted, entry.first, entry.fingerprint = Loaded, model, noted, false, model.Fingerprint
	entry.since, entry.took, entry.used = now, now.Sub(began), now
	entry.MaxLen, entry.facts = model.Engine.Capacity(), model.Facts
	entry.show(model.Format)
	h.settle(now)
	return true
}

// ended notes that the engine of a model has ended, of which requests may still have a lease.
func (h *Host) ended(ctx context.Context, entry *entry, model *Model, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if entry.model != model {
		return // it was not lent yet
	}
	byItself := entry.state == Loaded
	entry.state = Leaving
	defer h.tell()
	switch {
	case err != nil && h.withdraw(entry, err):
	case h.alone():
		h.fatal, h.stopped = err, true
	case byItself && !h.stopped && ctx.Err() == nil:
		h.failedNow(entry, errors.Join(errors.New("its engine has ended"), err))
	case err != nil:
		h.cfg.Log.Warn("the engine of a model that made room ended with an error", "model", model.Name, "error", err)
	}
}

// withdraw takes a model back for good if that is what err means; h.mu is held.
func (h *Host) withdraw(entry *entry, err error) bool {
	why, ok := errors.AsType[*WithdrawnError](err)
	if !ok {
		if h.cfg.Final == nil {
			return false
		}
		problem := h.cfg.Final(err)
		if problem == "" {
			return false
		}
		why = &WithdrawnError{problem}
	}
	entry.withdrawn = why
	h.refuse(entry, why)
	h.cfg.Log.Error("the model was unloaded, and is not served any more: start the server anew", "model", entry.Names[0], "error", err)
	return true
}

// failed notes that a model could not be loaded, unless the host ends.
func (h *Host) failed(ctx context.Context, entry *entry, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if entry.state == Loading {
		entry.state = Unloaded
	}
	entry.first = false
	switch {
	case h.alone() && ctx.Err() != nil:
		h.fatal = ctx.Err() // what was cut off says that it was stopped, in words of its own
	case h.alone():
		h.fatal = err
	case ctx.Err() != nil || h.withdraw(entry, err):
	default:
		h.failedNow(entry, err)
	}
	h.settle(time.Now())
}

// failedNow refuses who waits for a model, and everybody else until it is tried again; h.mu is
// held.
func (h *Host) failedNow(e *entry, err error) {
	told := e.backOff(time.Now())
	h.refuse(e, told)
	h.cfg.Log.Error("a model cannot be served now: requests for it are refused until it is tried again", "model", e.Names[0], "again_in", told.Retry, "error", err)
}

// Drain ends the host. Nobody gets in line any more; who is there gets their model as before.
// When nobody waits, and of several models nobody holds one, the engines are drained: see
// engine.Engine.Drain. When ctx ends, whatever goes on is cut off. The error is that of ctx if
// requests were cut off.
func (h *Host) Drain(ctx context.Context) error {
	h.mu.Lock()
	h.draining = true
	for !h.alone() && h.busy() && ctx.Err() == nil {
		changed := h.changed
		h.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		h.mu.Lock()
	}
	waited := h.line
	for _, e := range h.entries {
		h.refuse(e, engine.ErrStopped)
	}
	h.stopped = h.stopped || !h.alone() // the end of a single one's engine says it, and may have
	var models []*Model
	for _, e := range h.entries {
		if e.state == Loaded {
			models = append(models, e.model)
		}
	}
	h.tell()
	h.mu.Unlock()
	errs := make([]error, len(models))
	var all sync.WaitGroup
	for i, model := range models {
		all.Go(func() { errs[i] = model.Engine.Drain(ctx) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	if waited > 0 {
		return ctx.Err()
	}
	return nil
}

// busy reports whether somebody waits for a model or holds one; h.mu is held.
func (h *Host) busy() bool {
	for _, e := range h.entries {
		if e.leases > 0 || len(e.waiting) > 0 {
			return true
		}
	}
	return false
}

// Busy reports whether a drain has something to wait for: a model in memory, or somebody who
// waits for one.
func (h *Host) Busy() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.entries {
		if e.state == Loaded || len(e.waiting) > 0 {
			return true
		}
	}
	return false
}

// end leaves nobody waiting, and closes the models that nobody holds. What a request still holds
// stays until the process ends.
func (h *Host) end() {
	h.mu.Lock()
	h.draining, h.stopped = true, true
	var closed []*Model
	for _, e := range h.entries {
		h.refuse(e, engine.ErrStopped)
		if e.model != nil && e.leases == 0 {
			closed = append(closed, e.model)
			e.model, e.state = nil, Unloaded
		}
	}
	h.mu.Unlock()
	for _, model := range closed {
		h.forget(model)
	}
}
