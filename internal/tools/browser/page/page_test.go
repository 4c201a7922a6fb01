package page

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"ossian/internal/soak"
)

var update = flag.Bool("update", false, "write the golden files")

// pages.html is written for these tests; reference.json is what the published browser of gpt-oss
// 0.0.9 makes of it, by ../_gen/golden.py.
func read(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A document is one of pages.html.
type document struct{ name, address, html string }

func documents(t testing.TB) (all []document) {
	for block := range strings.SplitSeq(strings.TrimPrefix(read(t, "pages.html"), "=== "), "\n=== ") {
		head, text, _ := strings.Cut(block, "\n")
		at := strings.LastIndexByte(head, ' ')
		if at < 0 {
			all = append(all, document{name: head, html: text})
			continue
		}
		all = append(all, document{name: head[:at], address: head[at+1:], html: text})
	}
	return all
}

// differs says where pages are not what the reference makes of them, and why.
var differs = map[string]string{
	"paragraphs":                "titles are one line",
	"title in svg":              "the title of an icon is none of the page",
	"empty title":               "the host is better than nothing",
	"telephone":                 "what is no page of the web is no link",
	"arxiv mirror":              "there is no mirror of mirrors",
	"tight table":               "cells do not touch",
	"bracket marks as entities": "no page makes links of its own",
	"emoji":                     "the parser can read them",
	"mathematics":               "what stands behind a formula stays",
	"noscript":                  "frames have no text",
	"sections":                  "sections stand on lines of their own",
	"forms":                     "choices stand on lines of their own",
	"wrong order":               "text behind the end is text",
	"attributes without quotes": "addresses are escaped",
	"percent signs":             "addresses are escaped",
	"no host":                   "a link that leads nowhere is none",
	"wiki":                      "cells do not touch",
}

// TestReference: pages are those of the published browser of gpt-oss, but for those in differs,
// which are as in pages.golden (-update writes it).
func TestReference(t *testing.T) {
	var reference map[string]struct {
		Title, Text, Error string
		Links              []string
	}
	if err := json.Unmarshal([]byte(read(t, "reference.json")), &reference); err != nil {
		t.Fatal(err)
	}
	var own strings.Builder
	own.WriteString("Pages that differ from the reference's, and why. Written by go test -run Reference -update.\n")
	count := 0
	for _, d := range documents(t) {
		count++
		got := FromHTML(d.html, d.address, "")
		want, ok := reference[d.name]
		if !ok {
			t.Fatalf("reference.json has no page %q", d.name)
		}
		same := want.Error == "" && got.Title == want.Title && got.Text == want.Text && (len(got.Links) == 0 && len(want.Links) == 0 || reflect.DeepEqual(got.Links, want.Links))
		why := differs[d.name]
		if same != (why == "") {
			t.Errorf("%s: same as the reference %v, differs %q:\n%q %q %q\nreference %s\n%q %q %q", d.name, same, why, got.Title, got.Text, got.Links, want.Error, want.Title, want.Text, want.Links)
		}
		if !same {
			own.WriteString("\n=== " + d.name + ": " + why + "\n" + got.Title + "\n" + got.Text + "\n")
			for i, link := range got.Links {
				own.WriteString(mark(i, link, "") + "\n")
			}
		}
	}
	if count < 50 {
		t.Errorf("%d pages", count)
	}
	if *update {
		if err := os.WriteFile("testdata/pages.golden", []byte(own.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if golden := read(t, "pages.golden"); golden != own.String() {
		t.Errorf("pages.golden:\n%s\ngot\n%s", golden, own.String())
	}
}

// TestWrap: lines are cut as the published browser cuts them.
func TestWrap(t *testing.T) {
	var cases []struct {
		Text  string
		Lines []string
	}
	if err := json.Unmarshal([]byte(read(t, "wrapped.json")), &cases); err != nil || len(cases) < 200 {
		t.Fatal(len(cases), err)
	}
	for _, c := range cases {
		if got := Wrap(c.Text); !reflect.DeepEqual(got, c.Lines) {
			t.Errorf("%q is cut into\n%q, want\n%q", c.Text, got, c.Lines)
		}
	}
}

// TestDeep: what is nested too deep for a tree is read as text.
func TestDeep(t *testing.T) {
	deep := strings.Repeat("<div>", 600)
	got := FromHTML("<title>T</title><script>no</script><p>One</p>"+deep+"<p>Two 【3†x】</p>", "https://example.com/", "Given")
	if want := "\nURL: https://example.com/\nT\nOne\nTwo 〖3†x〗"; got.Text != want || got.Title != "Given" {
		t.Errorf("%q %q, want %q", got.Title, got.Text, want)
	}
}

// TestLong: pages end at 1 MiB, with a notice, and what repeats in them does not make them longer.
func TestLong(t *testing.T) {
	for name, document := range map[string]string{
		"lines":      strings.Repeat("<p>line</p>", 200_000),
		"one line":   strings.Repeat("漢", 1_000_000),
		"quotations": strings.Repeat("<blockquote>", 400) + "<pre>" + strings.Repeat("\n", 1_000_000) + "end",
		"lists":      strings.Repeat("<ul><li>", 200) + strings.Repeat("<li>x", 100_000),
		"anchors":    strings.Repeat("<a href=#x>y</a>", 300_000),
	} {
		got := FromHTML(document, "https://example.com/", "")
		if len(got.Text) > maxText+200 || (len(got.Text) > maxText) != strings.HasSuffix(got.Text, "not shown.]") || (name == "lines" && !strings.HasSuffix(got.Text, "not shown.]")) {
			t.Errorf("%s: %d bytes, end %q", name, len(got.Text), got.Text[len(got.Text)-40:])
		}
	}
	if got := FromText(strings.Repeat("x\r\n", 600_000), "https://example.com/x", " a\ntitle"); len(got.Text) > maxText+200 || got.Title != "a title" {
		t.Errorf("%d bytes, title %q", len(got.Text), got.Title)
	}
}

func TestWithoutLinks(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"no link", "no link"},
		{"a 【0†word】 b 【12†two words†host.org】.", "a word b two words."},
		{"【0†broken\nword†ho\nst】x", "broken\nword\nx"},
		{"【1\n2†x】", "x\n"},
		{"【no", "【no"},
		{"【0†x", "x"},
	} {
		if got := WithoutLinks(c.in); got != c.want {
			t.Errorf("%q becomes %q, want %q", c.in, got, c.want)
		}
	}
}

// sound fails where a page breaks a promise: whatever was read, the text is short and valid, begins
// with the address, and every link in it leads somewhere.
func sound(t *testing.T, document, address string) {
	t.Helper()
	got := FromHTML(document, address, "")
	if !utf8.ValidString(got.Text) || !utf8.ValidString(got.Title) || len(got.Text) > maxText+len(address)*4+200 || !strings.HasPrefix(got.Text, "\nURL: ") {
		t.Fatalf("%q is read as %q %.200q", document, got.Title, got.Text)
	}
	if strings.ContainsAny(got.Title, "\n【】") {
		t.Fatalf("%q has the title %q", document, got.Title)
	}
	for _, found := range link.FindAllStringSubmatch(got.Text, -1) {
		if id, err := strconv.Atoi(found[1]); err != nil || id >= len(got.Links) {
			t.Fatalf("%q has the link %q and %d links", document, found[0], len(got.Links))
		}
	}
	if marks, links := strings.Count(got.Text, "【"), len(link.FindAllString(got.Text, -1)); marks != links && len(got.Text) < maxText {
		t.Fatalf("%q: %d marks, %d links in %q", document, marks, links, got.Text)
	}
	lines := Wrap(got.Text)
	if len(lines) != strings.Count(WithoutLinks(strings.Join(lines, "\n")), "\n")+1 {
		t.Fatalf("%q: lines do not keep their numbers without links", document)
	}
	for _, line := range lines {
		if utf8.RuneCountInString(line) > Width {
			t.Fatalf("%q: line %q", document, line)
		}
	}
}

var link = regexp.MustCompile("【([0-9]+)†[^†】]+(?:†[^†】]+)?】")

func FuzzHTML(f *testing.F) {
	for _, d := range documents(f) {
		f.Add(d.html, d.address)
	}
	f.Fuzz(func(t *testing.T, document, address string) { sound(t, document, address) })
}

// TestHostileHTML: no document does harm. A million of them with a release.
func TestHostileHTML(t *testing.T) {
	var pieces []string
	for _, d := range documents(t) {
		pieces = append(pieces, regexp.MustCompile("<[^>]*>?|[^<]+").FindAllString(d.html, -1)...)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range soak.Cases(t, 5_000, 1_000_000) {
		var document strings.Builder
		for range 1 + random.IntN(40) {
			piece := pieces[random.IntN(len(pieces))]
			switch random.IntN(8) {
			case 0:
				piece = piece[:random.IntN(len(piece)+1)]
			case 1:
				piece += string(rune(random.IntN(0x3100)))
			case 2:
				piece = strings.Repeat(piece, random.IntN(20))
			}
			document.WriteString(piece)
		}
		sound(t, document.String(), "https://example.com/x/y?z")
	}
}

// TestPythonWraps: lines of random text are cut as this machine's Python cuts them.
func TestPythonWraps(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	random := rand.New(rand.NewPCG(3, 4))
	alphabet := []rune("aaabcdefgh   ---\t12.,'!?&()éß漢①\u00a0_\r")
	var texts []string
	for range soak.Cases(t, 2000, 100_000) {
		line := make([]rune, random.IntN(300))
		for i := range line {
			line[i] = alphabet[random.IntN(len(alphabet))]
		}
		texts = append(texts, string(line))
	}
	in, _ := json.Marshal(texts)
	command := exec.Command(python, "-c", `import json,sys,textwrap
if sys.version_info < (3, 11): sys.exit(7)
json.dump([textwrap.wrap(x, width=80, replace_whitespace=False, drop_whitespace=False) if x else [""] for x in json.load(sys.stdin)], sys.stdout)`)
	command.Stdin = bytes.NewReader(in)
	out, err := command.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 7 {
		t.Skip("an older python3 cuts long words elsewhere")
	}
	var want [][]string
	if err != nil || json.Unmarshal(out, &want) != nil || len(want) != len(texts) {
		t.Skipf("python3: %v", err)
	}
	for i, text := range texts {
		if got := Wrap(text); !reflect.DeepEqual(got, want[i]) {
			t.Errorf("%q is cut into\n%q, want\n%q", text, got, want[i])
		}
	}
}
