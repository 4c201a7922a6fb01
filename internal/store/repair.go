package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"go.etcd.io/bbolt"
)

const (
	padBytes     = 1100      // keeps the data bucket on pages of its own, where scan looks
	rebuildBytes = 8 << 20   // of one transaction of a rebuild
	sparseFile   = 256 << 20 // a file this large is made smaller when three quarters of it are free
)

// prepare makes sure that the database at path is sound, and returns how many
// records it has. It creates a missing one and replaces a damaged one by what is
// left of it; elements that are damaged themselves stay as they are.
func prepare(path string, want format) (int, error) {
	if err := os.Remove(path + ".new"); err != nil && !errors.Is(err, os.ErrNotExist) { // of a crash
		return 0, fmt.Errorf("store: %w", err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		if err := rebuild(path, want, nil); err != nil {
			return 0, err
		}
		return 0, install(path)
	}
	if err != nil {
		return 0, fmt.Errorf("store: %w", err)
	}
	// A bit that was mended is written back, so that the database sees it.
	im, records, sound, err := survey(file, want.salt)
	if err == nil && im.mended != nil {
		_, err = file.WriteAt(im.mended, 0)
		err = errors.Join(err, file.Sync())
	}
	// Damage needs a new file, and one that is mostly free is worth one.
	replace := err == nil && (!sound || im.sparse)
	if replace {
		if err = rebuild(path, want, im); err != nil && sound {
			replace, err = false, nil // a large file is no reason not to start
		}
	}
	if err = errors.Join(err, file.Close()); err != nil || !replace {
		return records, err
	}
	if err := install(path); err != nil {
		return 0, err
	}
	return countRecords(path, want.salt)
}

// install puts what rebuild made in the place of the file at path.
func install(path string) error {
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return syncDir(filepath.Dir(path))
}

// countRecords counts the records of a sound database.
func countRecords(path string, s salt) (int, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, fmt.Errorf("store: %w", err)
	}
	_, records, sound, err := survey(file, s)
	if err == nil && !sound {
		err = &DamageError{"", "it was repaired and is damaged again"}
	}
	return records, errors.Join(err, file.Close())
}

// survey reads a whole file but for the values of data, and says whether it can be
// used as it is.
func survey(file *os.File, s salt) (im *image, records int, sound bool, err error) {
	info, err := file.Stat()
	if err != nil {
		return nil, 0, false, fmt.Errorf("store: %w", err)
	}
	if im, err = openImage(file, info.Size(), s); err != nil {
		return nil, 0, false, err
	}
	sound = true
	hasFormat := false
	err = im.inspect(func(found *element) error {
		if found.bucket == data {
			return nil
		}
		value, err := found.value()
		if _, ok := s.open(found.bucket, found.key, value); !ok || err != nil {
			sound = false
		}
		switch {
		case found.bucket == ids:
			records++
		case found.bucket == about && string(found.key) == "format":
			hasFormat = true
		}
		return nil
	})
	free := int64(0)
	for page := pgid(2); page < im.high; page++ {
		if im.free.has(page) {
			free += pageSize
		}
	}
	im.sparse = info.Size() > sparseFile && free > info.Size()/4*3
	return im, records, sound && hasFormat && im.treeErr == nil && im.freeErr == nil, err
}

