package load

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ossian/internal/synth"
)

// A snapshot of the cache that lacks a file, or has one that was cut: what fetches it is said, and
// which commit is whole beside it.
func TestOpenModelPartialSnapshot(t *testing.T) {
	main, other := strings.Repeat("a", 40), strings.Repeat("b", 40)
	for _, c := range []struct {
		name, file string
		size       int64 // -1 = the file is not there
		want       string
	}{
		{"no configuration", "config.json", -1, "ossian pull org/model fetches what is missing"},
		{"no tokenizer", "tokenizer.json", -1, "ossian pull org/model fetches what is missing"},
		{"a cut tokenizer", "tokenizer.json", 500, "ossian pull --force org/model fetches it anew"},
		{"cut weights", "model.safetensors", 5000, "ossian pull --force org/model fetches it anew"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cache := t.TempDir()
			t.Setenv("HF_HUB_CACHE", cache)
			folder := filepath.Join(cache, "models--org--model")
			for _, commit := range []string{main, other} {
				model, _ := writeModel(t, "qwen3-tiny", synth.Options{})
				if err := os.CopyFS(filepath.Join(folder, "snapshots", commit), os.DirFS(model)); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.MkdirAll(filepath.Join(folder, "refs"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(folder, "refs", "main"), []byte(main), 0o644); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(folder, "snapshots", main, c.file)
			change := os.Remove
			if c.size >= 0 {
				change = func(path string) error { return os.Truncate(path, c.size) }
			}
			if err := change(path); err != nil {
				t.Fatal(err)
			}
			_, err := OpenModel("org/model")
			if err == nil {
				t.Fatal("opened")
			}
			for _, words := range []string{path, c.want, "another commit of it is whole in the cache, name it org/model@" + other} {
				if !strings.Contains(err.Error(), words) {
					t.Errorf("%v: want %q", err, words)
				}
			}
			checkpoint, err := OpenModel("org/model@" + other)
			if err != nil {
				t.Fatal(err)
			}
			if err := checkpoint.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
