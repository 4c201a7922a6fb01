package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ossian/internal/bench/report"
	"ossian/internal/bench/scripted"
	"ossian/internal/command/commandtest"
)

// plays starts a server that answers every request at once.
func plays(t *testing.T) *scripted.Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := scripted.Serve(context.Background(), l, scripted.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// measured runs ossian bench serve against s; numbers that cannot be trusted, as those
// of a server that answers at once, are no error here.
func measured(t *testing.T, s *scripted.Server, flags string) string {
	t.Helper()
	args := append([]string{"bench", "serve", "--base-url", s.URL(), "--model", "gpt-oss", "--disable-tqdm"}, strings.Fields(flags)...)
	out, status, err := commandtest.Run(t, root(), args...)
	if err != nil && !strings.Contains(err.Error(), "cannot be trusted") {
		t.Fatalf("%s: %v\n%s%s", flags, err, out, status)
	}
	return out
}

// recorded is what s has written down of n requests; that is a moment after their client
// has noticed the end.
func recorded(t *testing.T, s *scripted.Server, n int) []scripted.Record {
	t.Helper()
	for end := time.Now().Add(time.Minute); len(s.Log().Records) < n && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	out := s.Log().Records
	if len(out) != n {
		t.Fatalf("%d requests came, want %d", len(out), n)
	}
	return out
}

func lines(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("no %q in\n%s", w, text)
		}
	}
}

// A sweep is a run at each value, with an empty cache, a file for each and one table.
func TestBenchSweepFlags(t *testing.T) {
	t.Chdir(t.TempDir())
	s := plays(t)
	out := measured(t, s, "--compat vllm-rs --sweep-max-concurrency 1,2 --sweep-num-prompts-factor 3 --sweep-summary-percentiles 95 --reset-prefix-cache "+
		"--random-input-len 16 --random-output-len 3 --save-result --result-filename r.json --steady-state-threshold 0.5")
	lines(t, out, "Sweeping --max-concurrency over 2 values: [1, 2]\n", " Run 1/2: max_concurrency=1 -", " Run 2/2: max_concurrency=2 -",
		"Successful requests:                     3", "Successful requests:                     6", "\nMax Concurrency  ", "\nconcurrency=2  ", "P95 TPOT(ms)", "Best throughput: ", ">= 0.50 * 2 = 1")
	if n := s.Calls()["POST /reset_prefix_cache"]; n != 2 {
		t.Errorf("the cache was emptied %d times, want 2", n)
	}
	for name, n := range map[string]int{"r.json": 3, "r-run2.json": 6} {
		var r struct{ Completed int }
		text, err := os.ReadFile(name)
		if err == nil {
			err = json.Unmarshal(text, &r)
		}
		if err != nil || r.Completed != n {
			t.Errorf("%s: %d requests, %v", name, r.Completed, err)
		}
	}
	out = measured(t, s, "--compat lmdeploy --multi --request-rate-range 200,500,200 --dataset-name random-ids --prompt-token-ids --backend lmdeploy --num-prompts 4 --random-input-len 8 --random-output-len 2 "+
		"--random-range-ratio 1.0 --disable-warmup --output-file both.csv --flush-cache --disable-ignore-eos")
	lines(t, out, "over 2 values: [200.0, 400.0]", "Traffic request rate:                    200.0", "Traffic request rate:                    400.0", "Best throughput: ")
	if text, err := os.ReadFile("both.csv"); err != nil || strings.Count(string(text), "\n") != 3 {
		t.Errorf("%v: %s", err, text)
	}
	calls := s.Calls()
	if calls["POST /flush_cache"] != 2 || calls["POST /v1/completions"] != 3+6+4+4 {
		t.Errorf("calls %v", calls)
	}
	measured(t, s, "--num-runs 2 --num-prompts 2 --random-input-len 8 --random-output-len 2 --output-file added.json")
	if text, err := os.ReadFile("added.json"); err != nil || strings.Count(string(text), `"completed"`) != 2 {
		t.Errorf("two results were to be added to one file: %v\n%s", err, text)
	}
	lines(t, measured(t, s, "--num-runs 2 --num-prompts 2 --random-input-len 8 --random-output-len 2"), "= Multi-Run Benchmark (2 runs) =", "- Run 2/2 -", " Multi-Run Summary (2 runs) ")
	same, _, err := commandtest.Run(t, root(), "bench", "serve", "--compare", "r.json", "r-run2.json")
	if err != nil {
		t.Fatal(err)
	}
	lines(t, same, "Benchmark Comparison", "workload differs")
}

