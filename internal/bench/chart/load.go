package chart

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"ossian/internal/bench"
	"ossian/internal/stat"
)

// An overview is what a report of several runs shows of one. NaN = not known.
type overview struct {
	kind             string         // what was measured, the load apart
	arrivals         bench.Arrivals // its load
	peak             float64        // requests at once
	failed           float64
	requests         float64    // per second
	output, total    float64    // tokens per second
	ttft, tpot, e2el [2]float64 // median and P99, milliseconds
}

// A load is what a sweep varies.
type load uint8

const (
	noLoad load = iota
	byConcurrency
	byRate
)

// loadOf says what runs differ in.
func loadOf(all []overview) load {
	var bounds, rates []float64
	for i := range all {
		bounds, rates = append(bounds, byConcurrency.of(&all[i])), append(rates, byRate.of(&all[i]))
	}
	slices.Sort(bounds)
	slices.Sort(rates)
	switch many, rates := len(slices.Compact(bounds)), len(slices.Compact(rates)); {
	case many > 1 && many >= rates:
		return byConcurrency
	case rates > 1:
		return byRate
	}
	return noLoad
}

// of returns the load of a run; +Inf = without bound.
func (l load) of(run *overview) float64 {
	if l == byRate {
		return run.arrivals.Rate
	}
	if run.arrivals.Concurrency == 0 {
		return math.Inf(1)
	}
	return float64(run.arrivals.Concurrency)
}

// title is that of an axis.
func (l load) title() string {
	if l == byRate {
		return "Request rate (requests/s)"
	}
	return "Requests at once"
}

// text names the load of a run: "8 at once", "10 req/s".
func (l load) text(run *overview) string {
	if l == byRate {
		return loadText(l.of(run)) + " req/s"
	}
	return loadText(l.of(run)) + " at once"
}

// loadText is a load in words; "inf" = without bound.
func loadText(value float64) string {
	if math.IsInf(value, 1) {
		return "inf"
	}
	return strconv.FormatFloat(value, 'g', 6, 64)
}

// names names runs: by what they measured and, in a sweep, by their load.
func names(all []overview) []string {
	varied := loadOf(all)
	one := !slices.ContainsFunc(all, func(o overview) bool { return o.kind != all[0].kind })
	out := make([]string, len(all))
	for i := range all {
		out[i] = all[i].kind
		switch text := varied.text(&all[i]); {
		case varied != noLoad && one:
			out[i] = text
		case varied != noLoad:
			out[i] += ", " + text
		}
	}
	return out
}

// unique numbers names from the second time on.
func unique(names []string) []string {
	out := slices.Clone(names)
	seen := map[string]int{}
	for i, name := range names {
		seen[name]++
		if n := seen[name]; n > 1 {
			out[i] = fmt.Sprintf("%s #%d", name, n)
		}
	}
	return out
}

// grouped splits values by a key, groups and values in the order in which they come.
func grouped[T any](values []T, key func(T) string) [][]T {
	var out [][]T
	index := map[string]int{}
	for _, value := range values {
		name := key(value)
		at, ok := index[name]
		if !ok {
			at = len(out)
			index[name] = at
			out = append(out, nil)
		}
		out[at] = append(out[at], value)
	}
	return out
}

// through returns a line through the means of groups of points, which repeat one
// measurement, and for each a bar from the least to the most.
func through(name string, style Style, groups [][]Point) []Line {
	line := Line{Name: name, Style: style}
	var bars []Line
	for _, g := range groups {
		var xs, ys []float64
		for _, q := range finite(g) {
			xs, ys = append(xs, q.X), append(ys, q.Y)
		}
		if len(xs) == 0 {
			continue
		}
		mean := Point{stat.Mean(xs), stat.Mean(ys)}
		line.Points = append(line.Points, mean)
		if low, high := slices.Min(ys), slices.Max(ys); low < high {
			bars = append(bars, Line{Name: name, Points: []Point{{mean.X, low}, {mean.X, high}}})
		}
	}
	slices.SortFunc(line.Points, func(a, b Point) int { return cmp.Or(cmp.Compare(a.X, b.X), cmp.Compare(a.Y, b.Y)) })
	return append(bars, line)
}

