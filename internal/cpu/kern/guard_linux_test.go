package kern

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// guarded returns n elements that end right before (or, with front, begin right
// after) a page that may not be touched, so that a kernel that leaves its buffer
// faults.
func guarded[T any](t testing.TB, n int, front bool) []T {
	t.Helper()
	const page = 4096
	size := n * int(unsafe.Sizeof(*new(T)))
	inner := (size + page - 1) / page * page
	b, err := unix.Mmap(-1, 0, inner+2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(b) })
	for _, p := range [][]byte{b[:page], b[page+inner:]} {
		if err := unix.Mprotect(p, unix.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	if n == 0 {
		return nil
	}
	at := page
	if !front {
		at += inner - size
	}
	return unsafe.Slice((*T)(unsafe.Pointer(&b[at])), n)
}
