// Package jsonfile says what is wrong with JSON that others wrote, in files and in answers of
// servers. Package json speaks to whoever wrote the program, of Go types and struct fields;
// these errors speak to whoever has the file: what was expected, what was found, and where.
package jsonfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// Most of what an error repeats of a file.
const (
	maxNames = 8  // members
	maxName  = 40 // bytes of the name of one
)

// Kind is the kind of a JSON value with its article, by its first byte: "an array". It is
// "nothing" for a value that is not there.
func Kind(value []byte) string {
	text := strings.TrimLeft(string(value[:min(len(value), 64)]), " \t\r\n")
	if text == "" {
		return "nothing"
	}
	switch text[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "true or false"
	case 'n':
		return "null"
	}
	return "a number"
}

// Names lists the members of an object for an error, in alphabetical order: what somebody who
// missed one has in its place.
func Names(members map[string]json.RawMessage) string {
	if len(members) == 0 {
		return "no members"
	}
	var quoted []string
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if len(quoted) == maxNames {
			return fmt.Sprintf("%s and %d more", strings.Join(quoted, ", "), len(members)-maxNames)
		}
		quoted = append(quoted, fmt.Sprintf("%.*q", maxName, name))
	}
	return strings.Join(quoted, ", ")
}

// Missing is the error of a field that an object has not, or has as null.
func Missing(field string, members map[string]json.RawMessage) error {
	if _, ok := members[field]; ok {
		return fmt.Errorf("field %q is null", field)
	}
	return fmt.Errorf("field %q is missing, found %s", field, Names(members))
}

// IsNull reports whether a field is missing or null, which means the same where it is optional.
func IsNull(value json.RawMessage) bool {
	return len(value) == 0 || string(value) == "null"
}

// EndsEarly reports whether JSON was well-formed as far as it went, but for its end.
func EndsEarly(err error) bool {
	if wrong, ok := errors.AsType[*json.SyntaxError](err); ok {
		return wrong.Error() == "unexpected end of JSON input" // the package has no other mark of it
	}
	return err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF)
}

// Explain returns an error of package json in words of the format; others as they are.
func Explain(err error) error {
	if err == nil {
		return nil
	}
	if EndsEarly(err) {
		return errors.New("the JSON ends early: it is not complete")
	}
	if wrong, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("not JSON: %s", wrong.Error())
	}
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return err
	}
	where := ""
	if wrong.Field != "" {
		where = fmt.Sprintf("field %q: ", wrong.Field)
	}
	return fmt.Errorf("%sexpected %s, found %s", where, kindOf(wrong.Type), found(wrong.Value))
}

// ExplainIn is Explain with the line in which text stops being JSON, where that is what is wrong.
func ExplainIn(text []byte, err error) error {
	wrong, ok := errors.AsType[*json.SyntaxError](err)
	if !ok || EndsEarly(err) {
		return Explain(err)
	}
	before := text[:min(max(int(wrong.Offset)-1, 0), len(text))]
	return fmt.Errorf("line %d: %w", 1+bytes.Count(before, []byte("\n")), Explain(err))
}

// found is what package json calls a value, with its article. A number that does not fit comes
// with its digits.
func found(value string) string {
	switch name, digits, _ := strings.Cut(value, " "); {
	case digits != "":
		return "the number " + digits[:min(len(digits), maxName)]
	case name == "bool":
		return "true or false"
	case name == "array" || name == "object":
		return "an " + name
	default:
		return "a " + name
	}
}

// kindOf is the JSON that a Go type is read from.
func kindOf(kind reflect.Type) string {
	for kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	switch kind.Kind() {
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	return "a whole number"
}
