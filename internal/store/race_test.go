package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
)

// bothKeepers returns a store on disk and one in memory.
func bothKeepers(t *testing.T) map[string]keeper {
	t.Helper()
	m, err := NewMemory(Config{Bytes: 64 << 20})
	check(t, err)
	return map[string]keeper{"disk": open(t, Config{Dir: t.TempDir()}), "memory": m}
}

// A record that is deleted beside other calls: each of these sees it, or ErrNotFound. All
// orders of the calls of a cancel (look, note, end, look again) and a delete, one by one.
func TestDeleteBetween(t *testing.T) {
	for name, k := range bothKeepers(t) {
		for at := range 6 {
			id := fmt.Sprint("job", at)
			ctx := t.Context()
			check(t, k.Create(ctx, New{ID: id, Owner: "o", Background: true, Object: []byte("x")}))
			for step, call := range cancelCalls(ctx, k, id) {
				if step == at {
					check(t, k.Delete(ctx, "o", id))
				}
				switch err := call(); {
				case step < at && err != nil:
					t.Errorf("%s: call %d before the delete: %v", name, step, err)
				case step >= at && !errors.Is(err, ErrNotFound):
					t.Errorf("%s: call %d, deleted before %d: %v", name, step, at, err)
				}
			}
		}
	}
}

// cancelCalls are what the end of a job that somebody cancels asks of its store.
func cancelCalls(ctx context.Context, k keeper, id string) []func() error {
	get := func() error { _, err := k.Get("o", id); return err }
	return []func() error{
		get,
		func() error { return k.Cancel(ctx, "o", id) },
		func() error { return k.Update(ctx, "o", id, Update{Events: [][]byte{[]byte("e")}}) },
		func() error { return k.Update(ctx, "o", id, Update{Object: []byte("end"), Done: true}) },
		get,
		func() error { return k.Cancel(ctx, "o", id) },
	}
}

// The same at once, many times: cancels, an update that ends the job, and deletes.
func TestCancelBesideDelete(t *testing.T) {
	for name, k := range bothKeepers(t) {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			gone, there := 0, 0
			var count sync.Mutex
			for i := range 60 {
				id := fmt.Sprint("job", i)
				check(t, k.Create(ctx, New{ID: id, Owner: "o", Background: true, Object: []byte("x")}))
				var group sync.WaitGroup
				start := make(chan struct{})
				try := func(what string, allowed error, call func() error) {
					group.Go(func() {
						<-start
						err := call()
						count.Lock()
						defer count.Unlock()
						switch {
						case err == nil:
							there++
						case errors.Is(err, ErrNotFound):
							gone++
						case allowed == nil || !errors.Is(err, allowed):
							t.Errorf("%s: %v", what, err)
						}
					})
				}
				for range 6 {
					try("cancel", nil, func() error { return k.Cancel(ctx, "o", id) })
					try("get", nil, func() error { _, err := k.Get("o", id); return err })
				}
				try("update", ErrFinished, func() error { return k.Update(ctx, "o", id, Update{Done: true}) })
				try("update", ErrFinished, func() error { return k.Update(ctx, "o", id, Update{Object: []byte("y"), Done: true}) })
				try("delete", nil, func() error { return k.Delete(ctx, "o", id) })
				try("delete", nil, func() error { return k.Delete(ctx, "o", id) })
				close(start)
				group.Wait()
				_, err := k.Get("o", id)
				wantErr(t, "get of what was deleted", err, ErrNotFound)
			}
			if gone == 0 || there == 0 {
				t.Errorf("%d calls came before a delete, %d behind: no race was run", there, gone)
			}
		})
	}
}
