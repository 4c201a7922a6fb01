package sched

import (
	"runtime/debug"
	"slices"
	"time"

	"ossian/internal/draft"
	"ossian/internal/runner"
)

// Rows of sequences that speak may carry guesses of what comes next, so that one step gives several
// tokens. Guesses change no output: the runner draws behind each of them as it would without, and
// gives ids up to the first that is not the guess. So whether there are any, and how many, may
// depend on anything. They are added when a step is planned, where it has no prompts:
//
//	1  draft: each sequence offers what followed earlier ids that end alike, in its own tokens or in
//	   outputs of finished sequences that it may see; or what the runner has guessed (ahead.go)
//	2  choose: how many of all these pay
//	3  trim: to what its constraint allows, and makes masks of, and to what there are blocks for;
//	   nobody is preempted for a guess
//	4  give: they become part of the batch
//
// Until it is committed, such a sequence gets no other row: where its next token lies is not known.
// Where steps are planned ahead, one whose text looks as if it went on with guesses that pay waits for
// the id in flight, as guesses are of what comes behind a token that is known.

// Guesses are what a scheduler guesses with. Store and Chooser outlive it.
type Guesses struct {
	Settings *draft.Settings
	Store    *draft.Store // nil = none
	Chooser  *draft.Chooser
}

// guessSources is how many values draft.Source has.
const guessSources = int(draft.FromModel) + 1

// GuessStats counts guesses by draft.Source. What was guessed and neither accepted nor behind one
// that was refused was refused.
type GuessStats struct {
	Rows       uint64 // rows with guesses
	Guessed    [guessSources]uint64
	Accepted   [guessSources]uint64
	Unchecked  [guessSources]uint64     // behind one that was refused
	AcceptedAt [draft.MostTokens]uint64 // accepted by place, 0 = the first guess
}

// Add adds the counts of another scheduler.
func (g *GuessStats) Add(other *GuessStats) {
	g.Rows += other.Rows
	for source := range g.Guessed {
		g.Guessed[source] += other.Guessed[source]
		g.Accepted[source] += other.Accepted[source]
		g.Unchecked[source] += other.Unchecked[source]
	}
	for place := range g.AcceptedAt {
		g.AcceptedAt[place] += other.AcceptedAt[place]
	}
}

// A guesser adds guesses to steps. Its slices are of the step that is planned.
type guesser struct {
	*Guesses
	most      int // guesses of a row; 0 = none
	ahead     int // of these, that the runner itself makes; 0 = it makes none
	vocab     int
	rows      []int // [proposal] its row in the batch
	proposals []draft.Proposal
	ids       [][]int32 // [proposal] room for most ids
	counts    []int     // [proposal] how many of them are taken
	other     []int32   // scratch: what another source offers
	fault     *GuessFault
	behind    []int32 // scratch: what may follow an id in flight
	prompts   bool    // the step that is planned has some, as far as is known
	asked     uint64  // scheduler.planned + 1 when that was found out; 0 = never

	// propose appends to dst at most so many ids that may come behind seq: look or offer, but in tests.
	propose func(seq *Seq, dst []int32, most int) ([]int32, draft.Proposal)
}

// A GuessFault says why nothing is guessed any more.
type GuessFault = runner.GuessFault

// newGuesser returns what guesses for a runner with that Info.
func newGuesser(guesses *Guesses, info *runner.Info) *guesser {
	g := &guesser{Guesses: guesses, vocab: info.Vocab}
	g.propose = g.look
	if guesses == nil || guesses.Settings == nil {
		return g
	}
	most := min(guesses.Settings.Tokens, info.Lookahead, info.MaxTokens-1)
	switch {
	case guesses.Settings.Lookup():
		g.most = most
	case info.Ahead > 0:
		g.most, g.ahead, g.propose = most, info.Ahead, g.offer
	}
	return g
}

// GuessFault returns why nothing is guessed any more, once; nil = it is as before.
func (s *Scheduler) GuessFault() *GuessFault {
	fault := s.guesser.fault
	s.guesser.fault = nil
	return fault
}

// protect runs what a guess is made with. A panic of it ends guessing, and nothing else.
func (g *guesser) protect(what func()) {
	defer func() {
		if value := recover(); value != nil {
			g.most, g.fault = 0, &GuessFault{Value: value, Stack: debug.Stack()}
			clear(g.counts)
		}
	}()
	what()
}

// guess gives rows of a step without prompts guesses.
func (s *Scheduler) guess(step *step) {
	g := s.guesser
	if g.most == 0 || len(step.seqs) == 0 || len(step.batch.Tokens) > len(step.seqs) {
		return
	}
	g.protect(func() { g.choose(step, s.info.MaxTokens-len(step.batch.Tokens)) })
	extra := 0
	for i, row := range g.rows {
		g.counts[i] = s.guessRoom(step.seqs[row], g.counts[i], len(step.seqs))
		extra += g.counts[i]
	}
	if extra > 0 {
		s.give(step, extra)
	}
}

