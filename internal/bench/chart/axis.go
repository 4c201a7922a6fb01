package chart

import (
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot/vg"
)

// An Axis is one axis of a panel. Its range comes from the data: Y begins at zero and ends
// round, X begins at zero where that does not hide the data and ends with them.
type Axis struct {
	Title string
	Whole bool      // the values are counts: no marks between whole numbers
	Log   bool      // logarithmic, if the data have a value above zero
	Ticks []float64 // where numbers stand; nil = at round ones
	Inf   float64   // the value that stands for "inf" (a load without bound); 0 = none
	Holds []float64 // beside the data of the panel: so panels share a range
}

// A scale is an axis with its range, along a stretch of the picture.
type scale struct {
	low, high float64
	log       bool
	ticks     []tick
	from, to  vg.Length
}

// A tick is a mark of an axis; one without a label is small.
type tick struct {
	value float64
	label string
}

// nearZero is zero to an axis.
const nearZero = 1e-30

// scale fits x to the values of the data.
func (x *Axis) scale(values []float64, vertical bool) scale {
	low, high := math.Inf(1), math.Inf(-1)
	least := math.Inf(1) // above zero
	for _, value := range slices.Concat(values, x.Holds) {
		if !drawable(value) {
			continue
		}
		low, high = min(low, value), max(high, value)
		if value > nearZero {
			least = min(least, value)
		}
	}
	if low > high { // no data
		low, high = 0, 1
	}
	fitted := scale{log: x.Log && high > nearZero}
	if fitted.log {
		fitted.low, fitted.high = logRange(least, high, vertical)
		fitted.ticks = logTicks(fitted.low, fitted.high)
	} else {
		fitted.low, fitted.high = linearRange(low, high, vertical)
		fitted.ticks = linearTicks(fitted.low, fitted.high)
	}
	// What the caller wants of the ticks comes after what the range gives.
	if x.Whole && !fitted.log {
		fitted.ticks = wholes(fitted.ticks)
	}
	if x.Ticks != nil {
		fitted.ticks = nil
		for _, value := range x.Ticks {
			if value >= fitted.low && value <= fitted.high {
				fitted.ticks = append(fitted.ticks, tick{value, strconv.FormatFloat(value, 'g', 6, 64)})
			}
		}
	}
	if x.Inf > 0 { // no number stands beside it
		fitted.ticks = slices.DeleteFunc(fitted.ticks, func(t tick) bool { return t.value >= 0.9*x.Inf })
		fitted.ticks = append(fitted.ticks, tick{x.Inf, "inf"})
	}
	return fitted
}

// at returns where a value stands; what lies beyond an end is put on it.
func (s *scale) at(value float64) vg.Length {
	value = min(max(value, s.low), s.high)
	share := (value - s.low) / (s.high - s.low)
	if s.log {
		share = math.Log(value/s.low) / math.Log(s.high/s.low)
	}
	return s.from + vg.Length(share)*(s.to-s.from)
}

// placeUnbounded gives values without bound a place beyond all others, and returns these.
func (x *Axis) placeUnbounded(values []float64) []float64 {
	bounded := slices.DeleteFunc(slices.Clone(values), func(v float64) bool { return !drawable(v) })
	if slices.Contains(values, math.Inf(1)) {
		x.Inf = 1.25
		if x.Log {
			x.Inf = 2
		}
		if len(bounded) > 0 && slices.Max(bounded) > 0 {
			x.Inf *= slices.Max(bounded)
		}
	}
	return bounded
}

// place is where a value stands in the units of the axis.
func (x *Axis) place(value float64) float64 {
	if x.Inf > 0 {
		return min(value, x.Inf)
	}
	return value
}

// drawable reports whether a value can be shown.
func drawable(v float64) bool { return v > -1e30 && v < 1e30 }

// wide reports whether the values above zero spread over a factor and more: too far for a
// linear axis.
func wide(values []float64, factor float64) bool {
	low, high := math.Inf(1), 0.0
	for _, v := range values {
		if v > 0 && drawable(v) {
			low, high = min(low, v), max(high, v)
		}
	}
	return high >= factor*low
}

