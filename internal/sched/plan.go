package sched

import (
	"time"

	"ossian/internal/runner"
)

// Plan returns the next step, or nil when nothing can run now. The batch belongs to
// the scheduler; it is to be launched, and committed in order.
func (s *Scheduler) Plan(now time.Time) *runner.Batch {
	if s.planned-s.committed == uint64(len(s.launches)) {
		return nil
	}
	l := &s.launches[s.planned%uint64(len(s.launches))]
	l.batch.Tokens, l.batch.Rows, l.seqs = l.batch.Tokens[:0], l.batch.Rows[:0], l.seqs[:0]
	for _, t := range s.tenants {
		t.onward = 0
		if t.misses == maxMisses+moreMisses {
			t.onward = t.try
		}
		t.misses = 0
		t.chunks, t.chunk, t.try = t.chunks[:0], 0, 0
	}
	s.misses, s.full = 0, s.info.MaxTokens
	s.seat(now)
	// One token each for those that speak; prompts share what is left.
	for _, q := range s.running {
		switch n := s.open(q); {
		case n == 1:
			s.extend(l, q, 1)
		case n > 1:
			q.tenant.chunks = insert(q.tenant.chunks, q)
		}
	}
	if speak := len(l.batch.Tokens); s.beside > 0 && speak > 0 {
		s.full = min(s.full, speak+s.beside)
	}
	s.prompts(l, now)
	if len(l.seqs) == 0 {
		return nil
	}
	s.planned++
	s.stats.Steps++
	s.stats.Rows += uint64(len(l.batch.Rows))
	s.stats.Tokens += uint64(len(l.batch.Tokens))
	return &l.batch
}

// open returns how many tokens of q are known and could be launched now.
func (s *Scheduler) open(q *Seq) int {
	switch {
	case q == nil || q.state != running || len(q.Tokens)-q.Prompt+q.pending >= q.MaxTokens:
		return 0
	case q.step == s.planned+1: // has a row in this step
		return 0
	case q.pending > 0 && (q.Constraint != nil || q.step != s.planned):
		return 0 // needs an id that is neither known nor the previous step's
	}
	return len(q.Tokens) + q.pending - q.launched
}

// extend gives q a row of up to n tokens.
func (s *Scheduler) extend(l *launch, q *Seq, n int) {
	if s.cfg.ChunkLimit > 0 {
		n = min(n, s.cfg.ChunkLimit)
	}
	if n = s.room(l, q, min(n, s.full-len(l.batch.Tokens))); n > 0 {
		s.row(l, q, n)
	}
}

// room returns for how many of the next n tokens of q there are blocks, and takes
// them. If there are none it preempts. In groups without a window only a sequence
// that has sampled since it was admitted can lack one: every preemption is paid for
// by a token. In windows, which come free as others go on, q waits while any do.
func (s *Scheduler) room(l *launch, q *Seq, n int) int {
	for {
		fits := s.kv.Fits(q.table, s.reach(q), 0)
		if m := min(n, fits-s.info.Lookahead-q.launched); m > 0 {
			s.kv.Grow(q.table, q.launched+m+s.info.Lookahead, s.reach(q), 0)
			return m
		}
		moving := s.planned > s.committed || len(l.seqs) > 0
		if s.leaving > 0 || (fits > 0 && moving) { // fits is 0 without blocks where there is no window
			return 0
		}
		v := s.victim()
		s.preempt(v)
		if v == q {
			return 0
		}
	}
}

// reach is the number of tokens that q needs blocks for sooner or later.
func (s *Scheduler) reach(q *Seq) int { return len(q.Tokens) + q.pending + s.info.Lookahead }

func (s *Scheduler) preempt(q *Seq) {
	q.state = leaving
	q.Preemptions++
	s.leaving++
	s.stats.Preemptions++
	s.release(q)
}

// prompts fills the step: one chunk at a time, of the tenant that was served least.
func (s *Scheduler) prompts(l *launch, now time.Time) {
	for len(l.batch.Tokens) < s.full {
		q := s.next()
		if q == nil {
			return
		}
		if q.state == running || s.admit(q, now) {
			s.extend(l, q, s.open(q))
		}
	}
}

// row appends the next n tokens of q to the step.
func (s *Scheduler) row(l *launch, q *Seq, n int) {
	if q.reached == 0 {
		s.begin(q)
	}
	b, g := &l.batch, len(s.info.Groups)
	tables := l.tables[len(b.Rows)*g:][:g]
	copy(tables, q.table.Blocks)
	r := runner.Row{Slot: q.slot, Start: q.launched, Len: n, Tables: tables, Params: q.Params, History: q.Tokens}
	q.launched += n
	s.stats.Recomputed += uint64(max(min(q.launched, q.reached)-r.Start, 0))
	q.reached = max(q.reached, q.launched)
	r.Targets = q.targets(r.Start)
	b.Tokens = append(b.Tokens, q.Tokens[min(r.Start, len(q.Tokens)):min(q.launched, len(q.Tokens))]...)
	if q.launched > len(q.Tokens) {
		b.Tokens = append(b.Tokens, runner.Pending)
	}
	if q.launched == len(q.Tokens)+q.pending {
		step := len(q.Tokens) - q.Prompt + q.pending
		r.Sample, r.Step, r.Mask = true, uint64(step), q.allowed(step)
		q.pending++
		s.stats.Sampled++
	}
	q.rows++
	q.step = s.planned + 1
	q.tenant.served += n
	b.Rows = append(b.Rows, r)
	l.seqs = append(l.seqs, q)
}
