package sweep

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A Search looks for the load worth offering to a server (bench.md 6, item 9). It climbs
// a ladder of loads, each Factor times the one below, until one of the Stops, and then
// bisects: between the last load that kept the objectives and the first that did not, or
// for the smallest load at which throughput is within Gain of the highest.
type Search struct {
	Min, Max  float64 // loads: requests per second, or at once
	Factor    float64 // above 1
	Gain      float64 // of throughput, from one rung to the next: less ends the climb
	Precision float64 // what is located is known to this share of itself
	Points    int     // the budget: measurements
	Whole     bool    // loads are whole numbers, and located to 1
}

// A Point is what was measured at a load.
type Point struct {
	Load       float64 `json:"load"`
	Throughput float64 `json:"throughput"`          // output tokens per second
	Margin     float64 `json:"margin"`              // to the objectives, in their units; above 0 = one is missed
	Untrusted  string  `json:"untrusted,omitempty"` // what is wrong with the numbers; "" = nothing
}

// holds reports whether the load may be offered.
func (p Point) holds() bool { return p.Margin <= 0 && p.Untrusted == "" }

// A Stop is what ended a search.
type Stop string

// The stops.
const (
	StopGain      Stop = "throughput"   // it grew by less than Gain
	StopSLA       Stop = "sla"          // an objective was missed
	StopUntrusted Stop = "untrusted"    // the numbers of a measurement cannot be trusted
	StopRange     Stop = "end of range" // Max
	StopBudget    Stop = "budget"       // of measurements, or of time
)

// Check reports what no search can work with.
func (s Search) Check() error {
	switch {
	case !(s.Min > 0 && s.Max >= s.Min && s.Max <= 1e9):
		return fmt.Errorf("loads from %v to %v: want 0 < from <= to <= 1e9", s.Min, s.Max)
	case s.Whole && (s.Min != math.Trunc(s.Min) || s.Max != math.Trunc(s.Max)):
		return fmt.Errorf("loads from %v to %v: want whole numbers", s.Min, s.Max)
	case !(s.Factor >= 1.1 && s.Factor <= 100):
		return fmt.Errorf("factor %v: want 1.1 to 100", s.Factor)
	case !(s.Gain >= 0 && s.Gain < s.Factor-1):
		return fmt.Errorf("gain %v: want 0 to less than %.3g, as throughput cannot grow faster than load", s.Gain, s.Factor-1)
	case !(s.Precision >= 0.01 && s.Precision <= 1):
		return fmt.Errorf("precision %v: want 0.01 to 1", s.Precision)
	case s.Points < 1:
		return errors.New("a budget of no points: want 1 or more")
	}
	return nil
}

// Next returns the load to measure next; false = the search has ended. It depends on
// nothing but s and the points, whose order does not matter.
func (s Search) Next(points []Point) (load float64, ok bool) {
	if len(points) >= s.Points {
		return 0, false
	}
	return s.wanted(points)
}

// wanted is Next without a budget.
func (s Search) wanted(points []Point) (load float64, ok bool) {
	rung, stop := s.climb(points)
	if stop == "" {
		return rung, true
	}
	// The climb is over. Next in worth: the boundary of the objectives, where there is one.
	limit, broken := limits(points)
	if limit > 0 && broken > 0 {
		if load, ok := s.between(limit, broken); ok {
			return load, true
		}
	}
	if stop != StopGain {
		return 0, false // throughput still grew
	}
	// Then the peak of throughput, and last the knee below it, where it is nearly as high.
	best := highest(points)
	above := neighbour(points, best.Load, +1)
	if above >= best.Load*s.Factor { // the peak may lie between two rungs
		if load, ok := s.between(best.Load, above); ok {
			return load, true
		}
	}
	knee := s.knee(points)
	if below := neighbour(points, knee, -1); below > 0 {
		return s.between(below, knee)
	}
	return 0, false
}

// climb returns the next rung of the ladder, or why there is none.
func (s Search) climb(points []Point) (next float64, stop Stop) {
	var below Point
	for load := s.Min; ; load = s.up(load) {
		at := slices.IndexFunc(points, func(point Point) bool { return point.Load == load })
		if at < 0 {
			return load, ""
		}
		point := points[at]
		switch {
		case point.Untrusted != "":
			return 0, StopUntrusted
		case point.Margin > 0:
			return 0, StopSLA
		case below.Load > 0 && load >= below.Load*s.Factor && point.Throughput < below.Throughput*(1+s.Gain):
			return 0, StopGain // the last rung may be lower than the others: no growth is no news there
		case load >= s.Max:
			return 0, StopRange
		}
		below = point
	}
}

// up is the rung above a load.
func (s Search) up(load float64) float64 {
	load *= s.Factor
	if s.Whole {
		load = math.Ceil(load)
	}
	return min(load, s.Max)
}

// ladder are all rungs.
func (s Search) ladder() []float64 {
	out := []float64{s.Min}
	for load := s.Min; load < s.Max; {
		load = s.up(load)
		out = append(out, load)
	}
	return out
}

