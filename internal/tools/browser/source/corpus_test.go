package source

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"
)

// folder makes a folder of files.
func folder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		write(t, dir, name, content)
	}
	return dir
}

func write(t testing.TB, dir, name, content string) {
	t.Helper()
	file := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// read opens a folder that is looked at with every search.
func read(t testing.TB, dir string, bounds bounds) *Folder {
	t.Helper()
	f, err := corpus(dir, bounds)
	if err != nil {
		t.Fatal(err)
	}
	f.every = 0
	return f
}

func search(t *testing.T, b Backend, query string, n int) []Hit {
	t.Helper()
	hits, err := b.Search(t.Context(), query, n)
	if err != nil {
		t.Fatalf("%q: %v", query, err)
	}
	return hits
}

func urls(hits []Hit) (all []string) {
	for _, hit := range hits {
		all = append(all, strings.TrimPrefix(hit.URL, "https://corpus.local/"))
	}
	return all
}

var library = map[string]string{
	"whales.html": `<!doctype html><title>Whales &amp; dolphins</title><link rel="canonical" href="https://sea.example/whales">
		<script>var whale = "shark shark shark"</script><h1>Whales</h1><p>Whales are mammals. The blue whale is the largest animal known.
		<p>They eat krill, of which a blue <b>wh</b>ale takes 40 million a day.`,
	"deep/krill.txt": "URL: https://sea.example/krill\nTitle: Krill\n\nKrill are small crustaceans.\nKrill live in all oceans, and whales eat them.\n",
	"deep/sharks.md": "# Sharks\n\nSharks are fish. A shark has no bones. See [krill](krill.txt).\n",
	"tokyo.txt":      "東京都は日本の首都である。人口は約1400万人。\n大阪は西日本の都市である。\n",
	"strasse.txt":    "Die STRASSE heißt Große Straße.\n",
	"NOTES":          "no type, and still a text about harbours\n",
}

func TestCorpusSearch(t *testing.T) {
	f := read(t, folder(t, library), defaults)
	for _, c := range []struct {
		query string
		want  []string
	}{
		{"krill", []string{"https://sea.example/krill", "deep/sharks.md", "https://sea.example/whales"}},
		{"blue whale", []string{"https://sea.example/whales"}},
		{"KRILL eat?", []string{"https://sea.example/krill", "https://sea.example/whales", "deep/sharks.md"}},
		{"shark", []string{"deep/sharks.md"}},
		{"東京", []string{"tokyo.txt"}},
		{"大阪の都市", []string{"tokyo.txt"}},
		{"京", nil},
		{"straße", []string{"strasse.txt"}},
		{"ｈａｒｂｏｕｒｓ", []string{"NOTES"}},
		{"unicorn", nil},
		{"", nil},
		{"?!", nil},
	} {
		if got := urls(search(t, f, c.query, 10)); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.query, got, c.want)
		}
	}
	if got := search(t, f, "krill", 1); len(got) != 1 {
		t.Errorf("one was asked for: %v", got)
	}
	if got := search(t, f, "krill", 0); len(got) != 0 {
		t.Errorf("none was asked for: %v", got)
	}
}

func TestCorpusHits(t *testing.T) {
	f := read(t, folder(t, library), defaults)
	for query, want := range map[string]Hit{
		"largest animal": {"Whales & dolphins", "https://sea.example/whales", "The blue whale is the largest animal known. They eat krill, of which a blue whale takes 40 million a day."},
		"oceans":         {"Krill", "https://sea.example/krill", "Krill live in all oceans, and whales eat them."},
		"bones":          {"Sharks", "https://corpus.local/deep/sharks.md", "A shark has no bones. See [krill](krill.txt)."},
		"大阪":             {"tokyo", "https://corpus.local/tokyo.txt", "大阪は西日本の都市である。"},
	} {
		if got := search(t, f, query, 10); len(got) != 1 || got[0] != want {
			t.Errorf("%q: %q\nwant %q", query, got, want)
		}
	}
	if got := f.Report(); got != "6 documents, 0.0 MB" {
		t.Error(got)
	}
}

