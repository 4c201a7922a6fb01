package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
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

// What a fault may do to others.
const (
	nothing = "nothing" // they get what they get without it
	restart = "restart" // those that have spoken are told, the rest begins again
	theEnd  = "the end" // so does the engine: all are told
)

// points is the table of the engine's fault points: every place where its loop or its
// supervisor calls what is not its own, and where a client meets it.
var points = []struct {
	name                  string
	failed, panicked, lag string // what an error, a panic and 5 s do
	loop                  bool   // the loop waits there
	plant                 func(r *rigged, f func() error)
}{
	{"runner.Launch", restart, restart, nothing, true, func(r *rigged, f func() error) {
		r.script.OnLaunch = func(step int, _ *runner.Batch) error { return onThird(step, f) }
	}},
	{"runner.Collect", restart, restart, nothing, true, func(r *rigged, f func() error) {
		r.script.OnCollect = func(step int, _ *runner.Batch) error { return onThird(step, f) }
	}},
	{"result of runner.Collect", restart, restart, nothing, true, func(r *rigged, f func() error) {
		r.wrap = func(inner runner.Runner) runner.Runner { return &crooked{Runner: inner, result: f} }
	}},
	{"runner.Close", restart, restart, restart, false, func(r *rigged, f func() error) {
		r.script.OnLaunch = func(step int, _ *runner.Batch) error { return onThird(step, r.once(func() error { return errBoom })) }
		r.wrap = func(inner runner.Runner) runner.Runner { return &crooked{Runner: inner, close: f} }
	}},
	{"Config.Open", theEnd, theEnd, restart, false, func(r *rigged, f func() error) {
		r.script.OnLaunch = func(step int, _ *runner.Batch) error { return onThird(step, r.once(func() error { return errBoom })) }
		r.open = f
	}},
	{"Config.Step", nothing, restart, nothing, true, func(r *rigged, f func() error) {
		step := 0
		r.cfg.Step = func(int, time.Duration) { step++; _ = onThird(step, f) } // it cannot fail
	}},
	{"Constraint.Mask, first", nothing, nothing, nothing, true, func(r *rigged, f func() error) { r.bad.Constraint = held(&brittle{mask: 1, f: f}) }},
	{"Constraint.Mask", nothing, nothing, nothing, true, func(r *rigged, f func() error) { r.bad.Constraint = held(&brittle{mask: 3, f: f}) }},
	{"Constraint.Accept", nothing, nothing, nothing, true, func(r *rigged, f func() error) { r.bad.Constraint = held(&brittle{accept: 2, f: f}) }},
	{"reader", nothing, nothing, nothing, false, func(r *rigged, f func() error) { r.reader = f }},
}

// A rigged engine has a fault in it, and a request next to it.
type rigged struct {
	script sim.Config
	cfg    Config
	wrap   func(runner.Runner) runner.Runner
	open   func() error
	reader func() error // called by the reader of bad
	bad    Request
	fired  atomic.Bool
}

// once makes a fault happen once, whoever meets it first.
func (r *rigged) once(f func() error) func() error {
	return func() error {
		if r.fired.Swap(true) {
			return nil
		}
		return f()
	}
}

func onThird(step int, f func() error) error {
	if step != 3 {
		return nil
	}
	return f()
}

// A crooked runner makes faults of what its functions say.
type crooked struct {
	runner.Runner
	result, close func() error
	steps         int
}

func (c *crooked) Collect() (*runner.Result, error) {
	r, err := c.Runner.Collect()
	if c.steps++; err == nil && c.result != nil && onThird(c.steps, c.result) != nil {
		return &runner.Result{}, nil // without the rows of the batch
	}
	return r, err
}

func (c *crooked) Close() error {
	if c.close == nil {
		return c.Runner.Close()
	}
	return errors.Join(c.close(), c.Runner.Close())
}

// held returns what gives c to every attempt.
func held(c sched.Constraint) func() sched.Constraint { return func() sched.Constraint { return c } }

// A brittle constraint allows everything but at one call.
type brittle struct {
	mask, accept int // number of the call that f is called in
	masks        int
	accepts      int
	f            func() error
}

func (b *brittle) Mask(dst []uint64) error {
	for i := range dst {
		dst[i] = ^uint64(0)
	}
	if b.masks++; b.masks == b.mask && b.f() != nil {
		clear(dst)
	}
	return nil
}

func (b *brittle) Accept(int32) error {
	if b.accepts++; b.accepts == b.accept {
		return b.f()
	}
	return nil
}

func (b *brittle) Ahead([]int32, [][]uint64) int { return 0 }

