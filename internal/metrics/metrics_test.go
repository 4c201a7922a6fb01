package metrics

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

var update = flag.Bool("update", false, "rewrite testdata/metrics.golden")

func testModel(s *Server) *Model {
	return s.Model(ModelConfig{Name: "tiny", MaxLen: 4096, BlockSize: 16, Blocks: 100, ISA: "avx2", Threads: 3, CacheDType: "bf16", PrefixCaching: true, Memory: 0.9,
		Settings: map[string]string{"max_num_seqs": "4", "max_num_seqs_auto": "256", "engine": "another"},
		Snapshot: func() Snapshot {
			return Snapshot{Running: 2, Waiting: 3, WaitingTokens: 99, Groups: []Group{{Free: 50, Cached: 25, Held: 25}, {Free: 5, Held: 5}},
				Accepted: 12, Prompt: 100, Cached: 40, Generation: 50, PrefixQueries: 100, PrefixHits: 40, Recomputed: 7, Preemptions: 1, Steps: 9, Starts: 1,
				Guesses: Guesses{Most: 2, Rows: 5, AcceptedAt: []uint64{3, 1, 0}, StepCosts: map[int]float64{2: 1.25},
					Sources: []GuessedFrom{{Source: "index", Accepted: 3, Refused: 2, Unchecked: 1}, {Source: "store", Accepted: 1, Refused: 1}}}}
		}})
}

// describe lists what dashboards depend on: names, types, labels, help, buckets.
func describe(t *testing.T, s *Server) string {
	t.Helper()
	families, err := s.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "process_") {
			continue // the client's own, different between systems
		}
		fmt.Fprintf(&b, "%s %s # %s\n", f.GetName(), strings.ToLower(f.GetType().String()), f.GetHelp())
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			fmt.Fprintf(&b, "\t{%s}%s\n", strings.Join(labels, ", "), buckets(m))
		}
	}
	return b.String()
}

func buckets(m *dto.Metric) string {
	if m.Histogram == nil {
		return ""
	}
	var b strings.Builder
	for _, k := range m.Histogram.Bucket {
		fmt.Fprintf(&b, " %v", k.GetUpperBound())
	}
	return b.String()
}

// Names and labels are stable.
func TestOPS5Golden(t *testing.T) {
	for _, hidden := range []bool{false, true} {
		s := New(Config{Version: "test", Hidden: hidden})
		testModel(s)
		s.Request("/v1/models", "GET", 200, time.Millisecond)
		s.Stored(func() Store { return Store{} })
		s.ToolCall("browser.search", "ok", time.Millisecond)
		s.ToolServers(func() []ToolServer {
			return []ToolServer{{Name: "browser", Kind: "browser", Works: true}, {Name: "wiki", Kind: "mcp"}, {Name: "wiki", Kind: "mcp"}, {Kind: "mcp"}}
		})
		file := "testdata/metrics.golden"
		if hidden {
			file = "testdata/hidden.golden"
		}
		got := "# Made by: go test ./internal/metrics -run TestOPS5Golden -update\n# A change here breaks dashboards, autoscalers and routers.\n" + describe(t, s)
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
		for i := range max(len(gotLines), len(wantLines)) {
			if i >= len(gotLines) || i >= len(wantLines) || gotLines[i] != wantLines[i] {
				t.Fatalf("%s differs from line %d on:\ngot  %q\nwant %q", file, i+1, gotLines[min(i, len(gotLines)-1)], wantLines[min(i, len(wantLines)-1)])
			}
		}
	}
}

func scrape(t *testing.T, s *Server, accept string) string {
	t.Helper()
	r := httptest.NewRequest("GET", "/metrics", nil)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	body, err := io.ReadAll(w.Body)
	if err != nil || w.Code != http.StatusOK {
		t.Fatalf("status %d, error %v", w.Code, err)
	}
	return string(body)
}

