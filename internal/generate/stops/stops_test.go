package stops

import (
	"strings"
	"testing"
)

func TestFinder(t *testing.T) {
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
		s := New(c.stops)
		found, at := "", 0
		for i := 0; i < len(c.text) && found == ""; i++ {
			found, at = s.Push(c.text[i]), i+1
		}
		if found != c.found || (found != "" && at != c.at) || (found == "" && s.Held() != c.held) {
			t.Errorf("%q in %q: found %q at %d, held %d", c.stops, c.text, found, at, s.Held())
		}
	}
}

// FuzzFinder compares with a search from scratch after every byte.
func FuzzFinder(f *testing.F) {
	f.Add("aab", "ab", "aaabab")
	f.Add("abab", "b", "ababab")
	f.Fuzz(func(t *testing.T, a, b, text string) {
		if len(a) == 0 || len(b) == 0 || len(a)+len(b) > 512 || len(text) > 1000 {
			return
		}
		stops := []string{a, b}
		s := New(stops)
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
			if got := s.Push(text[i]); got != want || s.Held() != held {
				t.Fatalf("%q after %q: found %q, held %d; want %q, %d", stops, text[:i+1], got, s.Held(), want, held)
			}
		}
	})
}
