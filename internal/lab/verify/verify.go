// Package verify says what cannot be true, or is not supported, in published benchmark
// results and reports (lab.md 7). Documents go in, findings come out: it opens no file,
// starts nothing and asks nobody. Its users need not know how results are pasted into
// Markdown, what each tool prints, or which figures follow from which.
//
// Only what contradicts the document's own printed figures, beyond the rounding of every
// operand, is called wrong. Everything that rests on how a document is to be read is
// unsupported, a caution, or information.
package verify

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"ossian/internal/lab/verify/document"
	"ossian/internal/lab/verify/statement"
)

// A Severity says how sure a finding is and what it means for the figure.
type Severity string

// The severities (lab.md 7).
const (
	Wrong       Severity = "wrong"       // contradicts other printed figures, or what is possible
	Unsupported Severity = "unsupported" // nothing in the document carries it
	Caution     Severity = "caution"     // true as printed, and easily misread
	Info        Severity = "info"        // what follows from the figures
)

// An Input is one document.
type Input struct {
	Name string // stands in findings and errors; its extension may tell the form
	Data []byte
}

// A Finding is one statement about a document.
type Finding struct {
	ID       string   `json:"id"` // V-ARITH and its like
	Severity Severity `json:"severity"`
	File     string   `json:"file"`
	Line     int      `json:"line,omitempty"` // from 1; 0 = the document as a whole, or a form without lines
	Place    string   `json:"place"`          // which block, table row or sentence
	Printed  string   `json:"printed"`
	Follows  string   `json:"follows"`
	Why      string   `json:"why"`
}

// Counts are what was found in the documents, so that a reader sees what was looked at.
type Counts struct {
	Documents int `json:"documents"`
	Blocks    int `json:"blocks"`
	Tables    int `json:"tables"`
	Commands  int `json:"commands"`
	Claims    int `json:"claims"`
}

// A Report is what Documents found, by document and line.
type Report struct {
	Counts   Counts    `json:"counts"`
	Findings []Finding `json:"findings"`
}

// An UnreadableError says that a document could not be read, or that nothing in it can be
// checked: no finding about it would mean anything.
type UnreadableError struct {
	Name string // of the document
	Err  error
}

// Error names the document; what it quotes of one is cut.
func (e *UnreadableError) Error() string { return e.Name + ": " + clip(e.Err.Error()) }

func (e *UnreadableError) Unwrap() error { return e.Err }

// maxFindings bounds what one rule says about one document; the rest is counted.
const maxFindings = 200

// An Option changes what Documents does.
type Option func(*settings)

// settings are what options change.
type settings struct{ against []Predictor }

// Documents reads the documents and applies every rule of lab.md 7 to each. An error is an
// *UnreadableError; then no document was judged.
func Documents(inputs []Input, options ...Option) (Report, error) {
	var set settings
	for _, option := range options {
		option(&set)
	}
	// All are read first: one that is unreadable must not hide behind findings on others.
	documents := make([]*document.Document, len(inputs))
	for i, input := range inputs {
		read, err := document.Read(input.Name, input.Data)
		if err != nil {
			return Report{}, &UnreadableError{input.Name, err}
		}
		documents[i] = read
	}
	report := Report{Findings: []Finding{}, Counts: Counts{Documents: len(documents)}}
	for _, doc := range documents {
		report.Counts.Blocks += len(doc.Blocks)
		report.Counts.Tables += len(doc.Tables)
		report.Counts.Commands += len(doc.Commands)
		report.Counts.Claims += len(doc.Claims) + len(doc.Memory)
		stated := statement.Check(doc)
		for _, rule := range rules {
			judge := &judge{doc: doc, id: rule.id, against: set.against}
			rule.apply(judge)
			judge.statements(stated)
			report.Findings = append(report.Findings, judge.result()...)
		}
	}
	order := map[string]int{}
	for i, input := range inputs {
		order[input.Name] = i
	}
	slices.SortStableFunc(report.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(order[a.File], order[b.File]), cmp.Compare(a.Line, b.Line))
	})
	return report, nil
}

