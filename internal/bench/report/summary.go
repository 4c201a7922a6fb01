// Package report says what a recorded run means: the numbers that the published tools
// would print for it, byte for byte (bench.md 1.6-1.8, 4), and beside them what those
// cannot say: whether the numbers can be trusted, and whether two runs differ. It reads
// recordings and old result files; it sends nothing.
package report

import (
	"cmp"
	"math"
	"slices"
	"time"

	"ossian/internal/bench"
	"ossian/internal/stat"
)

// A Dist is a distribution of times. The named statistics are milliseconds.
type Dist struct {
	N      int     `json:"n"`
	Mean   float64 `json:"mean_ms"`
	Median float64 `json:"median_ms"`
	Std    float64 `json:"std_ms"` // of the population
	P90    float64 `json:"p90_ms"`
	P99    float64 `json:"p99_ms"`
	Max    float64 `json:"max_ms"`

	sorted []float64 // seconds
}

// NewDist returns the distribution of seconds; all statistics of nothing are 0.
func NewDist(seconds []float64) Dist {
	s := stat.Sorted(seconds)
	d := Dist{N: len(s), Mean: stat.Mean(seconds) * 1000, Median: stat.Median(s) * 1000, Std: stat.Std(seconds) * 1000, sorted: s}
	d.P90, d.P99, d.Max = d.P(90), d.P(99), d.P(100)
	return d
}

// P returns the p-th percentile, milliseconds (bench.md 1.6).
func (d Dist) P(p float64) float64 { return stat.Percentile(d.sorted, p) * 1000 }

// Sorted returns the values, seconds, ascending. It is d's own; do not write to it.
func (d Dist) Sorted() []float64 { return d.sorted }

// A Summary is a run in numbers, under the profile of its setup.
type Summary struct {
	Setup    bench.Setup
	Began    time.Time
	Duration float64 // seconds

	Requests []Request // in the order of the queries
	Queries  int       // that were to be sent; 0 = not known

	Completed, Failed int
	Input, Output     int // tokens of the requests that succeeded
	Retokenized       int // lmdeploy, sglang

	RequestRate float64 // per second, completed
	Goodput     float64 // per second, completed within every objective
	Attained    []int   // requests that kept each objective of the setup; the last: all of them
	InputRate   float64 // tokens per second
	OutputRate  float64
	TotalRate   float64

	TTFT, TPOT, ITL, E2EL Dist
	Queue, E2ELQueue      Dist // wait for a slot; the same and E2EL

	PeakTokens   float64 // events with tokens in the fullest second (bench.md 1.6)
	PeakRequests int     // that touched the same second; Ossian.Stream has those at once
	Concurrency  float64 // mean, sglang's rule: sum of E2EL over duration

	Spec      *SpecDecode // nil = the server does not say
	Probes    *Probes     // nil = none succeeded
	RateSteps []bench.RateStep
	Steady    *Steady // nil = no window
	Turns     *Turns  // nil = queries stood alone

	Ossian Extension
}

// A Probes is what the side stream measured.
type Probes struct {
	Completed, Failed int
	E2EL              Dist
}

// Summarize computes the numbers of r under its profile. It is pure: the same recording
// gives the same numbers. count says how many tokens a text has, without special ones;
// nil = there is no tokenizer.
func Summarize(r *bench.Recording, count func(text string) int) *Summary {
	s := &Summary{Setup: r.Setup, Began: r.Began, Duration: r.Duration.Seconds(), RateSteps: r.RateSteps, Queries: r.Queries,
		Requests: make([]Request, len(r.Samples))}
	for i := range r.Samples {
		s.Requests[i] = request(&r.Setup, &r.Samples[i], count)
	}
	s.total()
	s.times()
	s.PeakTokens = peakTokens(s.Requests)
	s.PeakRequests = peakSeconds(s.Requests)
	s.Spec = specDecode(r.Before, r.After)
	s.Probes = probes(r.Probes)
	s.Ossian = extend(r, s, count)
	if s.Setup.Profile == bench.VLLMRust {
		s.Steady = s.steady(cmp.Or(r.Setup.Steady.Threshold, SteadyThreshold), r.Setup.Steady.Shortest, nil)
	}
	if r.Setup.MultiTurn != nil {
		s.Turns = s.turns(r)
	}
	return s
}

// total adds up what the requests have, by request.
func (s *Summary) total() {
	s.Attained = make([]int, len(s.Setup.Goodput)+1)
	for i := range s.Requests {
		q := &s.Requests[i]
		if !q.OK {
			s.Failed++
			continue
		}
		s.Completed++
		s.Input += q.Input
		s.Output += q.Output
		s.Retokenized += q.Retokenized
		s.attain(q)
	}
	s.RequestRate = s.per(float64(s.Completed))
	s.InputRate = s.per(float64(s.Input))
	s.OutputRate = s.per(float64(s.Output))
	s.TotalRate = s.per(float64(s.Input + s.Output))
	if len(s.Setup.Goodput) > 0 {
		s.Goodput = s.per(float64(s.Attained[len(s.Setup.Goodput)]))
	}
}

