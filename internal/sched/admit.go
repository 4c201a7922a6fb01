package sched

import (
	"slices"
	"time"
)

// To admit a sequence is to give it blocks (allocate) and a slot (takeSlot): a waiting
// one becomes a resident one. If it cannot be admitted, others behind it are tried, so
// that a large one does not keep small ones waiting. Two bounds keep that fair and cheap:
// how often a sequence is overtaken, and how many are tried in vain in a step.

const (
	maxOvertaken = 64               // ADM-7: so many that came later are admitted before one that is blocked,
	maxBlocked   = 30 * time.Second // or for so long; then it is the reserved one
	maxFailed    = 16               // the first sequences of a tenant, which are tried in every step if need be,
	moreFailed   = 8                // and so many of those behind, in each step others
	allFailed    = 128              // sequences of all tenants that are tried in vain in a step
)

// admitAhead admits the reserved sequence, and one of each tenant without a resident one
// as long as it is its turn: ahead of all rows, because it may take the slot of one that
// would have a row.
func (s *Scheduler) admitAhead(now time.Time) {
	if s.reserved != nil {
		s.admit(s.reserved, now)
	}
	for seq := s.next(); seq != nil && seq.tenant.slots == 0; seq = s.next() {
		s.admit(seq, now)
	}
}

// admit makes a waiting sequence resident if it can be; otherwise it is not tried
// again in this Plan.
func (s *Scheduler) admit(seq *Seq, now time.Time) bool {
	for !s.allocate(seq, now) {
		if !s.displace(seq) {
			s.failed++
			seq.tenant.passOver()
			if seq.Preemptions > 0 { // it was admitted: later ones do not take its blocks (ADM-3)
				seq.tenant.nextWaiting = len(seq.tenant.waiting)
			}
			return false
		}
	}
	s.takeSlot(seq, now) // no longer reserved, if it was
	s.countOvertaken(seq)
	return true
}

// takeSlot gives seq, which has a table, a slot.
func (s *Scheduler) takeSlot(seq *Seq, now time.Time) {
	s.dequeue(seq)
	end := len(s.freeSlots) - 1
	seq.state, seq.slot, s.freeSlots = running, s.freeSlots[end], s.freeSlots[:end]
	s.residents[seq.slot] = seq
	seq.tenant.slots++
	seq.launched, seq.committed = seq.table.Cached, seq.table.Cached
	seq.overtaken, seq.blocked = 0, time.Time{}
	if seq.Started.IsZero() {
		seq.Started = now
	}
	if len(seq.Tokens) == seq.Prompt {
		seq.Scheduled = now
	}
}

// passOver goes on behind a sequence that was tried in vain. Behind the first maxFailed it
// leaves out those that the last Plan tried, but no preempted one: nobody takes its blocks.
func (t *tenant) passOver() {
	t.failed++
	if t.nextWaiting++; t.nextWaiting != maxFailed || t.resumeAt <= t.nextWaiting || t.resumeAt >= len(t.waiting) {
		return
	}
	if !slices.ContainsFunc(t.waiting[t.nextWaiting:t.resumeAt], func(q *Seq) bool { return q.Preemptions > 0 }) {
		t.nextWaiting = t.resumeAt
	}
}

// countOvertaken counts the admission of seq for those that came before it and are
// blocked (ADM-7), of each tenant for the first: those whose turn it is next.
func (s *Scheduler) countOvertaken(seq *Seq) {
	for _, t := range s.tenants {
		for _, earlier := range t.waiting[:min(len(t.waiting), maxFailed)] {
			if earlier.blocked.IsZero() || earlier.arrival > seq.arrival {
				continue
			}
			if earlier.overtaken++; earlier.overtaken >= maxOvertaken && s.reserved == nil {
				s.reserved = earlier
			}
		}
	}
}

// allocate opens a table for seq, with blocks for all its tokens but in groups with a
// window. One block must remain for each resident that may need more than it has: what
// begins should not be thrown out by the next tokens of others.
func (s *Scheduler) allocate(seq *Seq, now time.Time) bool {
	if len(s.freeSlots) == 0 || s.waitsForPrefix(seq) {
		return false
	}
	keep := 0 // blocks that must remain
	for _, resident := range s.residents {
		if !s.cfg.NoReserve && resident != nil && !s.kv.Holds(resident.table, resident.Prompt+resident.MaxTokens) {
			keep++
		}
	}
	if s.kv.Free() > keep { // it takes at least one, so do not look up its prefix in vain
		seq.table = s.kv.Open(seq.reusable(), seq.Salt)
		if s.kv.Grow(seq.table, seq.table.Cached+1, s.footprint(seq), keep) {
			return true
		}
		s.kv.Close(seq.table)
		seq.table = nil
	}
	if seq.tenant.nextWaiting < maxFailed { // the turn of those behind comes later
		s.markBlocked(seq, now)
	}
	return false
}

// waitsForPrefix reports whether seq does better to wait, because another sequence is
// just computing at least half of what seq would have to compute.
func (s *Scheduler) waitsForPrefix(seq *Seq) bool {
	for _, resident := range s.residents {
		if s.cfg.NoPrefixCache || resident == nil || resident.state != running || resident.committed >= resident.Prompt || resident.tenant != seq.tenant || resident.Salt != seq.Salt {
			continue
		}
		shared := 0 // leading tokens that both have
		for last := min(len(seq.reusable())-1, resident.Prompt); shared < last && seq.Tokens[shared] == resident.Tokens[shared]; {
			shared++
		}
		// What will be found in the cache, in whole blocks, beyond what could be found now.
		if gain := shared/s.info.BlockSize*s.info.BlockSize - resident.committed; gain > 0 && 2*gain >= len(seq.Tokens)-resident.committed {
			return true
		}
	}
	return false
}

// markBlocked notes since when there are not enough blocks for seq, and keeps blocks for it
// when that was too long ago (ADM-7).
func (s *Scheduler) markBlocked(seq *Seq, now time.Time) {
	if seq.blocked.IsZero() {
		seq.blocked = now
	}
	if s.reserved == nil && now.Sub(seq.blocked) >= maxBlocked {
		s.reserved = seq
	}
}
