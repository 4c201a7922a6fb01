package engine

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"ossian/internal/cpu"
	"ossian/internal/draft"
	"ossian/internal/model"
	"ossian/internal/model/modeltest"
	"ossian/internal/runner"
	"ossian/internal/sched"
	"ossian/internal/soak"
	"ossian/internal/tensor"
)

// A family is a tiny random model of two or three layers and what requests get from
// it alone: one at a time, on one thread, without the prefix cache.
type family struct {
	spec     *model.Spec
	params   map[string]tensor.Tensor
	requests []Request
	want     [][]int32
}

func newFamily(t *testing.T, name string, rng *rand.Rand) *family {
	t.Helper()
	f := &family{requests: tinyRequests(rng, 40)}
	f.spec, f.params = modeltest.Tiny(name, modeltest.Options{Matrix: tensor.BF16})
	g := start(t, f.runner(t, 1, 20, 1), Config{Sched: sched.Config{NoPrefixCache: true}})
	for _, q := range f.requests {
		f.want = append(f.want, finished(t, g.submit(q), sched.FinishLength))
	}
	return f
}

// runner returns a runner with pools of that many blocks of 8 tokens.
func (f *family) runner(t *testing.T, threads, blocks, depth int) runner.Runner {
	t.Helper()
	lim := model.Limits{MaxSeqs: 4, MaxTokens: 48, MaxLen: 160, BlockSize: 8, Depth: depth, Lookahead: 7}
	windows, _ := f.spec.Groups()
	for range windows {
		lim.Blocks = append(lim.Blocks, blocks)
	}
	d, err := cpu.New(f.spec, lim, cpu.Config{Threads: threads})
	if err != nil {
		t.Fatal(err)
	}
	r, err := model.NewDecoder(f.spec, f.params, d, lim, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestDET1DET2CPU plays random schedules on a real device with 1, 2, 4 and 8 threads:
// whatever the mix, order and time of arrival, chunk size, cancels, prefixes shared,
// blocks taken away and guesses, every request gets what it gets alone, and no loop fails.
func TestDET1DET2CPU(t *testing.T) {
	names, threads := []string{"gpt-oss", "qwen3", "llama"}, []int{1, 2, 4, 8}
	schedules := soak.Cases(t, 24, 10_000)
	var sum Stats
	for i, name := range names {
		rng := rand.New(rand.NewPCG(uint64(i), 11))
		f := newFamily(t, name, rng)
		for n := i; n < schedules; n += len(names) {
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
				st := f.play(t, threads[n/len(names)%len(threads)], rng)
				sum.Accepted += st.Accepted
				sum.Steps += st.Steps
				sum.Preemptions += st.Preemptions
				sum.CacheHits += st.CacheHits
				sum.Guesses.Add(&st.Guesses)
			})
		}
	}
	t.Logf("DET-1: %d random schedules of %d requests on %v with %v threads, %d steps, %d preemptions, %d cached tokens, %d rows with guesses, 0 mismatches",
		schedules, sum.Accepted, names, threads, sum.Steps, sum.Preemptions, sum.CacheHits, sum.Guesses.Rows)
	if n := uint64(schedules); sum.Preemptions < n/4 || sum.CacheHits < n || sum.Guesses.Rows < 4*n {
		t.Error("too little happened: these schedules show nothing")
	}
}

// A stage is a runner before which requests come after so many steps: when they come
// does not depend on how fast anything is.
type stage struct {
	runner.Runner
	mu    sync.Mutex
	waits []int  // steps until the next request comes, for each that is still to come
	enter func() // brings it
}

func (s *stage) Launch(b *runner.Batch) error {
	s.mu.Lock()
	for len(s.waits) > 0 && s.waits[0] == 0 {
		s.next()
	}
	if len(s.waits) > 0 {
		s.waits[0]--
	}
	s.mu.Unlock()
	if err := runner.Check(b, s.Info()); err != nil {
		return err
	}
	return s.Runner.Launch(b)
}

func (s *stage) next() {
	s.waits = s.waits[1:]
	s.enter()
}

// play submits some requests, most of them while others run. One in twelve empties the
// prefix cache first. In two of three schedules there are guesses, all of them or as many as pay.
func (f *family) play(t *testing.T, threads int, rng *rand.Rand) Stats {
	cfg := Config{Sched: sched.Config{ChunkLimit: []int{0, 1, 5, 20}[rng.IntN(4)], NoPrefixCache: rng.IntN(5) == 0},
		Guesses: []*draft.Settings{nil, guessing(true), guessing(false)}[rng.IntN(3)]}
	s := &stage{Runner: f.runner(t, threads, 20+rng.IntN(4), 1+rng.IntN(2)), waits: []int{0}}
	for range 4 + rng.IntN(6) {
		s.waits = append(s.waits, rng.IntN(6))
	}
	g := start(t, s, cfg)
	came, left, ended := 0, 0, make(chan struct{}, len(s.waits))
	s.enter = func() {
		n, stop, forget := rng.IntN(len(f.requests)), rng.IntN(160), rng.IntN(12) == 0
		q := g.submit(f.requests[n])
		came++
		go func() {
			defer func() { ended <- struct{}{} }()
			if forget {
				if _, err := g.ForgetPrefixes(t.Context()); err != nil {
					t.Error(err)
				}
			}
			var got []int32
			var err error
			for err == nil {
				if len(got) >= stop {
					q.Stop()
				}
				var out []Token
				out, err = q.Recv(t.Context())
				for _, o := range out {
					got = append(got, o.ID)
				}
			}
			want := f.want[n]
			if err != io.EOF || len(got) > len(want) || len(got) < min(stop, len(want)) || !slices.Equal(got, want[:len(got)]) {
				t.Errorf("%d threads, request %d: got %v, %v, alone %v", threads, n, got, err, want)
			}
		}()
	}
	for more := true; more; {
		s.mu.Lock()
		if came == left && len(s.waits) > 0 { // there may be no step before which it comes
			s.next()
		}
		more = came > left
		s.mu.Unlock()
		if more {
			<-ended
			left++
		}
	}
	if h := g.Health(); h.Restarts != 0 {
		t.Errorf("%+v, want no fault", h)
	}
	return g.Stats()
}

func tinyRequests(rng *rand.Rand, n int) []Request {
	common := make([]int32, 50)
	for i := range common {
		common[i] = rng.Int32N(100)
	}
	var out []Request
	for i := range n {
		q := Request{Tokens: slices.Clone(common[:rng.IntN(50)]), MaxTokens: 30 + rng.IntN(50), Tenant: rng.Uint32N(2)}
		for range 1 + rng.IntN(20) {
			q.Tokens = append(q.Tokens, rng.Int32N(100))
		}
		if i%2 == 0 {
			q.Params.Temperature, q.Params.Seed = 1, rng.Uint64()
		}
		if i%5 == 0 {
			q.Params.FrequencyPenalty, q.Params.Logprobs, q.Params.TopLogprobs = 0.3, true, 2
		}
		out = append(out, q)
	}
	return out
}
