package emu

import (
	"fmt"

	"ossian/internal/cuda/driver"
	"ossian/internal/cuda/emu/exec"
)

// encodeTensor makes the descriptor that copies of boxes get (cuTensorMapEncodeTiled).
func (m *Machine) encodeTensor(box *driver.TensorBox) (t driver.TensorMap, err error) {
	err = m.in("EncodeTensor", "cuTensorMapEncodeTiled", func(c *context) error {
		if c.card.Major < 9 {
			return failure(notSupported, "tensor maps need compute capability 9.0, the card has %d.%d", c.card.Major, c.card.Minor)
		}
		size := map[driver.Element]uint64{driver.Uint8: 1, driver.BFloat16: 2}[box.ElementType]
		if refused := checkBox(box, size); refused != "" {
			return failure(invalidValue, "%s", refused)
		}
		described := exec.TensorMap{Base: uint64(box.Base), Size: box.Size, Stride: box.Stride, Box: box.Box, Element: uint32(size), Swizzle: box.Swizzle128}
		t = described.Encode()
		return nil
	})
	return t, err
}

// checkBox says what a driver refuses about a tensor of elements of so many bytes (CUDA driver API:
// cuTensorMapEncodeTiled, without interleaving). Rows that overlap are refused here, too.
func checkBox(box *driver.TensorBox, size uint64) string {
	inner := uint64(box.Box[0]) * size
	switch {
	case size == 0:
		return fmt.Sprintf("elements of type %d are not known to the emulator", box.ElementType)
	case box.Base%16 != 0:
		return fmt.Sprintf("a tensor at %#x: a multiple of 16 is needed", uint64(box.Base))
	case box.Size[0] == 0 || box.Size[1] == 0 || box.Size[0] > 1<<32 || box.Size[1] > 1<<32:
		return fmt.Sprintf("a tensor of %d elements: 1 to 2^32 of each dimension are possible", box.Size)
	case box.Stride%16 != 0 || box.Stride >= 1<<40:
		return fmt.Sprintf("rows %d bytes apart: multiples of 16 below 2^40 are possible", box.Stride)
	case box.Stride < box.Size[0]*size:
		return fmt.Sprintf("rows of %d bytes, %d bytes apart, overlap", box.Size[0]*size, box.Stride)
	case box.Box[0] == 0 || box.Box[1] == 0 || box.Box[0] > 256 || box.Box[1] > 256:
		return fmt.Sprintf("a box of %d elements: 1 to 256 of each dimension are possible", box.Box)
	case inner%16 != 0:
		return fmt.Sprintf("a box with rows of %d bytes: multiples of 16 are possible", inner)
	case box.Swizzle128 && inner > 128:
		return fmt.Sprintf("a box with rows of %d bytes: 128 are possible with a swizzle of 128 bytes", inner)
	}
	return ""
}
