package host_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ossian/internal/board"
	"ossian/internal/engine"
	"ossian/internal/host"
	"ossian/internal/runner"
	"ossian/internal/sim"
	"ossian/internal/soak"
)

func TestHostRefuses(t *testing.T) {
	for name, cards := range map[string][]host.Card{"none": nil, "no name": {{}}, "an empty name": {{Names: []string{"a", ""}}}, "a name twice": {{Names: []string{"a"}}, {Names: []string{"b", "a"}}}} {
		if _, err := host.New(host.Config{}, cards...); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	h, err := host.New(host.Config{}, host.Card{Names: []string{"a"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Acquire(t.Context(), "a", time.Now(), board.Caller{}); !errors.Is(err, host.ErrLoading) {
		t.Errorf("got %v", err)
	}
	if _, err := h.Acquire(t.Context(), "b", time.Now(), board.Caller{}); !errors.Is(err, host.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	want := errors.New("no weights")
	if err := h.Run(t.Context(), func(context.Context, *host.Card) (*host.Model, error) { return nil, want }); !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
	if err := h.Drain(t.Context()); err != nil {
		t.Error(err)
	}
}

// A rig is a host whose models play scripts, in a bubble of synctest.
type rig struct {
	*host.Host
	t    *testing.T
	stop context.CancelFunc
	ran  chan error

	mu     sync.Mutex               // guards what follows
	took   map[string]time.Duration // to load a model
	broken map[string]error         // what loading it gives
	prints map[string]string        // its fingerprint; "" = its name
	faults map[string]bool          // its runner fails
	using  map[*host.Model]int      // who uses it now
	loaded map[*host.Model]time.Time
	loads  map[string]int
	ends   bool
	most   int           // models in memory at once, so far
	least  time.Duration // that a model was in memory at least, less than what it took to load
}

func newRig(t *testing.T, cfg host.Config, names ...string) *rig {
	t.Helper()
	r := &rig{t: t, ran: make(chan error, 1), took: map[string]time.Duration{}, broken: map[string]error{}, prints: map[string]string{}, faults: map[string]bool{},
		using: map[*host.Model]int{}, loaded: map[*host.Model]time.Time{}, loads: map[string]int{}}
	var cards []host.Card
	for _, name := range names {
		cards = append(cards, host.Card{Names: []string{name}})
	}
	var err error
	if r.Host, err = host.New(cfg, cards...); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() {
		r.ran <- r.Run(ctx, func(ctx context.Context, card *host.Card) (*host.Model, error) { return r.load(ctx, card, cfg.Turn) })
	}()
	return r
}

// close ends the host, which must not have failed.
func (r *rig) close() {
	r.t.Helper()
	r.set(func() { r.ends = true })
	r.stop()
	if err := <-r.ran; err != nil {
		r.t.Errorf("Run: %v", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.loaded) > 0 {
		r.t.Errorf("%d models are still in memory", len(r.loaded))
	}
}

// set changes how loading goes on.
func (r *rig) set(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

func (r *rig) load(ctx context.Context, card *host.Card, turn time.Duration) (*host.Model, error) {
	name := card.Names[0]
	r.mu.Lock()
	took, err, print, fault := r.took[name], r.broken[name], r.prints[name], r.faults[name]
	r.loads[name]++
	r.mu.Unlock()
	select {
	case <-time.After(took):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	script := sim.Config{Info: runner.Info{Vocab: 64, MaxLen: 256}}
	if fault {
		script.OnCollect = func(step int, _ *runner.Batch) error {
			if step > 0 { // the first is that of the warm-up
				return errors.New("the runner is broken")
			}
			return nil
		}
	}
	run, err := sim.NewScript(script)
	if err != nil {
		return nil, err
	}
	eng, err := engine.New(run, engine.Config{Restarts: -1}, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	if print == "" {
		print = name
	}
	model := &host.Model{Engine: eng, Fingerprint: print}
	model.Close = func() error { r.unload(model, min(took, turn)); return nil }
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loaded[model] = time.Now()
	r.most = max(r.most, len(r.loaded))
	return model, nil
}

// unload checks that nobody uses the model, and how long it was there.
func (r *rig) unload(model *host.Model, least time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := r.using[model]; n > 0 {
		r.t.Errorf("%s is closed while %d use it", model.Name, n)
	}
	if was := time.Since(r.loaded[model]); was < least && !r.ends {
		r.least = max(r.least, least-was)
	}
	delete(r.loaded, model)
}

// use has a model for that long, and a token of it.
func (r *rig) use(ctx context.Context, name string, d time.Duration) error {
	lease, err := r.Acquire(ctx, name, time.Now().Add(time.Hour), board.Caller{})
	if err != nil {
		return err
	}
	defer lease.Release()
	r.set(func() { r.using[lease.Model]++ })
	defer r.set(func() { r.using[lease.Model]-- })
	if lease.Name != name {
		r.t.Errorf("%s was asked for, and %s came", name, lease.Name)
	}
	time.Sleep(d)
	return lease.Engine.Probe(context.Background())
}

// TestOPS6Random: whatever is asked for when, nobody's request is ended or answered by another
// model, no more models are in memory than may be, each stays for as long as loading it took, and
// who waits does so for a bounded time.
func TestOPS6Random(t *testing.T) {
	for seed := range soak.Cases(t, 100, 10_000) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(uint64(seed), 6))
			names := []string{"a", "b", "c", "d"}[:2+rng.IntN(3)]
			resident, turn := 1+rng.IntN(2), time.Duration(1+rng.IntN(10))*time.Second
			r := newRig(t, host.Config{Resident: resident, Turn: turn}, names...)
			const slowest, longest = 5 * time.Second, 8 * time.Second
			for _, name := range names {
				r.set(func() { r.took[name] = time.Duration(rng.Int64N(int64(slowest))) })
			}
			// Each other model may have a turn, then what it has ends, and it is loaded.
			bound := time.Duration(len(names)) * (turn + longest + slowest + time.Second)
			var all sync.WaitGroup
			for range 40 {
				name, at, d, leaves := names[rng.IntN(len(names))], time.Duration(rng.Int64N(int64(time.Minute))), time.Duration(rng.Int64N(int64(longest))), rng.IntN(8) == 0
				all.Go(func() {
					time.Sleep(at)
					ctx, cancel := context.WithCancel(context.Background())
					defer cancel()
					if leaves {
						time.AfterFunc(d/2, cancel)
					}
					began := time.Now()
					err := r.use(ctx, name, d)
					if took := time.Since(began) - d; took > bound {
						t.Errorf("seed %d: %s was waited for for %v, at most %v expected", seed, name, took, bound)
					}
					if err != nil && !(leaves && errors.Is(err, context.Canceled)) {
						t.Errorf("seed %d: %s: %v", seed, name, err)
					}
				})
			}
			all.Wait()
			r.close()
			if r.most > resident || r.least > 0 {
				t.Errorf("seed %d: %d models at once, %d expected; one was there %v shorter than it took to load", seed, r.most, resident, r.least)
			}
		})
	}
}

// since returns the seconds of the bubble's time, which begins at a whole second.
func seconds(from time.Time) float64 { return time.Since(from).Seconds() }

// TestOPS6Turn: a model that is always used goes on taking requests for one turn after another was
// asked for, then its requests wait behind that one, and it comes back.
func TestOPS6Turn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, host.Config{Turn: 10 * time.Second}, "a", "b")
		defer r.close()
		synctest.Wait()
		from := time.Now()
		began := make([]float64, 40) // when request i for a was served, one every second, each for 3 s
		var all sync.WaitGroup
		for i := range began {
			all.Go(func() {
				time.Sleep(time.Duration(i)*time.Second + time.Millisecond)
				lease, err := r.Acquire(t.Context(), "a", time.Now().Add(time.Hour), board.Caller{})
				if err != nil {
					t.Errorf("request %d: %v", i, err)
					return
				}
				began[i] = seconds(from)
				time.Sleep(3 * time.Second)
				lease.Release()
			})
		}
		time.Sleep(5 * time.Second)
		if err := r.use(t.Context(), "b", 2*time.Second); err != nil {
			t.Error(err)
		}
		if got := seconds(from); got < 19 || got > 19.2 { // 5 + a turn, what a has then until 17, its own 2 s
			t.Errorf("b was done after %.3f s, 19 expected", got)
		}
		all.Wait()
		for i, at := range began {
			want := float64(i) + .001
			if i >= 15 && i < 19 { // behind b
				want = 19
			}
			if at < want-.01 || at > want+.2 {
				t.Errorf("request %d for a was served after %.3f s, %.3f expected", i, at, want)
			}
		}
	})
}

// TestOPS6Rest: a model that nobody uses makes room at once, but not before it was there for as
// long as loading it took; one whose rival nobody waits for any more goes on.
func TestOPS6Rest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, host.Config{Turn: 10 * time.Second}, "a", "b", "c")
		r.set(func() { r.took["b"] = 4 * time.Second })
		defer r.close()
		synctest.Wait()
		for _, c := range []struct {
			name string
			want float64
		}{{"b", 4}, {"a", 4}, {"c", 0}, {"b", 4}, {"b", 0}, {"c", 4}} {
			from := time.Now()
			if err := r.use(t.Context(), c.name, 0); err != nil {
				t.Error(err)
			}
			if got := seconds(from); got < c.want || got > c.want+.2 {
				t.Errorf("%s came after %.3f s, %.0f expected", c.name, got, c.want)
			}
		}
		// c is held, b is asked for, and given up when c is closed already.
		held, err := r.Acquire(t.Context(), "c", time.Now(), board.Caller{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, leave := context.WithTimeout(t.Context(), 12*time.Second)
		defer leave()
		var shown board.Board
		caller := board.Caller{Label: board.Label{ID: "waits"}, Tenant: 3, Received: time.Now(), Board: &shown}
		go func() { _, _ = r.Acquire(ctx, "b", time.Now().Add(time.Hour), caller) }()
		time.Sleep(11 * time.Second)
		want := board.Entry{Label: board.Label{ID: "waits", Model: "b"}, State: board.Waiting, Tenant: 3, Age: 11 * time.Second}
		if got := shown.Entries(time.Now()); len(got) != 1 || got[0] != want {
			t.Errorf("the board has %+v, %+v wanted", got, want)
		}
		from := time.Now()
		if err := r.use(t.Context(), "c", 0); err != nil || seconds(from) < .9 || seconds(from) > 1.2 {
			t.Errorf("c, which had been closed, served after %.3f s: %v", seconds(from), err)
		}
		if got := shown.Entries(time.Now()); len(got) != 0 {
			t.Errorf("who gave up is on the board: %+v", got)
		}
		held.Release()
	})
}

