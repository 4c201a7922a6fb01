package store

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestMain lets the crash tests start this binary as a program of its own. What a store
// says of damage is looked at where a test gives it a log.
func TestMain(m *testing.M) {
	flag.Parse()
	slog.SetDefault(slog.New(slog.DiscardHandler))
	if flag.NArg() > 0 {
		os.Exit(child(flag.Args()))
	}
	os.Exit(m.Run())
}

func open(t testing.TB, c Config) *Store {
	t.Helper()
	s, err := Open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, s.Close()) })
	return s
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantErr(t testing.TB, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: error %v, want %v", what, got, want)
	}
}

// text makes n bytes that say what they belong to.
func text(what string, n int) []byte {
	return []byte(strings.Repeat(what+" ", n/(len(what)+1)+1)[:n])
}

func events(id string, from, to int) [][]byte {
	var out [][]byte
	for i := from; i < to; i++ {
		out = append(out, text(fmt.Sprintf("%s event %d", id, i), 20+i*37%400))
	}
	return out
}

// allEvents reads what there is.
func allEvents(t testing.TB, s *Store, owner, id string, after int) [][]byte {
	t.Helper()
	var out [][]byte
	for {
		got, done, err := s.Events(t.Context(), owner, id, max(after, -1)+len(out))
		if err != nil {
			t.Error(err)
		}
		if out = append(out, got...); done || err != nil {
			return out
		}
	}
}

func same(t testing.TB, what string, got, want [][]byte) {
	t.Helper()
	if !slices.EqualFunc(got, want, bytes.Equal) {
		t.Errorf("%s: got %d values %.200q, want %d %.200q", what, len(got), got, len(want), want)
	}
}

func TestRecord(t *testing.T) {
	now := time.Unix(1_800_000_000, 5)
	dir := t.TempDir()
	s := open(t, Config{Dir: dir, Now: func() time.Time { return now }})
	ctx := t.Context()
	big := text("object", 5*chunk+17)
	inputs := []Item{{"in_0", text("first", 10)}, {"in_1", text("second", 3*chunk)}, {"", nil}}
	check(t, s.Create(ctx, New{ID: "resp_1", Owner: "anna", Background: true, Object: text("queued", 30), Items: inputs, Events: events("resp_1", 0, 2)}))

	got, err := s.Get("anna", "resp_1")
	check(t, err)
	if got.State != Running || !got.Background || !got.Created.Equal(now) || got.Items != 3 || got.Events != 2 || string(got.Object) != string(text("queued", 30)) {
		t.Errorf("created record: %+v", got)
	}
	check(t, s.Update(ctx, "anna", "resp_1", Update{Events: events("resp_1", 2, 700)}))
	check(t, s.Update(ctx, "anna", "resp_1", Update{Events: [][]byte{text("huge", 2*eventBytesAtOnce)}, Object: big}))
	check(t, s.Cancel(ctx, "anna", "resp_1"))
	check(t, s.Cancel(ctx, "anna", "resp_1"))
	if got, err = s.Get("anna", "resp_1"); err != nil || got.State != Cancelling || !bytes.Equal(got.Object, big) {
		t.Errorf("cancelled record: state %s, object of %d bytes, error %v", got.State, len(got.Object), err)
	}
	small := text("done", 3)
	check(t, s.Update(ctx, "anna", "resp_1", Update{Object: small, Refs: []string{"msg_1"}, Done: true}))
	wantErr(t, "update of a finished record", s.Update(ctx, "anna", "resp_1", Update{}), ErrFinished)
	check(t, s.Cancel(ctx, "anna", "resp_1"))
	wantErr(t, "second record of that id", s.Create(ctx, New{ID: "resp_1", Owner: "anna"}), ErrExists)

	check(t, s.Create(ctx, New{ID: "resp_2", Owner: "anna", Previous: "resp_1", Done: true, Object: []byte("{}"), Refs: []string{"msg_2"}}))
	wantErr(t, "cancel of what is no job", s.Cancel(ctx, "anna", "resp_2"), ErrNotBackground)
	check(t, s.Close())

	s = open(t, Config{Dir: dir})
	if got, err = s.Get("anna", "resp_1"); err != nil || got.State != Finished || !bytes.Equal(got.Object, small) {
		t.Errorf("after reopening: %+v, %v", got, err)
	}
	want := append(events("resp_1", 0, 700), text("huge", 2*eventBytesAtOnce))
	for _, after := range []int{math.MinInt, -1, 0, 1, 2, 350, 699, 700, 701, math.MaxInt} {
		same(t, fmt.Sprintf("events after %d", after), allEvents(t, s, "anna", "resp_1", after), want[max(min(after, 700), -1)+1:])
	}
	links, err := s.Chain("anna", "resp_2", 2)
	if err != nil || len(links) != 2 || links[0].ID != "resp_1" || links[1].ID != "resp_2" || !slices.EqualFunc(links[0].Inputs, inputs, sameItem) {
		t.Errorf("chain: %+v, %v", links, err)
	}
	_, err = s.Chain("anna", "resp_2", 1)
	wantErr(t, "chain of two with one allowed", err, ErrTooLong)
	if id, err := s.Find("anna", "msg_1"); id != "resp_1" || err != nil {
		t.Errorf("Find: %q, %v", id, err)
	}
	if n := s.Stats().Records; n != 2 {
		t.Errorf("%d records, want 2", n)
	}
	check(t, s.Delete(ctx, "anna", "resp_1"))
	wantErr(t, "second delete", s.Delete(ctx, "anna", "resp_1"), ErrNotFound)
	_, err = s.Find("anna", "msg_1")
	wantErr(t, "item of a deleted response", err, ErrNotFound)
	_, err = s.Chain("anna", "resp_2", 9)
	wantErr(t, "chain with a deleted response", err, ErrNotFound)
	if gone, ok := errors.AsType[*MissingError](err); !ok || gone.ID != "resp_1" || gone.Before != "resp_2" {
		t.Errorf("%v does not say that resp_2 goes on from resp_1", err)
	}
	if n := s.Stats().Records; n != 1 {
		t.Errorf("%d records after the delete, want 1", n)
	}
	if n := countData(t, s, 1); n != 0 {
		t.Errorf("%d values are left of the deleted record", n)
	}
}