// waitBeside is how many ids a step has to promise a sequence for it to wait while others go on: it
// then has a row in every second step alone.
const waitBeside = 2

// awaits reports whether seq, which has an id in flight, waits for it: what may come behind its known
// tokens goes on for so long that guesses would pay, and there are no prompts, which leave no room.
func (s *Scheduler) awaits(seq *Seq) (yes bool) {
	g := s.guesser
	if g.most == 0 || g.ahead > 0 {
		return false
	}
	if g.asked != s.planned+1 {
		g.asked, g.prompts = s.planned+1, s.promptsWait()
	}
	most := min(g.most, seq.MaxTokens-(len(seq.Tokens)-seq.Prompt)-1) // the id in flight, and those that may be guessed behind it
	if g.prompts || most < 2 {
		return false
	}
	g.protect(func() {
		var proposal draft.Proposal
		g.behind, proposal = g.propose(seq, g.behind[:0], most)
		var count [1]int
		rows := len(s.residents) - len(s.freeSlots)
		proposal.Len = max(len(g.behind)-1, 0)
		g.Chooser.Choose(count[:], rows, []draft.Proposal{proposal})
		yes = count[0] > 0 && (rows == 1 || g.Chooser.Expected(proposal, count[0]) >= waitBeside)
	})
	return yes
}

// choose fills rows, proposals, ids and counts, with room more tokens in the step.
func (g *guesser) choose(step *step, room int) {
	g.rows, g.proposals, g.counts = g.rows[:0], g.proposals[:0], g.counts[:0]
	for i, seq := range step.seqs {
		row := &step.batch.Rows[i]
		most := min(g.most, seq.MaxTokens-int(row.OutputIndex)-1)
		// One whose last token is known, and the next one all that it waits for.
		if seq.state == running && seq.pending == 1 && row.Sample && row.Targets == nil && most > 0 {
			g.draft(i, seq, most)
		}
	}
	if len(g.rows) == 0 {
		return
	}
	g.Chooser.Choose(g.counts, len(step.seqs), g.proposals)
	for i, row := range g.rows {
		seq := step.seqs[row]
		g.counts[i] = min(g.counts[i], room)
		if seq.Constraint != nil {
			g.counts[i] = seq.ahead(g.ids[i][:g.counts[i]], g.vocab)
		}
		room -= g.counts[i]
	}
}

// draft adds what is proposed for seq, in that row: ids up to one that may never come.
func (g *guesser) draft(row int, seq *Seq, most int) {
	number := len(g.rows)
	if number == len(g.ids) {
		g.ids = append(g.ids, nil)
	}
	ids, proposal := g.propose(seq, g.ids[number][:0], most)
	g.ids[number], proposal.Len = ids, 0
	for _, id := range ids[:min(len(ids), most)] {
		if id < 0 || int(id) >= g.vocab || slices.Contains(seq.Stops, id) || (seq.Allowed != nil && !allows(seq.Allowed, id)) {
			break
		}
		proposal.Len++
	}
	if proposal.Len > 0 {
		g.rows, g.proposals, g.counts = append(g.rows, row), append(g.proposals, proposal), append(g.counts, 0)
	}
}

// look finds what followed where seq or the output of another has ids like its last ones: the place
// with more of them.
func (g *guesser) look(seq *Seq, dst []int32, most int) ([]int32, draft.Proposal) {
	if seq.index == nil {
		seq.index = g.Settings.NewIndex()
		seq.index.Add(seq.Prediction...)
	}
	seq.index.Add(seq.Tokens[seq.index.Len()-len(seq.Prediction):]...)
	ids, match := seq.index.Draft(dst, most)
	if g.Store != nil {
		other, otherMatch := g.Store.Draft(seq.kin(), seq.Tokens, g.other[:0], most)
		if g.other = other; otherMatch > match {
			return append(ids[:0], other...), draft.Proposal{Source: draft.FromStore, Match: otherMatch}
		}
	}
	return ids, draft.Proposal{Source: draft.FromIndex, Match: match}
}

// kin is the key of outputs that seq may be guessed from: those of its tenant and with its salt, as
// a guess that holds shows in time.
func (seq *Seq) kin() uint64 {
	key := seq.Salt * 0x9e3779b97f4a7c15
	key = (key^key>>32)*0xbf58476d1ce4e5b9 + uint64(seq.Tenant)
	return (key ^ key>>29) * 0x94d049bb133111eb
}

