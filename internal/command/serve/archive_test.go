package serve

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ossian/internal/config"
	"ossian/internal/limits"
	"ossian/internal/store"
)

func archiveOf(where string, port int) *config.Config {
	c := &config.Config{}
	c.Store, c.Port, c.Limits = where, port, limits.Defaults()
	return c
}

// A port's responses have a directory of their own; who asked for none has none.
func TestArchiveDir(t *testing.T) {
	state := t.TempDir()
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	for _, tt := range []struct {
		name, state, where string
		port               int
		want               string
	}{
		{"port", state, "auto", 8000, filepath.Join(state, "ossian", "responses-8000")},
		{"home", "", "auto", 8001, filepath.Join(home, ".local", "state", "ossian", "responses-8001")},
		{"any port", state, "auto", 0, "memory"},
		{"no place", "relative", "auto", 8000, "memory"},
		{"memory", state, "memory", 8000, "memory"},
		{"named", state, "/x/y", 0, "/x/y"},
	} {
		t.Setenv("XDG_STATE_HOME", tt.state)
		c := archiveOf(tt.where, tt.port)
		if got := archiveDir(c); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
		if bytes := archiveBytes(c); (bytes > 0) != (tt.want == "memory") {
			t.Errorf("%s: %d bytes of memory", tt.name, bytes)
		}
	}
}

// A directory that was named is used or refused; the default one is used or passed over.
func TestOpenArchive(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	first, err := openArchive(archiveOf("auto", 8000), log)
	if err != nil {
		t.Fatal(err)
	}
	dir := archiveDir(archiveOf("auto", 8000))
	if _, err := openArchive(archiveOf(dir, 0), log); !errors.Is(err, store.ErrLocked) {
		t.Errorf("a second server of the directory: %v", err)
	}
	c := archiveOf("auto", 8000)
	second, err := openArchive(c, log)
	if err != nil || second.key != nil || c.Store != "memory" {
		t.Errorf("a second server of the port: store %s, %v", c.Store, err)
	}
	second.close(log)
	key := *first.key
	first.close(log)
	again, err := openArchive(archiveOf(dir, 0), log)
	if err != nil || *again.key != key || key == [32]byte{} {
		t.Fatalf("the key has changed: %v", err)
	}
	again.close(log)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openArchive(archiveOf(file, 0), log); err == nil || err.Error() != "--store "+file+": "+file+" is a file, where a folder is needed; name a folder that can be written to" {
		t.Errorf("a file for the directory: %v", err)
	}
	name := filepath.Join(dir, "seal.key")
	if info, err := os.Stat(name); err != nil || (info.Mode().Perm()&0o077 != 0 && filepath.Separator == '/') {
		t.Errorf("others may read the key: %v, %v", info.Mode(), err)
	}
	if err := os.WriteFile(name, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openArchive(archiveOf(dir, 0), log); err == nil || !strings.Contains(err.Error(), "has 5 bytes, expected 32") {
		t.Errorf("a damaged key: %v", err)
	}
}
