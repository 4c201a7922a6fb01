package sched

import "slices"

// Whose turn it is: the tenant that was served least, and of one tenant the sequence
// that comes first by priority and arrival.

// A tenant is the account of those who share fairly with others. Service is
// counted in computed tokens; the tenant with the least is served next, as in the
// virtual token counter of "Fairness in Serving Large Language Models" (OSDI 2024).
type tenant struct {
	id      uint32
	served  int    // tokens computed, and the lead of others when it came
	live    int    // sequences that have not ended
	slots   int    // that its sequences hold
	waiting []*Seq // in the order of before

	// Scratch of Plan: how far it has come among the sequences of this tenant.
	prompts     []*Seq // residents with more than one token to compute, in the order of before
	nextPrompt  int    // index in prompts; those before it have their row
	nextWaiting int    // index in waiting; those before it are not tried any more in this Plan
	failed      int    // sequences that could not be admitted in this Plan
	resumeAt    int    // index in waiting: where to go on behind the first maxFailed; 0 = the last Plan tried all it had

	// Scratch of victim.
	runningTokens int    // tokens of the sequences that could be preempted
	runningSeqs   int    // such sequences
	oldestArrival uint64 // of the sequences that have not ended
}

// tenantOf returns the account of a tenant. Who comes, or comes back, starts level
// with the least served of those that are there: absence saves nothing up. What one
// was ahead of the others it keeps, until nobody is there.
func (s *Scheduler) tenantOf(id uint32) *tenant {
	level := 0 // the least that one who is there was served
	var account *tenant
	busy := false // somebody is there
	for _, other := range s.tenants {
		if other.id == id {
			account = other
		}
		if other.live > 0 && (!busy || other.served < level) {
			level, busy = other.served, true
		}
	}
	// An account that would not be ahead of the level says nothing: it is made again.
	s.tenants = slices.DeleteFunc(s.tenants, func(other *tenant) bool {
		return other != account && other.live == 0 && (!busy || other.served <= level)
	})
	if account == nil {
		account = &tenant{id: id}
		s.tenants = append(s.tenants, account)
	}
	switch {
	case !busy:
		account.served = 0
	case account.live == 0:
		account.served = max(account.served, level)
	}
	return account
}

// next returns the sequence whose prompt runs next: of the tenant that was served
// least, and of several the latest comer. Nil = there is none.
func (s *Scheduler) next() *Seq {
	var least *tenant
	for _, t := range s.tenants {
		if (least == nil || s.standing(t) <= s.standing(least)) && s.nextOf(t) != nil {
			least = t
		}
	}
	if least == nil {
		return nil
	}
	seq := s.nextOf(least)
	if seq.state == running {
		least.nextPrompt++
	}
	return seq
}

// standing is what a tenant was served; without a resident sequence it counts as a
// step behind, or slots would go to and fro between equals.
func (s *Scheduler) standing(t *tenant) int {
	if t.slots == 0 {
		return t.served - s.info.MaxTokens
	}
	return t.served
}

// nextOf returns the first sequence of a tenant that can have a chunk of its prompt
// in this step, or that waits and was not yet tried. Nobody is tried while blocks are
// kept for one, nor beyond the bounds of admit.go.
func (s *Scheduler) nextOf(t *tenant) *Seq {
	for t.nextPrompt < len(t.prompts) && s.launchable(t.prompts[t.nextPrompt]) == 0 {
		t.nextPrompt++ // preempted meanwhile
	}
	chunk := t.nextPrompt < len(t.prompts)
	wait := t.nextWaiting < len(t.waiting) && s.reserved == nil && t.failed < maxFailed+moreFailed && s.failed < allFailed
	switch {
	case chunk && !(wait && before(t.waiting[t.nextWaiting], t.prompts[t.nextPrompt])):
		return t.prompts[t.nextPrompt]
	case wait:
		return t.waiting[t.nextWaiting]
	}
	return nil
}

// before orders the sequences of a tenant: a lower number of priority goes first, then
// the earlier arrival. It is a total order.
func before(a, b *Seq) bool {
	if a.Priority != b.Priority {
		return a.Priority < b.Priority
	}
	return a.arrival < b.arrival
}

// insert puts seq into a list in the order of before.
func insert(list []*Seq, seq *Seq) []*Seq {
	i := len(list)
	for i > 0 && before(seq, list[i-1]) {
		i--
	}
	return slices.Insert(list, i, seq)
}
