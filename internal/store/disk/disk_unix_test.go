//go:build !windows

package disk

import (
	"path/filepath"
	"syscall"
	"testing"
)

// A program that is being started has the files of this process until it runs, as a duplicate of the
// descriptor has: a lock that was given back is free nevertheless.
func TestLockIsGivenBackAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	lock, got, err := Lock(path, false)
	if err != nil || !got {
		t.Fatalf("a lock that nobody has: %v, %v", got, err)
	}
	started, err := syscall.Dup(int(lock.file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(started)
	if _, got, err := Lock(path, true); got || err != nil {
		t.Errorf("a lock that is held: %v, %v", got, err)
	}
	if err := lock.Close(); err != nil {
		t.Error(err)
	}
	again, got, err := Lock(path, false)
	if err != nil || !got {
		t.Fatalf("a lock that was given back: %v, %v", got, err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}
