package task

import (
	"compress/gzip"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"ossian/internal/hub"
)

// golden is what the reference asks for one way to call it.
type golden struct {
	Right  []string // of each entry
	Order  []string // of its options
	SHA256 []string // of its prompt, 16 digits
	First  string
}

func goldens(t *testing.T) (all map[string]golden) {
	t.Helper()
	file, err := os.Open("testdata/prompts.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(unpacked).Decode(&all); err != nil {
		t.Fatal(err)
	}
	return all
}

func open(t *testing.T, name string, anyData bool, sources ...string) (*Set, error) {
	t.Helper()
	task, err := Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return task.Open(t.Context(), Sources{}, sources, anyData)
}

// TestPrompts: every prompt, its options' order and what is right, of all 1,584 entries of gpqa and
// 240 of aime25, is what the reference asks of the same data, and so are drawn examples.
func TestPrompts(t *testing.T) {
	sources := map[string][]string{"gpqa": {"testdata/gpqa.csv"}, "aime25": {"testdata/aime-I.jsonl", "testdata/aime-II.jsonl"}}
	total := 0
	for name, want := range goldens(t) {
		task, rest, _ := strings.Cut(name, " ")
		repeats, examples := 8, 0
		if rest != "" {
			repeats = 1
			if _, err := fmt.Sscanf(rest, "examples %d", &examples); err != nil {
				t.Fatal(err)
			}
		}
		set, err := open(t, task, false, sources[task]...)
		if err != nil {
			t.Fatal(err)
		}
		entries := set.Entries(repeats, examples)
		if len(entries) != len(want.SHA256) {
			t.Fatalf("%s: %d entries, the reference asks %d", name, len(entries), len(want.SHA256))
		}
		if entries[0].Prompt != want.First {
			t.Errorf("%s: the first prompt is %q, the reference asks %q", name, entries[0].Prompt, want.First)
		}
		for i, entry := range entries {
			sum := sha256.Sum256([]byte(entry.Prompt))
			if hex.EncodeToString(sum[:8]) != want.SHA256[i] || entry.Right != want.Right[i] {
				t.Fatalf("%s, entry %d: prompt %q with %q right; the reference asks another, with %q right", name, i, entry.Prompt, entry.Right, want.Right[i])
			}
			if task == "gpqa" && strings.Trim(strings.Join(strings.Fields(fmt.Sprint(entry.Order)), ""), "[]") != want.Order[i] {
				t.Fatalf("%s, entry %d: order %v, the reference's %s", name, i, entry.Order, want.Order[i])
			}
		}
		total += len(entries)
	}
	if total < 1584+240 {
		t.Errorf("%d entries compared", total)
	}
}

// TestFirstPermutations: the ones of the published evaluation's real data, which hang on nothing but
// the generator.
func TestFirstPermutations(t *testing.T) {
	set, err := open(t, "gpqa", false, "testdata/gpqa.csv")
	if err != nil {
		t.Fatal(err)
	}
	entries := set.Entries(8, 0)
	for i, want := range [][]int{{3, 1, 0, 2}, {3, 1, 2, 0}, {2, 3, 0, 1}} {
		if !slices.Equal(entries[i].Order, want) {
			t.Errorf("entry %d: %v, want %v", i, entries[i].Order, want)
		}
	}
}

