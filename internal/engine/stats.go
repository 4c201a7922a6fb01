package engine

import (
	"time"

	"ossian/internal/sched"
)

// Stats is a snapshot for metrics. Counters begin anew when a fault restarts the
// loop (Health.Restarts).
type Stats struct {
	sched.Stats
	Inbox      int           // accepted since the last step: they wait too
	StepTokens [16]uint64    // steps by size: [k] those of at most 1<<k tokens and more than half that, the last also larger ones
	StepP99    time.Duration // that 1 % of steps exceed, at most twice too large
}

// Stats returns the state after the last step. The loop does not wait for it.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	inbox := len(e.adds)
	e.mu.Unlock()
	e.publishing.Lock()
	defer e.publishing.Unlock()
	s := e.stats
	s.Inbox = inbox
	return s
}

// publish shows the loop's counters, unless somebody is just reading the last ones:
// then the next step will. A loop about to rest has no next step.
func (l *life) publish(last bool) {
	e, st := l.eng, l.sched.Stats()
	e.waiting.Store(int64(st.WaitingTokens))
	if last {
		e.publishing.Lock()
	} else if !e.publishing.TryLock() {
		return
	}
	defer e.publishing.Unlock()
	e.stats = Stats{Stats: st, StepTokens: l.sizes, StepP99: l.step / 20}
}
