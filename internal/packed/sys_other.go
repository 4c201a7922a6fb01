//go:build !unix

package packed

import (
	"errors"
	"os"
)

// supported: this platform has no mapping here, so reading a file would take the memory
// twice.
const supported = false

func mapFile(*os.File, int) ([]byte, error) { return nil, errors.ErrUnsupported }

func unmap([]byte) error { return nil }

func fetch(*os.File, []byte, int64, int64) {}

func tryLock(*os.File) (bool, error) { return false, errors.ErrUnsupported }

func writable(string) error { return errors.ErrUnsupported }

func space(string) int64 { return -1 }

func syncDir(string) {}

func reserve(*os.File, int64) error { return errors.ErrUnsupported }

func startWriting(*os.File, int64, int64) {}
