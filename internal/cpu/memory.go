package cpu

import (
	"errors"
	"unsafe"
)

// An arena owns every mapping of a device: the garbage collector neither scans
// nor counts activations and cached keys.
type arena struct {
	maps [][]byte
	size int64 // bytes
	dry  bool  // only count
}

// carve returns n zeroed elements that live until close, nil from a dry arena.
func carve[E float32 | uint16 | uint8 | int32](arena *arena, n int) ([]E, error) {
	if n == 0 {
		return nil, nil
	}
	var zero E
	arena.size += int64(n) * int64(unsafe.Sizeof(zero))
	if arena.dry {
		return nil, nil
	}
	mem, err := mapMemory(n * int(unsafe.Sizeof(zero)))
	if err != nil {
		return nil, err
	}
	arena.maps = append(arena.maps, mem)
	return unsafe.Slice((*E)(unsafe.Pointer(unsafe.SliceData(mem))), n), nil
}

// close gives all memory back.
func (a *arena) close() error {
	var errs []error
	for _, b := range a.maps {
		errs = append(errs, unmapMemory(b))
	}
	a.maps = nil
	return errors.Join(errs...)
}
