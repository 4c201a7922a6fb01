package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"ossian/internal/runner"
	"ossian/internal/sched"
	"ossian/internal/sim"
)

// bubble runs a test under virtual time. When f has returned every goroutine must
// end: that is the leak check of all tests (SOK-3).
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// A rig is a running engine.
type rig struct {
	*Engine
	t    *testing.T
	end  context.CancelFunc
	ran  chan error
	want error // what Run is to return
}

func start(t *testing.T, r runner.Runner, cfg Config) *rig {
	t.Helper()
	return startLog(t, r, cfg, slog.New(slog.DiscardHandler))
}

func startLog(t *testing.T, r runner.Runner, cfg Config, log *slog.Logger) *rig {
	t.Helper()
	e, err := New(r, cfg, log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	g := &rig{Engine: e, t: t, end: end, ran: make(chan error, 1)}
	go func() { g.ran <- e.Run(ctx) }()
	t.Cleanup(func() {
		end()
		if err := <-g.ran; !errors.Is(err, g.want) {
			t.Errorf("Run: got %v, want %v", err, g.want)
		}
	})
	return g
}

func script(t *testing.T, c sim.Config) *sim.Script {
	t.Helper()
	c.Verify = true
	s, err := sim.NewScript(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// each makes every step take that long.
func each(d time.Duration) func(*runner.Batch) time.Duration {
	return func(*runner.Batch) time.Duration { return d }
}

func (g *rig) submit(q Request) *Stream {
	g.t.Helper()
	s, err := g.Submit(context.Background(), q)
	if err != nil {
		g.t.Fatal(err)
	}
	return s
}

// read returns all tokens of a stream and why they ended.
func read(s *Stream) (ids []int32, err error) {
	for {
		out, err := s.Recv(context.Background())
		if err != nil {
			return ids, err
		}
		for _, o := range out {
			ids = append(ids, o.ID)
		}
	}
}

// finished reads a stream to its end and wants it to be f.
func finished(t *testing.T, s *Stream, f sched.Finish) []int32 {
	t.Helper()
	ids, err := read(s)
	got, usage, _ := s.End()
	if err != io.EOF || got != f {
		t.Errorf("stream %d: ended with %v, %v, want %v, %v", s.ID, got, err, f, io.EOF)
	}
	if usage.Completion != len(ids) {
		t.Errorf("stream %d: usage counts %d output tokens, %d were received", s.ID, usage.Completion, len(ids))
	}
	return ids
}

// ids returns n ids that differ from those of other seeds.
func ids(seed, n int) []int32 {
	rng := rand.New(rand.NewPCG(uint64(seed), 9))
	out := make([]int32, n)
	for i := range out {
		out[i] = rng.Int32N(512)
	}
	return out
}

// alone is what the default script plays after a prompt.
func alone(prompt []int32, n int) []int32 {
	next, history := sim.Hash(512), slices.Clone(prompt)
	for i := range n {
		history = append(history, next(history, uint64(i)))
	}
	return history[len(prompt):]
}

func TestStream(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var steps, tokens int
		observe := func(n int, took time.Duration) {
			if steps, tokens = steps+1, tokens+n; took != time.Second {
				t.Errorf("a step of %d tokens took %v, want 1 s", n, took)
			}
		}
		g := start(t, script(t, sim.Config{Cost: each(time.Second), Info: runner.Info{Depth: 2}}), Config{Step: observe})
		began := time.Now()
		prompt := ids(1, 40)
		want := alone(prompt, 10)
		a, b := g.submit(Request{Tokens: prompt, MaxTokens: 10}), g.submit(Request{Tokens: prompt[:20], MaxTokens: 500, Stops: alone(prompt[:20], 3)[2:]})
		if got := finished(t, a, sched.FinishLength); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if got := finished(t, b, sched.FinishStop); !slices.Equal(got, alone(prompt[:20], 3)) {
			t.Errorf("got %v, want %v, the stop id last", got, alone(prompt[:20], 3))
		}
		_, _, times := a.End()
		if times.Queued != began || times.Scheduled != began || times.First.Sub(began) != time.Second || times.Finished.Sub(began) != 10*time.Second {
			t.Errorf("times %+v, want queued and scheduled at 0 s, the first token at 1 s, the end at 10 s", times)
		}
		synctest.Wait()
		if st := g.Stats(); uint64(steps) != st.Steps || uint64(tokens) != st.Tokens || steps < 10 {
			t.Errorf("told of %d steps with %d tokens, made %d with %d", steps, tokens, st.Steps, st.Tokens)
		}
		if _, err := a.Recv(context.Background()); err != io.EOF {
			t.Errorf("after the end: got %v, want %v", err, io.EOF)
		}
		a.Stop() // changes nothing
		if f, _, _ := a.End(); f != sched.FinishLength {
			t.Errorf("a stop after the end makes it %v", f)
		}
	})
}

func TestLogprobsPassThrough(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := start(t, script(t, sim.Config{Next: sim.List(5, 6, 7)}), Config{})
		q := Request{Tokens: ids(1, 4), MaxTokens: 3}
		q.Params.Logprobs, q.Params.TopLogprobs = true, 2
		s := g.submit(q)
		synctest.Wait() // all three in one piece: none may be overwritten
		out, err := s.Recv(context.Background())
		if err != nil || len(out) != 3 {
			t.Fatalf("got %v, %v, want 3 tokens", out, err)
		}
		for i, o := range out {
			if want := int32(5 + i); o.ID != want || len(o.Logprobs) != 3 || o.Logprobs[0].ID != want || o.Logprobs[1].ID != want || o.Logprobs[2].Logprob != -20 {
				t.Errorf("token %d: %+v, want id %d with two alternatives", i, o, want)
			}
		}
	})
}

func TestRecvContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := start(t, script(t, sim.Config{Cost: each(time.Minute)}), Config{Stall: time.Hour})
		s := g.submit(Request{Tokens: ids(1, 4), MaxTokens: 2})
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := s.Recv(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
		}
		finished(t, s, sched.FinishLength) // it has ended the call only
	})
}

// LIF-2: in every state a request ends by the end of the running step, and its
// blocks are free after it.
func TestLIF2StopInEveryState(t *testing.T) {
	stop := map[string]func(s *Stream, cancel func()){
		"Stop":    func(s *Stream, _ func()) { s.Stop() },
		"context": func(_ *Stream, cancel func()) { cancel() },
	}
	for how, stop := range stop {
		for _, c := range []struct {
			state string
			after time.Duration // of submission; steps take 1 s
			busy  bool          // somebody else holds the only slot
		}{
			{"just submitted", 0, false},
			{"queued", 2500 * time.Millisecond, true},
			{"in its prompt", 1500 * time.Millisecond, false},
			{"in its output", 5500 * time.Millisecond, false},
		} {
			for depth := 1; depth <= 2; depth++ { // with 2 a step is launched when it is stopped
				t.Run(fmt.Sprintf("%s by %s at depth %d", c.state, how, depth), func(t *testing.T) {
					bubble(t, func(t *testing.T) { stopIn(t, c.after, c.busy, depth, stop) })
				})
			}
		}
	}
}

