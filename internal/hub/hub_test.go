package hub

import (
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const commitA = "0123456789abcdef0123456789abcdef01234567"

// A fakeHub is an endpoint with one repository, org/model.
type fakeHub struct {
	*httptest.Server
	t       *testing.T
	files   map[string][]byte
	page    int                                                                   // entries per page of the listing; 0 = all
	listed  []map[string]any                                                      // replaces the listing
	api     func(w http.ResponseWriter, r *http.Request) bool                     // true = answered
	content func(w http.ResponseWriter, r *http.Request, name string, n int) bool // n-th request for the file, from 1; see setContent

	mu    sync.Mutex
	count map[string]int
	seen  []string // "path range if-range" of the content requests
}

func newFakeHub(t *testing.T) *fakeHub {
	h := &fakeHub{t: t, count: map[string]int{}, files: map[string][]byte{
		"config.json":       []byte(`{"model_type":"llama"}`),
		"tokenizer.json":    []byte(`{}`),
		"model.safetensors": pattern(300_000),
		"README.md":         []byte("read me"),
	}}
	h.Server = httptest.NewServer(http.HandlerFunc(h.serve))
	t.Cleanup(h.Close)
	return h
}

// pattern returns n bytes that do not repeat at any block size.
func pattern(n int) []byte {
	b := make([]byte, n)
	x := uint32(n)
	for i := range b {
		x = x*1664525 + 1013904223
		b[i] = byte(x >> 24)
	}
	return b
}

func large(name string) bool {
	return strings.HasSuffix(name, ".safetensors") || strings.HasSuffix(name, ".gguf")
}

func gitID(b []byte) string {
	s := sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(b)), b...))
	return hex.EncodeToString(s[:])
}

func digest(name string, b []byte) string {
	if large(name) {
		s := sha256.Sum256(b)
		return hex.EncodeToString(s[:])
	}
	return gitID(b)
}

func (h *fakeHub) listing() []map[string]any {
	if h.listed != nil {
		return h.listed
	}
	list := []map[string]any{{"type": "directory", "path": "original", "oid": gitID(nil)}}
	for name, b := range h.files {
		e := map[string]any{"type": "file", "path": name, "size": len(b), "oid": gitID(b)}
		if large(name) {
			e["lfs"] = map[string]any{"oid": digest(name, b), "size": len(b), "pointerSize": 134}
			e["size"] = 134
		}
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b map[string]any) int { return strings.Compare(a["path"].(string), b["path"].(string)) })
	return list
}

func (h *fakeHub) serve(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/api/") {
		if h.api != nil && h.api(w, r) {
			return
		}
		h.serveAPI(w, r)
		return
	}
	name, ok := strings.CutPrefix(r.URL.Path, "/org/model/resolve/"+commitA+"/")
	b, known := h.files[name]
	if !ok || !known {
		http.NotFound(w, r)
		return
	}
	h.mu.Lock()
	h.count[name]++
	n, content := h.count[name], h.content
	h.seen = append(h.seen, strings.TrimSpace(name+" "+r.Header.Get("Range")+" "+r.Header.Get("If-Range")))
	h.mu.Unlock()
	w.Header().Set("ETag", `"`+digest(name, b)+`"`)
	if content != nil && content(w, r, name, n) {
		return
	}
	http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(b)))
}

func (h *fakeHub) serveAPI(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/api/models/org/model/revision/main" || r.URL.Path == "/api/models/org/model/revision/"+commitA:
		json.NewEncoder(w).Encode(map[string]any{"id": "org/model", "sha": commitA})
	case r.URL.Path == "/api/models/org/model/tree/"+commitA:
		list := h.listing()
		from, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
		to := len(list)
		if h.page > 0 && from+h.page < to {
			to = from + h.page
			w.Header().Set("Link", fmt.Sprintf(`<%s%s?recursive=true&cursor=%d>; rel="next"`, h.URL, r.URL.Path, to))
		}
		json.NewEncoder(w).Encode(list[from:to])
	case r.URL.Path == "/api/models/org/model/refs":
		fmt.Fprint(w, `{"branches":[{"name":"main"},{"name":"release"}],"tags":[{"name":"v1.0"}]}`)
	case r.URL.Path == "/api/models":
		fmt.Fprint(w, `[{"id":"org/model"},{"id":"other/thing"},{"id":"../../etc"}]`)
	case strings.HasPrefix(r.URL.Path, "/api/models/org/model/"):
		w.Header().Set("X-Error-Code", "RevisionNotFound")
		http.NotFound(w, r)
	default:
		w.Header().Set("X-Error-Code", "RepoNotFound")
		http.NotFound(w, r)
	}
}

