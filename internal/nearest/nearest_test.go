package nearest

import (
	"strings"
	"testing"
)

func TestEdits(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"port", "port", 0}, {"", "port", 4}, {"port", "", 4}, {"port", "prot", 1}, {"port", "pot", 1}, {"port", "ports", 1},
		{"port", "part", 1}, {"host", "port", 2}, {"ca", "abc", 3}, {"max-queue", "max-num-seqs", 6},
		{strings.Repeat("a", 300), strings.Repeat("a", 299) + "b", 1},
	} {
		for most := range 10 {
			if got := Edits(c.a, c.b, most); got != min(c.want, most) {
				t.Errorf("Edits(%.20q, %.20q, %d) = %d, want %d", c.a, c.b, most, got, min(c.want, most))
			}
			if got := Edits(c.b, c.a, most); got != min(c.want, most) {
				t.Errorf("Edits(%.20q, %.20q, %d) = %d, want %d", c.b, c.a, most, got, min(c.want, most))
			}
		}
	}
}

func TestOf(t *testing.T) {
	names := []string{"org/model", "org/other", "ORG/Third", "x"}
	for _, c := range []struct {
		name      string
		most      int
		of, folds string
	}{
		{"org/modle", 4, "org/model", "org/model"},
		{"ORG/Model", 4, "org/model", "org/model"},
		{"org/third", 2, "", "ORG/Third"},
		{"zzzzzzzzz", 4, "", ""},
		{"y", 1, "x", "x"},
		{"", 0, "", ""},
	} {
		if got := Of(c.name, names, c.most); got != c.of {
			t.Errorf("Of(%q, %d) = %q, want %q", c.name, c.most, got, c.of)
		}
		if got := Fold(c.name, names, c.most); got != c.folds {
			t.Errorf("Fold(%q, %d) = %q, want %q", c.name, c.most, got, c.folds)
		}
	}
	if got := Of("ab", []string{"ax", "ay"}, 2); got != "ax" {
		t.Errorf("of two equally near names %q, want the first", got)
	}
}

func TestHint(t *testing.T) {
	known := []string{"--port", "--host", "--max-queue"}
	for name, want := range map[string]string{"--prot": "; did you mean --port?", "--maxqueu": "; did you mean --max-queue?", "--nothing-of-it": ""} {
		if got := Hint(name, known); got != want {
			t.Errorf("Hint(%q) = %q, want %q", name, got, want)
		}
	}
}

func FuzzEdits(f *testing.F) {
	f.Add("port", "prot", 3)
	f.Fuzz(func(t *testing.T, a, b string, most int) {
		if len(a) > 200 || len(b) > 200 || most < 0 {
			return
		}
		got := Edits(a, b, most)
		if got != Edits(b, a, most) || got > most || ((a == b) != (got == 0) && most > 0) {
			t.Errorf("Edits(%q, %q, %d) = %d", a, b, most, got)
		}
	})
}
