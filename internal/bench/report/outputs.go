package report

import (
	"errors"
	"fmt"
	"slices"
)

// Outputs say how many answers of two results are the same at equal prompts (BEN-7: speed
// chooses only among settings whose outputs are equal). Visible text is compared.
type Outputs struct {
	A         string `json:"a"` // sources
	B         string `json:"b"`
	Identical int    `json:"identical"`
	Different int    `json:"different"`
	First     int    `json:"first_different"` // index of the first request whose answers differ; -1 = none
	Textless  int    `json:"without_text"`    // requests of which neither result has text: nothing is known
	Failed    int    `json:"failed"`          // in one of the results or both
	ByLength  bool   `json:"prompts_assumed"` // the files do not hold which prompts there were: their lengths are equal
}

// CompareOutputs compares the answers of two results that were saved with details. The error
// says why they cannot be compared.
func CompareOutputs(a, b *Result) (*Outputs, error) {
	for _, r := range []*Result{a, b} {
		if len(r.Requests) == 0 || !slices.ContainsFunc(r.Requests, func(q Request) bool { return q.Text != "" }) {
			return nil, fmt.Errorf("%s has no texts (bench serve --save-detailed saves them)", r.Source)
		}
	}
	out := &Outputs{A: a.Source, B: b.Source, First: -1}
	if len(a.Requests) != len(b.Requests) {
		return nil, fmt.Errorf("%d requests against %d: the prompts are not the same", len(a.Requests), len(b.Requests))
	}
	// Of Ossian's results the prompts are known by their hash; those of other tools say how long
	// each was.
	switch {
	case a.Ossian != nil && b.Ossian != nil:
		one, other := a.Ossian.Workload, b.Ossian.Workload
		if one.Hash != other.Hash || one.Salt != other.Salt {
			return nil, errors.New("the prompts are not the same (another seed, or a --salt of its own; --salt=TEXT and one run on each side have the same)")
		}
	default:
		out.ByLength = true
		if !slices.EqualFunc(a.Requests, b.Requests, func(q, r Request) bool { return q.Input == r.Input || !q.OK || !r.OK }) {
			return nil, errors.New("the prompts are not the same: their lengths differ")
		}
	}
	for i := range a.Requests {
		one, other := &a.Requests[i], &b.Requests[i]
		switch {
		case !one.OK || !other.OK:
			out.Failed++
		case one.Text == "" && other.Text == "":
			out.Textless++
		case one.Text == other.Text:
			out.Identical++
		default:
			if out.Different++; out.First < 0 {
				out.First = i
			}
		}
	}
	return out, nil
}

// String is the line of a comparison.
func (o *Outputs) String() string {
	text := fmt.Sprintf("Outputs at equal prompts, %s and %s: %d identical, %d different", o.A, o.B, o.Identical, o.Different)
	if o.Different > 0 {
		text += fmt.Sprintf(" (the first is request %d)", o.First)
	}
	if o.Textless > 0 {
		text += fmt.Sprintf(", %d without text", o.Textless)
	}
	if o.Failed > 0 {
		text += fmt.Sprintf(", %d failed", o.Failed)
	}
	if o.ByLength {
		text += "; that prompts are equal follows from their lengths only"
	}
	return text
}

// addOutputs compares the answers of the first results of the sides, and of repetitions with
// each other: what differs there is no effect of the change.
func (c *Comparison) addOutputs(a, b []Result) {
	across, err := CompareOutputs(&a[0], &b[0])
	if err != nil {
		c.OutputsNote = err.Error()
		return
	}
	c.Outputs = append(c.Outputs, *across)
	for _, side := range [][]Result{a, b} {
		if len(side) < 2 {
			continue
		}
		if own, err := CompareOutputs(&side[0], &side[1]); err == nil {
			c.Outputs = append(c.Outputs, *own)
		}
	}
	if across.Different > 0 {
		c.Warnings = append(c.Warnings, fmt.Sprintf("%d of %d outputs differ: a faster side wins only if they may (temperature above 0, batches that change rounding), and its quality is evaluated",
			across.Different, across.Different+across.Identical))
	}
}
