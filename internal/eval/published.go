package eval

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Published are scores that somebody has published of a model, to compare with.
type Published struct {
	Source  string
	Repeats int
	Scores  map[string]map[string]float64 // by task and effort, in percent
}

// usualRepeats is how often the published evaluation asks each question.
const usualRepeats = 8

const maxPublished = 1 << 20 // bytes

// ReadPublished reads a file of published scores, YAML or JSON: source and repeats, which may be
// missing, and for each task a mapping of efforts to percent.
func ReadPublished(path string) (*Published, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxPublished+1))
	if err == nil && len(data) > maxPublished {
		err = fmt.Errorf("more than %d bytes", maxPublished)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, plain(err))
	}
	p, err := parsePublished(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

func parsePublished(data []byte) (*Published, error) {
	var members map[string]yaml.Node
	if err := yaml.NewDecoder(bytes.NewReader(data)).Decode(&members); err != nil {
		return nil, errors.New("expected a mapping such as gpqa: {low: 65.3}: " + strings.Join(strings.Fields(err.Error()), " "))
	}
	published := &Published{Repeats: usualRepeats, Scores: map[string]map[string]float64{}}
	for name, node := range members {
		var err error
		switch name {
		case "source":
			err = node.Decode(&published.Source)
		case "model": // of whoever reads it
		case "repeats":
			if err = node.Decode(&published.Repeats); err == nil && (published.Repeats < 1 || published.Repeats > 1_000_000) {
				err = fmt.Errorf("%d", published.Repeats)
			}
		default:
			var scores map[string]float64
			if err = node.Decode(&scores); err == nil {
				published.Scores[name] = scores
			}
			for effort, score := range scores {
				if !(score >= 0 && score <= 100) {
					return nil, fmt.Errorf("%s, %s: %v; expected a score in percent, 0 to 100", name, effort, score)
				}
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%.40q: expected source, repeats, or a task with scores such as {low: 65.3}", name)
		}
	}
	if len(published.Scores) == 0 {
		return nil, errors.New("no scores; expected a mapping such as gpqa: {low: 65.3}")
	}
	return published, nil
}

// A Publication is a run beside a published score of its task and effort.
type Publication struct {
	Task      string  `json:"task"`
	Model     string  `json:"model"`
	Effort    string  `json:"effort"`
	Published float64 `json:"published"` // share
	Ours      float64 `json:"ours"`      // by the published rule
	S         float64 `json:"s"`         // of the difference by chance alone; 0 = not known
	Apart     bool    `json:"apart"`     // farther than 3 S
	Source    string  `json:"source,omitempty"`
}

// farApart is how many standard errors are more than chance.
const farApart = 3

// compare sets the runs beside published scores. The published side is taken to have the spread of
// ours with its own number of repeats: its answers are not known.
func (out *Result) compare(published *Published) {
	for _, run := range out.Runs {
		score, ok := published.Scores[run.Task][run.Effort]
		// Scores with tools are of another evaluation than the published one.
		if !ok || run.Reference == nil || len(run.Tools) > 0 {
			continue
		}
		ours := run.Reference
		compared := Publication{Task: run.Task, Model: run.Model, Effort: run.Effort, Published: score / 100, Ours: ours.Mean, Source: published.Source}
		name := fmt.Sprintf("%s, %s, %s", run.Task, run.Model, run.Effort)
		if ours.Run == nil {
			out.Findings = append(out.Findings, name+": with one answer a question nothing says whether the published score is the same; --repeats 8")
		} else {
			theirs := ours.variance / float64(published.Repeats) / float64(ours.Questions)
			compared.S = math.Sqrt(ours.Run.S*ours.Run.S + theirs)
			compared.Apart = math.Abs(compared.Ours-compared.Published) > farApart*compared.S
		}
		if compared.Apart {
			out.Findings = append(out.Findings, fmt.Sprintf("%s: %.1f %%, published %.1f %%, more than %d standard errors (%.1f points) apart", name, 100*compared.Ours, score, farApart, 100*compared.S))
		}
		out.Compared = append(out.Compared, compared)
	}
	if len(out.Compared) == 0 {
		out.Findings = append(out.Findings, "no score of --reference is of a task and effort of this run")
	}
}

// A Comparison is two runs of the same task and effort on the same data.
type Comparison struct {
	Task   string     `json:"task"`
	Tools  []string   `json:"tools"`
	Effort string     `json:"effort"`
	A, B   string     // models
	ScoreA float64    `json:"score_a"`
	ScoreB float64    `json:"score_b"`
	Rule   string     `json:"rule"` // reference or strict
	Diff   Difference `json:"difference"`
}

// Compare compares all runs of two results that are of the same task, tools and effort, by both
// rules. The error says why none can be compared, or which data differ.
func Compare(a, b *Result) (all []Comparison, err error) {
	for _, first := range a.Runs {
		for _, second := range b.Runs {
			if first.Task != second.Task || first.Effort != second.Effort || !slices.Equal(first.Tools, second.Tools) {
				continue
			}
			if first.SHA256 != second.SHA256 {
				return nil, fmt.Errorf("%s: the data differ, SHA-256 %.12s… and %.12s…; only answers to the same questions can be compared", first.Task, first.SHA256, second.SHA256)
			}
			for _, rule := range []string{"reference", "strict"} {
				if c, ok := compareRuns(first, second, rule); ok {
					all = append(all, c)
				}
			}
		}
	}
	if len(all) == 0 {
		return nil, errors.New("no task and effort that both have answers to two questions of")
	}
	// Over all efforts of a rule and task together a difference by chance is as rare as for one.
	for _, rule := range []string{"reference", "strict"} {
		var at []int
		for i := range all {
			if all[i].Rule == rule {
				at = append(at, i)
			}
		}
		holm(all, at)
	}
	return all, nil
}

func compareRuns(a, b *RunResult, rule string) (c Comparison, ok bool) {
	right := func(item *Item) bool { return item.ReferenceRight }
	scoreA, scoreB := a.Reference, b.Reference
	if rule == "strict" {
		right = func(item *Item) bool { return item.Outcome == Right }
		scoreA, scoreB = a.Strict, b.Strict
	}
	diff, ok := newDifference(a.tallies(right), b.tallies(right))
	if !ok {
		return c, false
	}
	return Comparison{a.Task, a.Tools, a.Effort, a.Model, b.Model, scoreA.Mean, scoreB.Mean, rule, diff}, true
}
