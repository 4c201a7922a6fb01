package source

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// passageRunes is how long a summary is, at most.
const passageRunes = 300

// passage returns the part of a text that holds the words of a query of the most weight, each
// counted once; of several the first. It begins with a sentence that holds one, and is whole
// sentences where these are not too long.
func passage(text string, query []word, weights []float64) string {
	all := sentences(text)
	found := make([]uint64, len(all)) // bits of words of the query
	for i, sentence := range all {
		eachWord(sentence, func(w word) {
			if at := slices.Index(query, w); at >= 0 {
				found[i] |= 1 << at
			}
		})
	}
	some := slices.ContainsFunc(found, func(bits uint64) bool { return bits != 0 })
	best, from, to := -1.0, 0, 0
	for i := range all {
		if found[i] == 0 && (i > 0 || some) {
			continue
		}
		var bits uint64
		for next, runes := i, 0; next < len(all); next++ {
			if runes += utf8.RuneCountInString(all[next]) + 1; next > i && runes > passageRunes {
				break
			}
			bits |= found[next]
			if score := weigh(bits, weights); score > best {
				best, from, to = score, i, next+1
			}
			if next == to && from == i && runes < passageRunes/2 { // a short one goes on a little
				to = next + 1
			}
		}
	}
	return clip(strings.Join(all[from:to], " "), passageRunes)
}

// weigh sums the weights of the words that are there.
func weigh(bits uint64, weights []float64) (sum float64) {
	for i, weight := range weights {
		if bits>>i&1 != 0 {
			sum += weight
		}
	}
	return sum
}

// sentences cuts a text behind line breaks and ends of sentences, and what is longer than a
// passage at spaces. White space is single spaces; none is empty.
func sentences(text string) (all []string) {
	add := func(part string) {
		for part = strings.Join(strings.Fields(part), " "); part != ""; {
			head, rest := cut(part, passageRunes)
			all = append(all, head)
			part = rest
		}
	}
	from, before := 0, ' '
	for at, char := range text {
		// White space has to follow Latin punctuation, so that 3.5 is not cut. Chinese and Japanese
		// put none.
		switch {
		case char == '\n', unicode.IsSpace(char) && strings.ContainsRune(".!?", before):
			add(text[from:at])
			from = at
		case strings.ContainsRune("。！？", before):
			add(text[from:at])
			from = at
		}
		before = char
	}
	add(text[from:])
	return all
}

// cut returns a text's first runes, up to a space where there is one, and what follows.
func cut(text string, runes int) (head, rest string) {
	end := 0
	for range runes {
		if end == len(text) {
			return text, ""
		}
		end += width(text[end:])
	}
	if end == len(text) {
		return text, ""
	}
	if space := strings.LastIndexByte(text[:end+1], ' '); space > 0 {
		return text[:space], text[space+1:]
	}
	return text[:end], text[end:]
}

// clip returns a text in at most so many runes, with a mark where something is missing.
func clip(text string, runes int) string {
	head, rest := cut(text, runes)
	if rest == "" {
		return head
	}
	head, _ = cut(text, runes-1)
	return head + "…"
}

// line returns a text as one line.
func line(text string) string { return strings.Join(strings.Fields(text), " ") }
