package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"ossian/internal/lab/ledger"
	"ossian/internal/lab/race"
)

const (
	mostFactors   = 6 // options of one design (lab.md 4, item 5)
	designRepeats = 3 // blocks of a design
	leastPair     = 0.01
)

// ruleDesign says how effects of a design are judged.
const ruleDesign = "two-level design of resolution V or more, every point once in each block; least squares on logarithms with a level for each block, a gain for each option and each pair; intervals of all pairs hold at once with 95 %"

// factors are the best alternative of each option that can be measured, kept ones first of all. What
// breaks a bound that the baseline keeps is no part of a setting to recommend.
func (c *chapter) factors(singles []raced) []int {
	best := map[int]raced{}
	for _, single := range singles {
		option := c.all[single.at].option
		other, have := best[option]
		better := single.standing.Gain > other.standing.Gain
		if (single.verdict == ledger.Kept) != (other.verdict == ledger.Kept) {
			better = single.verdict == ledger.Kept
		}
		if c.barred(single) {
			continue
		}
		if single.standing.Blocks >= fewestBlocks && single.standing.Failures == 0 && (!have || better) {
			best[option] = single
		}
	}
	var out []int
	for _, single := range best {
		out = append(out, single.at)
	}
	slices.Sort(out)
	// Every combination has to be possible: who conflicts with another one is left out, the later one.
	return slices.DeleteFunc(out, func(at int) bool {
		return slices.ContainsFunc(out, func(other int) bool {
			return other < at && !allowed(c.engine, c.options, []*alternative{&c.all[other], &c.all[at]})
		})
	})
}

// barred reports whether an alternative breaks a bound of the plan that the baseline does not break for
// certain. Where the baseline does, two that break it may keep it together.
func (c *chapter) barred(single raced) bool {
	return single.service == ledger.NotMet && c.service.verdict != ledger.NotMet
}

// design measures a two-level design of options and says what it tells. It returns the alternatives of
// its best point, as the fitted effects have it. If the budget has no room for all options, those that
// are kept are tried alone.
func (c *chapter) design(ctx context.Context, factors []int, good []raced) ([]int, error) {
	design, round, settings, err := c.planDesign(factors)
	if err != nil {
		return nil, err
	}
	if c.room(round.workload, round.reserve, pointNames(design), settings) < c.leastRepeats(design) {
		only := slices.DeleteFunc(slices.Clone(factors), func(at int) bool {
			return !slices.ContainsFunc(good, func(single raced) bool { return single.at == at })
		})
		c.exhausted = true
		if len(only) < 2 || len(only) == len(factors) {
			return nil, c.book.decide(ledger.Decision{Stage: ledger.StageInteraction, Model: c.model, Subject: "pairs of " + strings.Join(c.names(factors), ", "), Workload: c.mainly.Name,
				Metric: c.plan.Objective.Metric, Verdict: ledger.NotDecided, Rule: ruleDesign, Reason: fmt.Sprintf("the budget has no room for the %d points of a design", len(design.Points))})
		}
		return c.design(ctx, only, good)
	}
	var values []map[int]float64
	var trials []string
	for repeat := range designRepeats {
		number := round.first + repeat + 1
		order := shuffled(pointNames(design), c.draw("order", c.model, round.role, round.workload.Name, strconv.Itoa(number)).IntN)
		if !c.affords(round.workload, round.reserve, order, settings) {
			break
		}
		outcomes, err := c.block(ctx, round, number, order, settings)
		if errors.Is(err, errBudgetEnded) {
			break
		}
		if err != nil {
			return nil, err
		}
		found := map[int]float64{}
		for name, value := range c.values(outcomes) {
			place, _ := strconv.Atoi(name) // names of points are their places
			found[place] = value
		}
		for _, name := range pointNames(design) {
			trials = append(trials, outcomes[name].id)
		}
		values = append(values, found)
	}
	effects, err := design.Interactions(values, !c.plan.Objective.Maximize)
	if err != nil { // points failed: what they would have told is not known
		return nil, c.book.note("interactions: " + err.Error())
	}
	if err := c.decideDesign(design, effects, factors, trials); err != nil {
		return nil, err
	}
	return c.certainParts(effects, factors, c.bestPoint(effects, factors), good), nil
}

