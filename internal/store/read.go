package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"runtime/debug"
	"slices"

	"go.etcd.io/bbolt"
)

// errUnsettled is a snapshot that will not be on the disk.
var errUnsettled = errors.New("store: the transaction failed")

// view calls f with the last snapshot that is on the disk. What f reads of it is valid
// until f returns, but for copies (txn.blob).
func (s *Store) view(f func(*txn) error) error {
	for {
		err := s.viewOnce(f)
		if !errors.Is(err, errUnsettled) {
			return err
		}
		if failure := s.refusal(); errors.Is(failure, errStuck) {
			return failure // nobody takes the transaction back
		}
	}
}

// viewOnce calls f with a snapshot. A page that cannot be read, or that the database
// cannot make sense of, is an error here: the file is mapped, so both arrive as
// panics.
func (s *Store) viewOnce(f func(*txn) error) (err error) {
	s.dbMu.RLock()
	defer s.dbMu.RUnlock()
	if s.db == nil {
		if s.failure != nil {
			return s.failure
		}
		return ErrClosed
	}
	if err := s.cut(2 * pageSize); err != nil {
		return err
	}
	// For this goroutine, until it returns.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = &DamageError{"", fmt.Sprint(r)}
		}
	}()
	return s.db.View(func(tx *bbolt.Tx) error {
		if err := s.await(uint64(tx.ID())); err != nil {
			return err
		}
		return f(&txn{tx: tx, salt: s.salt})
	})
}

// cut says that the file has become shorter than it may be. The database would fault, at the
// start of a transaction with locks taken that it never gives back. It is for the writer, and
// for those who hold dbMu.
func (s *Store) cut(least int64) error {
	info, err := s.file.Stat()
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if info.Size() < least {
		return &DamageError{"", fmt.Sprintf("%s has %d bytes, and had %d or more: something cut it; the next start repairs it and keeps what is left", s.path(), info.Size(), least)}
	}
	return nil
}

// await returns when transaction id is on the disk, or errUnsettled when it will
// not be: the database shows a transaction to readers while its last page is
// being synced.
func (s *Store) await(id uint64) error {
	for {
		s.stateMu.Lock()
		synced, lost, settled := s.synced, s.lost, s.settled
		s.stateMu.Unlock()
		switch {
		case id <= synced:
			return nil
		case lost:
			return errUnsettled
		}
		<-settled
	}
}

// damaged makes err, found while a record was read, the caller's error.
func damaged(id string, err error) error {
	if err == nil || errors.Is(err, ErrNotFound) {
		return err
	}
	return &DamageError{id, err.Error()}
}

// Get returns a record. Errors: ErrNotFound, *DamageError, ErrClosed.
func (s *Store) Get(owner, id string) (Record, error) {
	var record Record
	err := s.view(func(t *txn) error {
		num, head, err := t.find(owner, id)
		if err != nil {
			return err
		}
		record = head.record()
		record.Object, _, err = t.blob(num, kindObject, 0)
		return damaged(id, err)
	})
	if err != nil {
		return Record{}, s.suffered(id, err)
	}
	return record, nil
}

// A Page asks for part of a list.
type Page struct {
	After     string // id of the item before the first one wanted, "" = from the start
	Limit     int    // items at most, >= 1
	Ascending bool   // in the order in which they were given; otherwise the last first
}

// Items returns a page of a record's input items, and whether more follow. Errors:
// ErrNotFound for the record, and for After when no item has that id;
// *DamageError, ErrClosed.
func (s *Store) Items(owner, id string, page Page) (items []Item, more bool, err error) {
	err = s.view(func(t *txn) error {
		num, head, err := t.find(owner, id)
		if err != nil {
			return err
		}
		at := func(i int) (Item, error) { // in the wanted order
			if !page.Ascending {
				i = head.Items - 1 - i
			}
			return t.item(num, i)
		}
		// Items are looked for one by one: an id says nothing about its place.
		first := 0
		for found := page.After == ""; !found; first++ {
			if first == head.Items {
				return ErrNotFound
			}
			it, err := at(first)
			if err != nil {
				return damaged(id, err)
			}
			found = it.ID == page.After
		}
		end := min(head.Items, first+page.Limit)
		for i := first; i < end; i++ {
			it, err := at(i)
			if err != nil {
				return damaged(id, err)
			}
			items = append(items, it)
		}
		more = end < head.Items
		return nil
	})
	if err != nil {
		return nil, false, s.suffered(id, err)
	}
	return items, more, nil
}

// item returns input item i of a record.
func (t *txn) item(num uint64, i int) (Item, error) {
	payload, _, err := t.blob(num, kindItem, uint32(i))
	if err != nil {
		return Item{}, err
	}
	return parseItem(payload)
}

// A Link is one response of a chain with all its input items.
type Link struct {
	Record
	Inputs []Item
}

// chainBytes bounds what Chain reads into memory.
const chainBytes = 64 << 20

// Chain returns the response id and those before it, oldest first. It returns
// ErrTooLong when there are more than most or they are larger than 64 MiB,
// ErrNotFound when one of them is gone or another owner's, *MissingError where it is not
// id itself, *DamageError, ErrClosed.
func (s *Store) Chain(owner, id string, most int) ([]Link, error) {
	var links []Link
	size := 0
	err := s.view(func(t *txn) error {
		// From the last response back; sizes are looked at as they come, so that a long
		// chain is not read to its end.
		for {
			link, err := t.link(owner, id)
			if err != nil {
				return missing(err, links, id)
			}
			size += len(link.Object)
			for _, it := range link.Inputs {
				size += len(it.Data)
			}
			if links = append(links, link); len(links) > most || size > chainBytes {
				return fmt.Errorf("%w: %d responses or %d bytes expected at most", ErrTooLong, most, chainBytes)
			}
			if id = link.Previous; id == "" {
				return nil
			}
		}
	})
	if err != nil {
		return nil, s.suffered(id, err) // id is the one that was to be read
	}
	slices.Reverse(links)
	return links, nil
}

