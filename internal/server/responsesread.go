package server

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"ossian/internal/store"
	"ossian/internal/wire"
	"ossian/internal/wire/response"
)

const responsesPath = "/v1/responses/"

// stored returns the response that a path names.
func (s *Server) stored(r *http.Request, c *caller, suffix string) (owner string, rec store.Record, err error) {
	id := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, responsesPath), suffix)
	err = store.ErrNotFound
	if s.cfg.Archive != nil {
		owner = s.owner(c.tenant)
		rec, err = s.cfg.Archive.Get(owner, id)
	}
	if errors.Is(err, store.ErrNotFound) {
		err = noResponse("response_id", id)
	}
	return owner, rec, err
}

// response answers GET and DELETE of /v1/responses/{id}.
func (s *Server) response(w *reply, r *http.Request, c *caller) error {
	if r.Method == http.MethodDelete {
		return s.deleteResponse(w, r, c)
	}
	streamed, after, err := replayOf(r)
	if err != nil {
		return err
	}
	owner, rec, err := s.stored(r, c, "")
	if err != nil {
		return err
	}
	object := unpack(rec.Object).object
	switch {
	case !streamed:
		w.json(http.StatusOK, object)
		return nil
	case rec.Background:
		return s.follow(w, r, owner, rec.ID, after)
	}
	parsed, err := response.Parse(object, s.lim())
	if err != nil {
		return err
	}
	return w.events(behind(parsed.Replay(nil), after))
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

func (s *Server) deleteResponse(w *reply, r *http.Request, c *caller) error {
	owner, rec, err := s.stored(r, c, "")
	if _, damaged := errors.AsType[*store.DamageError](err); damaged { // it can still be deleted
		rec.ID, err = strings.TrimPrefix(r.URL.Path, responsesPath), nil
	}
	if err != nil {
		return err
	}
	if t := s.task(rec.ID); t != nil {
		if err := t.stop(r.Context(), errDeleted); err != nil {
			return errGone
		}
	}
	err = s.cfg.Archive.Delete(r.Context(), owner, rec.ID)
	if errors.Is(err, store.ErrNotFound) {
		return noResponse("response_id", rec.ID)
	}
	if err != nil {
		return err
	}
	return sendJSON(w, response.Deleted{ID: rec.ID, Object: "response", Deleted: true})
}

// cancelResponse answers POST /v1/responses/{id}/cancel. That somebody asked is stored
// first: a crash does not turn a cancelled response into a failed one.
func (s *Server) cancelResponse(w *reply, r *http.Request, c *caller) error {
	owner, rec, err := s.stored(r, c, "/cancel")
	if err != nil {
		return err
	}
	if !rec.Background {
		return &wire.Error{Message: "only responses that are made in the background can be cancelled", Type: wire.TypeInvalidRequest, Param: "response_id", Code: wire.CodeNotCancellable}
	}
	if rec.State != store.Finished {
		if err := s.cfg.Archive.Cancel(r.Context(), owner, rec.ID); err != nil {
			return err
		}
		if t := s.task(rec.ID); t != nil {
			if err := t.stop(r.Context(), errCancelled); err != nil {
				return errGone
			}
		}
		if rec, err = s.cfg.Archive.Get(owner, rec.ID); err != nil {
			return err
		}
	}
	w.json(http.StatusOK, unpack(rec.Object).object)
	return nil
}

// inputItems answers GET /v1/responses/{id}/input_items.
func (s *Server) inputItems(w *reply, r *http.Request, c *caller) error {
	page, err := pageOf(r)
	if err != nil {
		return err
	}
	owner, rec, err := s.stored(r, c, "/input_items")
	if err != nil {
		return err
	}
	items, more, err := s.cfg.Archive.Items(owner, rec.ID, page)
	if errors.Is(err, store.ErrNotFound) {
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
	w.json(http.StatusOK, list.Append(nil))
	return nil
}

const mostListed = 100 // items in a page

// pageOf reads the parameters of a list.
func pageOf(r *http.Request) (store.Page, error) {
	query := r.URL.Query()
	p := store.Page{After: query.Get("after"), Limit: 20}
	switch query.Get("order") {
	case "", "desc":
	case "asc":
		p.Ascending = true
	default:
		return p, wire.Invalid("order", "asc or desc expected")
	}
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > mostListed {
			return p, wire.Invalid("limit", fmt.Sprintf("1 to %d expected", mostListed))
		}
		p.Limit = n
	}
	return p, nil
}
