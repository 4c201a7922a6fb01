package sched

import (
	"time"

	"ossian/internal/runner"
)

// Plan returns the next step, or nil when nothing can run now. The batch belongs to
// the scheduler; it is to be launched, and committed in order. The order of what
// happens here is in the comment of the package.
func (s *Scheduler) Plan(now time.Time) *runner.Batch {
	if s.planned-s.committed == uint64(len(s.steps)) {
		return nil
	}
	step := &s.steps[s.planned%uint64(len(s.steps))]
	step.batch.Tokens, step.batch.Rows, step.seqs = step.batch.Tokens[:0], step.batch.Rows[:0], step.seqs[:0]
	// Of a tenant whose sequences could not be admitted only so many are tried in a step. The
	// next step goes on behind them, so that a small one far behind gets its turn.
	for _, t := range s.tenants {
		t.resumeAt = 0
		if t.failed == maxFailed+moreFailed {
			t.resumeAt = t.nextWaiting
		}
		t.failed = 0
		t.prompts, t.nextPrompt, t.nextWaiting = t.prompts[:0], 0, 0
	}
	s.now, s.failed, s.budget, s.counted = now, 0, s.info.MaxTokens, 0
	s.admitAhead(now)
	// One token each for those that speak: there are no more slots than tokens of a step.
	// Prompts share what is left.
	for _, seq := range s.residents {
		switch n := s.launchable(seq); {
		case n == 1:
			s.extend(step, seq, 1)
		case n > 1:
			seq.tenant.prompts = insert(seq.tenant.prompts, seq)
		}
	}
	if speak := len(step.batch.Tokens); s.promptLimit > 0 && speak > 0 {
		s.budget = min(s.budget, speak+s.promptLimit)
	}
	s.fillPrompts(step, now)
	s.guess(step)
	s.wish(step)
	if len(step.seqs) == 0 {
		return nil
	}
	s.planned++
	s.stats.Steps += uint64(min(s.counted, 1)) // none of a probe alone
	s.stats.Tokens += uint64(s.counted)
	return &step.batch
}

// launchable returns how many tokens of seq are known and could be launched now.
func (s *Scheduler) launchable(seq *Seq) int {
	switch {
	case seq == nil || seq.state != running || len(seq.Tokens)-seq.Prompt+seq.pending >= seq.MaxTokens:
		return 0
	case seq.lastStep == s.planned+1: // steps count from 1, and this is the next one: it has a row already
		return 0
	case seq.pending > 0 && (seq.Constraint != nil || seq.guessed || seq.lastStep != s.planned || s.awaits(seq)):
		return 0 // needs an id that is neither known nor the previous step's, or is guessed once it is known
	}
	return len(seq.Tokens) + seq.pending - seq.launched
}

// extend gives seq a row of up to n tokens.
func (s *Scheduler) extend(step *step, seq *Seq, n int) {
	if s.cfg.ChunkLimit > 0 {
		n = min(n, s.cfg.ChunkLimit)
	}
	if n = s.room(step, seq, min(n, s.budget-len(step.batch.Tokens))); n > 0 {
		s.row(step, seq, n)
	}
}

// room returns for how many of the next n tokens of seq there are blocks, and takes
// them. If there are none it preempts. In groups without a window admission has set aside
// the blocks of the whole prompt, so only a sequence that has sampled since can lack one:
// for every preemption some sequence has got a token further, and they come to an end. In
// windows, whose blocks come free as others go on, seq waits while any others do.
func (s *Scheduler) room(step *step, seq *Seq, n int) int {
	for {
		fits := s.kv.Fits(seq.table, s.footprint(seq), 0)
		if taken := min(n, fits-seq.launched); taken > 0 {
			s.kv.Grow(seq.table, seq.launched+taken, s.footprint(seq), 0)
			return taken
		}
		// Blocks will come free without a victim: of one that is leaving, or, where only windows
		// lack them (fits is 0 where another group does), of rows that are launched or planned.
		othersGoOn := s.planned > s.committed || len(step.seqs) > 0
		if s.leaving > 0 || (fits > 0 && othersGoOn) {
			return 0
		}
		victim := s.victim()
		s.preempt(victim)
		if victim == seq {
			return 0
		}
	}
}

// footprint is the number of tokens that seq needs blocks for sooner or later.
func (s *Scheduler) footprint(seq *Seq) int { return len(seq.Tokens) + seq.pending }

// fillPrompts fills the step: one chunk at a time, of the tenant that was served least,
// whether its sequence is resident or has to be admitted first.
func (s *Scheduler) fillPrompts(step *step, now time.Time) {
	for len(step.batch.Tokens) < s.budget {
		seq := s.next()
		if seq == nil {
			return
		}
		if seq.state == running || s.admit(seq, now) {
			s.extend(step, seq, s.launchable(seq))
		}
	}
}

// row appends the next n tokens of seq to the step.
func (s *Scheduler) row(step *step, seq *Seq, n int) {
	if seq.mostLaunched == 0 { // its first row
		s.countHits(seq)
	}
	batch, groups := &step.batch, len(s.info.Groups)
	tables := step.tables[len(batch.Rows)*groups:][:groups]
	copy(tables, seq.table.Blocks)
	row := runner.Row{Slot: seq.slot, Start: seq.launched, Len: n, Tables: tables, Params: seq.Params, History: seq.Tokens}
	seq.launched += n
	s.stats.Recomputed += uint64(max(min(seq.launched, seq.mostLaunched)-row.Start, 0))
	seq.mostLaunched = max(seq.mostLaunched, seq.launched)
	row.Targets = seq.targets(row.Start)
	batch.Tokens = append(batch.Tokens, seq.Tokens[min(row.Start, len(seq.Tokens)):min(seq.launched, len(seq.Tokens))]...)
	if seq.launched > len(seq.Tokens) {
		batch.Tokens = append(batch.Tokens, runner.Pending)
	}
	if seq.launched == len(seq.Tokens)+seq.pending { // at its end: what follows is sampled
		index := len(seq.Tokens) - seq.Prompt + seq.pending
		row.Sample, row.OutputIndex, row.Mask = true, uint64(index), seq.allowed(index)
		seq.pending++
	}
	s.countRow(seq, &row)
	seq.inFlight++
	seq.lastStep = s.planned + 1
	seq.tenant.served += n
	batch.Rows = append(batch.Rows, row)
	step.seqs = append(step.seqs, seq)
}
