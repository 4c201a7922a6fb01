package main

import (
	"bytes"
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

	"ossian/internal/hub"
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

func runRoot(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, status bytes.Buffer
	c := root()
	c.SetOut(&out)
	c.SetErr(&status)
	c.SetArgs(args)
	err = c.ExecuteContext(t.Context())
	return out.String(), status.String(), err
}

// pull, then inspect by name.
func TestPullAndInspect(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	writeSynthetic(t, "qwen3-tiny", "source", synth.Options{})
	url, requests := serveModel(t, "source")
	home := filepath.Join(dir, "hf")
	t.Setenv("HF_ENDPOINT", url)
	t.Setenv("HF_HOME", home)
	for _, name := range []string{"HF_TOKEN", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "HUGGINGFACE_HUB_CACHE", "TRANSFORMERS_OFFLINE"} {
		t.Setenv(name, "")
	}
	stdout, stderr, err := runRoot(t, "pull", "org/tiny")
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
	if stdout, stderr, err = runRoot(t, "pull", "org/tiny", "--quiet"); err != nil || stderr != "" || strings.TrimSpace(stdout) != path {
		t.Errorf("second pull: %q, %q, %v", stdout, stderr, err)
	}
	if after, err := os.Stat(seal); err != nil || !os.SameFile(before, after) {
		t.Errorf("the seal was made again although nothing was fetched (%v)", err)
	}
	stdout, err = runInspect(t, fixedMachine(), "org/tiny", "--verify")
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
	if _, _, err = runRoot(t, "run", "org/tiny", "hello", "--max-tokens", "1"); err == nil || !strings.Contains(err.Error(), "ossian pull --force") {
		t.Errorf("damaged: %v", err)
	}
	if _, stderr, err = runRoot(t, "pull", "org/tiny", "--force"); err != nil {
		t.Errorf("pull --force: %q, %v", stderr, err)
	}
	if _, _, err = runRoot(t, "run", "org/tiny", "hello", "--max-tokens", "1"); err != nil {
		t.Errorf("repaired: %v", err)
	}

	t.Setenv("HF_HUB_OFFLINE", "1")
	n := requests.Load()
	if stdout, _, err = runRoot(t, "pull", "org/tiny"); err != nil || strings.TrimSpace(stdout) != path {
		t.Errorf("offline, what is here: %q, %v", stdout, err)
	}
	for _, args := range [][]string{{"pull", "org/other"}, {"pull", "org/tiny", "--force"}, {"pull", "org/tiny", "--file", "other.gguf"}, {"pull", "org/tiny", "--include", "*.txt"}} {
		if _, _, err = runRoot(t, args...); err == nil || !strings.Contains(err.Error(), "HF_HUB_OFFLINE") {
			t.Errorf("offline %q: %v", args, err)
		}
	}
	if _, err = runInspect(t, fixedMachine(), "org/tiny"); err != nil {
		t.Errorf("offline: %v", err)
	}
	if now := requests.Load(); now != n {
		t.Errorf("offline: %d requests", now-n)
	}
}

func TestRootHasCommands(t *testing.T) {
	for _, name := range []string{"pull", "inspect"} {
		if c, _, err := root().Find([]string{name}); err != nil || c.Name() != name {
			t.Errorf("%s: %v, %v", name, c, err)
		}
	}
}

func TestPullBadName(t *testing.T) {
	if _, _, err := runRoot(t, "pull", "../../etc"); err == nil || !strings.Contains(err.Error(), "model name") {
		t.Errorf("got %v", err)
	}
}

func TestHubConfig(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"token": " hf_file\n", "other": "hf_other"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		env  map[string]string
		want hub.Config
	}{
		{"defaults", map[string]string{"HOME": "/h"}, hub.Config{Cache: "/h/.cache/huggingface/hub"}},
		{"XDG", map[string]string{"HOME": "/h", "XDG_CACHE_HOME": "/x"}, hub.Config{Cache: "/x/huggingface/hub"}},
		{"HF_HOME with its token", map[string]string{"HF_HOME": dir}, hub.Config{Cache: filepath.Join(dir, "hub"), Token: "hf_file"}},
		{"token in the environment wins", map[string]string{"HF_HOME": dir, "HF_TOKEN": " hf_env "}, hub.Config{Cache: filepath.Join(dir, "hub"), Token: "hf_env"}},
		{"token path", map[string]string{"HF_HOME": "/none", "HF_TOKEN_PATH": filepath.Join(dir, "other")}, hub.Config{Cache: "/none/hub", Token: "hf_other"}},
		{"cache", map[string]string{"HOME": "/h", "HF_HUB_CACHE": "~/c"}, hub.Config{Cache: "/h/c"}},
		{"old name of the cache", map[string]string{"HOME": "/h", "HUGGINGFACE_HUB_CACHE": "/c"}, hub.Config{Cache: "/c"}},
		{"mirror, offline", map[string]string{"HOME": "/h", "HF_ENDPOINT": "http://mirror/hf", "HF_HUB_OFFLINE": "True"},
			hub.Config{Cache: "/h/.cache/huggingface/hub", Endpoint: "http://mirror/hf", Offline: true}},
		{"offline as transformers says it", map[string]string{"HOME": "/h", "TRANSFORMERS_OFFLINE": "1"}, hub.Config{Cache: "/h/.cache/huggingface/hub", Offline: true}},
		{"not offline", map[string]string{"HOME": "/h", "HF_HUB_OFFLINE": "0"}, hub.Config{Cache: "/h/.cache/huggingface/hub"}},
	} {
		got, err := hubConfig(func(k string) string { return c.env[k] })
		if err != nil || got.Cache != c.want.Cache || got.Token != c.want.Token || got.Endpoint != c.want.Endpoint || got.Offline != c.want.Offline {
			t.Errorf("%s: got %+v, %v; expected %+v", c.name, got, err, c.want)
		}
	}
}

// What would not be fetched is not asked for in vain.
func TestPullContradictions(t *testing.T) {
	t.Setenv("HF_HUB_OFFLINE", "1")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"o/m", "--file", "a.gguf", "--include", "*.json"}, "--include: a.gguf alone"},
		{[]string{"o/m/a.gguf", "--file", "b.gguf"}, "the name says a.gguf"},
	} {
		if _, _, err := runRoot(t, append([]string{"pull"}, c.args...)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.args, err, c.want)
		}
	}
}
