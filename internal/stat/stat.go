// Package stat holds the statistics of the benchmark reports: order statistics by the
// rules that the published tools use, intervals, and tests that say when a difference
// may be chance. Callers need no statistics library.
package stat

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/interp"
	gonum "gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Confidence is that of every interval in the reports.
const Confidence = 0.95

// Percentile returns the p-th percentile of sorted, 0 <= p <= 100, 0 of nothing. It is
// numpy's default rule ("linear", bench.md 1.6), with numpy's order of operations: the
// rules that gonum offers differ from it.
func Percentile(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	at := p / 100 * float64(len(sorted)-1)
	at = min(max(at, 0), float64(len(sorted)-1))
	low := int(at)
	high := min(low+1, len(sorted)-1)
	below, above, share := sorted[low], sorted[high], at-float64(low)
	if share >= 0.5 {
		return above - (above-below)*(1-share)
	}
	return below + (above-below)*share
}

// Median returns the median of sorted, 0 of nothing.
func Median(sorted []float64) float64 { return Percentile(sorted, 50) }

// Mean returns the mean of samples, 0 of nothing.
func Mean(samples []float64) float64 {
	if len(samples) == 0 {
		return 0
	}
	return gonum.Mean(samples, nil)
}

// Std returns the population's standard deviation of samples (division by n), 0 of nothing.
func Std(samples []float64) float64 {
	if len(samples) == 0 {
		return 0
	}
	return gonum.PopStdDev(samples, nil)
}

// CV returns the coefficient of variation of samples, the standard deviation over the mean;
// 0 where the mean is 0.
func CV(samples []float64) float64 {
	if mean := Mean(samples); mean != 0 {
		return Std(samples) / math.Abs(mean)
	}
	return 0
}

// Sorted returns a sorted copy of samples.
func Sorted(samples []float64) []float64 {
	sorted := slices.Clone(samples)
	slices.Sort(sorted)
	return sorted
}

// An Interval holds a value with the confidence it was made for.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// MeanInterval returns Student's interval of the mean of independent samples; false where
// fewer than two values allow none.
func MeanInterval(samples []float64, confidence float64) (Interval, bool) {
	if len(samples) < 2 {
		return Interval{}, false
	}
	mean, std := gonum.MeanStdDev(samples, nil)
	half := quantileT(float64(len(samples)-1), confidence) * gonum.StdErr(std, float64(len(samples)))
	return Interval{mean - half, mean + half}, true
}

// quantileT is the two-sided critical value of Student's t.
func quantileT(freedom, confidence float64) float64 {
	return distuv.StudentsT{Sigma: 1, Nu: freedom}.Quantile((1 + confidence) / 2)
}

// QuantileInterval returns an interval of the p-th percentile of what sorted was drawn
// from, without assuming a distribution: two order statistics between which the
// percentile lies with at least the confidence (binomial counting). False where so few
// values allow none.
func QuantileInterval(sorted []float64, p, confidence float64) (Interval, bool) {
	tail := (1 - confidence) / 2
	high, ok := orderAbove(len(sorted), p/100, 1-tail)
	if !ok {
		return Interval{}, false
	}
	low, ok := orderAbove(len(sorted), 1-p/100, 1-tail) // the same from the other end
	if !ok {
		return Interval{}, false
	}
	return Interval{sorted[len(sorted)-low], sorted[high-1]}, true
}