// TestRank: the ranking is that of BM25 as its formula is written, over words counted naively.
func TestRank(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	vocabulary := strings.Fields("alpha beta gamma delta epsilon zeta eta theta iota kappa")
	for range 50 {
		files, texts := map[string]string{}, map[string][]string{}
		for i := range 30 {
			var text []string
			for range 1 + chance.IntN(40) {
				text = append(text, vocabulary[min(chance.IntN(10), chance.IntN(10))])
			}
			name := fmt.Sprintf("d%02d.txt", i)
			files[name] = strings.Join(text, " ")
			for range titleWeight {
				text = append(text, strings.TrimSuffix(name, ".txt"))
			}
			texts[name] = text
		}
		query := []string{vocabulary[chance.IntN(10)], vocabulary[chance.IntN(10)]}
		got := urls(search(t, read(t, folder(t, files), defaults), strings.Join(query, " "), 10))
		if want := naive(texts, query, 10); !slices.Equal(got, want) {
			t.Fatalf("%q: %q, want %q", query, got, want)
		}
	}
}

// naive ranks by Robertson and Zaragoza 2009, equation 3.15.
func naive(texts map[string][]string, query []string, n int) []string {
	slices.Sort(query)
	query = slices.Compact(query)
	total, scores := 0, map[string]float64{}
	for _, text := range texts {
		total += len(text)
	}
	for _, word := range query {
		times := map[string]int{}
		for name, text := range texts {
			for _, one := range text {
				if one == word {
					times[name]++
				}
			}
		}
		idf := math.Log(1 + (float64(len(texts)-len(times))+0.5)/(float64(len(times))+0.5))
		for name, tf := range times {
			length := float64(len(texts[name])) / (float64(total) / float64(len(texts)))
			scores[name] += idf * float64(tf) * 2.2 / (float64(tf) + 1.2*(0.25+0.75*length))
		}
	}
	var names []string
	for name := range scores {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		if math.Abs(scores[a]-scores[b]) > 1e-12 {
			return cmp.Compare(scores[b], scores[a])
		}
		return cmp.Compare(a, b)
	})
	return names[:min(n, len(names))]
}

