package bench

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"ossian/internal/bench"
	"ossian/internal/command"
	"ossian/internal/command/commandtest"
	"ossian/internal/command/serve"
	"ossian/internal/soak"
)

// One command measures the built-in model; its log and its result can be read again
// and compared.
func TestBenchServe(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	out, status, err := commandtest.Run(t, root(), "bench", "serve", "--num-prompts", "6", "--random-input-len", "20", "--random-output-len", "5", "--max-concurrency", "2",
		"--log", "run.log", "--html", "run.html", "--save-detailed", "--result-dir", "results", "--result-filename", "a.json", "--plot-timeline", "--plot-dataset-stats",
		"--goodput", "ttft:60000", "e2el:60000", "--metadata", "machine=test", "--disable-tqdm")
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, status)
	}
	for _, row := range []string{"Successful requests:                     6", "Failed requests:                         0", "Maximum request concurrency:             2",
		"Total generated tokens:                  30", "Request goodput (req/s):"} {
		if !strings.Contains(out, row) {
			t.Errorf("no row %q in\n%s", row, out)
		}
	}
	for _, name := range []string{"run.html", "results/a.timeline.html", "results/a.dataset_stats.png"} {
		if info, err := os.Stat(name); err != nil || info.Size() < 1000 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
	again, _, err := commandtest.Run(t, root(), "bench", "summarize", "run.log", "results/a.json")
	_, report, _ := strings.Cut(out, "= Serving Benchmark Result =")
	if err != nil || !strings.Contains(again, report[:200]) || strings.Count(again, "\n") < 20 {
		t.Errorf("%v:\n%s\nnot as the run said:\n%s", err, again, out)
	}
	same, _, err := commandtest.Run(t, root(), "bench", "compare", "results/a.json", "run.log")
	if err != nil || !strings.Contains(same, "Metric") {
		t.Errorf("compare: %v\n%s", err, same)
	}
}

// The server that a measurement starts takes more requests at once than one that others
// can reach, for that is what was asked for; and answers end where they end.
func TestBenchServeTakesAll(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	out, status, err := commandtest.Run(t, root(), "bench", "serve", "--num-prompts", "1500", "--random-input-len", "3", "--random-output-len", "10", "--disable-ignore-eos", "--disable-tqdm")
	if err != nil || !strings.Contains(out, "Successful requests:                     1500") || strings.Contains(out, "Total generated tokens:                  15000") {
		t.Errorf("%v\n%s%s", err, out, status)
	}
}

// What is asked for wrongly is refused with what to write instead.
func TestBenchServeErrors(t *testing.T) {
	t.Chdir(t.TempDir())
	missing := filepath.Join(t.TempDir(), "none.json")
	if err := os.WriteFile("x.json", nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ args, want string }{
		{"--compat vlm", "vllm-0.11"},
		{"--request-rate 0", "above 0"},
		{"--burstiness x", "above 0"},
		{"--goodput tft:1", "ttft:MS"},
		{"--percentile-metrics ttfp", "is none of"},
		{"--metric-percentiles 101", "from 0 to 100"},
		{"--request-rate 3 --ramp-up-strategy linear", "exclude each other"},
		{"ossian-tiny", "the model is --model"},
		{"--nope", "unknown flag"},
		{"--num-prompt 3", "did you mean --num-prompts?"},
		{"--max_concurency 3", "did you mean --max-concurrency?"},
		{"--html " + t.TempDir(), "is a folder"},
		{"--num-warmups -1", "want 0 to"},
		{"--ready-check-timeout-sec 1e30", "want 0 to"},
		{"--probe-request-rate 1e-30", "want 0 for none"},
		{"--goodput ttft:inf", "ttft:MS"},
		{"--dataset-name sharegpt", "needs --dataset-path"},
		{"--dataset-path x.json", "reads no file"},
		{"--dataset-name sharegpt --dataset-path " + missing, "none.json"},
		{"--random-range-ratio many", "want a number"},
		{"--num-prompts 0", "want 1 to"},
		{"--metadata x", "KEY=VALUE"},
		{"--base-url ftp://x", "want an address"},
		{"--base-url 127.0.0.1:9", "want an address"},
		{"--base-url http://127.0.0.1:9 --num-prompts 1", "--base-url says where the server is"},
		{"--host ::1 --port 9 --num-prompts 1", "http://[::1]:9/"},
		{"--host [::1] --port 9 --num-prompts 1", "http://[::1]:9/"},
		{"--base-url http://127.0.0.1:9 --save-result --result-dir " + filepath.Join(os.Args[0], "x"), "is a file, where a folder is needed"},
		{"--model no/such-model", "no/such-model"},
		{"--device cuda:x --num-prompts 1", "the number of one card"},
		{"--device cuda --base-url http://127.0.0.1:9 --num-prompts 1", "--device: the server at --base-url"},
	} {
		_, _, err := commandtest.Run(t, root(), append([]string{"bench", "serve", "--disable-tqdm"}, strings.Fields(c.args)...)...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, expected %q", c.args, err, c.want)
		}
	}
}

// sglang's answers to random prompts are as long as the prompts unless it is told
// otherwise, and its result says so.
func TestBenchOutputLength(t *testing.T) {
	for args, want := range map[string]int{"": 128, "--compat lmdeploy": 128, "--compat sglang": 1024, "--compat sglang --random-output-len 7": 7} {
		o := &clientOptions{}
		f := o.flags()
		if err := f.Parse(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		if err := o.complete(f, nil); err != nil || o.Data.Random.Output != want {
			t.Errorf("%q: %d tokens, %v; want %d", args, o.Data.Random.Output, err, want)
		}
	}
}

func TestBenchArguments(t *testing.T) {
	got := spread(strings.Fields("--goodput ttft:1 tpot:2 --seed 3 --header A=secret B=c --label=x"))
	want := strings.Fields("--goodput=ttft:1 --goodput=tpot:2 --seed 3 --header=A=secret --header=B=c --label=x")
	if !slices.Equal(got, want) {
		t.Errorf("spread: %q", got)
	}
	if got := spread(strings.Fields("--goodput --seed 1 --compare")); !slices.Equal(got, strings.Fields("--goodput= --seed 1 --compare=")) {
		t.Errorf("flags without words: %q", got)
	}
	for _, args := range []string{"--header A=secret B=secret --seed 1", "--header=A=secret --seed 1"} {
		if shown := strings.Join(bench.HideSecrets(strings.Fields(args)), " "); strings.Contains(shown, "secret") || !strings.HasSuffix(shown, "--seed 1") {
			t.Errorf("%q is shown as %q", args, shown)
		}
	}
}

// A mistyped command is an error, not a page of help.
func TestBenchUnknownCommand(t *testing.T) {
	for _, args := range [][]string{{"bench", "srve"}, {"bench", "sweep", "laod"}} {
		if _, _, err := commandtest.Run(t, root(), args...); err == nil || !strings.Contains(err.Error(), "want one of") {
			t.Errorf("%q: got %v, expected an error that lists the commands", args, err)
		}
	}
	if out, _, err := commandtest.Run(t, root(), "bench"); err != nil || !strings.Contains(out, "Available Commands") {
		t.Errorf("without a command: %v\n%s", err, out)
	}
}

// root is the program as far as it takes part in measurements.
func root() *cobra.Command {
	return command.Root(serve.Command(), Command(Serve{Start: serve.Start, Plan: serve.Plan}))
}

// TestMain makes the test binary that program where a test starts it as a process.
func TestMain(m *testing.M) {
	soak.Abreast(4) // they wait
	commandtest.Main(m, func() { os.Exit(command.Main(root())) })
}
