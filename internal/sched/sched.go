// Package sched decides, step by step, which tokens of which sequences run. Its
// users hand in sequences and get tokens; they need not know about blocks, chunks,
// preemption or who waits for whom.
//
// There is no prefill phase and no decode phase. A sequence knows its tokens and
// those that are being sampled; a step computes some that are not launched yet, and
// samples when it reaches the end. Chunked prompts, decoding, cached prefixes,
// computing again after preemption and overlapping steps are cases of this rule.
//
// The states of a sequence:
//
//	waiting → running → ended
//	running → leaving → waiting    preempted; leaving until its launched rows are committed
//
// From every state Abort and deadlines end it. One that is running, leaving, or ended
// with launched rows holds a slot and a table of blocks: it is resident. A lower number
// of priority goes first, everywhere.
//
// What happens in a step, in this order:
//
//	Plan    1  reserved sequence, and tenants without a resident one: admitAhead (admit.go),
//	           which may preempt a sequence of another tenant: displace (preempt.go)
//	        2  one token for each resident that has just one to compute: those that speak
//	        3  prompts in chunks, of the tenant served least (next, queue.go), until the step
//	           is full; a waiting sequence is admitted when it is its turn
//	           in 2 and 3 whoever finds no block preempts: room (plan.go), victim (preempt.go)
//	           in a step without prompts those of 2 may have guesses: guess (guess.go); rows may
//	           ask for guesses of the runner: wish (ahead.go)
//	the runner executes the batch; up to Depth of them are in flight
//	Commit  4  for each row: sampled ids appended and judged, blocks offered to others, slot
//	           and blocks taken from one that is leaving or ended
//	        5  deadlines
package sched

import (
	"fmt"
	"iter"
	"slices"
	"time"

	"ossian/internal/draft"
	"ossian/internal/kv"
	"ossian/internal/runner"
	"ossian/internal/sample"
)

// A Scheduler is a state machine: it plans batches, and moves its sequences
// forward when their results are committed. It is used by one goroutine, takes no
// locks, starts nothing and reads no clock.
//
// While it is not Idle and no batch is in flight, Plan returns a batch.
// What holds between calls is written out in Check.
type Scheduler struct {
	cfg         Config
	info        runner.Info
	capacity    int // Capacity
	promptLimit int // LimitPrompts
	kv          *kv.Manager
	guesser     *guesser

	seqs      map[uint64]*Seq // by ID; all that have not ended
	tenants   []*tenant
	residents []*Seq // [slot]; nil = free
	freeSlots []int  // the next one last
	leaving   int    // residents that are leaving or ended: not planned any more, waiting for launched rows
	reserved  *Seq   // waiting; slot and blocks are kept for it, nobody else is admitted before it; nil = none

	// Of the step that is planned.
	now     time.Time
	failed  int // sequences that could not be admitted
	budget  int // tokens that it may have
	counted int // its tokens that are not of probes

	steps     []step // ring: step n is steps[n%Depth]
	planned   uint64 // steps so far; those from committed on are in flight
	committed uint64

	arrivals     uint64
	queued       int       // sequences that never had a slot
	queuedTokens int       // theirs
	nextDue      time.Time // no deadline passes before; zero = there is none
	outputs      []Output  // of the last Commit
	stats        Stats     // counters only
	groups       []kv.Group
}

// A step is a planned batch and the memory it uses.
type step struct {
	batch     runner.Batch
	seqs      []*Seq             // [row]
	tables    [][]runner.BlockID // [row·groups]: tables grow, what a batch covers does not
	proposals []draft.Proposal   // [row]: where its guesses are from, if it has any
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
	s := &Scheduler{cfg: cfg, info: info, capacity: info.MaxLen, seqs: make(map[uint64]*Seq), guesser: newGuesser(cfg.Guesses, &info)}
	// A pool limits the length of a sequence unless all that its window needs fits.
	for _, group := range info.Groups {
		// So many blocks are touched by a window behind the last full block, the tokens
		// since then and one more.
		if least := (group.Window+2*info.BlockSize-3)/info.BlockSize + 1; group.Window == 0 || group.Blocks < least {
			s.capacity = min(s.capacity, group.Blocks*info.BlockSize)
		}
	}
	if err := s.share(); err != nil {
		return nil, err
	}
	if s.capacity < 2 {
		return nil, fmt.Errorf("sched: runner %s: pools %v of blocks of %d tokens, sequences of %d: not even two tokens fit",
			info.Name, info.Groups, info.BlockSize, info.MaxLen)
	}
	s.kv = kv.New(info.BlockSize, info.Groups, !cfg.NoPrefixCache)
	s.kv.Share(cfg.SharedBlocks)
	s.kv.Observe(cfg.Observer)
	// One token per step for each: whoever is resident is never left out.
	rows := min(info.MaxSeqs, info.MaxTokens)
	s.residents = make([]*Seq, rows)
	for i := range rows {
		s.freeSlots = append(s.freeSlots, rows-1-i)
	}
	for range info.Depth {
		s.steps = append(s.steps, step{
			batch:  runner.Batch{Tokens: make([]int32, 0, info.MaxTokens), Rows: make([]runner.Row, 0, rows)},
			seqs:   make([]*Seq, 0, rows),
			tables: make([][]runner.BlockID, rows*len(info.Groups)), proposals: make([]draft.Proposal, rows)})
	}
	return s, nil
}

