package report

import (
	"fmt"

	"ossian/internal/lab/ledger"
)

// service says of every setting that was raced which bounds of the plan it keeps.
func (c *chapter) service(level int) {
	var rows [][]cell
	for _, decision := range c.about(c.model, ledger.StageService) {
		for _, bound := range decision.Bounds {
			measured, interval := "not measured", "-"
			if bound.Measured != nil {
				measured = number(bound.Measured.Value)
			}
			if bound.Runs > 1 {
				interval = fmt.Sprintf("[%s, %s]", number(bound.Measured.Low), number(bound.Measured.High))
			}
			rows = append(rows, []cell{of(say("").code(flagsOf(decision.Setting))), of(say(c.nameOf(bound.Metric))), of(say(limitOf(&bound))), of(say(measured)), of(say(interval)),
				of(say(fmt.Sprint(bound.Runs))), of(say(bound.Verdict))})
		}
	}
	if len(rows) == 0 {
		return
	}
	c.heading(level, "Bounds of the plan")
	c.paragraph(say("The mean over runs, each of which is one value, with the 95 % interval of Student's t: a bound is met if all of the interval keeps it, not met if none of it does, else not certain."))
	c.table([]string{"Setting", "Metric", ">Bound", ">" + c.measuredHead(), "95 % interval", ">Runs", "Finding"}, rows)
}

// limitOf is a bound with its direction.
func limitOf(bound *ledger.Bound) string {
	if isTime(bound.Metric) {
		return "at most " + number(bound.Limit)
	}
	return "at least " + number(bound.Limit)
}

// unserved are bounds that the recommended setting breaks, or may break: they stand in the conclusion.
func (c *chapter) unserved() (out []text) {
	for _, decision := range c.about(c.model, ledger.StageService) {
		if !same(decision.Setting, &c.winner) || c.decided == nil {
			continue
		}
		for _, bound := range decision.Bounds {
			if bound.Verdict == ledger.Met {
				continue
			}
			line := say("Bound ").code(bound.Metric).and(" " + limitOf(&bound) + ": ").bold(bound.Verdict)
			if bound.Measured != nil {
				line = line.and(fmt.Sprintf(", %s in %s", number(bound.Measured.Value), plural(bound.Runs, "run")))
			}
			out = append(out, line.and("."))
		}
	}
	return out
}
