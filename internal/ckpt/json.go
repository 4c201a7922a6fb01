package ckpt

// The JSON of headers and indexes: a scanner that reads in place. Configuration files, which
// are small, are read by encoding/json (object.go).

import (
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// A scanner reads JSON in place. Headers come from strangers and may have 100 MB:
// unlike a general decoder it allocates nothing but the strings that are asked
// for, and its caller sees duplicate keys and stops whenever there are too many.
// The first error sticks; after it every method returns zero values.
type scanner struct {
	path string
	data []byte
	base int64 // offset of data in the file, for messages
	at   int
	err  error
}

// maxDepth bounds the nesting of values that are skipped.
const maxDepth = 32

// fail notes what is wrong where the scanner stands.
func (s *scanner) fail(problem, want string, got any) {
	if s.err == nil {
		s.err = damaged(s.path, s.base+int64(s.at), problem, want, got)
	}
}

// peek returns the next byte that is not blank, 0 at the end.
func (s *scanner) peek() byte {
	for s.err == nil && s.at < len(s.data) {
		c := s.data[s.at]
		if c != ' ' && c != '\t' && c != '\n' && c != '\r' {
			return c
		}
		s.at++
	}
	return 0
}

// found describes what stands where something else was expected.
func (s *scanner) found() string {
	if s.at >= len(s.data) {
		return "the end"
	}
	return strconv.QuoteRune(rune(s.data[s.at]))
}

// expect passes over a delimiter, after blanks.
func (s *scanner) expect(c byte) bool {
	if s.err != nil {
		return false
	}
	if s.peek() != c {
		s.fail("JSON", strconv.QuoteRune(rune(c)), s.found())
		return false
	}
	s.at++
	return true
}

// object calls field for every key; field must read the value.
func (s *scanner) object(field func(key string)) {
	if !s.expect('{') {
		return
	}
	if s.peek() == '}' {
		s.at++
		return
	}
	for s.err == nil {
		key := s.string()
		if !s.expect(':') {
			return
		}
		field(key)
		if s.peek() != ',' {
			s.expect('}')
			return
		}
		s.at++
	}
}

// array calls element for every element; element must read it.
func (s *scanner) array(element func()) {
	if !s.expect('[') {
		return
	}
	if s.peek() == ']' {
		s.at++
		return
	}
	for s.err == nil {
		element()
		if s.peek() != ',' {
			s.expect(']')
			return
		}
		s.at++
	}
}

// raw returns the bytes of a string with its quotes and whether it has escapes.
func (s *scanner) raw() (b []byte, escaped bool) {
	if !s.expect('"') {
		return nil, false
	}
	start := s.at - 1
	for ; s.at < len(s.data); s.at++ {
		switch next := s.data[s.at]; {
		case next == '"':
			s.at++
			return s.data[start:s.at], escaped
		case next == '\\': // what is behind it ends nothing; escapes are decoded elsewhere
			escaped = true
			s.at++
		case next < ' ':
			s.fail("JSON string", "no control characters", fmt.Sprintf("byte %d", next))
			return nil, false
		}
	}
	s.fail("JSON string", "a closing quote", "the end")
	return nil, false
}

// string reads a string, which must be UTF-8 and have valid escapes.
func (s *scanner) string() string {
	raw, escaped := s.raw()
	if s.err != nil {
		return ""
	}
	if !utf8.Valid(raw) {
		s.fail("JSON string", "UTF-8", strconv.QuoteToASCII(clip(string(raw))))
		return ""
	}
	if !escaped {
		return string(raw[1 : len(raw)-1])
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		s.fail("JSON string", "valid escapes", clip(string(raw)))
	}
	return text
}

// uint reads a whole number from 0 to 2^62-1.
func (s *scanner) uint() int64 {
	first := s.peek()
	start := s.at
	for s.at < len(s.data) && s.data[s.at] >= '0' && s.data[s.at] <= '9' && s.at-start < 20 {
		s.at++
	}
	digits := string(s.data[start:s.at])
	number, err := strconv.ParseInt(digits, 10, 63)
	if err != nil || (len(digits) > 1 && first == '0') {
		s.at = start
		s.fail("number", "an integer from 0 to 2^62-1", s.found())
		return 0
	}
	return number
}

// skip reads any value.
func (s *scanner) skip(depth int) {
	if depth > maxDepth {
		s.fail("JSON", fmt.Sprintf("at most %d levels", maxDepth), "more")
		return
	}
	switch c := s.peek(); c {
	case '{':
		s.object(func(string) { s.skip(depth + 1) })
	case '[':
		s.array(func() { s.skip(depth + 1) })
	case '"':
		s.raw()
	default: // a number, true, false or null
		start := s.at
		for s.at < len(s.data) && !isDelimiter(s.data[s.at]) {
			s.at++
		}
		if word := s.data[start:s.at]; s.err == nil && !json.Valid(word) {
			s.at = start
			s.fail("JSON", "a value", strconv.QuoteToASCII(clip(string(word))))
		}
	}
}

// isDelimiter reports whether c ends a number, true, false or null.
func isDelimiter(c byte) bool {
	return c <= ' ' || c == ',' || c == ']' || c == '}' || c == ':' || c == '"' || c == '[' || c == '{'
}

// end reports anything but blanks after the value.
func (s *scanner) end() {
	if (s.err == nil && s.peek() != 0) || (s.err == nil && s.at < len(s.data)) {
		s.fail("JSON", "the end", s.found())
	}
}
