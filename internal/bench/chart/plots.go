package chart

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"ossian/internal/bench"
	"ossian/internal/stat"
)

// Figures returns every figure that runs have values for: of a sweep the curves over the
// load and the frontier, of all runs distributions and the course over time.
func Figures(runs []Run) []*Figure { return figures(read(runs), loadOf(runs)) }

func figures(all []*series, l load) []*Figure {
	var out []*Figure
	if l != noLoad {
		out = append(out, loadCurves(all, l), paretoOf(all, l))
	}
	out = append(out, distributions(all)...)
	return append(out, overTime(all))
}

// A unit is that of an axis of time.
type unit struct {
	name string
	per  float64 // of it in a second
}

// unitFor returns the unit in which values up to a number of seconds read well.
func unitFor(seconds float64) unit {
	switch {
	case seconds >= 5:
		return unit{"s", 1}
	case seconds < 1e-3:
		return unit{"µs", 1e6}
	}
	return unit{"ms", 1e3}
}

// scaled returns values in the unit.
func (u unit) scaled(values []float64) []float64 {
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
	for _, m := range metrics {
		var names []string
		var values [][]float64
		for _, s := range all {
			if v := m.values(s); len(v) > 0 {
				names, values = append(names, s.name), append(values, v)
			}
		}
		if len(values) > 0 {
			out = append(out, distribution(m.file, m.name, m.of, names, values))
		}
	}
	return out
}

// bins is how many a histogram has.
const bins = 40

// distribution draws ascending values in seconds, one slice for each name.
func distribution(file, title, of string, names []string, values [][]float64) *Figure {
	high := 0.0
	var all []float64
	for _, v := range values {
		high = max(high, v[len(v)-1])
		all = append(all, v...)
	}
	u := unitFor(high)
	all = u.scaled(all)
	short := strings.ToUpper(file)
	x := Axis{Title: fmt.Sprintf("%s (%s)", short, u.name), Log: wide(all, 30)}
	edges := edgesOf(all, x.Log, bins)
	share := "Share of " + of + " (%)"
	cdf := Panel{Title: "Cumulative share; dots: median, P99", X: x, Y: Axis{Title: share, Ticks: []float64{0, 25, 50, 75, 100}}}
	hist := Panel{Title: "Histogram", X: x, Y: Axis{Title: share}}
	for i, v := range values {
		v = u.scaled(v)
		cdf.Lines = append(cdf.Lines, Line{names[i], cumulative(v), Steps},
			Line{names[i], []Point{{stat.Percentile(v, 50), 50}, {stat.Percentile(v, 99), 99}}, Dots})
		style := Steps
		if len(values) == 1 {
			style |= Area
		}
		hist.Lines = append(hist.Lines, Line{names[i], histogram(v, edges, 100/float64(len(v))), style})
	}
	return &Figure{Name: file, Title: title, Panels: [][]Panel{{cdf, hist}}}
}

// cumulative returns the distribution function of ascending values, in percent.
func cumulative(v []float64) []Point {
	out := make([]Point, 0, len(v)+1)
	out = append(out, Point{v[0], 0})
	for i := range v {
		if i+1 == len(v) || v[i+1] != v[i] {
			out = append(out, Point{v[i], 100 * float64(i+1) / float64(len(v))})
		}
	}
	return out
}

// edgesOf returns the n+1 edges of bins that hold values, at least one, of equal width on
// the axis.
func edgesOf(values []float64, log bool, n int) []float64 {
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
	if high <= low {
		pad := max(math.Abs(low)/20, 1e-6)
		return []float64{low - pad, low + pad}
	}
	edges := make([]float64, n+1)
	for i := range edges {
		f := float64(i) / float64(n)
		edges[i] = low + (high-low)*f
		if log {
			edges[i] = low * math.Pow(high/low, f)
		}
	}
	return edges
}

// histogram counts ascending values between edges, each as much as unit says; what lies
// below the first edge counts there. The outline begins and ends at zero.
func histogram(v, edges []float64, unit float64) []Point {
	out := []Point{{edges[0], 0}}
	from := 0
	for i := range len(edges) - 1 {
		to, _ := slices.BinarySearch(v, edges[i+1])
		if i == len(edges)-2 {
			to = len(v)
		}
		out = append(out, Point{edges[i], float64(to-from) * unit})
		from = to
	}
	return append(out, Point{edges[len(edges)-1], 0})
}

