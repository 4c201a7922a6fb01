package sweep

import (
	"fmt"
	"math"
	"slices"

	"ossian/internal/stat"
)

// A Variable is what loads are made of, by its name in results and parameters.
type Variable string

// The variables.
const (
	Rate        Variable = "request_rate"    // requests per second
	Concurrency Variable = "max_concurrency" // requests at once
)

// ParseVariable returns the variable of that name.
func ParseVariable(name string) (Variable, error) {
	if v := Variable(name); v == Rate || v == Concurrency {
		return v, nil
	}
	return "", fmt.Errorf("%q: want %s or %s", name, Rate, Concurrency)
}

// estimate is the mean over runs of what the variable was in effect (bench.md 3.4):
// request throughput, or by Little's law that times the mean latency.
func (v Variable) estimate(runs []Object) (float64, error) {
	sum := 0.0
	for _, run := range runs {
		load, err := Mean([]Object{run}, "request_throughput")
		if err != nil {
			return 0, err
		}
		if v == Concurrency {
			ms, err := Mean([]Object{run}, "mean_e2el_ms")
			if err != nil {
				return 0, err
			}
			load *= ms / 1000
		}
		sum += load
	}
	return sum / float64(len(runs)), nil
}

// levels are the values between the estimates of serial and of batch inference, so many with
// the two (bench.md 3.4): numpy's linspace, rounded to even, each once, those that send
// something.
func levels(serial, batch float64, count int) []int {
	low, high := math.Ceil(serial), math.Floor(batch)
	step := (high - low) / float64(count-1)
	var out []int
	for i := 1; i < count-1; i++ {
		if level := int(math.RoundToEven(float64(i)*step + low)); level > 0 {
			out = append(out, level)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// The range of serve_sla; its end stands for any load.
const (
	leastValue = 1
	mostValue  = 65536
)

// A trial is what came of a value in the search of serve_sla.
type trial struct {
	value  int
	margin float64 // at most 0 = the objectives hold
}

// edge are the largest value that passed and the smallest that failed, or the ends of the
// range.
func edge(tried []trial) (pass, fail int) {
	pass, fail = 0, mostValue
	for _, trial := range tried {
		if trial.margin <= 0 {
			pass = max(pass, trial.value)
		} else {
			fail = min(fail, trial.value)
		}
	}
	return max(pass, leastValue), fail
}

// patience is after how many trials every second one bisects: where margins jump, the
// interpolant creeps along one side.
const patience = 12

// nextTrial is the value to try next (bench.md 3.5): first the ends of the range, then
// where the margin through the values tried is 0; false = the last that passes and the
// first that fails are neighbours.
func nextTrial(tried []trial) (int, bool) {
	pass, fail := edge(tried)
	if fail-pass <= 1 {
		return 0, false
	}
	switch len(tried) {
	case 0:
		return mostValue, true
	case 1:
		return leastValue, true
	}
	// An interpolant through all trials, of which the first root is the guess.
	sorted := slices.Clone(tried)
	slices.SortFunc(sorted, func(a, b trial) int { return a.value - b.value })
	var values, margins []float64
	for _, trial := range sorted {
		if math.IsInf(trial.margin, 1) {
			continue // no measure of how far it missed
		}
		values, margins = append(values, float64(trial.value)), append(margins, trial.margin)
	}
	root, ok := stat.FirstRoot(values, margins)
	if !ok || (len(tried) >= patience && len(tried)%2 == 0) {
		return (pass + fail) / 2, true
	}
	// A root is known to a few units of its last place. The value just tried is not tried
	// again; noise aside, the next one is its neighbour.
	return min(max(int(root*(1+1e-12)), pass+1), fail-1), true
}
