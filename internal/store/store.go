// Package store keeps responses and background jobs of the Responses API on disk.
// Callers need not know how: what a call acknowledged is synced, concurrent calls
// share one sync, records are checksummed, the oldest go when a bound is reached,
// and a disk that fails makes the store read-only until it works again. Objects,
// items and events are opaque bytes here.
//
// Every record belongs to an owner. To anyone else, and to a caller without a
// name, it does not exist: the error is ErrNotFound, as for an unknown id.
package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"ossian/internal/store/disk"
)

// Errors that a caller may test for. *DamageError and *ReadOnlyError carry more.
var (
	ErrNotFound      = errors.New("store: no such record")
	ErrExists        = errors.New("store: a record with this id exists")
	ErrFinished      = errors.New("store: the record is finished")
	ErrNotBackground = errors.New("store: the record is no background job")
	ErrTooLarge      = errors.New("store: record too large")
	ErrTooLong       = errors.New("store: chain too long")
	ErrClosed        = errors.New("store: closed")
	ErrLocked        = errors.New("store: in use by another process")
	ErrVersion       = errors.New("store: written by a newer version")
)

// ErrFull is the ErrTooLarge of what would have room if nothing else were being made.
var ErrFull = fmt.Errorf("%w beside those that are being made", ErrTooLarge)

// A DamageError reports a record whose bytes are not what was stored.
type DamageError struct {
	ID      string // "" when the record cannot be told
	Problem string
}

// Error says which record is damaged, how, and what to do.
func (e *DamageError) Error() string {
	if e.ID == "" {
		return "store: damaged: " + e.Problem
	}
	return fmt.Sprintf("store: record %q is damaged: %s; delete it, or restore the store from a copy", e.ID, e.Problem)
}

// A MissingError is the ErrNotFound of a response that is there and goes on from one that
// is not.
type MissingError struct {
	ID, Before string // what is missing, the response behind it
}

// Error names both responses.
func (e *MissingError) Error() string {
	return fmt.Sprintf("store: record %q goes on from %q, which is not there", e.Before, e.ID)
}

// Unwrap makes the error an ErrNotFound.
func (e *MissingError) Unwrap() error { return ErrNotFound }

// missing says what links, the last response first, go on from when that is not found.
func missing(err error, links []Link, id string) error {
	if n := len(links); n > 0 && errors.Is(err, ErrNotFound) {
		return &MissingError{ID: id, Before: links[n-1].ID}
	}
	return err
}

// A ReadOnlyError refuses a write because it, or an earlier one, failed on the disk.
// Nothing of the refused write is there.
type ReadOnlyError struct{ Cause error }

// Error says why the disk cannot be written.
func (e *ReadOnlyError) Error() string {
	return fmt.Sprintf("store: read-only until the disk works again: %v", e.Cause)
}

// Unwrap returns what failed.
func (e *ReadOnlyError) Unwrap() error { return e.Cause }

// Config says where the store is and how much it may hold. Zero values are the
// defaults of docs/evidence/reliability.md.
type Config struct {
	Dir         string           // created when missing
	Age         time.Duration    // finished records are deleted when older; 0 = 30 days
	Bytes       int64            // disk space for records; 0 = 10 GiB
	Records     int              // 0 = 1 000 000
	RecordBytes int              // one record's object, and its input items together; 0 = 16 MiB
	Retry       time.Duration    // between attempts to write again after a failure; 0 = 1 s
	Now         func() time.Time // nil = time.Now

	Log *slog.Logger // what is damaged, lost and repaired is told here; nil = slog.Default()

	// Interrupted says what becomes of a job that a crash cut off, of which it may look at
	// the events; nil = it is finished and nothing else.
	Interrupted func(r Record, events iter.Seq[[]byte]) Update

	opened func(*bbolt.DB) // tests put faults below the database here
}

