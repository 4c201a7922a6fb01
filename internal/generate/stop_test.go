package generate

import (
	"slices"
	"strings"
	"testing"
)

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
