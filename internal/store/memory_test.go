package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"ossian/internal/soak"
)

// A keeper is what Store and Memory have in common.
type keeper interface {
	Create(ctx context.Context, n New) error
	Update(ctx context.Context, owner, id string, u Update) error
	Cancel(ctx context.Context, owner, id string) error
	Delete(ctx context.Context, owner, id string) error
	reader
}

type reader interface {
	Get(owner, id string) (Record, error)
	Items(owner, id string, p Page) (items []Item, more bool, err error)
	Chain(owner, id string, most int) ([]Link, error)
	Find(owner, item string) (string, error)
}

// outcome is what a call gave, so that two stores can be compared.
func outcome(err error, values ...any) string {
	if gone, ok := errors.AsType[*MissingError](err); ok {
		return gone.Error()
	}
	for _, known := range []error{ErrNotFound, ErrExists, ErrFinished, ErrNotBackground, ErrTooLarge, ErrTooLong, ErrClosed} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return fmt.Sprintf("%v %+v", err, values)
}

// An operation is one call with chosen arguments.
func operation(rng *rand.Rand) func(ctx context.Context, k keeper) string {
	name := func(prefix string, n int) string { return fmt.Sprint(prefix, rng.IntN(n)) }
	id, owner := name("resp_", 12), name("owner", 2)
	if rng.IntN(20) == 0 {
		owner = ""
	}
	data := func() []byte { return text(name("data", 9), rng.IntN(60)) }
	switch rng.IntN(9) {
	case 0, 1:
		n := New{ID: id, Owner: owner, Background: rng.IntN(2) == 0, Done: rng.IntN(2) == 0, Object: data(), Refs: []string{name("msg_", 20)}}
		if rng.IntN(2) == 0 {
			n.Previous = name("resp_", 12)
		}
		for range rng.IntN(4) {
			n.Items = append(n.Items, Item{name("in_", 5), data()})
		}
		return func(ctx context.Context, k keeper) string { return outcome(k.Create(ctx, n)) }
	case 2, 3:
		u := Update{Done: rng.IntN(3) == 0, Events: [][]byte{data()}, Refs: []string{name("msg_", 20)}}
		if rng.IntN(2) == 0 {
			u.Object = data()
		}
		return func(ctx context.Context, k keeper) string { return outcome(k.Update(ctx, owner, id, u)) }
	case 4:
		return func(ctx context.Context, k keeper) string { return outcome(k.Cancel(ctx, owner, id)) }
	case 5:
		return func(ctx context.Context, k keeper) string { return outcome(k.Delete(ctx, owner, id)) }
	case 6:
		p := Page{Limit: 1 + rng.IntN(3), Ascending: rng.IntN(2) == 0}
		if rng.IntN(2) == 0 {
			p.After = name("in_", 5)
		}
		return func(_ context.Context, k keeper) string {
			items, more, err := k.Items(owner, id, p)
			return outcome(err, items, more)
		}
	case 7:
		return func(_ context.Context, k keeper) string {
			links, err := k.Chain(owner, id, 4)
			return outcome(err, links)
		}
	}
	ref := name("msg_", 20)
	return func(_ context.Context, k keeper) string {
		found, err := k.Find(owner, ref)
		record, err2 := k.Get(owner, id)
		return outcome(err, found) + outcome(err2, record)
	}
}

