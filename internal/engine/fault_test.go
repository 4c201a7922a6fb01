package engine

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ossian/internal/runner"
	"ossian/internal/sched"
	"ossian/internal/sim"
	"ossian/internal/soak"
)

var errBoom = errors.New("boom")

// A fault happens at one call of a script.
type fault struct {
	step int
	kind string // "error", "panic", "hang"
	gate chan struct{}
}

func (f *fault) hook(step int, _ *runner.Batch) error {
	if step != f.step {
		return nil
	}
	switch f.kind {
	case "error":
		return errBoom
	case "panic":
		panic("boom")
	}
	<-f.gate
	return errBoom
}

// A spoiler returns a result that breaks the contract, so that the loop panics
// outside the runner.
type spoiler struct {
	runner.Runner
	at, step int
	closed   atomic.Bool
}

func (s *spoiler) Collect() (*runner.Result, error) {
	r, err := s.Runner.Collect()
	if s.step++; err == nil && s.step == s.at {
		return &runner.Result{}, nil
	}
	return r, err
}

func (s *spoiler) Close() error {
	s.closed.Store(true)
	return s.Runner.Close()
}

// opener counts how often a runner was replaced.
func opener(t *testing.T, c sim.Config) (open func(context.Context) (runner.Runner, error), count *atomic.Int32) {
	count = new(atomic.Int32)
	return func(context.Context) (runner.Runner, error) {
		count.Add(1)
		return script(t, c), nil
	}, count
}

// HLT-6: after a panic of the loop untouched requests get the right tokens, those
// that have spoken are told, and the runner, not being at fault, is used again.
func TestHLT6PanicOutsideTheRunner(t *testing.T) {
	for depth := 1; depth <= 3; depth++ {
		bubble(t, func(t *testing.T) {
			s := &spoiler{at: 3, Runner: script(t, sim.Config{Info: runner.Info{Depth: depth, MaxSeqs: 2}, Cost: each(time.Second)})}
			g := start(t, s, Config{})
			spoken := g.submit(Request{Tokens: ids(1, 5), MaxTokens: 20})
			time.Sleep(500 * time.Millisecond)
			begun := g.submit(Request{Tokens: ids(2, 5), MaxTokens: 20}) // runs, but has nothing by then at depth 3
			queued := g.submit(Request{Tokens: ids(3, 5), MaxTokens: 20})
			got, err := read(spoken)
			if f, _, _ := spoken.End(); !errors.Is(err, ErrInterrupted) || f != sched.FinishError || len(got) != 2 || !slices.Equal(got, alone(ids(1, 5), 2)) {
				t.Errorf("depth %d: spoken: %v, %v, %v, want two tokens and %v", depth, f, err, got, ErrInterrupted)
			}
			want := alone(ids(2, 5), 20)
			if got, err := read(begun); !slices.Equal(got, want[:len(got)]) || (err == io.EOF) != (len(got) == 20) {
				t.Errorf("depth %d: begun: %v, %v, want %v", depth, got, err, want)
			}
			if got, want := finished(t, queued, sched.FinishLength), alone(ids(3, 5), 20); !slices.Equal(got, want) {
				t.Errorf("depth %d: queued: %v, want %v", depth, got, want)
			}
			// What earlier loops have counted stays counted: 1 request had 2 tokens,
			// of the others each 20, or some before and none after the fault.
			if st := g.Stats(); st.Accepted != 3 || st.Prompt != 15 || st.Starts != 2 || st.CacheQueries < 10 || st.Generated < 22 {
				t.Errorf("depth %d: %+v", depth, st)
			}
			h := g.Health()
			if h.Restarts != 1 || h.State != Running || !strings.Contains(h.Reason, "panic") || s.closed.Load() {
				t.Errorf("depth %d: %+v, runner closed: %v, want one restart on the same runner", depth, h, s.closed.Load())
			}
		})
	}
}

