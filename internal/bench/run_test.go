package bench

import (
	"context"
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ossian/internal/bench/dataset"
)

// A fakeTarget answers after a time, without a server.
type fakeTarget struct {
	takes  time.Duration
	crowd  int                               // queries that must have been there at once before any is answered
	begun  func()                            // nil = nothing; called when a query comes
	answer func(q *dataset.Query, s *Sample) // nil = success

	mu      sync.Mutex
	sent    []dataset.Query
	running int
	most    int
}

func (f *fakeTarget) Do(ctx context.Context, q *dataset.Query, s *Sample, began time.Time, live *Live) {
	f.mu.Lock()
	f.sent = append(f.sent, *q)
	f.running++
	f.most = max(f.most, f.running)
	f.mu.Unlock()
	s.Sent = time.Since(began)
	s.Status = 200
	if f.begun != nil {
		f.begun()
	}
	for f.peak() < f.crowd {
		time.Sleep(time.Millisecond)
	}
	if f.takes > 0 && pause(ctx, f.takes) != nil {
		s.Err = "canceled"
	} else if f.answer != nil {
		f.answer(q, s)
	}
	s.Chunks = append(s.Chunks, Chunk{At: time.Since(began), Kind: Choices | Text, Lag: 7})
	s.Done = time.Since(began)
	f.mu.Lock()
	f.running--
	f.mu.Unlock()
}

// peak is the most queries that there were at once.
func (f *fakeTarget) peak() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.most
}

func queries(n int) Workload {
	w := make(Workload, n)
	for i := range w {
		w[i] = dataset.Query{Prompt: "p", Input: 3, Output: i + 1, ID: "x"}
	}
	return w
}

func allAtOnce(concurrency int) Setup {
	return Setup{Arrivals: Arrivals{Rate: math.Inf(1), Burstiness: 1, Concurrency: concurrency}}
}

func TestRunBoundsConcurrency(t *testing.T) {
	for _, c := range []struct{ limit, most int }{{1, 1}, {3, 3}, {0, 20}} {
		f := &fakeTarget{takes: 50 * time.Millisecond, crowd: c.most}
		var live Live
		rec, err := Run(context.Background(), f, queries(20), Options{Setup: allAtOnce(c.limit), Live: &live})
		if err != nil {
			t.Fatal(err)
		}
		if f.most != c.most {
			t.Errorf("limit %d: %d at once, want %d", c.limit, f.most, c.most)
		}
		for i, s := range rec.Samples {
			if s.Index != i || s.Input != 3 || s.Asked != i+1 || f.sent[i].ID != "x" {
				t.Errorf("limit %d: sample %d is %+v", c.limit, i, s)
			}
			if s.Scheduled != 0 || s.Released > s.Sent || s.Done > rec.Duration {
				t.Errorf("limit %d: sample %d: released %v, sent %v, done %v of %v", c.limit, i, s.Released, s.Sent, s.Done, rec.Duration)
			}
			if i > 0 && s.Released < rec.Samples[i-1].Released {
				t.Errorf("limit %d: sample %d was released before the one before", c.limit, i)
			}
		}
		if c.limit == 1 && !slices.IsSortedFunc(f.sent, func(a, b dataset.Query) int { return a.Output - b.Output }) {
			t.Error("one at a time: not in order")
		}
		if last := rec.Samples[19]; c.limit == 1 && last.Sent-last.Released < 19*50*time.Millisecond {
			t.Errorf("one at a time: the last waited %v, want 950 ms or more", last.Sent-last.Released)
		}
		if live.Total.Load() != 20 || live.Released.Load() != 20 || live.Done.Load() != 20 || live.Failed.Load() != 0 {
			t.Errorf("limit %d: live total %d, released %d, done %d, failed %d", c.limit, live.Total.Load(), live.Released.Load(), live.Done.Load(), live.Failed.Load())
		}
		if rec.Setup.Hash == "" || rec.Began.IsZero() || rec.Client.Threads < 1 || !rec.Client.Kernel || rec.Client.Shared {
			t.Errorf("limit %d: recording %+v, client %+v", c.limit, rec.Setup, rec.Client)
		}
	}
}

func TestRunKeepsTimes(t *testing.T) {
	w := queries(40)
	for i := range w {
		w[i].At = time.Duration(i) * 7 * time.Millisecond
	}
	rec, err := Run(context.Background(), &fakeTarget{}, w, Options{Setup: Setup{Arrivals: Arrivals{Timed: true}}, Shared: true})
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range rec.Samples {
		if s.Scheduled != w[i].At || s.Released < s.Scheduled || s.Sent < s.Released {
			t.Errorf("sample %d: scheduled %v, released %v, sent %v; want %v and then in this order", i, s.Scheduled, s.Released, s.Sent, w[i].At)
		}
	}
	if !rec.Client.Shared {
		t.Error("shared was not recorded")
	}
}