// withDefaults returns c with its zero values replaced, or says what is wrong.
func (c Config) withDefaults() (Config, error) {
	if c.RecordBytes > maxEvents {
		return c, fmt.Errorf("store: record bytes %d: want at most %d", c.RecordBytes, maxEvents)
	}
	if c.Dir == "" || c.Age < 0 || c.Bytes < 0 || c.Records < 0 || c.RecordBytes < 0 || c.Retry < 0 {
		return c, fmt.Errorf("store: directory %q, age %v, bytes %d, records %d, record bytes %d, retry %v: want a directory and no negative number",
			c.Dir, c.Age, c.Bytes, c.Records, c.RecordBytes, c.Retry)
	}
	// Zero means the usual value, for each by itself.
	c.Age = cmp.Or(c.Age, 30*24*time.Hour)
	c.Bytes = cmp.Or(c.Bytes, 10<<30)
	c.Records = cmp.Or(c.Records, 1_000_000)
	c.RecordBytes = cmp.Or(c.RecordBytes, 16<<20)
	c.Retry = cmp.Or(c.Retry, time.Second)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Interrupted == nil {
		c.Interrupted = func(Record, iter.Seq[[]byte]) Update { return Update{} }
	}
	return c, nil
}

// A State is how far a record is: running → cancelling → finished, or finished from the
// start. It says nothing about success: that is in the object.
type State string

// The states.
const (
	Running    State = "running"
	Cancelling State = "cancelling" // running, and somebody asked for its end
	Finished   State = "finished"
)

// A Record is a response as it is stored.
type Record struct {
	ID, Owner  string
	Previous   string // the response that it continues, "" = none
	Background bool
	State      State
	Created    time.Time
	Items      int    // input items
	Events     int    // events so far; their sequence numbers are 0 to Events-1
	Object     []byte // nil with Interrupted when it is damaged
	Note       string // the latest of its updates
}

// An Item is one input item.
type Item struct {
	ID   string
	Data []byte
}

// A New is a record to be created: a running job, or a finished response.
type New struct {
	ID, Owner, Previous string
	Background          bool
	Done                bool
	Object              []byte
	Items               []Item
	Events              [][]byte
	Refs                []string // ids of the items in Object, for Find
	Note                string   // as in Update
}

// An Update is what happened to a running record. All of it is stored, or nothing.
type Update struct {
	Object []byte // nil = as before
	Events [][]byte
	Refs   []string // further ids of items, for Find
	Note   string   // a few bytes that are cheaper to change than Object; "" = as before
	Done   bool     // nothing comes after it
}

// A Store is safe for concurrent use. One goroutine, the writer, changes what is on disk:
// calls hand it their changes (submit) and read snapshots of the database meanwhile
// (view). Whether the disk works decides which calls succeed:
//
//	read and write → read only (fail) → read and write (resume) → …
//	               → read only for good, when the database's own locks stay taken (stuck)
//
// Locks are taken in the order dbMu, stateMu. A reader waits with dbMu held until its
// snapshot is settled, so the writer says what became of a transaction before it takes
// dbMu for writing (settle, fail).
type Store struct {
	cfg  Config
	salt salt
	lock *disk.FileLock // of the directory, held until Close

	ops     chan *op      // changes on their way to the writer
	quit    chan struct{} // closed by Close
	stopped chan struct{} // closed when the writer has ended
	once    sync.Once     // for Close

	// dbMu guards db and failure; it is held for reading while db is read. The writer alone
	// changes them, with it held, and reads them without. Close comes after the writer.
	dbMu    sync.RWMutex
	db      *bbolt.DB // nil after Close, and while the file cannot even be read
	failure error     // why writes are refused, nil = they are not

	stateMu sync.Mutex               // guards what follows; never held while waiting
	live    map[string]chan struct{} // closed at the next change of a running record; only those somebody waits for
	synced  uint64                   // the last transaction that is known to be on the disk
	lost    bool                     // the transaction behind synced failed, and will never be on the disk
	settled chan struct{}            // closed when synced or lost changes
	tally   tally
	hurt    map[string]bool // ids of records that are known to be damaged

	health Stats // what Open found

	// The writer's own.
	file       *os.File // the database's file, beside the database
	next       uint64   // number of the next record
	metas      []byte   // the file's first two pages as last synced
	unfinished bool     // interrupted jobs are still to be finished
}

// tally is what Stats reports and eviction looks at.
type tally struct {
	records int
	used    int64 // bytes of pages that hold something
}

