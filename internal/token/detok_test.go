package token

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// byteBPE has one token per byte, with the byte as its id.
func byteBPE(t testing.TB) *BPE {
	t.Helper()
	s := &source{scan: scanGPT2, bos: -1, eos: -1}
	for b := range 256 {
		s.tokens, s.class = append(s.tokens, string([]byte{byte(b)})), append(s.class, plain)
	}
	bpe, err := s.build()
	if err != nil {
		t.Fatal(err)
	}
	return bpe
}

func TestDetok(t *testing.T) {
	t.Parallel()
	bpe := byteBPE(t)
	for _, c := range []struct {
		name, bytes string
		want        []string // of each Push, then of Flush
	}{
		{"ascii", "ab", []string{"a", "b", ""}},
		{"three bytes", "日", []string{"", "", "日", ""}},
		{"four bytes", "😀", []string{"", "", "", "😀", ""}},
		{"unfinished at the end", "\xf0\x9f\x98", []string{"", "", "", "\ufffd"}},
		{"unfinished, then ascii", "\xf0\x9fa", []string{"", "", "\ufffda", ""}},
		{"unfinished, then another", "\xe6\x97é", []string{"", "", "\ufffd", "é", ""}},
		{"stray continuation", "\x80a", []string{"\ufffd", "a", ""}},
		{"never valid", "\xff\xc0", []string{"\ufffd", "\ufffd", ""}},
		{"second byte too low", "\xe0\x80", []string{"", "\ufffd\ufffd", ""}},
		{"surrogate", "\xed\xa0", []string{"", "\ufffd\ufffd", ""}},
		{"above the last character", "\xf4\x90", []string{"", "\ufffd\ufffd", ""}},
		{"real U+FFFD", "\ufffd", []string{"", "", "\ufffd", ""}},
	} {
		d := bpe.Detok()
		var got []string
		for _, b := range []byte(c.bytes) {
			got = append(got, d.Push(int32(b)))
		}
		got = append(got, d.Flush())
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
		if again := d.Flush(); again != "" {
			t.Errorf("%s: second Flush gave %q", c.name, again)
		}
	}
}

func TestDetokOutsideVocabulary(t *testing.T) {
	t.Parallel()
	d := mustHarmony(t).Detok()
	if got := d.Push(-1) + d.Push(200_500) + d.Push(200_007) + d.Flush(); got != "<|end|>" {
		t.Errorf("got %q, want <|end|>", got)
	}
}

// FuzzDetok checks that how bytes are cut into tokens does not show: single bytes
// give the text that one piece gives, always valid, never early.
func FuzzDetok(f *testing.F) {
	for _, s := range []string{"aé日😀", "\xf0\x9f\x98\xff\xe6\x97", "\xed\xa0\x80\xf4\x90\x80\x80", "\xc2\xc2\xa0"} {
		f.Add([]byte(s))
	}
	bpe := byteBPE(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		d := bpe.Detok()
		var got strings.Builder
		for i, b := range data {
			part := d.Push(int32(b))
			got.WriteString(part)
			if !utf8.ValidString(part) {
				t.Fatalf("byte %d gave %q", i, part)
			}
			if held := len(d.pending); held > 3 || (held > 0 && utf8.FullRune(d.pending)) {
				t.Fatalf("byte %d: %q held back", i, d.pending)
			}
		}
		got.WriteString(d.Flush())
		if want := toValid(string(data)); got.String() != want {
			t.Fatalf("%q: got %q, want %q", data, got.String(), want)
		}
		if want := strings.ToValidUTF8(string(data), ""); strings.ReplaceAll(toValid(string(data)), "\ufffd", "") != strings.ReplaceAll(want, "\ufffd", "") {
			t.Fatalf("%q: valid characters lost in %q", data, got.String())
		}
	})
}
