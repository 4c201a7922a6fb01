// Package sched decides, step by step, which tokens of which sequences run. Its
// users hand in sequences and get tokens; they need not know about blocks, chunks,
// preemption or who waits for whom.
//
// There is no prefill phase and no decode phase. A sequence knows its tokens and
// those that are being sampled; a step computes some that are not launched yet, and
// samples when it reaches the end. Chunked prompts, decoding, cached prefixes,
// computing again after preemption and overlapping steps are cases of this rule.
package sched

import (
	"fmt"
	"slices"
	"time"

	"ossian/internal/kv"
	"ossian/internal/runner"
	"ossian/internal/sample"
)

// A Scheduler is a state machine: it plans batches, and moves its sequences
// forward when their results are committed. It is used by one goroutine, takes no
// locks, starts nothing and reads no clock.
//
// While it is not Idle and no batch is in flight, Plan returns a batch.
type Scheduler struct {
	cfg      Config
	info     runner.Info
	capacity int
	kv       *kv.Manager

	seqs     map[uint64]*Seq // all that have not ended
	running  []*Seq          // [slot]; nil = free
	slots    []int           // free ones, the next last
	leaving  int             // of running: not planned any more, waiting for launched rows
	tenants  []*tenant
	reserved *Seq // waiting; nobody else is admitted before it
	misses   int  // sequences that could not be admitted in this Plan
	beside   int  // LimitPrompts
	full     int  // tokens that the planned step may have

	launches  []launch // ring: step n is launches[n%Depth]
	planned   uint64   // steps
	committed uint64

	arrivals     uint64
	queued       int       // sequences that never had a slot
	queuedTokens int       // theirs
	due          time.Time // no deadline passes before; zero = there is none
	out          []Output
	stats        Stats // counters only
	groups       []kv.Group
}

// A launch is a planned batch and the memory it uses.
type launch struct {
	batch  runner.Batch
	seqs   []*Seq             // [row]
	tables [][]runner.BlockID // [row·groups]: tables grow, what a batch covers does not
}

// New returns a scheduler for runners with that Info.
func New(cfg Config, info runner.Info) (*Scheduler, error) {
	if cfg.MaxQueue == 0 {
		cfg.MaxQueue = 1024
	}
	if cfg.MaxQueue < 0 || cfg.MaxQueueTokens < 0 || cfg.ChunkLimit < 0 {
		return nil, fmt.Errorf("sched: %+v: limits must not be negative", cfg)
	}
	if info.MaxSeqs < 1 || info.MaxTokens < 1 || info.BlockSize < 1 || info.Vocab < 1 || info.Depth < 1 || info.Lookahead < 0 || len(info.Groups) == 0 {
		return nil, fmt.Errorf("sched: runner %+v: numbers must be positive", info)
	}
	if info.Lookahead > 0 && info.Depth > 1 {
		return nil, fmt.Errorf("sched: runner %s has lookahead %d at depth %d, expected depth 1", info.Name, info.Lookahead, info.Depth)
	}
	s := &Scheduler{cfg: cfg, info: info, capacity: info.MaxLen, seqs: make(map[uint64]*Seq)}
	for _, g := range info.Groups {
		// So many blocks are touched by a window behind the last full block, the tokens
		// since then, one more and the lookahead.
		if least := (g.Window+info.Lookahead+2*info.BlockSize-3)/info.BlockSize + 1; g.Window == 0 || g.Blocks < least {
			s.capacity = min(s.capacity, g.Blocks*info.BlockSize)
		}
	}
	if s.capacity -= info.Lookahead; s.capacity < 2 {
		return nil, fmt.Errorf("sched: runner %s: pools %v of blocks of %d tokens, sequences of %d, lookahead %d: not even two tokens fit",
			info.Name, info.Groups, info.BlockSize, info.MaxLen, info.Lookahead)
	}
	s.kv = kv.New(info.BlockSize, info.Groups, !cfg.NoPrefixCache)
	// One token per step for each: whoever is resident is never left out.
	rows := min(info.MaxSeqs, info.MaxTokens)
	s.running = make([]*Seq, rows)
	for i := range rows {
		s.slots = append(s.slots, rows-1-i)
	}
	for range info.Depth {
		s.launches = append(s.launches, launch{
			batch:  runner.Batch{Tokens: make([]int32, 0, info.MaxTokens), Rows: make([]runner.Row, 0, rows)},
			seqs:   make([]*Seq, 0, rows),
			tables: make([][]runner.BlockID, rows*len(info.Groups))})
	}
	return s, nil
}

