package engine

import (
	"errors"
	"math/rand/v2"
	"runtime"
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

// byWatch reports whether the supervisor's watch has called.
func byWatch() bool {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	for {
		frame, more := frames.Next()
		if strings.HasSuffix(frame.Function, "(*Engine).watch") {
			return true
		}
		if !more {
			return false
		}
	}
}

// A drowsy clock puts the watch to sleep where it looks at the time: as when the machine has taken its
// processor, or the page that it runs on, at that point.
type drowsy struct {
	asleep atomic.Int64 // how long the next time, in ns; 0 = not at all
	nods   bool         // it is late at every second look
	looks  int
}

func (d *drowsy) clock() time.Time {
	if byWatch() {
		time.Sleep(time.Duration(d.asleep.Swap(0)))
		if d.looks++; d.nods && d.looks%2 == 0 {
			time.Sleep(watchEvery - 10*time.Millisecond)
		}
	}
	return time.Now()
}

// HLT-1: a process that sleeps is no stall, at whatever point the watch fell asleep.
func TestHLT1WatchAsleep(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var d drowsy
		c := sim.Config{Cost: each(100 * time.Millisecond), OnLaunch: func(step int, _ *runner.Batch) error {
			if step == 5 {
				time.Sleep(time.Second)
				d.asleep.Store(int64(20 * time.Second)) // and so does the loop
				time.Sleep(20*time.Second + watchEvery)
			}
			return nil
		}}
		g := start(t, script(t, c), Config{Clock: d.clock})
		if got, want := finished(t, g.submit(Request{Tokens: ids(1, 5), MaxTokens: 20}), sched.FinishLength), alone(ids(1, 5), 20); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if h := g.Health(); h.Restarts != 0 || d.asleep.Load() != 0 {
			t.Errorf("%+v, want no restart; the watch has slept: %v", h, d.asleep.Load() == 0)
		}
	})
}

// HLT-1: a process that gets half of a processor, a little at a time, takes twice as long.
func TestHLT1WatchLate(t *testing.T) {
	bubble(t, func(t *testing.T) {
		d := drowsy{nods: true}
		c := sim.Config{Cost: each(100 * time.Millisecond), OnLaunch: func(step int, _ *runner.Batch) error {
			if step == 5 {
				time.Sleep(15 * time.Second)
			}
			return nil
		}}
		g := start(t, script(t, c), Config{Clock: d.clock})
		finished(t, g.submit(Request{Tokens: ids(1, 5), MaxTokens: 20}), sched.FinishLength)
		if h := g.Health(); h.Restarts != 0 {
			t.Errorf("%+v, want no restart", h)
		}
	})
}

// HLT-1: what the watch slept through is not given to what hangs afterwards.
func TestHLT1AfterSleep(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var d drowsy
		hung := make(chan time.Time, 1)
		gate := make(chan struct{})
		c := sim.Config{Cost: each(100 * time.Millisecond), OnLaunch: func(step int, _ *runner.Batch) error {
			switch step {
			case 5:
				d.asleep.Store(int64(time.Minute)) // the watch alone
			case 610:
				hung <- time.Now()
				<-gate
			}
			return nil
		}}
		open, _ := opener(t, sim.Config{})
		g := start(t, script(t, c), Config{Clock: d.clock, Open: open})
		if _, err := read(g.submit(Request{Tokens: ids(1, 5), MaxTokens: 1000})); !errors.Is(err, ErrInterrupted) {
			t.Errorf("got %v, want %v", err, ErrInterrupted)
		}
		if took := time.Since(<-hung); took < 10*time.Second || took > 11*time.Second {
			t.Errorf("told after %v, want 10 s to 11 s", took)
		}
		close(gate)
		time.Sleep(time.Second) // it comes back, and ends
		synctest.Wait()
	})
}

// HLT-1: a step that gets on is none that hangs, however long it takes; where it no longer does, that
// is found as soon as of any other.
func TestHLT1SlowStep(t *testing.T) {
	bubble(t, func(t *testing.T) {
		hung := make(chan time.Time, 1)
		gate := make(chan struct{})
		slowly := func(step int, batch *runner.Batch) error {
			if step != 5 && step != 15 {
				return nil
			}
			for range 30 { // layers, of a machine without memory
				time.Sleep(9 * time.Second)
				batch.Beat()
			}
			if step == 15 {
				hung <- time.Now()
				<-gate
			}
			return nil
		}
		open, _ := opener(t, sim.Config{})
		g := start(t, script(t, sim.Config{Cost: each(100 * time.Millisecond), OnLaunch: slowly}), Config{Open: open})
		if got, want := finished(t, g.submit(Request{Tokens: ids(1, 5), MaxTokens: 8}), sched.FinishLength), alone(ids(1, 5), 8); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if h := g.Health(); h.Restarts != 0 {
			t.Errorf("%+v, want no restart", h)
		}
		// Nobody calls it a stall that steps take so long now: the limit is that of steps as they were.
		if _, err := read(g.submit(Request{Tokens: ids(2, 5), MaxTokens: 20})); !errors.Is(err, ErrInterrupted) {
			t.Errorf("got %v, want %v", err, ErrInterrupted)
		}
		if took := time.Since(<-hung); took < 10*time.Second {
			t.Errorf("told after %v, want 10 s", took)
		}
		close(gate)
		time.Sleep(time.Second) // it comes back, and ends
		synctest.Wait()
	})
}

// Steps of a model say how they get on: with every layer.
func TestPulse(t *testing.T) {
	f := newFamily(t, "qwen3", rand.New(rand.NewPCG(1, 1)))
	run := f.runner(t, 1, 20, 1)
	defer run.Close()
	var pulse atomic.Int64
	row := runner.Row{Len: 3, Tables: [][]runner.BlockID{{0}}}
	if err := run.Launch(&runner.Batch{Tokens: []int32{1, 2, 3}, Rows: []runner.Row{row}, Pulse: &pulse}); err != nil {
		t.Fatal(err)
	}
	if got := pulse.Load(); got < int64(f.spec.Layers) {
		t.Errorf("%d beats in a step of %d layers", got, f.spec.Layers)
	}
}