// Conversations reach a server as they should, and are reported by turn.
func TestBenchMultiTurn(t *testing.T) {
	t.Chdir(t.TempDir())
	s := plays(t)
	out := measured(t, s, "--compat vllm-rs --multi-turn --num-prompts 3 --multi-turn-num-turns 2 --random-input-len 16 --per-turn-input-len 8 --random-output-len 4 --multi-turn-delay-ms 5 "+
		"--save-result --result-filename r.json --log run.log")
	lines(t, out, "Conversations completed/total:                3/3", "Inter-turn delay (ms):                        5", " Turn 2 (3 samples) ", "Total input tokens:                           156")
	records := recorded(t, s, 6)
	slices.SortFunc(records, func(a, b scripted.Record) int { return strings.Compare(a.ID, b.ID) })
	if records[0].Path != "/v1/chat/completions" || !strings.HasSuffix(records[1].ID, "-conv-0-turn1") || records[1].Prompt <= records[0].Prompt {
		t.Errorf("the server got %+v", records)
	}
	again, _, err := commandtest.Run(t, root(), "bench", "summarize", "run.log")
	if err != nil {
		t.Fatal(err)
	}
	lines(t, again, " Turn 2 (3 samples) ", "Total input tokens:                           156")
	text, err := os.ReadFile("r.json")
	var r struct {
		Mode string
		Each []struct{ Completed int } `json:"per_turn_metrics"`
	}
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil || r.Mode != "multi_turn" || len(r.Each) != 2 || r.Each[1].Completed != 3 {
		t.Errorf("%v: %s", err, text)
	}
	lines(t, measured(t, s, "--multi-turn --sweep-max-concurrency 1,2 --num-prompts 2 --random-input-len 8 --random-output-len 2"), "= Multi-Turn Concurrency Sweep =", "\nMT Concurrency  ", "Run 2/2: multi_turn_concurrency=2")
}

// With a salt no prompt is the one of another run, and the workload has its name still.
func TestBenchSalt(t *testing.T) {
	t.Chdir(t.TempDir())
	s := plays(t)
	hashes := map[string]bool{}
	salts := map[string]bool{}
	for _, flags := range []string{"", "--salt", "--salt", "--salt=word"} {
		measured(t, s, flags+" --num-prompts 2 --random-input-len 16 --random-output-len 2 --save-result --result-filename r.json")
		text, err := os.ReadFile("r.json")
		var r struct {
			Ossian struct{ Workload struct{ Hash, Salt string } }
		}
		if err == nil {
			err = json.Unmarshal(text, &r)
		}
		if err != nil {
			t.Fatal(err)
		}
		hashes[r.Ossian.Workload.Hash], salts[r.Ossian.Workload.Salt] = true, true
	}
	if len(hashes) != 1 || len(salts) != 4 || !salts["word/0"] || !salts[""] {
		t.Errorf("hashes %v, salts %v", hashes, salts)
	}
}

// What is sent again comes from the cache of the server, unless it is salted.
func TestBenchSaltKeepsCachesCold(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	for _, c := range []struct {
		salt string
		warm int // runs of two
	}{{"", 1}, {"--salt=a", 0}} {
		out, status, err := commandtest.Run(t, root(), strings.Fields("bench serve --num-runs 2 --num-prompts 4 --random-input-len 64 --random-output-len 2 --disable-tqdm "+c.salt)...)
		if err != nil {
			t.Fatalf("%v\n%s%s", err, out, status)
		}
		if n := strings.Count(out, "warning: prefix-cache-hits"); n != c.warm {
			t.Errorf("%q: %d runs from the cache, want %d:\n%s", c.salt, n, c.warm, out)
		}
	}
}

