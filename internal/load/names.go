package load

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"ossian/internal/ckpt"
	"ossian/internal/hub"
	"ossian/internal/tiny"
)

// OpenModel finds and opens a model, "" = the built-in one: headers only, so that
// every error they can show comes before a weight is read.
func OpenModel(name string) (*ckpt.Model, error) {
	checkpoint, err := StartModel(name)
	if err != nil {
		return nil, err
	}
	if err := checkpoint.Finish(); err != nil {
		return nil, errors.Join(err, checkpoint.Close())
	}
	return checkpoint, nil
}

// StartModel is OpenModel before ckpt.Model.Finish.
func StartModel(name string) (*ckpt.Model, error) {
	if BuiltIn(name) {
		return ckpt.OpenFS(tiny.FS(), tiny.Name)
	}
	path, err := Resolve(name)
	if err != nil {
		return nil, err
	}
	checkpoint, err := ckpt.Start(path)
	if err == nil && path != name {
		checkpoint.Spec.Name = name // in the cache the directory's name is a commit
	}
	return checkpoint, err
}

// BuiltIn reports whether name is the model inside the program; a file of its name
// comes first.
func BuiltIn(name string) bool { return name == "" || (name == tiny.Name && !Exists(name)) }

// Exists reports whether there is a file or a directory of that path.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Resolve returns the path of a model: a directory, a GGUF file, or a name in the cache.
func Resolve(name string) (string, error) {
	cfg, _ := HubConfig(os.Getenv) // a token that cannot be read matters to pull only
	return hub.Resolve(cfg, name)
}

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
