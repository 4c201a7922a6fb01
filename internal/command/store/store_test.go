package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ossian/internal/command"
	"ossian/internal/command/commandtest"
	"ossian/internal/store"
)

// A whole store is sound; one that is cut says what is lost and ends with an error; one that
// is in use is left alone.
func TestCheck(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "responses")
	kept, err := store.Open(store.Config{Dir: dir, Bytes: 1 << 30, Records: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		id := fmt.Sprintf("resp_%02d", i)
		if err := kept.Create(context.Background(), store.New{ID: id, Owner: "o", Done: true, Object: []byte(strings.Repeat("x", 9000))}); err != nil {
			t.Fatal(err)
		}
	}
	check := func(path string) (string, error) {
		out, _, err := commandtest.Run(t, command.Root(Command()), "store", "check", path)
		return out, err
	}
	if _, err := check(dir); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("while a server has it: %v", err)
	}
	if err := kept.Close(); err != nil {
		t.Fatal(err)
	}
	if out, err := check(dir); err != nil || !strings.Contains(out, "20 records") || !strings.Contains(out, "a start uses it as it is") {
		t.Errorf("a sound store: %v\n%s", err, out)
	}
	file := filepath.Join(dir, "responses.db")
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, info.Size()/8); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out, err := check(file)
	if err == nil || !strings.Contains(err.Error(), "is damaged") || !strings.Contains(out, "cut off") || !strings.Contains(out, "a start makes a new file") {
		t.Errorf("a cut store: %v\n%s", err, out)
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
		t.Errorf("the check changed the file: %v", err)
	}
	if _, err := check(filepath.Join(dir, "nothing")); err == nil {
		t.Error("a file that is not there is sound")
	}
}

// Records that cannot be named are counted, in words that say why.
func TestNameless(t *testing.T) {
	var out strings.Builder
	write(&out, &store.Report{File: "responses.db", Bytes: 10, Records: 3, Lost: []string{"resp_1"}, Nameless: 2, Absent: 7, Rebuild: true})
	for _, line := range []string{
		"lost: resp_1\n",
		"lost: 2 more; parts of them are left but no id, so they cannot be named\n",
		"perhaps lost: 7 that were stored between the oldest and the newest record that is left; nothing of them is in the file, so neither ids nor times can be told, nor which of them were deleted before\n",
	} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("%s\nwant %q", out.String(), line)
		}
	}
}
