// Package chart shows what benchmarks measured: figures as SVG and PNG, and reports as
// one HTML file that opens without a network. Callers hand over runs, or the results of a
// sweep; scales, colours, sizes and how much detail a file can carry are settled here.
package chart

import (
	"cmp"
	"math"
	"slices"

	"ossian/internal/bench"
	"ossian/internal/bench/report"
)

// A Run is one run with what there is to say about it.
type Run struct {
	Name      string // in legends; "" = the label or the model, and the load
	Summary   *report.Summary
	Recording *bench.Recording // that Summary is made of
}

// A series is a run with the values that figures are made of.
type series struct {
	Run
	overview
	name   string  // tells it from the other runs of a report
	origin float64 // when the first request was sent, on the clock of the summary
}

// newSeries prepares runs for drawing and gives them names that tell them apart.
func newSeries(runs []Run) []*series {
	out := make([]*series, len(runs))
	for i, run := range runs {
		drawn := &series{Run: run}
		for k := range run.Summary.Requests {
			if start := run.Summary.Requests[k].Start; k == 0 || start < drawn.origin {
				drawn.origin = start
			}
		}
		drawn.overview = drawn.overall()
		out[i] = drawn
	}
	// Names by what tells the runs apart, unless they were given; equal ones get numbers.
	all := names(overviews(out))
	for i, run := range runs {
		all[i] = cmp.Or(run.Name, all[i])
	}
	for i, name := range unique(all) {
		out[i].name = name
	}
	return out
}

// overviews are those of the runs.
func overviews(all []*series) []overview {
	out := make([]overview, len(all))
	for i, s := range all {
		out[i] = s.overview
	}
	return out
}

// overall sums s up.
func (s *series) overall() overview {
	sum := s.Summary
	_, peak := s.inFlight()
	both := func(dist report.Dist) [2]float64 {
		if dist.N == 0 {
			return [2]float64{math.NaN(), math.NaN()}
		}
		return [2]float64{dist.Median, dist.P(99)}
	}
	kind := cmp.Or(sum.Setup.Label, sum.Setup.ModelID, sum.Setup.Model, "run")
	return overview{kind: kind, arrivals: sum.Setup.Arrivals, peak: peak, failed: float64(sum.Failed),
		requests: sum.RequestRate, output: sum.OutputRate, total: sum.TotalRate, ttft: both(sum.TTFT), tpot: both(sum.TPOT), e2el: both(sum.E2EL)}
}

// bounds returns when a request began and when it was over, by its last token or its
// failure, in seconds since the first one began; false where that is not known.
func (s *series) bounds(index int) (start, end float64, ok bool) {
	request := &s.Summary.Requests[index]
	start = request.Start - s.origin
	end = start + request.Latency
	if !request.OK {
		end = s.Recording.Samples[index].Done.Seconds() - s.origin
	}
	return start, end, end > start
}

// chunks calls visit with the time of each chunk that counts, in seconds since the first
// request began, and the tokens in it: the output spread over the chunks (bench.md 6.1).
func (s *series) chunks(request *report.Request, visit func(at, tokens float64)) {
	if !request.OK {
		return
	}
	each := float64(request.Output) / float64(1+len(request.ITL))
	at := request.Start - s.origin + request.TTFT
	visit(at, each)
	for _, gap := range request.ITL {
		at += gap
		visit(at, each)
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
	events := make([]Point, 0, 2*len(s.Summary.Requests)) // when, and how many more
	for i := range s.Summary.Requests {
		if start, end, ok := s.bounds(i); ok {
			events = append(events, Point{nanoseconds(start), 1}, Point{nanoseconds(end), -1})
		}
	}
	slices.SortFunc(events, func(a, b Point) int {
		return cmp.Or(cmp.Compare(a.X, b.X), cmp.Compare(a.Y, b.Y)) // half-open intervals (bench.md 1.6)
	})
	open := 0.0
	for _, event := range events {
		open += event.Y
		peak = max(peak, open)
		steps = append(steps, Point{event.X, open})
	}
	return steps, peak
}

// nanoseconds takes away what adding up seconds has put behind the clock's resolution:
// a request that begins when another ends does not overlap it.
func nanoseconds(seconds float64) float64 { return math.Round(seconds*1e9) / 1e9 }
