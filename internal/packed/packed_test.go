package packed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"ossian/internal/soak"
)

// example has sections of one piece, of several, and of whole pages.
func example(source string) *Content {
	return &Content{Source: source, Sections: []Section{
		{"a", 100, 1000}, {"b \n é", 20_000, 6_001}, {"c", 2 * align, align}, {"d", 1, 1}}}
}

// bytesOf are the contents of a section.
func bytesOf(c *Content, i int) []byte {
	rng := rand.New(rand.NewPCG(uint64(i), uint64(len(c.Source))))
	b := make([]byte, c.Sections[i].Bytes)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// fill writes all pieces, from several goroutines.
func fill(t testing.TB, w *Writer, c *Content) {
	t.Helper()
	var all sync.WaitGroup
	for i := range c.Sections {
		all.Go(func() {
			b, n := bytesOf(c, i), c.Sections[i].Piece
			for k := 0; k*n < len(b); k++ {
				if err := w.Write(i, k, b[k*n:min((k+1)*n, len(b))]); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	w.Mark(2)
}

func write(t testing.TB, prefix string, c *Content) {
	t.Helper()
	w, err := Create(prefix, c, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, w, c)
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
}

// use opens and loads the file as a program does.
func use(t testing.TB, prefix string, c *Content) (*File, error) {
	f, err := Open(prefix, c)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { f.Close() })
	return f, f.Load(t.Context(), true, nil)
}

// same reports whether f holds what c says.
func same(f *File, c *Content) bool {
	for i := range c.Sections {
		if b, mark := f.Section(i); !bytes.Equal(b, bytesOf(c, i)) || mark != (i == 2) {
			return false
		}
	}
	return true
}

func skipUnsupported(t testing.TB) {
	t.Helper()
	if !supported {
		t.Skip("this platform keeps no packed files")
	}
}

func TestFile(t *testing.T) {
	skipUnsupported(t)
	prefix, c := filepath.Join(t.TempDir(), "m.gguf.packed"), example("one")
	if _, err := Open(prefix, c); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("before anything was written: %v", err)
	}
	write(t, prefix, c)
	f, err := use(t, prefix, c)
	if err != nil {
		t.Fatal(err)
	}
	if !same(f, c) || Usable(prefix, c) != nil {
		t.Error("the file does not hold what was written")
	}
	var loaded int64
	var mu sync.Mutex
	if err := f.Load(t.Context(), false, func(n int64) { mu.Lock(); loaded += n; mu.Unlock() }); err != nil || loaded != 100+20_000+2*align+1 {
		t.Errorf("%d bytes loaded, %v", loaded, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.Load(ctx, true, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled load: %v", err)
	}
	found, err := Find(prefix)
	if err != nil || !slices.Equal(found, []Entry{{c.Path(prefix), c.Bytes()}}) {
		t.Errorf("found %v, %v", found, err)
	}
	info, err := os.Stat(f.Path())
	if err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// A file is used for its own content only, and other content leaves it alone or
// replaces it.
func TestOther(t *testing.T) {
	skipUnsupported(t)
	prefix, c := filepath.Join(t.TempDir(), "packed"), example("one")
	write(t, prefix, c)
	refused := func(name string, c *Content, want string) {
		t.Helper()
		if _, err := use(t, prefix, c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	refused("a source of the same length", example("two"), "from other files")
	refused("a longer source", example("three"), "from other files")
	other := example("one")
	other.Sections[1].Name = "b"
	refused("other sections", other, "no such file")
	write(t, prefix, other)
	if f, err := use(t, prefix, c); err != nil || !same(f, c) {
		t.Errorf("after the file of other sections was written: %v", err)
	}
	write(t, prefix, example("three"))
	refused("a replaced file", c, "from other files")
	for name, change := range map[string]func(h []byte){
		"version":   func(h []byte) { h[8]++ },
		"it is no ": func(h []byte) { h[0]++ },
	} {
		write(t, prefix, c)
		h, err := os.ReadFile(c.Path(prefix))
		if err != nil {
			t.Fatal(err)
		}
		change(h)
		if err := os.WriteFile(c.Path(prefix), h, 0o644); err != nil {
			t.Fatal(err)
		}
		refused(name, c, name)
	}
	if err := os.Remove(c.Path(prefix)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(c.Path(prefix), 0o755); err != nil {
		t.Fatal(err)
	}
	refused("a directory", c, "no regular file")
}

// CKP-2: whatever bit is flipped and wherever the file is cut, it is refused, or what is
// read is as written.
func TestCKP2Packed(t *testing.T) {
	skipUnsupported(t)
	prefix, c := filepath.Join(t.TempDir(), "packed"), example("one")
	write(t, prefix, c)
	path := c.Path(prefix)
	sound, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, data []byte) (used bool) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		f, err := Open(prefix, c)
		if err != nil {
			return false
		}
		defer f.Close()
		if f.Load(t.Context(), true, nil) != nil {
			return false
		}
		if !same(f, c) {
			t.Errorf("%s: used, and not as written", what)
		}
		return true
	}
	rng := rand.New(rand.NewPCG(5, 5))
	flips, cuts, harmless := soak.Cases(t, 1000, 10_000), soak.Cases(t, 100, 1000), 0
	for range flips {
		at, bit := rng.IntN(len(sound)), rng.IntN(8)
		sound[at] ^= 1 << bit
		if check(fmt.Sprintf("bit %d of byte %d", bit, at), sound) {
			harmless++
		}
		sound[at] ^= 1 << bit
	}
	for range cuts {
		n := rng.IntN(len(sound))
		if check(fmt.Sprintf("cut to %d bytes", n), sound[:n]) {
			t.Errorf("cut to %d bytes: used", n)
		}
	}
	if check("longer", append(bytes.Clone(sound), 0)) {
		t.Error("a file with a byte too many was used")
	}
	if !check("sound", sound) {
		t.Error("the sound file was refused")
	}
	padding := 1 - float64(c.layOut().header+100+20_000+2*align+1)/float64(len(sound))
	if share := float64(harmless) / float64(flips); share > padding+0.1 {
		t.Errorf("%.0f %% of the flips had no effect, %.0f %% of the file are padding", 100*share, 100*padding)
	}
	t.Logf("CKP-2: %d flips of a bit, %d of them between the sections, and %d truncations of a packed file, none used", flips, harmless, cuts)
}

// A file that is cut while it is mapped is an error of Load, not of the process.
func TestCutWhileMapped(t *testing.T) {
	skipUnsupported(t)
	prefix, c := filepath.Join(t.TempDir(), "packed"), example("one")
	write(t, prefix, c)
	f, err := Open(prefix, c)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Truncate(f.Path(), align); err != nil {
		t.Fatal(err)
	}
	if err := f.Load(t.Context(), true, nil); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("got %v", err)
	}
}

// A writer that dies leaves nothing that is used, and the next one removes what it left.
func TestInterrupted(t *testing.T) {
	skipUnsupported(t)
	prefix, c := filepath.Join(t.TempDir(), "packed"), example("one")
	w, err := Create(prefix, c, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, w, c)
	if _, err := Create(prefix, c, 0o600); !errors.Is(err, ErrBusy) {
		t.Errorf("a second writer: %v", err)
	}
	if removed, err := Remove(prefix); err != nil || len(removed) != 0 {
		t.Errorf("removed %v while it is written, %v", removed, err)
	}
	w.disk.Close() // as the end of a process does
	if _, err := Open(prefix, c); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after the writer died: %v", err)
	}
	other := example("one")
	other.Sections = other.Sections[:2]
	if w, err = Create(prefix, other, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(c.Path(prefix) + partial); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the leftover is still there: %v", err)
	}
	if err := w.Abort(); err != nil {
		t.Error(err)
	}
	keep := prefix + "-notes.txt"
	for _, name := range []string{keep, c.Path(prefix) + partial} {
		if err := os.WriteFile(name, bytes.Repeat([]byte("x"), 1<<20), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(t, prefix, c) // over a leftover of its own name, which is longer
	if f, err := use(t, prefix, c); err != nil || !same(f, c) {
		t.Errorf("after a leftover: %v", err)
	}
	if removed, err := Remove(prefix); err != nil || len(removed) != 1 {
		t.Errorf("removed %v, %v", removed, err)
	}
	if left, err := Find(prefix); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
	if _, err := os.Stat(keep); err != nil {
		t.Errorf("another file: %v", err)
	}
}

// Many writers and readers at once: what is opened is whole.
func TestConcurrent(t *testing.T) {
	skipUnsupported(t)
	prefix, c := filepath.Join(t.TempDir(), "packed"), example("one")
	var all sync.WaitGroup
	var wrote, busy sync.Map
	for g := range 8 {
		all.Go(func() {
			for i := range 8 {
				w, err := Create(prefix, c, 0o644)
				if errors.Is(err, ErrBusy) {
					busy.Store([2]int{g, i}, true)
				} else if err != nil {
					t.Error(err)
				} else {
					fill(t, w, c)
					if err := w.Commit(); err != nil {
						t.Error(err)
					}
					wrote.Store([2]int{g, i}, true)
				}
				f, err := Open(prefix, c)
				if errors.Is(err, os.ErrNotExist) {
					continue // nobody was done yet
				} else if err != nil {
					t.Error(err)
					continue
				}
				if err := f.Load(context.Background(), true, nil); err != nil || !same(f, c) {
					t.Errorf("not whole: %v", err)
				}
				f.Close()
			}
		})
	}
	all.Wait()
	count := func(m *sync.Map) (n int) {
		m.Range(func(any, any) bool { n++; return true })
		return n
	}
	if count(&wrote) == 0 || count(&wrote)+count(&busy) != 64 {
		t.Errorf("%d written, %d refused, want 64 together", count(&wrote), count(&busy))
	}
	if found, err := Find(prefix); err != nil || len(found) != 1 {
		t.Errorf("left %v, %v", found, err)
	}
}

// Where there is no room, no folder or no permission, Create says so and leaves nothing.
func TestImpossible(t *testing.T) {
	skipUnsupported(t)
	dir, c := t.TempDir(), example("one")
	prefix := filepath.Join(dir, "packed")
	if _, err := Create(filepath.Join(dir, "none", "packed"), c, 0o644); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
	if os.Getuid() != 0 {
		if err := os.Chmod(dir, 0o555); err != nil {
			t.Fatal(err)
		}
		if _, err := Create(prefix, c, 0o644); !errors.Is(err, os.ErrPermission) {
			t.Errorf("no permission: %v", err)
		}
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	real := freeSpace
	defer func() { freeSpace = real }()
	freeSpace = func(string) int64 { return spare + c.Bytes() - 1 }
	if _, err := Create(prefix, c, 0o644); err == nil || !strings.Contains(err.Error(), "are free") {
		t.Errorf("no room: %v", err)
	}
	if err := os.WriteFile(prefix+"-01234567"+partial, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Possible(prefix, c); err != nil {
		t.Errorf("with a byte to gain from a leftover: %v", err)
	}
	freeSpace = func(string) int64 { return -1 }
	w, err := Create(prefix, c, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(0, 0, make([]byte, 99)); err == nil {
		t.Error("a short piece was taken")
	}
	w.disk.Close() // writing fails from here on
	if err := w.Write(0, 0, make([]byte, 100)); err == nil {
		t.Error("a write that failed was not noticed")
	}
	if err := w.Commit(); err == nil {
		t.Error("a file that could not be written was committed")
	}
	if left, err := Find(prefix); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

// FuzzHeader: what is taken for a header is what encode writes.
func FuzzHeader(f *testing.F) {
	c := example("one")
	l := c.layOut()
	sound := l.encode(make([]byte, len(c.Sections)), make([]uint32, l.pieces))
	f.Add(sound)
	f.Add(sound[:40])
	f.Add(append(bytes.Clone(sound), 1, 2, 3))
	f.Add([]byte(magic))
	other := example("two")
	f.Add(other.layOut().encode(make([]byte, len(c.Sections)), make([]uint32, l.pieces)))
	f.Fuzz(func(t *testing.T, h []byte) {
		marks, sums, err := l.decode(h)
		if err == nil && !bytes.Equal(l.encode(marks, sums), h[:l.header]) {
			t.Errorf("taken for a header: %q", h)
		}
	})
}
