//go:build unix

package packed

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// supported: mappings and locks are here.
const supported = true

// mapFile maps size bytes of f for reading.
func mapFile(f *os.File, size int) ([]byte, error) {
	b, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err == nil {
		advise(b)
	}
	return b, err
}

func unmap(b []byte) error { return unix.Munmap(b) }

// tryLock takes the lock that goes with an open file, and with the process that has it.
func tryLock(f *os.File) (bool, error) {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if errors.Is(err, unix.EWOULDBLOCK) {
			return false, nil
		}
		return err == nil, err
	}
}

// writable reports why no file can be made in dir.
func writable(dir string) error { return unix.Access(dir, unix.W_OK) }

// space returns the bytes that an ordinary user may still write below dir, -1 = unknown.
func space(dir string) int64 {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return -1
	}
	return int64(min(uint64(stat.Bavail), 1<<40)) * int64(stat.Bsize)
}

// syncDir makes a new name in dir last. Where that is not possible a crash of the system
// may lose it, and the file is made again.
func syncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}
