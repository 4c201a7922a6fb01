package check

// Figures: numbers with a unit and an origin. What is printed and what is in the JSON is the same
// number, rounded once, here (acceptance C3).

import (
	"fmt"
	"math"
	"strconv"
)

// A Figure is a number of a report.
type Figure struct {
	Name     string      `json:"name"`
	Value    float64     `json:"value"`
	Unit     string      `json:"unit"`
	Interval *[2]float64 `json:"interval95,omitempty"`
	Origin   string      `json:"origin"` // metric NAME, measured, route PATH, given, counted, computed: FORMULA
}

// figure makes a figure of three digits.
func figure(name string, value float64, unit, origin string) Figure {
	return Figure{Name: name, Value: digits(value, 3), Unit: unit, Origin: origin}
}

// digits rounds to so many significant digits; whole numbers keep all of theirs.
func digits(value float64, n int) float64 {
	if value == 0 || math.IsNaN(value) || math.IsInf(value, 0) {
		return 0
	}
	places := n - 1 - int(math.Floor(math.Log10(math.Abs(value))))
	if places <= 0 {
		return math.Round(value)
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(value, 'f', places, 64), 64)
	return rounded
}

// formatNumber prints a number as JSON would: no more digits than it has.
func formatNumber(value float64) string { return strconv.FormatFloat(value, 'f', -1, 64) }

// three prints a number with three significant digits, zeros included: 5.00, 358, 0.120.
func three(value float64) string {
	if value == 0 {
		return "0"
	}
	places := max(2-int(math.Floor(math.Log10(math.Abs(value)))), 0)
	return strconv.FormatFloat(value, 'f', places, 64)
}

// String is the figure as the text has it.
func (f Figure) String() string {
	text := formatNumber(f.Value)
	if f.Unit != "" {
		text += " " + f.Unit
	}
	if f.Interval != nil {
		text += fmt.Sprintf(" [%s, %s]", formatNumber(f.Interval[0]), formatNumber(f.Interval[1]))
	}
	return text
}
