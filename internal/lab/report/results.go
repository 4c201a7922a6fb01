package report

import (
	"fmt"
	"slices"
	"strings"

	"ossian/internal/lab/ledger"
)

// objective says what was improved.
func (c *chapter) objective(level int) {
	c.heading(level, "Optimization Objective")
	goal := c.campaign.Objective
	word := "Minimize"
	if goal.Maximize {
		word = "Maximize"
	}
	line := say(word + " ").code(goal.Metric).and(" on workload ").code(goal.Workload)
	if goal.Per == "gpu" {
		line = line.and(", per GPU")
	}
	for i, metric := range sortedKeys(goal.SLA) {
		sep := ", with "
		if i > 0 {
			sep = " and "
		}
		bound := "at least"
		if isTime(metric) {
			bound = "at most"
		}
		line = line.and(sep).code(metric).and(fmt.Sprintf(" %s %g", bound, goal.SLA[metric]))
	}
	c.paragraph(line.and("."))
}

// setup says with what it was measured.
func (c *chapter) setup(level int) {
	c.heading(level, "Experimental Setup")
	rows := [][]cell{cells("Model", c.model), cells("Hardware", c.cardsOf())}
	if m := c.machine; m != nil {
		rows = append(rows, cells("Processor", strings.Join(strings.Fields(m.CPU), " ")+", "+plural(m.Processors, "thread")+memoryOf(m)),
			cells("System", m.OS))
		if m.Governor != "" {
			rows = append(rows, cells("Frequency governor", m.Governor))
		}
		rows = append(rows, cells("Load before the start", fmt.Sprintf("%.2f", m.Load)))
	}
	for _, engine := range c.campaign.Engines {
		rows = append(rows, cells("Engine", strings.TrimSpace(engine+" "+c.version(engine))))
	}
	rows = append(rows, cells("Client", "ossian "+c.campaign.Version))
	c.table([]string{"What", "Which"}, rows)

	var loads [][]cell
	for _, load := range c.campaign.Workloads {
		loads = append(loads, []cell{of(say("").code(load.Name)), of(say(loadOf(load))), of(say("").code(short(load.Hash)))})
	}
	c.table([]string{"Workload", "Load", "Hash"}, loads)
	if command := c.clientCommand(); command != "" {
		c.paragraph(say("Client of one trial:"))
		c.code("shell", command)
	}
	c.method()
}

// cardsOf names the machine as the title does, with counts behind names: "2 x" in a table reads as a
// change.
func (c *chapter) cardsOf() string {
	if c.machine == nil || len(c.machine.Accelerators) == 0 {
		return c.hardwareOf()
	}
	var cards []string
	for _, card := range c.machine.Accelerators {
		cards = append(cards, card.Name+", "+plural(card.Count, "card"))
	}
	return strings.Join(cards, "; ")
}

// memoryOf is how much memory a machine has, as a part of a sentence.
func memoryOf(m *ledger.Machine) string {
	if m.MemoryBytes == 0 {
		return ""
	}
	return fmt.Sprintf(", %.1f GB of memory", float64(m.MemoryBytes)/1e9)
}

// version is what an engine said of itself.
func (c *chapter) version(engine string) string {
	for _, id := range c.startIDs {
		start := c.starts[id]
		if start.Setting.Engine == engine && start.Version != "" {
			return strings.TrimSpace(strings.TrimPrefix(start.Version, engine))
		}
	}
	return "(version not known)"
}

// clientCommand is the command of the trial in the middle of the baseline's on the objective's workload.
func (c *chapter) clientCommand() string {
	runs := c.of(c.model, c.baseline, func(t *trial) bool {
		return t.Workload == c.campaign.Objective.Workload && len(t.Command) > 0
	})
	if run := c.middle(runs); run != nil {
		return portFlag.ReplaceAllString(commandOf(run.Command), "${1}"+usualPort)
	}
	return ""
}

