package packed

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// After Load every page is mapped, whether or not it was compared or in the page cache,
// and wherever pieces begin.
func TestLoadMaps(t *testing.T) {
	c := &Content{Sections: []Section{{"a", 48_000_001, 999_999}, {"b", 5000, 5000}}}
	prefix := filepath.Join(t.TempDir(), "packed")
	w, err := Create(prefix, c, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	w.marks[1] = 1
	for i := range c.Sections {
		b, n := make([]byte, c.Sections[i].Bytes), c.Sections[i].Piece
		for k := 0; k*n < len(b); k++ {
			if err := w.Write(i, k, b[k*n:min((k+1)*n, len(b))]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	f, err := Open(prefix, c)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Fadvise(int(f.disk.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
	before := mapped(t, f.path)
	touch(f.data[:1])
	if around := mapped(t, f.path) - before; around < 60 {
		t.Skipf("this kernel maps %d KB at a fault", around)
	}
	if err := f.Load(t.Context(), false, nil); err != nil {
		t.Fatal(err)
	}
	if after := mapped(t, f.path); after < 46_000 || before > 8_000 {
		t.Errorf("%d KB of 46,876 are mapped, before Load %d", after, before)
	}
}

// mapped returns how much of a file this process has mapped and in memory, in KB.
func mapped(t *testing.T, path string) (kb int) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Skipf("this system does not show what is mapped: %v", err)
	}
	_, after, ok := strings.Cut(string(text), path)
	_, after, found := strings.Cut(after, "\nRss:")
	if _, err := fmt.Sscan(after, &kb); !ok || !found || err != nil {
		t.Fatalf("%s is not in /proc/self/smaps: %v", path, err)
	}
	return kb
}
