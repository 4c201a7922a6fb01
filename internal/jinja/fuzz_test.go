package jinja

import (
	"encoding/json"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// FuzzRender compiles and renders arbitrary text: no panic, bounded memory,
// and the same result the second time.
func FuzzRender(f *testing.F) {
	files, err := filepath.Glob("testdata/templates/*.jinja")
	if err != nil || len(files) == 0 {
		f.Fatalf("no seed templates: %v", err)
	}
	for _, file := range files {
		f.Add(readFile(f, file))
	}
	for line := range strings.Lines(readFile(f, "testdata/snippets.jsonl")) {
		v, err := FromJSON([]byte(line))
		if err != nil {
			f.Fatal(err)
		}
		source, _ := v.(*Dict).Get("source")
		f.Add(source.(string))
	}
	vars := conversations(f)["reasoning"]
	snippet, err := FromJSON([]byte(snippetVars))
	if err != nil {
		f.Fatal(err)
	}
	for i := range snippet.(*Dict).Len() {
		key, v := snippet.(*Dict).Entry(i)
		vars.Set(key.(string), v)
	}
	f.Fuzz(func(t *testing.T, source string) {
		if len(source) > 10_000 {
			return
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		tmpl, err := Compile(source)
		if err != nil {
			return
		}
		text, err := tmpl.Render(vars, clock)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 48<<20 { // 32 MiB and what the input adds
			t.Errorf("%d bytes allocated, err %v", n, err)
		}
		again, err2 := tmpl.Render(vars, clock)
		if text != again || (err == nil) != (err2 == nil) {
			t.Errorf("first %q, %v; then %q, %v", text, err, again, err2)
		}
	})
}

// FuzzJSON checks FromJSON against encoding/json and that decoding and
// printing lose nothing.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{`{"a":[1,2.0,null,true,"x\u00e9"],"b":{}}`, `[1e400,-0,18446744073709551616]`, `"\ud83d\ude00\ud800"`, `{"a":1,"a":2}`, `[[[]]]`, ` 1 `, `-`, `"\`, "\"\u2028\x7f\""} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := FromJSON(data)
		if err != nil {
			known := strings.Contains(err.Error(), "duplicate") || strings.Contains(err.Error(), "at most") || strings.Contains(err.Error(), "deeper") || strings.Contains(err.Error(), "UTF-8")
			if json.Valid(data) && !known {
				t.Errorf("%q is valid JSON, got %v", data, err)
			}
			return
		}
		if !json.Valid(data) {
			t.Fatalf("%q is no JSON, got %v", data, v)
		}
		text, err := ToJSON(v)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(text, "Infinity") {
			return // printed as Python does, which is no JSON
		}
		again, err := FromJSON([]byte(text))
		if err != nil {
			t.Fatalf("%q printed as %q: %v", data, text, err)
		}
		if twice, err := ToJSON(again); err != nil || twice != text {
			t.Errorf("%q, then %q, %v", text, twice, err)
		}
	})
}
