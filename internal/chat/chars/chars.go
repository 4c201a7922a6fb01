// Package chars tells whole characters from parts of some, since tokens end where they like,
// and how far a text begins with those of a kind. Callers need not know how UTF-8 is made.
package chars

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Unfinished returns how many bytes at the end of raw begin a character that more
// bytes may complete.
func Unfinished(raw []byte) int {
	for size := 1; size <= min(len(raw), utf8.UTFMax-1); size++ {
		if tail := raw[len(raw)-size:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return size
		}
	}
	return 0
}

// Valid returns raw with one U+FFFD for every longest sequence of bytes that
// cannot become a character, as token.Detok does.
func Valid(raw []byte) string {
	if utf8.Valid(raw) {
		return string(raw)
	}
	var out strings.Builder
	for len(raw) > 0 {
		r, size := utf8.DecodeRune(raw)
		if r == utf8.RuneError && size == 1 && !utf8.FullRune(raw[:1]) {
			for size < len(raw) && !utf8.FullRune(raw[:size+1]) {
				size++
			}
		}
		out.WriteRune(r)
		raw = raw[size:]
	}
	return out.String()
}

// Spaces returns the length of the white space that text begins with, in bytes.
func Spaces(text string) int { return len(text) - len(strings.TrimLeftFunc(text, unicode.IsSpace)) }

// Letters returns the length of the ASCII letters that text begins with.
func Letters(text string) int {
	for i := range len(text) {
		if char := text[i] | 0x20; char < 'a' || char > 'z' {
			return i
		}
	}
	return len(text)
}
