package report

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"ossian/internal/lab/ledger"
)

// A chapter is the report on one model.
type chapter struct {
	*facts
	document
	model    string
	engine   string
	baseline ledger.Setting // that options are compared with
	winner   ledger.Setting
	decided  *ledger.Decision // that says so; nil: not yet
	figures  []drawing
	prefix   string // of names of figures, where the campaign has several models
}

// newChapter finds out what was decided for a model.
func newChapter(f *facts, model, prefix string) *chapter {
	c := &chapter{facts: f, model: model, engine: f.engine(model), prefix: prefix}
	c.baseline = ledger.Setting{Engine: c.engine}
	c.winner, c.decided = f.winner(model)
	if c.decided == nil {
		c.winner = c.baseline
	} else if c.decided.Against != nil && c.decided.Against.Engine == c.engine {
		c.baseline = *c.decided.Against
	}
	return c
}

// improved reports whether another setting than the baseline is recommended.
func (c *chapter) improved() bool { return !same(&c.winner, &c.baseline) }

// title is that of the published layout (bench.md 5).
func (c *chapter) title() string {
	subject := "Throughput"
	if isTime(c.campaign.Objective.Metric) {
		subject = "Latency"
	}
	return fmt.Sprintf("Optimizing %s %s on %s", c.model, subject, c.hardwareOf())
}

// conclusion is what a reader wants who reads nothing else: what came out, how it is served, and what it
// does on every workload.
func (c *chapter) conclusion(level int) {
	c.heading(level, "Conclusion")
	rows, bars := c.beforeAfter()
	if bars != nil {
		c.figure(c.draw(bars, bars.Name, c.wordsOf(bars)))
	}
	c.verdict()
	c.recommend()
	if len(rows) > 0 {
		columns := []string{"Workload", "Baseline", "Optimized"}
		if !c.improved() {
			columns = []string{"Workload", "Baseline"}
		}
		c.table(columns, rows)
	}
	c.list(slices.Concat(c.regressions(), c.unserved(), c.uncertain()))
}

// verdict is one sentence of what was decided.
func (c *chapter) verdict() {
	switch {
	case c.decided == nil:
		c.paragraph(say("Nothing is decided yet."))
	case !c.improved() && len(c.undecided()) > 0:
		c.paragraph(say("No option is shown to be better than the defaults of " + c.engine + "; some are ").bold("not decided").and("."))
	case !c.improved():
		c.paragraph(say("No option is better than the defaults of " + c.engine + ". " + sentence(c.decided.Reason)))
	case c.decided.Effect == nil:
		c.paragraph(say("Recommended: ").code(flagsOf(&c.winner)).and(" on " + c.engine + ". " + sentence(c.decided.Reason)))
	default:
		objective, value, interval := c.gained(c.campaign.Objective.Metric, c.decided.Effect)
		c.paragraph(say("Recommended: ").code(flagsOf(&c.winner)).and(" on " + c.engine + ": " + objective + " ").bold(value).
			and(fmt.Sprintf(" %s over its defaults on %s, %s in %s. ", interval, c.campaign.Objective.Workload, c.measured(), plural(c.decided.Blocks, "block")) + sentence(c.decided.Reason)))
	}
	c.paragraph(say("Intervals are those of 95 % at any stopping point; every figure is computed from ").file(ledger.FileName).and("."))
}

// sentence begins with a capital letter and ends with a full stop.
func sentence(words string) string {
	if words == "" {
		return ""
	}
	return strings.ToUpper(words[:1]) + strings.TrimSuffix(words[1:], ".") + "."
}

// recommend shows how the winner is served.
func (c *chapter) recommend() {
	start, has := c.started(c.model, c.winner)
	if !has || len(start.Argv) == 0 || start.State != ledger.StateOK {
		return
	}
	c.paragraph(say("Serving command:"))
	c.code("shell", serving(start))
}

// usualPort stands in commands for the free one that a start had.
const usualPort = "8000"

// portFlag is where commands of most engines have their port.
var portFlag = regexp.MustCompile(`(--port[= ]|127\.0\.0\.1:)\d+`)

// serving is a start as a command with its variables, at a port that it can be repeated with.
func serving(start ledger.Start) string {
	return portFlag.ReplaceAllString(servingAsRun(start), "${1}"+usualPort)
}

// servingAsRun is a start as it was.
func servingAsRun(start ledger.Start) string {
	var out []string
	for _, variable := range start.Env {
		if name, value, set := strings.Cut(variable, "="); set { // of secrets only the name is known
			out = append(out, name+"="+commandOf([]string{value}))
		}
	}
	return strings.Join(append(out, commandOf(start.Argv)), " ")
}

// beforeAfter are baseline and winner on each workload, as table and as bars.
func (c *chapter) beforeAfter() ([][]cell, *bars) {
	var rows [][]cell
	chart := c.newBars()
	for _, load := range c.campaign.Workloads {
		p := c.bothOn(load.Name)
		if len(p.before) == 0 {
			continue
		}
		row := []cell{{lines: []text{say(load.Name)}}, c.numbers(p.before, nil)}
		if c.improved() {
			after := c.numbers(p.after, p.before)
			if !c.certain(load.Name) {
				after.tone = plain
			}
			row = append(row, after)
		}
		rows = append(rows, row)
		chart.add(c, load.Name, p)
	}
	if len(chart.Pairs) == 0 {
		return rows, nil
	}
	for i, label := range labels(chart.workloads, widestBar) {
		chart.Pairs[i].Label = label
	}
	return rows, chart
}