func TestRunRamp(t *testing.T) {
	s := Setup{Arrivals: Arrivals{Rate: math.Inf(1), Burstiness: math.Inf(1), Ramp: Ramp{"linear", 100, 103}}}
	rec, err := Run(context.Background(), &fakeTarget{}, queries(4), Options{Setup: s})
	if err != nil {
		t.Fatal(err)
	}
	var rates []int
	for _, s := range rec.RateSteps {
		rates = append(rates, s.Rate)
		if s.At.Before(rec.Began) {
			t.Errorf("rate %d reached at %v, before the run began at %v", s.Rate, s.At, rec.Began)
		}
	}
	if !slices.Equal(rates, []int{100, 101, 102, 103}) {
		t.Errorf("rates %v, want 100 to 103", rates)
	}
}

func TestRunPrepares(t *testing.T) {
	var tries atomic.Int32
	f := &fakeTarget{takes: time.Millisecond, answer: func(q *dataset.Query, s *Sample) {
		if tries.Add(1) <= 2 {
			s.Status, s.Err = 503, "loading"
		}
	}}
	var stages []Stage
	counters := 0
	var order []string
	var live, warming Live
	rec, err := Run(context.Background(), f, queries(3), Options{Live: &live, Warming: &warming, Setup: allAtOnce(1), Ready: time.Minute, ReadyEvery: time.Millisecond,
		Warmups: 2, WarmupOutput: 1, Settle: time.Millisecond,
		OnStage: func(s Stage, _ time.Duration) { stages = append(stages, s) },
		ReadCounters: func(context.Context) (map[string]float64, error) {
			counters++
			return map[string]float64{"n": float64(counters)}, nil
		},
		Start: func(context.Context) error { order = append(order, "start"); return nil },
		Stop:  func(context.Context) error { order = append(order, "stop"); return nil }})
	if err != nil {
		t.Fatal(err)
	}
	if len(f.sent) != 3+2+3 || f.sent[0].ID != "" || f.sent[4].ID != "" || f.sent[4].Output != 1 || f.sent[5].ID != "x" {
		t.Errorf("sent %+v, want 3 questions, 2 warm-ups, 3 queries", f.sent)
	}
	if want := []Stage{Waiting, Answered, WarmingUp, WarmedUp, Measuring, Measured}; !slices.Equal(stages, want) {
		t.Errorf("stages %v, want %v", stages, want)
	}
	if warming.Released.Load() != 5 || warming.Done.Load() != 5 || live.Done.Load() != 3 {
		t.Errorf("before the run %d of %d ended, in it %d", warming.Done.Load(), warming.Released.Load(), live.Done.Load())
	}
	if rec.Before["n"] != 1 || rec.After["n"] != 2 || !slices.Equal(order, []string{"start", "stop"}) {
		t.Errorf("counters %v and %v, calls %v", rec.Before, rec.After, order)
	}
}

func TestRunProbes(t *testing.T) {
	var probes atomic.Int32
	f := &fakeTarget{takes: time.Millisecond, answer: func(q *dataset.Query, s *Sample) {
		if q.Prompt == "Hi" && q.Output == 1 {
			s.Err = "no"
			probes.Add(1)
			return
		}
		for probes.Load() < 3 { // so that some follow on each other
			time.Sleep(time.Millisecond)
		}
	}}
	rec, err := Run(context.Background(), f, queries(10), Options{Setup: allAtOnce(1), ProbeRate: 200})
	if err != nil {
		t.Fatal(err)
	}
	if len(rec.Probes) < 3 || len(rec.Probes)+10 != len(f.sent) {
		t.Fatalf("%d probes of %d requests", len(rec.Probes), len(f.sent))
	}
	for i, p := range rec.Probes {
		if p.Err != "no" || p.Done <= p.Sent || (i > 0 && p.Sent < rec.Probes[i-1].Done+5*time.Millisecond) || p.Done > rec.Duration {
			t.Errorf("probe %d: %+v", i, p)
		}
	}
}

// A run that is ended leaves what it has.
func TestRunCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	w := queries(100)
	for i := range w {
		w[i].At = time.Duration(i) * 10 * time.Millisecond
	}
	o := Options{Setup: Setup{Arrivals: Arrivals{Timed: true, Concurrency: 4}}}
	rec, err := Run(ctx, &fakeTarget{takes: 10 * time.Minute, begun: func() { time.AfterFunc(100*time.Millisecond, cancel) }}, w, o)
	if !errors.Is(err, context.Canceled) || rec == nil {
		t.Fatalf("got %v, %v", rec, err)
	}
	if len(rec.Samples) == 0 || len(rec.Samples) > 4 {
		t.Fatalf("%d samples, want those that were sent: up to 4", len(rec.Samples))
	}
	for i, s := range rec.Samples {
		if s.Done == 0 || s.Index != i || s.Err == "" {
			t.Errorf("sample %d: %+v, want an interrupted one", i, s)
		}
	}
}