// overTime draws the course of runs: tokens per second, and requests in flight.
func overTime(all []*series) *Figure {
	longest := 0.0
	for _, s := range all {
		longest = max(longest, s.length())
	}
	step := max(round125(longest/200, true), 1)
	if longest < 20 {
		step = round125(max(longest, 1e-3)/40, true)
	}
	x := Axis{Title: "Time since the first request (s)"}
	tokens := Panel{Title: fmt.Sprintf("Output tokens per second, mean over %g s", step), X: x, Y: Axis{Title: "tokens/s"}}
	flight := Panel{Title: "Requests in flight", X: x, Y: Axis{Title: "requests"}}
	for _, s := range all {
		style := Steps
		if len(all) == 1 {
			style |= Area
		}
		open, _ := s.inFlight()
		tokens.Lines = append(tokens.Lines, Line{s.name, s.tokenRate(step), style})
		flight.Lines = append(flight.Lines, Line{s.name, append([]Point{{0, 0}}, open...), style})
	}
	return &Figure{Name: "over_time", Title: "Over time", Panels: [][]Panel{{tokens}, {flight}}, Height: 150}
}

// tokenRate returns the tokens per second that arrived in each step of seconds.
func (s *series) tokenRate(step float64) []Point {
	length := s.length()
	n := int(math.Ceil(length / step))
	if n < 1 {
		return nil
	}
	sum := make([]float64, n)
	for i := range s.Summary.Requests {
		s.arrivals(&s.Summary.Requests[i], func(at, tokens float64) {
			if b := min(int(at/step), n-1); b >= 0 {
				sum[b] += tokens
			}
		})
	}
	out := make([]Point, 0, n+2)
	for b, v := range sum {
		out = append(out, Point{float64(b) * step, v / step})
	}
	return append(out, Point{float64(n) * step, out[n-1].Y}, Point{float64(n) * step, 0})
}

// loadCurves draws throughput and latencies over what a sweep varies, a line for each
// kind of run.
func loadCurves(all []*series, l load) *Figure {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b *series) int {
		return cmp.Compare(l.of(a.Summary.Setup.Arrivals), l.of(b.Summary.Setup.Arrivals))
	})
	x, place := loadAxis(all, l)
	panel := func(title, y string) Panel { return Panel{Title: title, X: x, Y: Axis{Title: y}} }
	through := panel("Output throughput", "tokens/s")
	through.Lines = curves(all, place, Marks, func(s *series) float64 { return s.Summary.OutputRate })
	latency := func(name string, values func(*series) []float64) Panel {
		high := 0.0
		var at []float64
		for _, s := range all {
			p50, p99 := stat.Percentile(values(s), 50), stat.Percentile(values(s), 99)
			high, at = max(high, p99), append(at, p50, p99)
		}
		u := unitFor(high)
		p := panel(name+": median, and P99 dashed", fmt.Sprintf("%s (%s)", name, u.name))
		p.Y.Log = wide(at, 30)
		for _, c := range []struct {
			percentile float64
			style      Style
		}{{50, Marks}, {99, Marks | Dashed}} {
			p.Lines = append(p.Lines, curves(all, place, c.style, func(s *series) float64 {
				if len(values(s)) == 0 {
					return math.NaN()
				}
				return stat.Percentile(values(s), c.percentile) * u.per
			})...)
		}
		return p
	}
	return &Figure{Name: "load", Title: "Throughput and latency over load", Panels: [][]Panel{
		{through, latency("TTFT", func(s *series) []float64 { return s.Summary.TTFT.Sorted() })},
		{latency("TPOT", func(s *series) []float64 { return s.Summary.TPOT.Sorted() }), latency("E2EL", func(s *series) []float64 { return s.Summary.E2EL.Sorted() })},
	}}
}

