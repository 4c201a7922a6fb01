package predict

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
)

// A Ranked is one of several scenarios with its prediction, or why there is none.
type Ranked struct {
	Index      int // in what was given to Rank
	Prediction Prediction
	Err        error
}

// Rank predicts scenarios on that many workers and orders them by a metric, best first; those that
// cannot run come last, in the order given. Errors are in the results, but for a cancelled context.
func Rank(ctx context.Context, scenarios []Scenario, key string, workers int) ([]Ranked, error) {
	ranked := make([]Ranked, len(scenarios))
	next := make(chan int)
	var wait sync.WaitGroup
	for range max(workers, 1) {
		wait.Go(func() {
			for i := range next {
				prediction, err := Run(ctx, scenarios[i])
				ranked[i] = Ranked{i, prediction, err}
			}
		})
	}
	for i := range scenarios {
		next <- i
	}
	close(next)
	wait.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	sign := 1.0
	if HigherIsBetter(key) {
		sign = -1
	}
	slices.SortStableFunc(ranked, func(a, b Ranked) int {
		if (a.Err == nil) != (b.Err == nil) {
			if a.Err == nil {
				return -1
			}
			return 1
		}
		return cmp.Compare(sign*a.Prediction.Metrics[key].Value, sign*b.Prediction.Metrics[key].Value)
	})
	return ranked, nil
}

// HigherIsBetter reports whether more of a metric is better: of rates, not of times.
func HigherIsBetter(key string) bool { return strings.Contains(key, "throughput") }
