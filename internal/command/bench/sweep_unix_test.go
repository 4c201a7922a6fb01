//go:build unix

package bench

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"ossian/internal/command/commandtest"
)

// ownProgram makes the commands of a sweep; ossian is this test.
func ownProgram(t *testing.T) func(words []string) *exec.Cmd {
	return func(words []string) *exec.Cmd {
		if words[0] == "ossian" {
			return commandtest.Program(t, words[1:]...)
		}
		return exec.Command(words[0], words[1:]...)
	}
}

// freePort returns a port at which nobody listens, below those that the system chooses.
func freePort(t *testing.T) string {
	t.Helper()
	for range 1000 {
		port := strconv.Itoa(10_000 + rand.IntN(20_000))
		// Until the test ends it has the port at another address as well, so that tests
		// in other processes neither choose it nor listen there for a moment.
		mark, err := net.Listen("tcp", "127.0.0.2:"+port)
		if err == nil {
			t.Cleanup(func() { mark.Close() })
		} else if !errors.Is(err, syscall.EADDRNOTAVAIL) { // not every system has the address
			continue
		}
		// A child between fork and exec would have the socket, too, and answer there.
		syscall.ForkLock.RLock()
		l, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err == nil {
			l.Close()
		}
		syscall.ForkLock.RUnlock()
		if err != nil {
			continue
		}
		return port
	}
	t.Fatal("no port is free")
	return ""
}

// A sweep of ossian by ossian, both as processes: two servers, two clients each.
func TestSweepServe(t *testing.T) {
	t.Parallel() // it waits
	dir := t.TempDir()
	port := freePort(t)
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var out, status commandtest.Console
	run := func(args ...string) error {
		o := &gridOptions{program: ownProgram(t)}
		c := serveSweep(o)
		c.SilenceErrors, c.SilenceUsage = true, true
		c.SetOut(&out)
		c.SetErr(&status)
		c.SetArgs(append([]string{
			"--serve-cmd", "ossian serve --host 127.0.0.1 --store memory --port " + port, "--serve-params", write("serve.json", `[{"max_num_seqs": 1}, {"max_num_seqs": 2}]`),
			"--bench-cmd", "ossian bench serve --random-input-len 8 --random-output-len 3 --no-stream --disable-tqdm --num-prompts 9", "--num-runs", "1",
			"--bench-params", write("bench.json", `{"one": {"num_prompts": 2}, "two": {"num-prompts": 3, "max_concurrency": 2}}`), "-o", dir, "-e", "e"}, args...))
		return c.ExecuteContext(t.Context())
	}
	if err := run("--dry-run"); err != nil || !strings.Contains(out.String(), `"--num-prompts" "3"`) || strings.Count(out.String(), "server: ") != 2 {
		t.Errorf("dry run: %v\n%s", err, &out)
	}
	if _, err := os.Stat(filepath.Join(dir, "e")); err == nil {
		t.Fatal("a dry run has made the folder")
	}
	if err := run(); err != nil {
		t.Fatalf("%v\n%s%s", err, &out, &status)
	}
	table, err := os.ReadFile(filepath.Join(dir, "e", "summary.csv"))
	if err != nil || strings.Count(string(table), "\n") != 5 || !strings.Contains(string(table), ",max_num_seqs,_benchmark_name") {
		t.Errorf("%v\n%s", err, table)
	}
	for _, name := range []string{"SERVE--max_num_seqs=1-BENCH--one", "SERVE--max_num_seqs=2-BENCH--two"} {
		_, results, err := readResults(filepath.Join(dir, "e", name, "summary.json"), io.Discard)
		if err != nil || len(results) != 1 || results[0].Values["completed"] == 0 || results[0].Values["failed"] != 0 || results[0].Values["p99_e2el_ms"] <= 0 {
			t.Errorf("%s: %v, %v", name, results, err)
		}
	}
	if err := os.Remove(filepath.Join(dir, "e", "SERVE--max_num_seqs=2-BENCH--two", "run=0.json")); err != nil {
		t.Fatal(err)
	}
	out, status = commandtest.Console{}, commandtest.Console{}
	if err := run("--resume"); err != nil || strings.Count(out.String(), "server: ") != 1 || strings.Count(out.String(), "found ") != 3 {
		t.Errorf("resumed: %v\n%s", err, &out)
	}
}

// A run that fails costs itself: the others are measured, what failed is named at the end, and
// the figures are of what there is. --stop-on-error ends at the first.
func TestSweepGoesOn(t *testing.T) {
	t.Parallel() // it waits
	dir := t.TempDir()
	port := freePort(t)
	params := filepath.Join(dir, "bench.json")
	if err := os.WriteFile(params, []byte(`{"bad": {"random_range_ratio": 7}, "good": {"num_prompts": 2}}`), 0o666); err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) (string, error) {
		var out, status commandtest.Console
		o := &gridOptions{program: ownProgram(t)}
		c := serveSweep(o)
		c.SilenceErrors, c.SilenceUsage = true, true
		c.SetOut(&out)
		c.SetErr(&status)
		c.SetArgs(append([]string{"--serve-cmd", "ossian serve --host 127.0.0.1 --store memory --port " + port,
			"--bench-cmd", "ossian bench serve --random-input-len 8 --random-output-len 3 --no-stream --disable-tqdm --num-prompts 9", "--num-runs", "1", "--bench-params", params, "-o", dir, "-e", name}, args...))
		err := c.ExecuteContext(t.Context())
		return out.String(), err
	}
	out, err := run("on", "--continue-on-error")
	if err == nil || !strings.Contains(err.Error(), "1 failure, all else was measured:\n  BENCH--bad/run=0.failure.json: ") || strings.Contains(err.Error(), "--resume") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "on", "BENCH--good", "summary.json")); err != nil {
		t.Error(err)
	}
	drawn, err := plot(t, "plot", filepath.Join(dir, "on"), "--dry-run")
	if err != nil || !strings.HasPrefix(drawn, "Failed: BENCH--bad/run=0: ") || !strings.Contains(drawn, "[BEGIN FIGURE]") {
		t.Errorf("%v\n%s", err, drawn)
	}
	out, err = run("stop", "--stop-on-error")
	if err == nil || !strings.Contains(err.Error(), "--resume --experiment-name stop") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, missing := os.Stat(filepath.Join(dir, "stop", "BENCH--good")); missing == nil {
		t.Error("the run behind the first failure was measured")
	}
	drawn, err = plot(t, "plot", filepath.Join(dir, "stop"))
	if err == nil || !strings.Contains(err.Error(), "every run failed or is invalid, 1 in all") || !strings.HasPrefix(drawn, "Failed: ") {
		t.Errorf("%v\n%s", err, drawn)
	}
}