// TestOPS6Failures: what one model cannot do is told to those who ask for it, and to nobody else.
func TestOPS6Failures(t *testing.T) {
	ask := func(r *rig, name string) error { return r.use(context.Background(), name, 0) }
	for name, c := range map[string]func(t *testing.T, r *rig){
		"loading": func(t *testing.T, r *rig) {
			r.set(func() { r.broken["b"] = errors.New("/secret/path: no weights") })
			for _, wait := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
				for _, again := range []bool{false, true} { // by the failure itself, and by who comes behind it
					failed, ok := errors.AsType[*host.LoadError](ask(r, "b"))
					if !ok || failed.Retry != wait*time.Second || failed.Error() == "" {
						t.Errorf("again %v: %v, want one to be tried again in %d s", again, failed, wait)
					}
				}
				if err := ask(r, "a"); err != nil {
					t.Error(err)
				}
				time.Sleep(wait*time.Second - time.Millisecond)
				if info, _ := r.Model("b"); !info.Failed || info.State != host.Unloaded {
					t.Errorf("%+v", info)
				}
				time.Sleep(time.Millisecond)
			}
			r.set(func() { delete(r.broken, "b") })
			if err := ask(r, "b"); err != nil {
				t.Error(err)
			}
			if info, _ := r.Model("b"); info.Failed || info.State != host.Loaded {
				t.Errorf("%+v", info)
			}
		},
		"other weights": func(t *testing.T, r *rig) {
			r.set(func() { r.prints["a"] = "another" })
			if err := ask(r, "b"); err != nil {
				t.Error(err)
			}
			for range 2 {
				if _, ok := errors.AsType[*host.WithdrawnError](ask(r, "a")); !ok {
					t.Error("a is served with other weights")
				}
			}
			if err := ask(r, "b"); err != nil {
				t.Error(err)
			}
		},
		"engine": func(t *testing.T, r *rig) {
			r.set(func() { r.faults["b"] = true })
			if err := ask(r, "b"); !errors.Is(err, engine.ErrInterrupted) {
				t.Errorf("the request that had the fault: %v", err)
			}
			synctest.Wait()
			if _, ok := errors.AsType[*host.LoadError](ask(r, "b")); !ok {
				t.Error("b is served behind its fault")
			}
			if err := ask(r, "a"); err != nil {
				t.Error(err)
			}
			r.set(func() { r.faults["b"] = false })
			time.Sleep(time.Second)
			if err := ask(r, "b"); err != nil {
				t.Error(err)
			}
		},
		"engine, while another is waited for": func(t *testing.T, r *rig) {
			r.set(func() { r.faults["b"] = true })
			var all sync.WaitGroup
			all.Go(func() {
				if err := r.use(context.Background(), "b", 30*time.Second); !errors.Is(err, engine.ErrInterrupted) {
					t.Errorf("the request that had the fault: %v", err)
				}
			})
			time.Sleep(time.Second)
			all.Go(func() {
				if err := ask(r, "a"); err != nil {
					t.Error(err)
				}
			})
			time.Sleep(20 * time.Second) // b is closed
			r.set(func() { r.faults["b"] = false })
			all.Go(func() { // the engine broke before b made room, or that was not seen any more
				err := ask(r, "b")
				if _, ok := errors.AsType[*host.LoadError](err); !ok && err != nil {
					t.Errorf("b, which was waited for when its engine broke: %v", err)
				}
			})
			all.Wait()
		},
		"queue": func(t *testing.T, r *rig) {
			held, err := r.Acquire(t.Context(), "a", time.Now(), board.Caller{})
			if err != nil {
				t.Fatal(err)
			}
			var all sync.WaitGroup
			for range 3 {
				all.Go(func() {
					if err := ask(r, "b"); err != nil {
						t.Error(err)
					}
				})
			}
			synctest.Wait()
			if n := r.Waiting("b"); n != 3 {
				t.Errorf("%d wait", n)
			}
			if err := ask(r, "b"); !errors.Is(err, host.ErrQueueFull) {
				t.Errorf("the fourth in line: %v", err)
			}
			if err := ask(r, "a"); err != nil {
				t.Error(err)
			}
			held.Release()
			all.Wait()
		},
		"time": func(t *testing.T, r *rig) {
			held, err := r.Acquire(t.Context(), "a", time.Now(), board.Caller{})
			if err != nil {
				t.Fatal(err)
			}
			from := time.Now()
			if _, err := r.Acquire(t.Context(), "b", from.Add(7*time.Second), board.Caller{}); !errors.Is(err, host.ErrWaited) || seconds(from) != 7 {
				t.Errorf("%v after %.1f s", err, seconds(from))
			}
			held.Release()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, host.Config{Turn: 10 * time.Second, Queue: 3}, "a", "b")
				defer r.close()
				synctest.Wait()
				c(t, r)
			})
		})
	}
}

