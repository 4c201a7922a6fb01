package lab

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"

	"ossian/internal/lab/ledger"
	"ossian/internal/lab/race"
)

// Levels of the two families of intervals that can make an option be kept. They sum to the 5 % of
// lab.md 4, item 6: the first family is every option alone, the second combinations.
const (
	levelSingle = 0.045
	levelJoint  = 0.005
)

// joinBlocks is how many blocks joint settings get at most.
const joinBlocks = 8

// A choice is a setting that may be recommended.
type choice struct {
	setting  ledger.Setting
	parts    []int           // alternatives in it; none: the baseline
	gain     float64         // over the baseline
	effect   ledger.Interval // the same as ledger and report have it
	measured bool            // effect is
	decided  bool            // intervals were formed, or there was nothing to try
	reason   string
	trials   []string
	rule     string
	blocks   int
}

// interact measures options together: whether what is worth keeping alone is worth it together, and
// whether a combination is worth it whose parts are not. It returns the setting to recommend (lab.md 4,
// items 5 and 6).
func (c *chapter) interact(ctx context.Context, singles []raced, predicted [][]int) (choice, error) {
	best := c.bestSingle(singles)
	joint := c.together(kept(singles))
	tries := [][]int{}
	if len(joint) > 1 {
		tries = append(tries, joint)
	}
	factors := c.factors(singles)
	switch {
	case len(factors) > mostFactors:
		neighbours, err := c.neighbours(ctx, joint, factors)
		if err != nil {
			return best, err
		}
		tries = append(tries, neighbours...)
	case len(factors) > 1:
		point, err := c.design(ctx, factors, kept(singles))
		if err != nil {
			return best, err
		}
		if len(point) > 1 {
			tries = append(tries, point)
		}
	}
	usable := map[int]bool{}
	for _, single := range singles {
		usable[single.at] = !c.barred(single)
	}
	for _, parts := range predicted {
		if !slices.ContainsFunc(parts, func(at int) bool { return !usable[at] }) {
			tries = append(tries, parts)
		}
	}
	for _, parts := range tries {
		slices.Sort(parts)
	}
	slices.SortFunc(tries, slices.Compare)
	tries = slices.CompactFunc(tries, slices.Equal)
	tries, err := c.answering(ctx, tries)
	if err != nil || len(tries) == 0 {
		return best, err
	}
	if !slices.ContainsFunc(tries, func(parts []int) bool { return slices.Equal(parts, joint) }) {
		joint = nil
	}
	return c.confirm(ctx, best, singles, joint, tries)
}

// answering leaves out combinations whose outputs are not the baseline's, though those of their parts
// are: faster is not better then either.
func (c *chapter) answering(ctx context.Context, tries [][]int) ([][]int, error) {
	var out [][]int
	for _, parts := range tries {
		lossy := slices.ContainsFunc(parts, func(at int) bool { return c.all[at].lossy })
		setting := c.settingOf(parts)
		reason, err := c.compareAnswers(ctx, setting, lossy)
		if err != nil {
			return nil, err
		}
		if reason == "" {
			out = append(out, parts)
			continue
		}
		if err := c.decideSmoke(c.subjectOf(parts), setting, ledger.Rejected, reason); err != nil {
			return nil, err
		}
		c.Say("together " + c.subjectOf(parts) + " is out: " + reason)
	}
	return out, nil
}

// confirm races combinations, and the best single option, against the baseline in blocks of their own:
// what pointed to a combination does not also prove it.
func (c *chapter) confirm(ctx context.Context, best choice, singles []raced, joint []int, tries [][]int) (choice, error) {
	rules := c.rules()
	rules.Most, rules.Planned = joinBlocks, joinBlocks
	round := heat{role: ledger.RoleInteraction, workload: c.mainly, first: confirmBlocks, base: c.base, rules: rules, reserve: c.reserveGeneralise(), optional: true}
	if len(best.parts) == 1 {
		round.entrants = append(round.entrants, c.entrantOf(best.parts))
	}
	for _, parts := range tries {
		round.entrants = append(round.entrants, c.entrantOf(parts))
	}
	if !slices.ContainsFunc(tries, func(parts []int) bool { return c.ofKept(parts, singles) }) {
		round.rules.Level = levelJoint // what wins here rests on nothing else
	}
	result, err := c.compete(ctx, round)
	if err != nil {
		return best, err
	}
	for _, parts := range tries {
		decision := c.decisionOf(ledger.StageInteraction, round, result, c.entrantOf(parts))
		decision.Product = c.product(singles, parts)
		found := c.serves(result.blocks, decision.Subject)
		decision = found.heldTo(decision)
		if err := errors.Join(c.book.decide(decision), c.decideService(&round, &result, decision.Subject, *decision.Setting, found)); err != nil {
			return best, err
		}
		c.Say("together " + describeDecision(&decision))
	}
	return c.bestJoint(best, result, singles, joint, tries), nil
}

// ofKept reports whether a combination holds nothing but alternatives that are kept alone.
func (c *chapter) ofKept(parts []int, singles []raced) bool {
	good := kept(singles)
	return !slices.ContainsFunc(parts, func(at int) bool {
		return !slices.ContainsFunc(good, func(single raced) bool { return single.at == at })
	})
}

// product is what the gains of single options multiply to; nil: one of them was not measured.
func (c *chapter) product(singles []raced, parts []int) *float64 {
	logs := 0.0
	for _, at := range parts {
		place := slices.IndexFunc(singles, func(single raced) bool { return single.at == at })
		if place < 0 || singles[place].standing.Blocks == 0 {
			return nil
		}
		logs += math.Log1p(singles[place].standing.Gain)
	}
	product := c.effect(math.Expm1(logs), 0, 0, true).Value
	return &product
}