func sameItem(a, b Item) bool { return a.ID == b.ID && bytes.Equal(a.Data, b.Data) }

// countData counts the values of record num.
func countData(t *testing.T, s *Store, num uint64) (n int) {
	t.Helper()
	check(t, s.view(func(tx *txn) error {
		c := tx.bucket(data).Cursor()
		for k, _ := c.Seek(numKey(num)); bytes.HasPrefix(k, numKey(num)); k, _ = c.Next() {
			n++
		}
		return nil
	}))
	return n
}

func TestItems(t *testing.T) {
	s := open(t, Config{Dir: t.TempDir()})
	var items []Item
	for i := range 7 {
		items = append(items, Item{fmt.Sprint("i", i), fmt.Appendf(nil, "item %d", i)})
	}
	check(t, s.Create(t.Context(), New{ID: "r", Owner: "o", Items: items, Done: true}))
	check(t, s.Create(t.Context(), New{ID: "empty", Owner: "o", Done: true}))
	for _, c := range []struct {
		name, id string
		page     Page
		want     string
		more     bool
		err      error
	}{
		{"first page, newest first", "r", Page{Limit: 3}, "i6 i5 i4", true, nil},
		{"next page", "r", Page{Limit: 3, After: "i4"}, "i3 i2 i1", true, nil},
		{"last page", "r", Page{Limit: 3, After: "i1"}, "i0", false, nil},
		{"behind the last", "r", Page{Limit: 3, After: "i0"}, "", false, nil},
		{"exactly all", "r", Page{Limit: 7, Ascending: true}, "i0 i1 i2 i3 i4 i5 i6", false, nil},
		{"ascending", "r", Page{Limit: 2, After: "i1", Ascending: true}, "i2 i3", true, nil},
		{"no such item", "r", Page{Limit: 2, After: "i9"}, "", false, ErrNotFound},
		{"no items", "empty", Page{Limit: 2}, "", false, nil},
		{"no record", "x", Page{Limit: 2}, "", false, ErrNotFound},
	} {
		got, more, err := s.Items("o", c.id, c.page)
		var names []string
		for _, it := range got {
			names = append(names, it.ID)
			if string(it.Data) != "item "+it.ID[1:] {
				t.Errorf("%s: item %s holds %q", c.name, it.ID, it.Data)
			}
		}
		if strings.Join(names, " ") != c.want || more != c.more || !errors.Is(err, c.err) {
			t.Errorf("%s: %v, more %v, error %v; want %s, %v, %v", c.name, names, more, err, c.want, c.more, c.err)
		}
	}
}

