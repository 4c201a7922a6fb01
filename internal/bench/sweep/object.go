package sweep

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"ossian/internal/bench/jsonfile"
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
	decoder := json.NewDecoder(bytes.NewReader(text))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return nil, fmt.Errorf("found %s, expected an object", brief(text))
	}
	out := Object{}
	places := map[string]int{}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, jsonfile.Explain(err)
		}
		key, ok := token.(string)
		if !ok {
			return nil, fmt.Errorf("found %v, expected the name of a member", token)
		}
		var raw json.RawMessage
		if err := decoder.Decode(&raw); err != nil {
			return nil, fmt.Errorf("%q: %w", key, jsonfile.Explain(err))
		}
		// Compact, so that equal values are equal texts wherever they were written.
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
	if _, err := decoder.Token(); err != nil { // the closing brace
		return nil, jsonfile.Explain(err)
	}
	if decoder.More() {
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
		for _, member := range other {
			o = o.With(member.Key, member.Value)
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
	switch text := pyStr(raw); text {
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
func (o Object) append(dst []byte) []byte {
	dst = append(dst, '{')
	for i, member := range o {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, jsonText(member.Key)...), ':'), member.Value...)
	}
	return append(dst, '}')
}

// compactJSON is a value as JSON, in which <, > and & stand for themselves.
func compactJSON(value any) ([]byte, error) {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n")), err
}

// jsonText is a text as JSON.
func jsonText(text string) json.RawMessage {
	b, _ := compactJSON(text) // cannot fail: bytes that are not UTF-8 are replaced
	return b
}

// jsonInteger is a whole number as JSON.
func jsonInteger(n int) json.RawMessage { return strconv.AppendInt(nil, int64(n), 10) }

// jsonNumber is a number as JSON, without a fraction where it has none.
func jsonNumber(f float64) json.RawMessage { return strconv.AppendFloat(nil, f, 'f', -1, 64) }

// same reports whether two values are equal in Python, where 1, 1.0 and true are.
func same(a, b json.RawMessage) bool {
	return reflect.DeepEqual(loose(a), loose(b))
}

// loose is a value in which equal numbers are equal.
func loose(raw json.RawMessage) (value any) {
	if json.Unmarshal(raw, &value) != nil { // a number too large for a float
		return string(raw)
	}
	if truth, ok := value.(bool); ok {
		value = 0.0
		if truth {
			value = 1.0
		}
	}
	return value
}
