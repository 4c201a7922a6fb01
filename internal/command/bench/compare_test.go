package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ossian/internal/command/commandtest"
)

// served is a result as vLLM writes it, of 100 prompts with so many tokens in and out.
func served(in, out int, rate float64) string {
	return fmt.Sprintf(`{"model_id":"m","num_prompts":100,"completed":100,"failed":0,"duration":10,"request_rate":"inf","max_concurrency":null,"request_throughput":%v,`+
		`"total_input_tokens":%d,"total_output_tokens":%d,"mean_ttft_ms":%v}`, rate, 100*in, 100*out, 1000/rate)
}

// put writes a file, in a folder that it makes.
func put(t *testing.T, path string, lines ...string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o666); err != nil {
		t.Fatal(err)
	}
}

// compared runs bench compare.
func compared(t *testing.T, a, b string) (out, notes string, err error) {
	t.Helper()
	return commandtest.Run(t, root(), "bench", "compare", a, b)
}

// One result of several is named as the table numbers it, everywhere.
func TestBenchResultOfFile(t *testing.T) {
	t.Chdir(t.TempDir())
	put(t, "runs.jsonl", served(10, 10, 10), served(500, 10, 5), served(10, 10, 20))
	put(t, "odd#2", served(10, 10, 7))
	out, _, err := commandtest.Run(t, root(), "bench", "summarize", "runs.jsonl")
	if err != nil || !strings.Contains(out, "runs.jsonl#3 ") {
		t.Fatalf("%v\n%s", err, out)
	}
	out, _, err = commandtest.Run(t, root(), "bench", "summarize", "runs.jsonl#2", "odd#2")
	if err != nil || strings.Count(out, "\n") != 3 || !strings.Contains(out, "runs.jsonl#2 ") || !strings.Contains(out, "odd#2 ") {
		t.Errorf("%v\n%s", err, out)
	}
	out, _, err = compared(t, "runs.jsonl#1", "runs.jsonl#3")
	if err != nil || !strings.Contains(out, "  A: runs.jsonl#1\n  B: runs.jsonl#3\n") || !strings.Contains(out, "+100.0%+") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, _, err = compared(t, "runs.jsonl#4", "runs.jsonl"); err == nil || !strings.Contains(err.Error(), "runs.jsonl has 3 results") {
		t.Error(err)
	}
	if _, _, err = compared(t, "none#4", "runs.jsonl"); err == nil || !strings.Contains(err.Error(), "none") {
		t.Error(err)
	}
	out, _, err = commandtest.Run(t, root(), "bench", "serve", "--compare", "runs.jsonl#1", "runs.jsonl#3")
	if err != nil || !strings.Contains(out, "+100.0%+") {
		t.Errorf("%v\n%s", err, out)
	}
}

// Workloads of one file are no repetitions of each other: there is a table for each.
func TestBenchCompareWorkloads(t *testing.T) {
	t.Chdir(t.TempDir())
	put(t, "a.jsonl", served(10, 10, 10), served(500, 10, 5), served(10, 10, 11), served(900, 10, 1))
	put(t, "b.jsonl", served(500, 10, 6), served(10, 10, 20), served(10, 10, 22))
	out, _, err := compared(t, "a.jsonl", "b.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"100 prompts, 10 + 10 tokens, of m", "  A: a.jsonl#1, a.jsonl#3\n  B: b.jsonl#2, b.jsonl#3\n", "  A: a.jsonl#2\n  B: b.jsonl#1\n", "only in A: 100 prompts, 900 + 10 tokens, of m (a.jsonl#4)\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Count(out, " Benchmark Comparison ") != 2 || strings.Contains(out, "differs: ") {
		t.Errorf("two tables of what is alike wanted:\n%s", out)
	}
	put(t, "c.jsonl", served(70, 10, 6), served(80, 10, 6))
	if _, _, err = compared(t, "a.jsonl", "c.jsonl"); err == nil || !strings.Contains(err.Error(), "FILE#1 FILE#2") {
		t.Error(err)
	}
}