func TestValues(t *testing.T) {
	s := New(Config{Version: "1.2", Revision: "abc", Prefix: "vllm"})
	m := testModel(s)
	base := time.Now()
	at := func(ms int) time.Time { return base.Add(time.Duration(ms) * time.Millisecond) }
	m.Ended(Sequence{Finish: FinishStop, Prompt: 100, Cached: 40, Preemptions: 2})
	m.Finished(&Request{Received: at(0), Queued: at(1), Scheduled: at(501), First: at(1001), Last: at(3001), Generated: 11, Largest: 11, Reasoning: 4, MaxTokens: 20, N: 1})
	m.Ended(Sequence{Finish: FinishAbort}) // it got no token: neither counts its prompt
	m.Finished(&Request{Received: at(0), Queued: at(0)})
	m.FirstToken(30 * time.Millisecond)
	m.InterToken(-time.Second) // clocks of different goroutines: never below 0
	m.Step(300, 2*time.Millisecond)
	m.Rejected(RejectQueue)
	m.Rejected("made up")
	m.Salvaged("S3")
	s.Request("/v1/models", "BREW", 799, time.Second)
	s.Refused("messages")
	s.Refused("made up")
	s.StreamCut(CutStalled)
	s.Ready(true)
	s.Connections(3)
	s.Connections(-1)
	s.Bodies(10)
	s.Replies(7)
	s.Stored(func() Store { return Store{Records: 3, Bytes: 400, Damaged: 2, Lost: 1} })
	text := scrape(t, s, "text/plain")
	l := `{engine="0",model_name="tiny"} `
	for _, want := range []string{
		"ossian_stored_responses 3",
		"ossian_stored_bytes 400",
		"vllm:num_requests_running" + l + "2",
		"vllm:num_requests_waiting" + l + "3",
		"vllm:kv_cache_usage_perc" + l + "0.5", // the fuller group
		"vllm:prefix_cache_hits_total" + l + "40",
		"vllm:num_preemptions_total" + l + "1",
		`vllm:prompt_tokens_by_source_total{engine="0",model_name="tiny",source="local_compute"} 60`,
		`vllm:request_success_total{engine="0",finished_reason="stop",model_name="tiny"} 1`,
		`vllm:request_success_total{engine="0",finished_reason="abort",model_name="tiny"} 1`,
		`vllm:request_success_total{engine="0",finished_reason="error",model_name="tiny"} 0`,
		`vllm:admission_rejections_total{engine="0",model_name="tiny",reason="queue_full"} 1`,
		`vllm:cache_config_info{block_size="16",cache_dtype="bf16",enable_prefix_caching="True",engine="0",gpu_memory_utilization="0.9",model_name="tiny",num_gpu_blocks="100"} 1`,
		"vllm:e2e_request_latency_seconds_sum" + l + "3.001",
		"vllm:e2e_request_latency_seconds_count" + l + "1",
		"vllm:request_queue_time_seconds_sum" + l + "0.5",
		"vllm:request_prefill_time_seconds_sum" + l + "0.5",
		"vllm:request_decode_time_seconds_sum" + l + "2",
		"vllm:request_inference_time_seconds_sum" + l + "2.5",
		"vllm:request_time_per_output_token_seconds_sum" + l + "0.2",
		"vllm:request_prompt_tokens_sum" + l + "100",
		"vllm:request_prefill_kv_computed_tokens_sum" + l + "60",
		"vllm:request_params_max_tokens_count" + l + "1",
		"vllm:time_to_first_token_seconds_sum" + l + "0.03",
		"vllm:inter_token_latency_seconds_sum" + l + "0",
		"vllm:request_num_preemptions_sum" + l + "2",
		"vllm:request_num_preemptions_count" + l + "2",
		`vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="capacity"} 3`,
		`vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="deferred"} 0`,
		`vllm:prompt_tokens_cached_by_source_total{engine="0",model_name="tiny",source="device"} 40`,
		`vllm:iteration_tokens_total_bucket{engine="0",model_name="tiny",le="512"} 1`,
		`vllm:iteration_tokens_total_bucket{engine="0",model_name="tiny",le="256"} 0`,
		`ossian_kv_blocks{engine="0",group="0",model_name="tiny",state="cached"} 25`,
		"ossian_reasoning_tokens_total" + l + "4",
		"vllm:spec_decode_num_drafts_total" + l + "5",
		"vllm:spec_decode_num_draft_tokens_total" + l + "8",
		"vllm:spec_decode_num_accepted_tokens_total" + l + "4",
		`vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="tiny",position="1"} 1`,
		`ossian_guesses_total{engine="0",model_name="tiny",result="unchecked",source="index"} 1`,
		`ossian_speculation_cost_ratio{engine="0",model_name="tiny",tokens="2"} 1.25`,
		`ossian_parse_salvaged_total{engine="0",model_name="tiny",rule="S3"} 1`,
		`http_requests_total{handler="/v1/models",method="other",status="5xx"} 1`,
		`ossian_limit_refusals_total{limit="messages"} 1`,
		`ossian_streams_cut_total{reason="write_stall"} 1`,
		"ossian_ready 1", "ossian_connections 2", "ossian_bodies_in_flight_bytes 10", "ossian_replies_in_flight_bytes 7",
		`ossian_build_info{revision="abc",version="1.2"} 1`,
		`ossian_cpu_info{engine="0",isa="avx2",model_name="tiny",threads="3"} 1`,
		`ossian_config_info{engine="0",max_num_seqs="4",max_num_seqs_auto="256",model_name="tiny"} 1`, // the model's labels stay
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("missing: %s", want)
		}
	}
	if strings.Contains(text, "made up") {
		t.Error("an unknown reason became a label")
	}
	if open := scrape(t, s, "application/openmetrics-text"); !strings.HasSuffix(open, "# EOF\n") {
		t.Error("no OpenMetrics on request")
	}
}

