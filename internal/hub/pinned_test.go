package hub

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const commitB = "fedcba9876543210fedcba9876543210fedcba98"

// plant writes files of a snapshot; "->" in place of a text is a link to what has not come.
func plant(t *testing.T, cfg Config, commit string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		at := filepath.Join(cfg.Cache, "models--org--model", "snapshots", commit, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		write := func() error { return os.WriteFile(at, []byte(text), 0o644) }
		if text == "->" {
			write = func() error { return os.Symlink("../../blobs/missing", at) }
		}
		if err := write(); err != nil {
			t.Fatal(err)
		}
	}
}

// A download of a fixed commit leaves a snapshot and no reference.
func TestResolvePinned(t *testing.T) {
	sound := map[string]string{"config.json": "{}", "model.safetensors": "x"}
	sharded := map[string]string{"config.json": "{}", "model-00001-of-00002.safetensors": "x", "model-00002-of-00002.safetensors": "x"}
	for _, c := range []struct {
		name      string
		snapshots map[string]map[string]string
		ask       string
		want, err string // path below snapshots, or words of the error
	}{
		{"one whole snapshot", map[string]map[string]string{commitA: sound}, "org/model", commitA, ""},
		{"shards", map[string]map[string]string{commitA: sharded}, "org/model", commitA, ""},
		{"shards from 0 on", map[string]map[string]string{commitA: {"config.json": "{}", "model-00000-of-00002.safetensors": "x", "model-00001-of-00002.safetensors": "x",
			"model-00002-of-00002.safetensors": "x", "model.safetensors.index.json": `{"weight_map": {"a": "model-00000-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}`}}, "org/model", commitA, ""},
		{"a shard of the index missing", map[string]map[string]string{commitA: {"config.json": "{}", "model-00000-of-00002.safetensors": "x", "model-00001-of-00002.safetensors": "x",
			"model.safetensors.index.json": `{"weight_map": {"a": "model-00000-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}`}}, "org/model", "", "only a part of it"},
		{"GGUF", map[string]map[string]string{commitA: {"m-Q8_0.gguf": "x"}}, "org/model", commitA + "/m-Q8_0.gguf", ""},
		{"a file of it", map[string]map[string]string{commitA: {"m-Q8_0.gguf": "x", "m-Q4_0.gguf": "x"}}, "org/model/m-Q4_0.gguf", commitA + "/m-Q4_0.gguf", ""},
		{"a whole one and a part", map[string]map[string]string{commitA: sound, commitB: {"config.json": "{}"}}, "org/model", commitA, ""},
		{"named", map[string]map[string]string{commitA: sound, commitB: sound}, "org/model@" + commitB, commitB, ""},
		{"two whole ones", map[string]map[string]string{commitA: sound, commitB: sound}, "org/model", "", "org/model@" + commitA + ", org/model@" + commitB},
		{"another revision", map[string]map[string]string{commitA: sound}, "org/model@v2", "", "fetch it with: ossian pull org/model@v2; of other revisions the cache holds org/model@" + commitA},
		{"shard missing", map[string]map[string]string{commitA: {"config.json": "{}", "model-00001-of-00002.safetensors": "x"}}, "org/model", "", "only a part of it, of org/model@" + commitA},
		{"file on its way", map[string]map[string]string{commitA: {"config.json": "{}", "model.safetensors": "->"}}, "org/model", "", "only a part of it"},
		{"no configuration", map[string]map[string]string{commitA: {"model.safetensors": "x"}}, "org/model", "", "only a part of it"},
		{"part of a GGUF set", map[string]map[string]string{commitA: {"m-00001-of-00002.gguf": "x"}}, "org/model", "", "only a part of it"},
		{"no commit", map[string]map[string]string{"main": sound}, "org/model", "", "fetch it with: ossian pull org/model"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := Config{Cache: filepath.Join(t.TempDir(), "hub")}
			for commit, files := range c.snapshots {
				plant(t, cfg, commit, files)
			}
			got, err := Resolve(cfg, c.ask)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %q, %v; expected %q", got, err, c.err)
				}
				return
			}
			if want := filepath.Join(cfg.Cache, "models--org--model", "snapshots", filepath.FromSlash(c.want)); err != nil || got != want {
				t.Errorf("got %q, %v; expected %q", got, err, want)
			}
		})
	}
}

