package lab

import (
	"context"
	"errors"
	"fmt"
	"math"

	"ossian/internal/lab/ledger"
	"ossian/internal/lab/race"
)

// A raced alternative is one with what its race said of it.
type raced struct {
	at       int // index of the alternative
	standing race.Standing
	verdict  string
	service  string // what is known of the bounds of the plan: ledger.Met and its like; empty: it has none
	trials   []string
	rule     string
}

// race compares each survivor alone with the baseline (lab.md 4, item 4).
func (c *chapter) race(ctx context.Context, survivors []int) ([]raced, error) {
	if len(survivors) == 0 {
		return nil, nil
	}
	rules := c.rules()
	rules.Level = levelSingle
	round := heat{role: ledger.RoleRace, workload: c.mainly, base: c.base, rules: rules}
	for _, at := range survivors {
		a := &c.all[at]
		round.entrants = append(round.entrants, entrant{name: a.subject(c.options), group: c.options[a.option].Name, setting: combine(c.engine.Name, a)})
	}
	round.reserve = c.reserveAfter(survivors)
	// Without a winner the other workloads need the baseline alone: half of what is kept for both.
	generalise := c.reserveGeneralise()
	round.lean = &reserve{round.reserve.trials - generalise.trials/2, round.reserve.seconds - generalise.seconds/2}
	result, err := c.compete(ctx, round)
	if err != nil {
		return nil, err
	}
	var out []raced
	for i, at := range survivors {
		found := c.serves(result.blocks, round.entrants[i].name)
		decision := found.heldTo(c.decisionOf(ledger.StageRace, round, result, round.entrants[i]))
		err := errors.Join(c.book.decide(decision), c.decideService(&round, &result, round.entrants[i].name, round.entrants[i].setting, found))
		if err != nil {
			return nil, err
		}
		c.Say(describeDecision(&decision))
		out = append(out, raced{at, result.standing(round.entrants[i].name), decision.Verdict, found.verdict, decision.Trials, decision.Rule})
	}
	c.service = c.serves(result.blocks, baseline)
	if err := c.decideService(&round, &result, baseline, c.base, c.service); err != nil {
		return nil, err
	}
	if result.End == race.Unheard {
		c.works = "the baseline failed in too many blocks"
	}
	return out, c.drift(result)
}

// joinShare is the part of a budget that is kept for settings together, if there are several.
const joinShare = 0.15

// reserveAfter is what a race leaves of the budget: blocks on the other workloads, and those of settings
// together, if the part that is kept for them would be enough for a design.
func (c *chapter) reserveAfter(survivors []int) reserve {
	out := c.reserveGeneralise()
	options := map[int]bool{}
	for _, at := range survivors {
		options[c.all[at].option] = true
	}
	if len(options) < 2 {
		return out
	}
	points := designPoints(len(options))
	if seconds := joinShare * c.plan.Budget.Time.Seconds() / float64(len(c.plan.Models)); seconds >= float64(points)*c.cost(c.base, c.mainly) {
		out.seconds += seconds
	}
	if trials := int(joinShare * float64(c.plan.Budget.Trials) / float64(len(c.plan.Models))); trials >= points {
		out.trials += trials
	}
	return out
}

// designPoints is how many settings a design of some options has.
func designPoints(options int) int {
	switch {
	case options > mostFactors:
		return 1 + options
	case options > 4: // half of all combinations
		return 1 << (options - 1)
	}
	return 1 << options
}

// describeDecision is a decision in a line for the terminal.
func describeDecision(decision *ledger.Decision) string {
	out := fmt.Sprintf("%s: %s", decision.Subject, decision.Verdict)
	if decision.Effect != nil {
		out += " (" + describeEffect(decision.Metric, decision.Effect) + ")"
	}
	if decision.Reason != "" {
		out += ": " + decision.Reason
	}
	return out
}

// describeEffect is a gain with its sign as tables have it: above 0 where it is for the better.
func describeEffect(metric string, effect *ledger.Interval) string {
	if ledger.IsTime(metric) {
		effect, metric = ledger.Gained(metric, effect), "less "+metric
	}
	return fmt.Sprintf("%s %+.1f %% [%+.1f, %+.1f]", metric, 100*effect.Value, 100*effect.Low, 100*effect.High)
}

// tokensOf are the tokens that a trial read and wrote.
func tokensOf(trial ledger.Trial) float64 {
	return math.Max(trial.Metrics["total_input_tokens"]+trial.Metrics["total_output_tokens"], 1)
}
