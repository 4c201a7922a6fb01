package sched

import (
	"slices"
	"time"
)

const (
	maxOvertaken = 64               // ADM-7: so many others are admitted before one of a tenant's first that does not fit,
	maxBlocked   = 30 * time.Second // or for so long; then blocks are kept for it
	maxMisses    = 16               // sequences of a tenant that are tried in vain per step, from its first on: bounds its time,
	moreMisses   = 8                // and more, each step others of those behind
	allMisses    = 128              // of all tenants
)

// A tenant is the account of those who share fairly with others. Service is
// counted in computed tokens; the tenant with the least is served next, as in the
// virtual token counter of "Fairness in Serving Large Language Models" (OSDI 2024).
type tenant struct {
	id        uint32
	served    int    // tokens computed, and the lead of others when it came
	seqs      int    // that have not ended
	residents int    // that hold a slot
	waiting   []*Seq // in the order of before

	// Scratch of Plan.
	chunks []*Seq // residents with more than one token to compute, in the order of before
	chunk  int    // those before it have their row
	try    int    // waiting ones before it are not tried any more
	misses int    // those that were tried in vain
	onward int    // where it goes on behind the first maxMisses, if the last Plan did not try all
	held   int    // tokens of sequences that could be preempted
	count  int    // such sequences
	oldest uint64 // arrival of the first that has not ended
}

// tenantOf returns the account of a tenant. Who comes, or comes back, starts level
// with the least served of those that are there: absence saves nothing up. What one
// was ahead of the others it keeps, until nobody is there.
func (s *Scheduler) tenantOf(id uint32) *tenant {
	level := 0
	var t *tenant
	busy := false
	for _, o := range s.tenants {
		if o.id == id {
			t = o
		}
		if o.seqs > 0 && (!busy || o.served < level) {
			level, busy = o.served, true
		}
	}
	s.tenants = slices.DeleteFunc(s.tenants, func(o *tenant) bool {
		return o != t && o.seqs == 0 && (!busy || o.served <= level)
	})
	if t == nil {
		t = &tenant{id: id}
		s.tenants = append(s.tenants, t)
	}
	switch {
	case !busy:
		t.served = 0
	case t.seqs == 0:
		t.served = max(t.served, level)
	}
	return t
}

// next returns the sequence whose prompt runs next: of the tenant that was served
// least, and of several the latest comer. Nil = there is none.
func (s *Scheduler) next() *Seq {
	var least *tenant
	for _, t := range s.tenants {
		if (least == nil || s.standing(t) <= s.standing(least)) && s.first(t) != nil {
			least = t
		}
	}
	if least == nil {
		return nil
	}
	q := s.first(least)
	if q.state == running {
		least.chunk++
	}
	return q
}

// standing is what a tenant was served; without a resident sequence it counts as a
// step behind, or slots would go to and fro between equals.
func (s *Scheduler) standing(t *tenant) int {
	if t.residents == 0 {
		return t.served - s.info.MaxTokens
	}
	return t.served
}

// first returns the first sequence of a tenant that can have a chunk of its prompt
// in this step, or that was not yet tried.
func (s *Scheduler) first(t *tenant) *Seq {
	for t.chunk < len(t.chunks) && s.open(t.chunks[t.chunk]) == 0 {
		t.chunk++ // preempted meanwhile
	}
	chunk, wait := t.chunk < len(t.chunks), t.try < len(t.waiting) && s.reserved == nil && t.misses < maxMisses+moreMisses && s.misses < allMisses
	switch {
	case chunk && !(wait && before(t.waiting[t.try], t.chunks[t.chunk])):
		return t.chunks[t.chunk]
	case wait:
		return t.waiting[t.try]
	}
	return nil
}

// before orders the sequences of a tenant.
func before(a, b *Seq) bool {
	if a.Priority != b.Priority {
		return a.Priority < b.Priority
	}
	return a.arrival < b.arrival
}

func insert(list []*Seq, q *Seq) []*Seq {
	i := len(list)
	for i > 0 && before(q, list[i-1]) {
		i--
	}
	return slices.Insert(list, i, q)
}

// seat admits whom slots and blocks are kept for, and one sequence of whoever was
// served least and has none, before others' rows are planned: it may take a slot.
func (s *Scheduler) seat(now time.Time) {
	if s.reserved != nil {
		s.admit(s.reserved, now)
	}
	for q := s.next(); q != nil && q.tenant.residents == 0; q = s.next() {
		s.admit(q, now)
	}
}

// admit makes a waiting sequence resident if it can be; otherwise it is not tried
// again in this Plan.
func (s *Scheduler) admit(q *Seq, now time.Time) bool {
	for !s.claim(q, now) {
		if !s.displace(q) {
			s.misses++
			q.tenant.miss()
			if q.Preemptions > 0 { // it was admitted: later ones do not take its blocks (ADM-3)
				q.tenant.try = len(q.tenant.waiting)
			}
			return false
		}
	}
	s.enter(q, now)
	s.overtake(q)
	return true
}