// Guesses of an engine that has ended count on, and without any there are no series of them.
func TestGuesses(t *testing.T) {
	one := func(accepted uint64) Snapshot {
		return Snapshot{Guesses: Guesses{Most: 1, Rows: accepted, AcceptedAt: []uint64{accepted}, Sources: []GuessedFrom{{Source: "index", Accepted: accepted}}}}
	}
	s := New(Config{})
	cfg := ModelConfig{Name: "m", MaxLen: 64, BlockSize: 16, Snapshot: func() Snapshot { return one(3) }}
	model := s.Model(cfg)
	model.Rest()
	const want = `vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} `
	if text := scrape(t, s, ""); !strings.Contains(text, want+"3\n") {
		t.Errorf("asleep, want %s3 in\n%s", want, text)
	}
	cfg.Snapshot = func() Snapshot { return one(4) }
	s.Model(cfg)
	if text := scrape(t, s, ""); !strings.Contains(text, want+"7\n") || !strings.Contains(text, `position="0"} 7`) {
		t.Errorf("loaded again, want %s7 in\n%s", want, text)
	}
	other := New(Config{})
	other.Model(ModelConfig{Name: "m", MaxLen: 64, BlockSize: 16, Snapshot: func() Snapshot { return Snapshot{} }})
	if text := scrape(t, other, ""); strings.Contains(text, "spec_decode") || strings.Contains(text, "guesses") {
		t.Errorf("series of guesses without any:\n%s", text)
	}
}

// At most 2,000 series, with every route, method and status seen.
func TestOPS5Series(t *testing.T) {
	s := New(Config{Hidden: true})
	testModel(s)
	for route := range 14 {
		for _, method := range []string{"GET", "POST", "PUT"} {
			for _, status := range []int{200, 404, 500} {
				s.Request(fmt.Sprintf("/route/%d", route), method, status, time.Second)
			}
		}
	}
	n := 0
	for line := range strings.Lines(scrape(t, s, "text/plain")) {
		if !strings.HasPrefix(line, "#") {
			n++
		}
	}
	if n > 2000 || n < 500 {
		t.Errorf("%d series", n)
	}
	t.Logf("OPS-5: %d series, at most 2,000", n)
}

