package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
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

	// In the order in which they happen: the server is asked until it answers, warmed up,
	// left alone for a moment, and then measured with the side stream beside.
	Ready        time.Duration // how long to wait for a first answer; 0 = do not ask
	ReadyEvery   time.Duration // between questions; 0 = 5 s
	Warmups      int           // copies of query 0 before the run
	WarmupOutput int           // most tokens that these ask for; 0 = as the query
	Settle       time.Duration // rest between warm-ups and run
	ProbeRate    float64       // of the side stream, per second; 0 = none

	OnStage      func(s Stage, spent time.Duration)                // nil = tell nobody; spent since the stage before
	ReadCounters func(context.Context) (map[string]float64, error) // nil = none; errors mean that there are none
	Start        func(context.Context) error                       // just before the clock starts: --profile; nil = nothing
	Stop         func(context.Context) error                       // just after it has stopped
	Live         *Live                                             // nil = nobody watches
	Warming      *Live                                             // of what is sent before the clock starts, taken up to ended; nil = nobody watches
	LogTo        Appender                                          // samples as they come; nil = none
}

// Run sends the queries of a workload to target at their times and records what comes back. If ctx
// ends it returns what it has, together with the context's error: queries that were
// not sent are missing. It also returns the recording together with an error if the
// log or Stop failed.
func Run(ctx context.Context, target Target, workload Workload, options Options) (*Recording, error) {
	running, err := newRun(target, workload, options)
	if err != nil {
		return nil, err
	}
	if err := running.prepare(ctx); err != nil {
		return nil, err
	}
	return running.measure(ctx)
}

// A run is one run. Its states are the Stages, which the goroutine of Run passes; the
// dispatcher is that goroutine too. A query is
//
//	scheduled → released (taken up) → sent → done
//
// and its sample belongs to one goroutine at a time: to the dispatcher until the query is
// released, then to the worker, or to the conversation, that sends it. When it is done it
// goes to the journal, and nobody writes to it any more.
type run struct {
	Options
	target     Target
	workload   Workload
	times      []time.Duration // when queries, or conversations, are scheduled
	rec        *Recording      // RateSteps are the dispatcher's, Probes the prober's
	began      time.Time       // when the clock started
	journal    *journal        // writes to Options.LogTo; nil without one
	stageBegan time.Time       // when the last stage was reached

	firstTurns []int         // of conversations: the index of the first turn; nil = queries stand alone
	slots      chan struct{} // of requests of conversations; one that is sent holds one

	queue    chan int     // indices of queries that were released; room for all, so nobody waits to put one in
	free     atomic.Int64 // workers that wait, less queries in the queue
	workers  sync.WaitGroup
	started  int // workers; the dispatcher's, as is lastRate
	lastRate int // the last whole rate of a ramp
}

func newRun(target Target, workload Workload, options Options) (*run, error) {
	if len(workload) == 0 {
		return nil, errors.New("the workload is empty")
	}
	if options.Setup.Arrivals.Concurrency < 0 {
		return nil, fmt.Errorf("concurrency %d: want 1 or more, 0 for no bound", options.Setup.Arrivals.Concurrency)
	}
	if options.Live == nil {
		options.Live = new(Live)
	}
	if options.Warming == nil {
		options.Warming = new(Live)
	}
	made := &run{Options: options, target: target, workload: workload, stageBegan: time.Now(), queue: make(chan int, len(workload))}
	timed := workload // what the arrival process gives times to: of a conversation its first turn
	if options.Setup.MultiTurn != nil {
		timed, made.slots = nil, make(chan struct{}, made.concurrency())
		for i := range workload {
			if workload[i].Turn == 0 {
				timed, made.firstTurns = append(timed, workload[i]), append(made.firstTurns, i)
			}
		}
	}
	var err error
	if made.times, err = options.Setup.Arrivals.Times(options.Setup.Profile, timed, options.Gamma); err != nil {
		return nil, err
	}
	if made.Setup.Hash == "" {
		if made.Setup.Hash, err = workload.Hash(); err != nil {
			return nil, err
		}
	}
	made.rec = &Recording{Setup: made.Setup, Samples: make([]Sample, len(workload)), Queries: made.mine()}
	if made.rec.Queries == 0 {
		return nil, fmt.Errorf("shard %v: none of %d queries is its", made.Setup.Shard, len(workload))
	}
	return made, nil
}

// enter reports a stage that has been reached.
func (r *run) enter(stage Stage) {
	now := time.Now()
	if r.OnStage != nil {
		r.OnStage(stage, now.Sub(r.stageBegan))
	}
	r.stageBegan = now
}

