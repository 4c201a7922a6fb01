package jinja

import (
	"math"
	"strconv"
	"strings"
	"unicode"
)

// How values are printed: Python's str and repr.

// print emits str(value).
func (st *state) print(value Value) {
	switch value := value.(type) {
	case string:
		st.emit(value)
	case undefined:
	default:
		st.repr(value)
	}
}

// str is Python's str(value).
func (st *state) str(value Value) string {
	if s, ok := value.(string); ok {
		return s
	}
	return st.capture(func() { st.print(value) })
}

// short is the start of repr(value), for messages.
func (st *state) short(value Value) string {
	switch value := value.(type) {
	case string:
		return strconv.Quote(value[:min(len(value), 40)])
	case int64:
		return strconv.FormatInt(value, 10)
	}
	return typeName(value)
}

// repr emits Python's repr(value).
func (st *state) repr(value Value) {
	if !st.enter() || !st.work(0) {
		return
	}
	defer st.leave()
	switch value := value.(type) {
	case nil:
		st.emit("None")
	case bool:
		st.emit(map[bool]string{true: "True", false: "False"}[value])
	case int64:
		st.emit(strconv.FormatInt(value, 10))
	case bigInt:
		st.emit(string(value))
	case float64:
		st.emit(floatRepr(value))
	case string:
		st.reprString(value)
	case undefined:
		st.emit("Undefined")
	case *List:
		st.reprList(value)
	case *Dict:
		st.reprDict(value)
	case *namespace:
		st.emit("<Namespace ")
		st.reprDict(value.attrs)
		st.emit(">")
	default:
		st.emit("<" + typeName(value) + ">")
	}
}

// reprDict emits the repr of a dict.
func (st *state) reprDict(d *Dict) {
	st.emit("{")
	for i, entry := range d.entries {
		if i > 0 {
			st.emit(", ")
		}
		st.repr(entry.key)
		st.emit(": ")
		st.repr(entry.val)
	}
	st.emit("}")
}

// reprList emits the repr of any sequence.
func (st *state) reprList(list *List) {
	open, end := "[", "]"
	switch list.kind {
	case kindTuple:
		open, end = "(", ")"
		if len(list.items) == 1 {
			end = ",)"
		}
	case kindRange, kindGenerator:
		st.emit("<" + typeName(list) + ">")
		return
	case kindKeys, kindValues, kindItems: // dict_keys([…])
		open, end = typeName(list)+"([", "])"
	}
	st.emit(open)
	for i, item := range list.items {
		if i > 0 {
			st.emit(", ")
		}
		st.repr(item)
	}
	st.emit(end)
}

// reprString quotes as Python does: single quotes unless the text has single
// quotes and no double ones; unprintable characters escaped.
func (st *state) reprString(text string) {
	quote := '\''
	if strings.Contains(text, "'") && !strings.Contains(text, `"`) {
		quote = '"'
	}
	if !st.charge(2 * len(text)) {
		return
	}
	var out strings.Builder
	out.WriteRune(quote)
	for _, char := range text {
		switch {
		case char == quote || char == '\\':
			out.WriteByte('\\')
			out.WriteRune(char)
		case char == '\n':
			out.WriteString(`\n`)
		case char == '\r':
			out.WriteString(`\r`)
		case char == '\t':
			out.WriteString(`\t`)
		case unicode.IsPrint(char):
			out.WriteRune(char)
		case char <= 0xff:
			out.WriteString(`\x` + hex(char, 2))
		case char <= 0xffff:
			out.WriteString(`\u` + hex(char, 4))
		default:
			out.WriteString(`\U` + hex(char, 8))
		}
	}
	out.WriteRune(quote)
	st.emit(out.String())
}

// hex is r in width hexadecimal digits.
func hex(r rune, width int) string {
	s := strconv.FormatInt(int64(r), 16)
	return strings.Repeat("0", width-len(s)) + s
}

// floatRepr is Python's repr of a float: the shortest digits that read back
// equal, scientific from 1e16 and below 1e-4, with at least ".0".
func floatRepr(float float64) string {
	switch {
	case math.IsInf(float, 1):
		return "inf"
	case math.IsInf(float, -1):
		return "-inf"
	case math.IsNaN(float):
		return "nan"
	}
	if size := math.Abs(float); size != 0 && (size >= 1e16 || size < 1e-4) {
		return strconv.FormatFloat(float, 'e', -1, 64)
	}
	text := strconv.FormatFloat(float, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}
