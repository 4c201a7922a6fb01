package race

import (
	"fmt"
	"math"
	"slices"

	"ossian/internal/stat"
)

// This file is the sentinel of lab.md 4.4. The baseline is in every block, so its own
// values over time show whether the machine changed under the campaign. Ratios within a
// block stay valid then; absolute values are of their day. The slope is the median of the
// slopes of all pairs, which a few outliers do not move, and its interval comes from
// counting the pairs that agree (Theil, 1950; Sen, J. Am. Stat. Assoc. 63, 1968).

// driftLeast is the change over a campaign, as a share, below which none is called drift.
const driftLeast = 0.02

// A Reading is a value of the baseline and when it was measured, in any unit of time from
// any start.
type Reading struct{ At, Value float64 }

// A Drift is how the baseline changed from the first reading to the last, as a share:
// -0.1 is 10 % less at the end, whichever way the objective goes.
type Drift struct {
	Change   float64       `json:"change"`
	Interval stat.Interval `json:"interval"` // 95 %
	Formed   bool          `json:"formed"`   // fewer than five readings allow no interval
	Drifting bool          `json:"drifting"`
	Readings int           `json:"readings"`
}

// Sentinel looks for drift. Readings that are not above 0 or not finite are passed over.
func Sentinel(readings []Reading) Drift {
	var kept []Reading
	for _, reading := range readings {
		if reading.Value > 0 && !math.IsInf(reading.Value, 0) && !math.IsNaN(reading.At) && !math.IsInf(reading.At, 0) {
			kept = append(kept, reading)
		}
	}
	drift := Drift{Readings: len(kept)}
	var slopes []float64
	first, last := math.Inf(1), math.Inf(-1)
	for i, one := range kept {
		first, last = min(first, one.At), max(last, one.At)
		for _, other := range kept[:i] {
			if one.At != other.At {
				slopes = append(slopes, (math.Log(one.Value)-math.Log(other.Value))/(one.At-other.At))
			}
		}
	}
	if len(slopes) == 0 {
		return drift
	}
	slices.Sort(slopes)
	span := last - first
	drift.Change = math.Expm1(span * stat.Median(slopes))
	// As many pairs on either side as the count of agreeing pairs exceeds by chance only
	// once in forty. Pairs at equal times say nothing of a slope and shrink both counts.
	excess, ok := kendall(len(kept), (1-stat.Confidence)/2)
	outside := (len(slopes) - excess) / 2
	if !ok || outside < 1 {
		return drift
	}
	low, high := slopes[outside-1], slopes[len(slopes)-outside]
	drift.Formed = true
	drift.Interval = stat.Interval{Low: math.Expm1(span * low), High: math.Expm1(span * high)}
	drift.Drifting = (low > 0 || high < 0) && math.Abs(drift.Change) > driftLeast
	return drift
}

// String states the finding for the report.
func (d Drift) String() string {
	switch {
	case !d.Formed:
		return fmt.Sprintf("drift unknown: %d readings of the baseline, 5 are needed", d.Readings)
	case d.Drifting:
		return fmt.Sprintf("drifting: the baseline changed by %+.1f %% [%+.1f, %+.1f] over the campaign; ratios within blocks stay valid, absolute values are of their time",
			100*d.Change, 100*d.Interval.Low, 100*d.Interval.High)
	}
	return fmt.Sprintf("no drift: the baseline changed by %+.1f %% [%+.1f, %+.1f] over the campaign", 100*d.Change, 100*d.Interval.Low, 100*d.Interval.High)
}

// kendallExact is the number of readings up to which chances of counts are exact.
const kendallExact = 60

// kendall returns the largest c such that the number of agreeing pairs less the number of
// disagreeing ones, of n values in random order, is above c with at most the chance tail;
// false where so few values allow none (Kendall, Biometrika 30, 1938).
func kendall(n int, tail float64) (int, bool) {
	pairs := n * (n - 1) / 2
	if n > kendallExact { // the count is close to normal
		// A hundredth of the count's own step is no matter at so many values.
		spread := math.Sqrt(float64(n) * float64(n-1) * float64(2*n+5) / 18)
		return int(math.Ceil(spread * math.Sqrt2 * math.Erfinv(1-2*tail))), true
	}
	// chance[k] is that of k disagreeing pairs: the next value in a random order stands
	// below 0, 1, … or all of those before with equal chances.
	chance := []float64{1}
	for size := 2; size <= n; size++ {
		next := make([]float64, size*(size-1)/2+1)
		for count, share := range chance {
			for below := range size {
				next[count+below] += share / float64(size)
			}
		}
		chance = next
	}
	sum := 0.0
	for disagree, share := range chance {
		sum += share
		if sum > tail {
			return pairs - 2*disagree, disagree > 0
		}
	}
	return 0, false
}
