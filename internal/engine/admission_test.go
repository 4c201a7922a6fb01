package engine

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"ossian/internal/runner"
	"ossian/internal/sched"
	"ossian/internal/sim"
)

// ADM-3: with blocks for one request only, all finish, and what that costs is counted.
func TestADM3TightPool(t *testing.T) {
	for depth := 1; depth <= 3; depth++ {
		bubble(t, func(t *testing.T) {
			info := runner.Info{Depth: depth, BlockSize: 4, MaxSeqs: 4, MaxTokens: 16, MaxLen: 64, Groups: []runner.Group{{Blocks: 16}}}
			g := start(t, script(t, sim.Config{Info: info, Cost: each(time.Millisecond)}), Config{})
			var streams []*Stream
			for i := range 6 {
				streams = append(streams, g.submit(Request{Tokens: ids(i, 20), MaxTokens: 44}))
			}
			for i, s := range streams {
				if got, want := finished(t, s, sched.FinishLength), alone(ids(i, 20), 44); !slices.Equal(got, want) {
					t.Errorf("depth %d, request %d: got %v, want %v", depth, i, got, want)
				}
			}
			time.Sleep(time.Second)
			st := g.Stats()
			if st.Preemptions == 0 || st.Recomputed == 0 {
				t.Errorf("%+v: nothing was preempted, this test shows nothing", st)
			}
			if len(st.Groups) != 1 || st.Groups[0].Held != 0 || st.Groups[0].Cached == 0 || st.Groups[0].Free+st.Groups[0].Cached != 16 {
				t.Errorf("at rest the 16 blocks are %+v", st.Groups)
			}
		})
	}
}

func TestADM4Queue(t *testing.T) {
	bubble(t, func(t *testing.T) {
		info := runner.Info{MaxSeqs: 2, MaxTokens: 64}
		g := start(t, script(t, sim.Config{Info: info, Cost: each(time.Second)}), Config{Sched: sched.Config{MaxQueue: 3}})
		var streams []*Stream
		for i := range 5 { // two to run, three to wait
			if err := g.Accepting(); err != nil {
				t.Fatalf("before request %d: %v", i, err)
			}
			streams = append(streams, g.submit(Request{Tokens: ids(i, 5), MaxTokens: 3 + i}))
		}
		for range 2 { // at once, and when the loop has them
			if _, err := g.Submit(context.Background(), Request{Tokens: ids(6, 5)}); !errors.Is(err, ErrQueueFull) || !errors.Is(g.Accepting(), ErrQueueFull) {
				t.Errorf("one too many: got %v, Accepting %v, want %v", err, g.Accepting(), ErrQueueFull)
			}
			synctest.Wait()
		}
		if err := g.Probe(context.Background()); err != nil {
			t.Errorf("a probe at a full queue: %v", err)
		}
		if st := g.Stats(); st.Accepted != 5 || st.Prompt != 25 {
			t.Errorf("%+v, want 5 requests with 25 tokens", st)
		}
		finished(t, streams[0], sched.FinishLength)
		finished(t, g.submit(Request{Tokens: ids(6, 5), MaxTokens: 1}), sched.FinishLength)
		for _, s := range streams[1:] {
			finished(t, s, sched.FinishLength)
		}
	})
}