func TestRunFails(t *testing.T) {
	no := func(_ *dataset.Query, s *Sample) { s.Status = 500 }
	for _, c := range []struct {
		name, want string
		w          Workload
		o          Options
	}{
		{"no queries", "empty", nil, Options{Setup: allAtOnce(0)}},
		{"no rate", "request rate", queries(1), Options{}},
		{"concurrency", "concurrency -1", queries(1), Options{Setup: allAtOnce(-1)}},
		{"never ready", "not ready within 20ms; the last answer to query 0: status 500", queries(1), Options{Setup: allAtOnce(0), Ready: 20 * time.Millisecond, ReadyEvery: time.Millisecond}},
		{"warm-ups fail", "warm-up with query 0: status 500", queries(1), Options{Setup: allAtOnce(0), Warmups: 3}},
		{"start fails", "no profiler", queries(1), Options{Setup: allAtOnce(0), Start: func(context.Context) error { return errors.New("no profiler") }}},
	} {
		rec, err := Run(context.Background(), &fakeTarget{answer: no}, c.w, c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) || rec != nil {
			t.Errorf("%s: got %v, %v; want an error with %q", c.name, rec, err, c.want)
		}
	}
}

// A run that is interrupted when all answers are in is whole.
func TestRunIsWhole(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	asked := 0
	rec, err := Run(ctx, &fakeTarget{}, queries(3), Options{Setup: allAtOnce(0), ReadCounters: func(context.Context) (map[string]float64, error) {
		if asked++; asked == 2 { // behind the last answer
			interrupt()
		}
		return nil, nil
	}})
	if err != nil || rec.Cut || len(rec.Samples) != 3 || asked != 2 {
		t.Errorf("error %v, cut off %v, %d of 3 answers", err, rec.Cut, len(rec.Samples))
	}
}

// A profiler that was started is stopped, though the run does not begin.
func TestLateShardStopsProfiler(t *testing.T) {
	var order []string
	setup := allAtOnce(0)
	setup.Shard = &Shard{Index: 0, Of: 2, Start: time.Now().Add(-time.Hour)}
	_, err := Run(t.Context(), &fakeTarget{}, queries(3), Options{Setup: setup,
		Start: func(context.Context) error { order = append(order, "start"); return nil },
		Stop:  func(context.Context) error { order = append(order, "stop"); return nil }})
	if err == nil || !slices.Equal(order, []string{"start", "stop"}) {
		t.Errorf("error %v behind %v", err, order)
	}
}

// BEN-3: of a run in which a tenth of the requests fail, exactly these are failed.
func TestRunFailures(t *testing.T) {
	f := &fakeTarget{answer: func(q *dataset.Query, s *Sample) {
		if q.Output%10 == 3 {
			s.Status, s.Err = 500, "500 x"
		}
	}}
	var live Live
	rec, err := Run(context.Background(), f, queries(1000), Options{Setup: allAtOnce(50), Live: &live})
	if err != nil {
		t.Fatal(err)
	}
	failed := 0
	for _, s := range rec.Samples {
		if want := s.Asked%10 != 3; s.OK() != want {
			t.Errorf("sample %d: %+v", s.Index, s)
		}
		if !s.OK() {
			failed++
		}
	}
	if failed != 100 || live.Failed.Load() != 100 || live.Done.Load() != 1000 {
		t.Errorf("failed %d, live %d of %d; want 100 of 1000", failed, live.Failed.Load(), live.Done.Load())
	}
}

func TestUsage(t *testing.T) {
	before := usageNow()
	for end := time.Now().Add(30 * time.Millisecond); time.Now().Before(end); {
	}
	runtime.GC() // stops the program for a moment
	if c := before.since(); c.CPU <= 0 || c.MaxPause <= 0 || c.MaxPause > time.Minute {
		t.Errorf("got %+v, want some time and some pause", c)
	}
}

// Whoever sleeps in the kernel during a run has a processor of the runtime of its own;
// afterwards there are as many as before, and reports say how many those were.
func TestRunLendsProcessors(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	during := 0
	target := &fakeTarget{begun: func() { during = runtime.GOMAXPROCS(0) }}
	rec, err := Run(t.Context(), target, queries(1), Options{Setup: Setup{Arrivals: Arrivals{Rate: math.Inf(1), Burstiness: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	if during != before+asleep || runtime.GOMAXPROCS(0) != before || rec.Client.Threads != before {
		t.Errorf("GOMAXPROCS %d before, %d during and %d after the run, reported %d; want %d more during it, and that before reported", before, during, runtime.GOMAXPROCS(0), rec.Client.Threads, asleep)
	}
}
