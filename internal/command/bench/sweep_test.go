package bench

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ossian/internal/bench/scripted"
	"ossian/internal/command/commandtest"
)

// loadFile is load.json.
type loadFile struct {
	StoppedBy   string `json:"stopped_by"`
	Recommended float64
	Points      []struct{ Load, Throughput float64 }
}

func readLoad(t *testing.T, path string) (l loadFile) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &l); err != nil {
		t.Fatal(err)
	}
	return l
}

// One command finds a load for the built-in model; resumed, it measures nothing and says
// the same.
func TestSweepLoad(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	args := strings.Fields("bench sweep load --max 2 --num-prompts 3 --prompts-per-load 1 --random-input-len 8 --random-output-len 3 --disable-tqdm -o out -e e")
	out, status, err := commandtest.Run(t, root(), append(args, "--html", "load.html", "--sla", "p99_e2el_ms<=600000")...)
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, status)
	}
	for _, part := range []string{"max_concurrency", "output tok/s", "Stopped by: ", "SLA limit: ", "Throughput peak: ", "Recommended load: "} {
		if !strings.Contains(out, part) {
			t.Errorf("no %q in\n%s", part, out)
		}
	}
	l := readLoad(t, "out/e/load.json")
	if len(l.Points) == 0 || l.Points[0].Load != 1 || l.Points[0].Throughput <= 0 {
		t.Errorf("points %+v", l)
	}
	for _, name := range []string{"out/e/BENCH--max_concurrency=1/run=0.json", "out/e/BENCH--max_concurrency=1/summary.json", "out/e/summary.csv", "load.html"} {
		if info, err := os.Stat(name); err != nil || info.Size() < 500 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	before, err := os.ReadFile("out/e/load.json")
	if err != nil {
		t.Fatal(err)
	}
	again, status, err := commandtest.Run(t, root(), append(args, "--resume", "--sla", "p99_e2el_ms<=600000")...)
	after, _ := os.ReadFile("out/e/load.json")
	if err != nil || strings.TrimSpace(out) != strings.TrimSpace(again) || string(before) != string(after) || strings.Contains(status, "listening") {
		t.Errorf("resumed: %v\n%s%s\nat first\n%s", err, again, status, out)
	}
}

// A server elsewhere is measured by rate, until the range ends: the scripted one answers
// any number of requests at once.
func TestSweepLoadOfScripted(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv, err := scripted.Serve(t.Context(), ln, scripted.Options{Scripts: []scripted.Script{{TTFT: time.Millisecond}}})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	out, status, err := commandtest.Run(t, root(), append(strings.Fields("bench sweep load --vary request_rate --min 2 --max 8 --num-prompts 4 --prompts-per-load 0.5 --burstiness inf --no-stream"+
		" --tokenizer ossian-tiny --random-input-len 8 --random-output-len 4 --disable-tqdm -o out -e e --base-url"), srv.URL())...)
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, status)
	}
	l := readLoad(t, "out/e/load.json")
	if recorded(t, srv, 4*len(l.Points)); len(l.Points) == 0 {
		t.Errorf("no points: %+v\n%s", l, out)
	}
	if _, err := os.Stat(filepath.Join("out", "e", "BENCH--request_rate=2", "run=0.json")); err != nil {
		t.Error(err)
	}
	plan, status, err := commandtest.Run(t, root(), "bench", "sweep", "load", "--dry-run", "--max", "100", "-o", "dry")
	if _, missing := os.Stat("dry"); err != nil || missing == nil || !strings.Contains(status, "[1 2 4 8 16 32 64 100]") {
		t.Errorf("dry run: %v\n%s%s", err, plan, status)
	}
}

// A client that would start a server of its own is told where the server of the sweep is,
// however its program is written.
func TestMeasuresItself(t *testing.T) {
	for command, want := range map[string]bool{
		"ossian bench serve": true, "./ossian bench serve": true, "/usr/local/bin/ossian bench serve": true, "go run ./cmd/ossian bench serve --model m": true,
		"taskset -c 1 dir/ossian.exe bench serve": true, "vllm bench serve": false, "ossian-old bench": false, "measure ossian": false,
	} {
		if got := measuresItself(strings.Fields(command)); got != want {
			t.Errorf("%s: %v", command, got)
		}
	}
}

// What is asked for wrongly is refused with what to write instead.
func TestSweepErrors(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("bad.json", []byte(`[1]`), 0o666); err != nil {
		t.Fatal(err)
	}
	const programs = " --serve-cmd s --bench-cmd b"
	for _, c := range []struct{ args, want string }{
		{"serve", "--serve-cmd COMMAND is needed"},
		{"serve --serve-cmd s", "--bench-cmd COMMAND is needed"},
		{"serve --serve-cmd ' --bench-cmd b", "quote is not closed"},
		{"serve --serve_params bad.json" + programs, "--serve-params: bad.json: element 1"},
		{"serve --bench-params none.json" + programs, "--bench-params: open none.json"},
		{"serve --link-vars a" + programs, "--link-vars"},
		{"serve --num-runs 0" + programs, "0 runs"},
		{"serve --resume -e none" + programs, "nothing to resume"},
		{"serve more" + programs, "usage"},
		{"serve_workload --workload-var rate" + programs, "want request_rate or max_concurrency"},
		{"serve-workload --workload-iters 1" + programs, "want 2 or more"},
		{"serve_sla --sla-variable x" + programs, "--sla-variable"},
		{"serve-sla" + programs, "--sla-params"},
		{"load --max-concurrency 4", "--min and --max bound it"},
		{"load --vary request_rate --request-rate 4", "--min and --max bound it"},
		{"load --multi-turn --multi-turn-concurrency 4", "--min and --max bound it"},
		{"load --vary rate", "--vary"},
		{"load --min 0", "loads from 0"},
		{"load --sla ttft", "--sla"},
		{"load --save-result", "go to --output-dir"},
		{"load --serve-cmd s --port 1", "leave out"},
		{"load --nope", "unknown flag"},
		{"load tiny", "the model is --model"},
		{"load --num-runs 0", "--num-runs"},
		{"load --prompts-per-load -1", "--prompts-per-load"},
	} {
		_, _, err := commandtest.Run(t, root(), append([]string{"bench", "sweep"}, strings.Fields(c.args)...)...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, expected %q", c.args, err, c.want)
		}
	}
}