// loadAxis returns the axis of a sweep and where a run stands on it; a load without
// bound stands beyond all others.
func loadAxis(all []*series, l load) (Axis, func(*series) float64) {
	var finite []float64
	for _, s := range all {
		if v := l.of(s.Summary.Setup.Arrivals); !math.IsInf(v, 0) {
			finite = append(finite, v)
		}
	}
	x := Axis{Title: l.title(), Log: wide(finite, 8)}
	slices.Sort(finite)
	if finite = slices.Compact(finite); len(finite) > 0 && len(finite) <= 10 {
		x.Ticks = finite
	}
	if slices.ContainsFunc(all, func(s *series) bool { return math.IsInf(l.of(s.Summary.Setup.Arrivals), 1) }) {
		beyond := 1.25
		if x.Log {
			beyond = 2
		}
		x.Inf = beyond
		if n := len(finite); n > 0 {
			x.Inf *= finite[n-1]
		}
	}
	return x, func(s *series) float64 {
		if v := l.of(s.Summary.Setup.Arrivals); !math.IsInf(v, 0) {
			return v
		}
		return x.Inf
	}
}

// curves returns a line for each kind of run.
func curves(all []*series, x func(*series) float64, style Style, y func(*series) float64) []Line {
	var out []Line
	index := map[string]int{}
	for _, s := range all {
		kind := s.kind()
		if _, ok := index[kind]; !ok {
			index[kind] = len(out)
			out = append(out, Line{Name: kind, Style: style})
		}
		line := &out[index[kind]]
		line.Points = append(line.Points, Point{x(s), y(s)})
	}
	return out
}

// A Tradeoff is a point of a Pareto plot: what one user gets, and what all get together.
type Tradeoff struct {
	Name        string // of the line it belongs to
	Note        string // beside the point
	User, Total float64
}

// paretoOf draws the frontier of a sweep. Users are the requests at once where these
// are bounded, else the offered rate, else the most requests that were in flight
// (bench.md 3.6).
func paretoOf(all []*series, l load) *Figure {
	var points []Tradeoff
	for _, s := range all {
		a := s.Summary.Setup.Arrivals
		users := float64(a.Concurrency)
		if users == 0 {
			users = a.Rate
		}
		if math.IsInf(users, 0) || users <= 0 {
			_, users = s.inFlight()
		}
		if users > 0 {
			t := s.Summary.OutputRate
			points = append(points, Tradeoff{s.kind(), l.text(a), t / users, t})
		}
	}
	return Pareto(points, "Output throughput (tokens/s)")
}

// Pareto draws all points and, as a line for each name, those of which none is better
// for the user without being worse for all (bench.md 3.6). y is the axis of the total.
func Pareto(points []Tradeoff, y string) *Figure {
	p := Panel{X: Axis{Title: "Output throughput of each user (tokens/s/user)"}, Y: Axis{Title: y}}
	byName := map[string][]Tradeoff{}
	var names []string
	for _, t := range points {
		if _, ok := byName[t.Name]; !ok {
			names = append(names, t.Name)
		}
		byName[t.Name] = append(byName[t.Name], t)
		p.Notes = append(p.Notes, Note{Point{t.User, t.Total}, t.Note})
	}
	for _, name := range names {
		var dots []Point
		for _, t := range byName[name] {
			dots = append(dots, Point{t.User, t.Total})
		}
		p.Lines = append(p.Lines, Line{name, frontier(dots), 0}, Line{name, dots, Dots})
	}
	return &Figure{Name: "pareto", Title: "Throughput of all against throughput of each; the line is the frontier",
		Panels: [][]Panel{{p}}, Height: 320}
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

// DatasetStats draws the lengths of a workload (bench.md 1.9): histograms of prompt,
// output and both, and each request's.
func DatasetStats(w bench.Workload) *Figure {
	var prompt, output, total []float64
	for i := range w {
		in, out := float64(w[i].Input), float64(w[i].Output)
		prompt, output, total = append(prompt, in), append(output, out), append(total, in+out)
	}
	lengths := func(title string, values []float64) Panel {
		p := Panel{Title: title, X: Axis{Title: "tokens"}, Y: Axis{Title: "requests"}}
		if len(values) > 0 {
			p.Lines = []Line{{"", histogram(stat.Sorted(values), edgesOf(values, false, 30), 1), Steps | Area}}
		}
		return p
	}
	each := Panel{Title: "Each request", X: Axis{Title: "request"}, Y: Axis{Title: "tokens"}}
	each.extra = []layer{&stack{name: "prompt", low: nil, high: prompt}, &stack{name: "output", low: prompt, high: total}}
	return &Figure{Name: "dataset_stats", Title: fmt.Sprintf("Lengths of %d requests", len(w)), Panels: [][]Panel{
		{lengths("Prompt", prompt), lengths("Output", output)}, {lengths("Prompt and output", total), each},
	}}
}
