//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// With namespaces the program has a file system of its own: a small one in memory with the
// interpreter's files mounted into it, read only, under the names that they have outside, and one
// of a fixed size for its own files. Whatever else there is has no name there.

// place is where the new root is mounted before it is the root: a folder that every system has,
// and that is not looked into any more.
const place = "/proc"

// How large the file systems may get besides the program's own files.
const (
	rootOptions = "mode=755,size=1m,nr_inodes=4k"
	mostFiles   = 65536
	mostLinks   = 40 // symbolic links on the way to one file
)

// ownRoot makes the new root and changes to it. The process has privileges in its namespaces still.
func ownRoot(told *order) error {
	if err := unix.Sethostname([]byte("python")); err != nil {
		return fmt.Errorf("sethostname: %w", err)
	}
	if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	unix.Umask(0o022) // the program's user may be another than the one who makes it
	root := &root{shown: map[string]bool{}}
	if err := root.begin(told); err != nil {
		return err
	}
	for _, path := range append(append([]string{"/dev/null", "/dev/urandom"}, told.Reads...), told.Runs...) {
		if err := root.show(path, 0); err != nil {
			return err
		}
	}
	if err := root.finish(); err != nil {
		return err
	}
	return own(told.User, told.Disk)
}

// A root is one that is being made.
type root struct {
	shown map[string]bool // folders and files of outside that are mounted
}

// begin mounts the empty root.
func (r *root) begin(told *order) error {
	// What lies below place could not be found any more.
	for _, path := range append(append([]string{}, told.Reads...), told.Runs...) {
		if path == place || strings.HasPrefix(path, place+"/") {
			return fmt.Errorf("%s cannot be shown: it is within %s", path, place)
		}
	}
	return mount("tmpfs", place, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, rootOptions)
}

// show mounts a path of outside under the same name. Symbolic links on the way to it are links
// inside as well. A path that there is not is left out.
func (r *root) show(path string, links int) error {
	if links > mostLinks {
		return fmt.Errorf("%s: too many symbolic links", path)
	}
	at := "/"
	names := strings.Split(strings.Trim(filepath.Clean(path), "/"), "/")
	for i, name := range names {
		at = filepath.Join(at, name)
		if r.shown[at] {
			return nil
		}
		info, err := os.Lstat(at)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		// What a link leads to is shown as well, with the rest of the path behind it.
		if info.Mode()&fs.ModeSymlink != 0 {
			return r.link(at, names[i+1:], links)
		}
		if i == len(names)-1 {
			return r.bind(at, info.IsDir())
		}
		if err := os.Mkdir(place+at, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// link makes a link inside as it is outside, and shows what the path behind it leads to.
func (r *root) link(at string, rest []string, links int) error {
	target, err := os.Readlink(at)
	if err != nil {
		return err
	}
	if err := os.Symlink(target, place+at); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join(filepath.Dir(at), target)
	}
	return r.show(filepath.Join(append([]string{target}, rest...)...), links+1)
}

// bind mounts a folder or file, with all that is mounted in it, read only.
func (r *root) bind(path string, folder bool) error {
	inside := place + path
	var err error
	if folder {
		err = os.MkdirAll(inside, 0o755)
	} else {
		err = os.WriteFile(inside, nil, 0o644)
	}
	if err != nil {
		return err
	}
	if err := mount(path, inside, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	r.shown[path] = true
	return readOnly(inside, unix.AT_RECURSIVE)
}

// finish makes the place for the program's own files, and the new root the only one.
func (r *root) finish() error {
	if err := os.Mkdir(place+"/mnt", 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := os.Symlink("mnt/tmp", place+"/tmp"); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := os.Chdir(place); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil { // the old root lies above the new one
		return fmt.Errorf("unmounting the root of the system: %w", err)
	}
	return os.Chdir("/")
}

// own mounts the program's own files, and closes the root to changes.
func own(user int, size uint64) error {
	options := fmt.Sprintf("mode=755,size=%d,nr_inodes=%d", size, mostFiles)
	if err := mount("tmpfs", "/mnt", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, options); err != nil {
		return err
	}
	for _, folder := range []string{dataFolder, temporaryFolder} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			return err
		}
		if user == 0 {
			continue
		}
		if err := os.Chown(folder, user, user); err != nil {
			return err
		}
	}
	return readOnly("/", 0)
}

func mount(from, to, kind string, flags uintptr, options string) error {
	if err := unix.Mount(from, to, kind, flags, options); err != nil {
		return fmt.Errorf("mounting %s: %w", strings.TrimPrefix(to, place), err)
	}
	return nil
}

// readOnly keeps a mount from being written to; with AT_RECURSIVE those within it, too.
func readOnly(path string, flags uint) error {
	if err := unix.MountSetattr(-1, path, flags, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID}); err != nil {
		return fmt.Errorf("mounting %s read only: %w", strings.TrimPrefix(path, place), err)
	}
	return nil
}
