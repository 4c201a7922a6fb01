package chars

import "testing"

func TestChars(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]struct {
		open  int
		valid string
	}{
		"":                  {0, ""},
		"aé日😀":              {0, "aé日😀"},
		"a\xf0\x9f\x98":     {3, "a\uFFFD"},
		"a\xf0\x9f":         {2, "a\uFFFD"},
		"\xe6":              {1, "\uFFFD"},
		"\x80":              {0, "\uFFFD"},
		"\xf0\x9fb\xff\xc3": {1, "\uFFFDb\uFFFD\uFFFD"},
		"\xed\xa0\x80":      {0, "\uFFFD\uFFFD\uFFFD"},
	} {
		if open, valid := Unfinished([]byte(raw)), Valid([]byte(raw)); open != want.open || valid != want.valid {
			t.Errorf("%q: %d bytes are open, %q; want %d, %q", raw, open, valid, want.open, want.valid)
		}
	}
}

func TestBeginnings(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]int{"": {0, 0}, "ab1": {0, 2}, " \u00a0\tx": {4, 0}, "Zé": {0, 1}, "@[`{": {0, 0}, "\n": {1, 0}, "AZaz": {0, 4}} {
		if got := [2]int{Spaces(text), Letters(text)}; got != want {
			t.Errorf("%q begins with %d bytes of space and %d letters, expected %v", text, got[0], got[1], want)
		}
	}
}
