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
func prepare(path string, f format) (int, error) {
	if err := os.Remove(path + ".new"); err != nil && !errors.Is(err, os.ErrNotExist) { // of a crash
		return 0, fmt.Errorf("store: %w", err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		if err := rebuild(path, f, nil); err != nil {
			return 0, err
		}
		return 0, install(path)
	}
	if err != nil {
		return 0, fmt.Errorf("store: %w", err)
	}
	im, records, sound, err := survey(file, f.salt)
	if err == nil && im.mended != nil {
		_, err = file.WriteAt(im.mended, 0)
		err = errors.Join(err, file.Sync())
	}
	replace := err == nil && (!sound || im.sparse)
	if replace {
		if err = rebuild(path, f, im); err != nil && sound {
			replace, err = false, nil // a large file is no reason not to start
		}
	}
	if err = errors.Join(err, file.Close()); err != nil || !replace {
		return records, err
	}
	if err := install(path); err != nil {
		return 0, err
	}
	return countRecords(path, f.salt)
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
	err = im.inspect(func(e *element) error {
		if e.bucket == data {
			return nil
		}
		v, err := e.value()
		if _, ok := s.open(e.bucket, e.key, v); !ok || err != nil {
			sound = false
		}
		switch {
		case e.bucket == ids:
			records++
		case e.bucket == about && string(e.key) == "format":
			hasFormat = true
		}
		return nil
	})
	free := int64(0)
	for p := pgid(2); p < im.high; p++ {
		if im.free.has(p) {
			free += pageSize
		}
	}
	im.sparse = info.Size() > sparseFile && free > info.Size()/4*3
	return im, records, sound && hasFormat && im.treeErr == nil && im.freeErr == nil, err
}

// rebuild makes a database beside the file at path that holds the elements of im,
// nil for none. What can be made from data is made anew.
func rebuild(path string, f format, im *image) error {
	db, err := bbolt.Open(path+".new", 0o600, &bbolt.Options{Timeout: lockWait, PageSize: pageSize, NoSync: true, NoGrowSync: true, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	err = fill(db, f, im)
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
func (b *batch) txn(n int) (*txn, error) {
	if b.size += n; b.t != nil && b.size > rebuildBytes {
		if err := b.end(); err != nil {
			return nil, err
		}
	}
	if b.t == nil {
		tx, err := b.db.Begin(true)
		if err != nil {
			return nil, err
		}
		b.t, b.size = &txn{tx: tx, salt: b.salt}, n
	}
	return b.t, nil
}

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

func fill(db *bbolt.DB, f format, im *image) error {
	err := db.Update(func(tx *bbolt.Tx) error {
		for _, b := range []bucket{data, ids, refs, active, about} {
			if _, err := tx.CreateBucket([]byte{byte(b)}); err != nil {
				return err
			}
		}
		t := &txn{tx: tx, salt: f.salt}
		t.put(data, dataKey(0, 0, 0, 0), make([]byte, padBytes))
		t.put(about, []byte("format"), []byte(f.String()))
		return t.err
	})
	if err != nil || im == nil {
		return err
	}
	b := &batch{db: db, salt: f.salt}
	err = im.elements(func(in bucket, key, value []byte) error {
		if (in != data && in != ids) || (in == data && (len(key) != keyLength || binary.BigEndian.Uint64(key) == 0)) {
			return nil
		}
		if _, ok := f.salt.open(in, key, value); !ok && in == ids {
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
		k, _ := t.bucket(data).Cursor().Seek(numKey(num))
		if len(k) != keyLength {
			return nil
		}
		num = binary.BigEndian.Uint64(k)
		h, err := t.head(num)
		if err != nil {
			continue
		}
		t.put(ids, []byte(h.ID), idValue(num, h.Owner))
		for _, r := range h.Refs {
			t.put(refs, []byte(r), numKey(num))
		}
		if h.State != Finished {
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
func Check(dir string) (r Report, err error) {
	lock, err := lockDir(dir)
	if err != nil {
		return Report{}, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	f, note, err := findFormat(dir)
	if err != nil {
		return Report{}, err
	}
	file, err := os.Open(filepath.Join(dir, databaseName))
	if err != nil {
		return Report{}, fmt.Errorf("store: %w", err)
	}
	defer file.Close() // read only
	im, _, sound, err := survey(file, f.salt)
	if err != nil {
		return Report{}, err
	}
	c := &checker{salt: f.salt, parts: map[uint64]*parts{}, ids: map[uint64]string{}}
	if err := im.elements(c.visit); err != nil {
		return Report{}, fmt.Errorf("store: check of %s: %w", dir, err)
	}
	r = c.report()
	for _, problem := range []error{note, im.treeErr, im.freeErr} {
		if problem != nil {
			r.Structure = append(r.Structure, problem.Error())
		}
	}
	if im.mended != nil {
		r.Structure = append(r.Structure, "one bit of a meta page")
	}
	if !sound && len(r.Structure) == 0 {
		r.Structure = append(r.Structure, "an index of the records")
	}
	return r, nil
}

// checker counts what there is of every record, to be compared with its head.
type checker struct {
	salt  salt
	parts map[uint64]*parts
	ids   map[uint64]string
}

type parts struct {
	head                  map[uint16][]byte
	want, have            int // bytes of blobs
	objects, items, event int
}

func (c *checker) visit(b bucket, key, value []byte) error {
	p, ok := c.salt.open(b, key, value)
	if b == ids && ok && len(p) >= 8 {
		c.ids[binary.BigEndian.Uint64(p)] = string(key)
	}
	if b != data || len(key) != keyLength || !ok {
		return nil // a key that fits no checksum is not to be believed: its record misses it
	}
	num, k, part := binary.BigEndian.Uint64(key), kind(key[8]), binary.BigEndian.Uint16(key[13:])
	if num == 0 {
		return nil
	}
	r := c.parts[num]
	if r == nil {
		r = &parts{head: map[uint16][]byte{}}
		c.parts[num] = r
	}
	n := 0
	if part == 0 {
		var size int
		var err error
		if size, n, p, err = blobStart(p); err != nil {
			return nil // the record misses it
		}
		r.want += size
	}
	r.have += len(p)
	switch k {
	case kindHead:
		r.head[part] = bytes.Clone(p)
	case kindObject:
		r.objects += n
	case kindItem:
		r.items += n
	case kindEvents:
		r.event += n
	}
	return nil
}

func (c *checker) report() Report {
	r := Report{}
	nums := slices.Collect(maps.Keys(c.parts))
	for num := range c.ids {
		if c.parts[num] == nil {
			nums = append(nums, num)
			c.parts[num] = &parts{}
		}
	}
	slices.Sort(nums)
	for _, num := range nums {
		r.Records++
		p := c.parts[num]
		var text []byte
		for i := range len(p.head) {
			text = append(text, p.head[uint16(i)]...)
		}
		h := &head{}
		if json.Unmarshal(text, h) != nil {
			r.Damaged = append(r.Damaged, &DamageError{c.ids[num], "its head"})
			continue
		}
		if p.want != p.have || p.objects != 1 || p.items != h.Items || p.event != h.Events {
			r.Damaged = append(r.Damaged, &DamageError{h.ID, fmt.Sprintf("%d of %d bytes, %d of 1 object, %d of %d items, %d of %d events are sound",
				p.have, p.want, p.objects, p.items, h.Items, p.event, h.Events)})
		}
	}
	return r
}