// setContent replaces h.content while requests may still be answered: a pull that was
// cancelled does not wait until the hub has seen that.
func (h *fakeHub) setContent(f func(w http.ResponseWriter, r *http.Request, name string, n int) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.content = f
}

// requests returns the content requests since the last call.
func (h *fakeHub) requests() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	seen := h.seen
	h.seen = nil
	return seen
}

// config returns settings for h with a fresh cache; sleeps are recorded, not slept.
func (h *fakeHub) config() (Config, *[]time.Duration) {
	var mu sync.Mutex
	slept := &[]time.Duration{}
	return Config{Endpoint: h.URL, Cache: filepath.Join(h.t.TempDir(), "hub"), Sleep: func(ctx context.Context, d time.Duration) error {
		mu.Lock()
		defer mu.Unlock()
		*slept = append(*slept, d)
		return ctx.Err()
	}}, slept
}

func mustName(t *testing.T, s string) Name {
	t.Helper()
	n, err := ParseName(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// wantFiles checks the content of every file of a snapshot, and that there are no others.
func (h *fakeHub) wantFiles(dir string, names ...string) {
	h.t.Helper()
	var got []string
	filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, _ := filepath.Rel(dir, p)
			got = append(got, filepath.ToSlash(rel))
			b, err := os.ReadFile(p)
			if err != nil || string(b) != string(h.files[filepath.ToSlash(rel)]) {
				h.t.Errorf("%s: %d bytes (%v), expected %d", rel, len(b), err, len(h.files[filepath.ToSlash(rel)]))
			}
		}
		return err
	})
	slices.Sort(names)
	if !slices.Equal(got, names) {
		h.t.Errorf("snapshot holds %q, expected %q", got, names)
	}
}

func TestPullLayout(t *testing.T) {
	h := newFakeHub(t)
	h.files["original/model.safetensors"] = pattern(10)
	h.files["sub/extra.json"] = []byte("{}")
	h.page = 2
	cfg, slept := h.config()
	var last, total int64
	var mu sync.Mutex
	req := Request{Name: mustName(t, "org/model"), Progress: func(d, n int64) {
		mu.Lock()
		defer mu.Unlock()
		last, total = max(last, d), n
	}}
	got, err := Pull(t.Context(), cfg, req)
	if err != nil {
		t.Fatal(err)
	}
	repo := filepath.Join(cfg.Cache, "models--org--model")
	if want := filepath.Join(repo, "snapshots", commitA); got.Path != want || got.Commit != commitA || got.Files != 3 {
		t.Errorf("got %+v, expected 3 files in %s", got, want)
	}
	if got.Bytes != 300_024 || got.Fetched != got.Bytes || last != got.Bytes || total != got.Bytes {
		t.Errorf("bytes %d, fetched %d, progress %d of %d; expected 300024 each", got.Bytes, got.Fetched, last, total)
	}
	h.wantFiles(got.Path, "config.json", "tokenizer.json", "model.safetensors")
	link, err := os.Readlink(filepath.Join(got.Path, "model.safetensors"))
	if want := filepath.FromSlash("../../blobs/" + digest("model.safetensors", h.files["model.safetensors"])); err != nil || link != want {
		t.Errorf("link is %q (%v), expected %q", link, err, want)
	}
	if ref, err := os.ReadFile(filepath.Join(repo, "refs", "main")); err != nil || string(ref) != commitA {
		t.Errorf("refs/main holds %q (%v)", ref, err)
	}
	blobs, _ := os.ReadDir(filepath.Join(repo, "blobs"))
	if len(blobs) != 3 {
		t.Errorf("%d blobs, expected 3: %v", len(blobs), blobs)
	}
	if len(*slept) != 0 {
		t.Errorf("waited %v", *slept)
	}
	if path, err := Resolve(cfg, "org/model"); err != nil || path != got.Path {
		t.Errorf("Resolve gave %q, %v", path, err)
	}

	h.requests()
	again, err := Pull(t.Context(), cfg, req)
	if seen := h.requests(); err != nil || again.Fetched != 0 || len(seen) != 0 {
		t.Errorf("second pull fetched %d bytes with %q, %v", again.Fetched, seen, err)
	}
}

