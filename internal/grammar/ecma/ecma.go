// Package ecma writes regular expressions of ECMA-262, the dialect of JSON Schema, in the
// syntax of Go's package regexp/syntax: escapes and classes that Go does not know or reads
// otherwise, and look-ahead, which is cut out and handed back beside the rest.
//
// \d and \w are ASCII, as there; \s is what ECMA-262 calls WhiteSpace and LineTerminator.
package ecma

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// An Error says what of an expression cannot be written.
type Error struct {
	Unsupported bool   // the expression is well-formed
	What        string // with the expression, and what to do
}

// Error says what.
func (e *Error) Error() string { return e.What }

// A Look is a look-ahead: Text, in ECMA-262, must match here, or must not.
type Look struct {
	Text     string
	Negative bool
}

// LookName begins the names of groups that stand, empty, where a look-ahead was; its
// index follows.
const LookName = "LOOKAHEAD"

// Space is what \s matches, as the inside of a class; NoSpace what it does not match.
const (
	Space   = `\t-\r \x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}`
	NoSpace = `\x{0}-\x{8}\x{e}-\x{1f}!-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{fefe}\x{ff00}-\x{10ffff}`
)

// lineEnds are what a dot does not match.
const lineEnds = `\n\r\x{2028}\x{2029}`

// A translator holds one translation.
type translator struct {
	text    string
	at      int // of the byte to read
	out     strings.Builder
	looks   []Look
	strict  bool // a dot leaves out all line ends of ECMA-262; otherwise only \n, as in Python
	inClass bool
}

// Translate returns text in Go's syntax, and its look-aheads in the order of their groups.
// A dot leaves out all of ECMA-262's line ends if strict is set, otherwise only \n, as in Go
// and Python. The error is of type *Error; text must be UTF-8.
func Translate(text string, strict bool) (string, []Look, error) {
	t := &translator{text: text, strict: strict && !dotAll(text)}
	for t.at < len(text) {
		if err := t.next(); err != nil {
			return "", nil, err
		}
	}
	return t.out.String(), t.looks, nil
}

// dotAll reports whether a flag of text may let the dot match everything.
func dotAll(text string) bool {
	for {
		_, flags, found := strings.Cut(text, "(?")
		if !found {
			return false
		}
		for i := 0; i < len(flags) && strings.IndexByte("imsU-", flags[i]) >= 0; i++ {
			if flags[i] == 's' {
				return true
			}
		}
		text = flags
	}
}

// next translates one character, escape or mark.
func (t *translator) next() *Error {
	rest := t.text[t.at:]
	switch {
	case rest[0] == '\\' && len(rest) > 1:
		return t.escape(rest)
	case t.inClass:
		// Go wants a [ in a class escaped, but for [:alpha:].
		t.inClass = rest[0] != ']'
		if rest[0] == '[' && !strings.HasPrefix(rest, "[:") {
			t.out.WriteByte('\\')
		}
		t.copy(1)
	case strings.HasPrefix(rest, "[^]"):
		t.put(`[\x{0}-\x{10ffff}]`, 3)
	case rest[0] == '[':
		t.inClass = true
		if strings.HasPrefix(rest, "[^") {
			t.copy(1)
		}
		t.copy(1)
	case strings.HasPrefix(rest, "(?=") || strings.HasPrefix(rest, "(?!"):
		return t.look(rest)
	case strings.HasPrefix(rest, "(?<=") || strings.HasPrefix(rest, "(?<!"):
		return t.refuse("look-behind", "say it with a look-ahead at the beginning, or write the expression without")
	case rest[0] == '.' && t.strict:
		t.put(`[^`+lineEnds+`]`, 1)
	default:
		t.copy(1)
	}
	return nil
}

// copy writes n bytes as they are.
func (t *translator) copy(n int) { t.put(t.text[t.at:t.at+n], n) }

// put writes text for the next n bytes.
func (t *translator) put(text string, n int) {
	t.out.WriteString(text)
	t.at += n
}

