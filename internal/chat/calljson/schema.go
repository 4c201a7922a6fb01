package calljson

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
)

// ObjectSchema returns a JSON schema as it is for what has to be an object whatever the
// schema leaves out: arguments of a call are one, and generators of schemas often do not
// say so. References into the schema stay true. One that says it already
// comes back as it is, and so does what is no schema: who compiles it tells. Where no
// object can meet the schema, nothing meets the result.
func ObjectSchema(schema string) string {
	text := bytes.TrimSpace([]byte(schema))
	if string(text) == "true" {
		return anyObject
	}
	members, ok := split(text)
	if !ok {
		return schema
	}
	out := []byte(strings.TrimSuffix(anyObject, "}"))
	same := false // the schema says nothing else of the type
	for _, member := range members {
		switch {
		case nullable(member):
			same = false
			continue
		case member.key == "type":
			found := readType(member.value)
			switch {
			case found == nil:
				return schema
			case !slices.Contains(found, "object"):
				return `{"type":"object","allOf":[{"type":` + string(member.value) + `}]}`
			}
			same = len(found) == 1 && member.value[0] == '"' && !slices.ContainsFunc(members, nullable)
			continue
		}
		key, err := json.Marshal(member.key)
		if err != nil {
			return schema
		}
		out = slices.Concat(out, []byte(","), key, []byte(":"), member.value)
	}
	if same {
		return schema
	}
	return string(append(out, '}'))
}

// anyObject is the schema of objects.
const anyObject = `{"type":"object"}`

// readType returns the types of a schema, nil if they are no types.
func readType(value json.RawMessage) []string {
	var one string
	if json.Unmarshal(value, &one) == nil && value[0] == '"' {
		value = slices.Concat([]byte("["), value, []byte("]"))
	}
	var several []string
	if json.Unmarshal(value, &several) != nil || slices.ContainsFunc(several, func(name string) bool { return !slices.Contains(types, name) }) {
		return nil
	}
	return several
}

// types are the names of JSON schema.
var types = []string{"null", "boolean", "integer", "number", "string", "array", "object"}

// A member is one of an object, its value as it is written.
type member struct {
	key   string
	value json.RawMessage
}

// nullable reports whether a member of a schema lets null in.
func nullable(m member) bool { return m.key == "nullable" && string(m.value) == "true" }

// split returns the members of an object in their order; not ok if it is none, or has
// one twice.
func split(object []byte) (all []member, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(object))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil, false
	}
	for dec.More() {
		token, err := dec.Token()
		key, isKey := token.(string)
		if err != nil || !isKey || slices.ContainsFunc(all, func(m member) bool { return m.key == key }) {
			return nil, false
		}
		next := member{key: key}
		if dec.Decode(&next.value) != nil {
			return nil, false
		}
		all = append(all, next)
	}
	if _, err := dec.Token(); err != nil {
		return nil, false
		// Nothing may follow the object.
	}
	_, err := dec.Token()
	return all, err == io.EOF
}