// Each row makes the endpoint misbehave with model.safetensors (300,000 bytes).
func TestPullMisbehaviour(t *testing.T) {
	const size = 300_000
	drop := func(w http.ResponseWriter, b []byte) { // sends part of what it promised, then hangs up
		w.Header().Set("Content-Length", strconv.Itoa(size))
		w.WriteHeader(http.StatusOK)
		w.Write(b)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	for _, c := range []struct {
		name    string
		content func(h *fakeHub, w http.ResponseWriter, r *http.Request, b []byte, n int) bool
		waits   []time.Duration
		seen    []string // ranges asked for, one per request
		err     string
	}{
		{name: "drops in the middle", content: func(h *fakeHub, w http.ResponseWriter, r *http.Request, b []byte, n int) bool {
			if n == 1 {
				drop(w, b[:100_000])
			}
			return false
		}, waits: []time.Duration{1e9}, seen: []string{"", "bytes=100000-"}},
		{name: "drops for ever", content: func(h *fakeHub, w http.ResponseWriter, r *http.Request, b []byte, n int) bool {
			panic(http.ErrAbortHandler)
		}, waits: []time.Duration{1e9, 2e9, 4e9, 8e9, 16e9, 32e9, 32e9}, err: "given up after 8 tries"},
		{name: "ignores ranges", content: func(h *fakeHub, w http.ResponseWriter, r *http.Request, b []byte, n int) bool {
			if n == 1 {
				drop(w, b[:100_000])
			}
			w.Write(b)
			return true
		}, waits: []time.Duration{1e9}, seen: []string{"", "bytes=100000-"}},
		{name: "short length", content: func(h *fakeHub, w http.ResponseWriter, r *http.Request, b []byte, n int) bool {
			if n == 1 {
				w.Header().Set("Content-Length", "1000")
				w.Write(b[:1000])
				return true
			}
			return false
		}, waits: []time.Duration{1e9}, seen: []string{"", "bytes=1000-"}},
		{name: "too long", content: func(h *fakeHub, w http.ResponseWriter, r *http.Request, b []byte, n int) bool {
			w.Write(append(b, 1))
			return true
		}, seen: []string{""}, err: "more than the 300000 bytes"},
		{name: "wrong content", content: func(h *fakeHub, w http.ResponseWriter, r *http.Request, b []byte, n int) bool {
			w.Write(make([]byte, size))
			return true
		}, seen: []string{""}, err: "expected " + digest("x.gguf", pattern(size)) + ": the copy was removed"},
		{name: "wrong range", content: func(h *fakeHub, w http.ResponseWriter, r *http.Request, b []byte, n int) bool {
			switch n {
			case 1:
				drop(w, b[:100_000])
			case 2:
				w.Header().Set("Content-Range", "bytes 0-299999/300000")
				w.WriteHeader(http.StatusPartialContent)
				w.Write(b)
				return true
			}
			return false
		}, waits: []time.Duration{1e9, 2e9}, seen: []string{"", "bytes=100000-", ""}},
		{name: "content changes, If-Range honoured", content: func(h *fakeHub, w http.ResponseWriter, r *http.Request, b []byte, n int) bool {
			if n == 1 {
				w.Header().Set("ETag", `"old"`)
				drop(w, make([]byte, 100_000))
			}
			return false
		}, waits: []time.Duration{1e9}, seen: []string{"", "bytes=100000-"}},
		{name: "content changes, If-Range ignored", content: func(h *fakeHub, w http.ResponseWriter, r *http.Request, b []byte, n int) bool {
			if n == 1 {
				w.Header().Set("ETag", `"old"`)
				drop(w, make([]byte, 100_000))
			}
			r.Header.Del("If-Range")
			return false
		}, waits: []time.Duration{1e9, 2e9}, seen: []string{"", "bytes=100000-", ""}},
		{name: "content changes, no ETag", content: func(h *fakeHub, w http.ResponseWriter, r *http.Request, b []byte, n int) bool {
			w.Header().Del("ETag")
			if n == 1 {
				drop(w, make([]byte, 100_000))
			}
			return false
		}, waits: []time.Duration{1e9}, seen: []string{"", "bytes=100000-", ""}},
		{name: "range refused", content: func(h *fakeHub, w http.ResponseWriter, r *http.Request, b []byte, n int) bool {
			if n == 1 {
				drop(w, b[:100_000])
			}
			if r.Header.Get("Range") != "" {
				w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
				return true
			}
			return false
		}, waits: []time.Duration{1e9, 2e9}, seen: []string{"", "bytes=100000-", ""}},
		{name: "busy with Retry-After", content: func(h *fakeHub, w http.ResponseWriter, r *http.Request, b []byte, n int) bool {
			switch n {
			case 1:
				w.Header().Set("Retry-After", "17")
				w.WriteHeader(http.StatusTooManyRequests)
				return true
			case 2:
				w.WriteHeader(http.StatusServiceUnavailable)
				return true
			}
			return false
		}, waits: []time.Duration{17e9, 2e9}, seen: []string{"", "", ""}},
		{name: "absurd Retry-After", content: func(h *fakeHub, w http.ResponseWriter, r *http.Request, b []byte, n int) bool {
			if n == 1 {
				w.Header().Set("Retry-After", "99999999")
				w.WriteHeader(http.StatusTooManyRequests)
			}
			return n == 1
		}, waits: []time.Duration{maxWait}, seen: []string{"", ""}},
		{name: "gone", content: func(h *fakeHub, w http.ResponseWriter, r *http.Request, b []byte, n int) bool {
			w.WriteHeader(http.StatusGone)
			return true
		}, seen: []string{""}, err: "model.safetensors: the endpoint answered 410 Gone"},
		{name: "redirected within the host", content: func(h *fakeHub, w http.ResponseWriter, r *http.Request, b []byte, n int) bool {
			if n == 1 {
				http.Redirect(w, r, "./model.safetensors?again", http.StatusFound)
			}
			return n == 1
		}, seen: []string{"", ""}},
		{name: "redirected in a circle", content: func(h *fakeHub, w http.ResponseWriter, r *http.Request, b []byte, n int) bool {
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
			return true
		}, seen: make([]string, 10), err: "more than 10 redirects"}, // and would be in the next try
		{name: "two answers that contradict each other", content: func(h *fakeHub, w http.ResponseWriter, r *http.Request, b []byte, n int) bool {
			if r.Header.Get("Range") != "" { // what the first answer gave is all there is
				w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
				return true
			}
			w.Header().Set("Content-Length", "1000")
			w.Write(b[:1000])
			return true
		}, waits: []time.Duration{1e9, 2e9, 4e9, 8e9, 16e9, 32e9, 32e9}, err: "given up after 8 tries"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newFakeHub(t)
			h.Config.ErrorLog = nil
			h.content = func(w http.ResponseWriter, r *http.Request, name string, n int) bool {
				return large(name) && c.content(h, w, r, slices.Clone(h.files[name]), n)
			}
			cfg, slept := h.config()
			got, err := Pull(t.Context(), cfg, Request{Name: mustName(t, "org/model")})
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got error %v, expected %q", err, c.err)
				}
				if _, err := Resolve(cfg, "org/model"); err == nil {
					t.Error("the failed pull can be resolved")
				}
			} else if err != nil {
				t.Error(err)
			} else {
				h.wantFiles(got.Path, "config.json", "tokenizer.json", "model.safetensors")
			}
			if !slices.Equal(*slept, c.waits) {
				t.Errorf("waited %v, expected %v", *slept, c.waits)
			}
			var ranges []string
			for _, s := range h.requests() {
				if rest, ok := strings.CutPrefix(s, "model.safetensors"); ok {
					rest, _, _ = strings.Cut(strings.TrimSpace(rest), " ")
					ranges = append(ranges, rest)
				}
			}
			if c.seen != nil && !slices.Equal(ranges, c.seen) { // the transport itself may repeat a request whose connection died
				t.Errorf("asked for %q, expected %q", ranges, c.seen)
			}
			if left := glob(t, cfg.Cache, digest("x.gguf", pattern(size))+".incomplete"); (c.err == "" && len(left) > 0) || (strings.Contains(c.err, "removed") && len(left) > 0) {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

// glob returns the files below dir whose base names match.
func glob(t *testing.T, dir, pattern string) (found []string) {
	t.Helper()
	filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if ok, _ := filepath.Match(pattern, filepath.Base(p)); ok && err == nil && !d.IsDir() {
			found = append(found, p)
		}
		return nil
	})
	return found
}

// The token must reach the endpoint and nobody else, whatever it redirects to.
func TestPullTokenStaysHome(t *testing.T) {
	var leaked []string
	storage := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leaked = append(leaked, r.Header.Get("Authorization")+r.Header.Get("Referer")+r.Header.Get("Cookie"))
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(string(pattern(300_000))))
	}))
	defer storage.Close()
	h := newFakeHub(t)
	withToken := 0
	h.content = func(w http.ResponseWriter, r *http.Request, name string, n int) bool {
		if r.Header.Get("Authorization") == "Bearer hf_secret" {
			withToken++
		}
		if large(name) {
			http.Redirect(w, r, storage.URL+"/signed?x=1", http.StatusTemporaryRedirect)
		}
		return large(name)
	}
	cfg, _ := h.config()
	cfg.Token, cfg.Parallel = "hf_secret", 1
	got, err := Pull(t.Context(), cfg, Request{Name: mustName(t, "org/model")})
	if err != nil {
		t.Fatal(err)
	}
	h.wantFiles(got.Path, "config.json", "tokenizer.json", "model.safetensors")
	if withToken != 3 {
		t.Errorf("%d of 3 content requests carried the token", withToken)
	}
	if !slices.Equal(leaked, []string{""}) {
		t.Errorf("the other host got %q", leaked)
	}
}

