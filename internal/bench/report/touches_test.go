package report

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"ossian/internal/bench"
)

// What each planted fault touches, of metrics that matter: what a finding does not touch must
// hold, so the run's value is compared with that of the good run it was made of where the
// fault is in times or texts alone.
func TestTouches(t *testing.T) {
	keys := []string{"total_token_throughput", "mean_ttft_ms", "p99_tpot_ms", "median_itl_ms", "mean_e2el_ms", "max_output_tokens_per_s"}
	for id, want := range map[string]string{ // + = touched, by the order of keys
		FaultFailures: "++++++", FaultBursts: "---+-+", FaultPeakLow: "+-+--+", FaultPeakHigh: "+-++-+", FaultStreamTime: "--+-+-", FaultLength: "++++++",
		FaultRate: "------", FaultLag: "------", FaultLate: "-++++-", FaultCache: "++++++", FaultRepeats: "++++++", FaultEmpty: "-+--+-", FaultEarly: "-+++--",
		FaultCut: "++++++", FaultBroken: "++++++",
	} {
		at := slices.IndexFunc(faults, func(f struct {
			id      string
			warning bool
			plant   func(r *bench.Recording)
		}) bool {
			return f.id == id
		})
		r := good(bench.VLLM)
		faults[at].plant(r)
		s := Summarize(r, words)
		got := ""
		for _, key := range keys {
			if s.Ossian.Findings[0].TouchesMetric(key) {
				got += "+"
			} else {
				got += "-"
			}
			if s.Stands(key) != (faults[at].warning || strings.HasSuffix(got, "-")) {
				t.Errorf("%s: %s stands: %v", id, key, s.Stands(key))
			}
		}
		if got != want {
			t.Errorf("%s touches %s of %q, want %s", id, got, keys, want)
		}
	}
}

// A metric that stands has the value that it has without the fault: events that come together
// or are read late leave throughput and E2EL as they are.
func TestStandingMetricsHold(t *testing.T) {
	clean, err := Summarize(good(bench.VLLM), words).Result("clean")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faults {
		if f.id != FaultBursts && f.id != FaultLag && f.id != FaultEarly {
			continue
		}
		r := good(bench.VLLM)
		f.plant(r)
		spoilt, err := Summarize(r, words).Result(f.id)
		if err != nil {
			t.Fatal(err)
		}
		for key, value := range spoilt.Values {
			_, latency := latencyKey(key)
			if was := clean.Values[key]; (latency || strings.HasSuffix(key, "throughput")) && spoilt.Stands(key) && !spoilt.Findings()[0].TouchesMetric(key) && (value > 1.001*was || value < 0.999*was) {
				t.Errorf("%s: %s is %v, was %v, and stands", f.id, key, value, was)
			}
		}
	}
}

func TestTouchesMetric(t *testing.T) {
	f := Finding{Touches: []string{"itl", "output_throughput", "steady_total_token_throughput"}}
	for key, want := range map[string]bool{"mean_itl_ms": true, "p99.9_itl_ms": true, "itls": true, "steady_p99_itl_ms": true, "mean_ttft_ms": false, "itl_ms": false,
		"output_throughput": true, "steady_output_throughput": true, "steady_total_token_throughput": true, "total_token_throughput": false, "": false} {
		if f.TouchesMetric(key) != want {
			t.Errorf("%q: %v", key, !want)
		}
	}
	if !(Finding{Touches: []string{Everything}}).TouchesMetric("request_throughput") || (Finding{}).TouchesMetric("request_throughput") {
		t.Error("everything, and nothing")
	}
}

// Files say which metrics a finding touches; those that are older, and those of other tools,
// are judged alike.
func TestTouchesOfFiles(t *testing.T) {
	r := good(bench.VLLM)
	faults[1].plant(r) // bursts
	text, err := Summarize(r, words).JSON(false)
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]any
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	finding := file["ossian"].(map[string]any)["findings"].([]any)[0].(map[string]any)
	if !slices.Contains(finding["touches"].([]any), any("itl")) {
		t.Errorf("the file says %v", finding)
	}
	delete(finding, "touches")
	old, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	delete(file, "ossian")
	foreign, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"new": text, "older": old, "of vLLM": foreign} {
		results, err := Import(name, data)
		if err != nil {
			t.Fatal(err)
		}
		for key, want := range map[string]bool{"median_itl_ms": false, "max_output_tokens_per_s": false, "total_token_throughput": true, "mean_ttft_ms": true} {
			if results[0].Stands(key) != want {
				t.Errorf("%s: %s stands: %v, findings %+v", name, key, !want, results[0].Findings())
			}
		}
	}
	failed, err := Import("failed.json", []byte(`{"request_throughput":1,"duration":10,"completed":10,"num_prompts":20,"mean_ttft_ms":3}`))
	if err != nil || failed[0].Stands("request_throughput") || len(failed[0].Against("mean_ttft_ms")) != 1 {
		t.Errorf("%v, %+v", err, failed)
	}
}

// What does not stand is no gain and no loss.
func TestCompareSpoilt(t *testing.T) {
	side := func(seed float64, itl float64) (out []Result) {
		for i := range 5 {
			out = append(out, Result{Source: "x", Values: map[string]float64{"request_throughput": seed + 0.01*float64(i), "completed": 100, "failed": 0,
				"median_itl_ms": itl + 0.0001*float64(i), "median_tpot_ms": 10 - seed/10 + 0.001*float64(i)}})
		}
		return out
	}
	c, err := Compare(side(10, 9), side(20, 0.001))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range c.Rows {
		want := map[string]Verdict{"request_throughput": Better, "median_itl_ms": Spoilt, "median_tpot_ms": Better}[row.Key]
		if want != "" && row.Verdict != want {
			t.Errorf("%s is %s, want %s\n%s", row.Key, row.Verdict, want, c)
		}
	}
	if text := c.String(); !strings.Contains(text, "x is not a valid run: bursts, which touches itl, ") {
		t.Error(text)
	}
}
