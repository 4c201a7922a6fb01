//go:build !windows

package hub

import (
	"errors"
	"os"
	"syscall"
)

// tryLock takes an advisory lock on f, the kind the reference client uses on its
// lock files, and reports whether it got it.
func tryLock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return false, nil
	}
	return err == nil, err
}

// freeSpace returns the bytes an ordinary user may still write below dir, -1 if
// that cannot be told.
func freeSpace(dir string) int64 {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return -1
	}
	return int64(min(uint64(s.Bavail), 1<<40)) * int64(s.Bsize)
}