// rebuild makes a database beside the file at path that holds the elements of im,
// nil for none. What can be made from data is made anew.
func rebuild(path string, want format, im *image) error {
	db, err := bbolt.Open(path+".new", 0o600, &bbolt.Options{Timeout: lockWait, PageSize: pageSize, NoSync: true, NoGrowSync: true, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	err = fill(db, want, im)
	if err == nil {
		err = db.Sync()
	}
	if err = errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("store: repair of %s: %w", path, err)
	}
	return nil
}

// batch writes in transactions of a bounded size.
type batch struct {
	db   *bbolt.DB
	t    *txn
	salt salt
	size int
}

// txn returns the transaction for the next n bytes.
func (b *batch) txn(size int) (*txn, error) {
	if b.size += size; b.t != nil && b.size > rebuildBytes {
		if err := b.end(); err != nil {
			return nil, err
		}
	}
	if b.t == nil {
		tx, err := b.db.Begin(true)
		if err != nil {
			return nil, err
		}
		b.t, b.size = &txn{tx: tx, salt: b.salt}, size
	}
	return b.t, nil
}

// end commits the transaction under way, if there is one.
func (b *batch) end() error {
	t := b.t
	if b.t = nil; t == nil {
		return nil
	}
	if t.err != nil {
		return errors.Join(t.err, t.tx.Rollback())
	}
	return t.tx.Commit()
}

// fill makes the buckets and puts in what im has of data and ids.
func fill(db *bbolt.DB, want format, im *image) error {
	err := db.Update(func(tx *bbolt.Tx) error {
		for _, b := range []bucket{data, ids, refs, active, about} {
			if _, err := tx.CreateBucket([]byte{byte(b)}); err != nil {
				return err
			}
		}
		t := &txn{tx: tx, salt: want.salt}
		t.put(data, dataKey(0, 0, 0, 0), make([]byte, padBytes))
		t.put(about, []byte("format"), []byte(want.String()))
		return t.err
	})
	if err != nil || im == nil {
		return err
	}
	// Values of data are taken as they are: a damaged record is known and can be deleted.
	b := &batch{db: db, salt: want.salt}
	err = im.elements(func(in bucket, key, value []byte) error {
		if (in != data && in != ids) || (in == data && (len(key) != keyLength || binary.BigEndian.Uint64(key) == 0)) {
			return nil
		}
		if _, ok := want.salt.open(in, key, value); !ok && in == ids {
			return nil // derive makes it again from the head
		}
		t, err := b.txn(len(key) + len(value))
		if err != nil {
			return err
		}
		return t.bucket(in).Put(key, bytes.Clone(value)) // which keeps the value
	})
	if err == nil {
		err = b.end()
	}
	if err == nil {
		err = derive(b)
	}
	if err == nil {
		return b.end()
	}
	if b.t != nil {
		err = errors.Join(err, b.t.tx.Rollback())
	}
	return err
}

// derive makes ids, refs and active from the heads. Entries of ids without a head
// stay: they are how a record with a damaged head is known.
func derive(b *batch) error {
	for num := uint64(1); ; num++ {
		t, err := b.txn(chunk)
		if err != nil {
			return err
		}
		key, _ := t.bucket(data).Cursor().Seek(numKey(num))
		if len(key) != keyLength {
			return nil
		}
		num = binary.BigEndian.Uint64(key)
		head, err := t.head(num)
		if err != nil {
			continue
		}
		t.put(ids, []byte(head.ID), idValue(num, head.Owner))
		for _, ref := range head.Refs {
			t.put(refs, []byte(ref), numKey(num))
		}
		if head.State != Finished {
			t.put(active, numKey(num), nil)
		}
	}
}

// A Report says what is wrong with a store.
type Report struct {
	Records   int
	Damaged   []*DamageError // records that are not what was stored, by age
	Structure []string       // damage beside the records; Open repairs it
}

// Check reads everything in a store that no process has open, and changes nothing.
// Errors: ErrLocked, ErrVersion, or why nothing could be read.
func Check(dir string) (report Report, err error) {
	lock, err := lockDir(dir)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	found, note, err := findFormat(dir)
	if err != nil {
		return Report{}, err
	}
	file, err := os.Open(filepath.Join(dir, databaseName))
	if err != nil {
		return Report{}, fmt.Errorf("store: %w", err)
	}
	defer file.Close() // read only
	im, _, sound, err := survey(file, found.salt)
	if err != nil {
		return Report{}, err
	}
	c := &checker{salt: found.salt, parts: map[uint64]*parts{}, ids: map[uint64]string{}}
	if err := im.elements(c.visit); err != nil {
		return Report{}, fmt.Errorf("store: check of %s: %w", dir, err)
	}
	report = c.report()
	for _, problem := range []error{note, im.treeErr, im.freeErr} {
		if problem != nil {
			report.Structure = append(report.Structure, problem.Error())
		}
	}
	if im.mended != nil {
		report.Structure = append(report.Structure, "one bit of a meta page")
	}
	if !sound && len(report.Structure) == 0 {
		report.Structure = append(report.Structure, "an index of the records")
	}
	return report, nil
}

// checker counts what there is of every record, to be compared with its head.
type checker struct {
	salt  salt
	parts map[uint64]*parts
	ids   map[uint64]string
}

// Parts are what there is of one record.
type parts struct {
	head                   map[uint16][]byte // parts of the head by number
	want, have             int               // bytes of blobs, as their first parts claim and as they are
	objects, items, events int
}

// visit counts one element. It never fails.
func (c *checker) visit(in bucket, key, value []byte) error {
	payload, ok := c.salt.open(in, key, value)
	if in == ids && ok && len(payload) >= 8 {
		c.ids[binary.BigEndian.Uint64(payload)] = string(key)
	}
	if in != data || len(key) != keyLength || !ok {
		return nil // a key that fits no checksum is not to be believed: its record misses it
	}
	num, of, part := binary.BigEndian.Uint64(key), kind(key[8]), binary.BigEndian.Uint16(key[13:])
	if num == 0 {
		return nil
	}
	r := c.parts[num]
	if r == nil {
		r = &parts{head: map[uint16][]byte{}}
		c.parts[num] = r
	}
	things := 0
	if part == 0 {
		var size int
		var err error
		if size, things, payload, err = blobStart(payload); err != nil {
			return nil // the record misses it
		}
		r.want += size
	}
	r.have += len(payload)
	switch of {
	case kindHead:
		r.head[part] = bytes.Clone(payload)
	case kindObject:
		r.objects += things
	case kindItem:
		r.items += things
	case kindEvents:
		r.events += things
	}
	return nil
}

// report compares what there is with what the heads say, by age.
func (c *checker) report() Report {
	out := Report{}
	nums := slices.Collect(maps.Keys(c.parts))
	// Records of which nothing is left but their ids.
	for num := range c.ids {
		if c.parts[num] == nil {
			nums = append(nums, num)
			c.parts[num] = &parts{}
		}
	}
	slices.Sort(nums)
	for _, num := range nums {
		out.Records++
		found := c.parts[num]
		var text []byte
		for part := range len(found.head) {
			text = append(text, found.head[uint16(part)]...)
		}
		stored := &head{}
		if json.Unmarshal(text, stored) != nil {
			out.Damaged = append(out.Damaged, &DamageError{c.ids[num], "its head"})
			continue
		}
		if found.want != found.have || found.objects != 1 || found.items != stored.Items || found.events != stored.Events {
			out.Damaged = append(out.Damaged, &DamageError{stored.ID, fmt.Sprintf("%d of %d bytes, %d of 1 object, %d of %d items, %d of %d events are sound",
				found.have, found.want, found.objects, found.items, stored.Items, found.events, stored.Events)})
		}
	}
	return out
}
