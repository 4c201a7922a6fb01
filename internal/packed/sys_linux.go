package packed

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// advise asks for huge pages, which file systems with large folios give; elsewhere the
// kernel refuses, and the pages stay small.
func advise(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }

// fetch reads b, the n bytes of f from at on and those of their first page before them,
// unless the page cache has them: it seems to be so if it has a byte of each MiB. Faults
// bring them in huge pages where MADV_WILLNEED brings small ones, which take longer to
// map at every later start. What fails here fails again where it is read.
func fetch(f *os.File, b []byte, at, n int64) {
	var one [1]byte
	for end := at + n; at < end; at += 1 << 20 {
		if got, err := unix.Preadv2(int(f.Fd()), [][]byte{one[:]}, at, unix.RWF_NOWAIT); got != 1 || err != nil {
			if unix.Madvise(b, unix.MADV_POPULATE_READ) == unix.EINVAL { // Linux before 5.14
				_ = unix.Madvise(b, unix.MADV_WILLNEED)
			}
			return
		}
	}
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