func TestBuckets(t *testing.T) {
	if got, want := oneTwoFive(1000), []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := oneTwoFive(0), []float64{1}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := powersOfTwo(8, 16384); len(got) != 13 || got[12] != 16384 || got[0] != 1 {
		t.Errorf("got %v", got)
	}
}

func TestObserveDoesNotAllocate(t *testing.T) {
	m := testModel(New(Config{}))
	r := Request{Received: time.Now(), Last: time.Now()}
	if n := testing.AllocsPerRun(100, func() {
		m.InterToken(time.Millisecond)
		m.Step(3, time.Millisecond)
		m.Finished(&r)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestConcurrent(t *testing.T) {
	s := New(Config{})
	m := testModel(s)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				m.InterToken(time.Millisecond)
				m.Ended(Sequence{Finish: FinishLength})
				s.Request("/x", "GET", 200, 0)
			}
		})
	}
	for range 5 {
		scrape(t, s, "")
	}
	wg.Wait()
	if text := scrape(t, s, ""); !strings.Contains(text, `finished_reason="length",model_name="tiny"} 800`) {
		t.Error("counts are lost")
	}
}

func BenchmarkInterToken(b *testing.B) {
	m := testModel(New(Config{}))
	for b.Loop() {
		m.InterToken(20 * time.Millisecond)
	}
}

func BenchmarkScrape(b *testing.B) {
	s := New(Config{})
	testModel(s)
	for b.Loop() {
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	}
}

var _ prometheus.Collector = (*collector)(nil)

// TestRest: a model that goes out of memory and comes back counts on; what there is of it now, and
// how it was set up, is told only while it is there.
func TestRest(t *testing.T) {
	s, line := New(Config{}), 0
	s.Announce("m", 100, func() int { return line })
	load := func(threads, steps int) *Model {
		return s.Model(ModelConfig{Name: "m", MaxLen: 100, Threads: threads, Line: func() int { return line },
			Snapshot: func() Snapshot {
				return Snapshot{Running: 2, Waiting: 3, Steps: uint64(steps), Groups: []Group{{Free: 7}}}
			}})
	}
	expect := func(when string, loads, steps, running, waiting int, there bool) {
		t.Helper()
		text := scrape(t, s, "")
		for name, want := range map[string]int{"ossian_model_loads_total": loads, "ossian_steps_total": steps, "vllm:num_requests_running": running, "vllm:num_requests_waiting": waiting} {
			if line := fmt.Sprintf("\n%s{engine=\"0\",model_name=\"m\"} %d\n", name, want); !strings.Contains(text, line) {
				t.Errorf("%s: no line %q", when, line)
			}
		}
		for _, name := range []string{"\nossian_config_info{", "\nossian_cpu_info{", "\nvllm:cache_config_info{", "\nossian_kv_blocks{"} {
			if strings.Contains(text, name) != there {
				t.Errorf("%s: %q is there: %v", when, name, !there)
			}
		}
	}
	expect("before", 0, 0, 0, 0, false)
	m := load(1, 5)
	m.Ended(Sequence{Finish: FinishStop})
	expect("loaded", 1, 5, 2, 3, true)
	m.Rest()
	m.Rest()
	line = 4
	expect("gone", 1, 5, 0, 4, false)
	if text := scrape(t, s, ""); !strings.Contains(text, `reason="capacity"} 0`) || !strings.Contains(text, `reason="deferred"} 4`) {
		t.Error("who waits for the model to be loaded is not told of as deferred")
	}
	if again := load(2, 10); again != m {
		t.Error("the model has other metrics")
	}
	m.Ended(Sequence{Finish: FinishStop})
	expect("back", 2, 15, 2, 7, true)
	if text := scrape(t, s, ""); !strings.Contains(text, `finished_reason="stop",model_name="m"} 2`) || !strings.Contains(text, `threads="2"} 1`) {
		t.Errorf("what was counted or set up is not that of both times:\n%s", text)
	}
}
