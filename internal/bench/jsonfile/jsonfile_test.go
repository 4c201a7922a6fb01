package jsonfile

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
)

// TestExplain: errors say what was expected and what was found, in words of JSON.
func TestExplain(t *testing.T) {
	t.Parallel()
	type part struct {
		Name string `json:"name"`
	}
	type form struct {
		Object *part              `json:"object"`
		List   []part             `json:"list"`
		Table  map[string]float64 `json:"table"`
		Count  int                `json:"count"`
		Share  *float64           `json:"share"`
		On     bool               `json:"on"`
	}
	for _, c := range []struct{ text, want string }{
		{`{}`, ""},
		{`[]`, "expected an object, found an array"},
		{`5`, "expected an object, found a number"},
		{`{"object": []}`, `field "object": expected an object, found an array`},
		{`{"object": {"name": true}}`, `field "object.name": expected a string, found true or false`},
		{`{"list": {}}`, `field "list": expected an array, found an object`},
		{`{"list": [{"name": 3}]}`, `field "list.name": expected a string, found a number`},
		{`{"table": {"a": "b"}}`, `field "table.a": expected a number, found a string`},
		{`{"count": 1.5}`, `field "count": expected a whole number, found the number 1.5`},
		{`{"count": "1"}`, `field "count": expected a whole number, found a string`},
		{`{"share": "1"}`, `field "share": expected a number, found a string`},
		{`{"on": "yes"}`, `field "on": expected true or false, found a string`},
		{`{"on": true`, "the JSON ends early: it is not complete"},
		{``, "the JSON ends early: it is not complete"},
		{"{\n\n\"on\": maybe}", "line 3: not JSON: invalid character 'm' looking for beginning of value"},
		{"{} {}", "line 1: not JSON: invalid character '{' after top-level value"},
	} {
		var v form
		err := ExplainIn([]byte(c.text), json.Unmarshal([]byte(c.text), &v))
		if got := text(err); got != c.want && !strings.HasPrefix(c.want, `field "table.`) {
			t.Errorf("%s: %q, want %q", c.text, got, c.want)
		} else if c.want != "" && (got == "" || strings.Contains(got, "Go ") || strings.Contains(got, "json:")) {
			t.Errorf("%s: %q speaks of Go", c.text, got)
		}
	}
	if got := text(Explain(io.ErrUnexpectedEOF)); got != "the JSON ends early: it is not complete" {
		t.Error(got)
	}
	if err := Explain(io.ErrClosedPipe); err != io.ErrClosedPipe {
		t.Errorf("another error became %v", err)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestMissing: who missed a field hears which ones there are.
func TestMissing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ object, want string }{
		{`{}`, `field "a" is missing, found no members`},
		{`{"role": 1, "content": 2}`, `field "a" is missing, found "content", "role"`},
		{`{"a": null}`, `field "a" is null`},
		{`{"1":1,"2":1,"3":1,"4":1,"5":1,"6":1,"7":1,"8":1,"9":1,"x":1}`, `field "a" is missing, found "1", "2", "3", "4", "5", "6", "7", "8" and 2 more`},
		{`{"\u001b[2J` + strings.Repeat("b", 100) + `":1}`, `field "a" is missing, found "\x1b[2J` + strings.Repeat("b", 36) + `"`},
	} {
		var members map[string]json.RawMessage
		if err := json.Unmarshal([]byte(c.object), &members); err != nil {
			t.Fatal(err)
		}
		if got := Missing("a", members).Error(); got != c.want {
			t.Errorf("%s: %q, want %q", c.object, got, c.want)
		}
	}
}

// TestKind names every kind of value.
func TestKind(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{"": "nothing", " \n{}": "an object", "[1]": "an array", `"a"`: "a string", "true": "true or false", "false": "true or false", "null": "null", "-5": "a number", "7": "a number"} {
		if got := Kind([]byte(value)); got != want {
			t.Errorf("%q is %q, want %q", value, got, want)
		}
	}
}

// FuzzExplain: whatever a text holds, its error names no type of Go.
func FuzzExplain(f *testing.F) {
	f.Add(`{"a": [1, "b"]}`)
	f.Add(`{"a": `)
	f.Add("\n x")
	f.Fuzz(func(t *testing.T, text string) {
		var v struct {
			A []int             `json:"a"`
			B map[string]string `json:"b"`
			C *float64          `json:"c"`
		}
		err := json.Unmarshal([]byte(text), &v)
		if got := ExplainIn([]byte(text), err); (got == nil) != (err == nil) || (got != nil && strings.Contains(got.Error(), "Go struct")) {
			t.Errorf("%v became %v", err, got)
		}
		Kind([]byte(text))
	})
}
