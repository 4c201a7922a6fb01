package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"ossian/internal/chat"
	"ossian/internal/limits"
	"ossian/internal/store"
	"ossian/internal/wire"
	"ossian/internal/wire/response"
)

// A responder writes one response: the events while it is made, and what is stored of it.
type responder struct {
	s   *Server
	a   *asked
	r   *response.Response
	ids []int32 // of the output, for prompts that go on from it
	j   *job

	task    *task    // of a background response; nil = the client waits for it
	unsaved [][]byte // its events that the store did not take yet
	size    int      // of these, in bytes
	changed bool     // its object, since it was last stored
	found   int      // items of its output that can be found by their ids
	last    *answer  // what it ends with, once that has come
	ended   bool     // no event follows
	first   []byte   // the object as it was created
}

// responder returns the writer of a response that nothing is known of yet.
func (s *Server) responder(a *asked) *responder {
	temperature, topP := s.inForce(a)
	r := response.New(response.Head{ID: s.newID("resp_"), Created: s.cfg.Clock().Unix(), Model: s.host.Names[0], Temperature: temperature, TopP: topP,
		Truncated: a.truncated, Stored: a.store}, a.q)
	if a.q.Includes("reasoning.encrypted_content") {
		r.Seal = func(text string) string { return s.seal(text, a.owner, a.m.Fingerprint) }
	}
	return &responder{s: s, a: a, r: r}
}

// output returns where the response goes: to the client, piece by piece or as a whole,
// or into the store.
func (e *responder) output(j *job) output {
	e.j = j
	st := &stream{j: j, w: j.w, enc: e, interval: e.s.cfg.StreamInterval, choices: make([]pending, 1), collects: true}
	switch {
	case e.task != nil:
		st.keep, j.silence = e.keep, e.s.lim().Time(limits.PingInterval)
		return st
	case e.a.q.Stream:
		j.stream, j.silence = st, e.s.lim().Time(limits.PingInterval)
		return st
	}
	st.interval, st.keep = math.MaxInt, func([]byte) error { return nil }
	return &whole{st, e}
}

// A whole response is sent when it is complete.
type whole struct {
	*stream
	e *responder
}

func (o *whole) silent() error {
	if o.w.left() {
		return errGone
	}
	return nil
}

func (o *whole) finish() error {
	if err := o.stream.finish(); err != nil {
		return err
	}
	o.w.json(http.StatusOK, o.e.r.Append(nil))
	return nil
}

func (e *responder) begin(dst []byte, _ int, _ *wire.Usage) []byte {
	if e.task == nil {
		dst = e.r.Tell(dst, "created")
	}
	e.r.Status, e.changed = response.StatusInProgress, true
	return e.r.Tell(dst, "in_progress")
}

func (e *responder) chunk(dst []byte, _ int, d *delta, ids []int32, _ *wire.Usage) []byte {
	e.ids = append(e.ids, ids...)
	switch d.field {
	case begins:
		dst = e.r.Begin(dst, e.identified(itemOf(d.part)))
	case callName:
		it := e.identified(e.a.q.Called(d.text))
		it.CallID = e.s.newID("call_")
		dst = e.r.Begin(dst, it)
	case ends:
		status := response.StatusCompleted
		if d.cut {
			status = response.StatusIncomplete
		}
		e.changed = true
		dst = e.r.End(dst, status)
	default:
		dst = e.r.Add(dst, d.text, d.logprobs)
	}
	return dst
}

func itemOf(part chat.Part) response.Item {
	switch part {
	case chat.Reasoning:
		return response.Item{Type: response.ItemReasoning}
	case chat.Preamble:
		return response.Item{Type: response.ItemMessage, Role: "assistant", Phase: response.PhaseCommentary}
	}
	return response.Item{Type: response.ItemMessage, Role: "assistant", Phase: response.PhaseAnswer}
}

func (e *responder) identified(it response.Item) response.Item {
	it.ID = e.s.newID(it.IDPrefix())
	return it
}

func (e *responder) end(dst []byte, _ int, a *answer, _ *wire.Usage) []byte {
	e.ids = append(e.ids, a.newIDs...)
	if a.reason != (wire.StopReason{}) {
		e.ids = nil // the text ends before they do
	}
	e.last = a
	if a.finish == wire.FinishLength {
		return e.r.End(dst, response.StatusIncomplete)
	}
	return e.r.End(dst, response.StatusCompleted)
}

// finish says how the response has ended, and no earlier does its object: what is stored
// before can be read, and a crash takes it back (DUR-1).
func (e *responder) finish(dst []byte, u *wire.Usage) []byte {
	e.r.Usage, e.r.Empty = u, e.last.silence()
	if e.last.finish == wire.FinishLength {
		e.r.Status, e.r.Incomplete = response.StatusIncomplete, "max_output_tokens"
	} else {
		e.r.Status, e.r.Completed = response.StatusCompleted, e.s.cfg.Clock().Unix()
	}
	return e.close(dst)
}

