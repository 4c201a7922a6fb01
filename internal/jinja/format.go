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
func (st *state) directive(s string, mapping *Dict, next func() Value) string {
	arg := next
	if strings.HasPrefix(s, "(") {
		name, rest, ok := strings.Cut(s[1:], ")")
		if !ok || mapping == nil {
			st.fail("format %%(%.40s needs ')' and a dict", name)
			return ""
		}
		s = rest
		arg = func() Value {
			v, ok := mapping.Get(name)
			if !ok {
				return st.fail("format key %q is missing", name)
			}
			return v
		}
	}
	n := len(s) - len(strings.TrimLeft(s, "#0- +"))
	flags := s[:n]
	width, s := st.padding(s[n:])
	precision := ""
	if strings.HasPrefix(s, ".") {
		precision, s = st.padding(s[1:])
		precision = "." + precision
	}
	s = strings.TrimLeft(s, "hlL")
	if s == "" {
		st.fail("incomplete format directive")
		return ""
	}
	verb := s[0]
	if verb == '%' {
		st.emit("%")
		return s[1:]
	}
	st.emit(st.formatOne("%"+flags+width+precision, verb, arg()))
	return s[1:]
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

// formatOne formats v; spec is Go's spelling of the flags, which is Python's.
func (st *state) formatOne(spec string, verb byte, v Value) string {
	switch verb {
	case 's', 'r', 'a':
		text := st.str(v)
		if verb != 's' {
			text = st.capture(func() { st.repr(v) })
		}
		if !st.charge(len(text) + maxPadding) {
			return ""
		}
		return fmt.Sprintf(spec+"s", text)
	case 'c':
		if n, ok := v.(int64); ok && n >= 0 && n <= math.MaxInt32 {
			return fmt.Sprintf(spec+"c", rune(n))
		}
		return fmt.Sprintf(spec+"s", st.str(v))
	case 'd', 'i', 'u', 'x', 'X', 'o':
		n, ok := asInt(v)
		if f, isFloat := v.(float64); isFloat && math.Abs(f) < 1<<63 {
			n, ok = int64(f), true
		}
		if !ok {
			st.fail("format %%%c needs a number, found %s", verb, describe(v))
		}
		if verb == 'i' || verb == 'u' {
			verb = 'd'
		}
		return fmt.Sprintf(spec+string(verb), n)
	case 'e', 'E', 'f', 'F', 'g', 'G':
		f, ok := asFloat(v)
		if !ok {
			st.fail("format %%%c needs a number, found %s", verb, describe(v))
		}
		if !strings.Contains(spec, ".") {
			spec += ".6"
		}
		return fmt.Sprintf(spec+string(verb), f)
	}
	st.fail("unknown format directive %%%c", verb)
	return ""
}

// braces is str.format with plain fields: {}, {0}, {name}.
func (st *state) braces(format string, a args) Value {
	auto := 0
	return st.capture(func() {
		for format != "" && st.err == nil {
			i := strings.IndexAny(format, "{}")
			if i < 0 {
				st.emit(format)
				return
			}
			st.emit(format[:i])
			if i+1 < len(format) && format[i+1] == format[i] {
				st.emit(format[i : i+1])
				format = format[i+2:]
				continue
			}
			field, rest, ok := strings.Cut(format[i+1:], "}")
			if !ok || format[i] == '}' {
				st.fail("format string has a single '%c'", format[i])
				return
			}
			format = rest
			st.print(st.field(field, &auto, a))
		}
	})
}

func (st *state) field(name string, auto *int, a args) Value {
	i, err := strconv.Atoi(name)
	if name == "" {
		i, err = *auto, nil
		*auto++
	}
	if err == nil && i >= 0 && i < len(a.pos) {
		return a.pos[i]
	}
	if v, ok := a.named(name); ok {
		return v
	}
	return st.fail("format field {%.40s} names no argument; conversions and format specs are not available", name)
}

// strftime formats t as C's strftime in the C locale, with glibc's "-" flag
// against padding.
func (st *state) strftime(t time.Time, format string) string {
	if !st.charge(len(format) * 16) {
		return ""
	}
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		trim := format[i] == '-' && i+1 < len(format)
		if trim {
			i++
		}
		text, ok := strftimeField(t, format[i])
		if !ok {
			st.fail("strftime_now: unknown directive %%%c", format[i])
			return ""
		}
		if trim {
			text = strings.TrimLeft(text[:len(text)-1], "0 ") + text[len(text)-1:]
		}
		b.WriteString(text)
	}
	return b.String()
}

// strftimeField returns the text of one directive.
func strftimeField(t time.Time, c byte) (string, bool) {
	layouts := map[byte]string{
		'Y': "2006", 'm': "01", 'd': "02", 'H': "15", 'M': "04", 'S': "05", 'y': "06", 'e': "_2",
		'B': "January", 'b': "Jan", 'h': "Jan", 'A': "Monday", 'a': "Mon", 'I': "03", 'p': "PM", 'j': "002",
		'F': "2006-01-02", 'T': "15:04:05", 'X': "15:04:05", 'R': "15:04", 'D': "01/02/06", 'x': "01/02/06",
		'c': "Mon Jan _2 15:04:05 2006", 'r': "03:04:05 PM", 'z': "-0700", 'Z': "MST",
	}
	if layout, ok := layouts[c]; ok {
		return t.Format(layout), true
	}
	switch c {
	case 'f':
		return fmt.Sprintf("%06d", t.Nanosecond()/1000), true
	case 's':
		return strconv.FormatInt(t.Unix(), 10), true
	case '%':
		return "%", true
	}
	return "", false
}
