package lab

import (
	"context"
	"errors"
	"fmt"

	"ossian/internal/lab/ledger"
	"ossian/internal/lab/planfile"
	"ossian/internal/lab/race"
)

// ruleSmoke is how engines and settings are told to work at all.
const ruleSmoke = "one run on 5 % of the workload: starts, answers, at least 95 % of the requests succeed, and its rate is no less than a third of the best one's"

// chooseEngine says which engine the options are tried with: the best at its defaults on the
// objective's workload. It reports false if none serves. With one engine there is nothing to choose.
func (c *chapter) chooseEngine(ctx context.Context) (found bool, err error) {
	var working []planfile.Engine
	if len(c.plan.Engines) == 1 {
		working = c.plan.Engines
	} else if working, err = c.workingEngines(ctx); err != nil {
		return false, err
	}
	if len(working) == 0 {
		c.Say("no engine serves " + c.model)
		return false, nil
	}
	chosen := working[0]
	if len(working) > 1 {
		if chosen, err = c.raceEngines(ctx, working); err != nil {
			return false, err
		}
	} else if len(c.plan.Engines) > 1 {
		if err := c.book.decide(ledger.Decision{Stage: ledger.StageEngine, Model: c.model, Subject: chosen.Name, Setting: defaults(chosen), Workload: c.mainly.Name,
			Metric: c.plan.Objective.Metric, Verdict: ledger.Kept, Rule: ruleSmoke, Reason: "the only one that works and is not several times slower"}); err != nil {
			return false, err
		}
	}
	c.engine, c.base = chosen, *defaults(chosen)
	c.options = optionsOf(c.plan, chosen.Name)
	c.all = alternatives(chosen, c.options)
	return true, nil
}

// defaults is the setting of an engine without any option.
func defaults(engine planfile.Engine) *ledger.Setting { return &ledger.Setting{Engine: engine.Name} }

// workingEngines runs each engine on a part of the workload, and drops those that do not work or are
// several times slower, each with its reason.
func (c *chapter) workingEngines(ctx context.Context) ([]planfile.Engine, error) {
	tries := make([]outcome, len(c.plan.Engines))
	best := 0.0
	for at, engine := range c.plan.Engines {
		try, err := c.firstRun(ctx, shot{setting: *defaults(engine), workload: c.mainly, role: ledger.RoleEngine, share: smokeShare}, best)
		if err != nil && !errors.Is(err, errBudgetEnded) {
			return nil, err
		}
		tries[at] = try
		best = max(best, rateOf(try.Trial))
	}
	var working []planfile.Engine
	for at, engine := range c.plan.Engines {
		reason := c.failing(tries[at].Trial, best)
		if reason == "" {
			working = append(working, engine)
			continue
		}
		if err := c.book.decide(ledger.Decision{Stage: ledger.StageEngine, Model: c.model, Subject: engine.Name, Setting: defaults(engine), Workload: c.mainly.Name,
			Metric: c.plan.Objective.Metric, Verdict: c.verdictOf(tries[at]), Rule: ruleSmoke, Reason: reason, Trials: ids(tries[at])}); err != nil {
			return nil, err
		}
		c.Say(fmt.Sprintf("engine %s is out: %s", engine.Name, reason))
	}
	return working, nil
}

// firstRun is the run of a part of the workload that says whether a setting works. One that looks slow
// is run once more, and the faster run counts: the first may have met a busy moment of the machine.
func (c *chapter) firstRun(ctx context.Context, wanted shot, best float64) (outcome, error) {
	wanted.floor = c.floor(best)
	first, err := c.attempt(ctx, wanted)
	if rate := rateOf(first.Trial); err != nil || rate == 0 || rate >= wanted.floor || first.State == ledger.StateEarly {
		return first, err
	}
	wanted.repetition = secondLook
	second, err := c.trial(ctx, wanted)
	if rateOf(second.Trial) > rateOf(first.Trial) {
		return second, err
	}
	return first, err
}

// rateOf is the requests per second of a trial that gave some.
func rateOf(trial ledger.Trial) float64 {
	if trial.State != ledger.StateOK && trial.State != ledger.StateEarly {
		return 0
	}
	return trial.Metrics["request_throughput"]
}

// floor is the rate below which a run need not go on. Where a time is to be small a slow rate is no
// fault: fewer requests at once are faster each. Neither is it where a time is bounded: what is fastest may
// break the bound.
func (c *chapter) floor(best float64) float64 {
	if !c.plan.Objective.Maximize {
		return 0
	}
	for metric := range c.plan.Objective.SLA {
		if planfile.IsTime(metric) {
			return 0
		}
	}
	return best / slowFactor
}

