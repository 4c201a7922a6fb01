// Package disk is what a store does with files as a whole: locks on them, names and contents
// that a crash leaves old or new, and damaged files that are kept beside those that take
// their place: they may hold more than was found. None of these is written over; their number is
// bounded, so that a disk which damages every file does not fill.
package disk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// DamagedSuffix is what the name of a kept file has behind that of the damaged one; a number
// that grows follows.
const DamagedSuffix = ".damaged-"

// MostKept bounds the kept files: the first, which holds most of what was there before the
// damage began, and the latest.
const MostKept = 3

// A keptFile is a damaged file by its number.
type keptFile struct {
	number int
	path   string
}

// KeptFiles returns the paths of the damaged files that are kept beside the one at path, the
// first one first.
func KeptFiles(path string) ([]string, error) {
	files, err := keptFiles(path)
	paths := make([]string, len(files))
	for i, file := range files {
		paths[i] = file.path
	}
	return paths, err
}

func keptFiles(path string) ([]keptFile, error) {
	dir := filepath.Dir(path)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	var out []keptFile
	for _, entry := range entries {
		text, ok := strings.CutPrefix(entry.Name(), filepath.Base(path)+DamagedSuffix)
		if number, err := strconv.Atoi(text); ok && err == nil && number > 0 && !entry.IsDir() {
			out = append(out, keptFile{number, filepath.Join(dir, entry.Name())})
		}
	}
	slices.SortFunc(out, func(a, b keptFile) int { return a.number - b.number })
	return out, nil
}

// Keep gives the damaged file at path, which is open, a second name that says so, and
// removes one where there are too many. The first name stays: a crash before the new file
// takes it must not leave the store without any.
func Keep(file *os.File, path string) (kept, removed string, err error) {
	files, err := keptFiles(path)
	if err != nil {
		return "", "", err
	}
	info, err := file.Stat()
	if err != nil {
		return "", "", fmt.Errorf("store: %w", err)
	}
	number := 1
	for _, other := range files {
		if same, err := os.Stat(other.path); err == nil && os.SameFile(info, same) {
			return other.path, "", nil // a crash came between keep and install
		}
		number = other.number + 1
	}
	kept = path + DamagedSuffix + strconv.Itoa(number)
	if err := os.Link(path, kept); err != nil { // some file systems have no second names
		if err := copyFile(file, info.Size(), kept); err != nil {
			return "", "", fmt.Errorf("store: the damaged %s cannot be kept, so it is left as it is; move it away or make room: %w", path, err)
		}
	}
	if len(files) >= MostKept {
		removed = files[1].path
		if err := os.Remove(removed); err != nil {
			return "", "", fmt.Errorf("store: %w", err)
		}
	}
	return kept, removed, SyncDir(filepath.Dir(path))
}

// copyFile copies size bytes of file to a new one at path, or leaves none there.
func copyFile(file *os.File, size int64, path string) error {
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, io.NewSectionReader(file, 0, size))
	if err == nil {
		err = to.Sync()
	}
	if err = errors.Join(err, to.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// WriteFile makes path hold text, or leaves it as it was.
func WriteFile(path, text string) error {
	file, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	_, err = file.WriteString(text)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return SyncDir(filepath.Dir(path))
}

// A FileLock is what Lock took.
type FileLock struct{ file *os.File }

// Lock takes an advisory lock on the file at path, alone or with others who share it, and
// reports whether it got it. A file that is not there is made, but not to share it: then there
// is nobody to keep away, and lock is nil. Close gives it back, and so does the end of the process.
func Lock(path string, shared bool) (lock *FileLock, got bool, err error) {
	flags := os.O_RDWR | os.O_CREATE
	if shared {
		flags = os.O_RDONLY
	}
	file, err := os.OpenFile(path, flags, 0o600)
	if shared && errors.Is(err, os.ErrNotExist) {
		return nil, true, nil
	}
	if err != nil {
		return nil, false, err
	}
	if got, err = tryLock(file, shared); !got || err != nil {
		return nil, false, errors.Join(err, file.Close())
	}
	return &FileLock{file}, true, nil
}

// Close gives the lock back at once. To close the file alone does not: a program that this process
// is just starting has all its files for a moment, and the locks that belong to them.
func (l *FileLock) Close() error { return errors.Join(unlock(l.file), l.file.Close()) }
