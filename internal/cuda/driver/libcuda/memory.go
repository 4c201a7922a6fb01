package libcuda

import (
	"bytes"
	"fmt"
	"unsafe"

	"ossian/internal/cuda/driver"
)

// This file has the machine, contexts, memory and copies. Every argument of the driver's functions
// is one word; those that are 32 bits wide in C are converted to that width first, so that the
// upper half of a negative number is not passed.

// machine sets what is asked of the driver and of devices before there is a context.
func (l *library) machine(d *driver.Driver) {
	initialise := l.function("cuInit", "", "2.0")
	d.Init = func() error { return initialise.call(0) }

	count := l.function("cuDeviceGetCount", "", "2.0")
	d.DeviceCount = func() (int, error) {
		var devices int32
		err := count.call(uintptr(unsafe.Pointer(&devices)))
		return int(devices), err
	}
	get := l.function("cuDeviceGet", "", "2.0")
	d.DeviceGet = func(ordinal int) (driver.Device, error) {
		var device driver.Device
		err := get.call(uintptr(unsafe.Pointer(&device)), uintptr(uint32(ordinal)))
		return device, err
	}
	name := l.function("cuDeviceGetName", "", "2.0")
	d.DeviceName = func(device driver.Device) (string, error) {
		var text [256]byte
		if err := name.call(uintptr(unsafe.Pointer(&text)), uintptr(len(text)), uintptr(uint32(device))); err != nil {
			return "", err
		}
		used, _, _ := bytes.Cut(text[:], []byte{0})
		return string(used), nil
	}
	attribute := l.function("cuDeviceGetAttribute", "", "2.0")
	d.DeviceAttribute = func(device driver.Device, which driver.Attribute) (int, error) {
		var value int32
		err := attribute.call(uintptr(unsafe.Pointer(&value)), uintptr(uint32(which)), uintptr(uint32(device)))
		return int(value), err
	}
	total := l.function("cuDeviceTotalMem", "_v2", "3.2")
	d.DeviceMemory = func(device driver.Device) (uint64, error) {
		var size uint64
		err := total.call(uintptr(unsafe.Pointer(&size)), uintptr(uint32(device)))
		return size, err
	}
	peers := l.function("cuDeviceCanAccessPeer", "", "4.0")
	d.CanAccessPeer = func(from, to driver.Device) (bool, error) {
		var can int32
		err := peers.call(uintptr(unsafe.Pointer(&can)), uintptr(uint32(from)), uintptr(uint32(to)))
		return can != 0, err
	}
}

// contexts sets what binds a thread to a device.
func (l *library) contexts(d *driver.Driver) {
	retain := l.function("cuDevicePrimaryCtxRetain", "", "7.0")
	d.ContextRetain = func(device driver.Device) (driver.Context, error) {
		var context driver.Context
		err := retain.call(uintptr(unsafe.Pointer(&context)), uintptr(uint32(device)))
		return context, err
	}
	release := l.function("cuDevicePrimaryCtxRelease", "_v2", "11.0")
	d.ContextRelease = func(device driver.Device) error { return release.call(uintptr(uint32(device))) }

	current := l.function("cuCtxSetCurrent", "", "4.0")
	d.SetCurrent = func(context driver.Context) error { return current.call(uintptr(context)) }

	synchronize := l.function("cuCtxSynchronize", "", "2.0")
	d.Synchronize = func() error { return synchronize.call() }

	enable := l.function("cuCtxEnablePeerAccess", "", "4.0")
	d.EnablePeer = func(context driver.Context) error {
		code, err := enable.code(uintptr(context), 0)
		if code == alreadyEnabled {
			return nil
		}
		return enable.check(code, err)
	}
}

// memory sets allocation on the device and of pinned memory of the host.
func (l *library) memory(d *driver.Driver) {
	info := l.function("cuMemGetInfo", "_v2", "3.2")
	d.MemInfo = func() (free, total uint64, err error) {
		err = info.call(uintptr(unsafe.Pointer(&free)), uintptr(unsafe.Pointer(&total)))
		return free, total, err
	}
	alloc := l.function("cuMemAlloc", "_v2", "3.2")
	d.MemAlloc = func(size uint64) (driver.Ptr, error) {
		var at driver.Ptr
		err := alloc.call(uintptr(unsafe.Pointer(&at)), uintptr(size))
		return at, err
	}
	free := l.function("cuMemFree", "_v2", "3.2")
	d.MemFree = func(at driver.Ptr) error { return free.call(uintptr(at)) }

	allocHost := l.function("cuMemAllocHost", "_v2", "3.2")
	d.MemAllocHost = func(size int) ([]byte, error) {
		if size <= 0 {
			return nil, fmt.Errorf("cuMemAllocHost: %d bytes asked for; at least 1 expected", size)
		}
		var memory *byte // outside Go's heap: the collector neither moves nor frees it
		if err := allocHost.call(uintptr(unsafe.Pointer(&memory)), uintptr(size)); err != nil {
			return nil, err
		}
		return unsafe.Slice(memory, size), nil
	}
	freeHost := l.function("cuMemFreeHost", "", "2.0")
	d.MemFreeHost = func(memory []byte) error {
		return freeHost.call(uintptr(unsafe.Pointer(unsafe.SliceData(memory))))
	}
}

// copies sets copies between host and device, and filling.
func (l *library) copies(d *driver.Driver) {
	toDevice, ended := l.function("cuMemcpyHtoD", "_v2", "3.2"), l.function("cuStreamSynchronize", "", "2.0")
	d.CopyToDevice = func(dst driver.Ptr, src []byte) error {
		// From memory that is not pinned the driver returns as soon as it has a copy of its own, and what
		// is given to streams that do not wait for the zero stream could overtake the rest of the way
		// ("API synchronization behavior" of the driver's manual).
		err := toDevice.call(uintptr(dst), uintptr(unsafe.Pointer(unsafe.SliceData(src))), uintptr(len(src)))
		if err == nil {
			err = ended.call(zeroStream)
		}
		return err
	}
	toHost := l.function("cuMemcpyDtoH", "_v2", "3.2")
	d.CopyToHost = func(dst []byte, src driver.Ptr) error {
		return toHost.call(uintptr(unsafe.Pointer(unsafe.SliceData(dst))), uintptr(src), uintptr(len(dst)))
	}
	toAsync := l.function("cuMemcpyHtoDAsync", "_v2", "3.2")
	d.CopyToAsync = func(dst driver.Ptr, src []byte, s driver.Stream) error {
		return toAsync.call(uintptr(dst), uintptr(unsafe.Pointer(unsafe.SliceData(src))), uintptr(len(src)), uintptr(s))
	}
	fromAsync := l.function("cuMemcpyDtoHAsync", "_v2", "3.2")
	d.CopyFromAsync = func(dst []byte, src driver.Ptr, s driver.Stream) error {
		return fromAsync.call(uintptr(unsafe.Pointer(unsafe.SliceData(dst))), uintptr(src), uintptr(len(dst)), uintptr(s))
	}
	within := l.function("cuMemcpyDtoDAsync", "_v2", "3.2")
	d.CopyAsync = func(dst, src driver.Ptr, size uint64, s driver.Stream) error {
		return within.call(uintptr(dst), uintptr(src), uintptr(size), uintptr(s))
	}
	fill := l.function("cuMemsetD8Async", "", "3.2")
	d.SetAsync = func(dst driver.Ptr, value byte, size uint64, s driver.Stream) error {
		return fill.call(uintptr(dst), uintptr(value), uintptr(size), uintptr(s))
	}
}
