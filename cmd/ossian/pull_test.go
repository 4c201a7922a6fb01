package main

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"ossian/internal/command/commandtest"
	"ossian/internal/synth"
)

// serveModel serves the files of dir as the repository org/tiny and counts requests.
func serveModel(t *testing.T, dir string) (url string, requests *atomic.Int64) {
	t.Helper()
	const commit = "0123456789abcdef0123456789abcdef01234567"
	requests = new(atomic.Int64)
	type entry map[string]any
	var list []entry
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		id := sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(b)), b...))
		e := entry{"type": "file", "path": f.Name(), "size": len(b), "oid": hex.EncodeToString(id[:])}
		if strings.HasSuffix(f.Name(), ".safetensors") {
			sum := sha256.Sum256(b)
			e["lfs"] = entry{"oid": hex.EncodeToString(sum[:]), "size": len(b)}
		}
		list = append(list, e)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/api/models/org/tiny/revision/main", func(w http.ResponseWriter, r *http.Request) {
		json.NewEncoder(w).Encode(entry{"sha": commit})
	})
	mux.HandleFunc("/api/models/org/tiny/tree/"+commit, func(w http.ResponseWriter, r *http.Request) { json.NewEncoder(w).Encode(list) })
	mux.Handle("/org/tiny/resolve/"+commit+"/", http.StripPrefix("/org/tiny/resolve/"+commit, http.FileServer(http.Dir(dir))))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, requests
}

// pull, then inspect by name.
func TestPullAndInspect(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	commandtest.WriteModel(t, "qwen3-tiny", "source", synth.Options{})
	url, requests := serveModel(t, "source")
	home := filepath.Join(dir, "hf")
	t.Setenv("HF_ENDPOINT", url)
	t.Setenv("HF_HOME", home)
	for _, name := range []string{"HF_TOKEN", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_OFFLINE"} {
		t.Setenv(name, "")
	}
	stdout, stderr, err := commandtest.Run(t, root(), "pull", "org/tiny")
	if err != nil {
		t.Fatal(err)
	}
	path := strings.TrimSpace(stdout)
	if want := filepath.Join(home, "hub", "models--org--tiny", "snapshots"); filepath.Dir(path) != want {
		t.Errorf("stdout is %q, expected one path in %s", stdout, want)
	}
	if !strings.HasPrefix(stderr, "org/tiny: ") || !strings.Contains(stderr, "commit 0123456789ab") {
		t.Errorf("stderr is %q", stderr)
	}
	seal := filepath.Join(path, "ossian-seal.json")
	before, err := os.Stat(seal)
	if err != nil {
		t.Fatal(err)
	}
	if stdout, stderr, err = commandtest.Run(t, root(), "pull", "org/tiny", "--quiet"); err != nil || stderr != "" || strings.TrimSpace(stdout) != path {
		t.Errorf("second pull: %q, %q, %v", stdout, stderr, err)
	}
	if after, err := os.Stat(seal); err != nil || !os.SameFile(before, after) {
		t.Errorf("the seal was made again although nothing was fetched (%v)", err)
	}
	stdout, err = inspectModel(t, "org/tiny", "--verify")
	if err != nil || !strings.HasPrefix(stdout, "model         org/tiny (qwen3, safetensors)\n") || !strings.Contains(stdout, "every byte is as sealed") {
		t.Errorf("%v\n%s", err, stdout)
	}

	// Damage after the seal: found by run, repaired by --force.
	weights := filepath.Join(path, "model.safetensors")
	data, err := os.ReadFile(weights)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-1] ^= 1
	if err := os.WriteFile(weights, data, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err = commandtest.Run(t, root(), "run", "org/tiny", "hello", "--max-tokens", "1"); err == nil || !strings.Contains(err.Error(), "ossian pull --force") {
		t.Errorf("damaged: %v", err)
	}
	if _, stderr, err = commandtest.Run(t, root(), "pull", "org/tiny", "--force"); err != nil {
		t.Errorf("pull --force: %q, %v", stderr, err)
	}
	if _, _, err = commandtest.Run(t, root(), "run", "org/tiny", "hello", "--max-tokens", "1"); err != nil {
		t.Errorf("repaired: %v", err)
	}

	t.Setenv("HF_HUB_OFFLINE", "1")
	n := requests.Load()
	if stdout, _, err = commandtest.Run(t, root(), "pull", "org/tiny"); err != nil || strings.TrimSpace(stdout) != path {
		t.Errorf("offline, what is here: %q, %v", stdout, err)
	}
	for _, args := range [][]string{{"pull", "org/other"}, {"pull", "org/tiny", "--force"}, {"pull", "org/tiny", "--file", "other.gguf"}, {"pull", "org/tiny", "--include", "*.txt"}} {
		if _, _, err = commandtest.Run(t, root(), args...); err == nil || !strings.Contains(err.Error(), "HF_HUB_OFFLINE") {
			t.Errorf("offline %q: %v", args, err)
		}
	}
	if _, err = inspectModel(t, "org/tiny"); err != nil {
		t.Errorf("offline: %v", err)
	}
	if now := requests.Load(); now != n {
		t.Errorf("offline: %d requests", now-n)
	}
}

// inspectModel returns what ossian inspect says.
func inspectModel(t *testing.T, args ...string) (string, error) {
	t.Helper()
	out, _, err := commandtest.Run(t, root(), append([]string{"inspect"}, args...)...)
	return out, err
}