func TestLimits(t *testing.T) {
	s := open(t, Config{Dir: t.TempDir(), RecordBytes: 1000})
	ctx := t.Context()
	for _, c := range []struct {
		name string
		n    New
		ok   bool
	}{
		{"object at the limit", New{Object: make([]byte, 1000)}, true},
		{"object over it", New{Object: make([]byte, 1001)}, false},
		{"items at the limit", New{Items: []Item{{"a", make([]byte, 499)}, {"b", make([]byte, 499)}}}, true},
		{"items over it", New{Items: []Item{{"a", make([]byte, 499)}, {"b", make([]byte, 500)}}}, false},
		{"item id over its limit", New{Items: []Item{{strings.Repeat("i", 1<<16), nil}}}, false},
		{"reference over its limit", New{Refs: []string{strings.Repeat("i", maxName+1)}}, false},
		{"events over their limit", New{Events: [][]byte{make([]byte, maxEvents)}}, false},
	} {
		c.n.ID, c.n.Owner = c.name, "o"
		if err := s.Create(ctx, c.n); errors.Is(err, ErrTooLarge) == c.ok || (err == nil) != c.ok {
			t.Errorf("%s: error %v, want it accepted: %v", c.name, err, c.ok)
		}
	}
	m, err := NewMemory(Config{Bytes: 1 << 20, RecordBytes: 1000})
	check(t, err)
	check(t, m.Create(ctx, New{ID: "job", Owner: "o", Background: true}))
	check(t, s.Create(ctx, New{ID: "job", Owner: "o", Background: true}))
	for _, update := range []func(context.Context, string, string, Update) error{s.Update, m.Update} {
		if err := update(ctx, "o", "job", Update{Object: make([]byte, 1001)}); !errors.Is(err, ErrTooLarge) {
			t.Errorf("an update over the limit: %v", err)
		}
		check(t, update(ctx, "o", "job", Update{Object: make([]byte, 1000)}))
	}
	for _, n := range []New{{ID: "", Owner: "o"}, {ID: "i"}, {ID: strings.Repeat("i", maxName+1), Owner: "o"}, {ID: "i", Owner: strings.Repeat("o", maxName+1)}} {
		if s.Create(ctx, n) == nil {
			t.Errorf("a record with an id of %d bytes and an owner of %d was accepted", len(n.ID), len(n.Owner))
		}
	}
	for _, c := range []Config{{}, {Dir: "x", Age: -1}, {Dir: "x", Bytes: -1}, {Dir: "x", Records: -1}, {Dir: "x", RecordBytes: maxEvents + 1}, {Dir: "x", Retry: -1}} {
		if _, err := c.withDefaults(); err == nil {
			t.Errorf("configuration %+v was accepted", c)
		}
	}
}

