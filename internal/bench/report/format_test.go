package report

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ossian/internal/bench"
)

// TestSpecifiedReport is the block of bench.md 1.7.
func TestSpecifiedReport(t *testing.T) {
	dist := func(mean, median, p99 float64) Dist {
		return Dist{N: 1, Mean: mean, Median: median, sorted: []float64{p99 / 1000}}
	}
	s := &Summary{Setup: bench.Setup{Tokenizer: "t", Arrivals: bench.Arrivals{Rate: 10, Concurrency: 64}, Goodput: []bench.SLO{{Metric: "ttft"}}},
		Duration: 42.03, Completed: 1000, Input: 215312, Output: 194171, RequestRate: 23.79, Goodput: 20.11, OutputRate: 4620.12,
		PeakTokens: 7484, PeakRequests: 1000, TotalRate: 9743.28, TTFT: dist(13654.59, 13063.93, 30306.72), TPOT: dist(1, 2, 3), ITL: dist(4, 5, 6)}
	want := `============ Serving Benchmark Result ============
Successful requests:                     1000      
Failed requests:                         0         
Maximum request concurrency:             64        
Request rate configured (RPS):           10.00     
Benchmark duration (s):                  42.03     
Total input tokens:                      215312    
Total generated tokens:                  194171    
Request throughput (req/s):              23.79     
Request goodput (req/s):                 20.11     
Output token throughput (tok/s):         4620.12   
Peak output token throughput (tok/s):    7484.00   
Peak concurrent requests:                1000.00   
Total token throughput (tok/s):          9743.28   
---------------Time to First Token----------------
Mean TTFT (ms):                          13654.59  
Median TTFT (ms):                        13063.93  
P99 TTFT (ms):                           30306.72  
-----Time per Output Token (excl. 1st token)------
Mean TPOT (ms):                          1.00      
Median TPOT (ms):                        2.00      
P99 TPOT (ms):                           3.00      
---------------Inter-token Latency----------------
Mean ITL (ms):                           4.00      
Median ITL (ms):                         5.00      
P99 ITL (ms):                            6.00      
==================================================
`
	if got := s.Console(); got != want {
		t.Errorf("got\n%s", got)
	}
}

