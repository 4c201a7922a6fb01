// Package sweep measures servers under many settings: parameter files and their products,
// a server process for each setting, loads that are found by search, and the files that
// keep the results, so that a sweep that was cut off goes on where it was (bench.md
// 3.3-3.5 and 6, item 9). What measures is the caller's: a program, or a function.
package sweep

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// A Member is one of an object.
type Member struct {
	Key   string
	Value json.RawMessage // compact
}

// An Object is a JSON object in the order in which it was written: an element of a
// parameter file, or the result of a run. Names of files and columns of tables follow
// that order.
type Object []Member

// parseObject reads an object. Of members with one name the last counts, at the place of
// the first, as in Python.
func parseObject(text []byte) (Object, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, fmt.Errorf("found %s, expected an object", brief(text))
	}
	out := Object{}
	places := map[string]int{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		key, ok := t.(string)
		if !ok {
			return nil, fmt.Errorf("found %v, expected the name of a member", t)
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, fmt.Errorf("%q: %w", key, err)
		}
		var value bytes.Buffer
		if err := json.Compact(&value, raw); err != nil {
			return nil, fmt.Errorf("%q: %w", key, err)
		}
		at, seen := places[key]
		if !seen {
			at = len(out)
			places[key] = at
			out = append(out, Member{Key: key})
		}
		out[at].Value = value.Bytes()
	}
	if _, err := d.Token(); err != nil { // the closing brace
		return nil, err
	}
	if d.More() {
		return nil, errors.New("something stands behind the object")
	}
	return out, nil
}

// brief is the beginning of a text for an error.
func brief(text []byte) string {
	const most = 60
	if len(text) > most {
		return fmt.Sprintf("%q...", text[:most])
	}
	return fmt.Sprintf("%q", text)
}

// Get returns the value of a member.
func (o Object) Get(key string) (json.RawMessage, bool) {
	for _, m := range o {
		if m.Key == key {
			return m.Value, true
		}
	}
	return nil, false
}

// With returns a copy of o in which a member has another value; a new one stands last.
func (o Object) With(key string, value json.RawMessage) Object {
	out := append(make(Object, 0, len(o)+1), o...)
	for i := range out {
		if out[i].Key == key {
			out[i].Value = value
			return out
		}
	}
	return append(out, Member{key, value})
}

// withAll returns a copy of o with the members of others.
func (o Object) withAll(others ...Object) Object {
	for _, other := range others {
		for _, m := range other {
			o = o.With(m.Key, m.Value)
		}
	}
	return o
}

// Number returns a member as a number, as Python's float would: texts such as "inf" and
// truth values are numbers too.
func (o Object) Number(key string) (float64, bool) {
	raw, ok := o.Get(key)
	if !ok {
		return 0, false
	}
	switch text := str(raw); text {
	case "True":
		return 1, true
	case "False":
		return 0, true
	default:
		f, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
		return f, err == nil
	}
}

// append writes o as compact JSON.
func (o Object) append(b []byte) []byte {
	b = append(b, '{')
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, quoted(m.Key)...), ':'), m.Value...)
	}
	return append(b, '}')
}

// compactJSON is v as JSON, in which <, > and & stand for themselves.
func compactJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// quoted is a text as JSON.
func quoted(text string) json.RawMessage {
	b, _ := compactJSON(text) // cannot fail: bytes that are not UTF-8 are replaced
	return b
}

// integer is a number as JSON.
func integer(n int) json.RawMessage { return strconv.AppendInt(nil, int64(n), 10) }

// number is a number as JSON, without a fraction where it has none.
func number(f float64) json.RawMessage { return strconv.AppendFloat(nil, f, 'f', -1, 64) }

// same reports whether two values are equal in Python, where 1, 1.0 and true are.
func same(a, b json.RawMessage) bool {
	return reflect.DeepEqual(loose(a), loose(b))
}

// loose is a value in which equal numbers are equal.
func loose(raw json.RawMessage) (v any) {
	if json.Unmarshal(raw, &v) != nil { // a number too large for a float
		return string(raw)
	}
	if truth, ok := v.(bool); ok {
		v = 0.0
		if truth {
			v = 1.0
		}
	}
	return v
}