// ahead sets the masks behind guesses, and returns of how many of these the sequence may have them.
func (seq *Seq) ahead(guesses []int32, vocab int) int {
	if len(guesses) == 0 || !allows(seq.mask, guesses[0]) {
		return 0
	}
	for len(seq.masks) < len(guesses) {
		seq.masks = append(seq.masks, make([]uint64, len(seq.mask)))
	}
	masks := seq.masks[:len(guesses)]
	allowed := seq.Constraint.Ahead(guesses, masks)
	for i, mask := range masks[:allowed] {
		seq.limit(mask, vocab, seq.early(1+i))
		if slices.Max(mask) == 0 {
			return i // the sequence ends with an error behind it, which is found without guesses
		}
		if i+1 < allowed && !allows(mask, guesses[i+1]) {
			return i + 1
		}
	}
	return allowed
}

// allows reports whether a mask has id.
func allows(mask []uint64, id int32) bool { return mask[id/64]>>(id%64)&1 == 1 }

// guessRoom returns for how many of n guesses of seq, which has a row, there are blocks, and takes
// them. A block remains for each of the step's rows: nobody gives way to a guess.
func (s *Scheduler) guessRoom(seq *Seq, n, rows int) int {
	for n > 0 && !s.kv.Holds(seq.table, seq.launched+n) && !s.kv.Grow(seq.table, seq.launched+n, max(seq.launched+n, s.footprint(seq)), rows) {
		n--
	}
	return n
}

// give makes the guesses part of the batch: extra tokens.
func (s *Scheduler) give(step *step, extra int) {
	batch, g := &step.batch, s.guesser
	end, next := len(batch.Tokens)+extra, len(g.rows)-1
	batch.Tokens = batch.Tokens[:end]
	for i := len(batch.Rows) - 1; i >= 0; i-- { // backwards: each row has one token so far, which moves
		if next >= 0 && g.rows[next] == i {
			n, seq := g.counts[next], step.seqs[i]
			end -= copy(batch.Tokens[end-n:end], g.ids[next][:n])
			step.proposals[i] = g.proposals[next]
			if n > 0 {
				s.giveRow(&batch.Rows[i], seq, n)
			}
			next--
		}
		end--
		batch.Tokens[end] = batch.Tokens[i]
	}
}

// giveRow makes the last n tokens of a row guesses.
func (s *Scheduler) giveRow(row *runner.Row, seq *Seq, n int) {
	row.Len, row.Guessed = row.Len+n, n
	copy(row.Tables, seq.table.Blocks)
	switch {
	case seq.Constraint != nil:
		row.Masks = seq.masks[:n]
	case row.Mask != nil:
		for place := range n {
			seq.masks = append(seq.masks[:place], seq.allowed(int(row.OutputIndex)+1+place))
		}
		row.Masks = seq.masks[:n]
	}
	seq.guessed = true
	seq.tenant.served += n
	if !seq.Probe {
		s.counted += n
	}
}

// judgeGuesses counts what has come of the guesses of a row, and learns from it.
func (s *Scheduler) judgeGuesses(seq *Seq, row *runner.Row, proposal draft.Proposal, ids int) {
	seq.guessed = false
	accepted, of := ids-1, &s.stats.Guesses
	of.Rows++
	of.Guessed[proposal.Source] += uint64(row.Guessed)
	of.Accepted[proposal.Source] += uint64(accepted)
	of.Unchecked[proposal.Source] += uint64(max(row.Guessed-accepted-1, 0))
	for place := range accepted {
		of.AcceptedAt[place]++
	}
	if s.guesser.most > 0 {
		s.guesser.protect(func() { s.guesser.Chooser.Outcome(proposal, row.Guessed, accepted) })
	}
}

// ObserveStep tells what guesses that a step with so many tokens, and no prompts, took so long.
func (s *Scheduler) ObserveStep(tokens int, took time.Duration) {
	if g := s.guesser; g.most > 0 {
		g.protect(func() { g.Chooser.Observe(tokens, took) })
	}
}

// StepCost returns how many times as long as with one token a step with that many takes, as far as is
// known; 0 = nothing is guessed.
func (s *Scheduler) StepCost(tokens int) (cost float64) {
	if g := s.guesser; g.most > 0 {
		g.protect(func() { cost = g.Chooser.Cost(tokens) })
	}
	return cost
}

// keepOutput gives the output of a sequence that ends to those that are guessed from it.
func (s *Scheduler) keepOutput(seq *Seq) {
	if g := s.guesser; g.most > 0 && g.Store != nil && !seq.Probe && len(seq.Tokens) > seq.Prompt {
		g.protect(func() { g.Store.Add(seq.kin(), seq.Tokens[seq.Prompt:]) })
	}
}
