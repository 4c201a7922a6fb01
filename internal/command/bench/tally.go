package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"ossian/internal/bench"
	"ossian/internal/bench/chart"
	"ossian/internal/bench/report"
)

// A tally is what all measurements gave.
type tally struct {
	results []report.Result // as those of files, for tables of several
	runs    []chart.Run     // for the page with plots
	points  []report.Point  // for the table of a sweep
	invalid error           // of the last run that cannot be trusted
}

// measure makes the measurements that were asked for and reports.
func (m *measurement) measure(ctx context.Context) error {
	if m.o.runs < 1 || m.o.runs > 1000 {
		return fmt.Errorf("--num-runs %d: want 1 to 1000", m.o.runs)
	}
	plan, err := m.o.sweep.plan(m.o)
	if err != nil {
		return err
	}
	var more []float64
	if text := m.o.sweep.percentiles; text != "" {
		if more, err = bench.ParsePercentiles("--sweep-summary-percentiles", text); err != nil {
			return err
		}
	}
	// Each variant is run as often as was asked for. What fails behind a run that has ended
	// leaves a report of what there is.
	fmt.Fprint(m.out, plan.heading)
	var all tally
	var last *measurement
	total := len(plan.variants) * m.o.runs
	for _, each := range plan.variants {
		if last, err = m.with(ctx, each, last); err != nil {
			if len(all.runs) > 0 {
				err = errors.Join(err, all.report(m, plan, more))
			}
			return err
		}
		for range m.o.runs {
			switch n := len(all.runs) + 1; {
			case each.above != "":
				fmt.Fprint(m.out, each.above)
			case total > 1:
				title := fmt.Sprintf("Run %d/%d", n, total)
				if each.title != "" {
					title += ": " + each.title
				}
				fmt.Fprint(m.out, "\n"+report.Heading(title, "-"))
			}
			switch err := all.add(ctx, last, each.row); {
			case err != nil && len(all.runs) > 0: // what there is counts for something
				return errors.Join(err, all.report(m, plan, more))
			case err != nil:
				return err
			}
			fmt.Fprint(m.out, plan.between)
		}
	}
	fmt.Fprint(m.out, plan.end)
	return all.report(m, plan, more)
}

// add makes one run of m and reports it.
func (t *tally) add(ctx context.Context, m *measurement, row string) error {
	index := len(t.runs)
	recording, err := m.once(ctx, index)
	if recording == nil {
		return err
	}
	summary := report.Summarize(recording, m.Count())
	m.print(summary)
	path, saving := m.store(summary, recording, index)
	// A run that was interrupted is reported as such, and counts; another error ends it here.
	if err = errors.Join(err, saving); err != nil && !recording.Cut {
		return err
	}
	name := fmt.Sprintf("run %d", index+1)
	if row != "" {
		name, path = row, row
	}
	result, failed := summary.Result(path)
	if failed != nil {
		return errors.Join(err, failed)
	}
	t.results, t.runs = append(t.results, result), append(t.runs, chart.Run{Name: name, Summary: summary, Recording: recording})
	t.points = append(t.points, report.Point{Label: name, Summary: summary})
	t.invalid = cmp.Or(untrusted(summary), t.invalid)
	return err
}

// untrusted is the error of a run whose numbers cannot be trusted.
func untrusted(summary *report.Summary) error {
	if summary.Valid() {
		return nil
	}
	return fmt.Errorf("these numbers cannot be trusted (%s): see the findings above", strings.Join(faults(summary), ", "))
}

// faults names the findings that make a run invalid.
func faults(summary *report.Summary) (ids []string) {
	for _, finding := range summary.Ossian.Findings {
		if !finding.Warning {
			ids = append(ids, finding.ID)
		}
	}
	return ids
}

// report writes what is said of all runs together.
func (t *tally) report(m *measurement, plan series, more []float64) error {
	switch {
	case plan.name != "":
		fmt.Fprint(m.out, "\n"+report.SweepTable(plan.name, t.points, more))
	case m.o.sweep.preset != "":
		fmt.Fprint(m.out, "\n"+report.Table(t.results))
	case len(t.results) > 1:
		fmt.Fprint(m.out, "\n"+report.RunsTable(t.results))
	}
	if m.o.html != "" {
		if err := writeTo(m.o.html, func(w io.Writer) error { return chart.HTML(w, m.Setup().Model+", "+m.Setup().Dataset, t.runs) }); err != nil {
			return err
		}
	}
	return t.invalid
}
