package token

import (
	"testing"
	"unicode"
)

var scanners = map[string]scanner{
	"o200k": scanO200k, "qwen2": scanQwen2, "llama3": scanLlama3, "gpt2": scanGPT2, "smollm": scanSmolLM,
}

// The pieces are those of the regular expressions in the reference's engine.
func TestScanReference(t *testing.T) {
	t.Parallel()
	list, c := rows(t), charClasses()
	for name, scan := range scanners {
		for _, r := range list {
			i := 0
			for n, size := range r.Pieces[name] {
				end := scan(c, r.Text, i)
				if end != i+size {
					t.Errorf("%s %q: piece %d is %q, want %q", name, r.Text, n, r.Text[i:end], r.Text[i:i+size])
					break
				}
				i = end
			}
		}
	}
}

func TestClasses(t *testing.T) {
	t.Parallel()
	c := charClasses()
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if 0xD800 <= r && r <= 0xDFFF {
			continue // not in strings
		}
		bits, size := c.at(string(r), 0)
		for _, want := range []struct {
			bit uint8
			is  bool
		}{
			{letter, unicode.IsLetter(r)},
			{number, unicode.IsNumber(r)},
			{space, unicode.IsSpace(r)},
			{newline, r == '\r' || r == '\n'},
			{upper, unicode.In(r, unicode.Lu, unicode.Lt, unicode.Lm, unicode.Lo, unicode.M)},
			{lower, unicode.In(r, unicode.Ll, unicode.Lm, unicode.Lo, unicode.M)},
		} {
			if bits&want.bit != 0 != want.is || size != len(string(r)) {
				t.Fatalf("%U: classes %06b, size %d; want bit %06b %v", r, bits, size, want.bit, want.is)
			}
		}
	}
}

// FuzzScan checks what holds for any splitting: pieces are not empty and do not cut
// characters.
func FuzzScan(f *testing.F) {
	for _, s := range []string{"a b  c\r\n\r\n x", "I'LL'ſ 12345", "\u0301\u0301a/\n/", "ǅᾼʰ 'rE", " 1  2   3"} {
		f.Add(s)
	}
	c := charClasses()
	f.Fuzz(func(t *testing.T, s string) {
		s = toValid(s)
		border := map[int]bool{len(s): true}
		for i := range s {
			border[i] = true
		}
		for name, scan := range scanners {
			for i := 0; i < len(s); {
				end := scan(c, s, i)
				if end <= i || !border[end] {
					t.Fatalf("%s %q: piece from %d ends at %d", name, s, i, end)
				}
				i = end
			}
		}
	})
}
