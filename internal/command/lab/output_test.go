package lab

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ossian/internal/command"
)

// Where results cannot be written, that is said before anything is measured.
func TestOutputsFirst(t *testing.T) {
	dir := t.TempDir()
	plan, file := filepath.Join(dir, "plan.yaml"), filepath.Join(dir, "file")
	for path, text := range map[string]string{plan: simulatedPlan, file: ""} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("XDG_STATE_HOME", file)
	refused := file + " is a file, where a folder is needed; name a "
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"quick", "--out", file}, "--out " + file + ": " + refused},
		{[]string{"run", plan, "--out", filepath.Join(file, "x")}, "--out " + filepath.Join(file, "x") + ": " + refused},
		{[]string{"calibrate", "--output", dir}, "--output " + dir + ": this is a folder; name a file"},
		{[]string{"calibrate", "--rows", "none", "-o", filepath.Join(file, "x")}, "--output " + filepath.Join(file, "x") + ": " + refused},
		{[]string{"calibrate"}, "--output " + filepath.Join(file, "ossian", "calibration.json") + ": " + refused},
	} {
		text, err := run(t, c.args...)
		if command.Status(err) != 2 || !strings.Contains(err.Error(), c.want) || text != "" {
			t.Errorf("%s: status %d, %v, want %q before\n%s", c.args, command.Status(err), err, c.want, text)
		}
	}
}
