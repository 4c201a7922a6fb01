package jinja

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// clock is the fixed time of the golden files.
func clock() time.Time { return time.Date(2026, 11, 21, 12, 34, 56, 0, time.UTC) }

func readFile(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// conversations returns the variables of each conversation in testdata.
func conversations(t testing.TB) map[string]*Dict {
	t.Helper()
	v, err := FromJSON([]byte(readFile(t, "testdata/conversations.json")))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*Dict{}
	for i := range v.(*Dict).Len() {
		name, conv := v.(*Dict).Entry(i)
		vars := NewDict()
		vars.Set("tools", nil)
		vars.Set("documents", nil)
		vars.Set("bos_token", "<|bos|>")
		vars.Set("eos_token", "<|eos|>")
		for j := range conv.(*Dict).Len() {
			key, v := conv.(*Dict).Entry(j)
			vars.Set(key.(string), v)
		}
		all[name.(string)] = vars
	}
	return all
}

func compile(t testing.TB, source string) *Template {
	t.Helper()
	tmpl, err := Compile(source)
	if err != nil {
		t.Fatal(err)
	}
	return tmpl
}

// TestGolden renders every (template, conversation) pair; testdata/README.md
// says where the expected texts come from.
func TestGolden(t *testing.T) {
	t.Parallel()
	convs := conversations(t)
	pairs := 0
	for line := range strings.Lines(readFile(t, "testdata/golden/MANIFEST.txt")) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name, _, _ := strings.Cut(line, "\t")
		pairs++
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder, file := filepath.Split(name)
			tmpl := compile(t, readFile(t, "testdata/templates/"+filepath.Clean(folder)+".jinja"))
			kind := filepath.Ext(file)
			got, err := tmpl.Render(convs[strings.TrimSuffix(file, kind)], clock)
			if kind == ".refused" {
				if err == nil {
					t.Fatalf("rendered %.200q; the reference refuses: %s", got, readFile(t, "testdata/golden/"+name))
				}
				return
			}
			if want := readFile(t, "testdata/golden/"+name); err != nil || got != want {
				t.Errorf("err %v\ngot  %q\nwant %q", err, got, want)
			}
		})
	}
	if want := 8 * len(convs); pairs != want {
		t.Errorf("the manifest lists %d pairs, want %d", pairs, want)
	}
}
