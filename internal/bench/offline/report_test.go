package offline

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"ossian/internal/engine"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// fixed is what is below vLLM's figures, with a figure in every line.
func fixed() Extension {
	return Extension{
		Environment: Environment{Version: "v1.2.3", Go: "go1.26", System: "linux/amd64", Processor: "EPYC", Cores: 4, Threads: 2, Device: "cpu/avx512",
			Model: "org/model", DTypes: []string{"MXFP4", "BF16"}, KVCache: "BF16", MaxLen: 4096, MaxSeqs: 256, MaxTokens: 512, PrefixCaching: true, Args: []string{"--n", "2"}},
		Workload: Workload{Dataset: "random", Hash: "00ff", Seed: 3, Temp: 1, Prompts: 1000, N: 2, Batches: 1},
		Prompt:   128000, Cached: 640, Output: 256000, OutputRate: 4000, Preemptions: 3,
		Steps: Steps{Prefill: Phase{Steps: 2, Seconds: 0.5, Prompt: 1024, PromptRate: 2048},
			Mixed:  Phase{Steps: 400, Seconds: 40, Prompt: 126336, Decode: 60000, PromptRate: 3158.4, DecodeRate: 1500},
			Decode: Phase{Steps: 900, Seconds: 23.5, Decode: 194000, DecodeRate: 8255.3191}},
		TTFT: Dist{N: 2000, Mean: 20000.25, Median: 19000, P90: 33000, P99: 35000.126, Max: 35001},
		TPOT: Dist{N: 1999, Mean: 11.5, Median: 11, P90: 13, P99: 15, Max: 16.004},
		E2EL: Dist{N: 2000, Mean: 21000, Median: 20500, P90: 40000, P99: 63000, Max: 64000},
	}
}

// vLLM's lines and the keys of its JSON are those of bench.md 3.1 and 3.2. The files are
// written by this test with -update.
func TestGolden(t *testing.T) {
	through := &Throughput{Elapsed: 64, Requests: 1000, Tokens: 384000, RequestRate: 15.625, TokenRate: 6000, Ossian: fixed()}
	latency := &Latency{Latencies: []float64{1.5, 0.25, 1, 2.25, 0.00003}, Ossian: fixed()}
	latency.summarise()
	latency.Ossian.Workload.Batches = 5
	latency.Ossian.Cached, latency.Ossian.Preemptions, latency.Ossian.Steps.Mixed = 0, 0, Phase{}
	latency.Ossian.Environment.PrefixCaching = false
	for _, c := range []struct {
		name   string
		result interface{ Console() string }
		ours   string
	}{
		{"throughput", through, through.OssianConsole()},
		{"latency", latency, latency.OssianConsole()},
	} {
		golden(t, c.name+".console", c.result.Console()+"\n"+c.ours)
		path := filepath.Join(t.TempDir(), "result.json")
		if err := WriteFile(path, c.result); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, c.name+".json", string(text))
		var keys map[string]json.RawMessage
		if err := json.Unmarshal(text, &keys); err != nil || keys["ossian"] == nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if err := WriteFile(t.TempDir(), through); err == nil {
		t.Error("a folder was written as a file")
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
	}
}

// Python: str(x).
func TestShortest(t *testing.T) {
	for _, c := range []struct {
		x    float64
		want string
	}{
		{0, "0.0"}, {1, "1.0"}, {0.1, "0.1"}, {1234567.25, "1234567.25"}, {0.0001, "0.0001"}, {0.00001, "1e-05"}, {1.5e-7, "1.5e-07"},
		{1e15, "1000000000000000.0"}, {1e16, "1e+16"}, {-2, "-2.0"}, {1.0 / 3, "0.3333333333333333"},
	} {
		if got := shortest(c.x); got != c.want {
			t.Errorf("%v: got %s, want %s", c.x, got, c.want)
		}
	}
}

// An answer of one token has no time per token; prompts count once.
func TestTally(t *testing.T) {
	at := time.Unix(100, 0)
	after := func(ms int) time.Time { return at.Add(time.Duration(ms) * time.Millisecond) }
	var sum tally
	sum.add(&answer{engine.Usage{Prompt: 10, Cached: 4, Completion: 5}, engine.Times{Queued: at, First: after(30), Finished: after(70)}}, true)
	sum.add(&answer{engine.Usage{Prompt: 10, Cached: 8, Completion: 1}, engine.Times{Queued: at, First: after(50), Finished: after(50)}}, false)
	if sum.prompt != 10 || sum.cached != 12 || sum.output != 6 {
		t.Errorf("%+v", sum)
	}
	if d := distOf(sum.ttft); d != (Dist{N: 2, Mean: 40, Median: 40, P90: 48, P99: 49.8, Max: 50}) {
		t.Errorf("TTFT %+v", d)
	}
	if d := distOf(sum.tpot); d.N != 1 || d.Mean != 10 {
		t.Errorf("TPOT %+v", d)
	}
	if d := distOf(sum.e2el); d.N != 2 || d.Max != 70 {
		t.Errorf("E2EL %+v", d)
	}
	if d := distOf(nil); d != (Dist{}) {
		t.Errorf("of nothing: %+v", d)
	}
}