// A reference to a snapshot that is missing or a part: what is whole beside it is told of, in a form
// that can be asked for.
func TestResolveBesideReference(t *testing.T) {
	sound := map[string]string{"config.json": "{}", "model.safetensors": "x"}
	quants := map[string]string{"m-Q8_0.gguf": "x", "m-Q4_0.gguf": "x"}
	const other = "fedcba9876543210fedcba9876543210fedcba99"
	for _, c := range []struct {
		name      string
		snapshots map[string]map[string]string
		ask       string
		words     []string // of the error; those that begin with ! are not in it
		then      string   // what can be asked for then
	}{
		{"missing", map[string]map[string]string{commitB: sound}, "org/model", []string{"fetch it with: ossian pull org/model;", "another commit of it is whole"}, "org/model@" + commitB},
		{"without weights", map[string]map[string]string{commitA: {"config.json": "{}"}, commitB: sound}, "org/model", []string{"holds no weights", "another commit of it is whole"}, "org/model@" + commitB},
		{"several", map[string]map[string]string{commitB: sound, other: sound}, "org/model", []string{"name one of org/model@" + commitB + ", org/model@" + other}, "org/model@" + other},
		{"parts alone", map[string]map[string]string{commitB: {"config.json": "{}"}}, "org/model", []string{"fetch it with", "!whole"}, ""},
		{"a file", map[string]map[string]string{commitA: {"m-Q4_0.gguf": "x"}, commitB: quants}, "org/model/m-Q8_0.gguf", []string{"another commit"}, "org/model/m-Q8_0.gguf@" + commitB},
		{"a file that none has", map[string]map[string]string{commitA: {"m-Q4_0.gguf": "x"}, commitB: quants}, "org/model/m-F16.gguf", []string{"!another commit"}, ""},
		{"a quantisation", map[string]map[string]string{commitA: {"m-Q4_0.gguf": "x"}, commitB: quants}, "org/model:Q8_0", []string{"another commit"}, "org/model:Q8_0@" + commitB},
		{"a quantisation that none has", map[string]map[string]string{commitA: {"m-Q4_0.gguf": "x"}, commitB: quants}, "org/model:F16", []string{"!another commit"}, ""},
		{"a branch", map[string]map[string]string{commitB: sound}, "org/model@main", []string{"another commit"}, "org/model@" + commitB},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := Config{Cache: filepath.Join(t.TempDir(), "hub")}
			for commit, files := range c.snapshots {
				plant(t, cfg, commit, files)
			}
			refs := filepath.Join(cfg.Cache, "models--org--model", "refs")
			if err := errors.Join(os.MkdirAll(refs, 0o755), os.WriteFile(filepath.Join(refs, "main"), []byte(commitA), 0o644)); err != nil {
				t.Fatal(err)
			}
			got, err := Resolve(cfg, c.ask)
			if err == nil {
				t.Fatalf("resolved to %s", got)
			}
			for _, words := range append(c.words, c.then) {
				unwanted, not := strings.CutPrefix(words, "!")
				if strings.Contains(err.Error(), unwanted) == not {
					t.Errorf("%v: %q", err, words)
				}
			}
			if c.then == "" {
				return
			}
			if _, err := Resolve(cfg, c.then); err != nil {
				t.Errorf("asked for as it was told: %v", err)
			}
		})
	}
	// What is no whole snapshot may be opened all the same, so whoever fails to asks.
	cfg := Config{Cache: filepath.Join(t.TempDir(), "hub")}
	plant(t, cfg, commitA, map[string]string{"config.json": "{}", "model-00001-of-00002.safetensors": "x"})
	plant(t, cfg, commitB, sound)
	for path, want := range map[string]string{"": commitB, filepath.Join("snapshots", commitA): commitB, filepath.Join("snapshots", commitB): ""} {
		if got := Others(cfg, "org/model", path); strings.Contains(got, "org/model@") != (want != "") || !strings.Contains(got, want) {
			t.Errorf("beside %q: %q", path, got)
		}
	}
	if got := Others(cfg, "./folder", "") + Others(cfg, "org/another", "") + Others(Config{Cache: cfg.Cache + "x"}, "org/model", ""); got != "" {
		t.Errorf("of nothing: %q", got)
	}
}

