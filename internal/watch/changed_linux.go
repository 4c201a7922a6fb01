package watch

import (
	"io/fs"
	"syscall"
)

// changed returns when something was done to a file, in ns since 1970. Unlike the time of the
// last write nobody can put it back.
func changed(info fs.FileInfo) int64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Ctim.Nano()
	}
	return 0
}
