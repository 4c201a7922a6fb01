package lazyregexp

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestMethods: each method is that of the expression in regexp, also where several goroutines
// are the first to ask.
func TestMethods(t *testing.T) {
	const source, text = `(?P<name>[a-z]+)=(?P<value>\d*)`, "a=1, bc=23; d="
	lazy, want := New(source), regexp.MustCompile(source)
	if lazy.compiled != nil {
		t.Fatal("New compiles")
	}
	var asked sync.WaitGroup
	for range 4 {
		asked.Go(func() {
			if lazy.Match([]byte(text)) != want.Match([]byte(text)) || lazy.MatchString("=") || lazy.FindString(text) != "a=1" ||
				lazy.SubexpIndex("value") != 2 || lazy.ReplaceAllString(text, "$2") != want.ReplaceAllString(text, "$2") ||
				lazy.ReplaceAllStringFunc(text, strings.ToUpper) != "A=1, BC=23; D=" {
				t.Error("answers differ")
			}
			for name, same := range map[string]bool{
				"FindStringIndex":            slices.Equal(lazy.FindStringIndex(text), want.FindStringIndex(text)),
				"FindStringSubmatch":         slices.Equal(lazy.FindStringSubmatch(text), want.FindStringSubmatch(text)),
				"FindStringSubmatchIndex":    slices.Equal(lazy.FindStringSubmatchIndex(text), want.FindStringSubmatchIndex(text)),
				"FindSubmatch":               string(lazy.FindSubmatch([]byte(text))[1]) == "a",
				"FindAllString":              slices.Equal(lazy.FindAllString(text, 2), want.FindAllString(text, 2)),
				"FindAllStringIndex":         slices.EqualFunc(lazy.FindAllStringIndex(text, -1), want.FindAllStringIndex(text, -1), slices.Equal),
				"FindAllStringSubmatch":      slices.EqualFunc(lazy.FindAllStringSubmatch(text, -1), want.FindAllStringSubmatch(text, -1), slices.Equal),
				"FindAllStringSubmatchIndex": slices.EqualFunc(lazy.FindAllStringSubmatchIndex(text, -1), want.FindAllStringSubmatchIndex(text, -1), slices.Equal),
				"Split":                      slices.Equal(lazy.Split(text, -1), want.Split(text, -1)),
				"SubexpNames":                slices.Equal(lazy.SubexpNames(), want.SubexpNames()),
			} {
				if !same {
					t.Errorf("%s: another answer than that of regexp", name)
				}
			}
		})
	}
	asked.Wait()
}

// TestCheck: an expression that is none is found without being used.
func TestCheck(t *testing.T) {
	before := made
	defer func() { made = before }()
	made = nil
	if Check() == nil {
		t.Error("no error without expressions")
	}
	New(`[a-z]+`)
	if err := Check(); err != nil {
		t.Error(err)
	}
	New(`(one`)
	New(`[two`)
	if err := Check(); err == nil || !strings.Contains(err.Error(), "(one") || !strings.Contains(err.Error(), "[two") {
		t.Errorf("%v, want the two that are none", err)
	}
}
