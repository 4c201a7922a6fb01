package past

import (
	"slices"
	"testing"
)

// written is the past of a text of which the first bytes are accepted.
func written(text string, accepted int) *Past {
	p := New()
	for i := range len(text) {
		if p.Try(i, text[i]); i < accepted {
			p.Accept(i + 1)
		}
	}
	return p
}

// Of lists with each kind of element: whether the last one was there, however much is accepted.
func TestTwice(t *testing.T) {
	for text, want := range map[string]bool{
		`["a", "b","a"`:            true,
		`["a\"","b\\", "b\\"`:      true,
		`["a,","a"`:                false,
		`[1, 12,1`:                 true,
		`[12,1`:                    false,
		`[{"a":[1]},{"a":[1]}`:     true,
		`[{"a":"]"},{"a":"]]"}`:    false,
		"[ [],\n  [[]], true,[[]]": true,
		`[`:                        false,
		`["a"`:                     false,
	} {
		for accepted := range text {
			if got := written(text, accepted).Twice(0); got != want {
				t.Errorf("%q, %d accepted: %v, want %v", text, accepted, got, want)
			}
		}
	}
}

// Fronts are what the last element may become, or the next one.
func TestFronts(t *testing.T) {
	for text, want := range map[string][]Front{
		`["ab","b","a`: {{[]string{`"ab"`}, 2}},
		`["ab","x`:     nil,
		`[12,1,1`:      {{[]string{`1`, `12`}, 1}},
		`["a", `:       {{[]string{`"a"`}, 0}},
		`["a"]`:        nil,
	} {
		got := written(text, len(text)).Fronts([]int{0})
		if !slices.EqualFunc(got, want, func(a, b Front) bool { return a.Have == b.Have && slices.Equal(a.Rest, b.Rest) }) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	p := written(`["a","b`, 5)
	if begun, ok := p.Begun(0); ok || begun != `"b` { // "a" was accepted
		t.Errorf("begun %q %v", begun, ok)
	}
	p = written(`["a","b`, 3)
	if begun, ok := p.Begun(0); !ok || begun != `"b` || !p.InString(0) {
		t.Errorf("begun %q %v", begun, ok)
	}
	if p.Back(); p.Accepted() != `["a` {
		t.Errorf("accepted %q", p.Accepted())
	}
}