// between is the geometric mean of two loads; false = they are close enough.
func (s Search) between(low, high float64) (float64, bool) {
	if high <= low*(1+s.Precision) || (s.Whole && high-low <= 1) {
		return 0, false
	}
	mid := math.Sqrt(low * high)
	if s.Whole {
		mid = math.Round(mid)
	} else { // four digits are enough for a name
		mid, _ = strconv.ParseFloat(strconv.FormatFloat(mid, 'g', 4, 64), 64)
	}
	return mid, mid > low && mid < high
}

// limits are the largest load that holds below the smallest that does not, and that one;
// 0 = there is none.
func limits(points []Point) (limit, broken float64) {
	for _, point := range points {
		if !point.holds() && (broken == 0 || point.Load < broken) {
			broken = point.Load
		}
	}
	for _, point := range points {
		if point.holds() && (broken == 0 || point.Load < broken) {
			limit = max(limit, point.Load)
		}
	}
	return limit, broken
}

// highest is the point with the highest throughput that can be trusted; of equals the one
// with the smallest load. Its load is 0 if there is none.
func highest(points []Point) (best Point) {
	for _, point := range points {
		if point.Untrusted == "" && (point.Throughput > best.Throughput || (point.Throughput == best.Throughput && point.Load < best.Load)) {
			best = point
		}
	}
	return best
}

// knee is the smallest load whose throughput is within Gain of the highest: more load
// only makes requests wait longer. 0 = nothing came at any load.
func (s Search) knee(points []Point) (load float64) {
	enough := highest(points).Throughput / (1 + s.Gain)
	for _, point := range points {
		if point.Untrusted == "" && point.Throughput > 0 && point.Throughput >= enough && (load == 0 || point.Load < load) {
			load = point.Load
		}
	}
	return load
}

// neighbour is the measured load next above or below another; 0 = there is none.
func neighbour(points []Point, load float64, side float64) (next float64) {
	for _, point := range points {
		if (point.Load-load)*side > 0 && (next == 0 || (next-point.Load)*side > 0) {
			next = point.Load
		}
	}
	return next
}

// A Conclusion is what a search has found. Loads of 0 are not known.
type Conclusion struct {
	StoppedBy   Stop    `json:"stopped_by"`
	Limit       float64 `json:"sla_limit"`       // largest load that kept the objectives, below the smallest that did not
	Broken      float64 `json:"sla_broken"`      // smallest load that did not
	Located     bool    `json:"sla_located"`     // the boundary lies between the two, which are close; else Limit is only a lower bound
	Why         string  `json:"broken_why"`      // sla, or what made the numbers at Broken untrusted
	Peak        float64 `json:"throughput_peak"` // smallest load whose throughput is within Gain of the highest
	Throughput  float64 `json:"peak_throughput"` // the highest, output tokens per second
	Recommended float64 `json:"recommended"`     // min(Limit, Peak)
}

// Conclude says what the points mean. A search that wants more of them has run out of its
// budget.
func (s Search) Conclude(points []Point) Conclusion {
	var conclusion Conclusion
	if _, more := s.wanted(points); more {
		conclusion.StoppedBy = StopBudget
	} else {
		_, conclusion.StoppedBy = s.climb(points)
	}
	conclusion.Limit, conclusion.Broken = limits(points)
	if conclusion.Limit > 0 && conclusion.Broken > 0 {
		_, apart := s.between(conclusion.Limit, conclusion.Broken)
		conclusion.Located = !apart
	}
	// Why the smallest load that did not hold did not: distrust comes before the objectives.
	for _, point := range points {
		if point.Load != conclusion.Broken || point.holds() {
			continue
		}
		if conclusion.Why = point.Untrusted; conclusion.Why == "" {
			conclusion.Why = "sla"
		}
	}
	conclusion.Peak, conclusion.Throughput = s.knee(points), highest(points).Throughput
	conclusion.Recommended = min(conclusion.Limit, conclusion.Peak)
	return conclusion
}

// String says it in words.
func (c Conclusion) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "Stopped by: %s\n", c.StoppedBy)
	why := "the objectives are missed" // at Broken
	if c.Why != "sla" {
		why = "the numbers cannot be trusted (" + c.Why + ")"
	}
	switch {
	case c.Broken == 0:
		fmt.Fprintf(&text, "SLA limit: at least %.4g: a lower bound, no load was too much\n", c.Limit)
	case c.Limit == 0:
		fmt.Fprintf(&text, "SLA limit: below %.4g, the smallest load, where %s\n", c.Broken, why)
	case c.Located:
		fmt.Fprintf(&text, "SLA limit: %.4g, located: at %.4g %s\n", c.Limit, c.Broken, why)
	default:
		fmt.Fprintf(&text, "SLA limit: at least %.4g, not located: at %.4g %s\n", c.Limit, c.Broken, why)
	}
	fmt.Fprintf(&text, "Throughput peak: %.4g, with up to %.2f output tokens/s\n", c.Peak, c.Throughput)
	if c.Recommended == 0 {
		text.WriteString("Recommended load: none\n")
	} else {
		fmt.Fprintf(&text, "Recommended load: %.4g\n", c.Recommended)
	}
	return text.String()
}
