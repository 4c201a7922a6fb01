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
	// What is in flight, by sequence, from the batches themselves.
	rows, samples := make(map[*Seq]int), make(map[*Seq]int)
	for n := s.committed; n < s.planned; n++ {
		step := &s.steps[n%uint64(len(s.steps))]
		for i, seq := range step.seqs {
			rows[seq]++
			if step.batch.Rows[i].Sample {
				samples[seq]++
			}
		}
	}
	// Every resident has the slot that it believes to have, and writes to blocks that nobody
	// shares.
	residents, gone := make(map[*tenant]int), 0
	for slot, seq := range s.residents {
		if seq == nil {
			continue
		}
		residents[seq.tenant]++
		if seq.state != running {
			gone++
		}
		if err := seq.check(rows[seq], samples[seq]); err != nil {
			return err
		}
		if err := s.kv.CheckOwn(seq.table, seq.committed/s.info.BlockSize); err != nil {
			return fmt.Errorf("sched: sequence %d with %d tokens computed: %w", seq.ID, seq.committed, err)
		}
		if seq.slot != slot || slices.Contains(s.freeSlots, slot) || seq.state == waiting || (seq.state != running && seq.inFlight == 0) || (s.seqs[seq.ID] == seq) == (seq.state == ended) {
			return fmt.Errorf("sched: slot %d holds sequence %d of slot %d in state %d with %d rows", slot, seq.ID, seq.slot, seq.state, seq.inFlight)
		}
	}
	if gone != s.leaving {
		return fmt.Errorf("sched: %d sequences are leaving, counted %d", gone, s.leaving)
	}
	if n, tables := len(s.residents)-len(s.freeSlots), s.kv.Stats().Tables; n != tables {
		return fmt.Errorf("sched: %d sequences are resident, %d tables open", n, tables)
	}
	return s.checkQueues(residents)
}

// check holds the counters of a resident sequence to the rows and samples in flight.
func (seq *Seq) check(rows, samples int) error {
	spoken := len(seq.Tokens) > seq.Prompt
	switch known := len(seq.Tokens) + seq.pending; {
	case seq.inFlight != rows || seq.pending != samples:
		return fmt.Errorf("sched: sequence %d counts %d rows and %d samples in flight, there are %d and %d", seq.ID, seq.inFlight, seq.pending, rows, samples)
	case seq.state == running && (seq.committed > seq.launched || seq.launched > known || (seq.inFlight == 0 && seq.committed != seq.launched)):
		return fmt.Errorf("sched: sequence %d has committed %d and launched %d of %d tokens with %d rows in flight", seq.ID, seq.committed, seq.launched, known, seq.inFlight)
	case (spoken && (seq.unscored() || len(seq.scores) > 0)) || (!spoken && len(seq.scores) != seq.scored):
		return fmt.Errorf("sched: sequence %d has %d of %d tokens, scores of %d, %d of them kept", seq.ID, len(seq.Tokens), seq.Prompt, seq.scored, len(seq.scores))
	case seq.table == nil:
		return fmt.Errorf("sched: sequence %d is resident without a table", seq.ID)
	}
	return nil
}

// checkQueues holds queues and counters to the sequences that there are; residents is how
// many each tenant has.
func (s *Scheduler) checkQueues(residents map[*tenant]int) error {
	free, count, queued, queuedTokens := 0, 0, 0, 0
	for _, seq := range s.residents {
		if seq == nil {
			free++
		} else if seq.state != ended {
			count++
		}
	}
	// A queue is in order and holds nobody who is resident.
	for _, t := range s.tenants {
		if t.slots != residents[t] {
			return fmt.Errorf("sched: tenant %d has %d residents, counts %d", t.id, residents[t], t.slots)
		}
		for i, seq := range t.waiting {
			if seq.state != waiting || seq.table != nil || seq.inFlight != 0 || seq.tenant != t || s.seqs[seq.ID] != seq || (i > 0 && !before(t.waiting[i-1], seq)) {
				return fmt.Errorf("sched: sequence %d at %d of the queue of tenant %d: state %d, %d rows", seq.ID, i, t.id, seq.state, seq.inFlight)
			}
			count++
			if seq.Started.IsZero() {
				queued++
				queuedTokens += seq.Prompt
			}
		}
	}
	switch {
	case free != len(s.freeSlots):
		return fmt.Errorf("sched: %d slots are free, %d on the list", free, len(s.freeSlots))
	case count != len(s.seqs):
		return fmt.Errorf("sched: %d sequences wait or run, %d have not ended", count, len(s.seqs))
	case queued != s.queued || queuedTokens != s.queuedTokens:
		return fmt.Errorf("sched: %d sequences of %d tokens queue, counted %d of %d", queued, queuedTokens, s.queued, s.queuedTokens)
	case s.reserved != nil && s.reserved.state != waiting:
		return fmt.Errorf("sched: blocks are kept for sequence %d in state %d", s.reserved.ID, s.reserved.state)
	}
	return nil
}