// Presets are lists of flags; those of the user stand behind them.
func TestBenchPresets(t *testing.T) {
	t.Chdir(t.TempDir())
	s := plays(t)
	out := measured(t, s, "--preset lab-throughput --num-prompts 2 --random-input-len 8 --random-output-len 2 --sharegpt-output-len 3")
	lines(t, out, "sharegpt-synthetic stands in", " Run 5/5: Very Long ", "\nShareGPT ", "\nVery Long ")
	if n := s.Calls()["POST /v1/chat/completions"]; n != 10 {
		t.Errorf("%d requests, want 10", n)
	}
	// Workloads of a preset do not find each other's prompts in the cache, unless they are to.
	if n := s.Calls()["POST /reset_prefix_cache"]; n != 6 || !strings.Contains(out, "Before the run (--cache):                reset") {
		t.Errorf("%d resets, want one to find out and 5", n)
	}
	for _, c := range []struct {
		flags, row string
		resets     int
	}{{"--cache carry", "carry", 0}, {"--cache=salt", "salt", 0}, {"--salt", "salt", 0}, {"--reset-prefix-cache", "reset", 4}} {
		before := s.Calls()["POST /reset_prefix_cache"]
		out := measured(t, s, "--preset lab-latency --num-prompts 2 --sharegpt-output-len 3 "+c.flags)
		if n := s.Calls()["POST /reset_prefix_cache"] - before; n != c.resets || strings.Count(out, "Before the run (--cache):                "+c.row) != 4 {
			t.Errorf("%s: %d resets\n%s", c.flags, n, out)
		}
	}
	o := &clientOptions{}
	o.sweep.preset = "lab-throughput"
	p, err := o.sweep.plan(o)
	if want := strings.Fields("--backend openai-chat --seed 42 --dataset-name random --random-input-len 32000 --random-output-len 100 --num-prompts 100"); err != nil || len(p.variants) != 5 || !slices.Equal(p.variants[4].before, want) {
		t.Errorf("%v: %+v", err, p)
	}
	o.sweep.preset, o.Data.Path = "lmdeploy-throughput", "x.json"
	p, err = o.sweep.plan(o)
	if err != nil || len(p.variants) != 4 || p.heading != "Using backend: lmdeploy\n" || p.end != "All benchmarks completed for backend: lmdeploy\n" ||
		p.variants[2].above != "Running benchmark --dataset-name random --random-input-len 2000 --random-output-len 6000 --num-prompts 500 --random-range-ratio 1.0 with backend: lmdeploy\n" {
		t.Errorf("%v: %+v", err, p)
	}
	o.sweep.preset = "lab-latency"
	p, err = o.sweep.plan(o)
	if err != nil || len(p.variants) != 4 || !slices.Contains(p.variants[3].before, "8") || p.variants[3].row != "ShareGPT, concurrency 8" {
		t.Errorf("%v: %+v", err, p)
	}
}

// The model that is served here takes part in conversations, and its cache is emptied on
// request.
func TestBenchMultiTurnHere(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	out, status, err := commandtest.Run(t, root(), "bench", "serve", "--multi-turn", "--num-prompts", "2", "--multi-turn-num-turns", "2", "--random-input-len", "12", "--random-output-len", "16",
		"--salt", "--disable-tqdm")
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, status)
	}
	lines(t, out, "Conversations completed/total:                2/2", "Total generated tokens:                       64")
	out, status, err = commandtest.Run(t, root(), "bench", "serve", "--num-prompts", "1", "--random-input-len", "8", "--random-output-len", "2", "--reset-prefix-cache", "--disable-tqdm")
	if err != nil {
		t.Errorf("%v\n%s%s", err, out, status)
	}
}

