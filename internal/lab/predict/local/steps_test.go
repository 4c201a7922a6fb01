package local

import (
	"testing"
	"time"

	"ossian/internal/runner"
)

// order is a runner that counts how often a step is run behind itself.
type order struct {
	last   *runner.Row // the first row of the step before
	behind map[*runner.Row]int
}

func (r *order) Info() runner.Info {
	return runner.Info{Name: "order", Vocab: 100, BlockSize: 16, Groups: []runner.Group{{Blocks: 64}}, MaxSeqs: 4, MaxTokens: 64, MaxLen: 64, Depth: 1}
}

func (r *order) Launch(batch *runner.Batch) error {
	if r.last == &batch.Rows[0] {
		r.behind[r.last]++
	}
	r.last = &batch.Rows[0]
	return nil
}

func (r *order) Collect() (*runner.Result, error) { return &runner.Result{}, nil }

func (r *order) Close() error { return nil }

// TestWarmSteps: short steps are timed as in a run, behind one of their kind: all but the first, and the
// one from which it is known that they are short.
func TestWarmSteps(t *testing.T) {
	r := &order{behind: map[*runner.Row]int{}}
	steps, err := measure(t.Context(), r, 200*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range steps {
		if behind := r.behind[&step.Rows[0]]; behind == 0 || behind < step.Runs/2 {
			t.Errorf("%s: %d of %d timed behind its own kind", step.Name, behind, step.Runs)
		}
	}
}