// decades is how much of a logarithmic axis is shown; what is smaller is put at its begin.
const decades = 7

// logRange is a logarithmic range around the data: to the next round number where it is
// vertical, a little more than they need else.
func logRange(low, high float64, vertical bool) (float64, float64) {
	low = max(low, high*math.Pow(10, -decades))
	switch {
	case high <= low*1.01:
		return low / 2, high * 2
	case vertical:
		return round125(low, false), round125(high, true)
	}
	margin := math.Pow(high/low, 0.02)
	return low / margin, high * margin
}

// round125 returns the next of …, 0.1, 0.2, 0.5, 1, 2, 5, 10, … at a value or beyond it.
func round125(value float64, up bool) float64 {
	power := math.Pow(10, math.Floor(math.Log10(value)))
	at := power
	for _, digit := range []float64{1, 2, 5, 10} {
		switch {
		case up && digit*power >= value*(1-1e-9):
			return digit * power
		case !up && digit*power <= value*(1+1e-9):
			at = digit * power
		}
	}
	return at
}

// linearRange is a linear one, from zero where that does not hide the data.
func linearRange(low, high float64, vertical bool) (float64, float64) {
	if low >= 0 && (vertical || low <= high/2) {
		low = 0
	}
	if high-low <= 1e-9*math.Abs(high)+nearZero { // one value
		if math.Abs(low) <= nearZero {
			return 0, 1
		}
		pad := math.Abs(high) / 10
		return low - pad, high + pad
	}
	if !vertical {
		margin := (high - low) * 0.02
		if low != 0 {
			low -= margin
		}
		return low, high + margin
	}
	step := step125(high - low)
	return math.Floor(low/step+1e-9) * step, math.Ceil(high/step-1e-9) * step
}

// step125 returns a round distance of ticks, 1, 2 or 5 times a power of ten, so that a range
// has between four and ten.
func step125(span float64) float64 { return round125(span/8, true) }

// linearTicks are round numbers within a range.
func linearTicks(low, high float64) []tick {
	step := step125((high - low) * 0.999)
	digits := max(0, -int(math.Floor(math.Log10(step)+1e-9)))
	var out []tick
	for i := math.Ceil(low/step - 1e-9); i*step <= high+step*1e-6 && len(out) < 20; i++ {
		out = append(out, tick{i * step, axisNumber(i*step, digits)})
	}
	return out
}

// wholes keeps the marks at whole numbers.
func wholes(ticks []tick) []tick {
	var out []tick
	for _, t := range ticks {
		if n := math.Round(t.value); math.Abs(t.value-n) < 1e-9 {
			out = append(out, tick{n, axisNumber(n, 0)})
		}
	}
	return out
}

// logTicks are the multiples of powers of ten; where there are few powers, 2 and 5 have
// numbers too.
func logTicks(low, high float64) []tick {
	few := high/low <= 500
	var out []tick
	for power := math.Pow(10, math.Floor(math.Log10(low))); power <= high; power *= 10 {
		for digit := 1.0; digit < 10; digit++ {
			mark := tick{value: digit * power}
			if mark.value < low*(1-1e-9) || mark.value > high*(1+1e-9) {
				continue
			}
			if digit == 1 || (few && (digit == 2 || digit == 5)) {
				mark.label = strconv.FormatFloat(mark.value, 'g', 6, 64)
			}
			out = append(out, mark)
		}
	}
	return out
}

// axisNumber writes a value with a number of decimals; long ones in millions or with an exponent.
func axisNumber(value float64, digits int) string {
	size := math.Abs(value)
	switch {
	case value == 0:
		return "0" // not -0
	case size >= 1e10 || digits > 6:
		return strconv.FormatFloat(value, 'g', 4, 64)
	case size >= 1e6:
		return strconv.FormatFloat(value/1e6, 'g', 5, 64) + "M"
	}
	return strconv.FormatFloat(value, 'f', digits, 64)
}