// What a Memory does is what a Store does.
func TestMemoryIsLikeStore(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	clock := func() time.Time { return now }
	for seed := range soak.Cases(t, 4, 200) {
		rng := rand.New(rand.NewPCG(uint64(seed), 7))
		s := open(t, Config{Dir: t.TempDir(), Now: clock})
		m, err := NewMemory(Config{Bytes: 1 << 20, Now: clock})
		check(t, err)
		for step := range 150 {
			op := operation(rng)
			if got, want := op(t.Context(), m), op(t.Context(), s); got != want {
				t.Fatalf("seed %d, step %d: in memory %s, on disk %s", seed, step, got, want)
			}
		}
		for i := range 12 {
			for _, owner := range []string{"owner0", "owner1"} {
				id := fmt.Sprint("resp_", i)
				if r, err := s.Get(owner, id); err != nil || r.State != Finished {
					continue
				}
				got, done, err := m.Events(t.Context(), owner, id, -1)
				if want := allEvents(t, s, owner, id, -1); err != nil || !done || (!reflect.DeepEqual(got, want) && len(got)+len(want) > 0) {
					t.Errorf("events of %s: %q, %v, %v; want %q", id, got, done, err, want)
				}
			}
		}
		for i := range 12 {
			for _, owner := range []string{"owner0", "owner1"} {
				_ = m.Delete(t.Context(), owner, fmt.Sprint("resp_", i)) // it may not be there
			}
		}
		if st := m.Stats(); st.Records != 0 || st.Bytes != 0 || m.over != 0 {
			t.Errorf("empty, it holds %+v, %d of them finished", st, m.over)
		}
		check(t, m.Close())
		if _, err := m.Get("owner0", "resp_0"); !errors.Is(err, ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	}
}

// Old finished records go before a bound is passed; what runs stays, and what does not
// fit beside it is refused.
func TestMemoryBounds(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	m, err := NewMemory(Config{Bytes: 20 << 10, Records: 4, Age: time.Hour, Now: func() time.Time { return now }})
	check(t, err)
	ctx := t.Context()
	create := func(id string, done bool, size int) error {
		return m.Create(ctx, New{ID: id, Owner: "o", Done: done, Object: text(id, size)})
	}
	has := func(want ...string) {
		t.Helper()
		if n := m.Stats().Records; n != len(want) {
			t.Errorf("%d records, want %v", n, want)
		}
		for _, id := range want {
			if _, err := m.Get("o", id); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		}
	}
	check(t, create("runs", false, 10))
	for i := range 6 {
		check(t, create(fmt.Sprint("r", i), true, 10))
	}
	has("runs", "r3", "r4", "r5")
	check(t, m.Update(ctx, "o", "runs", Update{Events: [][]byte{text("e", 10)}}))
	has("runs", "r3", "r4", "r5")
	check(t, create("large", true, 17<<10))
	has("runs", "large")
	wantErr(t, "more than there is beside what runs", create("larger", true, 20<<10), ErrTooLarge)
	wantErr(t, "too many events", m.Update(ctx, "o", "runs", Update{Events: [][]byte{text("e", 20<<10)}}), ErrTooLarge)
	has("runs", "large") // what is refused costs nobody anything
	wantErr(t, "too many small events", m.Update(ctx, "o", "runs", Update{Events: make([][]byte, 400)}), ErrTooLarge)
	now = now.Add(2 * time.Hour)
	_, err = m.Get("o", "large")
	wantErr(t, "what is too old", err, ErrNotFound)
	has("runs")
	check(t, create("new", true, 10))
	has("runs", "new")
	if n := m.Stats().Bytes; n > 20<<10 || n < 2*memoBytes {
		t.Errorf("%d bytes", n)
	}
}

// Who waits for events gets them, and learns of the end.
func TestMemoryLiveEvents(t *testing.T) {
	t.Parallel()
	m, err := NewMemory(Config{Bytes: 1 << 20})
	check(t, err)
	ctx := t.Context()
	check(t, m.Create(ctx, New{ID: "r", Owner: "o", Background: true}))
	want := events("r", 0, 600)
	read := make(chan [][]byte)
	go func() {
		var got [][]byte
		for {
			more, done, err := m.Events(ctx, "o", "r", len(got)-1)
			if got = append(got, more...); done || err != nil {
				read <- got
				return
			}
		}
	}()
	for i := 0; i < len(want); i += 100 {
		check(t, m.Update(ctx, "o", "r", Update{Events: want[i : i+100], Done: i+100 == len(want)}))
	}
	same(t, "events", <-read, want)
	waiting, cancel := context.WithCancel(ctx)
	cancel()
	check(t, m.Create(ctx, New{ID: "s", Owner: "o", Background: true}))
	_, _, err = m.Events(waiting, "o", "s", -1)
	wantErr(t, "a reader that has left", err, context.Canceled)
	gone := make(chan error)
	go func() {
		_, _, err := m.Events(ctx, "o", "s", -1)
		gone <- err
	}()
	check(t, m.Delete(ctx, "o", "s"))
	wantErr(t, "events of a deleted record", <-gone, ErrNotFound)
}
