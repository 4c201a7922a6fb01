package report

import (
	"encoding/json"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"ossian/internal/bench"
)

// A turnFile is what the tests read of a result of conversations.
type turnFile struct {
	Date        time.Time
	Concurrency int     `json:"multi_turn_concurrency"`
	Turns       int     `json:"turns_per_conversation"`
	Delay       int     `json:"inter_turn_delay_ms"`
	Global      float64 `json:"prefix_global_ratio"`
	Own         float64 `json:"prefix_conversation_ratio"`
	A           string
	Duration    float64
	Talk        float64 `json:"avg_conversation_duration_ms"`
	Failed      []struct {
		ID    string  `json:"conversation_id"`
		Error string  `json:"error"`
		Input int     `json:"prompt_len"`
		Start float64 `json:"start_time"`
	} `json:"failed_requests"`
	Each []struct {
		Completed int
		Input     int     `json:"total_input_tokens"`
		Output    int     `json:"total_output_tokens"`
		TTFT      float64 `json:"mean_ttft_ms"`
		ITL       float64 `json:"mean_itl_ms"`
	} `json:"per_turn_metrics"`
}

func milli(f float64) time.Duration { return time.Duration(math.Round(f * 1e6)) }

// recording is a run that would give f.
func (f *turnFile) recording() *bench.Recording {
	mt := &bench.MultiTurn{Turns: f.Turns, Delay: time.Duration(f.Delay) * time.Millisecond, Global: f.Global, Own: f.Own}
	r := &bench.Recording{Duration: milli(f.Duration * 1000), Setup: bench.Setup{Profile: bench.VLLMRust, Backend: "openai-chat", ModelID: "org/m", Tokenizer: "words",
		Stream: true, MultiTurn: mt, Arrivals: bench.Arrivals{Rate: math.Inf(1), Burstiness: 1, Concurrency: f.Concurrency}}}
	r.Began = f.Date.Add(-r.Duration)
	if f.A != "" {
		r.Setup.Metadata, r.Setup.Percentiles = []bench.Pair{{Key: "a", Value: f.A}}, []float64{50, 99.9}
	}
	at := time.Duration(0)
	for i, e := range f.Each {
		s := bench.Sample{Index: i, Session: "conv-0", Turn: i, Released: at, Sent: at, Asked: 2, Status: 200, Input: e.Input,
			Counts: bench.Counts{Prompt: 9, Completion: e.Output, Cached: -1, Reasoning: -1}}
		if len(f.Failed) > 0 {
			s.Session = f.Failed[0].ID
		}
		if mt.History() {
			s.Input -= e.Output
		}
		s.Done = at + milli(e.TTFT) + milli(e.ITL)
		s.Chunks = []bench.Chunk{{At: at + milli(e.TTFT), Kind: bench.Choices | bench.Text, Lag: -1, Tokens: -1}, {At: s.Done, Kind: bench.Choices | bench.Text, Lag: -1, Tokens: -1}}
		if e.Completed == 0 {
			bad := f.Failed[0]
			s.Sent, s.Input, s.Err, s.Status, s.Chunks = milli(bad.Start*1000), bad.Input, bad.Error, 500, nil
			s.Done, s.Counts.Completion = s.Sent, -1
		}
		r.Samples = append(r.Samples, s)
		at = s.Done + mt.Delay
	}
	first, last := &r.Samples[0], &r.Samples[len(r.Samples)-1]
	first.Released = last.Done - milli(f.Talk)
	return r
}

