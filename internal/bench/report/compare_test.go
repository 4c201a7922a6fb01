package report

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"ossian/internal/bench"
	"ossian/internal/soak"
)

// simulated is a run whose requests wait for each other: latencies are lognormal and
// neighbours are correlated by 0.7. slower lengthens every time.
func simulated(seed uint64, n int, slower float64) *bench.Recording {
	g := rand.New(rand.NewPCG(seed, 77))
	r := &bench.Recording{Setup: bench.Setup{Backend: "openai", ModelID: "m", Tokenizer: "words", Dataset: "random", Hash: "h", Stream: true,
		Arrivals: bench.Arrivals{Rate: 20, Burstiness: 1}, Metrics: []string{"ttft", "tpot", "itl", "e2el"}}, Began: time.Unix(0, 0).UTC()}
	due, state := time.Duration(0), g.NormFloat64()
	for i := range n {
		due += time.Duration(g.ExpFloat64() * float64(50*ms))
		state = 0.7*state + math.Sqrt(1-0.49)*g.NormFloat64()
		load := math.Exp(0.4*state) * slower
		s := stream(i, due, time.Duration(load*float64(60*ms)), 12, func() time.Duration {
			return time.Duration(load * float64(5*ms) * (1 + 0.3*g.NormFloat64()*g.Float64()))
		})
		r.Samples = append(r.Samples, s)
		r.Duration = max(r.Duration, s.Done)
	}
	return r
}

