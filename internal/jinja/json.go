package jinja

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// FromJSON decodes one JSON text. Object members keep their order; integers
// keep every digit; other numbers become float64 as in Python. Duplicate keys,
// nesting deeper than 256 levels and invalid UTF-8 are errors, which name the
// byte offset. A lone surrogate escape becomes U+FFFD.
func FromJSON(data []byte) (Value, error) {
	if len(data) > maxJSONBytes {
		return nil, fmt.Errorf("JSON text of %d bytes exceeds %d", len(data), maxJSONBytes)
	}
	if !utf8.Valid(data) {
		return nil, fmt.Errorf("JSON text is not valid UTF-8")
	}
	d := jsonDecoder{text: string(data)}
	v := d.value(0)
	d.space()
	if d.err == nil && d.pos < len(d.text) {
		d.fail("end of text")
	}
	if d.err != nil {
		return nil, d.err
	}
	return v, nil
}

type jsonDecoder struct {
	text   string
	pos    int
	values int
	err    error
}

func (d *jsonDecoder) fail(expected string) Value {
	if d.err == nil {
		found := "end of text"
		if d.pos < len(d.text) {
			r, _ := utf8.DecodeRuneInString(d.text[d.pos:])
			found = strconv.QuoteRune(r)
		}
		d.err = fmt.Errorf("JSON offset %d: expected %s, found %s", d.pos, expected, found)
	}
	d.pos = len(d.text)
	return nil
}

func (d *jsonDecoder) space() {
	for d.pos < len(d.text) && strings.IndexByte(" \t\n\r", d.text[d.pos]) >= 0 {
		d.pos++
	}
}

// accept skips space and consumes c if it comes next.
func (d *jsonDecoder) accept(c byte) bool {
	d.space()
	if d.pos < len(d.text) && d.text[d.pos] == c {
		d.pos++
		return true
	}
	return false
}

func (d *jsonDecoder) value(depth int) Value {
	d.values++
	if depth > maxJSONDepth || d.values > maxJSONValues {
		return d.fail(fmt.Sprintf("at most %d levels and %d values", maxJSONDepth, maxJSONValues))
	}
	d.space()
	rest := d.text[d.pos:]
	switch {
	case d.accept('{'):
		return d.object(depth)
	case d.accept('['):
		return d.array(depth)
	case d.accept('"'):
		return d.str()
	}
	for _, word := range []struct {
		text string
		v    Value
	}{{"null", nil}, {"true", true}, {"false", false}} {
		if strings.HasPrefix(rest, word.text) {
			d.pos += len(word.text)
			return word.v
		}
	}
	return d.number()
}

func (d *jsonDecoder) object(depth int) Value {
	obj := NewDict()
	if d.accept('}') {
		return obj
	}
	for d.err == nil {
		if !d.accept('"') {
			return d.fail("a member name in double quotes")
		}
		at := d.pos
		name := d.str()
		if !d.accept(':') {
			return d.fail("':'")
		}
		before := obj.Len()
		obj.Set(name, d.value(depth+1))
		if obj.Len() == before && d.err == nil {
			d.err = fmt.Errorf("JSON offset %d: duplicate member %q", at, name)
		}
		if d.accept('}') {
			return obj
		}
		if !d.accept(',') {
			return d.fail("',' or '}'")
		}
		d.space()
	}
	return nil
}

func (d *jsonDecoder) array(depth int) Value {
	list := NewList()
	if d.accept(']') {
		return list
	}
	for d.err == nil {
		list.items = append(list.items, d.value(depth+1))
		if d.accept(']') {
			return list
		}
		if !d.accept(',') {
			return d.fail("',' or ']'")
		}
	}
	return nil
}

