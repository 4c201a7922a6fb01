package draft

import "time"

// Guesses of a model cost time before anything is known of them. How many are made is decided a
// step earlier than how many are checked, from the same costs and chances and from what making
// them has taken.

// unknownPass is what a pass of a model that guesses is taken to cost before one was seen, divided
// by a step of the target: little, as what looks cheap is tried, and then known.
const unknownPass = 0.1

// forgotten is how many steps of the target after the last pass make what is known of passes old:
// the first ones read weights that nobody has touched, and others may have had the machine.
const forgotten = 512

// Ahead returns how many ids a model is to guess behind each of so many sequences, at most most:
// that with which the ids to be expected of the next step, divided by its time and that of
// guessing, are the most; 0 where guessing does not pay. known says that this is no try.
func (c *Chooser) Ahead(rows, most int, source Source) (ahead int, known bool) {
	most = min(most, c.limit(rows))
	if !c.adaptive || most <= 0 || rows < 1 {
		return max(most, 0), true
	}
	if rows <= largestStep && c.steps > 0 && !c.known(nearest(rows)) {
		return 0, false // what guesses are compared with has to be known: a step without any, now and then
	}
	sure, best := c.evidence(Proposal{Source: source}), 0
	if chance := sure.chance(); chance >= leastSure {
		most = min(most, firstTries*(1+int(sure.came)))
		if !c.passesKnown() {
			most = 1
		}
		best = c.bestAhead(rows, most, chance)
	}
	if best == 0 {
		sure.fade(fading)
	}
	return best, c.passesKnown()
}

// bestAhead is Ahead where guesses come true with that chance.
func (c *Chooser) bestAhead(rows, most int, chance float64) (best int) {
	ids, each := float64(rows), float64(rows)
	rate := worthwhile * ids / c.seconds(rows)
	for n := 1; n <= most; n++ {
		each *= chance
		ids += each
		if now := ids / (c.seconds(rows*(1+n)) + float64(n)*c.pass(rows)); now > rate {
			best, rate = n, now
		}
	}
	return best
}

// pass is the cost of one guess for each of so many sequences, in the unit of seconds.
func (c *Chooser) pass(rows int) float64 {
	if !c.passesKnown() {
		return unknownPass * c.seconds(rows)
	}
	return c.passes.seconds(rows)
}

// passesKnown reports whether passes were measured, not long ago.
func (c *Chooser) passesKnown() bool {
	return c.measured && c.passes.measured && c.steps-c.lastPass <= forgotten
}

// ObserveAhead learns from the time in which a model guessed up to n ids behind each of so many
// sequences.
func (c *Chooser) ObserveAhead(rows, n int, took time.Duration) {
	if n == 0 {
		return
	}
	if c.steps-c.lastPass > forgotten {
		c.passes = costs{}
		c.passes.tabulate()
	}
	c.lastPass = c.steps
	c.passes.learn(rows, took.Seconds()/float64(n))
}

// PassCost returns what one guess for each of so many sequences costs, divided by what a step with
// one token does; 0 = nothing is known of it.
func (c *Chooser) PassCost(rows int) float64 {
	if !c.measured || !c.passes.measured {
		return 0
	}
	return c.pass(max(rows, 1)) / c.seconds(1)
}
