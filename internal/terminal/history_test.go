package terminal

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

func TestHistory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "ossian", "history")
	first, err := OpenHistory(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"a", "a", " ", "two\nlines \"quoted\" \x1b", "b"} {
		if err := first.Add(text); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"a", "two\nlines \"quoted\" \x1b", "b"}
	second, err := OpenHistory(path)
	if err != nil || !slices.Equal(second.entries, want) {
		t.Errorf("%q, %v; expected %q", second.entries, err, want)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v", info.Mode())
	}
	if long := strings.Repeat("x", maxEntry+1); first.Add(long) != nil || first.entries[len(first.entries)-1] != long {
		t.Error("a long entry is not kept until the end")
	}
	if info, _ := os.Stat(path); info.Size() > 1000 {
		t.Errorf("the file has %d bytes", info.Size())
	}
}

// The file stays bounded, whatever is in it, and what others could read they cannot any more.
func TestHistoryBounds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	var text strings.Builder
	text.WriteString("half a li\n{}\n\"\"\n")
	for n := range 3 * maxEntries {
		fmt.Fprintf(&text, "\"entry %d\"\n", n)
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	h, err := OpenHistory(path)
	if err != nil || len(h.entries) != maxEntries || h.entries[0] != fmt.Sprintf("entry %d", 2*maxEntries) {
		t.Fatalf("%d entries, %v", len(h.entries), err)
	}
	if err := h.Add("last"); err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile(path)
	if lines := strings.Count(string(kept), "\n"); err != nil || lines != maxEntries+1 || !strings.HasSuffix(string(kept), "\"last\"\n") {
		t.Errorf("%d lines in the file, %v", lines, err)
	}
	if info, _ := os.Stat(path); runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("the file has mode %v", info.Mode())
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".history-*")); len(left) > 0 {
		t.Errorf("left over: %q", left)
	}
	if err := os.WriteFile(path, []byte(strings.Repeat("x", 9*maxEntry)), 0o600); err != nil { // no line at all
		t.Fatal(err)
	}
	if _, err := OpenHistory(path); err != nil {
		t.Error(err)
	}
	if info, _ := os.Stat(path); info.Size() != 0 {
		t.Errorf("the file has %d bytes", info.Size())
	}
}

// Without a place for the file there is a history all the same, and the error comes once.
func TestHistoryWithoutFile(t *testing.T) {
	inTheWay := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(inTheWay, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := OpenHistory(filepath.Join(inTheWay, "history"))
	if err == nil {
		t.Error("no error")
	}
	if err := h.Add("a"); err != nil || !slices.Equal(h.entries, []string{"a"}) {
		t.Errorf("%q, %v", h.entries, err)
	}
	dir := filepath.Join(t.TempDir(), "gone")
	if h, err = OpenHistory(filepath.Join(dir, "history")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if h.Add("a") == nil || h.Add("b") != nil || len(h.entries) != 2 {
		t.Errorf("the error of the file does not come once; %q", h.entries)
	}
}

// Whatever a file holds, what is added can be read again.
func FuzzHistory(f *testing.F) {
	f.Add("\"a\"\n", "b")
	f.Add("\xff{[\n\"\\ud800\"", "\n")
	f.Fuzz(func(t *testing.T, text, entry string) {
		path := filepath.Join(t.TempDir(), "history")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		h, err := OpenHistory(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := h.Add(entry); err != nil {
			t.Fatal(err)
		}
		again, err := OpenHistory(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(text, "\n") || strings.TrimSpace(entry) == "" || len(entry) > maxEntry {
			return // behind half a line, or nothing to keep
		}
		line, err := json.Marshal(entry) // which replaces what is not UTF-8
		if err != nil {
			t.Fatal(err)
		}
		var want string
		if err := json.Unmarshal(line, &want); err != nil {
			t.Fatal(err)
		}
		if count := len(again.entries); count == 0 || again.entries[count-1] != want {
			t.Errorf("%q behind %q is read as %q", entry, text, again.entries)
		}
	})
}
