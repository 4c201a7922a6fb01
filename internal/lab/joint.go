package lab

import (
	"cmp"
	"context"
	"fmt"
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

// joinBlocks is how many blocks joint settings get at most, and are reserved before.
const joinBlocks = 6

// A choice is a setting that may be recommended.
type choice struct {
	setting  ledger.Setting
	parts    []int           // alternatives in it
	effect   ledger.Interval // relative to the baseline; of the baseline: none
	measured bool            // effect is
	decided  bool            // anything was: intervals were formed, or nothing was to be tried
	reason   string
	trials   []string
	rule     string
	blocks   int
}

// interact measures combinations: whether what is worth keeping alone is worth it together, and whether
// a combination is worth it whose parts are not. It returns the setting to recommend (lab.md 4, items 5
// and 6).
func (c *chapter) interact(ctx context.Context, singles []raced, predicted [][]int) (choice, error) {
	best := c.bestSingle(singles)
	tries := c.combinationsToTry(singles, predicted)
	if len(tries) == 0 {
		return best, nil
	}
	rules := c.rules()
	rules.Most, rules.Planned = joinBlocks, joinBlocks
	if len(kept(singles)) < 2 {
		rules.Level = levelJoint // whatever wins here rests on nothing else
	}
	h := heat{role: ledger.RoleInteraction, workload: c.mainly, first: confirmBlocks, base: c.base, rules: rules, reserve: c.reserveGeneralise()}
	for _, single := range kept(singles) {
		h.entrants = append(h.entrants, c.entrantOf([]int{single.at}))
	}
	for _, parts := range tries {
		h.entrants = append(h.entrants, c.entrantOf(parts))
	}
	result, err := c.compete(ctx, h)
	if err != nil {
		return best, err
	}
	if err := c.decideJoint(h, result, singles, tries); err != nil {
		return best, err
	}
	return c.bestJoint(best, h, result, singles, tries), nil
}

// kept are the alternatives that are worth it alone, one of each option: the race has seen to that, but
// for rivals that it could not tell apart.
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
	var members []*alternative
	for _, at := range parts {
		members = append(members, &c.all[at])
	}
	return entrant{name: c.subjectOf(parts), group: "settings", setting: combine(c.engine.Name, members...)}
}

func (c *chapter) subjectOf(parts []int) string {
	var names []string
	for _, at := range parts {
		names = append(names, c.all[at].subject(c.options))
	}
	return strings.Join(names, " + ")
}

// combinationsToTry are the best kept alternative of every option together, and what a prediction ranks
// first.
func (c *chapter) combinationsToTry(singles []raced, predicted [][]int) [][]int {
	var out [][]int
	if all := c.together(kept(singles)); len(all) > 1 {
		out = append(out, all)
	}
	usable := map[int]bool{}
	for _, single := range singles {
		usable[single.at] = true
	}
	for _, parts := range predicted {
		fits := !slices.ContainsFunc(parts, func(at int) bool { return !usable[at] })
		known := slices.ContainsFunc(out, func(other []int) bool { return slices.Equal(other, parts) })
		if fits && !known {
			out = append(out, parts)
		}
	}
	return out
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
	best := choice{setting: c.base, reason: "no option is better than the defaults", decided: len(singles) == 0}
	for _, single := range singles {
		best.decided = best.decided || single.standing.Formed
		if single.verdict == ledger.NotDecided {
			best.reason = "no option is shown to be better than the defaults; some are not decided"
		}
	}
	gain := 0.0
	for _, single := range kept(singles) {
		if single.standing.Gain <= gain {
			continue
		}
		gain = single.standing.Gain
		best.setting, best.parts = combine(c.engine.Name, &c.all[single.at]), []int{single.at}
		best.effect, best.measured = *c.effect(gain, single.standing.Interval.Low, single.standing.Interval.High, true), true
		best.reason, best.blocks = "the largest gain of those that are kept: "+single.standing.Reason, single.standing.Blocks
	}
	return best
}