// refuse is the error for what takes more than a finite automaton, or is not known.
func (t *translator) refuse(what, way string) *Error {
	return &Error{true, fmt.Sprintf("regular expression %.60q uses %s, which takes more than linear time: %s", t.text, what, way)}
}

// categories are names of properties of \p{NAME=…} whose values Go takes alone.
var categories = []string{"Script=", "sc=", "General_Category=", "gc="}

// escape translates an escape, two bytes and what belongs to them; those that Go knows stay.
func (t *translator) escape(rest string) *Error {
	switch escaped := rest[1]; {
	case (escaped >= '1' && escaped <= '9' && !t.inClass) || strings.HasPrefix(rest, `\k<`):
		return t.refuse("a back-reference", "write it without")
	case escaped == 'u':
		char, length, ok := unicodeEscape(rest)
		if !ok {
			return &Error{false, fmt.Sprintf(`regular expression %.60q: \u at byte %d needs four hexadecimal digits`, t.text, t.at)}
		}
		t.put(fmt.Sprintf(`\x{%x}`, char), length)
	case escaped == 'c' && len(rest) > 2:
		t.put(fmt.Sprintf(`\x{%x}`, rest[2]&0x1f), 3)
	case escaped == 'Z':
		t.put(`\z`, 2)
	case escaped == 's' || escaped == 'S':
		class := Space
		if escaped == 'S' {
			class = NoSpace
		}
		if !t.inClass {
			class = "[" + class + "]"
		}
		t.put(class, 2)
	case escaped == 'b' && t.inClass:
		t.put(`\x{8}`, 2)
	case (escaped == 'p' || escaped == 'P') && strings.HasPrefix(rest[2:], "{"):
		t.copy(3)
		for _, category := range categories {
			if strings.HasPrefix(t.text[t.at:], category) {
				t.at += len(category)
			}
		}
	default:
		t.copy(2)
	}
	return nil
}

// look cuts a look-ahead out and leaves an empty group in its place.
func (t *translator) look(rest string) *Error {
	end := groupEnd(rest)
	if end < 0 {
		return &Error{false, fmt.Sprintf("regular expression %.60q: ) is missing behind a look-ahead", t.text)}
	}
	t.put(fmt.Sprintf("(?P<%s%d>)", LookName, len(t.looks)), end+1)
	t.looks = append(t.looks, Look{Text: rest[3:end], Negative: rest[2] == '!'})
	return nil
}

// groupEnd returns the place of the parenthesis that closes the group at the beginning of
// text, -1 if none does.
func groupEnd(text string) int {
	depth, inClass := 0, false
	for i := 0; i < len(text); i++ {
		switch letter := text[i]; {
		case letter == '\\':
			i++
		case inClass:
			inClass = letter != ']'
		case letter == '[':
			inClass = true
		case letter == '(':
			depth++
		case letter == ')':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// unicodeEscape reads \uXXXX, a pair of them, or \u{X}, and returns its length.
func unicodeEscape(text string) (char rune, length int, ok bool) {
	if strings.HasPrefix(text, `\u{`) {
		end := strings.IndexByte(text, '}')
		if end < 0 {
			return 0, 0, false
		}
		char, ok = Hex(text[3:end])
		return char, end + 1, ok && char <= unicode.MaxRune
	}
	if len(text) < 6 {
		return 0, 0, false
	}
	if char, ok = Hex(text[2:6]); !ok || !utf16.IsSurrogate(char) {
		return char, 6, ok
	}
	if len(text) < 12 || text[6:8] != `\u` {
		return 0, 0, false
	}
	// Beyond the basic plane a character is a pair of surrogates, each with an escape of its own.
	low, ok := Hex(text[8:12])
	char = utf16.DecodeRune(char, low)
	return char, 12, ok && char != utf8.RuneError
}

// Hex reads hexadecimal digits; a number above the last character is none.
func Hex(text string) (rune, bool) {
	var char rune
	for _, letter := range []byte(text) {
		digit := slices.Index([]byte("0123456789abcdef"), letter|0x20)
		if digit < 0 || letter < '0' || char > unicode.MaxRune {
			return 0, false
		}
		char = char<<4 | rune(digit)
	}
	return char, text != ""
}
