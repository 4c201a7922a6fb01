package store

// The writer. It takes the changes that wait as a group, applies them in one transaction,
// syncs once for all, and tells their callers. A change may be refused by itself, before
// its first write, while the others of its group go on. A transaction fails as a whole: its
// callers get the error, and the store is read-only until a probe can be written and
// synced. What the disk holds after a failed sync is not known, so the file is then set
// back to the last state that was synced (goBack).

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"go.etcd.io/bbolt"
)

const (
	queueLength = 256         // calls that wait for the writer
	groupCalls  = 1024        // calls that share a sync at most
	groupBytes  = 32 << 20    // and their bytes, about
	sweepEvery  = time.Minute // how often records that are too old are looked for
	evictAtOnce = 256         // records looked at then, and with every group
	probeBytes  = 64 << 10    // what must be writable again after a failure
	lockWait    = 500 * time.Millisecond
)

// errStuck is a failure inside the database that left its locks taken.
var errStuck = errors.New("the database must be opened anew: restart the program")

// An op is one caller's change on its way to the writer.
type op struct {
	id   string           // of the record, for those who wait for its events
	size int              // of its bytes, about
	do   func(*txn) error // looks first and writes afterwards: an error leaves nothing behind
	done chan error       // room for one
}

// submit hands a change to the writer and waits until it is durable or refused.
func (s *Store) submit(ctx context.Context, id string, size int, do func(*txn) error) error {
	change := &op{id, size, do, make(chan error, 1)}
	select {
	case s.ops <- change:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.quit:
		return ErrClosed
	}
	select {
	case err := <-change.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-s.stopped:
	}
	// The writer has ended, perhaps behind this change.
	select {
	case err := <-change.done:
		return err
	default:
		return ErrClosed
	}
}

// write is the writer goroutine, from Open to Close.
func (s *Store) write() {
	defer close(s.stopped)
	debug.SetPanicOnFault(true) // a page of the mapped file that cannot be read
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	retry := time.NewTicker(s.cfg.Retry)
	defer retry.Stop()
	for {
		select {
		case <-s.quit:
			return
		case change := <-s.ops:
			s.commit(s.gather(change))
		// Groups evict as they go; this is for a store nobody writes to.
		case <-sweep.C:
			if s.refusal() == nil {
				s.commit(nil)
			}
		case <-retry.C:
			if s.refusal() != nil && !s.stuck() {
				s.resume()
			}
		}
	}
}

// gather returns first and the changes that wait behind it: while one group is
// synced the next one queues. Callers that were just told often come again at once;
// letting them run first made groups of 33 into ones of 41 with 64 callers.
func (s *Store) gather(first *op) []*op {
	runtime.Gosched()
	group, size := []*op{first}, first.size
	for len(group) < groupCalls && size < groupBytes {
		select {
		case change := <-s.ops:
			group = append(group, change)
			size += change.size
		default:
			return group
		}
	}
	return group
}

// refusal returns why writes are refused, nil when they are not.
func (s *Store) refusal() error {
	s.dbMu.RLock()
	defer s.dbMu.RUnlock()
	return s.failure
}

// stuck reports whether writes are refused for good. It is for the writer, which alone
// changes failure, and for those who hold dbMu.
func (s *Store) stuck() bool { return errors.Is(s.failure, errStuck) }

// commit makes a group durable and tells its callers.
func (s *Store) commit(group []*op) {
	err := s.refusal()
	errs := make([]error, len(group))
	if err == nil {
		if err = s.transact(func(t *txn) {
			for at, change := range group {
				errs[at] = attempt(t, change)
			}
		}); err != nil {
			err = s.fail(err)
		}
	}
	// The transaction is durable, or nothing of it counts.
	for at, change := range group {
		if err != nil {
			errs[at] = err
		}
		if errs[at] == nil {
			s.changed(change.id)
		}
		change.done <- errs[at]
	}
}

// changed wakes those who wait for events of id.
func (s *Store) changed(id string) {
	s.stateMu.Lock()
	defer s.stateMu.Unlock()
	if ch := s.live[id]; ch != nil {
		close(ch)
		delete(s.live, id)
	}
}

// attempt applies one change of a group. A panic before its first write, which a
// damaged page causes, is its own affair.
func attempt(txn *txn, change *op) (err error) {
	before := txn.wrote
	defer func() {
		if panicked := recover(); panicked != nil {
			if txn.wrote != before { // half a change must not be committed
				panic(panicked)
			}
			err = &DamageError{change.id, fmt.Sprint(panicked)}
		}
	}()
	return change.do(txn)
}

