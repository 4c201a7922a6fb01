package token

import (
	"fmt"
	"unicode/utf8"
)

// The byte alphabet of byte-level BPE files writes each byte as one printable
// character: 33-126, 161-172 and 174-255 as themselves, the other 68 in ascending
// order as U+0100 and following (formats.md §7).
const alphabetSize = 0x100 + 68

// alphabet maps characters to bytes; the entries 0-32, 127-160 and 173, which are
// not in the alphabet, hold -1.
var alphabet = func() (bytes [alphabetSize]int16) {
	next := 0x100
	for b := range 0x100 {
		if b < 33 || (b > 126 && b < 161) || b == 173 {
			bytes[b] = -1
			bytes[next] = int16(b)
			next++
			continue
		}
		bytes[b] = int16(b)
	}
	return bytes
}()

// fromAlphabet returns the bytes that a vocabulary entry stands for. ok is false
// if a character is outside the alphabet; such an entry stands for itself.
func fromAlphabet(text string) (bytes string, ok bool) {
	out := make([]byte, 0, len(text))
	for _, char := range text {
		if char >= alphabetSize || char == utf8.RuneError || alphabet[char] < 0 {
			return text, false
		}
		out = append(out, byte(alphabet[char]))
	}
	return string(out), true
}

// set stores a token as a file spells it. Plain tokens are spelled in the byte
// alphabet; one that is not can be decoded but never encoded.
func (s *source) set(id int32, text string, kind class) {
	if kind == plain {
		var ok bool
		if text, ok = fromAlphabet(text); !ok {
			kind = decodeOnly
		}
	}
	s.tokens[id], s.class[id] = text, kind
}

// join stores the next merge as a file spells it. It leaves out a merge into an
// added token: that would let text produce the token.
func (s *source) join(ids map[string]int32, pair jsonMerge) error {
	left, ok := ids[pair.left]
	right, ok2 := ids[pair.right]
	id, ok3 := ids[pair.left+pair.right]
	if !ok || !ok2 || !ok3 {
		return fmt.Errorf("%q and %q: these two and what they make must be in the vocabulary", pair.left, pair.right)
	}
	if s.class[id] == plain {
		s.merges = append(s.merges, sourceMerge{left, right, id})
	}
	return nil
}
