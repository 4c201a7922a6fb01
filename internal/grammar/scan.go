package grammar

// What the readers of GBNF (gbnf.go) and Lark (lark.go) share: characters, names, texts,
// alternatives, sequences and repetitions.

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"ossian/internal/grammar/ecma"
)

// grammarRules appends the rules of a grammar in GBNF or Lark, the root first.
func grammarRules(rules []rule, text string, gbnf bool) ([]rule, error) {
	if len(text) > maxText {
		return nil, invalid("", "grammar of %d bytes, at most %d are accepted", len(text), maxText)
	}
	if !utf8.ValidString(text) {
		return nil, invalid("", "the grammar is not UTF-8")
	}
	scanner := &scanner{text: text, names: map[string]int{}, rules: rules, first: len(rules)}
	if gbnf {
		scanner.gbnf()
	} else {
		scanner.lark()
	}
	for i, rule := range scanner.rules[scanner.first:] {
		if rule.body == nil {
			scanner.pos = scanner.used[i]
			scanner.fail("rule %s is not defined", rule.name)
		}
		scanner.rules[scanner.first+i].copied = true
	}
	if scanner.err != nil {
		return nil, scanner.err
	}
	return scanner.rules, nil
}

// A scanner reads grammar text. The first error stays, and nothing is left to read.
type scanner struct {
	text      string
	pos       int
	err       *Error
	depth     int
	rules     []rule // from first on the grammar's
	first     int
	names     map[string]int // of rules
	used      []int          // by rule of the grammar: where it was first named
	terminals *terminals     // nil: GBNF
}

// fail notes an error at this line unless there is one, and passes the rest of the text.
func (s *scanner) fail(format string, args ...any) {
	if s.err == nil {
		line := 1 + strings.Count(s.text[:min(s.pos, len(s.text))], "\n")
		s.err = invalid("line "+strconv.Itoa(line), format, args...)
	}
	s.pos = len(s.text)
}

// refuse is fail for what is well-formed.
func (s *scanner) refuse(format string, args ...any) {
	s.fail(format, args...)
	s.err.Unsupported = true
}

// skip passes space and comments.
func (s *scanner) skip() {
	for s.pos < len(s.text) {
		rest := s.text[s.pos:]
		switch {
		case strings.IndexByte(" \t\r\n", rest[0]) >= 0:
			s.next()
		case rest[0] == '#' || (s.terminals != nil && strings.HasPrefix(rest, "//")):
			end := strings.IndexByte(rest, '\n')
			if end < 0 {
				end = len(rest)
			}
			s.pos += end
		default:
			return
		}
	}
}

// next passes one byte; behind the end there is none.
func (s *scanner) next() { s.pos = min(s.pos+1, len(s.text)) }

// peek returns the next byte, 0 at the end.
func (s *scanner) peek() byte {
	if s.pos < len(s.text) {
		return s.text[s.pos]
	}
	return 0
}

// take passes token if it comes next.
func (s *scanner) take(token string) bool {
	if !strings.HasPrefix(s.text[s.pos:], token) {
		return false
	}
	s.pos += len(token)
	return true
}

// isName reports whether c may be part of a name.
func isName(c byte) bool {
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || c == '-'
}

// name passes a name, "" if none comes next.
func (s *scanner) name() string {
	from := s.pos
	for isName(s.peek()) && !(s.peek() == '-' && s.terminals != nil) {
		s.next()
	}
	return s.text[from:s.pos]
}

// rule returns the number of a rule, defined or not.
func (s *scanner) rule(name string) int {
	number, ok := s.names[name]
	if !ok {
		number = len(s.rules)
		s.names[name] = number
		s.rules = append(s.rules, rule{name: name})
		s.used = append(s.used, s.pos)
		if number-s.first >= maxRules {
			s.fail("more than %d rules", maxRules)
		}
	}
	return number
}

func (s *scanner) define(name string, body *expr) {
	number := s.rule(name)
	if s.rules[number].body != nil {
		s.fail("rule %s is defined twice", name)
		return
	}
	s.rules[number].body = body
}

// alternatives reads what is between bars, up to whatever part does not know.
func (s *scanner) alternatives(part func() *expr) *expr {
	if s.depth++; s.depth > maxNesting {
		s.fail("nested deeper than %d levels", maxNesting)
	}
	var all []*expr
	for {
		all = append(all, s.sequence(part))
		if s.skip(); !s.take("|") {
			break
		}
	}
	s.depth--
	return alt(all...)
}

// sequence reads elements, as part does, with what repeats them, until part returns nil.
func (s *scanner) sequence(part func() *expr) *expr {
	var out []*expr
	for {
		s.skip()
		element := part()
		if element == nil || s.err != nil {
			return cat(out...)
		}
		out = append(out, s.repetition(element))
	}
}

