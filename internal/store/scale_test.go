package store

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"ossian/internal/soak"
)

// DUR-5: a store with a release's 1 000 000 records opens within 2 s.
func TestDUR5StartTime(t *testing.T) {
	dir := t.TempDir()
	check(t, open(t, Config{Dir: dir}).Close())
	f, _, err := findFormat(filepath.Join(dir, databaseName))
	check(t, err)
	db, err := bbolt.Open(filepath.Join(dir, databaseName), 0o600, &bbolt.Options{NoSync: true, FreelistType: bbolt.FreelistMapType})
	check(t, err)
	b := &batch{db: db, salt: f.salt}
	n := soak.Cases(t, 3_000, 1_000_000)
	for i := range n {
		tx, err := b.txn(1000)
		check(t, err)
		tx.next = uint64(i + 1)
		id := fmt.Sprintf("resp_%032x", i*7919)
		check(t, tx.create(&New{ID: id, Owner: "key", Done: i%1000 != 0, Object: text(id, 300), Items: []Item{{id, text(id, 60)}},
			Events: events(id, 0, 1), Refs: []string{"m" + id}}, time.Now()))
	}
	check(t, b.end())
	check(t, db.Close())
	start := time.Now()
	s := open(t, Config{Dir: dir})
	took := time.Since(start)
	t.Logf("DUR-5: %d records, %d MB: open in %v", n, s.Stats().Bytes>>20, took)
	if os.Getenv(soak.Env) != "" && took > 2*time.Second {
		t.Errorf("open took %v, want 2s at most", took)
	}
	if got := s.Stats().Records; got != n {
		t.Errorf("%d records, want %d", got, n)
	}
}

// BenchmarkAcknowledge is DUR-2: one durable record at a time from each of 64
// writers, on this disk, and on one whose sync takes 4 ms.
func BenchmarkAcknowledge(b *testing.B) {
	for _, wait := range []time.Duration{0, 4 * time.Millisecond} {
		b.Run(fmt.Sprint("sync+", wait), func(b *testing.B) {
			var last bool
			transactions := 0
			s := open(b, Config{Dir: b.TempDir(), opened: func(db *bbolt.DB) {
				hookWrites(db, func(next writeAt) writeAt {
					return func(p []byte, off int64) (int, error) {
						if meta := off < metaEnd; meta || last { // the first page and the meta page of a transaction
							time.Sleep(wait)
							last = meta
						}
						if off < metaEnd {
							transactions++
						}
						return next(p, off)
					}
				})
			}})
			n := acknowledge(b, s)
			check(b, s.Close())
			b.ReportMetric(float64(n)/float64(transactions), "acks/transaction")
		})
	}
}

// acknowledge lets 64 writers create records and returns how many they created.
func acknowledge(b *testing.B, s *Store) int64 {
	const writers = 64
	var n atomic.Int64
	var mu sync.Mutex
	var times []time.Duration
	var wg sync.WaitGroup
	work := make(chan struct{})
	for range writers {
		wg.Go(func() {
			var own []time.Duration
			for range work {
				id := fmt.Sprint("resp_", n.Add(1))
				start := time.Now()
				if err := s.Create(b.Context(), New{ID: id, Owner: "o", Object: text(id, 1000), Done: true}); err != nil {
					b.Error(err)
				}
				own = append(own, time.Since(start))
			}
			mu.Lock()
			times = append(times, own...)
			mu.Unlock()
		})
	}
	for b.Loop() {
		work <- struct{}{}
	}
	close(work)
	wg.Wait()
	slices.Sort(times)
	b.ReportMetric(float64(n.Load())/b.Elapsed().Seconds(), "acks/s")
	b.ReportMetric(float64(times[len(times)*99/100].Microseconds())/1000, "p99-ms")
	return n.Load()
}
