package shadow

import (
	"fmt"
	"testing"

	"ossian/internal/cpu"
	"ossian/internal/cuda"
	"ossian/internal/cuda/emu"
	"ossian/internal/model"
	"ossian/internal/model/modeltest"
	"ossian/internal/runner"
	"ossian/internal/runner/runnertest"
	"ossian/internal/soak"
	"ossian/internal/tensor"
)

// An opener returns a runner of a tiny model on a device.
type opener func(t *testing.T, spec *model.Spec, params map[string]tensor.Tensor, lim model.Limits) runner.Runner

// onCard is an opener on a card that is emulated.
func onCard(t *testing.T, spec *model.Spec, params map[string]tensor.Tensor, lim model.Limits) runner.Runner {
	t.Helper()
	device, err := cuda.New(spec, lim, cuda.Config{Driver: emu.New(emu.Card{Unchecked: true}).Driver()})
	if err != nil {
		t.Fatal(err)
	}
	r, err := model.NewDecoder(spec, params, device, lim, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// decoder is an opener on the processor.
func decoder(t *testing.T, spec *model.Spec, params map[string]tensor.Tensor, lim model.Limits) runner.Runner {
	t.Helper()
	device, err := cpu.New(spec, lim, cpu.Config{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	r, err := model.NewDecoder(spec, params, device, lim, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRunner applies the suite of whole runners, whose rows ask for guesses as it comes: what the
// target gives is the same whatever is guessed beside it.
func TestRunner(t *testing.T) {
	for _, pair := range [][2]string{{"gpt-oss", "llama"}, {"qwen3", "qwen3moe"}} {
		beside(t, pair, modeltest.Options{}, decoder, runnertest.Scale{Schedules: 15, Soak: 2000, Every: 6})
	}
}

// TestRunnerOnACard is the same on a card, in a release: the emulator takes minutes for it.
func TestRunnerOnACard(t *testing.T) {
	if soak.Cases(t, 0, 10) == 0 {
		t.Skip("the emulator takes minutes for it; OSSIAN_SOAK=1 runs it")
	}
	beside(t, [2]string{"gpt-oss", "llama"}, modeltest.Options{Small: true}, onCard, runnertest.Scale{Schedules: 6, Soak: 20, Every: 8, Guesses: 6})
}

// beside holds a model to the suite beside which a second one guesses.
func beside(t *testing.T, pair [2]string, size modeltest.Options, open opener, scale runnertest.Scale) {
	t.Run(fmt.Sprint(pair), func(t *testing.T) {
		spec, params := modeltest.Tiny(pair[0], size)
		small, smallParams := modeltest.Tiny(pair[1], modeltest.Options{Small: true, Seed: 1})
		guesses := 0
		scale.Run(t, func(t *testing.T, c runnertest.Config) runner.Runner {
			lim := model.Limits{MaxSeqs: c.MaxSeqs, MaxTokens: c.MaxTokens, MaxLen: c.MaxLen, BlockSize: c.BlockSize, Lookahead: c.Lookahead}
			windows, _ := spec.Groups()
			for range windows {
				lim.Blocks = append(lim.Blocks, c.Blocks)
			}
			cfg, beside := Config{Tokens: 5}, lim
			beside.Lookahead, beside.Blocks = 0, nil
			ours, _ := small.Groups()
			for group := range ours {
				cfg.Groups = append(cfg.Groups, group)
				beside.Blocks = append(beside.Blocks, c.Blocks+c.MaxSeqs*ScratchBlocks(5, c.BlockSize))
			}
			both, err := New(open(t, spec, params, lim), open(t, small, smallParams, beside), cfg)
			if err != nil {
				t.Fatal(err)
			}
			return &checked{Runner: both, t: t, guesses: &guesses}
		})
		if guesses == 0 {
			t.Error("nothing was guessed")
		}
	})
}

// A checked runner fails a test whose guesses have failed, and counts them.
type checked struct {
	runner.Runner
	t       *testing.T
	guesses *int
}

func (c *checked) Collect() (*runner.Result, error) {
	result, err := c.Runner.Collect()
	if err == nil && result.GuessFault != nil {
		c.t.Errorf("guessing failed: %v\n%s", result.GuessFault.Value, result.GuessFault.Stack)
	}
	if err == nil {
		for _, ids := range result.Guesses {
			*c.guesses += len(ids)
		}
	}
	return result, err
}
