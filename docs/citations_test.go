package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// cited matches a chapter of a design note; a comment may break the line within it.
var cited = regexp.MustCompile(`\b(lab|models|formats|harmony|api|bench|kernels|cuda|operations|reliability|dependencies|tools)\.md[\s/#]*§?(\d+(?:\.\d+)?)`)

// sourceFiles calls visit with each file of the project that has one of the endings.
func sourceFiles(t *testing.T, endings string, visit func(path, text string)) {
	t.Helper()
	for _, dir := range []string{"../cmd", "../docs", "../internal", "../_tools"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.Contains(endings, filepath.Ext(path)+" ") || filepath.Ext(path) == "" {
				return err
			}
			text, err := os.ReadFile(path)
			if err == nil {
				visit(path, string(text))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// Whoever meets "models.md 1.2" in a comment finds it in docs/changing/sources.md.
func TestSources(t *testing.T) {
	text, err := os.ReadFile("changing/sources.md")
	if err != nil {
		t.Fatal(err)
	}
	known, found := string(text), 0
	sourceFiles(t, ".go .py .md ", func(path, source string) {
		for _, m := range cited.FindAllStringSubmatch(source, -1) {
			found++
			if !strings.Contains(known, "\n| "+m[1]+".md "+m[2]+" |") {
				t.Errorf("%s cites %s.md %s, which docs/changing/sources.md does not name", path, m[1], m[2])
			}
		}
	})
	if found < 100 {
		t.Errorf("%d citations found, more than 100 expected", found)
	}
}

const subjects = `(?:LIF|ADM|CON|HLT|DET|PAR|GRM|DUR|CKP|SEC|OPS|BEN|SOK)`

var (
	requirement = regexp.MustCompile(`\b` + subjects + `-\d+\b`)
	testName    = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w+)\(`)
	inTestName  = regexp.MustCompile(subjects + `\d+`)
	testsOf     = regexp.MustCompile("(?s)\n\\* Tests: (.*?)\n\\* ")
)

// Whoever meets "ADM-7" in a comment, or in the name of a test, finds it in
// docs/evidence/reliability.md, and the tests that are named there exist.
func TestRequirements(t *testing.T) {
	data, err := os.ReadFile("evidence/reliability.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	found := map[string]bool{}
	var tests []string
	need := func(path, id string) {
		found[id] = true
		if !strings.Contains(text, "\n### "+id+"\n") {
			t.Errorf("%s cites %s, which docs/evidence/reliability.md does not have", path, id)
		}
	}
	sourceFiles(t, ".go .py .sh ", func(path, source string) {
		for _, id := range requirement.FindAllString(source, -1) {
			need(path, id)
		}
		if !strings.HasSuffix(path, "_test.go") {
			return
		}
		for _, m := range testName.FindAllStringSubmatch(source, -1) {
			tests = append(tests, m[1])
			for _, id := range inTestName.FindAllString(m[1], -1) {
				need(path, id[:3]+"-"+id[3:])
			}
		}
	})
	if len(found) < 70 {
		t.Errorf("%d requirements are cited, more than 70 expected", len(found))
	}
	for _, m := range testsOf.FindAllStringSubmatch(text, -1) {
		for _, span := range codeSpan.FindAllString(m[1], -1) {
			if name := strings.Trim(span, "`"); !named(tests, name) {
				t.Errorf("docs/evidence/reliability.md names the test %s, which does not exist", name)
			}
		}
	}
}

// named reports whether one of the tests is meant by name: without "Test", with … for
// a part of it. Commands, which have a space, are none.
func named(tests []string, name string) bool {
	if strings.Contains(name, " ") {
		return true
	}
	before, behind, parted := strings.Cut(strings.TrimPrefix(name, "Test"), "…")
	if !parted {
		return slices.Contains(tests, "Test"+before) || slices.Contains(tests, name)
	}
	for _, test := range tests {
		if rest, ok := strings.CutPrefix(strings.TrimPrefix(test, "Test"), before); ok && strings.HasSuffix(rest, behind) {
			return true
		}
	}
	return false
}

