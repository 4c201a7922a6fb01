//go:build !windows

package disk

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// tryLock takes an advisory lock on f, alone or with others who share it, and reports
// whether it got it.
func tryLock(f *os.File, shared bool) (bool, error) {
	how := syscall.LOCK_EX
	if shared {
		how = syscall.LOCK_SH
	}
	err := flock(f, how|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// unlock gives the lock back, whoever has the file open, too.
func unlock(f *os.File) error { return flock(f, syscall.LOCK_UN) }

// flock goes on where a signal came between.
func flock(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
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
