// Package report writes the results of evaluations for those who read them: tables for a terminal,
// one file of HTML, and the files that the published evaluation writes. Nothing here has the text of
// a question or of an answer, but for the latter where it is given.
package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"ossian/internal/eval"
	"ossian/internal/stat"
)

// percent writes a share.
func percent(share float64) string { return fmt.Sprintf("%.1f", 100*share) }

// spread writes how far a score may be off: the half of its interval, and the interval.
func spread(s *eval.Spread) string {
	if s == nil {
		return "–"
	}
	return interval(s.Interval)
}

func interval(i stat.Interval) string { return percent(i.Low) + "–" + percent(i.High) }

// A table is rows of cells below names of columns.
type table struct {
	names []string
	rows  [][]string
}

// scores is the table of both scores of each run.
func scores(out *eval.Result) table {
	scored := table{names: []string{"task", "model", "effort", "rule", "score %", "same questions again", "questions like these", "right once", "all alike", "answers"}}
	for _, run := range out.Runs {
		for _, rule := range []struct {
			name  string
			score *eval.Score
		}{{"published", run.Reference}, {"strict", run.Strict}} {
			cells := []string{run.Label(), run.Model, run.Effort, rule.name}
			if s := rule.score; s == nil {
				cells = append(cells, "–", "–", "–", "–", "–", "0")
			} else {
				cells = append(cells, percent(s.Mean), spread(s.Run), spread(s.Sample), percent(s.Pass), percent(s.Agree), fmt.Sprint(s.Answers))
			}
			scored.rows = append(scored.rows, cells)
		}
	}
	return scored
}

// outcomes is the table of what became of the answers.
func outcomes(out *eval.Result) table {
	counted := table{names: []string{"task", "model", "effort"}}
	for _, outcome := range eval.Outcomes {
		counted.names = append(counted.names, string(outcome))
	}
	counted.names = append(counted.names, "output tokens", "an answer")
	tools := false
	for _, run := range out.Runs {
		tools = tools || len(run.Tools) > 0
		// A column for calls would say nothing where no tools are offered.
	}
	if tools {
		counted.names = append(counted.names, "calls an answer")
	}
	for _, run := range out.Runs {
		cells := []string{run.Label(), run.Model, run.Effort}
		for _, outcome := range eval.Outcomes {
			cells = append(cells, fmt.Sprint(run.Outcomes[outcome]))
		}
		cells = append(cells, fmt.Sprint(run.Output), fmt.Sprintf("%.0f", float64(run.Output)/float64(max(len(run.Items), 1))))
		if tools {
			calls := run.CallsText()
			if calls == "" {
				calls = "–"
			}
			cells = append(cells, calls)
		}
		counted.rows = append(counted.rows, cells)
	}
	return counted
}

// published is the table of published scores beside those of this run.
func published(out *eval.Result) table {
	shown := table{names: []string{"task", "effort", "published %", "here %", "by chance ±", "verdict"}}
	for _, publication := range out.Compared {
		verdict := "no difference shown"
		switch {
		case publication.S == 0:
			verdict = "not known with one answer a question"
		case publication.Apart:
			verdict = "apart"
		}
		shown.rows = append(shown.rows, []string{publication.Task, publication.Effort, percent(publication.Published), percent(publication.Ours), fmt.Sprintf("%.1f", 300*publication.S), verdict})
	}
	return shown
}

// compared is the table of a comparison.
func compared(all []eval.Comparison) table {
	shown := table{names: []string{"task", "effort", "rule", "A %", "B %", "difference", "interval", "by chance alone ±", "p", "least that would show", "verdict"}}
	for _, comparison := range all {
		run, least := "–", "–"
		if comparison.Diff.Run > 0 {
			run = fmt.Sprintf("%.1f", 196*comparison.Diff.Run)
		}
		if comparison.Diff.Least > 0 {
			least = fmt.Sprintf("%.1f", 100*comparison.Diff.Least)
		}
		verdict := "no difference shown"
		if comparison.Diff.Shown {
			verdict = "they differ"
		}
		task := comparison.Task
		if len(comparison.Tools) > 0 {
			task += " with " + strings.Join(comparison.Tools, ", ")
		}
		rule := comparison.Rule
		if rule == "reference" {
			rule = "published" // as in the other tables
		}
		shown.rows = append(shown.rows, []string{task, comparison.Effort, rule, percent(comparison.ScoreA), percent(comparison.ScoreB), fmt.Sprintf("%+.1f", 100*comparison.Diff.Delta),
			fmt.Sprintf("%+.1f to %+.1f", 100*comparison.Diff.Paired.Low, 100*comparison.Diff.Paired.High), run, fmt.Sprintf("%.3g", comparison.Diff.P), least, verdict})
	}
	return shown
}

// text writes t in columns.
func (t *table) text(dst io.Writer) error {
	columns := tabwriter.NewWriter(dst, 0, 0, 2, ' ', 0)
	for _, cells := range append([][]string{t.names}, t.rows...) {
		fmt.Fprintln(columns, strings.Join(cells, "\t"))
	}
	return columns.Flush()
}

// Console writes a result as tables, and what was found.
func Console(dst io.Writer, out *eval.Result) error {
	tables := []table{scores(out), outcomes(out)}
	if len(out.Compared) > 0 {
		tables = append(tables, published(out))
	}
	for i, t := range tables {
		if i > 0 {
			fmt.Fprintln(dst)
		}
		if err := t.text(dst); err != nil {
			return err
		}
	}
	for _, finding := range out.Findings {
		fmt.Fprintln(dst, "finding:", finding)
	}
	if !out.Valid {
		fmt.Fprintln(dst, "NOT VALID: too many answers failed")
	}
	return nil
}

// CompareConsole writes a comparison as a table.
func CompareConsole(dst io.Writer, all []eval.Comparison) error {
	fmt.Fprintf(dst, "A: %s, B: %s; the same %d questions, in points\n", all[0].A, all[0].B, all[0].Diff.Questions)
	t := compared(all)
	return t.text(dst)
}

// Duration writes a time that is waited for.
func Duration(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f minutes", d.Minutes())
	}
	return fmt.Sprintf("%.1f hours", d.Hours())
}
