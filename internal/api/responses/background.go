package responses

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"time"

	"ossian/internal/api"
	"ossian/internal/engine"
	"ossian/internal/generate"
	"ossian/internal/limits"
	"ossian/internal/store"
	"ossian/internal/wire"
	"ossian/internal/wire/response"
)

// A task is a response that is made in the background:
//
//	started by the request → created in the store → performed → persisted → done
//
// A second goroutine has it from the creation on. It ends by itself, with stop, with the
// handler, and after a crash with Interrupted.
type task struct {
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when nothing follows, in the store either
}

var (
	errCancelled = errors.New("server: the response was cancelled")
	errDeleted   = errors.New("server: the response was deleted")
	// errUncreated is what perform is told of a response whose creation panicked.
	errUncreated = errors.New("the response was not created")
	// errUnsaved is what a client is told whose response the store did not take in time.
	errUnsaved = &wire.Error{Message: "the response could not be stored in time; try again", Type: wire.TypeOverloaded, Code: wire.CodeStoreFailed}
)

// task returns a background response that runs, nil if none has the id.
func (h *Handler) task(id string) *task {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.tasks[id]
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

// background starts a response and answers as soon as it is stored; with stream the
// answer is its events.
func (h *Handler) background(reply *api.Reply, r *http.Request, req *request) error {
	maker := h.maker(req)
	ctx, cancel := context.WithCancelCause(h.life)
	maker.task, maker.requestID = &task{cancel: cancel, done: make(chan struct{})}, reply.ID
	if err := maker.start(ctx); err != nil {
		cancel(err)
		return err
	}
	held := req.caller.HandOver() // the body counts until the response has ended
	// Known before it is stored: whoever reads its id can cancel it.
	h.mu.Lock()
	h.tasks[maker.object.ID] = maker.task
	h.mu.Unlock()
	err := errUncreated
	func() {
		defer func() { // even if create panics: what this request holds is given back there
			h.load.Add(1)
			h.running.Go(func() {
				defer h.load.Add(-1)
				defer held.Leave()
				h.perform(ctx, maker, err)
			})
		}()
		err = maker.create(context.WithoutCancel(r.Context()))
	}()
	if err != nil {
		return err
	}
	if req.Stream {
		return h.follow(reply, r, &inclusion{h: h, owner: req.owner}, maker.object.ID, -1)
	}
	reply.JSON(http.StatusOK, maker.created)
	return nil
}

// create stores a response that is queued.
func (m *maker) create(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, saveTime, errUnsaved)
	defer cancel()
	m.object.Status = response.StatusQueued
	entry, err := m.stored()
	if err != nil {
		return err
	}
	entry.Events, entry.Note = [][]byte{m.object.Tell(nil, "created"), m.object.Tell(nil, "queued")}, m.note()
	m.created = m.object.Append(nil)
	if err = m.h.archive.Create(ctx, entry); errors.Is(err, context.DeadlineExceeded) {
		err = context.Cause(ctx)
	}
	return err
}

// perform makes a response that was created, unless err says that it was not.
func (h *Handler) perform(ctx context.Context, maker *maker, err error) {
	defer func() {
		h.mu.Lock()
		delete(h.tasks, maker.object.ID)
		h.mu.Unlock()
		maker.task.cancel(nil)
		close(maker.task.done)
	}()
	delivery := h.front.Record(maker.persist, maker.job, maker)
	if maker.req.RunningUsage() {
		delivery.Running()
	}
	if err != nil {
		delivery.Close()
		_ = h.archive.Delete(context.Background(), maker.req.owner, maker.object.ID) // it may be there all the same
		return
	}
	if err := delivery.Run(ctx); err != nil {
		maker.abort(context.Cause(ctx), err)
	}
	h.persistRest(maker)
}

// abort ends a response that did not come to its end.
func (m *maker) abort(cause, err error) {
	if errors.Is(cause, errDeleted) || errors.Is(err, store.ErrNotFound) {
		m.unsaved, m.changed, m.ended = nil, false, true
		return
	}
	var last []byte
	switch {
	case m.ended: // what was not stored is still to be
		return
	case errors.Is(cause, errCancelled):
		m.object.Status, m.ids = response.StatusCancelled, nil
		last = m.close(m.cut(nil, response.StatusIncomplete))
	default:
		if generate.Gone(err) { // nobody waits here: the server ends
			err = engine.ErrStopped
		}
		last = m.Fail(nil, m.h.front.Explain(m.requestID, err))
	}
	_ = m.persist(last) // persistRest says what is wrong
}

// persistRetry is the time between attempts to store the end of a response.
const persistRetry = time.Second

// persistRest stores what the store did not take, for as long as the server runs: a later
// start finds the response unfinished otherwise. Of one that is too large what is left
// is that it has failed.
func (h *Handler) persistRest(maker *maker) {
	for maker.changed || len(maker.unsaved) > 0 {
		err := maker.update()
		_, waits := errors.AsType[*store.ReadOnlyError](err)
		switch {
		case err == nil:
			return
		case errors.Is(err, store.ErrTooLarge) && maker.object.Output != nil: // once: then it has none
			maker.unsaved, maker.ids, maker.object.Output = nil, nil, nil
			maker.object.Status, maker.object.Failure = response.StatusFailed, &response.Failure{Code: "server_error", Message: "the response is too large to be stored"}
			continue
		case !waits:
			h.front.Log.Warn("response was not stored", "response", maker.object.ID, "error", err)
			return
		}
		select {
		case <-time.After(persistRetry):
		case <-h.life.Done():
			return
		}
	}
}

// Interrupted ends a background response that a crash cut off, for store.Config.
func Interrupted(rec store.Record, events iter.Seq[[]byte]) store.Update {
	lim := limits.Defaults()
	known := unpack(rec.Object)
	object, err := response.Parse(known.object, lim)
	if err != nil { // it is damaged: what is left is that there was one
		object = response.New(response.Head{ID: rec.ID, Created: rec.Created.Unix(), Stored: true}, &response.Request{Background: rec.Background, Previous: rec.Previous})
	}
	object.Usage = noted(rec.Note)
	found := len(object.Output)
	last := object.Interrupt(events, rec.Events, rec.State == store.Cancelling, lim)
	update := store.Update{Events: split(last), Done: true}
	for i := found; i < len(object.Output); i++ {
		update.Refs = appendRefs(update.Refs, &object.Output[i])
	}
	ended := record{object: object.Append(nil), trail: known.trail}
	update.Object = ended.pack()
	return update
}