// kept are the alternatives that are worth it alone.
func kept(singles []raced) []raced {
	var out []raced
	for _, single := range singles {
		if single.verdict == ledger.Kept {
			out = append(out, single)
		}
	}
	return out
}

// entrantOf is a combination in a heat.
func (c *chapter) entrantOf(parts []int) entrant {
	return entrant{name: c.subjectOf(parts), group: "settings", setting: c.settingOf(parts)}
}

// settingOf is the setting of some alternatives together.
func (c *chapter) settingOf(parts []int) ledger.Setting {
	var members []*alternative
	for _, at := range parts {
		members = append(members, &c.all[at])
	}
	return combine(c.engine.Name, members...)
}

func (c *chapter) subjectOf(parts []int) string {
	var names []string
	for _, at := range parts {
		names = append(names, c.all[at].subject(c.options))
	}
	return strings.Join(names, " + ")
}

// together are the best alternatives of each option as far as conditions allow, the largest gain first.
func (c *chapter) together(singles []raced) []int {
	singles = slices.Clone(singles)
	slices.SortStableFunc(singles, func(a, b raced) int { return cmp.Compare(b.standing.Gain, a.standing.Gain) })
	var members []*alternative
	var out []int
	taken := map[int]bool{}
	for _, single := range singles {
		part := &c.all[single.at]
		if taken[part.option] || !allowed(c.engine, c.options, append(slices.Clone(members), part)) {
			continue
		}
		taken[part.option] = true
		members, out = append(members, part), append(out, single.at)
	}
	slices.Sort(out)
	return out
}

// bestSingle is the alternative with the largest gain of those that are kept, or the baseline.
func (c *chapter) bestSingle(singles []raced) choice {
	best := choice{setting: c.base, reason: "no option is better than the defaults", decided: len(singles) == 0 && !c.untried}
	for _, single := range singles {
		best.decided = best.decided || single.standing.Formed
		if single.verdict == ledger.NotDecided {
			best.reason = "no option is shown to be better than the defaults; some are not decided"
		}
	}
	if c.untried {
		best.reason = "no option is shown to be better than the defaults; the budget ended before all were tried"
	}
	good := kept(singles)
	switch c.service.verdict {
	case ledger.NotMet: // keeping the bounds comes before being fast
		best.gain, best.reason = math.Inf(-1), "the defaults break a bound of the plan, and no option is certain to keep it: "+c.service.text()
		good = slices.DeleteFunc(slices.Clone(singles), func(single raced) bool { return single.service != ledger.Met || single.standing.Blocks == 0 })
	case ledger.NotCertain:
		best.reason += "; whether the defaults keep the bounds of the plan is not certain: " + c.service.text()
	}
	for _, single := range good {
		standing := single.standing
		if standing.Gain <= best.gain {
			continue
		}
		best.setting, best.parts, best.gain = combine(c.engine.Name, &c.all[single.at]), []int{single.at}, standing.Gain
		if effect := c.effect(standing.Gain, standing.Interval.Low, standing.Interval.High, standing.Formed); effect != nil {
			best.effect, best.measured = *effect, true
		}
		best.reason, best.blocks = "the largest gain of those that are kept: "+standing.Reason, standing.Blocks
		best.trials, best.rule = single.trials, single.rule
		if c.service.verdict == ledger.NotMet {
			best.decided, best.reason = true, "the best of those that keep the bounds of the plan; the defaults do not: "+c.service.text()
		}
	}
	best.gain = max(best.gain, -1)
	return best
}

// bestJoint is the best combination, if its gain is larger than that of the best single option in the
// same blocks. All kept options together were each shown to be worth it; what these blocks have to show
// is that they do not spoil each other. A combination with other parts has to be better with certainty.
func (c *chapter) bestJoint(best choice, result tally, singles []raced, joint []int, tries [][]int) choice {
	if len(best.parts) == 1 {
		if standing := result.standing(c.subjectOf(best.parts)); standing.Blocks > 0 {
			best.gain = standing.Gain
		}
	}
	take := func(parts []int, standing race.Standing) {
		best = choice{setting: c.settingOf(parts), parts: parts, gain: standing.Gain, measured: standing.Formed, decided: true, rule: result.Rule, blocks: standing.Blocks,
			effect: *c.effect(standing.Gain, standing.Interval.Low, standing.Interval.High, true), trials: result.trials(baseline, standing.Name),
			reason: "the largest gain of combinations and single options in the same blocks"}
	}
	usable := func(standing race.Standing) bool {
		found := c.serves(result.blocks, standing.Name)
		return standing.Formed && standing.Verdict != race.Rejected && (found.verdict == "" || found.verdict == ledger.Met)
	}
	if len(joint) > 1 {
		if standing := result.standing(c.subjectOf(joint)); usable(standing) && standing.Gain > best.gain {
			take(joint, standing)
		}
	}
	for _, parts := range tries {
		standing := result.standing(c.subjectOf(parts))
		certain := standing.Verdict == race.Accepted && standing.Beaten == "" && (len(best.parts) == 0 || standing.Interval.Low > best.gain)
		if c.ofKept(parts, singles) {
			certain = standing.Verdict == race.Accepted && standing.Gain > best.gain
		}
		if certain && usable(standing) && !slices.Equal(parts, best.parts) {
			take(parts, standing)
		}
	}
	return best
}
