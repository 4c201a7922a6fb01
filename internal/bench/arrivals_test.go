package bench

import (
	"math"
	"strings"
	"testing"
	"time"

	"ossian/internal/bench/dataset"
)

func legacy(t *testing.T, seed int64) *dataset.Legacy {
	t.Helper()
	g, err := dataset.NewLegacy(seed)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Golden schedules of bench.md 2.1 and what follows from its golden draws.
func TestArrivals(t *testing.T) {
	inf := math.Inf(1)
	cases := []struct {
		name string
		a    Arrivals
		p    Profile
		want []float64
	}{
		{"Poisson", Arrivals{Rate: 10, Burstiness: 1}, VLLM, []float64{0.09225866, 0.237847554, 0.34486861, 0.436121845, 0.5}},
		{"bursty", Arrivals{Rate: 10, Burstiness: 0.5}, VLLM, []float64{0.078640916, 0.176494368, 0.222924139, 0.272457924, 0.5}},
		{"smooth", Arrivals{Rate: 10, Burstiness: 2}, VLLM011, []float64{0.170861916, 0.245289591, 0.425737339, 0.448898273, 0.5}},
		{"even", Arrivals{Rate: 10, Burstiness: inf}, VLLMRust, []float64{0.1, 0.2, 0.3, 0.4, 0.5}},
		{"all at once", Arrivals{Rate: inf, Burstiness: 1}, VLLM, []float64{0, 0, 0, 0, 0}},
		{"gap behind each", Arrivals{Rate: 10, Burstiness: 1}, LMDeploy, []float64{0, 0.07958745082, 0.20518052712, 0.29750284170}},
		{"gap behind each, all at once", Arrivals{Rate: inf, Burstiness: 1}, SGLang, []float64{0, 0, 0}},
		{"linear", Arrivals{Rate: inf, Burstiness: inf, Ramp: Ramp{"linear", 1, 5}}, VLLM,
			[]float64{1, 1 + 1./2, 1 + 1./2 + 1./3, 1 + 1./2 + 1./3 + 1./4, 1 + 1./2 + 1./3 + 1./4 + 1./5}},
		{"exponential", Arrivals{Rate: inf, Burstiness: inf, Ramp: Ramp{"exponential", 1, 16}}, VLLM, []float64{1, 1.5, 1.75, 1.875, 1.9375}},
		{"linear, random", Arrivals{Rate: inf, Burstiness: 1, Ramp: Ramp{"linear", 1, 2}}, VLLM, []float64{0.7958745082, 0.7958745082 + 1.2559307630/2}},
		{"one", Arrivals{Rate: 4, Burstiness: 1}, VLLM, []float64{0.25}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.a.Times(c.p, make(Workload, len(c.want)), legacy(t, 0).Gamma)
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range c.want {
				if math.Abs(got[i].Seconds()-want) > 1.01e-9 {
					t.Errorf("request %d at %.9f, want %.9f", i, got[i].Seconds(), want)
				}
			}
		})
	}
}

func TestArrivalsOfATrace(t *testing.T) {
	w := Workload{{At: 0}, {At: 3 * time.Second}, {At: time.Second}}
	got, err := Arrivals{Timed: true}.Times(VLLM, w, nil)
	if err != nil || got[0] != 0 || got[1] != 3*time.Second || got[2] != time.Second {
		t.Errorf("got %v, %v; want the times of the queries", got, err)
	}
	if _, err := (Arrivals{Timed: true}).Times(VLLM, Workload{{At: -1}}, nil); err == nil {
		t.Error("a time before the start was accepted")
	}
}

func TestArrivalsRefused(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		name, want string
		a          Arrivals
	}{
		{"no rate", "request rate 0", Arrivals{Burstiness: 1}},
		{"rate not a number", "request rate NaN", Arrivals{Rate: math.NaN(), Burstiness: 1}},
		{"no burstiness", "burstiness 0", Arrivals{Rate: 1}},
		{"rate and ramp", "leave it at inf", Arrivals{Rate: 1, Burstiness: 1, Ramp: Ramp{"linear", 1, 2}}},
		{"ramp from 0", "0 < start", Arrivals{Rate: inf, Burstiness: 1, Ramp: Ramp{"exponential", 0, 2}}},
		{"ramp down", "start <= end", Arrivals{Rate: inf, Burstiness: 1, Ramp: Ramp{"linear", 2, 1}}},
		{"unknown ramp", `"cubic"`, Arrivals{Rate: inf, Burstiness: 1, Ramp: Ramp{"cubic", 1, 2}}},
		{"centuries", "raise the request rate", Arrivals{Rate: 1e-12, Burstiness: 1}},
	} {
		_, err := c.a.Times(VLLM, make(Workload, 3), legacy(t, 0).Gamma)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", c.name, err, c.want)
		}
	}
}

func TestWorkloadHash(t *testing.T) {
	w := Workload{{Prompt: "a", Input: 1, Output: 2, ID: "0"}}
	// printf '{"prompt":"a","input":1,"output":2,"id":"0"}\n' | sha256sum
	const want = "76b5b243cdf01bbb"
	if got, err := w.Hash(); err != nil || got != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
	if _, err := (Workload{{Body: []byte("{")}}).Hash(); err == nil {
		t.Error("a query whose body is not JSON has a hash")
	}
}

func TestProfileNames(t *testing.T) {
	for p := VLLM; p < numProfiles; p++ {
		if got, err := ParseProfile(p.String()); err != nil || got != p {
			t.Errorf("%s: got %v, %v", p, got, err)
		}
	}
	if _, err := ParseProfile("tgi"); err == nil {
		t.Error("an unknown profile was accepted")
	}
}
