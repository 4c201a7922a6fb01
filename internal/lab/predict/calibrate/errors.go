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

// FitAll fits the predictor to all rows, without choosing.
func FitAll(ctx context.Context, rows []Row) (*Result, error) {
	m, err := newModel(ctx, rows)
	if err != nil {
		return nil, err
	}
	all := make([]int, len(rows))
	for i := range all {
		all[i] = i
	}
	if err := m.gaussNewton(all); err != nil {
		return nil, err
	}
	return m.conclude(ctx, all)
}

// fewPairs is how many pairs of rows say something about differences between settings at least.
const fewPairs = 8

// pair returns how far predicted differences between two settings are off at 95 %: of pairs of
// fitted rows of one model and workload, as logarithms; 0 where there are too few.
func (m *model) pair(chosen []int, errors []Error) float64 {
	var scores []float64
	for at, i := range chosen {
		for _, j := range chosen[:at] {
			a, b := &m.rows[i], &m.rows[j]
			same := a.Model == b.Model && a.Hardware == b.Hardware && a.Workload == b.Workload && a.EngineVersion == b.EngineVersion
			if !same || a.Effective == nil || b.Effective == nil || *a.Effective == *b.Effective {
				continue
			}
			scores = append(scores, math.Abs(math.Log(errors[i].Ratio[targets[0]]/errors[j].Ratio[targets[0]])))
		}
	}
	if len(scores) < fewPairs {
		return 0
	}
	return digits(conformal(scores))
}

// folds is in how many parts rows are left out of a fit in turn, where there are more rows.
const folds = 12

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
	for _, i := range chosen {
		result.Chosen = append(result.Chosen, m.rows[i].ID)
	}
	logs := slices.Clone(m.logs)
	scores, err := m.leaveOut(chosen, result)
	if err != nil {
		return nil, err
	}
	copy(m.logs, logs)
	m.evaluate(chosen)
	if result.Calibration.Spread, err = m.spread(chosen); err != nil {
		return nil, err
	}
	spread := &result.Calibration.Spread
	spread.Quantiles = quantiles(scores)
	spread.Quantile = spread.Quantiles[targets[0]]
	spread.Pair = m.pair(chosen, result.All)
	return result, nil
}

// leaveOut predicts each chosen row from others, adds its error to the result, and returns how many
// standard errors it was off.
func (m *model) leaveOut(chosen []int, result *Result) (scores map[string][]float64, err error) {
	parts, logs := min(folds, len(chosen)), slices.Clone(m.logs)
	scores = map[string][]float64{}
	for part := range parts {
		var left, others []int
		for at, i := range chosen {
			if at%parts == part {
				left = append(left, i)
			} else {
				others = append(others, i)
			}
		}
		if len(others) == 0 {
			return nil, nil
		}
		copy(m.logs, logs)
		if err := m.gaussNewton(others); err != nil {
			return nil, err
		}
		spread, err := m.spread(others)
		if err != nil {
			return nil, err
		}
		for _, i := range left {
			e := m.error(i, false)
			result.LeftOut = append(result.LeftOut, e)
			m.score(scores, &spread, &e, i)
		}
	}
	return scores, nil
}

// score adds how many standard errors the targets of a row that was left out were off.
func (m *model) score(scores map[string][]float64, spread *predict.Spread, left *Error, i int) {
	for o, metric := range observed {
		ratio, ok := left.Ratio[metric.key]
		if !ok || ratio <= 0 || !slices.Contains(targets, metric.key) {
			continue
		}
		slopes := map[string]float64{}
		for p, name := range m.names {
			slopes[name] = m.jac[i][o][p]
		}
		scores[metric.key] = append(scores[metric.key], math.Abs(math.Log(ratio))/spread.Error(slopes))
	}
}

// fewRows is up to how many rows the metrics share a quantile: alone each would have too few.
const fewRows = 20

// quantiles are what intervals of each target need, from scores by target.
func quantiles(scores map[string][]float64) map[string]float64 {
	var all []float64
	most := 0
	for _, key := range targets {
		all, most = append(all, scores[key]...), max(most, len(scores[key]))
	}
	found := map[string]float64{}
	for _, key := range targets {
		switch {
		case len(all) == 0:
		case most <= fewRows:
			found[key] = conformal(all)
		default:
			found[key] = conformal(scores[key])
		}
	}
	return found
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
	for _, key := range targets {
		fmt.Fprintf(&b, "interval of %s: %.2f standard errors\n", key, r.Calibration.Spread.Quantiles[key])
	}
	fmt.Fprintf(&b, "settings compared: ± %.1f %%\nall rows:\n", 100*r.Calibration.Spread.Pair)
	for _, e := range r.All {
		fmt.Fprintln(&b, e)
	}
	return b.String()
}
