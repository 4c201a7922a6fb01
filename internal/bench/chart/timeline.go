package chart

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"ossian/internal/bench/report"
)

// Thresholds are where the colours of a timeline change: gaps between tokens below the
// first, between both, and from the second (bench.md 1.9).
type Thresholds [2]time.Duration

// ParseThresholds reads two numbers of milliseconds such as 25,50.
func ParseThresholds(text string) (thresholds Thresholds, err error) {
	a, b, ok := strings.Cut(text, ",")
	for i, part := range []string{a, b} {
		ms, err := strconv.ParseFloat(strings.TrimSpace(part), 64)
		if err != nil || !ok || !(ms >= 0) {
			return thresholds, fmt.Errorf("%q: want two numbers such as 25,50", text)
		}
		thresholds[i] = time.Duration(ms * 1e6)
	}
	return thresholds, nil
}

// DefaultThresholds are those of --timeline-itl-thresholds.
var DefaultThresholds = Thresholds{25 * time.Millisecond, 50 * time.Millisecond}

// The classes of bars of a timeline, which the style sheet colours (bench.md 1.9); where
// bars are too short to be told apart, the later class is shown.
const (
	fast = iota
	first
	slow
	slowest
	failed
	classes
)

// ticks is how many units of a bar are a second; the script of the page knows it too.
const ticksPerSecond = 10_000

// A bar is a stretch of one class in a row.
type bar struct {
	row      int
	from, to int64 // ticks since the first request began
}

// A timeline is what the requests of a run did when, first on top. It shows as many rows
// as it was allowed, evenly chosen, and merges bars until they are few enough.
type timeline struct {
	rows   []int // requests shown
	limits Thresholds
	end    int64 // ticks
	bars   [classes][]bar
}

// timeline makes the timeline of a run, of at most so many rows and bars.
func (s *series) timeline(limits Thresholds, maxRows, maxBars int) *timeline {
	made := &timeline{rows: evenly(len(s.Summary.Requests), maxRows), limits: limits}
	for _, i := range made.rows {
		if _, end, ok := s.bounds(i); ok {
			made.end = max(made.end, int64(end*ticksPerSecond)+1)
		}
	}
	// Coarser and coarser, until there are few enough bars or nothing more to merge.
	for unit := int64(1); ; unit *= 2 {
		bars := 0
		made.bars = [classes][]bar{}
		for row, i := range made.rows {
			bars += made.add(s, row, i, unit)
		}
		if bars <= maxBars || unit > made.end {
			return made
		}
	}
}

// evenly picks at most so many of the numbers below count, the first among them.
func evenly(count, most int) []int {
	most = min(count, most)
	out := make([]int, most)
	for i := range out {
		out[i] = i * count / most
	}
	return out
}

// add merges a request into bars whose ends are multiples of unit and returns how many.
func (t *timeline) add(run *series, row, index int, unit int64) int {
	start, end, ok := run.bounds(index)
	if !ok {
		return 0
	}
	request := &run.Summary.Requests[index]
	// First token, then the gaps one behind another; of a failure the whole time is one bar.
	merging := merger{unit: unit}
	if !request.OK {
		merging.add(failed, start, end)
	} else {
		at := start + request.TTFT
		merging.add(first, start, at)
		for _, gap := range request.ITL {
			merging.add(t.class(gap), at, at+gap)
			at += gap
		}
	}
	for _, b := range merging.out {
		t.bars[b.class] = append(t.bars[b.class], bar{row, b.from * unit, b.to * unit})
	}
	return len(merging.out)
}

// class returns that of a gap in seconds.
func (t *timeline) class(gap float64) int {
	switch {
	case gap < t.limits[0].Seconds():
		return fast
	case gap < t.limits[1].Seconds():
		return slow
	}
	return slowest
}

