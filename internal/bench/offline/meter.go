package offline

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ossian/internal/runner"
)

// A meter is a runner that notes what its steps hold and take. The engine's loop uses
// it; hold, reset and read are for others.
type meter struct {
	runner.Runner
	flight []launched // oldest first
	ended  time.Time  // of the last step
	hold   atomic.Pointer[hold]

	mu       sync.Mutex
	steps    Steps
	progress func(tokens int)
}

type launched struct {
	at             time.Time
	prompt, decode int // tokens
}

// A hold stops the loop once, when its next step has ended.
type hold struct{ reached, released chan struct{} }

// Launch implements runner.Runner. A row that continues an answer is one token at a place
// behind the prompt; whatever else there is belongs to prompts, or was computed before.
func (m *meter) Launch(b *runner.Batch) error {
	l := launched{at: time.Now()}
	for i := range b.Rows {
		if r := &b.Rows[i]; r.Sample && r.Len == 1 && r.Start >= r.Params.Prompt {
			l.decode++
		} else {
			l.prompt += r.Len
		}
	}
	if err := m.Runner.Launch(b); err != nil {
		return err
	}
	m.flight = append(m.flight, l)
	return nil
}

// Collect implements runner.Runner.
func (m *meter) Collect() (*runner.Result, error) {
	res, err := m.Runner.Collect()
	if err != nil {
		return nil, err
	}
	now, l := time.Now(), m.flight[0]
	m.flight = slices.Delete(m.flight, 0, 1)
	began := l.at
	if began.Before(m.ended) {
		began = m.ended // steps run one after another
	}
	m.ended = now
	if h := m.hold.Swap(nil); h != nil {
		close(h.reached)
		<-h.released
		return res, nil
	}
	m.count(l, now.Sub(began))
	return res, nil
}

func (m *meter) count(l launched, took time.Duration) {
	m.mu.Lock()
	p := &m.steps.Mixed
	switch {
	case l.decode == 0:
		p = &m.steps.Prefill
	case l.prompt == 0:
		p = &m.steps.Decode
	}
	p.Steps++
	p.Prompt += l.prompt
	p.Decode += l.decode
	p.took += took
	progress := m.progress
	m.mu.Unlock()
	if progress != nil {
		progress(l.prompt + l.decode)
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
	s := m.steps
	for _, p := range []*Phase{&s.Prefill, &s.Mixed, &s.Decode} {
		p.Seconds = p.took.Seconds()
		p.PromptRate, p.DecodeRate = per(p.Prompt, p.Seconds), per(p.Decode, p.Seconds)
	}
	return s
}
