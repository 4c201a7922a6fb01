package generate

import (
	"slices"
	"strings"
	"testing"
)

func TestStopper(t *testing.T) {
	for _, c := range []struct {
		stops       []string
		text, found string
		at, held    int // held: behind the whole text, where nothing is found
	}{
		{stops: []string{"abc"}, text: "xxabcx", found: "abc", at: 5},
		{stops: []string{"aab"}, text: "aaab", found: "aab", at: 4},
		{stops: []string{"bc", "abc"}, text: "abc", found: "abc", at: 3}, // of two that end together the longer
		{stops: []string{"abcd", "bc"}, text: "abcd", found: "bc", at: 3},
		{stops: []string{"abab"}, text: "abaabab", found: "abab", at: 7},
		{stops: []string{"abc", "c!"}, text: "xxab", held: 2},
		{stops: []string{"aaaa"}, text: "baaa", held: 3},
		{stops: []string{"é!"}, text: "caf\u00e9", held: 2},
		{text: "abc"},
	} {
		s := newStopper(c.stops)
		found, at := "", 0
		for i := 0; i < len(c.text) && found == ""; i++ {
			found, at = s.push(c.text[i]), i+1
		}
		if found != c.found || (found != "" && at != c.at) || (found == "" && s.held() != c.held) {
			t.Errorf("%q in %q: found %q at %d, held %d", c.stops, c.text, found, at, s.held())
		}
	}
}

// FuzzStopper compares with a search from scratch after every byte.
func FuzzStopper(f *testing.F) {
	f.Add("aab", "ab", "aaabab")
	f.Add("abab", "b", "ababab")
	f.Fuzz(func(t *testing.T, a, b, text string) {
		if len(a) == 0 || len(b) == 0 || len(a)+len(b) > 512 || len(text) > 1000 {
			return
		}
		stops := []string{a, b}
		s := newStopper(stops)
		for i := range len(text) {
			want, held := "", 0
			for _, stop := range stops {
				if strings.HasSuffix(text[:i+1], stop) && len(stop) > len(want) {
					want = stop
				}
				for n := 1; n < len(stop); n++ {
					if strings.HasSuffix(text[:i+1], stop[:n]) {
						held = max(held, n)
					}
				}
			}
			if got := s.push(text[i]); got != want || s.held() != held {
				t.Fatalf("%q after %q: found %q, held %d; want %q, %d", stops, text[:i+1], got, s.held(), want, held)
			}
		}
	})
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		name  string
		all   []piece
		bytes map[int]string // by how much text is kept
	}{
		{"characters of several tokens", []piece{{text: "ab", bytes: "ab"}, {bytes: "\xf0\x9f"}, {text: "🌍c", bytes: "\x8c\x8dc"}, {text: "d", bytes: "d"}},
			map[int]string{0: "", 1: "a", 2: "ab", 6: "ab🌍", 7: "ab🌍c", 8: "ab🌍cd"}},
		{"a token that begins the next character", []piece{{text: "a", bytes: "a\xf0\x9f\x8c"}, {text: "🌍", bytes: "\x8d"}}, map[int]string{0: "", 1: "a", 5: "a🌍"}},
		{"no characters", []piece{{bytes: "\xf0\x9f"}, {text: "\uFFFDa", bytes: "a"}, {text: "\uFFFD\uFFFD", bytes: "\xff\xfe"}, {text: "b", bytes: "b"}},
			map[int]string{0: "", 3: "\xf0\x9f", 4: "\xf0\x9fa", 7: "\xf0\x9fa\xff", 10: "\xf0\x9fa\xff\xfe", 11: "\xf0\x9fa\xff\xfeb"}},
		{"text with a later token", []piece{{bytes: "}\n"}, {text: "}\n\n", bytes: "\n"}}, map[int]string{0: "", 1: "}", 2: "}\n", 3: "}\n\n"}},
	} {
		for keep, want := range c.bytes {
			text, raw := "", ""
			for _, p := range cut(slices.Clone(c.all), keep) {
				text += p.text
				raw += p.bytes
			}
			if text != replaced(want) || raw != want {
				t.Errorf("%s, cut at %d: text %q, bytes %q, want %q", c.name, keep, text, raw, want)
			}
		}
	}
}

// replaced returns raw with U+FFFD for what is no UTF-8, as decoders of other languages
// give it.
func replaced(raw string) string {
	var out strings.Builder
	for raw != "" {
		n := spelling(raw, 1)
		out.WriteString(strings.ToValidUTF8(raw[:n], "\uFFFD"))
		raw = raw[n:]
	}
	return out.String()
}
