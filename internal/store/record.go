package store

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

func dataKey(num uint64, k kind, index uint32, part uint16) []byte {
	key := binary.BigEndian.AppendUint64(make([]byte, 0, keyLength), num)
	key = binary.BigEndian.AppendUint32(append(key, byte(k)), index)
	return binary.BigEndian.AppendUint16(key, part)
}

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

func (t *txn) bucket(b bucket) *bbolt.Bucket {
	bb := t.tx.Bucket([]byte{byte(b)})
	if b == data {
		bb.FillPercent = 0.9 // keys mostly come in order, and pages stay as full as they were left
	}
	return bb
}

func (t *txn) put(b bucket, key, payload []byte) {
	t.wrote++
	if err := t.bucket(b).Put(key, t.salt.seal(b, key, payload)); err != nil && t.err == nil {
		t.err = fmt.Errorf("store: put %q: %w", key, err)
	}
}

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
	v := t.bucket(b).Get(key)
	if v == nil {
		return nil, errAbsent
	}
	p, ok := t.salt.open(b, key, v)
	if !ok {
		return nil, errSum
	}
	return p, nil
}

// putBlob stores p, which holds n things, in parts.
func (t *txn) putBlob(num uint64, k kind, index uint32, n int, p []byte) {
	first := binary.LittleEndian.AppendUint32(make([]byte, 0, blobHeader+min(len(p), chunk)), uint32(len(p)))
	first = binary.LittleEndian.AppendUint32(first, uint32(n))
	cut := min(len(p), chunk-blobHeader)
	t.put(data, dataKey(num, k, index, 0), append(first, p[:cut]...))
	for part := 1; cut < len(p); part++ {
		end := min(len(p), cut+chunk)
		t.put(data, dataKey(num, k, index, uint16(part)), p[cut:end])
		cut = end
	}
}

// blob returns a copy of what putBlob stored, and n.
func (t *txn) blob(num uint64, k kind, index uint32) ([]byte, int, error) {
	p, err := t.get(data, dataKey(num, k, index, 0))
	if err != nil {
		return nil, 0, err
	}
	size, n, p, err := blobStart(p)
	if err != nil {
		return nil, 0, err
	}
	out := append(make([]byte, 0, size), p...)
	for part := 1; len(out) < size; part++ {
		if p, err = t.get(data, dataKey(num, k, index, uint16(part))); err != nil {
			return nil, 0, err
		}
		out = append(out, p...)
	}
	if len(out) != size {
		return nil, 0, fmt.Errorf("%d bytes, %d expected", len(out), size)
	}
	return out, n, nil
}

// blobStart takes part 0 of a blob apart.
func blobStart(p []byte) (size, n int, rest []byte, err error) {
	if len(p) < blobHeader {
		return 0, 0, nil, fmt.Errorf("%d bytes where %d begin a part", len(p), blobHeader)
	}
	size, n = int(binary.LittleEndian.Uint32(p)), int(binary.LittleEndian.Uint32(p[4:]))
	if rest = p[blobHeader:]; size < len(rest) || size > maxEvents+4*chunk {
		return 0, 0, nil, fmt.Errorf("a part claims %d bytes", size)
	}
	return size, n, rest, nil
}

func (t *txn) putHead(num uint64, h *head) {
	p, err := json.Marshal(h)
	if err != nil && t.err == nil {
		t.err = fmt.Errorf("store: record %q: %w", h.ID, err)
	}
	t.putBlob(num, kindHead, 0, 1, p)
	beyond := dataKey(num, kindHead, 0, uint16((len(p)+blobHeader+chunk-1)/chunk))
	if t.bucket(data).Get(beyond) != nil { // it was longer by some letters of its state
		t.del(data, beyond)
	}
}

func (t *txn) head(num uint64) (*head, error) {
	p, _, err := t.blob(num, kindHead, 0)
	if err != nil {
		return nil, err
	}
	h := new(head)
	if err := json.Unmarshal(p, h); err != nil {
		return nil, err
	}
	return h, nil
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
	v, err := t.get(ids, []byte(id))
	if err != nil || len(v) < 8 || string(v[8:]) != owner {
		return 0, nil, ErrNotFound
	}
	num := binary.BigEndian.Uint64(v)
	h, err := t.head(num)
	if err == nil && (h.ID != id || h.Owner != owner) {
		err = errSum
	}
	if err != nil {
		return num, nil, &DamageError{id, err.Error()}
	}
	return num, h, nil
}

// clear deletes the data of a record, or of one kind of it.
func (t *txn) clear(prefix []byte) {
	var keys [][]byte // the cursor must not see deletions
	c := t.bucket(data).Cursor()
	for k, v := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, v = c.Next() {
		keys = append(keys, bytes.Clone(k))
		t.freed += int64(len(k) + len(v))
	}
	for _, k := range keys {
		t.del(data, k)
	}
}

func itemBytes(it *Item) []byte {
	p := binary.LittleEndian.AppendUint16(make([]byte, 0, 2+len(it.ID)+len(it.Data)), uint16(len(it.ID)))
	return append(append(p, it.ID...), it.Data...)
}

func parseItem(p []byte) (Item, error) {
	if len(p) < 2 || len(p)-2 < int(binary.LittleEndian.Uint16(p)) {
		return Item{}, errors.New("an item is shorter than its id")
	}
	n := 2 + int(binary.LittleEndian.Uint16(p))
	return Item{ID: string(p[2:n]), Data: p[n:]}, nil
}

func eventBytes(events [][]byte) []byte {
	p := make([]byte, 0, total(events)+4*len(events))
	for _, e := range events {
		p = append(binary.LittleEndian.AppendUint32(p, uint32(len(e))), e...)
	}
	return p
}

// parseEvents takes a batch of n events apart.
func parseEvents(p []byte, n int) ([][]byte, error) {
	var out [][]byte
	for len(p) >= 4 {
		size := binary.LittleEndian.Uint32(p)
		if p = p[4:]; uint64(size) > uint64(len(p)) {
			return nil, errors.New("an event is longer than its batch")
		}
		out = append(out, p[:size:size])
		p = p[size:]
	}
	if len(p) != 0 || len(out) != n {
		return nil, fmt.Errorf("%d events and %d bytes, %d events expected", len(out), len(p), n)
	}
	return out, nil
}
