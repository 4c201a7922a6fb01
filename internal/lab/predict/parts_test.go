package predict

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ossian/internal/bench/dataset"
	"ossian/internal/lab/predict/machine"
)

// TestFrontBurst: requests of a burst reach the scheduler between half and all of n times the time
// of one, and no first token leaves before the last has passed (lab.md 5).
func TestFrontBurst(t *testing.T) {
	const n = 1000
	f := front{render: 1.9e-3 / 2, hand: 1.9e-3 / 2}
	for i := range n {
		f.add(i, 0)
	}
	if idle := f.idleAt(0.1); math.Abs(idle-1.9) > 1e-9 {
		t.Errorf("idle at %v s, expected 1.9", idle)
	}
	f.advance(0.949)
	if len(f.reached) != 0 {
		t.Errorf("%d requests have passed before the first stage of all", len(f.reached))
	}
	f.advance(math.Inf(1))
	if len(f.reached) != n || f.reached[0].at < 0.95 || math.Abs(f.reached[n-1].at-1.9) > 1e-9 || math.Abs(f.busy-1.9) > 1e-9 {
		t.Errorf("%d have passed, the first at %v, the last at %v", len(f.reached), f.reached[0].at, f.reached[n-1].at)
	}
	if f.idleAt(3) != 3 {
		t.Error("an idle front end holds tokens back")
	}
}

// TestFrontOrder: where rendering takes longer than handing over, all of a burst are rendered first,
// and whoever waits for the next event gets there in so many steps.
func TestFrontOrder(t *testing.T) {
	f := front{render: 12e-3, hand: 1e-3}
	for i := range 50 {
		f.add(i, 0)
	}
	events := 0
	for now := 0.0; !math.IsInf(f.next(), 1); events++ {
		if now = f.next(); events > 200 {
			t.Fatalf("still at %v s after %d events", now, events)
		}
		if f.advance(now); len(f.reached) > 0 && f.reached[0].at < 0.6 {
			t.Fatalf("a request has passed at %v s, before all were rendered", f.reached[0].at)
		}
		f.reached = nil
	}
	if events != 100 || math.Abs(f.free-0.65) > 1e-9 {
		t.Errorf("%d events until %v s, expected 100 and 0.65", events, f.free)
	}
}

// TestExperts: the law keeps its promises at the ends, and reads less than equal chances between.
func TestExperts(t *testing.T) {
	for _, shape := range [][2]int{{32, 4}, {128, 4}, {128, 8}} {
		sum := 0.0
		for _, p := range chances(shape[0], shape[1], expertPower) {
			if p < 0 || p > 1 {
				t.Errorf("%v: chance %v", shape, p)
			}
			sum += p
		}
		if math.Abs(sum-float64(shape[1])) > 1e-9 {
			t.Errorf("%v: chances add up to %v", shape, sum)
		}
		d := newDistinctExperts(shape[0], shape[1], expertPower)
		last := 0.0
		for n := 1; n < 5000; n++ {
			used := d.of(n)
			if used < last || used > float64(shape[0]) {
				t.Fatalf("%v: %d tokens use %v experts, one less uses %v", shape, n, used, last)
			}
			last = used
		}
		equal := float64(shape[0]) * (1 - math.Pow(1-float64(shape[1])/float64(shape[0]), 40))
		if one, some := d.of(1), d.of(40); math.Abs(one-float64(shape[1])) > 1e-6 || some > 0.95*equal {
			t.Errorf("%v: one token uses %v experts, 40 use %v; with equal chances %v", shape, one, some, equal)
		}
	}
}

// TestWorkloads: totals are exact, lengths within their bounds, and the same seed is the same.
func TestWorkloads(t *testing.T) {
	count := func(w Workload) (in, out int) {
		for _, r := range w.Requests {
			in, out = in+len(r.Prompt), out+r.Output
		}
		return in, out
	}
	w := ShareGPT(1000, 215_312, 194_171, 0)
	if in, out := count(w); in != 215_312 || out != 194_171 || len(w.Assumptions) == 0 {
		t.Errorf("%d and %d tokens, assumptions %v", in, out, w.Assumptions)
	}
	for i, r := range w.Requests {
		if len(r.Prompt) < 4 || len(r.Prompt) > 1024 || r.Output < 4 || r.Output > 1024 {
			t.Fatalf("request %d: %d and %d tokens", i, len(r.Prompt), r.Output)
		}
	}
	r := Random(500, 400, 200, 42)
	r.Shorten(53_530, 42)
	if in, out := count(r); in != 200_000 || math.Abs(float64(out)-53_530) > 5 {
		t.Errorf("%d and %d tokens", in, out)
	}
	r.Arrive(10, 1)
	if last := r.Requests[499].At.Seconds(); math.Abs(last-50) > 1e-6 {
		t.Errorf("the last of 500 is sent at %v s, at 10 per second that is 50", last)
	}
	if _, err := FromQueries([]dataset.Query{{Prompt: "text", Output: 3}}); err == nil {
		t.Error("a query without ids was taken")
	}
	if w, err := FromQueries([]dataset.Query{{IDs: []int32{1, 2}, Output: 3}}); err != nil || w.Requests[0].Output != 3 {
		t.Errorf("%+v, %v", w, err)
	}
	if _, err := Lengths([]int{1}, []int{1, 2}, 0); err == nil {
		t.Error("lengths of different numbers were taken")
	}
}

// TestShipped: what is in the program can be read, and is written as it was.
func TestShipped(t *testing.T) {
	names, err := filepath.Glob("calibrations/*.json")
	if err != nil || len(names) != len(shippedCalibrations()) {
		t.Fatalf("%v, %v; %d in the program", names, err, len(shippedCalibrations()))
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		c, err := ReadCalibration(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		var again bytes.Buffer
		if err := WriteCalibration(&again, c); err != nil || again.String() != string(text) {
			t.Errorf("%s: written again it differs, %v", name, err)
		}
		if q := c.Spread.Quantiles["duration_s"]; len(c.Rows) == 0 || q < 1 || q > 10 {
			t.Errorf("%s: %d rows, quantiles %v", name, len(c.Rows), c.Spread.Quantiles)
		}
		for parameter, p := range c.Parameters {
			if (p.Unit == "" && parameter != expertExponent) || p.Origin == "" || (p.Origin == machine.Fitted && p.SE <= 0) {
				t.Errorf("%s: parameter %s: %+v", name, parameter, p)
			}
		}
	}
	for _, broken := range []string{"", "{", `{"parameters":{"x":{"value":-1}}}`, `{"spread":{"names":["a"]}}`} {
		if _, err := ReadCalibration(strings.NewReader(broken)); err == nil {
			t.Errorf("%q was read", broken)
		}
	}
}

// FuzzReadCalibration: what others have written is read or refused.
func FuzzReadCalibration(f *testing.F) {
	text, err := os.ReadFile("calibrations/vllm-a100.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"spread":{"names":["a"],"covariance":[1]}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := ReadCalibration(bytes.NewReader(text))
		if err == nil {
			c.Spread.Error(map[string]float64{"a": 1})
		}
	})
}
