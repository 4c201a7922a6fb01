package docs_test

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
	"testing"

	"ossian/internal/synth"
	"ossian/internal/tensor"
)

const commit = "0123456789abcdef0123456789abcdef01234567"

// standIns are the models that the documents name: tiny ones, with random weights.
var standIns = []struct{ name, file, preset string }{
	{"openai/gpt-oss-20b", "", "gpt-oss-tiny"},
	{"Qwen/Qwen3-0.6B", "", "qwen3-tiny"},
	{"Qwen/Qwen3-0.6B-GGUF", "Qwen3-0.6B-Q8_0.gguf", "qwen3-tiny"},
}

// startHub serves the stand-ins as a Hugging Face-compatible endpoint and returns its URL.
func startHub(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	for _, s := range standIns {
		m, err := synth.Preset(s.preset)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "model")
		o := synth.Options{Model: m}
		out := dir
		if s.file != "" {
			o.Format, o.Type = synth.GGUF, tensor.Q8_0
			out = filepath.Join(dir, s.file)
		}
		if err := synth.Write(t.Context(), out, o, nil); err != nil {
			t.Fatal(err)
		}
		list := listing(t, dir)
		reply := func(v any) http.HandlerFunc {
			return func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(v) }
		}
		mux.HandleFunc("/api/models/"+s.name+"/revision/main", reply(map[string]string{"sha": commit}))
		mux.HandleFunc("/api/models/"+s.name+"/tree/"+commit, reply(list))
		files := "/" + s.name + "/resolve/" + commit
		mux.Handle(files+"/", http.StripPrefix(files, http.FileServer(http.Dir(dir))))
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// listing describes the files of dir as an endpoint does.
func listing(t *testing.T, dir string) (list []map[string]any) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		id := sha1.Sum(append(fmt.Appendf(nil, "blob %d\x00", len(data)), data...))
		entry := map[string]any{"type": "file", "path": f.Name(), "size": len(data), "oid": hex.EncodeToString(id[:])}
		if ext := filepath.Ext(f.Name()); ext == ".safetensors" || ext == ".gguf" {
			sum := sha256.Sum256(data)
			entry["lfs"] = map[string]any{"oid": hex.EncodeToString(sum[:]), "size": len(data)}
		}
		list = append(list, entry)
	}
	if len(list) == 0 {
		t.Fatalf("%s is empty", dir)
	}
	return list
}
