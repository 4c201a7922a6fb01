package hub

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"ossian/internal/lazyregexp"
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
	parsed, perr := parseName(name)
	ext := path.Ext(name) // of a repository's file it is the third part at least
	file := perr == nil && parsed.File == "" && (ext == ".gguf" || ext == ".safetensors")
	if file || (perr != nil && (filepath.IsAbs(name) || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "~"))) { // a path, whatever else
		return "", fmt.Errorf("model %.200q: no such file or directory; a model directory, a GGUF file or ORG/NAME of a model in the cache %s expected (ossian pull ORG/NAME fetches one)", name, cfg.Cache)
	}
	if perr != nil {
		return "", fmt.Errorf("model %.200q: no such file or directory, and no name of a model: %w%s", name, perr, meant(name))
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

// Others says how to ask for what the cache holds of a model beside the snapshot that its name
// stands for, "" = nothing whole: the words follow an error about that snapshot. path is what
// Resolve returned, or "".
func Others(cfg Config, name, path string) string {
	parsed, err := parseName(name)
	if err != nil {
		return ""
	}
	root, err := os.OpenRoot(cfg.Cache)
	if err != nil {
		return ""
	}
	defer root.Close()
	wholes, _, err := snapshots(root, parsed, func(snapshot string) bool { return has(root, snapshot, parsed) })
	wholes = slices.DeleteFunc(wholes, func(commit string) bool {
		return slices.Contains(strings.Split(filepath.ToSlash(path), "/"), commit)
	})
	switch {
	case err != nil || len(wholes) == 0:
		return ""
	case len(wholes) == 1:
		return "; another commit of it is whole in the cache, name it " + parsed.at(wholes)
	}
	return "; other commits of it are whole in the cache, name one of " + parsed.at(wholes)
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
		var err error
		if commit, err = pinned(root, cfg, name); err != nil {
			return "", err
		}
	}
	snapshot := path.Join(name.folder(), "snapshots", commit)
	if name.File != "" {
		if _, err := root.Stat(path.Join(snapshot, name.File)); err != nil {
			return "", beside(cfg, name, snapshot, notCached(cfg, name))
		}
		return path.Join(snapshot, name.File), nil
	}
	names, err := openable(root, snapshot)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", beside(cfg, name, snapshot, notCached(cfg, name))
	case err != nil:
		return "", fmt.Errorf("cache: %w", err)
	case len(names) == 0:
		return "", beside(cfg, name, snapshot, fmt.Errorf("model %s: the cache holds no weights of it in %s: fetch them with: ossian pull %s", name, filepath.Join(cfg.Cache, filepath.FromSlash(snapshot)), name))
	case name.Quant != "":
		files := slices.DeleteFunc(names, func(name string) bool { return name == "" })
		open, err := ofQuant(files, name.Quant)
		if err != nil {
			return "", beside(cfg, name, snapshot, fmt.Errorf("model %s: the cache %w: %s; fetch another with: ossian pull %s", name, err, cmp.Or(listed(files), "none of GGUF"), name))
		}
		return path.Join(snapshot, open), nil
	case names[0] == "" || len(names) == 1:
		return path.Join(snapshot, names[0]), nil
	}
	return "", fmt.Errorf("model %s: the cache holds %d GGUF files of it, name one: %s/%s; or its quantisation, as in %s:Q8_0", name, len(names), name.Repo, strings.Join(names, ", "+name.Repo+"/"), name.Repo)
}

// beside is an error about a snapshot, with what there is in its place.
func beside(cfg Config, name Name, snapshot string, err error) error {
	if others := Others(cfg, name.String(), snapshot); others != "" {
		return fmt.Errorf("%w%s", err, others)
	}
	return err
}

