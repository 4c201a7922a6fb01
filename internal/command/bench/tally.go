package bench

import (
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
	results []report.Result
	runs    []chart.Run
	points  []report.Point
	invalid error
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
	fmt.Fprint(m.out, plan.heading)
	var t tally
	var last *measurement
	total := len(plan.cases) * m.o.runs
	for _, one := range plan.cases {
		if last, err = m.with(ctx, one, last); err != nil {
			if len(t.runs) > 0 {
				err = errors.Join(err, t.report(m, plan, more))
			}
			return err
		}
		for range m.o.runs {
			switch n := len(t.runs) + 1; {
			case one.above != "":
				fmt.Fprint(m.out, one.above)
			case total > 1:
				title := fmt.Sprintf("Run %d/%d", n, total)
				if one.title != "" {
					title += ": " + one.title
				}
				fmt.Fprint(m.out, "\n"+report.Heading(title, "-"))
			}
			switch err := t.add(ctx, last, one.row); {
			case err != nil && len(t.runs) > 0: // what there is counts for something
				return errors.Join(err, t.report(m, plan, more))
			case err != nil:
				return err
			}
			fmt.Fprint(m.out, plan.between)
		}
	}
	fmt.Fprint(m.out, plan.end)
	return t.report(m, plan, more)
}

// add makes one run of m and reports it.
func (t *tally) add(ctx context.Context, m *measurement, row string) error {
	i := len(t.runs)
	rec, err := m.once(ctx, i)
	if rec == nil {
		return err
	}
	summary := report.Summarize(rec, m.count())
	m.print(summary)
	path, saving := m.store(summary, rec, i)
	if err = errors.Join(err, saving); err != nil && !rec.Cut {
		return err
	}
	name := fmt.Sprintf("run %d", i+1)
	if row != "" {
		name, path = row, row
	}
	r, failed := summary.Result(path)
	if failed != nil {
		return errors.Join(err, failed)
	}
	t.results, t.runs = append(t.results, r), append(t.runs, chart.Run{Name: name, Summary: summary, Recording: rec})
	t.points = append(t.points, report.Point{Label: name, Summary: summary})
	if !summary.Valid() {
		t.invalid = fmt.Errorf("these numbers cannot be trusted (%s): see the findings above", strings.Join(faults(summary), ", "))
	}
	return err
}

// faults names the findings that make a run invalid.
func faults(s *report.Summary) (ids []string) {
	for _, f := range s.Ossian.Findings {
		if !f.Warning {
			ids = append(ids, f.ID)
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
		if err := writeTo(m.o.html, func(w io.Writer) error { return chart.HTML(w, m.setup.Model+", "+m.setup.Dataset, t.runs) }); err != nil {
			return err
		}
	}
	return t.invalid
}
