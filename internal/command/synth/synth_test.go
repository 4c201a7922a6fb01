package synth

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ossian/internal/command"
	"ossian/internal/command/commandtest"
)

// A place where no checkpoint can be is named, with its reason.
func TestPlace(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := commandtest.Run(t, command.Root(Command()), "synth", "qwen3-tiny", filepath.Join(file, "x"))
	if err == nil || !strings.Contains(err.Error(), file+" is a file, where a folder is needed") {
		t.Error(err)
	}
}
