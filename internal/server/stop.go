package server

// A stopper finds the first place in a text where one of some strings ends, the
// longest if several end there. It reads byte by byte, so that the answer does not
// depend on how the text arrives (Knuth, Morris and Pratt 1977).
type stopper []pattern

type pattern struct {
	text string
	fail []uint16 // [n]: length of the longest proper prefix of text[:n+1] that also ends it
	n    int      // bytes of text that the last bytes read are equal to
}

func newStopper(texts []string) stopper {
	var s stopper
	for _, text := range texts {
		fail := make([]uint16, len(text))
		for i, k := 1, 0; i < len(text); i++ {
			for k > 0 && text[i] != text[k] {
				k = int(fail[k-1])
			}
			if text[i] == text[k] {
				k++
			}
			fail[i] = uint16(k)
		}
		s = append(s, pattern{text: text, fail: fail})
	}
	return s
}

// push reads a byte and returns the longest string that ends with it, "" for none.
func (s stopper) push(b byte) (found string) {
	for i := range s {
		p := &s[i]
		if p.n == len(p.text) { // found before, and ignored
			p.n = int(p.fail[p.n-1])
		}
		for p.n > 0 && p.text[p.n] != b {
			p.n = int(p.fail[p.n-1])
		}
		if p.text[p.n] == b {
			p.n++
		}
		if p.n == len(p.text) && p.n > len(found) {
			found = p.text
		}
	}
	return found
}

// reset forgets what was read.
func (s stopper) reset() {
	for i := range s {
		s[i].n = 0
	}
}

// held returns how many of the last bytes may be the beginning of a string.
func (s stopper) held() (n int) {
	for i := range s {
		if p := &s[i]; p.n < len(p.text) {
			n = max(n, p.n)
		} else {
			n = max(n, int(p.fail[p.n-1]))
		}
	}
	return n
}
