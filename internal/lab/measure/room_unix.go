//go:build unix

package measure

import "syscall"

// freeBytes is what an ordinary user may still write below dir; -1: it cannot be told.
func freeBytes(dir string) int64 {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil {
		return -1
	}
	return int64(min(uint64(stat.Bavail), 1<<40)) * int64(stat.Bsize)
}
