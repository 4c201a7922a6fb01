package internal_test

import (
	"go/ast"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What calls one of these, or has a function of such a name, reads what somebody else
// has written.
var (
	decoders = []string{"json.Unmarshal", "json.NewDecoder", "yaml.NewDecoder", "yaml.Unmarshal", "csv.NewReader", "gob.NewDecoder", "xml.NewDecoder"}
	reading  = regexp.MustCompile(`^(Parse|Read|Decode)[A-Z]`)
)

// TestHLT5Fuzz: every package that reads what somebody else has written has a fuzz target,
// and docs/evidence/reliability.md counts no more than there are.
func TestHLT5Fuzz(t *testing.T) {
	reads, fuzzed, targets := map[string]string{}, map[string]bool{}, 0
	for _, s := range sources(t) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				switch name := n.Name.Name; {
				case s.test && n.Recv == nil && strings.HasPrefix(name, "Fuzz"):
					fuzzed[s.pkg] = true
					targets++
				case !s.test && reading.MatchString(name):
					reads[s.pkg] = name
				}
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && !s.test && slices.Contains(decoders, x.Name+"."+n.Sel.Name) {
					reads[s.pkg] = x.Name + "." + n.Sel.Name
				}
			}
			return true
		})
	}
	for pkg, how := range reads {
		if !fuzzed[pkg] && !strings.HasSuffix(pkg, "test") && pkg != "e2e" {
			t.Errorf("%s reads what others have written (%s) and has no fuzz target", pkg, how)
		}
	}
	text, err := os.ReadFile("../docs/evidence/reliability.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(`### HLT-5\n(?:.+\n|\n)*?.*\b(\d+) fuzz targets in (\d+) packages`).FindSubmatch(text)
	if row == nil {
		t.Fatal("docs/evidence/reliability.md: no HLT-5 with its counts")
	}
	for i, n := range []int{targets, len(fuzzed)} {
		if told, err := strconv.Atoi(string(row[1+i])); err != nil || told > n {
			t.Errorf("docs/evidence/reliability.md counts %d fuzz targets or packages with some, there are %d: %v", told, n, err)
		}
	}
	t.Logf("HLT-5: %d fuzz targets in %d packages, among them the %d that read what others have written", targets, len(fuzzed), len(reads))
}
