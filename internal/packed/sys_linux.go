package packed

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// advise asks for huge pages, which file systems with large folios give; elsewhere the
// kernel refuses, and the pages stay small.
func advise(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }

// populate reads and maps the pages of b, which begins at one, in one call: a fault for
// each sixteen costs more than what the page cache holds. What it does not hold is asked
// for first, or it would come from the disk piece by piece. Before Linux 5.14 nothing is
// mapped.
func populate(b []byte) error {
	_ = unix.Madvise(b, unix.MADV_WILLNEED)
	err := unix.Madvise(b, unix.MADV_POPULATE_READ)
	if errors.Is(err, unix.EINVAL) {
		return nil
	}
	return err
}

// reserve takes the blocks of a file, so that a full disk shows before anything is
// packed; where the file system cannot, it shows when it is written.
func reserve(f *os.File, size int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), 0, 0, size)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS):
			return f.Truncate(size)
		}
		return err
	}
}

// startWriting has the disk begin, so that the last sync has less to wait for.
func startWriting(f *os.File, at, n int64) {
	_ = unix.SyncFileRange(int(f.Fd()), at, n, unix.SYNC_FILE_RANGE_WRITE)
}
