package sched

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"ossian/internal/draft"
	"ossian/internal/runner"
	"ossian/internal/sample"
)

// A request describes a sequence; it makes as many as needed.
type request struct {
	tenant            uint32
	priority          int
	salt              uint64
	prompt            []int32
	output, atLeast   int
	stops             []int32
	params            sample.Params
	rhymes, even      bool // constrained; only even ids allowed
	deadline, startBy time.Time
}

func (r *request) seq(id uint64, vocab int) *Seq {
	q := &Seq{ID: id, Tenant: r.tenant, Priority: r.priority, Salt: r.salt, Tokens: r.prompt, MaxTokens: r.output, MinTokens: r.atLeast,
		Stops: r.stops, Params: &r.params, Deadline: r.deadline, StartBy: r.startBy}
	if r.rhymes {
		q.Constraint = &rhyme{vocab: vocab}
	}
	if r.even {
		q.Allowed = slices.Repeat([]uint64{0x5555555555555555}, (vocab+63)/64)
	}
	return q
}

// A rhyme allows a third of the ids, by the last one, and breaks on one id.
type rhyme struct {
	vocab int
	last  int32
}

const breaksRhyme = 9

func rhymes(last, id int32) bool { return (id+last)%3 == 0 }

func (c *rhyme) Mask(dst []uint64) error {
	clear(dst)
	for id := range int32(c.vocab) {
		if rhymes(c.last, id) {
			dst[id/64] |= 1 << (id % 64)
		}
	}
	return nil
}

func (c *rhyme) Accept(id int32) error {
	if !rhymes(c.last, id) {
		return fmt.Errorf("%d after %d was masked", id, c.last)
	}
	c.last = id
	if id == breaksRhyme {
		return errors.New("broken rhyme")
	}
	return nil
}

// Ahead is by the definition, with a copy.
func (c *rhyme) Ahead(guesses []int32, masks [][]uint64) int {
	ahead := *c
	for i, id := range guesses {
		if ahead.Accept(id) != nil {
			return i
		}
		ahead.Mask(masks[i])
	}
	return len(guesses)
}

// reference is what a request gets alone, without blocks, chunks, batches or masks.
func (r *request) reference(info runner.Info) (out []int32, finish Finish, scores []sample.Score) {
	cells := make([][]uint64, len(info.Groups))
	tokens, last := slices.Clone(r.prompt), int32(0)
	for p := 0; ; p++ {
		h := forward(info.Groups, p, tokens[p], func(g, p int) uint64 { return cells[g][p] })
		for g := range cells {
			cells[g] = append(cells[g], h)
		}
		if p < len(tokens)-1 {
			if r.params.PromptLogprobs {
				scores = append(scores, score(h, tokens[p+1], r.params.TopPromptLogprobs))
			}
			continue
		}
		mask := r.mask(info.Vocab, last, len(out) < r.atLeast)
		if r.rhymes && slices.Max(mask) == 0 { // nothing but stop ids rhymes
			mask = r.mask(info.Vocab, last, false)
		}
		id := pick(h, info.Vocab, uint64(len(out)), &r.params, mask)
		out, tokens, last = append(out, id), append(tokens, id), id
		switch {
		case slices.Contains(r.stops, id): // masked where it may not come
			return out, FinishStop, scores
		case r.rhymes && id == breaksRhyme:
			return out, FinishError, scores
		case len(out) == r.output:
			return out, FinishLength, scores
		}
	}
}

// mask returns the ids that may follow last.
func (r *request) mask(vocab int, last int32, early bool) []uint64 {
	mask := make([]uint64, (vocab+63)/64)
	for id := range int32(vocab) {
		if (!r.rhymes || rhymes(last, id)) && (!r.even || id%2 == 0) && !(early && slices.Contains(r.stops, id)) {
			mask[id/64] |= 1 << (id % 64)
		}
	}
	return mask
}

// A trace is what came back for a request.
type trace struct {
	req     *request
	q       *Seq
	ids     []int32
	scores  []sample.Score
	finish  Finish
	aborted bool
	step    int     // of the first token
	reached int     // tokens launched so far
	alone   []int32 // what it gets alone, once somebody has asked
}

// A world drives a scheduler and a fake runner as the engine does, and checks
// everything after every call.
type world struct {
	t      *testing.T
	info   runner.Info
	s      *Scheduler
	f      *fake
	flight []*runner.Batch
	given  []string // what the batches in flight said when they were launched
	now    time.Time
	steps  int // committed
	again  int // tokens launched once more
	traces []*trace
}

