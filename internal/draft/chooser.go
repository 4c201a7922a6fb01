package draft

import (
	"math/bits"
	"time"
)

// A Chooser decides how many guesses there are in a step: as many as make the ids that may be
// expected of it, divided by what it costs, greatest. It learns the costs from steps without
// prompts, and how often guesses come true from those that were checked.
type Chooser struct {
	costs
	passes   costs // of a model that guesses: of one guess for each of so many sequences
	lastPass int   // costs.steps when it last did
	adaptive bool
	batches  []BatchLimit
	sure     [sources][buckets]evidence
	chances  []float64 // of the step that is planned: that the next guess of a proposal is reached and true
	most     []int     // guesses that it may have
	tried    [lookAhead]int
}

const (
	buckets    = 6    // of matches: up to 1, 2, 4, 8, 16 ids, more
	lookAhead  = 4    // guesses that may be worth less than they cost before one that makes up for it: costs are no smooth curve
	leastSure  = 0.15 // chance of guesses that are worth no place, whatever clocks say of costs
	reached    = 0.02 // chance to be reached of the last guess that is
	firstTries = 2    // guesses of a draft while none such came true, and as many more for each that did
	worthwhile = 1.02 // times as many ids for the time as without guesses: less is not told from chance, and as often a loss
)

// evidence is how many guesses were checked and how many came true. Both fade, so that text of
// another kind is noticed, and guesses that failed are tried again now and then.
type evidence struct{ checked, came, prior float64 }

// priorChance is the chance before anything is known, by the bucket of the match: about that of the
// replayed texts. What begins too high is paid for by each sequence of a large step.
var priorChance = [buckets]float64{0.5, 0.5, 0.6, 0.7, 0.8, 0.9}

const (
	modelChance = 0.7       // the same of models, which match nothing
	priorWeight = 4         // guesses that this is worth
	leastWeight = 32        // guesses that are remembered, about; where half of those came true, so many more
	fading      = 1. / 1024 // of what is known, with each proposal that is not taken up
)

// chance is that of one guess to come true when those before it did.
func (e *evidence) chance() float64 {
	return (e.came + e.prior*priorWeight) / (e.checked + priorWeight)
}

// fade forgets a share of what is known.
func (e *evidence) fade(share float64) {
	e.checked, e.came = e.checked*(1-share), e.came*(1-share)
}

// NewChooser returns a chooser that has learned nothing; one that is not adaptive takes all guesses.
func NewChooser(adaptive bool) *Chooser {
	c := &Chooser{adaptive: adaptive}
	c.costs.tabulate()
	c.passes.tabulate()
	for source := range c.sure {
		for bucket := range c.sure[source] {
			prior := priorChance[bucket]
			if Source(source).model() {
				prior = modelChance
			}
			c.sure[source][bucket].prior = prior
		}
	}
	return c
}

// Choose sets counts[i], at most proposals[i].Len, to how many guesses of each proposal pay in a
// step of rows sequences with one token each.
func (c *Chooser) Choose(counts []int, rows int, proposals []Proposal) {
	limit := c.limit(rows)
	for i := range proposals {
		counts[i] = 0
		if !c.adaptive {
			counts[i] = min(proposals[i].Len, limit)
		}
	}
	// What guesses are compared with has to be known: a step without any, now and then.
	if !c.adaptive || limit == 0 || rows < 1 || (rows <= largestStep && c.steps > 0 && !c.known(nearest(rows))) {
		return
	}
	c.chances, c.most = c.chances[:0], c.most[:0]
	for _, proposal := range proposals {
		known := c.evidence(proposal)
		chance, most := known.chance(), min(proposal.Len, limit, firstTries*(1+int(known.came)))
		if chance < leastSure {
			most = 0
		}
		c.chances, c.most = append(c.chances, chance), append(c.most, most)
	}
	c.fill(counts, rows, proposals)
	for i, proposal := range proposals {
		if counts[i] == 0 && proposal.Len > 0 {
			c.evidence(proposal).fade(fading)
		}
	}
}

// fill adds guesses, the surest first, as long as ids for the time become more. The last few that
// did not make them more are taken back, and all of them where little is gained.
func (c *Chooser) fill(counts []int, rows int, proposals []Proposal) {
	tokens, expected := rows, float64(rows)
	without := expected / c.seconds(tokens)
	best, tried := without, 0
	for tried < lookAhead {
		next := c.surest(counts)
		if next < 0 {
			break
		}
		tokens, expected = tokens+1, expected+c.chances[next]
		c.chances[next] *= c.evidence(proposals[next]).chance()
		counts[next]++
		c.tried[tried] = next
		tried++
		if ids := expected / c.seconds(tokens); ids > best {
			best, tried = ids, 0
		}
	}
	for _, i := range c.tried[:tried] {
		counts[i]--
	}
	if best < worthwhile*without {
		clear(counts)
	}
}

// surest returns the proposal whose next guess has the best chance to be reached and true, -1 =
// none is worth a place.
func (c *Chooser) surest(counts []int) int {
	best, chance := -1, reached
	for i, n := range counts {
		if n < c.most[i] && c.chances[i] > chance {
			best, chance = i, c.chances[i]
		}
	}
	return best
}

// limit is how many guesses a sequence may have in a step of rows sequences.
func (c *Chooser) limit(rows int) int {
	for _, batch := range c.batches {
		if batch.From <= rows && rows <= batch.To {
			return batch.Tokens
		}
	}
	return MostTokens
}

// Observe learns from a step without prompts: its tokens, guesses among them, and the time it took.
func (c *Chooser) Observe(tokens int, took time.Duration) { c.costs.learn(tokens, took.Seconds()) }

// Outcome learns from guesses that were checked: of those guessed, the first accepted came true.
func (c *Chooser) Outcome(p Proposal, guessed, accepted int) {
	known := c.evidence(p)
	known.checked += float64(min(guessed, accepted+1)) // what is behind a wrong guess was not checked
	known.came += float64(min(guessed, accepted))
	if most := leastWeight + known.came/2; known.checked > most {
		known.fade(1 - most/known.checked)
	}
}

// Expected returns how many ids a step is likely to give a sequence with n guesses of p.
func (c *Chooser) Expected(p Proposal, n int) float64 {
	expected, each := 1.0, 1.0
	for range n {
		each *= c.evidence(p).chance()
		expected += each
	}
	return expected
}

// Cost returns what a step with so many tokens costs, divided by what one with one token does, as
// it has been learned.
func (c *Chooser) Cost(tokens int) float64 { return c.seconds(max(tokens, 1)) / c.seconds(1) }

// evidence is what is known of guesses such as p. Places in a draft share it: what is learned of
// each alone keeps drafts short, since late ones are seldom reached.
func (c *Chooser) evidence(p Proposal) *evidence {
	return &c.sure[p.Source%sources][min(bits.Len(uint(max(p.Match-1, 0))), buckets-1)]
}
