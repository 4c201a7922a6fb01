package bench

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"ossian/internal/bench/offline"
	"ossian/internal/command/commandtest"
)

// offlineRun runs a command in an empty folder and returns what it prints and its JSON.
func offlineRun(t *testing.T, result any, args ...string) (out string) {
	t.Helper()
	t.Chdir(t.TempDir())
	out, status, err := commandtest.Run(t, root(), append([]string{"bench"}, append(args, "--output-json", "new/result.json")...)...)
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, status)
	}
	text, err := os.ReadFile("new/result.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, result); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return out
}

// Every answer has the tokens asked for, though the model would have ended most before.
func TestBenchThroughput(t *testing.T) {
	custom := filepath.Join(t.TempDir(), "prompts.jsonl")
	if err := os.WriteFile(custom, []byte(`{"prompt": "What is 12+30?"}`+"\n"+`{"prompt": "Who are you?"}`+"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name           string
		args           string
		prompts, n     int
		input, output  int // tokens of each; input 0 = what the template makes of it
		dataset        string
		caching, chats bool
	}{
		{name: "without a flag but the number", args: "--num-prompts 6", prompts: 6, n: 1, input: 64, output: 64, dataset: "random", caching: true},
		{name: "chats", args: "--backend vllm-chat --num_prompts=3 --n 2 --input-len 8 --output-len 40 --disable-detokenize --max-num-seqs 4 --dtype auto", prompts: 3, n: 2,
			output: 40, dataset: "random", caching: true},
		{name: "ids", args: "ossian-tiny --dataset-name random --input-len 20 --prefix-len 5 --random-output-len 7 --num-prompts 4 --prompt-token-ids --async-engine --no-enable-prefix-caching --threads 1",
			prompts: 4, n: 1, input: 25, output: 7, dataset: "random"},
		{name: "file of prompts", args: "--dataset-name custom --dataset-path " + custom + " --output-len 6 --num-prompts 2", prompts: 2, n: 1, output: 6, dataset: "custom", caching: true, chats: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r offline.Throughput
			out := offlineRun(t, &r, append([]string{"throughput"}, strings.Fields(c.args)...)...)
			x := &r.Ossian
			// Texts of random tokens may encode to one or two more.
			if each := x.Prompt / c.prompts; (c.input == 0 && each < 20) || (c.input > 0 && each != c.input) {
				t.Errorf("%d tokens of %d prompts, want %d in each", x.Prompt, c.prompts, c.input)
			}
			if r.Requests != c.prompts || x.Output != c.prompts*c.n*c.output || r.Tokens != x.Prompt+x.Output || !(r.Elapsed > 0) {
				t.Errorf("%d requests, %d + %d = %d tokens in %v s", r.Requests, x.Prompt, x.Output, r.Tokens, r.Elapsed)
			}
			lines := regexp.MustCompile(`^Throughput: \d+\.\d\d requests/s, \d+\.\d\d total tokens/s, \d+\.\d\d output tokens/s\nTotal num prompt tokens:  \d+\nTotal num output tokens:  \d+\n\n`)
			if !lines.MatchString(out) || !strings.Contains(out, "\nDecode: ") || !strings.Contains(out, "Model: ossian-tiny, weights ") {
				t.Errorf("printed\n%s", out)
			}
			e := &x.Environment
			if e.Model != "ossian-tiny" || len(e.DTypes) == 0 || e.Processor == "" || e.Threads < 1 || e.Device == "" || e.PrefixCaching != c.caching || !slices.Equal(e.Args[:2], append([]string{}, strings.Fields(c.args)[:2]...)) {
				t.Errorf("environment %+v", e)
			}
			if w := x.Workload; w.Dataset != c.dataset || w.Prompts != c.prompts || w.N != c.n || len(w.Hash) != 16 {
				t.Errorf("workload %+v", w)
			}
			if s := x.Steps; s.Prefill.Steps+s.Mixed.Steps < 1 || s.Mixed.Decode+s.Decode.Decode != x.Output-c.prompts*c.n {
				t.Errorf("steps %+v", s)
			}
		})
	}
}

// One batch is one step for its prompts and one for each further token.
func TestBenchLatency(t *testing.T) {
	var r offline.Latency
	out := offlineRun(t, &r, strings.Fields("latency --num-iters 3 --num-iters-warmup 1 --batch-size 3 --n 2 --input-len 8 --output-len 5 --profile --seed 7 --temperature 0.5")...)
	x := &r.Ossian
	if len(r.Latencies) != 3 || len(r.Percentiles) != 6 || r.Percentiles["50"] != slices.Sorted(slices.Values(r.Latencies))[1] || !(r.Mean > 0) {
		t.Errorf("%+v", r)
	}
	if s := x.Steps; s.Prefill.Steps != 3 || s.Prefill.Prompt != 3*48 || s.Mixed.Steps != 0 || s.Decode.Steps != 12 || s.Decode.Decode != 12*6 {
		t.Errorf("steps %+v", s)
	}
	if x.Prompt != 3*24 || x.Output != 3*30 || x.Cached != 0 || x.Environment.PrefixCaching || x.Workload.Batches != 3 || x.Workload.Seed != 7 || x.Workload.Temp != 0.5 {
		t.Errorf("%+v", x)
	}
	lines := regexp.MustCompile(`^Avg latency: \S+ seconds\nStd latency: \S+ seconds\n10% percentile latency: \S+ seconds\n25% percentile latency: \S+ seconds\n` +
		`50% percentile latency: \S+ seconds\n75% percentile latency: \S+ seconds\n90% percentile latency: \S+ seconds\n99% percentile latency: \S+ seconds\n\nOutput: `)
	if !lines.MatchString(out) {
		t.Errorf("printed\n%s", out)
	}
	if info, err := os.Stat("bench-latency.pprof"); err != nil || info.Size() == 0 {
		t.Errorf("profile: %v", err)
	}
}