// share limits the length of a sequence to what a memory that the groups share holds of it: the
// windows' parts, and whole sequences in the groups without one.
func (s *Scheduler) share() error {
	total, whole := s.cfg.SharedBlocks, 0
	if total == 0 {
		return nil
	}
	for _, group := range s.info.Groups {
		if group.Blocks != total {
			return fmt.Errorf("sched: %d shared blocks, a group has %d: expected as many", s.cfg.SharedBlocks, group.Blocks)
		}
	}
	left := total
	for _, group := range s.info.Groups {
		if group.Window == 0 {
			whole++
		} else {
			left -= (group.Window+2*s.info.BlockSize-3)/s.info.BlockSize + 1
		}
	}
	switch {
	case left <= 0:
		s.capacity = 0
	case whole > 0:
		s.capacity = min(s.capacity, left/whole*s.info.BlockSize)
	}
	return nil
}

// LimitPrompts makes steps in which some sequences get their one token have n tokens
// of prompts at most, so that these do not keep those waiting; 0 = what the step has
// room for.
func (s *Scheduler) LimitPrompts(n int) { s.promptLimit = n }

// Unanswered returns how many sequences have neither a token nor a row that brings their first one.
func (s *Scheduler) Unanswered() int {
	n := s.queued
	for _, seq := range s.residents {
		if seq != nil && seq.state == running && len(seq.Tokens)+seq.pending == seq.Prompt {
			n++
		}
	}
	return n
}

// Capacity returns how many tokens, prompt and output, a sequence can have.
func (s *Scheduler) Capacity() int { return s.capacity }

// Add puts seq into the queue. Errors to test for: ErrQueueFull, ErrNeverFits.
func (s *Scheduler) Add(seq *Seq) error {
	n := len(seq.Tokens)
	if n == 0 || seq.MaxTokens < 1 || seq.Params == nil {
		return fmt.Errorf("sched: sequence %d: prompt of %d tokens, output of %d, parameters %v: each must be there", seq.ID, n, seq.MaxTokens, seq.Params)
	}
	if i := slices.IndexFunc(seq.Tokens, func(id int32) bool { return id < 0 || int(id) >= s.info.Vocab }); i >= 0 {
		return fmt.Errorf("sched: sequence %d: prompt token %d has id %d, vocabulary has %d", seq.ID, i, seq.Tokens[i], s.info.Vocab)
	}
	if s.seqs[seq.ID] != nil || seq.tenant != nil {
		return fmt.Errorf("sched: sequence %d was added before", seq.ID)
	}
	if n >= s.capacity || seq.MaxTokens > s.capacity-n {
		return fmt.Errorf("sched: %w: prompt of %d tokens, output of %d, room for %d", ErrNeverFits, n, seq.MaxTokens, s.capacity)
	}
	if s.queued >= s.cfg.MaxQueue {
		return fmt.Errorf("sched: %w: %d sequences wait", ErrQueueFull, s.queued)
	}
	if s.cfg.MaxQueueTokens > 0 && s.queued > 0 && s.queuedTokens+n > s.cfg.MaxQueueTokens {
		return fmt.Errorf("sched: %w: %d tokens wait, at most %d may", ErrQueueFull, s.queuedTokens, s.cfg.MaxQueueTokens)
	}
	// Accepted, but for a constraint that fails at once. The copy has room for some output.
	seq.Prompt = n
	seq.Tokens = append(make([]int32, 0, n+min(seq.MaxTokens, 512)), seq.Tokens...)
	if err := seq.restrict(s.info.Vocab); err != nil {
		return fmt.Errorf("sched: sequence %d: %w", seq.ID, err)
	}
	s.arrivals++
	seq.arrival, seq.tenant = s.arrivals, s.tenantOf(seq.Tenant)
	seq.tenant.live++
	seq.tenant.waiting = insert(seq.tenant.waiting, seq)
	s.seqs[seq.ID] = seq
	s.queued++
	s.queuedTokens += n
	if d := seq.due(); !d.IsZero() && (s.nextDue.IsZero() || d.Before(s.nextDue)) {
		s.nextDue = d
	}
	return nil
}