// classNames says what the colours mean.
func (t *timeline) classNames() []string {
	a, b := milliseconds(t.limits[0]), milliseconds(t.limits[1])
	return []string{fast: "ITL below " + a + " ms", first: "TTFT", slow: "ITL " + a + " to " + b + " ms",
		slowest: "ITL from " + b + " ms", failed: "failed"}
}

// legend is the order in which the classes are named; without failures, these are not.
func (t *timeline) legend() []int {
	out := []int{first, fast, slow, slowest, failed}
	if len(t.bars[failed]) == 0 {
		out = out[:failed]
	}
	return out
}

// milliseconds writes a time as a number of them.
func milliseconds(d time.Duration) string {
	return strconv.FormatFloat(float64(d)/1e6, 'g', 6, 64)
}

// A merger joins stretches of time, in order, that end on multiples of unit.
type merger struct {
	unit int64
	out  []merged
}

// A merged stretch has one class.
type merged struct {
	class    int
	from, to int64 // units
}

// add appends a stretch. Rounding makes it one unit at least, so it may overlap the last;
// then the later class wins, as with the bars themselves.
func (m *merger) add(class int, start, end float64) {
	const slack = 1e-6 // units: ends that floating point moved
	from := int64(math.Floor(start*ticksPerSecond/float64(m.unit) + slack))
	to := max(from+1, int64(math.Ceil(end*ticksPerSecond/float64(m.unit)-slack)))
	for count := len(m.out); count > 0; count = len(m.out) {
		last := &m.out[count-1]
		if last.class == class && from <= last.to {
			last.to = max(last.to, to)
			return
		}
		if from >= last.to {
			break
		}
		if class < last.class { // what is shared shows the worse
			if from = last.to; from >= to {
				return
			}
			break
		}
		if last.to = from; last.to > last.from {
			break
		}
		m.out = m.out[:count-1]
	}
	m.out = append(m.out, merged{class, from, to})
}

// path returns the bars of a class as SVG path data: x in ticks, y in rows.
func (t *timeline) path(class int) string {
	var path strings.Builder
	for _, bar := range t.bars[class] {
		fmt.Fprintf(&path, "M%d %d.5h%d", bar.from, bar.row, bar.to-bar.from)
	}
	return path.String()
}

// rowsShown says how many of the requests are in a picture.
func rowsShown(rows, all int) string {
	if rows == all {
		return fmt.Sprintf("%d requests, first on top", rows)
	}
	return fmt.Sprintf("%d of %d requests, first on top", rows, all)
}

// A hover is what the page knows of a row: times in microseconds.
type hover struct {
	Request int     `json:"request"`
	Start   int64   `json:"start"`
	End     int64   `json:"end"`
	TTFT    int64   `json:"ttft"`
	ITL     []int64 `json:"itl"` // null = left out, there are too many
	Input   int     `json:"input"`
	Output  int     `json:"output"`
	Err     string  `json:"err,omitempty"`
}

// underPointer returns what the rows of t show under the pointer, with at most maxGaps gaps.
func (t *timeline) underPointer(run *series, maxGaps int) []hover {
	out := make([]hover, len(t.rows))
	for row, i := range t.rows {
		request := &run.Summary.Requests[i]
		start, end, _ := run.bounds(i)
		shown := hover{Request: i, Start: micros(start), End: micros(end), TTFT: micros(request.TTFT), Input: request.Input, Output: request.Output, Err: reason(request)}
		if request.OK && len(request.ITL) <= maxGaps {
			maxGaps -= len(request.ITL)
			shown.ITL = make([]int64, len(request.ITL))
			for k, gap := range request.ITL {
				shown.ITL[k] = micros(gap)
			}
		}
		out[row] = shown
	}
	return out
}

// micros is seconds in microseconds.
func micros(seconds float64) int64 { return int64(seconds*1e6 + 0.5) }

// reason says why a request failed; "" = it did not.
func reason(request *report.Request) string {
	if request.OK {
		return ""
	}
	if request.Err == "" {
		return "failed"
	}
	return clip(request.Err, 200)
}
