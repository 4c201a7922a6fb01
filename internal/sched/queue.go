package sched

import "slices"

// A tenant is the account of those who share fairly with others. Service is
// counted in computed tokens; the tenant with the least is served next, as in the
// virtual token counter of "Fairness in Serving Large Language Models" (OSDI 2024).
type tenant struct {
	id        uint32
	served    uint64 // tokens computed, and the lead of others when it came
	seqs      int    // that have not ended
	residents int    // that hold a slot
	waiting   []*Seq // in the order of before

	// Scratch of Plan.
	chunks []*Seq // residents with more than one token to compute, in the order of before
	chunk  int    // those before it have their row
	try    int    // waiting ones before it were tried in vain
	held   int    // tokens of sequences that could be preempted
	count  int    // such sequences
}

// tenantOf returns the account of a tenant. Who comes, or comes back, starts level
// with the least served of those that are there: absence saves nothing up. What one
// was ahead of the others it keeps, until nobody is there.
func (s *Scheduler) tenantOf(id uint32) *tenant {
	var level uint64
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
// least, the latest comer of several. Nil = there is none.
func (s *Scheduler) next() *Seq {
	var least *tenant
	for _, t := range s.tenants {
		if (least == nil || t.served <= least.served) && s.first(t) != nil {
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

// first returns the first sequence of a tenant that can have a chunk of its prompt
// in this step, or that was not yet tried.
func (s *Scheduler) first(t *tenant) *Seq {
	for t.chunk < len(t.chunks) && s.open(t.chunks[t.chunk]) == 0 {
		t.chunk++ // preempted meanwhile
	}
	chunk, wait := t.chunk < len(t.chunks), t.try < len(t.waiting) && s.reserved == nil
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

// victim returns the sequence to preempt: of the tenant that holds most tokens
// among those with several sequences the last one, so that nobody loses all; when
// everyone has one, the latest. The oldest of all is taken only when it is alone,
// and then it has all blocks: it always finishes.
func (s *Scheduler) victim() *Seq {
	for _, t := range s.tenants {
		t.held, t.count = 0, 0
	}
	for _, q := range s.running {
		if q != nil && q.state == running {
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
	return a.arrival > b.arrival
}

// displace preempts a sequence for q, whose tenant has no resident one, of a tenant
// that has several and keeps at least as many tokens as q brings. Slot and blocks
// are kept for q from now on. It reports whether they are already free.
func (s *Scheduler) displace(q *Seq) bool {
	if q.tenant.residents > 0 || s.leaving > 0 || s.reserved != nil && s.reserved != q {
		return false
	}
	v := s.victim()
	if v == nil || v.tenant.count < 2 || s.reserved != q && v.tenant.held < 2*len(q.Tokens) {
		return false
	}
	s.reserved = q
	s.preempt(v)
	return s.leaving == 0
}
