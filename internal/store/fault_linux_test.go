package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"go.etcd.io/bbolt"
)

// faultyDisk stands between the database and its file and fails as it is told.
type faultyDisk struct {
	fault atomic.Pointer[fault] // nil = none
	metas atomic.Int64          // meta pages written
}

type fault struct {
	name  string
	meta  bool          // at the meta page; otherwise at data pages
	err   syscall.Errno // of the write
	short bool          // half is written
	sync  bool          // writes succeed, the sync behind them fails
	lost  bool          // and what was written is not on the disk
}

// fileOf returns the file that the database syncs.
func fileOf(db *bbolt.DB) *os.File {
	field := reflect.ValueOf(db).Elem().FieldByName("file")
	return *(**os.File)(unsafe.Pointer(field.UnsafeAddr()))
}

func (d *faultyDisk) opened(db *bbolt.DB) {
	file := fileOf(db)
	hookWrites(db, func(next writeAt) writeAt {
		return func(b []byte, off int64) (int, error) {
			meta := off < metaEnd
			if meta {
				d.metas.Add(1)
			}
			f := d.fault.Load()
			switch {
			case f == nil || f.meta != meta:
				return next(b, off)
			case f.err != 0 && f.short:
				n, _ := next(b[:len(b)/2], off)
				return n, f.err
			case f.err != 0:
				return 0, f.err
			}
			if !f.lost {
				direct, err := os.OpenFile(db.Path(), os.O_WRONLY, 0)
				if err != nil {
					return 0, err
				}
				defer direct.Close() // no sync is wanted
				if _, err := direct.WriteAt(b, off); err != nil {
					return 0, err
				}
			}
			return len(b), failSyncs(file)
		}
	})
}

// failSyncs makes every later sync of file fail: it becomes the null device, which
// takes writes and knows no sync.
func failSyncs(file *os.File) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(syscall.Dup3(int(null.Fd()), int(file.Fd()), syscall.O_CLOEXEC), null.Close())
}

// DUR-3: what fails is refused with a clear error, what was acknowledged stays
// readable, and the store writes again by itself once the disk works.
func TestDUR3Faults(t *testing.T) {
	for _, f := range []fault{
		{name: "disk full", err: syscall.ENOSPC},
		{name: "disk full in the middle of a page", err: syscall.ENOSPC, short: true},
		{name: "I/O error", err: syscall.EIO},
		{name: "I/O error on the meta page", err: syscall.EIO, meta: true},
		{name: "torn meta page", err: syscall.EIO, meta: true, short: true},
		{name: "failed sync", sync: true},
		{name: "failed sync that lost the pages", sync: true, lost: true},
		{name: "failed sync of the meta page", sync: true, meta: true},
		{name: "failed sync that lost the meta page", sync: true, meta: true, lost: true},
	} {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			d := &faultyDisk{}
			dir := t.TempDir()
			s := open(t, Config{Dir: dir, Retry: 5 * time.Millisecond, opened: d.opened})
			ctx := t.Context()
			stored := map[string][]byte{}
			put := func(id string, size int) error {
				err := s.Create(ctx, New{ID: id, Owner: "o", Object: text(id, size), Done: true})
				if err == nil {
					stored[id] = text(id, size)
				}
				return err
			}
			for round := range 3 {
				for i := range 5 {
					check(t, put(fmt.Sprintf("good %d %d", round, i), 5000*i))
				}
				written := d.metas.Load()
				d.fault.Store(&f)
				for i := range 3 {
					err := put(fmt.Sprintf("refused %d %d", round, i), 3000)
					if _, ok := errors.AsType[*ReadOnlyError](err); !ok || (f.err != 0 && !errors.Is(err, f.err) && i == 0) {
						t.Fatalf("write %d: %v, want it refused because of %v", i, err, f.err)
					}
					compare(t, s, stored, fmt.Sprintf("refused %d %d", round, i))
				}
				if s.Stats().Failure == nil {
					t.Error("the failure is not reported")
				}
				if !f.meta && d.metas.Load() != written {
					t.Error("a meta page was written although the data pages were not synced")
				}
				time.Sleep(20 * time.Millisecond) // some attempts fail
				d.fault.Store(nil)
				start := time.Now()
				for s.Stats().Failure != nil {
					if time.Since(start) > time.Minute {
						t.Fatalf("still read-only: %v", s.Stats().Failure)
					}
					time.Sleep(time.Millisecond)
				}
				compare(t, s, stored, "")
			}
			check(t, put("last", 100))
			check(t, s.Close())
			s = open(t, Config{Dir: dir})
			compare(t, s, stored, "refused 0 0")
			check(t, s.Close())
			if r, err := Check(dir); err != nil || r.Records != len(stored) || len(r.Damaged)+len(r.Structure) > 0 {
				t.Errorf("check: %+v, %v; want %d records", r, err, len(stored))
			}
		})
	}
}

// compare reads everything that was acknowledged, and refused, which was not.
func compare(t *testing.T, s *Store, stored map[string][]byte, refused string) {
	t.Helper()
	for id, want := range stored {
		if r, err := s.Get("o", id); err != nil || !bytes.Equal(r.Object, want) {
			t.Errorf("%s: %d bytes, error %v", id, len(r.Object), err)
		}
	}
	if _, err := s.Get("o", refused); err == nil {
		t.Errorf("%s was refused and is there", refused)
	}
}

