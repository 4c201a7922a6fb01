package wasm

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero/experimental/sys"
)

// FuzzFrame: what is read is what was written, and anything else is an error before it takes memory.
func FuzzFrame(f *testing.F) {
	var written bytes.Buffer
	out := &frames{to: &written}
	out.send(printed, []byte("abc"))
	out.send(ready, nil)
	f.Add(written.Bytes())
	f.Add([]byte("o\xff\xff\xff\xff"))
	f.Add([]byte("x\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, sent []byte) {
		reader := bytes.NewReader(sent)
		var again bytes.Buffer
		for {
			got, err := readFrame(reader)
			if err != nil {
				break
			}
			(&frames{to: &again}).send(got.kind, got.data)
		}
		if !bytes.HasPrefix(sent, again.Bytes()) {
			t.Errorf("%q was read as %q", sent, again.Bytes())
		}
	})
}

// TestInside: no path leads out of the folder, and there are no links.
func TestInside(t *testing.T) {
	outer := t.TempDir()
	own := filepath.Join(outer, "own")
	if err := os.Mkdir(own, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(outer, "secret"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	files := within(own)
	for _, name := range []string{"../secret", "a/../../secret", "/etc/passwd", "..", "a/..", "./../secret", `..\secret`, "C:secret"} {
		_, openErr := files.OpenFile(name, sys.O_RDONLY, 0)
		_, statErr := files.Stat(name)
		_, lstatErr := files.Lstat(name)
		for i, err := range []sys.Errno{openErr, statErr, lstatErr, files.Mkdir(name, 0o700), files.Rmdir(name), files.Unlink(name), files.Rename(name, "x"), files.Rename("x", name), files.Utimens(name, 0, 0)} {
			if err != sys.EPERM {
				t.Errorf("%q, call %d: %v", name, i, err)
			}
		}
	}
	if files.Symlink("/", "l") == 0 || files.Link("a", "b") == 0 {
		t.Error("links can be made")
	}
	made, err := files.OpenFile("f..g", sys.O_RDWR|sys.O_CREAT, 0o600)
	if err != 0 {
		t.Fatal(err)
	}
	made.Close()
	if files.Mkdir("d", 0o700) != 0 || files.Rename("f..g", "d/g") != 0 || files.Unlink("d/g") != 0 || files.Rmdir("d") != 0 {
		t.Error("what is inside cannot be used")
	}
	if text, err := os.ReadFile(filepath.Join(outer, "secret")); err != nil || string(text) != "x" {
		t.Errorf("the file outside: %q %v", text, err)
	}
}

// TestOrder: a helper that is told nonsense says so.
func TestOrder(t *testing.T) {
	for _, text := range []string{"", "{", `{"file":"/nowhere","cache":"` + t.TempDir() + `"}`} {
		var said bytes.Buffer
		if err := interpret(text, &frames{to: &said}); err == nil || strings.Contains(err.Error(), "panic") {
			t.Errorf("%q: %v", text, err)
		}
	}
	if Helper([]string{"serve"}) || Helper(nil) {
		t.Error("it takes the program for its helper")
	}
}
