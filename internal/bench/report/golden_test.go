package report

import (
	"encoding/json"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"ossian/internal/bench"
	"ossian/internal/bench/resultfile"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// small is a run with everything in it: failures of each kind, an empty output, an
// output of one token, chunks with several tokens, reasoning, a server that does not
// always count, goodput, probes, a ramp, speculative decoding, a bound on concurrency.
func small(p bench.Profile, backend string) *bench.Recording {
	r := &bench.Recording{
		Setup: bench.Setup{Profile: p, Backend: backend, Dialect: "vllm", URL: "http://127.0.0.1:8000", Model: "m", ModelID: "org/m",
			Tokenizer: "words", Dataset: "random", Hash: "00ff", Seed: 3, Stream: true, Percentiles: []float64{50, 99, 99.9},
			Metrics:  []string{"ttft", "tpot", "itl", "e2el", "client_queue_time", "e2el_including_client_queue"},
			Arrivals: bench.Arrivals{Rate: 10.5, Burstiness: 1, Concurrency: 12, Ramp: bench.Ramp{Strategy: "linear", Start: 1, End: 12}},
			Goodput:  []bench.SLO{{Metric: "ttft", Limit: 90 * ms}, {Metric: "tpot", Limit: 30 * ms}, {Metric: "e2el", Limit: 900 * ms}},
			Metadata: []bench.Pair{{Key: "gpu", Value: "H\u00fc\u20ac\U0001F600"}, {Key: "label", Value: "mine"}},
			Args:     []string{"--random-input-len", "100", "--random-output-len=40", "--sharegpt-output-len", "9", "--random-range-ratio", "1"}},
		Began: time.Date(2026, 11, 21, 14, 3, 5, 0, time.UTC),
		Before: map[string]float64{`vllm:spec_decode_num_drafts_total{e="0"}`: 10, `vllm:spec_decode_num_draft_tokens_total{e="0"}`: 30,
			`vllm:spec_decode_num_accepted_tokens_total{e="0"}`: 20, `vllm:spec_decode_num_accepted_tokens_per_pos_total{e="0",position="0"}`: 9},
		After: map[string]float64{`vllm:spec_decode_num_drafts_total{e="0"}`: 90, `vllm:spec_decode_num_drafts_total{e="1"}`: 20,
			`vllm:spec_decode_num_draft_tokens_total{e="0"}`: 330, `vllm:spec_decode_num_accepted_tokens_total{e="0"}`: 217,
			`vllm:spec_decode_num_accepted_tokens_per_pos_total{e="0",position="0"}`:  99,
			`vllm:spec_decode_num_accepted_tokens_per_pos_total{e="0",position="10"}`: 7,
			`vllm:spec_decode_num_accepted_tokens_per_pos_total{e="0",position="2"}`:  50,
			`vllm:prefix_cache_queries_total{e="0"}`:                                  4000, `vllm:prefix_cache_hits_total{e="0"}`: 30},
		Client: bench.Client{CPU: 90 * ms, MaxPause: ms / 8, Threads: 2},
		Probes: []bench.Probe{{Sent: 10 * ms, Done: 31 * ms}, {Sent: 500 * ms, Done: 522 * ms}, {Sent: 900 * ms, Done: 1000 * ms, Err: "EOF"},
			{Sent: 1500 * ms, Done: 1519 * ms}},
	}
	r.RateSteps = []bench.RateStep{{Rate: 1, At: r.Began}, {Rate: 2, At: r.Began.Add(1500*time.Millisecond + 7*time.Microsecond)}}
	g := rand.New(rand.NewPCG(21, 22))
	micro := func(n int) time.Duration { return time.Duration(g.IntN(n)) * time.Microsecond }
	for i := range 60 {
		s := stream(i, time.Duration(i)*60*ms+micro(50000), 30*ms+micro(90000), 1+g.IntN(40), func() time.Duration { return 10*ms + micro(30000) })
		shift(&s, micro(3000))
		s.Released -= micro(1000)
		s.Input = 90 + g.IntN(20)
		s.Asked += g.IntN(3)
		first := bench.Chunk{At: s.Chunks[0].At - 5*ms, Lag: -1, Tokens: -1, Kind: bench.Choices}
		s.Chunks = append([]bench.Chunk{first}, s.Chunks...)
		for k := range s.Chunks {
			if i%4 == 1 && k > 0 && k < 4 && s.Chunks[k].Kind&bench.Text != 0 {
				s.Chunks[k].Kind = bench.Choices | bench.Reasoning | bench.Output
			}
		}
		switch i % 13 {
		case 2:
			s.Counts = bench.Counts{Prompt: -1, Completion: -1, Cached: -1, Reasoning: -1}
		case 5:
			fail(&s, 0, 503, "Service Unavailable")
		case 7:
			fail(&s, 1+len(s.Chunks)/2, 200, "unexpected EOF")
		case 9: // usage comes late
			n := len(s.Chunks)
			s.Chunks[n-2].At += 12 * ms
			s.Chunks[n-1].At += 13 * ms
			s.Done += 13 * ms
		case 11:
			n := len(s.Chunks)
			s.Chunks = append(s.Chunks[:1:1], s.Chunks[n-2:]...)
			s.Text, s.Counts.Completion = "", 1
		}
		r.Samples = append(r.Samples, s)
		r.Duration = max(r.Duration, s.Done)
	}
	return r
}

// TestPython compares every number of every profile with what numpy makes of the same
// recording by the formulas of bench.md (testdata/origin.py, written apart from this code).
func TestPython(t *testing.T) {
	recorded := small(bench.VLLM, "openai")
	text, err := json.Marshal(map[string]any{"Duration": recorded.Duration, "Samples": recorded.Samples, "Probes": recorded.Probes, "Goodput": recorded.Setup.Goodput})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "testdata/small.json", string(text)+"\n")
	text, err = os.ReadFile("testdata/numpy.json")
	if err != nil {
		t.Fatalf("%v (python origin.py < small.json > numpy.json)", err)
	}
	var want map[string]map[string]any
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	for _, p := range profiles {
		for _, backend := range []string{"openai", "openai-chat"} {
			name := p.String() + " " + backend
			t.Run(name, func(t *testing.T) {
				s := Summarize(small(p, backend), words)
				line, err := s.JSON(true)
				if err != nil {
					t.Fatal(err)
				}
				var got map[string]any
				if err := json.Unmarshal(resultfile.PlainJSON(line), &got); err != nil {
					t.Fatal(err)
				}
				if len(want[name]) < 20 {
					t.Fatalf("numpy has %d numbers", len(want[name]))
				}
				for key, v := range want[name] {
					if where := differ(got[key], v); where != "" {
						t.Errorf("%s%s", key, where)
					}
				}
			})
		}
	}
}

