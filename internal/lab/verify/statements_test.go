package verify

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ossian/internal/lazyregexp"
)

// A smallDocument is a small document of testdata/statements.
type smallDocument struct{ name, want, text string }

// statements reads a file of small documents, each below a line "=== name: what must be found".
func statements(t *testing.T, file string) []smallDocument {
	t.Helper()
	var out []smallDocument
	for part := range strings.SplitSeq("\n"+string(readFile(t, filepath.Join("statements", file))), "\n=== ") {
		title, text, ok := strings.Cut(part, "\n")
		if !ok {
			continue
		}
		name, want, _ := strings.Cut(title, ": ")
		out = append(out, smallDocument{name, want, text})
	}
	return out
}

// Untrue statements as reports, posts and pull requests have them are found, each by its rule.
func TestUntrueStatements(t *testing.T) {
	for _, s := range statements(t, "untrue.txt") {
		report, err := Documents([]Input{{s.name, []byte(s.text)}})
		if err != nil {
			t.Errorf("%s: %v", s.name, err)
			continue
		}
		found := func(f Finding) bool {
			return strings.HasPrefix(f.ID+" "+string(f.Severity), s.want) && (f.Severity == Wrong || f.Severity == Unsupported)
		}
		if !slices.ContainsFunc(report.Findings, found) {
			t.Errorf("%s: no %s in\n%s%s", s.name, s.want, s.text, report.Text())
		}
	}
}

// True statements of as many kinds and styles have nothing that is wrong.
func TestTrueStatements(t *testing.T) {
	for _, s := range statements(t, "true.txt") {
		report, err := Documents([]Input{{s.name, []byte(s.text)}})
		if err != nil {
			t.Logf("%s: %v", s.name, err)
			continue
		}
		if report.Wrong() > 0 {
			t.Errorf("%s:\n%s%s", s.name, s.text, report.Text())
		}
	}
}

// TestExpressions: an expression that is none would end the program at its first use.
func TestExpressions(t *testing.T) {
	if err := lazyregexp.Check(); err != nil {
		t.Error(err)
	}
}
