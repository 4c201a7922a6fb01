package ckpt

import (
	"cmp"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"ossian/internal/tensor"
	"ossian/internal/watch"
)

// A file is one file with tensors, mapped or, from an fs.FS, in memory. Its data
// must not be read after close.
type file struct {
	path  string
	data  []byte
	disk  *os.File    // for reading around the mapping, which faults when the file was cut; nil = in memory
	watch *watch.File // of disk, from before it was mapped
	unmap func() error
}

// openFile maps a regular file.
func openFile(path string) (*file, error) {
	// Looked at before it is opened: opening a named pipe would wait for its writer.
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, unsupported(path, "kind of file", "a regular file", kindOf(info.Mode()))
	}
	if info.Size() > math.MaxInt {
		return nil, unsupported(path, "size", fmt.Sprintf("at most %d bytes on this platform", math.MaxInt), info.Size())
	}
	disk, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if info, err = disk.Stat(); err != nil { // of what is open, whatever had the name before
		disk.Close()
		return nil, err
	}
	opened := &file{path: path, disk: disk, watch: watch.New(disk, info)}
	if opened.data, opened.unmap, err = mapFile(disk, int(info.Size())); err != nil {
		disk.Close()
		return nil, fmt.Errorf("%s: map %d bytes: %w", path, info.Size(), err)
	}
	return opened, nil
}

// kindOf names what is no regular file.
func kindOf(mode fs.FileMode) string {
	return cmp.Or(map[fs.FileMode]string{fs.ModeDir: "a directory", fs.ModeNamedPipe: "a named pipe", fs.ModeSocket: "a socket"}[mode.Type()], "a device")
}

// absent says that a file is not there, "" = which is nothing to tell; a link that leads nowhere is.
func absent(path, missing string) error {
	if target, err := os.Readlink(path); err == nil {
		return incomplete(path, fmt.Sprintf("it is a link to %s, which is not there; a snapshot of a cache needs the folder blobs beside it", clip(target)))
	}
	if missing == "" {
		return nil
	}
	return incomplete(path, missing)
}

// loadFile reads a file of m.fsys.
func (m *Model) loadFile(path string) (*file, error) {
	data, err := fs.ReadFile(m.fsys, filepath.Base(path))
	return &file{path: path, data: data}, err
}

// close unmaps the file; its data is gone.
func (f *file) close() error {
	if f.disk == nil {
		return nil
	}
	defer f.disk.Close()
	f.data = nil
	return f.unmap()
}

// damaged returns an error about byte at of the file.
func (f *file) damaged(at int64, problem, want string, got any) error {
	return damaged(f.path, at, problem, want, got)
}

// A stored is one tensor as a container describes it: inside its file, of a size
// that its shape and type explain.
type stored struct {
	file         *file
	name         string
	dtype        tensor.DType // Invalid: a type that this program does not read
	typeName     string       // as the container spells it
	shape        []int        // slowest-varying first
	offset, size int64        // bytes from the start of the file
}

// error returns an error about the tensor.
func (s *stored) error(k Kind, problem, want string, got any) error {
	return &Error{Kind: k, File: s.file.path, Tensor: s.name, Offset: s.offset, Problem: problem, Want: want, Got: clip(fmt.Sprint(got))}
}

// view returns s without copying.
func (s *stored) view() tensor.Tensor {
	data := s.file.data[s.offset : s.offset+s.size]
	view := tensor.Tensor{Name: s.name, DType: s.dtype, Shape: s.shape, Data: data}
	if s.file.disk != nil {
		view.Drop = dropper(data)
	}
	return view
}

// dropper returns what lets pages of a mapping go. It would clear other memory.
func dropper(mapped []byte) func() { return func() { dropPages(mapped) } }

// product multiplies dims and reports whether the result fits 62 bits.
func product[T int | uint64](dims ...T) (int64, bool) {
	total := int64(1)
	for _, dim := range dims {
		if dim < 0 || uint64(dim) > 1<<62 {
			return 0, false
		}
		if dim != 0 && total > (1<<62)/int64(dim) {
			return 0, false
		}
		total *= int64(dim)
	}
	return total, true
}