// str decodes the rest of a string whose opening quote is consumed.
func (d *jsonDecoder) str() string {
	start := d.pos
	var b []byte // nil until the first escape
	for d.pos < len(d.text) {
		switch c := d.text[d.pos]; {
		case c == '"':
			d.pos++
			if b == nil {
				return d.text[start : d.pos-1]
			}
			return string(append(b, d.text[start:d.pos-1]...))
		case c < 0x20:
			d.fail("no raw control character in a string")
			return ""
		case c == '\\':
			b = append(b, d.text[start:d.pos]...)
			d.pos++
			b = utf8.AppendRune(b, d.escape())
			start = d.pos
		default:
			d.pos++
		}
	}
	d.fail("a closing quote")
	return ""
}

func (d *jsonDecoder) escape() rune {
	if d.pos < len(d.text) {
		c := d.text[d.pos]
		if i := strings.IndexByte(`"\/bfnrt`, c); i >= 0 {
			d.pos++
			return rune("\"\\/\b\f\n\r\t"[i])
		}
		if c == 'u' {
			return d.unicodeEscape()
		}
	}
	d.fail("an escape character")
	return 0
}

// unicodeEscape decodes uXXXX, and a following \uXXXX if both form one
// surrogate pair.
func (d *jsonDecoder) unicodeEscape() rune {
	unit := func(at int) (rune, bool) {
		if at+5 > len(d.text) || d.text[at] != 'u' {
			return 0, false
		}
		n, err := strconv.ParseUint(d.text[at+1:at+5], 16, 16)
		return rune(n), err == nil
	}
	r, ok := unit(d.pos)
	if !ok {
		d.fail("four hexadecimal digits")
		return 0
	}
	d.pos += 5
	if !utf16.IsSurrogate(r) {
		return r
	}
	if d.pos < len(d.text) && d.text[d.pos] == '\\' {
		if low, ok := unit(d.pos + 1); ok {
			if full := utf16.DecodeRune(r, low); full != utf8.RuneError {
				d.pos += 6
				return full
			}
		}
	}
	return utf8.RuneError
}

// digits consumes decimal digits and returns how many.
func (d *jsonDecoder) digits() int {
	start := d.pos
	for d.pos < len(d.text) && '0' <= d.text[d.pos] && d.text[d.pos] <= '9' {
		d.pos++
	}
	return d.pos - start
}

