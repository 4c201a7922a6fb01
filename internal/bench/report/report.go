// Package report says what a recorded run means: the numbers that the published tools
// would print for it, byte for byte (bench.md 1.6-1.8, 4), and beside them what those
// cannot say: whether the numbers can be trusted, and whether two runs differ. It reads
// recordings and old result files; it sends nothing.
package report

import (
	"cmp"
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

// Summarize computes the numbers of a recording under its profile. It is pure: the same recording
// gives the same numbers. count says how many tokens a text has, without special ones;
// nil = there is no tokenizer.
func Summarize(rec *bench.Recording, count func(text string) int) *Summary {
	summary := &Summary{Setup: rec.Setup, Began: rec.Began, Duration: rec.Duration.Seconds(), RateSteps: rec.RateSteps, Queries: rec.Queries,
		Requests: make([]Request, len(rec.Samples))}
	for i := range rec.Samples {
		summary.Requests[i] = readRequest(&rec.Setup, &rec.Samples[i], count)
	}
	// Totals first: the rest divides by them.
	summary.total()
	summary.times()
	summary.PeakTokens = peakTokens(summary.Requests)
	summary.PeakRequests = peakSeconds(summary.Requests)
	summary.Spec = specDecode(rec.Before, rec.After)
	summary.Probes = probes(rec.Probes)
	summary.Ossian = extend(rec, summary, count)
	if summary.Setup.Profile == bench.VLLMRust {
		summary.Steady = summary.findSteady(cmp.Or(rec.Setup.Steady.Threshold, SteadyThreshold), rec.Setup.Steady.Shortest, nil)
	}
	if rec.Setup.MultiTurn != nil {
		summary.Turns = summary.makeTurns(rec)
	}
	return summary
}
