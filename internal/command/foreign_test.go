package command

import (
	"context"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// program is a root with commands that take a few flags and do nothing.
func program() *cobra.Command {
	nothing := func(*cobra.Command, []string) error { return nil }
	run := &cobra.Command{Use: "run", RunE: nothing}
	flags := run.Flags()
	flags.Int("threads", 0, "")
	flags.Int("max-model-len", 0, "")
	flags.Int("max-tokens", 0, "")
	flags.Float32("temperature", 0, "")
	flags.Duration("wait", 0, "")
	flags.Bool("quiet", false, "")
	flags.String("system", "", "")
	Alias(flags, "max-model-len", "ctx-size", "c")
	Alias(flags, "threads", "", "t")
	serve := &cobra.Command{Use: "serve", RunE: nothing, DisableFlagParsing: true}
	bench := Family(&cobra.Command{Use: "bench"})
	bench.AddCommand(&cobra.Command{Use: "latency", RunE: nothing})
	root := Root(run, serve, bench, &cobra.Command{Use: "inspect", RunE: nothing}, &cobra.Command{Use: "pull", RunE: nothing})
	root.SetOut(io.Discard)
	root.SetErr(io.Discard)
	return root
}

// failure runs the program as Main does.
func failure(args ...string) error {
	return execute(context.Background(), program(), args)
}

// Words and flags of other tools get an answer that says what to do here.
func TestForeign(t *testing.T) {
	for _, c := range []struct {
		args string
		want []string
	}{
		{"list", []string{`there is no command "list"`, "HF_HUB_CACHE", "ossian inspect ORG/NAME"}},
		{"ls", []string{"HF_HUB_CACHE"}},
		{"ps", []string{"/v1/models"}},
		{"rm llama3", []string{"deleting its folder models--ORG--NAME"}},
		{"show llama3", []string{"ossian inspect MODEL"}},
		{"stop", []string{"SIGTERM ends"}},
		{"chat", []string{"ossian run"}},
		{"server", []string{"ossian serve"}},
		{"download a/b", []string{"ossian pull ORG/NAME"}},
		{"create -f Modelfile", []string{"flag"}},
		{"create", []string{"no Modelfiles"}},
		{"quantize", []string{"--cpu-weights q8"}},
		{"inspct", []string{"did you mean ossian inspect?"}},
		{"SERVE", []string{"did you mean ossian serve?"}},
		{"xyzzy", []string{"want one of bench, inspect, pull, run, serve"}},
		{"help xyzzy", []string{"want one of"}},
		{"bench x", []string{`bench has no command "x": want one of latency`}},
		{"run -ngl 99", []string{"unknown flag -ngl: there is one device"}},
		{"run -ngl=99", []string{"unknown flag -ngl: there is one device"}},
		{"run --n-gpu-layers 99", []string{"unknown flag --n-gpu-layers: there is one device"}},
		{"run --n_gpu_layers 99", []string{"there is one device"}},
		{"run -hf a/b", []string{"unknown flag -hf: a model is fetched first"}},
		{"run --tensor-parallel-size 2", []string{"there is one device"}},
		{"run -ctk f16", []string{"unknown flag -ctk"}},
		{"run --n-predict 3", []string{"Ossian calls it --max-tokens"}},
		{"run -n 3", []string{"unknown flag -n: Ossian calls it --max-tokens"}},
		{"run --temp 1", []string{"Ossian calls it --temperature"}},
		{"run --image x.png", []string{"text only"}},
		{"run --thread 1", []string{"did you mean --threads?"}},
		{"run --zzzzzzzzz", []string{"unknown flag --zzzzzzzzz"}},
		{"-m x", []string{"ossian run MODEL", "ossian serve MODEL"}},
		{"launch_server --model-path x", []string{`there is no command "launch_server"`, "ossian serve"}},
		{"--help launch_server", []string{"ossian serve"}},
		{"launch-server -tp 2", []string{"ossian serve"}},
		{"bench_serving --backend x", []string{"ossian bench serve"}},
		{"list --help", []string{`there is no command "list"`}},
		{"list -h", []string{`there is no command "list"`}},
		{"xyzzy --help", []string{"want one of bench, inspect"}},
		{"bench x --help", []string{`bench has no command "x"`}},
		{"bench x --num-prompts 3", []string{`bench has no command "x"`}},
		{"run --threads x", []string{`--threads "x": a whole number expected`}},
		{"run -c x", []string{`--ctx-size "x": a whole number expected`}},
		{"run --threads 99999999999999999999", []string{"not so large"}},
		{"run --temperature x", []string{`--temperature "x": a number expected`}},
		{"run --wait x", []string{`--wait "x": a time such as 30s or 2m expected`}},
		{"run --quiet=x", []string{`--quiet "x": true or false expected`}},
	} {
		err := failure(strings.Fields(c.args)...)
		if err == nil {
			t.Errorf("%s: no error", c.args)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q, expected %q in it", c.args, err, want)
			}
		}
		if strings.Contains(err.Error(), "strconv") || strings.HasPrefix(err.Error(), "ossian") {
			t.Errorf("%s: %q", c.args, err)
		}
	}
	for _, args := range []string{"", "help", "help run", "run -c 100 -t 2", "run --ctx-size 100", "serve -ngl 99 -tp 1", "run -- -ngl", "run --help", "--help", "bench --help", "bench latency -h", "--version",
		"completion bash", "__complete ru"} {
		if err := failure(strings.Fields(args)...); err != nil {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// Another tool's name of a flag sets the flag.
func TestAlias(t *testing.T) {
	root := program()
	run, _, err := root.Find([]string{"run"})
	if err != nil {
		t.Fatal(err)
	}
	if err := run.ParseFlags([]string{"-c", "100", "-t", "3"}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"max-model-len": "100", "threads": "3"} {
		if got := run.Flags().Lookup(name).Value.String(); got != want {
			t.Errorf("--%s is %s, expected %s", name, got, want)
		}
	}
	if usage := run.UsageString(); strings.Contains(usage, "ctx-size") || strings.Contains(usage, "threads-t") {
		t.Errorf("usage lists what is hidden:\n%s", usage)
	}
}

func TestForeignCommands(t *testing.T) {
	seen := map[string]bool{}
	for _, foreign := range foreignCommands {
		for _, name := range foreign.names {
			if seen[name] || slices.Contains([]string{"serve", "run", "inspect", "pull", "bench", "perplexity", "synth", "store"}, name) || foreign.does == "" {
				t.Errorf("%q is there twice, or ours", name)
			}
			seen[name] = true
		}
	}
}

func TestStateDir(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	for state, want := range map[string]string{"": filepath.Join(home, ".local", "state", "ossian"), "relative": "", home: filepath.Join(home, "ossian")} {
		t.Setenv("XDG_STATE_HOME", state)
		if got := StateDir(); got != want {
			t.Errorf("XDG_STATE_HOME=%q: %q, expected %q", state, got, want)
		}
	}
}
