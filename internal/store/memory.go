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

	mu     sync.Mutex       // guards what follows, and the memos
	byID   map[string]*memo // records by id
	oldest *list.List       // of *memo, in the order of their creation
	refs   map[string]*memo // records by id of an item in their objects
	used   int64            // bytes of all records
	over   int64            // bytes of finished records, which can go
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
	size    int64 // what it counts for in used
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
func (m *Memory) Create(ctx context.Context, record New) error {
	if err := record.check(&m.cfg); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.closed:
		return ErrClosed
	case ctx.Err() != nil:
		return ctx.Err()
	case m.byID[record.ID] != nil:
		return ErrExists
	}
	created := &memo{Record: Record{ID: record.ID, Owner: record.Owner, Previous: record.Previous, Background: record.Background, State: Running, Created: m.cfg.Now(), Items: len(record.Items)},
		changed: make(chan struct{})}
	update := Update{Object: record.Object, Events: record.Events, Refs: record.Refs, Note: record.Note, Done: record.Done}
	if update.Object == nil {
		update.Object = []byte{}
	}
	// What does not fit is refused before anything changes.
	more := int64(memoBytes)
	for _, it := range record.Items {
		more += int64(len(it.ID) + len(it.Data) + partBytes)
	}
	if err := m.fit(created, &update, more); err != nil {
		return err
	}
	for _, it := range record.Items {
		created.items = append(created.items, Item{it.ID, bytes.Clone(it.Data)})
	}
	m.byID[record.ID] = created
	created.place = m.oldest.PushBack(created)
	m.apply(created, &update)
	return nil
}

// Update is as for Store.
func (m *Memory) Update(ctx context.Context, owner, id string, update Update) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	memo, err := m.find(owner, id)
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	case memo.State == Finished:
		return ErrFinished
	}
	if err := m.fit(memo, &update, 0); err != nil {
		return err
	}
	m.apply(memo, &update)
	return nil
}

// fit makes room for update, and more bytes, or says that there is none and changes nothing.
func (m *Memory) fit(to *memo, update *Update, more int64) error {
	if err := errors.Join(m.cfg.takes(update.Object), roomFor(&head{EventBytes: to.length}, update)); err != nil {
		return err
	}
	// What the update adds: a new object and note take the place of the old ones.
	more += int64(total(update.Events) + partBytes*len(update.Events))
	for _, ref := range update.Refs {
		more += int64(len(ref) + partBytes)
	}
	if update.Object != nil {
		more += int64(len(update.Object) - len(to.Object))
	}
	if update.Note != "" {
		more += int64(len(update.Note) - len(to.Note))
	}
	// Records that are finished can go; the others must fit.
	if runs := m.used - m.over; runs+more > m.cfg.Bytes {
		err := ErrFull
		if to.size+more > m.cfg.Bytes {
			err = ErrTooLarge
		}
		return fmt.Errorf("%w: %d bytes more than the %d of what is being made, limit %d", err, more, runs, m.cfg.Bytes)
	}
	m.used += more
	to.size += more
	added := 0
	if to.place == nil {
		added = 1
	}
	m.evict(added)
	return nil
}

// evict deletes the oldest finished records until the rest, and those that are added,
// are within the bounds.
func (m *Memory) evict(added int) {
	now := m.cfg.Now()
	for next := m.oldest.Front(); next != nil; {
		oldest := next.Value.(*memo)
		next = next.Next()
		old := now.Sub(oldest.Created) > m.cfg.Age
		if !old && len(m.byID)+added <= m.cfg.Records && m.used <= m.cfg.Bytes {
			return
		}
		if oldest.State == Finished {
			m.remove(oldest)
		}
	}
}

// apply adds an update that fits, and wakes those who wait for it.
func (m *Memory) apply(to *memo, update *Update) {
	if update.Object != nil {
		to.Object = append([]byte{}, update.Object...)
	}
	for _, event := range update.Events {
		to.events = append(to.events, bytes.Clone(event))
	}
	to.Events = len(to.events)
	to.length += total(update.Events) + 4*len(update.Events)
	for _, ref := range update.Refs {
		m.refs[ref] = to
	}
	to.refs = append(to.refs, update.Refs...)
	if update.Note != "" {
		to.Note = update.Note
	}
	if update.Done {
		to.State = Finished
		m.over += to.size
	}
	close(to.changed)
	to.changed = make(chan struct{})
}

