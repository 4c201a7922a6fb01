// Package stops finds stop strings in text that comes byte by byte.
package stops

// A Finder finds the first place in a text where one of some strings ends, the
// longest if several end there. It reads byte by byte, so that the answer does not
// depend on how the text arrives (Knuth, Morris and Pratt 1977).
type Finder []pattern

// A pattern is one of the strings, none of which is empty.
type pattern struct {
	text string
	fail []uint16 // [n]: length of the longest proper prefix of text[:n+1] that also ends it
	n    int      // bytes of text that the last bytes read are equal to: the state
}

// New returns what finds texts, of which none may be empty and none longer than 65,535 bytes.
func New(texts []string) Finder {
	var all Finder
	for _, text := range texts {
		// The failure function of Knuth, Morris and Pratt: how much of the text's beginning ends at
		// i.
		fail := make([]uint16, len(text))
		for i, matched := 1, 0; i < len(text); i++ {
			for matched > 0 && text[i] != text[matched] {
				matched = int(fail[matched-1])
			}
			if text[i] == text[matched] {
				matched++
			}
			fail[i] = uint16(matched)
		}
		all = append(all, pattern{text: text, fail: fail})
	}
	return all
}

// Push reads a byte and returns the longest string that ends with it, "" for none.
func (s Finder) Push(next byte) (found string) {
	for i := range s {
		one := &s[i]
		if one.n == len(one.text) { // found before, and ignored
			one.n = int(one.fail[one.n-1])
		}
		for one.n > 0 && one.text[one.n] != next {
			one.n = int(one.fail[one.n-1])
		}
		if one.text[one.n] == next {
			one.n++
		}
		if one.n == len(one.text) && one.n > len(found) {
			found = one.text
		}
	}
	return found
}

// Reset forgets what was read.
func (s Finder) Reset() {
	for i := range s {
		s[i].n = 0
	}
}

// Held returns how many of the last bytes may be the beginning of a string.
func (s Finder) Held() (most int) {
	for i := range s {
		if one := &s[i]; one.n < len(one.text) {
			most = max(most, one.n)
		} else {
			most = max(most, int(one.fail[one.n-1]))
		}
	}
	return most
}