// LimitPrompts makes steps in which some sequences get their one token have n tokens
// of prompts at most, so that these do not keep those waiting; 0 = what the step has
// room for.
func (s *Scheduler) LimitPrompts(n int) { s.beside = n }

// Capacity returns how many tokens, prompt and output, a sequence can have.
func (s *Scheduler) Capacity() int { return s.capacity }

// Add puts q into the queue. Errors to test for: ErrQueueFull, ErrNeverFits.
func (s *Scheduler) Add(q *Seq) error {
	n := len(q.Tokens)
	if n == 0 || q.MaxTokens < 1 || q.Params == nil {
		return fmt.Errorf("sched: sequence %d: prompt of %d tokens, output of %d, parameters %v: each must be there", q.ID, n, q.MaxTokens, q.Params)
	}
	if i := slices.IndexFunc(q.Tokens, func(id int32) bool { return id < 0 || int(id) >= s.info.Vocab }); i >= 0 {
		return fmt.Errorf("sched: sequence %d: prompt token %d has id %d, vocabulary has %d", q.ID, i, q.Tokens[i], s.info.Vocab)
	}
	if s.seqs[q.ID] != nil || q.tenant != nil {
		return fmt.Errorf("sched: sequence %d was added before", q.ID)
	}
	if n >= s.capacity || q.MaxTokens > s.capacity-n {
		return fmt.Errorf("sched: %w: prompt of %d tokens, output of %d, room for %d", ErrNeverFits, n, q.MaxTokens, s.capacity)
	}
	if s.queued >= s.cfg.MaxQueue {
		return fmt.Errorf("sched: %w: %d sequences wait", ErrQueueFull, s.queued)
	}
	if s.cfg.MaxQueueTokens > 0 && s.queued > 0 && s.queuedTokens+n > s.cfg.MaxQueueTokens {
		return fmt.Errorf("sched: %w: %d tokens wait, at most %d may", ErrQueueFull, s.queuedTokens, s.cfg.MaxQueueTokens)
	}
	q.Prompt = n
	q.Tokens = append(make([]int32, 0, n+min(q.MaxTokens, 512)), q.Tokens...)
	if err := q.restrict(s.info.Vocab); err != nil {
		return fmt.Errorf("sched: sequence %d: %w", q.ID, err)
	}
	s.arrivals++
	q.arrival, q.tenant = s.arrivals, s.tenantOf(q.Tenant)
	q.tenant.seqs++
	q.tenant.waiting = insert(q.tenant.waiting, q)
	s.seqs[q.ID] = q
	s.queued++
	s.queuedTokens += n
	if d := q.due(); !d.IsZero() && (s.due.IsZero() || d.Before(s.due)) {
		s.due = d
	}
	return nil
}

// Abort ends a sequence; no Output of it follows. It reports whether there was one
// with that id. Its blocks are free once its launched rows are committed.
func (s *Scheduler) Abort(id uint64) bool {
	q := s.seqs[id]
	if q == nil {
		return false
	}
	s.end(q)
	s.release(q)
	return true
}

// ForgetPrefixes empties the prefix cache of what no sequence uses, and returns how many
// blocks that was. Sequences go on as they are.
func (s *Scheduler) ForgetPrefixes() int { return s.kv.Forget() }

// Idle reports whether there is neither a sequence nor a batch in flight.
func (s *Scheduler) Idle() bool { return len(s.seqs) == 0 && s.planned == s.committed }

// Commit records the result of the oldest batch in flight and ends sequences whose
// time is over. What it returns is valid until the next call. It panics when b is
// not that batch, or r not of its shape.
func (s *Scheduler) Commit(b *runner.Batch, r *runner.Result, now time.Time) []Output {
	l := &s.launches[s.committed%uint64(len(s.launches))]
	if s.committed == s.planned || b != &l.batch || len(r.Tokens) != len(b.Rows) {
		panic(fmt.Sprintf("sched: commit of %d rows with %d results is not of step %d of %d", len(b.Rows), len(r.Tokens), s.committed+1, s.planned))
	}
	s.committed++
	s.out = s.out[:0]
	for i, q := range l.seqs {
		row := &b.Rows[i]
		q.rows--
		q.committed += row.Len
		if row.Sample {
			q.pending--
		}
		if len(row.Targets) > 0 && q.state != ended {
			q.score(row.Start, r.Scores[i])
		}
		switch {
		case q.state == ended:
			s.stats.Dropped++
		case row.Sample && r.Logprobs != nil:
			s.accept(q, row, r.Tokens[i], r.Logprobs[i])
		case row.Sample:
			s.accept(q, row, r.Tokens[i], nil)
		}
		// An id that came after the end was computed, but is not a token of q.
		s.kv.Publish(q.table, q.Tokens, min(q.committed, len(q.Tokens)))
		s.release(q)
	}
	s.expire(now)
	return s.out
}

