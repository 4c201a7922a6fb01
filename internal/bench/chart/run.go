package chart

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"ossian/internal/bench"
	"ossian/internal/bench/report"
)

// A Run is one run with what there is to say about it.
type Run struct {
	Name        string // in legends; "" = the label, else the model
	Summary     *report.Summary
	Recording   *bench.Recording // nil = numbers alone, from an old result file
	Environment []bench.Pair     // what is known of machines and versions
}

// A series is a run with the values that figures are made of.
type series struct {
	Run
	name   string  // tells it from the other runs of a report
	origin float64 // when the first request was sent, on the clock of the summary
}

// read prepares runs for drawing and gives them names that tell them apart.
func read(runs []Run) []*series {
	names := nameRuns(runs)
	out := make([]*series, len(runs))
	for i, r := range runs {
		s := &series{Run: r, name: names[i], origin: math.Inf(1)}
		for k := range r.Summary.Requests {
			if q := &r.Summary.Requests[k]; q.OK || r.Recording != nil { // old files have no start of failed ones
				s.origin = min(s.origin, q.Start)
			}
		}
		if math.IsInf(s.origin, 1) {
			s.origin = 0
		}
		out[i] = s
	}
	return out
}

// bounds returns when request i began and when it was over, by its last token or its
// failure, in seconds since the first one began; false where that is not known.
func (s *series) bounds(i int) (start, end float64, ok bool) {
	q := &s.Summary.Requests[i]
	start = q.Start - s.origin
	end = start + q.Latency
	if !q.OK && s.Recording != nil && i < len(s.Recording.Samples) {
		end = s.Recording.Samples[i].Done.Seconds() - s.origin
	}
	return start, end, start >= 0 && end > start
}

// arrivals calls f with the time of each chunk that counts, in seconds since the first
// request began, and the tokens in it: the output spread over the chunks (bench.md 6.1).
func (s *series) arrivals(q *report.Request, f func(at, tokens float64)) {
	if !q.OK {
		return
	}
	each := float64(q.Output) / float64(1+len(q.ITL))
	at := q.Start - s.origin + q.TTFT
	f(at, each)
	for _, gap := range q.ITL {
		at += gap
		f(at, each)
	}
}

// length is that of the run in seconds, from the first start to the last end.
func (s *series) length() float64 {
	last := 0.0
	for i := range s.Summary.Requests {
		if _, end, ok := s.bounds(i); ok {
			last = max(last, end)
		}
	}
	return last
}

// inFlight returns how many requests were open, as steps over the seconds since the first
// began, and the most that were open at once.
func (s *series) inFlight() (steps []Point, peak float64) {
	type event struct {
		at    float64
		delta float64
	}
	events := make([]event, 0, 2*len(s.Summary.Requests))
	for i := range s.Summary.Requests {
		if start, end, ok := s.bounds(i); ok {
			events = append(events, event{nanoseconds(start), 1}, event{nanoseconds(end), -1})
		}
	}
	slices.SortFunc(events, func(a, b event) int {
		if a.at != b.at {
			return cmp.Compare(a.at, b.at)
		}
		return cmp.Compare(a.delta, b.delta) // half-open intervals (bench.md 1.6)
	})
	open := 0.0
	for _, e := range events {
		open += e.delta
		peak = max(peak, open)
		steps = append(steps, Point{e.at, open})
	}
	return steps, peak
}

// nanoseconds takes away what adding up seconds has put behind the clock's resolution:
// a request that begins when another ends does not overlap it.
func nanoseconds(seconds float64) float64 { return math.Round(seconds*1e9) / 1e9 }

// A load is what a sweep varies.
type load uint8

const (
	noLoad load = iota
	byConcurrency
	byRate
)

// loadOf says what runs differ in.
func loadOf(runs []Run) load {
	var c, r []float64
	for _, run := range runs {
		a := run.Summary.Setup.Arrivals
		c, r = append(c, byConcurrency.of(a)), append(r, byRate.of(a))
	}
	switch {
	case distinct(c) > 1 && distinct(c) >= distinct(r):
		return byConcurrency
	case distinct(r) > 1:
		return byRate
	}
	return noLoad
}

func distinct(values []float64) int {
	sorted := slices.Sorted(slices.Values(values))
	return len(slices.Compact(sorted))
}

// of returns the load of a run; +Inf = without bound.
func (l load) of(a bench.Arrivals) float64 {
	if l == byRate {
		return a.Rate
	}
	if a.Concurrency == 0 {
		return math.Inf(1)
	}
	return float64(a.Concurrency)
}

// title is that of an axis.
func (l load) title() string {
	if l == byRate {
		return "Request rate (requests/s)"
	}
	return "Requests at once"
}

// text names the load of a run: "8 at once", "10 req/s".
func (l load) text(a bench.Arrivals) string {
	v := strconv.FormatFloat(l.of(a), 'g', 6, 64)
	if math.IsInf(l.of(a), 1) {
		v = "inf"
	}
	if l == byRate {
		return v + " req/s"
	}
	return v + " at once"
}

// kind names what a run measured, its load apart.
func (r *Run) kind() string {
	if r.Name != "" {
		return r.Name
	}
	s := &r.Summary.Setup
	switch {
	case s.Label != "":
		return s.Label
	case s.ModelID != "":
		return s.ModelID
	case s.Model != "":
		return s.Model
	}
	return "run"
}

// nameRuns names runs by what they measured and, in a sweep, by their load.
func nameRuns(runs []Run) []string {
	l := loadOf(runs)
	var kinds []string
	for i := range runs {
		kinds = append(kinds, runs[i].kind())
	}
	one := len(slices.Compact(slices.Sorted(slices.Values(kinds)))) == 1
	out := make([]string, len(runs))
	seen := map[string]int{}
	for i := range runs {
		name := kinds[i]
		switch text := l.text(runs[i].Summary.Setup.Arrivals); {
		case l != noLoad && one:
			name = text
		case l != noLoad:
			name += ", " + text
		}
		seen[name]++
		if n := seen[name]; n > 1 {
			name = fmt.Sprintf("%s #%d", name, n)
		}
		out[i] = name
	}
	return out
}