func newWorld(t *testing.T, cfg Config, info runner.Info) *world {
	t.Helper()
	s, err := New(cfg, info)
	if err != nil {
		t.Fatal(err)
	}
	return &world{t: t, info: info, s: s, f: newFake(info), now: time.Unix(1000, 0)}
}

// guessAnything makes the scheduler guess what is right for a while, and then anything.
func (w *world) guessAnything(chance choose) {
	w.guess(func(right []int32, most int) []int32 {
		count, good := most+1, chance(most+1) // one more than is asked for
		if chance(3) == 0 {
			count = chance(most + 2)
		}
		var ids []int32
		for place := range count {
			if place < min(good, len(right)) {
				ids = append(ids, right[place])
				continue
			}
			ids = append(ids, int32(chance(w.info.Vocab+2)-1)) // of the vocabulary or beside it
		}
		return ids
	}, chance)
}

// guess makes the scheduler guess what propose makes of the ids that will come.
func (w *world) guess(propose func(right []int32, most int) []int32, chance choose) {
	w.s.guesser.propose = func(seq *Seq, dst []int32, most int) ([]int32, draft.Proposal) {
		tr := w.traces[seq.ID]
		if tr.alone == nil {
			tr.alone, _, _ = tr.req.reference(w.info)
		}
		right := tr.alone[min(len(seq.Tokens)-seq.Prompt, len(tr.alone)):]
		return append(dst, propose(right, most)...), draft.Proposal{Source: draft.Source(chance(2)), Match: 1 + chance(20)}
	}
}

func (w *world) check(doing string) {
	w.t.Helper()
	if err := w.s.Check(); err != nil {
		w.t.Fatalf("after %s at step %d: %v", doing, w.steps, err)
	}
}

// add gives the request the next id, from 0.
func (w *world) add(r *request) error {
	w.t.Helper()
	q := r.seq(uint64(len(w.traces)), w.info.Vocab)
	err := w.s.Add(q)
	if err == nil {
		w.traces = append(w.traces, &trace{req: r, q: q})
	}
	w.check("Add")
	return err
}

func (w *world) abort(id int) {
	w.t.Helper()
	tr := w.traces[id]
	if known := w.s.Abort(uint64(id)); known == (tr.aborted || tr.finish != FinishNone) {
		w.t.Fatalf("Abort(%d) = %v, but it has finish %v, aborted %v", id, known, tr.finish, tr.aborted)
	} else if known {
		tr.aborted = true
	}
	w.check("Abort")
}

// forget empties the prefix cache of what nobody uses, and returns how many blocks that was.
func (w *world) forget() int {
	w.t.Helper()
	dropped := w.s.ForgetPrefixes()
	w.check("ForgetPrefixes")
	for g, use := range w.s.Stats().Groups {
		if use.Cached != 0 {
			w.t.Fatalf("group %d at step %d: %+v after all was forgotten", g, w.steps, use)
		}
	}
	return dropped
}

// launch plans and launches one step and returns it, nil if there is none.
func (w *world) launch() *runner.Batch {
	w.t.Helper()
	b := w.s.Plan(w.now)
	w.check("Plan")
	if b == nil {
		if len(w.flight) == 0 && !w.s.Idle() {
			w.t.Fatalf("nothing to run, but not idle: %+v", w.s.Stats())
		}
		return nil
	}
	if err := w.f.Launch(b); err != nil {
		w.t.Fatalf("step %d: %v", w.steps+len(w.flight), err)
	}
	w.flight, w.given = append(w.flight, b), append(w.given, fmt.Sprint(*b))
	for i, q := range w.s.steps[(w.s.planned-1)%uint64(len(w.s.steps))].seqs {
		r, tr := &b.Rows[i], w.traces[q.ID]
		if most := w.s.cfg.ChunkLimit; most > 0 && r.Len-r.Guessed > most {
			w.t.Fatalf("sequence %d has %d tokens in a step, at most %d may be", q.ID, r.Len, most)
		}
		end := r.Start + r.Len - r.Guessed
		w.again += max(min(end, tr.reached)-r.Start, 0)
		tr.reached = max(tr.reached, end)
	}
	return b
}