// testCells are the packages of a cell, each with the tests that are named behind it.
var testCells = regexp.MustCompile("([\\w/]+)((?:,? `[^`]+`)+)")

// What was found from outside has a test, and so has each cell and each failure of tools: those that
// the documents name are in the packages that they name, and so are their parts.
func TestEvidence(t *testing.T) {
	testsExist(t, "docs/evidence/outside.md", 50)
	testsExist(t, "docs/evidence/tools.md", 42)
	testsExist(t, "docs/evidence/speculation.md", 13)
}

// testsExist checks the last cells of a document's tables, of which there are so many rows.
func testsExist(t *testing.T, document string, least int) {
	t.Helper()
	tests, texts := map[string][]string{}, map[string]string{} // by folder
	sourceFiles(t, ".go .jsonl ", func(path, source string) {
		dir, _, _ := strings.Cut(filepath.ToSlash(filepath.Dir(path)), "/testdata")
		if strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".jsonl") {
			texts[dir] += source
		}
		if strings.HasSuffix(path, "_test.go") {
			for _, m := range testName.FindAllStringSubmatch(source, -1) {
				tests[dir] = append(tests[dir], m[1])
			}
		}
	})
	d, rows := readDocument(t, document), 0
	for i, line := range d.text {
		row := cells(line)
		if !strings.HasPrefix(line, "| ") || len(row) != 3 || strings.HasPrefix(strings.TrimSpace(row[2]), "test") {
			continue
		}
		rows++
		found := testCells.FindAllStringSubmatch(row[2], -1)
		if len(found) == 0 {
			t.Errorf("%s:%d: no test", d.name, i+1)
		}
		for _, m := range found {
			var in []string // folders that are meant
			for dir := range tests {
				if strings.HasSuffix(dir, "/"+m[1]) {
					in = append(in, dir)
				}
			}
			for _, span := range codeSpan.FindAllString(m[2], -1) {
				name, part, parted := strings.Cut(strings.Trim(span, "`"), "/")
				if !slices.ContainsFunc(in, func(dir string) bool {
					return named(tests[dir], name) && (!parted || strings.Contains(texts[dir], `"`+part+`"`))
				}) {
					t.Errorf("%s:%d: %s has no test %s", d.name, i+1, m[1], span)
				}
			}
		}
	}
	if rows < least {
		t.Errorf("%s: %d rows found, %d expected", document, rows, least)
	}
}

// errorText is a message within a table of the troubleshooting page.
var errorText = regexp.MustCompile("`([^`]+)`")

// TestTroubleshooting: the messages that the page explains are those of the program.
func TestTroubleshooting(t *testing.T) {
	var all strings.Builder
	sourceFiles(t, ".go ", func(path, source string) {
		if !strings.HasSuffix(path, "_test.go") {
			all.WriteString(strings.ReplaceAll(source, `\"`, `"`))
		}
	})
	code := all.String()
	d := readDocument(t, "docs/use/troubleshooting.md")
	rows := 0
	for i, line := range d.text {
		if !strings.HasPrefix(line, "| `") && !strings.HasPrefix(line, "| 4") && !strings.HasPrefix(line, "| 5") {
			continue
		}
		row := cells(line)
		for _, m := range errorText.FindAllStringSubmatch(strings.Join(row[:min(2, len(row))], " "), -1) {
			if !strings.Contains(m[1], " ") { // a code or a flag
				continue
			}
			if rows++; !printed(code, m[1]) {
				t.Errorf("%s:%d: the program does not say %q", d.name, i+1, m[1])
			}
			break
		}
	}
	if rows < 50 {
		t.Errorf("%d messages found, more than 50 expected", rows)
	}
}

// printed reports whether a piece of message, which … divides, stands in the code. What
// the system or a library says need not.
func printed(code, message string) bool {
	for piece := range strings.SplitSeq(message, "…") {
		if piece = strings.Trim(piece, " :,;."); len(piece) >= 8 && strings.Contains(code, piece) {
			return true
		}
	}
	return false
}
