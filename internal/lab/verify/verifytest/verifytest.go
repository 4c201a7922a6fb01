// Package verifytest is for tests of what writes reports: the reports must pass the rules
// that others' reports are judged by (lab.md 10, V3).
package verifytest

import (
	"testing"

	"ossian/internal/lab/verify"
)

// Passes fails t where something in a report is wrong, and where neither a result block nor a
// table was found in it, so that a report in a form that cannot be read does not pass. It
// returns the report for tests that expect findings of other severities.
func Passes(t testing.TB, name string, text []byte, options ...verify.Option) verify.Report {
	t.Helper()
	report, err := verify.Documents([]verify.Input{{Name: name, Data: text}}, options...)
	if err != nil {
		t.Errorf("%v", err)
		return report
	}
	if report.Counts.Blocks+report.Counts.Tables == 0 {
		t.Errorf("%s: neither a result block nor a table was found in it", name)
	}
	for i := range report.Findings {
		if report.Findings[i].Severity == verify.Wrong {
			t.Errorf("%s", report.Findings[i].String())
		}
	}
	return report
}
