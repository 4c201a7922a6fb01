package ckpt

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ossian/internal/synth"
)

// What is done to a mapped file is seen, what is done around it is not.
func TestUnchanged(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(path string) error
		how  string // "" = nothing has changed
	}{
		{"nothing", func(string) error { return nil }, ""},
		{"cut", func(path string) error { return os.Truncate(path, 4096) }, "cut from"},
		{"longer", func(path string) error { return os.Truncate(path, 1<<20) }, "grew from"},
		{"overwritten in place", func(path string) error {
			time.Sleep(20 * time.Millisecond) // more than the steps of the clock that writers set
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt([]byte("other"), 20000)
			return errors.Join(err, f.Close())
		}, "written to at"},
		{"replaced", func(path string) error {
			return errors.Join(os.WriteFile(path+".new", []byte("other"), 0o644), os.Rename(path+".new", path))
		}, ""},
		{"removed", os.Remove, ""},
		{"permissions", func(path string) error { return os.Chmod(path, 0o600) }, ""},
		{"linked", func(path string) error { return os.Link(path, path+".link") }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, format := range []synth.Format{synth.HuggingFace, synth.GGUF} {
				path := writeSynth(t, "llama-tiny", synth.Options{Format: format})
				file := path
				if format == synth.HuggingFace {
					file = filepath.Join(path, "model.safetensors")
				}
				m := mustOpen(t, path)
				if err := c.do(file); err != nil {
					t.Fatal(err)
				}
				err := m.Unchanged()
				if !mapsFiles {
					c.how = ""
				}
				changed, ok := errors.AsType[*ChangedError](err)
				if ok != (c.how != "") || (err != nil && !ok) {
					t.Fatalf("got %v, want %q", err, c.how)
				}
				if ok && (changed.File != file || !strings.Contains(err.Error(), c.how)) {
					t.Errorf("%v: want the file %s and %q", err, file, c.how)
				}
				if err := m.Close(); err != nil || m.Unchanged() != nil {
					t.Errorf("closed: %v, %v", err, m.Unchanged())
				}
			}
		})
	}
}

// A page that is gone is an error of whoever reads it; another panic is not caught.
func TestGuard(t *testing.T) {
	if !mapsFiles {
		t.Skip("files are not mapped here")
	}
	path := writeSynth(t, "llama-tiny", synth.Options{})
	m := mustOpen(t, path)
	boom := errors.New("boom")
	if err := m.Guard(func() error { return boom }); err != boom {
		t.Errorf("got %v", err)
	}
	func() {
		defer func() {
			if recover() != "bug" {
				t.Error("a panic for another reason was caught")
			}
		}()
		_ = m.Guard(func() error { panic("bug") })
	}()
	if err := os.Truncate(filepath.Join(path, "model.safetensors"), 4096); err != nil {
		t.Fatal(err)
	}
	read := func() error {
		sum := 0
		for _, p := range m.Params {
			for i := range p.Rows() {
				for _, b := range p.Row(i).Data {
					sum += int(b)
				}
			}
		}
		return nil
	}
	if _, ok := errors.AsType[*ChangedError](m.Guard(read)); !ok {
		t.Error("reading what was cut off is no *ChangedError")
	}
	if err := m.Guard(func() error { return boom }); !errors.Is(err, boom) {
		t.Errorf("the error itself is lost: %v", err)
	}
	if _, ok := errors.AsType[*ChangedError](m.Verify(t.Context(), nil, nil)); !ok {
		t.Error("looking for damage in what was cut off is no *ChangedError")
	}
}

func BenchmarkUnchanged(b *testing.B) {
	m := mustOpen(b, writeSynth(b, "llama-tiny", synth.Options{}))
	for b.Loop() {
		if err := m.Unchanged(); err != nil {
			b.Fatal(err)
		}
	}
}