// Stats says how full the store is, whether it takes writes, and what is damaged.
type Stats struct {
	Records int
	Bytes   int64 // on disk, without pages that wait for reuse
	Failure error // why writes are refused, nil = they are not

	Damaged   int   // records that Open, or a call since, found damaged and that nobody has deleted
	Rebuilt   bool  // Open replaced a damaged file by what was left of it
	Lost      int   // records that are known to have been in that file and are gone
	LostBytes int64 // of it that held nothing usable; free space may be among them
	Kept      int   // damaged files in the directory
}

// Open opens the store in cfg.Dir, creates it when there is none, repairs what
// can be repaired of a damaged one, and finishes the jobs that a crash cut off.
// A damaged file is kept beside the one that takes its place, and Config.Log is told what
// of it is lost. It returns ErrLocked when another process has it, and ErrVersion, having changed
// nothing, when a newer version wrote it.
func Open(cfg Config) (*Store, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	lock, err := lockDir(cfg.Dir, false, "give this one a directory of its own")
	if err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, lock: lock, ops: make(chan *op, queueLength), quit: make(chan struct{}),
		stopped: make(chan struct{}), live: map[string]chan struct{}{}, settled: make(chan struct{}), hurt: map[string]bool{}}
	if err := s.start(); err != nil {
		return nil, errors.Join(err, s.closeFiles())
	}
	go s.write()
	return s, nil
}

// start makes the files sound, opens them, and finishes what a crash cut off.
func (s *Store) start() error {
	records, err := s.repair()
	if err != nil {
		return err
	}
	if s.file, err = os.OpenFile(s.path(), os.O_RDWR, 0); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if err := s.file.Sync(); err != nil { // a killed process may have left its last transaction unsynced
		return fmt.Errorf("store: %w", err)
	}
	if err := s.openDB(); err != nil {
		return err
	}
	s.tally.records = records
	if err := s.finishInterrupted(); err != nil {
		s.unfinished = true // a full disk must not keep the server from starting
		s.fail(err)
	}
	return nil
}

// repair makes the files sound, tells what was wrong, and returns how many records there
// are.
func (s *Store) repair() (int, error) {
	traces, err := s.traces() // before there are new ones
	if err != nil {
		return 0, err
	}
	found, note, err := readFormat(s.cfg.Dir)
	if err != nil {
		return 0, err
	}
	s.salt = found.salt
	if note != nil {
		s.cfg.Log.Warn("the store's "+formatName+" was damaged, and is written anew from the store's file", "directory", s.cfg.Dir, "problem", note)
	}
	if _, none := os.Stat(s.path()); len(traces) > 0 && errors.Is(none, os.ErrNotExist) {
		s.cfg.Log.Warn("the file of stored responses is not there, though the directory was in use: a new one begins without any; if there were some, stop the server and put the file back",
			"file", s.path(), "found", strings.Join(traces, " "))
	}
	// Before the database maps the file, it is read without trust (image.go).
	records, damage, err := prepare(s.path(), found)
	if err != nil {
		return 0, err
	}
	if damage != nil {
		s.tell(damage)
	}
	kept, err := disk.KeptFiles(s.path())
	s.health.Kept = len(kept)
	return records, err
}

// traces returns the names of what only a store that was in use has beside its file. FORMAT
// alone may also be that of a first start that was cut off.
func (s *Store) traces() ([]string, error) {
	names, err := disk.KeptFiles(s.path())
	for i, path := range names {
		names[i] = filepath.Base(path)
	}
	for _, name := range []string{formatName, keyName} {
		if _, missing := os.Stat(filepath.Join(s.cfg.Dir, name)); missing == nil {
			names = append(names, name)
		}
	}
	return names, err
}

// closeFiles closes what is open. A database whose locks are taken for good would
// wait for them for good.
func (s *Store) closeFiles() error {
	var err error
	if s.db != nil && !s.stuck() {
		err = s.db.Close()
	}
	s.db = nil
	if s.file != nil {
		err = errors.Join(err, s.file.Close())
	}
	return errors.Join(err, s.lock.Close())
}

// lockDir takes the directory for this process, or shares it with others who only look, without
// a file where no server ever was; advice says what to do where others have it. The database has a
// lock of its own, which is given up whenever the file is repaired or reopened.
func lockDir(dir string, shared bool, advice string) (*disk.FileLock, error) {
	lock, got, err := disk.Lock(filepath.Join(dir, lockName), shared)
	switch {
	case err != nil:
		return nil, fmt.Errorf("store: %w", err)
	case !got:
		return nil, fmt.Errorf("%w: %s; stop that one, or %s", ErrLocked, dir, advice)
	}
	return lock, nil
}

