//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Without namespaces the program's files are in a folder of the disk. The kernel bounds each file
// but not their sum, so that is looked at while the program runs. The folder is locked while it is
// used; what a server that was killed left behind is removed by the next one.

// folderName is how the folders' names begin, in that of temporary files.
const folderName = "ossian-python-"

// leftoverAge is how old a folder without a lock is before it counts as left behind: between making
// and locking one there is a moment.
const leftoverAge = time.Minute

type folder struct {
	name string
	lock *os.File
}

// newFolder makes one for a user; 0 = whoever this is.
func newFolder(user int) (*folder, error) {
	name, err := os.MkdirTemp("", folderName)
	if err != nil {
		return nil, fmt.Errorf("a folder for the program's files: %w", err)
	}
	made := &folder{name: name}
	if made.lock, err = os.Open(name); err == nil {
		err = unix.Flock(int(made.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err == nil && user != 0 {
		err = os.Chmod(name, 0o711) // the program passes through it, and cannot change it
	}
	for _, inside := range []string{name + "/data", name + "/tmp"} {
		if err == nil {
			err = os.Mkdir(inside, 0o700)
		}
		if err == nil && user != 0 {
			err = os.Chown(inside, user, user)
		}
	}
	if err != nil {
		made.remove()
		return nil, fmt.Errorf("a folder for the program's files: %w", err)
	}
	return made, nil
}

func (f *folder) remove() {
	if f == nil {
		return
	}
	if os.RemoveAll(f.name) != nil {
		opened(f.name)
		_ = os.RemoveAll(f.name)
	}
	if f.lock != nil {
		f.lock.Close()
	}
}

// opened makes folders writable that a program closed, so that they can be removed.
func opened(name string) {
	_ = filepath.WalkDir(name, func(path string, entry fs.DirEntry, _ error) error {
		if entry != nil && entry.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
}

// Sweep removes the folders that servers left behind which were killed.
func Sweep() {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), folderName+"*"))
	for _, name := range left {
		info, err := os.Lstat(name)
		if err != nil || !info.IsDir() || time.Since(info.ModTime()) < leftoverAge {
			continue
		}
		lock, err := os.Open(name)
		if err != nil {
			continue
		}
		if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			(&folder{name, lock}).remove()
			continue
		}
		lock.Close()
	}
}

// size returns how much is in the folder, with files that have no name any more and that a process
// has open. Blocks count: a file with holes is as large as what is in it. Too many files are too much.
func (f *folder) size(pid int) int64 {
	total, files := int64(0), 0
	var stat unix.Stat_t
	_ = filepath.WalkDir(f.name, func(path string, _ fs.DirEntry, _ error) error {
		if files++; files > mostFiles {
			total = math.MaxInt64
			return fs.SkipAll
		}
		if unix.Lstat(path, &stat) == nil {
			total += stat.Blocks * 512
		}
		return nil
	})
	if files > mostFiles {
		return total
	}
	// Files that were deleted while open take space that no folder shows.
	fds := "/proc/" + strconv.Itoa(pid) + "/fd"
	entries, _ := os.ReadDir(fds)
	for _, entry := range entries {
		if unix.Stat(filepath.Join(fds, entry.Name()), &stat) == nil && stat.Mode&unix.S_IFMT == unix.S_IFREG && stat.Nlink == 0 {
			total += stat.Blocks * 512
		}
	}
	return total
}

// Inherit copies the files of a process that is gone, those below /mnt/data, to this one. Files
// that do not fit are left out; the error says so.
func (p *Process) Inherit(before *Process) error {
	heir := &heir{to: p, from: before, room: p.disk}
	return heir.folder("data", 0)
}

// An heir copies files.
type heir struct {
	to, from *Process
	room     int64 // bytes that may still be copied
}

// deepest is how many folders may lie within one another to be inherited.
const deepest = 64

func (h *heir) folder(name string, depth int) error {
	if depth > deepest {
		return fmt.Errorf("%s: folders too deep", name)
	}
	inside, err := h.from.files.Open(name)
	if err != nil {
		return err
	}
	entries, err := inside.ReadDir(mostEntries)
	inside.Close()
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	err = nil
	for _, entry := range entries {
		err = errors.Join(err, h.entry(path.Join(name, entry.Name()), entry.Type(), depth))
	}
	return err
}

// mostEntries is how many files of one folder are inherited.
const mostEntries = 10000

// entry copies a file, link or folder; pipes are left out.
func (h *heir) entry(name string, kind fs.FileMode, depth int) error {
	switch {
	case kind.IsDir():
		if err := h.to.files.Mkdir(name, 0o700); err != nil {
			return err
		}
		if err := h.to.owns(name); err != nil {
			return err
		}
		return h.folder(name, depth+1)
	case kind&fs.ModeSymlink != 0:
		target, err := h.from.files.Readlink(name)
		if err != nil {
			return err
		}
		return h.to.files.Symlink(target, name)
	case kind.IsRegular():
		return h.file(name)
	}
	return nil
}

func (h *heir) file(name string) error {
	info, err := h.from.files.Lstat(name)
	if err != nil {
		return err
	}
	if info.Size() > h.room {
		return fmt.Errorf("%s: no room for %d bytes", name, info.Size())
	}
	// The program may have put anything there: no link is followed, and no pipe waited for.
	source, err := h.from.files.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := h.to.files.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(target, io.LimitReader(source, h.room))
	h.room -= n
	return errors.Join(err, h.to.owns(name), target.Close())
}

// owns gives a file to the program's user, where that is another.
func (p *Process) owns(name string) error {
	if p.user == 0 {
		return nil
	}
	return p.files.Lchown(name, p.user, p.user)
}
