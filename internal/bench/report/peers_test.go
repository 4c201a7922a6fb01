package report

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"ossian/internal/bench"
	"ossian/internal/bench/resultfile"
)

// TestPeers compares with what the tools themselves printed and wrote for the recorded
// runs in testdata/peers (their origin is in README.md and args.json there): the console
// byte by byte, numbers to 1e-9.
func TestPeers(t *testing.T) {
	recordings, err := filepath.Glob("testdata/peers/*/*/recording.json")
	if err != nil || len(recordings) < 25 {
		t.Fatalf("%d recordings, %v", len(recordings), err)
	}
	for _, path := range recordings {
		dir := filepath.Dir(path)
		t.Run(strings.TrimPrefix(filepath.ToSlash(dir), "testdata/peers/"), func(t *testing.T) {
			r, file := peer(t, dir)
			count := words
			if r.Setup.Tokenizer == "" {
				count = nil
			}
			s := Summarize(r, count)
			want := read1(t, dir, "console.txt")
			if more, err := os.ReadFile(filepath.Join(dir, "steady.txt")); err == nil {
				want += string(more)
			}
			got := s.Console()
			if strings.HasPrefix(want, "=") { // their file begins there
				got = got[strings.Index(got, "===="):]
			}
			sameText(t, got, want)
			if got := undated(s.FileName()); got != undated(file) {
				t.Errorf("file name %q, want %q", got, undated(file))
			}
			if r.Setup.Profile == bench.LMDeploy {
				samePeerCSV(t, csvHeader+s.csvRow(), read1(t, dir, "result.csv"))
				return
			}
			samePeerJSON(t, s, read1(t, dir, "result.json"))
		})
	}
}

// dated is the moment at which the result was saved, to the second: the recordings begin
// some time after their tools' clocks.
var dated = regexp.MustCompile(`20[0-9]{6}-[0-9]{6}|20[-0-9]{8}T[:0-9]{8}Z`)

// numbered is a profile as recordings have it that were made before it had a name there.
var numbered = regexp.MustCompile(`"Profile": ?[0-4]\b`)

func undated(text string) string { return dated.ReplaceAllString(text, "DATE") }

func sameText(t *testing.T, got, want string) {
	t.Helper()
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		if i >= len(g) || i >= len(w) || g[i] != w[i] {
			t.Fatalf("line %d:\ngot  %q\nwant %q", i+1, g[min(i, len(g)):min(i+1, len(g))], w[min(i, len(w)):min(i+1, len(w))])
		}
	}
}

// peer reads a recording; a rate of 0 stands for all at once, which JSON cannot say.
func peer(t *testing.T, dir string) (*bench.Recording, string) {
	t.Helper()
	r := &bench.Recording{}
	text := read1(t, dir, "recording.json")
	text = numbered.ReplaceAllStringFunc(text, func(m string) string {
		return fmt.Sprintf(`"Profile":%q`, bench.Profile(m[len(m)-1]-'0'))
	})
	if err := json.Unmarshal([]byte(text), r); err != nil {
		t.Fatal(err)
	}
	if r.Setup.Arrivals.Rate == 0 {
		r.Setup.Arrivals.Rate = math.Inf(1)
	}
	var args struct {
		Argv []string
		File string
	}
	if err := json.Unmarshal([]byte(read1(t, dir, "args.json")), &args); err != nil {
		t.Fatal(err)
	}
	r.Setup.Args = args.Argv
	return r, args.File
}

func read1(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// samePeerJSON checks keys, their order, and values; the key ossian is ours.
func samePeerJSON(t *testing.T, s *Summary, want string) {
	t.Helper()
	detailed := strings.Contains(want, `"ttfts"`)
	line, err := s.JSON(detailed)
	if err != nil {
		t.Fatal(err)
	}
	want = undated(string(resultfile.PlainJSON([]byte(want))))
	line = []byte(undated(string(resultfile.PlainJSON(line))))
	got, wanted := keys(t, string(line)), keys(t, want)
	if strings.Join(got, " ") != strings.Join(append(wanted, "ossian"), " ") {
		t.Errorf("keys\n%s, want\n%s ossian", strings.Join(got, " "), strings.Join(wanted, " "))
	}
	var g, w map[string]any
	if json.Unmarshal(line, &g) != nil || json.Unmarshal([]byte(want), &w) != nil {
		t.Fatal("not JSON")
	}
	for key := range w {
		if where := differ(g[key], w[key]); where != "" {
			t.Errorf("%s%s", key, where)
		}
	}
}

// keys are the members of an object, in order.
func keys(t *testing.T, text string) []string {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	var out []string
	for d.More() {
		key, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		var skip json.RawMessage
		if err := d.Decode(&skip); err != nil {
			t.Fatal(err)
		}
		out = append(out, key.(string))
	}
	return out
}

func samePeerCSV(t *testing.T, got, want string) {
	t.Helper()
	g, err := csv.NewReader(strings.NewReader(got)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	w, err := csv.NewReader(strings.NewReader(want)).ReadAll()
	if err != nil || len(g) != 2 || len(w) != 2 || strings.Join(g[0], ",") != strings.Join(w[0], ",") {
		t.Fatalf("header %v, want %v (%v)", g[0], w[0], err)
	}
	for i, cell := range w[1] {
		a, errA := strconv.ParseFloat(g[1][i], 64)
		b, errB := strconv.ParseFloat(cell, 64)
		number := errA == nil && errB == nil && cell != "nan"
		if (number && a != b && !(math.Abs(a-b) <= 1e-9*max(1, math.Abs(b)))) || (!number && g[1][i] != cell) {
			t.Errorf("%s: %s, want %s", w[0][i], g[1][i], cell)
		}
	}
}
