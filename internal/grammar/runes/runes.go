// Package runes has the arithmetic of classes of characters, which are pairs first, last:
// what one leaves out, and the sequences of bytes that spell one in UTF-8 and in JSON. Who uses it need
// not know where lengths change, nor that surrogates have no UTF-8.
package runes

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"
)

// Ordered sorts and merges the pairs of a class.
func Ordered(pairs []rune) []rune {
	var all [][2]rune
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, [2]rune{pairs[i], pairs[i+1]})
	}
	slices.SortFunc(all, func(a, b [2]rune) int { return int(a[0] - b[0]) })
	var out []rune
	for _, pair := range all {
		if last := len(out); last > 0 && pair[0] <= out[last-1]+1 {
			out[last-1] = max(out[last-1], pair[1])
		} else {
			out = append(out, pair[0], pair[1])
		}
	}
	return out
}

// Negate returns what a class of characters leaves out; pairs first, last must be sorted and disjoint.
func Negate(pairs []rune) []rune {
	var out []rune
	next := rune(0)
	for at := 0; at < len(pairs); at += 2 {
		if pairs[at] > next {
			out = append(out, next, pairs[at]-1)
		}
		next = pairs[at+1] + 1
	}
	if next <= utf8.MaxRune {
		out = append(out, next, utf8.MaxRune)
	}
	return out
}

// Bytes are a range of bytes: the first and the last.
type Bytes [2]byte

// UTF8 calls emit with sequences of byte ranges that together spell the characters
// lo to hi, surrogates left out: they have no UTF-8. A range is cut until its first and
// last character differ in one byte and full ranges behind it.
func UTF8(lo, hi rune, emit func([]Bytes)) {
	// Around the surrogates, D800 to DFFF.
	if lo < 0xd800 && hi > 0xd7ff {
		UTF8(lo, 0xd7ff, emit)
		lo = 0xd800
	}
	if lo >= 0xd800 && lo <= 0xdfff {
		lo = 0xe000
	}
	if hi >= 0xd800 && hi <= 0xdfff {
		hi = 0xd7ff
	}
	if lo > hi {
		return
	}
	for _, last := range []rune{0x7f, 0x7ff, 0xffff} { // by length
		if lo <= last && hi > last {
			UTF8(lo, last, emit)
			UTF8(last+1, hi, emit)
			return
		}
	}
	length := utf8.RuneLen(lo)
	for i := 1; i < length; i++ { // until all continuation bytes below the first difference are full ranges
		low := rune(1)<<(6*i) - 1
		if lo&^low == hi&^low {
			continue
		}
		if lo&low != 0 {
			UTF8(lo, lo|low, emit)
			UTF8((lo|low)+1, hi, emit)
			return
		}
		if hi&low != low {
			UTF8(lo, hi&^low-1, emit)
			UTF8(hi&^low, hi, emit)
			return
		}
	}
	var first, last [utf8.UTFMax]byte
	utf8.EncodeRune(first[:], lo)
	utf8.EncodeRune(last[:], hi)
	seq := make([]Bytes, length)
	for i := range seq {
		seq[i] = Bytes{first[i], last[i]}
	}
	emit(seq)
}

// Parse reads pairs of hexadecimal numbers.
func Parse(text string) (pairs []rune) {
	for _, pair := range strings.Fields(text) {
		var lo, hi rune
		if n, err := fmt.Sscanf(pair, "%x-%x", &lo, &hi); n == 2 && err == nil && lo <= hi {
			pairs = append(pairs, lo, hi)
		}
	}
	return Ordered(pairs)
}

// Without is the class a without the characters of b.
func Without(a, b []rune) []rune { return Negate(Ordered(append(Negate(a), b...))) }

// Cuts is a set of bounds between ranges of bytes, one bit each.
type Cuts [4]uint64

// Add adds a bound in front of b; behind the last byte there is one anyway.
func (c *Cuts) Add(b int) {
	if b < 256 {
		c[b/64] |= 1 << (b % 64)
	}
}

// Next returns the first bound from b on, 256 behind the last one.
func (c *Cuts) Next(b int) int {
	for b < 256 {
		if word := c[b/64] >> (b % 64); word != 0 {
			return b + bits.TrailingZeros64(word)
		}
		b = (b/64 + 1) * 64
	}
	return 256
}

// Escape returns the escape that char needs in a JSON string, or "".
func Escape(char rune) string {
	switch char {
	case '"', '\\':
		return `\` + string(char)
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	case '\b':
		return `\b`
	case '\f':
		return `\f`
	}
	if char < 0x20 {
		return fmt.Sprintf(`\u%04x`, char)
	}
	return ""
}
