package report

import (
	"testing"

	"ossian/internal/lab/verify/verifytest"
)

// TestPassesOwnRules holds reports to the rules for those of others (lab.md 10, V3).
func TestPassesOwnRules(t *testing.T) {
	verifytest.Passes(t, "finished.md", campaign(t).finish().report().Markdown)
	verifytest.Passes(t, "unfinished.md", campaign(t).report().Markdown)
}
