package jinja

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// maxPadding bounds widths and precisions in format strings.
const maxPadding = 10_000

// percent is Python's "format % args".
func (st *state) percent(format string, arg Value) Value {
	pos := []Value{arg}
	if t, ok := arg.(*List); ok && t.kind == kindTuple {
		pos = t.items
	}
	mapping, _ := arg.(*Dict)
	_, mayBeUnused := arg.(undefined) // as everything Python could take for a mapping
	if l, ok := arg.(*List); ok || mapping != nil {
		mayBeUnused = mapping != nil || (l.kind <= kindRange && l.kind != kindTuple)
	}
	used := 0
	next := func() Value {
		if used >= len(pos) {
			return st.fail("not enough arguments for format string")
		}
		used++
		return pos[used-1]
	}
	text := st.capture(func() {
		for st.err == nil {
			before, rest, found := strings.Cut(format, "%")
			st.emit(before)
			if !found {
				return
			}
			format = st.directive(rest, mapping, next)
		}
	})
	if used < len(pos) && !mayBeUnused && st.err == nil {
		return st.fail("format string uses %d of %d arguments", used, len(pos))
	}
	return text
}

// directive emits one %-directive and returns the text after it.
func (st *state) directive(text string, mapping *Dict, next func() Value) string {
	arg := next // %(name)s takes it from the mapping
	if strings.HasPrefix(text, "(") {
		name, rest, ok := strings.Cut(text[1:], ")")
		if !ok || mapping == nil {
			st.fail("format %%(%.40s needs ')' and a dict", name)
			return ""
		}
		text = rest
		arg = func() Value {
			value, ok := mapping.Get(name)
			if !ok {
				return st.fail("format key %q is missing", name)
			}
			return value
		}
	}
	n := len(text) - len(strings.TrimLeft(text, "#0- +"))
	flags := text[:n]
	width, text := st.padding(text[n:])
	precision := ""
	if strings.HasPrefix(text, ".") {
		precision, text = st.padding(text[1:])
		precision = "." + precision
	}
	text = strings.TrimLeft(text, "hlL")
	if text == "" {
		st.fail("incomplete format directive")
		return ""
	}
	verb := text[0]
	if verb == '%' {
		st.emit("%")
		return text[1:]
	}
	st.emit(st.formatOne("%"+flags+width+precision, verb, arg()))
	return text[1:]
}

// padding reads the digits of a width or precision, within bounds.
func (st *state) padding(s string) (digits, rest string) {
	rest = strings.TrimLeft(s, "0123456789")
	digits = s[:len(s)-len(rest)]
	if n, err := strconv.Atoi(digits); digits != "" && (err != nil || n > maxPadding) {
		st.exceed("characters of padding in a format", maxPadding)
		return "", ""
	}
	return digits, rest
}

// formatOne formats value; spec is Go's spelling of the flags, which is Python's.
func (st *state) formatOne(spec string, verb byte, value Value) string {
	switch verb {
	case 's', 'r', 'a':
		text := st.str(value)
		if verb != 's' {
			text = st.capture(func() { st.repr(value) })
		}
		if !st.charge(len(text) + maxPadding) {
			return ""
		}
		return fmt.Sprintf(spec+"s", text)
	case 'c':
		if number, ok := value.(int64); ok && number >= 0 && number <= math.MaxInt32 {
			return fmt.Sprintf(spec+"c", rune(number))
		}
		return fmt.Sprintf(spec+"s", st.str(value))
	case 'd', 'i', 'u', 'x', 'X', 'o': // floats are cut
		number, ok := asInt(value)
		if float, isFloat := value.(float64); isFloat && math.Abs(float) < 1<<63 {
			number, ok = int64(float), true
		}
		if !ok {
			st.fail("format %%%c needs a number, found %s", verb, describe(value))
		}
		if verb == 'i' || verb == 'u' {
			verb = 'd'
		}
		return fmt.Sprintf(spec+string(verb), number)
	case 'e', 'E', 'f', 'F', 'g', 'G':
		float, ok := asFloat(value)
		if !ok {
			st.fail("format %%%c needs a number, found %s", verb, describe(value))
		}
		if !strings.Contains(spec, ".") {
			spec += ".6"
		}
		return fmt.Sprintf(spec+string(verb), float)
	}
	st.fail("unknown format directive %%%c", verb)
	return ""
}

// braces is str.format with plain fields: {}, {0}, {name}.
func (st *state) braces(format string, passed args) Value {
	auto := 0
	return st.capture(func() {
		for format != "" && st.err == nil {
			at := strings.IndexAny(format, "{}")
			if at < 0 {
				st.emit(format)
				return
			}
			st.emit(format[:at])
			// {{ and }} stand for one bracket.
			if at+1 < len(format) && format[at+1] == format[at] {
				st.emit(format[at : at+1])
				format = format[at+2:]
				continue
			}
			field, rest, ok := strings.Cut(format[at+1:], "}")
			if !ok || format[at] == '}' {
				st.fail("format string has a single '%c'", format[at])
				return
			}
			format = rest
			st.print(st.field(field, &auto, passed))
		}
	})
}

// field is the argument of one field; auto counts fields without a name.
func (st *state) field(name string, auto *int, passed args) Value {
	index, err := strconv.Atoi(name)
	if name == "" {
		index, err = *auto, nil
		*auto++
	}
	if err == nil && index >= 0 && index < len(passed.pos) {
		return passed.pos[index]
	}
	if v, ok := passed.named(name); ok {
		return v
	}
	return st.fail("format field {%.40s} names no argument; conversions and format specs are not available", name)
}

// strftime formats moment as C's strftime in the C locale, with glibc's "-" flag
// against padding.
func (st *state) strftime(moment time.Time, format string) string {
	if !st.charge(len(format) * 16) {
		return ""
	}
	var out strings.Builder
	for at := 0; at < len(format); at++ {
		if format[at] != '%' || at+1 == len(format) {
			out.WriteByte(format[at])
			continue
		}
		at++
		trim := format[at] == '-' && at+1 < len(format)
		if trim {
			at++
		}
		text, ok := strftimeField(moment, format[at])
		if !ok {
			st.fail("strftime_now: unknown directive %%%c", format[at])
			return ""
		}
		if trim {
			// A zero alone stays.
			text = strings.TrimLeft(text[:len(text)-1], "0 ") + text[len(text)-1:]
		}
		out.WriteString(text)
	}
	return out.String()
}

// strftimeField returns the text of one directive.
func strftimeField(moment time.Time, char byte) (string, bool) {
	layouts := map[byte]string{
		'Y': "2006", 'm': "01", 'd': "02", 'H': "15", 'M': "04", 'S': "05", 'y': "06", 'e': "_2",
		'B': "January", 'b': "Jan", 'h': "Jan", 'A': "Monday", 'a': "Mon", 'I': "03", 'p': "PM", 'j': "002",
		'F': "2006-01-02", 'T': "15:04:05", 'X': "15:04:05", 'R': "15:04", 'D': "01/02/06", 'x': "01/02/06",
		'c': "Mon Jan _2 15:04:05 2006", 'r': "03:04:05 PM", 'z': "-0700", 'Z': "MST",
	}
	if layout, ok := layouts[char]; ok {
		return moment.Format(layout), true
	}
	switch char {
	case 'f':
		return fmt.Sprintf("%06d", moment.Nanosecond()/1000), true
	case 's':
		return strconv.FormatInt(moment.Unix(), 10), true
	case '%':
		return "%", true
	}
	return "", false
}