func TestBenchCaseErrors(t *testing.T) {
	t.Chdir(t.TempDir())
	s := plays(t)
	missing := filepath.Join(t.TempDir(), "none.json")
	if err := os.WriteFile("data.json", nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"--sweep-max-concurrency 1,x", "whole numbers from 1"},
		{"--sweep-request-rate 0", "above 0"},
		{"--sweep-request-rate 1 --sweep-summary-percentiles 101", "from 0 to 100"},
		{"--multi --request-rate-range 9,2,1", "from,end,step"},
		{"--sweep-request-rate 1,2 --dataset-name timed_trace --dataset-path data.json", "--no-self-timed"},
		{"--compare --num-prompts 1", "want two"},
		{"--num-prompts 1 --goodput", "--goodput"},
		{"--num-prompts 1 --header", "--header"},
		{"--num-prompts 1 --lora-modules", "--lora-modules"},
		{"--preset mine", "lab-throughput"},
		{"--preset lmdeploy-throughput", "--dataset-path"},
		{"--compare a.json", "want two"},
		{"--compare " + missing + " b.json", "none.json"},
		{"--multi-turn --backend openai", "openai-chat"},
		{"--dialect olama", `--dialect "olama": one of vllm, sglang, llama.cpp, ollama, tensorrt-llm, ossian expected`},
		{"--multi-turn --compat sglang --backend sglang-oai-chat", "no such runs"},
		{"--multi-turn --dataset-name custom", "random and sharegpt"},
		{"--multi-turn --dataset-name sharegpt", "--dataset-path"},
		{"--multi-turn --multi-turn-delay-ms -1", "0 or more"},
		{"--multi-turn --multi-turn-num-turns 0", "--multi-turn-min-turns 0"},
		{"--steady-state-threshold 2", "at most 1"},
		{"--salt --skip-tokenizer-init", "--tokenizer"},
		{"--cache warm", "want reset, salt, carry, or auto"},
		{"--cache carry --salt", "leave out --salt"},
		{"--timeline-itl-thresholds 25", "two numbers"},
		{"--apply-chat-template --dataset-name sharegpt --dataset-path data.json", "template is not at hand"},
	} {
		_, _, err := commandtest.Run(t, root(), append([]string{"bench", "serve", "--base-url", s.URL(), "--model", "gpt-oss", "--disable-tqdm"}, strings.Fields(c.args)...)...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, expected %q", c.args, err, c.want)
		}
	}
}

// The address that OpenAI's clients want, with the version, is that of the same server.
func TestBenchBaseURL(t *testing.T) {
	t.Chdir(t.TempDir())
	s := plays(t)
	_, status, err := commandtest.Run(t, root(), "bench", "serve", "--base-url", s.URL()+"/v1/", "--model", "gpt-oss", "--disable-tqdm", "--num-prompts", "2", "--random-input-len", "8", "--random-output-len", "2")
	if err != nil && !strings.Contains(err.Error(), "cannot be trusted") {
		t.Fatalf("%v\n%s", err, status)
	}
	if calls := s.Calls()["POST /v1/completions"]; calls < 2 {
		t.Errorf("%d completions were asked for, want 2 or more: %v", calls, s.Calls())
	}
}

// A run that is interrupted says so in the report, the result, the log and the page, none
// of which looks like that of a run that is whole.
func TestBenchInterrupted(t *testing.T) {
	t.Chdir(t.TempDir())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := scripted.Serve(t.Context(), l, scripted.Options{Scripts: []scripted.Script{{TTFT: time.Hour}, {}}}) // every other answer does not end
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for s.Calls()["POST /v1/completions"] < 3 && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	var out, status bytes.Buffer
	c := root()
	c.SetOut(&out)
	c.SetErr(&status)
	c.SetArgs(strings.Fields("bench serve --base-url " + s.URL() + " --model gpt-oss --disable-tqdm --num-runs 3 --num-prompts 40 --max-concurrency 2 --random-input-len 8 --random-output-len 2 --save-result --result-filename r.json --html r.html --log r.log"))
	if err := c.ExecuteContext(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("%v\n%s%s", err, &out, &status)
	}
	lines(t, out.String(), "interrupted")
	var got struct {
		Prompts int `json:"num_prompts"`
		Ossian  struct {
			Valid    bool
			Findings []report.Finding
		}
	}
	text, err := os.ReadFile("r.json")
	if err != nil || json.Unmarshal(text, &got) != nil {
		t.Fatalf("%v: %s", err, text)
	}
	cut := slices.ContainsFunc(got.Ossian.Findings, func(f report.Finding) bool { return f.ID == report.FaultCut && f.Bound == 40 && f.Measured < 40 })
	if got.Prompts != 40 || got.Ossian.Valid || !cut {
		t.Errorf("the result: %+v", got)
	}
	page, err := os.ReadFile("r.html")
	if err != nil || !strings.Contains(string(page), "interrupted") {
		t.Errorf("the page: %v, %d bytes", err, len(page))
	}
	again, _, err := commandtest.Run(t, root(), "bench", "summarize", "r.log")
	lines(t, again, "interrupted")
	if files, _ := filepath.Glob("r-run*"); len(files) > 0 || err != nil {
		t.Errorf("summarize: %v; runs after the interruption: %q", err, files)
	}
}
