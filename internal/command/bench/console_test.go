package bench

import (
	"os"
	"slices"
	"strings"
	"testing"

	"ossian/internal/command/commandtest"
)

const greedyWarning = "WARNING: vllm bench serve no longer sets temperature==0 (greedy) in requests by default. " +
	"The default will be determined on the server side and can be model/API specific. For the old behavior, include --temperature=0.\n"

// What is said before the report is what the tools say there: vllm 0.33.0 and 0.11.0,
// sglang 0.5.23 and bench.md 4.1 for lmdeploy.
func TestBenchStages(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("trace.jsonl", []byte(`{"timestamp":0,"input_length":4,"output_length":2,"hash_ids":[1]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	s := plays(t)
	const random = "--num-prompts 3 --dataset-name random-ids --random-input-len 8 --random-output-len 2 --random-range-ratio 1.0 "
	for _, c := range []struct{ flags, want string }{
		{"--dataset-name sharegpt-synthetic --num-prompts 2 --sharegpt-output-len 2", greedyWarning + `Starting initial single prompt test run...
Skipping endpoint ready check.
Starting main benchmark run...
Traffic request rate: inf
Burstiness factor: 1.0 (Poisson process)
Maximum request concurrency: None
`},
		{"--dataset-name sharegpt-synthetic --num-prompts 2 --sharegpt-output-len 2 --temperature 0 --ready-check-timeout-sec 60 --num-warmups 2 --request-rate 200 --burstiness 2 --max-concurrency 2 --probe-request-rate 8 --profile", `Starting initial single prompt test run...
Waiting for endpoint to become up in 60 seconds
Initial test run completed.
Warming up with 2 requests...
Warmup run completed.
Starting main benchmark run...
Starting profiler...
Profiler started
Traffic request rate: 200.0
Burstiness factor: 2.0 (Gamma distribution)
Maximum request concurrency: 2
Probe request rate: 8.0 req/s
Stopping profiler...
Profiler stopped
`},
		{"--dataset-name timed_trace --dataset-path trace.jsonl --num-prompts 1 --temperature 0", `Starting initial single prompt test run...
Skipping endpoint ready check.
Starting main benchmark run...
Self timing is set, using the timestamps from the trace file.
`},
		{"--dataset-name timed_trace --dataset-path trace.jsonl --num-prompts 1 --temperature 0 --no-self-timed --ramp-up-strategy linear --ramp-up-start-rps 100 --ramp-up-end-rps 200", `Starting initial single prompt test run...
Skipping endpoint ready check.
Starting main benchmark run...
Traffic ramp-up strategy: linear.
Will increase RPS from 100 to 200 RPS over the duration of the benchmark.
Burstiness factor: 1.0 (Poisson process)
Maximum request concurrency: None
`},
		{"--compat vllm-0.11 --dataset-name sharegpt-synthetic --num-prompts 2 --sharegpt-output-len 2", `Starting initial single prompt test run...
Waiting for endpoint to become up in 600 seconds
Initial test run completed. Starting main benchmark run...
Traffic request rate: inf
Burstiness factor: 1.0 (Poisson process)
Maximum request concurrency: None
`},
		{"--compat sglang " + random, `
#Input tokens: 24
#Output tokens: 6
Starting warmup with 1 sequences...
Warmup completed with 1 sequences. Starting main benchmark run...

`},
		{"--compat lmdeploy --disable-warmup " + random, "\n#Input tokens: 24\n#Output tokens: 6\n\n"},
	} {
		out := measured(t, s, c.flags)
		command, said, _ := strings.Cut(out, "\n")
		said, _, _ = strings.Cut(said, "============ Serving Benchmark Result")
		if said != c.want || !strings.HasPrefix(command, "ossian bench serve --base-url http://127.0.0.1:") || !strings.HasSuffix(command, strings.TrimSpace(c.flags)) {
			t.Errorf("%s\nsaid\n%s\nwant\n%s", command, said, c.want)
		}
	}
	lines(t, measured(t, s, "--compat lmdeploy "+random), "\nStarting initial single prompt test run...\nInitial test run completed. Starting main benchmark run...\nwarmup time: ")
	lines(t, measured(t, s, "--num-prompts 1 --random-input-len 4 --random-output-len 1"), "\nWARNING: /tokenize unavailable (POST /tokenize: 404 Not Found", "), skipping alignment.\n")
}

// A dry run makes the workload, of each case of a sweep, and asks no server.
func TestBenchDryRun(t *testing.T) {
	t.Chdir(t.TempDir())
	dry := func(flags string) string {
		out, status, err := commandtest.Run(t, root(), append([]string{"bench", "serve", "--dry-run"}, strings.Fields(flags)...)...)
		if err != nil {
			t.Fatalf("%s: %v\n%s%s", flags, err, out, status)
		}
		return out + status
	}
	const four = "--random-input-len 32 --random-output-len 16 --num-prompts 4 --temperature 0"
	out := dry("--base-url http://127.0.0.1:1 --model gpt-oss " + four)
	lines(t, out, "Dry run stats: \n  Total prompts: 4\n  Total input tokens: 128\n  Total expected output tokens: 64\n  Avg input tokens: 32.0\n  Avg output tokens: 16.0\n  Workload: ")
	lines(t, dry(four+" --sweep-max-concurrency 1,2 --sweep-num-prompts-factor 3"), "Dry run stats: max_concurrency=1\n  Total prompts: 3\n", "Dry run stats: max_concurrency=2\n  Total prompts: 6\n")
	lines(t, dry("--dataset-name sharegpt-synthetic --num-prompts 50 --max-model-len 200"), "  Total prompts: ", " of 50 requests were left out\n")
	for _, c := range []struct{ flags, want string }{
		{"--base-url http://127.0.0.1:1", "--model or --tokenizer"},
		{four + " --max-model-len 20", "none of 4 requests"},
		{four + " --sweep-max-concurrency 1,2,x", "want whole numbers from 1"},
		{four + " --max-model-len 100 --multi-turn", "no --multi-turn"},
		{four + " --lora-modules a --lora-assignment first", "random or round-robin"},
		{four + " --chat-template-kwargs 7", "want a JSON object"},
	} {
		if _, _, err := commandtest.Run(t, root(), append([]string{"bench", "serve", "--dry-run"}, strings.Fields(c.flags)...)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.flags, err, c.want)
		}
	}
}

// Several adapters stand behind one flag.
func TestBenchAdapterFlags(t *testing.T) {
	if !slices.Equal(spread(strings.Fields("--lora-modules x y --seed 1")), strings.Fields("--lora-modules=x --lora-modules=y --seed 1")) {
		t.Error("several adapters behind one flag are not taken")
	}
}