func (s *Store) path() string { return filepath.Join(s.cfg.Dir, databaseName) }

// Stats returns the present figures.
func (s *Store) Stats() Stats {
	failure := s.refusal()
	s.stateMu.Lock()
	defer s.stateMu.Unlock()
	out := s.health
	out.Records, out.Bytes, out.Failure, out.Damaged = s.tally.records, s.tally.used, failure, len(s.hurt)
	return out
}

// Close ends the writer, refuses what still waits and closes the files.
func (s *Store) Close() error {
	var err error
	s.once.Do(func() {
		close(s.quit)
		<-s.stopped
		s.dbMu.Lock()
		defer s.dbMu.Unlock()
		err = s.closeFiles()
	})
	return err
}

// Create stores a record and returns when it is durable. It returns ErrExists,
// ErrTooLarge, *ReadOnlyError, ErrClosed or ctx's error; after the last the record
// may be stored or not. The bytes in record must not change until Create returns nil.
func (s *Store) Create(ctx context.Context, record New) error {
	if err := record.check(&s.cfg); err != nil {
		return err
	}
	size := 0
	for _, item := range record.Items {
		size += len(item.ID) + len(item.Data)
	}
	return s.submit(ctx, record.ID, size+len(record.Object)+total(record.Events), func(t *txn) error { return t.create(&record, s.cfg.Now()) })
}

// check refuses what no record can hold.
func (n *New) check(cfg *Config) error {
	if n.ID == "" || len(n.ID) > maxName || n.Owner == "" || len(n.Owner) > maxName {
		return fmt.Errorf("store: id of %d bytes, owner of %d: want 1 to %d of each", len(n.ID), len(n.Owner), maxName)
	}
	// The object has the bound of a record to itself, and so have the input items together.
	size := 0
	for _, item := range n.Items {
		if len(item.ID) > math.MaxUint16 {
			return fmt.Errorf("%w: item id of %d bytes, limit %d", ErrTooLarge, len(item.ID), math.MaxUint16)
		}
		size += len(item.ID) + len(item.Data)
	}
	if largest := max(size, len(n.Object)); largest > cfg.RecordBytes {
		return fmt.Errorf("%w: %d bytes, limit %d", ErrTooLarge, largest, cfg.RecordBytes)
	}
	return nil
}

// Update adds to a running record and returns when that is durable: a job that
// makes events in the meantime appends them together with the next call. It
// returns ErrFinished, ErrNotFound, ErrTooLarge, *DamageError, *ReadOnlyError,
// ErrClosed or ctx's error; after the last it may be stored or not. The bytes in update
// must not change until Update returns nil.
func (s *Store) Update(ctx context.Context, owner, id string, update Update) error {
	if err := s.cfg.takes(update.Object); err != nil {
		return err
	}
	err := s.submit(ctx, id, len(update.Object)+total(update.Events), func(t *txn) error { return t.update(owner, id, &update) })
	return s.suffered(id, err)
}

// Cancel notes that somebody asked for the end of a background job, so that a
// crash before its last Update does not turn a cancelled job into a failed one. On
// a finished job it does nothing. Errors: those of Update but ErrFinished and ErrTooLarge,
// and ErrNotBackground. Beside a Delete of the record it succeeds, or is ErrNotFound.
func (s *Store) Cancel(ctx context.Context, owner, id string) error {
	return s.suffered(id, s.submit(ctx, id, 0, func(t *txn) error { return t.cancel(owner, id) }))
}

// Delete removes a record, running or not; a running one takes no more updates.
// It works on damaged records, too. Errors: ErrNotFound, *ReadOnlyError, ErrClosed
// or ctx's error.
func (s *Store) Delete(ctx context.Context, owner, id string) error {
	err := s.submit(ctx, id, 0, func(t *txn) error { return t.delete(owner, id) })
	if err == nil {
		s.stateMu.Lock()
		defer s.stateMu.Unlock()
		delete(s.hurt, id)
	}
	return err
}

// total is the bytes of all parts together.
func total(parts [][]byte) int {
	size := 0
	for _, part := range parts {
		size += len(part)
	}
	return size
}
