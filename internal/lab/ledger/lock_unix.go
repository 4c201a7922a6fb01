//go:build !windows

package ledger

import (
	"errors"
	"os"
	"syscall"
)

// tryLock takes the lock that goes with an open file and with the process that has it, and reports
// whether it got it.
func tryLock(file *os.File) (bool, error) {
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return false, nil
		}
		return err == nil, err
	}
}