func TestPullRefusesToLeaveHTTPS(t *testing.T) {
	c := &client{}
	from, _ := http.NewRequest("GET", "https://a/x", nil)
	to, _ := http.NewRequest("GET", "http://a/x", nil)
	if err := c.redirect(to, []*http.Request{from}); err == nil {
		t.Error("a redirect from https to http was followed")
	}
}

func TestPullNextPageStaysHome(t *testing.T) {
	h := newFakeHub(t)
	h.api = func(w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Link", `<http://127.0.0.1:1/steal>; rel="next"`)
		return false
	}
	cfg, _ := h.config()
	_, err := Pull(t.Context(), cfg, Request{Name: mustName(t, "org/model")})
	if err == nil || !strings.Contains(err.Error(), "is not on") {
		t.Errorf("got %v, expected a refusal of the next page", err)
	}
}

// An interrupted pull keeps its bytes; the next one asks for the rest only.
func TestPullResumesAfterCancel(t *testing.T) {
	h := newFakeHub(t)
	ctx, cancel := context.WithCancel(t.Context())
	h.content = func(w http.ResponseWriter, r *http.Request, name string, n int) bool {
		if !large(name) || n > 1 {
			return false
		}
		w.Header().Set("Content-Length", "300000")
		w.Write(h.files[name][:120_000])
		w.(http.Flusher).Flush()
		<-r.Context().Done() // the rest never comes
		return true
	}
	cfg, _ := h.config()
	_, err := Pull(ctx, cfg, Request{Name: mustName(t, "org/model"), Progress: func(done, total int64) {
		if done >= 120_024 { // all that comes, and the small files
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, expected cancellation", err)
	}
	if _, err := Resolve(cfg, "org/model"); err == nil {
		t.Error("an interrupted pull can be resolved")
	}
	got, err := Pull(t.Context(), cfg, Request{Name: mustName(t, "org/model")})
	if err != nil {
		t.Fatal(err)
	}
	h.wantFiles(got.Path, "config.json", "tokenizer.json", "model.safetensors")
	if seen := h.requests(); !slices.Contains(seen, "model.safetensors bytes=120000-") {
		t.Errorf("requests %q, expected one for the rest", seen)
	}
	if got.Fetched < 180_000 || got.Fetched > 180_024 { // the small files may have been cut short too
		t.Errorf("fetched %d bytes, expected 180000 and perhaps the small files", got.Fetched)
	}
}

func TestPullReplacesBadRemains(t *testing.T) {
	for _, c := range []struct {
		name string
		left []byte
	}{
		{"of another file", make([]byte, 100_000)}, {"too long", make([]byte, 300_001)}, {"complete and wrong", make([]byte, 300_000)},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newFakeHub(t)
			cfg, _ := h.config()
			blobs := filepath.Join(cfg.Cache, "models--org--model", "blobs")
			if err := os.MkdirAll(blobs, 0o755); err != nil {
				t.Fatal(err)
			}
			name := filepath.Join(blobs, digest("model.safetensors", h.files["model.safetensors"])+".incomplete")
			if err := os.WriteFile(name, c.left, 0o644); err != nil {
				t.Fatal(err)
			}
			got, err := Pull(t.Context(), cfg, Request{Name: mustName(t, "org/model")})
			if err != nil {
				t.Fatal(err)
			}
			h.wantFiles(got.Path, "config.json", "tokenizer.json", "model.safetensors")
		})
	}
}

func TestPullStall(t *testing.T) {
	h := newFakeHub(t)
	h.content = func(w http.ResponseWriter, r *http.Request, name string, n int) bool {
		if !large(name) || n > 1 {
			return false
		}
		w.Header().Set("Content-Length", "300000")
		w.Write(h.files[name][:1000])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return true
	}
	cfg, slept := h.config()
	cfg.Stall = 500 * time.Millisecond
	got, err := Pull(t.Context(), cfg, Request{Name: mustName(t, "org/model")})
	if err != nil {
		t.Fatal(err)
	}
	h.wantFiles(got.Path, "config.json", "tokenizer.json", "model.safetensors")
	if len(*slept) < 1 { // a busy machine stalls, too
		t.Errorf("waited %v, expected a wait", *slept)
	}
}

// Two pulls at once share the work and both succeed; each file is sent once.
func TestPullTwiceAtOnce(t *testing.T) {
	h := newFakeHub(t)
	cfg, _ := h.config()
	cfg.Sleep = func(ctx context.Context, d time.Duration) error { runtime.Gosched(); return ctx.Err() }
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			got, err := Pull(t.Context(), cfg, Request{Name: mustName(t, "org/model")})
			if err != nil {
				t.Error(err)
				return
			}
			h.wantFiles(got.Path, "config.json", "tokenizer.json", "model.safetensors")
		})
	}
	wg.Wait()
	if seen := h.requests(); len(seen) != 3 {
		t.Errorf("sent %q, expected each of 3 files once", seen)
	}
}

