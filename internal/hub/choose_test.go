package hub

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestChoose(t *testing.T) {
	hf := []string{".gitattributes", "README.md", "LICENSE", "config.json", "generation_config.json", "merges.txt", "tokenizer.json", "chat_template.jinja",
		"model-00000-of-00001.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json",
		"consolidated.safetensors", "original/model.safetensors", "original/config.json", "metal/model.bin", "onnx/model.onnx"}
	needed := []string{"config.json", "generation_config.json", "merges.txt", "tokenizer.json", "chat_template.jinja",
		"model-00000-of-00001.safetensors", "model.safetensors.index.json"}
	ggufs := []string{"README.md", "config.json", "m-Q4_K_M.gguf", "m-Q8_0.gguf", "mmproj-F16.gguf", "BF16/m-BF16-00001-of-00002.gguf", "BF16/m-BF16-00002-of-00002.gguf"}
	for _, c := range []struct {
		name  string
		files []string
		req   Request
		want  []string
		open  string
		err   string
	}{
		{name: "safetensors", files: hf, want: needed},
		{name: "named templates", files: []string{"config.json", "model.safetensors", "additional_chat_templates/tool_use.jinja", "additional_chat_templates/notes.md", "other/x.jinja"},
			want: []string{"config.json", "model.safetensors", "additional_chat_templates/tool_use.jinja"}},
		{name: "odd weight names", files: []string{"config.json", "weights.safetensors"}, want: []string{"config.json", "weights.safetensors"}},
		{name: "exclude", files: hf, req: Request{Exclude: []string{"*.jinja", "merges.*"}},
			want: slices.DeleteFunc(slices.Clone(needed), func(s string) bool { return s == "chat_template.jinja" || s == "merges.txt" })},
		{name: "include", files: hf, req: Request{Include: []string{"original/*"}}, want: []string{"original/model.safetensors", "original/config.json"}},
		{name: "include by base name", files: hf, req: Request{Include: []string{"confi?.json"}}, want: []string{"config.json", "original/config.json"}},
		{name: "include is no regular expression", files: hf, req: Request{Include: []string{"config.jso.", "(.*"}}, err: "no file matches --include config.jso. (.*"},
		{name: "exclude everything", files: hf, req: Request{Exclude: []string{"*"}}, err: "leaves no file"},
		{name: "one GGUF", files: []string{"README.md", "m.gguf", "mmproj-m.gguf"}, want: []string{"m.gguf"}, open: "m.gguf"},
		{name: "several GGUFs", files: ggufs, err: "holds 3 GGUF models; name one with --file, or its quantisation as in ORG/NAME:Q8_0:\n  BF16/m-BF16-00001-of-00002.gguf (0.00 GB)\n  m-Q4_K_M.gguf"},
		{name: "named GGUF", files: ggufs, req: Request{File: "m-Q8_0.gguf"}, want: []string{"m-Q8_0.gguf"}, open: "m-Q8_0.gguf"},
		{name: "GGUF in the name", files: ggufs, req: Request{Name: Name{File: "m-Q4_K_M.gguf"}}, want: []string{"m-Q4_K_M.gguf"}, open: "m-Q4_K_M.gguf"},
		{name: "second of a set", files: ggufs, req: Request{File: "BF16/m-BF16-00002-of-00002.gguf"},
			want: []string{"BF16/m-BF16-00001-of-00002.gguf", "BF16/m-BF16-00002-of-00002.gguf"}, open: "BF16/m-BF16-00001-of-00002.gguf"},
		{name: "misspelt GGUF", files: ggufs, req: Request{File: "m-Q8_O.gguf"}, err: `holds no file "m-Q8_O.gguf", did you mean m-Q8_0.gguf?`},
		{name: "part of a set missing", files: []string{"m-00001-of-00002.gguf"}, err: "lists 1 of the 00002 files"},
		{name: "other formats only", files: []string{"config.json", "pytorch_model.bin"}, err: "holds no safetensors or GGUF weights"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var all []remote
			for _, f := range c.files {
				all = append(all, remote{Path: f, Size: 1})
			}
			files, open, err := choose(all, &c.req)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got %v, expected %q", err, c.err)
				}
				return
			}
			var got []string
			for _, f := range files {
				got = append(got, f.Path)
			}
			slices.Sort(got)
			slices.Sort(c.want)
			if err != nil || open != c.open || !slices.Equal(got, c.want) {
				t.Errorf("got %q, open %q, %v; expected %q, open %q", got, open, err, c.want, c.open)
			}
		})
	}
}

