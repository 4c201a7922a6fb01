package eval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"ossian/internal/eval/ask"
	"ossian/internal/eval/task"
)

// An Outcome is what became of an entry. Right, wrong and no answer are by the strict rule.
type Outcome string

// The outcomes.
const (
	Right     Outcome = "right"
	Wrong     Outcome = "wrong"
	NoAnswer  Outcome = "no answer"
	Truncated Outcome = "truncated"
	Refused   Outcome = "refused"
	Failed    Outcome = "failed"
)

// Outcomes are all, in the order of tables.
var Outcomes = []Outcome{Right, Wrong, NoAnswer, Truncated, Refused, Failed}

// An Item is an entry with its answer, as the log and the result have it: no text of either.
type Item struct {
	Run            int            `json:"run"`
	Question       int            `json:"question"`
	Repeat         int            `json:"repeat"`
	ID             string         `json:"id"` // of the question
	Outcome        Outcome        `json:"outcome"`
	Reference      string         `json:"reference"`       // what the published rule takes as the answer
	Strict         string         `json:"strict"`          // what the strict rule takes
	ReferenceRight bool           `json:"reference_right"` // by the published rule
	Chars          int            `json:"chars"`           // of the answer
	Input          int            `json:"input_tokens"`    // -1 = not told, here and below
	Output         int            `json:"output_tokens"`
	Reasoning      int            `json:"reasoning_tokens"`
	Calls          map[string]int `json:"calls,omitempty"` // of tools
	Fingerprint    string         `json:"system_fingerprint,omitempty"`
	Tries          int            `json:"tries"`
	First          float64        `json:"ttft"`    // seconds to the first text; 0 = none came
	Seconds        float64        `json:"seconds"` // of the last try
	Error          string         `json:"error,omitempty"`
}

// newItem judges an answer. What the published rule makes of a truncated text is kept: the
// published evaluation judges it too. By the strict rule it is no answer.
func newItem(run int, set *task.Set, entry *task.Entry, answer *ask.Answer) Item {
	verdict := set.Task.Judge(answer.Text, entry.Right)
	item := Item{Run: run, Question: entry.Question, Repeat: entry.Repeat, ID: set.Questions[entry.Question].ID,
		Reference: set.Task.Shown(verdict.Reference), Strict: set.Task.Shown(verdict.Strict), ReferenceRight: verdict.ReferenceRight,
		Chars: utf8.RuneCountInString(answer.Text), Input: answer.Input, Output: answer.Output, Reasoning: answer.Reasoning, Calls: answer.Calls,
		Fingerprint: answer.Fingerprint, Tries: answer.Tries, First: milli(answer.First), Seconds: milli(answer.Total), Error: answer.Error}
	// Refused and failed answers have no text that could be right, whatever the rule makes of it.
	switch {
	case answer.Outcome == ask.Truncated:
		item.Outcome = Truncated
	case answer.Outcome == ask.Refused:
		item.Outcome, item.ReferenceRight = Refused, false
	case answer.Outcome == ask.Failed:
		item.Outcome, item.ReferenceRight = Failed, false
	case verdict.StrictRight:
		item.Outcome = Right
	case verdict.Strict == "":
		item.Outcome = NoAnswer
	default:
		item.Outcome = Wrong
	}
	return item
}

// milli is a time in seconds, to the millisecond.
func milli(d time.Duration) float64 { return math.Round(d.Seconds()*1000) / 1000 }

// A Result is an evaluation.
type Result struct {
	Schema      int           `json:"schema"`
	Version     string        `json:"version"` // of Ossian
	Began       time.Time     `json:"began"`
	Seconds     float64       `json:"seconds"` // of the part that made this result, if it was cut
	Asked       Asked         `json:"asked"`
	Server      Server        `json:"server"`
	Fingerprint []string      `json:"system_fingerprints"` // in the order in which they came
	Valid       bool          `json:"valid"`               // so few failed that the scores count
	Complete    bool          `json:"complete"`            // everything was asked
	Findings    []string      `json:"findings"`
	Notes       []string      `json:"notes"`
	Runs        []*RunResult  `json:"runs"`
	Compared    []Publication `json:"published,omitempty"`
}