// What --force replaces stays until it is replaced, whatever comes between.
func TestPullForceKeeps(t *testing.T) {
	h := newFakeHub(t)
	cfg, _ := h.config()
	req := Request{Name: mustName(t, "org/model")}
	got, err := Pull(t.Context(), cfg, req)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	h.setContent(func(w http.ResponseWriter, r *http.Request, name string, _ int) bool {
		if large(name) {
			cancel()
			<-r.Context().Done()
		}
		return large(name)
	})
	req.Force = true
	if _, err := Pull(ctx, cfg, req); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, expected cancellation", err)
	}
	if path, err := Resolve(cfg, "org/model"); err != nil || path != got.Path {
		t.Errorf("%q, %v", path, err)
	}
	h.wantFiles(got.Path, "config.json", "tokenizer.json", "model.safetensors")
	weights := filepath.Join(got.Path, "model.safetensors")
	if err := os.WriteFile(weights, make([]byte, 300_000), 0o644); err != nil { // damage
		t.Fatal(err)
	}
	h.setContent(nil)
	if _, err := Pull(t.Context(), cfg, req); err != nil {
		t.Fatal(err)
	}
	h.wantFiles(got.Path, "config.json", "tokenizer.json", "model.safetensors")
}

func TestPullWithoutLinks(t *testing.T) {
	h := newFakeHub(t)
	cfg, _ := h.config()
	cfg.symlink = func(*os.Root, string, string) error { return syscall.EPERM }
	for range 2 {
		got, err := Pull(t.Context(), cfg, Request{Name: mustName(t, "org/model")})
		if err != nil {
			t.Fatal(err)
		}
		h.wantFiles(got.Path, "config.json", "tokenizer.json", "model.safetensors")
	}
	if seen := h.requests(); len(seen) != 3 {
		t.Errorf("sent %q, expected each of 3 files once", seen)
	}
}

