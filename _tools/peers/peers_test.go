package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What the programs print, with other figures left out.
const (
	benchList = `some backend says hello [1]
[
  {
    "build_commit": "0c1e57098",
    "n_threads": 2,
    "n_prompt": 16,
    "n_gen": 0,
    "n_depth": 0,
    "avg_ns": 99000000,
    "avg_ts": 161.250000,
    "samples_ts": [ 161.25 ]
  },
  {
    "n_prompt": 512,
    "n_gen": 0,
    "avg_ts": 227.3,
    "samples_ts": [ 220.5, 231, 230.5 ]
  },
  {
    "n_prompt": 0,
    "n_gen": 32,
    "avg_ts": 24.4,
    "samples_ts": [ 24.4 ]
  }
]
`
	batchedTable = `
main: n_kv_max = 8192, n_batch = 2048, n_ubatch = 512, flash_attn = -1, is_pp_shared = 0, n_gpu_layers = -1, n_threads = 2, n_threads_batch = 2

|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |      T s |    S t/s |
|-------|--------|------|--------|----------|----------|----------|----------|----------|----------|
|    16 |     32 |    8 |    384 |    0.812 |   157.64 |    3.711 |    68.98 |    4.523 |    84.90 |
|    16 |     32 |   32 |   1536 |    2.900 |   176.55 |    9.481 |   108.01 |   12.381 |   124.06 |

llama_perf_context_print:        load time =    1200.00 ms
`
	latencyResult = `Avg latency: 3.25 seconds

Prefill: 19.96 prompt tokens/s (3 steps with prompts only)
{
    "avg_latency": 3.25,
    "latencies": [4, 2.5, 3.25],
    "ossian": {
        "prompt_tokens": 195,
        "environment": {"version": "dev"},
        "steps": {
            "prefill": {"steps": 3, "prompt_tokens_per_second": 19.96},
            "mixed": {"steps": 0},
            "decode": {"steps": 4, "decode_tokens_per_second": 340.44}
        }
    }
}
`
	servedResult = `{"completed": 2, "total_output_tokens": 8, "total_token_throughput": 13.5, "median_ttft_ms": 2500, "median_tpot_ms": 80,
		"itls": [[0.1, 1.5, 0.2], []]}`
)

func TestParse(t *testing.T) {
	batched := func(row string, streams ...int) func(string) (map[string]float64, error) {
		return func(s string) (map[string]float64, error) { return parseBatched([]byte(s), row, streams) }
	}
	rate := func(f func([]byte) (float64, error)) func(string) (map[string]float64, error) {
		return func(s string) (map[string]float64, error) {
			x, err := f([]byte(s))
			return map[string]float64{"": x}, err
		}
	}
	bench := func(s string) (map[string]float64, error) { return parseLlamaBench([]byte(s), nil) }
	served := func(s string) (map[string]float64, error) { return parseServed([]byte(s), 2, 4) }
	for _, c := range []struct {
		name, text string
		parse      func(string) (map[string]float64, error)
		want       map[string]float64 // nil = an error
	}{
		{"llama-bench", benchList, bench, map[string]float64{"prefill 16": 161.25, "prefill 512": 230.5, "decode, 1 sequence": 24.4}},
		{"llama-bench that ended early", "error: failed to load model\n", bench, nil},
		{"llama-bench with a cut list", benchList[:200], bench, nil},
		{"llama-bench without tests", "[\n]\n", bench, nil},
		{"batches", batchedTable, batched("", 8, 32), map[string]float64{"decode, 8 sequences, sum": 68.98, "decode, 32 sequences, sum": 108.01}},
		{"one batch", batchedTable, batched("deep", 8), map[string]float64{"deep": 68.98}},
		{"a batch that did not fit", batchedTable, batched("", 8, 32, 64), nil},
		{"Ossian's decoding", latencyResult, rate(latencyDecode), map[string]float64{"": 340.44}},
		{"Ossian's prefill", latencyResult, rate(latencyPrefill), map[string]float64{"": 20}},
		{"a prompt only, no decoding", `{` + "\n" + `"ossian": {"steps": {"prefill": {"prompt_tokens_per_second": 1}}}}`, rate(latencyDecode), nil},
		{"Ossian without a result", "Avg latency: 3.25 seconds\n", rate(latencyDecode), nil},
		{"a load", servedResult, served, map[string]float64{totalRate: 13.5, ttft: 2.5, tpot: 80, longestGap: 1.5}},
		{"a load of which a request failed", strings.Replace(servedResult, `"completed": 2`, `"completed": 1`, 1), served, nil},
		{"a load with short answers", strings.Replace(servedResult, `"total_output_tokens": 8`, `"total_output_tokens": 7`, 1), served, nil},
	} {
		got, err := c.parse(c.text)
		if (err == nil) != (c.want != nil) || (err == nil && !maps.Equal(got, c.want)) {
			t.Errorf("%s: got %v, %v; want %v", c.name, got, err, c.want)
		}
	}
}

