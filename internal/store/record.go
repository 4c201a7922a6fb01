package store

// How a record lies in the database. Its number is given once and grows with time. Under it
// are its head, its object, its input items and its events, each a blob in parts of at
// most 16 KiB, so that a change writes little anew; other buckets lead to the number. Every
// value begins with a checksum that covers its place, too.

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"go.etcd.io/bbolt"
)

// A bucket is one of the database's trees; its letter is its name. Only data
// cannot be made again from the others.
type bucket byte

const (
	data   bucket = 'd' // record number, kind, index, part → bytes
	ids    bucket = 'i' // record id → number and owner
	refs   bucket = 'r' // id of an item in an object → number
	active bucket = 'a' // number of a running record → nothing
	about  bucket = 'm' // "format" → the format line
)

// buckets are all there are.
var buckets = []bucket{data, ids, refs, active, about}

// A kind is what a data value holds of its record. Numbers grow with time, so the
// first record of the bucket is the oldest.
type kind byte

const (
	kindHead   kind = iota // head, as JSON
	kindObject             // the object
	kindItem               // input item number index: length of its id (2 bytes), id, bytes
	kindEvents             // events from number index on, each behind its length (4 bytes)
)

const (
	chunk       = 16 << 10 // bytes of one value: what a neighbour's change may have to write again
	maxName     = 256      // bytes of an id or owner
	maxEvents   = 64 << 20 // bytes of a record's events
	keyLength   = 15       // number 8, kind 1, index 4, part 2
	blobHeader  = 8        // in part 0: bytes in all, things in the blob
	castagnoliN = 4        // bytes of a checksum
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A salt starts every checksum of a store. Whoever can have bytes stored does not
// know it, so no stored text can look like a record to a repair.
type salt uint32

// sum is the checksum of a value in its place: CRC-32C finds every change of up to
// three bits, and with the bucket and key in it every value in a wrong place.
func (s salt) sum(b bucket, key, payload []byte) uint32 {
	if b == about {
		s = 0 // holds the salt
	}
	start := uint32(s) ^ uint32(b)<<16 ^ uint32(len(key))
	return crc32.Update(crc32.Update(start, castagnoli, key), castagnoli, payload)
}

// seal returns the value that holds payload: checksum, payload.
func (s salt) seal(b bucket, key, payload []byte) []byte {
	v := binary.LittleEndian.AppendUint32(make([]byte, 0, castagnoliN+len(payload)), s.sum(b, key, payload))
	return append(v, payload...)
}

// open returns the payload of a value, false when it is not what seal made.
func (s salt) open(b bucket, key, value []byte) ([]byte, bool) {
	if len(value) < castagnoliN || binary.LittleEndian.Uint32(value) != s.sum(b, key, value[castagnoliN:]) {
		return nil, false
	}
	return value[castagnoliN:], true
}

// dataKey is the key of a part in data. Keys of a record are neighbours, in the order of
// kinds, indices and parts.
func dataKey(num uint64, k kind, index uint32, part uint16) []byte {
	key := binary.BigEndian.AppendUint64(make([]byte, 0, keyLength), num)
	key = binary.BigEndian.AppendUint32(append(key, byte(k)), index)
	return binary.BigEndian.AppendUint16(key, part)
}

// numKey is what keys of data begin with, and the key of active.
func numKey(num uint64) []byte { return binary.BigEndian.AppendUint64(nil, num) }

// head is what the store itself knows of a record.
type head struct {
	ID         string   `json:"id"`
	Owner      string   `json:"owner"`
	Previous   string   `json:"previous,omitempty"`
	Background bool     `json:"background,omitempty"`
	State      State    `json:"state"`
	Created    int64    `json:"created"` // ns since 1970
	Items      int      `json:"items"`
	Events     int      `json:"events"`
	EventBytes int      `json:"event_bytes"`
	Refs       []string `json:"refs,omitempty"`
	Note       string   `json:"note,omitempty"`
}

// record is the part of a Record that the head knows.
func (h *head) record() Record {
	return Record{ID: h.ID, Owner: h.Owner, Previous: h.Previous, Background: h.Background, State: h.State,
		Created: time.Unix(0, h.Created), Items: h.Items, Events: h.Events, Note: h.Note}
}

// txn is one transaction and the store's way of writing values. Its error is that
// of the first write the database refused: nothing of the transaction may stay.
type txn struct {
	tx    *bbolt.Tx
	salt  salt
	next  uint64 // number of the next record
	added int    // records created less those deleted
	freed int64  // bytes of deleted values
	wrote int    // values written or deleted
	err   error
}

// bucket returns one of the trees.
func (t *txn) bucket(b bucket) *bbolt.Bucket {
	bb := t.tx.Bucket([]byte{byte(b)})
	if b == data {
		bb.FillPercent = 0.9 // keys mostly come in order, and pages stay as full as they were left
	}
	return bb
}

// put writes a value.
func (t *txn) put(b bucket, key, payload []byte) {
	t.wrote++
	if err := t.bucket(b).Put(key, t.salt.seal(b, key, payload)); err != nil && t.err == nil {
		t.err = fmt.Errorf("store: put %q: %w", key, err)
	}
}

// del deletes a value.
func (t *txn) del(b bucket, key []byte) {
	t.wrote++
	if err := t.bucket(b).Delete(key); err != nil && t.err == nil {
		t.err = fmt.Errorf("store: delete %q: %w", key, err)
	}
}

var errAbsent = errors.New("a part is missing")
var errSum = errors.New("a checksum does not fit")

// get returns a value's payload, which is valid during the transaction.
func (t *txn) get(b bucket, key []byte) ([]byte, error) {
	value := t.bucket(b).Get(key)
	if value == nil {
		return nil, errAbsent
	}
	payload, ok := t.salt.open(b, key, value)
	if !ok {
		return nil, errSum
	}
	return payload, nil
}

// putBlob stores payload, which holds so many things, in parts.
func (t *txn) putBlob(num uint64, of kind, index uint32, things int, payload []byte) {
	// Part 0 begins with the length of all parts and the number of things.
	first := binary.LittleEndian.AppendUint32(make([]byte, 0, blobHeader+min(len(payload), chunk)), uint32(len(payload)))
	first = binary.LittleEndian.AppendUint32(first, uint32(things))
	cut := min(len(payload), chunk-blobHeader)
	t.put(data, dataKey(num, of, index, 0), append(first, payload[:cut]...))
	for part := 1; cut < len(payload); part++ {
		end := min(len(payload), cut+chunk)
		t.put(data, dataKey(num, of, index, uint16(part)), payload[cut:end])
		cut = end
	}
}

// blob returns a copy of what putBlob stored, and n.
func (t *txn) blob(num uint64, of kind, index uint32) ([]byte, int, error) {
	payload, err := t.get(data, dataKey(num, of, index, 0))
	if err != nil {
		return nil, 0, err
	}
	size, things, payload, err := blobStart(payload)
	if err != nil {
		return nil, 0, err
	}
	// The length decides how many parts there are: a part too few or too long is damage.
	out := append(make([]byte, 0, size), payload...)
	for part := 1; len(out) < size; part++ {
		if payload, err = t.get(data, dataKey(num, of, index, uint16(part))); err != nil {
			return nil, 0, err
		}
		out = append(out, payload...)
	}
	if len(out) != size {
		return nil, 0, fmt.Errorf("%d bytes, %d expected", len(out), size)
	}
	return out, things, nil
}

// blobStart takes part 0 of a blob apart.
func blobStart(payload []byte) (size, things int, rest []byte, err error) {
	if len(payload) < blobHeader {
		return 0, 0, nil, fmt.Errorf("%d bytes where %d begin a part", len(payload), blobHeader)
	}
	size, things = int(binary.LittleEndian.Uint32(payload)), int(binary.LittleEndian.Uint32(payload[4:]))
	if rest = payload[blobHeader:]; size < len(rest) || size > maxEvents+4*chunk {
		return 0, 0, nil, fmt.Errorf("a part claims %d bytes", size)
	}
	return size, things, rest, nil
}

// putHead writes the head of record num.
func (t *txn) putHead(num uint64, of *head) {
	payload, err := json.Marshal(of)
	if err != nil && t.err == nil {
		t.err = fmt.Errorf("store: record %q: %w", of.ID, err)
	}
	t.putBlob(num, kindHead, 0, 1, payload)
	beyond := dataKey(num, kindHead, 0, uint16((len(payload)+blobHeader+chunk-1)/chunk))
	if t.bucket(data).Get(beyond) != nil { // it was longer by some letters of its state
		t.del(data, beyond)
	}
}

// head reads the head of record num.
func (t *txn) head(num uint64) (*head, error) {
	payload, _, err := t.blob(num, kindHead, 0)
	if err != nil {
		return nil, err
	}
	out := new(head)
	if err := json.Unmarshal(payload, out); err != nil {
		return nil, err
	}
	return out, nil
}

// idValue is what ids holds: the owner is there, too, so that a record whose head
// is damaged still has one.
func idValue(num uint64, owner string) []byte { return append(numKey(num), owner...) }

// find returns the record of owner called id: ErrNotFound for whatever is not
// certain to be theirs, *DamageError with its number for a head that is damaged.
func (t *txn) find(owner, id string) (uint64, *head, error) {
	if owner == "" || id == "" || len(id) > maxName {
		return 0, nil, ErrNotFound
	}
	value, err := t.get(ids, []byte(id))
	if raw := t.bucket(ids).Get([]byte(id)); errors.Is(err, errSum) && len(raw) > castagnoliN+8 && string(raw[castagnoliN+8:]) == owner {
		return 0, nil, &DamageError{id, "its entry among the ids"} // what is left says that it is theirs
	}
	if err != nil || len(value) < 8 || string(value[8:]) != owner {
		return 0, nil, ErrNotFound
	}
	// The index says who owns the record even where its head is damaged.
	num := binary.BigEndian.Uint64(value)
	head, err := t.head(num)
	if err == nil && (head.ID != id || head.Owner != owner) {
		err = errSum
	}
	if err != nil {
		return num, nil, &DamageError{id, err.Error()}
	}
	return num, head, nil
}

// clear deletes the data of a record, or of one kind of it.
func (t *txn) clear(prefix []byte) {
	var keys [][]byte // the cursor must not see deletions
	cursor := t.bucket(data).Cursor()
	for key, value := cursor.Seek(prefix); bytes.HasPrefix(key, prefix); key, value = cursor.Next() {
		keys = append(keys, bytes.Clone(key))
		t.freed += int64(len(key) + len(value))
	}
	for _, key := range keys {
		t.del(data, key)
	}
}

// itemBytes is an item as its blob holds it, see kindItem.
func itemBytes(it *Item) []byte {
	p := binary.LittleEndian.AppendUint16(make([]byte, 0, 2+len(it.ID)+len(it.Data)), uint16(len(it.ID)))
	return append(append(p, it.ID...), it.Data...)
}

// parseItem is the inverse of itemBytes.
func parseItem(payload []byte) (Item, error) {
	if len(payload) < 2 || len(payload)-2 < int(binary.LittleEndian.Uint16(payload)) {
		return Item{}, errors.New("an item is shorter than its id")
	}
	end := 2 + int(binary.LittleEndian.Uint16(payload))
	return Item{ID: string(payload[2:end]), Data: payload[end:]}, nil
}

// eventBytes is a batch of events as its blob holds it, see kindEvents.
func eventBytes(events [][]byte) []byte {
	out := make([]byte, 0, total(events)+4*len(events))
	for _, event := range events {
		out = append(binary.LittleEndian.AppendUint32(out, uint32(len(event))), event...)
	}
	return out
}

// parseEvents takes a batch of count events apart.
func parseEvents(payload []byte, count int) ([][]byte, error) {
	var out [][]byte
	for len(payload) >= 4 {
		size := binary.LittleEndian.Uint32(payload)
		if payload = payload[4:]; uint64(size) > uint64(len(payload)) {
			return nil, errors.New("an event is longer than its batch")
		}
		out = append(out, payload[:size:size])
		payload = payload[size:]
	}
	if len(payload) != 0 || len(out) != count {
		return nil, fmt.Errorf("%d events and %d bytes, %d events expected", len(out), len(payload), count)
	}
	return out, nil
}