// HLT-6: a runner that failed is replaced; a request without output begins again.
func TestHLT6RunnerFaults(t *testing.T) {
	free := func() sched.Constraint { return &panicky{mask: 100, accept: 100} }
	for _, where := range []string{"launch", "collect", "launch, with a constraint"} {
		for _, kind := range []string{"error", "panic"} {
			t.Run(kind+" in "+where, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					q := Request{Tokens: ids(1, 5), MaxTokens: 6}
					if strings.Contains(where, "constraint") {
						q.Constraint = free
					}
					c := sim.Config{Info: runner.Info{Depth: 2}, Cost: each(time.Second)}
					open, opened := opener(t, c)
					f := &fault{step: 0, kind: kind}
					if where == "collect" {
						c.OnCollect = f.hook
					} else {
						c.OnLaunch = f.hook
					}
					g := start(t, script(t, c), Config{Open: open})
					s := g.submit(q)
					began := time.Now()
					if got, want := finished(t, s, sched.FinishLength), alone(ids(1, 5), 6); !slices.Equal(got, want) {
						t.Errorf("got %v, want %v", got, want)
					}
					if took := time.Since(began); took > 8*time.Second {
						t.Errorf("took %v for 6 steps of 1 s, want at most 2 s more", took)
					}
					if h := g.Health(); h.Restarts != 1 || opened.Load() != 1 || h.State != Running {
						t.Errorf("%+v, opened %d times, want one restart with a new runner", h, opened.Load())
					}
				})
			})
		}
	}
}

// A handedOn is a panic of another goroutine.
type handedOn string

func (h handedOn) Stack() []byte { return []byte("there") }

// The stack of a panic that comes from another goroutine is in the log.
func TestPanicFromElsewhere(t *testing.T) {
	p := panicked(handedOn("boom"))
	if stack := string(p.stack); p.Error() != "panic: boom" || !strings.HasPrefix(stack, "there\n") || !strings.Contains(stack, "TestPanicFromElsewhere") {
		t.Errorf("got %v with the stack %s", p, stack)
	}
	if stack := string(panicked("boom").stack); !strings.HasPrefix(stack, "goroutine ") {
		t.Errorf("the stack of a panic of this goroutine is %s", stack)
	}
}

func TestHLT6WithoutOpen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fault{step: 2, kind: "panic"}
		g := start(t, script(t, sim.Config{OnLaunch: f.hook, Cost: each(time.Second)}), Config{})
		g.want = &panicError{}
		a := g.submit(Request{Tokens: ids(1, 5), MaxTokens: 6})
		synctest.Wait() // its first step is under way
		b := g.submit(Request{Tokens: ids(2, 5), MaxTokens: 6})
		for i, s := range []*Stream{a, b} {
			if got, err := read(s); !errors.Is(err, ErrInterrupted) || len(got) != 2-i {
				t.Errorf("got %v, %v, want %d tokens and %v", got, err, 2-i, ErrInterrupted)
			}
		}
		err := <-g.ran
		if p, ok := errors.AsType[*panicError](err); !ok || p.value != "boom" {
			t.Errorf("Run: got %v, want the panic", err)
		}
		g.ran <- g.want
		if _, err := g.Submit(context.Background(), Request{Tokens: ids(1, 5)}); !errors.Is(err, ErrStopped) {
			t.Errorf("afterwards: got %v, want %v", err, ErrStopped)
		}
	})
}

// HLT-6: a request that always brings the loop down fails the second time; it does
// not end the engine, and those behind it are served.
func TestHLT6PoisonRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		both := make(chan struct{}) // closed once both are submitted: an engine that starts anew takes none
		poison := func(step int, b *runner.Batch) error {
			<-both
			for i := range b.Rows {
				if b.Rows[i].History[0] == 13 {
					panic("poison")
				}
			}
			return nil
		}
		c := sim.Config{Info: runner.Info{MaxSeqs: 1}, OnLaunch: poison}
		open, _ := opener(t, c)
		g := start(t, script(t, c), Config{Open: open})
		bad := g.submit(Request{Tokens: []int32{13}, MaxTokens: 4})
		good := g.submit(Request{Tokens: []int32{14}, MaxTokens: 4})
		close(both)
		if _, err := read(bad); !errors.Is(err, ErrInterrupted) {
			t.Errorf("got %v, want %v", err, ErrInterrupted)
		}
		if got, want := finished(t, good, sched.FinishLength), alone([]int32{14}, 4); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if h := g.Health(); h.Restarts != 2 {
			t.Errorf("%d restarts, want 2", h.Restarts)
		}
	})
}

