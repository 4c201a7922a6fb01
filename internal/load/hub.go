package load

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"ossian/internal/hub"
)

// HubConfig reads the environment as the reference client does, so that both share
// endpoint, token and cache.
func HubConfig(getenv func(string) string) (hub.Config, error) {
	first := func(names ...string) string {
		for _, n := range names {
			if v := strings.TrimSpace(getenv(n)); v != "" {
				return v
			}
		}
		return ""
	}
	home := first("HOME", "USERPROFILE")
	absolute := func(path string) string {
		if rest, ok := strings.CutPrefix(path, "~"); ok {
			return home + rest
		}
		return path
	}
	// Folders lie within each other, and each has a variable that overrules the outer ones:
	// home, .cache, huggingface, hub.
	hfHome := absolute(first("HF_HOME"))
	if hfHome == "" {
		base := absolute(first("XDG_CACHE_HOME"))
		if base == "" {
			base = filepath.Join(home, ".cache")
		}
		hfHome = filepath.Join(base, "huggingface")
	}
	cfg := hub.Config{Endpoint: first("HF_ENDPOINT"), Token: first("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"), Cache: absolute(first("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"))}
	if cfg.Cache == "" && home == "" && !filepath.IsAbs(hfHome) {
		return cfg, errors.New("no home directory for the cache: set HOME, HF_HOME or HF_HUB_CACHE")
	}
	if cfg.Cache == "" {
		cfg.Cache = filepath.Join(hfHome, "hub")
	}
	switch strings.ToLower(first("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")) {
	case "1", "true", "yes", "on":
		cfg.Offline = true
	}
	// A token that is set counts, then the file in which the reference client keeps it.
	if cfg.Token == "" {
		name := absolute(first("HF_TOKEN_PATH"))
		if name == "" {
			name = filepath.Join(hfHome, "token")
		}
		token, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return cfg, fmt.Errorf("token: %w", err)
		}
		cfg.Token = strings.TrimSpace(string(token))
	}
	return cfg, nil
}