// start runs the engine. It has three slots.
func (r *rigged) start(t *testing.T, depth int, log *slog.Logger, opening time.Duration) *rig {
	r.script.Info, r.script.Cost = runner.Info{Depth: depth, MaxSeqs: 3}, each(100*time.Millisecond)
	r.bad.Tokens, r.bad.MaxTokens = ids(99, 5), 12
	r.cfg.Open = func(context.Context) (runner.Runner, error) {
		time.Sleep(opening)
		if r.open != nil {
			if err := r.open(); err != nil {
				return nil, err
			}
		}
		return script(t, r.script), nil
	}
	var first runner.Runner = script(t, r.script)
	if r.wrap != nil {
		first = r.wrap(first)
	}
	return startLog(t, first, r.cfg, log)
}

// consume reads the stream of bad, in a goroutine like those of a server.
func (r *rigged) consume(s *Stream) (ids []int32, err error) {
	defer func() {
		if recover() != nil {
			s.Stop()
			ids, err = read(s)
		}
	}()
	if r.reader != nil && r.reader() != nil {
		s.Stop()
	}
	return read(s)
}

// TestHLT4FaultPoints has an error, a panic and a delay of 5 s at each point.
func TestHLT4FaultPoints(t *testing.T) {
	cells := 0
	for _, p := range points {
		for _, k := range []struct {
			kind, outcome string
			f             func() error
		}{
			{"error", p.failed, func() error { return errBoom }},
			{"panic", p.panicked, func() error { panic("boom") }},
			{"delay", p.lag, func() error { time.Sleep(5 * time.Second); return nil }},
		} {
			for depth := 1; depth <= 2; depth++ {
				cells++
				t.Run(fmt.Sprintf("%s in %s at depth %d", k.kind, p.name, depth), func(t *testing.T) {
					bubble(t, func(t *testing.T) {
						r := &rigged{}
						met := false
						p.plant(r, func() error {
							if met {
								return nil
							}
							met = true
							return k.f()
						})
						r.survive(t, k.outcome, depth)
						if !met {
							t.Error("the fault did not happen")
						}
					})
				})
			}
		}
	}
	t.Logf("HLT-4: %d fault points of the engine x error, panic, delay x 2 depths: %d runs, all other streams as without the fault or, where the loop itself fails, told", len(points), cells)
}

// survive sends a request next to the fault and four others, and holds them to what
// the fault may do.
func (r *rigged) survive(t *testing.T, outcome string, depth int) {
	g := r.start(t, depth, slog.New(slog.DiscardHandler), 0)
	var others []*Stream
	others = append(others, g.submit(Request{Tokens: ids(0, 5), MaxTokens: 12}))
	bad := g.submit(r.bad)
	for i := range 3 { // the first of these has a slot, the others wait
		others = append(others, g.submit(Request{Tokens: ids(1+i, 5), MaxTokens: 12}))
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if got, _ := r.consume(bad); !slices.Equal(got, alone(ids(99, 5), 12)[:len(got)]) {
			t.Errorf("the request at the fault got %v", got)
		}
	}()
	for i, s := range others {
		got, err := read(s)
		f, _, _ := s.End()
		want := alone(ids(i, 5), 12)
		whole := f == sched.FinishLength && err == io.EOF && slices.Equal(got, want)
		told := f == sched.FinishError && errors.Is(err, ErrInterrupted) && len(got) <= len(want) && slices.Equal(got, want[:len(got)])
		if ok := whole || (told && ((outcome == restart && i < 2 && len(got) > 0) || outcome == theEnd)); !ok {
			t.Errorf("request %d: %v, %v, %v; alone %v", i, f, err, got, want)
		}
	}
	<-ended
	if f, _, _ := bad.End(); f == sched.FinishNone {
		t.Error("the request at the fault has no end")
	}
	if outcome == theEnd {
		if err := <-g.ran; err == nil {
			t.Error("Run has returned nothing")
		}
		g.ran <- nil // for the end of the test
		return
	}
	if h := g.Health(); h.State != Running || (h.Restarts == 0) != (outcome == nothing) || h.Restarts > 1 {
		t.Errorf("afterwards %+v, expected %s", h, outcome)
	}
	if got, want := finished(t, g.submit(Request{Tokens: ids(7, 5), MaxTokens: 12}), sched.FinishLength), alone(ids(7, 5), 12); !slices.Equal(got, want) {
		t.Errorf("afterwards %v, want %v", got, want)
	}
}

