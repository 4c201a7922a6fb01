package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"
)

// The changes. Each looks first and writes afterwards, so that one that is refused
// leaves nothing behind in a transaction it shares with others.

// create stores a new record; see Store.Create.
func (t *txn) create(record *New, now time.Time) error {
	if t.bucket(ids).Get([]byte(record.ID)) != nil {
		return ErrExists
	}
	made := &head{ID: record.ID, Owner: record.Owner, Previous: record.Previous, Background: record.Background, State: Running,
		Created: now.UnixNano(), Items: len(record.Items)}
	update := &Update{Object: record.Object, Events: record.Events, Refs: record.Refs, Note: record.Note, Done: record.Done}
	if update.Object == nil {
		update.Object = []byte{}
	}
	if err := roomFor(made, update); err != nil {
		return err
	}
	// Checked: from here on everything is written.
	num := t.next
	t.next++
	t.added++
	t.put(ids, []byte(record.ID), idValue(num, record.Owner))
	t.put(active, numKey(num), nil)
	for i := range record.Items {
		t.putBlob(num, kindItem, uint32(i), 1, itemBytes(&record.Items[i]))
	}
	t.apply(num, made, update)
	return nil
}

// update adds to a running record; see Store.Update.
func (t *txn) update(owner, id string, update *Update) error {
	num, head, err := t.find(owner, id)
	if err != nil {
		return err
	}
	if head.State == Finished {
		return ErrFinished
	}
	if err := roomFor(head, update); err != nil {
		return err
	}
	t.apply(num, head, update)
	return nil
}

// takes says whether an object is within the bounds of records.
func (c *Config) takes(object []byte) error {
	if len(object) > c.RecordBytes {
		return fmt.Errorf("%w: object of %d bytes, limit %d", ErrTooLarge, len(object), c.RecordBytes)
	}
	return nil
}

// roomFor says whether update fits into a record.
func roomFor(to *head, update *Update) error {
	if size := to.EventBytes + total(update.Events) + 4*len(update.Events); size > maxEvents {
		return fmt.Errorf("%w: %d bytes of events, limit %d", ErrTooLarge, size, maxEvents)
	}
	if len(update.Note) > maxName {
		return fmt.Errorf("%w: note of %d bytes, limit %d", ErrTooLarge, len(update.Note), maxName)
	}
	for _, ref := range update.Refs {
		if ref == "" || len(ref) > maxName {
			return fmt.Errorf("%w: reference of %d bytes, want 1 to %d", ErrTooLarge, len(ref), maxName)
		}
	}
	return nil
}

// apply writes an update that has room, and the head.
func (t *txn) apply(num uint64, to *head, update *Update) {
	// A shorter object must not leave parts of the one before.
	if update.Object != nil {
		t.clear(dataKey(num, kindObject, 0, 0)[:9])
		t.putBlob(num, kindObject, 0, 1, update.Object)
	}
	if len(update.Events) > 0 {
		t.putBlob(num, kindEvents, uint32(to.Events), len(update.Events), eventBytes(update.Events))
		to.Events += len(update.Events)
		to.EventBytes += total(update.Events) + 4*len(update.Events)
	}
	for _, ref := range update.Refs {
		t.put(refs, []byte(ref), numKey(num))
	}
	to.Refs = append(to.Refs, update.Refs...)
	if update.Note != "" { // small, so it lies in the head
		to.Note = update.Note
	}
	if update.Done {
		to.State = Finished
		t.del(active, numKey(num))
	}
	t.putHead(num, to)
}

// cancel notes that somebody asked for the end; see Store.Cancel.
func (t *txn) cancel(owner, id string) error {
	num, head, err := t.find(owner, id)
	switch {
	case err != nil:
		return err
	case !head.Background:
		return ErrNotBackground
	case head.State != Running:
		return nil
	}
	head.State = Cancelling
	t.putHead(num, head)
	return nil
}

// delete removes a record; see Store.Delete. With a damaged head it has a number still.
func (t *txn) delete(owner, id string) error {
	num, head, err := t.find(owner, id)
	if head == nil && num == 0 {
		return err
	}
	t.remove(num, id, head)
	return nil
}

// remove deletes record num; known is nil when its head is damaged.
func (t *txn) remove(num uint64, id string, known *head) {
	t.added--
	t.clear(numKey(num))
	t.del(active, numKey(num))
	t.del(ids, []byte(id))
	if known == nil {
		return // its references lead nowhere, which Find sees
	}
	for _, ref := range known.Refs {
		if value, err := t.get(refs, []byte(ref)); err == nil && bytes.Equal(value, numKey(num)) {
			t.del(refs, []byte(ref))
		}
	}
}

// removeDamaged deletes a record whose head cannot say its id.
func (t *txn) removeDamaged(num uint64) {
	cursor := t.bucket(ids).Cursor()
	for key, value := cursor.First(); key != nil; key, value = cursor.Next() {
		if payload, ok := t.salt.open(ids, key, value); ok && len(payload) >= 8 && binary.BigEndian.Uint64(payload) == num {
			t.remove(num, string(key), nil)
			return
		}
	}
	t.clear(numKey(num))
	t.del(active, numKey(num))
}
