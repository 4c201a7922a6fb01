package chart

import (
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg/draw"
)

// An Axis is one axis of a panel. Its range comes from the data: Y begins at zero and ends
// round, X begins at zero where that does not hide the data and ends with them.
type Axis struct {
	Title string
	Log   bool      // logarithmic, if the data have a value above zero
	Names []string  // at 0, 1, 2 … in place of numbers
	Ticks []float64 // where numbers stand; nil = at round ones
	Inf   float64   // the value that stands for "inf" (a load without bound); 0 = none
}

// tiny is zero to an axis.
const tiny = 1e-30

// apply sets up a for the values of the data.
func (x Axis) apply(a *plot.Axis, values []float64, vertical bool) {
	low, high := math.Inf(1), math.Inf(-1)
	least := math.Inf(1) // above zero
	for _, v := range values {
		low, high = min(low, v), max(high, v)
		if v > tiny {
			least = min(least, v)
		}
	}
	if low > high {
		low, high = 0, 1
	}
	a.Label.Text = clip(x.Title, 2*maxName)
	a.Label.TextStyle = letters(9, draw.XCenter)
	a.Label.Padding = 3
	a.Tick.Label = letters(8, draw.XCenter)
	a.Tick.Length = 4
	a.Tick.Color, a.Color = axes, axes
	a.Padding = 0
	switch {
	case x.Names != nil:
		a.Min, a.Max = -0.6, float64(len(x.Names))-0.4
		a.Tick.Marker = nameTicks(x.Names)
		a.Tick.Color = color.White // room without marks
	case x.Log && high > tiny:
		a.Min, a.Max = logRange(least, high, vertical)
		a.Scale = plot.LogScale{}
		a.Tick.Marker = plot.TickerFunc(logTicks)
	default:
		a.Min, a.Max = linearRange(low, high, vertical)
		a.Tick.Marker = plot.TickerFunc(linearTicks)
	}
	if x.Ticks != nil {
		a.Tick.Marker = valueTicks(x.Ticks)
	}
	if x.Inf > 0 {
		a.Tick.Marker = withInf(a.Tick.Marker, x.Inf)
	}
}

// wide reports whether the values above zero spread over a factor and more: too far for a
// linear axis.
func wide(values []float64, factor float64) bool {
	low, high := math.Inf(1), 0.0
	for _, v := range values {
		if v > 0 {
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

func linearTicks(low, high float64) []plot.Tick {
	step := step125((high - low) * 0.999)
	digits := max(0, -int(math.Floor(math.Log10(step)+1e-9)))
	var out []plot.Tick
	for i := math.Ceil(low/step - 1e-9); i*step <= high+step*1e-6 && len(out) < 20; i++ {
		out = append(out, plot.Tick{Value: i * step, Label: number(i*step, digits)})
	}
	return out
}

func logTicks(low, high float64) []plot.Tick {
	few := high/low <= 500
	var out []plot.Tick
	for power := math.Pow(10, math.Floor(math.Log10(low))); power <= high; power *= 10 {
		for m := 1.0; m < 10; m++ {
			v := m * power
			if v < low*(1-1e-9) || v > high*(1+1e-9) {
				continue
			}
			t := plot.Tick{Value: v}
			if m == 1 || few && (m == 2 || m == 5) {
				t.Label = strconv.FormatFloat(v, 'g', 6, 64)
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

func nameTicks(names []string) plot.ConstantTicks {
	out := make(plot.ConstantTicks, len(names))
	for i, n := range names {
		out[i] = plot.Tick{Value: float64(i), Label: clip(n, 24)}
	}
	return out
}

func valueTicks(values []float64) plot.ConstantTicks {
	out := make(plot.ConstantTicks, len(values))
	for i, v := range values {
		out[i] = plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'g', 6, 64)}
	}
	return out
}

// withInf labels the value inf as what it stands for, and drops numbers beside it.
func withInf(t plot.Ticker, inf float64) plot.Ticker {
	return plot.TickerFunc(func(low, high float64) []plot.Tick {
		out := []plot.Tick{{Value: inf, Label: "inf"}}
		for _, tick := range t.Ticks(low, high) {
			if tick.Value < inf*0.9 {
				out = append(out, tick)
			}
		}
		return out
	})
}
