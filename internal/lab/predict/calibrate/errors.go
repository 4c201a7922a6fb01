package calibrate

import (
	"context"
	"fmt"
	"math"
	"slices"

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
		result.LeftOut = append(result.LeftOut, m.error(i, false))
	}
	copy(m.logs, logs)
	result.Calibration.Spread = spreads(result.LeftOut)
	return result, nil
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

// spreads are the half widths of 95 % intervals, as logarithms: conformal on the rows left out.
// With n rows the quantile of order ceil(0.95·(n+1))/n is wanted; where that is beyond the largest
// residual, the largest is taken times (n+1)/n.
func spreads(left []Error) map[string]float64 {
	classes := map[string]string{"duration_s": "duration", "mean_ttft_ms": "ttft", "mean_tpot_ms": "tpot"}
	spread := map[string]float64{}
	for key, class := range classes {
		var sizes []float64
		for _, e := range left {
			if ratio, ok := e.Ratio[key]; ok {
				sizes = append(sizes, math.Abs(math.Log(ratio)))
			}
		}
		if len(sizes) == 0 {
			continue
		}
		slices.Sort(sizes)
		n := len(sizes)
		if rank := int(math.Ceil(0.95 * float64(n+1))); rank <= n {
			spread[class] = sizes[rank-1]
		} else {
			spread[class] = sizes[n-1] * float64(n+1) / float64(n)
		}
	}
	return spread
}

// String prints an error as one line of a table.
func (e Error) String() string {
	mark := " "
	if e.Fitted {
		mark = "*"
	}
	return fmt.Sprintf("%s %-34s %6.3f %6.3f %6.3f", mark, e.ID, e.Ratio["duration_s"], e.Ratio["mean_ttft_ms"], e.Ratio["mean_tpot_ms"])
}