// DUR-7: every operation × everybody who is not the owner, with ids that exist,
// are made up, or are what the database uses inside.
func TestDUR7Ownership(t *testing.T) {
	s := open(t, Config{Dir: t.TempDir()})
	ctx := t.Context()
	make1 := func(id, owner, previous string) {
		check(t, s.Create(ctx, New{ID: id, Owner: owner, Previous: previous, Background: true, Object: []byte("secret"), Events: [][]byte{[]byte("secret")},
			Items: []Item{{"in_" + id, []byte("secret")}}, Refs: []string{"msg_" + id}}))
	}
	make1("resp_a", "anna", "")
	make1("resp_b", "bert", "resp_a") // a chain into another owner's response
	operations := map[string]func(owner, id string) error{
		"get":    func(o, id string) error { _, err := s.Get(o, id); return err },
		"items":  func(o, id string) error { _, _, err := s.Items(o, id, Page{Limit: 9}); return err },
		"events": func(o, id string) error { _, _, err := s.Events(ctx, o, id, -1); return err },
		"chain":  func(o, id string) error { _, err := s.Chain(o, id, 9); return err },
		"find":   func(o, id string) error { _, err := s.Find(o, "msg_"+id); return err },
		"update": func(o, id string) error { return s.Update(ctx, o, id, Update{Done: true, Object: []byte("forged")}) },
		"cancel": func(o, id string) error { return s.Cancel(ctx, o, id) },
		"delete": func(o, id string) error { return s.Delete(ctx, o, id) },
	}
	unknown := ErrNotFound.Error()
	for name, do := range operations {
		for _, owner := range []string{"bert", "", "Anna", "anna ", "anna\x00", "ann"} {
			if err := do(owner, "resp_a"); err == nil || err.Error() != unknown {
				t.Errorf("%s of another's record by %q: %v, want exactly %q", name, owner, err, unknown)
			}
		}
		for _, id := range []string{"resp_", "resp_aa", "", "resp_a\x00", string(numKey(1)), string(dataKey(1, kindObject, 0, 0)), strings.Repeat("x", 1<<16), "format"} {
			if err := do("anna", id); err == nil || err.Error() != unknown {
				t.Errorf("%s of %q: %v, want exactly %q", name, id, err, unknown)
			}
		}
	}
	_, err := s.Chain("bert", "resp_b", 9)
	make1("resp_c", "bert", "resp_0") // into one that never was: the same but for the ids
	_, absent := s.Chain("bert", "resp_c", 9)
	if wantErr(t, "chain into another's response", err, ErrNotFound); absent == nil || err.Error() != strings.NewReplacer("resp_c", "resp_b", "resp_0", "resp_a").Replace(absent.Error()) {
		t.Errorf("chain into another's response: %v, into none: %v", err, absent)
	}
	if r, err := s.Get("anna", "resp_a"); err != nil || string(r.Object) != "secret" || r.State != Running {
		t.Errorf("the owner's record after all that: %+v, %v", r, err)
	}
	for name, do := range operations { // the same calls by the owner work: delete last
		if name != "delete" && name != "cancel" && name != "update" {
			if err := do("anna", "resp_a"); err != nil {
				t.Errorf("%s by the owner: %v", name, err)
			}
		}
	}
	for _, name := range []string{"cancel", "update", "delete"} {
		check(t, operations[name]("anna", "resp_a"))
	}
}

// Readers of a running job get every event once, in order, whenever they come.
func TestLiveEvents(t *testing.T) {
	s := open(t, Config{Dir: t.TempDir()})
	ctx := t.Context()
	check(t, s.Create(ctx, New{ID: "job", Owner: "o", Background: true}))
	const n = 300
	want := events("job", 0, n)
	var wg sync.WaitGroup
	for r := range 8 {
		wg.Go(func() {
			after := r*7 - 1
			same(t, fmt.Sprintf("reader %d", r), allEvents(t, s, "o", "job", after), want[after+1:])
		})
	}
	for i := 0; i < n; i += 3 {
		check(t, s.Update(ctx, "o", "job", Update{Events: want[i : i+3], Done: i+3 == n}))
	}
	wg.Wait()

	check(t, s.Create(ctx, New{ID: "gone", Owner: "o", Background: true}))
	check(t, s.Create(ctx, New{ID: "slow", Owner: "o", Background: true}))
	short, cancel := context.WithCancel(ctx)
	for _, c := range []struct {
		name, id string
		ctx      context.Context
		end      func() error
		want     error
	}{
		{"deleted while waiting", "gone", ctx, func() error { return s.Delete(ctx, "o", "gone") }, ErrNotFound},
		{"given up", "slow", short, func() error { cancel(); return nil }, context.Canceled},
		{"closed while waiting", "slow", ctx, s.Close, ErrClosed},
	} {
		got := make(chan error)
		go func() {
			_, _, err := s.Events(c.ctx, "o", c.id, -1)
			got <- err
		}()
		time.Sleep(time.Millisecond)
		check(t, c.end())
		wantErr(t, c.name, <-got, c.want)
	}
	if len(s.live) > 1 {
		t.Errorf("%d records are still waited for", len(s.live))
	}
	_, err := s.Get("o", "job")
	wantErr(t, "get after Close", err, ErrClosed)
	wantErr(t, "create after Close", s.Create(ctx, New{ID: "x", Owner: "o"}), ErrClosed)
}

