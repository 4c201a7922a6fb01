package serve

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"ossian/internal/command"
	"ossian/internal/command/commandtest"
	"ossian/internal/synth"
)

// TestCKP7Touched: a file of a model that is only touched while it is served goes on being
// served, with the same tokens; one that is overwritten and given its old time back does not.
func TestCKP7Touched(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("files are mapped, and looked at, on Linux")
	}
	dir := filepath.Join(t.TempDir(), "model")
	commandtest.WriteModel(t, "llama-tiny", dir, synth.Options{})
	url := commandtest.Serve(t, command.Root(Command()), dir, "--store", "memory")
	weights := filepath.Join(dir, "model.safetensors")
	ask := func() (status int, text string) {
		r, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"hello there","max_tokens":16,"temperature":0,"request_id":"same"}`))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		_, choices, _ := strings.Cut(string(body), `"choices"`)
		return r.StatusCode, choices
	}
	before, first := ask()
	if before != http.StatusOK || first == "" {
		t.Fatalf("before: %d", before)
	}
	for _, when := range []time.Time{time.Now(), time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)} {
		if err := os.Chtimes(weights, when, when); err != nil {
			t.Fatal(err)
		}
		if status, text := ask(); status != http.StatusOK || text != first {
			t.Fatalf("touched: %d %s, want %s", status, text, first)
		}
	}
	was, err := os.Stat(weights)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(weights, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt(make([]byte, was.Size()-20_000), 20_000); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(weights, was.ModTime(), was.ModTime()); err != nil {
		t.Fatal(err)
	}
	if status, text := ask(); status == http.StatusOK {
		t.Errorf("overwritten, its time put back: %s", text)
	}
}