func TestADM4QueueTokens(t *testing.T) {
	bubble(t, func(t *testing.T) {
		info := runner.Info{MaxSeqs: 1, MaxTokens: 64}
		queued := make(chan struct{})
		hold := func(int, *runner.Batch) error { <-queued; return nil }
		g := start(t, script(t, sim.Config{Info: info, Cost: each(time.Second), OnLaunch: hold}), Config{Sched: sched.Config{MaxQueueTokens: 100}})
		streams := []*Stream{g.submit(Request{Tokens: ids(0, 1), MaxTokens: 1})}
		synctest.Wait()                                                                 // it runs
		streams = append(streams, g.submit(Request{Tokens: ids(1, 500), MaxTokens: 2})) // alone in the queue it may be larger
		if _, err := g.Submit(context.Background(), Request{Tokens: ids(2, 1)}); !errors.Is(err, ErrQueueTokens) || !errors.Is(g.Accepting(), ErrQueueTokens) {
			t.Errorf("behind a large prompt: got %v, Accepting %v, want %v", err, g.Accepting(), ErrQueueTokens)
		}
		close(queued)
		time.Sleep(1500 * time.Millisecond) // the large one runs
		streams = append(streams, g.submit(Request{Tokens: ids(2, 60), MaxTokens: 1}), g.submit(Request{Tokens: ids(3, 40), MaxTokens: 1}))
		for range 3 {
			if _, err := g.Submit(context.Background(), Request{Tokens: ids(4, 1)}); !errors.Is(err, ErrQueueTokens) {
				t.Errorf("101 tokens: got %v, want %v", err, ErrQueueTokens)
			}
			time.Sleep(time.Second)
		}
		for _, s := range streams {
			finished(t, s, sched.FinishLength)
		}
	})
}

// ADM-6: a tenant with a short request now and then does not wait behind another's
// long ones. Times are virtual: 1 ms per token, chunks of 64.
func TestADM6Fairness(t *testing.T) {
	bubble(t, func(t *testing.T) {
		info := runner.Info{MaxSeqs: 16, MaxTokens: 64, MaxLen: 1024}
		cost := func(b *runner.Batch) time.Duration {
			return 10*time.Millisecond + time.Duration(len(b.Tokens))*time.Millisecond
		}
		g := start(t, script(t, sim.Config{Info: info, Cost: cost}), Config{})
		first := func(seed int) time.Duration {
			s := g.submit(Request{Tokens: ids(seed, 20), MaxTokens: 4, Tenant: 2})
			finished(t, s, sched.FinishLength)
			_, _, times := s.End()
			return times.First.Sub(times.Queued)
		}
		isolated := first(1)
		var long []*Stream
		for i := range 200 {
			long = append(long, g.submit(Request{Tokens: ids(1000+i, 600), MaxTokens: 100, Tenant: 1}))
		}
		for i := range 30 {
			if got, bound := first(2+i), 3*isolated+74*time.Millisecond; got > bound {
				t.Errorf("request %d: first token after %v, alone %v, bound %v", i, got, isolated, bound)
			}
			time.Sleep(time.Second)
		}
		for _, s := range long {
			s.Stop()
		}
	})
}

// ADM-8: whatever is not generation waits neither for a step nor for the queue.
func TestADM8ControlIsImmediate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := start(t, script(t, sim.Config{Info: runner.Info{MaxSeqs: 1}, Cost: each(time.Hour)}), Config{Stall: 10 * time.Hour, Sched: sched.Config{MaxQueue: 1}})
		a, b := g.submit(Request{Tokens: ids(1, 4), MaxTokens: 2}), g.submit(Request{Tokens: ids(2, 4), MaxTokens: 2})
		time.Sleep(time.Minute)
		began := time.Now()
		g.Health()
		g.Stats()
		if err := g.Accepting(); !errors.Is(err, ErrQueueFull) {
			t.Errorf("got %v, want %v", err, ErrQueueFull)
		}
		b.Stop()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		drained := make(chan error, 1)
		go func() { drained <- g.Drain(ctx) }()
		for _, s := range []*Stream{a, b} { // they are told at once
			if _, err := read(s); !errors.Is(err, ErrStopped) {
				t.Errorf("got %v, want %v", err, ErrStopped)
			}
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("took %v, want no time", took)
		}
		if err := <-drained; !errors.Is(err, context.Canceled) {
			t.Errorf("drain: got %v, want %v", err, context.Canceled)
		}
		if took := time.Since(began); took != time.Hour-time.Minute {
			t.Errorf("drain took %v, want the rest of the step", took)
		}
	})
}