// Abort ends a sequence; no Output of it follows. It reports whether there was one
// with that id. Its blocks are free once its launched rows are committed.
func (s *Scheduler) Abort(id uint64) bool {
	seq := s.seqs[id]
	if seq == nil {
		return false
	}
	s.end(seq)
	s.release(seq)
	return true
}

// Prefixes is kv.Manager.Prefixes.
func (s *Scheduler) Prefixes(tell func(serial, parent, salt uint64, tokens []int32)) {
	s.kv.Prefixes(tell)
}

// ForgetPrefixes empties the prefix cache of what no sequence uses, and returns how many
// blocks that was. Sequences go on as they are.
func (s *Scheduler) ForgetPrefixes() int { return s.kv.Forget() }

// Idle reports whether there is neither a sequence nor a batch in flight.
func (s *Scheduler) Idle() bool { return len(s.seqs) == 0 && s.planned == s.committed }

// Commit records the result of the oldest batch in flight and ends sequences whose
// time is over. What it returns is valid until the next call. It panics when batch is
// not that batch, or result not of its shape.
func (s *Scheduler) Commit(batch *runner.Batch, result *runner.Result, now time.Time) []Output {
	step := &s.steps[s.committed%uint64(len(s.steps))]
	if s.committed == s.planned || batch != &step.batch || len(result.Tokens) != len(batch.Rows) {
		panic(fmt.Sprintf("sched: commit of %d rows with %d results is not of step %d of %d", len(batch.Rows), len(result.Tokens), s.committed+1, s.planned))
	}
	s.committed++
	s.outputs = s.outputs[:0]
	s.judgeAhead(batch, result)
	// Rows of sequences that have ended are counted down too: release waits for the last.
	for i, seq := range step.seqs {
		row := &batch.Rows[i]
		seq.inFlight--
		seq.committed += row.Len - row.Guessed
		if row.Sample {
			seq.pending--
			seq.takeGuesses(result, i)
		}
		if row.Guessed > 0 {
			s.judgeGuesses(seq, row, step.proposals[i], len(result.Tokens[i]))
		}
		if len(row.Targets) > 0 && seq.state != ended {
			seq.score(row.Start, result.Scores[i])
		}
		switch {
		case seq.state == ended:
			s.stats.Dropped++
		case row.Sample && result.Logprobs != nil:
			s.accept(seq, result.Tokens[i], result.Logprobs[i])
		case row.Sample:
			s.accept(seq, result.Tokens[i], nil)
		}
		// An id that came after the end was computed, but is not a token of seq.
		s.kv.Publish(seq.table, seq.Tokens, min(seq.committed, len(seq.Tokens)))
		s.release(seq)
	}
	s.expire(now)
	return s.outputs
}

// accept appends sampled ids to seq up to its first reason to end.
func (s *Scheduler) accept(seq *Seq, ids []int32, logprobs []sample.Logprob) {
	perID := len(logprobs) / max(len(ids), 1)
	for i, id := range ids {
		output := Output{ID: seq.ID, Token: id}
		if len(seq.Tokens) == seq.Prompt {
			output.Scores, seq.scores = seq.scores, nil
		}
		seq.Tokens = append(seq.Tokens, id)
		if i > 0 { // the runner has computed the id before to find this one
			seq.launched++
			seq.committed++
			seq.mostLaunched = max(seq.mostLaunched, seq.launched)
		}
		if perID > 0 {
			output.Logprobs = logprobs[i*perID : (i+1)*perID]
		}
		output.Finish, output.Err = seq.judge(id, s.info.Vocab, i+1 < len(ids))
		s.outputs = append(s.outputs, output)
		if output.Finish != FinishNone {
			s.end(seq)
			return
		}
	}
}

