package store

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"go.etcd.io/bbolt"

	"ossian/internal/soak"
)

// writeAt is how the database writes: data pages in order, then, behind a sync,
// one meta page, which is below metaEnd.
type writeAt = func(b []byte, off int64) (int, error)

const metaEnd = 2 * pageSize

// hookWrites puts wrap between a database and its file. The database has a place
// for that, but not an exported one.
func hookWrites(db *bbolt.DB, wrap func(next writeAt) writeAt) {
	field := reflect.ValueOf(db).Elem().FieldByName("ops").FieldByName("writeAt")
	p := (*writeAt)(unsafe.Pointer(field.UnsafeAddr()))
	*p = wrap(*p)
}

// startChild runs this test binary as a program that child describes. What it says has to
// be read before it is waited for, or is lost.
func startChild(t *testing.T, args ...string) (cmd *exec.Cmd, out *bufio.Scanner) {
	t.Helper()
	cmd = exec.Command(os.Args[0], append([]string{"--"}, args...)...)
	_, err := cmd.StdinPipe() // open for as long as this process lives
	check(t, err)
	stdout, err := cmd.StdoutPipe()
	check(t, err)
	cmd.Stderr = os.Stderr
	check(t, cmd.Start())
	t.Cleanup(func() { stopChild(cmd) })
	return cmd, bufio.NewScanner(stdout)
}

// stopChild kills a child that has not ended, and waits.
func stopChild(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // a kill is what it ends with
}

// child is what the binary does when it is started with arguments: hold DIR, key DIR,
// or crash DIR SEED POINT COUNT.
func child(args []string) int {
	c := Config{Dir: args[1]}
	if args[0] == "key" {
		return sayKey(c)
	}
	if args[0] == "crash" {
		count, err := strconv.Atoi(args[4])
		if err != nil {
			panic(err)
		}
		c.opened = func(db *bbolt.DB) { hookWrites(db, func(next writeAt) writeAt { return dieAt(args[3], count, next) }) }
	}
	s, err := Open(c)
	if err != nil {
		fmt.Println("error open 0:", err)
		return 1
	}
	if args[0] == "hold" {
		fmt.Println("ready")
		_, _ = io.Copy(io.Discard, os.Stdin) // until the parent closes it
		_ = s.Close()
		return 0
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() { scribble(s, args[2], g) })
	}
	wg.Wait()
	return 0
}

// sayKey waits until the store is free and says its key.
func sayKey(c Config) int {
	s, err := Open(c)
	for ; errors.Is(err, ErrLocked); s, err = Open(c) {
		time.Sleep(time.Millisecond)
	}
	if err != nil {
		fmt.Println("error:", err)
		return 1
	}
	key, err := s.Key()
	if err = errors.Join(err, s.Close()); err != nil {
		fmt.Println("error:", err)
		return 1
	}
	fmt.Printf("%x\n", *key)
	return 0
}

// die is a kill: nothing of this process runs after it.
func die() {
	p, _ := os.FindProcess(os.Getpid())
	_ = p.Kill()
	select {}
}

// dieAt kills the process at a named point of the count-th write it names.
func dieAt(point string, count int, next writeAt) writeAt {
	return func(b []byte, off int64) (int, error) {
		if meta := off < metaEnd; meta == strings.Contains(point, "meta") {
			count--
		}
		if count != 0 {
			return next(b, off)
		}
		switch point {
		case "before data", "before meta":
			die()
		case "half of data", "half of meta":
			_, _ = next(b[:len(b)/2], off)
			die()
		case "within meta": // the page's 80 bytes are torn
			_, _ = next(b[:48], off)
			die()
		case "after data", "after meta":
			_, _ = next(b, off)
			die()
		}
		return next(b, off)
	}
}

var points = []string{"before data", "half of data", "after data", "before meta", "half of meta", "within meta", "after meta"}

// A record of the crash test has version v after its v-th change: 3v events and an
// object that says v. gone is the version of a deleted one.
const gone = 1000

func versionObject(id string, v int) []byte {
	return text(fmt.Sprint(id, " version ", v), 10+v*v*977%20000)
}

// scribble changes records of its own until the process dies, and says what it is
// about to do and what was acknowledged.
func scribble(s *Store, seed string, g int) {
	rng := rand.New(rand.NewPCG(uint64(g), uint64(len(seed))))
	ctx := context.Background()
	do := func(id string, v int, f func() error) {
		fmt.Printf("try %s %d\n", id, v)
		if err := f(); err != nil {
			fmt.Printf("error %s %d: %v\n", id, v, err)
			os.Exit(1)
		}
		fmt.Printf("ack %s %d\n", id, v)
	}
	for n := 0; ; n++ {
		id := fmt.Sprintf("r_%s_%d_%d", seed, g, n)
		do(id, 1, func() error {
			return s.Create(ctx, New{ID: id, Owner: "o", Object: versionObject(id, 1), Events: events(id, 0, 3), Refs: []string{"m" + id}})
		})
		last := 2 + rng.IntN(6)
		for v := 2; v <= last; v++ {
			do(id, v, func() error {
				return s.Update(ctx, "o", id, Update{Object: versionObject(id, v), Events: events(id, 3*v-3, 3*v), Done: v == last})
			})
		}
		if rng.IntN(3) == 0 {
			do(id, gone, func() error { return s.Delete(ctx, "o", id) })
		}
	}
}

