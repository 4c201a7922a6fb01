package bench

import (
	"os"
	"strings"
	"testing"
	"time"

	"ossian/internal/bench"
	"ossian/internal/command/commandtest"
)

// writeLog writes the log of a run with two requests, whose tokenizer is not here.
func writeLog(t *testing.T, name string) []byte {
	t.Helper()
	const ms = time.Millisecond
	r := &bench.Recording{Setup: bench.Setup{Backend: "openai", Stream: true, Tokenizer: "gone/model"}, Duration: 100 * ms}
	for i := range 2 {
		r.Samples = append(r.Samples, bench.Sample{Index: i, Done: 90 * ms, Status: 200, Input: 3, Text: "a b", Counts: bench.Counts{Prompt: 3, Completion: 2, Cached: -1, Reasoning: -1},
			Chunks: []bench.Chunk{{At: 50 * ms, Lag: 1000, Tokens: -1, Kind: bench.Choices | bench.Text | bench.Output}, {At: 90 * ms, Lag: 1000, Tokens: -1, Kind: bench.Choices | bench.Text | bench.Output}}})
	}
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := bench.WriteLog(file, r); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// A log is read where its tokenizer is not, and a file that cannot be read takes no other
// with it.
func TestBenchFilesWithoutTokenizer(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	writeLog(t, "a.log")
	writeLog(t, "b.log")
	const note = ".log: the tokenizer of the run, gone/model, is not here"
	out, status, err := commandtest.Run(t, root(), "bench", "summarize", "a.log", "none.log", "b.log")
	if err == nil || !strings.Contains(err.Error(), "none.log") {
		t.Errorf("a file that is not there: %v", err)
	}
	if strings.Count(out, "Successful requests:                     2") != 2 || strings.Count(status, note) != 2 {
		t.Errorf("%s\n%s", out, status)
	}
	out, status, err = commandtest.Run(t, root(), "bench", "compare", "a.log", "b.log")
	if err != nil || !strings.Contains(out, "Metric") || strings.Count(status, note) != 2 {
		t.Errorf("compare: %v\n%s\n%s", err, out, status)
	}
}

// A broken line inside a log costs that line, and the report says so.
func TestBenchFilesBrokenLine(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	lines := strings.SplitAfter(string(writeLog(t, "a.log")), "\n")
	lines[1] = "oops\n"
	if err := os.WriteFile("a.log", []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	out, status, err := commandtest.Run(t, root(), "bench", "summarize", "a.log")
	if err != nil || !strings.Contains(status, "a.log: 1 broken lines were skipped; the first is line 2: not JSON: invalid character") {
		t.Errorf("%v: %s", err, status)
	}
	for _, want := range []string{"Successful requests:                     1", "INVALID", "invalid: broken-log: 1 lines"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}
