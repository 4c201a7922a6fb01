package main

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestWrap(t *testing.T) {
	word := "seventeen-letters"
	long := strings.TrimSpace(strings.Repeat(word+" ", 12))
	for name, text := range map[string]string{
		"paragraph": long, "item": "* " + long, "numbered": "1. " + long, "nested": "  - " + long,
		"a number that would begin a list": strings.Repeat("x", 98) + " 29. And so on",
	} {
		got := wrap(text)
		for _, line := range strings.Split(got, "\n") {
			if n := utf8.RuneCountInString(line); n > columns && name != "a number that would begin a list" {
				t.Errorf("%s: %d columns: %q", name, n, line)
			}
		}
		if strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(text), " ") {
			t.Errorf("%s: the words changed: %q", name, got)
		}
		if wrap(got) != got {
			t.Errorf("%s: wrapped again it is another: %q", name, wrap(got))
		}
		if strings.Contains(got, "\n29. ") {
			t.Errorf("%s: a list begins: %q", name, got)
		}
	}
	for _, text := range []string{"| " + long + " |", "# " + long, "```\n" + long + "\n```", "    " + long, "![picture](" + long + ")", "short\n\nshort\n"} {
		if got := wrap(text); got != text {
			t.Errorf("changed: %q", got)
		}
	}
}
