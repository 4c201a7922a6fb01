//go:build !windows

package disk

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// tryLock takes an advisory lock on f, alone or with others who share it, and reports
// whether it got it. Closing f gives it back, and so does the end of the process.
func tryLock(f *os.File, shared bool) (bool, error) {
	how := syscall.LOCK_EX
	if shared {
		how = syscall.LOCK_SH
	}
	err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// SyncDir makes a rename in dir durable.
func SyncDir(dir string) error {
	opened, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if err := errors.Join(opened.Sync(), opened.Close()); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}