// Folders are compared by setting, then by workload, and what has no partner is named.
func TestBenchCompareFolders(t *testing.T) {
	t.Chdir(t.TempDir())
	summary := func(dir string, lines ...string) { put(t, dir+"/summary.json", "["+strings.Join(lines, ",")+"]") }
	summary("a/SERVE--seqs=1-BENCH--x", served(10, 10, 10), served(10, 10, 11))
	put(t, "a/SERVE--seqs=1-BENCH--x/run=0.json", served(10, 10, 10))
	summary("a/SERVE--seqs=2-BENCH--x", served(10, 10, 12))
	put(t, "a/SERVE--seqs=3/run=0.json", served(10, 10, 13)) // of a sweep that was cut
	put(t, "a/summary.csv", "x,y")
	summary("b/SERVE--seqs=1-BENCH--x", served(10, 10, 20), served(10, 10, 21))
	put(t, "b/SERVE--seqs=3/run=0.json", served(10, 10, 26))
	put(t, "b/SERVE--seqs=4/run=0.json", served(10, 10, 26))
	put(t, "b/SERVE--seqs=4/run=1.failure.json", "{}")
	out, notes, err := compared(t, "a", "b")
	if err != nil || notes != "" {
		t.Fatalf("%v\n%s", err, notes)
	}
	for _, want := range []string{" SERVE--seqs=1-BENCH--x ", "/summary.json#1, a/", " SERVE--seqs=3 ", "+100.0%+", "only in A: SERVE--seqs=2-BENCH--x (a/SERVE--seqs=2-BENCH--x/summary.json)\n", "only in B: SERVE--seqs=4 ("} {
		if !strings.Contains(out, filepath.FromSlash(want)) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	// Plain folders: names with dates say nothing.
	put(t, "c/infqps-m-20260101.json", served(10, 10, 10))
	put(t, "c/infqps-m-20260102.json", served(500, 10, 3))
	put(t, "c/note.txt", "nothing")
	put(t, "d/infqps-m-20260201.json", served(500, 10, 6))
	put(t, "d/infqps-m-20260202.json", served(10, 10, 5))
	put(t, "d/infqps-m-20260203.json", served(10, 10, 5))
	out, notes, err = compared(t, "c", "d")
	if err != nil || !strings.Contains(notes, "skipped: ") || strings.Count(out, " Benchmark Comparison ") != 2 || strings.Contains(out, "only in") || strings.Contains(out, "differs: ") {
		t.Errorf("%v\n%s\n%s", err, notes, out)
	}
	put(t, "e/one.json", served(70, 10, 5))
	if out, _, err = compared(t, "e", "d"); err == nil || !strings.Contains(out, "only in A: ") || strings.Count(out, "only in B: ") != 2 {
		t.Errorf("%v\n%s", err, out)
	}
	for _, c := range []struct{ a, b, want string }{{"a", "c/note.txt", "one is a folder"}, {t.TempDir(), "a", "no result in it"}} {
		if _, _, err := compared(t, c.a, c.b); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %s: %v", c.a, c.b, err)
		}
	}
}

// Answers that were saved are compared.
func TestBenchCompareOutputs(t *testing.T) {
	t.Chdir(t.TempDir())
	s := plays(t)
	for _, name := range []string{"a", "b"} {
		measured(t, s, "--num-prompts 3 --random-input-len 8 --random-output-len 2 --save-detailed --result-filename "+name+".json --log "+name+".log")
	}
	for _, pair := range [][2]string{{"a.json", "b.json"}, {"a.log", "b.json"}} {
		if out, _, err := compared(t, pair[0], pair[1]); err != nil || !strings.Contains(out, fmt.Sprintf("Outputs at equal prompts, %s and %s: 3 identical, 0 different\n", pair[0], pair[1])) {
			t.Errorf("%v\n%s", err, out)
		}
	}
}
