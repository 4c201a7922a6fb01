package offline

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ossian/internal/runner"
)

// A meter is a runner that notes what its steps hold and take. The engine's loop uses it;
// hold, reset and read are for others, on any goroutine.
type meter struct {
	runner.Runner
	launched []launchedStep       // the loop's: not collected yet, oldest first
	lastEnd  time.Time            // the loop's: when the last step ended
	hold     atomic.Pointer[hold] // for the next step that ends; nil = none

	mu       sync.Mutex       // guards the fields below
	steps    Steps            // since reset
	progress func(tokens int) // called without the mutex; nil = nobody is told
}

// A launchedStep is what a batch holds that was launched.
type launchedStep struct {
	at             time.Time
	prompt, decode int // tokens
}

// A hold stops the loop once, when its next step has ended.
type hold struct{ reached, released chan struct{} }

// Launch implements runner.Runner. A row that continues an answer is one token at a place
// behind the prompt, and guesses; whatever else there is belongs to prompts, or was computed before.
func (m *meter) Launch(batch *runner.Batch) error {
	step := launchedStep{at: time.Now()}
	for i := range batch.Rows {
		if row := &batch.Rows[i]; row.Sample && row.Len-row.Guessed == 1 && row.Start >= row.Params.Prompt {
			step.decode += row.Len
		} else {
			step.prompt += row.Len
		}
	}
	if err := m.Runner.Launch(batch); err != nil {
		return err
	}
	m.launched = append(m.launched, step)
	return nil
}

// Collect implements runner.Runner.
func (m *meter) Collect() (*runner.Result, error) {
	res, err := m.Runner.Collect()
	if err != nil {
		return nil, err
	}
	now, step := time.Now(), m.launched[0]
	m.launched = slices.Delete(m.launched, 0, 1)
	began := step.at
	if began.Before(m.lastEnd) {
		began = m.lastEnd // steps run one after another
	}
	m.lastEnd = now
	// The step that carries a hold was made for it and counts nowhere.
	if hold := m.hold.Swap(nil); hold != nil {
		close(hold.reached)
		<-hold.released
		return res, nil
	}
	m.count(step, now.Sub(began))
	return res, nil
}

// count adds a step to those of its kind.
func (m *meter) count(step launchedStep, took time.Duration) {
	m.mu.Lock()
	phase := &m.steps.Mixed
	switch {
	case step.decode == 0:
		phase = &m.steps.Prefill
	case step.prompt == 0:
		phase = &m.steps.Decode
	}
	phase.Steps++
	phase.Prompt += step.prompt
	phase.Decode += step.decode
	phase.took += took
	progress := m.progress
	m.mu.Unlock()
	if progress != nil {
		progress(step.prompt + step.decode)
	}
}

// reset forgets the steps so far and has progress told about those to come.
func (m *meter) reset(progress func(tokens int)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.steps, m.progress = Steps{}, progress
}

// read returns the steps since reset.
func (m *meter) read() Steps {
	m.mu.Lock()
	defer m.mu.Unlock()
	steps := m.steps
	for _, phase := range []*Phase{&steps.Prefill, &steps.Mixed, &steps.Decode} {
		phase.Seconds = phase.took.Seconds()
		phase.PromptRate, phase.DecodeRate = per(phase.Prompt, phase.Seconds), per(phase.Decode, phase.Seconds)
	}
	return steps
}
