package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"

	"ossian/internal/bench/dataset"
)

// A Target is what is measured. Do sends q, and fills in what became of it: Sent, Done,
// Status, Chunks, Counts, texts, Finish and Err of s, the times since began. It counts
// in live what it sends and receives. It may be called by many goroutines at once, and
// comes back soon after ctx ends.
type Target interface {
	Do(ctx context.Context, q *dataset.Query, s *Sample, began time.Time, live *Live)
}

// A Stage is a point in a run that consoles mention.
type Stage uint8

// The stages, in their order.
const (
	Waiting   Stage = iota // for the server to be ready; left out without Options.Ready
	Answered               // it is
	WarmingUp              // left out without warm-ups
	WarmedUp
	Measuring // the clock starts
	Measured  // the clock has stopped
)

// Options says how a run goes about it.
type Options struct {
	Setup  Setup // as it is to be recorded; Arrivals and Profile count here, and Hash is computed if empty
	Gamma  Gamma // not nil where arrivals are random
	Shared bool  // the server runs in this process

	Ready        time.Duration // how long to wait for a first answer; 0 = do not ask
	ReadyEvery   time.Duration // between questions; 0 = 5 s
	Warmups      int           // copies of query 0 before the run
	WarmupOutput int           // most tokens that these ask for; 0 = as the query
	Settle       time.Duration // rest between warm-ups and run
	ProbeRate    float64       // of the side stream, per second; 0 = none

	Stage    func(s Stage, spent time.Duration)                // nil = tell nobody; spent since the stage before
	Counters func(context.Context) (map[string]float64, error) // nil = none; errors mean that there are none
	Start    func(context.Context) error                       // just before the clock starts: --profile; nil = nothing
	Stop     func(context.Context) error                       // just after it has stopped
	Live     *Live                                             // nil = nobody watches
	Log      Appender                                          // samples as they come; nil = none
}

// Run sends the queries of w to t at their times and records what comes back. If ctx
// ends it returns what it has, together with the context's error: queries that were
// not sent are missing. It also returns the recording together with an error if the
// log or Stop failed.
func Run(ctx context.Context, t Target, w Workload, o Options) (*Recording, error) {
	r, err := newRun(t, w, o)
	if err != nil {
		return nil, err
	}
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	return r.measure(ctx)
}

// A run is one run. Its dispatcher alone writes times and steps; each sample belongs to
// the worker that sends its query.
type run struct {
	Options
	target Target
	w      Workload
	times  []time.Duration
	rec    *Recording
	began  time.Time
	log    *journal
	stage  time.Time // when the last stage was reached

	first []int         // of conversations: the index of the first turn; nil = queries stand alone
	slots chan struct{} // of requests of conversations

	queue   chan int     // indices of queries that were released
	free    atomic.Int64 // workers that wait, less queries in the queue
	workers sync.WaitGroup
	started int // workers
	rate    int // the last whole rate of a ramp
}

func newRun(t Target, w Workload, o Options) (*run, error) {
	if len(w) == 0 {
		return nil, errors.New("the workload is empty")
	}
	if o.Setup.Arrivals.Concurrency < 0 {
		return nil, fmt.Errorf("concurrency %d: want 1 or more, 0 for no bound", o.Setup.Arrivals.Concurrency)
	}
	if o.Live == nil {
		o.Live = new(Live)
	}
	r := &run{Options: o, target: t, w: w, stage: time.Now(), queue: make(chan int, len(w))}
	timed := w
	if o.Setup.MultiTurn != nil {
		timed, r.slots = nil, make(chan struct{}, r.limit())
		for i := range w {
			if w[i].Turn == 0 {
				timed, r.first = append(timed, w[i]), append(r.first, i)
			}
		}
	}
	var err error
	if r.times, err = o.Setup.Arrivals.Times(o.Setup.Profile, timed, o.Gamma); err != nil {
		return nil, err
	}
	if r.Setup.Hash == "" {
		if r.Setup.Hash, err = w.Hash(); err != nil {
			return nil, err
		}
	}
	r.rec = &Recording{Setup: r.Setup, Samples: make([]Sample, len(w)), Queries: len(w)}
	return r, nil
}

// tell reports a stage.
func (r *run) tell(s Stage) {
	now := time.Now()
	if r.Stage != nil {
		r.Stage(s, now.Sub(r.stage))
	}
	r.stage = now
}

// prepare waits for the server and warms it up.
func (r *run) prepare(ctx context.Context) error {
	if r.Ready > 0 {
		r.tell(Waiting)
		if err := r.await(ctx); err != nil {
			return err
		}
		r.tell(Answered)
	}
	if r.Warmups == 0 {
		return ctx.Err()
	}
	r.tell(WarmingUp)
	if err := r.warmUp(ctx); err != nil {
		return err
	}
	r.tell(WarmedUp)
	return pause(ctx, r.Settle)
}

// once sends a copy of q outside the measured part.
func (r *run) once(ctx context.Context, q dataset.Query) *Sample {
	q.ID = ""
	s := &Sample{Input: q.Input, Asked: q.Output}
	r.target.Do(ctx, &q, s, time.Now(), new(Live))
	return s
}