// CON-2: a reader that takes nothing delays nobody and costs what it asked for.
func TestCON2SlowReader(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := start(t, script(t, sim.Config{Cost: each(time.Millisecond)}), Config{})
		slow := g.submit(Request{Tokens: ids(1, 10), MaxTokens: 300})
		synctest.Wait() // its first step is under way
		fast := g.submit(Request{Tokens: ids(2, 10), MaxTokens: 300})
		began := time.Now()
		finished(t, fast, sched.FinishLength)
		if took := time.Since(began); took != 301*time.Millisecond {
			t.Errorf("took %v, want 301 steps of 1 ms", took)
		}
		out, err := slow.Recv(context.Background())
		if err != nil || len(out) != 300 {
			t.Fatalf("got %d tokens, %v, want all 300 in one piece", len(out), err)
		}
		for i, id := range alone(ids(1, 10), 300) {
			if out[i].ID != id {
				t.Fatalf("token %d is %d, want %d", i, out[i].ID, id)
			}
		}
	})
}

// OPS-2: what ends in time ends as if nothing had happened, the rest is told.
func TestOPS2Drain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := start(t, script(t, sim.Config{Info: runner.Info{MaxSeqs: 2, Depth: 2}, Cost: each(time.Second)}), Config{})
		short, queued, long := g.submit(Request{Tokens: ids(1, 4), MaxTokens: 5}), g.submit(Request{Tokens: ids(2, 4), MaxTokens: 8}), g.submit(Request{Tokens: ids(3, 4), MaxTokens: 500})
		time.Sleep(1500 * time.Millisecond)
		drained := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			drained <- g.Drain(ctx)
		}()
		synctest.Wait()
		if _, err := g.Submit(context.Background(), Request{Tokens: ids(4, 4)}); !errors.Is(err, ErrDraining) {
			t.Errorf("new request: got %v, want %v", err, ErrDraining)
		}
		if err := g.Ready(context.Background()); !errors.Is(err, ErrDraining) || g.Health().State != Draining {
			t.Errorf("ready: %v, %+v, want draining", err, g.Health())
		}
		for i, s := range []*Stream{short, queued} {
			if got, want := finished(t, s, sched.FinishLength), alone(ids(1+i, 4), 5+3*i); !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		}
		got, err := read(long)
		if f, _, _ := long.End(); !errors.Is(err, ErrStopped) || f != sched.FinishError || !slices.Equal(got, alone(ids(3, 4), len(got))) {
			t.Errorf("the long one: %v, %v, output %v", f, err, got)
		}
		if err := <-drained; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("drain: got %v, want %v", err, context.DeadlineExceeded)
		}
		if _, err := g.Submit(context.Background(), Request{Tokens: ids(4, 4)}); !errors.Is(err, ErrStopped) || g.Health().State != Stopped {
			t.Errorf("afterwards: got %v, %+v, want stopped", err, g.Health())
		}
	})
}

// OPS-2: who holds the engine has requests that follow on others taken while it drains, and the
// engine waits for the end of that.
func TestOPS2DrainHeld(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := start(t, script(t, sim.Config{}), Config{})
		release := g.Hold()
		drained := make(chan error, 1)
		go func() { drained <- g.Drain(context.Background()) }()
		synctest.Wait()
		if _, err := g.Submit(context.Background(), Request{Tokens: ids(1, 4)}); !errors.Is(err, ErrDraining) {
			t.Errorf("a new request: %v, want %v", err, ErrDraining)
		}
		finished(t, g.submit(Request{Tokens: ids(1, 4), MaxTokens: 5, Follows: true}), sched.FinishLength)
		synctest.Wait()
		select {
		case err := <-drained:
			t.Errorf("drained while held: %v", err)
		default:
		}
		release()
		release()
		if err := <-drained; err != nil {
			t.Errorf("drain: %v", err)
		}
		if _, err := g.Submit(context.Background(), Request{Tokens: ids(1, 4), Follows: true}); !errors.Is(err, ErrStopped) {
			t.Errorf("afterwards: %v, want %v", err, ErrStopped)
		}
	})
}

func TestOPS2DrainIdle(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := start(t, script(t, sim.Config{}), Config{})
		s := g.submit(Request{Tokens: ids(1, 4), MaxTokens: 5})
		synctest.Wait()
		if err := g.Drain(context.Background()); err != nil {
			t.Error(err)
		}
		finished(t, s, sched.FinishLength)
	})
}
