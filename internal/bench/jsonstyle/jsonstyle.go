// Package jsonstyle writes JSON the way the tools' libraries do, so that results are theirs byte for
// byte: members keep their order, and numbers, spaces and escapes are those of Python's json.dumps
// or of serde_json.
package jsonstyle

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
)

// A Member is one member of an object whose members keep their order.
type Member struct {
	Key   string
	Value any // nil, bool, int, float64, string, Object, json.RawMessage, or a slice of these
}

// A Object is a JSON object in the order of its fields.
type Object []Member

// Set adds a member, or changes the value of the one with this name.
func (o *Object) Set(key string, value any) {
	for i := range *o {
		if (*o)[i].Key == key {
			(*o)[i].Value = value
			return
		}
	}
	*o = append(*o, Member{key, value})
}

// Of returns an object of keys, each followed by its value.
func Of(members ...any) (out Object) {
	for i := 0; i+1 < len(members); i += 2 {
		out.Set(members[i].(string), members[i+1])
	}
	return out
}

// A Style is how a tool's JSON library writes what JSON leaves open.
type Style struct {
	Python bool // json.dumps: spaces behind , and :, ASCII only, Infinity; else serde_json
}

// Encode returns a value as JSON: nil, bool, int, float64, string, Object, json.RawMessage, or a
// slice of these.
func (s Style) Encode(v any) []byte {
	var b bytes.Buffer
	s.write(&b, v)
	return b.Bytes()
}

// write appends a value; a switch over the types that results have, as reflection would not
// keep the order of members.
func (s Style) write(dst *bytes.Buffer, value any) {
	switch typed := value.(type) {
	case bool:
		dst.WriteString(strconv.FormatBool(typed))
	case int:
		dst.WriteString(strconv.Itoa(typed))
	case float64:
		dst.WriteString(s.number(typed))
	case string:
		s.quote(dst, typed)
	case json.RawMessage:
		dst.Write(typed)
	case Object:
		dst.WriteByte('{')
		for i, member := range typed {
			s.separate(dst, i)
			s.quote(dst, member.Key)
			dst.WriteByte(':')
			if s.Python {
				dst.WriteByte(' ')
			}
			s.write(dst, member.Value)
		}
		dst.WriteByte('}')
	case []Object:
		writeList(s, dst, typed)
	case []int:
		writeList(s, dst, typed)
	case []float64:
		writeList(s, dst, typed)
	case [][]float64:
		writeList(s, dst, typed)
	case []string:
		writeList(s, dst, typed)
	default: // nil
		dst.WriteString("null")
	}
}

// writeList writes a slice.
func writeList[T any](style Style, dst *bytes.Buffer, list []T) {
	dst.WriteByte('[')
	for i, v := range list {
		style.separate(dst, i)
		style.write(dst, v)
	}
	dst.WriteByte(']')
}

// separate writes what stands before element i.
func (s Style) separate(dst *bytes.Buffer, i int) {
	if i == 0 {
		return
	}
	dst.WriteByte(',')
	if s.Python {
		dst.WriteByte(' ')
	}
}

// quote writes text as a JSON string; bytes that are not UTF-8 become U+FFFD.
func (s Style) quote(dst *bytes.Buffer, text string) {
	const hex = "0123456789abcdef"
	unit := func(unit rune) {
		dst.WriteString(`\u`)
		for shift := 12; shift >= 0; shift -= 4 {
			dst.WriteByte(hex[unit>>shift&15])
		}
	}
	dst.WriteByte('"')
	for _, char := range text {
		if short := strings.IndexRune("\"\\\n\r\t\b\f", char); short >= 0 {
			dst.WriteByte('\\')
			dst.WriteByte("\"\\nrtbf"[short])
			continue
		}
		switch { // Python keeps to ASCII, in units of UTF-16
		case char < 0x20:
			unit(char)
		case !s.Python || char < 0x7f:
			dst.WriteRune(char)
		case char > 0xffff:
			high, low := utf16.EncodeRune(char)
			unit(high)
			unit(low)
		default:
			unit(char)
		}
	}
	dst.WriteByte('"')
}

// number writes a float with the fewest digits that read back the same, in the form of
// the library: Python turns to an exponent below 1e-4 and from 1e16, serde_json below
// 1e-5 and from 1e16.
func (s Style) number(value float64) string {
	switch {
	case !s.Python && (math.IsNaN(value) || math.IsInf(value, 0)):
		return "null"
	case math.IsNaN(value):
		return "NaN"
	case math.IsInf(value, 1):
		return "Infinity"
	case math.IsInf(value, -1):
		return "-Infinity"
	case s.Python:
		return PyFloat(value)
	}
	// serde_json writes an exponent without plus and leading zeros.
	size := math.Abs(value)
	if size != 0 && (size < 1e-5 || size >= 1e16) {
		text := strconv.FormatFloat(value, 'e', -1, 64)
		mantissa, exponent, _ := strings.Cut(text, "e")
		n, _ := strconv.Atoi(exponent)
		return mantissa + "e" + strconv.Itoa(n)
	}
	return withFraction(strconv.FormatFloat(value, 'f', -1, 64))
}

// PyFloat is Python's repr of a float: how the tools print one.
func PyFloat(value float64) string {
	switch {
	case math.IsNaN(value):
		return "nan"
	case math.IsInf(value, 1):
		return "inf"
	case math.IsInf(value, -1):
		return "-inf"
	}
	if size := math.Abs(value); size != 0 && (size < 1e-4 || size >= 1e16) {
		return strconv.FormatFloat(value, 'e', -1, 64) // two digits of exponent at least, as there
	}
	return withFraction(strconv.FormatFloat(value, 'f', -1, 64))
}

// withFraction is a number that is seen to be a float.
func withFraction(number string) string {
	if strings.Contains(number, ".") {
		return number
	}
	return number + ".0"
}
