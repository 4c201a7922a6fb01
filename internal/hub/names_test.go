package hub

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ossian/internal/lazyregexp"
)

func TestParseName(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Name
	}{
		{"openai/gpt-oss-20b", Name{Repo: "openai/gpt-oss-20b"}},
		{"Qwen/Qwen3-0.6B@v1.0", Name{Repo: "Qwen/Qwen3-0.6B", Revision: "v1.0"}},
		{"a/b@refs/pr/1", Name{Repo: "a/b", Revision: "refs/pr/1"}},
		{"a/b/c.gguf", Name{Repo: "a/b", File: "c.gguf"}},
		{"a/b/Q4_K_M/c-00001-of-00002.gguf@main", Name{Repo: "a/b", File: "Q4_K_M/c-00001-of-00002.gguf", Revision: "main"}},
	} {
		got, err := ParseName(c.in)
		if err != nil || got != c.want {
			t.Errorf("%s: got %+v, %v; expected %+v", c.in, got, err, c.want)
		}
		if err == nil && got.String() != c.in {
			t.Errorf("%s is written as %s", c.in, got)
		}
	}
}

// hostile returns path strings that try to leave a folder, on any system.
func hostile() []string {
	var out []string
	for _, sep := range []string{"/", `\`, "//", `\\`, "/./", "%2f", "%5c", "\x00", "\u2215", "\uff0f", ":", ";", "\n"} {
		for _, up := range []string{"..", "...", ".", "", " ..", ".. ", "..;", "%2e%2e", "\uff0e\uff0e", "~", "$HOME", "canary", "C:", "CON", "nul.txt", "-", "a--b", "\xff\xfe"} {
			for _, tail := range []string{"canary", "etc" + sep + "passwd", ".." + sep + "canary", "x.gguf", "../../../../canary/secret.gguf"} {
				out = append(out, up+sep+tail)
			}
		}
	}
	return append(out, "", "/", "a", "a/", "/a", "a//b", "a/b/", strings.Repeat("a/", 500)+"x.gguf", strings.Repeat("a", 100)+"/b",
		"a/"+strings.Repeat("b", 5000)+".gguf", "a/b@", "a/b@..", "a/b@/x", "a/b@x/../../y", "a/b@.hidden", "a/b@-f", "a/b@con", "a/b/../c.gguf",
		"a/b/c.gguf/d", "a/b/c.safetensors", `\\server\share\x.gguf`, `C:\x.gguf`, "file:///etc/passwd", "a.git/b.git", "a/b.", "a/b@x.", "a/LPT1.gguf/x.gguf")
}

// CKP-5: whatever a user or an endpoint calls a file, nothing outside the cache is
// read, written or even looked at by name; a canary tree beside it stays untouched.
func TestHostilePaths(t *testing.T) {
	paths := hostile()
	if len(paths) < 1000 {
		t.Fatalf("%d hostile paths, 1000 required", len(paths))
	}
	dir := t.TempDir()
	canary := filepath.Join(dir, "canary")
	for _, p := range []string{canary, filepath.Join(dir, "work")} {
		if err := os.Mkdir(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(canary, "secret.gguf"), []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(dir, "work"))
	before := tree(t, dir)
	cfg := Config{Cache: filepath.Join(dir, "hub")}
	for _, p := range paths {
		for _, name := range []string{p, "a/" + p, "a/b/" + p, "a/b@" + p, "a/b/" + p + ".gguf"} {
			n, err := ParseName(name)
			if err == nil && (!validPath(n.folder()) || (n.File != "" && !validPath(n.File)) || (n.Revision != "" && !validPath(n.Revision))) {
				t.Errorf("%q was accepted as %+v", name, n)
			}
			if _, err := os.Stat(name); err == nil {
				continue // it does name a file, as any path may
			}
			if path, err := Resolve(cfg, name); err == nil {
				t.Errorf("%q resolved to %q", name, path)
			}
		}
	}
	if after := tree(t, dir); after != before {
		t.Errorf("the tree changed from\n%s\nto\n%s", before, after)
	}

	h := newFakeHub(t) // now the endpoint lists them
	cfg = Config{Endpoint: h.URL, Cache: filepath.Join(dir, "hub")}
	for _, p := range paths {
		content := []byte("config")
		h.files[p] = content
		h.listed = []map[string]any{{"type": "file", "path": p, "size": len(content), "oid": gitID(content)}}
		_, err := Pull(t.Context(), cfg, Request{Name: Name{Repo: "org/model"}, Include: []string{"*"}})
		if (err == nil) != validPath(p) {
			t.Errorf("listed file %q: %v", p, err)
		}
		if err := os.RemoveAll(cfg.Cache); err != nil {
			t.Fatal(err)
		}
	}
	if after := tree(t, dir); after != before {
		t.Errorf("pulls changed the tree from\n%s\nto\n%s", before, after)
	}
}

// tree lists everything below dir.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := d.Info()
		if err == nil {
			fmt.Fprintln(&b, p, d.Type(), st.Size())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Links that lead out of the cache are not followed, wherever they were planted.
func TestPullFollowsNoLinkOut(t *testing.T) {
	blob := digest("model.safetensors", pattern(300_000))
	for _, c := range []struct{ name, link string }{
		{"repository", "models--org--model"},
		{"blobs", "models--org--model/blobs"},
		{"blob", "models--org--model/blobs/" + blob},
		{"incomplete blob", "models--org--model/blobs/" + blob + ".incomplete"},
		{"refs", "models--org--model/refs"},
		{"snapshot", "models--org--model/snapshots/" + commitA},
		{"locks", ".locks"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newFakeHub(t)
			cfg, _ := h.config()
			canary := filepath.Join(filepath.Dir(cfg.Cache), "canary")
			if err := os.MkdirAll(filepath.Join(canary, "main"), 0o755); err != nil {
				t.Fatal(err)
			}
			link := filepath.Join(cfg.Cache, filepath.FromSlash(c.link))
			if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
				t.Fatal(err)
			}
			target := canary
			if strings.Contains(c.link, blob) {
				target = filepath.Join(canary, "file")
				if err := os.WriteFile(target, []byte("keep"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Symlink(target, link); err != nil {
				t.Fatal(err)
			}
			before := tree(t, canary)
			_, err := Pull(t.Context(), cfg, Request{Name: mustName(t, "org/model")})
			if after := tree(t, canary); after != before {
				t.Errorf("the tree outside changed from\n%s\nto\n%s", before, after)
			}
			if err == nil && c.name != "blob" { // a wrong blob is replaced by rename
				t.Error("no error")
			}
		})
	}
}

func TestValidPath(t *testing.T) {
	for _, good := range []string{"config.json", "a/b/c.gguf", ".gitattributes", "Model (1) v2+x=3.gguf", "_x", "tokenizer_config.json"} {
		if !validPath(good) {
			t.Errorf("%q refused", good)
		}
	}
	for _, bad := range []string{"", ".", "..", "a/../b", "/a", "a/", `a\b`, "a:b", "a\x00", "con", "CON.json", "a/nul/b", "x.", "x ", " x", "-rf", "ü.json", strings.Repeat("a/", 10) + "b"} {
		if validPath(bad) {
			t.Errorf("%q accepted", bad)
		}
	}
}

func FuzzParseName(f *testing.F) {
	for _, s := range hostile()[:50] {
		f.Add(s)
	}
	f.Add("openai/gpt-oss-20b@main")
	f.Add("a/b/c.gguf")
	f.Fuzz(func(t *testing.T, s string) {
		n, err := ParseName(s)
		if err != nil {
			return
		}
		if n.String() != s {
			t.Errorf("%q is written as %q", s, n)
		}
		for _, p := range []string{n.folder(), n.File, n.revision()} {
			if p != "" && (!filepath.IsLocal(p) || strings.ContainsAny(p, "\\:\x00\n")) {
				t.Errorf("%q yields path %q", s, p)
			}
		}
	})
}

func TestLikely(t *testing.T) {
	names := []string{"org/model", "org/other", "x"}
	for want, near := range map[string]string{"org/modle": "org/model", "ORG/Model": "org/model", "zzzzzzzzz": "", "": ""} {
		if got := likely(want, names); got != near {
			t.Errorf("likely(%q) = %q, expected %q", want, got, near)
		}
	}
}

// TestExpressions: an expression that is none would end the program at its first use.
func TestExpressions(t *testing.T) {
	if err := lazyregexp.Check(); err != nil {
		t.Error(err)
	}
}