// The database shows a transaction before its last sync. The store does not: a
// reader waits, and gets what the sync's outcome says.
func TestDUR3Unsynced(t *testing.T) {
	for _, fails := range []bool{false, true} {
		written, release := make(chan struct{}), make(chan struct{})
		var armed atomic.Bool
		s := open(t, Config{Dir: t.TempDir(), Retry: time.Millisecond, opened: func(db *bbolt.DB) {
			file := fileOf(db)
			hookWrites(db, func(next writeAt) writeAt {
				return func(b []byte, off int64) (int, error) {
					n, err := next(b, off)
					if off < metaEnd && armed.CompareAndSwap(true, false) {
						if fails {
							err = failSyncs(file)
						}
						close(written)
						<-release
					}
					return n, err
				}
			})
		}})
		armed.Store(true)
		created, got := make(chan error), make(chan error)
		go func() { created <- s.Create(t.Context(), New{ID: "r", Owner: "o", Done: true}) }()
		<-written
		go func() {
			_, err := s.Get("o", "r")
			got <- err
		}()
		select {
		case err := <-got:
			t.Errorf("a read before the sync returned %v", err)
		case <-time.After(20 * time.Millisecond):
		}
		close(release)
		if !fails {
			check(t, errors.Join(<-created, <-got))
			continue
		}
		if err := <-created; err == nil {
			t.Error("a failed sync was acknowledged")
		}
		wantErr(t, "read of what was not synced", <-got, ErrNotFound)
	}
}

// A full disk at the start does not keep the store from opening; the jobs that a
// crash cut off are finished when there is space again.
func TestDUR3FaultAtStart(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	check(t, s.Create(t.Context(), New{ID: "job", Owner: "o", Events: events("job", 0, 2)}))
	check(t, s.Close())
	d := &faultyDisk{}
	d.fault.Store(&fault{err: syscall.ENOSPC})
	s = open(t, Config{Dir: dir, Retry: time.Millisecond, opened: d.opened})
	if r, err := s.Get("o", "job"); err != nil || r.State != Running || s.Stats().Failure == nil {
		t.Errorf("with a full disk: %+v, %v, failure %v", r, err, s.Stats().Failure)
	}
	d.fault.Store(nil)
	same(t, "events", allEvents(t, s, "o", "job", -1), events("job", 0, 2)) // waits until it is finished
}

// DUR-3: a full disk while the key is written leaves none, and there is one later.
func TestDUR3Key(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	path := filepath.Join(dir, keyName)
	check(t, os.Symlink("/dev/full", path+".new"))
	_, err := s.Key()
	wantErr(t, "key on a full disk", err, syscall.ENOSPC)
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a key: %v", err)
	}
	check(t, os.Remove(path+".new"))
	if _, err := s.Key(); err != nil {
		t.Error(err)
	}
}

// A panic in one change is that change's error; with half of it done it is the
// group's, and the store goes back.
func TestPanics(t *testing.T) {
	s := open(t, Config{Dir: t.TempDir(), Retry: time.Millisecond})
	ctx := t.Context()
	check(t, s.Create(ctx, New{ID: "a", Owner: "o", Done: true}))
	err := s.submit(ctx, "x", 0, func(*txn) error { panic("first") })
	if _, ok := errors.AsType[*DamageError](err); !ok {
		t.Errorf("panic before a write: %v", err)
	}
	check(t, s.Create(ctx, New{ID: "b", Owner: "o", Done: true}))
	err = s.submit(ctx, "x", 0, func(tx *txn) error { tx.put(ids, []byte("half"), nil); panic("second") })
	if _, ok := errors.AsType[*ReadOnlyError](err); !ok {
		t.Errorf("panic after a write: %v", err)
	}
	for s.Stats().Failure != nil {
		time.Sleep(time.Millisecond)
	}
	check(t, s.Create(ctx, New{ID: "half", Owner: "o", Done: true}))
	for _, id := range []string{"a", "b", "half"} {
		if _, err := s.Get("o", id); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// DUR-4: the file is cut below a running store. Nothing crashes; reads give what is there or
// say which record is damaged; writes are refused or durable; the next start keeps the file.
func TestDUR4CutWhileOpen(t *testing.T) {
	for _, size := range []int64{0, 3 * pageSize, 100*pageSize + 9} {
		dir := t.TempDir()
		names := makeStore(t, dir)
		s, err := Open(Config{Dir: dir, Retry: time.Millisecond})
		check(t, err)
		check(t, os.Truncate(s.path(), size))
		told := 0
		for _, id := range names {
			_, err := content(s, id)
			damage, ok := errors.AsType[*DamageError](err)
			if _, refused := errors.AsType[*ReadOnlyError](err); err != nil && !refused && (!ok || damage.ID != id) {
				t.Errorf("%d bytes: %s: %v", size, id, err)
			}
			if err != nil {
				told++
			}
			if told%20 == 10 { // the error is that of the disk, or of one record
				err := s.Create(t.Context(), New{ID: fmt.Sprint("new", told), Owner: "o", Object: text("x", 9000), Done: true})
				_, refused := errors.AsType[*ReadOnlyError](err)
				if _, ok := errors.AsType[*DamageError](err); err != nil && !refused && !ok && !errors.Is(err, ErrExists) {
					t.Errorf("%d bytes: create: %v", size, err)
				}
			}
		}
		if told == 0 {
			t.Errorf("%d bytes: nobody was told", size)
		}
		_ = s.Close() // the database may have lost what it needs for that
		if s, err = Open(Config{Dir: dir}); err != nil || s.Stats().Kept != 1 {
			t.Fatalf("%d bytes: the next start: %v", size, err)
		}
		check(t, s.Close())
	}
}
