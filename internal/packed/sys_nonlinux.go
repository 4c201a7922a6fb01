//go:build unix && !linux

package packed

import "os"

func advise([]byte) {}

func populate([]byte) error { return nil }

func reserve(f *os.File, size int64) error { return f.Truncate(size) }

func startWriting(*os.File, int64, int64) {}