// A RunResult is one combination of task, model and effort. Runs with tools are a column of their
// own: tools are part of what a run is.
type RunResult struct {
	Task      string          `json:"task"`
	Model     string          `json:"model"`
	Effort    string          `json:"effort"`
	Tools     []string        `json:"tools"`
	SHA256    string          `json:"data_sha256"`
	Known     bool            `json:"data_known"` // the hash is one of published data
	Expected  int             `json:"expected"`   // answers
	Outcomes  map[Outcome]int `json:"outcomes"`
	Reference *Score          `json:"reference"` // nil = nothing was answered
	Strict    *Score          `json:"strict"`
	Input     int             `json:"input_tokens"`
	Output    int             `json:"output_tokens"`
	Calls     map[string]int  `json:"calls,omitempty"`
	Band      *task.Band      `json:"band,omitempty"`
	InBand    bool            `json:"in_band"` // or it has none
	Items     []Item          `json:"items"`
	ordered   int             // questions of the data
}

// Label is how tables name a run.
func (r *RunResult) Label() string {
	if len(r.Tools) == 0 {
		return r.Task
	}
	return r.Task + " with " + strings.Join(r.Tools, ", ")
}

// known are the hashes of the data sets that published scores are of, by task. Nobody has published
// one yet.
var known = map[string][]string{}

// result puts the answers together. asked is why not all are there; nil = they are.
func (r *runner) result(began time.Time, server, after Server, asked error) *Result {
	out := &Result{Schema: schema, Version: r.o.Version, Began: began.UTC().Truncate(time.Millisecond), Seconds: milli(r.live.State().Elapsed), Asked: r.o.identity(), Server: server,
		Valid: true, Complete: asked == nil, Findings: []string{}, Notes: []string{}, Fingerprint: []string{}}
	for i := range r.plan {
		run := r.runResult(i)
		out.Runs = append(out.Runs, run)
		for _, item := range run.Items {
			if item.Fingerprint != "" && !slices.Contains(out.Fingerprint, item.Fingerprint) {
				out.Fingerprint = append(out.Fingerprint, item.Fingerprint)
			}
		}
	}
	for _, set := range r.o.Sets {
		for _, note := range set.Notes {
			out.Notes = append(out.Notes, set.Task.Name+": "+note)
		}
		if !set.Task.Generated() && !slices.Contains(known[set.Task.Name], set.SHA256) {
			out.Notes = append(out.Notes, fmt.Sprintf("%s: the data with SHA-256 %.12s… is not known here: compare its hash with that of whoever published a score", set.Task.Name, set.SHA256))
		}
	}
	out.find(r.o.Published)
	if out.Server.Engine == nil && len(r.o.Models) == 1 { // of several models this one may have come to memory since
		out.Server.Engine = after.engines[r.o.Models[0]]
	}
	for _, change := range server.changes(&after) {
		out.Findings = append(out.Findings, "the server changed in mid-run: "+change)
	}
	if errors.Is(asked, context.Canceled) {
		out.Findings = append(out.Findings, "the run was interrupted: these are the answers that there are")
	}
	return out
}

// runResult puts the answers of a run together.
func (r *runner) runResult(at int) *RunResult {
	plan := &r.plan[at]
	run := &RunResult{Task: plan.set.Task.Name, Model: plan.model, Effort: plan.effort, Tools: r.o.Tools, SHA256: plan.set.SHA256,
		Known: slices.Contains(known[plan.set.Task.Name], plan.set.SHA256), Expected: len(plan.entries), Band: plan.set.Task.Band,
		Items: sorted(r.items[at]), Outcomes: map[Outcome]int{}, ordered: len(plan.set.Questions)}
	if run.Tools == nil {
		run.Tools = []string{}
	}
	for _, item := range run.Items {
		run.Outcomes[item.Outcome]++
		// A server that does not count says -1.
		run.Input += max(item.Input, 0)
		run.Output += max(item.Output, 0)
		for name, n := range item.Calls {
			if run.Calls == nil {
				run.Calls = map[string]int{}
			}
			run.Calls[name] += n
		}
	}
	run.score()
	return run
}

// score computes both scores from the items.
func (r *RunResult) score() {
	r.Reference = scoreOf(r.tallies(func(item *Item) bool { return item.ReferenceRight }))
	r.Strict = scoreOf(r.tallies(func(item *Item) bool { return item.Outcome == Right }))
	r.InBand = r.Band == nil || (r.Strict != nil && r.Strict.Mean >= r.Band.Low && r.Strict.Mean <= r.Band.High)
}

