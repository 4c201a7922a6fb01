package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOutput: what cannot be written is named with its reason, what can is left as it was.
func TestOutput(t *testing.T) {
	dir := t.TempDir()
	at := func(names ...string) string { return filepath.Join(append([]string{dir}, names...)...) }
	if err := os.WriteFile(at("file"), []byte("kept"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, sub := range []string{"folder", "locked"} {
		if err := os.Mkdir(at(sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(at("locked", "file"), nil, 0o444); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(at("locked"), 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(at("locked"), 0o755) })
	const asFile, asFolder = "; name a file that can be written", "; name a folder that can be written to"
	for _, c := range []struct {
		name         string
		try          func(option, path string) error
		path, refuse string // "" = fine
		forbidden    bool   // only to those who may not do everything
	}{
		{"no file", OutputFile, "", "", false},
		{"no folder", OutputFolder, "", "", false},
		{"a new file", OutputFile, at("new"), "", false},
		{"a file of new folders", OutputFile, at("new", "er", "file"), "", false},
		{"a file that is there", OutputFile, at("file"), "", false},
		{"a device", OutputFile, os.DevNull, "", false},
		{"a folder for a file", OutputFile, at("folder"), "this is a folder" + asFile, false},
		{"a file below a file", OutputFile, at("file", "x"), at("file") + " is a file, where a folder is needed" + asFile, false},
		{"a file two below a file", OutputFile, at("file", "x", "y"), at("file") + " is a file, where a folder is needed" + asFile, false},
		{"a new folder", OutputFolder, at("new", "er"), "", false},
		{"a folder that is there", OutputFolder, at("folder"), "", false},
		{"a file for a folder", OutputFolder, at("file"), at("file") + " is a file, where a folder is needed" + asFolder, false},
		{"a folder below a file", OutputFolder, at("file", "x"), at("file") + " is a file, where a folder is needed" + asFolder, false},
		{"a file in a locked folder", OutputFile, at("locked", "x"), "no file can be made in " + at("locked") + ": permission denied" + asFile, true},
		{"a locked file", OutputFile, at("locked", "file"), "permission denied" + asFile, true},
		{"a locked folder", OutputFolder, at("locked", "x"), "no file can be made in " + at("locked") + ": permission denied" + asFolder, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.forbidden && os.Geteuid() <= 0 { // the superuser, or a system without users
				t.Skip("whoever runs this may write everywhere")
			}
			err := c.try("--out", c.path)
			if c.refuse == "" && err != nil {
				t.Error(err)
			}
			if want := "--out " + c.path + ": " + c.refuse; c.refuse != "" && (err == nil || err.Error() != want) {
				t.Errorf("%v, want %s", err, want)
			}
		})
	}
	left, err := filepath.Glob(at("*"))
	if err != nil || strings.Join(left, " ") != strings.Join([]string{at("file"), at("folder"), at("locked")}, " ") {
		t.Errorf("left behind: %v %v", left, err)
	}
	if inside, err := os.ReadDir(at("folder")); err != nil || len(inside) > 0 {
		t.Errorf("left behind: %v %v", inside, err)
	}
	if text, err := os.ReadFile(at("file")); string(text) != "kept" {
		t.Errorf("the file has %q, %v", text, err)
	}
}