// DUR-5: what a crash cut off is finished when the store opens.
func TestDUR5Interrupted(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	ctx := t.Context()
	for _, id := range []string{"job", "asked", "done"} {
		check(t, s.Create(ctx, New{ID: id, Owner: "o", Background: true, Object: []byte("running " + id), Events: events(id, 0, 3)}))
	}
	check(t, s.Cancel(ctx, "o", "asked"))
	check(t, s.Update(ctx, "o", "done", Update{Done: true}))
	check(t, s.Update(ctx, "o", "job", Update{Note: "first"}))
	check(t, s.Update(ctx, "o", "job", Update{Note: "last"}))
	check(t, s.Update(ctx, "o", "job", Update{}))
	check(t, s.Close())

	s = open(t, Config{Dir: dir, Interrupted: func(r Record, before iter.Seq[[]byte]) Update {
		same(t, r.ID+" before", slices.Collect(before), events(r.ID, 0, 3))
		return Update{Object: fmt.Appendf(nil, "%s, was %s, %s", r.Object, r.State, r.Note), Events: [][]byte{fmt.Appendf(nil, "end %d", r.Events)}}
	}})
	for id, want := range map[string]string{"job": "running job, was running, last", "asked": "running asked, was cancelling, ", "done": "running done"} {
		r, err := s.Get("o", id)
		if err != nil || r.State != Finished || string(r.Object) != want {
			t.Errorf("%s: %+v, %v; want %q, finished", id, r, err, want)
		}
		wantEvents := events(id, 0, 3)
		if id != "done" {
			wantEvents = append(wantEvents, []byte("end 3"))
		}
		same(t, id, allEvents(t, s, "o", id, -1), wantEvents)
	}
}

// DUR-6: the oldest finished records go when there are too many, too old ones or
// too many bytes; running ones stay.
func TestDUR6Bounds(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	s := open(t, Config{Dir: t.TempDir(), Records: 10, Age: time.Hour, Now: func() time.Time { return now }})
	ctx := t.Context()
	check(t, s.Create(ctx, New{ID: "running", Owner: "o"}))
	for i := range 30 {
		check(t, s.Create(ctx, New{ID: fmt.Sprint(i), Owner: "o", Done: true, Refs: []string{fmt.Sprint("m", i)}}))
	}
	for i := range 30 {
		_, err := s.Get("o", fmt.Sprint(i))
		if kept := i >= 21; (err == nil) != kept || (!kept && !errors.Is(err, ErrNotFound)) {
			t.Errorf("record %d of 30 with room for 9: %v", i, err)
		}
	}
	now = now.Add(2 * time.Hour)
	check(t, s.Create(ctx, New{ID: "new", Owner: "o", Done: true}))
	if n := s.Stats().Records; n != 2 {
		t.Errorf("%d records after two hours, want the running one and the new one", n)
	}
	if _, err := s.Get("o", "running"); err != nil {
		t.Error(err)
	}
}

func TestDUR6ByteBound(t *testing.T) {
	dir := t.TempDir()
	const bound = 2 << 20
	s := open(t, Config{Dir: dir, Bytes: bound})
	largest := int64(0)
	for i := range 400 {
		check(t, s.Create(t.Context(), New{ID: fmt.Sprint(i), Owner: "o", Done: true, Object: text("x", 1+i*7919%60000)}))
		info, err := os.Stat(s.path())
		check(t, err)
		largest = max(largest, info.Size())
		if used := s.Stats().Bytes; i > 100 && (used > bound*11/10 || used < bound/2) {
			t.Fatalf("after %d records: %d bytes are used, bound %d", i, used, bound)
		}
	}
	if largest > 2*bound { // the database grows its file by doubling while it is small
		t.Errorf("the file grew to %d bytes, bound %d", largest, bound)
	}
	if _, err := s.Get("o", "399"); err != nil {
		t.Error(err)
	}
}

