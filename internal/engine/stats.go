package engine

import (
	"slices"

	"ossian/internal/draft"
	"ossian/internal/sched"
)

// Stats is a snapshot for metrics. Its counters never fall.
type Stats struct {
	sched.Stats                // when the last step was launched or ended; what was accepted since then waits too
	Accepted    uint64         // requests; probes are not counted, here and in the next three
	Prompt      uint64         // prompt tokens of those that got a token
	Cached      uint64         // of these, found in the prefix cache
	Generated   uint64         // tokens given to streams
	Stalls      int            // faults by which no step finished in time
	Starts      int            // of the loop: 1 + restarts
	MostGuesses int            // of a row; 0 = nothing is guessed
	GuessedFrom []draft.Source // where guesses come from
	StepCosts   StepCosts
}

// StepCosts is how many times as long as with one token a step takes with 2, 4, 8, 16 and 32, as far
// as guesses have made it known; zero = nothing is guessed.
type StepCosts [5]float64

// Stats returns a snapshot. The loop does not wait for it.
func (e *Engine) Stats() Stats {
	e.publishing.Lock()
	stats := Stats{Stats: e.published, StepCosts: e.stepCosts}
	stats.Groups = slices.Clone(stats.Groups)
	e.publishing.Unlock()
	if guesses := e.cfg.Sched.Guesses; guesses != nil && (guesses.Settings.Lookup() || e.info.Ahead > 0) {
		stats.MostGuesses = min(guesses.Settings.Tokens, e.info.Lookahead)
		stats.GuessedFrom = guesses.Settings.Sources()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	stats.Waiting += len(e.inbox)
	stats.WaitingTokens += e.inboxTokens
	stats.Accepted, stats.Prompt, stats.Cached, stats.Generated = e.accepted, e.prompt, e.cached, e.generated
	stats.Stalls, stats.Starts = e.stalls, 1+e.restarts
	return stats
}

// publish shows the scheduler's counters, unless somebody is just reading the last
// ones: then the next step will. A loop about to rest has no next step.
func (l *life) publish(last bool) {
	engine, stats := l.eng, l.sched.Stats()
	if last {
		engine.publishing.Lock()
	} else if !engine.publishing.TryLock() {
		return
	}
	defer engine.publishing.Unlock()
	if l.fate.Load() == abandoned { // another loop has gone on from what was published
		return
	}
	engine.waiting.Store(int64(stats.WaitingTokens))
	groups := append(engine.published.Groups[:0], stats.Groups...)
	engine.published = sum(stats, &l.earlier)
	engine.published.Groups = groups
	for i := range engine.stepCosts {
		engine.stepCosts[i] = l.sched.StepCost(2 << i)
	}
}

// sum adds the counters of an earlier scheduler to stats.
func sum(stats sched.Stats, before *sched.Stats) sched.Stats {
	stats.Steps += before.Steps
	stats.Rows += before.Rows
	stats.Tokens += before.Tokens
	stats.Sampled += before.Sampled
	stats.Dropped += before.Dropped
	stats.Preemptions += before.Preemptions
	stats.Recomputed += before.Recomputed
	stats.CacheQueries += before.CacheQueries
	stats.CacheHits += before.CacheHits
	stats.KV.Evicted += before.KV.Evicted
	stats.Guesses.Add(&before.Guesses)
	return stats
}
