package sweep

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"ossian/internal/soak"
)

var usual = Search{Min: 1, Max: 1024, Factor: 2, Gain: 0.05, Precision: 0.05, Points: 24, Whole: true}

// explore searches on a curve.
func explore(t *testing.T, s Search, curve func(load float64) Point) ([]Point, Conclusion) {
	t.Helper()
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	var points []Point
	for {
		load, more := s.Next(points)
		if !more {
			return points, s.Conclude(points)
		}
		if load < s.Min || load > s.Max || (s.Whole && load != math.Trunc(load)) || slices.ContainsFunc(points, func(p Point) bool { return p.Load == load }) {
			t.Fatalf("%v after %v", load, points)
		}
		p := curve(load)
		p.Load = load
		if points = append(points, p); len(points) > s.Points {
			t.Fatalf("%d points, budget %d", len(points), s.Points)
		}
	}
}

// saturating is throughput that approaches 1000 tokens/s, half of it at a load of 8.
func saturating(load float64) float64 { return 1000 * load / (load + 8) }

func TestSearch(t *testing.T) {
	rates := usual
	rates.Whole = false
	short := usual
	short.Points = 3
	within := func(s Search, high float64) Search {
		s.Max = high
		return s
	}
	for _, c := range []struct {
		name   string
		search Search
		curve  func(load float64) Point
		want   Conclusion // loads only; Throughput is not compared
		points int        // at most
		says   string
	}{
		{"monotone, always passing", usual, func(l float64) Point { return Point{Throughput: 10 * l} },
			Conclusion{StoppedBy: StopRange, Limit: 1024, Peak: 1024, Recommended: 1024}, 11, "a lower bound"},
		{"end of range between rungs", within(usual, 100), func(l float64) Point { return Point{Throughput: 10 * l} },
			Conclusion{StoppedBy: StopRange, Limit: 100, Peak: 100, Recommended: 100}, 8, "lower bound"},
		{"flat", usual, func(float64) Point { return Point{Throughput: 50} },
			Conclusion{StoppedBy: StopGain, Limit: 2, Peak: 1, Recommended: 1}, 2, "Recommended load: 1"},
		{"always failing", usual, func(float64) Point { return Point{Throughput: 50, Margin: 1} },
			Conclusion{StoppedBy: StopSLA, Broken: 1, Why: "sla", Peak: 1}, 1, "Recommended load: none"},
		{"nothing comes", usual, func(float64) Point { return Point{Untrusted: "failures"} },
			Conclusion{StoppedBy: StopUntrusted, Broken: 1, Why: "failures"}, 1, "cannot be trusted (failures)"},
		{"objective", usual, func(l float64) Point { return Point{Throughput: saturating(l), Margin: l - 11} },
			Conclusion{StoppedBy: StopSLA, Limit: 11, Broken: 12, Located: true, Why: "sla", Peak: 16, Recommended: 11}, 8, "SLA limit: 11, located: at 12"},
		{"objective between rates", rates, func(l float64) Point { return Point{Throughput: saturating(l), Margin: l - 8.08} },
			Conclusion{StoppedBy: StopSLA, Limit: 8, Broken: 8.354, Located: true, Why: "sla", Peak: 16, Recommended: 8}, 10, "located"},
		{"untrusted from a load on", usual, func(l float64) Point {
			if l >= 20 {
				return Point{Throughput: 1e6, Untrusted: "client-bound-sending"}
			}
			return Point{Throughput: saturating(l)}
		}, Conclusion{StoppedBy: StopUntrusted, Limit: 19, Broken: 20, Located: true, Why: "client-bound-sending", Peak: 19, Recommended: 19}, 10, "client-bound-sending"},
		{"objective above the peak", usual, func(l float64) Point { return Point{Throughput: min(l, 10) * 10, Margin: l - 600} },
			Conclusion{StoppedBy: StopGain, Limit: 32, Peak: 10, Recommended: 10}, 12, "a lower bound"},
		{"peaked", usual, func(l float64) Point { return Point{Throughput: 1000 * math.Exp(-math.Pow(math.Log(l/22), 2))} },
			Conclusion{StoppedBy: StopGain, Limit: 32, Peak: 18, Recommended: 18}, 10, "Throughput peak"},
		{"budget in the climb", short, func(l float64) Point { return Point{Throughput: l} },
			Conclusion{StoppedBy: StopBudget, Limit: 4, Peak: 4, Recommended: 4}, 3, "Stopped by: budget"},
		{"budget while bisecting", Search{Min: 1, Max: 1024, Factor: 2, Gain: 0.05, Precision: 0.05, Points: 6, Whole: true},
			func(l float64) Point { return Point{Throughput: l, Margin: l - 11} },
			Conclusion{StoppedBy: StopBudget, Limit: 11, Broken: 16, Why: "sla", Peak: 16, Recommended: 11}, 6, "at least 11, not located"},
	} {
		t.Run(c.name, func(t *testing.T) {
			points, got := explore(t, c.search, c.curve)
			text := got.String()
			if got.Throughput = 0; got != c.want {
				t.Errorf("got %+v\nwant %+v\nafter %v", got, c.want, points)
			}
			if len(points) > c.points {
				t.Errorf("%d points, want at most %d: %v", len(points), c.points, points)
			}
			if !strings.Contains(text, c.says) {
				t.Errorf("%q is not in\n%s", c.says, text)
			}
		})
	}
}

