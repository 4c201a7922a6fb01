package lab

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ossian/internal/command"
)

// block is a small report whose figures agree; rate is its request throughput.
func block(rate string) string {
	return "============ Serving Benchmark Result ============\nSuccessful requests: 100\nBenchmark duration (s): 10.00\n" +
		"Total input tokens: 1000\nTotal generated tokens: 2000\nRequest throughput (req/s): " + rate + "\n" +
		"==================================================\n"
}

// run runs ossian lab with arguments and returns its output and error.
func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	root := command.Root(Command())
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetIn(strings.NewReader(block("12.00")))
	root.SetArgs(append([]string{"lab"}, args...))
	err := root.Execute()
	return out.String(), err
}

func TestVerifyCommand(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good, bad, empty := write("good.txt", block("10.00")), write("bad.txt", block("11.00")), write("empty.txt", "")

	if out, err := run(t, "verify", good); err != nil || !strings.Contains(out, "0 wrong") {
		t.Errorf("good report: %q, %v", out, err)
	}
	out, err := run(t, "verify", good, bad)
	if err == nil || command.Status(err) != 1 {
		t.Errorf("wrong report: status %d of %v, want 1", command.Status(err), err)
	}
	if !strings.Contains(out, "V-ARITH wrong "+bad+":6") || !strings.Contains(out, "100 / 10.00 s = 10") {
		t.Errorf("wrong report: %q", out)
	}
	if out, err := run(t, "verify", "--json", bad); err == nil || !strings.Contains(out, `"id": "V-ARITH"`) {
		t.Errorf("JSON: %q, %v", out, err)
	}
	if out, err := run(t, "verify", "-"); command.Status(err) != 1 || !strings.Contains(out, "V-ARITH wrong -:6") {
		t.Errorf("standard input: %q, %v", out, err)
	}
	for name, args := range map[string][]string{"empty file": {"verify", empty}, "no file": {"verify", filepath.Join(dir, "none")},
		"no argument": {"verify"}, "unknown flag": {"verify", "--nosuch", good},
		"unknown command": {"verifi", good}, "unreadable beside good": {"verify", good, empty}} {
		if _, err := run(t, args...); command.Status(err) != 2 {
			t.Errorf("%s: status %d of %v, want 2", name, command.Status(err), err)
		}
	}
}

// TestCompared reads a pasted console report and says what is wrong with a file that holds none.
func TestCompared(t *testing.T) {
	dir := t.TempDir()
	console := "============ Serving Benchmark Result ============\nSuccessful requests:                     10\nBenchmark duration (s):                  5.00\n" +
		"Total input tokens:                      100\nTotal generated tokens:                  200\nRequest throughput (req/s):              2.00\n" +
		"Output token throughput (tok/s):         40.00\nTotal Token throughput (tok/s):          60.00\n" +
		"---------------Time to First Token----------------\nMean TTFT (ms):                          10.00\n==================================================\n"
	good, bad := filepath.Join(dir, "published.txt"), filepath.Join(dir, "none.txt")
	for name, text := range map[string]string{good: console, bad: "nothing"} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	columns, err := compared([]string{good})
	if err != nil || len(columns) != 1 || columns[0].Metrics["total_token_throughput"] != 60 {
		t.Errorf("%+v, %v", columns, err)
	}
	for _, name := range []string{bad, filepath.Join(dir, "missing.txt"), dir} {
		if _, err := compared([]string{name}); err == nil || !strings.Contains(err.Error(), "a result file or a ledger expected: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