// TestHash: the hash is that of the records, whatever the format they come in.
func TestHash(t *testing.T) {
	dir := t.TempDir()
	rows := []string{`{"question":"a\nb","answer":"7^\\circ"}`, `{"answer":8,"question":"c"}`}
	files := map[string]string{
		"x.jsonl": strings.Join(rows, "\n\n"), "x.json": "[" + strings.Join(rows, ",") + "]", "other": strings.Join(rows, "\r\n"),
		"x.csv": "\xef\xbb\xbfid,question,answer\r\n1,\"a\nb\",7^\\circ\r\n\r\n2,c,8",
	}
	sum := sha256.Sum256([]byte("a\nb\x1f7\x1ec\x1f8"))
	for name, text := range files {
		path := dir + "/" + name
		write(t, path, text)
		set, err := open(t, "aime25", true, path)
		if err != nil || set.SHA256 != hex.EncodeToString(sum[:]) || len(set.Questions) != 2 {
			t.Errorf("%s: %+v, %v", name, set, err)
		}
		packed, err := os.Create(path + ".gz")
		if err != nil {
			t.Fatal(err)
		}
		zip := gzip.NewWriter(packed)
		fmt.Fprint(zip, text)
		zip.Close()
		packed.Close()
		if again, err := open(t, "aime25", true, path+".gz"); err != nil || again.SHA256 != hex.EncodeToString(sum[:]) {
			t.Errorf("%s.gz: %v", name, err)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestBadData: each fault of a data set is one line that names file, row and what to do.
func TestBadData(t *testing.T) {
	const canary = "CANARY-question-text"
	head := "Question,Correct Answer,Incorrect Answer 1,Incorrect Answer 2,Incorrect Answer 3\n"
	row := canary + ",a,b,c,d\n"
	for _, c := range []struct{ name, task, text, want string }{
		{"missing column", "gpqa", "Question,Correct Answer\n" + canary + ",a\n", `x: no column "Incorrect Answer 1"`},
		{"other spelling", "aime25", `{"Question":"` + canary + `","answer":"1"}`, `no column "question", found "Question"`},
		{"no header", "gpqa", row + row, `no column "Question", found 5 others`},
		{"ragged", "gpqa", head + row + canary + ",a,b\n", "row 2 (line 3): 3 fields, the header has 5"},
		{"ragged, too many", "gpqa", head + row + canary + ",a,b,c,d,e\n", "row 2 (line 3): 6 fields"},
		{"open quote", "gpqa", head + row + `"` + canary, "row 2: line 3: a quote that is never closed"},
		{"NUL", "gpqa", head + canary + "\x00,a,b,c,d\n", "line 2: a byte of 0"},
		{"not UTF-8", "gpqa", head + canary + "\xff,a,b,c,d\n", "line 2: not UTF-8"},
		{"197 rows", "gpqa", head + strings.Repeat(row, 197), "197 rows; gpqa has 198; --any-data"},
		{"199 rows", "gpqa", head + strings.Repeat(row, 199), "199 rows; gpqa has 198"},
		{"empty option", "gpqa", head + strings.Repeat(row, 40) + canary + ",a,, ,d\n" + strings.Repeat(row, 157), `row 41 (line 42): column "Incorrect Answer 1": the option is empty`},
		{"no integer", "aime25", strings.Repeat(`{"question":"`+canary+`","answer":"x"}`+"\n", 30), `row 1 (line 1): column "answer": the answer is no integer`},
		{"null", "aime25", strings.Repeat(`{"question":"q","answer":"1"}`+"\n", 29) + `{"question":null,"answer":"1"}`, `row 30 (line 30): no column "question"`},
		{"half a line", "aime25", `{"question":"` + canary + `","answer":"1"}` + "\n{\"question\":\"q", "row 2 (line 2): the JSON ends early"},
		{"array of numbers", "aime25", "[1]", "row 1: expected an object, found a number"},
		{"parquet", "gpqa", "PAR1\x00\x00", "a Parquet file; give the CSV"},
		{"web page", "gpqa", "<!DOCTYPE html><html>" + canary, "a web page in place of the file"},
		{"pointer", "gpqa", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "a Git LFS pointer"},
		{"empty", "gpqa", "", "expected a header"},
		{"header alone", "gpqa", head, "no rows"},
		{"torn gzip", "gpqa", "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\x01", "damaged or cut"},
	} {
		path := t.TempDir() + "/x"
		write(t, path, c.text)
		_, err := open(t, c.task, false, path)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v; want %q and %s", c.name, err, c.want, path)
		}
		if err != nil && (strings.Contains(err.Error(), canary) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: shows a question, or has lines: %v", c.name, err)
		}
	}
	dir := t.TempDir()
	huge := dir + "/huge.csv"
	write(t, huge, "")
	if err := os.Truncate(huge, 2<<30); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{dir: "is a directory", dir + "/none": "no such file", huge: "has 2147483648 bytes; at most"} {
		if _, err := open(t, "gpqa", false, path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", path, err, want)
		}
	}
	if _, err := open(t, "gpqa", false); err == nil || !strings.Contains(err.Error(), "--dataset gpqa=FILE") {
		t.Errorf("no source: %v", err)
	}
	if _, err := Find("gpqq"); err == nil || !strings.Contains(err.Error(), "did you mean gpqa") {
		t.Errorf("unknown task: %v", err)
	}
}

// TestSources: data come over https and from a hub, into its cache; not by a redirect to http.
func TestSources(t *testing.T) {
	content, err := os.ReadFile("testdata/gpqa.csv")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(content)), content...))
	const commit = "0123456789abcdef0123456789abcdef01234567"
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/a/gpqa.csv", "/datasets/org/set/resolve/" + commit + "/gpqa_diamond.csv":
			w.Write(content)
		case "/away":
			http.Redirect(w, r, "http://example.com/", http.StatusFound)
		case "/endless":
			for range maxFile>>20 + 1 {
				w.Write(make([]byte, 1<<20))
			}
		case "/api/datasets/org/set/revision/main":
			json.NewEncoder(w).Encode(map[string]any{"sha": commit})
		case "/api/datasets/org/set/tree/" + commit:
			json.NewEncoder(w).Encode([]map[string]any{{"type": "file", "path": "gpqa_diamond.csv", "size": len(content), "oid": hex.EncodeToString(sum[:])}})
		default:
			http.NotFound(w, r)
		}
	})
	secure, endpoint := httptest.NewTLSServer(answer), httptest.NewServer(answer)
	defer secure.Close()
	defer endpoint.Close()
	from := Sources{Transport: secure.Client().Transport, Hub: func() (hub.Config, error) {
		return hub.Config{Endpoint: endpoint.URL, Cache: t.TempDir()}, nil
	}}
	task, err := Find("gpqa")
	if err != nil {
		t.Fatal(err)
	}
	local, err := open(t, "gpqa", false, "testdata/gpqa.csv")
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range []string{secure.URL + "/a/gpqa.csv", "hf:org/set", "hf:org/set@main/gpqa_diamond.csv"} {
		if set, err := task.Open(t.Context(), from, []string{source}, false); err != nil || set.SHA256 != local.SHA256 {
			t.Errorf("%s: %v", source, err)
		}
	}
	for source, want := range map[string]string{secure.URL + "/none": "404", secure.URL + "/away": "redirected away from https", secure.URL + "/endless": "more than 64 MiB", "hf:org/none": "not found", "hf:org/set/x.csv": `holds no file "x.csv"`} {
		if _, err := task.Open(t.Context(), from, []string{source}, false); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), source) {
			t.Errorf("%s: %v; want %q", source, err, want)
		}
	}
}