// What is asked for wrongly is refused with what to write instead.
func TestBenchOfflineErrors(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	if err := os.WriteFile("serve.yaml", []byte("host: 0.0.0.0\nport: 9000\nmax-num-seqs: 2\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(t.TempDir(), "none.json")
	for _, c := range []struct{ args, want string }{
		{"throughput --backend hf", "want vllm"},
		{"throughput --n 0", "want 1 to 1000"},
		{"throughput --num-prompts 0", "want 1 to"},
		{"throughput --model no/such-model --input-len 5", "no/such-model"},
		{"throughput --model no/such-model", "needs --input-len"},
		{"throughput --dataset-name sharegpt", "needs --dataset-path"},
		{"throughput --dataset-path " + missing, "none.json"},
		{"throughput --dataset-name many", "want random"},
		{"throughput --dataset-name random --dataset-path x.json", "reads no file"},
		{"throughput --random-range-ratio many", "want a number"},
		{"throughput --seed -1", "--seed -1"},
		{"throughput --temperature -1", "--temperature -1: want 0 or more"},
		{"latency --temperature NaN", "--temperature NaN: want 0 or more"},
		{"throughput --host 0.0.0.0", "--host is for a server"},
		{"throughput --no_access_log", "--no-access-log is for a server"},
		{"latency --api-key=x", "--api-key is for a server"},
		{"throughput --disable-detokenize ossian-tiny", "the model goes first"},
		{"throughput ossian-tiny other", "one model expected"},
		{"throughput --nope", "unknown flag --nope"},
		{"throughput --max-num-sequences 3", "did you mean --max-num-seqs"},
		{"throughput --kv-cache-dtype int3", "expected"},
		{"throughput --input-len 4000 --output-len 200 --num-prompts 2", "--max-model-len"},
		{"throughput --max-model-len 100", "--max-model-len"},
		{"throughput --backend vllm-chat --prompt-token-ids --num-prompts 1", "drop --prompt-token-ids"},
		{"throughput --num-prompts x", "invalid argument"},
		{"latency --batch-size 0", "--batch-size 0: want 1 to"},
		{"latency --input-len 0", "--input-len 0: want 1 to"},
		{"latency --output-len -1", "--output-len -1: want 1 to"},
		{"latency --num-iters 0", "--num-iters 0: want 1 to"},
		{"latency --num-iters-warmup -1", "--num-iters-warmup -1: want 0 to"},
		{"latency --n 1001", "want 1 to 1000"},
		{"latency --batch-size 3 --max-num-seqs 2", "lower --batch-size"},
		{"latency --batch-size 3 --config serve.yaml", "lower --batch-size"},
		{"latency --input-len 5000", "--max-model-len"},
		{"latency --seed -1 --num-iters 1", "--seed -1"},
		{"latency --num-prompts 3", "unknown flag --num-prompts"},
	} {
		_, _, err := commandtest.Run(t, root(), append([]string{"bench"}, strings.Fields(c.args)...)...)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, expected %q", c.args, err, c.want)
		}
	}
	for _, name := range []string{"throughput", "latency"} {
		out, _, err := commandtest.Run(t, root(), "bench", name, "--help")
		if err != nil || !strings.Contains(out, "--output-json FILE") || !strings.Contains(out, "--max-num-batched-tokens") {
			t.Errorf("%s --help: %v\n%s", name, err, out)
		}
	}
}

// FuzzBenchOfflineSplit: every word is on one side, in its order.
func FuzzBenchOfflineSplit(f *testing.F) {
	f.Add("model --seed -1 --threads 2 --=x - -- --seed")
	f.Fuzz(func(t *testing.T, line string) {
		set := pflag.NewFlagSet("", pflag.ContinueOnError)
		set.Int("seed", 0, "")
		args := strings.Split(line, " ")
		own, rest := split(set, args)
		for _, a := range args {
			if len(own) > 0 && own[0] == a {
				own = own[1:]
			} else if len(rest) > 0 && rest[0] == a {
				rest = rest[1:]
			}
		}
		if len(own)+len(rest) > 0 {
			t.Errorf("%q: left %q and %q", args, own, rest)
		}
	})
}

func TestBenchOfflineSplit(t *testing.T) {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.Int("seed", 0, "")
	f.Bool("profile", false, "")
	own, rest := split(f, strings.Fields("model --seed -1 --threads 2 --profile --max-num-seqs=-3 -tp 1 --seed=4 word"))
	if got, want := strings.Join(own, " "), "--seed -1 --profile --seed=4 word"; got != want {
		t.Errorf("own: %q, want %q", got, want)
	}
	if got, want := strings.Join(rest, " "), "model --threads 2 --max-num-seqs=-3 -tp 1"; got != want {
		t.Errorf("rest: %q, want %q", got, want)
	}
}