// TestHLT1EveryPoint hangs wherever the loop waits for others. After 10 s of that the
// engine is not ready, who was in flight is told, a dump is written, and who comes
// later is served by the next loop.
func TestHLT1EveryPoint(t *testing.T) {
	hung := 0
	for _, p := range points {
		for depth := 1; p.loop && depth <= 2; depth++ {
			hung++
			t.Run(fmt.Sprintf("%s at depth %d", p.name, depth), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					r, gate := &rigged{}, make(chan struct{})
					p.plant(r, r.once(func() error { <-gate; return errBoom }))
					r.hang(t, depth, gate)
				})
			})
		}
	}
	t.Logf("HLT-1: %d hangs at every point where the loop waits: not ready within 11 s, streams told within 12 s, 0 hanging clients", hung)
}

func (r *rigged) hang(t *testing.T, depth int, gate chan struct{}) {
	var dump bytes.Buffer
	g := r.start(t, depth, slog.New(slog.NewTextHandler(&dump, nil)), 5*time.Second)
	if err := g.Probe(t.Context()); err != nil { // the first step may take longer
		t.Fatal(err)
	}
	began := time.Now()
	inFlight := []*Stream{g.submit(Request{Tokens: ids(0, 5), MaxTokens: 12}), g.submit(r.bad)}
	time.Sleep(9 * time.Second) // it hangs since less than a second
	unseen := g.submit(Request{Tokens: ids(1, 5), MaxTokens: 12})
	if h := g.Health(); h.State != Running || !r.fired.Load() {
		t.Errorf("after 9 s: %+v, hangs: %v", h, r.fired.Load())
	}
	time.Sleep(2500 * time.Millisecond)
	if err := g.Ready(t.Context()); !errors.Is(err, ErrRestarting) || g.Health().State != Restarting {
		t.Errorf("after 11.5 s: ready %v, %+v", err, g.Health())
	}
	for i, s := range inFlight {
		_, err := read(s)
		if _, _, times := s.End(); !errors.Is(err, ErrInterrupted) || times.Finished.Sub(began) > 12*time.Second {
			t.Errorf("request %d: %v after %v, want %v within 12 s", i, err, times.Finished.Sub(began), ErrInterrupted)
		}
	}
	if got, want := finished(t, unseen, sched.FinishLength), alone(ids(1, 5), 12); !slices.Equal(got, want) {
		t.Errorf("who was not seen got %v, want %v", got, want)
	}
	if err := g.Ready(t.Context()); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	close(gate)
	time.Sleep(time.Second) // it comes back, and ends at the next step at the latest
	synctest.Wait()
	if h := g.Health(); h.Restarts != 1 || h.State != Running {
		t.Errorf("afterwards: %+v", h)
	}
	if text := dump.String(); !strings.Contains(text, "goroutines=") || !strings.Contains(text, "kv_held=") {
		t.Errorf("the log has no dump: %s", text)
	}
}

// Requests that wait for a runner to be opened again end when their time is over or
// they are stopped, and not when it is open.
func TestLIF6WhileReopening(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r := &rigged{}
		r.script.OnLaunch = func(int, *runner.Batch) error { return r.once(func() error { return errBoom })() }
		g := r.start(t, 1, slog.New(slog.DiscardHandler), 10*time.Minute)
		began := time.Now()
		stopped := g.submit(Request{Tokens: ids(0, 5), MaxTokens: 4})
		late := g.submit(Request{Tokens: ids(1, 5), MaxTokens: 4, Deadline: began.Add(time.Minute)})
		unlucky := g.submit(Request{Tokens: ids(2, 5), MaxTokens: 4, Deadline: began.Add(time.Hour), StartBy: began.Add(2 * time.Minute)})
		patient := g.submit(Request{Tokens: ids(3, 5), MaxTokens: 4, Deadline: began.Add(time.Hour)})
		time.Sleep(time.Second)
		stopped.Stop()
		for _, c := range []struct {
			s    *Stream
			want sched.Finish
			at   time.Duration
		}{{stopped, sched.FinishAbort, time.Second}, {late, sched.FinishDeadline, time.Minute}, {unlucky, sched.FinishDeadline, 2 * time.Minute}, {patient, sched.FinishLength, 10 * time.Minute}} {
			finished(t, c.s, c.want)
			if took := time.Since(began); took < c.at || took > c.at+time.Second {
				t.Errorf("%v after %v, want %v", c.want, took, c.at)
			}
		}
		if st := g.Stats(); st.Waiting != 0 || st.WaitingTokens != 0 {
			t.Errorf("at the end %+v", st)
		}
	})
}
