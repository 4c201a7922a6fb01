package responses

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"ossian/internal/api"
	"ossian/internal/engine"
	"ossian/internal/generate"
	"ossian/internal/limits"
	"ossian/internal/store"
	"ossian/internal/wire"
	"ossian/internal/wire/response"
)

// path is what those of responses begin with.
const path = "/v1/responses/"

// read returns the response that a path names.
func (h *Handler) read(r *http.Request, caller *api.Caller, suffix string) (owner string, rec store.Record, err error) {
	id := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, path), suffix)
	err = store.ErrNotFound
	if h.archive != nil {
		owner = h.owner(caller.Tenant)
		rec, err = h.archive.Get(owner, id)
	}
	return owner, rec, gone(err, id)
}

// gone makes of the store's error what is said of a response that does not exist, or does
// so no more: it may be deleted at any moment.
func gone(err error, id string) error {
	if errors.Is(err, store.ErrNotFound) {
		return noResponse("response_id", id)
	}
	return err
}

// Stored answers GET and DELETE of /v1/responses/{id}.
func (h *Handler) Stored(reply *api.Reply, r *http.Request, caller *api.Caller) error {
	if r.Method == http.MethodDelete {
		return h.delete(reply, r, caller)
	}
	streamed, after, err := replayOf(r)
	if err != nil {
		return err
	}
	owner, rec, err := h.read(r, caller, "")
	if err != nil {
		return err
	}
	include, err := h.including(reply, r, owner)
	if err != nil {
		return err
	}
	// Events of a background response are stored, and may still be made; those of another are
	// made again of its object.
	if streamed && rec.Background {
		return h.follow(reply, r, include, rec.ID, after)
	}
	stored := unpack(rec.Object)
	object, err := include.object(&stored)
	if err != nil {
		return err
	}
	if !streamed {
		reply.JSON(http.StatusOK, object)
		return nil
	}
	parsed, err := response.Parse(object, h.front.Limits())
	if err != nil {
		return err
	}
	return reply.Events(behind(parsed.Replay(nil), after))
}

// replayOf reads the parameters of a GET.
func replayOf(r *http.Request) (streamed bool, after int, err error) {
	after = -1
	query := r.URL.Query()
	if text := query.Get("stream"); text != "" {
		if streamed, err = strconv.ParseBool(text); err != nil {
			return false, 0, wire.Invalid("stream", "true or false expected")
		}
	}
	if text := query.Get("starting_after"); text != "" {
		if after, err = strconv.Atoi(text); err != nil || after < 0 || after > 1<<31-1 {
			return false, 0, wire.Invalid("starting_after", "the sequence number of an event expected")
		}
	}
	return streamed, after, nil
}

// behind drops the events up to a sequence number.
func behind(events []byte, after int) []byte {
	for ; after >= 0 && len(events) > 0; after-- {
		_, events, _ = bytes.Cut(events, []byte("\n\n"))
	}
	return events
}

// delete answers DELETE of /v1/responses/{id}. What is being made is stopped first.
func (h *Handler) delete(reply *api.Reply, r *http.Request, caller *api.Caller) error {
	owner, rec, err := h.read(r, caller, "")
	if _, damaged := errors.AsType[*store.DamageError](err); damaged { // it can still be deleted
		rec.ID, err = strings.TrimPrefix(r.URL.Path, path), nil
	}
	if err != nil {
		return err
	}
	if running := h.task(rec.ID); running != nil {
		if err := running.stop(r.Context(), errDeleted); err != nil {
			return generate.ErrGone
		}
	}
	if err := h.archive.Delete(r.Context(), owner, rec.ID); err != nil {
		return gone(err, rec.ID)
	}
	return reply.Send(response.Deleted{ID: rec.ID, Object: "response", Deleted: true})
}