// DUR-9.
func TestDUR9TwoProcesses(t *testing.T) {
	dir := t.TempDir()
	cmd, hold := startChild(t, "hold", dir)
	if !hold.Scan() || hold.Text() != "ready" {
		t.Fatalf("the first process said %q", hold.Text())
	}
	_, err := Open(Config{Dir: dir})
	wantErr(t, "open of a store in use", err, ErrLocked)
	_, err = Check(dir)
	wantErr(t, "check of a store in use", err, ErrLocked)
	stopChild(cmd)
	open(t, Config{Dir: dir})
}

// DUR-9: processes that start together have one key.
func TestDUR9Key(t *testing.T) {
	dir := t.TempDir()
	var said []*bufio.Scanner
	for range 4 {
		_, out := startChild(t, "key", dir)
		said = append(said, out)
	}
	first := ""
	for i, out := range said {
		if out.Scan(); i == 0 {
			first = out.Text()
		}
		if got := out.Text(); got != first || len(got) != 2*keyBytes {
			t.Errorf("process %d has key %q, the first %q", i, got, first)
		}
	}
	s := open(t, Config{Dir: dir})
	if key, err := s.Key(); err != nil || fmt.Sprintf("%x", *key) != first {
		t.Errorf("later the key is %x, %v", key, err)
	}
}

// DUR-1: whatever a crash left of the file that becomes the key, there is a whole key
// afterwards, the same from then on. One that is damaged is not replaced.
func TestDUR1Key(t *testing.T) {
	for _, left := range []int{-1, 0, 5, keyBytes} { // bytes, -1 = no file
		dir := t.TempDir()
		path := filepath.Join(dir, keyName)
		if left >= 0 {
			check(t, os.WriteFile(path+".new", make([]byte, left), 0o600))
		}
		s := open(t, Config{Dir: dir})
		key, err := s.Key()
		check(t, err)
		if *key == [keyBytes]byte{} {
			t.Errorf("%d bytes left: they are the key", left)
		}
		check(t, s.Close())
		_, err = s.Key()
		wantErr(t, "key of a closed store", err, ErrClosed)
		s = open(t, Config{Dir: dir})
		again, err := s.Key()
		check(t, err)
		if *again != *key {
			t.Errorf("%d bytes left: the key has changed", left)
		}
		if _, err := os.Stat(path + ".new"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%d bytes left: %v", left, err)
		}
		check(t, os.Truncate(path, 31))
		if _, err := s.Key(); err == nil || !strings.Contains(err.Error(), "has 31 bytes, expected 32: put back a copy of it, or delete it") {
			t.Errorf("a damaged key: %v", err)
		}
		if data, err := os.ReadFile(path); err != nil || !bytes.Equal(data, key[:31]) {
			t.Errorf("a damaged key was changed: %v", err)
		}
	}
}

// fillGolden makes the records of the golden store.
func fillGolden(t *testing.T, s *Store) {
	t.Helper()
	ctx := t.Context()
	check(t, s.Create(ctx, New{ID: "resp_1", Owner: "anna", Done: true, Object: text("one", 3*chunk), Items: []Item{{"in_1", text("in", 50)}, {"in_2", text("in", chunk)}}, Refs: []string{"msg_1"}}))
	check(t, s.Create(ctx, New{ID: "resp_2", Owner: "anna", Previous: "resp_1", Background: true, Object: []byte("queued"), Events: events("resp_2", 0, 3)}))
	check(t, s.Update(ctx, "anna", "resp_2", Update{Events: events("resp_2", 3, 40)}))
	check(t, s.Update(ctx, "anna", "resp_2", Update{Object: text("two", 900), Events: events("resp_2", 40, 41), Refs: []string{"msg_2"}, Done: true}))
	check(t, s.Create(ctx, New{ID: "resp_3", Owner: "bert", Background: true, Object: []byte("running"), Events: events("resp_3", 0, 2)}))
	check(t, s.Create(ctx, New{ID: "gone", Owner: "bert", Done: true, Object: text("gone", 5000)}))
	check(t, s.Delete(ctx, "bert", "gone"))
}

