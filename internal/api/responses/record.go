package responses

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"ossian/internal/limits"
	"ossian/internal/store"
	"ossian/internal/wire"
	"ossian/internal/wire/response"
)

// A record is what the store has of a response as its object.
type record struct {
	object []byte  // JSON, one line
	ids    []int32 // of the output as it was sampled; nil = not known
	trail
}

// pack returns the stored form: the object, the ids behind it, and the trail behind these, where
// there is one.
func (r *record) pack() []byte {
	dst := append(slices.Clip(r.object), '\n')
	for i, id := range r.ids {
		if i > 0 {
			dst = append(dst, ' ')
		}
		dst = strconv.AppendInt(dst, int64(id), 36)
	}
	if r.trail.empty() {
		return dst
	}
	trail, _ := json.Marshal(&r.trail) // its raw part is JSON
	return append(append(dst, '\n'), trail...)
}

// unpack is the inverse of pack. Ids and trails that cannot be read are left out.
func unpack(data []byte) record {
	object, rest, _ := bytes.Cut(data, []byte("\n"))
	rest, behind, _ := bytes.Cut(rest, []byte("\n"))
	rec := record{object: object}
	if len(behind) > 0 && json.Unmarshal(behind, &rec.trail) != nil {
		return record{object: object}
	}
	for field := range bytes.FieldsSeq(rest) {
		id, err := strconv.ParseInt(string(field), 36, 32)
		if err != nil {
			rec.ids = nil // the text is there, too
			break
		}
		rec.ids = append(rec.ids, int32(id))
	}
	return rec
}

// stepIDs returns the ids of each step; nil = they are not known.
func (r *record) stepIDs() [][]int32 {
	all, rest := make([][]int32, len(r.Steps)), r.ids
	for i := range r.Steps {
		n := r.Steps[i].IDs
		if n < 0 || n > len(rest) {
			return nil
		}
		all[i], rest = rest[:n:n], rest[n:]
	}
	if len(rest) > 0 {
		return nil
	}
	return all
}

// saveTime is how long the reply to a request waits for the disk.
const saveTime = 30 * time.Second

// save stores a response that has ended.
func (m *maker) save() error {
	entry, err := m.stored()
	if err != nil {
		return err
	}
	entry.Done = true
	ctx, cancel := context.WithTimeout(context.Background(), saveTime)
	defer cancel()
	return m.h.archive.Create(ctx, entry)
}

// stored returns what is stored of the response as it is, and of what it was asked.
func (m *maker) stored() (store.New, error) {
	entry := store.New{ID: m.object.ID, Owner: m.req.owner, Previous: m.req.Previous, Background: m.req.Background, Object: m.packed(), Refs: m.refs()}
	for i := range m.req.Input {
		it := m.req.Input[i]
		if it.ID == "" {
			it = m.identified(it)
		}
		if it.Status == "" && (it.Served == nil || it.IsServed()) { // others have none
			it.Status = response.StatusCompleted
		}
		data, err := it.MarshalJSON()
		if err != nil {
			return entry, err
		}
		entry.Items = append(entry.Items, store.Item{ID: it.ID, Data: data})
	}
	return entry, nil
}

func (m *maker) packed() []byte {
	rec := record{object: m.object.Append(nil), ids: m.ids, trail: m.trail}
	return rec.pack()
}

// refs returns the ids of items and calls that the store does not know yet.
func (m *maker) refs() (ids []string) {
	for i := m.found; i < len(m.object.Output); i++ {
		ids = appendRefs(ids, &m.object.Output[i])
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

// persist stores events of a background response, with the object where it has changed. A
// store that takes none for a while (DUR-3) gets them later.
func (m *maker) persist(events []byte) error {
	m.unsaved, m.unsavedSize = append(m.unsaved, split(bytes.Clone(events))...), m.unsavedSize+len(events)
	err := m.update()
	_, waits := errors.AsType[*store.ReadOnlyError](err)
	tooMuch := int64(m.unsavedSize) > m.h.front.Limits()[limits.PendingOutput] && !m.ended
	if !waits || tooMuch {
		return err
	}
	return nil
}

// update stores what has not been stored yet.
func (m *maker) update() error {
	update, found := store.Update{Events: m.unsaved, Note: m.note(), Done: m.ended}, m.found
	if m.changed {
		update.Object, update.Refs, found = m.packed(), m.refs(), len(m.object.Output)
	}
	err := m.h.archive.Update(context.Background(), m.req.owner, m.object.ID, update)
	if err == nil {
		m.unsaved, m.unsavedSize, m.changed, m.found = nil, 0, false, found
	}
	return err
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
func (m *maker) note() string {
	u := m.job.Usage()
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