func (e *responder) fail(dst []byte, err *wire.Error) []byte {
	code := "server_error"
	switch err.Type {
	case wire.TypeRateLimit:
		code = "rate_limit_exceeded"
	case wire.TypeInvalidRequest:
		code = "invalid_prompt"
	}
	e.r.Status, e.r.Failure = response.StatusFailed, &response.Failure{Code: code, Message: err.Message}
	e.ids = nil
	return e.close(e.r.End(dst, response.StatusIncomplete))
}

// close stores a response that has ended, and tells so: that it is kept is said only
// when it is (DUR-1).
func (e *responder) close(dst []byte) []byte {
	e.ended, e.changed = true, true
	if e.r.Usage == nil {
		u := e.j.usage()
		e.r.Usage = &u
	}
	if e.task == nil && e.a.store {
		if err := e.save(); err != nil {
			e.s.log.Warn("response was not stored", "response", e.r.ID, "error", err)
			e.r.Stored = false
		}
	}
	return e.r.Tell(dst, e.r.Ending())
}

// saveTime is how long the reply to a request waits for the disk.
const saveTime = 30 * time.Second

func (e *responder) save() error {
	n, err := e.record()
	if err != nil {
		return err
	}
	n.Done = true
	ctx, cancel := context.WithTimeout(context.Background(), saveTime)
	defer cancel()
	return e.s.cfg.Archive.Create(ctx, n)
}

// record returns what is stored of the response, and of what it was asked.
func (e *responder) record() (store.New, error) {
	n := store.New{ID: e.r.ID, Owner: e.a.owner, Previous: e.a.q.Previous, Background: e.a.q.Background, Object: e.object(), Refs: e.refs()}
	for i := range e.a.q.Input {
		it := e.a.q.Input[i]
		if it.ID == "" {
			it = e.identified(it)
		}
		if it.Status == "" {
			it.Status = response.StatusCompleted
		}
		data, err := it.MarshalJSON()
		if err != nil {
			return n, err
		}
		n.Items = append(n.Items, store.Item{ID: it.ID, Data: data})
	}
	return n, nil
}

func (e *responder) object() []byte {
	k := kept{object: e.r.Append(nil), ids: e.ids}
	return k.pack()
}

// refs returns the ids of items and calls that the store does not know yet.
func (e *responder) refs() (ids []string) {
	for i := e.found; i < len(e.r.Output); i++ {
		ids = appendRefs(ids, &e.r.Output[i])
	}
	return ids
}

// appendRefs adds the names by which clients send back an item of an output.
func appendRefs(refs []string, it *response.Item) []string {
	refs = append(refs, it.ID)
	if it.CallID != "" {
		refs = append(refs, it.CallID)
	}
	return refs
}

// keep stores events of a background response, with the object where it has changed. A
// store that takes none for a while (DUR-3) gets them later.
func (e *responder) keep(events []byte) error {
	e.unsaved, e.size = append(e.unsaved, split(bytes.Clone(events))...), e.size+len(events)
	err := e.flush()
	if _, waits := errors.AsType[*store.ReadOnlyError](err); !waits || (int64(e.size) > e.s.lim()[limits.PendingOutput] && !e.ended) {
		return err
	}
	return nil
}

// split returns the events of a stream.
func split(stream []byte) (events [][]byte) {
	for len(stream) > 0 {
		n := bytes.Index(stream, []byte("\n\n")) + 2
		events, stream = append(events, stream[:n:n]), stream[n:]
	}
	return events
}

// note is the usage so far, for a start after a crash.
func (e *responder) note() string {
	u := e.j.usage()
	return fmt.Sprint(u.Prompt, u.PromptOf.Cached, u.Completion, u.Details.Reasoning)
}

// noted reads what note wrote, nil if it is no such thing.
func noted(note string) *wire.Usage {
	var prompt, cached, completion, reasoned int
	if n, _ := fmt.Sscan(note, &prompt, &cached, &completion, &reasoned); n < 4 {
		return nil
	}
	u := wire.NewUsage(prompt, cached, completion, reasoned)
	return &u
}

func (e *responder) flush() error {
	u, found := store.Update{Events: e.unsaved, Note: e.note(), Done: e.ended}, e.found
	if e.changed {
		u.Object, u.Refs, found = e.object(), e.refs(), len(e.r.Output)
	}
	err := e.s.cfg.Archive.Update(context.Background(), e.a.owner, e.r.ID, u)
	if err == nil {
		e.unsaved, e.size, e.changed, e.found = nil, 0, false, found
	}
	return err
}
