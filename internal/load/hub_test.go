package load

import (
	"os"
	"path/filepath"
	"testing"

	"ossian/internal/hub"
)

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
		got, err := HubConfig(func(k string) string { return c.env[k] })
		if err != nil || got.Cache != c.want.Cache || got.Token != c.want.Token || got.Endpoint != c.want.Endpoint || got.Offline != c.want.Offline {
			t.Errorf("%s: got %+v, %v; expected %+v", c.name, got, err, c.want)
		}
	}
}
