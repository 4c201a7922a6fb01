package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"ossian/internal/runner"
	"ossian/internal/sched"
	"ossian/internal/sim"
	"ossian/internal/soak"
)

// How a client, or what it asked for, ends a request.
const (
	stays   = iota // to the last token
	stops          // Stop
	leaves         // its context ends
	hurries        // Deadline
	waits          // StartBy
	says           // a stop id
	fails          // its constraint panics
	fates
)

// A client is a request and what it is to get.
type client struct {
	Request
	fate int
	at   time.Time // when it stops, leaves or has no more time
	want []int32   // alone
	end  sched.Finish
}

func newClient(rng *rand.Rand, common []int32, number uint64) *client {
	c := &client{fate: rng.IntN(fates), at: time.Now().Add(time.Duration(rng.IntN(1500)) * time.Millisecond), end: sched.FinishLength}
	c.Request = Request{Tokens: slices.Concat(common[:rng.IntN(40)], ids(rng.Int(), 1+rng.IntN(20))), MaxTokens: 1 + rng.IntN(30), Tenant: rng.Uint32N(3)}
	c.Params.Seed = number // by which the runner's rows tell whose they are
	c.want = alone(c.Tokens, c.MaxTokens)
	some := rng.IntN(len(c.want))
	switch c.fate {
	case hurries:
		c.Deadline = c.at
	case waits:
		c.StartBy = c.at
	case says:
		c.Stops = c.want[some : some+1]
		c.want, c.end = c.want[:slices.Index(c.want, c.want[some])+1], sched.FinishStop
	case fails:
		c.Constraint = func() sched.Constraint { return &panicky{mask: 100, accept: some} }
		c.want, c.end = c.want[:some+1], sched.FinishError
	}
	return c
}

// A tally is what has happened to clients.
type tally struct {
	mu                         sync.Mutex
	first                      map[uint64]int // [number] tokens that were there when its first row was launched
	ends                       [sched.FinishError + 1]int
	refused                    int
	prompt, cached, completion int
	late                       [fates]time.Duration // what ended after its time
}

func (a *tally) accepted() (n int) {
	for _, k := range a.ends {
		n += k
	}
	return n
}

// launched is a hook of the runner.
func (a *tally) launched(_ int, b *runner.Batch) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range b.Rows {
		if _, ok := a.first[b.Rows[i].Params.Seed]; !ok {
			a.first[b.Rows[i].Params.Seed] = b.Rows[i].Start
		}
	}
	return nil
}

// ended holds the end of a client's stream to what it may be.
func (a *tally) ended(c *client, s *Stream, got []int32, err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	f, usage, times := s.End()
	a.ends[f]++
	if usage.Completion > 0 {
		a.prompt += usage.Prompt
		a.cached += usage.Cached
	}
	a.completion += usage.Completion
	want := c.want
	cut := (f == sched.FinishAbort && (c.fate == stops || c.fate == leaves)) || (f == sched.FinishDeadline && c.fate == hurries) ||
		(f == sched.FinishDeadline && c.fate == waits && times.Scheduled.IsZero())
	if cut && len(got) < len(want) {
		want = want[:len(got)]
		a.late[c.fate] = max(a.late[c.fate], times.Finished.Sub(c.at))
	} else if f != c.end {
		return fmt.Errorf("ended with %v, alone with %v", f, c.end)
	}
	if (err == io.EOF) == (f == sched.FinishError) || times.Finished.IsZero() {
		return fmt.Errorf("%v at %v: %w", f, times.Finished, err)
	}
	if !slices.Equal(got, want) {
		return fmt.Errorf("got %v, alone %v", got, want)
	}
	cached, ran := a.first[c.Params.Seed]
	if count := (Usage{Prompt: len(c.Tokens), Cached: cached, Completion: len(got)}); (ran && usage != count) || (!ran && usage.Completion > 0) {
		return fmt.Errorf("usage says %+v, counted %+v", usage, count)
	}
	return nil
}

