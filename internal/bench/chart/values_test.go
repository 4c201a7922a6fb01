package chart

import (
	"bytes"
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot/vg"
)

func TestLinearTicks(t *testing.T) {
	for _, c := range []struct {
		name      string
		low, high float64
		vertical  bool
		want      string
	}{
		{"from zero", 3, 10, true, "0 2 4 6 8 10"},
		{"near zero", 3, 10, false, "0 2 4 6 8 10"},
		{"far from zero", 90, 97, false, "90 91 92 93 94 95 96 97"},
		{"far from zero, upwards", 90, 97, true, "0 20 40 60 80 100"},
		{"zero", 0, 0, true, "0 0.2 0.4 0.6 0.8 1.0"},
		{"one value", 5, 5, false, "4.6 4.8 5.0 5.2 5.4"},
		{"small", 0, 0.0031, true, "0 0.0005 0.0010 0.0015 0.0020 0.0025 0.0030 0.0035"},
		{"large", 0, 4e7, true, "0 5M 10M 15M 20M 25M 30M 35M 40M"},
		{"below zero", -3, 0, true, "-3.0 -2.5 -2.0 -1.5 -1.0 -0.5 0"},
	} {
		low, high := linearRange(c.low, c.high, c.vertical)
		var labels []string
		for _, tick := range linearTicks(low, high) {
			labels = append(labels, tick.label)
		}
		if got := strings.Join(labels, " "); got != c.want || low > c.low || high < c.high {
			t.Errorf("%s: %q in %v to %v, want %q", c.name, got, low, high, c.want)
		}
	}
}

func TestLogTicks(t *testing.T) {
	for _, c := range []struct {
		name      string
		low, high float64
		vertical  bool
		want      string
	}{
		{"two decades", 1, 99, true, "1 2 5 10 20 50 100"},
		{"part of one", 2.5, 4, true, "2 5"},
		{"five decades", 0.01, 1000, true, "0.01 0.1 1 10 100 1000"},
		{"more than are shown", 1e-9, 99, true, "1e-05 0.0001 0.001 0.01 0.1 1 10 100"},
		{"one value", 7, 7, true, "5 10"},
		{"along", 3, 60, false, "5 10 20 50"},
	} {
		low, high := logRange(c.low, c.high, c.vertical)
		var labels []string
		for _, tick := range logTicks(low, high) {
			if tick.label != "" {
				labels = append(labels, tick.label)
			}
		}
		if got := strings.Join(labels, " "); got != c.want {
			t.Errorf("%s: %q in %v to %v, want %q", c.name, got, low, high, c.want)
		}
	}
}

func TestHistogram(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, log := range []bool{false, true} {
		var v []float64
		for range 1000 {
			v = append(v, math.Exp(3*r.NormFloat64()))
		}
		v = append(v, 0, 1e-12)
		slices.Sort(v)
		edges := edgesOf(v, log, histogramBins)
		if len(edges) != histogramBins+1 || !slices.IsSorted(edges) || edges[histogramBins] < v[len(v)-1]*(1-1e-9) {
			t.Fatalf("log %v: edges %v", log, edges)
		}
		sum := 0.0
		for i, p := range histogram(v, edges, 1) {
			sum += p.Y
			if log || i == 0 || i > histogramBins {
				continue
			}
			n := 0.0
			for _, x := range v {
				if x >= edges[i-1] && (x < edges[i] || i == histogramBins) {
					n++
				}
			}
			if p.Y != n {
				t.Errorf("bin %d has %v values, want %v", i-1, p.Y, n)
			}
		}
		if sum != float64(len(v)) {
			t.Errorf("log %v: bins hold %v of %d values", log, sum, len(v))
		}
	}
}

// Lengths are whole numbers: each has a bin of its own, or shares one with as many others
// as every bin has.
func TestWholeEdges(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   []float64
	}{
		{[]float64{32, 32}, []float64{31.5, 32.5}},
		{[]float64{128, 130, 128}, []float64{127.5, 128.5, 129.5, 130.5}},
		{[]float64{1, 2, 3, 4, 5, 6, 7}, []float64{0.5, 3.5, 6.5, 9.5}},
	} {
		if got := wholeEdges(c.values, 3); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.values, got, c.want)
		}
	}
	whole := Axis{Whole: true}
	var labels []string
	s := whole.scale([]float64{0, 4}, true)
	for _, tick := range s.ticks {
		labels = append(labels, tick.label)
	}
	if want := []string{"0", "1", "2", "3", "4"}; !slices.Equal(labels, want) {
		t.Errorf("marks %v, want %v", labels, want)
	}
}