// tried holds the last change of a record that was begun, the last that was
// acknowledged, and how many were.
type tried struct{ try, ack, acks int }

// DUR-1: 10 000 kills with a release. What a kill leaves behind is what the next process
// begins with, eight times in a row.
func TestDUR1Kills(t *testing.T) {
	const perStore = 8
	var dir string
	var all map[string]tried
	n, records, acks := soak.Cases(t, 14, 10_000), 0, 0
	for i := range n {
		if i%perStore == 0 {
			dir, all = t.TempDir(), map[string]tried{}
		}
		rng := rand.New(rand.NewPCG(7, uint64(i)))
		point, count := points[i%len(points)], 1+rng.IntN(60)
		switch i % 6 {
		case 2:
			point = "any time"
		case 5:
			point = "any time behind the first change"
		}
		killOne(t, dir, i, point, count, all)
		if verify(t, dir, all); t.Failed() {
			t.Fatalf("case %d: kill %q %d", i, point, count)
		}
		if i%perStore == perStore-1 || i == n-1 {
			check(t, os.RemoveAll(dir))
			records += len(all)
			for _, r := range all {
				acks += r.acks
			}
		}
	}
	t.Logf("DUR-1: %d kills, %d records begun, %d changes acknowledged, nothing acknowledged lost, nothing torn", n, records, acks)
	if records < n/2 || acks < n/2 {
		t.Error("the processes died before they had done anything")
	}
}

// killOne runs a child until it dies and notes in all what it said.
func killOne(t *testing.T, dir string, i int, point string, count int, all map[string]tried) {
	t.Helper()
	cmd, out := startChild(t, "crash", dir, strconv.Itoa(i), point, strconv.Itoa(count))
	defer stopChild(cmd)
	var timer *time.Timer
	kill := func() {
		timer = time.AfterFunc(time.Duration(count)*time.Millisecond, func() { _ = cmd.Process.Kill() })
	}
	if point == "any time" {
		kill()
	}
	for out.Scan() {
		if timer == nil && point == "any time behind the first change" {
			kill()
		}
		var what, id string
		var v int
		if _, err := fmt.Sscan(out.Text(), &what, &id, &v); err != nil || what == "error" {
			t.Fatalf("case %d: the child said %q", i, out.Text())
		}
		r := all[id]
		if r.try = v; what == "ack" {
			r.ack = v
			r.acks++
		}
		all[id] = r
	}
	if timer != nil {
		timer.Stop()
	}
}

// verify opens the store and compares it with what was acknowledged.
func verify(t *testing.T, dir string, all map[string]tried) {
	t.Helper()
	s, err := Open(Config{Dir: dir})
	check(t, err)
	for id, r := range all {
		got, err := s.Get("o", id)
		if err != nil {
			if (r.ack != 0 && r.try != gone) || err.Error() != ErrNotFound.Error() {
				t.Errorf("%s: begun %d, acknowledged %d, found %v", id, r.try, r.ack, err)
			}
			continue
		}
		v := got.Events / 3
		if (v != r.ack && v != r.try) || r.ack == gone || !bytes.Equal(got.Object, versionObject(id, v)) || got.State != Finished {
			t.Errorf("%s: begun %d, acknowledged %d, found %d events, state %s, %.40q", id, r.try, r.ack, got.Events, got.State, got.Object)
		}
		same(t, id, allEvents(t, s, "o", id, -1), events(id, 0, 3*v))
		if owner, err := s.Find("o", "m"+id); owner != id || err != nil {
			t.Errorf("item of %s: %q, %v", id, owner, err)
		}
	}
	check(t, s.Close())
	if r, err := Check(dir); err != nil || len(r.Damaged)+len(r.Structure) > 0 {
		t.Errorf("check: %+v, %v", r, err)
	}
}

// commitLog is what one transaction wrote.
type commitLog struct {
	data []write
	meta write
}

type write struct {
	off int64
	b   []byte
}

