package nearest

import (
	"slices"
	"strings"
	"testing"
)

func TestFlag(t *testing.T) {
	run := []string{"--threads", "--max-model-len", "--max-tokens", "--temperature", "--seed", "--system", "--kv-cache-dtype", "--max-num-batched-tokens", "--repetition-penalty", "--reasoning-effort"}
	serve := []string{"--model", "--threads", "--max-model-len", "--max-num-seqs", "--max-num-batched-tokens", "--kv-cache-dtype", "--gpu-memory-utilization", "--chat-template", "--served-model-name", "--log-level"}
	for _, c := range []struct {
		name  string
		known []string
		want  string
	}{
		{"n-predict", run, ": Ossian calls it --max-tokens"},
		{"max_new_tokens", run, ": Ossian calls it --max-tokens"},
		{"n-predict", serve, ": each request says it"},
		{"num-ctx", run, ": Ossian calls it --max-model-len"},
		{"repeat-penalty", run, ": Ossian calls it --repetition-penalty"},
		{"cache-type-k", run, ": Ossian calls it --kv-cache-dtype"},
		{"sys", run, ": Ossian calls it --system"},
		{"think", run, ": Ossian calls it --reasoning-effort"},
		{"hidethinking", run, "| cat leaves it out"},
		{"ngl", run, ": there is one device"},
		{"n-gpu-layers", serve, ": there is one device"},
		{"tensor-parallel-size", run, ": there is one device"},
		{"tensor-parallel-size", run, "which --device names"},
		{"main-gpu", append(run, "--device"), ": Ossian calls it --device"},
		{"device", run, ": this command puts no model on a device"},
		{"hf", run, ": a model is fetched first, ossian pull"},
		{"image", run, ": models here read text only"},
		{"mmproj", serve, ": models here read text only"},
		{"json-schema", run, "response_format"},
		{"parallel", serve, ": Ossian calls it --max-num-seqs"},
		{"parallel", run, "ossian serve --max-num-seqs"},
		{"model-path", serve, ": Ossian calls it --model"},
		{"model-path", run, ": the model is named without a flag"},
		{"mem-fraction-static", serve, ": Ossian calls it --gpu-memory-utilization"},
		{"draft-max", append(serve, "--speculative-config"), ": Ossian calls it --speculative-config"},
		{"speculative-config", run, "ossian serve --speculative-config"},
		{"threds", run, "; did you mean --threads?"},
		{"random-seed", run, ": Ossian calls it --seed"},
		{"nothing-like-it", run, ""},
	} {
		if got := Flag(c.name, c.known); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, expected %q in it", c.name, got, c.want)
		}
	}
}

// Every name is said once, without hyphens in front, and what is written with one hyphen is
// among the names.
func TestForeignFlags(t *testing.T) {
	seen := map[string]bool{}
	for _, foreign := range foreignFlags {
		if foreign.ours == "" && foreign.why == "" {
			t.Errorf("%v: nothing is said", foreign.names)
		}
		for _, name := range foreign.names {
			if seen[name] || strings.HasPrefix(name, "-") || strings.Contains(name, "_") || name == foreign.ours && foreign.why == "" {
				t.Errorf("%q: twice, or not as it is looked up", name)
			}
			seen[name] = true
		}
	}
	for name := range short {
		if !seen[name] || !OneHyphen(name) {
			t.Errorf("-%s is no flag of the table", name)
		}
	}
	for _, name := range []string{"n", "model", "threads", "n-gpu-layers", "q"} {
		if OneHyphen(name) {
			t.Errorf("-%s is taken for one flag", name)
		}
	}
	if !slices.ContainsFunc(foreignFlags, func(f foreignFlag) bool { return slices.Contains(f.names, "ngl") }) {
		t.Error("-ngl is missing")
	}
}