func stopIn(t *testing.T, after time.Duration, busy bool, depth int, stop func(s *Stream, cancel func())) {
	info := runner.Info{MaxSeqs: 2, MaxTokens: 16, MaxLen: 200, Depth: depth}
	if busy {
		info.MaxSeqs = 1
	}
	g := start(t, script(t, sim.Config{Info: info, Cost: each(time.Second)}), Config{})
	other := g.submit(Request{Tokens: ids(1, 4), MaxTokens: 12})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s, err := g.Submit(ctx, Request{Tokens: ids(2, 60), MaxTokens: 100})
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(after)
	began := time.Now()
	stop(s, cancel)
	finished(t, s, sched.FinishAbort)
	if _, _, times := s.End(); after > 0 && times.Scheduled.IsZero() != busy {
		t.Errorf("times %+v, want the first step in them if there was one", times)
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("ended after %v, want one step", took)
	}
	time.Sleep(time.Duration(depth)*time.Second + 1500*time.Millisecond) // what was launched has ended, and told so
	if st := g.Stats(); st.Running != 1 || st.Waiting != 0 || st.KV.Held > 1 {
		t.Errorf("afterwards: %+v, want one short sequence", st)
	}
	if got, want := finished(t, other, sched.FinishLength), alone(ids(1, 4), 12); !slices.Equal(got, want) {
		t.Errorf("the other got %v, want %v", got, want)
	}
}

// Who has an answer finds it counted: in Stats, and by what is told of steps.
func TestCountedBeforeHandedOut(t *testing.T) {
	var told atomic.Int64
	g := start(t, script(t, sim.Config{}), Config{Step: func(tokens int, _ time.Duration) { told.Add(int64(tokens)) }})
	prompt := ids(1, 8)
	for i := range 1000 {
		s := g.submit(Request{Tokens: prompt, MaxTokens: 1, Salt: uint64(i)})
		finished(t, s, sched.FinishLength)
		if st, want := g.Stats(), i+1; st.Sampled != uint64(want) || told.Load() != int64(want*len(prompt)) {
			t.Fatalf("after %d answers: %d ids counted, %d tokens told of, want %d", want, st.Sampled, told.Load(), want*len(prompt))
		}
	}
}

// While its first step runs a request is counted as one that runs, and the queue has room.
func TestStatsWithinStep(t *testing.T) {
	bubble(t, func(t *testing.T) {
		blocking := make(chan struct{})
		g := start(t, script(t, sim.Config{OnLaunch: func(step int, _ *runner.Batch) error {
			if step == 0 {
				<-blocking
			}
			return nil
		}}), Config{Sched: sched.Config{MaxQueueTokens: 50}})
		a := g.submit(Request{Tokens: ids(1, 40), MaxTokens: 5})
		synctest.Wait()
		if st := g.Stats(); st.Running != 1 || st.Waiting != 0 || st.WaitingTokens != 0 || st.KV.Held == 0 {
			t.Errorf("within the first step: %+v", st)
		}
		b := g.submit(Request{Tokens: ids(2, 40), MaxTokens: 5})
		close(blocking)
		finished(t, a, sched.FinishLength)
		finished(t, b, sched.FinishLength)
	})
}

func TestLIF2AbortStorm(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := start(t, script(t, sim.Config{Info: runner.Info{Depth: 2}, Cost: each(time.Second)}), Config{Sched: sched.Config{MaxQueue: 5000}})
		var streams []*Stream
		for i := range 3000 {
			streams = append(streams, g.submit(Request{Tokens: ids(i, 30), MaxTokens: 50}))
		}
		time.Sleep(2500 * time.Millisecond)
		began := time.Now()
		var wg sync.WaitGroup
		for i := range 3000 {
			for range 2 { // idempotent
				wg.Go(streams[i].Stop)
			}
		}
		wg.Wait()
		for _, s := range streams {
			finished(t, s, sched.FinishAbort)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("ended after %v, want one step", took)
		}
		time.Sleep(2 * time.Second) // what was launched
		if st := g.Stats(); st.Running != 0 || st.KV.Held != 0 {
			t.Errorf("afterwards %+v", st)
		}
	})
}

