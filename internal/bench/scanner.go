package bench

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// A verdict says what became of parsing.
type verdict uint8

const (
	whole   verdict = iota // one complete value
	cut                    // it ended too early; more bytes may complete it
	invalid                // no bytes can make it JSON
)

const maxDepth = 512 // of nesting; deeper input is invalid here

// A scanner walks over one JSON value without building it: decoding into maps or
// structs would cost more than all else that a token costs the client. It accepts what
// encoding/json accepts (up to maxDepth). After a failure every method returns at once
// with a zero value, and open and next end their loops.
type scanner struct {
	b     []byte
	i     int
	depth int
	state verdict
	name  []byte // room for keys with escapes
}

func (s *scanner) fail(v verdict) {
	if s.state == whole {
		s.state = v
	}
}

// end reports whether a complete value was read with nothing but space behind it.
func (s *scanner) end() verdict {
	if s.state == whole {
		s.space()
		if s.i < len(s.b) {
			s.fail(invalid)
		}
	}
	return s.state
}

func (s *scanner) space() {
	for s.i < len(s.b) && (s.b[s.i] == ' ' || s.b[s.i] == '\n' || s.b[s.i] == '\r' || s.b[s.i] == '\t') {
		s.i++
	}
}

// peek returns the next byte that is not space; 0 after a failure.
func (s *scanner) peek() byte {
	if s.state != whole {
		return 0
	}
	s.space()
	if s.i == len(s.b) {
		s.fail(cut)
		return 0
	}
	return s.b[s.i]
}

// open enters the array or object that begins with c and reports whether something is
// in it.
func (s *scanner) open(c byte) bool {
	if s.peek() != c || s.depth == maxDepth {
		s.fail(invalid)
		return false
	}
	s.i++
	s.depth++
	if s.peek() == c+2 { // ']' and '}' lie two behind their partners
		s.i++
		s.depth--
		return false
	}
	return s.state == whole
}

// next goes to the next element and reports whether there is one; c closes.
func (s *scanner) next(c byte) bool {
	switch s.peek() {
	case ',':
		s.i++
		return true
	case c:
		s.i++
		s.depth--
		return false
	}
	s.fail(invalid)
	return false
}

// key reads the name of a member and the colon behind it. The result holds until the
// next call.
func (s *scanner) key() []byte {
	raw, plain := s.str()
	if !plain {
		s.name = appendUnquoted(s.name[:0], raw)
		raw = s.name
	}
	if s.peek() != ':' {
		s.fail(invalid)
		return nil
	}
	s.i++
	return raw
}

// str reads a string and returns what stands between its quotes, and whether that is
// its text as it is: without escapes, and UTF-8.
func (s *scanner) str() (raw []byte, plain bool) {
	if s.peek() != '"' {
		s.fail(invalid)
		return nil, false
	}
	from, ascii := s.i+1, true
	plain = true
	for i := from; i < len(s.b); i++ {
		switch c := s.b[i]; {
		case c == '"':
			s.i = i + 1
			raw = s.b[from:i]
			return raw, plain && (ascii || utf8.Valid(raw))
		case c == '\\':
			n := s.escape(s.b[i:])
			if n == 0 {
				return nil, false
			}
			plain = false
			i += n - 1
		case c < ' ':
			s.fail(invalid)
			return nil, false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	s.fail(cut)
	return nil, false
}

// escape returns the length of the escape that b begins with; 0 = it failed.
func (s *scanner) escape(b []byte) int {
	if len(b) < 2 {
		s.fail(cut)
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		for k := 2; k < 6; k++ {
			if k == len(b) {
				s.fail(cut)
				return 0
			}
			if c := b[k] | 0x20; !((b[k] >= '0' && b[k] <= '9') || (c >= 'a' && c <= 'f')) {
				s.fail(invalid)
				return 0
			}
		}
		return 6
	}
	s.fail(invalid)
	return 0
}

// appendUnquoted appends the text of a string that str has checked. What is not UTF-8,
// and half a surrogate pair, becomes U+FFFD, as with encoding/json.
func appendUnquoted(dst, raw []byte) []byte {
	for len(raw) > 0 {
		if raw[0] != '\\' {
			r, n := utf8.DecodeRune(raw)
			dst = utf8.AppendRune(dst, r)
			raw = raw[n:]
			continue
		}
		switch c := raw[1]; c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r := hex4(raw[2:6])
			raw = raw[4:]
			if utf16.IsSurrogate(r) {
				low := rune(-1)
				if len(raw) >= 8 && raw[2] == '\\' && raw[3] == 'u' {
					low = hex4(raw[4:8])
				}
				if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
					raw = raw[6:]
				}
			}
			dst = utf8.AppendRune(dst, r)
		default:
			dst = append(dst, c)
		}
		raw = raw[2:]
	}
	return dst
}