// Conversations are reported as vLLM's compiled client does: the text to the byte, the
// keys in their order, numbers to 1e-9.
func TestTurnsPeer(t *testing.T) {
	keys := regexp.MustCompile(`"([a-z][a-z0-9_.]*)":`)
	for _, name := range []string{"plain", "failed", "shared"} {
		text, err := os.ReadFile("testdata/turns/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var f turnFile
		if err := json.Unmarshal(text, &f); err != nil {
			t.Fatal(err)
		}
		s := Summarize(f.recording(), words)
		golden(t, "testdata/turns/"+name+".txt", s.Console())
		line, err := s.JSON(false)
		if err != nil {
			t.Fatal(err)
		}
		var got, want any
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		if where := differ(got, want); where != "" {
			t.Errorf("%s: JSON%s", name, where)
		}
		ours, _, _ := strings.Cut(string(line), `"ossian":`)
		if a, b := keys.FindAllString(ours, -1), keys.FindAllString(string(text), -1); !slices.Equal(a, b) {
			t.Errorf("%s: keys %q\nwant %q", name, a, b)
		}
		r, err := s.Result(name)
		if err != nil || r.Values["mean_ttft_ms"] != s.TTFT.Mean || r.Profile != "vllm-rs" {
			t.Errorf("%s: read back as %+v, %v", name, r, err)
		}
	}
}

// Only the compiled client counts an answer as input of its own turn, and prefix caches
// are to hit.
func TestTurnsOfOthers(t *testing.T) {
	text, err := os.ReadFile("testdata/turns/plain.json")
	if err != nil {
		t.Fatal(err)
	}
	var f turnFile
	if err := json.Unmarshal(text, &f); err != nil {
		t.Fatal(err)
	}
	r := f.recording()
	r.Setup.Profile, r.Setup.Dataset = bench.VLLM011, "random"
	for i := range r.Samples {
		r.Samples[i].Counts.Prompt, r.Samples[i].Counts.Cached = 10, 5
	}
	r.Samples[1].Counts.Completion = 1
	s := Summarize(r, nil)
	for i, e := range s.Turns.Each {
		if want := r.Samples[i].Input; e.Input != want || e.Completed != 1 {
			t.Errorf("turn %d: %d tokens of input, want %d", i, e.Input, want)
		}
	}
	if s.Steady != nil || s.Ossian.Steady != nil {
		t.Error("conversations have no steady state")
	}
	short := false
	for _, f := range s.Ossian.Findings {
		if f.ID == FaultCache {
			t.Errorf("found %+v", f)
		}
		short = short || (f.ID == FaultLength && f.Warning && f.Measured == 1)
	}
	if !short {
		t.Errorf("an answer that is too short was not found: %+v", s.Ossian.Findings)
	}
}

// The table of a sweep, and the steady part of that of several runs, are what vLLM's
// compiled client (0.33.0) printed with --sweep-summary-percentiles 99.9,95,90 and for
// two runs; only the numbers were filled in here.
func TestSweepTable(t *testing.T) {
	point := func(label string, rate, output, total, ttft, tpot float64, steady *Steady) Point {
		return Point{label, &Summary{Setup: bench.Setup{Profile: bench.VLLMRust}, RequestRate: rate, OutputRate: output, TotalRate: total,
			TTFT: NewDist([]float64{ttft / 1000}), TPOT: NewDist([]float64{tpot / 1000}), Steady: steady}}
	}
	got := SweepTable("Max Concurrency", []Point{
		point("concurrency=1", 4.39, 17.55, 70.18, 0.65, 36.67, &Steady{OutputRate: 27.11}),
		point("concurrency=2", 5.31, 21.25, 84.99, 7.99, 48.10, nil),
	}, []float64{99.9, 95, 90})
	want := `=========================================================================================== Sweep Summary ============================================================================================
Max Concurrency           Req/s   Inputs/s      Tok/s  Total tok/s   SS req/s SS out tok/s P50 TTFT(ms) P50 TPOT(ms) P90 TTFT(ms) P90 TPOT(ms) P99.9 TTFT(ms) P99.9 TPOT(ms) P95 TTFT(ms) P95 TPOT(ms)
-------------------- ---------- ---------- ---------- ------------ ---------- ------------ ------------ ------------ ------------ ------------ -------------- -------------- ------------ ------------
concurrency=1              4.39          -      17.55        70.18       0.00        27.11         0.65        36.67         0.65        36.67           0.65          36.67         0.65        36.67
concurrency=2              5.31          -      21.25        84.99          -            -         7.99        48.10         7.99        48.10           7.99          48.10         7.99        48.10
======================================================================================================================================================================================================
Best throughput: 5.31 req/s at concurrency=2
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got, want := Heading("Run 1/3: max_concurrency=1", "-"), "--------------------- Run 1/3: max_concurrency=1 ---------------------\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSteadyRuns(t *testing.T) {
	runs := []Result{
		{Profile: "vllm-rs", Values: map[string]float64{"request_throughput": 1, "steady_request_throughput": 8.75, "steady_mean_ttft_ms": 20.53}},
		{Profile: "vllm-rs", Values: map[string]float64{"request_throughput": 1, "steady_request_throughput": 10.77, "steady_mean_ttft_ms": 46.09}},
	}
	want := `
======================= Steady-State Summary (2/2 runs) ========================
Metric                                    Mean        Std        Min        Max
Request throughput (req/s)                9.76       1.01       8.75      10.77
Mean TTFT (ms)                           33.31      12.78      20.53      46.09
`
	if got := RunsTable(runs); !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant within it\n%s", got, want)
	}
	for _, r := range runs {
		delete(r.Values, "steady_request_throughput")
	}
	if got := RunsTable(runs); !strings.Contains(got, "\nSteady-state: no runs had a valid window\n") {
		t.Errorf("got\n%s", got)
	}
	runs[0].Profile = "vllm"
	if got := RunsTable(runs); strings.Contains(got, "Steady") {
		t.Errorf("got\n%s", got)
	}
}

// Which part is steady can be set, and that there is none.
func TestSteadyFlags(t *testing.T) {
	r := closed(bench.VLLMRust)
	s := Summarize(r, words)
	if s.Steady == nil || s.Steady.Window.Threshold != SteadyThreshold {
		t.Fatalf("got %+v", s.Steady)
	}
	r.Setup.Steady = bench.Steady{Threshold: 0.25, Shortest: 1e-9}
	s = Summarize(r, words)
	if w := s.Steady.Window; w.Threshold != 0.25 || w.Warning != nil || s.Ossian.Steady.Window.Threshold != 0.25 {
		t.Errorf("got %+v", w)
	}
	r.Setup.Steady = bench.Steady{Off: true}
	if s = Summarize(r, words); s.Steady != nil || s.Ossian.Steady != nil {
		t.Errorf("got %+v", s.Steady)
	}
}

// A log may lack turns, or have none that make sense.
func TestTurnsOfBrokenLogs(t *testing.T) {
	r := &bench.Recording{Duration: time.Second, Setup: bench.Setup{MultiTurn: &bench.MultiTurn{Turns: 2}, Arrivals: bench.Arrivals{Rate: math.Inf(1)}}}
	for i, turn := range []int{7, 0, 3} {
		r.Samples = append(r.Samples, bench.Sample{Index: i, Turn: turn, Session: "conv-" + string(rune('0'+i/2)), Status: 200, Done: time.Second})
	}
	s := Summarize(r, nil)
	if s.Turns.Conversations != 2 || len(s.Turns.Each) != 8 || s.Turns.Completed != 0 || !strings.Contains(s.Console(), " Turn 8 (1 samples) ") {
		t.Errorf("got %+v", s.Turns)
	}
	if empty := Summarize(&bench.Recording{Setup: r.Setup}, nil); empty.Turns.Conversations != 0 || !strings.Contains(empty.Console(), "0/0") {
		t.Errorf("got %+v", empty.Turns)
	}
}
