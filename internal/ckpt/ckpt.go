// Package ckpt opens models. Its callers need not know which container a model
// came in, how its writer spelled names and keys, in which order rows lie in the
// file, or what a damaged, cut or lying file looks like: they get a Spec with
// exactly the tensors it asks for, mapped and not copied, the tokenizer and the
// chat template, or an Error that says what is wrong with which file.
//
// Nothing here uses the network, and no name from a file becomes a path unless it
// is a plain file name.
package ckpt

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"ossian/internal/model"
	"ossian/internal/tensor"
	"ossian/internal/token"
)

// A Model is an opened checkpoint. Its tensors are views of mapped files and die
// with Close.
type Model struct {
	Path   string
	Format string // "safetensors", "safetensors, original layout", "GGUF"
	Spec   *model.Spec
	Params map[string]tensor.Tensor // exactly those of model.Params(Spec)

	Tokenizer  *token.BPE
	Template   string            // Jinja text; "" = none
	From       string            // the file in a directory, or the key of a GGUF file, that Template is of if there is one
	Overruled  []string          // files with another template, which has no say beside that of From
	Named      map[string]string // further templates by name, such as tool_use for requests with tools; nil = none
	Special    map[string]string // bos_token, eos_token, pad_token, unk_token as templates spell them
	Generation Generation
	BOS        int32   // -1 = none
	Stops      []int32 // ids that end an answer, ascending
	Unused     []int32 // ids that have logits but no meaning, ascending: never sample them

	Unknown []string // stored tensors that nothing uses, sorted
	Sealed  bool     // a seal lies beside the model: Verify checks every byte

	fsys   fs.FS // nil = the operating system's
	stored map[string]stored
	maps   []*file
	read   []string // every file that Open read, for Seal

	tokenize func() error // makes the tokenizer; nil = it is made: between Start and Finish
	eos      string       // name of the token that ends an answer by tokenizer_config.json

	closing  sync.Mutex  // guards maps and attached once the model is open: Close against Unchanged
	attached []io.Closer // closed before the files
}

// Generation is the author's advice on sampling; nil = none given.
type Generation struct {
	Sample                                     *bool // false = greedy
	Temperature, TopP, MinP, RepetitionPenalty *float64
	TopK                                       *int
}

// Open opens the model at path: a directory in Hugging Face or original gpt-oss
// layout, a GGUF file, or the first file of a split set (formats.md 1). It reads
// headers, configuration and tokenizer, no weights. Errors that are the
// checkpoint's own are *Error; others come from the operating system.
func Open(path string) (*Model, error) {
	model, err := Start(path)
	if err != nil {
		return nil, err
	}
	return model.finished()
}

// Start is Open without making the tokenizer, which takes nearly all of its time: whoever
// brings weights into memory can do so while Finish makes it. Until Finish has returned
// nil, Tokenizer, Special, BOS, Stops and Unused are not what they will be.
func Start(path string) (*Model, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	model := newModel(path)
	open := model.openGGUF
	if info.IsDir() {
		open = model.openDir
	}
	if err := open(); err != nil {
		return nil, errors.Join(err, model.Close())
	}
	_, err = os.Stat(model.sealPath())
	model.Sealed = err == nil
	return model, nil
}

// OpenFS opens the model whose Hugging Face directory is the top of fsys, such as
// one that is part of the program, in one safetensors file. name is its name and,
// in errors, its path. Files are read whole; Verify looks at values only.
func OpenFS(fsys fs.FS, name string) (*Model, error) {
	model := newModel(name)
	model.fsys = fsys
	if err := model.openDir(); err != nil {
		return nil, errors.Join(err, model.Close())
	}
	return model.finished()
}

// newModel returns a model of which nothing is known yet.
func newModel(path string) *Model {
	return &Model{Path: path, BOS: -1, Special: map[string]string{}, Params: map[string]tensor.Tensor{}, stored: map[string]stored{}}
}

// Finish makes the tokenizer of a model that Start has opened, and what depends on it; for
// one of Open it does nothing. Its errors are Open's, and m is to be closed after them.
// Meanwhile other goroutines may use what Start has set, and not call Close.
func (m *Model) Finish() error {
	tokenize := m.tokenize
	if tokenize == nil {
		return nil
	}
	m.tokenize = nil
	if err := tokenize(); err != nil {
		return err
	}
	return m.finish()
}