// planDesign is the design of some options with its settings by the place of their point.
func (c *chapter) planDesign(factors []int) (race.Design, heat, map[string]ledger.Setting, error) {
	design, err := race.NewDesign(c.names(factors), nil)
	if err != nil {
		return design, heat{}, nil, err
	}
	round := heat{role: ledger.RoleInteraction, workload: c.mainly, first: designBlocks, base: c.base, rules: c.rules(), reserve: c.reserveGeneralise()}
	settings := map[string]ledger.Setting{}
	for place, point := range design.Points {
		var parts []int
		for i, on := range point {
			if on {
				parts = append(parts, factors[i])
			}
		}
		settings[strconv.Itoa(place)] = c.settingOf(parts)
	}
	return design, round, settings, nil
}

// leastRepeats is how many blocks of a design give intervals.
func (c *chapter) leastRepeats(design race.Design) int {
	options := len(design.Options)
	if len(design.Points) > 1+options+options*(options-1)/2 {
		return 1
	}
	return 2
}

func pointNames(design race.Design) []string {
	out := make([]string, len(design.Points))
	for place := range out {
		out[place] = strconv.Itoa(place)
	}
	return out
}

func (c *chapter) names(parts []int) []string {
	var out []string
	for _, at := range parts {
		out = append(out, c.all[at].subject(c.options))
	}
	return out
}

// decideDesign writes down what a design tells: the gain of each option over all settings of the
// others, each pair, all together beside the product of the gains alone, and whose sign changed.
func (c *chapter) decideDesign(design race.Design, effects race.Interactions, factors []int, trials []string) error {
	line := func(subject string, effect race.Effect) ledger.Decision {
		return ledger.Decision{Stage: ledger.StageInteraction, Model: c.model, Subject: subject, Against: &c.base, Workload: c.mainly.Name, Metric: c.plan.Objective.Metric,
			Effect: c.effect(effect.Gain, effect.Interval.Low, effect.Interval.High, effect.Formed), Verdict: verdictOn(effect), Trials: trials, Blocks: effects.Blocks, Rule: ruleDesign}
	}
	var decisions []ledger.Decision
	for _, main := range effects.Main {
		decision := line("main effect of "+main.Options[0], main)
		decision.Reason = "over all settings of the other options"
		decisions = append(decisions, decision)
	}
	for _, pair := range effects.Pairs {
		decision := line("pair "+strings.Join(pair.Options, " × "), pair)
		decision.Reason = "joint gain over the product of the two gains"
		decisions = append(decisions, decision)
	}
	joint := line("all of "+strings.Join(design.Options, " + "), effects.Joint)
	setting := c.settingOf(factors)
	joint.Setting = &setting
	product := c.effect(effects.Product.Gain, 0, 0, true).Value
	joint.Product, joint.Reason = &product, "all options together; the product is that of their gains alone"
	decisions = append(decisions, joint)
	for _, reversal := range effects.Reversed {
		decision := line(fmt.Sprintf("sign of %s beside %s", reversal.Option, strings.Join(reversal.Beside, ", ")), reversal.Among)
		decision.Verdict = ledger.Found
		decision.Reason = fmt.Sprintf("the sign changed: %+.1f %% alone, %+.1f %% there", 100*reversal.Alone.Gain, 100*reversal.Among.Gain)
		decisions = append(decisions, decision)
	}
	for i := range decisions {
		if err := c.book.decide(decisions[i]); err != nil {
			return err
		}
		if decisions[i].Verdict == ledger.Found {
			c.Say(describeDecision(&decisions[i]))
		}
	}
	return nil
}

