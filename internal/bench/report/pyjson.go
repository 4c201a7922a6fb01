package report

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
)

// A field is one member of an object whose members keep their order.
type field struct {
	Key   string
	Value any // nil, bool, int, float64, string, object, json.RawMessage, or a slice of these
}

// An object is a JSON object in the order of its fields.
type object []field

// set adds a member, or changes the value of the one with this name.
func (o *object) set(key string, value any) {
	for i := range *o {
		if (*o)[i].Key == key {
			(*o)[i].Value = value
			return
		}
	}
	*o = append(*o, field{key, value})
}

// A dialect is how a tool's JSON library writes what JSON leaves open.
type dialect struct {
	python bool // json.dumps: spaces behind , and :, ASCII only, Infinity; else serde_json
}

func (d dialect) encode(v any) []byte {
	var b bytes.Buffer
	d.write(&b, v)
	return b.Bytes()
}

func (d dialect) write(b *bytes.Buffer, v any) {
	switch v := v.(type) {
	case bool:
		b.WriteString(strconv.FormatBool(v))
	case int:
		b.WriteString(strconv.Itoa(v))
	case float64:
		b.WriteString(d.number(v))
	case string:
		d.quote(b, v)
	case json.RawMessage:
		b.Write(v)
	case object:
		b.WriteByte('{')
		for i, f := range v {
			d.separate(b, i)
			d.quote(b, f.Key)
			b.WriteByte(':')
			if d.python {
				b.WriteByte(' ')
			}
			d.write(b, f.Value)
		}
		b.WriteByte('}')
	case []object:
		writeList(d, b, v)
	case []int:
		writeList(d, b, v)
	case []float64:
		writeList(d, b, v)
	case [][]float64:
		writeList(d, b, v)
	case []string:
		writeList(d, b, v)
	default: // nil
		b.WriteString("null")
	}
}

func writeList[T any](d dialect, b *bytes.Buffer, list []T) {
	b.WriteByte('[')
	for i, v := range list {
		d.separate(b, i)
		d.write(b, v)
	}
	b.WriteByte(']')
}

func (d dialect) separate(b *bytes.Buffer, i int) {
	if i == 0 {
		return
	}
	b.WriteByte(',')
	if d.python {
		b.WriteByte(' ')
	}
}

// quote writes s as a JSON string; bytes that are not UTF-8 become U+FFFD.
func (d dialect) quote(b *bytes.Buffer, s string) {
	const hex = "0123456789abcdef"
	unit := func(u rune) {
		b.WriteString(`\u`)
		for shift := 12; shift >= 0; shift -= 4 {
			b.WriteByte(hex[u>>shift&15])
		}
	}
	b.WriteByte('"')
	for _, r := range s {
		if short := strings.IndexRune("\"\\\n\r\t\b\f", r); short >= 0 {
			b.WriteByte('\\')
			b.WriteByte("\"\\nrtbf"[short])
			continue
		}
		switch {
		case r < 0x20:
			unit(r)
		case !d.python || r < 0x7f:
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			unit(high)
			unit(low)
		default:
			unit(r)
		}
	}
	b.WriteByte('"')
}

// number writes a float with the fewest digits that read back the same, in the form of
// the library: Python turns to an exponent below 1e-4 and from 1e16, serde_json below
// 1e-5 and from 1e16.
func (d dialect) number(f float64) string {
	switch {
	case !d.python && (math.IsNaN(f) || math.IsInf(f, 0)):
		return "null"
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	case d.python:
		return PyFloat(f)
	}
	size := math.Abs(f)
	if size != 0 && (size < 1e-5 || size >= 1e16) {
		text := strconv.FormatFloat(f, 'e', -1, 64)
		mantissa, exponent, _ := strings.Cut(text, "e")
		n, _ := strconv.Atoi(exponent)
		return mantissa + "e" + strconv.Itoa(n)
	}
	return withPoint(strconv.FormatFloat(f, 'f', -1, 64))
}

// PyFloat is Python's repr of a float: how the tools print one.
func PyFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	if size := math.Abs(f); size != 0 && (size < 1e-4 || size >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64) // two digits of exponent at least, as there
	}
	return withPoint(strconv.FormatFloat(f, 'f', -1, 64))
}

func withPoint(s string) string {
	if strings.Contains(s, ".") {
		return s
	}
	return s + ".0"
}