// loadCurves draws throughput and latencies over what a sweep varies, a line for each
// kind of run.
func loadCurves(all []overview, varied load) *Figure {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b overview) int { return cmp.Compare(varied.of(&a), varied.of(&b)) })
	xAxis := loadAxis(all, varied)
	// A line for each kind of run, and a point of it for each load, over its repetitions.
	curves := func(style Style, valueOf func(o *overview) float64) []Line {
		var out []Line
		for _, kind := range grouped(all, func(o overview) string { return o.kind }) {
			var points [][]Point
			for _, repeats := range grouped(kind, func(o overview) string { return varied.text(&o) }) {
				var repeated []Point
				for i := range repeats {
					repeated = append(repeated, Point{xAxis.place(varied.of(&repeats[i])), valueOf(&repeats[i])})
				}
				points = append(points, repeated)
			}
			out = append(out, through(kind[0].kind, style, points)...)
		}
		return out
	}
	panel := func(title, yTitle string) Panel { return Panel{Title: title, X: xAxis, Y: Axis{Title: yTitle}} }
	rate := panel("Output throughput", "tokens/s")
	rate.Lines = curves(Marks, func(o *overview) float64 { return o.output })
	latency := func(name string, of func(o *overview) [2]float64) Panel {
		// Median and P99 share an axis, in the unit that suits the largest.
		high := 0.0
		var both []float64
		for i := range all {
			for _, v := range of(&all[i]) {
				if v >= 0 { // not NaN
					both, high = append(both, v), max(high, v)
				}
			}
		}
		unit := unitFor(high / 1000)
		drawn := panel(name+": median, and P99 dashed", fmt.Sprintf("%s (%s)", name, unit.name))
		drawn.Y.Log = wide(both, 30)
		for k, style := range []Style{Marks, Marks | Dashed} {
			drawn.Lines = append(drawn.Lines, curves(style, func(o *overview) float64 { return of(o)[k] / 1000 * unit.per })...)
		}
		return drawn
	}
	return &Figure{Name: "load", Title: "Throughput and latency over load", Panels: [][]Panel{
		{rate, latency("TTFT", func(o *overview) [2]float64 { return o.ttft })},
		{latency("TPOT", func(o *overview) [2]float64 { return o.tpot }), latency("E2EL", func(o *overview) [2]float64 { return o.e2el })},
	}}
}

// loadAxis returns the axis of a sweep; at few loads, each has its number.
func loadAxis(all []overview, varied load) Axis {
	var loads []float64
	for i := range all {
		loads = append(loads, varied.of(&all[i]))
	}
	xAxis := Axis{Title: varied.title(), Log: wide(loads, 8)}
	bounded := xAxis.placeUnbounded(loads)
	slices.Sort(bounded)
	if bounded = slices.Compact(bounded); len(bounded) > 0 && len(bounded) <= 10 {
		xAxis.Ticks = bounded
	}
	return xAxis
}

// A tradeoff is a point of a Pareto plot: what one user gets, and what all get together.
type tradeoff struct {
	name        string // of the line it belongs to
	note        string // beside the point
	user, total float64
}

// paretoOf draws the frontier of a sweep. Users are the requests at once where these
// are bounded, else the offered rate, else the most requests that were in flight
// (bench.md 3.6).
func paretoOf(all []overview, varied load) *Figure {
	var points []tradeoff
	for i := range all {
		overview := &all[i]
		users := float64(overview.arrivals.Concurrency)
		if users == 0 {
			users = overview.arrivals.Rate
		}
		if math.IsInf(users, 0) || users <= 0 {
			users = overview.peak
		}
		if users > 0 {
			points = append(points, tradeoff{overview.kind, varied.text(overview), overview.output / users, overview.output})
		}
	}
	return pareto(points, "Output throughput of each user (tokens/s/user)", "Output throughput (tokens/s)")
}

// pareto draws all points and, as a line for each name, those of which none is better
// for the user without being worse for all (bench.md 3.6).
func pareto(points []tradeoff, x, y string) *Figure {
	panel := Panel{X: Axis{Title: x}, Y: Axis{Title: y}}
	for _, group := range grouped(points, func(t tradeoff) string { return t.name }) {
		var dots []Point
		for _, t := range group {
			dots = append(dots, Point{t.user, t.total})
		}
		best := frontier(dots)
		for i, t := range group {
			if slices.Contains(best, dots[i]) {
				panel.Notes = append(panel.Notes, Note{dots[i], t.note})
			}
		}
		panel.Lines = append(panel.Lines, Line{group[0].name, best, 0}, Line{group[0].name, dots, Dots})
	}
	return &Figure{Name: "pareto", Title: "Throughput of all against throughput of each; the line is the frontier",
		Panels: [][]Panel{{panel}}, Height: 320}
}

// frontier returns the points that no other exceeds in both directions, X ascending.
func frontier(points []Point) []Point {
	sorted := slices.SortedFunc(slices.Values(points), func(a, b Point) int {
		return cmp.Or(cmp.Compare(b.X, a.X), cmp.Compare(b.Y, a.Y))
	})
	var out []Point
	for _, q := range sorted {
		if len(out) == 0 || q.Y >= out[len(out)-1].Y {
			out = append(out, q)
		}
	}
	slices.Reverse(out)
	return out
}