// finished is m after Finish, closed if that fails.
func (m *Model) finished() (*Model, error) {
	if err := m.Finish(); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// Beside returns the path of a file of this program that belongs to the model:
// ossian-NAME in a directory, FILE.gguf.NAME beside a file; "" for a model of OpenFS.
func (m *Model) Beside(name string) string {
	switch {
	case m.fsys != nil:
		return ""
	case m.Format == "GGUF":
		return m.Path + "." + name
	}
	return filepath.Join(m.Path, "ossian-"+name)
}

// Source tells the files with tensors from what they were before, or will be: name, size
// and time of the last change of each. mode has the permissions that they share.
func (m *Model) Source() (text string, mode fs.FileMode, err error) {
	mode = fs.ModePerm
	for _, file := range m.maps {
		if file.disk == nil {
			return "", 0, fmt.Errorf("%s: it is in no file of the system", file.path)
		}
		info, err := file.disk.Stat() // of what is mapped, whatever has the name by now
		if err != nil {
			return "", 0, err
		}
		text += fmt.Sprintf("%q %d %d\n", filepath.Base(file.path), info.Size(), info.ModTime().UnixNano())
		mode &= info.Mode().Perm()
	}
	return text, mode, nil
}

// Attach has c closed with the model: what was made of its files and is used as long.
// One that has Unchanged() (path, how string) is asked by the model's Unchanged.
func (m *Model) Attach(c io.Closer) {
	m.closing.Lock()
	defer m.closing.Unlock()
	m.attached = append(m.attached, c)
}

// Close unmaps the files. Tensors must not be read afterwards.
func (m *Model) Close() error {
	m.closing.Lock()
	defer m.closing.Unlock()
	var all error
	for _, attached := range m.attached {
		all = errors.Join(all, attached.Close())
	}
	m.attached = nil
	for _, file := range m.maps {
		all = errors.Join(all, file.close())
	}
	m.maps, m.Params, m.stored = nil, nil, nil
	return all
}

// openMap maps a file with tensors.
func (m *Model) openMap(path string) (*file, error) {
	open := openFile
	if m.fsys != nil {
		open = m.loadFile
	}
	file, err := open(path)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			err = absent(path, "the file is missing, though the checkpoint refers to it; fetch it again")
		}
		return nil, err
	}
	m.maps = append(m.maps, file)
	m.read = append(m.read, path)
	return file, nil
}

// small reads a whole file of at most limit bytes from the model's directory;
// nil when it does not exist.
func (m *Model) small(name string, limit int64) ([]byte, error) {
	path := filepath.Join(m.Path, name)
	info, err := m.stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, absent(path, "")
	}
	if err != nil {
		return nil, err
	}
	// Looked at before it is opened: a named pipe would wait, a lying file cost memory.
	if !info.Mode().IsRegular() {
		return nil, unsupported(path, "kind of file", "a regular file", kindOf(info.Mode()))
	}
	if info.Size() > limit {
		return nil, unsupported(path, "size", fmt.Sprintf("at most %d bytes", limit), info.Size())
	}
	m.read = append(m.read, path)
	if m.fsys != nil {
		return fs.ReadFile(m.fsys, name)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	data := make([]byte, info.Size())
	if _, err := io.ReadFull(file, data); err != nil {
		return nil, err
	}
	return data, nil
}

// stat looks at a file of the model's directory.
func (m *Model) stat(path string) (fs.FileInfo, error) {
	if m.fsys != nil {
		return fs.Stat(m.fsys, filepath.Base(path))
	}
	return os.Stat(path)
}

// add takes the tensors of a file, no name twice.
func (m *Model) add(list []stored) error {
	for _, tensor := range list {
		if other, ok := m.stored[tensor.name]; ok {
			return tensor.error(Inconsistent, "tensor stored twice", "one copy", "another in "+filepath.Base(other.file.path))
		}
		m.stored[tensor.name] = tensor
	}
	return nil
}