// group reads alternatives up to end.
func (s *scanner) group(end string, part func() *expr) *expr {
	inside := s.alternatives(part)
	if s.skip(); !s.take(end) {
		s.fail("%q expected, found %.10q", end, s.text[s.pos:])
	}
	return inside
}

// repetition reads what may follow an element: * + ? {m} {m,} {m,n}, in Lark ~m..n.
func (s *scanner) repetition(e *expr) *expr {
	// Several may follow each other: a{2}* repeats the repetition.
	for {
		lo, hi := 0, -1
		from := s.pos
		s.blanks()
		switch {
		case s.take("*"):
		case s.take("+"):
			lo = 1
		case s.take("?"):
			hi = 1
		case s.take("{"):
			lo, hi = s.bounds(",")
			if !s.take("}") {
				s.fail("{m}, {m,} or {m,n} expected")
			}
		case s.terminals != nil && s.tilde():
			lo, hi = s.bounds("..")
		default:
			s.pos = from
			return e
		}
		if hi >= 0 && lo > hi {
			s.fail("a repetition of %d to %d: the smaller number comes first", lo, hi)
			return never
		}
		if max(lo, hi) > maxRepeat {
			s.refuse("a repetition of more than %d times, the most of a grammar: use a smaller bound, or * or +", maxRepeat)
			return never
		}
		e = repeat(e, lo, hi)
	}
}

// blanks passes what may stand between an element and its repetition: space and comments,
// which in GBNF may go over the ends of lines inside a group. At the end of a line of Lark a
// sign may belong to the next rule.
func (s *scanner) blanks() {
	if s.terminals == nil && s.depth > 1 {
		s.skip()
		return
	}
	for s.take(" ") || s.take("\t") {
	}
}

// tilde passes Lark's sign for repetitions, which may have space behind it.
func (s *scanner) tilde() bool {
	if !s.take("~") {
		return false
	}
	s.blanks()
	return true
}

// bounds reads m, or m and n with a separator; without n there is no limit.
func (s *scanner) bounds(separator string) (lo, hi int) {
	lo, ok := s.integer()
	if !s.take(separator) {
		if !ok {
			s.fail("a number expected, found %.10q", s.text[s.pos:])
		}
		return lo, lo
	}
	if hi, ok = s.integer(); !ok {
		hi = -1
	}
	return lo, hi
}

// integer reads a number with the blanks around it.
func (s *scanner) integer() (n int, ok bool) {
	blanks := func() { s.pos = len(s.text) - len(strings.TrimLeft(s.text[s.pos:], " ")) }
	blanks()
	from := s.pos
	for digit := s.peek(); digit >= '0' && digit <= '9'; digit = s.peek() {
		n = min(10*n+int(digit-'0'), maxRepeat+1)
		s.next()
	}
	ok = s.pos > from
	blanks()
	return n, ok
}

// str reads a text in quotes.
func (s *scanner) str() string {
	s.next()
	var out strings.Builder
	for s.peek() != '"' {
		char, ok := s.char()
		if !ok {
			s.fail(`" expected before the end of the line`)
			return ""
		}
		out.WriteRune(char)
	}
	s.next()
	return out.String()
}

// char reads one character of a text or a class, escaped or not.
func (s *scanner) char() (rune, bool) {
	r, n := utf8.DecodeRuneInString(s.text[s.pos:])
	s.pos += n
	if n == 0 || r == '\n' {
		return 0, false
	}
	if r != '\\' {
		return r, true
	}
	escaped := s.peek()
	s.next()
	switch escaped {
	case 'n':
		return '\n', true
	case 'r':
		return '\r', true
	case 't':
		return '\t', true
	case 'f':
		return '\f', true
	case 'v':
		return '\v', true
	case 'b':
		return '\b', true
	case '0':
		return 0, true
	}
	// The letter's place in this text is the number of its digits.
	if digits := strings.IndexByte("..x.u...U", escaped); digits > 1 && escaped != '.' && s.pos+digits <= len(s.text) {
		r, ok := ecma.Hex(s.text[s.pos : s.pos+digits])
		s.pos += digits
		if !ok || !utf8.ValidRune(r) {
			s.fail(`\%c: %d hexadecimal digits of a character expected`, escaped, digits)
		}
		return r, true
	}
	if escaped == 0 || (escaped >= 'a' && escaped <= 'z') || (escaped >= 'A' && escaped <= 'Z') || escaped >= utf8.RuneSelf {
		s.fail(`\%c is no escape`, escaped)
		return 0, false
	}
	return rune(escaped), true
}
