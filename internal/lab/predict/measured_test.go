package predict

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"ossian/internal/cuda/cost"
)

// A measuredRun is what ossian bench latency says of a run's steps.
type measuredRun struct {
	Ossian struct {
		Steps map[string]struct {
			Steps   int
			Seconds float64
			Decoded int `json:"decode_tokens"`
		}
	}
}

// stepsOf are the counted steps of which a run's were: the prompt of one alone, in chunks; the first step of
// several prompts; or tokens of as many sequences as there were on average, in the middle of their answers.
func stepsOf(kind string, decoded, rows, prompt, output int) (steps []cost.Step) {
	const chunk = 2048
	switch {
	case kind == "decode":
		return []cost.Step{{Rows: slices.Repeat([]cost.Row{{Start: prompt + output/2, Len: 1}}, decoded), Sampled: decoded, Drawn: true}}
	case rows == 1:
		for from := 0; from < prompt; from += chunk {
			steps = append(steps, cost.Step{Rows: []cost.Row{{Start: from, Len: min(chunk, prompt-from)}}, Drawn: true})
		}
		steps[len(steps)-1].Sampled = 1
		return steps
	}
	step := cost.Step{Drawn: true}
	for left := chunk; left > 0; left -= prompt {
		step.Rows = append(step.Rows, cost.Row{Len: min(prompt, left)})
	}
	step.Sampled = chunk / prompt
	return []cost.Step{step}
}

// TestMeasuredSteps holds steps of whole models, counted with the constants of the card's kernels, to what runs
// on it took. No run was fitted; the models' weights were random, so that experts are chosen evenly.
func TestMeasuredSteps(t *testing.T) {
	compared := 0
	for _, model := range []string{"gpt-oss-20b", "gpt-oss-120b"} {
		files, err := filepath.Glob("../../../docs/measurements/nvidia-h200/latency-" + model + "-*.json")
		if err != nil {
			t.Fatal(err)
		}
		s := onGPU(t, model, "H200", Workload{})
		c := theCounter(t, &s)
		c.chances = nil // of experts: all alike
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var run measuredRun
			if err := json.Unmarshal(text, &run); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			var rows, prompt, output int
			if _, err := fmt.Sscanf(filepath.Base(file), "latency-"+model+"-%d-%d-%d.json", &rows, &prompt, &output); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			for _, kind := range []string{"prefill", "decode"} {
				took := run.Ossian.Steps[kind]
				if took.Steps == 0 {
					continue
				}
				steps := stepsOf(kind, (took.Decoded+took.Steps/2)/took.Steps, rows, prompt, output)
				counted := 0.0
				for _, step := range steps {
					counted += c.total(step, 0).Seconds() / float64(len(steps))
				}
				measured := took.Seconds / float64(took.Steps)
				t.Logf("%-12s %-7s %3d × %d/%d: %6.2f ms, counted %.2f of it", model, kind, rows, prompt, output, 1e3*measured, counted/measured)
				if ratio := counted / measured; ratio < 0.85 || ratio > 1.25 {
					t.Errorf("%s, %s: counted %.2f of what was measured", file, kind, ratio)
				}
				compared++
			}
		}
	}
	if compared != 15 {
		t.Errorf("%d kinds of steps, want 15", compared)
	}
}