// method states how decisions come about, with their error rates.
func (c *chapter) method() {
	var items []text
	for _, name := range sortedKeys(c.campaign.Rules) {
		items = append(items, say("").bold(strings.ToUpper(name[:1])+name[1:]).and(": "+c.campaign.Rules[name]+"."))
	}
	if len(items) > 0 {
		c.paragraph(say("Method:"))
		c.list(items)
	}
}

// short is the beginning of a digest.
func short(digest string) string { return digest[:min(12, len(digest))] }

// results are the steps of the published layout, one for the engine and one for each option.
func (c *chapter) results(level int) {
	c.heading(level, "Experiment Results")
	step := 0
	if decisions := c.about(c.model, ledger.StageEngine); len(decisions) > 0 {
		step++
		c.engineStep(level+1, step, decisions)
	}
	if step == 0 {
		step++
		c.heading(level+1, fmt.Sprintf("%d. Baseline: %s at its defaults", step, c.engine))
		c.shownRun(c.baseline)
	}
	for _, option := range c.campaign.Options {
		if option.Engine == c.engine {
			step++
			c.optionStep(level+1, step, option)
		}
	}
}

// engineStep says which engine was chosen, and shows the baseline.
func (c *chapter) engineStep(level, step int, decisions []ledger.Decision) {
	c.heading(level, fmt.Sprintf("%d. Choosing the inference engine", step))
	var rows [][]cell
	for _, engine := range c.campaign.Engines {
		rows = append(rows, c.engineRow(engine, decisions))
	}
	c.table([]string{"Engine", ">" + c.nameOf(c.campaign.Objective.Metric), "Decision", "Why"}, rows)
	c.shownRun(c.baseline)
	c.paragraph(say("Result: ").bold(c.engine).and(" is taken for the options."))
}

// engineRow is one engine: measured, or why not.
func (c *chapter) engineRow(engine string, decisions []ledger.Decision) []cell {
	setting := ledger.Setting{Engine: engine}
	metric := c.campaign.Objective.Metric
	value, verdict, why := "-", "-", ""
	if run := c.middle(c.of(c.model, setting, func(t *trial) bool { return t.Workload == c.campaign.Objective.Workload && t.Role != ledger.RoleSmoke })); run != nil {
		value = number(c.value(run, metric))
	} else if probe := c.probe(setting); probe != nil {
		value = fmt.Sprintf("%s (%.0f requests)", number(c.value(probe, metric)), probe.Metrics["completed"])
	}
	for _, decision := range decisions {
		if decision.Setting != nil && decision.Setting.Engine == engine {
			verdict, why = decision.Verdict, decision.Reason
		}
	}
	if start, has := c.started(c.model, setting); has && start.State != ledger.StateOK && why == "" {
		why = start.Reason
	}
	return cells(engine, value, verdict, why)
}

// probe is a trial of a part of the objective's workload, of an engine that ran no more.
func (c *chapter) probe(setting ledger.Setting) *trial {
	for i := range c.trials {
		t := &c.trials[i]
		if t.Model == c.model && same(&t.Setting, &setting) && t.Workload == c.campaign.Objective.Workload && t.good(c.campaign.Objective.Metric) {
			return t
		}
	}
	return nil
}

// shownRun shows a setting by its command and one report of its client.
func (c *chapter) shownRun(setting ledger.Setting) {
	if start, has := c.started(c.model, setting); has && len(start.Argv) > 0 {
		c.paragraph(say("Serving command:"))
		c.code("shell", serving(start))
	}
	run := c.typical(setting)
	if run == nil {
		return
	}
	line := say("The trial in the middle of its kind").and(" (").code(run.id).and(")")
	if run.Result != "" {
		line = line.and(", from ").file(run.Result)
	}
	c.paragraph(line.and(":"))
	c.code("text", console(run.Metrics))
}

// typical is the trial in the middle of those that decided about a setting, on the objective's workload.
func (c *chapter) typical(setting ledger.Setting) *trial {
	for _, roles := range [][]string{{ledger.RoleRace, ledger.RoleEngine}, {ledger.RoleInteraction, ledger.RoleGeneralise}} {
		run := c.middle(c.of(c.model, setting, func(t *trial) bool {
			return t.Workload == c.campaign.Objective.Workload && slices.Contains(roles, t.Role)
		}))
		if run != nil {
			return run
		}
	}
	return nil
}

