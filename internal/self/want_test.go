package self

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDevice(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"gpu.yaml": "port: 1\ndevice: \"CUDA:1\" # the second\n", "none.yaml": "model-device: cuda\n"} {
		if err := os.WriteFile(filepath.Join(".", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ line, env, want string }{
		{"run hello", "", "auto"},
		{"serve", "", "auto"},
		{"serve --device cpu", "", "cpu"},
		{"serve --device cpu --device CUDA", "", "cuda"},
		{"serve model --device=cuda:0,1", "cpu", "cuda:0,1"},
		{"serve", "sim:H200", "sim:h200"},
		{"run hello", "cpu", "auto"},
		{"serve --config gpu.yaml", "", "cuda:1"},
		{"serve --config=gpu.yaml", "cpu", "cpu"},
		{"bench latency --config=gpu.yaml", "cpu", "cuda:1"},
		{"serve --config gpu.yaml --device auto", "", "auto"},
		{"serve --config none.yaml", "", "auto"},
		{"serve --config missing.yaml", "", "auto"},
		{"serve --config", "", "auto"},
		{"run --config gpu.yaml", "", "auto"},
		{"bench latency --device cuda", "", "cuda"},
		{"bench sweep load --device=cpu", "cuda", "cpu"},
		{"bench sweep load", "", "auto"},
		{"bench compare a b --device cuda", "", "cpu"},
		{"bench", "cuda", "cpu"},
		{"inspect model", "cuda", "cpu"},
		{"inspect model --device auto", "", "auto"},
		{"run --help", "cuda", "cpu"},
		{"", "cuda", "cpu"},
		{"--version", "", "cpu"},
		{"perplexity model file", "", "auto"},
	} {
		getenv := func(name string) string {
			if name == "OSSIAN_DEVICE" {
				return c.env
			}
			return ""
		}
		if got := Device(strings.Fields(c.line), getenv); got != c.want {
			t.Errorf("ossian %s, OSSIAN_DEVICE=%s: %q, want %q", c.line, c.env, got, c.want)
		}
	}
}