// differ says where two JSON values differ by more than 1e-9.
func differ(got, want any) string {
	switch want := want.(type) {
	case float64:
		g, ok := got.(float64)
		if !ok || math.Abs(g-want) > 1e-9*max(1, math.Abs(want)) {
			return ": got " + show(got) + ", want " + show(want)
		}
		return ""
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(want) {
			return ": got " + show(got) + ", want " + show(want)
		}
		for i := range want {
			if where := differ(g[i], want[i]); where != "" {
				return "[" + show(i) + "]" + where
			}
		}
		return ""
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return ": got " + show(got) + ", want an object"
		}
		for key := range want {
			if where := differ(g[key], want[key]); where != "" {
				return "." + key + where
			}
		}
		return ""
	}
	if !reflect.DeepEqual(got, want) {
		return ": got " + show(got) + ", want " + show(want)
	}
	return ""
}

func show(v any) string {
	text, _ := json.Marshal(v)
	if len(text) > 80 {
		return string(text[:80]) + "…"
	}
	return string(text)
}

// golden compares with a file; -update rewrites it.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		g, w := strings.Split(got, "\n"), strings.Split(string(want), "\n")
		for i := range max(len(g), len(w)) {
			if i >= len(g) || i >= len(w) || g[i] != w[i] {
				line := func(l []string) string {
					if i < len(l) {
						return l[i]
					}
					return "(end)"
				}
				t.Fatalf("%s, line %d:\ngot  %.300q\nwant %.300q", path, i+1, line(g), line(w))
			}
		}
	}
}

// TestConsoles holds every console report, with all optional rows, and without.
func TestConsoles(t *testing.T) {
	for _, p := range profiles {
		for _, backend := range []string{"openai", "openai-chat"} {
			s := Summarize(small(p, backend), words)
			golden(t, filepath.Join("testdata/console", p.String()+"_"+backend+".txt"), s.Console()+s.OssianConsole())
		}
		r := closed(p)
		r.Setup.Metrics, r.Setup.Percentiles = nil, nil
		if p != bench.LMDeploy && p != bench.SGLang {
			r.Setup.Tokenizer = ""
		}
		s := Summarize(r, nil)
		golden(t, filepath.Join("testdata/console", p.String()+"_plain.txt"), s.Console()+s.OssianConsole())
	}
}
