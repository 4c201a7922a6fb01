package token

import (
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// nfc returns text in Unicode normalization form C. norm.NFC alone puts U+034F into
// runs of more than 30 marks (the stream-safe format), which would change the text.
func nfc(text string) string {
	if norm.NFC.QuickSpanString(text) == len(text) {
		return text
	}
	const joiner = "\u034F"
	out := norm.NFC.String(text)
	if strings.Count(out, joiner) == strings.Count(text, joiner) {
		return out
	}
	return string(compose(decompose(text)))
}

// decompose returns text in normalization form D: every character taken apart, every
// run of marks in the order of their combining classes.
func decompose(text string) []rune {
	var out []rune
	marks := 0 // start of the run of marks at the end of out
	sort := func() {
		slices.SortStableFunc(out[marks:], func(a, b rune) int { return int(combining(a)) - int(combining(b)) })
	}
	for _, r := range text {
		for _, part := range norm.NFD.String(string(r)) {
			if combining(part) == 0 {
				sort()
				marks = len(out) + 1
			}
			out = append(out, part)
		}
	}
	sort()
	return out
}

// compose joins each character of class 0 with the characters after it that no
// character in between blocks (Unicode standard, D117). It overwrites chars.
func compose(chars []rune) []rune {
	out := chars[:0]
	base, last := -1, uint8(0) // index of the latest class 0, class of the latest rune
	for _, char := range chars {
		class := combining(char)
		if base >= 0 && (base == len(out)-1 || last < class) {
			pair := norm.NFC.String(string([]rune{out[base], char}))
			if joined, size := utf8.DecodeRuneInString(pair); size == len(pair) {
				out[base] = joined
				continue
			}
		}
		if class == 0 {
			base = len(out)
		}
		last = class
		out = append(out, char)
	}
	return out
}

// combining returns the canonical combining class of r, 0 for what is no mark.
func combining(r rune) uint8 { return norm.NFD.PropertiesString(string(r)).CCC() }