// await sends query 0 until it succeeds.
func (r *run) await(ctx context.Context) error {
	limit, cancel := context.WithTimeout(ctx, r.Ready)
	defer cancel()
	every := r.ReadyEvery
	if every == 0 {
		every = 5 * time.Second
	}
	last := ""
	for {
		failure := r.once(limit, r.w[0]).failure()
		if failure == "" {
			return nil
		}
		if last == "" || limit.Err() == nil { // else it is that the time is up
			last = failure
		}
		if pause(limit, every) != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("the server was not ready within %v; the last answer to query 0: %s", r.Ready, last)
		}
	}
}

// failure says why the server does not seem to work; "" = it does.
func (s *Sample) failure() string {
	switch {
	case s.Err != "":
		return s.Err
	case s.Status != http.StatusOK:
		return fmt.Sprintf("status %d", s.Status)
	}
	for _, c := range s.Chunks {
		if c.Kind&Choices != 0 {
			return ""
		}
	}
	return "an answer without output"
}

// warmUp sends its requests together, within the bound on concurrency. It fails if none
// of them succeeds: then none of the run would.
func (r *run) warmUp(ctx context.Context) error {
	q := r.w[0]
	if r.WarmupOutput > 0 {
		q.Output = min(q.Output, r.WarmupOutput)
	}
	slots := make(chan struct{}, r.limit())
	samples := make([]*Sample, r.Warmups)
	var all sync.WaitGroup
	for i := range samples {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			samples[i] = r.once(ctx, q)
		})
	}
	all.Wait()
	for _, s := range samples {
		if s.failure() == "" {
			return nil
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("warm-up with query 0: %s", samples[0].failure())
}

// limit is the most requests at once.
func (r *run) limit() int {
	if c := r.Setup.Arrivals.Concurrency; c > 0 {
		return c
	}
	return max(len(r.w), r.Warmups)
}

// measure does the part that counts.
func (r *run) measure(ctx context.Context) (*Recording, error) {
	if r.Start != nil {
		if err := r.Start(ctx); err != nil {
			return nil, err
		}
	}
	r.rec.Before = r.counters(ctx)
	r.Live.Total.Store(int64(len(r.w)))
	runtime.GC() // what the workload left behind is not to be collected while it is sent
	threads := runtime.GOMAXPROCS(0)
	defer lendProcessors()()
	before := newUsage()
	r.tell(Measuring)
	r.began = time.Now()
	r.rec.Began = r.began.Round(0) // wall clock
	r.log = startJournal(r.Log, r.rec)

	done := make(chan struct{})
	var probes sync.WaitGroup
	if r.ProbeRate > 0 {
		probes.Go(func() { r.probe(ctx, done) })
	}
	r.dispatch(ctx)
	r.workers.Wait()
	close(done)
	probes.Wait()
	r.rec.Duration = time.Since(r.began)
	r.rec.Client = before.since()
	r.rec.Client.Threads = threads
	r.tell(Measured)
	r.rec.After = r.counters(ctx)
	r.rec.Samples = r.sent()
	r.rec.Client.Shared = r.Shared
	r.rec.Client.Kernel = stamped(r.rec.Samples)

	err := ctx.Err()
	r.rec.Cut = err != nil
	if r.Stop != nil {
		err = errors.Join(err, r.Stop(context.WithoutCancel(ctx)))
	}
	return r.rec, errors.Join(err, r.log.close(r.rec))
}

// asleep is how many goroutines of a run sleep in the kernel: the sender until the next
// request is due, the poller until bytes come.
const asleep = 2

// processors guards changes of GOMAXPROCS.
var processors sync.Mutex

// lendProcessors gives the runtime a processor more for each goroutine that sleeps in the
// kernel, until back is called. Such a goroutine keeps its processor until the runtime
// notices, which takes up to 10 ms, and requests that are due wait for it.
func lendProcessors() (back func()) {
	change := func(by int) {
		processors.Lock()
		defer processors.Unlock()
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + by)
	}
	change(asleep)
	return func() { change(-asleep) }
}

func (r *run) counters(ctx context.Context) map[string]float64 {
	if r.Counters == nil {
		return nil
	}
	m, err := r.Counters(ctx)
	if err != nil {
		return nil // most servers have none
	}
	return m
}

// sent returns the samples without those of queries that never left.
func (r *run) sent() []Sample {
	var out []Sample // new: the log may still have to write the old ones
	for _, s := range r.rec.Samples {
		if s.Done > 0 {
			out = append(out, s)
		}
	}
	return out
}

// stamped reports whether times of receipt come from the kernel.
func stamped(samples []Sample) bool {
	for i := range samples {
		for _, c := range samples[i].Chunks {
			if c.Lag >= 0 { // the first may lack it: the kernel takes a moment to begin with it
				return true
			}
		}
	}
	return false
}