func TestFileNames(t *testing.T) {
	began := time.Date(2026, 3, 9, 23, 59, 58, 0, time.UTC) // ends on the next day
	for _, c := range []struct {
		name string
		set  bench.Setup
		want string
	}{
		{"at once", bench.Setup{Backend: "openai", ModelID: "org/m", Arrivals: bench.Arrivals{Rate: math.Inf(1)}}, "openai-infqps-m-20260310-000001.json"},
		{"bound", bench.Setup{Backend: "openai", Label: "l", ModelID: "m", Arrivals: bench.Arrivals{Rate: 10, Concurrency: 4}}, "l-10.0qps-concurrency4-m-20260310-000001.json"},
		{"ramp", bench.Setup{Backend: "openai", ModelID: "m", Arrivals: bench.Arrivals{Rate: math.Inf(1), Ramp: bench.Ramp{Strategy: "linear", Start: 1, End: 5}}},
			"openai-ramp-up-linear-1qps-5qps-m-20260310-000001.json"},
		{"compiled", bench.Setup{Profile: bench.VLLMRust, Backend: "openai", ModelID: "m", Arrivals: bench.Arrivals{Rate: 10}}, "openai-10qps-m-20260310-000001.json"},
		{"lmdeploy", bench.Setup{Profile: bench.LMDeploy, Backend: "lmdeploy", Dataset: "random", Args: []string{"--random-input-len=7", "--random-output-len", "8"}}, "lmdeploy_0310_2_7_8.jsonl"},
		{"lmdeploy, other spellings", bench.Setup{Profile: bench.LMDeploy, Backend: "lmdeploy", Dataset: "random", Args: []string{"--random_input_len=7", "--random-output-len", "8", "--random-output-len=9", "--input-len", "3"}},
			"lmdeploy_0310_2_3_9.jsonl"},
		{"lmdeploy, no lengths", bench.Setup{Profile: bench.LMDeploy, Backend: "lmdeploy", Dataset: "random"}, "lmdeploy_0310_2_1024_128.jsonl"},
		{"lmdeploy sharegpt", bench.Setup{Profile: bench.LMDeploy, Backend: "lmdeploy", Dataset: "sharegpt"}, "lmdeploy_0310_2_sharegpt.csv"},
		{"sglang", bench.Setup{Profile: bench.SGLang, Backend: "sglang-oai", Dataset: "random"}, "sglang-oai_0310_2_1024_1024.jsonl"},
		{"sglang sharegpt", bench.Setup{Profile: bench.SGLang, Backend: "sglang-oai", Dataset: "sharegpt"}, "sglang-oai_0310_2_sharegpt.jsonl"},
	} {
		s := Summarize(&bench.Recording{Setup: c.set, Began: began, Duration: 3 * time.Second, Samples: make([]bench.Sample, 2)}, nil)
		if got := s.FileName(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestWriteFile: vLLM overwrites, or appends behind a newline; the others always append.
func TestWriteFile(t *testing.T) {
	for _, c := range []struct {
		p    bench.Profile
		add  bool
		want string // lines, J for JSON
	}{
		{bench.VLLM, false, "J"}, {bench.VLLM, true, "J\nJ"}, {bench.VLLMRust, true, "J\nJ"}, {bench.SGLang, false, "J\nJ\n"},
		{bench.LMDeploy, false, csvHeader + "R\r\nR\r\n"},
	} {
		s := Summarize(small(c.p, "openai"), words)
		path := filepath.Join(t.TempDir(), "a", "b.json")
		for range 2 {
			if err := s.WriteFile(path, false, c.add); err != nil {
				t.Fatal(err)
			}
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		line, err := s.JSON(false)
		if err != nil {
			t.Fatal(err)
		}
		got := strings.ReplaceAll(string(text), string(line), "J")
		got = strings.ReplaceAll(got, strings.TrimSuffix(s.csvRow(), "\r\n"), "R")
		if got != c.want {
			t.Errorf("%v, add %v: %.100q, want %q", c.p, c.add, got, c.want)
		}
	}
	s := Summarize(small(bench.VLLM, "openai"), words)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := s.WriteFile(filepath.Join(file, "x.json"), false, false); err == nil || !strings.Contains(err.Error(), "result file") {
		t.Errorf("a file as folder: %v", err)
	}
}

// TestRules: one stream, read by each profile (bench.md 0 and 1.5).
func TestRules(t *testing.T) {
	s := bench.Sample{Sent: 100 * ms, Released: 90 * ms, Status: 200, Input: 10, Asked: 9, Text: "a b c", Thought: "hm ",
		Counts: bench.Counts{Prompt: 14, Completion: 5, Cached: -1, Reasoning: -1},
		Chunks: []bench.Chunk{
			{At: 110 * ms, Kind: bench.Choices},                                  // role
			{At: 130 * ms, Kind: bench.Choices | bench.Reasoning | bench.Output}, // hm
			{At: 160 * ms, Kind: bench.Choices | bench.Text | bench.Output},      // a
			{At: 200 * ms, Kind: bench.Choices | bench.Text | bench.Output},      // b c
			{At: 210 * ms, Kind: bench.Choices},                                  // finish reason
			{At: 240 * ms, Kind: bench.Usage},
			{At: 250 * ms, Kind: bench.Done},
		}}
	for _, c := range []struct {
		p             bench.Profile
		backend       string
		ttft, latency float64 // ms
		itl           []float64
		input, output int
	}{
		{bench.VLLM, "openai", 10, 110, []float64{20, 30, 40, 10}, 14, 5},
		{bench.VLLM, "openai-chat", 30, 100, []float64{30, 40}, 14, 5},
		{bench.VLLMRust, "openai-chat", 10, 110, []float64{20, 30, 40, 10}, 10, 5},
		{bench.VLLM011, "openai", 10, 110, []float64{20, 30, 40, 10}, 10, 5},
		{bench.VLLM011, "openai-chat", 10, 140, []float64{20, 30, 40, 10}, 10, 5},
		{bench.LMDeploy, "lmdeploy", 60, 150, []float64{40}, 10, 9},
		{bench.LMDeploy, "lmdeploy-chat", 60, 150, []float64{40}, 10, 5},
		{bench.SGLang, "sglang-oai", 30, 150, []float64{30, 40}, 10, 9},
		{bench.SGLang, "sglang-oai-chat", 30, 150, []float64{30, 40}, 10, 5},
	} {
		set := &bench.Setup{Profile: c.p, Backend: c.backend, Stream: true}
		q := readRequest(set, &s, words)
		ok := q.OK && near(q.TTFT*1000, c.ttft) && near(q.Latency*1000, c.latency) && len(q.ITL) == len(c.itl) && q.Input == c.input && q.Output == c.output && near(q.Queue, 0.01)
		for i := range min(len(q.ITL), len(c.itl)) {
			ok = ok && near(q.ITL[i]*1000, c.itl[i])
		}
		if !ok {
			t.Errorf("%v %s: %+v, want %+v", c.p, c.backend, q, c)
		}
	}
}

func near(got, want float64) bool { return math.Abs(got-want) <= 1e-9*max(1, math.Abs(want)) }

// TestOutputTokens: where the server does not count.
func TestOutputTokens(t *testing.T) {
	s := stream(0, 0, ms, 3, func() time.Duration { return ms })
	s.Asked, s.Counts.Completion = 8, -1
	for _, c := range []struct {
		p     bench.Profile
		count func(string) int
		want  int
	}{
		{bench.VLLM, words, 3}, {bench.VLLM, nil, 1}, {bench.VLLMRust, words, 3}, {bench.VLLM011, words, 3}, {bench.LMDeploy, words, 8}, {bench.SGLang, words, 8},
	} {
		if q := readRequest(&bench.Setup{Profile: c.p, Backend: "openai-chat", Stream: true}, &s, c.count); q.Output != c.want {
			t.Errorf("%v: %d tokens, want %d", c.p, q.Output, c.want)
		}
	}
}

// TestSteadyState: ten requests start a second apart and run 30 s each; an eleventh runs
// from 15 to 20 s. At a threshold of 1 the window is 9 to 30 s.
func TestSteadyState(t *testing.T) {
	r := &bench.Recording{Setup: bench.Setup{Profile: bench.VLLMRust, Backend: "openai", Stream: true,
		Arrivals: bench.Arrivals{Rate: math.Inf(1), Concurrency: 10}}, Duration: 40 * time.Second}
	for i := range 11 {
		start, long := time.Duration(i)*time.Second, 30*time.Second
		if i == 10 {
			start, long = 15*time.Second, 5*time.Second
		}
		s := stream(i, start, time.Second, 2, func() time.Duration { return long - time.Second })
		shift(&s, start-s.Sent)
		r.Samples = append(r.Samples, s)
	}
	s := Summarize(r, words)
	st := s.findSteady(1, 0, nil)
	if st == nil {
		t.Fatal("no window")
	}
	w := st.Window
	if w.Start != 9 || w.End != 30 || w.Duration != 21 || w.ThresholdAbs != 10 || w.Peak != 11 || w.Started != 2 || w.Completed != 1 || w.Total != 11 || w.Warning != nil {
		t.Errorf("%+v", w)
	}
	// first tokens at 9, 10 and 16 s, a last one at 20 s; those from 30 s on are outside
	if !near(st.OutputRate, 4.0/21) || !near(st.InputRate, 200.0/21) || !near(st.RequestRate, 1.0/21) || !near(st.MeanTTFT, 1000) || !near(st.P99TPOT, 28750) {
		t.Errorf("%+v", st)
	}
	if st := s.findSteady(1, 25, nil); st == nil || st.Window.Warning == nil || !strings.Contains(*st.Window.Warning, "21.0s (52.5% of run)") {
		t.Errorf("no warning: %+v", st)
	}
	s.Setup.Arrivals.Concurrency = 12
	if s.findSteady(1, 0, nil) != nil {
		t.Error("a window that never came to the threshold")
	}
	s.Setup.Arrivals = bench.Arrivals{Rate: 5, Concurrency: 10}
	if s.findSteady(1, 0, nil) != nil {
		t.Error("a window at a finite rate")
	}
}

// TestPure: the same recording gives the same numbers, and stays as it is.
func TestPure(t *testing.T) {
	a, b := small(bench.VLLM, "openai"), small(bench.VLLM, "openai")
	var lines [2]string
	for i := range lines {
		text, err := Summarize(a, words).JSON(true)
		if err != nil {
			t.Fatal(err)
		}
		lines[i] = string(text)
	}
	text, err := Summarize(b, words).JSON(true)
	if err != nil || lines[0] != lines[1] || lines[0] != string(text) {
		t.Error("two summaries of one recording differ")
	}
}

// TestPeaks: a request that starts when another ends does not overlap it, but touches the
// same second.
func TestPeaks(t *testing.T) {
	q := []Request{{OK: true, Start: 0, Latency: 1.5}, {OK: true, Start: 1.5, Latency: 1}, {OK: true, Start: 2, Latency: 3}, {Start: 0, Latency: 9}}
	if exact, seconds := peakExact(q), peakSeconds(q); exact != 2 || seconds != 2 {
		t.Errorf("exact %d, by seconds %d; want 2 and 2", exact, seconds)
	}
	if exact, seconds := peakExact(q[:2]), peakSeconds(q[:2]); exact != 1 || seconds != 2 {
		t.Errorf("exact %d, by seconds %d; want 1 and 2", exact, seconds)
	}
}

func TestSpecDecode(t *testing.T) {
	p := func(position string) string {
		return specPrefix + `num_accepted_tokens_per_pos_total{position="` + position + `",e="0"}`
	}
	before := map[string]float64{specPrefix + "num_drafts_total": 5, specPrefix + "num_draft_tokens_total": 10, specPrefix + "num_accepted_tokens_total": 4, p("0"): 3, p("7"): 2}
	after := map[string]float64{specPrefix + "num_drafts_total": 15, specPrefix + "num_draft_tokens_total": 30, specPrefix + "num_accepted_tokens_total": 9, p("0"): 8}
	s := specDecode(before, after)
	if s == nil || s.Drafts != 10 || s.Rate != 25 || s.Length != 1.5 || len(s.PerPosition) != 2 || s.PerPosition[0] != 0.5 || s.PerPosition[1] != 0 {
		t.Errorf("%+v", s) // a position that went missing has not changed
	}
	if specDecode(before, before) != nil || specDecode(nil, after) != nil || specDecode(before, nil) != nil {
		t.Error("speculation without drafts or counters")
	}
}

// TestPrefixCacheCounters: without the counters before the run nobody knows its hits.
func TestPrefixCacheCounters(t *testing.T) {
	after := map[string]float64{"vllm:prefix_cache_queries_total": 500, "vllm:prefix_cache_hits_total": 400}
	if hits, queries, ok := prefixCache(nil, after); ok || hits != 0 || queries != 0 {
		t.Errorf("nothing before: %v of %v hits, %v", hits, queries, ok)
	}
	if hits, queries, ok := prefixCache(map[string]float64{}, after); !ok || hits != 400 || queries != 500 {
		t.Errorf("a new counter: %v of %v hits, %v", hits, queries, ok)
	}
}

// TestBatchesOfSome: requests without a TPOT are in no stretch of it.
func TestBatchesOfSome(t *testing.T) {
	q := make([]Request, 120)
	for i := range q {
		q[i] = Request{OK: true, Start: float64(i), TTFT: 0.1, Latency: 0.5, Output: 1}
		if i >= 60 {
			q[i].Output, q[i].ITL = 3, []float64{0.2, 0.2}
		}
	}
	b := batches(q)
	if got := b["mean_tpot_ms"]; len(got) != 6 || slices.Min(got) < 199 || len(b["mean_ttft_ms"]) != 12 {
		t.Errorf("mean TPOT of stretches %v", got)
	}
}

// TestBatches: how many stretches a run has for each statistic.
func TestBatches(t *testing.T) {
	for _, c := range []struct{ n, means, tails, rates int }{{49, 0, 0, 0}, {50, 5, 0, 0}, {199, 19, 0, 0}, {200, 20, 0, 20}, {500, 30, 5, 20}, {5000, 30, 30, 20}} {
		q := make([]Request, c.n)
		for i := range q {
			q[i] = Request{OK: true, Start: float64(i), TTFT: 0.1, Latency: 0.5, Output: 3, ITL: []float64{0.2, 0.2}}
		}
		b := batches(q)
		if len(b["mean_ttft_ms"]) != c.means || len(b["p99_e2el_ms"]) != c.tails || len(b["output_throughput"]) != c.rates {
			t.Errorf("%d requests: %d means, %d tails, %d rates; want %+v", c.n, len(b["mean_ttft_ms"]), len(b["p99_e2el_ms"]), len(b["output_throughput"]), c)
		}
		sum := 0.0
		for _, rate := range b["output_throughput"] {
			sum += rate * (float64(c.n) - 0.5) / 20
		}
		if c.rates > 0 && !near(sum, float64(3*c.n)) {
			t.Errorf("%d requests: %v tokens in the windows, want %d", c.n, sum, 3*c.n)
		}
	}
}

// What a server says cannot steer the terminal or write rows of the report.
func TestErrorsOnOneLine(t *testing.T) {
	s := &Summary{Failed: 1, Requests: make([]Request, 1)}
	s.Requests[0].Err = "no\x1b]52;c;aGk=\a\nSuccessful requests:   9 é"
	var p consolePage
	if s.failures(&p); !strings.HasSuffix(p.String(), "Error 0: no ]52;c;aGk=  Successful requests:   9 é\n") {
		t.Errorf("%q", p.String())
	}
}