// compareGolden compares a store with what fillGolden makes, resp_3 interrupted.
func compareGolden(t *testing.T, s *Store) {
	t.Helper()
	links, err := s.Chain("anna", "resp_2", 9)
	check(t, err)
	if len(links) != 2 || !bytes.Equal(links[0].Object, text("one", 3*chunk)) || !bytes.Equal(links[1].Object, text("two", 900)) ||
		len(links[0].Inputs) != 2 || !bytes.Equal(links[0].Inputs[1].Data, text("in", chunk)) {
		t.Errorf("the chain differs: %d links", len(links))
	}
	same(t, "events of resp_2", allEvents(t, s, "anna", "resp_2", -1), events("resp_2", 0, 41))
	same(t, "events of resp_3", allEvents(t, s, "bert", "resp_3", -1), events("resp_3", 0, 2))
	for item, want := range map[string]string{"msg_1": "resp_1", "msg_2": "resp_2"} {
		if id, err := s.Find("anna", item); id != want || err != nil {
			t.Errorf("item %s: %q, %v", item, id, err)
		}
	}
	_, err = s.Get("bert", "gone")
	wantErr(t, "the deleted record", err, ErrNotFound)
	if n := s.Stats().Records; n != 3 {
		t.Errorf("%d records, want 3", n)
	}
}

// goldenDir holds the store that version 1.0 wrote: go test -update on
// fillGolden's records. A later version adds its own and keeps this one.
const goldenDir = "testdata/store-1.0"

// DUR-8: stores of this version stay readable; newer ones are refused untouched.
func TestDUR8Golden(t *testing.T) {
	if *update {
		check(t, os.RemoveAll(goldenDir))
		s, err := Open(Config{Dir: goldenDir, Now: func() time.Time { return time.Now().AddDate(100, 0, 0) }}) // never too old
		check(t, err)
		fillGolden(t, s)
		check(t, s.Close())
		check(t, os.Remove(filepath.Join(goldenDir, "lock")))
	}
	dir := t.TempDir()
	check(t, os.CopyFS(dir, os.DirFS(goldenDir)))
	if r, err := Check(dir); err != nil || r.Records != 3 || len(r.Damaged)+len(r.Structure) > 0 {
		t.Errorf("check: %+v, %v", r, err)
	}
	s := open(t, Config{Dir: dir})
	compareGolden(t, s)
	check(t, s.Close())
	for _, newer := range []format{{1, 1, 0}, {2, 0, 0}} {
		check(t, os.WriteFile(filepath.Join(dir, formatName), []byte(newer.String()), 0o600))
		before := dirBytes(t, dir)
		_, err := Open(Config{Dir: dir})
		wantErr(t, newer.String(), err, ErrVersion)
		_, err = Check(dir)
		wantErr(t, "check of "+newer.String(), err, ErrVersion)
		if dirBytes(t, dir) != before {
			t.Errorf("a refused store of version %d.%d was changed", newer.major, newer.minor)
		}
	}
	for _, bad := range []string{"", "ossian", strings.Replace(format{1, 0, 7}.String(), "1.0", "2.0", 1)} { // damaged: the database has the text, too
		check(t, os.WriteFile(filepath.Join(dir, formatName), []byte(bad), 0o600))
		if r, err := Check(dir); err != nil || len(r.Damaged) > 0 || len(r.Structure) != 1 {
			t.Errorf("check with the format %q: %+v, %v", bad, r, err)
		}
		s := open(t, Config{Dir: dir})
		compareGolden(t, s)
		check(t, s.Close())
		if r, err := Check(dir); err != nil || len(r.Structure) > 0 {
			t.Errorf("check after the format was repaired: %+v, %v", r, err)
		}
	}
}

// dirBytes returns the names and contents of all files in dir.
func dirBytes(t testing.TB, dir string) string {
	t.Helper()
	var all strings.Builder
	files, err := os.ReadDir(dir)
	check(t, err)
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		check(t, err)
		fmt.Fprintf(&all, "%s %d\n%s", f.Name(), len(b), b)
	}
	return all.String()
}