// commit finishes the oldest step.
func (w *world) commit() []Output {
	w.t.Helper()
	res, err := w.f.Collect()
	if err != nil {
		w.t.Fatal(err)
	}
	b := w.flight[0]
	if now := fmt.Sprint(*b); now != w.given[0] {
		w.t.Fatalf("batch changed in flight: launched %s, now %s", w.given[0], now)
	}
	w.flight, w.given = w.flight[1:], w.given[1:]
	w.steps++
	for i, q := range w.s.steps[w.s.committed%uint64(len(w.s.steps))].seqs {
		if r, tr := &b.Rows[i], w.traces[q.ID]; r.Guessed > 0 { // those that held are computed
			tr.reached = max(tr.reached, r.Start+r.Len-r.Guessed+len(res.Tokens[i])-1)
		}
	}
	out := w.s.Commit(b, res, w.now)
	for _, row := range res.Scores { // it is the runner's again
		for _, s := range row {
			clear(s.Logprobs)
		}
		clear(row)
	}
	for i := range out {
		w.record(&out[i])
	}
	w.check("Commit")
	for i := range b.Tokens { // it is the planner's again
		b.Tokens[i] = -7
	}
	return out
}

func (w *world) record(o *Output) {
	w.t.Helper()
	tr := w.traces[o.ID]
	if tr.aborted || tr.finish != FinishNone {
		w.t.Fatalf("output %+v after the end: finish %v, aborted %v", o, tr.finish, tr.aborted)
	}
	tr.finish = o.Finish
	if (o.Err != nil) != (o.Finish == FinishError) {
		w.t.Fatalf("output %+v", o)
	}
	if o.Token == NoToken {
		if o.Finish != FinishDeadline {
			w.t.Fatalf("output %+v without token", o)
		}
		return
	}
	if len(tr.ids) == 0 {
		tr.step = w.steps
	}
	if len(tr.ids) == 0 {
		tr.scores = o.Scores
	} else if o.Scores != nil {
		w.t.Fatalf("output %+v: scores with token %d", o, len(tr.ids))
	}
	tr.ids = append(tr.ids, o.Token)
	want := 0
	if p := tr.req.params; p.Logprobs {
		want = 1 + p.TopLogprobs
	}
	if len(o.Logprobs) != want || (want > 0 && o.Logprobs[0].ID != o.Token) {
		w.t.Fatalf("output %+v: want %d log probabilities", o, want)
	}
}

// step keeps the runner as busy as it can be and finishes one step. It reports
// whether there was one.
func (w *world) step() bool {
	w.t.Helper()
	for len(w.flight) < w.info.Depth && w.launch() != nil {
	}
	if len(w.flight) == 0 {
		return false
	}
	w.commit()
	return true
}

// finish runs until nothing is left and compares everybody with the reference.
func (w *world) finish() {
	w.t.Helper()
	for limit := w.steps + 20000; w.step(); {
		if w.steps > limit {
			w.t.Fatalf("no end: %+v", w.s.Stats())
		}
	}
	if !w.s.Idle() {
		w.t.Fatalf("not idle at the end: %+v", w.s.Stats())
	}
	if st := w.s.Stats(); st.KV.Held != 0 || st.Running != 0 || st.Waiting != 0 || st.WaitingTokens != 0 {
		w.t.Fatalf("left behind: %+v", st)
	} else if st.Recomputed != uint64(w.again) {
		w.t.Fatalf("%d tokens were computed again, counted %d", w.again, st.Recomputed)
	}
	for id, tr := range w.traces {
		w.compare(id, tr)
	}
}

func (w *world) compare(id int, tr *trace) {
	w.t.Helper()
	ids, finish, scores := tr.req.reference(w.info)
	if len(tr.ids) == 0 {
		scores = nil
	}
	if !slices.EqualFunc(tr.scores, scores, func(a, b sample.Score) bool { return a.Rank == b.Rank && slices.Equal(a.Logprobs, b.Logprobs) }) {
		w.t.Fatalf("sequence %d (%+v): scores %v, alone %v", id, tr.req, tr.scores, scores)
	}
	if tr.aborted || tr.finish == FinishDeadline {
		ids, finish = ids[:min(len(tr.ids), len(ids))], tr.finish
	}
	if tr.finish != finish || !slices.Equal(tr.ids, ids) {
		w.t.Fatalf("sequence %d (%+v): got %v %v, alone %v %v", id, tr.req, tr.ids, tr.finish, ids, finish)
	}
	if tr.finish == FinishNone && !tr.aborted {
		w.t.Fatalf("sequence %d has no end", id)
	}
	if !slices.Equal(tr.q.Tokens[:tr.q.Prompt], tr.req.prompt) || tr.q.Cached >= tr.q.Prompt || tr.q.Cached%w.info.BlockSize != 0 {
		w.t.Fatalf("sequence %d: prompt of %d tokens, %d of them cached", id, tr.q.Prompt, tr.q.Cached)
	}
}