// TestOPS6Check: what can be known before is told at the start, and makes no other model go.
func TestOPS6Check(t *testing.T) {
	for _, at := range []string{"start", "later"} {
		synctest.Test(t, func(t *testing.T) {
			wrong := errors.New("no room")
			checks := 0
			r := newRig(t, host.Config{Turn: time.Second, Check: func(_ context.Context, card *host.Card) (int, error) {
				if checks++; card.Names[0] == "b" && (at == "start" || checks > 2) {
					return 0, wrong
				}
				return 77, nil
			}}, "a", "b")
			synctest.Wait()
			if at == "start" {
				if err := <-r.ran; !errors.Is(err, wrong) {
					t.Errorf("Run: %v", err)
				}
				r.stop()
				return
			}
			if info, _ := r.Model("b"); info.MaxLen != 77 {
				t.Errorf("%+v", info)
			}
			time.Sleep(2 * time.Second)
			if _, ok := errors.AsType[*host.LoadError](r.use(t.Context(), "b", 0)); !ok {
				t.Error("b is served")
			}
			if info, _ := r.Model("a"); info.State != host.Loaded || r.loads["a"] != 1 {
				t.Errorf("a went for a model that cannot come: %+v", info)
			}
			r.close()
		})
	}
}

// TestOPS6Drain: who waits when the host is told to end gets the model; nobody else gets in line.
// When the time is over, all are told.
func TestOPS6Drain(t *testing.T) {
	for _, patience := range []time.Duration{time.Minute, 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, host.Config{Turn: time.Second}, "a", "b", "c")
			r.set(func() { r.took["b"], r.took["c"] = 2*time.Second, 2*time.Second })
			synctest.Wait()
			errs := make([]error, 4)
			var all sync.WaitGroup
			for i, name := range []string{"a", "b", "c"} {
				all.Go(func() { errs[i] = r.use(context.Background(), name, 2*time.Second) })
				synctest.Wait()
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			all.Go(func() {
				time.Sleep(time.Millisecond)
				errs[3] = r.use(context.Background(), "a", 0)
			})
			from := time.Now()
			err := r.Drain(ctx)
			all.Wait()
			whole := patience == time.Minute
			if (err == nil) != whole || !errors.Is(errs[3], engine.ErrDraining) || errs[0] != nil || (errs[2] == nil) != whole || (!whole && !errors.Is(errs[2], engine.ErrStopped)) {
				t.Errorf("%v: Drain after %.1f s: %v; requests: %v", patience, seconds(from), err, errs)
			}
			if err := r.use(context.Background(), "a", 0); !errors.Is(err, engine.ErrStopped) {
				t.Errorf("behind it: %v", err)
			}
			r.close()
		})
	}
}

// TestSeveralResident: with room for two, two models answer without one making room; the third
// takes the place of the one used longest ago.
func TestSeveralResident(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, host.Config{Resident: 2, Turn: time.Second}, "a", "b", "c")
		defer r.close()
		synctest.Wait()
		for _, name := range []string{"a", "b", "a", "b", "a", "c", "a", "c"} {
			if err := r.use(t.Context(), name, time.Second); err != nil {
				t.Error(err)
			}
		}
		if want := map[string]int{"a": 1, "b": 1, "c": 1}; fmt.Sprint(r.loads) != fmt.Sprint(want) {
			t.Errorf("loads %v, want %v", r.loads, want)
		}
		var states []string
		for _, info := range r.Models() {
			states = append(states, info.State.String())
		}
		if want := []string{"loaded", "unloaded", "loaded"}; !slices.Equal(states, want) {
			t.Errorf("states %q, want %q", states, want)
		}
	})
}
