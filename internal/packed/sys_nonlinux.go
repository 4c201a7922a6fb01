//go:build unix && !linux

package packed

import "os"

func advise([]byte) {}

func fetch(*os.File, []byte, int64, int64) {}

func reserve(f *os.File, size int64) error { return f.Truncate(size) }

func startWriting(*os.File, int64, int64) {}
