package ckpt

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// An object is one JSON object of a configuration file. A key that is null counts
// as absent. The first error sticks, in all objects of the file.
type object struct {
	file   string
	prefix string // "rope_parameters." in nested objects
	fields map[string]json.RawMessage
	err    *error
}

// maxConfig bounds configuration files in bytes; decoding costs a multiple.
const maxConfig = 1 << 20

// parseObject reads the object of a configuration file.
func parseObject(file string, data []byte) (object, error) {
	parsed := object{file: file, err: new(error)}
	if len(data) > maxConfig {
		return parsed, damaged(file, -1, "size", fmt.Sprintf("at most %d bytes", maxConfig), len(data))
	}
	if json.Unmarshal(data, &parsed.fields) == nil && parsed.fields != nil {
		return parsed, nil
	}
	return parsed, notObject(file, data)
}

// notObject says what there is in place of an object. The decoder's own words are of types of
// this program.
func notObject(file string, data []byte) error {
	if known := foreign(file, data, int64(len(data))); known != nil {
		return known
	}
	for mark, name := range map[string]string{"\xef\xbb\xbf": "a byte order mark before it", "\xff\xfe": "UTF-16", "\xfe\xff": "UTF-16"} {
		if strings.HasPrefix(string(data[:min(len(data), 3)]), mark) {
			return damaged(file, 0, "content", "a JSON object", name+", as editors on Windows write: save it as UTF-8 without a mark")
		}
	}
	if syntax, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(data, new(map[string]json.RawMessage))); ok {
		// Offset counts the bytes that were read, that of the error included.
		if strings.HasPrefix(syntax.Error(), "unexpected end") {
			return damaged(file, int64(len(data)), "content", "a JSON object", "the end of the file within it: fetch it again")
		}
		at := max(syntax.Offset-1, 0)
		return damaged(file, at, "content", "a JSON object", fmt.Sprintf("%q, which is no JSON there", clip(string(data[at:min(int(at)+20, len(data))]))))
	}
	return damaged(file, -1, "content", "a JSON object", jsonKind(data))
}

// jsonKind tells what a JSON value is, in words of the format.
func jsonKind(raw []byte) string {
	text := strings.TrimSpace(string(raw))
	switch {
	case text == "":
		return "nothing"
	case text[0] == '{':
		return "an object"
	case text[0] == '[':
		return "an array"
	case text[0] == '"':
		return "a string, " + clip(text)
	case text[0] == '-' || (text[0] >= '0' && text[0] <= '9'):
		return "a number, " + clip(text)
	}
	return clip(text) // true, false or null
}

// fail notes a value that cannot be.
func (o object) fail(key, want string, got any) {
	if *o.err == nil {
		*o.err = damaged(o.file, -1, o.prefix+key, want, got)
	}
}

// unsupported notes a value that is sound and that this program does not run.
func (o object) unsupported(key, want string, got any) {
	if *o.err == nil {
		*o.err = unsupported(o.file, o.prefix+key, want, got)
	}
}

// get returns the first of keys that is present.
func (o object) get(keys ...string) (key string, raw json.RawMessage) {
	for _, key := range keys {
		if raw, ok := o.fields[key]; ok && string(raw) != "null" {
			return key, raw
		}
	}
	return keys[0], nil
}

// has reports whether key is present and not null.
func (o object) has(key string) bool {
	_, raw := o.get(key)
	return raw != nil
}

// missing reports that none of keys is present.
func (o object) missing(keys []string) {
	if *o.err == nil {
		*o.err = incomplete(o.file, "key "+o.prefix+strings.Join(keys, " or ")+" is missing")
	}
}

// needInt returns the first of keys, which must be a positive int32.
func (o object) needInt(keys ...string) int {
	if _, raw := o.get(keys...); raw == nil {
		o.missing(keys)
		return 0
	}
	return o.int(0, 1, keys...)
}

// int returns the first of keys, an int32 not below least, or def.
func (o object) int(def, least int, keys ...string) int {
	key, raw := o.get(keys...)
	if raw == nil {
		return def
	}
	number, err := strconv.ParseFloat(string(raw), 64) // some writers put 131072.0
	if err != nil || number != math.Trunc(number) || number < float64(least) || number > math.MaxInt32 {
		o.fail(key, fmt.Sprintf("an integer from %d to %d", least, math.MaxInt32), raw2text(raw))
		return def
	}
	return int(number)
}

// float returns the first of keys, a finite number, or def.
func (o object) float(def float64, keys ...string) float64 {
	key, raw := o.get(keys...)
	if raw == nil {
		return def
	}
	number, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || math.IsInf(number, 0) || math.IsNaN(number) {
		o.fail(key, "a number", raw2text(raw))
		return def
	}
	return number
}

// bool returns key, or def.
func (o object) bool(def bool, key string) bool {
	value := def
	o.decode(key, "true or false", &value)
	return value
}

// string returns key, or def.
func (o object) string(def, key string) string {
	value := def
	o.decode(key, "a string", &value)
	return value
}

// decode fills v, which keeps its value when key is absent.
func (o object) decode(key, want string, v any) {
	_, raw := o.get(key)
	if raw == nil {
		return
	}
	var list []json.RawMessage // whose null would read as 0
	holed := json.Unmarshal(raw, &list) == nil && slices.ContainsFunc(list, func(element json.RawMessage) bool { return string(element) == "null" })
	if holed || json.Unmarshal(raw, v) != nil {
		o.fail(key, want, raw2text(raw))
	}
}

// ids returns one id or a list of ids.
func (o object) ids(key string) []int32 {
	_, raw := o.get(key)
	if raw == nil {
		return nil
	}
	list := make([]int32, 1)
	if jsonKind(raw) == "an array" {
		o.decode(key, "an id or a list of ids", &list)
	} else {
		o.decode(key, "an id or a list of ids", &list[0])
	}
	return list
}

// object returns the nested object key, empty when absent.
func (o object) object(key string) object {
	sub := object{file: o.file, prefix: o.prefix + key + ".", err: o.err}
	o.decode(key, "an object", &sub.fields)
	return sub
}

// raw2text is a value as error messages show it: as it is, or what it is.
func raw2text(raw json.RawMessage) string {
	if kind := jsonKind(raw); kind == "an object" || kind == "an array" {
		return kind + ", " + clip(string(raw))
	}
	return clip(string(raw))
}
