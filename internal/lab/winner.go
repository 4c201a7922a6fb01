package lab

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"ossian/internal/lab/ledger"
)

// WinnerFile is the recommended setting as the engine reads it.
const WinnerFile = "winner.yaml"

// conclude writes the recommendation: a decision, and a file that the engine reads.
func (c *chapter) conclude(best choice) error {
	decision := ledger.Decision{Stage: ledger.StageWinner, Model: c.model, Subject: printSetting(best.setting), Setting: &best.setting, Against: &c.base, Workload: c.mainly.Name,
		Metric: c.plan.Objective.Metric, Verdict: ledger.Kept, Trials: best.trials, Blocks: best.blocks, Rule: best.rule, Reason: best.reason}
	if best.measured {
		decision.Effect = &best.effect
	}
	if len(best.parts) == 0 {
		decision.Verdict = ledger.None
	}
	if decision.Rule == "" {
		decision.Rule = "kept: the interval excludes 0 and its middle is at least 1 %"
	}
	if err := c.book.decide(decision); err != nil {
		return err
	}
	c.Say("winner: " + describeDecision(&decision))
	name := WinnerFile
	if len(c.plan.Models) > 1 { // a file for each chapter
		name = "winner-" + fileName(c.model) + ".yaml"
	}
	return ledger.WriteFile(filepath.Join(c.Dir, name), []byte(c.winnerText(best)))
}

// winnerText is a configuration with its evidence as comments. Flags are keys, as ossian serve --config
// and vllm serve --config have them.
func (c *chapter) winnerText(best choice) string {
	var out strings.Builder
	comment := func(format string, values ...any) {
		for _, line := range strings.Split(fmt.Sprintf(format, values...), "\n") {
			out.WriteString("# " + strings.Map(printable, line) + "\n")
		}
	}
	comment("What campaign %s recommends for %s with %s.", c.plan.Name, c.model, c.engine.Name)
	comment("Objective: %s on %s.", c.plan.Objective.Metric, c.mainly.Name)
	if best.measured {
		word := "Measured"
		if c.Simulated {
			word = "Simulated"
		}
		comment("%s: %s against the defaults, %d blocks.", word, describeEffect(c.plan.Objective.Metric, &best.effect), best.blocks)
	}
	comment("Why: %s.", best.reason)
	if len(best.trials) > 0 {
		comment("Trials: %s.", strings.Join(best.trials, " "))
	}
	if c.Simulated {
		comment("SIMULATED%s: no figure was measured.", strings.Replace(strings.TrimPrefix(c.machine.CPU, "simulated"), " ", " on ", 1))
	}
	flags := map[string]string{}
	maps.Copy(flags, c.engine.Flags)
	maps.Copy(flags, best.setting.Flags)
	if len(flags) == 0 {
		comment("The defaults: no setting is changed.")
	}
	fmt.Fprintf(&out, "model: %s\n", strconv.QuoteToGraphic(c.model))
	for _, flag := range slices.Sorted(maps.Keys(flags)) {
		fmt.Fprintf(&out, "%s: %s\n", flag, yamlScalar(flags[flag]))
	}
	return out.String()
}

// printable keeps comments on their line.
func printable(letter rune) rune {
	if !strconv.IsPrint(letter) {
		return ' '
	}
	return letter
}

// yamlScalar writes numbers and switches as they are, and everything else as a quoted string, whose
// escapes are JSON's.
func yamlScalar(value string) string {
	if value == "true" || value == "false" {
		return value
	}
	if _, err := strconv.ParseFloat(value, 64); err == nil && !strings.ContainsAny(value, "xXpPiInN_") {
		return value
	}
	return strconv.QuoteToGraphic(value)
}

// fileName is a model's name with what directories and shells would take amiss replaced.
func fileName(model string) string {
	return strings.Map(func(letter rune) rune {
		if letter == '-' || letter == '.' || letter == '_' || ('0' <= letter && letter <= '9') || ('a' <= letter && letter <= 'z') || ('A' <= letter && letter <= 'Z') {
			return letter
		}
		return '-'
	}, strings.Trim(filepath.ToSlash(model), "/."))
}
