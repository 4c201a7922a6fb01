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

// argumentKeys are the members that hold the arguments: Llama has parameters, most others
// arguments.
var argumentKeys = []string{"parameters", "arguments"}

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
// tool that known has, and with arguments that are an object; a list may begin before it:
//
//	{"name": "N", "parameters": {…}}
//
// With Begun, at is where the arguments begin, with Whole the object itself: then members
// are in another order, or arguments are written in another way, and Object tells. The
// name is "" until it is complete and known. Other members in front of the name are passed
// over where they are neither objects nor lists.
func Bare(text []byte, known func(string) bool) (name string, at int, verdict Verdict) {
	scan := scanner{text: text}
	if !scan.front() {
		return "", 0, Open
	}
	start := scan.at
	if scan.literal("{"); scan.bad {
		return "", 0, Never
	}
	for {
		if scan.space(); scan.at >= len(text) {
			return name, 0, Open
		}
		key := scan.str()
		switch {
		case scan.bad:
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
		case name != "" && key != "name" && value != '"': // the name before is that of a tool
			return name, start, Whole
		case name == "" && key == "function" && value == '{':
			return "", start, Whole
		}
		if key != "name" {
			scan.scalar()
		} else if word := scan.str(); word != "" && !known(word) {
			return "", 0, Never
		} else {
			name = word
		}
		if scan.literal(","); scan.bad {
			return "", 0, Never // a name alone is no call
		}
	}
}

// Listed reports whether what Bare takes for a call begins a list.
func Listed(text []byte) bool {
	scan := scanner{text: text}
	return scan.front() && scan.listed
}

// Object returns name and arguments of a whole object that Bare takes for one, and
// whether it is a call. Arguments may be null, which is none, and the text of an object.
func Object(text []byte, known func(string) bool) (name, arguments string, ok bool) {
	type function struct {
		Name                  string
		Parameters, Arguments json.RawMessage
	}
	var object struct {
		function
		Function *function // {"type": "function", "function": {…}}, as the API has it
	}
	if json.Unmarshal(text, &object) != nil {
		return "", "", false
	}
	call := object.function
	if call.Name == "" && object.Function != nil {
		call = *object.Function
	}
	raw := call.Parameters
	if raw == nil {
		raw = call.Arguments
	}
	var inner string
	switch {
	case raw == nil || !known(call.Name):
		return "", "", false
	case string(raw) == "null":
		return call.Name, "{}", true
	case json.Unmarshal(raw, &inner) == nil:
		raw = []byte(inner)
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || members == nil {
		return "", "", false
	}
	return call.Name, string(raw), true
}

// A scanner goes through text and stays where it does not fit or ends.
type scanner struct {
	text []byte
	at   int
	bad  bool // text does not fit

	listed bool // a list began
}

// front passes over what may stand in front of the object of a call, and reports whether it
// is certain what does.
func (s *scanner) front() bool {
	if s.space(); !s.pythonTag() {
		return false
	}
	if s.space(); s.at < len(s.text) && s.text[s.at] == '[' {
		s.at++
		s.listed = true
		s.space()
	}
	return true
}

// scalar passes over a value that is neither object nor list; such a value is bad.
func (s *scanner) scalar() {
	switch from := s.at; s.text[s.at] {
	case '{', '[':
		s.bad = true
	case '"':
		s.at = stringEnd(s.text, s.at)
	default:
		for s.at < len(s.text) && s.text[s.at] != ',' && s.text[s.at] != '}' && !IsSpace(s.text[s.at]) {
			s.at++
		}
		s.bad = s.at == from
	}
}

// stringEnd returns where the string ends that begins at from, behind its quote: one without
// a backslash before it; or the end of the text.
func stringEnd(text []byte, from int) int {
	for at := from + 1; at < len(text); at++ {
		switch text[at] {
		case '"':
			return at + 1
		case '\\':
			at++
		}
	}
	return len(text)
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
	if s.text[s.at] != '"' {
		s.bad = true
		return ""
	}
	end := stringEnd(s.text, s.at)
	if end == len(s.text) && !json.Valid(s.text[s.at:end]) {
		s.at = end
		return ""
	}
	s.bad = json.Unmarshal(s.text[s.at:end], &text) != nil || text == ""
	s.at = end
	return text
}
