//go:build !unix

package ckpt

import (
	"io"
	"os"
)

// mapsFiles: what is written to a file later does not show in its data.
const mapsFiles = false

// mapFile reads f: this platform has no mapping here, so a model needs its size
// in memory once more.
func mapFile(f *os.File, size int) (data []byte, unmap func() error, err error) {
	data = make([]byte, size)
	_, err = io.ReadFull(f, data)
	return data, func() error { return nil }, err
}

func dropPages([]byte) {}
