//go:build unix

package ckpt

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapsFiles: what is written to a file shows in its data.
const mapsFiles = true

// mapFile maps size bytes of f for reading.
func mapFile(f *os.File, size int) (data []byte, unmap func() error, err error) {
	if size == 0 { // nothing to map, and the call would fail
		return nil, func() error { return nil }, nil
	}
	data, err = unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, nil, err
	}
	return data, func() error { return unix.Munmap(data) }, nil
}

// dropPages lets the pages under b go from this process. They stay in the page
// cache of the system, so reading them again is right and cheap.
func dropPages(b []byte) {
	if len(b) == 0 {
		return
	}
	page := uintptr(os.Getpagesize())
	// A mapping starts at a page, so the page of the first byte is mapped as well.
	before := uintptr(unsafe.Pointer(unsafe.SliceData(b))) % page
	start := (*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(b)), -int(before)))
	// A refusal costs memory, not correctness.
	_ = unix.Madvise(unsafe.Slice(start, len(b)+int(before)), unix.MADV_DONTNEED)
}
