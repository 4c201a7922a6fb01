package sched

import (
	"ossian/internal/draft"
	"ossian/internal/runner"
)

// Guesses of a model come from the runner: a row says how many ids are to be guessed behind the
// one that it draws, and the result of its step has them. They lie with the sequence until its next
// row, behind the token that they follow; whatever happens to the sequence meanwhile, it is the last
// one it has.
//
// Where earlier text ends alike for long, what followed there is the better guess, and costs nothing.

// offer proposes what followed text that ends as seq does for long, else what the runner has guessed
// behind its last token.
func (g *guesser) offer(seq *Seq, dst []int32, most int) ([]int32, draft.Proposal) {
	dst, proposal := g.look(seq, dst, most)
	if len(dst) > 0 {
		return dst, proposal
	}
	return append(dst, seq.offered[:min(len(seq.offered), most)]...), draft.Proposal{Source: g.Settings.Sources()[0]}
}

// mostMissed is how many tokens of a sequence what guesses may have missed to be tried on it. What
// was missed has to be read first; where guessing is known to pay, all is.
const mostMissed = 32

// wish has the runner guess behind the rows of a step for as many as pays. Rows of prompts are
// followed, as what guesses has to have read them too.
func (s *Scheduler) wish(step *step) {
	g := s.guesser
	if g.most == 0 || g.ahead == 0 || len(step.seqs) == 0 {
		return
	}
	ahead, known := 0, false
	g.protect(func() {
		ahead, known = g.Chooser.Ahead(len(step.seqs), min(g.ahead, g.most), g.Settings.Sources()[0])
	})
	speak := ahead
	if s.promptsWait() { // guesses are checked in steps without prompts, so that many would be of no use
		speak = min(ahead, 1)
	}
	for i, seq := range step.seqs {
		row := &step.batch.Rows[i]
		left := seq.MaxTokens - (len(seq.Tokens) - seq.Prompt) // ids that the sequence may get, this step's among them
		switch {
		case seq.Probe || (!known && seq.missed > mostMissed):
		case row.Sample:
			wanted := speak
			if row.Guessed > 0 && step.proposals[i].Source == draft.FromIndex {
				wanted = min(speak, 1) // text goes on, and is to be read
			}
			row.Ahead = max(min(wanted, left-2), 0) // the last one needs no guess: it is drawn behind the others
		case left > 2:
			row.Ahead = min(ahead, 1)
		}
		if seq.missed += row.Len; row.Ahead > 0 {
			seq.missed = 0
		}
	}
}

// promptsWait reports whether the next step will have tokens of prompts, as far as that is known.
func (s *Scheduler) promptsWait() bool {
	for _, seq := range s.residents {
		if seq != nil && seq.state == running && len(seq.Tokens)+seq.pending-seq.launched > 1 {
			return true
		}
	}
	return false
}

// takeGuesses keeps what the runner has guessed behind the tokens of a row.
func (seq *Seq) takeGuesses(result *runner.Result, row int) {
	seq.offered = seq.offered[:0]
	if result.Guesses != nil {
		seq.offered = append(seq.offered, result.Guesses[row]...)
	}
}

// judgeAhead learns from the time that guessing has taken in a step without prompts.
func (s *Scheduler) judgeAhead(batch *runner.Batch, result *runner.Result) {
	g := s.guesser
	if result.GuessFault != nil {
		g.most, g.fault = 0, result.GuessFault
	}
	rows, most := 0, 0
	for i := range batch.Rows {
		row := &batch.Rows[i]
		if !row.Sample || row.Len-row.Guessed > 1 {
			return
		}
		rows, most = rows+min(row.Ahead, 1), max(most, row.Ahead)
	}
	if g.most > 0 && rows > 0 && result.Guesses != nil {
		g.protect(func() { g.Chooser.ObserveAhead(rows, most, result.Guessing) })
	}
}