// prepare waits for the server and warms it up.
func (r *run) prepare(ctx context.Context) error {
	if r.Ready > 0 {
		r.enter(Waiting)
		if err := r.await(ctx); err != nil {
			return err
		}
		r.enter(Answered)
	}
	if r.Warmups == 0 {
		return ctx.Err()
	}
	r.enter(WarmingUp)
	if err := r.warmUp(ctx); err != nil {
		return err
	}
	r.enter(WarmedUp)
	return pause(ctx, r.Settle)
}

// sendOnce sends a copy of a query outside the measured part.
func (r *run) sendOnce(ctx context.Context, query dataset.Query) *Sample {
	query.ID = ""
	sample := &Sample{Input: query.Input, Asked: query.Output}
	r.Warming.Released.Add(1)
	r.target.Do(ctx, &query, sample, time.Now(), r.Warming)
	r.Warming.Done.Add(1)
	return sample
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
		failure := r.sendOnce(limit, r.workload[0]).failure()
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
			return fmt.Errorf("the server was not ready within %v; the last answer to query 0: %s", r.Ready, OneLine(last))
		}
	}
}

// warmUp sends its requests together, within the bound on concurrency. It fails if none
// of them succeeds: then none of the run would.
func (r *run) warmUp(ctx context.Context) error {
	query := r.workload[0]
	if r.WarmupOutput > 0 {
		query.Output = min(query.Output, r.WarmupOutput)
	}
	slots := make(chan struct{}, r.concurrency())
	samples := make([]*Sample, r.Warmups)
	var all sync.WaitGroup
	for i := range samples {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			samples[i] = r.sendOnce(ctx, query)
		})
	}
	all.Wait()
	for _, sample := range samples { // one that succeeded is enough
		if sample.failure() == "" {
			return nil
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("warm-up with query 0: %s", OneLine(samples[0].failure()))
}

// concurrency is the most requests at once.
func (r *run) concurrency() int {
	if bound := r.Setup.Shard.share(r.Setup.Arrivals.Concurrency); bound > 0 {
		return bound
	}
	return max(len(r.workload), r.Warmups) // the workers of the warm-up go on as those of the run
}

// measure does the part that counts.
func (r *run) measure(ctx context.Context) (rec *Recording, err error) {
	if r.Start != nil {
		if err := r.Start(ctx); err != nil {
			return nil, err
		}
	}
	if r.Stop != nil { // however it ends: what was started would go on for good
		defer func() { err = errors.Join(err, r.Stop(context.WithoutCancel(ctx))) }()
	}
	// Before the clock starts: all that would otherwise fall into the first moments.
	r.rec.Before = r.askCounters(ctx)
	r.Live.Total.Store(int64(r.rec.Queries))
	runtime.GC() // what the workload left behind is not to be collected while it is sent
	if err := r.Setup.Shard.await(ctx); err != nil {
		return nil, err
	}
	threads := runtime.GOMAXPROCS(0)
	defer lendProcessors()()
	before := usageNow()
	r.enter(Measuring)
	r.began = time.Now()
	r.rec.Began = r.began.Round(0) // wall clock
	r.journal = startJournal(r.LogTo, r.rec)

	// While it runs: the side stream ends with the last answer.
	done := make(chan struct{})
	var probes sync.WaitGroup
	if r.ProbeRate > 0 && r.Setup.Shard.sends(0) { // one side stream for all
		probes.Go(func() { r.probe(ctx, done) })
	}
	r.dispatch(ctx)
	r.workers.Wait()
	cut := ctx.Err() // who interrupts what follows has all answers
	close(done)
	probes.Wait()

	// Behind the last answer: what the measuring cost, and what the server says now.
	r.rec.Duration = time.Since(r.began)
	r.rec.Client = before.since()
	r.rec.Client.Threads = threads
	r.enter(Measured)
	r.rec.After = r.askCounters(ctx)
	r.rec.Samples = r.sentSamples()
	r.rec.Client.Shared = r.Shared
	r.rec.Client.Kernel = kernelTimed(r.rec.Samples)

	// What was measured is kept whatever fails from here on.
	r.rec.Cut = cut != nil
	return r.rec, errors.Join(cut, r.journal.close(r.rec))
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

// askCounters reads the server's counters; nil where it has none.
func (r *run) askCounters(ctx context.Context) map[string]float64 {
	if r.ReadCounters == nil {
		return nil
	}
	series, err := r.ReadCounters(ctx)
	if err != nil {
		return nil // most servers have none
	}
	return series
}

// sentSamples returns the samples without those of queries that never left.
func (r *run) sentSamples() []Sample {
	var out []Sample // new: the log may still have to write the old ones
	for _, sample := range r.rec.Samples {
		if sample.Done > 0 {
			out = append(out, sample)
		}
	}
	return out
}

// kernelTimed reports whether times of receipt come from the kernel.
func kernelTimed(samples []Sample) bool {
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
	wake := time.NewTimer(0) // one timer for all waits
	defer wake.Stop()
	arrivals := r.Setup.Arrivals
	r.lastRate = int(arrivals.Ramp.Start) - 1
	r.passRates(arrivals.Ramp.Start)
	for i, at := range r.times {
		if !r.Setup.Shard.sends(i) {
			continue
		}
		if !r.waitUntil(ctx, at, wake) {
			return
		}
		if r.firstTurns == nil {
			r.takeUp(i, at)
			r.release(ctx, i)
		} else {
			r.takeUp(r.firstTurns[i], at)
			r.workers.Go(func() { r.converse(ctx, r.firstTurns[i]) })
		}
		r.passRates(arrivals.rate(i, len(r.times)))
	}
}

// takeUp begins the sample of query i, which was scheduled at a time of the run and is
// released now.
func (r *run) takeUp(i int, at time.Duration) {
	query := &r.workload[i]
	r.rec.Samples[i] = Sample{Index: i, Scheduled: at, Released: time.Since(r.began), Input: query.Input, Asked: query.Output, Session: query.Session, Turn: query.Turn}
	r.Live.Released.Add(1)
}

// waitUntil waits for a time of the run and reports whether it came before ctx ended.
func (r *run) waitUntil(ctx context.Context, at time.Duration, wake *time.Timer) bool {
	for {
		left := at - time.Since(r.began)
		switch {
		case ctx.Err() != nil:
			return false
		case left <= 0:
			return true
		case left <= timerSlack:
			// A worker that was handed a query sends it now: while this thread sleeps in the
			// kernel it would wait until the runtime takes its processor away.
			runtime.Gosched()
			if left = at - time.Since(r.began); left > 0 {
				nap(left)
			}
			continue
		}
		wake.Reset(left - timerSlack/2) // the rest is for nap, which is precise
		select {
		case <-wake.C:
		case <-ctx.Done():
		}
	}
}

const timerSlack = 3 * time.Millisecond // from here on nap waits: a timer of the runtime may be late by more than a third of it

// release hands query i to a worker that waits, or to a new one below the limit;
// otherwise it stays in the queue.
func (r *run) release(ctx context.Context, i int) {
	// Below 0 there are more queries than workers that wait. A new worker waits at first, so
	// it counts; taking a query changes both parts of free, and so nothing.
	if r.free.Add(-1) < 0 && r.started < r.concurrency() {
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
			r.send(ctx, &r.workload[i], &r.rec.Samples[i])
		}
		r.free.Add(1)
	}
}

// send sends a query and counts it.
func (r *run) send(ctx context.Context, query *dataset.Query, sample *Sample) {
	r.target.Do(ctx, query, sample, r.began, r.Live)
	if !sample.OK() {
		r.Live.Failed.Add(1)
	}
	r.Live.Done.Add(1)
	r.journal.append(entry{Sample: (*loggedSample)(sample)})
}

// probe sends one short request after the other until done (bench.md 1.1).
func (r *run) probe(ctx context.Context, done <-chan struct{}) {
	gap := time.Duration(float64(time.Second) / r.ProbeRate)
	for ctx.Err() == nil {
		sample := Sample{Asked: 1}
		r.target.Do(ctx, &dataset.Query{Prompt: "Hi", Output: 1}, &sample, r.began, new(Live))
		probe := Probe{Sent: sample.Sent, Done: sample.Done, Err: sample.failure()}
		r.rec.Probes = append(r.rec.Probes, probe)
		r.journal.append(entry{Probe: &probe})
		// A last pause is not waited for: the run has ended then.
		select {
		case <-done:
			return
		case <-ctx.Done():
		case <-time.After(gap):
		}
	}
}

// passRates records the whole rates that a ramp passes on its way to rate.
func (r *run) passRates(rate float64) {
	if r.Setup.Arrivals.Ramp.Strategy == "" {
		return
	}
	for now := time.Now().Round(0); r.lastRate < int(rate); {
		r.lastRate++
		step := RateStep{Rate: r.lastRate, At: now}
		r.rec.RateSteps = append(r.rec.RateSteps, step)
		r.journal.append(entry{RateStep: &step})
	}
}

// pause waits, or ends with ctx.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
