package ledger

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// noon is when the tests' lines are written.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// written makes a ledger of n notes and returns its directory.
func written(t *testing.T, n int) string {
	t.Helper()
	dir := t.TempDir()
	l, _, _, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, err := l.Append(noon, Line{Kind: KindNote, Note: &Note{Text: strings.Repeat("x", i)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestAppendThenOpen(t *testing.T) {
	dir := written(t, 3)
	l, lines, torn, err := Open(dir)
	if err != nil || len(lines) != 3 || len(torn) != 0 {
		t.Fatalf("%d lines, torn %q, error %v", len(lines), torn, err)
	}
	defer l.Close()
	if lines[0].Prev != "" || lines[2].N != 3 || !lines[2].At.Equal(noon) || lines[2].Note.Text != "xx" {
		t.Errorf("lines came back as %+v", lines)
	}
	added, err := l.Append(noon, Line{Kind: KindEnd, End: &End{State: "done"}})
	if err != nil || added.N != 4 || len(added.Prev) != 64 {
		t.Errorf("appended %+v, %v", added, err)
	}
	read, err := Read(dir)
	if err != nil || len(read) != 4 || !reflect.DeepEqual(read[3], added) {
		t.Errorf("read %+v, %v", read, err)
	}
}

// TestTornAnywhere cuts a ledger at every byte: every line before the cut is there, and the next line
// goes on from them.
func TestTornAnywhere(t *testing.T) {
	whole, err := os.ReadFile(filepath.Join(written(t, 4), FileName))
	if err != nil {
		t.Fatal(err)
	}
	for cut := range whole {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, FileName), whole[:cut], 0o644); err != nil {
			t.Fatal(err)
		}
		l, lines, torn, err := Open(dir)
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		kept := strings.Count(string(whole[:cut]), "\n")
		rest := whole[:cut][strings.LastIndexByte(string(whole[:cut]), '\n')+1:]
		if len(lines) != kept || string(torn) != string(rest) {
			t.Fatalf("cut at %d: %d lines of %d, torn %q", cut, len(lines), kept, torn)
		}
		if _, err := l.Append(noon, Line{Kind: KindNote, Note: &Note{Text: "on"}}); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if read, err := Read(dir); err != nil || len(read) != kept+1 {
			t.Fatalf("cut at %d: read %d lines, %v", cut, len(read), err)
		}
	}
}

// TestBroken changes ledgers in ways that no crash does.
func TestBroken(t *testing.T) {
	whole, err := os.ReadFile(filepath.Join(written(t, 4), FileName))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(whole), "\n")
	for _, tt := range []struct {
		name, text string
		line       int
		why        string
	}{
		{"changed", strings.Replace(string(whole), `"text":"x"`, `"text":"y"`, 1), 3, "digest"},
		{"missing", lines[0] + lines[2] + lines[3], 2, "numbered 3"},
		{"swapped", lines[0] + lines[2] + lines[1], 2, "numbered 3"},
		{"garbage within", lines[0] + "{\n" + lines[1], 2, "not a line"},
		{"another kind", strings.Replace(lines[0], `"kind":"note"`, `"kind":"trial"`, 1), 1, "without its facts"},
		{"unknown member", strings.Replace(lines[0], `"kind"`, `"kinds"`, 1), 1, "not a line"},
		{"two in one", strings.TrimSuffix(lines[0], "\n") + lines[1], 1, "more than one"},
		{"endless", lines[0] + strings.Repeat("x", maxLine+1) + "\n", 2, "longer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, FileName)
			if err := os.WriteFile(file, []byte(tt.text), 0o644); err != nil {
				t.Fatal(err)
			}
			_, _, _, err := Open(dir)
			var broken *BrokenError
			if !errors.As(err, &broken) || broken.Line != tt.line || !strings.Contains(broken.Why, tt.why) {
				t.Errorf("opened with %v", err)
			}
			if got, err := Read(dir); !errors.As(err, &broken) || len(got) != tt.line-1 {
				t.Errorf("read %d lines, %v", len(got), err)
			}
			if after, err := os.ReadFile(file); err != nil || string(after) != tt.text {
				t.Errorf("the file was changed: %v", err)
			}
		})
	}
}

func TestOneWriter(t *testing.T) {
	dir := written(t, 1)
	l, _, _, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := Open(dir); !errors.Is(err, ErrInUse) {
		t.Errorf("opened twice: %v", err)
	}
	if lines, err := Read(dir); err != nil || len(lines) != 1 {
		t.Errorf("read while it is written: %d lines, %v", len(lines), err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	again, _, _, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

// TestNoRoom appends to a file that takes nothing: the error says so, and stays.
func TestNoRoom(t *testing.T) {
	dir := written(t, 1)
	l, _, _, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	l.file.Close()
	for range 2 {
		if _, err := l.Append(noon, Line{Kind: KindNote, Note: &Note{}}); err == nil || !strings.Contains(err.Error(), "bytes") {
			t.Errorf("appended: %v", err)
		}
	}
	if lines, err := Read(dir); err != nil || len(lines) != 1 {
		t.Errorf("read %d lines, %v", len(lines), err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("{}\n"))
	f.Add([]byte(`{"n":1,"at":"2026-01-02T12:00:00Z","kind":"note","prev":"","note":{"text":""}}` + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		chain := chain{name: "ledger"}
		lines, torn, err := chain.read(strings.NewReader(string(text)))
		if err == nil && chain.size+int64(len(torn)) != int64(len(text)) {
			t.Errorf("%d bytes of lines and %d torn of %d", chain.size, len(torn), len(text))
		}
		for i, line := range lines {
			if line.N != i+1 || !line.whole() {
				t.Errorf("line %d is %+v", i+1, line)
			}
		}
	})
}
