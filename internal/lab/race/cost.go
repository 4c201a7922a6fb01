package race

import "math"

// This file is the arithmetic of lab.md 4, item 9. What was not measured has no value:
// every function says whether its result is known, and callers print "not measured".

// CostPerMillion returns the price of a million tokens, in the currency of pricePerHour,
// of machines that together cost that and made tokens in seconds. Unknown without a
// price, without time, and for a run without tokens.
func CostPerMillion(pricePerHour, seconds, tokens float64) (float64, bool) {
	if !(pricePerHour > 0) {
		return 0, false
	}
	return ratio(pricePerHour*seconds/3600*1e6, tokens)
}

// JoulesPerToken returns the energy of one token. Unknown without energy or tokens.
func JoulesPerToken(joules, tokens float64) (float64, bool) { return ratio(joules, tokens) }

// ratio divides amounts of which neither may be absent.
func ratio(amount, tokens float64) (float64, bool) {
	if !(amount > 0 && tokens > 0) || math.IsInf(amount, 0) || math.IsInf(tokens, 0) {
		return 0, false
	}
	return amount / tokens, true
}

// Energy returns what a counter of energy advanced from the first reading to the last, in
// the counter's unit: microjoules of RAPL's energy_uj, millijoules of NVML. A counter that
// starts again after its largest value wraps (RAPL's max_energy_range_uj, about 22 minutes
// at 200 W) must be read at least once in that time; wraps 0 is one that does not. Unknown
// with fewer than two readings, with one beyond wraps, and where a counter that does not
// wrap went back: it was reset.
func Energy(readings []uint64, wraps uint64) (uint64, bool) {
	if len(readings) < 2 {
		return 0, false
	}
	total := uint64(0)
	for i, reading := range readings {
		if wraps > 0 && reading > wraps {
			return 0, false
		}
		if i == 0 {
			continue
		}
		before := readings[i-1]
		switch {
		case reading >= before:
			total += reading - before
		case wraps == 0:
			return 0, false
		default: // from before to wraps, one step to 0, and on
			total += wraps - before + 1 + reading
		}
	}
	return total, true
}
