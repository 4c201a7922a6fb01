package hub

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Resolve returns the path of a model: a directory or file of that name, else a
// model of that name in the cache. It never uses the network.
func Resolve(cfg Config, name string) (string, error) {
	_, err := os.Stat(name)
	if err == nil {
		return name, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	parsed, perr := ParseName(name)
	if perr != nil && (filepath.IsAbs(name) || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "~")) { // a path, whatever else
		return "", fmt.Errorf("model %.200q: no such file or directory; a model directory, a GGUF file or ORG/NAME of a model in the cache %s expected (ossian pull ORG/NAME fetches one)", name, cfg.Cache)
	}
	if perr != nil {
		return "", fmt.Errorf("model %.200q: no such file or directory, and no name of a model: %w", name, perr)
	}
	root, err := os.OpenRoot(cfg.Cache)
	if errors.Is(err, fs.ErrNotExist) {
		return "", notCached(cfg, parsed)
	}
	if err != nil {
		return "", fmt.Errorf("cache: %w", err)
	}
	defer root.Close()
	open, err := cached(root, cfg, parsed)
	if err != nil {
		return "", err
	}
	return filepath.Join(cfg.Cache, filepath.FromSlash(open)), nil
}

// notCached says how to get a model that is not here.
func notCached(cfg Config, name Name) error {
	return fmt.Errorf("model %s: no such file or directory, and not in the cache %s: fetch it with: ossian pull %s", name, cfg.Cache, name)
}

// cached returns the path below root of what to open for a name.
func cached(root *os.Root, cfg Config, name Name) (string, error) {
	// A branch or tag is looked up; a commit stands for itself.
	commit := name.revision()
	if ref, err := root.ReadFile(path.Join(name.folder(), "refs", name.revision())); err == nil {
		commit = strings.TrimSpace(string(ref))
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("cache: %w", err)
	}
	if !commitID.MatchString(commit) {
		return "", notCached(cfg, name)
	}
	snapshot := path.Join(name.folder(), "snapshots", commit)
	if name.File != "" {
		if _, err := root.Stat(path.Join(snapshot, name.File)); err != nil {
			return "", notCached(cfg, name)
		}
		return path.Join(snapshot, name.File), nil
	}
	var names []string // what can be opened
	err := fs.WalkDir(root.FS(), snapshot, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel := strings.TrimPrefix(p, snapshot+"/")
		if path.Ext(rel) == ".safetensors" && path.Dir(rel) == "." {
			names = append(names, "")
		}
		if path.Ext(rel) == ".gguf" && firstOfSet(rel) == rel && !strings.HasPrefix(path.Base(rel), "mmproj") {
			names = append(names, rel)
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return "", notCached(cfg, name)
	}
	if err != nil {
		return "", fmt.Errorf("cache: %w", err)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	switch {
	case len(names) == 0:
		return "", fmt.Errorf("model %s: the cache holds no weights of it in %s: fetch them with: ossian pull %s", name, filepath.Join(cfg.Cache, filepath.FromSlash(snapshot)), name)
	case names[0] == "" || len(names) == 1:
		return path.Join(snapshot, names[0]), nil
	}
	return "", fmt.Errorf("model %s: the cache holds %d GGUF files of it, name one: %s/%s", name, len(names), name.Repo, strings.Join(names, ", "+name.Repo+"/"))
}
