package load

import (
	"errors"
	"fmt"
	"os"

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
		return nil, errors.Join(cachedError(name, checkpoint.Path, err), checkpoint.Close())
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
	return checkpoint, cachedError(name, path, err)
}

// cachedError adds to an error about a model of the cache what mends it: a snapshot may be a part
// while another one is whole. path is where the model of that name lies.
func cachedError(name, path string, err error) error {
	of, ok := errors.AsType[*ckpt.Error](err)
	if !ok || path == name || BuiltIn(name) || (of.Kind != ckpt.Incomplete && of.Kind != ckpt.Damaged) {
		return err
	}
	cfg, _ := HubConfig(os.Getenv) // a token that cannot be read matters to pull only
	pull := fmt.Sprintf("ossian pull %s fetches what is missing", name)
	if of.Kind == ckpt.Damaged {
		pull = fmt.Sprintf("ossian pull --force %s fetches it anew", name)
	}
	return fmt.Errorf("%w; %s%s", err, pull, hub.Others(cfg, name, path))
}

// BuiltIn reports whether name is the model inside the program; a file of its name
// comes first.
func BuiltIn(name string) bool { return name == "" || (name == tiny.Name && !Exists(name)) }

// Exists reports whether there is a file or a directory of that path.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// InLibrary reports whether a word can only be meant as a model of Ollama's library, which
// has another name here.
func InLibrary(word string) bool { return hub.InLibrary(word) }

// Resolve returns the path of a model: a directory, a GGUF file, or a name in the cache.
func Resolve(name string) (string, error) {
	cfg, _ := HubConfig(os.Getenv) // a token that cannot be read matters to pull only
	return hub.Resolve(cfg, name)
}
