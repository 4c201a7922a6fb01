package token

import (
	"sync"
	"unicode"
	"unicode/utf8"
)

// Character classes of the splitting patterns, formats.md §8. A character is in
// several: marks, modifier letters and letters without case are upper and lower.
const (
	letter  = 1 << iota // \p{L}
	number              // \p{N}
	space               // \s, the White_Space property
	newline             // CR, LF
	upper               // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
	lower               // [\p{Ll}\p{Lm}\p{Lo}\p{M}]
)

const pageBits = 7 // runes per page of the class table: the first page is ASCII

// classTable maps runes to classes. Most of its pages are shared.
type charTable struct {
	page  [(unicode.MaxRune + 1) >> pageBits]uint16 // index into class
	class [][1 << pageBits]uint8                    // [page][rune within it] bits
}

// classes is computed once from the unicode tables, in about a millisecond.
var charClasses = sync.OnceValue(func() *charTable {
	all := make([]uint8, unicode.MaxRune+1)
	add := func(bits uint8, tables ...*unicode.RangeTable) {
		for _, t := range tables {
			for _, r := range t.R16 {
				for c := uint32(r.Lo); c <= uint32(r.Hi); c += uint32(r.Stride) {
					all[c] |= bits
				}
			}
			for _, r := range t.R32 {
				for c := r.Lo; c <= r.Hi; c += r.Stride {
					all[c] |= bits
				}
			}
		}
	}
	add(letter, unicode.L)
	add(number, unicode.N)
	add(space, unicode.White_Space)
	add(upper, unicode.Lu, unicode.Lt, unicode.Lm, unicode.Lo, unicode.M)
	add(lower, unicode.Ll, unicode.Lm, unicode.Lo, unicode.M)
	all['\n'] |= newline
	all['\r'] |= newline

	// Equal pages are kept once: most of Unicode is unassigned or of one kind.
	table := new(charTable)
	known := map[[1 << pageBits]uint8]uint16{}
	for i := range table.page {
		page := [1 << pageBits]uint8(all[i<<pageBits:])
		index, ok := known[page]
		if !ok {
			index = uint16(len(table.class))
			known[page] = index
			table.class = append(table.class, page)
		}
		table.page[i] = index
	}
	return table
})

// at returns the classes and the length in bytes of the character at text[at:]. At the
// end of text both are 0.
func (t *charTable) at(text string, at int) (bits uint8, size int) {
	if at >= len(text) {
		return 0, 0
	}
	if char := text[at]; char < utf8.RuneSelf {
		return t.class[0][char], 1
	}
	char, size := utf8.DecodeRuneInString(text[at:])
	return t.class[t.page[char>>pageBits]][char&(1<<pageBits-1)], size
}

// run returns the end of the characters from at on that are in one of want.
func (t *charTable) run(text string, at int, want uint8) int {
	for {
		bits, size := t.at(text, at)
		if bits&want == 0 {
			return at
		}
		at += size
	}
}
