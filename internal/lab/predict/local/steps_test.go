package local

import (
	"testing"
	"time"

	"ossian/internal/runner"
)

// coldRunner takes longer for a step behind one of another kind, as caches make it.
type coldRunner struct {
	last *runner.Row // the first row of the step before
	cold bool
}

const warmStep, coldStep = 100 * time.Microsecond, 2 * time.Millisecond

func (r *coldRunner) Info() runner.Info {
	return runner.Info{Name: "cold", Vocab: 100, BlockSize: 16, Groups: []runner.Group{{Blocks: 64}}, MaxSeqs: 4, MaxTokens: 64, MaxLen: 64, Depth: 1}
}

func (r *coldRunner) Launch(batch *runner.Batch) error {
	r.cold = r.last != &batch.Rows[0]
	r.last = &batch.Rows[0]
	return nil
}

func (r *coldRunner) Collect() (*runner.Result, error) {
	wait := warmStep
	if r.cold {
		wait = coldStep
	}
	for began := time.Now(); time.Since(began) < wait; { // a sleep would be longer
	}
	return &runner.Result{}, nil
}

func (r *coldRunner) Close() error { return nil }

// TestWarmSteps: steps that are short are timed as in a run, behind one of their kind.
func TestWarmSteps(t *testing.T) {
	steps, err := measure(t.Context(), &coldRunner{}, 200*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	warm := 0
	for _, step := range steps {
		if step.Runs < 3 {
			t.Errorf("%s was timed %d times", step.Name, step.Runs)
		}
		if step.Seconds < coldStep.Seconds() {
			warm++
		}
	}
	// A busy machine may hold one up for longer than the caches do.
	if warm < len(steps)-1 {
		t.Errorf("%d of %d steps were timed warm", warm, len(steps))
	}
}