func TestLIF6Deadlines(t *testing.T) {
	for _, c := range []struct {
		name         string
		total, start time.Duration // 0 = none
		busy         bool          // there is no slot for 20 s
		want         sched.Finish
		at           time.Duration
	}{
		{"total, running", 3500 * time.Millisecond, 0, false, sched.FinishDeadline, 4 * time.Second},
		{"total, queued", 3500 * time.Millisecond, 0, true, sched.FinishDeadline, 4 * time.Second},
		{"queue wait", 0, 2500 * time.Millisecond, true, sched.FinishDeadline, 3 * time.Second},
		{"queue wait does not end what runs", 0, 2500 * time.Millisecond, false, sched.FinishLength, 9 * time.Second},
		{"in time", time.Minute, time.Minute, true, sched.FinishLength, 28 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				info := runner.Info{MaxSeqs: 2}
				if c.busy {
					info.MaxSeqs = 1
				}
				g := start(t, script(t, sim.Config{Info: info, Cost: each(time.Second)}), Config{})
				other := g.submit(Request{Tokens: ids(1, 4), MaxTokens: 20})
				synctest.Wait() // its first step is under way
				q, began := Request{Tokens: ids(2, 4), MaxTokens: 8}, time.Now()
				if c.total > 0 {
					q.Deadline = began.Add(c.total)
				}
				if c.start > 0 {
					q.StartBy = began.Add(c.start)
				}
				finished(t, g.submit(q), c.want)
				if took := time.Since(began); took != c.at {
					t.Errorf("ended after %v, want %v", took, c.at)
				}
				finished(t, other, sched.FinishLength)
			})
		})
	}
}

func TestLIF7ContextLength(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := start(t, script(t, sim.Config{Info: runner.Info{MaxLen: 50}}), Config{})
		for _, c := range []struct{ prompt, ask, want int }{ // want = -1: refused
			{49, 1, 1}, {49, 0, 1}, {49, 2, 1}, {40, 10, 10}, {40, 11, 10}, {40, 3, 3}, {50, 1, -1}, {50, 0, -1}, {51, 5, -1},
		} {
			s, err := g.Submit(context.Background(), Request{Tokens: ids(1, c.prompt), MaxTokens: c.ask})
			if c.want < 0 {
				limit, ok := errors.AsType[*LimitError](err)
				if !ok || *limit != (LimitError{Prompt: c.prompt, Output: c.ask, Max: 50}) {
					t.Errorf("prompt %d, output %d: got %v, want a LimitError with the counts", c.prompt, c.ask, err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := finished(t, s, sched.FinishLength); s.MaxTokens != c.want || len(got) != c.want {
				t.Errorf("prompt %d, output %d: got %d, MaxTokens %d, want %d", c.prompt, c.ask, len(got), s.MaxTokens, c.want)
			}
		}
	})
}

func TestLIF9Usage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := start(t, script(t, sim.Config{Info: runner.Info{BlockSize: 16, MaxSeqs: 1}, Cost: each(time.Second)}), Config{})
		prompt := ids(1, 50)
		for _, want := range []Usage{{Prompt: 50, Completion: 5}, {Prompt: 50, Cached: 48, Completion: 5}} {
			s := g.submit(Request{Tokens: prompt, MaxTokens: 5})
			finished(t, s, sched.FinishLength)
			if _, got, _ := s.End(); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		}
		salted := g.submit(Request{Tokens: prompt, MaxTokens: 5, Salt: 1})
		queued := g.submit(Request{Tokens: prompt, MaxTokens: 5})
		time.Sleep(2500 * time.Millisecond)
		queued.Stop()
		finished(t, queued, sched.FinishAbort)
		finished(t, salted, sched.FinishLength)
		if _, got, times := queued.End(); got != (Usage{Prompt: 50}) || !times.Scheduled.IsZero() || !times.First.IsZero() {
			t.Errorf("queued: got %+v %+v, want nothing but the prompt", got, times)
		}
		if _, got, _ := salted.End(); got != (Usage{Prompt: 50, Completion: 5}) {
			t.Errorf("other salt: got %+v, want nothing cached", got)
		}
		if st := g.Stats(); st.CacheHits != 48 || st.CacheQueries != 150 {
			t.Errorf("%d of %d prompt tokens cached, want 48 of 150", st.CacheHits, st.CacheQueries)
		}
	})
}