// dispatch releases every query, or conversation, at its time, or at once if that has
// passed, until ctx ends.
func (r *run) dispatch(ctx context.Context) {
	defer close(r.queue)
	wake := time.NewTimer(0)
	defer wake.Stop()
	a := r.Setup.Arrivals
	r.rate = int(a.Ramp.Start) - 1
	r.reach(a.Ramp.Start)
	for i, at := range r.times {
		if !r.until(ctx, at, wake) {
			return
		}
		if r.first == nil {
			r.take(i, at)
			r.release(ctx, i)
		} else {
			r.take(r.first[i], at)
			r.workers.Go(func() { r.converse(ctx, r.first[i]) })
		}
		r.reach(a.rate(i, len(r.times)))
	}
}

// take takes up query i, which was wanted at a time of the run.
func (r *run) take(i int, at time.Duration) {
	q := &r.w[i]
	r.rec.Samples[i] = Sample{Index: i, Scheduled: at, Released: time.Since(r.began), Input: q.Input, Asked: q.Output, Session: q.Session, Turn: q.Turn}
	r.Live.Released.Add(1)
}

// until waits for a time of the run and reports whether it came before ctx ended.
func (r *run) until(ctx context.Context, at time.Duration, wake *time.Timer) bool {
	for {
		left := at - time.Since(r.began)
		switch {
		case ctx.Err() != nil:
			return false
		case left <= 0:
			return true
		case left <= coarse:
			// A worker that was handed a query sends it now: while this thread sleeps in the
			// kernel it would wait until the runtime takes its processor away.
			runtime.Gosched()
			if left = at - time.Since(r.began); left > 0 {
				nap(left)
			}
			continue
		}
		wake.Reset(left - coarse/2)
		select {
		case <-wake.C:
		case <-ctx.Done():
		}
	}
}

const coarse = 3 * time.Millisecond // a timer of the runtime may be late by more than a third of it

// release hands query i to a worker that waits, or to a new one below the limit;
// otherwise it stays in the queue.
func (r *run) release(ctx context.Context, i int) {
	if r.free.Add(-1) < 0 && r.started < r.limit() {
		r.started++
		r.free.Add(1)
		r.workers.Go(func() { r.work(ctx) })
	}
	r.queue <- i
}

// work sends queries until there are none. After ctx has ended it leaves them.
func (r *run) work(ctx context.Context) {
	for i := range r.queue {
		if ctx.Err() == nil {
			r.send(ctx, &r.w[i], &r.rec.Samples[i])
		}
		r.free.Add(1)
	}
}

// send sends q and counts it.
func (r *run) send(ctx context.Context, q *dataset.Query, s *Sample) {
	r.target.Do(ctx, q, s, r.began, r.Live)
	if !s.OK() {
		r.Live.Failed.Add(1)
	}
	r.Live.Done.Add(1)
	r.log.add(entry{Sample: (*loggedSample)(s)})
}

// probe sends one short request after the other until done (bench.md 1.1).
func (r *run) probe(ctx context.Context, done <-chan struct{}) {
	gap := time.Duration(float64(time.Second) / r.ProbeRate)
	for ctx.Err() == nil {
		s := Sample{Asked: 1}
		r.target.Do(ctx, &dataset.Query{Prompt: "Hi", Output: 1}, &s, r.began, new(Live))
		p := Probe{Sent: s.Sent, Done: s.Done, Err: s.failure()}
		r.rec.Probes = append(r.rec.Probes, p)
		r.log.add(entry{Probe: &p})
		select {
		case <-done:
			return
		case <-ctx.Done():
		case <-time.After(gap):
		}
	}
}

// reach records the whole rates that a ramp passes on its way to rate.
func (r *run) reach(rate float64) {
	if r.Setup.Arrivals.Ramp.Strategy == "" {
		return
	}
	for now := time.Now().Round(0); r.rate < int(rate); {
		r.rate++
		step := RateStep{Rate: r.rate, At: now}
		r.rec.RateSteps = append(r.rec.RateSteps, step)
		r.log.add(entry{RateStep: &step})
	}
}

// pause waits, or ends with ctx.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// A usage is what the process had used at some time.
type usage struct {
	cpu    time.Duration
	pauses *metrics.Float64Histogram
}

func newUsage() usage { return usage{cpuTime(), gcPauses()} }

// gcPauses is how often the garbage collector stopped the program for how long.
func gcPauses() *metrics.Float64Histogram {
	s := []metrics.Sample{{Name: "/sched/pauses/total/gc:seconds"}}
	metrics.Read(s)
	if s[0].Value.Kind() != metrics.KindFloat64Histogram {
		return &metrics.Float64Histogram{}
	}
	return s[0].Value.Float64Histogram()
}

// since returns what was used since u. The longest pause is known to the bucket of the
// runtime's histogram: its upper end counts.
func (u usage) since() Client {
	now := newUsage()
	c := Client{CPU: now.cpu - u.cpu}
	for i, n := range now.pauses.Counts {
		if i < len(u.pauses.Counts) && n > u.pauses.Counts[i] {
			c.MaxPause = time.Duration(min(now.pauses.Buckets[i+1], 1e6) * 1e9) // the last bucket has no end
		}
	}
	return c
}
