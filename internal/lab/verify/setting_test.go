package verify

import "testing"

// TestOtherSetting compares names of settings: values and neighbours make another one.
func TestOtherSetting(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"`max-num-seqs=32`", "max-num-seqs=32", false},
		{"max-num-seqs=32", "max-num-seqs=64", true},
		{"`a=1 b=2`", "a=1", true},
		{"`a=1 b=2`", "b=2 a=1", false},
		{"a=1", "async scheduling", false},
		{"prefix caching", "Prefix cache", false},
	} {
		if got := otherSetting(tt.a, tt.b); got != tt.want {
			t.Errorf("%s and %s: %v", tt.a, tt.b, got)
		}
	}
}
