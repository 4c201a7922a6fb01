package lab

import (
	"ossian/internal/lab/ledger"
	"ossian/internal/lab/race"
)

// drift looks at the baseline over the time of the race (lab.md 4.4). Ratios stay valid whatever it
// finds; what it marks are absolute values.
func (c *chapter) drift(result tally) error {
	var readings []race.Reading
	var trials []string
	for number, block := range result.blocks {
		outcome, there := block[baseline]
		value, good := c.value(outcome.Trial)
		if there && good && outcome.State == ledger.StateOK {
			// Blocks are even steps of time but for those that are shorter towards the end, which the
			// rank of a slope does not mind.
			readings = append(readings, race.Reading{At: float64(number), Value: value})
			trials = append(trials, outcome.id)
		}
	}
	found := race.Sentinel(readings)
	decision := ledger.Decision{Stage: ledger.StageDrift, Model: c.model, Subject: "baseline", Setting: &c.base, Workload: c.mainly.Name, Metric: c.plan.Objective.Metric,
		Verdict: ledger.None, Trials: trials, Blocks: len(readings), Reason: found.String(),
		Rule: "median of the slopes of all pairs of the baseline's values over blocks, with its 95 % interval; drifting if that excludes 0 and the change exceeds 2 %"}
	switch {
	case !found.Formed:
		decision.Verdict = ledger.NotDecided
	case found.Drifting:
		decision.Verdict = ledger.Found
		c.Say(found.String())
	}
	if found.Formed {
		decision.Effect = finite(&ledger.Interval{Value: found.Change, Low: found.Interval.Low, High: found.Interval.High})
	}
	return c.book.decide(decision)
}
