package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"
)

// The changes. Each looks first and writes afterwards, so that one that is refused
// leaves nothing behind in a transaction it shares with others.

func (t *txn) create(n *New, now time.Time) error {
	if t.bucket(ids).Get([]byte(n.ID)) != nil {
		return ErrExists
	}
	h := &head{ID: n.ID, Owner: n.Owner, Previous: n.Previous, Background: n.Background, State: Running,
		Created: now.UnixNano(), Items: len(n.Items)}
	u := &Update{Object: n.Object, Events: n.Events, Refs: n.Refs, Note: n.Note, Done: n.Done}
	if u.Object == nil {
		u.Object = []byte{}
	}
	if err := roomFor(h, u); err != nil {
		return err
	}
	num := t.next
	t.next++
	t.added++
	t.put(ids, []byte(n.ID), idValue(num, n.Owner))
	t.put(active, numKey(num), nil)
	for i := range n.Items {
		t.putBlob(num, kindItem, uint32(i), 1, itemBytes(&n.Items[i]))
	}
	t.apply(num, h, u)
	return nil
}

func (t *txn) update(owner, id string, u *Update) error {
	num, h, err := t.find(owner, id)
	if err != nil {
		return err
	}
	if h.State == Finished {
		return ErrFinished
	}
	if err := roomFor(h, u); err != nil {
		return err
	}
	t.apply(num, h, u)
	return nil
}

// takes says whether an object is within the bounds of records.
func (c *Config) takes(object []byte) error {
	if len(object) > c.RecordBytes {
		return fmt.Errorf("%w: object of %d bytes, limit %d", ErrTooLarge, len(object), c.RecordBytes)
	}
	return nil
}

// roomFor says whether u fits into h's record.
func roomFor(h *head, u *Update) error {
	if size := h.EventBytes + total(u.Events) + 4*len(u.Events); size > maxEvents {
		return fmt.Errorf("%w: %d bytes of events, limit %d", ErrTooLarge, size, maxEvents)
	}
	if len(u.Note) > maxName {
		return fmt.Errorf("%w: note of %d bytes, limit %d", ErrTooLarge, len(u.Note), maxName)
	}
	for _, r := range u.Refs {
		if r == "" || len(r) > maxName {
			return fmt.Errorf("%w: reference of %d bytes, want 1 to %d", ErrTooLarge, len(r), maxName)
		}
	}
	return nil
}

func (t *txn) apply(num uint64, h *head, u *Update) {
	if u.Object != nil {
		t.clear(dataKey(num, kindObject, 0, 0)[:9])
		t.putBlob(num, kindObject, 0, 1, u.Object)
	}
	if len(u.Events) > 0 {
		t.putBlob(num, kindEvents, uint32(h.Events), len(u.Events), eventBytes(u.Events))
		h.Events += len(u.Events)
		h.EventBytes += total(u.Events) + 4*len(u.Events)
	}
	for _, r := range u.Refs {
		t.put(refs, []byte(r), numKey(num))
	}
	h.Refs = append(h.Refs, u.Refs...)
	if u.Note != "" {
		h.Note = u.Note
	}
	if u.Done {
		h.State = Finished
		t.del(active, numKey(num))
	}
	t.putHead(num, h)
}

func (t *txn) cancel(owner, id string) error {
	num, h, err := t.find(owner, id)
	switch {
	case err != nil:
		return err
	case !h.Background:
		return ErrNotBackground
	case h.State != Running:
		return nil
	}
	h.State = Cancelling
	t.putHead(num, h)
	return nil
}

func (t *txn) delete(owner, id string) error {
	num, h, err := t.find(owner, id)
	if h == nil && num == 0 {
		return err
	}
	t.remove(num, id, h)
	return nil
}

// remove deletes record num; h is nil when its head is damaged.
func (t *txn) remove(num uint64, id string, h *head) {
	t.added--
	t.clear(numKey(num))
	t.del(active, numKey(num))
	t.del(ids, []byte(id))
	if h == nil {
		return // its references lead nowhere, which Find sees
	}
	for _, r := range h.Refs {
		if v, err := t.get(refs, []byte(r)); err == nil && bytes.Equal(v, numKey(num)) {
			t.del(refs, []byte(r))
		}
	}
}

// evict deletes the oldest finished records until the store is within its bounds:
// used is what it held before this transaction. It looks at no more than most
// records, so that a change of bounds does not hold up the writer.
func (t *txn) evict(c *Config, records int, used int64, most int) {
	now := c.Now()
	cur := t.bucket(data).Cursor()
	k, _ := cur.Seek(numKey(1))
	for range most {
		if len(k) != keyLength {
			return
		}
		num := binary.BigEndian.Uint64(k)
		h, err := t.head(num)
		old := err == nil && now.Sub(time.Unix(0, h.Created)) > c.Age
		if !old && records+t.added <= c.Records && used-t.freed <= c.Bytes {
			return
		}
		switch {
		case err != nil:
			t.removeDamaged(num)
		case h.State == Finished:
			t.remove(num, h.ID, h)
		}
		cur = t.bucket(data).Cursor() // the old one may stand on a deleted page
		k, _ = cur.Seek(numKey(num + 1))
	}
}

// removeDamaged deletes a record whose head cannot say its id.
func (t *txn) removeDamaged(num uint64) {
	c := t.bucket(ids).Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		if p, ok := t.salt.open(ids, k, v); ok && len(p) >= 8 && binary.BigEndian.Uint64(p) == num {
			t.remove(num, string(k), nil)
			return
		}
	}
	t.clear(numKey(num))
	t.del(active, numKey(num))
}
