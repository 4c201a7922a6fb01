package bench

import (
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// A verdict says what became of parsing.
type verdict uint8

const (
	complete   verdict = iota // one whole value
	incomplete                // it ended too early; more bytes may complete it
	invalid                   // no bytes can make it JSON
)

const maxDepth = 512 // of nesting; deeper input is invalid here

// A scanner walks over one JSON value without building it: decoding into maps or
// structs would cost more than all else that a token costs the client. It accepts what
// encoding/json accepts (up to maxDepth). After a failure every method returns at once
// with a zero value, and open and next end their loops.
type scanner struct {
	src   []byte
	pos   int     // of the next byte to read
	depth int     // arrays and objects that are open
	state verdict // complete until something fails, then for good what failed
	name  []byte  // room for keys with escapes
}

// fail keeps the first failure: what follows it says nothing.
func (s *scanner) fail(v verdict) {
	if s.state == complete {
		s.state = v
	}
}

// end reports whether a complete value was read with nothing but space behind it.
func (s *scanner) end() verdict {
	if s.state == complete {
		s.space()
		if s.pos < len(s.src) {
			s.fail(invalid)
		}
	}
	return s.state
}

func (s *scanner) space() {
	for s.pos < len(s.src) && (s.src[s.pos] == ' ' || s.src[s.pos] == '\n' || s.src[s.pos] == '\r' || s.src[s.pos] == '\t') {
		s.pos++
	}
}

// peek returns the next byte that is not space; 0 after a failure.
func (s *scanner) peek() byte {
	if s.state != complete {
		return 0
	}
	s.space()
	if s.pos == len(s.src) {
		s.fail(incomplete)
		return 0
	}
	return s.src[s.pos]
}

// open enters the array or object that begins with opening and reports whether something is
// in it.
func (s *scanner) open(opening byte) bool {
	if s.peek() != opening || s.depth == maxDepth {
		s.fail(invalid)
		return false
	}
	s.pos++
	s.depth++
	if s.peek() == opening+2 { // ']' and '}' lie two behind their partners
		s.pos++
		s.depth--
		return false
	}
	return s.state == complete
}

// next goes to the next element and reports whether there is one; closing ends them.
func (s *scanner) next(closing byte) bool {
	switch s.peek() {
	case ',':
		s.pos++
		return true
	case closing:
		s.pos++
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
	s.pos++
	return raw
}

// str reads a string and returns what stands between its quotes, and whether that is
// its text as it is: without escapes, and UTF-8.
func (s *scanner) str() (raw []byte, plain bool) {
	if s.peek() != '"' {
		s.fail(invalid)
		return nil, false
	}
	from, ascii := s.pos+1, true // most texts are ASCII, which is valid UTF-8 without another look
	plain = true
	for i := from; i < len(s.src); i++ {
		switch char := s.src[i]; {
		case char == '"':
			s.pos = i + 1
			raw = s.src[from:i]
			return raw, plain && (ascii || utf8.Valid(raw))
		case char == '\\':
			length := s.escape(s.src[i:])
			if length == 0 {
				return nil, false
			}
			plain = false
			i += length - 1
		case char < ' ':
			s.fail(invalid)
			return nil, false
		case char >= utf8.RuneSelf:
			ascii = false
		}
	}
	s.fail(incomplete)
	return nil, false
}

// escape returns the length of the escape that text begins with; 0 = it failed.
func (s *scanner) escape(text []byte) int {
	if len(text) < 2 {
		s.fail(incomplete)
		return 0
	}
	switch text[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		// Setting this bit makes letters small.
		for k := 2; k < 6; k++ {
			if k == len(text) {
				s.fail(incomplete)
				return 0
			}
			if c := text[k] | 0x20; !((text[k] >= '0' && text[k] <= '9') || (c >= 'a' && c <= 'f')) {
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
			char, n := utf8.DecodeRune(raw)
			dst = utf8.AppendRune(dst, char)
			raw = raw[n:]
			continue
		}
		switch escaped := raw[1]; escaped {
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
			char := hex4(raw[2:6])
			raw = raw[4:] // two bytes of it are left for the end of the loop
			if utf16.IsSurrogate(char) {
				low := rune(-1)
				if len(raw) >= 8 && raw[2] == '\\' && raw[3] == 'u' {
					low = hex4(raw[4:8])
				}
				if char = utf16.DecodeRune(char, low); char != utf8.RuneError {
					raw = raw[6:]
				}
			}
			dst = utf8.AppendRune(dst, char)
		default:
			dst = append(dst, escaped)
		}
		raw = raw[2:]
	}
	return dst
}

// hex4 is the value of four hexadecimal digits, which str has checked.
func hex4(digits []byte) (char rune) {
	for _, digit := range digits {
		if digit <= '9' {
			char = char<<4 | rune(digit-'0')
		} else {
			char = char<<4 | rune(digit|0x20-'a'+10)
		}
	}
	return char
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
	from := s.pos
	s.skip()
	if null || s.state != complete {
		return nil
	}
	return s.src[from:s.pos]
}

// integer reads a value; -1 if it is not a whole number from 0 on, written as such.
func (s *scanner) integer() int {
	if c := s.peek(); c < '0' || c > '9' {
		s.skip()
		return -1
	}
	from := s.pos
	s.skip()
	number, err := strconv.Atoi(string(s.src[from:s.pos]))
	if err != nil {
		return -1
	}
	return number
}

// count reads a value and returns how many elements it has; -1 if it is no array.
func (s *scanner) count() int {
	if s.peek() != '[' {
		s.skip()
		return -1
	}
	count := 0
	for more := s.open('['); more; more = s.next(']') {
		s.skip()
		count++
	}
	return count
}

// member reads a value and returns its member of that name; -1 if there is none.
func (s *scanner) member(name string) int {
	number := -1
	if s.peek() != '{' {
		s.skip()
		return number
	}
	for more := s.open('{'); more; more = s.next('}') {
		if string(s.key()) == name {
			number = s.integer()
		} else {
			s.skip()
		}
	}
	return number
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

// literal reads one of the three words.
func (s *scanner) literal(word string) {
	for k := range len(word) {
		if s.pos+k == len(s.src) {
			s.fail(incomplete)
			return
		}
		if s.src[s.pos+k] != word[k] {
			s.fail(invalid)
			return
		}
	}
	s.pos += len(word)
}

// number reads -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?.
func (s *scanner) number() {
	if s.peek() == '-' {
		s.pos++
	}
	if s.pos < len(s.src) && s.src[s.pos] == '0' {
		s.pos++
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
	if s.state != complete || s.pos == len(s.src) || (s.src[s.pos] != a && s.src[s.pos] != b) {
		return false
	}
	s.pos++
	return true
}

// digits reads one digit or more.
func (s *scanner) digits() {
	from := s.pos
	for s.pos < len(s.src) && s.src[s.pos] >= '0' && s.src[s.pos] <= '9' {
		s.pos++
	}
	switch {
	case s.pos > from:
	case s.pos == len(s.src):
		s.fail(incomplete)
	default:
		s.fail(invalid)
	}
}
