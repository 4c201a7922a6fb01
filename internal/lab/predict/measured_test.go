package predict

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"ossian/internal/cuda/cost"
)

// A measuredRun is what a run on a card says of its steps (docs/measurements, bench latency).
type measuredRun struct {
	Ossian struct {
		Steps map[string]struct {
			Steps   int     `json:"steps"`
			Seconds float64 `json:"seconds"`
			Prompt  int     `json:"prompt_tokens"`
			Decode  int     `json:"decode_tokens"`
		} `json:"steps"`
	} `json:"ossian"`
}

// TestMeasuredSteps holds steps of whole models, counted with the constants of the card's kernels, to what runs
// on it took: prompts alone, and tokens of some sequences behind prompts of 1,000. No run was fitted.
func TestMeasuredSteps(t *testing.T) {
	chunk := func(length int) (steps [][3]int) {
		for from := 0; from < length; from += 2048 {
			steps = append(steps, [3]int{1, from, min(2048, length-from)})
		}
		return steps
	}
	for _, card := range []struct{ name, folder string }{{"H200", "nvidia-h200"}} {
		for _, run := range []struct {
			model, file, kind string
			steps             [][3]int // rows, tokens before, tokens of each
			rows              float64
		}{
			{"gpt-oss-20b", "1-1000-128", "decode", [][3]int{{1, 1064, 1}}, 1},
		} {
			_ = run
		}
		for _, model := range []string{"gpt-oss-20b", "gpt-oss-120b"} {
			files, err := filepath.Glob("../../../docs/measurements/" + card.folder + "/latency-" + model + "-*.json")
			if err != nil || len(files) == 0 {
				t.Fatal(files, err)
			}
			s := onGPU(t, model, card.name, Workload{})
			c := theCounter(t, &s)
			even := c.even()
			for _, file := range files {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				var run measuredRun
				if err := json.Unmarshal(text, &run); err != nil {
					t.Fatal(err)
				}
				var rows, prompt, output int
				fmt.Sscanf(filepath.Base(file), "latency-"+model+"-%d-%d-%d.json", &rows, &prompt, &output)
				for _, kind := range []string{"prefill", "decode"} {
					took := run.Ossian.Steps[kind]
					if took.Steps == 0 {
						continue
					}
					counted := 0.0
					steps := [][3]int{{max(took.Decode/took.Steps, 1), prompt + output/2, 1}}
					if kind == "prefill" {
						steps = chunk(took.Prompt / 3)
						if rows > 1 {
							steps = [][3]int{{2, 0, 1000}}
						}
					}
					for _, step := range steps {
						counted += even.step(step[0], step[1], step[2]).total.Seconds() / float64(len(steps))
					}
					measured := took.Seconds / float64(took.Steps)
					t.Logf("%s on %s, %s of %d × %d/%d: %.2f ms, counted %.2f of it; skewed %.2f", model, card.name, kind, rows, prompt, output, 1e3*measured, counted/measured, c.step(steps[0][0], steps[0][1], steps[0][2]).total.Seconds()/measured)
					_ = math.Abs
				}
			}
		}
	}
	_ = cost.Others
}

// even returns a counter of which each expert is chosen as often as any.
func (c *counter) even() *counter {
	even := *c
	even.chances = nil
	return &even
}
