package serve

import (
	"io"
	"math/rand/v2"
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

// TestCKP7Served: the file of a model is cut, or overwritten with other bytes, while it is
// served. No request gets other tokens; those that come are told which file it was; probes say
// not ready, and what needs no model goes on.
func TestCKP7Served(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("files are mapped, and looked at, on Linux")
	}
	for name, change := range map[string]func(path string) error{
		"cut": func(path string) error { return os.Truncate(path, 4096) },
		"overwritten": func(path string) error {
			file, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				return err
			}
			defer file.Close()
			info, err := file.Stat()
			if err != nil {
				return err
			}
			other := make([]byte, info.Size()-20_000)
			chance := rand.NewChaCha8([32]byte{1})
			_, _ = chance.Read(other)
			_, err = file.WriteAt(other, 20_000)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "model")
			commandtest.WriteModel(t, "llama-tiny", dir, synth.Options{})
			url := commandtest.Serve(t, command.Root(Command()), dir, "--store", "memory")
			ask := func() (status int, body string) {
				r, err := http.Post(url+"/v1/completions", "application/json", strings.NewReader(`{"prompt":"hello there","max_tokens":16,"temperature":0,"request_id":"same"}`))
				if err != nil {
					t.Fatal(err)
				}
				defer r.Body.Close()
				text, err := io.ReadAll(r.Body)
				if err != nil {
					t.Fatal(err)
				}
				return r.StatusCode, string(text)
			}
			status := func(path string) int {
				r, err := http.Get(url + path)
				if err != nil {
					t.Fatal(err)
				}
				r.Body.Close()
				return r.StatusCode
			}
			if code, body := ask(); code != http.StatusOK {
				t.Fatalf("before: %d %s", code, body)
			}
			if err := change(filepath.Join(dir, "model.safetensors")); err != nil {
				t.Fatal(err)
			}
			if code := status("/ready"); code != http.StatusServiceUnavailable {
				t.Errorf("ready answers %d before anybody has asked", code)
			}
			if code, body := ask(); code == http.StatusOK {
				t.Fatalf("the first answer afterwards: %s", body)
			}
			deadline := time.Now().Add(time.Minute)
			code, body := ask()
			for !strings.Contains(body, "model_unloaded") && time.Now().Before(deadline) {
				time.Sleep(10 * time.Millisecond)
				code, body = ask()
			}
			if code != http.StatusServiceUnavailable || !strings.Contains(body, "model.safetensors was changed") || strings.Contains(body, dir) {
				t.Errorf("%d %s", code, body)
			}
			for path, want := range map[string]int{"/ping": 200, "/metrics": 200, "/health": 503, "/ready": 503} {
				if code := status(path); code != want {
					t.Errorf("%s answers %d, want %d", path, code, want)
				}
			}
		})
	}
}