func TestPullErrors(t *testing.T) {
	status := func(code int, name string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("X-Error-Code", name)
			w.WriteHeader(code)
			return true
		}
	}
	body := func(s string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool { fmt.Fprint(w, s); return true }
	}
	for _, c := range []struct {
		name, model, token string
		api                func(http.ResponseWriter, *http.Request) bool
		want               []string
		waits              int
		files              bool // the metadata can be had, files cannot
	}{
		{name: "gated, no token", model: "org/model", api: status(401, "GatedRepo"), want: []string{"accept the terms at http://", "/org/model", "set HF_TOKEN"}},
		{name: "gated, token without access", model: "org/model", token: "hf_secret", api: status(403, "GatedRepo"), want: []string{"the token in use has no access"}},
		{name: "gated, listed all the same", model: "org/model", api: status(401, "GatedRepo"), files: true, want: []string{"accept the terms at http://", "set HF_TOKEN"}},
		{name: "unauthorised", model: "org/model", api: status(401, ""), want: []string{"access is restricted"}},
		{name: "no such model", model: "org/mdel", want: []string{"not found on 127.0.0.1", "did you mean org/model?"}},
		{name: "no such model, unlike any", model: "a/zzzzzzzzzz", want: []string{"not found on"}},
		{name: "no such revision", model: "org/model@relase", want: []string{`no branch, tag or commit "relase"`, "did you mean release?"}},
		{name: "broken for ever", model: "org/model", api: status(503, ""), want: []string{"given up after 4 tries", "503"}, waits: 3},
		{name: "not JSON", model: "org/model", api: body("<html>"), want: []string{"not the answer of a model hub"}},
		{name: "hostile commit", model: "org/model", api: body(`{"sha":"../../../etc"}`), want: []string{"expected 40 hexadecimal digits"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newFakeHub(t)
			if h.api = c.api; c.files {
				h.api, h.content = nil, func(w http.ResponseWriter, r *http.Request, _ string, _ int) bool { return c.api(w, r) }
			}
			cfg, slept := h.config()
			cfg.Token = c.token
			_, err := Pull(t.Context(), cfg, Request{Name: mustName(t, c.model)})
			for _, w := range append(c.want, c.model) {
				if err == nil || !strings.Contains(err.Error(), w) {
					t.Errorf("got %v, expected it to contain %q", err, w)
				}
			}
			if err != nil && (strings.Contains(err.Error(), "hf_secret") || strings.Contains(err.Error(), "etc?")) {
				t.Errorf("error %v tells too much", err)
			}
			if len(*slept) != c.waits {
				t.Errorf("waited %v, expected %d waits", *slept, c.waits)
			}
		})
	}
}

