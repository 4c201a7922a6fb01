// Package docs_test holds the documents to what is true: their commands are run, their
// links are followed, and what they say of settings, errors and requirements is compared
// with the code.
package docs_test

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// A block is fenced text of a document.
type block struct {
	file  string // below the repository, with slashes
	line  int    // of the fence that begins it, from 1
	info  string // behind that fence
	lines []string
}

// A document is a Markdown file as the tests see it.
type document struct {
	name   string // below the repository, with slashes
	text   []string
	code   []bool // the line is within a fenced block, or a fence
	blocks []block
}

func readDocument(t *testing.T, name string) *document {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	d := &document{name: name, text: strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")}
	d.code = make([]bool, len(d.text))
	open := false
	for i, line := range d.text {
		info, fence := strings.CutPrefix(line, "```")
		d.code[i] = open || fence
		switch {
		case fence && !open:
			d.blocks = append(d.blocks, block{file: name, line: i + 1, info: info})
		case open && !fence:
			last := &d.blocks[len(d.blocks)-1]
			last.lines = append(last.lines, line)
		}
		open = open != fence
	}
	if open {
		t.Fatalf("%s: a block has no end", name)
	}
	return d
}

// documents returns the Markdown files of the root and of docs.
func documents(t *testing.T) []*document {
	t.Helper()
	names := []string{"README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "RATIONALE.md"}
	for _, pattern := range []string{"*.md", "*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range found {
			names = append(names, "docs/"+filepath.ToSlash(name))
		}
	}
	var all []*document
	for _, name := range names {
		all = append(all, readDocument(t, name))
	}
	return all
}

const (
	mostColumns = 100
	mostCell    = 200 // characters of a table's cell
	mostReadMe  = 200 // lines
)

var (
	cellEnd  = regexp.MustCompile(`(^|[^\\])\|`)
	onlyLink = regexp.MustCompile(`^\s*([*-] )?(!?\[[^\]]*\]\([^)]*\)|\[[^\]]*\]: \S+|<?https?://\S+>?)[.,;]?$`)
)

// cells splits a line of a table.
func cells(line string) []string {
	line = cellEnd.ReplaceAllString(line, "$1\x00")
	return strings.Split(strings.Trim(line, "\x00"), "\x00")
}

// TestWidth: lines can be read in any window, and so can tables.
func TestWidth(t *testing.T) {
	for _, d := range documents(t) {
		if d.name == "README.md" && len(d.text) > mostReadMe {
			t.Errorf("%s has %d lines, at most %d expected", d.name, len(d.text), mostReadMe)
		}
		for i, line := range d.text {
			switch {
			case d.code[i]:
			case strings.HasPrefix(line, "|"):
				for _, c := range cells(line) {
					if n := utf8.RuneCountInString(strings.TrimSpace(c)); n > mostCell {
						t.Errorf("%s:%d: a cell of %d characters, at most %d expected: a list or a paragraph says it", d.name, i+1, n, mostCell)
					}
				}
			case onlyLink.MatchString(line):
			case utf8.RuneCountInString(line) > mostColumns:
				t.Errorf("%s:%d: %d columns, at most %d expected (go run ./_tools/wrap %s)", d.name, i+1, utf8.RuneCountInString(line), mostColumns, d.name)
			}
		}
	}
}

var (
	link     = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	codeSpan = regexp.MustCompile("`[^`]*`")
)

// anchor is the name that a heading can be reached by.
func anchor(heading string) string {
	heading = link.ReplaceAllString(heading, "]")
	var b strings.Builder
	for _, c := range strings.ToLower(strings.TrimSpace(heading)) {
		switch {
		case c == ' ':
			b.WriteRune('-')
		case c == '-' || c == '_' || unicode.IsLetter(c) || unicode.IsDigit(c):
			b.WriteRune(c)
		}
	}
	return b.String()
}

// anchors returns the names of the headings of d.
func (d *document) anchors() map[string]bool {
	all := map[string]bool{}
	for i, line := range d.text {
		if d.code[i] || !strings.HasPrefix(line, "#") {
			continue
		}
		a := anchor(strings.TrimLeft(line, "#"))
		name := a
		for n := 1; all[name]; n++ {
			name = a + "-" + strconv.Itoa(n)
		}
		all[name] = true
	}
	return all
}

// TestLinks: every link within the repository leads to a file, and to a heading of it.
func TestLinks(t *testing.T) {
	known := map[string]map[string]bool{}
	all := documents(t)
	for _, d := range all {
		known[d.name] = d.anchors()
	}
	linked := map[string]bool{}
	for _, d := range all {
		for i, line := range d.text {
			if d.code[i] {
				continue
			}
			for _, m := range link.FindAllStringSubmatch(codeSpan.ReplaceAllString(line, ""), -1) {
				target, at, _ := strings.Cut(m[1], "#")
				if strings.Contains(target, "://") {
					continue
				}
				to := d.name
				if target != "" {
					to = path.Join(path.Dir(d.name), target)
				}
				if _, err := os.Stat(filepath.Join("..", filepath.FromSlash(to))); err != nil {
					t.Errorf("%s:%d: %s: %v", d.name, i+1, m[1], err)
				}
				if at != "" && !known[to][at] {
					t.Errorf("%s:%d: %s: no heading of %s is called that", d.name, i+1, m[1], to)
				}
				if d.name == "docs/README.md" {
					linked[to] = true
				}
			}
		}
	}
	for _, d := range all {
		if !linked[d.name] && d.name != "docs/README.md" {
			t.Errorf("docs/README.md does not name %s", d.name)
		}
	}
}
