package server

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"time"

	"ossian/internal/engine"
	"ossian/internal/limits"
	"ossian/internal/store"
	"ossian/internal/wire"
	"ossian/internal/wire/response"
)

// A task is a response that is made in the background.
type task struct {
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when nothing follows, in the store either
}

var (
	errCancelled = errors.New("server: the response was cancelled")
	errDeleted   = errors.New("server: the response was deleted")
)

// task returns a background response that runs, nil if none has the id.
func (s *Server) task(id string) *task {
	s.tasking.Lock()
	defer s.tasking.Unlock()
	return s.tasks[id]
}

// stop ends a task and waits for that, no longer than ctx.
func (t *task) stop(ctx context.Context, why error) error {
	t.cancel(why)
	select {
	case <-t.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// errUncreated is what perform is told of a response whose creation panicked.
var errUncreated = errors.New("the response was not created")

// background starts a response and answers as soon as it is stored; with stream the
// answer is its events.
func (s *Server) background(w *reply, r *http.Request, c *caller, a *asked) error {
	e := s.responder(a)
	ctx, cancel := context.WithCancelCause(s.life)
	e.task = &task{cancel: cancel, done: make(chan struct{})}
	own := *c // the body counts until the response has ended
	j, err := s.respondJob(&reply{id: w.id}, r.WithContext(ctx), &own, a, e)
	if err != nil {
		cancel(err)
		return err
	}
	c.held = 0
	s.tasking.Lock()
	s.tasks[e.r.ID] = e.task
	s.tasking.Unlock()
	err = errUncreated
	func() {
		defer func() { // even if create panics: what this request holds is given back there
			s.load.Add(1)
			s.running.Go(func() {
				defer s.load.Add(-1)
				defer s.release(&own)
				s.perform(ctx, e, j, err)
			})
		}()
		err = e.create(context.WithoutCancel(r.Context()))
	}()
	if err != nil {
		return err
	}
	if a.q.Stream {
		return s.follow(w, r, a.owner, e.r.ID, -1)
	}
	w.json(http.StatusOK, e.first)
	return nil
}

// create stores a response that is queued.
func (e *responder) create(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, saveTime, errUnsaved)
	defer cancel()
	e.r.Status = response.StatusQueued
	n, err := e.record()
	if err != nil {
		return err
	}
	n.Events, n.Note = [][]byte{e.r.Tell(nil, "created"), e.r.Tell(nil, "queued")}, e.note()
	e.first = e.r.Append(nil)
	if err = e.s.cfg.Archive.Create(ctx, n); errors.Is(err, context.DeadlineExceeded) {
		err = context.Cause(ctx)
	}
	return err
}

// perform makes a response that was created, unless err says that it was not.
func (s *Server) perform(ctx context.Context, e *responder, j *job, err error) {
	defer func() {
		s.tasking.Lock()
		delete(s.tasks, e.r.ID)
		s.tasking.Unlock()
		e.task.cancel(nil)
		close(e.task.done)
	}()
	if err != nil {
		j.close()
		_ = s.cfg.Archive.Delete(context.Background(), e.a.owner, e.r.ID) // it may be there all the same
		return
	}
	if err := j.drive(ctx); err != nil {
		e.abort(context.Cause(ctx), err, j)
	}
	s.persist(e)
}

// abort ends a response that did not come to its end.
func (e *responder) abort(cause, err error, j *job) {
	if errors.Is(cause, errDeleted) || errors.Is(err, store.ErrNotFound) {
		e.unsaved, e.changed, e.ended = nil, false, true
		return
	}
	var last []byte
	switch {
	case e.ended: // what was not stored is still to be
		return
	case errors.Is(cause, errCancelled):
		e.r.Status, e.ids = response.StatusCancelled, nil
		last = e.close(e.r.End(nil, response.StatusIncomplete))
	default:
		if gone(err) { // nobody waits here: the server ends
			err = engine.ErrStopped
		}
		last = e.fail(nil, e.s.problem(j.w, err).body)
	}
	_ = e.keep(last) // persist says what is wrong
}

// persistRetry is the time between attempts to store the end of a response.
const persistRetry = time.Second

// persist stores what the store did not take, for as long as the server runs: a later
// start finds the response unfinished otherwise. Of one that is too large what is left
// is that it has failed.
func (s *Server) persist(e *responder) {
	for e.changed || len(e.unsaved) > 0 {
		err := e.flush()
		_, waits := errors.AsType[*store.ReadOnlyError](err)
		switch {
		case err == nil:
			return
		case errors.Is(err, store.ErrTooLarge) && e.r.Output != nil:
			e.unsaved, e.ids, e.r.Output = nil, nil, nil
			e.r.Status, e.r.Failure = response.StatusFailed, &response.Failure{Code: "server_error", Message: "the response is too large to be stored"}
			continue
		case !waits:
			s.log.Warn("response was not stored", "response", e.r.ID, "error", err)
			return
		}
		select {
		case <-time.After(persistRetry):
		case <-s.life.Done():
			return
		}
	}
}

// follow sends the events of a stored response behind a sequence number, and waits for
// those that are still to come.
func (s *Server) follow(w *reply, r *http.Request, owner, id string, after int) error {
	for {
		ctx, cancel := context.WithTimeout(r.Context(), s.lim().Time(limits.PingInterval))
		events, done, err := s.cfg.Archive.Events(ctx, owner, id, after)
		cancel()
		var out []byte
		switch {
		case err == nil:
			after += len(events)
			for _, event := range events {
				out = append(out, event...)
			}
		case r.Context().Err() != nil || w.left():
			return errGone
		case errors.Is(err, context.DeadlineExceeded):
			out = []byte(wire.Ping)
		default:
			return s.lose(w, id, after+1, err)
		}
		if err := w.events(out); err != nil || done {
			return err
		}
	}
}

// lose says that the events of a response cannot be read any further; n is the number of
// the next one.
func (s *Server) lose(w *reply, id string, n int, err error) error {
	switch {
	case errors.Is(err, store.ErrNotFound):
		err = noResponse("response_id", id) // deleted meanwhile
	case errors.Is(err, store.ErrClosed):
		err = engine.ErrStopped
	}
	if !w.begun {
		return err
	}
	return w.events(wire.AppendLost(nil, s.problem(w, err).body, n))
}

// Interrupted ends a background response that a crash cut off, for store.Config.
func Interrupted(rec store.Record, events iter.Seq[[]byte]) store.Update {
	lim := limits.Defaults()
	r, err := response.Parse(unpack(rec.Object).object, lim)
	if err != nil { // it is damaged: what is left is that there was one
		r = response.New(response.Head{ID: rec.ID, Created: rec.Created.Unix(), Stored: true}, &response.Request{Background: rec.Background, Previous: rec.Previous})
	}
	r.Usage = noted(rec.Note)
	found := len(r.Output)
	last := r.Interrupt(events, rec.Events, rec.State == store.Cancelling, lim)
	u := store.Update{Events: split(last), Done: true}
	for i := found; i < len(r.Output); i++ {
		u.Refs = appendRefs(u.Refs, &r.Output[i])
	}
	k := kept{object: r.Append(nil)}
	u.Object = k.pack()
	return u
}