// transact runs f and eviction in one transaction and syncs it. After an error
// nobody knows what of it is on the disk.
func (s *Store) transact(f func(*txn)) (err error) {
	if err := s.whole(); err != nil {
		return err
	}
	tx, err := s.db.Begin(true)
	if err != nil {
		return err
	}
	// The file is mapped: what the database cannot read or make sense of is a panic. A
	// transaction that cannot be ended has left the database's locks taken.
	defer func() {
		panicked := recover()
		if panicked != nil {
			err = fmt.Errorf("panic: %v", panicked)
		}
		if !release(tx) {
			err = fmt.Errorf("%w: %v", errStuck, panicked)
		}
	}()
	changes := &txn{tx: tx, salt: s.salt, next: s.next}
	f(changes)
	changes.evict(&s.cfg, s.tally.records, s.tally.used, evictAtOnce+groupCalls)
	if changes.err != nil || changes.wrote == 0 {
		return changes.err
	}
	if changes.stamp(); changes.err != nil {
		return changes.err
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	// From here on this is the state to go back to; the database wrote its meta page last.
	metas := make([]byte, len(s.metas))
	if _, err := s.file.ReadAt(metas, 0); err != nil {
		return err
	}
	s.metas, s.next = metas, changes.next
	s.settle(s.db, changes.added)
	return nil
}

// whole says that the file has been cut, before anything is written: the database would
// make it longer again, with zeros where records were.
func (s *Store) whole() error {
	newest, err := newestMeta(s.metas)
	if err != nil {
		return err
	}
	return s.cut(int64(newest.high) * pageSize)
}

// settle notes that the state in metas is on the disk, with so many records more
// than the one before, and wakes the readers that saw it earlier.
func (s *Store) settle(db *bbolt.DB, added int) {
	newest, err := newestMeta(s.metas)
	if err != nil {
		panic("store: the database wrote a meta page that is none")
	}
	free := db.Stats()
	s.stateMu.Lock()
	defer s.stateMu.Unlock()
	s.synced, s.lost = newest.txid, false
	s.tally.records += added
	s.tally.used = (int64(newest.high) - int64(free.FreePageN+free.PendingPageN)) * pageSize
	close(s.settled)
	s.settled = make(chan struct{})
}

// release ends a transaction that was not committed, and reports whether it could.
func release(tx *bbolt.Tx) (ok bool) {
	defer func() { ok = recover() == nil }()
	_ = tx.Rollback() // after Commit it says so, and nothing else
	return true
}

// openDB opens the database for the writer, which must find s.db nil.
func (s *Store) openDB() error {
	db, err := bbolt.Open(s.path(), 0o600, &bbolt.Options{Timeout: lockWait, PageSize: pageSize, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return fmt.Errorf("store: %s: %w", s.path(), err)
	}
	if s.cfg.opened != nil {
		s.cfg.opened(db)
	}
	// What was on the disk before Open is synced (start), and goBack synced what it wrote.
	s.metas = make([]byte, 2*pageSize)
	if _, err := s.file.ReadAt(s.metas, 0); err != nil {
		return errors.Join(err, db.Close())
	}
	err = db.View(func(tx *bbolt.Tx) error {
		s.next = 1
		if last, _ := tx.Bucket([]byte{byte(data)}).Cursor().Last(); len(last) == keyLength {
			s.next += binary.BigEndian.Uint64(last)
		}
		return nil
	})
	if err != nil {
		return errors.Join(err, db.Close())
	}
	s.db = db
	s.settle(db, 0)
	return nil
}

// fail makes the store read-only after a failed transaction and returns what its
// callers, and later ones, get.
func (s *Store) fail(cause error) error {
	// First let go of the readers that wait for the transaction: they hold dbMu.
	s.stateMu.Lock()
	s.lost = true
	close(s.settled)
	s.settled = make(chan struct{})
	s.stateMu.Unlock()
	s.dbMu.Lock()
	defer s.dbMu.Unlock()
	if _, damaged := errors.AsType[*DamageError](cause); damaged && s.failure == nil {
		s.cfg.Log.Warn("the file of stored responses is damaged: nothing more is stored", "file", s.path(), "problem", cause)
	}
	s.failure = &ReadOnlyError{cause}
	if s.stuck() {
		return s.failure
	}
	if err := s.goBack(); err != nil {
		s.failure = &ReadOnlyError{errors.Join(cause, err)}
	}
	return s.failure
}

// resume goes back to the last state that was synced and writes again if that
// works and a probe can be synced, too.
func (s *Store) resume() {
	s.dbMu.Lock()
	err := s.goBack()
	s.dbMu.Unlock()
	if err == nil {
		err = s.transact(func(t *txn) { t.put(about, []byte("probe"), make([]byte, probeBytes)) })
	}
	if err == nil && s.unfinished {
		err = s.finishInterrupted()
	}
	if err != nil {
		_ = s.fail(err)
		return
	}
	s.dbMu.Lock()
	defer s.dbMu.Unlock()
	s.failure, s.unfinished = nil, false
}

// goBack gives the file the meta pages of the last synced state again. A failed
// sync may leave newer ones in the page cache that are not on the disk, and the
// system does not try them again: without this the next transaction would build on
// pages that are lost with the power. The pages of the last synced state
// themselves are never written while a newer state is not complete. The caller
// holds dbMu.
func (s *Store) goBack() error {
	if err := s.whole(); err != nil {
		return err // what is left can be read
	}
	if s.db != nil {
		err := s.db.Close()
		s.db = nil
		if err != nil {
			return err
		}
	}
	if _, err := s.file.WriteAt(s.metas, 0); err != nil {
		return err // what a reader would see is not known
	}
	synced := s.file.Sync()
	return errors.Join(synced, s.openDB())
}

// finishInterrupted ends the jobs that were running when the program was.
func (s *Store) finishInterrupted() error {
	var nums []uint64
	err := s.view(func(t *txn) error {
		return t.bucket(active).ForEach(func(key, _ []byte) error {
			nums = append(nums, binary.BigEndian.Uint64(key))
			return nil
		})
	})
	if err != nil || len(nums) == 0 {
		return err
	}
	var ended []string
	// Jobs end together: a crash among them leaves all to the next start.
	err = s.transact(func(t *txn) {
		for _, num := range nums {
			head, err := t.head(num)
			if err != nil {
				t.del(active, numKey(num)) // damaged: nobody can read it, so nobody waits for it
				continue
			}
			record := head.record()
			record.Object, _, _ = t.blob(num, kindObject, 0)
			end := s.cfg.Interrupted(record, t.allEvents(num, head.Events))
			// What the caller wants to add may not fit any more; that it has ended must.
			if roomFor(head, &end) != nil {
				end = Update{Object: end.Object}
			}
			end.Done = true
			t.apply(num, head, &end)
			ended = append(ended, head.ID)
		}
	})
	for _, id := range ended {
		s.changed(id)
	}
	return err
}
