package race

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"ossian/internal/soak"
)

// Critical counts of Kendall's test at 2.5 % to each side, from the published table
// (Hollander and Wolfe, Nonparametric Statistical Methods, table A.30: the least count
// reached with that chance at most; here the one below it).
func TestKendall(t *testing.T) {
	for n, reached := range map[int]int{5: 10, 6: 13, 7: 15, 8: 18, 9: 20, 10: 23} {
		got, ok := kendall(n, 0.025)
		if !ok || got != reached-2 {
			t.Errorf("%d values: %d %v, want %d", n, got, ok, reached-2)
		}
	}
	for n := range 5 {
		if c, ok := kendall(n, 0.025); ok {
			t.Errorf("%d values allow no interval, got %d", n, c)
		}
	}
	exact, _ := kendall(kendallExact, 0.025)
	near, _ := kendall(kendallExact+1, 0.025)
	if near < exact || near > exact+12 {
		t.Errorf("%d at %d values, %d at one more", exact, kendallExact, near)
	}
}

func TestSentinel(t *testing.T) {
	line := func(n int, change float64) []Reading {
		var out []Reading
		for i := range n {
			at := float64(i) / float64(n-1)
			out = append(out, Reading{At: 3600 * at, Value: 500 * math.Exp(at*math.Log1p(change))})
		}
		return out
	}
	outlier := line(20, -0.1)
	outlier[3].Value, outlier[17].Value = 50, 5000
	for name, c := range map[string]struct {
		readings []Reading
		change   float64
		drifting bool
		words    string
	}{
		"nothing":            {nil, 0, false, "drift unknown: 0 readings"},
		"four":               {line(4, -0.1), -0.1, false, "drift unknown: 4 readings"},
		"five":               {line(5, -0.1), -0.1, true, "drifting: the baseline changed by -10.0 %"},
		"1 % is none":        {line(20, -0.01), -0.01, false, "no drift"},
		"rising":             {line(20, 0.05), 0.05, true, "drifting"},
		"two outliers":       {outlier, -0.1, true, "drifting"},
		"constant":           {line(20, 0), 0, false, "no drift"},
		"all at once":        {[]Reading{{1, 5}, {1, 6}, {1, 7}, {1, 8}, {1, 9}, {1, 10}}, 0, false, "drift unknown"},
		"failed are no zero": {append(line(20, 0), Reading{At: 9, Value: 0}, Reading{At: 9, Value: math.NaN()}), 0, false, "no drift"},
		"many":               {line(300, -0.2), -0.2, true, "drifting"},
	} {
		drift := Sentinel(c.readings)
		if math.Abs(drift.Change-c.change) > 1e-6 || drift.Drifting != c.drifting || !strings.HasPrefix(drift.String(), c.words) {
			t.Errorf("%s: %+v: %s", name, drift, drift)
		}
		if drift.Formed && (drift.Interval.Low > drift.Change || drift.Interval.High < drift.Change) {
			t.Errorf("%s: %v is outside %v", name, drift.Change, drift.Interval)
		}
	}
}

// The interval holds the true change in 95 % of campaigns, heavy tails or not.
func TestSentinelCovers(t *testing.T) {
	runs := soak.Cases(t, 500, 10000)
	for name, noise := range map[string]func(*rand.Rand) float64{"normal": normal(0.02), "heavy": heavy(0.02), "outliers": outliers(0.02)} {
		missed := 0
		for run := range runs {
			rng := rand.New(rand.NewPCG(uint64(run), 17))
			var readings []Reading
			for n := range 20 {
				at := float64(n) / 19
				readings = append(readings, Reading{At: at, Value: math.Exp(-0.05*at + noise(rng))})
			}
			if drift := Sentinel(readings); drift.Interval.Low > math.Expm1(-0.05) || drift.Interval.High < math.Expm1(-0.05) {
				missed++
			}
		}
		t.Logf("%s: %d of %d miss", name, missed, runs)
		atMost(t, name+": intervals of drift that miss", missed, runs, 0.05)
	}
}