func TestPullBadDigestInListing(t *testing.T) {
	h := newFakeHub(t)
	h.listed = []map[string]any{{"type": "file", "path": "model.safetensors", "size": 5, "oid": "../../../../canary"}}
	cfg, _ := h.config()
	_, err := Pull(t.Context(), cfg, Request{Name: mustName(t, "org/model")})
	if err == nil || !strings.Contains(err.Error(), "expected SHA-256 or a git blob id") {
		t.Errorf("got %v", err)
	}
}

func TestPullHugeListing(t *testing.T) {
	h := newFakeHub(t)
	h.page = 1000
	for i := range 3000 {
		h.files[fmt.Sprintf("shards/part-%05d.bin", i)] = nil
	}
	cfg, _ := h.config()
	got, err := Pull(t.Context(), cfg, Request{Name: mustName(t, "org/model")})
	if err != nil || got.Files != 3 {
		t.Errorf("%d files, %v; expected 3", got.Files, err)
	}

	h.api = func(w http.ResponseWriter, r *http.Request) bool { // a listing that never ends
		if !strings.Contains(r.URL.Path, "/tree/") {
			return false
		}
		w.Header().Set("Link", `<`+r.URL.Path+`>; rel="next"`)
		fmt.Fprint(w, "["+strings.Repeat(`{"type":"file","path":"a"},`, 50_000)+`{}]`)
		return true
	}
	if _, err := Pull(t.Context(), cfg, Request{Name: mustName(t, "org/model")}); err == nil || !strings.Contains(err.Error(), "never ends") {
		t.Errorf("got %v, expected a limit", err)
	}
}

func TestPullOfflineDialsNothing(t *testing.T) {
	dials := 0
	cfg := Config{Cache: t.TempDir(), Offline: true, Transport: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { dials++; return nil, errors.New("dialled") },
	}}
	_, err := Pull(t.Context(), cfg, Request{Name: mustName(t, "org/model")})
	if !errors.Is(err, ErrOffline) {
		t.Errorf("got %v, expected ErrOffline", err)
	}
	if _, err := Resolve(cfg, "org/model"); err == nil {
		t.Error("resolved a model that is not there")
	}
	if dials != 0 {
		t.Errorf("%d dials", dials)
	}
}