// Faults are survived so many times an hour, not for ever.
func TestHLT6RestartsAreBounded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := sim.Config{OnLaunch: (&fault{step: 1, kind: "error"}).hook} // the second step of each runner
		open, opened := opener(t, c)
		g := start(t, script(t, c), Config{Open: open, Restarts: 2})
		g.want = errBoom
		crash := func() error {
			_, err := read(g.submit(Request{Tokens: ids(1, 5), MaxTokens: 4}))
			synctest.Wait()
			return err
		}
		for range 5 {
			if err := crash(); !errors.Is(err, ErrInterrupted) {
				t.Errorf("got %v, want %v", err, ErrInterrupted)
			}
			time.Sleep(40 * time.Minute)
		}
		if h := g.Health(); h.State != Running || h.Restarts != 5 || opened.Load() != 5 {
			t.Fatalf("after 5 faults in 200 min: %+v, opened %d times", h, opened.Load())
		}
		for range 2 {
			crash()
		}
		if h := g.Health(); h.State != Stopped {
			t.Errorf("after 3 faults within an hour: %+v, want stopped", h)
		}
	})
}

// HLT-1: a step that hangs ends the requests in flight, not those that the loop has
// not seen, and is survived with a new runner.
func TestHLT1Stall(t *testing.T) {
	for _, where := range []string{"launch", "collect"} {
		t.Run(where, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				c := sim.Config{Cost: each(100 * time.Millisecond)}
				open, opened := opener(t, c)
				f := &fault{step: 5, kind: "hang", gate: make(chan struct{})}
				if where == "launch" {
					c.OnLaunch = f.hook
				} else {
					c.OnCollect = f.hook
				}
				old := &spoiler{Runner: script(t, c)}
				g := start(t, old, Config{Open: open})
				spoken := g.submit(Request{Tokens: ids(1, 5), MaxTokens: 20})
				time.Sleep(510 * time.Millisecond) // five steps, hangs
				unseen := g.submit(Request{Tokens: ids(2, 5), MaxTokens: 20})
				hung := time.Now()
				time.Sleep(9 * time.Second)
				if h := g.Health(); h.State != Running {
					t.Errorf("after 9 s: %+v, want running", h)
				}
				if got, err := read(spoken); !errors.Is(err, ErrInterrupted) || len(got) != 5 {
					t.Errorf("got %v, %v, want five tokens and %v", got, err, ErrInterrupted)
				}
				if took := time.Since(hung); took < 10*time.Second-20*time.Millisecond || took > 11*time.Second {
					t.Errorf("told after %v, want 10 s to 11 s", took)
				}
				if got, want := finished(t, unseen, sched.FinishLength), alone(ids(2, 5), 20); !slices.Equal(got, want) {
					t.Errorf("got %v, want %v", got, want)
				}
				if h := g.Health(); h.Restarts != 1 || h.Reason != errStalled.Error() || opened.Load() != 1 {
					t.Errorf("%+v, opened %d times, want one restart", h, opened.Load())
				}
				if st := g.Stats(); st.Stalls != 1 || st.Starts != 2 || st.Generated != 25 || st.Steps < 25 {
					t.Errorf("%+v, want one stall, two starts, 25 tokens", st)
				}
				close(f.gate) // it comes back and finds its work taken over
				synctest.Wait()
				if !old.closed.Load() {
					t.Error("the runner that hung was not closed when it came back")
				}
				finished(t, g.submit(Request{Tokens: ids(3, 5), MaxTokens: 20}), sched.FinishLength)
			})
		})
	}
}

