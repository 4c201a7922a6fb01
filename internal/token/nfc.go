package token

import (
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// nfc returns s in Unicode normalization form C. norm.NFC alone puts U+034F into
// runs of more than 30 marks (the stream-safe format), which would change the text.
func nfc(s string) string {
	if norm.NFC.QuickSpanString(s) == len(s) {
		return s
	}
	const joiner = "\u034F"
	out := norm.NFC.String(s)
	if strings.Count(out, joiner) == strings.Count(s, joiner) {
		return out
	}
	return string(compose(decompose(s)))
}

// decompose returns s in normalization form D: every character taken apart, every
// run of marks in the order of their combining classes.
func decompose(s string) []rune {
	var out []rune
	marks := 0 // start of the run of marks at the end of out
	sort := func() {
		slices.SortStableFunc(out[marks:], func(a, b rune) int { return int(combining(a)) - int(combining(b)) })
	}
	for _, r := range s {
		for _, d := range norm.NFD.String(string(r)) {
			if combining(d) == 0 {
				sort()
				marks = len(out) + 1
			}
			out = append(out, d)
		}
	}
	sort()
	return out
}

// compose joins each character of class 0 with the characters after it that no
// character in between blocks (Unicode standard, D117). It overwrites d.
func compose(d []rune) []rune {
	out := d[:0]
	base, last := -1, uint8(0) // index of the latest class 0, class of the latest rune
	for _, r := range d {
		c := combining(r)
		if base >= 0 && (base == len(out)-1 || last < c) {
			pair := norm.NFC.String(string([]rune{out[base], r}))
			if joined, size := utf8.DecodeRuneInString(pair); size == len(pair) {
				out[base] = joined
				continue
			}
		}
		if c == 0 {
			base = len(out)
		}
		last = c
		out = append(out, r)
	}
	return out
}

// combining returns the canonical combining class of r, 0 for what is no mark.
func combining(r rune) uint8 { return norm.NFD.PropertiesString(string(r)).CCC() }
