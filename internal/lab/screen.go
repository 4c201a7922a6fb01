package lab

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"ossian/internal/lab/ledger"
	"ossian/internal/lab/planfile"
)

// jointTries is how many combinations that a prediction ranks first are measured although nobody has
// shown their parts to be worth keeping.
const jointTries = 2

const (
	ruleFit    = "the memory plan: a setting that cannot fit is not measured"
	ruleScreen = "dropped only if the whole 95 % interval of every combination with it lies below that of the best combination that is predicted to keep the bounds of the plan"
)

// A forecast is a combination with its predicted objective, larger being better.
type forecast struct {
	parts            []int // indices of alternatives
	value, low, high float64
	serves           string // what it is predicted to do to the bounds of the plan: ledger.Met and its like
}

// screen drops alternatives that a prediction rules out, and returns the others with the combinations
// that it ranks first. Options outside the model are neither predicted nor dropped (lab.md 4, item 2).
func (c *chapter) screen() (survivors []int, joint [][]int, err error) {
	if c.Predictor == nil {
		return everyIndex(len(c.all)), nil, nil
	}
	// What nobody can predict alone is as if the plan had said so of it.
	modelled := make([]alternative, 0, len(c.all)) // indices differ from those of c.all
	var places []int
	for at := range c.all {
		prediction := c.Predictor.Predict(c.engine, combine(c.engine.Name, &c.all[at]), c.model, c.mainly)
		if _, known := prediction.Metrics[c.plan.Objective.Metric]; !known && prediction.Misfit == "" {
			c.all[at].opaque = true
		}
		if !c.all[at].opaque {
			modelled, places = append(modelled, c.all[at]), append(places, at)
		}
	}
	if len(modelled) == 0 {
		return everyIndex(len(c.all)), nil, nil
	}
	index := map[*alternative]int{}
	for i := range modelled {
		index[&modelled[i]] = places[i]
	}
	var forecasts []forecast
	misfits := map[int]string{}
	known := true
	eachCombination(c.engine, c.options, modelled, func(parts []*alternative) {
		var at []int
		for _, part := range parts {
			at = append(at, index[part])
		}
		prediction := c.Predictor.Predict(c.engine, combine(c.engine.Name, parts...), c.model, c.mainly)
		_, predicted := prediction.Metrics[c.plan.Objective.Metric]
		switch {
		case prediction.Misfit != "" && len(at) == 1:
			misfits[at[0]] = prediction.Misfit
		case prediction.Misfit != "": // the combination alone: its parts are tried
		case !predicted:
			known = false
		default:
			forecasts = append(forecasts, c.forecast(at, prediction))
		}
	})
	if err := c.decideMisfits(misfits); err != nil {
		return nil, nil, err
	}
	if !known || len(forecasts) == 0 { // a ranking with gaps would drop for ignorance
		return without(everyIndex(len(c.all)), misfits), nil, nil
	}
	return c.prune(forecasts, misfits)
}

// forecast turns a predicted objective so that more is better, and holds what else is predicted to the
// bounds of the plan.
func (c *chapter) forecast(parts []int, prediction Prediction) forecast {
	interval, serves := prediction.Metrics[c.plan.Objective.Metric], c.servesAsPredicted(prediction)
	if c.plan.Objective.Maximize {
		return forecast{parts, interval.Value, interval.Low, interval.High, serves}
	}
	return forecast{parts, -interval.Value, -interval.High, -interval.Low, serves}
}

// servesAsPredicted says of the bounds of the plan what a prediction does: met if all of its interval
// keeps all of them, not met if none of it keeps one.
func (c *chapter) servesAsPredicted(prediction Prediction) string {
	worst := ledger.Met
	for metric, limit := range c.plan.Objective.SLA {
		interval, known := prediction.Metrics[metric]
		verdict := ledger.NotCertain
		low, high := interval.Low-limit, interval.High-limit
		if !planfile.IsTime(metric) {
			low, high = -high, -low
		}
		switch {
		case known && high <= 0:
			verdict = ledger.Met
		case known && low > 0:
			verdict = ledger.NotMet
		}
		if severity[verdict] > severity[worst] {
			worst = verdict
		}
	}
	return worst
}

// decideMisfits writes down what cannot fit.
func (c *chapter) decideMisfits(misfits map[int]string) error {
	for at := range c.all {
		reason, misfit := misfits[at]
		if !misfit {
			continue
		}
		setting := combine(c.engine.Name, &c.all[at])
		if err := c.book.decide(ledger.Decision{Stage: ledger.StageFit, Model: c.model, Subject: c.all[at].subject(c.options), Setting: &setting, Verdict: ledger.Dropped, Rule: ruleFit, Reason: reason}); err != nil {
			return err
		}
	}
	return nil
}

// prune keeps alternatives that are part of a combination that may be the best one. Only combinations
// that are predicted to keep the bounds of the plan drop others: what is faster and breaks them is not
// recommended.
func (c *chapter) prune(forecasts []forecast, misfits map[int]string) (survivors []int, joint [][]int, err error) {
	slices.SortStableFunc(forecasts, func(a, b forecast) int { return cmp.Compare(b.value, a.value) })
	best := forecast{low: math.Inf(-1)}
	for _, candidate := range forecasts {
		if candidate.serves == ledger.Met && candidate.low > best.low {
			best = candidate
		}
	}
	within := map[int]bool{}
	for _, candidate := range forecasts {
		if candidate.high < best.low {
			continue
		}
		for _, part := range candidate.parts {
			within[part] = true
		}
		if len(candidate.parts) > 1 && len(joint) < jointTries && candidate.serves != ledger.NotMet {
			joint = append(joint, candidate.parts)
		}
	}
	for at := range c.all {
		if _, misfit := misfits[at]; misfit {
			continue
		}
		if within[at] || c.all[at].opaque {
			survivors = append(survivors, at)
			continue
		}
		if err := c.decideDropped(at, forecasts, best); err != nil {
			return nil, nil, err
		}
	}
	return survivors, joint, nil
}

// decideDropped writes down an alternative that cannot be part of the best combination.
func (c *chapter) decideDropped(at int, forecasts []forecast, best forecast) error {
	highest := forecasts[len(forecasts)-1]
	for _, candidate := range forecasts {
		if slices.Contains(candidate.parts, at) && (candidate.high > highest.high || !slices.Contains(highest.parts, at)) {
			highest = candidate
		}
	}
	setting := combine(c.engine.Name, &c.all[at])
	reach, bar := "at most", "at least"
	if !c.plan.Objective.Maximize { // forecasts are turned, their words are not
		reach, bar = bar, reach
	}
	reason := fmt.Sprintf("predicted: %s %s %s with it, %s %s without", reach, printFigure(abs(highest.high)), c.plan.Objective.Metric, bar, printFigure(abs(best.low)))
	return c.book.decide(ledger.Decision{Stage: ledger.StageScreen, Model: c.model, Subject: c.all[at].subject(c.options), Setting: &setting, Workload: c.mainly.Name,
		Metric: c.plan.Objective.Metric, Verdict: ledger.Dropped, Rule: ruleScreen, Reason: reason})
}

func abs(x float64) float64 { return max(x, -x) }

func everyIndex(count int) []int {
	out := make([]int, count)
	for i := range out {
		out[i] = i
	}
	return out
}

// without leaves out indices that have a reason.
func without(indices []int, reasons map[int]string) []int {
	return slices.DeleteFunc(indices, func(at int) bool { return reasons[at] != "" })
}