// bothOn pairs baseline and winner on a workload: over the trials that decided, so that table and
// sentence give one figure; else by the blocks made for the workload, those of combinations, of the race.
func (c *chapter) bothOn(workload string) pairing {
	if c.decided != nil && c.improved() && c.decided.Workload == workload {
		decided := func(t *trial) bool { return slices.Contains(c.decided.Trials, t.id) }
		if p := c.pair(c.model, workload, c.baseline, c.winner, decided); len(p.before) > 0 {
			return p
		}
	}
	for _, role := range []string{ledger.RoleGeneralise, ledger.RoleInteraction, ledger.RoleRace, ledger.RoleEngine} {
		if p := c.pair(c.model, workload, c.baseline, c.winner, func(t *trial) bool { return t.Role == role }); len(p.before) > 0 {
			return p
		}
	}
	return pairing{}
}

// certain reports whether it was decided that the winner does better or worse on a workload.
func (c *chapter) certain(workload string) bool {
	excludes := func(effect *ledger.Interval) bool { return effect != nil && (effect.Low > 0 || effect.High < 0) }
	if c.decided != nil && c.decided.Workload == workload && excludes(c.decided.Effect) {
		return true
	}
	return slices.ContainsFunc(c.about(c.model, ledger.StageGeneralise), func(d ledger.Decision) bool {
		return d.Workload == workload && excludes(d.Effect)
	})
}

// shown are the metrics of a cell: those of the published layout, and the objective.
func (c *chapter) shown() []string {
	metrics := []string{"total_token_throughput", "mean_tpot_ms"}
	if !slices.Contains(metrics, c.campaign.Objective.Metric) {
		metrics = append(metrics, c.campaign.Objective.Metric)
	}
	return metrics
}

// numbers is a cell of metrics; beside earlier ones it says how they changed.
func (c *chapter) numbers(values, before map[string]float64) cell {
	out := cell{}
	for _, metric := range c.shown() {
		value, there := values[metric]
		if !there {
			continue
		}
		line := say(c.nameOf(metric) + ": " + number(value))
		if old := before[metric]; old > 0 {
			line = line.and(" (" + change(metric, old, value) + ")")
			if metric == c.campaign.Objective.Metric {
				out.tone = toneOf(metric, old, value)
			}
		}
		out.lines = append(out.lines, line)
	}
	if len(out.lines) == 0 {
		out.lines = []text{say("-")}
	}
	return out
}

// change says how a metric changed: a percentage, or how many times faster where it is a time that fell
// to less than half.
func change(metric string, before, after float64) string {
	if isTime(metric) && after*2 < before {
		return fmt.Sprintf("%.1fx faster", before/after)
	}
	return percent(before, after)
}

// regressions are workloads on which the winner is certainly worse: they stand in the conclusion, not
// below (lab.md 4, item 8).
func (c *chapter) regressions() (out []text) {
	for _, decision := range c.about(c.model, ledger.StageGeneralise) {
		effect := decision.Effect
		if effect == nil || !same(decision.Setting, &c.winner) {
			continue
		}
		low, high := effect.Low, effect.High
		if isTime(decision.Metric) {
			low, high = -effect.High, -effect.Low
		}
		if high < 0 && low <= high {
			out = append(out, say("").bold("Worse on "+decision.Workload).and(": "+words(c.gained(decision.Metric, effect))+"."))
		}
	}
	return out
}

// undecided are the options that may be better or worse than the baseline.
func (c *chapter) undecided() (out []ledger.Decision) {
	for _, stage := range []string{ledger.StageSmoke, ledger.StageRace} { // the budget may end before an option is tried
		for _, decision := range c.about(c.model, stage) {
			if decision.Verdict == ledger.NotDecided {
				out = append(out, decision)
			}
		}
	}
	return out
}

// uncertain are statements that a reader might take for decided. Combinations are only counted: each is
// in the summary.
func (c *chapter) uncertain() (out []text) {
	combinations := 0
	for _, decision := range c.decisions {
		if decision.Model != "" && decision.Model != c.model {
			continue
		}
		what := map[string]string{ledger.StageSmoke: "Option", ledger.StageRace: "Option", ledger.StageGeneralise: "Workload", ledger.StageEngine: "Engine"}[decision.Stage]
		if decision.Stage == ledger.StageInteraction && decision.Verdict == ledger.NotDecided {
			combinations++
		}
		if decision.Verdict != ledger.NotDecided || what == "" {
			continue
		}
		line := say(what + " ").code(decision.Subject).and(": ").bold("not decided")
		if decision.Effect != nil {
			line = line.and(", " + words(c.gained(decision.Metric, decision.Effect)) + " after " + plural(decision.Blocks, "block"))
		}
		out = append(out, line.and("."))
	}
	if combinations > 0 {
		out = append(out, say(plural(combinations, "effect")+" of options beside each other: ").bold("not decided").and("; the summary has each."))
	}
	for _, decision := range c.about(c.model, ledger.StageDrift) {
		if decision.Verdict == ledger.Found {
			out = append(out, say("").bold("Drifting").and(": the machine changed during the campaign ("+decision.Reason+"). Ratios stay valid, because they compare runs of the same block; absolute values belong to their hour."))
		}
	}
	if c.campaign.Simulated {
		out = append(out, say("").bold("Simulated").and(": every figure comes from a clock, none from a server."))
	}
	return out
}

// words sets words beside each other.
func words(name, value, interval string) string { return name + " " + value + " " + interval }

// nan is a value that is not there.
var nan = math.NaN()