// A file that is not there is no model to fetch.
func TestResolveMissingFile(t *testing.T) {
	cfg := Config{Cache: t.TempDir()}
	for _, name := range []string{"models/m.gguf", "out/model.safetensors", "./m.gguf", "/no/m.gguf"} {
		if _, err := Resolve(cfg, name); err == nil || !strings.Contains(err.Error(), "no such file") || strings.Contains(err.Error(), "ossian pull "+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Resolve(cfg, "org/model/m.gguf"); err == nil || !strings.Contains(err.Error(), "ossian pull org/model/m.gguf") {
		t.Errorf("a file of a repository: %v", err)
	}
}

// ORG/NAME:Q8_0 is the one file of that quantisation, in the cache and at the endpoint.
func TestQuantisation(t *testing.T) {
	files := []string{"m-Q8_0.gguf", "m-Q4_K_M.gguf", "m-Q4_K_S.gguf", "m-UD-Q4_K_XL.gguf", "m-IQ4_XS.gguf", "m.f16.gguf",
		"BF16/m-BF16-00001-of-00002.gguf", "BF16/m-BF16-00002-of-00002.gguf", "mmproj-m-F16.gguf"}
	h := newFakeHub(t)
	clear(h.files)
	texts := map[string]string{}
	for i, name := range files {
		h.files[name] = pattern(1000 + i)
		texts[name] = "x"
	}
	cfg, _ := h.config()
	local := Config{Cache: filepath.Join(t.TempDir(), "hub")}
	plant(t, local, commitA, texts)
	for _, c := range []struct{ ask, want, err string }{
		{"org/model:Q8_0", "m-Q8_0.gguf", ""},
		{"org/model:q8_0@" + commitA, "m-Q8_0.gguf", ""},
		{"org/model:Q4_K_M", "m-Q4_K_M.gguf", ""},
		{"org/model:Q4_K_XL", "m-UD-Q4_K_XL.gguf", ""},
		{"org/model:IQ4_XS", "m-IQ4_XS.gguf", ""},
		{"org/model:F16", "m.f16.gguf", ""},
		{"org/model:BF16", "BF16/m-BF16-00001-of-00002.gguf", ""},
		{"org/model:Q4_K", "", "no GGUF file of the quantisation Q4_K"},
		{"org/model:Q5_0", "", "m-Q4_K_S.gguf"},
	} {
		t.Run(c.ask, func(t *testing.T) {
			name := mustName(t, c.ask)
			if name.String() != c.ask {
				t.Errorf("written as %s", name)
			}
			pulled, pullErr := Pull(t.Context(), cfg, Request{Name: name})
			path, err := Resolve(local, c.ask)
			for where, got := range map[string]struct {
				path string
				err  error
			}{"pull": {pulled.Path, pullErr}, "cache": {path, err}} {
				switch {
				case c.err != "":
					if got.err == nil || !strings.Contains(got.err.Error(), c.err) {
						t.Errorf("%s: %v, expected %q", where, got.err, c.err)
					}
				case got.err != nil || !strings.HasSuffix(got.path, filepath.FromSlash(commitA+"/"+c.want)):
					t.Errorf("%s: %q, %v; expected %s", where, got.path, got.err, c.want)
				}
			}
		})
	}
	h.files["other/m-Q8_0.gguf"] = pattern(5)
	if _, err := Pull(t.Context(), cfg, Request{Name: mustName(t, "org/model:Q8_0")}); err == nil || !strings.Contains(err.Error(), "2 GGUF files of the quantisation Q8_0") {
		t.Errorf("two files: %v", err)
	}
	for _, bad := range []string{"org/model:", "org/model:../x", "org/model:M", "org/model:8_0", "org/model:Q8_0:Q4_0", "org/model:Q8_0/x.gguf", "org/model/x.gguf:Q8_0", "org/model@main:Q8_0"} {
		if name, err := ParseName(bad); err == nil {
			t.Errorf("%s is read as %+v", bad, name)
		}
	}
}

// A failing is a transport on which nothing succeeds.
type failing struct {
	err   error
	count atomic.Int64
}

func (f *failing) RoundTrip(*http.Request) (*http.Response, error) {
	f.count.Add(1)
	return nil, f.err
}

// What cannot succeed is not tried again; what may is.
func TestPullTries(t *testing.T) {
	for _, c := range []struct {
		name  string
		err   error
		tries int64
	}{
		{"certificate", &tls.CertificateVerificationError{Err: errors.New("unknown authority")}, 1},
		{"no such host", &net.DNSError{Err: "no such host", Name: "h", IsNotFound: true}, 1},
		{"name server", &net.DNSError{Err: "server misbehaving", Name: "h", IsTemporary: true}, apiTries},
		{"connection", &net.OpError{Op: "dial", Err: errors.New("connection refused")}, apiTries},
	} {
		t.Run(c.name, func(t *testing.T) {
			transport := &failing{err: c.err}
			cfg := Config{Endpoint: "https://hub.invalid", Cache: t.TempDir(), Transport: transport, Sleep: func(context.Context, time.Duration) error { return nil }}
			_, err := Pull(t.Context(), cfg, Request{Name: mustName(t, "org/model")})
			if err == nil || !strings.Contains(err.Error(), c.err.Error()) {
				t.Fatalf("got %v", err)
			}
			hint := "hub.invalid cannot be reached: "
			if strings.Contains(err.Error(), hint) == (c.name == "certificate") {
				t.Errorf("%v, with or without %q", err, hint)
			}
			if got := transport.count.Load(); got != c.tries {
				t.Errorf("%d tries, want %d", got, c.tries)
			}
		})
	}
	for _, status := range []int{401, 403, 404, 410} {
		h := newFakeHub(t)
		asked := 0
		h.api = func(w http.ResponseWriter, r *http.Request) bool {
			if strings.Contains(r.URL.Path, "/revision/") {
				asked++
				w.WriteHeader(status)
				return true
			}
			return false
		}
		cfg, slept := h.config()
		if _, err := Pull(t.Context(), cfg, Request{Name: mustName(t, "org/model")}); err == nil || asked != 1 || len(*slept) > 0 {
			t.Errorf("%d: %v after %d requests", status, err, asked)
		}
	}
	// Other bytes than those listed are asked for once more only where some lay here before.
	h := newFakeHub(t)
	h.content = func(w http.ResponseWriter, r *http.Request, name string, n int) bool {
		if large(name) {
			w.Write(make([]byte, len(h.files[name])))
		}
		return large(name)
	}
	cfg, _ := h.config()
	if _, err := Pull(t.Context(), cfg, Request{Name: mustName(t, "org/model")}); err == nil || !strings.Contains(err.Error(), "digest") || h.count["model.safetensors"] != 1 {
		t.Errorf("%v after %d requests", err, h.count["model.safetensors"])
	}
}

// A list without end is ended when it is too long, before all of it is in memory.
func TestPullEndlessPage(t *testing.T) {
	h := newFakeHub(t)
	h.api = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/tree/") {
			return false
		}
		fmt.Fprint(w, "["+strings.Repeat("{},", 5_000_000)+"{}]")
		return true
	}
	cfg, _ := h.config()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := Pull(t.Context(), cfg, Request{Name: mustName(t, "org/model")})
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), "lists more than") {
		t.Errorf("got %v", err)
	}
	// The answer has 15 MB; 5 million entries would have 500 MB.
	if took := after.TotalAlloc - before.TotalAlloc; took > 250<<20 {
		t.Errorf("%d bytes for an answer of 15 MB", took)
	}
	for _, answer := range []string{"false", `{"a": 1}`, "[3]", "[", "<html>\x1b[2J"} {
		h.api = func(w http.ResponseWriter, r *http.Request) bool { fmt.Fprint(w, answer); return true }
		_, err := Pull(t.Context(), cfg, Request{Name: mustName(t, "org/model")})
		if err == nil || strings.ContainsAny(err.Error(), "\x1b") || strings.Contains(err.Error(), "json:") {
			t.Errorf("%q: %v", answer, err)
		}
	}
}

// What an endpoint says does not steer the terminal that shows it.
func TestPullErrorsAreClean(t *testing.T) {
	err := fmt.Errorf("moved to %w", cleanError{fmt.Errorf("host \u009b31m\x1b]0;x\x07\u202e: %w", ErrOffline)})
	if text := err.Error(); strings.ContainsAny(text, "\x1b\x07\u009b\u202e") || !strings.Contains(text, "host 31m") {
		t.Errorf("%q", text)
	}
}
