package predict

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"ossian/internal/lab/predict/machine"
	"ossian/internal/plan"
	"ossian/internal/runner"
)

// scenario returns one on an A100 with vLLM of that version.
func scenario(t testing.TB, model, version string, tp int, load Workload) Scenario {
	t.Helper()
	s := Scenario{Settings: Settings{TP: tp}, Workload: load}
	var err error
	if s.Model, err = Model(model); err != nil {
		t.Fatal(err)
	}
	if s.Machine, err = machine.Lookup("A100-SXM4-80GB"); err != nil {
		t.Fatal(err)
	}
	if s.Engine, err = Engine("vllm", version); err != nil {
		t.Fatal(err)
	}
	return s
}

func predicted(t testing.TB, s Scenario) Prediction {
	t.Helper()
	p, err := Run(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestSameBytes is P6: the same scenario gives the same bytes.
func TestSameBytes(t *testing.T) {
	t.Parallel()
	var texts [2][]byte
	for i := range texts {
		load := ShareGPT(300, 60_000, 60_000, 3)
		load.Arrive(20, 3)
		load.Chat = true
		text, err := json.Marshal(predicted(t, scenario(t, "openai/gpt-oss-20b", "v0.11.0", 1, load)))
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = text
	}
	if !bytes.Equal(texts[0], texts[1]) {
		t.Errorf("two predictions of one scenario differ:\n%s\n%s", texts[0], texts[1])
	}
}

// TestUnknownKernels is P7: what no row has shown is a bound that says so, and refused on request.
func TestUnknownKernels(t *testing.T) {
	t.Parallel()
	load := Random(20, 100, 20, 1)
	known := scenario(t, "Qwen3-8B", "0.10.1", 1, load)
	if p := predicted(t, known); len(p.Unknown) > 0 || p.Metrics["duration_s"].Low >= p.Metrics["duration_s"].Value {
		t.Errorf("a known kernel: unknown %v, duration %+v", p.Unknown, p.Metrics["duration_s"])
	}
	version, hardware, kernel := known, known, known
	version.Engine.Version = "0.12.0"
	hardware.Machine, _ = machine.Lookup("H100")
	lacking := *Shipped("A100-SXM4-80G", "vllm", "0.10.1")
	lacking.Parameters = map[string]machine.Parameter{}
	for name, p := range Shipped("A100-SXM4-80G", "vllm", "0.10.1").Parameters {
		if name != "attention/full/mixed" {
			lacking.Parameters[name] = p
		}
	}
	kernel.Calibration = &lacking
	for name, s := range map[string]Scenario{"version": version, "machine": hardware, "kernel": kernel} {
		p := predicted(t, s)
		e := p.Metrics["mean_tpot_ms"]
		if len(p.Unknown) == 0 || e.Low != e.Value || e.High != e.Value {
			t.Errorf("%s: unknown %v, estimate %+v: expected a bound", name, p.Unknown, e)
		}
		if name != "machine" && e.Value >= predicted(t, known).Metrics["mean_tpot_ms"].Low {
			t.Errorf("%s: the bound %v is no faster than the prediction", name, e.Value)
		}
		s.Strict = true
		if _, err := Run(context.Background(), s); !errors.Is(err, ErrUnknownKernel) {
			t.Errorf("%s, strict: error %v, expected %v", name, err, ErrUnknownKernel)
		}
	}
	if p := predicted(t, kernel); len(p.Unknown) != 1 || p.Unknown[0] != "attention/full/mixed" {
		t.Errorf("unknown %v, expected the one that is lacking", p.Unknown)
	}
}

// TestSessionsShare: random prompts of one seed begin alike, so a server that has seen longer ones
// need not compute the shorter ones again; with another seed, or without the cache, it must.
func TestSessionsShare(t *testing.T) {
	t.Parallel()
	s := scenario(t, "gpt-oss-20b", "0.11.0", 1, Random(100, 512, 4, 42))
	alone := predicted(t, s)
	s.Session = []Workload{Random(100, 2000, 4, 42)}
	after := predicted(t, s)
	if want := 100 * (512 - 16); alone.CachedTokens != 0 || after.CachedTokens != want {
		t.Errorf("%d tokens cached on a new server, %d after prompts that begin alike: expected 0 and %d", alone.CachedTokens, after.CachedTokens, want)
	}
	if after.Metrics["duration_s"].Value > 0.7*alone.Metrics["duration_s"].Value {
		t.Errorf("%v s with cached prompts, %v s without", after.Metrics["duration_s"].Value, alone.Metrics["duration_s"].Value)
	}
	s.Session = []Workload{Random(100, 2000, 4, 43)}
	if other := predicted(t, s); other.CachedTokens != 0 {
		t.Errorf("%d tokens cached of prompts of another seed", other.CachedTokens)
	}
	off := false
	s.Session, s.Settings.PrefixCaching = []Workload{Random(100, 2000, 4, 42)}, &off
	if without := predicted(t, s); without.CachedTokens != 0 {
		t.Errorf("%d tokens cached without a cache", without.CachedTokens)
	}
}

// TestSharesAddUp: every second of the duration is somebody's.
func TestSharesAddUp(t *testing.T) {
	t.Parallel()
	load := ShareGPT(200, 40_000, 30_000, 1)
	load.Arrive(5, 1)
	load.Chat = true
	for _, model := range []string{"gpt-oss-120b", "Qwen3-32B"} {
		p := predicted(t, scenario(t, model, "0.11.0", 2, load))
		sum := 0.0
		for _, share := range p.Shares {
			sum += share
		}
		if math.Abs(sum-1) > 1e-6 || p.Shares["weights"] <= 0 || p.Shares["all-reduce"] <= 0 || p.Shares["waiting"] <= 0 || p.Shares["host"] <= 0 {
			t.Errorf("%s: shares %v add up to %v", model, p.Shares, sum)
		}
	}
}

// TestMetrics holds the client's numbers to their definitions on a run that can be reckoned: one
// request alone.
func TestMetrics(t *testing.T) {
	t.Parallel()
	p := predicted(t, scenario(t, "Qwen3-8B", "0.10.1", 1, Random(1, 64, 11, 1)))
	m := func(key string) float64 { return p.Metrics[key].Value }
	near := func(name string, got, want float64) {
		if math.Abs(got-want) > 1e-6*math.Abs(want) {
			t.Errorf("%s is %v, expected %v", name, got, want)
		}
	}
	near("E2EL", m("mean_e2el_ms"), m("mean_ttft_ms")+10*m("mean_tpot_ms"))
	near("duration", 1e3*m("duration_s"), m("mean_e2el_ms"))
	near("ITL", m("mean_itl_ms"), m("mean_tpot_ms"))
	near("output throughput", m("output_throughput"), 11/m("duration_s"))
	near("total throughput", m("total_token_throughput"), 75/m("duration_s"))
	s := scenario(t, "Qwen3-8B", "0.10.1", 1, Random(1, 64, 11, 1))
	s.Settings.Interval = 5
	if merged := predicted(t, s).Metrics; math.Abs(merged["median_itl_ms"].Value/m("median_itl_ms")-5) > 0.01 || merged["mean_tpot_ms"].Value != m("mean_tpot_ms") {
		t.Errorf("five tokens in a chunk: ITL %v, TPOT %v; one: %v and %v", merged["median_itl_ms"].Value, merged["mean_tpot_ms"].Value, m("median_itl_ms"), m("mean_tpot_ms"))
	}
	if p.Steps != 11 {
		t.Errorf("%d steps, expected one for the prompt and ten", p.Steps)
	}
}

// TestConcurrency: a bound on requests in flight holds, and their times start when they are sent.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	load := Random(64, 64, 16, 1)
	s := scenario(t, "Qwen3-8B", "0.10.1", 1, load)
	all := predicted(t, s)
	s.Workload.Concurrency = 8
	few := predicted(t, s)
	if few.Metrics["mean_ttft_ms"].Value > all.Metrics["mean_ttft_ms"].Value || few.Metrics["duration_s"].Value < 2*all.Metrics["duration_s"].Value {
		t.Errorf("8 at a time: %+v, all at once: %+v", few.Metrics, all.Metrics)
	}
}

// TestRetime: the same parameters give the same metrics, and slopes are what differences say.
func TestRetime(t *testing.T) {
	t.Parallel()
	load := ShareGPT(300, 60_000, 60_000, 5)
	load.Chat = true
	async := true
	s := scenario(t, "gpt-oss-120b", "0.11.0", 2, load)
	s.Settings.Async = &async
	sim, err := Simulate(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	c := Shipped("A100-SXM4-80G", "vllm", "0.11.0")
	here, metrics := sim.Retime(c), sim.Metrics()
	s.Workload.Concurrency = 16 // where requests are sent as others end
	closed, err := Simulate(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	slower := c.With(map[string]float64{hostStep: 10})
	s.Calibration = slower
	again, err := Simulate(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range closed.Retime(slower).Values {
		if want := again.Metrics()[key]; math.Abs(value/want-1) > 0.05 {
			t.Errorf("16 at a time: %s is %v timed again, %v simulated again", key, value, want)
		}
	}
	for key, value := range here.Values {
		if math.Abs(value/metrics[key]-1) > 1e-9 {
			t.Errorf("%s: %v at first, %v timed again", key, metrics[key], value)
		}
	}
	const by = 1e-3
	for _, name := range sim.Parameters() {
		value, _ := c.Value(name)
		there := sim.Retime(c.With(map[string]float64{name: value * math.Exp(by)}))
		for _, key := range summed {
			slope := math.Log(there.Values[key]/here.Values[key]) / by
			// The front end holds the first tokens back, and does not move with a kernel.
			if got := here.Slopes[key][name]; math.Abs(got-slope) > 0.02*math.Abs(slope)+0.004 && name != expertExponent {
				t.Errorf("%s by %s: slope %v, differences say %v", key, name, got, slope)
			}
		}
	}
}

// TestBoundBeatsNothing: with every kernel at the machine's limit a step takes what package plan
// says at least, and not twice of it: both count the same bytes and operations.
func TestBoundBeatsNothing(t *testing.T) {
	t.Parallel()
	for _, name := range Models() {
		s := scenario(t, name, "0.11.0", 1, Workload{})
		if strings.Contains(name, "235B") || strings.Contains(name, "70B") || strings.Contains(name, "32B") {
			continue // not on one device
		}
		s.Machine, _ = machine.Lookup("H200")
		clock, unknown, err := NewClock(s)
		if err != nil || len(unknown) == 0 {
			t.Fatalf("%s: unknown %v, error %v", name, unknown, err)
		}
		peaks := plan.Machine{Bandwidth: s.Machine.Bandwidth.Value, Peak: s.Machine.BF16.Value}
		for _, batch := range []int{1, 64} {
			rows := make([]runner.Row, batch)
			for i := range rows {
				rows[i] = runner.Row{Slot: i, Start: 1000, Len: 1, Sample: true}
			}
			least, got := s.Model.StepTime(peaks, rows).Seconds(), clock.StepTime(rows).Seconds()
			if s.Model.Spec.FFN.Experts > 0 {
				least *= 0.6 // package plan takes the chances of experts to be equal
			}
			if got < least || got > 2*least+0.001 {
				t.Errorf("%s, %d rows: %v s, package plan says %v at least", name, batch, got, least)
			}
		}
	}
}

func TestFits(t *testing.T) {
	t.Parallel()
	memory, err := Fits(scenario(t, "gpt-oss-20b", "0.11.0", 1, Workload{}))
	if err != nil || !memory.Shared || memory.Weights+memory.Activations+memory.Reserve+memory.KV != memory.Budget {
		t.Errorf("%+v, %v", memory, err)
	}
	_, err = Fits(scenario(t, "Qwen3-235B-A22B", "0.10.1", 2, Workload{}))
	var failure *FitError
	if !errors.As(err, &failure) || failure.LeastTP != 8 || failure.Need <= failure.Have {
		t.Errorf("235B on two devices: %v, expected that it fits on 8", err)
	}
	if _, err := Run(context.Background(), scenario(t, "Qwen3-32B", "0.10.1", 1, Random(1, 10, 10, 1))); err != nil {
		t.Errorf("Qwen3-32B on one device of 80 GB: %v", err)
	}
	s := scenario(t, "Qwen3-8B", "0.10.1", 1, Workload{})
	plain, _ := Fits(s)
	s.Settings.KVType = "fp8"
	if small, _ := Fits(s); small.Tokens < 2*plain.Tokens-32 {
		t.Errorf("%d tokens of 8 bits fit, %d of 16", small.Tokens, plain.Tokens)
	}
}

// TestRefuses: every mistake has an error that names it.
func TestRefuses(t *testing.T) {
	t.Parallel()
	good := scenario(t, "Qwen3-8B", "0.10.1", 1, Random(2, 10, 10, 1))
	change := func(edit func(*Scenario)) Scenario {
		s := good
		edit(&s)
		return s
	}
	for want, s := range map[string]Scenario{
		"no model":      change(func(s *Scenario) { s.Model = nil }),
		"lacks":         change(func(s *Scenario) { s.Machine = machine.Machine{} }),
		"profile":       change(func(s *Scenario) { s.Engine = Profile{} }),
		"at most 16":    change(func(s *Scenario) { s.Settings.TP = 64 }),
		"do not divide": change(func(s *Scenario) { s.Settings.TP = 3 }),
		"kv_cache":      change(func(s *Scenario) { s.Settings.KVType = "int3" }),
		"negative":      change(func(s *Scenario) { s.Settings.MaxSeqs = -1 }),
		"less than":     change(func(s *Scenario) { s.Settings.MaxTokens = 16 }),
		"memory_util":   change(func(s *Scenario) { s.Settings.MemoryShare = 1.5 }),
		"no requests":   change(func(s *Scenario) { s.Workload = Workload{Name: "empty"} }),
		"request 0":     change(func(s *Scenario) { s.Workload = Workload{Requests: []Request{{Prompt: []int32{1}}}} }),
		"never fits":    change(func(s *Scenario) { s.Workload = Random(1, 50_000, 1, 1) }),
		"does not fit":  change(func(s *Scenario) { s.Settings.MemoryShare = 0.1 }),
	} {
		if _, err := Run(context.Background(), s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, expected one with %q", err, want)
		}
	}
	for _, name := range []string{"", "gpt-5", "Qwen3-8C"} {
		if _, err := Model(name); err == nil {
			t.Errorf("model %q was found", name)
		}
	}
	for _, version := range []string{"", "x", "0.7.3", "1"} {
		if _, err := Engine("vllm", version); err == nil {
			t.Errorf("vllm %q has a profile", version)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Run(ctx, good); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: error %v", err)
	}
}

// TestParameters counts what the names of models promise.
func TestParameters(t *testing.T) {
	for name, billions := range map[string]float64{"gpt-oss-20b": 20.9, "gpt-oss-120b": 116.8, "Qwen3-0.6B": 0.6, "Qwen3-8B": 8.19, "Qwen3-14B": 14.8,
		"Qwen3-32B": 32.8, "Qwen3-30B-A3B": 30.5, "Qwen3-235B-A22B": 235, "Llama-3.2-1B": 1.24, "Llama-3.2-3B": 3.21, "Llama-3.1-8B": 8.03, "meta-llama/Llama-3.3-70B-Instruct": 70.6} {
		model, err := Model(name)
		if err != nil {
			t.Fatal(err)
		}
		if params, _ := model.Total(); math.Abs(float64(params)/1e9/billions-1) > 0.015 {
			t.Errorf("%s has %.2f billion parameters, expected %.2f", name, float64(params)/1e9, billions)
		}
	}
}

// TestRank: faster settings come first, those that cannot run last.
func TestRank(t *testing.T) {
	t.Parallel()
	var all []Scenario
	for _, tp := range []int{1, 2, 3, 4} {
		all = append(all, scenario(t, "Qwen3-8B", "0.10.1", tp, Random(50, 200, 50, 1)))
	}
	ranked, err := Rank(context.Background(), all, "total_token_throughput", 2)
	if err != nil || len(ranked) != 4 || ranked[3].Index != 2 || ranked[3].Err == nil {
		t.Fatalf("%v %v", ranked, err)
	}
	for i := range 2 {
		if ranked[i].Prediction.Metrics["duration_s"].Value > ranked[i+1].Prediction.Metrics["duration_s"].Value {
			t.Errorf("place %d is slower than the next", i)
		}
	}
}

// BenchmarkRun is P5: simulated minutes per second on one core, 1,000 requests as ShareGPT has
// them, at once and at a rate.
func BenchmarkRun(b *testing.B) {
	for _, rate := range []float64{0, 4} {
		b.Run(fmt.Sprintf("rate=%v", rate), func(b *testing.B) {
			load := ShareGPT(1000, 215_312, 194_171, 0)
			load.Arrive(rate, 0)
			load.Chat = true
			s := scenario(b, "gpt-oss-20b", "0.11.0", 1, load)
			simulated := 0.0
			for b.Loop() {
				simulated += predicted(b, s).Metrics["duration_s"].Value
			}
			b.ReportMetric(simulated/60/b.Elapsed().Seconds(), "simulated-min/s")
		})
	}
}

// BenchmarkRank200 is P5: 200 settings of one model ranked on one core.
func BenchmarkRank200(b *testing.B) {
	load := ShareGPT(1000, 215_312, 194_171, 0)
	var all []Scenario
	for i := range 200 {
		s := scenario(b, "gpt-oss-20b", "0.11.0", 1+i%2, load)
		s.Settings.MaxSeqs, s.Settings.MaxTokens = 64+16*(i%20), 1024+512*(i/20)
		all = append(all, s)
	}
	for b.Loop() {
		if _, err := Rank(context.Background(), all, "total_token_throughput", 1); err != nil {
			b.Fatal(err)
		}
	}
}
