package store

import (
	"bytes"
	"container/list"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// A Memory is a store that lasts as long as its process, for servers without a
// directory. It promises what Store promises, apart from what concerns disks: its bound
// in bytes is one of memory, and what does not fit under it is refused with
// ErrTooLarge. It is safe for concurrent use.
type Memory struct {
	cfg Config

	mu     sync.Mutex // guards what follows, and the memos
	byID   map[string]*memo
	oldest *list.List // of *memo, in the order of their creation
	refs   map[string]*memo
	used   int64 // bytes
	over   int64 // bytes of finished records, which can go
	closed bool
}

const (
	memoBytes = 1 << 10 // about what a record takes besides its bytes
	partBytes = 64      // and an item, an event or a reference
)

// A memo is a record in memory. What its slices hold does not change.
type memo struct {
	Record
	items   []Item
	events  [][]byte
	length  int // of events, as Store counts it
	refs    []string
	size    int64
	place   *list.Element
	changed chan struct{} // closed at the next change
}

// NewMemory returns an empty store. Of cfg, Age, Bytes, Records, RecordBytes and Now
// count; Bytes has to be given.
func NewMemory(cfg Config) (*Memory, error) {
	if cfg.Bytes < 1 {
		return nil, fmt.Errorf("store: %d bytes of memory: at least 1 expected", cfg.Bytes)
	}
	cfg.Dir = "none"
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Memory{cfg: cfg, byID: map[string]*memo{}, oldest: list.New(), refs: map[string]*memo{}}, nil
}

// Create is as for Store.
func (m *Memory) Create(ctx context.Context, n New) error {
	if err := n.check(&m.cfg); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return ErrClosed
	case ctx.Err() != nil:
		return ctx.Err()
	case m.byID[n.ID] != nil:
		return ErrExists
	}
	r := &memo{Record: Record{ID: n.ID, Owner: n.Owner, Previous: n.Previous, Background: n.Background, State: Running, Created: m.cfg.Now(), Items: len(n.Items)},
		changed: make(chan struct{})}
	u := Update{Object: n.Object, Events: n.Events, Refs: n.Refs, Note: n.Note, Done: n.Done}
	if u.Object == nil {
		u.Object = []byte{}
	}
	more := int64(memoBytes)
	for _, it := range n.Items {
		more += int64(len(it.ID) + len(it.Data) + partBytes)
	}
	if err := m.fit(r, &u, more); err != nil {
		return err
	}
	for _, it := range n.Items {
		r.items = append(r.items, Item{it.ID, bytes.Clone(it.Data)})
	}
	m.byID[n.ID] = r
	r.place = m.oldest.PushBack(r)
	m.apply(r, &u)
	return nil
}

// Update is as for Store.
func (m *Memory) Update(ctx context.Context, owner, id string, u Update) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := m.find(owner, id)
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	case r.State == Finished:
		return ErrFinished
	}
	if err := m.fit(r, &u, 0); err != nil {
		return err
	}
	m.apply(r, &u)
	return nil
}

// fit makes room for u, and more bytes, or says that there is none and changes nothing.
func (m *Memory) fit(r *memo, u *Update, more int64) error {
	if err := errors.Join(m.cfg.takes(u.Object), roomFor(&head{EventBytes: r.length}, u)); err != nil {
		return err
	}
	more += int64(total(u.Events) + partBytes*len(u.Events))
	for _, ref := range u.Refs {
		more += int64(len(ref) + partBytes)
	}
	if u.Object != nil {
		more += int64(len(u.Object) - len(r.Object))
	}
	if u.Note != "" {
		more += int64(len(u.Note) - len(r.Note))
	}
	if runs := m.used - m.over; runs+more > m.cfg.Bytes {
		err := ErrFull
		if r.size+more > m.cfg.Bytes {
			err = ErrTooLarge
		}
		return fmt.Errorf("%w: %d bytes more than the %d of what is being made, limit %d", err, more, runs, m.cfg.Bytes)
	}
	m.used += more
	r.size += more
	added := 0
	if r.place == nil {
		added = 1
	}
	m.evict(added)
	return nil
}

// evict deletes the oldest finished records until the rest, and those that are added,
// are within the bounds.
func (m *Memory) evict(added int) {
	now := m.cfg.Now()
	for e := m.oldest.Front(); e != nil; {
		r := e.Value.(*memo)
		e = e.Next()
		old := now.Sub(r.Created) > m.cfg.Age
		if !old && len(m.byID)+added <= m.cfg.Records && m.used <= m.cfg.Bytes {
			return
		}
		if r.State == Finished {
			m.remove(r)
		}
	}
}

