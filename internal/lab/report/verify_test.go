package report

import (
	"bytes"
	"regexp"
	"slices"
	"testing"

	"ossian/internal/lab/ledger"
	"ossian/internal/lab/verify/verifytest"
)

// TestPassesOwnRules holds reports to the rules for those of others (lab.md 10, V3).
func TestPassesOwnRules(t *testing.T) {
	verifytest.Passes(t, "finished.md", campaign(t).finish().report().Markdown)
	verifytest.Passes(t, "unfinished.md", campaign(t).report().Markdown)
}

// TestOneTrialPasses is about settings with one trial each: their rates on the frontier are those of
// their blocks, so that the rate per user in the same row is looked at as well.
func TestOneTrialPasses(t *testing.T) {
	m := campaign(t)
	m.lines = slices.DeleteFunc(m.lines, func(line ledger.Line) bool {
		return line.Trial != nil && (line.Trial.Role != ledger.RoleRace || line.Trial.Block != 1)
	})
	for i := range m.lines {
		m.lines[i].N = i + 1
	}
	text := m.finish().report().Markdown
	row := regexp.MustCompile("(?m)^\\| `ossian [^|]*` \\| [0-9.]+ \\| ([0-9.]+) \\| (?:dominated|on the frontier)").FindAllSubmatch(text, -1)
	block := regexp.MustCompile(`Output token throughput \(tok/s\): +([0-9.]+)`).FindAllSubmatch(text, -1)
	same := slices.ContainsFunc(row, func(row [][]byte) bool {
		return slices.ContainsFunc(block, func(block [][]byte) bool { return bytes.Equal(row[1], block[1]) })
	})
	if !same {
		t.Fatalf("no rate of the frontier is that of a block: %q, %q", row, block)
	}
	verifytest.Passes(t, "one trial.md", text)
}