// rules are the rules in the order of lab.md 7.
var rules = []struct {
	id    string
	apply func(*judge)
}{
	{"V-ARITH", (*judge).arithmetic},
	{"V-PCT", (*judge).percentages},
	{"V-REF", (*judge).references},
	{"V-LITTLE", (*judge).little},
	{"V-PEAK", (*judge).peaks},
	{"V-CARRY", (*judge).carry},
	{"V-TOKENS", (*judge).tokens},
	{"V-CHUNK", (*judge).chunks},
	{"V-QUEUE", (*judge).queue},
	{"V-KV", (*judge).cache},
	{"V-ROOF", (*judge).roof},
	{"V-CLAIM", (*judge).claimed},
	{"V-REPEAT", (*judge).repeats},
	{"V-SLOWER", (*judge).slower},
	{"V-DUP", (*judge).duplicates},
	{"V-MISSING", (*judge).missing},
	{"V-PRED", (*judge).predictions},
}

// A judge collects the findings of one rule about one document.
type judge struct {
	doc      *document.Document
	id       string
	against  []Predictor
	findings []Finding
	dropped  int // beyond maxFindings
}

// degrees are the severities of what package statement finds.
var degrees = map[statement.Degree]Severity{statement.Certain: Wrong, statement.Doubtful: Unsupported, statement.Notable: Caution}

// statements adds what package statement found of a judge's rule, but for lines of which the
// rule itself has said the same.
func (j *judge) statements(stated []statement.Contradiction) {
	said := map[int]bool{}
	for i := range j.findings {
		said[j.findings[i].Line] = said[j.findings[i].Line] || (j.findings[i].Line > 0 && j.findings[i].Severity == Wrong)
	}
	for _, found := range stated {
		if string(found.Rule) == j.id && !said[found.Line] {
			j.find(degrees[found.Degree], found.Line, found.Place, clip(found.Printed), found.Follows, found.Why)
		}
	}
}

// find adds a finding.
func (j *judge) find(severity Severity, line int, place, printed, follows, why string) {
	finding := Finding{ID: j.id, Severity: severity, File: j.doc.Name, Line: line, Place: place, Printed: printed, Follows: follows, Why: why}
	switch {
	case slices.Contains(j.findings, finding):
	case len(j.findings) >= maxFindings:
		j.dropped++
	default:
		j.findings = append(j.findings, finding)
	}
}

// result is what was found, with a last finding that counts what there was no room for.
func (j *judge) result() []Finding {
	if j.dropped > 0 {
		j.findings = append(j.findings, Finding{ID: j.id, Severity: Caution, File: j.doc.Name, Place: "document",
			Printed: fmt.Sprintf("%d more findings of this rule", j.dropped), Follows: "they are not listed", Why: fmt.Sprintf("a rule lists at most %d", maxFindings)})
	}
	return j.findings
}

// Wrong is how many findings have severity wrong.
func (r *Report) Wrong() int { return r.Count(Wrong) }

// Count is how many findings have a severity.
func (r *Report) Count(severity Severity) int {
	count := 0
	for i := range r.Findings {
		if r.Findings[i].Severity == severity {
			count++
		}
	}
	return count
}

// String is the finding in one line: ID severity place: what is printed, what follows, why.
func (f *Finding) String() string {
	place := f.File
	if f.Line > 0 {
		place += fmt.Sprintf(":%d", f.Line)
	}
	if f.Place != "" {
		place += " (" + f.Place + ")"
	}
	text := f.ID + " " + string(f.Severity) + " " + place + ": " + f.Printed
	if f.Follows != "" {
		text += "; " + f.Follows
	}
	if f.Why != "" {
		text += "; " + f.Why
	}
	return text
}

// Text is the report for a console: a finding a line, then what was looked at.
func (r *Report) Text() string {
	var out strings.Builder
	for i := range r.Findings {
		out.WriteString(r.Findings[i].String() + "\n")
	}
	fmt.Fprintf(&out, "%d documents, %d result blocks, %d tables, %d commands, %d claims: %d wrong, %d unsupported, %d cautions, %d notes\n",
		r.Counts.Documents, r.Counts.Blocks, r.Counts.Tables, r.Counts.Commands, r.Counts.Claims,
		r.Count(Wrong), r.Count(Unsupported), r.Count(Caution), r.Count(Info))
	return out.String()
}

// JSON is the report as indented JSON, ended by a new line.
func (r *Report) JSON() ([]byte, error) {
	text, err := json.MarshalIndent(r, "", "  ")
	return append(text, '\n'), err
}