// recordCommits runs a workload and returns the file as it was at its start, with
// room for all of it, and what every transaction wrote.
func recordCommits(t *testing.T, changes int) (base []byte, log []commitLog) {
	t.Helper()
	var current commitLog
	dir := t.TempDir()
	s := open(t, Config{Dir: dir, Records: 25, opened: func(db *bbolt.DB) {
		db.NoSync = true // TestDUR3Faults shows where the syncs are
		hookWrites(db, func(next writeAt) writeAt {
			return func(b []byte, off int64) (int, error) {
				w := write{off, bytes.Clone(b)}
				if off < metaEnd {
					current.meta = w
					log, current = append(log, current), commitLog{}
				} else {
					current.data = append(current.data, w)
				}
				return next(b, off)
			}
		})
	}})
	base, err := os.ReadFile(s.path())
	check(t, err)
	ctx := t.Context()
	rng := rand.New(rand.NewPCG(3, 3))
	var group sync.WaitGroup
	var ids atomic.Int64
	for range changes / 4 {
		for range 1 + rng.IntN(3) { // so that some share a transaction
			size := rng.IntN(9000)
			group.Go(func() {
				id := fmt.Sprint("r", ids.Add(1))
				err := s.Create(ctx, New{ID: id, Owner: "o", Object: text(id, size), Events: events(id, 0, 2)})
				err = errors.Join(err, s.Update(ctx, "o", id, Update{Events: events(id, 2, 9), Object: text(id, size/2), Done: true}))
				if size%4 == 0 {
					err = errors.Join(err, s.Delete(ctx, "o", id))
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
	}
	check(t, s.Close())
	for _, c := range log {
		for _, w := range c.data {
			if more := int(w.off) + len(w.b) - len(base); more > 0 {
				base = append(base, make([]byte, more)...)
			}
		}
	}
	return base, log
}

// fingerprint reads a file image without the database and returns a number that
// says what is in it.
func fingerprint(t *testing.T, img []byte) uint64 {
	t.Helper()
	im, err := openImage(bytes.NewReader(img), int64(len(img)), 0)
	check(t, err)
	h := uint64(14695981039346656037)
	check(t, im.inspect(func(e *element) error {
		v, err := e.value()
		h = (h ^ uint64(im.salt.sum(e.bucket, e.key, v))) * 1099511628211
		return err
	}))
	if im.treeErr != nil || im.freeErr != nil {
		t.Errorf("the file is damaged: %v, %v", im.treeErr, im.freeErr)
	}
	return h
}

// DUR-1, power loss: before a sync any sectors of what was written may be on the
// disk, in any order; the file must hold the state before the transaction, or once
// the meta page was written the one after it. 1 000 000 points with a release.
func TestDUR1PowerLoss(t *testing.T) {
	const sector = 512
	base, log := recordCommits(t, 60)
	if len(log) < 20 {
		t.Fatalf("%d transactions recorded", len(log))
	}
	per := soak.Cases(t, 2_000, 1_000_000)/len(log) + 1
	rng := rand.New(rand.NewPCG(1, 2))
	before := fingerprint(t, base)
	disk := bytes.Clone(base)
	put := func(w write, at, n int) { copy(disk[int(w.off)+at:], w.b[at:at+n]) }
	for c, l := range log {
		full := bytes.Clone(base)
		for _, w := range append(l.data, l.meta) {
			copy(full[w.off:], w.b)
		}
		after := fingerprint(t, full)
		for i := range per {
			share := []float64{0, 0.05, 0.5, 0.95, 1}[rng.IntN(5)]
			metaToo := i%4 == 0
			for _, w := range l.data {
				for at := 0; at < len(w.b); at += sector {
					if metaToo || rng.Float64() < share {
						put(w, at, sector)
					}
				}
			}
			if metaToo { // torn at any byte, though disks write sectors whole
				put(l.meta, 0, rng.IntN(pageHeader+metaLength+2))
			}
			if got := fingerprint(t, disk); (got != before && (got != after || !metaToo)) || t.Failed() {
				t.Fatalf("transaction %d, point %d, meta page written %v: neither the state before nor after", c, i, metaToo)
			}
			for _, w := range append(l.data, l.meta) {
				copy(disk[w.off:], base[w.off:int(w.off)+len(w.b)])
			}
		}
		copy(base, full)
		copy(disk, full)
		before = after
	}
	t.Logf("DUR-1: power lost at %d points of %d transactions: the state before or after each", per*len(log), len(log))
}

// A head that becomes shorter by a part leaves nothing of it behind.
func TestHeadBecomesShorter(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	for n := chunk - 200; n < chunk-100; n++ { // one of these lengths is it
		id := fmt.Sprint("job", n)
		check(t, s.Create(t.Context(), New{ID: id, Owner: "o", Background: true, Refs: references(n)}))
		check(t, s.Cancel(t.Context(), "o", id))
		check(t, s.Update(t.Context(), "o", id, Update{Done: true}))
	}
	check(t, s.Close())
	if r, err := Check(dir); err != nil || len(r.Damaged) > 0 {
		t.Errorf("%v, damaged: %v", err, r.Damaged)
	}
}

// references are names that take n bytes as JSON.
func references(n int) (refs []string) {
	for size := 0; size < n; {
		r := strings.Repeat("r", min(200, max(n-size-3, 1)))
		refs, size = append(refs, r), size+len(r)+3
	}
	return refs
}
