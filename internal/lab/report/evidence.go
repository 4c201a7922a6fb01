package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"ossian/internal/lab/ledger"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// summary is the table of all options, and what became of them together.
func (c *chapter) summary(level int) {
	c.heading(level, "Summary of Optimization Options")
	c.figure(c.effects())
	var rows [][]cell
	for _, option := range c.campaign.Options {
		if option.Engine != c.engine {
			continue
		}
		row := cells(option.Name, "-", "-", "not measured")
		if best := bestOf(c.onOption(option)); best != nil {
			gained := "-"
			if best.Verdict == ledger.Kept {
				gained = gain(best)
			}
			name := option.Name
			if len(c.onOption(option)) > 1 { // the gain is that of one of several
				name += ": " + flagsOf(best.Setting)
			}
			row = cells(name, gained, bracket(Gained(best)), best.Verdict)
		}
		rows = append(rows, row)
	}
	c.table([]string{"Option", ">" + c.gainName(), "95 % interval", "Decision"}, rows)
	c.together()
}

// together shows what options do beside each other, which one-option-at-a-time misses: how each does
// over all settings of the others, how pairs differ from their product, and joint gains.
func (c *chapter) together() {
	var effects, joint [][]cell
	for _, decision := range c.about(c.model, ledger.StageInteraction) {
		if decision.Setting == nil {
			effects = append(effects, cells(decision.Subject, gain(&decision), bracket(Gained(&decision)), decision.Verdict))
			continue
		}
		product := "-"
		if decision.Product != nil {
			product = share(ledger.Gained(decision.Metric, &ledger.Interval{Value: *decision.Product}).Value)
		}
		joint = append(joint, []cell{of(say("").code(flagsOf(decision.Setting))), of(say(product)), of(say(gain(&decision))), of(say(bracket(Gained(&decision)))), of(say(decision.Verdict)), of(say(decision.Reason))})
	}
	if len(effects) > 0 {
		c.paragraph(say("Options beside each other, from a two-level design: a main effect is the mean over all settings of the other options, a pair the joint gain over the product of both."))
		c.table([]string{"Effect", ">" + c.gainName(), "95 % interval", "Decision"}, effects)
	}
	if len(joint) > 0 {
		c.paragraph(say("Options together:"))
		c.table([]string{"Setting", ">Product of single gains", ">" + c.measuredHead() + " together", "95 % interval", "Interaction", "Why"}, joint)
	}
}

// generalised is baseline and winner on every workload.
func (c *chapter) generalised(level int) {
	decisions := c.about(c.model, ledger.StageGeneralise)
	c.heading(level, "Other Benchmark Cases")
	var rows [][]cell
	for _, decision := range decisions {
		p := c.bothOn(decision.Workload)
		metric := cmp.Or(decision.Metric, c.campaign.Objective.Metric)
		before, after, changed := "-", "-", "-"
		if decision.Effect != nil {
			changed = share(decision.Effect.Value)
		}
		tone := plain
		if old, has := p.before[metric]; has {
			before, after, changed = number(old), number(p.after[metric]), percent(old, p.after[metric])
			if decision.Effect != nil && (decision.Effect.Low > 0 || decision.Effect.High < 0) {
				tone = toneOf(metric, old, p.after[metric])
			}
		}
		effect := cell{lines: []text{say(changed)}, tone: tone}
		if !c.improved() { // nothing but the baseline was measured
			after, effect = "-", cells("-")[0]
		}
		rows = append(rows, []cell{of(say("").code(decision.Workload)), of(say(c.nameOf(metric))), of(say(before)), of(say(after)), effect, of(say(bracket(decision.Effect))), of(say(decision.Verdict))})
	}
	if len(rows) == 0 {
		c.paragraph(say("None were measured."))
		return
	}
	c.table([]string{"Workload", "Metric", ">Baseline", ">Optimized", ">Change", "95 % interval", "Decision"}, rows)
}

// behind names the trials of which the figures of the conclusion are geometric means.
func (c *chapter) behind() {
	var items []text
	for _, load := range c.campaign.Workloads {
		p := c.bothOn(load.Name)
		if len(p.behind) == 0 {
			continue
		}
		item := say("").code(load.Name).and(": ")
		for i, t := range p.behind {
			if i > 0 {
				item = item.and(", ")
			}
			if t.Result != "" {
				item = item.file(t.Result)
			} else {
				item = item.code(t.id)
			}
		}
		items = append(items, item.and("."))
	}
	if len(items) > 0 {
		c.paragraph(say("Figures of the conclusion are geometric means over these trials, baseline and winner by turns:"))
		c.list(items)
	}
}

