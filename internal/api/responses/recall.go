package responses

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"ossian/internal/store"
	"ossian/internal/wire"
	"ossian/internal/wire/response"
)

// A recaller finds the responses whose output a client sends back.
type recaller struct {
	h     *Handler
	owner string
	looks int64 // into stored responses, that are left
}

// recallItems is how many items of an output are looked for: clients may leave out ids,
// but calls have theirs.
const recallItems = 4

// A recalled is the output of a stored response.
type recalled struct {
	record
	id      string
	output  []response.Item
	count   int // items of the input that it is; 0 = it is none
	created time.Time
}

// recall finds out whether items begin with the whole output of a stored response: then
// the prompt has that and the ids that were sampled, as with previous_response_id.
func (r *recaller) recall(items []response.Item) recalled {
	for i := 0; i < min(len(items), recallItems) && items[i].Made() && r.h.archive != nil; i++ {
		for _, name := range []string{items[i].ID, items[i].CallID} {
			of, err := r.h.archive.Find(r.owner, name)
			if err == nil {
				return r.read(of, items)
			}
		}
	}
	return recalled{}
}

// look returns a stored response; false = something is wrong with it.
func (r *recaller) look(of string) (found recalled, ok bool) {
	if r.looks--; r.looks < 0 {
		return found, false
	}
	rec, err := r.h.archive.Get(r.owner, of)
	if err != nil {
		return found, false
	}
	found.record = unpack(rec.Object)
	stored, err := response.Parse(found.object, r.h.front.Limits())
	if err != nil {
		return found, false
	}
	found.id, found.output, found.created = stored.ID, stored.Output, time.Unix(stored.Created, 0)
	return found, true
}

// read compares items with the output of a response. Where something is wrong with it, the
// items have the text. Lists of tools say nothing to a model: clients may leave them out.
func (r *recaller) read(of string, items []response.Item) recalled {
	found, ok := r.look(of)
	if !ok {
		return recalled{}
	}
	output := found.output
	found.output = nil
	for k := range output {
		it := &output[k]
		if found.count >= len(items) || !it.Says(&items[found.count]) {
			if it.Type == response.ItemMCPTools {
				continue
			}
			return recalled{}
		}
		if id := items[found.count].ID; id != "" { // results may name it
			it.ID = id
		}
		found.count, found.output = found.count+1, append(found.output, *it)
	}
	return found
}

// gave finds out what is stored of the calls of the response that has an item.
func (r *recaller) gave(past *history, item string) {
	if _, known := past.gave[item]; known || item == "" || r.h.archive == nil {
		// An item that is stored nowhere, or no more, is what the client says it is.
		return
	}
	of, err := r.h.archive.Find(r.owner, item)
	if err != nil {
		return
	}
	found, ok := r.look(of)
	if !ok {
		return
	}
	past.remember(&found.record, found.id)
	if past.gave == nil {
		past.gave = map[string]result{}
	}
	for _, step := range found.Steps {
		for _, gave := range step.Results {
			past.gave[gave.Item] = gave
		}
	}
}

// resolve replaces references to items of earlier responses, and opens reasoning that
// came encrypted.
func (h *Handler) resolve(items []response.Item, owner, model string) error {
	for i := range items {
		it := &items[i]
		switch {
		case it.Type == response.ItemReference:
			// lookUp asks for the owner's items alone: those of others are not found.
			found, err := h.lookUp(it.ID, owner)
			if err != nil {
				return err
			}
			if found == nil {
				return &wire.Error{Message: fmt.Sprintf("no item has the id %.100q", it.ID), Type: wire.TypeInvalidRequest, Param: fmt.Sprintf("input[%d].id", i), Code: wire.CodeNotFound}
			}
			*it = *found
		case it.Type == response.ItemReasoning && len(it.Content) == 0 && it.Encrypted != "":
			text, ok := h.unseal(it.Encrypted, owner, model)
			if !ok {
				return &wire.Error{Message: "this server did not write the encrypted content, or for another model or key", Type: wire.TypeInvalidRequest,
					Param: fmt.Sprintf("input[%d].encrypted_content", i), Code: wire.CodeEncrypted}
			}
			it.Content = wire.Content{text}
		}
	}
	return nil
}

// lookUp returns an output item of an earlier response, nil if there is none.
func (h *Handler) lookUp(id, owner string) (*response.Item, error) {
	if h.archive == nil {
		return nil, nil
	}
	of, err := h.archive.Find(owner, id)
	if err == nil {
		var rec store.Record
		if rec, err = h.archive.Get(owner, of); err == nil {
			var object *response.Response
			if object, err = response.Parse(unpack(rec.Object).object, h.front.Limits()); err == nil {
				if at := slices.IndexFunc(object.Output, func(it response.Item) bool { return it.ID == id }); at >= 0 {
					return &object.Output[at], nil
				}
			}
		}
	}
	// Whether it was deleted or never was makes no difference to whoever refers to it.
	if errors.Is(err, store.ErrNotFound) {
		err = nil
	}
	return nil, err
}
