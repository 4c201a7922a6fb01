package chart

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"ossian/internal/bench/report"
)

// A Failure is a run of a sweep, a combination, or a server, that failed or is invalid. Sweeps
// write down why beside where its result would be (bench.md 3.3); the result of an invalid run
// is there too, and what no finding of it touches can be drawn.
type Failure struct {
	Name   string // where it is in the folder: SERVE--a=1/run=0
	Reason string // on one line

	row    *row           // of an invalid run; nil = there is no result
	result *report.Result // of the same
}

// stands reports whether the failed run has values in columns that hold all the same.
func (f *Failure) stands(columns ...string) bool {
	return f.row != nil && !slices.ContainsFunc(columns, func(name string) bool { return !f.result.Stands(name) })
}

const (
	endFailure  = "failure.json"  // behind a dot of a run, behind a hyphen of what has several
	endInvalid  = ".invalid.json" // the result of a failed run
	endOfResult = ".json"
)

// runFile is the name of the result of a run.
var runFile = regexp.MustCompile(`^run=\d+\.json$`)

// addFailure reads what a sweep wrote about a failure. What cannot be read is a failure of which
// that is said.
func (s *Sweep) addFailure(dir, path string) {
	stem := strings.TrimRight(strings.TrimSuffix(path, endFailure), ".-")
	failure := Failure{Name: nameIn(dir, stem)}
	var written struct {
		Error string                     `json:"error"`
		Run   *int                       `json:"run_number"`
		Serve map[string]json.RawMessage `json:"serve_overrides"`
		Bench map[string]json.RawMessage `json:"bench_overrides"`
	}
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &written)
	}
	if failure.Reason = clean(written.Error); err != nil || failure.Reason == "" {
		failure.Reason = clean(fmt.Sprintf("%s does not say why: %v", filepath.Base(path), cmp.Or(err, errors.New(`"error" is missing`))))
	}
	// An invalid result lacks the settings that a kept one has.
	if text, err := os.ReadFile(stem + endInvalid); err == nil && strings.HasSuffix(path, "."+endFailure) {
		if results, err := report.Import(stem+endInvalid, text); err == nil && len(results) == 1 {
			invalid := newRow(filepath.Join(filepath.Dir(path), summaryFile), &results[0])
			maps.Copy(invalid.cells, settingCells(written.Serve))
			maps.Copy(invalid.cells, settingCells(written.Bench))
			if written.Run != nil {
				invalid.cells["run_number"] = numeric(float64(*written.Run))
			}
			failure.row, failure.result = &invalid, &results[0]
		}
	}
	s.failures = append(s.failures, failure)
}

// settingCells are settings as columns of a row.
func settingCells(settings map[string]json.RawMessage) map[string]cell {
	out := map[string]cell{}
	for key, raw := range settings {
		var number float64
		var text string
		switch {
		case json.Unmarshal(raw, &number) == nil:
			out[columnName(key)] = numeric(number)
		case json.Unmarshal(raw, &text) == nil:
			out[columnName(key)] = word(text)
		default:
			out[columnName(key)] = word(string(raw))
		}
	}
	return out
}

// addRuns takes the results of runs in a folder without a summary, which a sweep has that was
// cut off or ended at a failure. One that cannot be read, such as half a file, is a failure.
func (s *Sweep) addRuns(dir string, paths []string) {
	for _, path := range paths {
		together := filepath.Join(filepath.Dir(path), summaryFile) // where the runs of the combination would be
		text, err := os.ReadFile(path)
		if err == nil {
			err = s.add(together, slices.Concat([]byte("["), bytes.TrimSpace(text), []byte("]")))
		}
		if err != nil {
			s.failures = append(s.failures, Failure{Name: nameIn(dir, strings.TrimSuffix(path, endOfResult)), Reason: clean(strings.TrimPrefix(err.Error(), together+": "))})
		}
	}
}

// nameIn is how a file of a folder is called.
func nameIn(dir, path string) string {
	name, err := filepath.Rel(dir, path)
	if err != nil {
		name = path
	}
	return clean(filepath.ToSlash(name))
}

// Failures are the runs, combinations and servers of the sweep that failed, by name.
func (s *Sweep) Failures() []Failure { return s.failures }

// section is what a report says of a failure.
func (f *Failure) section(id int) section {
	return section{ID: id, Name: clip(f.Name, 200), Verdict: "bad", Short: "failed", VerdictText: "Failed or not valid: there is nothing to quote",
		Findings: []string{f.Reason}, Values: slices.Repeat([]string{"–"}, len(columns))}
}

// shown is the sweep as figures of columns show it: the runs that count, and invalid ones of
// which these columns hold.
func (s *Sweep) shown(columns ...string) (*Sweep, error) {
	out := &Sweep{rows: slices.Clone(s.rows)}
	for i := range s.failures {
		if s.failures[i].stands(columns...) {
			out.rows = append(out.rows, *s.failures[i].row)
		}
	}
	if len(out.rows) == 0 {
		return nil, fmt.Errorf("nothing to draw: every run failed or is invalid, %d in all", len(s.failures))
	}
	return out, nil
}
