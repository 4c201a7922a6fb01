package inspect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"ossian/internal/ckpt"
	"ossian/internal/command"
	"ossian/internal/command/commandtest"
	"ossian/internal/load"
	"ossian/internal/model"
	"ossian/internal/plan"
	"ossian/internal/synth"
	"ossian/internal/tensor"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// fixedMachine has 1 GB of memory, reads 10 GB/s, and its device reads weights in place.
func fixedMachine() machine {
	return machine{
		bandwidth: func(context.Context, int) (float64, error) { return 10e9, nil },
		available: func() int64 { return 1e9 },
		cost: func(m *ckpt.Model, _ load.Device) plan.Cost {
			return func(lim model.Limits) (plan.Footprint, error) {
				count, err := plan.New(m.Spec, m.Params)
				if err != nil {
					return plan.Footprint{}, err
				}
				return count.Estimate(lim)
			}
		},
	}
}

// runInspect runs the command on on and returns its output.
func runInspect(t *testing.T, on machine, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	c := commandOn(on)
	c.SilenceUsage, c.SilenceErrors = true, true
	c.SetOut(&out)
	c.SetErr(&out)
	c.SetArgs(args)
	err := c.ExecuteContext(t.Context())
	return out.String(), err
}

// Golden files: go test ./internal/command/inspect -run TestInspectGolden -update, on models of
// internal/synth with seed 0.
func TestInspectGolden(t *testing.T) {
	golden, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	commandtest.WriteModel(t, "gpt-oss-tiny", "gpt-oss-tiny", synth.Options{})
	commandtest.WriteModel(t, "qwen3moe-tiny", "qwen3moe-tiny", synth.Options{})
	commandtest.WriteModel(t, "llama3-tiny", "llama3-tiny.gguf", synth.Options{Format: synth.GGUF, Type: tensor.Q8_0})
	for _, c := range []struct {
		name string
		args []string
	}{
		{"gpt-oss", []string{"gpt-oss-tiny"}},
		{"gpt-oss-json", []string{"gpt-oss-tiny", "--json", "--verify"}},
		{"qwen3moe", []string{"qwen3moe-tiny", "--verify"}},
		{"llama3-gguf", []string{"llama3-tiny.gguf", "--max-model-len", "256", "--max-num-seqs", "4"}},
		{"too-long", []string{"gpt-oss-tiny", "--max-num-seqs", "256", "--max-model-len", "32768"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := runInspect(t, fixedMachine(), c.args...)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(golden, "inspect-"+c.name+".golden")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// The real device and the real memory give a plan too, and a bandwidth above zero.
func TestInspectThisMachine(t *testing.T) {
	t.Chdir(t.TempDir())
	commandtest.WriteModel(t, "qwen3-tiny", "tiny", synth.Options{})
	out, err := runInspect(t, thisMachine(), "tiny", "--json", "--threads", "1")
	if err != nil {
		t.Fatal(err)
	}
	var r inspection
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if r.Plan.Total <= r.Plan.Runtime || r.Plan.KV <= 0 || r.PlanError != "" || r.Bandwidth <= 0 || len(r.Decode) == 0 || r.Decode[0].Rate <= 0 {
		t.Errorf("report %+v", r)
	}
}

// Where the chat template is from is said, which other one has no say, and what is wrong with it.
func TestInspectTemplate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "model")
	commandtest.WriteModel(t, "qwen3-tiny", dir, synth.Options{})
	for _, c := range []struct {
		name, jinja, legacy string
		words               []string
	}{
		{"overruled", "{{ messages }}", `{"chat_template": "x"}`, []string{"from chat_template.jinja", "the chat template of tokenizer_config.json and of chat_template.json, which differs"}},
		{"broken", "{% if %}", "{}", []string{"no chat", filepath.Join(dir, "chat_template.jinja") + ": chat template 1:7"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for file, text := range map[string]string{"chat_template.jinja": c.jinja, "chat_template.json": c.legacy} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			out, err := runInspect(t, fixedMachine(), dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, words := range c.words {
				if !strings.Contains(out, words) {
					t.Errorf("%s\nwant %q", out, words)
				}
			}
		})
	}
}

func TestInspectErrors(t *testing.T) {
	t.Setenv("HF_HOME", t.TempDir())
	t.Chdir(t.TempDir())
	commandtest.WriteModel(t, "llama-tiny", "cut", synth.Options{})
	weights := filepath.Join("cut", "model.safetensors")
	whole, err := os.ReadFile(weights)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(weights, int64(len(whole)-100)); err != nil {
		t.Fatal(err)
	}
	commandtest.WriteModel(t, "llama-tiny", "flipped", synth.Options{})
	if err := ckpt.Seal(t.Context(), "flipped", nil); err != nil {
		t.Fatal(err)
	}
	whole[len(whole)-5] ^= 1
	if err := os.WriteFile(filepath.Join("flipped", "model.safetensors"), whole, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args []string
		want []string
	}{
		{"truncated", []string{"cut"}, []string{"model.safetensors"}},
		{"one bit flipped", []string{"flipped", "--verify"}, []string{"model.safetensors"}},
		{"not there", []string{"org/model"}, []string{"ossian pull org/model"}},
		{"longer than promised", []string{"flipped", "--max-model-len", "99999999"}, []string{"--max-model-len is 99999999, outside"}},
		{"two models", []string{"cut", "flipped"}, []string{"arg"}},
		{"a model by a flag and another one", []string{"-m", "cut", "flipped"}, []string{`one model expected, found "cut" and "flipped"`}},
		{"a flag of another tool", []string{"flipped", "-c", "99999999"}, []string{"--max-model-len is 99999999, outside"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := runInspect(t, fixedMachine(), c.args...)
			for _, w := range c.want {
				if err == nil || !strings.Contains(err.Error(), w) {
					t.Errorf("got %v, expected it to contain %q", err, w)
				}
			}
		})
	}
	if _, err := runInspect(t, fixedMachine(), "flipped"); err != nil {
		t.Errorf("without --verify only headers are read, got %v", err)
	}
}

func TestInspectBuiltIn(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, args := range [][]string{{"inspect", "ossian-tiny"}, {"inspect"}, {"inspect", "-m", "ossian-tiny"}} {
		out, _, err := commandtest.Run(t, root(), args...)
		if err != nil || !strings.Contains(out, "part of the program") {
			t.Errorf("%q: got %v, %s", args, err, out)
		}
	}
	if _, _, err := commandtest.Run(t, root(), "inspect", "--seal", "ossian-tiny"); err == nil || !strings.Contains(err.Error(), "no files to seal") {
		t.Errorf("sealing it: %v", err)
	}
}

func root() *cobra.Command { return command.Root(Command()) }

// Named templates are told, and what a file calls them does not steer the terminal.
func TestInspectNamedTemplates(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "model")
	commandtest.WriteModel(t, "qwen3-tiny", dir, synth.Options{})
	if err := os.Remove(filepath.Join(dir, "chat_template.jinja")); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	config := `{"chat_template": [{"name": "default", "template": "D"}, {"name": "tool_use", "template": "T"}, {"name": "r\u001b[2Jag", "template": "R"}]}`
	if err := os.WriteFile(filepath.Join(dir, "tokenizer_config.json"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	text, err := runInspect(t, fixedMachine(), dir)
	if err != nil || !strings.Contains(text, "others named r[2Jag, tool_use") {
		t.Errorf("%v\n%s", err, text)
	}
	text, err = runInspect(t, fixedMachine(), dir, "--json")
	var report struct {
		Named []string `json:"named_templates"`
	}
	if err := errors.Join(err, json.Unmarshal([]byte(text), &report)); err != nil || len(report.Named) != 2 || report.Named[1] != "tool_use" {
		t.Errorf("%v: %q", err, report.Named)
	}
}

// Which device is planned for is said, and why; a model that it does not compute is described all the same.
func TestInspectDevice(t *testing.T) {
	t.Chdir(t.TempDir())
	commandtest.WriteModel(t, "qwen3-tiny", "plain", synth.Options{})
	commandtest.WriteModel(t, "qwen3-tiny", "refused.gguf", synth.Options{Format: synth.GGUF, Type: tensor.Q4_0})
	for _, c := range []struct {
		args   string
		has    []string
		misses string
		err    string // "" = none
	}{
		{"plain --device emu", []string{"planned for emu, Emulated A100\n", "memory plan", "in the memory of Emulated A100"}, "--device auto", ""},
		{"plain --device auto", []string{"planned for ", ": --device auto "}, "", ""},
		{"plain", []string{"memory plan"}, "planned for", ""},
		{"refused.gguf --device emu", []string{"model  ", "weights by type", "Q4_0"}, "memory plan", "--device emu: cuda: tensor"},
		{"refused.gguf --device emu --json", []string{`"family": "qwen3"`, `"plan_error": "--device emu: cuda: tensor`}, `"plan":`, "--device emu: cuda: tensor"},
		{"plain --device cudas", nil, "weights by type", "auto, cpu, cuda"},
	} {
		out, err := runInspect(t, fixedMachine(), strings.Fields(c.args)...)
		if (err == nil) != (c.err == "") || (err != nil && !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: error %v, want %q", c.args, err, c.err)
		}
		for _, words := range c.has {
			if !strings.Contains(out, words) {
				t.Errorf("%s:\n%s\nwant %q", c.args, out, words)
			}
		}
		if c.misses != "" && strings.Contains(out, c.misses) {
			t.Errorf("%s:\n%s\nwith %q", c.args, out, c.misses)
		}
	}
}