// failures are what could not be measured: they are results too.
func (c *chapter) failures(level int) {
	var items []text
	var logs []ledger.Start
	for _, id := range c.startIDs {
		start := c.starts[id]
		if start.State == ledger.StateOK || start.Model != c.model {
			continue
		}
		line := say("").code(start.Setting.Engine + " " + flagsOf(&start.Setting)).and(": did not start: " + start.Reason)
		if start.Exit != nil {
			line = line.and(fmt.Sprintf(" (status %d)", *start.Exit))
		}
		items = append(items, line.and("."))
		logs = append(logs, start)
	}
	for i := range c.trials {
		t := &c.trials[i]
		if t.Model == c.model && t.State != ledger.StateOK && t.Start != "" && c.starts[t.Start].State == ledger.StateOK {
			items = append(items, say("").code(t.id).and(", ").code(t.Setting.Engine+" "+flagsOf(&t.Setting)).and(" on "+t.Workload+": "+t.State+": "+t.Reason+"."))
		}
	}
	if len(items) == 0 {
		return
	}
	c.heading(level, "What failed")
	c.list(items)
	for _, start := range logs {
		if len(start.Tail) > 0 {
			c.paragraph(say("Last lines of ").code(start.Setting.Engine + " " + flagsOf(&start.Setting)).and(":"))
			c.code("text", strings.Join(start.Tail, "\n"))
		}
	}
}

// predictions are set beside what was measured, with their error. The figures of a simulation are made of
// them, so that to compare them would tell nothing.
func (c *chapter) predictions(level int) {
	if c.campaign.Simulated {
		return
	}
	metric := c.campaign.Objective.Metric
	var rows [][]cell
	inside, all := 0, 0
	seen := map[string]bool{}
	for i := range c.trials {
		t := &c.trials[i]
		predicted, has := t.Predicted[metric]
		name := t.Workload + "\x00" + t.Setting.Engine + flagsOf(&t.Setting)
		if t.Model != c.model || !has || !t.good(metric) || seen[name] {
			continue
		}
		seen[name] = true
		run := c.middle(c.of(c.model, t.Setting, func(other *trial) bool { return other.Workload == t.Workload && len(other.Predicted) > 0 }))
		measured := run.Metrics[metric]
		all++
		if measured >= predicted.Low && measured <= predicted.High {
			inside++
		}
		rows = append(rows, []cell{of(say("").code(t.Workload)), of(say("").code(flagsOf(&t.Setting))), of(say(number(predicted.Value))), of(say(fmt.Sprintf("[%s, %s]", number(predicted.Low), number(predicted.High)))),
			of(say(number(measured))), of(say(share(predicted.Value/measured - 1)))})
	}
	if all == 0 {
		return
	}
	c.heading(level, "Predicted and measured")
	c.paragraph(say(fmt.Sprintf("%s of %s, the trial in the middle: %d of %d measured values lie within the predicted interval.", c.nameOf(metric), plural(all, "setting"), inside, all)))
	c.table([]string{"Workload", "Setting", ">Predicted", "95 % interval", ">Measured", ">Error"}, rows)
}

// frontierPart shows what users get against what devices give.
func (c *chapter) frontierPart(level int) {
	speeds := c.speeds()
	if len(speeds) < 2 {
		return
	}
	c.heading(level, "Frontier")
	c.figure(c.frontierFigure(speeds))
	var rows [][]cell
	for _, s := range speeds {
		on := "dominated"
		if s.best {
			on = "on the frontier"
		}
		rows = append(rows, []cell{of(say("").code(s.setting.Engine + " " + flagsOf(&s.setting))), of(say(number(s.user))), of(say(number(s.share))), of(say(on))})
	}
	c.table([]string{"Setting", ">Tokens/s per user", ">Output tokens/s per device", "Frontier"}, rows)
}

// equalities says whether answers stayed the same.
func (c *chapter) equalities(level int) {
	var rows [][]cell
	for _, e := range c.equality {
		if e.Model != c.model {
			continue
		}
		why := e.Text
		if e.Lossy {
			why = strings.TrimPrefix(why+"; declared lossy: quality has to be evaluated", "; ")
		}
		rows = append(rows, []cell{of(say("").code(e.Setting.Engine + " " + flagsOf(&e.Setting))), of(say(e.Verdict)), of(say(fmt.Sprintf("%d of %d", e.Same, e.Prompts))), of(say(fmt.Sprint(e.Near))),
			of(say(fmt.Sprint(e.Differ))), of(say(e.By)), of(say(why))})
	}
	if len(rows) == 0 {
		return
	}
	c.heading(level, "Equality of answers")
	c.table([]string{"Setting", "Against the baseline", ">Same", ">Near ties", ">Different", "Compared by", "First difference"}, rows)
}