func hex4(b []byte) (r rune) {
	for _, c := range b {
		if c <= '9' {
			r = r<<4 | rune(c-'0')
		} else {
			r = r<<4 | rune(c|0x20-'a'+10)
		}
	}
	return r
}

// text reads a value and returns its text in the memory of dst; "" if it is no string.
func (s *scanner) text(dst []byte) []byte {
	if s.peek() != '"' {
		s.skip()
		return dst[:0]
	}
	raw, plain := s.str()
	if plain {
		return append(dst[:0], raw...)
	}
	return appendUnquoted(dst[:0], raw)
}

// value reads a value and returns it as it came; nil if it is null.
func (s *scanner) value() []byte {
	null := s.peek() == 'n'
	from := s.i
	s.skip()
	if null || s.state != whole {
		return nil
	}
	return s.b[from:s.i]
}

// integer reads a value; -1 if it is not a whole number from 0 on, written as such.
func (s *scanner) integer() int {
	if c := s.peek(); c < '0' || c > '9' {
		s.skip()
		return -1
	}
	from := s.i
	s.skip()
	n, err := strconv.Atoi(string(s.b[from:s.i]))
	if err != nil {
		return -1
	}
	return n
}

// count reads a value and returns how many elements it has; -1 if it is no array.
func (s *scanner) count() int {
	if s.peek() != '[' {
		s.skip()
		return -1
	}
	n := 0
	for more := s.open('['); more; more = s.next(']') {
		s.skip()
		n++
	}
	return n
}

// member reads a value and returns its member of that name; -1 if there is none.
func (s *scanner) member(name string) int {
	n := -1
	if s.peek() != '{' {
		s.skip()
		return n
	}
	for more := s.open('{'); more; more = s.next('}') {
		if string(s.key()) == name {
			n = s.integer()
		} else {
			s.skip()
		}
	}
	return n
}

// skip reads any value.
func (s *scanner) skip() {
	switch c := s.peek(); c {
	case '"':
		s.str()
	case '{':
		for more := s.open('{'); more; more = s.next('}') {
			s.key()
			s.skip()
		}
	case '[':
		for more := s.open('['); more; more = s.next(']') {
			s.skip()
		}
	case 't':
		s.literal("true")
	case 'f':
		s.literal("false")
	case 'n':
		s.literal("null")
	default:
		s.number()
	}
}

func (s *scanner) literal(word string) {
	for k := range len(word) {
		if s.i+k == len(s.b) {
			s.fail(cut)
			return
		}
		if s.b[s.i+k] != word[k] {
			s.fail(invalid)
			return
		}
	}
	s.i += len(word)
}

// number reads -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?.
func (s *scanner) number() {
	if s.peek() == '-' {
		s.i++
	}
	if s.i < len(s.b) && s.b[s.i] == '0' {
		s.i++
	} else {
		s.digits()
	}
	if s.at('.', '.') {
		s.digits()
	}
	if s.at('e', 'E') {
		s.at('+', '-')
		s.digits()
	}
}

// at steps over one of two bytes.
func (s *scanner) at(a, b byte) bool {
	if s.state != whole || s.i == len(s.b) || (s.b[s.i] != a && s.b[s.i] != b) {
		return false
	}
	s.i++
	return true
}

// digits reads one digit or more.
func (s *scanner) digits() {
	from := s.i
	for s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' {
		s.i++
	}
	switch {
	case s.i > from:
	case s.i == len(s.b):
		s.fail(cut)
	default:
		s.fail(invalid)
	}
}
