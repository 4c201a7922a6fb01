package chart

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"ossian/internal/bench"
	"ossian/internal/stat"
)

// figures returns every figure that runs have values for: of a sweep the curves over the
// load and the frontier, of all runs distributions and the course over time.
func figures(all []*series) []*Figure {
	sums := overviews(all)
	var out []*Figure
	if l := loadOf(sums); l != noLoad {
		out = append(out, loadCurves(sums, l), paretoOf(sums, l))
	}
	out = append(out, distributions(all)...)
	return append(out, overTime(all))
}

// A timeUnit is that of an axis of time.
type timeUnit struct {
	name string
	per  float64 // of it in a second
}

// unitFor returns the unit in which values up to a number of seconds read well.
func unitFor(seconds float64) timeUnit {
	switch {
	case seconds >= 5:
		return timeUnit{"s", 1}
	case seconds < 1e-3:
		return timeUnit{"µs", 1e6}
	}
	return timeUnit{"ms", 1e3}
}

// scaled returns values in the unit.
func (u timeUnit) scaled(values []float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = v * u.per
	}
	return out
}

// distributions draws each metric's distribution function and histogram.
func distributions(all []*series) []*Figure {
	metrics := []struct {
		file, name, of string
		values         func(*series) []float64
	}{
		{"ttft", "Time to first token (TTFT)", "requests", func(s *series) []float64 { return s.Summary.TTFT.Sorted() }},
		{"tpot", "Time per output token after the first (TPOT)", "requests", func(s *series) []float64 { return s.Summary.TPOT.Sorted() }},
		{"itl", "Inter-token latency (ITL)", "gaps", func(s *series) []float64 { return s.Summary.ITL.Sorted() }},
		{"e2el", "End-to-end latency (E2EL)", "requests", func(s *series) []float64 { return s.Summary.E2EL.Sorted() }},
	}
	var out []*Figure
	for _, metric := range metrics {
		var names []string
		var values [][]float64
		for _, s := range all {
			if v := metric.values(s); len(v) > 0 {
				names, values = append(names, s.name), append(values, v)
			}
		}
		if len(values) > 0 {
			out = append(out, distribution(metric.file, metric.name, metric.of, names, values))
		}
	}
	return out
}

// bins is how many a histogram has.
const histogramBins = 40

// distribution draws ascending values in seconds, one slice for each name.
func distribution(file, title, of string, names []string, values [][]float64) *Figure {
	// One unit, one scale and one set of bins for all names, so that they can be compared.
	high := 0.0
	var all []float64
	for _, seconds := range values {
		high = max(high, seconds[len(seconds)-1])
		all = append(all, seconds...)
	}
	unit := unitFor(high)
	all = unit.scaled(all)
	short := strings.ToUpper(file)
	xAxis := Axis{Title: fmt.Sprintf("%s (%s)", short, unit.name), Log: wide(all, 30)}
	edges := edgesOf(all, xAxis.Log, histogramBins)
	share := "Share of " + of + " (%)"
	cdf := Panel{Title: "Cumulative share; dots: median, P99", X: xAxis, Y: Axis{Title: share, Ticks: []float64{0, 25, 50, 75, 100}}}
	hist := Panel{Title: "Histogram", X: xAxis, Y: Axis{Title: share}}
	for i, seconds := range values {
		seconds = unit.scaled(seconds)
		cdf.Lines = append(cdf.Lines, Line{names[i], cumulative(seconds), Steps},
			// Runs without the metric, as of one token, have no curve.
			Line{names[i], []Point{{stat.Percentile(seconds, 50), 50}, {stat.Percentile(seconds, 99), 99}}, Dots})
		style := Steps
		if len(values) == 1 {
			style |= Area
		}
		hist.Lines = append(hist.Lines, Line{names[i], histogram(seconds, edges, 100/float64(len(seconds))), style})
	}
	return &Figure{Name: file, Title: title, Panels: [][]Panel{{cdf, hist}}}
}

// cumulative returns the distribution function of ascending values, in percent.
func cumulative(values []float64) []Point {
	out := make([]Point, 0, len(values)+1)
	out = append(out, Point{values[0], 0})
	for i := range values {
		if i+1 == len(values) || values[i+1] != values[i] {
			out = append(out, Point{values[i], 100 * float64(i+1) / float64(len(values))})
		}
	}
	return out
}

// edgesOf returns the edges of so many bins, one more than these, that hold values, at least one, of equal width on
// the axis.
func edgesOf(values []float64, log bool, bins int) []float64 {
	low, high := slices.Min(values), slices.Max(values)
	if log {
		least := high
		for _, v := range values {
			if v > 0 {
				least = min(least, v)
			}
		}
		low = max(least, high*math.Pow(10, -decades))
	}
	if high <= low { // one value: a bin around it
		pad := max(math.Abs(low)/20, 1e-6)
		return []float64{low - pad, low + pad}
	}
	edges := make([]float64, bins+1)
	for i := range edges {
		share := float64(i) / float64(bins)
		edges[i] = low + (high-low)*share
		if log {
			edges[i] = low * math.Pow(high/low, share)
		}
	}
	return edges
}