// Cancel answers POST /v1/responses/{id}/cancel. That somebody asked is stored
// first: a crash does not turn a cancelled response into a failed one.
func (h *Handler) Cancel(reply *api.Reply, r *http.Request, caller *api.Caller) error {
	owner, rec, err := h.read(r, caller, "/cancel")
	if err != nil {
		return err
	}
	if !rec.Background {
		return &wire.Error{Message: "only responses that are made in the background can be cancelled", Type: wire.TypeInvalidRequest, Param: "response_id", Code: wire.CodeNotCancellable}
	}
	if rec.State != store.Finished {
		if err := h.archive.Cancel(r.Context(), owner, rec.ID); err != nil {
			return gone(err, rec.ID)
		}
		// Once stopped it has stored how it ended, which is what the client gets.
		if running := h.task(rec.ID); running != nil {
			if err := running.stop(r.Context(), errCancelled); err != nil {
				return generate.ErrGone
			}
		}
		id := rec.ID
		if rec, err = h.archive.Get(owner, id); err != nil {
			return gone(err, id)
		}
	}
	reply.JSON(http.StatusOK, unpack(rec.Object).object)
	return nil
}

// InputItems answers GET /v1/responses/{id}/input_items.
func (h *Handler) InputItems(reply *api.Reply, r *http.Request, caller *api.Caller) error {
	page, err := pageOf(r)
	if err != nil {
		return err
	}
	owner, rec, err := h.read(r, caller, "/input_items")
	if err != nil {
		return err
	}
	items, more, err := h.archive.Items(owner, rec.ID, page)
	if errors.Is(err, store.ErrNotFound) { // the response, or the item that is named
		if _, err := h.archive.Get(owner, rec.ID); page.After == "" || err != nil {
			return gone(store.ErrNotFound, rec.ID)
		}
		return wire.Invalid("after", "no input item of the response has this id")
	}
	if err != nil {
		return err
	}
	list := response.ItemList{HasMore: more}
	for _, it := range items {
		list.Data = append(list.Data, it.Data)
	}
	if len(items) > 0 {
		list.FirstID, list.LastID = items[0].ID, items[len(items)-1].ID
	}
	reply.JSON(http.StatusOK, list.Append(nil))
	return nil
}

const mostListed = 100 // items in a page

// pageOf reads the parameters of a list.
func pageOf(r *http.Request) (store.Page, error) {
	query := r.URL.Query()
	page := store.Page{After: query.Get("after"), Limit: 20}
	switch query.Get("order") {
	case "", "desc":
	case "asc":
		page.Ascending = true
	default:
		return page, wire.Invalid("order", "asc or desc expected")
	}
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > mostListed {
			return page, wire.Invalid("limit", fmt.Sprintf("1 to %d expected", mostListed))
		}
		page.Limit = n
	}
	return page, nil
}

// follow sends the events of a stored response behind a sequence number, with what is included,
// and waits for those that are still to come.
func (h *Handler) follow(reply *api.Reply, r *http.Request, include *inclusion, id string, after int) error {
	for {
		// Without an event for a while there is a ping, and a look whether the client is there.
		ctx, cancel := context.WithTimeout(r.Context(), h.front.Limits().Time(limits.PingInterval))
		events, done, err := h.archive.Events(ctx, include.owner, id, after)
		cancel()
		if err == nil {
			events, err = include.events(id, events)
		}
		var out []byte
		switch {
		case err == nil:
			after += len(events)
			for _, event := range events {
				out = append(out, event...)
			}
		case r.Context().Err() != nil || reply.Left():
			return generate.ErrGone
		case errors.Is(err, context.DeadlineExceeded):
			out = []byte(wire.Ping)
		default:
			return h.lose(reply, id, after+1, err)
		}
		if err := reply.Events(out); err != nil || done {
			return err
		}
	}
}

// lose says that the events of a response cannot be read any further; next is the number of
// the one that would follow.
func (h *Handler) lose(reply *api.Reply, id string, next int, err error) error {
	switch {
	case errors.Is(err, store.ErrNotFound):
		err = noResponse("response_id", id) // deleted meanwhile
	case errors.Is(err, store.ErrClosed):
		err = engine.ErrStopped
	}
	if !reply.Begun() {
		return err
	}
	return reply.Events(wire.AppendLost(nil, h.front.Explain(reply.ID, err), next))
}