func TestCorpusFetch(t *testing.T) {
	files := map[string]string{
		"a/index.html":   `<title>A</title><link rel="canonical" href="https://x.example/a/?q=1#top">`,
		"a/b c.html":     `<h1>B</h1><link rel=canonical href=/relative>`,
		"b.html":         `<title>second</title><link rel="canonical" href="http://x.example/a?q=1">`, // stated by a/index.html already
		"steal.txt":      "URL: https://corpus.local/a/b%20c.html\nmine\n",
		"url.txt":        "url: https://Y.example:443/p\r\n\r\nbody\r\n",
		"latin.html":     "<meta charset=iso-8859-1><title>caf\xe9</title>",
		"utf16.txt":      "\xff\xfeh\x00\xe9\x00",
		"odd.txt":        "URL: file:///etc/passwd\nURL: https://z.example/\n",
		"x/y/z/deep.md":  "text before\n# heading",
		"userinfo.txt":   "URL: https://u:p@z.example/\nx",
		"header only.md": "Title: T\n",
	}
	f := read(t, folder(t, files), defaults)
	for _, c := range []struct {
		url  string
		want Document
	}{
		{"https://x.example/a?q=1", Document{Title: "A", HTML: files["a/index.html"]}},
		{"http://X.example/a/?q=1#frag", Document{Title: "A", HTML: files["a/index.html"]}},
		{"https://corpus.local/a/index.html", Document{Title: "A", HTML: files["a/index.html"]}},
		{"https://corpus.local/a", Document{Title: "A", HTML: files["a/index.html"]}},
		{"https://corpus.local/a/b%20c.html", Document{Title: "B", HTML: files["a/b c.html"]}},
		{"https://corpus.local/x/../a/b%20c.html", Document{Title: "B", HTML: files["a/b c.html"]}},
		{"https://corpus.local/b.html", Document{Title: "second", HTML: files["b.html"]}},
		{"https://corpus.local/steal.txt", Document{Title: "steal", Text: "mine\n"}},
		{"https://y.example/p", Document{Title: "url", Text: "body\r\n"}},
		{"https://corpus.local/latin.html", Document{Title: "café", HTML: "<meta charset=iso-8859-1><title>café</title>"}},
		{"https://corpus.local/utf16.txt", Document{Title: "utf16", Text: "hé"}},
		{"https://corpus.local/odd.txt", Document{Title: "odd", Text: files["odd.txt"]}},
		{"https://corpus.local/x/y/z/deep.md", Document{Title: "deep", Text: files["x/y/z/deep.md"]}},
		{"https://corpus.local/userinfo.txt", Document{Title: "userinfo", Text: files["userinfo.txt"]}},
		{"https://corpus.local/header%20only.md", Document{Title: "T"}},
	} {
		if got, err := f.Fetch(t.Context(), c.url); err != nil || got != c.want {
			t.Errorf("%s: %q, %v\nwant %q", c.url, got, err, c.want)
		}
	}
	if got := search(t, f, "second", 5); len(got) != 1 || got[0].URL != "https://corpus.local/b.html" {
		t.Errorf("an address stated twice: %v", got)
	}
}

// TestCorpusTraversal: nothing but documents of the folder is given, however it is asked for.
func TestCorpusTraversal(t *testing.T) {
	dir := folder(t, map[string]string{"inside/a.txt": "inside", "secret.txt": "secret word", ".hidden/h.txt": "secret word", "inside/.env": "secret word"})
	links := map[string]string{"out.txt": "../secret.txt", "absolute.txt": filepath.Join(dir, "secret.txt"), "up": "..", "nothing.txt": "none.txt", "own.txt": "a.txt", "loop": "."}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(dir, "inside", name)); err != nil {
			t.Skip(err)
		}
	}
	f := read(t, filepath.Join(dir, "inside"), defaults)
	if got := urls(search(t, f, "secret", 10)); len(got) != 0 {
		t.Errorf("found %q", got)
	}
	if got := urls(search(t, f, "inside", 10)); !slices.Equal(got, []string{"a.txt", "own.txt"}) {
		t.Errorf("found %q", got)
	}
	for _, address := range []string{
		"https://corpus.local/../secret.txt", "https://corpus.local/%2e%2e/secret.txt", "https://corpus.local/..%2fsecret.txt", "https://corpus.local//etc/passwd",
		"https://corpus.local/out.txt", "https://corpus.local/absolute.txt", "https://corpus.local/up/secret.txt", "https://corpus.local/.env",
		"https://corpus.local/loop/a.txt", "https://corpus.local/nothing.txt", "https://corpus.local/", "https://corpus.local:81/a.txt",
		"https://other.example/a.txt", "file:///etc/passwd", "inside/a.txt", "", "https://u@corpus.local/a.txt", "https://corpus.local/a.txt\x00", "gopher://corpus.local/a.txt",
	} {
		got, err := f.Fetch(t.Context(), address)
		if err == nil || got != (Document{}) {
			t.Errorf("%q gives %q", address, got)
		} else if strings.Contains(err.Error(), dir) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", address, err)
		}
	}
	if got := f.Report(); !strings.HasPrefix(got, "2 documents, 0.0 MB; left out: 4 that are links out of the folder or to nothing (") {
		t.Error(got)
	}
}