// optionStep is one option: its alternatives, the best of them in full, and the result.
func (c *chapter) optionStep(level, step int, option ledger.Option) {
	c.heading(level, fmt.Sprintf("%d. %s", step, option.Name))
	decisions := c.onOption(option)
	var rows [][]cell
	for _, decision := range decisions {
		rows = append(rows, []cell{of(say("").code(flagsOf(decision.Setting))), of(say(decision.Stage)), of(say(gain(&decision))), of(say(bracket(Gained(&decision)))),
			of(say(fmt.Sprint(decision.Blocks))), of(say(decision.Verdict)), of(say(decision.Reason))})
	}
	c.table([]string{"Setting", "Stage", ">" + c.gainName(), "95 % interval", ">Blocks", "Decision", "Why"}, rows)
	best := bestOf(decisions)
	if best == nil {
		c.paragraph(say("Result: ").bold("not measured yet").and("."))
		return
	}
	if best.Stage == ledger.StageRace && best.Setting != nil {
		c.shownRun(*best.Setting)
	}
	c.paragraph(c.result(option, best))
}

// gain is a decision's effect in words: above 0 where it is for the better.
func gain(decision *ledger.Decision) string {
	if decision.Effect == nil {
		return "-"
	}
	return share(Gained(decision).Value)
}

// gainName is what columns of gains are called.
func (c *chapter) gainName() string {
	metric := c.campaign.Objective.Metric
	return GainOf(metric, c.nameOf(metric))
}

// result is the line that ends a step.
func (c *chapter) result(option ledger.Option, best *ledger.Decision) text {
	switch best.Verdict {
	case ledger.Kept:
		line := say("Result: ").bold("kept").and(", ").code(flagsOf(best.Setting))
		if best.Effect != nil {
			line = line.and(": " + words(c.gained(best.Metric, best.Effect)))
		}
		return line.and(".")
	case ledger.NotDecided:
		return say("Result: ").bold("not decided").and(". " + sentence(best.Reason))
	}
	return say("Result: ").bold("not kept").and(". " + sentence(best.Reason))
}

// onOption are the last decisions on each alternative of an option.
func (c *chapter) onOption(option ledger.Option) (out []ledger.Decision) {
	for _, stage := range []string{ledger.StageFit, ledger.StageScreen, ledger.StageSmoke, ledger.StageRace} {
		for _, decision := range c.about(c.model, stage) {
			if decision.Setting == nil || !isAlternative(option, decision.Setting) {
				continue
			}
			place := slices.IndexFunc(out, func(other ledger.Decision) bool { return same(other.Setting, decision.Setting) })
			if place < 0 {
				out = append(out, decision)
			} else {
				out[place] = decision
			}
		}
	}
	return out
}

// isAlternative reports whether a setting is the option's alone.
func isAlternative(option ledger.Option, setting *ledger.Setting) bool {
	if setting.Engine != option.Engine || len(setting.Flags) != len(option.Flags) {
		return false
	}
	for flag, value := range setting.Flags {
		if !slices.Contains(option.Flags[flag], value) {
			return false
		}
	}
	return true
}

// bestOf is the decision that speaks for an option: the kept one, else an undecided one, else the one
// that came farthest.
func bestOf(decisions []ledger.Decision) *ledger.Decision {
	rank := func(d *ledger.Decision) int {
		switch {
		case d.Verdict == ledger.Kept && d.Stage == ledger.StageRace:
			return 3
		case d.Verdict == ledger.NotDecided:
			return 2
		case d.Stage == ledger.StageRace:
			return 1
		}
		return 0
	}
	var best *ledger.Decision
	for i := range decisions {
		d := &decisions[i]
		if d.Stage == ledger.StageSmoke && (d.Verdict == ledger.Works || d.Verdict == ledger.Kept) { // as earlier ledgers have it
			continue // it works; what it gains is not measured yet
		}
		if best == nil || rank(d) > rank(best) {
			best = d
		}
	}
	return best
}
