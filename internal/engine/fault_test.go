package engine

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ossian/internal/runner"
	"ossian/internal/sched"
	"ossian/internal/sim"
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
			h := g.Health()
			if h.Restarts != 1 || h.State != Running || !strings.Contains(h.Reason, "panic") || s.closed.Load() {
				t.Errorf("depth %d: %+v, runner closed: %v, want one restart on the same runner", depth, h, s.closed.Load())
			}
		})
	}
}

// HLT-6: a runner that failed is replaced; a request without output begins again.
func TestHLT6RunnerFaults(t *testing.T) {
	for _, where := range []string{"launch", "collect"} {
		for _, kind := range []string{"error", "panic"} {
			t.Run(kind+" in "+where, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					c := sim.Config{Info: runner.Info{Depth: 2}, Cost: each(time.Second)}
					open, opened := opener(t, c)
					f := &fault{step: 0, kind: kind}
					if where == "launch" {
						c.OnLaunch = f.hook
					} else {
						c.OnCollect = f.hook
					}
					g := start(t, script(t, c), Config{Open: open})
					s := g.submit(Request{Tokens: ids(1, 5), MaxTokens: 6})
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

func TestHLT6WithoutOpen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := &fault{step: 2, kind: "panic"}
		g := start(t, script(t, sim.Config{OnLaunch: f.hook, Cost: each(time.Second)}), Config{})
		g.want = &panicError{}
		a, b := g.submit(Request{Tokens: ids(1, 5), MaxTokens: 6}), g.submit(Request{Tokens: ids(2, 5), MaxTokens: 6})
		for _, s := range []*Stream{a, b} {
			if got, err := read(s); !errors.Is(err, ErrInterrupted) || len(got) != 2 {
				t.Errorf("got %v, %v, want two tokens and %v", got, err, ErrInterrupted)
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
		poison := func(step int, b *runner.Batch) error {
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
		if h := e.Health(); h.State != Starting && h.State != Running {
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

func (p *panicky) Mask(dst []uint64) {
	if p.mask--; p.mask < 0 {
		panic("mask")
	}
	for i := range dst {
		dst[i] = ^uint64(0)
	}
}

func (p *panicky) Accept(id int32) error {
	if p.accept--; p.accept < 0 {
		panic("accept")
	}
	return nil
}

// HLT-4: a panic of a constraint ends its request only.
func TestHLT4ConstraintPanics(t *testing.T) {
	for name, c := range map[string]*panicky{"mask at once": {0, 9}, "mask": {3, 9}, "accept": {9, 2}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				g := start(t, script(t, sim.Config{}), Config{})
				bad := g.submit(Request{Tokens: ids(1, 5), MaxTokens: 20, Constraint: c})
				good := g.submit(Request{Tokens: ids(2, 5), MaxTokens: 20})
				got, err := read(bad)
				if f, _, _ := bad.End(); err == io.EOF || f != sched.FinishError || !slices.Equal(got, alone(ids(1, 5), len(got))) {
					t.Errorf("got %v, %v, %v, want an error", got, f, err)
				}
				if got, want := finished(t, good, sched.FinishLength), alone(ids(2, 5), 20); !slices.Equal(got, want) {
					t.Errorf("the other got %v, want %v", got, want)
				}
				if h := g.Health(); h.Restarts != 0 {
					t.Errorf("%+v, want no restart", h)
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