func scoreOf(tallies []Tally) *Score {
	if s, ok := newScore(tallies); ok {
		return &s
	}
	return nil
}

// tallies counts by question; what failed counts nowhere.
func (r *RunResult) tallies(right func(*Item) bool) []Tally {
	size := r.ordered
	for i := range r.Items {
		size = max(size, r.Items[i].Question+1)
	}
	all := make([]Tally, size)
	for i := range r.Items {
		item := &r.Items[i]
		if item.Outcome == Failed {
			continue
		}
		all[item.Question].Asked++
		if right(item) {
			all[item.Question].Right++
		}
	}
	return all
}

const (
	mostFailed   = 0.005 // share of answers beyond which a run is not valid
	mostApart    = 0.01  // by which both rules may differ without a finding
	mostOutcomes = 0.01  // share of truncated or refused answers without one
)

// find adds what the user has to know.
func (out *Result) find(published *Published) {
	for _, run := range out.Runs {
		name := fmt.Sprintf("%s, %s, %s", run.Label(), run.Model, run.Effort)
		say := func(format string, args ...any) {
			out.Findings = append(out.Findings, name+": "+fmt.Sprintf(format, args...))
		}
		all := len(run.Items)
		if failed := run.Outcomes[Failed]; float64(failed) > mostFailed*float64(max(all, 1)) {
			out.Valid = false
			say("%d of %d answers failed, more than 0.5 %%: the scores do not count; --resume asks those again", failed, all)
		}
		if run.Reference != nil && math.Abs(run.Reference.Mean-run.Strict.Mean) > mostApart {
			say("the published rule gives %.1f %% and the strict one %.1f %%: look at the answers where they differ", 100*run.Reference.Mean, 100*run.Strict.Mean)
		}
		if n := run.Outcomes[Truncated]; float64(n) > mostOutcomes*float64(all) {
			say("%d of %d answers were cut at a limit: the server's context may be too short", n, all)
		}
		if n := run.Outcomes[Refused]; n > 0 {
			say("%d of %d requests were refused and count as wrong: %s", n, all, run.firstError(Refused))
		}
		if n := run.Outcomes[Failed]; n > 0 {
			say("the first of %d failures: %s", n, run.firstError(Failed))
		}
		if !run.InBand && run.Strict != nil {
			say("%.1f %% right, expected %.0f to %.0f %%", 100*run.Strict.Mean, 100*run.Band.Low, 100*run.Band.High)
		}
	}
	if len(out.Fingerprint) > 1 {
		out.Findings = append(out.Findings, "the server changed in mid-run: system_fingerprint was "+strings.Join(out.Fingerprint, ", then "))
	}
	// Comparison comes last: its findings are about all runs together.
	if published != nil {
		out.compare(published)
	}
}

// firstError is the error of the first item with an outcome.
func (r *RunResult) firstError(outcome Outcome) string {
	for _, item := range r.Items {
		if item.Outcome == outcome {
			return item.Error
		}
	}
	return ""
}

// InBands reports whether every run has a score that it may have.
func (out *Result) InBands() bool {
	return !slices.ContainsFunc(out.Runs, func(r *RunResult) bool { return !r.InBand })
}

// JSON is the result as a file.
func (out *Result) JSON() ([]byte, error) {
	text, err := json.MarshalIndent(out, "", " ")
	return append(text, '\n'), err
}

// ReadResult reads a result as JSON writes it.
func ReadResult(text []byte) (*Result, error) {
	var out Result
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, err
	}
	if out.Schema != schema {
		return nil, fmt.Errorf("version %d of the result, expected %d", out.Schema, schema)
	}
	for _, run := range out.Runs {
		if run == nil {
			return nil, errors.New("a run is null")
		}
		for _, item := range run.Items {
			if item.Question < 0 || item.Question > 1_000_000 {
				return nil, fmt.Errorf("question %d; expected 0 to 1,000,000", item.Question)
			}
		}
		// Scores are computed from answers, and not read: a file cannot claim others.
		run.score()
	}
	return &out, nil
}

// CallsText lists calls of tools for a table; "" = none.
func (r *RunResult) CallsText() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(r.Calls)) {
		parts = append(parts, fmt.Sprintf("%s %.2f", name, float64(r.Calls[name])/float64(max(len(r.Items), 1))))
	}
	return strings.Join(parts, ", ")
}
