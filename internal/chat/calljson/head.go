package calljson

import (
	"encoding/json"
	"slices"
	"strings"
)

// MaxHead is how many bytes may come before the arguments of a call: text that has more
// begins with something else.
const MaxHead = 4096

// A Verdict says what the beginning of a text is.
type Verdict uint8

const (
	Open  Verdict = iota // it may become a call
	Never                // it is none
	Begun                // a call whose arguments have begun
	Whole                // an object that tells at its end whether it is a call
)

// PythonTag is what models of the Llama family may write before a call. It is a control
// id of theirs, and text where a vocabulary lacks it.
const PythonTag = "<|python_tag|>"

// callKeys are the members that the object of a call may begin with, and argumentKeys
// those of them that hold the arguments: Llama has parameters, most others arguments.
var (
	callKeys     = []string{"name", "type", "id", "parameters", "arguments"}
	argumentKeys = []string{"parameters", "arguments"}
)

// Tagged reads {"name": "N", "arguments": up to the first byte of the arguments, between
// tags that make it a call. Its verdict is Begun with the place at which they begin, Open
// or Never. The name is "" until it is complete.
func Tagged(text []byte) (name string, at int, verdict Verdict) {
	scan := scanner{text: text}
	scan.literal("{")
	scan.literal(`"name"`)
	scan.literal(":")
	name = scan.str()
	scan.literal(",")
	scan.literal(`"arguments"`)
	scan.literal(":")
	scan.space()
	switch {
	case scan.bad:
		return name, 0, Never
	case scan.at >= len(text):
		return name, 0, Open
	}
	return name, scan.at, Begun
}

// Bare reads the beginning of a text that is a call if it is an object with the name of a
// tool that known has, and with arguments that are an object:
//
//	{"name": "N", "parameters": {…}}
//
// With Begun, at is where the arguments begin, with Whole the object itself: then members
// are in another order, or arguments are written in another way, and Object tells. The
// name is "" until it is complete and known.
func Bare(text []byte, known func(string) bool) (name string, at int, verdict Verdict) {
	scan := scanner{text: text}
	if scan.space(); !scan.pythonTag() {
		return "", 0, Open
	}
	scan.space()
	start := scan.at
	if scan.literal("{"); scan.bad {
		return "", 0, Never
	}
	for {
		if scan.space(); scan.at >= len(text) {
			return name, 0, Open
		}
		key, quote := scan.str(), scan.at
		switch {
		case scan.bad || (key != "" && name == "" && !slices.Contains(callKeys, key)):
			return "", 0, Never
		case key == "" && name == "" && !begins(text[scan.from:quote]):
			return "", 0, Never
		case key == "":
			return name, 0, Open
		}
		scan.literal(":")
		scan.space()
		if scan.bad {
			return "", 0, Never
		}
		if scan.at >= len(text) {
			return name, 0, Open
		}
		value := text[scan.at]
		switch {
		case slices.Contains(argumentKeys, key) && name != "" && value == '{':
			return name, scan.at, Begun
		case slices.Contains(argumentKeys, key) && (value == '{' || (name != "" && (value == '"' || value == 'n'))):
			return name, start, Whole
		case slices.Contains(argumentKeys, key):
			return "", 0, Never
		case !slices.Contains(callKeys, key) || (name != "" && key != "name" && value != '"'): // the name before is that of a tool
			return name, start, Whole
		}
		word := scan.str()
		if scan.bad || (key == "name" && word != "" && !known(word)) {
			return "", 0, Never
		}
		if key == "name" {
			name = word
		}
		if scan.literal(","); scan.bad {
			return "", 0, Never // a name alone is no call
		}
	}
}

// begins reports whether half a string, quote included, may become one of callKeys.
func begins(half []byte) bool {
	word := strings.TrimPrefix(string(half), `"`)
	return slices.ContainsFunc(callKeys, func(key string) bool { return strings.HasPrefix(key, word) })
}

// Object returns name and arguments of a whole object that Bare takes for one, and
// whether it is a call. Arguments may be null, which is none, and the text of an object.
func Object(text []byte, known func(string) bool) (name, arguments string, ok bool) {
	var call struct {
		Name                  string
		Parameters, Arguments json.RawMessage
	}
	if json.Unmarshal(text, &call) != nil || !known(call.Name) {
		return "", "", false
	}
	raw := call.Parameters
	if raw == nil {
		raw = call.Arguments
	}
	var inner string
	switch {
	case raw == nil:
		return "", "", false
	case string(raw) == "null":
		return call.Name, "{}", true
	case json.Unmarshal(raw, &inner) == nil:
		raw = []byte(inner)
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil || object == nil {
		return "", "", false
	}
	return call.Name, string(raw), true
}

// A scanner goes through text and stays where it does not fit or ends.
type scanner struct {
	text []byte
	at   int
	from int  // where the last string began
	bad  bool // text does not fit
}

// space passes over white space.
func (s *scanner) space() {
	for s.at < len(s.text) && IsSpace(s.text[s.at]) {
		s.at++
	}
}

// pythonTag passes over the tag, if it is there, and reports whether that is certain.
func (s *scanner) pythonTag() bool {
	rest := string(s.text[s.at:])
	if strings.HasPrefix(rest, PythonTag) {
		s.at += len(PythonTag)
		return true
	}
	return !strings.HasPrefix(PythonTag, rest)
}

// literal passes over want, or the beginning of it that ends the text.
func (s *scanner) literal(want string) {
	if s.space(); s.bad {
		return
	}
	size := min(len(want), len(s.text)-s.at)
	if s.bad = string(s.text[s.at:s.at+size]) != want[:size]; !s.bad {
		s.at += size
		if size < len(want) {
			s.at = len(s.text)
		}
	}
}

// str reads a JSON string, "" if it is not complete.
func (s *scanner) str() (text string) {
	if s.space(); s.bad || s.at == len(s.text) {
		return ""
	}
	if s.from = s.at; s.text[s.at] != '"' {
		s.bad = true
		return ""
	}
	end := s.at + 1 // of the string: a quote without a backslash before it
	for end < len(s.text) && s.text[end] != '"' {
		if s.text[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(s.text) {
		s.at = len(s.text)
		return ""
	}
	s.bad = json.Unmarshal(s.text[s.at:end+1], &text) != nil || text == ""
	s.at = end + 1
	return text
}