// TestLIF1LIF2LIF4LIF6LIF9Lives: every accepted request ends once, in time, gets its
// own tokens once and in order, gives its blocks back and is charged for what it got,
// however it ends and whatever the others do.
func TestLIF1LIF2LIF4LIF6LIF9Lives(t *testing.T) {
	n := soak.Cases(t, 1500, 100_000)
	sum := &tally{}
	for seed := uint64(0); sum.accepted() < n; seed++ {
		sum.first = make(map[uint64]int)
		bubble(t, func(t *testing.T) { live(t, seed, sum) })
	}
	t.Logf("LIF-1: %d requests accepted, %d refused; stop %d, length %d, abort %d, deadline %d, error %d; 0 without an end", sum.accepted(), sum.refused,
		sum.ends[sched.FinishStop], sum.ends[sched.FinishLength], sum.ends[sched.FinishAbort], sum.ends[sched.FinishDeadline], sum.ends[sched.FinishError])
	t.Logf("LIF-2: %d requests aborted, over at most %v later by Stop, %v by context; steps take up to %v", sum.ends[sched.FinishAbort], sum.late[stops], sum.late[leaves], longestStep)
	t.Logf("LIF-4: %d tokens, 0 lost, repeated or out of order", sum.completion)
	t.Logf("LIF-6: %d deadlines, over at most %v later, in the queue %v", sum.ends[sched.FinishDeadline], sum.late[hurries], sum.late[waits])
	t.Logf("LIF-9: prompt %d, cached %d, completion %d tokens of %d requests, 0 differences from the count", sum.prompt, sum.cached, sum.completion, sum.accepted())
	if max(sum.late[stops], sum.late[leaves]) > longestStep || max(sum.late[hurries], sum.late[waits]) > 2*longestStep { // who comes too late is there a step later
		t.Errorf("ends come late: %v", sum.late)
	}
	if slices.Min(sum.ends[1:]) < n/100 || sum.cached == 0 {
		t.Errorf("ends %v, %d tokens cached: too little happened", sum.ends, sum.cached)
	}
}

// longestStep is a step of 32 tokens.
const longestStep = 33 * time.Millisecond

func live(t *testing.T, seed uint64, sum *tally) {
	rng := rand.New(rand.NewPCG(seed, 1))
	info := runner.Info{Depth: 1 + int(seed%3), BlockSize: 4, MaxSeqs: 6, MaxTokens: 32, MaxLen: 96,
		Groups: []runner.Group{{Blocks: 30 + rng.IntN(30)}, {Blocks: 30, Window: 9}}}
	cost := func(b *runner.Batch) time.Duration { return time.Duration(1+len(b.Tokens)) * time.Millisecond }
	g := start(t, script(t, sim.Config{Info: info, Cost: cost, OnLaunch: sum.launched}), Config{Sched: sched.Config{MaxQueue: 20, ChunkLimit: rng.IntN(2) * 12}})
	var wg sync.WaitGroup
	accepted, before := 0, sum.completion
	promptsBefore, cachedBefore := sum.prompt, sum.cached
	earlier := sum.accepted()
	common := ids(int(seed), 60)
	for number := range uint64(100) {
		c := newClient(rng, common, number)
		ctx, cancel := context.WithCancel(context.Background())
		s, err := g.Submit(ctx, c.Request)
		if err != nil {
			cancel()
			if !errors.Is(err, ErrQueueFull) {
				t.Fatal(err)
			}
			sum.refused++
			time.Sleep(200 * time.Millisecond)
			continue
		}
		accepted++
		wg.Go(func() {
			defer cancel()
			switch c.fate {
			case stops:
				defer time.AfterFunc(time.Until(c.at), s.Stop).Stop()
			case leaves:
				defer time.AfterFunc(time.Until(c.at), cancel).Stop()
			}
			got, err := read(s)
			if err := sum.ended(c, s, got, err); err != nil {
				t.Errorf("seed %d, request %d: %v", seed, number, err)
			}
		})
		time.Sleep(time.Duration(rng.IntN(60)) * time.Millisecond)
		if rng.IntN(30) == 0 {
			if _, err := g.ForgetPrefixes(context.Background()); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
		}
	}
	wg.Wait()
	time.Sleep(time.Second) // steps in flight may hold blocks of what was stopped last
	if n := sum.accepted() - earlier; n != accepted {
		t.Errorf("seed %d: %d accepted, %d ended", seed, accepted, n)
	}
	st := g.Stats()
	if st.Running != 0 || st.Waiting != 0 || st.KV.Held != 0 || len(g.live) != 0 {
		t.Errorf("seed %d: at rest %+v, %d live streams", seed, st, len(g.live))
	}
	if h := g.Health(); h.Restarts != 0 || h.State != Running {
		t.Errorf("seed %d: %+v", seed, h)
	}
	prompts, cached := sum.prompt-promptsBefore, sum.cached-cachedBefore
	if n := sum.completion - before; st.Accepted != uint64(accepted) || st.Prompt != uint64(prompts) || st.Cached != uint64(cached) || st.Generated != uint64(n) {
		t.Errorf("seed %d: %+v, want %d requests, %d, %d and %d tokens", seed, st, accepted, prompts, cached, n)
	}
}