func resultOf(t testing.TB, r *bench.Recording) Result {
	t.Helper()
	out, err := Summarize(r, words).Result("run")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func claims(c *Comparison) (better, worse int) {
	for _, r := range c.Rows {
		switch r.Verdict {
		case Better:
			better++
		case Worse:
			worse++
		}
	}
	return better, worse
}

// TestBEN6SameAgainstSame: of comparisons of a system with itself at most 5 % claim any
// difference in any metric, with one run on each side and with several.
func TestBEN6SameAgainstSame(t *testing.T) {
	for _, runs := range []int{1, 3} {
		n := soak.Cases(t, 60, 1000)
		wrong := 0
		for i := range n {
			var sides [2][]Result
			for k := range 2 * runs {
				side := &sides[k%2]
				*side = append(*side, resultOf(t, simulated(uint64(1+i*100+k), 400/runs, 1)))
			}
			c, err := Compare(sides[0], sides[1])
			if err != nil {
				t.Fatal(err)
			}
			if better, worse := claims(c); better+worse > 0 {
				wrong++
			}
		}
		t.Logf("BEN-6: %d runs a side: %d of %d comparisons of the same claim a difference", runs, wrong, n)
		if float64(wrong) > 0.05*float64(n) {
			t.Errorf("%d runs a side: %d of %d comparisons of the same claim a difference", runs, wrong, n)
		}
	}
}

// TestBEN6WholeNumbers: whole numbers that are often equal in two runs are no claim.
func TestBEN6WholeNumbers(t *testing.T) {
	g := rand.New(rand.NewPCG(3, 4))
	n, wrong := soak.Cases(t, 200, 10000), 0
	for range n {
		var sides [2][]Result
		for k := range 4 {
			side := &sides[k%2]
			*side = append(*side, Result{Values: map[string]float64{"max_concurrent_requests": float64(63 + g.IntN(2)), "failed": float64(g.IntN(2))}})
		}
		c, err := Compare(sides[0], sides[1])
		if err != nil {
			t.Fatal(err)
		}
		if better, worse := claims(c); better+worse > 0 {
			wrong++
		}
	}
	t.Logf("BEN-6: whole numbers, 2 runs a side: %d of %d comparisons of the same claim a difference", wrong, n)
	if float64(wrong) > 0.05*float64(n) {
		t.Errorf("%d of %d comparisons of the same claim a difference", wrong, n)
	}
}

// TestStretchesAgainstRun: no claim where the stretches, of equal weight each, say the
// opposite of the whole run.
func TestStretchesAgainstRun(t *testing.T) {
	side := func(mean float64, stretches ...float64) []Result {
		return []Result{{Values: map[string]float64{"mean_ttft_ms": mean}, Batches: map[string][]float64{"mean_ttft_ms": stretches}}}
	}
	for _, c := range []struct {
		b    float64
		want Verdict
	}{{9, Chance}, {11, Worse}} {
		got, err := Compare(side(10, 1, 1.1, 0.9, 1, 1.05), side(c.b, 2, 2.1, 1.9, 2, 2.05))
		if err != nil || got.Rows[0].Verdict != c.want {
			t.Errorf("10 against %v: %+v, %v; want %s", c.b, got, err, c.want)
		}
	}
}

// TestSlowerIsFound: a fifth slower is worse, the other way round better.
func TestSlowerIsFound(t *testing.T) {
	fast, slow := resultOf(t, simulated(1, 1200, 1)), resultOf(t, simulated(2, 1200, 1.25))
	c, err := Compare([]Result{fast}, []Result{slow})
	if err != nil {
		t.Fatal(err)
	}
	if better, worse := claims(c); better != 0 || worse < 6 {
		t.Errorf("%d better, %d worse\n%s", better, worse, c)
	}
	back, err := Compare([]Result{slow}, []Result{fast})
	if err != nil {
		t.Fatal(err)
	}
	if better, worse := claims(back); better < 6 || worse != 0 {
		t.Errorf("%d better, %d worse\n%s", better, worse, back)
	}
	for i, r := range c.Rows {
		if r.By != "" && (r.Interval.Low > r.Interval.High || (r.Verdict == Worse && r.Interval.Low <= 0 && 0 <= r.Interval.High)) {
			t.Errorf("%s: interval %+v with %s", r.Label, r.Interval, r.Verdict)
		}
		if o := back.Rows[i]; r.Delta != -o.Delta {
			t.Errorf("%s: %v one way, %v the other", r.Label, r.Delta, o.Delta)
		}
	}
}

func TestCompareTable(t *testing.T) {
	a := Result{Source: "a.json", Profile: "vllm", Info: map[string]string{"model_id": "x"}, Values: map[string]float64{
		"request_throughput": 10, "mean_ttft_ms": 50, "p95_ttft_ms": 80, "completed": 100, "failed": 0, "num_prompts": 100, "total_input_tokens": 1000, "only_a": 1}}
	b := Result{Source: "b.json", Profile: "vllm-rs", Info: map[string]string{"model_id": "y"}, Values: map[string]float64{
		"request_throughput": 12.5, "mean_ttft_ms": 60, "p95_ttft_ms": 80, "completed": 96, "failed": 4, "num_prompts": 100, "total_input_tokens": 900}}
	c, err := Compare([]Result{a}, []Result{b})
	if err != nil {
		t.Fatal(err)
	}
	text := c.String()
	for _, want := range []string{
		"================================== Benchmark Comparison ==================================\n",
		"Request throughput (req/s)                    10        12.50      +2.50  +25.0%+                             not tested\n",
		"Mean TTFT (ms)                                50           60        +10  +20.0%-                             not tested\n",
		"P95 TTFT (ms)                                 80           80         +0   +0.0%                              same\n",
		"Failed requests                                0            4         +4    inf%-                             not tested\n",
		"WARNING: model_id differs: x and y\n", "WARNING: profile differs: vllm and vllm-rs",
		"WARNING: total_input_tokens differs: 1000 and 900; the workloads are not the same\n",
		"WARNING: b.json has failed requests", "WARNING: one run on each side",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "only_a") || strings.Contains(text, "num_prompts differs") {
		t.Errorf("too much in\n%s", text)
	}
}

func TestCompareRefuses(t *testing.T) {
	a := Result{Source: "a", Values: map[string]float64{"duration": 1}}
	b := Result{Source: "b", Values: map[string]float64{"mean_ttft_ms": 1}}
	if _, err := Compare(nil, []Result{b}); err == nil {
		t.Error("nothing was compared with something")
	}
	if _, err := Compare([]Result{a}, []Result{b}); err == nil {
		t.Error("results without a common metric were compared")
	}
	x, y := Result{Values: map[string]float64{"duration": 1}, Ossian: &Extension{Workload: Workload{Hash: "1"}}},
		Result{Values: map[string]float64{"duration": 1}, Ossian: &Extension{Workload: Workload{Hash: "2"}, Valid: true}}
	c, err := Compare([]Result{x}, []Result{y})
	if err != nil || !strings.Contains(fmt.Sprint(c.Warnings), "workload differs: 1 and 2") || !strings.Contains(fmt.Sprint(c.Warnings), "not a valid run") {
		t.Errorf("%v, %v", c, err)
	}
}

// TestExtremes: numbers at the end of their range give a table that JSON can hold.
func TestExtremes(t *testing.T) {
	side := func(v float64) []Result {
		var out []Result
		for range 2 {
			out = append(out, Result{Values: map[string]float64{"duration": v, "mean_ttft_ms": -v, "failed": 0}, Batches: map[string][]float64{"duration": {v, -v}}})
		}
		return out
	}
	for _, v := range []float64{0, 5e-324, 1e-308, 1e308, math.MaxFloat64} {
		for _, w := range []float64{0, 5e-324, 1e308, -math.MaxFloat64} {
			for _, n := range []int{1, 2} {
				c, err := Compare(side(v)[:n], side(w)[:n])
				if err != nil {
					t.Fatal(err)
				}
				if _, err := json.Marshal(c); err != nil {
					t.Errorf("%v against %v: %v", v, w, err)
				}
			}
		}
	}
}

func TestRunsTable(t *testing.T) {
	var runs []Result
	for i, v := range []float64{10, 11, 12} {
		runs = append(runs, Result{Source: fmt.Sprint(i), Values: map[string]float64{"request_throughput": v, "mean_ttft_ms": 50, "duration": 3.25}})
	}
	spreads := spreads(runs, multiRunKeys)
	if len(spreads) != 3 || spreads[0].Mean != 11 || math.Abs(spreads[0].CV-100*math.Sqrt(2.0/3)/11) > 1e-12 || spreads[0].Interval == nil ||
		math.Abs(spreads[0].Interval.Low-(11-4.302652729911275/math.Sqrt(3))) > 1e-9 { // Student's t, 2 degrees of freedom
		t.Errorf("%+v", spreads)
	}
	text := RunsTable(runs)
	for _, want := range []string{"========================= Multi-Run Summary (3 runs) ==========================", "Throughput CV: 7.4% (lower = more stable across runs)\n",
		"Request throughput (req/s)                  11       0.82         10         12\n", "[8.52, 13.48]\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if text := RunsTable(runs[:1]); !strings.Contains(text, "one run: none") {
		t.Error(text)
	}
	if got := Table(runs); strings.Count(got, "\n") != 4 || (!strings.Contains(got, "3.25") && !strings.Contains(got, "-")) {
		t.Error(got)
	}
}
