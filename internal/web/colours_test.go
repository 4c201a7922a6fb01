package web

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

var property = regexp.MustCompile(`(--[a-z0-9-]+):\s*([^;]+);`)

// TestReportColours: the reports of measurements have the colours and type of the page, in both
// themes. They are copied by hand, for a report is a file of its own.
func TestReportColours(t *testing.T) {
	themes := func(path, dark string) (first, second map[string]string) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		before, behind, found := strings.Cut(string(text), dark)
		if !found {
			t.Fatalf("%s has no %s", path, dark)
		}
		read := func(part string) map[string]string {
			all := map[string]string{}
			for _, m := range property.FindAllStringSubmatch(part, -1) {
				all[m[1]] = m[2]
			}
			return all
		}
		return read(before), read(behind)
	}
	light, dark := themes("../../_tools/web/src/theme.css", `:root[data-theme="dark"]`)
	if len(light) < 30 || len(dark) < 20 {
		t.Fatalf("the page has %d and %d properties", len(light), len(dark))
	}
	for _, path := range []string{"../bench/chart/page/report.css", "../lab/report/report.css"} {
		own, ownDark := themes(path, "prefers-color-scheme: dark")
		for name, value := range own {
			if value != light[name] {
				t.Errorf("%s: %s is %s, on the page %s", path, name, value, light[name])
			}
			if ownDark[name] != dark[name] { // fonts have none
				t.Errorf("%s: %s is %s when dark, on the page %s", path, name, ownDark[name], dark[name])
			}
		}
		if len(own) < 10 || len(ownDark) < 8 {
			t.Errorf("%s has %d and %d properties", path, len(own), len(ownDark))
		}
		text, _ := os.ReadFile(path)
		for _, used := range regexp.MustCompile(`var\((--[a-z0-9-]+)\)`).FindAllStringSubmatch(string(text), -1) {
			if own[used[1]] == "" {
				t.Errorf("%s uses %s, which it does not have", path, used[1])
			}
		}
	}
}