// failing says what keeps a setting out of the race after its first run; empty: nothing.
func (c *chapter) failing(trial ledger.Trial, best float64) string {
	rate := rateOf(trial)
	switch {
	case trial.State == ledger.StateCut && trial.Reason == ReasonBudget:
		if trial.Seconds > 0 {
			return reasonCut
		}
		return reasonUntried
	case trial.State == ledger.StateFailed || trial.State == ledger.StateInvalid || trial.State == ledger.StateCut:
		return trial.State + ": " + trial.Reason
	case rate > 0 && rate < c.floor(best):
		return slower(trial.State, best/rate)
	case trial.State == ledger.StateEarly:
		return "stopped early: " + trial.Reason
	}
	return ""
}

// verdictOf is the verdict on what failed its first run: what the budget cut is not decided.
func (c *chapter) verdictOf(try outcome) string {
	if try.State == ledger.StateCut && try.Reason == ReasonBudget {
		return ledger.NotDecided
	}
	return ledger.Rejected
}

// raceEngines compares engines that work, the plan's first one being the baseline.
func (c *chapter) raceEngines(ctx context.Context, engines []planfile.Engine) (planfile.Engine, error) {
	rules := c.rules()
	rules.Planned, rules.Most = 6, 6
	round := heat{role: ledger.RoleEngine, workload: c.mainly, first: engineBlocks, base: *defaults(engines[0]), rules: rules}
	for _, engine := range engines[1:] {
		round.entrants = append(round.entrants, entrant{name: engine.Name, group: "engines", setting: *defaults(engine)})
	}
	result, err := c.compete(ctx, round)
	if err != nil {
		return planfile.Engine{}, err
	}
	// Keeping the bounds of the plan comes before being fast. Where intervals do not decide, the middle
	// does: some engine has to be taken.
	breaks := func(name string) bool { found := c.serves(result.blocks, name); return found.verdict == ledger.NotMet }
	at, best, broken := 0, 0.0, breaks(baseline)
	for i := range round.entrants {
		standing := result.standing(round.entrants[i].name)
		able := standing.Blocks > 0 && (standing.Verdict != race.Rejected || broken)
		if breaking := breaks(standing.Name); able && !(breaking && !broken) && (standing.Gain > best || (broken && !breaking)) {
			at, best, broken = i+1, standing.Gain, breaking
		}
	}
	for i, engine := range engines {
		decision := c.engineDecision(round, result, i, at, engine)
		name := baseline
		if i > 0 {
			name = round.entrants[i-1].name
		}
		if found := c.serves(result.blocks, name); i != at && found.verdict == ledger.NotMet {
			decision.Verdict, decision.Reason = ledger.Rejected, found.text()
		}
		if err := c.book.decide(decision); err != nil {
			return planfile.Engine{}, err
		}
	}
	c.Say("engine: " + engines[at].Name)
	return engines[at], nil
}

// engineDecision is the line about an engine that worked. The chosen one is kept even if its lead is
// not certain, which the reason then says.
func (c *chapter) engineDecision(round heat, result tally, at, chosen int, engine planfile.Engine) ledger.Decision {
	var decision ledger.Decision
	if at == 0 {
		decision = ledger.Decision{Stage: ledger.StageEngine, Model: c.model, Subject: engine.Name, Setting: &round.base, Workload: round.workload.Name,
			Metric: c.plan.Objective.Metric, Verdict: ledger.Rejected, Rule: result.Rule, Trials: result.trials(baseline), Blocks: result.Blocks, Reason: "another engine is faster"}
	} else {
		decision = c.decisionOf(ledger.StageEngine, round, result, round.entrants[at-1])
	}
	if at != chosen {
		return decision
	}
	if decision.Verdict != ledger.Kept {
		decision.Verdict, decision.Reason = ledger.Kept, "the highest middle; not every other engine is separated from it by its interval"
	}
	if at == 0 {
		decision.Reason = "no other engine is shown to be better"
	}
	return decision
}

// slower says how slow a run was, and whether it was ended for that.
func slower(state string, factor float64) string {
	if state == ledger.StateEarly {
		return fmt.Sprintf("stopped early: %.3g × slower", factor)
	}
	return fmt.Sprintf("%.3g × slower", factor)
}
