package packed

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"strings"
)

// spare is how many bytes a file leaves free on its disk.
const spare = 1 << 30

// Possible reports why a file of the content cannot be made now; nil if it probably can.
func Possible(prefix string, content *Content) error {
	if !supported {
		return errors.ErrUnsupported
	}
	dir, _ := split(prefix)
	if err := writable(dir); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	free, size := freeSpace(dir), content.Bytes()
	if found, err := Find(prefix); err == nil && free >= 0 {
		for _, entry := range found {
			if strings.HasSuffix(entry.Path, partial) {
				free += entry.Bytes // Create removes it
			}
		}
	}
	if free >= 0 && free < size+spare {
		return fmt.Errorf("%s: %d bytes are free, %d and %d to spare are needed", dir, free, size, int64(spare))
	}
	return nil
}

// freeSpace is replaced by tests.
var freeSpace = space

// ErrBusy means that another process makes the file at this moment.
var ErrBusy = errors.New("another process is writing it")

// A Writer makes a file, which has its name once it is whole and on the disk: created and
// locked under another name → written piece by piece → Commit, or Abort.
type Writer struct {
	path   string
	disk   *os.File // locked; what is left of a writer that died is not
	layout *layout
	mode   fs.FileMode
	marks  []byte
	sums   []uint32
}

// Create begins the file of c and removes what interrupted writers of the prefix left.
// mode has its permissions. The error may be ErrBusy.
func Create(prefix string, c *Content, mode fs.FileMode) (*Writer, error) {
	if err := Possible(prefix, c); err != nil {
		return nil, err
	}
	writer := &Writer{path: c.Path(prefix), layout: c.layOut(), mode: mode.Perm() &^ 0o111}
	writer.marks, writer.sums = make([]byte, len(c.Sections)), make([]uint32, writer.layout.pieces)
	var err error
	if writer.disk, err = lockFile(writer.path+partial, os.O_CREATE); err != nil {
		return nil, err
	}
	// With the lock held: what others left under the prefix goes, unless they still write it, and
	// the file takes its whole size before anything is packed.
	others, err := Find(prefix)
	for _, entry := range others {
		if strings.HasSuffix(entry.Path, partial) && entry.Path != writer.path+partial {
			removeLeftover(entry.Path)
		}
	}
	if err = errors.Join(err, writer.disk.Truncate(0)); err == nil {
		err = reserve(writer.disk, writer.layout.size)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: reserving %d bytes: %w", writer.path, writer.layout.size, err), writer.Abort())
	}
	return writer, nil
}

// lockFile opens name and locks it. The lock counts only while name is the locked file:
// whoever had it may have given that another name, or have removed it.
func lockFile(name string, flag int) (*os.File, error) {
	for {
		file, err := os.OpenFile(name, os.O_RDWR|flag, 0o600)
		if err != nil {
			return nil, err
		}
		ok, err := tryLock(file)
		if err == nil && !ok {
			err = ErrBusy
		}
		// Another name by now, or none: the lock is of no use, so try the new one.
		if err == nil {
			own, failed := file.Stat()
			named, gone := os.Stat(name)
			if failed == nil && gone == nil && os.SameFile(own, named) {
				return file, nil
			}
		}
		file.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
}

// removeLeftover removes an unfinished file unless somebody is writing it.
func removeLeftover(name string) bool {
	file, err := lockFile(name, 0)
	if err != nil {
		return false
	}
	defer file.Close()
	return os.Remove(name) == nil
}

// Write writes piece i of a section. Any number of goroutines may, each another piece.
func (w *Writer) Write(section, i int, b []byte) error {
	from, to := w.layout.piece(section, i)
	if int64(len(b)) != to-from {
		return fmt.Errorf("packed: %d bytes for piece %d of %s, which has %d", len(b), i, w.layout.c.Sections[section].Name, to-from)
	}
	w.sums[w.layout.first[section]+i] = crc32.ChecksumIEEE(b)
	if _, err := w.disk.WriteAt(b, from); err != nil {
		return err
	}
	startWriting(w.disk, from, to-from)
	return nil
}

// Mark sets the mark of a section.
func (w *Writer) Mark(section int) { w.marks[section] = 1 }

// Commit puts the file, all pieces of which were written, on the disk and gives it its
// name. The Writer is of no use afterwards, whatever the error.
func (w *Writer) Commit() error {
	_, err := w.disk.WriteAt(w.layout.encode(w.marks, w.sums), 0)
	if err == nil {
		err = errors.Join(w.disk.Chmod(w.mode), w.disk.Sync())
	}
	if err == nil {
		err = os.Rename(w.path+partial, w.path)
	}
	if err != nil {
		return errors.Join(err, w.Abort())
	}
	dir, _ := split(w.path)
	syncDir(dir)
	return w.disk.Close()
}

// Abort removes what was written.
func (w *Writer) Abort() error {
	return errors.Join(os.Remove(w.path+partial), w.disk.Close())
}
