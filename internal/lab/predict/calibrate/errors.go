package calibrate

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"ossian/internal/lab/predict"
)

// An Error is how far predictions of one row were off: predicted over measured, by metric.
type Error struct {
	ID     string             `json:"id"`
	Ratio  map[string]float64 `json:"ratio"`
	Fitted bool               `json:"fitted"` // the row was one of those fitted to
}

// A Result is a calibration with its evidence.
type Result struct {
	Calibration *predict.Calibration
	Chosen      []string // ids of the rows that it was fitted to, in the order of choice
	LeftOut     []Error  // of each chosen row, predicted from the others
	All         []Error  // of every row, predicted from the chosen ones
}

// Fit chooses at most most rows, fits the predictor to them, and measures its errors: on the chosen
// rows by leaving each out in turn, which gives the intervals, and on all.
func Fit(ctx context.Context, rows []Row, most int) (*Result, error) {
	m, err := newModel(ctx, rows)
	if err != nil {
		return nil, err
	}
	chosen, err := m.choose(ctx, most)
	if err != nil {
		return nil, err
	}
	return m.conclude(ctx, chosen)
}

// conclude fits to the chosen rows on schedules of their own parameters, and looks at the errors.
func (m *model) conclude(ctx context.Context, chosen []int) (*Result, error) {
	for range schedules {
		if err := m.refresh(ctx); err != nil {
			return nil, err
		}
		if err := m.gaussNewton(chosen); err != nil {
			return nil, err
		}
	}
	result := &Result{}
	var err error
	if result.Calibration, err = m.calibration(chosen); err != nil {
		return nil, err
	}
	for i := range m.rows {
		result.All = append(result.All, m.error(i, slices.Contains(chosen, i)))
	}
	logs := slices.Clone(m.logs)
	var scores []float64
	for at, i := range chosen {
		result.Chosen = append(result.Chosen, m.rows[i].ID)
		others := slices.Delete(slices.Clone(chosen), at, at+1)
		if len(others) == 0 {
			continue
		}
		copy(m.logs, logs)
		if err := m.gaussNewton(others); err != nil {
			return nil, err
		}
		left := m.error(i, false)
		result.LeftOut = append(result.LeftOut, left)
		spread, err := m.spread(others)
		if err != nil {
			return nil, err
		}
		scores = append(scores, m.scores(&spread, &left, i)...)
	}
	copy(m.logs, logs)
	m.evaluate(chosen)
	if result.Calibration.Spread, err = m.spread(chosen); err != nil {
		return nil, err
	}
	if len(scores) > 0 {
		result.Calibration.Spread.Quantile = conformal(scores)
	}
	return result, nil
}

// scores are how many standard errors the targets of a row that was left out were off.
func (m *model) scores(spread *predict.Spread, left *Error, i int) (scores []float64) {
	for o, metric := range observed {
		ratio, ok := left.Ratio[metric.key]
		if !ok || !slices.Contains(targets, metric.key) {
			continue
		}
		slopes := map[string]float64{}
		for p, name := range m.names {
			slopes[name] = m.jac[i][o][p]
		}
		scores = append(scores, math.Abs(math.Log(ratio))/spread.Error(slopes))
	}
	return scores
}

// error compares a row with its prediction at the parameters as they are.
func (m *model) error(i int, fitted bool) Error {
	m.evaluate([]int{i})
	predicted := m.values[i]
	e := Error{ID: m.rows[i].ID, Fitted: fitted, Ratio: map[string]float64{}}
	for key, measured := range m.rows[i].Metrics {
		if value, ok := predicted[key]; ok && measured > 0 {
			e.Ratio[key] = value / measured
		}
	}
	return e
}

// conformal returns the quantile of scores that covers 95 % of new ones: of n scores that of rank
// ceil(0.95·(n+1)), or where there are too few the largest times (n+1)/n.
func conformal(scores []float64) float64 {
	scores = slices.Sorted(slices.Values(scores))
	n := len(scores)
	if rank := int(math.Ceil(0.95 * float64(n+1))); rank <= n {
		return scores[rank-1]
	}
	return scores[n-1] * float64(n+1) / float64(n)
}

// String prints an error as one line of a table.
func (e Error) String() string {
	mark := " "
	if e.Fitted {
		mark = "*"
	}
	return fmt.Sprintf("%s %-34s %6.3f %6.3f %6.3f", mark, e.ID, e.Ratio["duration_s"], e.Ratio["mean_ttft_ms"], e.Ratio["mean_tpot_ms"])
}

// String prints what lab.md 5 wants to see of a calibration: parameters with standard errors, what
// the rows do not identify, errors on rows left out and on all. A star marks fitted rows; ratios
// are predicted over measured, of duration, mean TTFT and mean TPOT.
func (r *Result) String() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(r.Calibration.Parameters)) {
		p := r.Calibration.Parameters[name]
		note := ""
		if slices.Contains(r.Calibration.Left, name) {
			note = ", not identified by these rows"
		}
		fmt.Fprintf(&b, "%-28s %9.4g %s ± %.0f %% (%s%s)\n", name, p.Value, p.Unit, 100*p.SE, p.Origin, note)
	}
	fmt.Fprintf(&b, "rows, in the order of choice, each predicted from the others:\n")
	for _, e := range r.LeftOut {
		fmt.Fprintln(&b, e)
	}
	fmt.Fprintf(&b, "interval: %.2f standard errors\nall rows:\n", r.Calibration.Spread.Quantile)
	for _, e := range r.All {
		fmt.Fprintln(&b, e)
	}
	return b.String()
}
