package ecma

import (
	"regexp"
	"slices"
	"testing"
)

func TestTranslate(t *testing.T) {
	for _, c := range []struct {
		text    string
		strict  bool
		yes, no []string
	}{
		{`^\s$`, true, []string{" ", "\v", "\u00a0", "\ufeff", "\u2029", "\u3000"}, []string{"a", "\u200b", "\u0085"}},
		{`^[\S]$`, true, []string{"a", "\u200b", "\u0085"}, []string{" ", "\v", "\ufeff"}},
		{`^[^\s\d]$`, true, []string{"a"}, []string{"\u2003", "1"}},
		{`^.$`, true, []string{"a", "\u0085"}, []string{"\n", "\r", "\u2028"}},
		{`^.$`, false, []string{"\r", "\u2028"}, []string{"\n"}},
		{`(?s)^.$`, true, []string{"\n", "\u2028"}, nil},
		{`^[^]$`, true, []string{"\n"}, []string{""}},
		{`^[[a]$`, true, []string{"[", "a"}, []string{"b"}},
		{`^\u00e9\u{1f600}\ud83d\ude00\cA$`, true, []string{"é😀😀\x01"}, nil},
		{`^\p{Script=Greek}\p{gc=Lu}$`, true, []string{"αA"}, []string{"aA", "αa"}},
		{`^[\b]$`, true, []string{"\b"}, []string{"b"}},
	} {
		text, looks, err := Translate(c.text, c.strict)
		if err != nil || len(looks) > 0 {
			t.Errorf("%s: %v, %v", c.text, looks, err)
			continue
		}
		re, err := regexp.Compile(text)
		if err != nil {
			t.Errorf("%s: %s: %v", c.text, text, err)
			continue
		}
		for _, yes := range c.yes {
			if !re.MatchString(yes) {
				t.Errorf("%s refuses %q", c.text, yes)
			}
		}
		for _, no := range c.no {
			if re.MatchString(no) {
				t.Errorf("%s accepts %q", c.text, no)
			}
		}
	}
}

func TestLooks(t *testing.T) {
	text, looks, err := Translate(`^(?=.*[)(]\))(?!a|(b))c`, true)
	want := []Look{{`.*[)(]\)`, false}, {`a|(b)`, true}}
	if err != nil || text != "^(?P<LOOKAHEAD0>)(?P<LOOKAHEAD1>)c" || !slices.Equal(looks, want) {
		t.Errorf("got %s, %v, %v", text, looks, err)
	}
	for _, bad := range []string{`(?=a`, `(?<=a)b`, `(?<!a)b`, `(a)\1`, `\k<x>`, `\u12`} {
		if _, _, err := Translate(bad, true); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
}