// On noisy curves the search ends within its budget, whatever the order of its points,
// and what it locates is there.
func TestSearchNoise(t *testing.T) {
	for seed := range uint64(soak.Cases(t, 300, 30_000)) {
		r := rand.New(rand.NewPCG(seed, 1))
		s := Search{Min: 1, Max: 16 + float64(r.IntN(2000)), Factor: 1.3 + 3*r.Float64(), Gain: 0.05, Precision: 0.02 + 0.3*r.Float64(), Points: 1 + r.IntN(40), Whole: r.IntN(2) == 0}
		if !s.Whole {
			s.Min = 0.1 + r.Float64()
		}
		half, bound := 1+r.Float64()*100, s.Min+r.Float64()*s.Max
		points, c := explore(t, s, func(l float64) Point {
			return Point{Throughput: 1000 * l / (l + half) * (1 + 0.02*r.NormFloat64()), Margin: l - bound}
		})
		shuffled := slices.Clone(points[:len(points)-1])
		r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if load, more := s.Next(shuffled); !more || load != points[len(points)-1].Load {
			t.Fatalf("seed %d: in another order %v, %v follows, in the first %v", seed, load, more, points[len(points)-1])
		}
		if c.Limit > bound || (c.Broken > 0 && c.Broken <= bound) {
			t.Fatalf("seed %d: %+v, but the objective is kept up to %v", seed, c, bound)
		}
		if c.Located && c.Broken > c.Limit*(1+s.Precision) && !(s.Whole && c.Broken-c.Limit <= 1) {
			t.Fatalf("seed %d: %+v is not located to %v", seed, c, s.Precision)
		}
		if (c.StoppedBy == StopSLA && c.Limit > 0 && !c.Located) || (c.StoppedBy == StopBudget && len(points) < s.Points) {
			t.Fatalf("seed %d: %+v with %d of %d points", seed, c, len(points), s.Points)
		}
		if c.Limit > 0 && (c.Recommended <= 0 || c.Recommended > c.Limit || c.Recommended > c.Peak) {
			t.Fatalf("seed %d: %+v", seed, c)
		}
	}
}

func TestSearchCheck(t *testing.T) {
	for name, change := range map[string]func(*Search){
		"from nothing":     func(s *Search) { s.Min = 0 },
		"downwards":        func(s *Search) { s.Max = 0.5 },
		"no number":        func(s *Search) { s.Max = math.NaN() },
		"no bound":         func(s *Search) { s.Max = math.Inf(1) },
		"parts of a user":  func(s *Search) { s.Min = 1.5 },
		"no climb":         func(s *Search) { s.Factor = 1 },
		"gain as the load": func(s *Search) { s.Gain = 1 },
		"too precise":      func(s *Search) { s.Precision = 0 },
		"no budget":        func(s *Search) { s.Points = 0 },
	} {
		s := usual
		change(&s)
		if s.Check() == nil {
			t.Errorf("%s: %+v is accepted", name, s)
		}
	}
}