// per returns n per second of the run.
func (s *Summary) per(n float64) float64 {
	if s.Duration <= 0 {
		return 0
	}
	return n / s.Duration
}

// attain counts the objectives that q keeps; TPOT of a request without one is 0.
func (s *Summary) attain(q *Request) {
	tpot, _ := q.tpot()
	all := true
	for i, slo := range s.Setup.Goodput {
		value := q.TTFT
		switch slo.Metric {
		case "tpot":
			value = tpot
		case "e2el":
			value = q.Latency
		}
		if value <= slo.Limit.Seconds() {
			s.Attained[i]++
		} else {
			all = false
		}
	}
	if all {
		s.Attained[len(s.Setup.Goodput)]++
	}
}

// times makes the distributions over the requests that succeeded.
func (s *Summary) times() {
	var ttft, tpot, itl, e2el, queue, both []float64
	sum := 0.0
	for i := range s.Requests {
		q := &s.Requests[i]
		if !q.OK {
			continue
		}
		ttft = append(ttft, q.TTFT)
		e2el = append(e2el, q.Latency)
		queue = append(queue, q.Queue)
		both = append(both, q.Latency+q.Queue)
		itl = append(itl, q.ITL...)
		if t, ok := q.tpot(); ok {
			tpot = append(tpot, t)
		}
		sum += q.Latency
	}
	s.TTFT, s.TPOT, s.ITL, s.E2EL = NewDist(ttft), NewDist(tpot), NewDist(itl), NewDist(e2el)
	s.Queue, s.E2ELQueue = NewDist(queue), NewDist(both)
	s.Concurrency = s.per(sum)
}

// arrivals calls f with the time of each token event of q: start, then TTFT, then every
// gap added in turn, which is how the tools rebuild it (and rounds as they do).
func (q *Request) arrivals(f func(at float64)) {
	at := q.Start + q.TTFT
	f(at)
	for _, gap := range q.ITL {
		at += gap
		f(at)
	}
}

// span returns the first start and the last end of the requests that succeeded; false
// where none did.
func span(requests []Request) (first, last float64, ok bool) {
	first, last = math.Inf(1), math.Inf(-1)
	for i := range requests {
		if q := &requests[i]; q.OK {
			first, last, ok = min(first, q.Start), max(last, q.Start+q.Latency), true
		}
	}
	return first, last, ok
}

// peakTokens counts token events per second since the first start and returns the most.
func peakTokens(requests []Request) float64 {
	first, last, ok := span(requests)
	if !ok {
		return 0
	}
	buckets := math.Ceil(last-first) + 1
	seconds := map[int]int{} // by second: a broken clock costs no memory
	most := 0
	for i := range requests {
		if !requests[i].OK {
			continue
		}
		requests[i].arrivals(func(at float64) {
			if second := math.Trunc(at - first); second >= 0 && second < buckets {
				seconds[int(second)]++
				most = max(most, seconds[int(second)])
			}
		})
	}
	return float64(most)
}

// bounds returns the sorted starts and ends of the requests that succeeded.
func bounds(requests []Request) (starts, ends []float64) {
	for i := range requests {
		if q := &requests[i]; q.OK {
			starts = append(starts, q.Start)
			ends = append(ends, q.Start+q.Latency)
		}
	}
	slices.Sort(starts)
	slices.Sort(ends)
	return starts, ends
}

// peakExact is the most requests under way at one moment, half-open intervals.
func peakExact(requests []Request) int {
	starts, ends := bounds(requests)
	now, most, e := 0, 0, 0
	for _, start := range starts {
		for e < len(ends) && ends[e] <= start {
			now--
			e++
		}
		now++
		most = max(most, now)
	}
	return most
}

// peakSeconds is the most requests that touched the same second since the first start:
// the rule of all released tools (vllm 0.33.0 too; bench.md 0 gives it the exact one).
func peakSeconds(requests []Request) int {
	first, _, ok := span(requests)
	if !ok {
		return 0
	}
	change := map[int]int{}
	for i := range requests {
		if q := &requests[i]; q.OK {
			change[int(q.Start-first)]++
			change[int(q.Start+q.Latency-first)+1]--
		}
	}
	seconds := make([]int, 0, len(change))
	for second := range change {
		seconds = append(seconds, second)
	}
	slices.Sort(seconds)
	now, most := 0, 0
	for _, second := range seconds {
		now += change[second]
		most = max(most, now)
	}
	return most
}

// probes summarises the side stream; nil where no probe succeeded.
func probes(all []bench.Probe) *Probes {
	var e2el []float64
	for _, p := range all {
		if p.Err == "" {
			e2el = append(e2el, (p.Done - p.Sent).Seconds())
		}
	}
	if len(e2el) == 0 {
		return nil
	}
	return &Probes{Completed: len(e2el), Failed: len(all) - len(e2el), E2EL: NewDist(e2el)}
}
