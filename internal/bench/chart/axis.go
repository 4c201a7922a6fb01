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

// tiny is zero to an axis.
const tiny = 1e-30

// scale fits x to the values of the data.
func (x *Axis) scale(values []float64, vertical bool) scale {
	low, high := math.Inf(1), math.Inf(-1)
	least := math.Inf(1) // above zero
	for _, v := range slices.Concat(values, x.Holds) {
		if !drawable(v) {
			continue
		}
		low, high = min(low, v), max(high, v)
		if v > tiny {
			least = min(least, v)
		}
	}
	if low > high {
		low, high = 0, 1
	}
	s := scale{log: x.Log && high > tiny}
	if s.log {
		s.low, s.high = logRange(least, high, vertical)
		s.ticks = logTicks(s.low, s.high)
	} else {
		s.low, s.high = linearRange(low, high, vertical)
		s.ticks = linearTicks(s.low, s.high)
	}
	if x.Whole && !s.log {
		s.ticks = wholes(s.ticks)
	}
	if x.Ticks != nil {
		s.ticks = nil
		for _, v := range x.Ticks {
			if v >= s.low && v <= s.high {
				s.ticks = append(s.ticks, tick{v, strconv.FormatFloat(v, 'g', 6, 64)})
			}
		}
	}
	if x.Inf > 0 { // no number stands beside it
		s.ticks = slices.DeleteFunc(s.ticks, func(t tick) bool { return t.value >= 0.9*x.Inf })
		s.ticks = append(s.ticks, tick{x.Inf, "inf"})
	}
	return s
}

// at returns where a value stands; what lies beyond an end is put on it.
func (s *scale) at(v float64) vg.Length {
	v = min(max(v, s.low), s.high)
	f := (v - s.low) / (s.high - s.low)
	if s.log {
		f = math.Log(v/s.low) / math.Log(s.high/s.low)
	}
	return s.from + vg.Length(f)*(s.to-s.from)
}

// bound gives values without bound a place beyond all others, and returns these.
func (x *Axis) bound(values []float64) []float64 {
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
func (x *Axis) place(v float64) float64 {
	if x.Inf > 0 {
		return min(v, x.Inf)
	}
	return v
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

// round125 returns the next of …, 0.1, 0.2, 0.5, 1, 2, 5, 10, … at v or beyond it.
func round125(v float64, up bool) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	at := power
	for _, m := range []float64{1, 2, 5, 10} {
		switch {
		case up && m*power >= v*(1-1e-9):
			return m * power
		case !up && m*power <= v*(1+1e-9):
			at = m * power
		}
	}
	return at
}

func linearRange(low, high float64, vertical bool) (float64, float64) {
	if low >= 0 && (vertical || low <= high/2) {
		low = 0
	}
	if high-low <= 1e-9*math.Abs(high)+tiny { // one value
		if math.Abs(low) <= tiny {
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

func linearTicks(low, high float64) []tick {
	step := step125((high - low) * 0.999)
	digits := max(0, -int(math.Floor(math.Log10(step)+1e-9)))
	var out []tick
	for i := math.Ceil(low/step - 1e-9); i*step <= high+step*1e-6 && len(out) < 20; i++ {
		out = append(out, tick{i * step, number(i*step, digits)})
	}
	return out
}

// wholes keeps the marks at whole numbers.
func wholes(ticks []tick) []tick {
	var out []tick
	for _, t := range ticks {
		if n := math.Round(t.value); math.Abs(t.value-n) < 1e-9 {
			out = append(out, tick{n, number(n, 0)})
		}
	}
	return out
}

func logTicks(low, high float64) []tick {
	few := high/low <= 500
	var out []tick
	for power := math.Pow(10, math.Floor(math.Log10(low))); power <= high; power *= 10 {
		for m := 1.0; m < 10; m++ {
			t := tick{value: m * power}
			if t.value < low*(1-1e-9) || t.value > high*(1+1e-9) {
				continue
			}
			if m == 1 || (few && (m == 2 || m == 5)) {
				t.label = strconv.FormatFloat(t.value, 'g', 6, 64)
			}
			out = append(out, t)
		}
	}
	return out
}

// number writes v with a number of decimals; long ones in millions or with an exponent.
func number(v float64, digits int) string {
	a := math.Abs(v)
	switch {
	case v == 0:
		return "0" // not -0
	case a >= 1e10 || digits > 6:
		return strconv.FormatFloat(v, 'g', 4, 64)
	case a >= 1e6:
		return strconv.FormatFloat(v/1e6, 'g', 5, 64) + "M"
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}