// HLT-1 without a way to open another runner: the process is to end.
func TestHLT1StallWithoutOpen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fault{step: 1, kind: "hang", gate: make(chan struct{})}
		g := start(t, script(t, sim.Config{OnCollect: f.hook}), Config{Stall: 3 * time.Second})
		g.want = errStalled
		a := g.submit(Request{Tokens: ids(1, 5), MaxTokens: 20})
		synctest.Wait()
		b := g.submit(Request{Tokens: ids(2, 5), MaxTokens: 20})
		for _, s := range []*Stream{a, b} {
			if _, err := read(s); !errors.Is(err, ErrInterrupted) {
				t.Errorf("got %v, want %v", err, ErrInterrupted)
			}
		}
		synctest.Wait()
		if h := g.Health(); h.State != Stopped || h.Reason != errStalled.Error() {
			t.Errorf("%+v, want stopped", h)
		}
		close(f.gate)
	})
}

// HLT-1: neither the first step, nor a long chunk after short steps, nor rest is a
// stall.
func TestHLT1NoFalseAlarm(t *testing.T) {
	bubble(t, func(t *testing.T) {
		first := true
		cost := func(b *runner.Batch) time.Duration {
			if first { // weights come from disk
				first = false
				return 5 * time.Minute
			}
			return time.Duration(len(b.Tokens)) * 100 * time.Millisecond
		}
		g := start(t, script(t, sim.Config{Cost: cost}), Config{})
		if err := g.Probe(context.Background()); err != nil {
			t.Fatal(err)
		}
		finished(t, g.submit(Request{Tokens: ids(1, 2), MaxTokens: 900}), sched.FinishLength)
		time.Sleep(time.Hour)
		finished(t, g.submit(Request{Tokens: ids(2, 900), MaxTokens: 2}), sched.FinishLength) // a step of 90 s
		if h := g.Health(); h.Restarts != 0 {
			t.Errorf("%+v, want no restart", h)
		}
	})
}

// HLT-1: a long prompt whose chunks take ever longer, after thousands of short steps, is no
// stall.
func TestHLT1LongPrompt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		chunks := 0
		cost := func(b *runner.Batch) time.Duration {
			if len(b.Tokens) < 64 {
				return time.Duration(len(b.Tokens)) * time.Millisecond
			}
			chunks++
			return time.Duration(chunks) * 2 * time.Second
		}
		g := start(t, script(t, sim.Config{Cost: cost, Info: runner.Info{Depth: 1, BlockSize: 16, MaxSeqs: 4, MaxTokens: 64, MaxLen: 2048, Groups: []runner.Group{{Blocks: 200}}}}), Config{})
		for i := range 4 {
			finished(t, g.submit(Request{Tokens: ids(i, 2), MaxTokens: 1000}), sched.FinishLength)
		}
		finished(t, g.submit(Request{Tokens: ids(9, 1300), MaxTokens: 2}), sched.FinishLength)
		if h := g.Health(); h.Restarts != 0 || chunks < 20 {
			t.Errorf("%+v after %d chunks, want no restart", h, chunks)
		}
	})
}

// HLT-2: ready means that a step has just finished; an idle engine makes one.
func TestHLT2Ready(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fault{step: 5, kind: "hang", gate: make(chan struct{})}
		var launches atomic.Int32
		c := sim.Config{Cost: each(100 * time.Millisecond), OnCollect: f.hook, OnLaunch: func(int, *runner.Batch) error { launches.Add(1); return nil }}
		e := start(t, script(t, c), Config{})
		ask := func() error {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			return e.Ready(ctx)
		}
		if h := e.Health(); h.State != Starting {
			t.Errorf("%+v, want starting", h)
		}
		for _, c := range []struct {
			wait  time.Duration
			steps int32 // made so far
		}{{0, 1}, {0, 1}, {29 * time.Second, 1}, {2 * time.Second, 2}, {time.Hour, 3}} {
			time.Sleep(c.wait)
			if err := ask(); err != nil || launches.Load() != c.steps {
				t.Errorf("after another %v: %v, %d steps, want ready after %d", c.wait, err, launches.Load(), c.steps)
			}
		}
		time.Sleep(time.Minute)
		results := make(chan error, 10)
		for range 10 { // one step for all
			go func() { results <- ask() }()
		}
		for range 10 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		finished(t, e.submit(Request{Tokens: ids(1, 4), MaxTokens: 1}), sched.FinishLength)
		if launches.Load() != 5 {
			t.Errorf("%d steps, want 5", launches.Load())
		}
		if last := e.Health().LastProgress; time.Since(last) > time.Second {
			t.Errorf("last progress %v ago", time.Since(last))
		}
		e.submit(Request{Tokens: ids(1, 4), MaxTokens: 1}) // hangs
		time.Sleep(31 * time.Second)
		if err := ask(); err == nil {
			t.Error("ready although the last step hangs")
		}
		e.want = errStalled
		close(f.gate)
	})
}

