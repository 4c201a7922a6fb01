package sched

import (
	"fmt"
	"slices"
)

// Check reports the first broken invariant (DET-4): of blocks, slots, queues and
// what is in flight. It takes time in proportion to everything there is.
func (s *Scheduler) Check() error {
	if err := s.kv.Check(); err != nil {
		return err
	}
	rows, samples := make(map[*Seq]int), make(map[*Seq]int)
	for n := s.committed; n < s.planned; n++ {
		l := &s.launches[n%uint64(len(s.launches))]
		for i, q := range l.seqs {
			rows[q]++
			if l.batch.Rows[i].Sample {
				samples[q]++
			}
		}
	}
	residents, gone := make(map[*tenant]int), 0
	for slot, q := range s.running {
		if q == nil {
			continue
		}
		residents[q.tenant]++
		if q.state != running {
			gone++
		}
		if err := q.check(rows[q], samples[q], s.info.Lookahead); err != nil {
			return err
		}
		if err := s.kv.CheckOwn(q.table, q.committed/s.info.BlockSize); err != nil {
			return fmt.Errorf("sched: sequence %d with %d tokens computed: %w", q.ID, q.committed, err)
		}
		if q.slot != slot || slices.Contains(s.slots, slot) || q.state == waiting || (q.state != running && q.rows == 0) || (s.seqs[q.ID] == q) == (q.state == ended) {
			return fmt.Errorf("sched: slot %d holds sequence %d of slot %d in state %d with %d rows", slot, q.ID, q.slot, q.state, q.rows)
		}
	}
	if gone != s.leaving {
		return fmt.Errorf("sched: %d sequences are leaving, counted %d", gone, s.leaving)
	}
	if n, tables := len(s.running)-len(s.slots), s.kv.Stats().Tables; n != tables {
		return fmt.Errorf("sched: %d sequences are resident, %d tables open", n, tables)
	}
	return s.checkQueues(residents)
}

func (q *Seq) check(rows, samples, lookahead int) error {
	spoken := len(q.Tokens) > q.Prompt
	switch known := len(q.Tokens) + q.pending; {
	case q.rows != rows || q.pending != samples:
		return fmt.Errorf("sched: sequence %d counts %d rows and %d samples in flight, there are %d and %d", q.ID, q.rows, q.pending, rows, samples)
	case q.state == running && (q.committed > q.launched || q.launched > known || (q.rows == 0 && q.committed != q.launched)):
		return fmt.Errorf("sched: sequence %d has committed %d and launched %d of %d tokens with %d rows in flight", q.ID, q.committed, q.launched, known, q.rows)
	case (spoken && (q.unscored() || len(q.scores) > 0)) || (!spoken && len(q.scores) != q.scored):
		return fmt.Errorf("sched: sequence %d has %d of %d tokens, scores of %d, %d of them kept", q.ID, len(q.Tokens), q.Prompt, q.scored, len(q.scores))
	case q.table == nil:
		return fmt.Errorf("sched: sequence %d is resident without a table", q.ID)
	}
	return nil
}

func (s *Scheduler) checkQueues(residents map[*tenant]int) error {
	free, count, queued, queuedTokens := 0, 0, 0, 0
	for _, q := range s.running {
		if q == nil {
			free++
		} else if q.state != ended {
			count++
		}
	}
	for _, t := range s.tenants {
		if t.residents != residents[t] {
			return fmt.Errorf("sched: tenant %d has %d residents, counts %d", t.id, residents[t], t.residents)
		}
		for i, q := range t.waiting {
			if q.state != waiting || q.table != nil || q.rows != 0 || q.tenant != t || s.seqs[q.ID] != q || (i > 0 && !before(t.waiting[i-1], q)) {
				return fmt.Errorf("sched: sequence %d at %d of the queue of tenant %d: state %d, %d rows", q.ID, i, t.id, q.state, q.rows)
			}
			count++
			if q.Started.IsZero() {
				queued++
				queuedTokens += q.Prompt
			}
		}
	}
	switch {
	case free != len(s.slots):
		return fmt.Errorf("sched: %d slots are free, %d on the list", free, len(s.slots))
	case count != len(s.seqs):
		return fmt.Errorf("sched: %d sequences wait or run, %d have not ended", count, len(s.seqs))
	case queued != s.queued || queuedTokens != s.queuedTokens:
		return fmt.Errorf("sched: %d sequences of %d tokens queue, counted %d of %d", queued, queuedTokens, s.queued, s.queuedTokens)
	case s.reserved != nil && s.reserved.state != waiting:
		return fmt.Errorf("sched: blocks are kept for sequence %d in state %d", s.reserved.ID, s.reserved.state)
	}
	return nil
}