// expire ends the sequences whose time is over, and finds when to look again.
func (s *Scheduler) expire(now time.Time) {
	if s.nextDue.IsZero() || now.Before(s.nextDue) {
		return
	}
	s.nextDue = time.Time{}
	for _, seq := range s.residents {
		if seq != nil && seq.state != ended {
			s.expireOne(seq, now)
		}
	}
	for _, t := range s.tenants {
		for i := len(t.waiting) - 1; i >= 0; i-- { // downwards: ending removes
			s.expireOne(t.waiting[i], now)
		}
	}
}

// expireOne ends seq if its time is over; otherwise nextDue is not later than its end.
func (s *Scheduler) expireOne(seq *Seq, now time.Time) {
	due := seq.due()
	switch {
	case due.IsZero():
	case !now.Before(due):
		s.outputs = append(s.outputs, Output{ID: seq.ID, Token: NoToken, Finish: FinishDeadline})
		s.end(seq)
		s.release(seq)
	case s.nextDue.IsZero() || due.Before(s.nextDue):
		s.nextDue = due
	}
}

// end takes seq out of everything but its slot.
func (s *Scheduler) end(seq *Seq) {
	switch seq.state {
	case waiting:
		s.dequeue(seq)
	case running:
		s.leaving++
	}
	s.keepOutput(seq)
	seq.state = ended
	seq.tenant.live--
	delete(s.seqs, seq.ID)
}

// dequeue takes seq out of the queue of its tenant.
func (s *Scheduler) dequeue(seq *Seq) {
	t := seq.tenant
	i := slices.Index(t.waiting, seq)
	t.waiting = slices.Delete(t.waiting, i, i+1)
	if seq.Started.IsZero() {
		s.queued--
		s.queuedTokens -= seq.Prompt
	}
	if s.reserved == seq {
		s.reserved = nil
	}
}

// countHits counts what seq, which gets its first row, has found in the prefix cache.
// Since it was admitted first it may have been preempted and have found something else.
func (s *Scheduler) countHits(seq *Seq) {
	seq.Cached = seq.launched
	if !s.cfg.NoPrefixCache && !seq.unscored() && !seq.Probe {
		s.stats.CacheQueries += uint64(seq.Prompt)
		s.stats.CacheHits += uint64(seq.Cached)
	}
}

// release takes slot and blocks of a leaving sequence, unless a launched row still
// needs them. A preempted one queues up again.
func (s *Scheduler) release(seq *Seq) {
	if seq.table == nil || seq.inFlight > 0 || (seq.state != leaving && seq.state != ended) {
		return
	}
	s.kv.Close(seq.table)
	seq.table = nil
	s.residents[seq.slot] = nil
	s.freeSlots = append(s.freeSlots, seq.slot)
	s.leaving--
	seq.tenant.slots--
	if seq.state == leaving {
		seq.state = waiting
		seq.tenant.waiting = insert(seq.tenant.waiting, seq)
	}
}

// countRow counts a row of the step that is planned, unless it is a probe's.
func (s *Scheduler) countRow(seq *Seq, row *runner.Row) {
	if seq.Probe {
		return
	}
	s.counted += row.Len
	s.stats.Rows++
	if row.Sample {
		s.stats.Sampled++
	}
}

// Counted returns how many tokens of the batch that Plan returned last are not of probes.
func (s *Scheduler) Counted() int { return s.counted }

// Residents gives the sequences that hold a slot, those that have ended apart. None may be added
// or aborted meanwhile.
func (s *Scheduler) Residents() iter.Seq[*Seq] {
	return func(yield func(*Seq) bool) {
		for _, seq := range s.residents {
			if seq != nil && seq.state != ended && !yield(seq) {
				return
			}
		}
	}
}

// Stats returns a snapshot.
func (s *Scheduler) Stats() Stats {
	stats := s.stats
	stats.Running = len(s.residents) - len(s.freeSlots)
	for _, t := range s.tenants {
		stats.Waiting += len(t.waiting)
	}
	s.groups = s.kv.Groups(s.groups[:0])
	stats.WaitingTokens, stats.KV, stats.Groups = s.queuedTokens, s.kv.Stats(), s.groups
	return stats
}

// Held returns the largest share of a pool that sequences hold.
func (s *Scheduler) Held() float64 {
	if stats := s.kv.Stats(); stats.Blocks > 0 {
		return float64(stats.Held) / float64(stats.Blocks)
	}
	return 0
}