// bestJoint is the best of the combinations that are shown to be better than the baseline, if it has a
// larger gain than the best single alternative has in the same blocks.
func (c *chapter) bestJoint(best choice, h heat, result tally, singles []raced, tries [][]int) choice {
	gain := 0.0
	if len(best.parts) == 1 {
		gain = max(0, result.standing(c.subjectOf(best.parts)).Gain)
	}
	all := c.together(kept(singles))
	for _, parts := range tries {
		standing := result.standing(c.subjectOf(parts))
		accepted := standing.Verdict == race.Accepted
		// All kept alternatives together were each shown to be worth it already. What these blocks have
		// to show is no more than that they do not spoil each other.
		trusted := slices.Equal(parts, all) && standing.Formed && standing.Verdict == race.NotDecided
		if (!accepted && !trusted) || standing.Gain <= gain || c.violated(result, standing.Name) != "" {
			continue
		}
		gain = standing.Gain
		best = choice{setting: c.entrantOf(parts).setting, parts: parts, measured: standing.Formed, decided: true, reason: "the largest gain of combinations and single options in the same blocks",
			effect: *c.effect(gain, standing.Interval.Low, standing.Interval.High, true), trials: result.trials(baseline, standing.Name), rule: result.Rule, blocks: standing.Blocks}
	}
	return best
}

// decideJoint writes down, for each combination, what its parts' gains multiply to beside what was
// measured, and whether the difference is certain.
func (c *chapter) decideJoint(h heat, result tally, singles []raced, tries [][]int) error {
	for _, parts := range tries {
		name := c.subjectOf(parts)
		decision := c.decisionOf(ledger.StageInteraction, h, result, c.entrantOf(parts))
		logs, known := 0.0, true
		for _, at := range parts {
			place := slices.IndexFunc(singles, func(single raced) bool { return single.at == at })
			if known = known && place >= 0; known {
				logs += math.Log1p(singles[place].standing.Gain)
			}
		}
		if known {
			product := c.effect(math.Expm1(logs), 0, 0, true).Value
			decision.Product = &product
		}
		gap, formed := c.interaction(result, parts)
		decision.Verdict = ledger.NotDecided
		switch {
		case formed && (gap.Low > 0 || gap.High < 0) && math.Abs(gap.Value) >= 0.01:
			decision.Verdict = ledger.Found
			decision.Reason = fmt.Sprintf("together %s of what the single gains multiply to", describeEffect(&gap))
		case formed && gap.Low > -0.01 && gap.High < 0.01:
			decision.Verdict, decision.Reason = ledger.None, "single gains multiply to the joint one within 1 %"
		case formed:
			decision.Reason = fmt.Sprintf("together %s of what the single gains multiply to", describeEffect(&gap))
		}
		if err := c.book.decide(decision); err != nil {
			return err
		}
		c.Say(describeDecision(&decision) + "; " + name)
	}
	return nil
}

// interaction is the joint gain over what the gains of its parts multiply to, block by block.
func (c *chapter) interaction(result tally, parts []int) (gap ledger.Interval, formed bool) {
	rules := c.rules()
	rules.Planned, rules.LowerIsBetter = joinBlocks, false
	contest, err := race.New(rules, "product", []race.Candidate{{Name: "joint"}})
	if err != nil {
		return gap, false
	}
	for _, block := range result.blocks {
		values := c.values(block)
		joint, product := values[c.subjectOf(parts)]/values[baseline], 1.0
		for _, at := range parts {
			product *= values[c.subjectOf([]int{at})] / values[baseline]
		}
		// A part that failed in this block, or was out of the race by then, makes no product.
		if joint > 0 && product > 0 && !math.IsInf(joint/product, 0) && contest.Add(race.Block{"product": product, "joint": joint}) != nil {
			return gap, false
		}
	}
	standing := contest.State().Standings[0]
	return ledger.Interval{Value: standing.Gain, Low: standing.Interval.Low, High: standing.Interval.High}, standing.Formed
}
