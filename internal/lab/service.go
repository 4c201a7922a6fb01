package lab

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"ossian/internal/lab/ledger"
	"ossian/internal/lab/planfile"
	"ossian/internal/lab/race"
)

// ruleService says how bounds of the plan are judged.
const ruleService = "the 95 % interval of Student's t of the mean over runs, one value for each: met if all of it keeps the bound, not met if none of it does, else not certain; two runs are the least"

// A service is what is known of the bounds that a setting has to keep.
type service struct {
	verdict string // ledger.Met and its like; empty: the plan has no bounds
	bounds  []ledger.Bound
}

// serves judges the bounds of the plan by the good trials of an entrant, each being one value: those of
// requests depend on each other.
func (c *chapter) serves(blocks []map[string]outcome, name string) service {
	var out service
	for _, metric := range slices.Sorted(maps.Keys(c.plan.Objective.SLA)) {
		var runs []float64
		for _, block := range blocks {
			if trial, there := block[name]; there && trial.State == ledger.StateOK {
				if value, has := trial.Metrics[metric]; has {
					runs = append(runs, value)
				}
			}
		}
		bound := judgeBound(metric, c.plan.Objective.SLA[metric], runs)
		out.bounds = append(out.bounds, bound)
		if out.verdict == "" || severity[bound.Verdict] > severity[out.verdict] {
			out.verdict = bound.Verdict
		}
	}
	return out
}

// holds are what the bounds of the plan say of the entrants of a heat after some blocks: who breaks one
// cannot win, and who may break one ends nobody else's race.
func (c *chapter) holds(round heat, blocks []map[string]outcome) map[string]race.Hold {
	if round.workload.Name != c.mainly.Name {
		return nil // bounds are those of the objective's workload
	}
	out := map[string]race.Hold{}
	for _, entrant := range round.entrants {
		switch c.serves(blocks, entrant.name).verdict {
		case ledger.NotCertain:
			out[entrant.name] = race.Unsure
		case ledger.NotMet:
			out[entrant.name] = race.Barred
		}
	}
	return out
}

// severity orders findings on bounds: the worst one of a setting's is its own.
var severity = map[string]int{ledger.Met: 0, ledger.NotCertain: 1, ledger.NotMet: 2}

// judgeBound holds the mean of a metric to its bound: times at most, rates at least.
func judgeBound(metric string, limit float64, runs []float64) ledger.Bound {
	sign := 1.0
	if !planfile.IsTime(metric) {
		sign = -1
	}
	turned := make([]float64, len(runs))
	for i, value := range runs {
		turned[i] = sign * value
	}
	bound := ledger.Bound{Metric: metric, Limit: limit, Runs: len(runs)}
	certificate := race.CertifyMean(turned, sign*limit)
	bound.Verdict = map[race.Certainty]string{race.Met: ledger.Met, race.Violated: ledger.NotMet, race.Open: ledger.NotCertain, race.Uncertified: ledger.NotCertain}[certificate.Certainty]
	if len(runs) == 0 {
		return bound
	}
	interval := ledger.Interval{Value: sign * certificate.Value, Low: sign * certificate.Value, High: sign * certificate.Value}
	if certificate.Certainty != race.Uncertified {
		interval.Low, interval.High = sign*certificate.Bounds.Low, sign*certificate.Bounds.High
		if sign < 0 {
			interval.Low, interval.High = interval.High, interval.Low
		}
	}
	bound.Measured = &interval
	return bound
}

// text says of each bound that is not met for certain what was measured.
func (s *service) text() string {
	var out []string
	for _, bound := range s.bounds {
		if bound.Verdict == ledger.Met {
			continue
		}
		out = append(out, describeBound(&bound))
	}
	return strings.Join(out, "; ")
}

// describeBound is a finding in words.
func describeBound(bound *ledger.Bound) string {
	words := map[string]string{ledger.Met: "keeps", ledger.NotMet: "breaks", ledger.NotCertain: "may break"}
	switch {
	case bound.Measured == nil:
		return fmt.Sprintf("%s was not measured, the bound of the plan is %s", bound.Metric, printFigure(bound.Limit))
	case bound.Runs < 2:
		return fmt.Sprintf("%s is %s in one run, which %s the bound of the plan, %s", bound.Metric, printFigure(bound.Measured.Value), words[bound.Verdict], printFigure(bound.Limit))
	}
	return fmt.Sprintf("%s is %s [%s, %s], which %s the bound of the plan, %s", bound.Metric, printFigure(bound.Measured.Value), printFigure(bound.Measured.Low), printFigure(bound.Measured.High), words[bound.Verdict], printFigure(bound.Limit))
}

// decideService writes down whether a setting keeps the bounds, with the trials that say so.
func (c *chapter) decideService(round *heat, result *tally, name string, setting ledger.Setting, found service) error {
	if found.verdict == "" {
		return nil
	}
	return c.book.decide(ledger.Decision{Stage: ledger.StageService, Model: c.model, Subject: name, Setting: &setting, Workload: round.workload.Name, Verdict: found.verdict,
		Bounds: found.bounds, Trials: result.trials(name), Blocks: len(result.blocks), Rule: ruleService, Reason: found.text()})
}

// heldTo is a decision on an entrant with what its bounds add: what breaks one cannot be kept, and
// neither can what may.
func (s *service) heldTo(decision ledger.Decision) ledger.Decision {
	switch {
	case s.verdict == ledger.NotMet:
		decision.Verdict, decision.Reason = ledger.Rejected, s.text()
	case s.verdict == ledger.NotCertain && decision.Verdict == ledger.Kept:
		decision.Verdict, decision.Reason = ledger.NotDecided, "better, and not certain to keep the bounds of the plan: "+s.text()
	}
	return decision
}
