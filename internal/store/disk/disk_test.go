package disk

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// Where files have one name only, damaged ones are copied, over nothing.
func TestCopyFile(t *testing.T) {
	dir := t.TempDir()
	want := bytes.Repeat([]byte("damaged"), 5000)
	path := filepath.Join(dir, "file")
	if err := os.WriteFile(path, want, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() // read only
	to := path + DamagedSuffix + "2"
	if err := copyFile(file, int64(len(want)), to); err != nil {
		t.Fatal(err)
	}
	if err := copyFile(file, 1, to); !errors.Is(err, os.ErrExist) {
		t.Errorf("a copy over another: %v", err)
	}
	if got, err := os.ReadFile(to); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the copy has %d bytes, the file %d: %v", len(got), len(want), err)
	}
	if kept, err := KeptFiles(path); err != nil || len(kept) != 1 || kept[0] != to {
		t.Errorf("kept %v, %v", kept, err)
	}
}
