package stat

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"ossian/internal/soak"
)

// TestNumpy compares with what numpy says of the same values (testdata/origin.py).
func TestNumpy(t *testing.T) {
	text, err := os.ReadFile("testdata/numpy.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		X           []float64
		Mean, Std   float64
		Percentiles map[string]float64
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	near := func(got, want float64) bool { return math.Abs(got-want) <= 1e-12*max(1, math.Abs(want)) }
	for i, c := range cases {
		sorted := Sorted(c.X)
		if !near(Mean(c.X), c.Mean) || !near(Std(c.X), c.Std) {
			t.Errorf("case %d: mean %v, std %v; numpy %v, %v", i, Mean(c.X), Std(c.X), c.Mean, c.Std)
		}
		if got := Median(sorted); !near(got, c.Percentiles["50"]) {
			t.Errorf("case %d: median %v, numpy %v", i, got, c.Percentiles["50"])
		}
		for name, want := range c.Percentiles {
			var p float64
			if err := json.Unmarshal([]byte(name), &p); err != nil {
				t.Fatal(err)
			}
			if got := Percentile(sorted, p); got != want {
				t.Errorf("case %d: P%s is %v, numpy %v", i, name, got, want)
			}
		}
	}
	if len(cases) == 0 {
		t.Fatal("no cases")
	}
}

func TestNothing(t *testing.T) {
	if Percentile(nil, 99) != 0 || Median(nil) != 0 || Mean(nil) != 0 || Std(nil) != 0 || CV(nil) != 0 || CV([]float64{0, 0}) != 0 {
		t.Error("statistics of nothing are not 0")
	}
	if _, ok := MeanInterval([]float64{1}, 0.95); ok {
		t.Error("one value has an interval")
	}
	if _, ok := Welch([]float64{1}, []float64{1, 2}); ok {
		t.Error("one value was compared")
	}
	if _, ok := UpperBound(nil, 99); ok {
		t.Error("nothing has an upper bound")
	}
	if _, ok := QuantileInterval([]float64{1, 2, 3}, 99, 0.95); ok {
		t.Error("three values have an interval of P99")
	}
}

// TestFloor: 662 and 64 are the numbers of bench.md 6, item 8.
func TestFloor(t *testing.T) {
	for p, want := range map[float64]int{99: 662, 90: 64, 50: 11, 0: 2, 100: 0, -1: 0} {
		if got := Floor(p); got != want {
			t.Errorf("Floor(%v) = %d, want %d", p, got, want)
		}
	}
	for _, p := range []float64{50, 90, 95, 99, 99.9} {
		x := make([]float64, Floor(p))
		if _, ok := UpperBound(x, p); !ok {
			t.Errorf("P%v: %d values certify nothing", p, len(x))
		}
		if _, ok := UpperBound(x[1:], p); ok {
			t.Errorf("P%v: %d values certify", p, len(x)-1)
		}
	}
}

// TestCoverage: bounds and intervals hold as often as they say.
func TestCoverage(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	n := soak.Cases(t, 300, 20000)
	trueP90, bound, inside, mean := -math.Log(0.1), 0, 0, 0
	for range n {
		x := make([]float64, 200)
		for i := range x {
			x[i] = r.ExpFloat64()
		}
		if m, ok := MeanInterval(x, 0.95); ok && m.Low <= 1 && 1 <= m.High {
			mean++
		}
		s := Sorted(x)
		if up, ok := UpperBound(s, 90); ok && up >= trueP90 {
			bound++
		}
		if i, ok := QuantileInterval(s, 90, 0.95); ok && i.Low <= trueP90 && trueP90 <= i.High {
			inside++
		}
	}
	slack := 3 * math.Sqrt(0.05*0.95/float64(n))
	for name, c := range map[string]struct {
		got  int
		want float64
	}{"upper bound": {bound, 0.99}, "quantile interval": {inside, 0.95}, "mean interval": {mean, 0.94}} {
		if share := float64(c.got) / float64(n); share < c.want-slack {
			t.Errorf("%s holds in %.3f of %d samples, want %.2f", name, share, n, c.want)
		}
	}
}

// TestWelch compares with Simpson's rule over Student's density (freedom 3.83237675724801).
func TestWelch(t *testing.T) {
	a := []float64{10.1, 9.9, 10.3, 10.0, 9.7}
	b := []float64{10.9, 11.4, 10.7, 11.9}
	d, ok := Welch(a, b)
	want := Difference{Delta: 1.225, Interval: Interval{0.4146057043989516, 2.035394295601048}, P: 0.014189847480304718}
	if !ok || math.Abs(d.Delta-want.Delta) > 1e-12 || math.Abs(d.P-want.P) > 1e-9 ||
		math.Abs(d.Interval.Low-want.Interval.Low) > 1e-9 || math.Abs(d.Interval.High-want.Interval.High) > 1e-9 {
		t.Errorf("got %+v, want %+v", d, want)
	}
	if d, ok := Welch([]float64{3, 3, 3}, []float64{3, 3}); !ok || d.P != 1 {
		t.Errorf("equal constants: %+v", d)
	}
	// 2 of the 10 ways to take two values out of five keep the constants apart.
	if d, ok := Welch([]float64{3, 3, 3}, []float64{4, 4}); !ok || math.Abs(d.P-0.2) > 1e-12 || d.Delta != 1 {
		t.Errorf("different constants: %+v", d)
	}
}

// TestWelchScale: a unit changes no verdict, and numbers without a variance give none.
func TestWelchScale(t *testing.T) {
	a, b := []float64{10.1, 9.9, 10.3, 10.0, 9.7}, []float64{10.9, 11.4, 10.7, 11.9}
	want, _ := Welch(a, b)
	for _, scale := range []float64{1e-150, 1e-90, 1e90, 1e150} {
		var scaled [2][]float64
		for i, x := range [][]float64{a, b} {
			for _, v := range x {
				scaled[i] = append(scaled[i], v*scale)
			}
		}
		if d, ok := Welch(scaled[0], scaled[1]); !ok || !(math.Abs(d.P-want.P) <= 1e-9 && math.Abs(d.Interval.Low/scale-want.Interval.Low) <= 1e-9) {
			t.Errorf("scaled by %v: %+v, want %+v", scale, d, want)
		}
	}
	for _, x := range [][]float64{{1e308, -1e308}, {math.MaxFloat64, math.MaxFloat64}, {math.Inf(1), 1}} {
		if d, ok := Welch(x, []float64{1, 2}); ok {
			t.Errorf("%v against 1 and 2: %+v", x, d)
		}
	}
}

func TestSignificant(t *testing.T) {
	// Holm: 0.01 <= 0.05/4, 0.013 <= 0.05/3, 0.03 > 0.05/2 and all above it fail.
	got := Significant([]float64{0.03, 0.01, 0.04, 0.013}, 0.05)
	want := []bool{false, true, false, true}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
	if Significant([]float64{math.NaN()}, 0.05)[0] {
		t.Error("NaN is significant")
	}
}
