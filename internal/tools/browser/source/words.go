package source

import (
	"hash/maphash"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// A word is known by its hash: an index holds many and never shows one. 64 bits of a hash that is
// seeded anew with each process: who writes pages cannot make words that collide.
type word uint64

var seed = maphash.MakeSeed()

// eachWord calls take with the words of a text: runs of letters, marks and digits, case-folded.
// Scripts that put no spaces between words give each pair of neighbouring characters, or a single
// one: what is searched for in them is found wherever it stands.
func eachWord(text string, take func(word)) {
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRuneInString(text[at:])
		if !inWord(r) {
			at += size
			continue
		}
		end, dense := at+size, spaceless(r)
		for end < len(text) {
			r, size := utf8.DecodeRuneInString(text[end:])
			// A run ends where words and spaceless scripts meet; marks belong to what is before
			// them.
			if !inWord(r) || (spaceless(r) != dense && !unicode.IsMark(r)) {
				break
			}
			end += size
		}
		if dense {
			pairs(normal(text[at:end]), take)
		} else {
			take(hash(normal(text[at:end])))
		}
		at = end
	}
}

func hash(text string) word { return word(maphash.String(seed, text)) }

// normal returns a word as it is compared: words that differ in case alone are equal, and those
// that differ in the width of letters or in how they are composed (NFKC).
func normal(text string) string {
	for i := range len(text) {
		if text[i] >= utf8.RuneSelf {
			return cases.Fold().String(norm.NFKC.String(text))
		}
	}
	return strings.ToLower(text)
}

// pairs calls take with each two neighbouring characters.
func pairs(text string, take func(word)) {
	before, last := -1, 0
	for at := range text {
		if before >= 0 {
			take(hash(text[before : at+width(text[at:])]))
		}
		before, last = at, at
	}
	if last == 0 && text != "" {
		take(hash(text))
	}
}

func width(text string) int {
	_, size := utf8.DecodeRuneInString(text)
	return size
}

func inWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r) }

// spaceless reports whether a letter belongs to a script without spaces between words.
func spaceless(r rune) bool {
	return r >= 0x0e00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// maxTerms bounds a query: what is longer is no search.
const maxTerms = 64

// terms returns the distinct words of a query, in the order in which they first appear.
func terms(query string) (all []word) {
	eachWord(query, func(w word) {
		if len(all) < maxTerms && !slices.Contains(all, w) {
			all = append(all, w)
		}
	})
	return all
}
