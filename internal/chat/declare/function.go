package declare

import (
	"bytes"
	"encoding/json"
)

// Function is a tool in the form {"type": "function", "function": {…}}, for models that are
// shown JSON. Members are in the order in which published declarations have them, since
// templates print it; parameters may be nil.
func Function(name, description string, parameters json.RawMessage) json.RawMessage {
	var out bytes.Buffer
	out.WriteString(`{"type":"function","function":{"name":`)
	out.Write(Quoted(name))
	if description != "" {
		out.WriteString(`,"description":`)
		out.Write(Quoted(description))
	}
	if parameters != nil {
		out.WriteString(`,"parameters":`)
		out.Write(parameters)
	}
	out.WriteString(`}}`)
	return out.Bytes()
}

// Quoted is text as a JSON string.
func Quoted(text string) []byte {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err) // strings have a JSON form
	}
	return quoted
}
