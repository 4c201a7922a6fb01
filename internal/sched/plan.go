package sched

import (
	"time"

	"ossian/internal/runner"
)

const (
	maxOvertaken = 64               // ADM-7: so many others are admitted before one that does not fit,
	maxBlocked   = 30 * time.Second // or for so long; then blocks are kept for it
	maxMisses    = 16               // sequences that are tried in vain per step: bounds its time
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
		t.chunks, t.chunk, t.try = t.chunks[:0], 0, 0
	}
	s.passed = nil
	// One token each for those that speak; prompts share what is left.
	for _, q := range s.running {
		switch n := s.open(q); {
		case n == 1 && s.room(q):
			s.row(l, q, 1)
		case n > 1:
			q.tenant.chunks = insert(q.tenant.chunks, q)
		}
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

// room makes sure that q has blocks for all its tokens. Only a sequence that has
// sampled since it was admitted can need more, so every preemption is paid for by
// a token and preempting one another for ever is impossible.
func (s *Scheduler) room(q *Seq) bool {
	for !s.kv.Grow(q.table, s.reach(q)) {
		if s.leaving > 0 {
			return false // their blocks come free without more victims
		}
		v := s.victim()
		s.preempt(v)
		if v == q {
			return false
		}
	}
	return true
}

// reach is the number of tokens that q needs blocks for.
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
	if q := s.reserved; q != nil && s.admit(q, now) {
		s.row(l, q, s.open(q))
	}
	for misses := 0; len(l.batch.Tokens) < s.info.MaxTokens && misses < maxMisses; {
		q := s.next()
		switch {
		case q == nil:
			return
		case q.state == waiting && !s.admit(q, now):
			misses++
			q.tenant.try++
		default:
			s.row(l, q, s.open(q))
		}
	}
}

// admit makes a waiting sequence resident if it can be.
func (s *Scheduler) admit(q *Seq, now time.Time) bool {
	for !s.claim(q, now) {
		if !s.displace(q) {
			return false
		}
	}
	s.unqueue(q)
	s.enter(q, now)
	if s.passed != nil && s.passed != q {
		s.passed.overtaken++
	}
	return true
}

// claim opens a table for q. All its tokens get their blocks at once, and one more
// for each resident must remain: what begins should not be thrown out by the next
// tokens of others.
func (s *Scheduler) claim(q *Seq, now time.Time) bool {
	if len(s.slots) == 0 || s.awaits(q) {
		return false
	}
	q.table = s.kv.Open(q.Tokens, q.Salt)
	if s.kv.Grow(q.table, s.reach(q)) && s.kv.Free() >= len(s.running)-len(s.slots) {
		return true
	}
	s.kv.Close(q.table)
	q.table = nil
	s.age(q, now)
	return false
}

// enter gives q a slot.
func (s *Scheduler) enter(q *Seq, now time.Time) {
	end := len(s.slots) - 1
	q.state, q.slot, s.slots = running, s.slots[end], s.slots[:end]
	s.running[q.slot] = q
	q.tenant.residents++
	q.launched, q.committed = q.table.Cached, q.table.Cached
	q.overtaken, q.blocked = 0, time.Time{}
	if !q.Started.IsZero() {
		return
	}
	q.Started, q.Cached = now, q.table.Cached
	if !s.cfg.NoPrefixCache {
		s.stats.CacheQueries += uint64(q.Prompt)
		s.stats.CacheHits += uint64(q.Cached)
	}
}

// age counts how long q has been passed over for lack of blocks (ADM-7).
func (s *Scheduler) age(q *Seq, now time.Time) {
	if q.blocked.IsZero() {
		q.blocked = now
	}
	if s.passed == nil {
		s.passed = q
	}
	if s.reserved == nil && (q.overtaken >= maxOvertaken || now.Sub(q.blocked) >= maxBlocked) {
		s.reserved = q
	}
}

// awaits reports whether q does better to wait, because another sequence is just
// computing at least half of what q would have to compute.
func (s *Scheduler) awaits(q *Seq) bool {
	for _, r := range s.running {
		if s.cfg.NoPrefixCache || r == nil || r.state != running || r.committed >= r.Prompt || r.tenant != q.tenant || r.Salt != q.Salt {
			continue
		}
		shared := 0
		for last := min(len(q.Tokens)-1, r.Prompt); shared < last && q.Tokens[shared] == r.Tokens[shared]; {
			shared++
		}
		if gain := shared/s.info.BlockSize*s.info.BlockSize - r.committed; gain > 0 && 2*gain >= len(q.Tokens)-r.committed {
			return true
		}
	}
	return false
}

// row appends the next tokens of q to the step, n if there is room for them.
func (s *Scheduler) row(l *launch, q *Seq, n int) {
	b, g := &l.batch, len(s.info.Groups)
	if n > 1 && s.cfg.ChunkLimit > 0 {
		n = min(n, s.cfg.ChunkLimit)
	}
	n = min(n, s.info.MaxTokens-len(b.Tokens))
	tables := l.tables[len(b.Rows)*g:][:g]
	copy(tables, q.table.Blocks)
	r := runner.Row{Slot: q.slot, Start: q.launched, Len: n, Tables: tables, Params: q.Params, History: q.Tokens}
	q.launched += n
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
	q.tenant.served += uint64(n)
	b.Rows = append(b.Rows, r)
	l.seqs = append(l.seqs, q)
}
