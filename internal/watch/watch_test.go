package watch

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

const small = 100_000

// fresh returns a watched file of size bytes that has been found unchanged once.
func fresh(t testing.TB, size int64) (*File, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("the head"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, size); err != nil { // a hole: no disk for large ones
		t.Fatal(err)
	}
	disk, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { disk.Close() })
	was, err := disk.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return New(disk, was), path
}

// write puts text into a file in place, later than the clock that writers set can hide.
func write(path, text string, at int64) error {
	time.Sleep(20 * time.Millisecond)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte(text), at)
	return errors.Join(err, f.Close())
}

// What is done to a file that leaves its content is no change; what changes it is one, whatever
// its times say afterwards.
func TestDiffers(t *testing.T) {
	old := time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		name string
		size int64
		do   func(path string, was os.FileInfo) error
		how  string
	}{
		{"nothing", small, func(string, os.FileInfo) error { return nil }, ""},
		{"touched", small, func(path string, _ os.FileInfo) error { return os.Chtimes(path, time.Now(), time.Now()) }, ""},
		{"made old", small, func(path string, _ os.FileInfo) error { return os.Chtimes(path, old, old) }, ""},
		{"written with the same", small, func(path string, _ os.FileInfo) error { return write(path, "the head", 0) }, ""},
		{"written with other", small, func(path string, _ os.FileInfo) error { return write(path, "other", 20_000) }, "written to at"},
		{"last byte", small, func(path string, _ os.FileInfo) error { return write(path, "x", small-1) }, "written to at"},
		{"time put back", small, func(path string, was os.FileInfo) error {
			return errors.Join(write(path, "other", 20_000), os.Chtimes(path, was.ModTime(), was.ModTime()))
		}, "its time put back"},
		{"cut", small, func(path string, _ os.FileInfo) error { return os.Truncate(path, 10) }, "was cut from"},
		{"longer", small, func(path string, _ os.FileInfo) error { return os.Truncate(path, 2*small) }, "grew from"},
		{"permissions", small, func(path string, _ os.FileInfo) error { return os.Chmod(path, 0o600) }, ""},
		{"linked", small, func(path string, _ os.FileInfo) error { return os.Link(path, path+".link") }, ""},
		{"removed", small, func(path string, _ os.FileInfo) error { return os.Remove(path) }, ""},
		{"large and touched", 3 * wholeBytes, func(path string, _ os.FileInfo) error { return os.Chtimes(path, old, old) }, ""},
		{"head of a large one", 3 * wholeBytes, func(path string, _ os.FileInfo) error { return write(path, "x", headBytes-1) }, "written to at"},
		{"stretch of a large one", 3 * wholeBytes, func(path string, _ os.FileInfo) error {
			return write(path, strings.Repeat("x", 3*wholeBytes/samples), 2*wholeBytes+12345)
		}, "written to at"},
		{"end of a large one", 3 * wholeBytes, func(path string, _ os.FileInfo) error { return write(path, "x", 3*wholeBytes-1) }, "written to at"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if runtime.GOOS != "linux" && strings.Contains(c.how, "put back") {
				t.Skip("this system does not tell when a file changed, but for a time that a writer may put back")
			}
			f, path := fresh(t, c.size)
			if how := f.Differs(); how != "" {
				t.Fatalf("before: %s", how)
			}
			if err := c.do(path, f.was); err != nil {
				t.Fatal(err)
			}
			for range 2 { // and it stays so
				if how := f.Differs(); (how == "") != (c.how == "") || !strings.Contains(how, c.how) {
					t.Errorf("got %q, want %q", how, c.how)
				}
			}
			if c.how == "" && c.name != "removed" { // and later changes are seen
				if err := write(path, "later", 3); err != nil {
					t.Fatal(err)
				}
				if how := f.Differs(); !strings.Contains(how, "written to at") {
					t.Errorf("changed later: %q", how)
				}
			}
		})
	}
}

// Before anything is known of the content, whoever wrote may have changed it.
func TestFirstCall(t *testing.T) {
	f, path := fresh(t, small)
	if err := write(path, "the head", 0); err != nil {
		t.Fatal(err)
	}
	if how := f.Differs(); !strings.Contains(how, "written to at") {
		t.Errorf("got %q", how)
	}
}

func BenchmarkDiffers(b *testing.B) {
	f, _ := fresh(b, small)
	for b.Loop() {
		if how := f.Differs(); how != "" {
			b.Fatal(how)
		}
	}
}