// openable returns what can be opened in a snapshot, sorted: GGUF files, or the first of their
// sets, and "" for the directory.
func openable(root *os.Root, snapshot string) (names []string, err error) {
	err = fs.WalkDir(root.FS(), snapshot, func(p string, d fs.DirEntry, err error) error {
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
	slices.Sort(names)
	return slices.Compact(names), err
}

// pinned returns the commit to take where a revision that is no commit has no reference: a
// download of a fixed commit leaves none. Without a revision the one whole snapshot is meant,
// since there is nothing to choose; else the error tells of those that are there.
func pinned(root *os.Root, cfg Config, name Name) (commit string, err error) {
	wholes, parts, err := snapshots(root, name, func(snapshot string) bool { return whole(root, snapshot) })
	if errors.Is(err, fs.ErrNotExist) {
		return "", notCached(cfg, name)
	}
	if err != nil {
		return "", fmt.Errorf("cache: %w", err)
	}
	switch {
	case len(wholes) == 1 && name.Revision == "":
		return wholes[0], nil
	case len(wholes) > 0 && name.Revision == "":
		return "", fmt.Errorf("model %s: the cache %s holds several commits of it and none that is main: name one of %s", name, cfg.Cache, name.at(wholes))
	case len(wholes) > 0:
		return "", fmt.Errorf("%w; of other revisions the cache holds %s", notCached(cfg, name), name.at(wholes))
	case len(parts) > 0 && name.Revision == "":
		return "", fmt.Errorf("model %s: the cache %s holds only a part of it, of %s: fetch the rest with: ossian pull %s", name, cfg.Cache, name.at(parts), name.at(parts[:1]))
	}
	return "", notCached(cfg, name)
}

// snapshots returns the commits of a repository in the cache: those that are complete, and the
// rest.
func snapshots(root *os.Root, name Name, complete func(snapshot string) bool) (wholes, parts []string, err error) {
	entries, err := fs.ReadDir(root.FS(), path.Join(name.folder(), "snapshots"))
	for _, entry := range entries {
		if !commitID.MatchString(entry.Name()) {
			continue
		}
		if complete(path.Join(name.folder(), "snapshots", entry.Name())) {
			wholes = append(wholes, entry.Name())
		} else {
			parts = append(parts, entry.Name())
		}
	}
	return wholes, parts, err
}

// has reports whether a snapshot has the file, the quantisation or else the model of a name.
func has(root *os.Root, snapshot string, name Name) bool {
	if name.File != "" {
		_, err := root.Stat(path.Join(snapshot, name.File))
		return err == nil
	}
	if name.Quant != "" {
		names, _ := openable(root, snapshot)
		if _, err := ofQuant(names, name.Quant); err != nil {
			return false
		}
	}
	return whole(root, snapshot)
}

// at writes a name at each of some commits.
func (n Name) at(commits []string) string {
	var names []string
	for _, commit := range commits {
		n.Revision = commit
		names = append(names, n.String())
	}
	return listed(names)
}

// setMember matches a file of a set of either kind.
var setMember = lazyregexp.New(`^(.*)-\d{5}-of-(\d{5})\.(gguf|safetensors)$`)

// whole reports whether all files of a snapshot are there, as far as their names tell: none is
// a link to what has not come, sets have all their members, and safetensors a configuration.
func whole(root *os.Root, snapshot string) bool {
	names, err := openable(root, snapshot)
	if err != nil || len(names) == 0 {
		return false
	}
	sets, sound := map[string]int{}, true
	err = fs.WalkDir(root.FS(), snapshot, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if info, err := root.Stat(name); err != nil || !info.Mode().IsRegular() {
			sound = false
		}
		if set := setMember.FindStringSubmatch(name); set != nil {
			sets[set[1]+"."+set[3]+" of "+set[2]]++
		}
		return nil
	})
	for set, count := range sets {
		_, of, _ := strings.Cut(set, " of ")
		total, _ := strconv.Atoi(of)
		sound = sound && count >= total // published sets count from 0 or from 1, and then have one more
	}
	if names[0] == "" {
		_, missing := root.Stat(path.Join(snapshot, "config.json"))
		sound = sound && missing == nil && indexed(root, snapshot)
	}
	return sound && err == nil
}

// indexed reports whether all files that the index of a safetensors set names are there, or
// there is no index.
func indexed(root *os.Root, snapshot string) bool {
	file, err := root.Open(path.Join(snapshot, "model.safetensors.index.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	if err != nil {
		return false
	}
	defer file.Close()
	var index struct {
		Files map[string]string `json:"weight_map"`
	}
	if json.NewDecoder(io.LimitReader(file, maxPage)).Decode(&index) != nil {
		return false
	}
	seen := map[string]bool{}
	for _, name := range index.Files {
		if seen[name] {
			continue
		}
		seen[name] = true
		if !validPath(name) {
			return false
		}
		// Weights in several files are named once for each of their tensors.
		if _, err := root.Stat(path.Join(snapshot, name)); err != nil {
			return false
		}
	}
	return true
}
