// Package words reads the words of harmony headers as models write them: channels that are
// misspelt, and recipients. Who uses it need not know which spellings are meant (harmony.md
// 9, S5 and S6).
package words

import (
	"slices"
	"strings"
	"unicode"

	"ossian/internal/chat/chars"
)

// The channels of harmony.
const (
	Analysis   = "analysis"
	Commentary = "commentary"
	Final      = "final"
)

// Recipient returns the length of to=NAME at the beginning of text, in bytes, 0 if there is
// none.
func Recipient(text string) int {
	name, ok := strings.CutPrefix(text, "to=")
	if !ok {
		return 0
	}
	end := strings.IndexFunc(name, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_.-$:/", r)
	})
	if end < 0 {
		end = len(name)
	}
	return len("to=") + end
}

// Channel returns the channel that text, what stands behind its marker, begins with, "" for
// none; size is how many bytes were read, white space in front of it at least.
func Channel(text string) (name string, size int, misspelt bool) {
	from := chars.Spaces(text)
	at := from
	// Dashes and the like before the name are passed over; then the name itself, more
	// letters behind it, at least three of its own, or a synonym of reasoning will do.
	for at < len(text) && chars.Letters(text[at:]) == 0 && !unicode.IsSpace(rune(text[at])) {
		at++
	}
	letters := chars.Letters(text[at:])
	low := strings.ToLower(text[at : at+letters])
	for _, name := range []string{Analysis, Commentary, Final} {
		switch {
		case low == name && at == from:
			return name, at + letters, false
		case strings.HasPrefix(low, name):
			return name, at + len(name), true
		case len(low) >= 3 && strings.HasPrefix(name, low):
			return name, at + letters, true
		}
	}
	if slices.Contains([]string{"thinking", "reasoning", "thought"}, low) {
		return Analysis, at + letters, true
	}
	return "", from, low != "" && !strings.HasPrefix(text[at:], "to=")
}
