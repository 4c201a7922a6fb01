package cpu

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// mapMemory returns n zeroed bytes outside the Go heap. They take no physical
// memory before they are touched: a KV pool costs what it holds.
func mapMemory(n int) ([]byte, error) {
	mapped, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("cpu: mapping %d bytes of memory: %w", n, err)
	}
	if n >= 2<<20 {
		_ = unix.Madvise(mapped, unix.MADV_HUGEPAGE) // a kernel without huge pages is slower, not wrong
	}
	return mapped, nil
}

func unmapMemory(b []byte) error { return unix.Munmap(b) }
