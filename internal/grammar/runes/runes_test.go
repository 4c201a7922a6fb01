package runes

import (
	"encoding/json"
	"slices"
	"testing"
	"unicode/utf8"
)

// TestUTF8 spells every character of a range once, and nothing else.
func TestUTF8(t *testing.T) {
	for _, bounds := range [][2]rune{{0, utf8.MaxRune}, {'a', 'z'}, {0x7e, 0x801}, {0xd7fe, 0xe001}, {0xfffe, 0x10001}} {
		count := 0
		UTF8(bounds[0], bounds[1], func(seq []Bytes) {
			size := 1
			var first, last []byte
			for _, part := range seq {
				size *= int(part[1]-part[0]) + 1
				first, last = append(first, part[0]), append(last, part[1])
			}
			count += size
			for _, text := range [][]byte{first, last} {
				if char, _ := utf8.DecodeRune(text); !utf8.FullRune(text) || char < bounds[0] || char > bounds[1] {
					t.Errorf("%#x: % x is %#x", bounds, text, char)
				}
			}
		})
		want := int(bounds[1]-bounds[0]) + 1
		if bounds[0] < 0xd800 && bounds[1] > 0xdfff {
			want -= 0x800
		}
		if count != want {
			t.Errorf("%#x: %d characters, want %d", bounds, count, want)
		}
	}
}

// TestClasses joins what touches, and leaves out what is there.
func TestClasses(t *testing.T) {
	got := Ordered([]rune{'x', 'z', 'a', 'c', 'd', 'f', 'b', 'b'})
	if !slices.Equal(got, []rune{'a', 'f', 'x', 'z'}) {
		t.Errorf("ordered: %q", got)
	}
	if got = Negate(got); !slices.Equal(got, []rune{0, 'a' - 1, 'g', 'w', 'z' + 1, utf8.MaxRune}) {
		t.Errorf("negated: %q", got)
	}
}

// TestEscape escapes what JSON does not allow as it is, and nothing else.
func TestEscape(t *testing.T) {
	for char := rune(0); char < 0x100; char++ {
		spelt := Escape(char)
		if needs := !json.Valid([]byte(`"` + string(char) + `"`)); needs != (spelt != "") {
			t.Errorf("%q: %q", char, spelt)
		}
		var read string
		if spelt != "" && (json.Unmarshal([]byte(`"`+spelt+`"`), &read) != nil || read != string(char)) {
			t.Errorf("%q: %q is read as %q", char, spelt, read)
		}
	}
}
