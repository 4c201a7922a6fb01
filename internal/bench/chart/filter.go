package chart

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// A Filter keeps runs whose column compares to a value as Op says (bench.md 3.6).
type Filter struct {
	Column, Op, Value string
	number            float64 // NaN = Value is a text
}

// ops are the comparisons, each before those that it begins with.
var ops = []string{"==", "!=", "<=", ">=", "<", ">"}

// ParseFilters reads filters such as "max_concurrency<1000,model_id=='x'". Texts can only
// be equal or not; quotes around them are taken off.
func ParseFilters(text string) ([]Filter, error) {
	var out []Filter
	for _, part := range splitList(text) {
		// COLUMN OP VALUE: the first character of an operator ends the column.
		at := strings.IndexAny(part, "=!<>")
		op := -1
		if at > 0 {
			op = slices.IndexFunc(ops, func(o string) bool { return strings.HasPrefix(part[at:], o) })
		}
		if op < 0 {
			return nil, fmt.Errorf("filter %q: want COLUMN, one of %s, and a value, such as max_concurrency<1000", part, strings.Join(ops, " "))
		}
		filter := Filter{Column: columnName(part[:at]), Op: ops[op], Value: strings.TrimFunc(part[at+len(ops[op]):], blank)}
		value, err := strconv.ParseFloat(filter.Value, 64)
		if err != nil || math.IsNaN(value) {
			value = math.NaN()
			if op > 1 { // neither == nor !=
				return nil, fmt.Errorf("filter %q: %q is no number; texts can be compared with == and != only", part, filter.Value)
			}
		}
		filter.number = value
		out = append(out, filter)
	}
	return out, nil
}

// keeps reports whether a run with that cell in the filter's column stays; there = it has one.
func (f *Filter) keeps(found cell, there bool) bool {
	// NaN compares as false, so that a text is never less or more than a number.
	equal := there && found.value == f.number
	if math.IsNaN(f.number) || math.IsNaN(found.value) {
		equal = there && strings.EqualFold(found.text, f.Value) // True is Python's true
	}
	switch f.Op {
	case "==":
		return equal
	case "!=":
		return !equal
	case "<=":
		return there && found.value <= f.number
	case ">=":
		return there && found.value >= f.number
	case "<":
		return there && found.value < f.number
	}
	return there && found.value > f.number
}

// A Bin makes the numbers of a column multiples of Size, by rounding down.
type Bin struct {
	Column string
	Size   float64
}

// ParseBins reads bins such as "request_throughput%10".
func ParseBins(text string) ([]Bin, error) {
	var out []Bin
	for _, part := range splitList(text) {
		name, size, ok := strings.Cut(part, "%")
		value, err := strconv.ParseFloat(strings.TrimSpace(size), 64)
		if !ok || columnName(name) == "" || err != nil || !(value > 0) || math.IsInf(value, 0) {
			return nil, fmt.Errorf("bin %q: want COLUMN%%SIZE with a size above 0, such as request_throughput%%10", part)
		}
		out = append(out, Bin{columnName(name), value})
	}
	return out, nil
}

// of is the multiple for a value; 0.3 is one of 0.1, though not quite.
func (b *Bin) of(value float64) float64 {
	multiple := math.Floor(value/b.Size + 1e-9)
	if math.IsInf(multiple, 0) { // a size as good as none
		return value
	}
	return multiple * b.Size
}

// Columns reads a list of columns.
func Columns(text string) []string {
	out := splitList(text)
	for i, name := range out {
		out[i] = columnName(name)
	}
	return out
}

// ParseFormats reads what figures are to be: png, svg or both.
func ParseFormats(text string) ([]string, error) {
	formats := Columns(text)
	if len(formats) == 0 || slices.ContainsFunc(formats, func(f string) bool { return f != "png" && f != "svg" }) {
		return nil, fmt.Errorf("--fig-format %q: want png, svg or png,svg", text)
	}
	return formats, nil
}

// splitList splits at commas and leaves out what is empty.
func splitList(text string) []string {
	var out []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

// columnName is the name of a column: in parameters, - and _ are the same.
func columnName(name string) string { return strings.ReplaceAll(strings.TrimSpace(name), "-", "_") }

// blank reports what may stand around a value.
func blank(r rune) bool { return unicode.IsSpace(r) || r == '\'' || r == '"' }
