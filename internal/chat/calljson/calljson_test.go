package calljson

import (
	"encoding/json"
	"strings"
	"testing"
)

func known(name string) bool { return name == "f" || name == "get_weather" }

func TestObjectSchema(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		`{}`:                                `{"type":"object"}`,
		` true `:                            `{"type":"object"}`,
		`{"type": "object", "x": 1}`:        `{"type": "object", "x": 1}`,
		`{"properties": {"b": 1, "a": {}}}`: `{"type":"object","properties":{"b": 1, "a": {}}}`,
		`{"$ref":"#/$defs/A","$defs":{}}`:   `{"type":"object","$ref":"#/$defs/A","$defs":{}}`,
		`{"type":["null","object"],"x":1}`:  `{"type":"object","x":1}`,
		`{"type":"object","nullable":true}`: `{"type":"object"}`,
		`{"nullable":true,"type":"object"}`: `{"type":"object"}`,
		`{"nullable":false,"x":"é\n"}`:      `{"type":"object","nullable":false,"x":"é\n"}`,
		`{"type":"string","x":1}`:           `{"type":"object","allOf":[{"type":"string"}]}`,
		`{"type":["string","null"]}`:        `{"type":"object","allOf":[{"type":["string","null"]}]}`,
		// Who compiles these says what is wrong with them.
		`{"type":"objekt"}`:                 `{"type":"objekt"}`,
		`{"type":["objekt"]}`:               `{"type":["objekt"]}`,
		`{"type":7}`:                        `{"type":7}`,
		`{"type":null}`:                     `{"type":null}`,
		`{"type":"string","type":"object"}`: `{"type":"string","type":"object"}`,
		`{"a":`:                             `{"a":`,
		`{} {}`:                             `{} {}`,
		`false`:                             `false`,
		`[1]`:                               `[1]`,
		``:                                  ``,
	} {
		if got := ObjectSchema(schema); got != want {
			t.Errorf("%s: %s, want %s", schema, got, want)
		}
	}
}

func TestBare(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		name    string
		at      int
		verdict Verdict
	}{
		"":                                   {"", 0, Open},
		" \n":                                {"", 0, Open},
		"<|python":                           {"", 0, Open},
		PythonTag:                            {"", 0, Open},
		PythonTag + "x":                      {"", 0, Never},
		"<b>":                                {"", 0, Never},
		"{":                                  {"", 0, Open},
		`{"na`:                               {"", 0, Open},
		`{"x`:                                {"", 0, Open},
		`{"x": "a", "y": 3.5, `:              {"", 0, Open},
		`{"x": "a"}`:                         {"", 0, Never},
		`{"x": {`:                            {"", 0, Never},
		`{"x": [`:                            {"", 0, Never},
		`{"id": 3, "name": "f"`:              {"f", 0, Open},
		`{"x": "\"", "name": "g"`:            {"", 0, Never},
		`{"type": "function", "function": {`: {"", 0, Whole},
		`[`:                                  {"", 0, Open},
		`[1`:                                 {"", 0, Never},
		`[[`:                                 {"", 0, Never},
		PythonTag + `[ {"name": "f", "arguments": {`: {"f", 43, Begun},
		`{"name": "f", "x": "1", "arguments": {`:     {"f", 37, Begun},
		`{"name": "f"`:                               {"f", 0, Open},
		`{"name": "g"`:                               {"", 0, Never},
		`{"name": "f"}`:                              {"", 0, Never},
		`{"name": "f", "parameters": `:               {"f", 0, Open},
		`{"name": "f", "parameters": {`:              {"f", 28, Begun},
		`{"name": "f", "parameters": "`:              {"f", 0, Whole},
		`{"name": "f", "parameters": 3`:              {"", 0, Never},
		`{"name": "f", "x": `:                        {"f", 0, Open},
		`{"name": "f", "x": 1`:                       {"f", 0, Whole},
		` {"arguments": {`:                           {"", 1, Whole},
		`{"arguments": 1`:                            {"", 0, Never},
		PythonTag + `{"parameters": {"`:              {"", 14, Whole},
		`{"type":"function","name":"f",`:             {"f", 0, Open},
	} {
		name, at, verdict := Bare([]byte(text), known)
		if name != want.name || at != want.at || verdict != want.verdict {
			t.Errorf("%s: %q at %d, verdict %d; want %+v", text, name, at, verdict, want)
		}
	}
}

// What is certain of a beginning stays so, and where arguments begin there is an object.
func FuzzBare(f *testing.F) {
	for _, text := range []string{`{"name": "f", "parameters": {"a": 1}}`, `[{"x": "\"", "type": "function", "function": {"name": "f", "arguments": {}}}]`, `{"type": "function", "name": "f", "arguments": {}}`, `{"parameters": {}, "name": "f"}`, PythonTag + ` {"name": "f", "x": 1, "parameters": "{}"}`, `{"name": "\u0066", "parameters": {}}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var before Verdict
		var place int
		for end := range len(text) + 1 {
			name, at, verdict := Bare([]byte(text[:end]), known)
			if before != Open && (verdict != before || at != place) {
				t.Fatalf("%q is %d at %d, %q was %d at %d", text[:end], verdict, at, text[:end-1], before, place)
			}
			if (verdict == Begun || verdict == Whole) && text[at] != '{' {
				t.Fatalf("%q: %q is no object", text[:end], text[at:end])
			}
			if verdict == Begun && !known(name) {
				t.Fatalf("%q: calls %q", text[:end], name)
			}
			before, place = verdict, at
		}
		if name, arguments, ok := Object([]byte(text), known); ok && (!known(name) || !json.Valid([]byte(arguments)) || strings.TrimLeft(arguments, " \t\r\n")[0] != '{') {
			t.Fatalf("%q: %q calls with %q", text, name, arguments)
		}
		Tagged([]byte(text))
	})
}

// A value is as long whatever parts it comes in, and valid JSON is read whole.
func FuzzValue(f *testing.F) {
	for _, text := range []string{`{"a": "}\"", "b": [1, {}]} x`, `"a\\" b`, `12}`, `null,`, `[[]]]`, `}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var whole, parts Value
		size, sum := whole.Read(text), 0
		for i := range len(text) {
			sum += parts.Read(text[i : i+1])
		}
		if size != sum || whole != parts {
			t.Fatalf("%q: %d bytes and %+v, in parts %d and %+v", text, size, whole, sum, parts)
		}
		if trimmed := strings.TrimLeft(text, " \t\r\n"); trimmed != "" && (trimmed[0] == '{' || trimmed[0] == '[') && json.Valid([]byte(trimmed)) {
			var value Value
			if size, want := value.Read(trimmed), len(strings.TrimRight(trimmed, " \t\r\n")); size != want || !value.Ended {
				t.Fatalf("%q: %d of %d bytes", trimmed, size, want)
			}
		}
	})
}

// What an object schema is made of is valid where the schema was, and made once.
func FuzzObjectSchema(f *testing.F) {
	for _, text := range []string{`{}`, `{"type":["object","null"],"a":"\ud800"}`, `{"type":"string"}`, `{"nullable":true}`, `true`, `{"type":"object","nullable":true,"a":{"type":1}}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		made := ObjectSchema(text)
		if again := ObjectSchema(made); again != made {
			t.Fatalf("%q: %q, then %q", text, made, again)
		}
		if json.Valid([]byte(text)) && !json.Valid([]byte(made)) {
			t.Fatalf("%q: %q", text, made)
		}
	})
}