// TestAnyData: what cannot be asked is left out, and said.
func TestAnyData(t *testing.T) {
	path := t.TempDir() + "/x.jsonl"
	write(t, path, `{"question":"q","answer":"5 apples"}`+"\n"+`{"question":"r","answer":"none"}`+"\n")
	set, err := open(t, "aime25", true, path)
	if err != nil || len(set.Questions) != 1 || len(set.Notes) != 1 || !strings.Contains(set.Notes[0], "row 2 (line 2) is left out") {
		t.Fatalf("%+v, %v", set, err)
	}
	path = t.TempDir() + "/x.csv"
	write(t, path, "Question,Correct Answer,Incorrect Answer 1,Incorrect Answer 2,Incorrect Answer 3\nq,None,b,c,d\n")
	if set, err = open(t, "gpqa", true, path); err != nil || len(set.Notes) != 1 || !strings.Contains(set.Notes[0], "asks with nan") {
		t.Errorf("%+v, %v", set, err)
	}
}

// TestArithmetic: the questions made here are what they are, and all differ.
func TestArithmetic(t *testing.T) {
	for name, digits := range map[string]int{"arith": 4, "arith5": 5} {
		set, err := open(t, name, false)
		if err != nil || len(set.Questions) != 200 {
			t.Fatalf("%s: %v", name, err)
		}
		seen, minus := map[string]bool{}, 0
		for _, entry := range set.Entries(1, 0) {
			var a, b, want int
			if n, _ := fmt.Sscanf(entry.Prompt, "%d+%d", &a, &b); n == 2 {
				want = a + b
			} else if n, _ := fmt.Sscanf(entry.Prompt, "%d-%d", &a, &b); n == 2 {
				want = a - b
				minus++
			}
			if b < 0 { // Scanf takes the sign of a difference for that of b
				want, minus = a+b, minus+1
			}
			if fmt.Sprint(want) != entry.Right || len(fmt.Sprint(a)) != digits || seen[entry.Prompt] {
				t.Errorf("%s: %q is %s", name, entry.Prompt, entry.Right)
			}
			seen[entry.Prompt] = true
			if v := set.Task.Judge(" "+entry.Right+"\n", entry.Right); !v.ReferenceRight || !v.StrictRight {
				t.Errorf("%s: %+v", entry.Prompt, v)
			}
			if v := set.Task.Judge("x"+entry.Right, entry.Right); v.ReferenceRight || v.StrictRight {
				t.Errorf("%s: %+v", entry.Prompt, v)
			}
		}
	}
	if set, err := open(t, "arith", false, "file"); err == nil {
		t.Errorf("a data set of arith: %+v", set)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"a,b\n1,2\n", "\"a\"x,b\r\n\"1\n\",\"2\"\"\"\r\n", "[{\"a\":1}]", "{\"a\":null}\n{", "\x1f\x8b\x08", "a,b\n\"", ",\n,"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		rows, err := parse("x", data)
		if err == nil && len(rows) == 0 {
			t.Error("no rows and no error")
		}
		if _, err := readTask(data); err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("an error of lines: %q", err)
		}
	})
}