func (m *Memory) apply(r *memo, u *Update) {
	if u.Object != nil {
		r.Object = append([]byte{}, u.Object...)
	}
	for _, e := range u.Events {
		r.events = append(r.events, bytes.Clone(e))
	}
	r.Events = len(r.events)
	r.length += total(u.Events) + 4*len(u.Events)
	for _, ref := range u.Refs {
		m.refs[ref] = r
	}
	r.refs = append(r.refs, u.Refs...)
	if u.Note != "" {
		r.Note = u.Note
	}
	if u.Done {
		r.State = Finished
		m.over += r.size
	}
	close(r.changed)
	r.changed = make(chan struct{})
}

func (m *Memory) find(owner, id string) (*memo, error) {
	r := m.byID[id]
	switch {
	case m.closed:
		return nil, ErrClosed
	case r == nil || owner == "" || r.Owner != owner:
		return nil, ErrNotFound
	case r.State == Finished && m.cfg.Now().Sub(r.Created) > m.cfg.Age:
		m.remove(r)
		return nil, ErrNotFound
	}
	return r, nil
}

func (m *Memory) remove(r *memo) {
	m.used -= r.size
	if r.State == Finished {
		m.over -= r.size
	}
	m.oldest.Remove(r.place)
	delete(m.byID, r.ID)
	for _, ref := range r.refs {
		if m.refs[ref] == r {
			delete(m.refs, ref)
		}
	}
	close(r.changed)
}

// Cancel is as for Store.
func (m *Memory) Cancel(_ context.Context, owner, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := m.find(owner, id)
	switch {
	case err != nil:
		return err
	case !r.Background:
		return ErrNotBackground
	case r.State == Running:
		r.State = Cancelling
	}
	return nil
}

// Delete is as for Store.
func (m *Memory) Delete(_ context.Context, owner, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := m.find(owner, id)
	if err == nil {
		m.remove(r)
	}
	return err
}

// Get is as for Store.
func (m *Memory) Get(owner, id string) (Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := m.find(owner, id)
	if err != nil {
		return Record{}, err
	}
	return r.Record, nil
}

// Items is as for Store.
func (m *Memory) Items(owner, id string, p Page) (items []Item, more bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, err := m.find(owner, id)
	if err != nil {
		return nil, false, err
	}
	all := r.items
	if !p.Ascending {
		all = slices.Clone(all)
		slices.Reverse(all)
	}
	if p.After != "" {
		at := slices.IndexFunc(all, func(it Item) bool { return it.ID == p.After })
		if at < 0 {
			return nil, false, ErrNotFound
		}
		all = all[at+1:]
	}
	n := min(len(all), p.Limit)
	return slices.Clone(all[:n]), n < len(all), nil
}

// Events is as for Store.
func (m *Memory) Events(ctx context.Context, owner, id string, after int) (events [][]byte, done bool, err error) {
	for {
		m.mu.Lock()
		r, err := m.find(owner, id)
		if err != nil {
			m.mu.Unlock()
			return nil, false, err
		}
		first := max(min(after, len(r.events)), -1) + 1
		events = slices.Clone(r.events[min(first, len(r.events)):])
		done, changed := r.State == Finished, r.changed
		m.mu.Unlock()
		if n := len(events); n > eventsAtOnce {
			events, done = events[:eventsAtOnce], false
		}
		if done || len(events) > 0 {
			return events, done, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
	}
}

// Chain is as for Store.
func (m *Memory) Chain(owner, id string, most int) ([]Link, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var links []Link
	for size := 0; id != ""; {
		r, err := m.find(owner, id)
		if err != nil {
			return nil, missing(err, links, id)
		}
		links = append(links, Link{r.Record, slices.Clone(r.items)})
		size += len(r.Object)
		for _, it := range r.items {
			size += len(it.Data)
		}
		if len(links) > most || size > chainBytes {
			return nil, fmt.Errorf("%w: %d responses or %d bytes expected at most", ErrTooLong, most, chainBytes)
		}
		id = r.Previous
	}
	slices.Reverse(links)
	return links, nil
}

// Find is as for Store.
func (m *Memory) Find(owner, item string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.refs[item]
	if r == nil || owner == "" || r.Owner != owner {
		return "", ErrNotFound
	}
	return r.ID, nil
}

// Stats is as for Store.
func (m *Memory) Stats() Stats {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Stats{Records: len(m.byID), Bytes: m.used}
}

// Close forgets everything.
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.byID {
		close(r.changed)
	}
	m.closed, m.byID, m.refs, m.used, m.over = true, nil, nil, 0, 0
	m.oldest.Init()
	return nil
}
