package jinja

import (
	"fmt"
	"strings"
	"testing"
)

const snippetVars = `{
	"s": "Hello, wörld", "n": 7, "f": 2.5, "none": null, "l": [3, 1, 2], "e": [], "t": true,
	"d": {"b": 1, "a": [1, {"x": null}], "items": "hidden"},
	"u": [{"name": "Bob", "age": 30, "tag": {"k": "x"}}, {"name": "alice", "age": 25, "tag": {"k": "y"}}, {"name": "Carl", "age": 30}]
}`

// different says for which snippets this package answers otherwise than the
// reference on purpose.
var different = map[string]string{
	"{{ none[1:] }}": "the reference folds this constant to undefined; at run time it fails, as here",
	"{{ 5[1:] }}":    "as above",
	"{{ range(3) }}": "prints as <range>",
}

// TestSnippets compares small templates with the reference; the file is made
// by _tools/templates/snippets.py.
func TestSnippets(t *testing.T) {
	t.Parallel()
	vars, err := FromJSON([]byte(snippetVars))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(readFile(t, "testdata/snippets.jsonl")) {
		v, err := FromJSON([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		source, _ := v.(*Dict).Get("source")
		want, isText := v.(*Dict).Get("text")
		failure, _ := v.(*Dict).Get("error")
		got, err := renderSource(source.(string), vars.(*Dict))
		if reason := different[source.(string)]; reason != "" {
			if err == nil && isText && got == want {
				t.Errorf("%q: equal to the reference, though listed as different: %s", source, reason)
			}
			continue
		}
		switch {
		case isText && err != nil:
			t.Errorf("%q: %v; want %q", source, err, want)
		case isText && got != want:
			t.Errorf("%q\n got  %q\n want %q", source, got, want)
		case !isText && err == nil:
			t.Errorf("%q: got %q; the reference fails: %s", source, got, failure)
		}
	}
}

func renderSource(source string, vars *Dict) (string, error) {
	tmpl, err := Compile(source)
	if err != nil {
		return "", fmt.Errorf("compile: %w", err)
	}
	return tmpl.Render(vars, clock)
}
