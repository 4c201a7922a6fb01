package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"

	"ossian/internal/store/disk"
)

const (
	padBytes     = 1100      // keeps the data bucket on pages of its own, where scan looks
	rebuildBytes = 8 << 20   // of one transaction of a rebuild
	sparseFile   = 256 << 20 // a file this large is made smaller when three quarters of it are free
)

// prepare makes sure that the database at path is sound, and returns how many
// records it has. It creates a missing one and replaces a damaged one by what is
// left of it; elements that are damaged themselves stay as they are. What was found
// is nil where the file is sound; a damaged one is kept beside the new (damaged.go).
func prepare(path string, want format) (records int, found *repaired, err error) {
	if err := os.Remove(path + ".new"); err != nil && !errors.Is(err, os.ErrNotExist) { // of a crash
		return 0, nil, fmt.Errorf("store: %w", err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		if err := rebuild(path, want, nil); err != nil {
			return 0, nil, err
		}
		return 0, nil, install(path)
	}
	if err != nil {
		return 0, nil, fmt.Errorf("store: %w", err)
	}
	im, records, sound, err := survey(file, want.salt)
	renewed := false
	switch {
	case err != nil:
	case !sound:
		found, err = replace(file, path, want, im)
		renewed = err == nil
	default:
		// A meta page that was mended is written back, so that the database sees it.
		if im.mended != nil {
			_, err = file.WriteAt(im.mended, 0)
			err = errors.Join(err, file.Sync())
			found = &repaired{Report: Report{File: path, Records: records, Structure: []string{im.mending}}}
		}
		// A file that is mostly free is worth a new one, and no reason not to start.
		renewed = err == nil && im.sparse && rebuild(path, want, im) == nil
	}
	if err = errors.Join(err, file.Close()); err != nil || !renewed {
		return records, found, err
	}
	if err := install(path); err != nil {
		return 0, nil, err
	}
	records, err = countRecords(path, want.salt)
	return records, found, err
}

// replace makes a new file beside a damaged one of what is left of it, and sees to it that
// the damaged one stays.
func replace(file *os.File, path string, want format, im *image) (*repaired, error) {
	report, err := describe(path, im, want, false)
	if err != nil {
		return nil, err
	}
	if err := rebuild(path, want, im); err != nil {
		return nil, err
	}
	kept, removed, err := disk.Keep(file, path)
	if err != nil {
		return nil, err
	}
	return &repaired{report, kept, removed}, nil
}

// install puts what rebuild made in the place of the file at path.
func install(path string) error {
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return disk.SyncDir(filepath.Dir(path))
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
		// Values of data are large; whoever asks for a record checks them.
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
	return im, records, sound && hasFormat && im.metaErr == nil && im.treeErr == nil && im.freeErr == nil, err
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

// txn returns the transaction for the next size bytes.
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
	open := b.t
	if b.t = nil; open == nil {
		return nil
	}
	if open.stamp(); open.err != nil {
		return errors.Join(open.err, open.tx.Rollback())
	}
	return open.tx.Commit()
}

// fill makes the buckets and puts in what im has of data and ids.
func fill(db *bbolt.DB, want format, im *image) error {
	err := db.Update(func(tx *bbolt.Tx) error {
		for _, b := range buckets {
			if _, err := tx.CreateBucket([]byte{byte(b)}); err != nil {
				return err
			}
		}
		t := &txn{tx: tx, salt: want.salt}
		t.put(data, dataKey(0, 0, 0, 0), make([]byte, padBytes))
		t.put(about, []byte("format"), []byte(want.String()))
		t.stamp()
		return t.err
	})
	if err != nil || im == nil {
		return err
	}
	// Values of data are taken as they are: a damaged record is known and can be deleted.
	filling := &batch{db: db, salt: want.salt}
	err = im.elements(func(in bucket, key, value []byte) error {
		if (in != data && in != ids) || (in == data && (len(key) != keyLength || binary.BigEndian.Uint64(key) == 0)) {
			return nil
		}
		if _, ok := want.salt.open(in, key, value); !ok && in == ids {
			return nil // derive makes it again from the head
		}
		t, err := filling.txn(len(key) + len(value))
		if err != nil {
			return err
		}
		return t.bucket(in).Put(key, bytes.Clone(value)) // which keeps the value
	})
	if err == nil {
		err = filling.end()
	}
	if err == nil {
		err = derive(filling)
	}
	if err == nil {
		err = dropNameless(filling)
	}
	if err == nil {
		return filling.end()
	}
	if filling.t != nil {
		err = errors.Join(err, filling.t.tx.Rollback())
	}
	return err
}

// derive makes ids, refs and active from the heads. Entries of ids without a head
// stay: they are how a record with a damaged head is known.
func derive(b *batch) error {
	return b.records(func(record *txn, num uint64) {
		head, err := record.head(num)
		if err != nil {
			return
		}
		record.put(ids, []byte(head.ID), idValue(num, head.Owner))
		for _, ref := range head.Refs {
			record.put(refs, []byte(ref), numKey(num))
		}
		if head.State != Finished {
			record.put(active, numKey(num), nil)
		}
	})
}

// records visits the records of which anything is in data, in transactions of the batch: visit
// may change or remove what it is shown.
func (b *batch) records(visit func(t *txn, num uint64)) error {
	for num := uint64(1); ; num++ {
		t, err := b.txn(chunk)
		if err != nil {
			return err
		}
		key, _ := t.bucket(data).Cursor().Seek(numKey(num))
		if len(key) != keyLength { // behind the last record there is none
			return nil
		}
		num = binary.BigEndian.Uint64(key)
		visit(t, num)
	}
}

// dropNameless removes what belongs to records whose ids are lost: nobody can ask for it,
// or delete it.
func dropNameless(batch *batch) error {
	t, err := batch.txn(0)
	if err != nil {
		return err
	}
	named := map[uint64]bool{}
	err = t.bucket(ids).ForEach(func(key, value []byte) error {
		if payload, ok := t.salt.open(ids, key, value); ok && len(payload) >= 8 {
			named[binary.BigEndian.Uint64(payload)] = true
		}
		return nil
	})
	if err != nil {
		return err
	}
	return batch.records(func(t *txn, num uint64) {
		if !named[num] {
			t.clear(numKey(num))
		}
	})
}
