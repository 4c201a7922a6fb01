package report

import (
	"fmt"
	"math"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"ossian/internal/bench"
	"ossian/internal/bench/scripted"
	"ossian/internal/soak"
)

// measured is a run of n queries of five tokens against a server that plays scripts.
func measured(t *testing.T, scripts []scripted.Script, arrivals bench.Arrivals, n int) *Summary {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, err := scripted.Serve(t.Context(), l, scripted.Options{Scripts: scripts})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	w := make(bench.Workload, n)
	for i := range w {
		w[i].Prompt, w[i].Input, w[i].Output, w[i].ID = "a prompt", 8, 5, strconv.Itoa(i)
	}
	setup := bench.Setup{Backend: "openai", Dialect: "vllm", URL: server.URL() + "/v1/completions", Model: "scripted", Tokenizer: "words", Stream: true, Arrivals: arrivals}
	target, err := bench.NewHTTP(bench.HTTPConfig{Setup: &setup, IDPrefix: "ben-"})
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	rec, err := bench.Run(t.Context(), target, w, bench.Options{Setup: setup})
	if err != nil {
		t.Fatal(err)
	}
	return Summarize(rec, words)
}

// TestBEN3Injected: of failures that a server is told to produce, one in ten requests,
// every one is reported as what it is, and none enters a time.
func TestBEN3Injected(t *testing.T) {
	kinds := []scripted.Fault{
		{Kind: scripted.Status, Status: 503}, {Kind: scripted.Refuse}, // nothing comes
		{Kind: scripted.Reset, Chunk: 2}, {Kind: scripted.Cut, Chunk: 2}, {Kind: scripted.Failure, Chunk: 2}, {Kind: scripted.Garbage, Chunk: 2}, // broken off
		{Kind: scripted.Empty}, {Kind: scripted.Nothing}, // no token
	}
	scripts := make([]scripted.Script, 10*len(kinds))
	for i := range scripts {
		scripts[i] = scripted.Script{TTFT: 5 * time.Millisecond, Gap: 2 * time.Millisecond}
		if i%10 == 9 {
			scripts[i].Fault = kinds[i/10]
		}
	}
	n := soak.Cases(t, 2, 125) * len(scripts)
	each := n / len(scripts)
	s := measured(t, scripts, bench.Arrivals{Rate: math.Inf(1), Burstiness: 1, Concurrency: 100}, n)
	o := s.Ossian.Outcomes
	if o.Output != n-8*each || o.Refused != 2*each || o.Aborted != 4*each || o.Empty != 2*each || o.Causes["HTTP 503"] != each {
		t.Errorf("%d of each fault in %d requests: %+v", each, n, o)
	}
	// To vLLM an empty text is a token, and an answer without an event a failure.
	if s.Completed != n-7*each || s.Failed != 7*each || s.TTFT.N != s.Completed || s.Ossian.FirstToken.N != o.Output || s.Ossian.OpenLoop.E2EL.N != o.Output {
		t.Errorf("completed %d, failed %d, times of %d and %d", s.Completed, s.Failed, s.TTFT.N, s.Ossian.FirstToken.N)
	}
	t.Logf("BEN-3: %d requests, %d with 8 kinds of fault: %d refused, %d broken off, %d empty, 0 otherwise", n, 8*each, o.Refused, o.Aborted, o.Empty)
}

// TestBEN2SameCells: two runs of the same differ by less than 2 % in the median, and
// no comparison of them claims a difference. Times count on a quiet machine only.
func TestBEN2SameCells(t *testing.T) {
	n := soak.Cases(t, 20, 2000)
	script := []scripted.Script{{TTFT: 50 * time.Millisecond, Gap: 10 * time.Millisecond}}
	var cells [2]Result
	for i := range cells {
		s := measured(t, script, bench.Arrivals{Rate: 100, Burstiness: math.Inf(1)}, n)
		if s.Completed != n || s.Ossian.Outcomes.Output != n {
			t.Fatalf("%d of %d requests succeeded", s.Completed, n)
		}
		var err error
		if cells[i], err = s.Result(fmt.Sprint("run ", i+1)); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Compare(cells[:1], cells[1:])
	if err != nil {
		t.Fatal(err)
	}
	var worst Row
	for _, r := range c.Rows {
		if r.Key == "median_ttft_ms" || r.Key == "median_itl_ms" || r.Key == "median_tpot_ms" || r.Key == "request_throughput" {
			if math.Abs(r.Percent) >= math.Abs(worst.Percent) {
				worst = r
			}
		}
	}
	t.Logf("BEN-2: two runs of %d requests differ by at most %.2f %% (%s)", n, math.Abs(worst.Percent), worst.Label)
	if worst.Key == "" {
		t.Errorf("no median is compared:\n%s", c)
	}
	if better, worse := claims(c); os.Getenv(soak.Env) != "" && (math.Abs(worst.Percent) >= 2 || better+worse > 0) {
		t.Errorf("runs of the same differ:\n%s", c)
	}
}
