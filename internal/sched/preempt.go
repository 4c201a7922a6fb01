package sched

// Who gives way. A preempted sequence loses slot and blocks, waits with priority and
// arrival as before, and is computed again with the output it has.

// victim returns the sequence to preempt: of the tenant that holds most tokens
// among those with several sequences the last one, so that nobody loses all; when
// everyone has one, that of the tenant whose oldest sequence, waiting ones included, is
// the youngest. So the first sequence of the tenant with the oldest is taken only when no
// other runs, and then it has all blocks: it finishes, and another becomes the first.
func (s *Scheduler) victim() *Seq {
	for _, t := range s.tenants {
		t.runningTokens, t.runningSeqs, t.oldestArrival = 0, 0, s.arrivals
	}
	for _, seq := range s.seqs {
		seq.tenant.oldestArrival = min(seq.tenant.oldestArrival, seq.arrival)
		if seq.state == running {
			seq.tenant.runningTokens += len(seq.Tokens)
			seq.tenant.runningSeqs++
		}
	}
	// The order is total, so that the place in residents, which is chance, decides nothing.
	var victim *Seq
	for _, seq := range s.residents {
		if seq != nil && seq.state == running && (victim == nil || preemptedBefore(seq, victim)) {
			victim = seq
		}
	}
	return victim
}

// preemptedBefore reports whether a is preempted rather than b. Two tenants
// always differ in oldestArrival, for an arrival belongs to one sequence.
func preemptedBefore(a, b *Seq) bool {
	ofA, ofB := a.tenant, b.tenant
	switch {
	case ofA == ofB:
		return before(b, a)
	case ofA.runningSeqs > 1 && ofB.runningSeqs > 1 && ofA.runningTokens != ofB.runningTokens:
		return ofA.runningTokens > ofB.runningTokens
	case (ofA.runningSeqs > 1) != (ofB.runningSeqs > 1):
		return ofA.runningSeqs > 1
	}
	return ofA.oldestArrival > ofB.oldestArrival
}

// displace preempts a sequence of another tenant for seq, whose own has no resident one.
// The tenant of the victim must run several. For the first victim that tenant must also
//
//   - have been served at least as much, where that of seq counts as a step further behind
//     than it is (standing), and
//   - run at least twice the tokens that seq brings, those of the victim included.
//
// Then seq becomes the reserved one: if one victim is not enough, further ones are taken
// without these two. It reports whether what the victim held is free already; if not, its
// launched rows have to be committed first.
func (s *Scheduler) displace(seq *Seq) bool {
	if seq.tenant.slots > 0 || s.leaving > 0 || (s.reserved != nil && s.reserved != seq) {
		return false
	}
	victim := s.victim() // which has just counted what each tenant runs
	if victim == nil || victim.tenant.runningSeqs < 2 {
		return false
	}
	if s.reserved != seq && (s.standing(victim.tenant) < s.standing(seq.tenant) || victim.tenant.runningTokens < 2*len(seq.Tokens)) {
		return false
	}
	s.reserved = seq
	s.preempt(victim)
	return s.leaving == 0
}

// preempt sends seq, which runs, back to the queue. Without launched rows release does all
// of it at once; else seq is leaving until Commit has seen them and releases it again.
func (s *Scheduler) preempt(seq *Seq) {
	seq.state = leaving
	seq.Preemptions++
	if len(seq.Preempted) < mostPreempted {
		seq.Preempted = append(seq.Preempted, s.now)
	}
	s.leaving++
	s.stats.Preemptions++
	s.release(seq)
}
