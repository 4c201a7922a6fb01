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
type classTable struct {
	page  [(unicode.MaxRune + 1) >> pageBits]uint16
	class [][1 << pageBits]uint8
}

// classes is computed once from the unicode tables, in about a millisecond.
var classes = sync.OnceValue(func() *classTable {
	all := make([]uint8, unicode.MaxRune+1)
	mark := func(bits uint8, tables ...*unicode.RangeTable) {
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
	mark(letter, unicode.L)
	mark(number, unicode.N)
	mark(space, unicode.White_Space)
	mark(upper, unicode.Lu, unicode.Lt, unicode.Lm, unicode.Lo, unicode.M)
	mark(lower, unicode.Ll, unicode.Lm, unicode.Lo, unicode.M)
	all['\n'] |= newline
	all['\r'] |= newline

	t := new(classTable)
	known := map[[1 << pageBits]uint8]uint16{}
	for i := range t.page {
		p := [1 << pageBits]uint8(all[i<<pageBits:])
		n, ok := known[p]
		if !ok {
			n = uint16(len(t.class))
			known[p] = n
			t.class = append(t.class, p)
		}
		t.page[i] = n
	}
	return t
})

// at returns the classes and the length in bytes of the character at s[i:]. At the
// end of s both are 0.
func (t *classTable) at(s string, i int) (bits uint8, size int) {
	if i >= len(s) {
		return 0, 0
	}
	if c := s[i]; c < utf8.RuneSelf {
		return t.class[0][c], 1
	}
	r, size := utf8.DecodeRuneInString(s[i:])
	return t.class[t.page[r>>pageBits]][r&(1<<pageBits-1)], size
}

// run returns the end of the characters from i on that are in one of want.
func (t *classTable) run(s string, i int, want uint8) int {
	for {
		bits, size := t.at(s, i)
		if bits&want == 0 {
			return i
		}
		i += size
	}
}
