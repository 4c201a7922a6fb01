package hub

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// ParseData reads the name of a data set and of a file in it, ORG/NAME[@REVISION][/FILE]; the
// revision has no slash here. What it returns can be used in paths, as that of ParseName.
func ParseData(text string) (Name, error) {
	parts := strings.SplitN(text, "/", 3)
	if len(parts) < 2 {
		return Name{}, fmt.Errorf("data set %.200q: expected ORG/NAME, ORG/NAME/FILE or ORG/NAME@REVISION/FILE", text)
	}
	name, err := parseName(parts[0] + "/" + parts[1])
	if err == nil && name.Quant != "" {
		err = errors.New("a data set has no quantisation")
	}
	if err != nil {
		return Name{}, fmt.Errorf("data set %.200q: %w", text, err)
	}
	name.Data = true
	if len(parts) == 3 {
		if name.File = parts[2]; !validPath(name.File) {
			return Name{}, fmt.Errorf("data set %.200q: %.100q is not the path of a file inside a repository", text, name.File)
		}
	}
	return name, nil
}

// PullData makes files of a data set present in the cache and returns their paths there, and the
// commit they are of. Offline it finds what is there.
func PullData(ctx context.Context, cfg Config, name Name, files []string) (paths []string, commit string, err error) {
	if !cfg.Offline {
		pulled, err := Pull(ctx, cfg, Request{Name: name, Files: files})
		if err != nil {
			return nil, "", err
		}
		return below(pulled.Path, files), pulled.Commit, nil
	}
	root, err := os.OpenRoot(cfg.Cache)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w, and the cache cannot be read: %w; %s", name, ErrOffline, err, online)
	}
	defer root.Close()
	commit = name.revision()
	// A branch or tag is a file with the commit it stood for when it was fetched last.
	if ref, err := root.ReadFile(path.Join(name.folder(), "refs", commit)); err == nil {
		commit = strings.TrimSpace(string(ref))
	}
	for _, file := range files {
		if _, err := fs.Stat(root.FS(), path.Join(name.folder(), "snapshots", commit, file)); err != nil || !commitID.MatchString(commit) {
			return nil, "", fmt.Errorf("%s: %w, and %s is not in the cache %s; %s", name, ErrOffline, file, cfg.Cache, online)
		}
	}
	return below(filepath.Join(cfg.Cache, name.folder(), "snapshots", commit), files), commit, nil
}

// online is what to do about a file that offline mode does not find.
const online = "unset HF_HUB_OFFLINE to fetch it, or name a file that is here by its path"

// below are the paths of files in a folder.
func below(folder string, files []string) (paths []string) {
	for _, file := range files {
		paths = append(paths, filepath.Join(folder, filepath.FromSlash(file)))
	}
	return paths
}