// The prefix cache is emptied on request, while others run and when nobody does, also of
// what a request has left that has just ended, and nobody waits in vain.
func TestForgetPrefixes(t *testing.T) {
	for depth := 1; depth <= 3; depth++ {
		bubble(t, func(t *testing.T) { forgetPrefixes(t, depth) })
	}
}

func forgetPrefixes(t *testing.T, depth int) {
	const step = 10 * time.Millisecond
	info := runner.Info{Depth: depth, BlockSize: 4, MaxSeqs: 2, MaxTokens: 64, MaxLen: 400, Groups: []runner.Group{{Blocks: 200}}}
	g := start(t, script(t, sim.Config{Info: info, Cost: each(step)}), Config{})
	prompt := Request{Tokens: ids(1, 21), MaxTokens: 9, Stops: alone(ids(1, 21), 1)} // ends with its first token: others are in flight
	cached := func(want int) {
		t.Helper()
		s := g.submit(prompt)
		finished(t, s, sched.FinishStop)
		if _, usage, _ := s.End(); usage.Cached != want {
			t.Errorf("depth %d: %d tokens are cached, want %d", depth, usage.Cached, want)
		}
	}
	forget := func(want int) {
		t.Helper()
		began := time.Now()
		if n, err := g.ForgetPrefixes(context.Background()); err != nil || n != want || time.Since(began) > time.Duration(depth)*step {
			t.Errorf("depth %d: %d blocks forgotten after %v, %v, want %d", depth, n, time.Since(began), err, want)
		}
	}
	forget(0)
	cached(0)
	cached(20)
	forget(5)
	cached(0)
	long := g.submit(Request{Tokens: ids(2, 9), MaxTokens: 300})
	time.Sleep(10 * step) // it has two blocks and some
	forget(5)
	cached(0)
	cached(20)
	if got, want := finished(t, long, sched.FinishLength), alone(ids(2, 9), 300); !slices.Equal(got, want) {
		t.Errorf("depth %d: got %v, alone %v", depth, got, want)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := g.ForgetPrefixes(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	g.end()
	<-g.done
	if _, err := g.ForgetPrefixes(context.Background()); !errors.Is(err, ErrStopped) {
		t.Errorf("depth %d: after the end: %v", depth, err)
	}
}

func TestInvalidRequests(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := start(t, script(t, sim.Config{}), Config{})
		hot := Request{Tokens: []int32{1}}
		hot.Params.Temperature = 3
		for name, q := range map[string]Request{
			"no prompt":        {},
			"id too large":     {Tokens: []int32{512}},
			"negative id":      {Tokens: []int32{1, -1}},
			"negative output":  {Tokens: []int32{1}, MaxTokens: -1},
			"negative minimum": {Tokens: []int32{1}, MinTokens: -1},
			"parameters":       hot,
		} {
			if _, err := g.Submit(context.Background(), q); !errors.Is(err, ErrInvalid) {
				t.Errorf("%s: got %v, want %v", name, err, ErrInvalid)
			}
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := g.Submit(ctx, Request{Tokens: []int32{1}}); !errors.Is(err, context.Canceled) {
			t.Errorf("ended context: got %v, want %v", err, context.Canceled)
		}
		if len(g.live) != 0 {
			t.Errorf("%d refused requests are live", len(g.live))
		}
	})
}

func TestConfig(t *testing.T) {
	s := script(t, sim.Config{})
	for _, c := range []Config{{Stall: -1}, {FirstStep: -1}, {Sched: sched.Config{MaxQueue: -1}}, {Sched: sched.Config{MaxQueueTokens: -1}}, {Sched: sched.Config{ChunkLimit: -1}}} {
		if _, err := New(s, c, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%+v gives no error", c)
		}
	}
}