// cost is what a million tokens take in money and energy; what was not measured says so.
func (c *chapter) cost(level int) {
	c.heading(level, "Cost and energy")
	price := 0.0
	if c.machine != nil {
		price = c.machine.PricePerHour
	}
	var rows [][]cell
	settings := []ledger.Setting{c.baseline}
	if c.improved() {
		settings = append(settings, c.winner)
	}
	for _, setting := range settings {
		for _, load := range c.campaign.Workloads {
			if row := c.costRow(setting, load.Name, price); row != nil {
				rows = append(rows, row)
			}
		}
	}
	switch {
	case price == 0 && c.campaign.Simulated:
		c.paragraph(say("Cost: not computed, because nothing was measured."))
	case price == 0:
		c.paragraph(say("Cost: not computed, because the plan states no ").code("machine.price_per_hour").and("."))
	}
	if c.campaign.Simulated {
		return
	}
	c.paragraph(c.energyWords())
	c.table([]string{"Setting", "Workload", ">Cost per million tokens", ">Cost per million output tokens", ">Joule per token", ">Joule per output token"}, rows)
}

// costRow is one setting on one workload.
func (c *chapter) costRow(setting ledger.Setting, workload string, price float64) []cell {
	runs := c.of(c.model, setting, func(t *trial) bool {
		return t.Workload == workload && t.Role != ledger.RoleSmoke && t.good("total_token_throughput")
	})
	if len(runs) == 0 {
		return nil
	}
	var total, output, joules, tokens, written float64
	measured := true
	for _, run := range runs {
		total += math.Log(run.Metrics["total_token_throughput"])
		output += math.Log(run.Metrics["output_throughput"])
		if run.Joules == nil {
			measured = false
			continue
		}
		joules += *run.Joules
		tokens += run.Metrics["total_input_tokens"] + run.Metrics["total_output_tokens"]
		written += run.Metrics["total_output_tokens"]
	}
	count := float64(len(runs))
	money := func(rate float64) string {
		if price == 0 || !(rate > 0) {
			return "-"
		}
		return fmt.Sprintf("%.4f", price/3600/rate*1e6)
	}
	energy := func(count float64) string {
		if !measured || !(count > 0) {
			return "not measured"
		}
		return fmt.Sprintf("%.3g", joules/count)
	}
	return []cell{of(say("").code(flagsOf(&setting))), of(say("").code(workload)), of(say(money(math.Exp(total / count)))), of(say(money(math.Exp(output / count)))), of(say(energy(tokens))), of(say(energy(written)))}
}

// energyWords say what energy is of.
func (c *chapter) energyWords() text {
	power := ""
	if c.machine != nil {
		power = c.machine.Power
	}
	var of []string
	if strings.Contains(power, "rapl") && !strings.HasPrefix(power, "not") {
		of = append(of, "processors (RAPL)")
	}
	if strings.Contains(power, "nvidia-smi") && !strings.HasPrefix(power, "not") {
		of = append(of, "cards (power.draw of nvidia-smi, integrated)")
	}
	if len(of) == 0 {
		return say("Energy: " + cmp.Or(power, "not measured") + ".")
	}
	return say("Energy: of " + strings.Join(of, " and ") + ", over runs alone.")
}

// steadiness shows the baseline over time.
func (c *chapter) steadiness(level int) {
	decisions := c.about(c.model, ledger.StageDrift)
	picture := c.drift()
	if len(decisions) == 0 && picture == nil {
		return
	}
	c.heading(level, "Drift")
	for _, decision := range decisions {
		c.paragraph(say(sentence(strings.TrimSpace(decision.Verdict + ": " + decision.Reason))))
	}
	c.figure(picture)
}

// repeat says how one trial is measured again.
func (c *chapter) repeat(level int) {
	c.heading(level, "How to repeat it")
	again := "measures"
	if c.campaign.Simulated {
		again = "simulates"
	}
	command := strings.Join(append([]string{"ossian lab run plan.yaml"}, commandOf(append(slices.Clone(c.campaign.Flags), "--out", "DIR"))), " ")
	c.paragraph(say("The plan with every default is ").file("plan.yaml").and("; ").code(command).and(" in another directory " + again + " all of it again."))
	if start, has := c.started(c.model, c.winner); has && len(start.Argv) > 0 && !c.campaign.Simulated {
		if command := c.clientCommand(); command != "" {
			c.paragraph(say("One trial: serve in one terminal, measure in another."))
			c.code("shell", serving(start)+"\n"+command)
		}
	}
	var items []text
	for _, note := range c.notes {
		items = append(items, say(sentence(note)))
	}
	if len(items) > 0 {
		c.paragraph(say("Notes of the campaign:"))
		c.list(items)
	}
}
