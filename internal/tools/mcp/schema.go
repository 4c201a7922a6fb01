package mcp

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"

	"ossian/internal/chat/declare"
)

// maxDepth is how deep schemas are trimmed; what is deeper stays as it is.
const maxDepth = 64

// A member of a JSON object.
type member struct {
	key   string
	value json.RawMessage
}

// trim takes out of a schema what generators put in and models were not trained on: titles,
// defaults that are null, and unions of plain types, which become a list of types without null. The
// order of members stays, since prompts show it. What is no object stays as it is.
func trim(schema json.RawMessage) json.RawMessage { return trimTo(schema, maxDepth) }

func trimTo(schema json.RawMessage, depth int) json.RawMessage {
	members, ok := readObject(schema)
	if !ok || depth == 0 {
		return schema
	}
	// A type beside anyOf restricts it: then the union is left as it is.
	typed := slices.ContainsFunc(members, func(m member) bool { return m.key == "type" })
	kept := members[:0]
	for _, one := range members {
		switch {
		case one.key == "title" && isKind(one.value, '"'):
			continue
		case one.key == "default" && isNull(one.value):
			continue
		case one.key == "anyOf" && !typed:
			if types, plain := plainTypes(one.value); plain {
				one = member{"type", types}
			}
		case one.key == "properties":
			one.value = trimEach(one.value, depth-1)
		}
		kept = append(kept, one)
	}
	return writeObject(kept)
}

// trimEach trims the values of an object, whose keys are names of properties and no keywords.
func trimEach(object json.RawMessage, depth int) json.RawMessage {
	members, ok := readObject(object)
	if !ok {
		return object
	}
	for i := range members {
		members[i].value = trimTo(members[i].value, depth)
	}
	return writeObject(members)
}

// plainTypes returns the list of types that a union is, if its members say nothing else.
func plainTypes(union json.RawMessage) (list json.RawMessage, plain bool) {
	var variants []json.RawMessage
	if json.Unmarshal(union, &variants) != nil {
		return nil, false
	}
	types := []json.RawMessage{}
	for _, variant := range variants {
		members, ok := readObject(variant)
		name := json.RawMessage(nil)
		for _, member := range members {
			switch {
			case member.key == "type" && isKind(member.value, '"'):
				name = member.value
			case member.key != "title":
				return nil, false
			}
		}
		if !ok || name == nil {
			return nil, false
		}
		// A union with null is a type that may be missing, which optional members are anyway.
		if string(name) != `"null"` {
			types = append(types, name)
		}
	}
	if len(types) == 0 {
		return nil, false
	}
	list, err := json.Marshal(types)
	return list, err == nil
}

func isKind(value json.RawMessage, first byte) bool {
	value = bytes.TrimSpace(value)
	return len(value) > 0 && value[0] == first
}

func isNull(value json.RawMessage) bool { return string(bytes.TrimSpace(value)) == "null" }

// readObject returns the members of a JSON object in their order.
func readObject(text json.RawMessage) (members []member, ok bool) {
	if !isKind(text, '{') {
		return nil, false
	}
	in := json.NewDecoder(bytes.NewReader(text))
	if _, err := in.Token(); err != nil {
		return nil, false
	}
	for in.More() {
		key, err := in.Token()
		if err != nil {
			return nil, false
		}
		m := member{key: key.(string)} // the decoder refuses other keys
		if err := in.Decode(&m.value); err != nil {
			return nil, false
		}
		members = append(members, m)
	}
	if _, err := in.Token(); err != nil {
		return nil, false
	}
	_, err := in.Token() // behind it there is nothing
	return members, err == io.EOF
}

func writeObject(members []member) json.RawMessage {
	out := bytes.NewBufferString("{")
	for i, m := range members {
		if i > 0 {
			out.WriteByte(',')
		}
		out.Write(declare.Quoted(m.key))
		out.WriteByte(':')
		out.Write(m.value)
	}
	out.WriteByte('}')
	return out.Bytes()
}
