package jinja

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// FromJSON decodes one JSON text. Object members keep their order; integers
// keep every digit; other numbers become float64 as in Python. Duplicate keys,
// nesting deeper than 256 levels and invalid UTF-8 are errors; a lone surrogate
// escape becomes U+FFFD.
func FromJSON(data []byte) (Value, error) {
	if len(data) > maxJSONBytes {
		return nil, fmt.Errorf("JSON text of %d bytes exceeds %d", len(data), maxJSONBytes)
	}
	if !utf8.Valid(data) {
		return nil, errors.New("JSON text is not valid UTF-8")
	}
	// Token by token: a map would lose the order of members.
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	value, err := decodeJSON(dec, 0)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		if _, err = dec.Token(); err == io.EOF {
			return value, nil
		}
		err = errors.New("expected the end of the text after the first value")
	}
	return nil, fmt.Errorf("JSON offset %d: %w", dec.InputOffset(), err)
}

func decodeJSON(dec *json.Decoder, depth int) (Value, error) {
	if depth > maxJSONDepth {
		return nil, fmt.Errorf("nested deeper than %d levels", maxJSONDepth)
	}
	token, err := dec.Token()
	switch token := token.(type) {
	case json.Number:
		return decodeNumber(string(token))
	case json.Delim:
		if token == '[' {
			return decodeArray(dec, depth)
		}
		return decodeObject(dec, depth)
	}
	return token, err // string, bool or nil
}

func decodeArray(dec *json.Decoder, depth int) (Value, error) {
	list := NewList()
	for dec.More() {
		value, err := decodeJSON(dec, depth+1)
		if err != nil {
			return nil, err
		}
		list.items = append(list.items, value)
	}
	_, err := dec.Token()
	return list, err
}

func decodeObject(dec *json.Decoder, depth int) (Value, error) {
	obj := NewDict()
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, err
		}
		value, err := decodeJSON(dec, depth+1)
		if err != nil {
			return nil, err
		}
		before := obj.Len()
		if obj.set(name, value); obj.Len() == before {
			return nil, fmt.Errorf("duplicate member %q", name)
		}
	}
	_, err := dec.Token()
	return obj, err
}

func decodeNumber(text string) (Value, error) {
	if strings.ContainsAny(text, ".eE") {
		f, _ := strconv.ParseFloat(text, 64) // out of range: infinity, as in Python
		return f, nil
	}
	if len(text) > maxIntDigits {
		return nil, fmt.Errorf("integer of %d digits; expected at most %d", len(text), maxIntDigits)
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	}
	return bigInt(text), nil
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

// dump emits value as json.dumps does; newline is a line break followed by the
// current indentation.
func (st *state) dump(value Value, style jsonStyle, newline string) {
	if !st.enter() || !st.work(0) {
		return
	}
	defer st.leave()
	switch value := value.(type) {
	case nil:
		st.emit("null")
	case bool:
		st.emit(strconv.FormatBool(value))
	case int64:
		st.emit(strconv.FormatInt(value, 10))
	case bigInt:
		st.emit(string(value))
	case float64:
		st.emit(jsonFloat(value))
	case string:
		st.quoteJSON(value, style.ascii)
	case *List:
		if value.kind > kindTuple {
			st.fail("%s is not JSON serializable; add |list before tojson", typeName(value))
			return
		}
		st.dumpGroup("[", "]", len(value.items), style, newline, func(i int, inner string) {
			st.dump(value.items[i], style, inner)
		})
	case *Dict:
		entries := value.entries
		if style.sorted { // the value itself keeps its order
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
		st.fail("%s is not JSON serializable", describe(value))
	}
}

// dumpGroup emits count items between brackets; inner is newline one level deeper.
func (st *state) dumpGroup(open, close string, count int, style jsonStyle, newline string, item func(i int, inner string)) {
	st.emit(open)
	inner := newline // an empty group stays on its line
	if style.multiline && count > 0 {
		if !st.charge(len(newline) + len(style.indent)) {
			return
		}
		inner += style.indent
		st.emit(inner)
	}
	for i := 0; i < count && st.err == nil; i++ {
		if i > 0 {
			st.emit(style.item)
			if style.multiline {
				st.emit(inner)
			}
		}
		item(i, inner)
	}
	if style.multiline && count > 0 {
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

// quoteJSON emits text in double quotes, escaping only what json.dumps escapes.
func (st *state) quoteJSON(text string, ascii bool) {
	st.emit(`"`)
	start := 0
	for at := 0; at < len(text); {
		char, size := rune(text[at]), 1
		if char >= utf8.RuneSelf {
			char, size = utf8.DecodeRuneInString(text[at:])
		}
		if esc := jsonEscape(char, ascii); esc != "" {
			st.emit(text[start:at])
			st.emit(esc)
			start = at + size
		}
		at += size
	}
	st.emit(text[start:])
	st.emit(`"`)
}

// jsonEscape returns the escape sequence of char, "" if it is written as it is.
func jsonEscape(char rune, ascii bool) string {
	switch {
	case char == '"':
		return `\"`
	case char == '\\':
		return `\\`
	case char < 0x20:
		if i := strings.IndexByte("\b\f\n\r\t", byte(char)); i >= 0 {
			return `\` + "bfnrt"[i:i+1]
		}
		return fmt.Sprintf(`\u%04x`, char)
	case char < 0x7f || !ascii: // json.dumps counts DEL as outside ASCII text
		return ""
	case char > 0xffff:
		high, low := utf16.EncodeRune(char)
		return fmt.Sprintf(`\u%04x\u%04x`, high, low)
	}
	return fmt.Sprintf(`\u%04x`, char)
}

// jsonFloat is a float as json.dumps writes it.
func jsonFloat(float float64) string {
	switch {
	case math.IsInf(float, 1):
		return "Infinity"
	case math.IsInf(float, -1):
		return "-Infinity"
	case math.IsNaN(float):
		return "NaN"
	}
	return floatRepr(float)
}
