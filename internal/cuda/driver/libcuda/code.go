package libcuda

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"unsafe"

	"ossian/internal/cuda/driver"
)

// This file has modules, launches and tensor maps: the functions with argument blocks in memory.

// Options of cuModuleLoadDataEx (CUjit_option): a buffer for what the compiler has to say of errors.
const (
	errorLogBuffer     = 5
	errorLogBufferSize = 6
)

// maxLog is how much of the compiler's log is kept.
const maxLog = 16 << 10

// jitValues are the values of the two options, in their order. Each is a pointer in C; the driver
// writes how much of the buffer it filled into that of the size.
type jitValues struct {
	log  *byte
	size uintptr
}

// code sets loading of modules and what is asked of kernels.
func (l *library) code(d *driver.Driver) {
	load := l.function("cuModuleLoadDataEx", "", "2.1")
	d.ModuleLoad = func(ptx []byte) (driver.Module, error) {
		if len(ptx) == 0 {
			return 0, errors.New("cuModuleLoadDataEx: an empty module")
		}
		image := append(bytes.Clone(ptx), 0) // its end is told by a zero byte
		log := make([]byte, maxLog)
		options := [2]int32{errorLogBuffer, errorLogBufferSize}
		values := &jitValues{log: &log[0], size: maxLog}
		var module driver.Module
		err := load.call(uintptr(unsafe.Pointer(&module)), uintptr(unsafe.Pointer(&image[0])), uintptr(len(options)),
			uintptr(unsafe.Pointer(&options)), uintptr(unsafe.Pointer(values)))
		return module, withLog(err, log)
	}
	unload := l.function("cuModuleUnload", "", "2.0")
	d.ModuleUnload = func(module driver.Module) error { return unload.call(uintptr(module)) }

	get := l.function("cuModuleGetFunction", "", "2.0")
	d.GetFunction = func(module driver.Module, name string) (driver.Function, error) {
		if strings.IndexByte(name, 0) >= 0 {
			return 0, fmt.Errorf("cuModuleGetFunction: a zero byte in the name %q", name)
		}
		text := append([]byte(name), 0)
		var function driver.Function
		err := get.call(uintptr(unsafe.Pointer(&function)), uintptr(module), uintptr(unsafe.Pointer(&text[0])))
		if err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
		return function, err
	}
	attribute := l.function("cuFuncGetAttribute", "", "2.2")
	d.FuncGet = func(function driver.Function, which driver.FuncAttribute) (int, error) {
		var value int32
		err := attribute.call(uintptr(unsafe.Pointer(&value)), uintptr(uint32(which)), uintptr(function))
		return int(value), err
	}
	set := l.function("cuFuncSetAttribute", "", "9.0")
	d.FuncSet = func(function driver.Function, which driver.FuncAttribute, value int) error {
		return set.call(uintptr(function), uintptr(uint32(which)), uintptr(uint32(value)))
	}
}

// withLog adds the log of the PTX compiler to the driver's error.
func withLog(err error, log []byte) error {
	failure := new(driver.Error)
	if !errors.As(err, &failure) {
		return err
	}
	if said, _, _ := bytes.Cut(log, []byte{0}); len(bytes.TrimSpace(said)) > 0 {
		failure.Text += ": " + string(bytes.TrimSpace(said))
	}
	return err
}

// A launchConfig is CUlaunchConfig.
type launchConfig struct {
	grid, block driver.Dim3
	shared      uint32
	stream      driver.Stream
	attributes  *launchAttribute
	count       uint32
}

// A launchAttribute is CUlaunchAttribute: its value is a union of 64 bytes, of which the attribute
// that is used has an int.
type launchAttribute struct {
	id    uint32
	_     uint32
	value int32
	_     [60]byte
}

// programmaticSerialization is the attribute by which a kernel may start before the one ahead of it
// has ended.
const programmaticSerialization = 6

// A launchBlock is the memory that one launch points to.
type launchBlock struct {
	params    [1]*byte // where each of the kernel's parameters is: there is one
	config    launchConfig
	attribute launchAttribute
}

// launches sets the launch of kernels and the description of tensors. A launch is the driver's
// oldest function for it, which every driver has; only what overlaps needs the newer one.
func (l *library) launches(d *driver.Driver) {
	plain := l.function("cuLaunchKernel", "", "4.0")
	extended := l.function("cuLaunchKernelEx", "", "11.8")
	blocks := sync.Pool{New: func() any { return new(launchBlock) }}
	d.Launch = func(launch *driver.Launch) error {
		block := blocks.Get().(*launchBlock)
		defer blocks.Put(block)
		// The driver finds out where the parameter belongs. As one piece of memory ("extra") it would have to
		// be laid out as the kernel has it: a struct that is aligned to 64 bytes, as those with tensor maps
		// are, begins 48 bytes into the parameters of sm_90.
		var params *[1]*byte // none for a kernel without parameters
		if len(launch.Params) > 0 {
			block.params[0] = &launch.Params[0]
			params = &block.params
		}
		defer func() { block.params[0] = nil }() // the pool keeps nobody's memory
		if !launch.Overlap {
			return plain.call(uintptr(launch.Function), uintptr(launch.Grid.X), uintptr(launch.Grid.Y), uintptr(launch.Grid.Z),
				uintptr(launch.Block.X), uintptr(launch.Block.Y), uintptr(launch.Block.Z), uintptr(launch.Shared), uintptr(launch.Stream),
				uintptr(unsafe.Pointer(params)), 0)
		}
		block.attribute = launchAttribute{id: programmaticSerialization, value: 1}
		block.config = launchConfig{grid: launch.Grid, block: launch.Block, shared: launch.Shared, stream: launch.Stream, attributes: &block.attribute, count: 1}
		return extended.call(uintptr(unsafe.Pointer(&block.config)), uintptr(launch.Function), uintptr(unsafe.Pointer(params)), 0)
	}

	encode := l.function("cuTensorMapEncodeTiled", "", "12.0")
	d.EncodeTensor = func(box *driver.TensorBox) (driver.TensorMap, error) { return encodeTensor(encode, box) }
}

// Parameters of cuTensorMapEncodeTiled: no interleave, 128-byte swizzle or none, pieces of 128 bytes
// in the second level cache, zeros for what is outside the tensor.
const (
	noInterleave = 0
	noSwizzle    = 0
	swizzle128   = 3
	cache128     = 2
	zerosOutside = 0
)

// encodeTensor has the driver make the descriptor of a tensor.
func encodeTensor(encode *function, box *driver.TensorBox) (driver.TensorMap, error) {
	const alignment = 64
	var room [len(driver.TensorMap{}) + alignment]byte
	sizes, strides := box.Size, [1]uint64{box.Stride} // the innermost stride is the element's size
	boxes, steps := box.Box, [2]uint32{1, 1}
	swizzle := uintptr(noSwizzle)
	if box.Swizzle128 {
		swizzle = swizzle128
	}
	start := -uintptr(unsafe.Pointer(&room)) % alignment
	err := encode.call(uintptr(unsafe.Pointer(&room[start])), uintptr(box.ElementType), uintptr(len(sizes)), uintptr(box.Base),
		uintptr(unsafe.Pointer(&sizes)), uintptr(unsafe.Pointer(&strides)), uintptr(unsafe.Pointer(&boxes)), uintptr(unsafe.Pointer(&steps)),
		noInterleave, swizzle, cache128, zerosOutside)
	return driver.TensorMap(room[start:][:len(driver.TensorMap{})]), err
}