// accept appends sampled ids to q up to its first reason to end.
func (s *Scheduler) accept(q *Seq, row *runner.Row, ids []int32, logprobs []sample.Logprob) {
	each := len(logprobs) / max(len(ids), 1)
	if row.Mask != nil {
		ids = ids[:1] // the mask was of the first; the others are sampled again
	}
	for i, id := range ids {
		o := Output{ID: q.ID, Token: id}
		if len(q.Tokens) == q.Prompt {
			o.Scores, q.scores = q.scores, nil
		}
		q.Tokens = append(q.Tokens, id)
		if i > 0 { // the runner has computed the id before to find this one
			q.launched++
			q.committed++
		}
		if each > 0 {
			o.Logprobs = logprobs[i*each : (i+1)*each]
		}
		o.Finish, o.Err = q.judge(id, s.info.Vocab)
		s.out = append(s.out, o)
		if o.Finish != FinishNone {
			s.end(q)
			return
		}
	}
}

// expire ends the sequences whose time is over.
func (s *Scheduler) expire(now time.Time) {
	if s.due.IsZero() || now.Before(s.due) {
		return
	}
	s.due = time.Time{}
	for _, q := range s.running {
		if q != nil && q.state != ended {
			s.expireOne(q, now)
		}
	}
	for _, t := range s.tenants {
		for i := len(t.waiting) - 1; i >= 0; i-- { // downwards: ending removes
			s.expireOne(t.waiting[i], now)
		}
	}
}

func (s *Scheduler) expireOne(q *Seq, now time.Time) {
	d := q.due()
	switch {
	case d.IsZero():
	case !now.Before(d):
		s.out = append(s.out, Output{ID: q.ID, Token: NoToken, Finish: FinishDeadline})
		s.end(q)
		s.release(q)
	case s.due.IsZero() || d.Before(s.due):
		s.due = d
	}
}

// end takes q out of everything but its slot.
func (s *Scheduler) end(q *Seq) {
	switch q.state {
	case waiting:
		s.unqueue(q)
	case running:
		s.leaving++
	}
	q.state = ended
	q.tenant.seqs--
	delete(s.seqs, q.ID)
}

// unqueue takes q out of the queue of its tenant.
func (s *Scheduler) unqueue(q *Seq) {
	t := q.tenant
	i := slices.Index(t.waiting, q)
	t.waiting = slices.Delete(t.waiting, i, i+1)
	if q.Started.IsZero() {
		s.queued--
		s.queuedTokens -= q.Prompt
	}
	if s.reserved == q {
		s.reserved = nil
	}
}

// enter gives q, which has a table, a slot.
func (s *Scheduler) enter(q *Seq, now time.Time) {
	s.unqueue(q)
	end := len(s.slots) - 1
	q.state, q.slot, s.slots = running, s.slots[end], s.slots[:end]
	s.running[q.slot] = q
	q.tenant.residents++
	q.launched, q.committed = q.table.Cached, q.table.Cached
	q.overtaken, q.blocked = 0, time.Time{}
	if q.Started.IsZero() {
		q.Started = now
	}
}

// begin counts what q, which gets its first row, has found in the prefix cache. Since
// it entered it may have been preempted and have found something else.
func (s *Scheduler) begin(q *Seq) {
	q.Cached = q.launched
	s.stats.Begun += uint64(q.Prompt)
	if !s.cfg.NoPrefixCache && !q.unscored() {
		s.stats.CacheQueries += uint64(q.Prompt)
		s.stats.CacheHits += uint64(q.Cached)
	}
}

// release takes slot and blocks of a leaving sequence, unless a launched row still
// needs them. A preempted one queues up again.
func (s *Scheduler) release(q *Seq) {
	if q.table == nil || q.rows > 0 || (q.state != leaving && q.state != ended) {
		return
	}
	s.kv.Close(q.table)
	q.table = nil
	s.running[q.slot] = nil
	s.slots = append(s.slots, q.slot)
	s.leaving--
	q.tenant.residents--
	if q.state == leaving {
		q.state = waiting
		q.tenant.waiting = insert(q.tenant.waiting, q)
	}
}

// Stats returns a snapshot.
func (s *Scheduler) Stats() Stats {
	st := s.stats
	st.Running = len(s.running) - len(s.slots)
	for _, t := range s.tenants {
		st.Waiting += len(t.waiting)
	}
	s.groups = s.kv.Groups(s.groups[:0])
	st.WaitingTokens, st.KV, st.Groups = s.queuedTokens, s.kv.Stats(), s.groups
	return st
}