func TestPullGGUF(t *testing.T) {
	h := newFakeHub(t)
	clear(h.files)
	h.files["Q8_0/m-00001-of-00002.gguf"], h.files["Q8_0/m-00002-of-00002.gguf"] = pattern(5000), pattern(4000)
	h.files["m-Q4_0.gguf"] = pattern(3000)
	cfg, _ := h.config()
	got, err := Pull(t.Context(), cfg, Request{Name: mustName(t, "org/model/Q8_0/m-00001-of-00002.gguf")})
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.FromSlash("snapshots/" + commitA + "/Q8_0/m-00001-of-00002.gguf"); !strings.HasSuffix(got.Path, want) {
		t.Errorf("path %q, expected it to end in %q", got.Path, want)
	}
	link, err := os.Readlink(got.Path)
	if err != nil || !strings.HasPrefix(link, filepath.FromSlash("../../../blobs/")) {
		t.Errorf("link %q, %v", link, err)
	}
	for _, name := range []string{"org/model", "org/model/Q8_0/m-00001-of-00002.gguf", "org/model@main", "org/model@" + commitA} {
		if path, err := Resolve(cfg, name); err != nil || path != got.Path {
			t.Errorf("Resolve(%s) gave %q, %v; expected %q", name, path, err, got.Path)
		}
	}
	if _, err := Pull(t.Context(), cfg, Request{Name: mustName(t, "org/model"), File: "m-Q4_0.gguf"}); err != nil {
		t.Fatal(err)
	}
	if _, err := Resolve(cfg, "org/model"); err == nil || !strings.Contains(err.Error(), "holds 2 GGUF files of it, name one: org/model/Q8_0/m-00001-of-00002.gguf, org/model/m-Q4_0.gguf") {
		t.Errorf("got %v, expected the two names", err)
	}
}

func TestResolve(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	cfg := Config{Cache: filepath.Join(dir, "hub")}
	snapshot := filepath.Join(cfg.Cache, "models--org--part", "snapshots", commitA)
	for _, p := range []string{filepath.Join("local", "model"), snapshot, filepath.Join(cfg.Cache, "models--org--part", "refs")} {
		if err := os.MkdirAll(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"x.gguf": "", filepath.Join(snapshot, "config.json"): "{}",
		filepath.Join(cfg.Cache, "models--org--part", "refs", "main"): commitA + "\n",
		filepath.Join(cfg.Cache, "models--org--part", "refs", "bad"):  "../../../..\n"} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ name, want, err string }{
		{name: "local/model", want: "local/model"},
		{name: "x.gguf", want: "x.gguf"},
		{name: "missing.gguf", err: "no such file or directory, and no name of a model"},
		{name: "./org/model", err: "no such file or directory; a model directory, a GGUF file or ORG/NAME of a model in the cache " + cfg.Cache},
		{name: "/nonexist", err: "no such file or directory; a model directory"},
		{name: "org/model", err: "not in the cache " + cfg.Cache + ": fetch it with: ossian pull org/model"},
		{name: "org/part", err: "holds no weights of it"},
		{name: "org/part@bad", err: "fetch it with: ossian pull org/part@bad"},
		{name: "org/part@other", err: "fetch it with: ossian pull org/part@other"},
		{name: "org/part/x.gguf", err: "fetch it with: ossian pull org/part/x.gguf"},
	} {
		got, err := Resolve(cfg, c.name)
		if got != c.want || (c.err == "") != (err == nil) || (err != nil && !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: got %q, %v; expected %q, %q", c.name, got, err, c.want, c.err)
		}
	}
}