// orderAbove returns the smallest r such that the r-th smallest of n values is not
// below the q-quantile with the confidence: the count of values below it is binomial.
func orderAbove(n int, q, confidence float64) (int, bool) {
	if n == 0 || !(q >= 0 && q < 1) {
		return 0, false
	}
	if q == 0 {
		return 1, true
	}
	below := distuv.Binomial{N: float64(n), P: q}
	low, high := 1, n+1 // r = n+1: there is none
	for low < high {
		mid := (low + high) / 2
		if below.CDF(float64(mid-1)) >= confidence {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low, low <= n
}

// certain is the confidence of a certified percentile (bench.md 6, item 8).
const certain = 0.99

// UpperBound returns a value that the p-th percentile of what sorted was drawn from does
// not exceed, with 99 % confidence and for any distribution. False where there are fewer
// values than Floor(p): the bound must not hang on the single largest one.
func UpperBound(sorted []float64, p float64) (float64, bool) {
	order, ok := orderAbove(len(sorted), p/100, certain)
	if !ok || order > len(sorted)-1 {
		return 0, false
	}
	return sorted[order-1], true
}

// Floor returns how many values certify the p-th percentile: two of them lie above it
// with 99 % confidence. That is 662 for P99 and 64 for P90 (bench.md 6, item 8). 0 for
// percentiles that no number certifies (100 and more, below 0).
func Floor(p float64) int {
	q := p / 100
	if !(q >= 0 && q < 1) {
		return 0
	}
	enough := func(n int) bool { // 1 - P(none above) - P(one above)
		none := math.Pow(q, float64(n))
		one := float64(n) * (1 - q) * math.Pow(q, float64(n-1))
		return none+one <= 1-certain
	}
	high := 2
	for !enough(high) {
		if high > 1<<40 {
			return 0
		}
		high *= 2
	}
	low := 2
	for low < high {
		mid := (low + high) / 2
		if enough(mid) {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low
}

// A Difference is what two samples say about the difference of their means.
type Difference struct {
	Delta    float64  // mean of b - mean of a
	Interval Interval // of Delta, with Confidence
	P        float64  // chance of so large a difference if there is none
}

// Welch compares the means of independent samples whose variances may differ (Welch,
// Biometrika 34, 1947). False where a sample has fewer than two values, or the values
// are so large that their variance is none.
func Welch(a, b []float64) (Difference, bool) {
	if len(a) < 2 || len(b) < 2 {
		return Difference{}, false
	}
	ma, va := gonum.MeanVariance(a, nil)
	mb, vb := gonum.MeanVariance(b, nil)
	na, nb := float64(len(a)), float64(len(b))
	variance := va/na + vb/nb
	diff := Difference{Delta: mb - ma, P: 1}
	if !(variance <= math.MaxFloat64) || math.IsInf(diff.Delta, 0) {
		return Difference{}, false
	}
	se := math.Sqrt(variance)
	// Equal values have no spread but that of rounding. Then only their order speaks.
	if se <= 1e-12*math.Hypot(ma, mb) {
		diff.Interval = Interval{diff.Delta, diff.Delta}
		if math.Abs(diff.Delta) > 1e-12*math.Hypot(ma, mb) {
			diff.P = apart(na, nb)
		}
		return diff, true
	}
	share := va / na / variance
	freedom := 1 / (share*share/(na-1) + (1-share)*(1-share)/(nb-1))
	half := quantileT(freedom, Confidence) * se
	diff.Interval = Interval{diff.Delta - half, diff.Delta + half}
	diff.P = 2 * distuv.StudentsT{Sigma: 1, Nu: freedom}.Survival(math.Abs(diff.Delta)/se)
	return diff, true
}

// apart is the chance that of n and m values without a cause all of one sample are on
// one side of all of the other: 2 of the ways to choose the sample among them. Whole
// numbers, such as peaks, are often equal in a few runs, and the next run differs.
func apart(n, m float64) float64 {
	factorial := func(x float64) float64 { v, _ := math.Lgamma(x + 1); return v } // its logarithm
	return 2 * math.Exp(factorial(n)+factorial(m)-factorial(n+m))
}

// Significant says which of the tests with those values of P differ, with at most the chance
// alpha that any of those without a difference is called one (Holm, 1979).
func Significant(values []float64, alpha float64) []bool {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(values[i], values[j]) })
	out := make([]bool, len(values))
	for rank, i := range order {
		if !(values[i] <= alpha/float64(len(values)-rank)) {
			break
		}
		out[i] = true
	}
	return out
}

// FirstRoot returns the smallest x at which the monotone cubic interpolant through the
// points is 0 (PCHIP: Fritsch and Butland, SIAM J. Sci. Stat. Comput. 5, 1984; gonum's
// has the slopes of scipy's PchipInterpolator at the ends too). False where it is 0
// nowhere between them, and for x that are fewer than two or do not ascend.
func FirstRoot(x, y []float64) (float64, bool) {
	if len(x) != len(y) || len(x) < 2 || !slices.IsSorted(x) || len(slices.Compact(slices.Clone(x))) < len(x) {
		return 0, false
	}
	var curve interp.FritschButland
	_ = curve.Fit(x, y) // never fails
	for i := range x {
		if y[i] == 0 {
			return x[i], true
		}
		if i+1 < len(x) && y[i]*y[i+1] < 0 { // between two points it is monotone
			return bisect(x[i], x[i+1], func(x float64) bool { return curve.Predict(x)*y[i] > 0 }), true
		}
	}
	return 0, false
}

// bisect returns where before, which holds at low and not at high, ends to hold.
func bisect(low, high float64, before func(float64) bool) float64 {
	for {
		mid := low + (high-low)/2
		if mid <= low || mid >= high {
			return high
		}
		if before(mid) {
			low = mid
		} else {
			high = mid
		}
	}
}