// wholeEdges returns the edges of at most n bins that hold values, at least one, which are
// whole numbers: each bin as many of them as the others, and none on an edge.
func wholeEdges(values []float64, n int) []float64 {
	low, high := slices.Min(values), slices.Max(values)
	width := math.Ceil((high - low + 1) / float64(n))
	edges := []float64{low - 0.5}
	for at := low - 0.5; at < high; {
		at += width
		edges = append(edges, at)
	}
	return edges
}

// histogram counts ascending values between edges, each as much as unit says; what lies
// below the first edge counts there. The outline begins and ends at zero.
func histogram(values, edges []float64, unit float64) []Point {
	out := []Point{{edges[0], 0}}
	from := 0
	for i := range len(edges) - 1 {
		to, _ := slices.BinarySearch(values, edges[i+1])
		if i == len(edges)-2 {
			to = len(values)
		}
		out = append(out, Point{edges[i], float64(to-from) * unit})
		from = to
	}
	return append(out, Point{edges[len(edges)-1], 0})
}

// overTime draws the course of runs: tokens per second, and requests in flight.
func overTime(all []*series) *Figure {
	longest := 0.0
	for _, run := range all {
		longest = max(longest, run.length())
	}
	// Whole seconds where there are enough of them to see a course, else parts of one.
	step := max(round125(longest/200, true), 1)
	if longest < 20 {
		step = round125(max(longest, 1e-3)/40, true)
	}
	x := Axis{Title: "Time since the first request (s)", Holds: []float64{step * math.Ceil(longest/step)}} // both panels alike
	tokens := Panel{Title: fmt.Sprintf("Output tokens per second, mean over %g s", step), X: x, Y: Axis{Title: "tokens/s"}}
	flight := Panel{Title: "Requests in flight", X: x, Y: Axis{Title: "requests", Whole: true}}
	for _, run := range all {
		style := Steps
		if len(all) == 1 {
			style |= Area
		}
		open, _ := run.inFlight()
		tokens.Lines = append(tokens.Lines, Line{run.name, run.tokenRate(step), style})
		flight.Lines = append(flight.Lines, Line{run.name, append([]Point{{0, 0}}, open...), style})
	}
	return &Figure{Name: "over_time", Title: "Over time", Panels: [][]Panel{{tokens}, {flight}}, Height: 180}
}

// tokenRate returns the tokens per second that arrived in each step of seconds.
func (s *series) tokenRate(step float64) []Point {
	length := s.length()
	steps := int(math.Ceil(length / step))
	if steps < 1 {
		return nil
	}
	sum := make([]float64, steps)
	for i := range s.Summary.Requests {
		s.chunks(&s.Summary.Requests[i], func(at, tokens float64) {
			if b := min(int(at/step), steps-1); b >= 0 {
				sum[b] += tokens
			}
		})
	}
	out := make([]Point, 0, steps+2)
	for b, v := range sum {
		out = append(out, Point{float64(b) * step, v / step})
	}
	return append(out, Point{float64(steps) * step, out[steps-1].Y}, Point{float64(steps) * step, 0})
}

// DatasetStats draws the lengths of a workload (bench.md 1.9): histograms of prompt,
// output and both, and each request's.
func DatasetStats(workload bench.Workload) *Figure {
	var prompt, output, total []float64
	for i := range workload {
		in, out := float64(workload[i].Input), float64(workload[i].Output)
		prompt, output, total = append(prompt, in), append(output, out), append(total, in+out)
	}
	lengths := func(name string, values []float64) Panel {
		panel := Panel{Title: "Tokens of " + name, X: Axis{Title: "tokens", Whole: true}, Y: Axis{Title: "requests", Whole: true}}
		if len(values) > 0 {
			panel.Lines = []Line{{name, histogram(stat.Sorted(values), wholeEdges(values, 30), 1), Steps | Area}}
		}
		return panel
	}
	each := Panel{Title: "Each request", X: Axis{Title: "request"}, Y: Axis{Title: "tokens"}}
	if len(workload) > 0 { // the prompt covers its part of the whole
		each.Lines = []Line{{"output", bars(total), Steps | Solid}, {"prompt", bars(prompt), Steps | Solid}}
	}
	return &Figure{Name: "dataset_stats", Title: fmt.Sprintf("Lengths of %d requests", len(workload)), Panels: [][]Panel{
		{lengths("prompt", prompt), lengths("output", output)}, {lengths("both", total), each},
	}}
}

// bars returns the outline of a bar for each value, one wide, from zero on.
func bars(values []float64) []Point {
	out := make([]Point, 0, len(values)+1)
	for i, v := range values {
		out = append(out, Point{float64(i), v})
	}
	return append(out, Point{float64(len(values)), values[len(values)-1]})
}
