package verify

// Printed numbers and what they can mean. A number on paper is an interval: everything that
// rounds to the digits that stand there. All rules compare intervals, never values, so that
// no finding rests on a digit that the author did not print.

import (
	"math"
	"strconv"
	"strings"
)

// A number is a figure as it is printed: its value, and half a unit of its last digit.
type number struct {
	text  string
	value float64
	half  float64
	line  int // in the document, from 1; 0 = not known
}

// parseNumber reads a printed figure, thousands set off by commas; false for anything else
// and for what no float64 holds.
func parseNumber(text string) (number, bool) {
	plain := strings.ReplaceAll(strings.TrimSpace(text), ",", "")
	plain = strings.Replace(plain, "\u2212", "-", 1)
	value, err := strconv.ParseFloat(plain, 64)
	if err != nil || math.IsNaN(value) || math.Abs(value) > 1e18 {
		return number{}, false
	}
	return number{text: strings.TrimSpace(text), value: value, half: halfUnit(plain, value)}, true
}

// halfUnit is half a unit of the last printed digit. Whole numbers are counts and exact;
// figures with more digits than a float64 keeps are exact to its precision.
func halfUnit(plain string, value float64) float64 {
	least := math.Abs(value) * 1e-9
	mantissa, exponent, _ := strings.Cut(strings.ToLower(plain), "e")
	_, decimals, ok := strings.Cut(mantissa, ".")
	if !ok {
		return least
	}
	shift, _ := strconv.Atoi(exponent)
	return max(0.5*math.Pow10(shift-len(decimals)), least)
}

// rounded is n where it is no count: a whole figure of prose is rounded to its last digit
// too, and one that calls itself about so much to its last digit that is not 0.
func (n number) rounded(about bool) number {
	digits := strings.TrimLeft(strings.ReplaceAll(n.text, ",", ""), "+-~\u2212")
	if strings.Contains(digits, ".") {
		return n
	}
	n.half = 0.5
	for about && strings.HasSuffix(digits, "0") && len(digits) > 1 {
		digits, n.half = digits[:len(digits)-1], n.half*10
	}
	return n
}

// span is what n can mean.
func (n number) span() span { return span{n.value - n.half, n.value + n.half} }

// A span is a closed interval.
type span struct{ low, high float64 }

// plus is the sum of two spans.
func (s span) plus(other span) span { return span{s.low + other.low, s.high + other.high} }

// times is the product of two spans of numbers that are not negative.
func (s span) times(other span) span { return span{s.low * other.low, s.high * other.high} }

// over is the quotient of two spans of numbers that are not negative; unbounded where the
// divisor reaches 0.
func (s span) over(other span) span {
	if other.low <= 0 {
		return span{s.low / math.Max(other.high, math.SmallestNonzeroFloat64), math.Inf(1)}
	}
	return span{s.low / other.high, s.high / other.low}
}

// wider is s with a tolerance on both sides for sums of floats.
func (s span) wider() span {
	slack := 1e-9 * (math.Abs(s.low) + math.Abs(s.high))
	return span{s.low - slack, s.high + slack}
}

// meets reports whether some number lies in both spans.
func (s span) meets(other span) bool {
	s = s.wider()
	return s.low <= other.high && other.low <= s.high
}

// middle is the centre of a span.
func (s span) middle() float64 { return (s.low + s.high) / 2 }

// figure writes a number as reports do: two decimals, fewer where it is large or whole.
func figure(value float64) string {
	switch {
	case value == math.Trunc(value) && math.Abs(value) < 1e15:
		return strconv.FormatFloat(value, 'f', 0, 64)
	case math.Abs(value) >= 1e6:
		return strconv.FormatFloat(value, 'f', 0, 64)
	case math.Abs(value) >= 10:
		return strconv.FormatFloat(value, 'f', 2, 64)
	}
	return strconv.FormatFloat(value, 'g', 4, 64)
}