// link reads a response with its input items.
func (t *txn) link(owner, id string) (Link, error) {
	num, head, err := t.find(owner, id)
	if err != nil {
		return Link{}, err
	}
	link := Link{Record: head.record()}
	if link.Object, _, err = t.blob(num, kindObject, 0); err != nil {
		return Link{}, damaged(id, err)
	}
	for i := range head.Items {
		it, err := t.item(num, i)
		if err != nil {
			return Link{}, damaged(id, err)
		}
		link.Inputs = append(link.Inputs, it)
	}
	return link, nil
}

// Find returns the id of owner's response whose object holds the item: one of the
// Refs it was stored with. Errors: ErrNotFound, ErrClosed.
func (s *Store) Find(owner, item string) (string, error) {
	id := ""
	err := s.view(func(t *txn) error {
		if owner == "" || item == "" || len(item) > maxName {
			return ErrNotFound
		}
		value, err := t.get(refs, []byte(item))
		if err != nil || len(value) != 8 {
			return ErrNotFound
		}
		// References of damaged records are left when these are deleted (remove).
		head, err := t.head(binary.BigEndian.Uint64(value))
		if err != nil || head.Owner != owner {
			return ErrNotFound
		}
		id = head.ID
		return nil
	})
	return id, err
}

// eventsAtOnce bounds what one call of Events returns: it stops after the batch
// that reaches one of them.
const (
	eventsAtOnce     = 256
	eventBytesAtOnce = 1 << 20
)

// Events returns a record's events from sequence number after+1 on, as many as are
// there but no more than are handy at once, and whether they end there. It waits
// while a running record has none. Every event it returns is durable: a reader
// never sees what a crash takes back. Errors: ErrNotFound, also when the record is
// deleted meanwhile, *DamageError, ErrClosed, ctx's error.
func (s *Store) Events(ctx context.Context, owner, id string, after int) (events [][]byte, done bool, err error) {
	for {
		var changed <-chan struct{}
		events, done, changed, err = s.eventsNow(owner, id, after)
		if err != nil || done || len(events) > 0 {
			return events, done, s.suffered(id, err)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, false, ctx.Err()
		case <-s.quit:
			return nil, false, ErrClosed
		}
	}
}

// eventsNow returns what there is, and when there is nothing yet a channel that is
// closed at the record's next change.
func (s *Store) eventsNow(owner, id string, after int) (events [][]byte, done bool, changed <-chan struct{}, err error) {
	read := func(t *txn) error {
		num, head, err := t.find(owner, id)
		if err != nil {
			return err
		}
		first := max(min(after, head.Events), -1) + 1
		events, err = t.events(num, first, head.Events)
		done = head.State == Finished && first+len(events) >= head.Events
		return damaged(id, err)
	}
	if err = s.view(read); err != nil || done || len(events) > 0 {
		return events, done, nil, err
	}
	// The change may come between the look and the wait: wait first, look again.
	s.stateMu.Lock()
	ch := s.live[id]
	if ch == nil {
		ch = make(chan struct{})
		s.live[id] = ch
	}
	s.stateMu.Unlock()
	if err = s.view(read); err != nil || done {
		s.changed(id) // no change follows
	}
	return events, done, ch, err
}

// events returns events from number first on, of end, up to the bounds of one call.
func (t *txn) events(num uint64, first, end int) (out [][]byte, err error) {
	if first >= end {
		return nil, nil
	}
	// Events lie in batches, as they were written: the first one may begin before first.
	at, err := t.batchWith(num, first)
	if err != nil {
		return nil, err
	}
	for size := 0; at < end && len(out) < eventsAtOnce && size < eventBytesAtOnce; {
		payload, count, err := t.blob(num, kindEvents, uint32(at))
		if err != nil {
			return nil, err
		}
		batch, err := parseEvents(payload, count)
		if err != nil {
			return nil, err
		}
		if count == 0 || at+count > end {
			return nil, fmt.Errorf("%d events from %d on, %d expected in all", count, at, end)
		}
		out = append(out, batch[min(count, max(0, first-at)):]...)
		at += count
		size += len(payload)
	}
	return out, nil
}

// allEvents yields the first count events of a record, or those before one that is damaged.
func (t *txn) allEvents(num uint64, count int) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for at := 0; at < count; {
			some, err := t.events(num, at, count)
			if err != nil {
				return
			}
			for _, event := range some {
				if !yield(event) {
					return
				}
			}
			at += len(some)
		}
	}
}

// batchWith returns the first number of the batch that holds an event.
func (t *txn) batchWith(num uint64, event int) (int, error) {
	cursor := t.bucket(data).Cursor()
	want := dataKey(num, kindEvents, uint32(event), 0)
	key, _ := cursor.Seek(want)
	// Keys are ordered: the batch with event i begins at i, or is the last one before.
	switch {
	case key == nil:
		key, _ = cursor.Last()
	case !bytes.Equal(key, want):
		key, _ = cursor.Prev() // the last part of the batch before
	}
	if len(key) != keyLength || !bytes.HasPrefix(key, want[:9]) {
		return 0, errAbsent
	}
	return int(binary.BigEndian.Uint32(key[9:])), nil
}
