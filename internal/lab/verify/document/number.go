package document

// Printed numbers and what they can mean. A number on paper is an interval: everything that
// rounds to the digits that stand there. All rules compare intervals, never values, so that
// no finding rests on a digit that the author did not print.

import (
	"math"
	"strconv"
	"strings"
)

// A Number is a figure as it is printed: its value, and half a unit of its last digit.
type Number struct {
	Text  string
	Value float64
	Half  float64
	Line  int // in the document, from 1; 0 = not known
}

// ParseNumber reads a printed figure, thousands set off by commas; false for anything else
// and for what no float64 holds.
func ParseNumber(text string) (Number, bool) {
	plain := strings.ReplaceAll(strings.TrimSpace(text), ",", "")
	plain = strings.Replace(plain, "\u2212", "-", 1)
	value, err := strconv.ParseFloat(plain, 64)
	if err != nil || math.IsNaN(value) || math.Abs(value) > 1e18 {
		return Number{}, false
	}
	return Number{Text: strings.TrimSpace(text), Value: value, Half: halfUnit(plain, value)}, true
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

// Rounded is n where it is no count: a whole figure of prose is rounded to its last digit
// too, and one that calls itself about so much to its last digit that is not 0.
func (n Number) Rounded(about bool) Number {
	digits := strings.TrimLeft(strings.ReplaceAll(n.Text, ",", ""), "+-~\u2212")
	if strings.Contains(digits, ".") {
		return n
	}
	n.Half = 0.5
	for about && strings.HasSuffix(digits, "0") && len(digits) > 1 {
		digits, n.Half = digits[:len(digits)-1], n.Half*10
	}
	return n
}

// Same reports whether two printed figures can be of one value: equal where both have as
// many decimals, within the rounding of both else.
func (n Number) Same(other Number) bool {
	if decimals(n.Text) == decimals(other.Text) && n.Half <= halfUnit(n.Text, n.Value)*1.5 && other.Half <= halfUnit(other.Text, other.Value)*1.5 {
		return math.Abs(n.Value-other.Value) <= math.Max(math.Abs(n.Value)*1e-12, n.Half/4)
	}
	return n.Span().Meets(other.Span())
}

// decimals is how many digits stand behind the point of a figure.
func decimals(text string) int {
	_, after, _ := strings.Cut(text, ".")
	return len(after)
}

// Span is what n can mean.
func (n Number) Span() Span { return Span{n.Value - n.Half, n.Value + n.Half} }

// A Span is a closed interval.
type Span struct{ Low, High float64 }

// Between is the span from low to high.
func Between(low, high float64) Span { return Span{low, high} }

// Plus is the sum of two spans.
func (s Span) Plus(other Span) Span { return Span{s.Low + other.Low, s.High + other.High} }

// Times is the product of two spans of numbers that are not negative.
func (s Span) Times(other Span) Span { return Span{s.Low * other.Low, s.High * other.High} }

// Over is the quotient of two spans of numbers that are not negative; unbounded where the
// divisor reaches 0.
func (s Span) Over(other Span) Span {
	if other.Low <= 0 {
		return Span{s.Low / math.Max(other.High, math.SmallestNonzeroFloat64), math.Inf(1)}
	}
	return Span{s.Low / other.High, s.High / other.Low}
}

// wider is s with a tolerance on both sides for sums of floats.
func (s Span) wider() Span {
	slack := 1e-9 * (math.Abs(s.Low) + math.Abs(s.High))
	return Span{s.Low - slack, s.High + slack}
}

// Meets reports whether some number lies in both spans.
func (s Span) Meets(other Span) bool {
	s = s.wider()
	return s.Low <= other.High && other.Low <= s.High
}

// Middle is the centre of a span.
func (s Span) Middle() float64 { return (s.Low + s.High) / 2 }

// Figure writes a number as reports do: two decimals, fewer where it is large or whole.
func Figure(value float64) string {
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