func (d *jsonDecoder) number() Value {
	start := d.pos
	d.accept('-')
	first := d.pos
	if n := d.digits(); n == 0 || n > 1 && d.text[first] == '0' {
		return d.fail("a JSON value")
	}
	integer := true
	if d.pos < len(d.text) && d.text[d.pos] == '.' {
		integer = false
		d.pos++
		if d.digits() == 0 {
			return d.fail("a digit after the decimal point")
		}
	}
	if d.pos < len(d.text) && d.text[d.pos]|0x20 == 'e' {
		integer = false
		d.pos++
		if d.pos < len(d.text) && strings.IndexByte("+-", d.text[d.pos]) >= 0 {
			d.pos++
		}
		if d.digits() == 0 {
			return d.fail("a digit in the exponent")
		}
	}
	text := d.text[start:d.pos]
	if !integer {
		f, _ := strconv.ParseFloat(text, 64) // out of range: infinity, as in Python
		return f
	}
	if len(text) > maxIntDigits {
		return d.fail(fmt.Sprintf("an integer of at most %d digits", maxIntDigits))
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	return bigInt(text)
}

// ToJSON returns v as the tojson filter prints it: Python's
// json.dumps(v, ensure_ascii=False). Nesting deeper than a render allows and
// values without a JSON form are errors.
func ToJSON(v Value) (string, error) {
	st := &state{steps: math.MaxInt, memory: math.MaxInt}
	st.dump(v, jsonStyle{item: ", ", key: ": "}, "\n")
	if st.err != nil {
		return "", st.err
	}
	return string(st.out), nil
}

// jsonStyle holds the arguments of json.dumps.
type jsonStyle struct {
	item, key string // separators
	indent    string // one level
	multiline bool   // indent was given, even if empty
	ascii     bool
	sorted    bool
}

// dump emits v as json.dumps does; newline is a line break followed by the
// current indentation.
func (st *state) dump(v Value, style jsonStyle, newline string) {
	if !st.enter() || !st.work(0) {
		return
	}
	defer st.leave()
	switch v := v.(type) {
	case nil:
		st.emit("null")
	case bool:
		st.emit(strconv.FormatBool(v))
	case int64:
		st.emit(strconv.FormatInt(v, 10))
	case bigInt:
		st.emit(string(v))
	case float64:
		st.emit(jsonFloat(v))
	case string:
		st.quoteJSON(v, style.ascii)
	case *List:
		if v.kind > kindTuple {
			st.fail("%s is not JSON serializable; add |list before tojson", typeName(v))
			return
		}
		st.dumpGroup("[", "]", len(v.items), style, newline, func(i int, inner string) {
			st.dump(v.items[i], style, inner)
		})
	case *Dict:
		entries := v.entries
		if style.sorted {
			if !st.charge(len(entries) * valueBytes * 2) {
				return
			}
			entries = slices.Clone(entries)
			slices.SortStableFunc(entries, func(a, b entry) int { return st.order(a.key, b.key) })
		}
		st.dumpGroup("{", "}", len(entries), style, newline, func(i int, inner string) {
			st.dumpKey(entries[i].key, style)
			st.emit(style.key)
			st.dump(entries[i].val, style, inner)
		})
	default:
		st.fail("%s is not JSON serializable", describe(v))
	}
}

func (st *state) dumpGroup(open, close string, n int, style jsonStyle, newline string, item func(i int, inner string)) {
	st.emit(open)
	inner := newline
	if style.multiline && n > 0 {
		if !st.charge(len(newline) + len(style.indent)) {
			return
		}
		inner += style.indent
		st.emit(inner)
	}
	for i := 0; i < n && st.err == nil; i++ {
		if i > 0 {
			st.emit(style.item)
			if style.multiline {
				st.emit(inner)
			}
		}
		item(i, inner)
	}
	if style.multiline && n > 0 {
		st.emit(newline)
	}
	st.emit(close)
}

// dumpKey writes a key, which json.dumps turns into a string if it is a number,
// a boolean or None.
func (st *state) dumpKey(key Value, style jsonStyle) {
	if s, ok := key.(string); ok {
		st.quoteJSON(s, style.ascii)
		return
	}
	st.emit(`"`)
	st.dump(key, style, "")
	st.emit(`"`)
}

// quoteJSON emits s in double quotes, escaping only what json.dumps escapes.
func (st *state) quoteJSON(s string, ascii bool) {
	st.emit(`"`)
	start := 0
	for i := 0; i < len(s); {
		c, n := rune(s[i]), 1
		if c >= utf8.RuneSelf {
			c, n = utf8.DecodeRuneInString(s[i:])
		}
		if esc := jsonEscape(c, ascii); esc != "" {
			st.emit(s[start:i])
			st.emit(esc)
			start = i + n
		}
		i += n
	}
	st.emit(s[start:])
	st.emit(`"`)
}

// jsonEscape returns the escape sequence of c, "" if c is written as it is.
func jsonEscape(c rune, ascii bool) string {
	switch {
	case c == '"':
		return `\"`
	case c == '\\':
		return `\\`
	case c < 0x20:
		if i := strings.IndexByte("\b\f\n\r\t", byte(c)); i >= 0 {
			return `\` + "bfnrt"[i:i+1]
		}
		return fmt.Sprintf(`\u%04x`, c)
	case c < 0x7f || !ascii: // json.dumps counts DEL as outside ASCII text
		return ""
	case c > 0xffff:
		high, low := utf16.EncodeRune(c)
		return fmt.Sprintf(`\u%04x\u%04x`, high, low)
	}
	return fmt.Sprintf(`\u%04x`, c)
}

func jsonFloat(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	case math.IsNaN(f):
		return "NaN"
	}
	return floatRepr(f)
}
