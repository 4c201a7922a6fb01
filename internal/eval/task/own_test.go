package task

import (
	"strings"
	"testing"
)

func TestOwn(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/data.csv", "country,capital,other,year,text\nFrance,Paris,Lyon,1789,x\nPeru,Lima,Cusco,1821,y\n")
	for _, c := range []struct {
		name, file, prompt, answer, right string
		reference, strict                 bool
	}{
		{"exact", "name: capitals\nkind: exact\nprompt: 'Capital of {country}? {{x}}'\nanswer: capital\n", "Capital of France? {x}", " Paris\n", "Paris", true, true},
		{"integer", "name: years\nkind: integer\nprompt: 'Year of {country}?'\nanswer: year\n", "Year of France?", `\boxed{\text{1,789}}`, "1789", false, true},
		{"regex", "name: re\nkind: regex\npattern: 'It is (\\w+)'\nprompt: 'Of {country}?'\nanswer: capital\n", "Of France?", "It is Lyon. No, It is Paris.", "Paris", true, true},
		{"choice", "name: ch\nkind: choice\nprompt: '{country}: (A) {A} (B) {B}'\nanswer: capital\noptions: [other, capital]\n", "France: (A) Lyon (B) Paris", "The answer is B.", "B", false, true},
	} {
		path := dir + "/" + c.name + ".yaml"
		write(t, path, c.file)
		own, err := Load(path)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		set, err := own.Open(t.Context(), Sources{}, []string{dir + "/data.csv"}, false)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		entry := set.Entries(1, 0)[0]
		verdict := own.Judge(c.answer, entry.Right)
		if entry.Prompt != c.prompt || entry.Right != c.right || verdict.ReferenceRight != c.reference || verdict.StrictRight != c.strict {
			t.Errorf("%s: %q, %q, %+v", c.name, entry.Prompt, entry.Right, verdict)
		}
		if shown := own.Shown("Paris"); (own.Kind == Exact || own.Kind == Regex) && !strings.HasPrefix(shown, "sha256:") {
			t.Errorf("%s: %q is shown", c.name, shown)
		}
	}
}

func TestOwnBad(t *testing.T) {
	good := "name: n\nkind: exact\nprompt: '{q}'\nanswer: a\n"
	for _, c := range []struct{ text, want string }{
		{"", "an empty file"},
		{"- x", "cannot"},
		{good + "colour: red\n", "colour"},
		{strings.Replace(good, "name: n", "name: 'a b'", 1), "name:"},
		{strings.Replace(good, "name: n", "name: gpqa", 1), "built-in"},
		{strings.Replace(good, "exact", "fuzzy", 1), "expected choice, integer, exact or regex"},
		{strings.Replace(good, "'{q}'", "'q'", 1), "no {field}"},
		{strings.Replace(good, "'{q}'", "'{q'", 1), "a brace alone"},
		{strings.Replace(good, "'{q}'", "'q}'", 1), "a brace alone"},
		{strings.Replace(good, "'{q}'", "''", 1), "prompt: missing"},
		{strings.Replace(good, "answer: a", "", 1), "answer: missing"},
		{good + "options: [a, b]\n", "has none"},
		{good + "pattern: x\n", "has none"},
		{strings.Replace(good, "exact", "regex", 1), "pattern: missing"},
		{strings.Replace(good, "exact", "regex", 1) + "pattern: '('\n", "pattern: "},
		{strings.Replace(good, "exact", "choice", 1) + "options: [b, c]\n", "of which the answer, a, is one"},
		{strings.Replace(good, "exact", "choice", 1) + "options: [a, c]\n", "no {A}"},
	} {
		if _, err := readTask([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v; want %q", c.text, err, c.want)
		}
	}
}
