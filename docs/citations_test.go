package internal_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// cited matches a chapter of a design note; a comment may break the line within it.
var cited = regexp.MustCompile(`\b(models|formats|harmony|api|bench|kernels|operations|reliability|dependencies)\.md[\s/#]*§?(\d+(?:\.\d+)?)`)

// Whoever meets "models.md 1.2" in a comment finds it in docs/changing/sources.md.
func TestSources(t *testing.T) {
	text, err := os.ReadFile("../docs/changing/sources.md")
	if err != nil {
		t.Fatal(err)
	}
	known, found := string(text), 0
	for _, dir := range []string{".", "../cmd", "../_tools"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			switch filepath.Ext(path) {
			case ".go", ".py", ".md":
			default:
				return err
			}
			source, err := os.ReadFile(path)
			for _, m := range cited.FindAllStringSubmatch(string(source), -1) {
				found++
				if !strings.Contains(known, "\n| "+m[1]+".md "+m[2]+" |") {
					t.Errorf("%s cites %s.md %s, which docs/changing/sources.md does not name", path, m[1], m[2])
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 100 {
		t.Errorf("%d citations found, more than 100 expected", found)
	}
}