func TestTicks(t *testing.T) {
	got, err := ticks("4711 (a (strange) name) S 1 4711 4711 0 -1 4194560 900 0 0 0 250 50 0 0 20 0 9 0 12345 0 0\n")
	if err != nil || got != 3 {
		t.Errorf("got %v, %v; want 3 s", got, err)
	}
	if _, err := ticks("4711 (short) S 1"); err == nil {
		t.Error("a short line is taken")
	}
}

// TestTasks checks that each row that is printed has the same name for all programs,
// and that a missing tool takes its parts away.
func TestTasks(t *testing.T) {
	s := subjects[0]
	count := func(p *program, only ...string) map[string]int {
		n := map[string]int{}
		for _, t := range p.tasks(s, modelFiles{gguf: "model.gguf", folder: "model", openVINO: "model.ov"}, only) {
			n[t.part]++
		}
		return n
	}
	for _, c := range []struct {
		p    *program
		only []string
		want map[string]int
	}{
		{&program{name: ossian}, parts, map[string]int{"decode": 1, "prefill": 3, "batch": 2, "depth": 1, "ready": 1, "served": 2}},
		{&program{name: llamaCpp}, parts, map[string]int{"decode": 1, "prefill": 1, "batch": 1, "depth": 1, "ready": 2, "served": 2}},
		{&program{name: ikLlama}, parts, map[string]int{"decode": 1, "prefill": 1, "batch": 1, "depth": 1, "ready": 1, "served": 2}},
		{&program{name: ikLlama}, []string{"prefill", "depth"}, map[string]int{"prefill": 1, "depth": 1}},
		{&program{name: vllm, packages: []string{"vllm"}}, parts, map[string]int{"decode": 1, "prefill": 3, "served": 2}},
		{&program{name: openVINO, packages: []string{"openvino"}}, []string{"served", "ready"}, map[string]int{"served": 2}},
		{&program{name: vllmZen, packages: []string{"vllm"}, missing: []string{server}}, parts, map[string]int{}},
		{&program{name: ikLlama, missing: []string{"llama-server", "llama-batched-bench"}}, parts, map[string]int{"decode": 1, "prefill": 1}},
	} {
		if got := count(c.p, c.only...); !maps.Equal(got, c.want) {
			t.Errorf("%s, %v without %v: got %v, want %v", c.p.name, c.only, c.p.missing, got, c.want)
		}
	}
}

// TestResults writes figures, reads them again and prints them.
func TestResults(t *testing.T) {
	name := filepath.Join(t.TempDir(), "out", "r.jsonl")
	f, err := openResults(name)
	if err != nil {
		t.Fatal(err)
	}
	s := subjects[0]
	row := decodeCase(1)
	figure := func(program, build string, rate float64) record {
		return record{Model: s.name, Program: program, Tool: "t", Build: build, Part: "decode", Values: map[string]float64{row: rate}, CPU: 4, Wall: 2, Bandwidth: 40e9}
	}
	for _, r := range []record{
		{Model: s.name, Values: map[string]float64{weights: 12e9, perToken: 2.5e9}},
		figure(ossian, "old", 1), figure(ikLlama, "a", 8), figure(ossian, "new", 12), figure(ossian, "new", 14), figure(ossian, "new", 13),
		{Model: s.name, Program: ossian, Part: "served", Variant: "8", Values: map[string]float64{totalRate: 65, ttft: 2, tpot: 90, longestGap: 0.5}, CPU: 1, Wall: 1},
		{Model: s.name, Program: llamaCpp, Part: "served", Variant: "8", Values: map[string]float64{totalRate: 13, ttft: 131, tpot: 1000, longestGap: 9}, CPU: 1, Wall: 1},
	} {
		if err := f.add(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if f, err = openResults(name); err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n := f.count(s.name, ossian, "decode", "", "new", ""); n != 3 {
		t.Errorf("%d figures of the new build, want 3", n)
	}
	var b strings.Builder
	f.print(&b, s)
	for _, want := range []string{
		"| decode, 1 sequence | 13.0 (12.0–14.0) ×3 | – | 8.00 ×1 | – | 1.62 (1.5) | 2.00 · – · 2.00 | 40.0 (40.0–40.0) |\n",
		"in %: Ossian 81.2 (75.0–87.5) ×3, llama.cpp –, ik_llama.cpp 50.0 ×1.",
		"| 8 | 16 | llama.cpp | 13.0 ×1 | 131 ×1 | 1000 ×1 | 9.00 ×1 | 5.00 (5) | 1.00 |",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "prefill") {
		t.Error("a row without any figure is printed")
	}
}

func TestHostileResults(t *testing.T) {
	name := filepath.Join(t.TempDir(), "r.jsonl")
	if err := os.WriteFile(name, []byte("{}\nnot a record\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openResults(name); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("got %v, want an error that names line 2", err)
	}
}

func TestPick(t *testing.T) {
	got, err := pick(subjects, "smollm2-135m,gpt-oss-20b")
	if err != nil || strings.Join(names(got), " ") != "gpt-oss-20b smollm2-135m" {
		t.Errorf("got %v, %v", names(got), err)
	}
	if _, err := pick(subjects, "gpt-4"); err == nil || !strings.Contains(err.Error(), "smollm2-135m") {
		t.Errorf("got %v, want an error with the names that there are", err)
	}
}