// verdictOn an effect: found, none, or not decided.
func verdictOn(effect race.Effect) string {
	switch {
	case effect.Shown && math.Abs(effect.Gain) >= leastPair:
		return ledger.Found
	case effect.Formed && effect.Interval.Low > -leastPair && effect.Interval.High < leastPair:
		return ledger.None
	}
	return ledger.NotDecided
}

// bestPoint is the combination with the largest fitted gain; none: the baseline.
func (c *chapter) bestPoint(effects race.Interactions, factors []int) []int {
	var best []int
	most := 0.0
	for code := range 1 << len(factors) {
		gain, pair := 0.0, 0
		var parts []int
		for i := range factors {
			if code>>i&1 == 1 {
				gain += math.Log1p(effects.Alone[i].Gain)
				parts = append(parts, factors[i])
			}
			for j := i + 1; j < len(factors); j++ {
				if code>>i&1 == 1 && code>>j&1 == 1 {
					gain += math.Log1p(effects.Pairs[pair].Gain)
				}
				pair++
			}
		}
		if gain > most {
			best, most = parts, gain
		}
	}
	return best
}

// certainParts leaves of a combination what is kept alone, and what is shown to gain something: by itself,
// or beside another part. The rest is there because noise was kind to it.
func (c *chapter) certainParts(effects race.Interactions, factors, point []int, good []raced) []int {
	place := func(at int) int { return slices.Index(factors, at) }
	return slices.DeleteFunc(slices.Clone(point), func(at int) bool {
		alone := effects.Alone[place(at)]
		certain := (alone.Shown && alone.Gain > 0) || slices.ContainsFunc(good, func(single raced) bool { return single.at == at })
		pair := 0
		for i := range factors {
			for j := i + 1; j < len(factors); j++ {
				gains := effects.Pairs[pair].Shown && effects.Pairs[pair].Gain > 0
				both := slices.Contains(point, factors[i]) && slices.Contains(point, factors[j])
				certain = certain || (gains && both && (i == place(at) || j == place(at)))
				pair++
			}
		}
		return !certain
	})
}

// neighbours races, where a design would be too large, settings that differ from all kept options
// together by one: each of them taken out, each other one put in. It returns those that are better.
func (c *chapter) neighbours(ctx context.Context, centre, factors []int) ([][]int, error) {
	if len(centre) == 0 {
		return nil, nil // one option put in has been measured: that was the race
	}
	rules := c.rules()
	rules.Planned, rules.Most, rules.Level = joinBlocks, joinBlocks, levelJoint
	round := heat{role: ledger.RoleInteraction, workload: c.mainly, first: designBlocks, base: c.settingOf(centre), rules: rules, reserve: c.reserveGeneralise(), optional: true}
	changed := map[string][]int{}
	for _, at := range factors {
		parts := slices.DeleteFunc(slices.Clone(centre), func(part int) bool { return part == at })
		name := "without " + c.all[at].subject(c.options)
		if len(parts) == len(centre) {
			name = "with " + c.all[at].subject(c.options)
			parts = append(parts, at)
			slices.Sort(parts)
		}
		members := make([]*alternative, len(parts))
		for i, part := range parts {
			members[i] = &c.all[part]
		}
		if len(parts) > 0 && allowed(c.engine, c.options, members) {
			round.entrants = append(round.entrants, entrant{name: name, group: name, setting: c.settingOf(parts)})
			changed[name] = parts
		}
	}
	if len(round.entrants) == 0 {
		return nil, nil
	}
	result, err := c.compete(ctx, round)
	if err != nil {
		return nil, err
	}
	var out [][]int
	for _, entrant := range round.entrants {
		found := c.serves(result.blocks, entrant.name)
		decision := found.heldTo(c.decisionOf(ledger.StageInteraction, round, result, entrant))
		if err := c.book.decide(decision); err != nil {
			return nil, err
		}
		if decision.Verdict == ledger.Kept {
			out = append(out, changed[entrant.name])
		}
	}
	slices.SortStableFunc(out, func(a, b []int) int { return cmp.Compare(len(a), len(b)) })
	return out, nil
}