// find returns the record of owner called id. One that is too old goes here at the latest.
func (m *Memory) find(owner, id string) (*memo, error) {
	memo := m.byID[id]
	switch {
	case m.closed:
		return nil, ErrClosed
	case memo == nil || owner == "" || memo.Owner != owner:
		return nil, ErrNotFound
	case memo.State == Finished && m.cfg.Now().Sub(memo.Created) > m.cfg.Age:
		m.remove(memo)
		return nil, ErrNotFound
	}
	return memo, nil
}

// remove deletes a record, and wakes those who wait for it: they find nothing.
func (m *Memory) remove(gone *memo) {
	m.used -= gone.size
	if gone.State == Finished {
		m.over -= gone.size
	}
	m.oldest.Remove(gone.place)
	delete(m.byID, gone.ID)
	for _, ref := range gone.refs {
		if m.refs[ref] == gone {
			delete(m.refs, ref)
		}
	}
	close(gone.changed)
}

// Cancel is as for Store.
func (m *Memory) Cancel(_ context.Context, owner, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	memo, err := m.find(owner, id)
	switch {
	case err != nil:
		return err
	case !memo.Background:
		return ErrNotBackground
	case memo.State == Running:
		memo.State = Cancelling
	}
	return nil
}

// Delete is as for Store.
func (m *Memory) Delete(_ context.Context, owner, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	memo, err := m.find(owner, id)
	if err == nil {
		m.remove(memo)
	}
	return err
}

// Get is as for Store.
func (m *Memory) Get(owner, id string) (Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	memo, err := m.find(owner, id)
	if err != nil {
		return Record{}, err
	}
	return memo.Record, nil
}

// Items is as for Store.
func (m *Memory) Items(owner, id string, page Page) (items []Item, more bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	memo, err := m.find(owner, id)
	if err != nil {
		return nil, false, err
	}
	all := memo.items
	if !page.Ascending {
		all = slices.Clone(all)
		slices.Reverse(all)
	}
	if page.After != "" {
		at := slices.IndexFunc(all, func(it Item) bool { return it.ID == page.After })
		if at < 0 {
			return nil, false, ErrNotFound
		}
		all = all[at+1:]
	}
	count := min(len(all), page.Limit)
	return slices.Clone(all[:count]), count < len(all), nil
}

// Events is as for Store.
func (m *Memory) Events(ctx context.Context, owner, id string, after int) (events [][]byte, done bool, err error) {
	for {
		// Whoever waits has the old channel, and looks again.
		m.mu.Lock()
		memo, err := m.find(owner, id)
		if err != nil {
			m.mu.Unlock()
			return nil, false, err
		}
		first := max(min(after, len(memo.events)), -1) + 1
		events = slices.Clone(memo.events[min(first, len(memo.events)):])
		done, changed := memo.State == Finished, memo.changed
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
		memo, err := m.find(owner, id)
		if err != nil {
			return nil, missing(err, links, id)
		}
		links = append(links, Link{memo.Record, slices.Clone(memo.items)})
		size += len(memo.Object)
		for _, it := range memo.items {
			size += len(it.Data)
		}
		// A chain is returned as a whole, so it has a bound.
		if len(links) > most || size > chainBytes {
			return nil, fmt.Errorf("%w: %d responses or %d bytes expected at most", ErrTooLong, most, chainBytes)
		}
		id = memo.Previous
	}
	slices.Reverse(links)
	return links, nil
}

// Find is as for Store.
func (m *Memory) Find(owner, item string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	memo := m.refs[item]
	if memo == nil || owner == "" || memo.Owner != owner {
		return "", ErrNotFound
	}
	return memo.ID, nil
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
	for _, memo := range m.byID {
		close(memo.changed)
	}
	m.closed, m.byID, m.refs, m.used, m.over = true, nil, nil, 0, 0
	m.oldest.Init()
	return nil
}
