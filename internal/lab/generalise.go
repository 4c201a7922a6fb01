package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"ossian/internal/lab/ledger"
	"ossian/internal/lab/planfile"
)

// workloadBlocks is how often baseline and winner run each further workload (lab.md 4, item 8).
const workloadBlocks = 3

// others are the workloads of the plan but for the objective's.
func (c *campaign) others() []planfile.Workload {
	return slices.DeleteFunc(slices.Clone(c.plan.Workloads), func(w planfile.Workload) bool { return w.Name == c.plan.Objective.On })
}

// reserveGeneralise is what the other workloads are expected to take.
func (c *chapter) reserveGeneralise() reserve {
	var out reserve
	for _, workload := range c.others() {
		if c.plan.Budget.Time > 0 {
			out.seconds += 2 * workloadBlocks * c.cost(c.base, workload)
		}
		if c.plan.Budget.Trials > 0 {
			out.trials += 2 * workloadBlocks
		}
	}
	return out
}

// generalise runs baseline and winner on every other workload, and says where the winner is worse.
func (c *chapter) generalise(ctx context.Context, best choice) error {
	workloads := c.others()
	if len(c.all) == 0 { // nothing was raced, so that nothing but a probe has run the objective's
		workloads = append(workloads, c.mainly)
	}
	for place, workload := range workloads {
		round := heat{role: ledger.RoleGeneralise, workload: workload, first: generaliseBlocks + 20*place, base: c.base, rules: c.rules()}
		round.rules.Planned, round.rules.Most = workloadBlocks, workloadBlocks
		var err error
		if len(best.parts) == 0 {
			err = c.generaliseBaseline(ctx, round)
		} else {
			err = c.generaliseWinner(ctx, round, best)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// generaliseBaseline measures the baseline alone: it is the winner, and its figures are wanted all the
// same.
func (c *chapter) generaliseBaseline(ctx context.Context, round heat) error {
	var trials []string
	var result tally
	settings := map[string]ledger.Setting{baseline: round.base}
	for number := range workloadBlocks {
		if !c.affords(round.workload, round.reserve, []string{baseline}, settings) {
			c.exhausted = true
			break
		}
		block, err := c.block(ctx, round, round.first+number+1, []string{baseline}, settings)
		if errors.Is(err, errBudgetEnded) {
			break
		}
		if err != nil {
			return err
		}
		trials, result.blocks = append(trials, block[baseline].id), append(result.blocks, block)
	}
	if round.workload.Name == c.mainly.Name { // no race has judged its bounds
		if err := c.decideService(&round, &result, baseline, c.base, c.serves(result.blocks, baseline)); err != nil {
			return err
		}
	}
	return c.book.decide(ledger.Decision{Stage: ledger.StageGeneralise, Model: c.model, Subject: round.workload.Name, Setting: &round.base, Workload: round.workload.Name,
		Metric: c.plan.Objective.Metric, Verdict: ledger.None, Trials: trials, Blocks: len(trials), Rule: "the baseline alone", Reason: "the defaults are recommended: there is nothing to compare"})
}

// generaliseWinner compares the winner with the baseline on one workload.
func (c *chapter) generaliseWinner(ctx context.Context, round heat, best choice) error {
	round.entrants = []entrant{{name: round.workload.Name, setting: best.setting}}
	result, err := c.compete(ctx, round)
	if err != nil {
		return err
	}
	decision := c.decisionOf(ledger.StageGeneralise, round, result, round.entrants[0])
	// Here it is not asked whether to keep the setting, but whether it is worse somewhere.
	standing := result.Standings[0]
	switch {
	case !standing.Formed:
		decision.Verdict = ledger.NotDecided
	case standing.Interval.High < 0:
		decision.Verdict, decision.Reason = ledger.Rejected, "regression: the winner is worse on this workload"
	case standing.Interval.Low > 0:
		decision.Verdict, decision.Reason = ledger.Kept, "better here as well"
	default:
		decision.Verdict, decision.Reason = ledger.NotDecided, fmt.Sprintf("no difference is certain after %d blocks", standing.Blocks)
	}
	c.Say("on " + describeDecision(&decision))
	return c.book.decide(decision)
}
