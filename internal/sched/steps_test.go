package sched

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"ossian/internal/kv"
	"ossian/internal/runner"
	"ossian/internal/soak"
)

// TestLIF1DET4SOK2Steps holds a scheduler that never rests to its invariants after every
// step: whoever was accepted waits, runs or has ended once, every block is free,
// cached or held by as many as say so, has one writer, and is not read before it is
// written.
func TestLIF1DET4SOK2Steps(t *testing.T) {
	t.Parallel()
	steps := soak.Cases(t, 20_000, 100_000_000)
	var total traffic
	worlds := 0
	for ; total.steps < steps; worlds++ {
		total.add(busy(t, uint64(worlds), min(2000, steps-total.steps)))
	}
	t.Logf("LIF-1: %d requests accepted = %d ended, %d aborted, 0 lost, 0 ended twice", total.accepted, total.ended, total.aborted)
	t.Logf("DET-4: %d steps of %d schedulers, %d preemptions, %d cached tokens, 0 violations", total.steps, worlds, total.preemptions, total.cached)
	t.Logf("SOK-2: %.1f hours simulated, of steps of a second, 0 violations", total.simulated.Hours())
	if n := uint64(total.accepted); total.preemptions < n/50 || total.cached < n || total.aborted < total.accepted/50 {
		t.Errorf("%+v: too little happened to show anything", total)
	}
}

// traffic counts what has happened.
type traffic struct {
	steps, accepted, ended, aborted int
	preemptions, cached             uint64
	simulated                       time.Duration
}

func (a *traffic) add(b traffic) {
	a.steps += b.steps
	a.accepted += b.accepted
	a.ended += b.ended
	a.aborted += b.aborted
	a.preemptions += b.preemptions
	a.cached += b.cached
	a.simulated += b.simulated
}

// busy drives one scheduler, with new requests all the time, and then lets it rest.
func busy(t *testing.T, seed uint64, steps int) (sum traffic) {
	rng := rand.New(rand.NewPCG(seed, 6))
	info := randomInfo(rng.IntN)
	s, err := New(Config{ChunkLimit: rng.IntN(3) * 3, NoPrefixCache: rng.IntN(6) == 0, MaxQueue: 5 + rng.IntN(20), Guesses: guesses(1+rng.IntN(7), rng.IntN(2) == 0)}, info)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Unix(1000, 0)
	f, now, id := newFake(info), began, uint64(0)
	var flight []*runner.Batch
	live := make(map[uint64]bool)
	for sum.steps < steps || !s.Idle() {
		for sum.steps < steps && rng.IntN(3) == 0 {
			id++
			err := s.Add(randomRequest(rng.IntN, info, now).seq(id, info.Vocab))
			if err != nil && !errors.Is(err, ErrNeverFits) && !errors.Is(err, ErrQueueFull) {
				t.Fatal(err)
			}
			if err == nil {
				live[id] = true
				sum.accepted++
			}
		}
		if some := id - uint64(rng.IntN(12)); rng.IntN(8) == 0 && some <= id {
			known := s.Abort(some)
			if known != live[some] {
				t.Fatalf("seed %d: Abort(%d) = %v, is there: %v", seed, some, known, live[some])
			}
			if known {
				delete(live, some)
				sum.aborted++
			}
		}
		if rng.IntN(100) == 0 {
			s.ForgetPrefixes()
		}
		for len(flight) < info.Depth && (len(flight) == 0 || rng.IntN(4) > 0) {
			b := s.Plan(now)
			if b == nil && len(flight) == 0 && !s.Idle() {
				t.Fatalf("seed %d, step %d: nothing to run, but not idle: %+v", seed, sum.steps, s.Stats())
			}
			if b == nil {
				break
			}
			if err := f.Launch(b); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, sum.steps, err)
			}
			flight = append(flight, b)
		}
		if len(flight) > 0 {
			res, err := f.Collect()
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range s.Commit(flight[0], res, now) {
				if !live[o.ID] {
					t.Fatalf("seed %d, step %d: %+v of a sequence that has ended", seed, sum.steps, o)
				}
				if o.Finish != FinishNone {
					delete(live, o.ID)
					sum.ended++
				}
			}
			flight = slices.Delete(flight, 0, 1)
			sum.steps++
			now = now.Add(time.Second)
		}
		if err := s.Check(); err != nil {
			t.Fatalf("seed %d, step %d: %v", seed, sum.steps, err)
		}
		if len(live) != len(s.seqs) {
			t.Fatalf("seed %d, step %d: %d accepted, %d ended, %d aborted, the scheduler has %d", seed, sum.steps, sum.accepted, sum.ended, sum.aborted, len(s.seqs))
		}
	}
	st := s.Stats()
	for g, use := range st.Groups {
		if use.Held != 0 || use.Free+use.Cached != info.Groups[g].Blocks {
			t.Fatalf("seed %d: at rest group %d of %d blocks has %+v", seed, g, info.Groups[g].Blocks, use)
		}
	}
	sum.preemptions, sum.cached, sum.simulated = st.Preemptions, st.CacheHits, now.Sub(began)
	return sum
}

// What Stats says about blocks follows a sequence through its life.
func TestGroups(t *testing.T) {
	t.Parallel()
	info := plain
	info.Groups = []runner.Group{{Blocks: 16}, {Blocks: 10, Window: 5}}
	w := newWorld(t, Config{}, info)
	if err := w.add(&request{prompt: ids(0, 18), output: 3}); err != nil {
		t.Fatal(err)
	}
	for n, want := range [][]kv.Group{
		{{Free: 16}, {Free: 10}},
		{{Free: 11, Held: 5}, {Free: 5, Cached: 3, Held: 2}}, // position 16 sees no more than its own block and the one before
	} {
		if got := w.s.Stats().Groups; !slices.Equal(got, want) {
			t.Errorf("after %d steps %+v, want %+v", n, got, want)
		}
		w.step()
	}
	w.finish()
	if got, want := w.s.Stats().Groups, []kv.Group{{Free: 11, Cached: 5}, {Free: 5, Cached: 5}}; !slices.Equal(got, want) {
		t.Errorf("at the end %+v, want %+v", got, want)
	}
}