// miss goes on behind a sequence that was tried in vain. It leaves out those that the last
// Plan tried, but no preempted one.
func (t *tenant) miss() {
	t.misses++
	if t.try++; t.try != maxMisses || t.onward <= t.try || t.onward >= len(t.waiting) {
		return
	}
	if !slices.ContainsFunc(t.waiting[t.try:t.onward], func(q *Seq) bool { return q.Preemptions > 0 }) {
		t.try = t.onward
	}
}

// overtake counts the admission of q for those that came before it and wait for
// blocks (ADM-7), of each tenant for the first: those whose turn it is next.
func (s *Scheduler) overtake(q *Seq) {
	for _, t := range s.tenants {
		for _, w := range t.waiting[:min(len(t.waiting), maxMisses)] {
			if w.blocked.IsZero() || w.arrival > q.arrival {
				continue
			}
			if w.overtaken++; w.overtaken >= maxOvertaken && s.reserved == nil {
				s.reserved = w
			}
		}
	}
}

// claim opens a table for q. One block must remain for each resident that may need more
// than it has: what begins should not be thrown out by the next tokens of others.
func (s *Scheduler) claim(q *Seq, now time.Time) bool {
	if len(s.slots) == 0 || s.awaits(q) {
		return false
	}
	keep := 0
	for _, r := range s.running {
		if r != nil && !s.kv.Holds(r.table, r.Prompt+r.MaxTokens+s.info.Lookahead) {
			keep++
		}
	}
	if s.kv.Free() > keep { // it takes at least one, so do not look up its prefix in vain
		q.table = s.kv.Open(q.reusable(), q.Salt)
		if s.kv.Grow(q.table, q.table.Cached+1+s.info.Lookahead, s.reach(q), keep) {
			return true
		}
		s.kv.Close(q.table)
		q.table = nil
	}
	if q.tenant.try < maxMisses { // the turn of those behind comes later
		s.age(q, now)
	}
	return false
}

// awaits reports whether q does better to wait, because another sequence is just
// computing at least half of what q would have to compute.
func (s *Scheduler) awaits(q *Seq) bool {
	for _, r := range s.running {
		if s.cfg.NoPrefixCache || r == nil || r.state != running || r.committed >= r.Prompt || r.tenant != q.tenant || r.Salt != q.Salt {
			continue
		}
		shared := 0
		for last := min(len(q.reusable())-1, r.Prompt); shared < last && q.Tokens[shared] == r.Tokens[shared]; {
			shared++
		}
		if gain := shared/s.info.BlockSize*s.info.BlockSize - r.committed; gain > 0 && 2*gain >= len(q.Tokens)-r.committed {
			return true
		}
	}
	return false
}

// age notes since when there are not enough blocks for q (ADM-7).
func (s *Scheduler) age(q *Seq, now time.Time) {
	if q.blocked.IsZero() {
		q.blocked = now
	}
	if s.reserved == nil && now.Sub(q.blocked) >= maxBlocked {
		s.reserved = q
	}
}

// victim returns the sequence to preempt: of the tenant that holds most tokens
// among those with several sequences the last one, so that nobody loses all; when
// everyone has one, that of the tenant whose oldest sequence is the youngest. So the
// first sequence of the tenant with the oldest is taken only when it is alone, and
// then it has all blocks: it finishes, and another becomes the first.
func (s *Scheduler) victim() *Seq {
	for _, t := range s.tenants {
		t.held, t.count, t.oldest = 0, 0, s.arrivals
	}
	for _, q := range s.seqs {
		q.tenant.oldest = min(q.tenant.oldest, q.arrival)
		if q.state == running {
			q.tenant.held += len(q.Tokens)
			q.tenant.count++
		}
	}
	var v *Seq
	for _, q := range s.running {
		if q != nil && q.state == running && (v == nil || goesBefore(q, v)) {
			v = q
		}
	}
	return v
}

// goesBefore reports whether a is preempted rather than b.
func goesBefore(a, b *Seq) bool {
	t, u := a.tenant, b.tenant
	switch {
	case t == u:
		return before(b, a)
	case t.count > 1 && u.count > 1 && t.held != u.held:
		return t.held > u.held
	case (t.count > 1) != (u.count > 1):
		return t.count > 1
	}
	return t.oldest > u.oldest
}

// displace preempts a sequence for q, whose tenant has no resident one, of a tenant
// that has several, was not served less and keeps at least as many tokens as q
// brings. Slot and blocks are kept for q from now on. It reports whether they are
// already free.
func (s *Scheduler) displace(q *Seq) bool {
	if q.tenant.residents > 0 || s.leaving > 0 || (s.reserved != nil && s.reserved != q) {
		return false
	}
	v := s.victim()
	if v == nil || v.tenant.count < 2 || (s.reserved != q && (s.standing(v.tenant) < s.standing(q.tenant) || v.tenant.held < 2*len(q.Tokens))) {
		return false
	}
	s.reserved = q
	s.preempt(v)
	return s.leaving == 0
}
