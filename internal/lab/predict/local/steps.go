package local

import (
	"context"
	"fmt"
	"slices"
	"time"

	"ossian/internal/runner"
	"ossian/internal/sample"
)

// A shape is what one sequence does in a step: so many tokens behind so many.
type shape struct{ start, tokens int }

// A Step is one kind of step with how long it takes.
type Step struct {
	Name    string       `json:"name"`
	Rows    []runner.Row `json:"-"`
	Seconds float64      `json:"seconds"` // lower quartile
	Runs    int          `json:"runs"`
	Fitted  float64      `json:"fitted_seconds"` // by the clock after the fit
	times   []float64
}

// plans are the steps that tell the kernels apart: decoding with few and many rows and short and
// long contexts, chunks of prompts with and without a past, chunks of several prompts, and both in
// one step. What a runner has no room for is left out.
func plans(info runner.Info) (steps []*Step) {
	add := func(name string, shapes ...shape) {
		tokens := 0
		for _, one := range shapes {
			if tokens += one.tokens; one.start+one.tokens > info.MaxLen {
				return
			}
		}
		if len(shapes) <= info.MaxSeqs && tokens <= info.MaxTokens {
			steps = append(steps, &Step{Name: name, Rows: rows(info, shapes)})
		}
	}
	for _, context := range []int{32, 256, 1056} {
		for _, batch := range []int{1, 2, 4, 8, 16, 32} {
			add(fmt.Sprintf("decode %d × %d", batch, context), slices.Repeat([]shape{{context, 1}}, batch)...)
		}
	}
	for _, tokens := range []int{16, 64, 128, 256, 512} {
		add(fmt.Sprintf("prompt of %d", tokens), shape{0, tokens})
		add(fmt.Sprintf("prompt of %d behind 512", tokens), shape{512, tokens})
	}
	add("8 prompts of 64", slices.Repeat([]shape{{0, 64}}, 8)...)
	for _, decoding := range []int{1, 7, 15} {
		mixed := append(slices.Repeat([]shape{{256, 1}}, decoding), shape{0, 64})
		add(fmt.Sprintf("%d decoding beside a prompt of 64", decoding), mixed...)
		add(fmt.Sprintf("%d decoding beside a prompt of %d", decoding, 480), append(mixed[:decoding:decoding], shape{0, 480})...)
	}
	return steps
}

// greedy chooses the most likely token, as the loads of a prediction do.
var greedy = &sample.Params{}

// rows gives shapes slots and blocks of their own; contents do not matter for speed.
func rows(info runner.Info, shapes []shape) (out []runner.Row) {
	next := make([]int, len(info.Groups))
	for slot, one := range shapes {
		row := runner.Row{Slot: slot, Start: one.start, Len: one.tokens, Sample: true, Params: greedy, History: make([]int32, one.start+one.tokens)}
		for group, pool := range info.Groups {
			table := make([]runner.BlockID, (one.start+one.tokens+info.BlockSize-1)/info.BlockSize)
			for i := range table {
				table[i] = runner.NoBlock
				if i >= runner.FirstBlock(one.start, pool.Window, info.BlockSize) {
					table[i] = runner.BlockID(next[group])
					next[group]++
				}
			}
			row.Tables = append(row.Tables, table)
		}
		out = append(out, row)
	}
	return out
}

// fits reports whether a runner has the blocks that a step wants.
func (s *Step) fits(info runner.Info) bool {
	for i := range s.Rows {
		for group, table := range s.Rows[i].Tables {
			for _, block := range table {
				if int(block) >= info.Groups[group].Blocks {
					return false
				}
			}
		}
	}
	return true
}

// run runs a step once.
func (s *Step) run(r runner.Runner) (float64, error) {
	batch := &runner.Batch{Rows: s.Rows}
	vocab := int32(r.Info().Vocab)
	for i := range s.Rows {
		for at := range s.Rows[i].Len { // different tokens use different experts
			batch.Tokens = append(batch.Tokens, (int32(at*7919+i*104729+s.Rows[i].Start)&0x7fffff)%vocab)
		}
	}
	began := time.Now()
	if err := r.Launch(batch); err != nil {
		return 0, fmt.Errorf("step %s: %w", s.Name, err)
	}
	if _, err := r.Collect(); err != nil {
		return 0, fmt.Errorf("step %s: %w", s.Name, err)
	}
	return time.Since(began).Seconds(), nil
}

// quick is how many seconds a step takes whose weights, keys and values may all be in the caches. It is
// timed behind one of its kind, as steps of a run are: behind a long step of another kind a row of
// ossian-tiny takes up to 1.6 times as long. Longer steps leave nothing of the one before in the caches.
const quick = 5e-3

// leastRuns of each step are made, however long that takes.
const leastRuns = 2

// measure runs the steps in turns, so that a disturbance of the machine meets all of them, until
// the time is over, and keeps lower quartiles: what else the machine does only lengthens a step. Steps that take long get fewer turns.
func measure(ctx context.Context, r runner.Runner, budget time.Duration) ([]*Step, error) {
	steps := slices.DeleteFunc(plans(r.Info()), func(s *Step) bool { return !s.fits(r.Info()) })
	if len(steps) == 0 {
		return nil, fmt.Errorf("the runner has room for no step: %d sequences, %d tokens a step", r.Info().MaxSeqs, r.Info().MaxTokens)
	}
	began := time.Now()
	share := budget.Seconds() / float64(len(steps))
	for turn := 0; turn < leastRuns || time.Since(began) < budget; turn++ {
		idle := true
		for _, step := range steps {
			if spent := sum(step.times); turn >= leastRuns && spent > share {
				continue
			}
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if len(step.times) > 0 && step.times[len(step.times)-1] < quick {
				if _, err := step.run(r); err != nil {
					return nil, err
				}
			}
			seconds, err := step.run(r)
			if err != nil {
				return nil, err
			}
			if idle = false; turn > 0 { // the first turn warms up
				step.times = append(step.times, seconds)
			}
		}
		if idle {
			break
		}
	}
	for _, step := range steps {
		step.Seconds, step.Runs = quartile(step.times), len(step.times)
	}
	return steps, nil
}

func sum(values []float64) (total float64) {
	for _, v := range values {
		total += v
	}
	return total
}

// quartile returns the value below which a quarter of the values lie.
func quartile(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)/4]
}