func TestPullDisk(t *testing.T) {
	h := newFakeHub(t)
	cfg, _ := h.config()
	if err := os.WriteFile(cfg.Cache, nil, 0o644); err != nil { // a file where the folder should be
		t.Fatal(err)
	}
	if _, err := Pull(t.Context(), cfg, Request{Name: mustName(t, "org/model")}); err == nil || !strings.Contains(err.Error(), cfg.Cache) {
		t.Errorf("got %v, expected an error that names %s", err, cfg.Cache)
	}

	h.listed = []map[string]any{{"type": "file", "path": "model.safetensors", "size": int64(1) << 44, "oid": gitID(nil)}}
	cfg, _ = h.config()
	_, err := Pull(t.Context(), cfg, Request{Name: mustName(t, "org/model")})
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "set HF_HUB_CACHE to another disk") {
		t.Errorf("got %v, expected a full disk with advice", err)
	}
	if seen := h.requests(); len(seen) != 0 {
		t.Errorf("asked for %q before looking at the disk", seen)
	}
	if err := diskHint(&fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES}, "/cache"); !strings.Contains(err.Error(), "make /cache writable") {
		t.Errorf("got %v", err)
	}
}

func TestPullNegativeSizes(t *testing.T) {
	h := newFakeHub(t)
	h.listed = []map[string]any{{"type": "file", "path": "model.safetensors", "size": -5, "oid": gitID(nil)}}
	cfg, _ := h.config()
	if _, err := Pull(t.Context(), cfg, Request{Name: mustName(t, "org/model")}); err == nil {
		t.Error("a file of -5 bytes was accepted")
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		v    string
		want time.Duration
	}{
		{"", 0}, {"7", 7 * time.Second}, {"-1", 0}, {"1e9", 0}, {"999999999999", maxWait},
		{"Fri, 02 Jan 2026 03:04:15 GMT", 10 * time.Second}, {"Fri, 02 Jan 2025 03:04:15 GMT", 0}, {"Sat, 02 Jan 2027 03:04:15 GMT", maxWait},
	} {
		if got := retryAfter(c.v, now); got != c.want {
			t.Errorf("%q: %v, expected %v", c.v, got, c.want)
		}
	}
}

// Whatever a Link header says, the next page is on the endpoint or refused.
func FuzzNextPage(f *testing.F) {
	for _, s := range []string{"", `<https://hub/api?cursor=2>; rel="next"`, `</api?x>; rel="prev", <?cursor=3>; rel="next"`, `<//evil/x>; rel="next"`,
		`<http://hub/x>; rel="next"`, `<https://hub@evil/>; rel="next"`, `<https://hub:444/>; rel="next"`, `<\\evil>; rel="next"`, `<>; rel="next"`, "<\x00>; rel=\"next\""} {
		f.Add(s)
	}
	c, err := newClient(Config{Endpoint: "https://hub"}.withDefaults())
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, link string) {
		u, err := c.nextPage(c.at("api"), link)
		if (u != nil && err != nil) || (u != nil && (u.Scheme != "https" || u.Host != "hub")) {
			t.Errorf("%q leads to %v, %v", link, u, err)
		}
	})
}

func TestNewClientEndpoint(t *testing.T) {
	for endpoint, ok := range map[string]bool{"https://hub": true, "http://127.0.0.1:80/hf/": true, "hub": false, "ftp://hub": false, "https://": false, "%": false, "https://me:secret@hub": false} {
		c, err := newClient(Config{Endpoint: endpoint}.withDefaults())
		if (err == nil) != ok {
			t.Errorf("%q: %v", endpoint, err)
		}
		if ok && c.at("api", "a b", "refs/pr/1").String() != strings.TrimRight(endpoint, "/")+"/api/a%20b/refs%2Fpr%2F1" {
			t.Errorf("%q: %s", endpoint, c.at("api", "a b", "refs/pr/1"))
		}
	}
}

// Taking over the bytes of an earlier run reads them all; a signal must end that too.
func TestResumeIsCancellable(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	part, err := root.Create("part")
	if err != nil {
		t.Fatal(err)
	}
	defer part.Close()
	r := &remote{Size: 10, Blob: gitID(nil)}
	tr := &transfer{pull: &pull{}, file: r, part: part, hash: r.newHash()}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tr.resume(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