func TestCompact(t *testing.T) {
	for v, want := range map[float64]string{0: "0.00", 9.876: "9.88", 123.456: "123.5", 14332.22: "14332", math.NaN(): "–"} {
		if got := compact(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
}

func TestCumulative(t *testing.T) {
	want := []Point{{1, 0}, {1, 50}, {2, 75}, {4, 100}}
	if got := cumulative([]float64{1, 1, 2, 4}); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// What is left of a million points shows every extreme, and fits the picture.
func TestThin(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	pts := make([]vg.Point, 1_000_000)
	for i := range pts {
		pts[i] = vg.Point{X: vg.Length(i) / 2000, Y: vg.Length(r.Float64())}
	}
	pts[123_456].Y, pts[654_321].Y = 9, -9
	got := thin(pts)
	if len(got) > 4*1001 || !slices.Contains(got, pts[123_456]) || !slices.Contains(got, pts[654_321]) {
		t.Errorf("%d points are left, or a peak is lost", len(got))
	}
	if got[0] != pts[0] || got[len(got)-1] != pts[len(pts)-1] {
		t.Error("the ends are lost")
	}
	if !slices.IsSortedFunc(got, func(a, b vg.Point) int { return cmp.Compare(a.X, b.X) }) {
		t.Error("the points go back")
	}
	few := pts[:1]
	if got := thin(few); !slices.Equal(got, few) {
		t.Errorf("one point became %v", got)
	}
}

// Tokens over time add up to the output; requests in flight return to none.
func TestOverTime(t *testing.T) {
	s := newSeries([]Run{usual().run()})[0]
	for _, step := range []float64{0.1, 1, 100} {
		sum := 0.0
		points := s.tokenRate(step)
		for _, p := range points[:len(points)-2] { // two close the outline
			sum += p.Y * step
		}
		if math.Abs(sum-float64(s.Summary.Output)) > 1e-6 {
			t.Errorf("steps of %v s hold %v tokens, want %d", step, sum, s.Summary.Output)
		}
	}
	most := 0
	for i := range s.Summary.Requests { // as many as at the start of one of them
		start, _, _ := s.bounds(i)
		open := 0
		for k := range s.Summary.Requests {
			if from, to, _ := s.bounds(k); from <= start && start < to {
				open++
			}
		}
		most = max(most, open)
	}
	steps, peak := s.inFlight()
	if last := steps[len(steps)-1]; last.Y != 0 || int(peak) != most || last.X != s.length() {
		t.Errorf("ends with %v in flight, at most %v; want 0, %d", last, peak, most)
	}
}

// Whatever the points are, a figure is drawn and holds no number that is none.
func FuzzFigure(f *testing.F) {
	f.Add(0.0, 0.0, 1.0, 1.0, uint8(0))
	f.Add(math.Inf(1), math.NaN(), -1.0, 5e-324, uint8(Steps|Area))
	f.Add(1e300, -1e300, 1e-300, 1.0, uint8(Dots))
	f.Add(1e29, -1e29, 1.0, 1+1e-16, uint8(Marks|Dashed)|1<<6|1<<7)
	f.Fuzz(func(t *testing.T, x0, y0, x1, y1 float64, style uint8) {
		points := []Point{{x0, y0}, {x1, y1}}
		slices.SortFunc(points, func(a, b Point) int { return int(min(max(a.X-b.X, -1), 1)) })
		p := Panel{Title: "p", X: Axis{Title: "x", Log: style&(1<<6) != 0}, Y: Axis{Title: "y", Log: style&(1<<7) != 0},
			Lines: []Line{{"a", points, Style(style)}, {"b", points[:1], Style(style)}}, Notes: []Note{{points[0], "note"}}}
		svgOf(t, &Figure{Name: "f", Title: "t", Panels: [][]Panel{{p}}})
	})
}

func BenchmarkSVG(b *testing.B) {
	f := figures(newSeries([]Run{usual().run()}))[0]
	var out bytes.Buffer
	for b.Loop() {
		out.Reset()
		if err := f.SVG(&out); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(out.Len()), "bytes")
}