func TestCorpusChanges(t *testing.T) {
	dir := folder(t, map[string]string{"a.txt": "one", "b.txt": "two"})
	f := read(t, dir, defaults)
	if got := urls(search(t, f, "one", 5)); !slices.Equal(got, []string{"a.txt"}) {
		t.Fatal(got)
	}
	write(t, dir, "new/c.txt", "one more")
	if got := urls(search(t, f, "one", 5)); !slices.Equal(got, []string{"a.txt", "new/c.txt"}) {
		t.Errorf("added: %q", got)
	}
	write(t, dir, "a.txt", "six") // the same size: another time tells
	if err := os.Chtimes(filepath.Join(dir, "a.txt"), time.Time{}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if got := urls(search(t, f, "one", 5)); !slices.Equal(got, []string{"new/c.txt"}) {
		t.Errorf("changed: %q", got)
	}
	if err := os.Remove(filepath.Join(dir, "b.txt")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Fetch(t.Context(), "https://corpus.local/b.txt"); err == nil || !strings.HasPrefix(err.Error(), "it is not in the corpus: ") {
		t.Errorf("removed: %v", err)
	}
	write(t, dir, "b.txt", "URL: https://x.example/\none")
	if got := urls(search(t, f, "one", 5)); !slices.Equal(got, []string{"https://x.example/", "new/c.txt"}) && !slices.Equal(got, []string{"new/c.txt", "https://x.example/"}) {
		t.Errorf("with an address: %q", got)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Search(t.Context(), "one", 5); err != errFolder {
		t.Errorf("without the folder: %v", err)
	}
	write(t, dir, "d.txt", "one again")
	if got := urls(search(t, f, "one", 5)); !slices.Equal(got, []string{"d.txt"}) {
		t.Errorf("with a new folder: %q", got)
	}
}

// TestCorpusMoved: a page is read from its file, also where that has changed since it was found.
func TestCorpusMoved(t *testing.T) {
	dir := folder(t, map[string]string{"a.txt": "one"})
	f := read(t, dir, defaults)
	f.every = time.Hour
	write(t, dir, "a.txt", "two and more")
	if got, err := f.Fetch(t.Context(), "https://corpus.local/a.txt"); err != nil || got.Text != "two and more" {
		t.Errorf("%q, %v", got, err)
	}
	if err := os.Remove(filepath.Join(dir, "a.txt")); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Fetch(t.Context(), "https://corpus.local/a.txt"); err == nil || err.Error() != "it is not in the corpus any more, or cannot be read" {
		t.Errorf("%v", err)
	}
	if hits := search(t, f, "one", 1); len(hits) != 1 || hits[0].Summary != "" {
		t.Errorf("%q", hits)
	}
}

func TestCorpusLeftOut(t *testing.T) {
	files := map[string]string{
		"a.txt": "fine", "binary.txt": "a\x00b", "large.txt": strings.Repeat("x", 101), "photo.jpg": "no matter",
		"program": "\x7fELF\x02\x01\x01\x00", "z1.txt": "one two three four five", "z2.txt": "six",
	}
	for _, c := range []struct {
		bounds bounds
		want   string
	}{
		{bounds{100, 100, 1 << 20, 100}, `3 documents, 0.0 MB; left out: 1 that are too large ("large.txt"), 1 of another type than HTML, Markdown and text ("photo.jpg"), 2 that are no text ("binary.txt")`},
		{bounds{100, 1000, 1 << 20, 100}, `4 documents, 0.0 MB; left out: 1 of another type than HTML, Markdown and text ("photo.jpg"), 2 that are no text ("binary.txt")`},
		{bounds{2, 1000, 1 << 20, 100}, `1 documents, 0.0 MB; left out: 4 above the number that is read ("large.txt"), 1 of another type than HTML, Markdown and text ("photo.jpg"), 1 that are no text ("binary.txt")`},
		{bounds{100, 1000, 10, 100}, `2 documents, 0.0 MB; left out: 3 above what is read of all together ("large.txt"), 1 of another type than HTML, Markdown and text ("photo.jpg"), 1 that are no text ("binary.txt")`},
		{bounds{100, 1000, 1 << 20, 7}, `3 documents, 0.0 MB; left out: 1 of another type than HTML, Markdown and text ("photo.jpg"), 2 that are no text ("binary.txt"), 1 above what is read of all together ("z1.txt")`},
	} {
		f := read(t, folder(t, files), c.bounds)
		if got := f.Report(); got != c.want {
			t.Errorf("%v: %s\nwant %s", c.bounds, got, c.want)
		}
		search(t, f, "anything", 1) // looks again, and finds the same
		if got := f.Report(); got != c.want {
			t.Errorf("%v again: %s\nwant %s", c.bounds, got, c.want)
		}
	}
}

func TestCorpusErrors(t *testing.T) {
	for _, dir := range []string{filepath.Join(t.TempDir(), "none"), filepath.Join(folder(t, map[string]string{"file": ""}), "file"), ""} {
		if _, err := Corpus(dir); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", dir, err)
		}
	}
	if runtime.GOOS != "windows" && os.Getuid() != 0 {
		dir := folder(t, map[string]string{"a.txt": "one", "closed/b.txt": "one", "c.txt": "one"})
		for _, name := range []string{"closed", "c.txt"} {
			if err := os.Chmod(filepath.Join(dir, name), 0); err != nil {
				t.Fatal(err)
			}
		}
		if got := read(t, dir, defaults).Report(); got != `1 documents, 0.0 MB; left out: 2 that cannot be read ("closed")` {
			t.Error(got)
		}
		_ = os.Chmod(filepath.Join(dir, "closed"), 0o700)
	}
	f := read(t, folder(t, library), defaults)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f.every = time.Hour
	if _, err := f.Search(ctx, "krill", 5); err == nil || err.Error() != "it was cancelled" {
		t.Errorf("cancelled: %v", err)
	}
}

// TestCorpusTogether: searches, fetches and changes at the same time.
func TestCorpusTogether(t *testing.T) {
	dir := folder(t, library)
	f := read(t, dir, defaults)
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for k := range 20 {
				write(t, dir, fmt.Sprintf("new/%d.txt", i), fmt.Sprintf("krill %d", k))
				if _, err := f.Search(t.Context(), "krill", 10); err != nil {
					t.Error(err)
				}
				if _, err := f.Fetch(t.Context(), "https://sea.example/krill"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if got := search(t, f, "krill", 10); len(got) != 7 {
		t.Errorf("%d hits, want 7", len(got))
	}
}

func TestPassage(t *testing.T) {
	long := strings.Repeat("filler words without an end ", 500) + "needle in it " + strings.Repeat("and more filler ", 500)
	for _, c := range []struct{ text, query, want string }{
		{"", "x", ""},
		{"First. Second one.", "none", "First. Second one."},
		{"A b. C needle d. " + strings.Repeat("E f. ", 100), "needle", "C needle d. " + strings.TrimSpace(strings.Repeat("E f. ", 27))},
		{"one here.\n\n" + strings.Repeat("x ", 200) + "\none two together.", "one two", "one two together."},
	} {
		query := terms(c.query)
		got := passage(c.text, query, slices.Repeat([]float64{1}, len(query)))
		if got != c.want {
			t.Errorf("%.40q, %q: %q\nwant %q", c.text, c.query, got, c.want)
		}
	}
	got := passage(long, terms("needle"), []float64{1})
	if !strings.Contains(got, "needle") || len(got) > passageRunes+3 {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}

func FuzzPassage(f *testing.F) {
	f.Add("A sentence. Another one! 東京都は日本の首都である。", "one 日本")
	f.Add(strings.Repeat("ab", 1000), "ab")
	f.Add("\xff\xfe. \x00", "\xff")
	f.Fuzz(func(t *testing.T, content, query string) {
		words := terms(query)
		got := passage(content, words, slices.Repeat([]float64{1}, len(words)))
		if strings.ContainsAny(got, "\n\r\t") || len([]rune(got)) > passageRunes {
			t.Errorf("%q", got)
		}
		if got == "" && strings.ContainsFunc(content, func(r rune) bool { return !unicode.IsSpace(r) }) {
			t.Errorf("nothing of %q", content)
		}
	})
}

// FuzzWords: a text is found by any part of it that is whole words, and by its upper case where
// that is one of the same letters.
func FuzzWords(f *testing.F) {
	f.Add("The quick brown fox", "a")
	f.Add("東京都は ab", "c")
	f.Add("e\u0301a Å\u200b ไทย", "ß")
	f.Fuzz(func(t *testing.T, one, other string) {
		inside := count("", one+" "+other)
		for _, w := range terms(one) {
			if inside.of(w) == 0 {
				t.Errorf("a word of %q is not in %q", one, one+" "+other)
			}
		}
		total := 0
		for _, n := range inside.times {
			total += int(n)
		}
		if total != inside.total {
			t.Errorf("%d words, counted %d", inside.total, total)
		}
	})
}

func FuzzMarkup(f *testing.F) {
	for _, content := range library {
		f.Add(content)
	}
	f.Add("<svg><svg></svg><title>no</title></svg><title>yes</title>")
	f.Add("URL: https://a/\nTitle: t\n\ntext")
	f.Fuzz(func(t *testing.T, content string) {
		for _, read := range []reading{readHTML(text([]byte(content), "text/html")), readText(text([]byte(content), "text/plain"))} {
			if read.address != "" && (stated(read.address) != read.address || key(read.address) == "") {
				t.Errorf("states %q", read.address)
			}
			if len([]rune(read.title)) > titleRunes || line(read.title) != read.title {
				t.Errorf("title %q", read.title)
			}
		}
	})
}

func TestReadHTML(t *testing.T) {
	for _, c := range []struct{ content, title, text string }{
		{"<svg><svg></svg><title>no</title>x</svg><title>yes</title>y", "yes", "y"},
		{"<style>p{}</style><script>1<2</script><template>t</template>z", "", "z"},
		{"<h1>a<i>b</i> c</h1>d", "ab c", "ab c d"},
		{"a&lt;b&amp;&#x41;", "", "a<b&A"},
		{"x<b>y</b>z<br>q<td>r", "", "xyz q r"},
		{"<title>unclosed", "unclosed", ""},
		{"<title> </title><h1>h</h1>", "h", "h"},
	} {
		got := readHTML(c.content)
		if got.title != c.title || line(got.text) != c.text {
			t.Errorf("%s: title %q, text %q", c.content, got.title, line(got.text))
		}
	}
}

// BenchmarkCorpus: 10,000 files of 4 kB, read and searched.
func BenchmarkCorpus(b *testing.B) {
	chance := rand.New(rand.NewPCG(1, 2))
	files := map[string]string{}
	for i := range 10_000 {
		var out bytes.Buffer
		fmt.Fprintf(&out, "<title>page %d</title>", i)
		for out.Len() < 4000 {
			fmt.Fprintf(&out, "<p>w%x of w%x and the w%x.", chance.IntN(1<<chance.IntN(17)), chance.IntN(1<<16), chance.IntN(100))
		}
		files[fmt.Sprintf("%02d/%04d.html", i%50, i)] = out.String()
	}
	dir := folder(b, files)
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			read(b, dir, defaults)
		}
	})
	f := read(b, dir, defaults)
	b.Run("look", func(b *testing.B) {
		for b.Loop() {
			if _, err := f.look(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
	f.every = time.Hour
	b.Run("search", func(b *testing.B) {
		for b.Loop() {
			if hits, err := f.Search(b.Context(), "the w1 and w99 of page", 20); err != nil || len(hits) != 20 {
				b.Fatal(err, len(hits))
			}
		}
	})
}