// A panicky constraint allows everything, then fails.
type panicky struct{ mask, accept int }

func (p *panicky) Mask(dst []uint64) error {
	if p.mask--; p.mask < 0 {
		panic("mask")
	}
	for i := range dst {
		dst[i] = ^uint64(0)
	}
	return nil
}

func (p *panicky) Accept(id int32) error {
	if p.accept--; p.accept < 0 {
		panic("accept")
	}
	return nil
}

func (p *panicky) Ahead([]int32, [][]uint64) int {
	if p.accept <= 1 || p.mask <= 1 {
		panic("ahead")
	}
	return 0
}

// storm injects faults at random until it is over.
type storm struct {
	mu   sync.Mutex
	rng  *rand.Rand
	over bool
	gate chan struct{} // closed at the end: what hangs comes back
	hits map[string]int
}

func (s *storm) hook(int, *runner.Batch) error {
	s.mu.Lock()
	kind := s.rng.IntN(400)
	if s.over {
		kind = 400
	}
	switch {
	case kind < 4:
		s.hits["error"]++
	case kind < 8:
		s.hits["panic"]++
	case kind < 10:
		s.hits["hang"]++
	}
	s.mu.Unlock()
	switch {
	case kind < 4:
		return errBoom
	case kind < 8:
		panic("boom")
	case kind < 10:
		<-s.gate
	}
	return nil
}

// Under any mix of faults every request ends, what it got is right, and afterwards the
// engine is as good as new.
func TestHLT1HLT4HLT6Storm(t *testing.T) {
	hits, runs := map[string]int{}, soak.Cases(t, 12, 2000)
	for seed := range uint64(runs) {
		bubble(t, func(t *testing.T) {
			for kind, n := range weather(t, seed) {
				hits[kind] += n
			}
		})
	}
	t.Logf("HLT-6: %d engines with 60 requests each survived %d errors, %d panics and %d hangs; 0 wrong tokens, 0 without an end", runs, hits["error"], hits["panic"], hits["hang"])
	if len(hits) != 3 {
		t.Errorf("only %v happened", hits)
	}
}

func weather(t *testing.T, seed uint64) map[string]int {
	rng := rand.New(rand.NewPCG(seed, 2))
	s := &storm{rng: rand.New(rand.NewPCG(seed, 3)), gate: make(chan struct{}), hits: map[string]int{}}
	c := sim.Config{Info: runner.Info{Depth: 1 + int(seed%3), BlockSize: 4, MaxSeqs: 6, MaxTokens: 32, MaxLen: 96, Groups: []runner.Group{{Blocks: 50}}},
		Cost: each(5 * time.Millisecond), OnLaunch: s.hook, OnCollect: s.hook}
	open, _ := opener(t, c)
	g := start(t, script(t, c), Config{Open: open, Restarts: 1 << 30, FirstStep: time.Second})
	var wg sync.WaitGroup
	for range 60 {
		prompt, n := ids(rng.Int(), 1+rng.IntN(40)), 1+rng.IntN(30)
		stream, err := g.Submit(context.Background(), Request{Tokens: prompt, MaxTokens: n})
		if errors.Is(err, ErrRestarting) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if rng.IntN(4) == 0 {
			time.AfterFunc(time.Duration(rng.IntN(300))*time.Millisecond, stream.Stop)
		}
		wg.Go(func() {
			got, err := read(stream)
			f, usage, _ := stream.End()
			ok := (f == sched.FinishLength && err == io.EOF && len(got) == n) || (f == sched.FinishAbort && err == io.EOF) || (f == sched.FinishError && errors.Is(err, ErrInterrupted))
			if want := alone(prompt, n); !ok || len(got) > n || !slices.Equal(got, want[:len(got)]) || usage.Completion != len(got) || usage.Prompt != len(prompt) {
				t.Errorf("seed %d: %v, %v, %+v, output %v, alone %v", seed, f, err, usage, got, want)
			}
		})
		time.Sleep(time.Duration(rng.IntN(100)) * time.Millisecond)
	}
	wg.Wait()
	time.Sleep(time.Minute) // the last step may hang: nobody waits for it, but it counts as a stall
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	close(s.gate)
	synctest.Wait()
	if got, want := finished(t, g.submit(Request{Tokens: ids(1, 30), MaxTokens: 30}), sched.FinishLength), alone(ids(1, 30), 30); !slices.Equal(got, want) {
		t.Errorf("seed %d: afterwards %v, want %v", seed, got, want)
	}
	time.Sleep(time.Second)
	if st := g.Stats(); st.Running != 0 || st.KV.Held != 0 || st.Starts != 1+s.hits["error"]+s.hits["panic"]+s.hits["hang"] || st.Stalls != s.hits["hang"] {
		t.Errorf("seed %d: %+v after %v", seed, st, s.hits)
	}
	return s.hits
}

// While a runner is opened again nothing is accepted, and what waits is kept.
func TestHLT6Reopening(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want error // of the waiting request
	}{"opens": {nil, io.EOF}, "fails": {errBoom, ErrInterrupted}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				open := func(context.Context) (runner.Runner, error) {
					time.Sleep(time.Minute)
					return script(t, sim.Config{}), c.err
				}
				g := start(t, script(t, sim.Config{OnLaunch: (&fault{step: 0, kind: "error"}).hook}), Config{Open: open})
				g.want = c.err
				s := g.submit(Request{Tokens: ids(1, 5), MaxTokens: 4})
				time.Sleep(time.Second)
				_, err := g.Submit(context.Background(), Request{Tokens: ids(2, 5)})
				if ready := g.Ready(context.Background()); !errors.Is(err, ErrRestarting) || !errors.Is(ready, ErrRestarting) || g.Health().State != Restarting {
					t.Errorf("got %v, ready %v, %+v, want restarting", err, ready, g.Health())
				}
				if got, err := read(s); !errors.Is(err, c.want) || (err == io.EOF && !slices.Equal(got, alone(ids(1, 5), 4))) {
					t.Errorf("got %v, %v, want %v", got, err, c.want)
				}
			})
		})
	}
}

// A badCloser does not close.
type badCloser struct {
	runner.Runner
	hang chan struct{} // nil = panics
}

func (b *badCloser) Close() error {
	if b.hang == nil {
		panic("close")
	}
	<-b.hang
	return nil
}

// A broken runner that does not even close keeps nobody from going on.
func TestHLT6CloseFails(t *testing.T) {
	for name, hang := range map[string]bool{"panics": false, "hangs": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				open, _ := opener(t, sim.Config{})
				bad := &badCloser{Runner: script(t, sim.Config{OnLaunch: (&fault{step: 0, kind: "error"}).hook})}
				if hang {
					bad.hang = make(chan struct{})
				}
				g := start(t, bad, Config{Open: open})
				if got, want := finished(t, g.submit(Request{Tokens: ids(1, 5), MaxTokens: 4}), sched.FinishLength), alone(ids(1, 5), 4); !slices.Equal(got, want) {
					t.Errorf("got %v, want %v", got, want)
				}
				if hang {
					close(bad.hang)
				}
			})
		})
	}
}

func TestPace(t *testing.T) {
	var p pace
	for range 1000 {
		p.add(time.Millisecond)
	}
	for range 10 {
		p.add(time.Minute)
	}
	if got := p.p99(); got < time.Millisecond || got > 2*time.Millisecond {
		t.Errorf("1 %% outliers: p99 is %v, want 1 ms to 2 ms", got)
	}
	p.add(time.Minute)
	if got := p.p99(); got < time.Minute || got > 2*time.Minute {
		t.Errorf("more outliers: p99 is %v, want 1 min to 2 min", got)
	}
	if got := new(pace).p99(); got != 0 {
		t.Errorf("without steps: %v, want 0", got)
	}
}
