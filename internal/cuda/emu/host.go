package emu

import (
	"hash/maphash"
	"unsafe"

	"ossian/internal/cuda/driver"
)

// This file is memory as the host sees it: allocations, pinned buffers, copies.

// A pinned is memory of the host that copies of streams may use.
type pinned struct {
	data    []byte
	sources int // copies to a device that have not happened
}

var hashSeed = maphash.MakeSeed()

// A node is work for a stream. issue is called when it is queued (for graphs: with each launch of
// one) and returns what is done when its turn comes.
type node struct {
	what  string
	issue func() func() *fault
}

func (m *Machine) memAlloc(bytes uint64) (at driver.Ptr, err error) {
	err = m.in("MemAlloc", "cuMemAlloc", func(c *context) error {
		if err := c.refuse(captureUnsupported, "memory cannot be allocated"); err != nil {
			return err
		}
		if bytes == 0 {
			return failure(invalidValue, "an allocation of no bytes")
		}
		if bytes > c.card.Memory-c.used {
			return failure(outOfMemory, "%d bytes wanted, %d of %d are free", bytes, c.card.Memory-c.used, c.card.Memory)
		}
		at = c.keep(m.mem.alloc(c.card, bytes))
		return nil
	})
	return at, err
}

// keep makes an allocation one of the context's.
func (c *context) keep(a *alloc) driver.Ptr {
	c.used += a.size
	c.allocs[driver.Ptr(a.base)] = a
	return driver.Ptr(a.base)
}

func (m *Machine) memFree(at driver.Ptr) error {
	return m.in("MemFree", "cuMemFree", func(c *context) error {
		if err := c.refuse(captureUnsupported, "memory cannot be freed"); err != nil {
			return err
		}
		a := c.allocs[at]
		if a == nil {
			if old := m.mem.find(uint64(at)); old != nil && old.base == uint64(at) && old.size != old.was {
				return failure(invalidValue, "%#x: the memory of %d bytes there was freed before", uint64(at), old.was)
			}
			return failure(invalidValue, "%#x is not the beginning of an allocation of this context", uint64(at))
		}
		c.drop(a)
		return nil
	})
}

func (c *context) drop(a *alloc) {
	delete(c.allocs, driver.Ptr(a.base))
	c.used -= a.size
	c.card.machine.mem.free(a)
}

func (m *Machine) memAllocHost(bytes int) (b []byte, err error) {
	err = m.in("MemAllocHost", "cuMemAllocHost", func(c *context) error {
		if bytes <= 0 {
			return failure(invalidValue, "an allocation of %d bytes", bytes)
		}
		b = make([]byte, bytes)
		for i := range b {
			b[i] = poisonByte
		}
		m.pinned = append(m.pinned, &pinned{data: b})
		return nil
	})
	return b, err
}

func (m *Machine) memFreeHost(b []byte) error {
	return m.in("MemFreeHost", "cuMemFreeHost", func(c *context) error {
		for i, p := range m.pinned {
			if len(b) == 0 || unsafe.SliceData(p.data) != unsafe.SliceData(b) || len(p.data) != len(b) {
				continue
			}
			if p.sources > 0 {
				return failure(invalidValue, "%d copies from this memory have not happened yet", p.sources)
			}
			m.pinned = append(m.pinned[:i:i], m.pinned[i+1:]...)
			return nil
		}
		return failure(invalidValue, "%d bytes that MemAllocHost did not give, or that were freed before", len(b))
	})
}

// pinnedWith returns the pinned memory that a slice lies in.
func (m *Machine) pinnedWith(b []byte) (*pinned, error) {
	if len(b) > 0 {
		at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
		for _, p := range m.pinned {
			from := uintptr(unsafe.Pointer(unsafe.SliceData(p.data)))
			if at >= from && at+uintptr(len(b)) <= from+uintptr(len(p.data)) {
				return p, nil
			}
		}
	}
	return nil, failure(invalidValue, "an asynchronous copy of %d bytes with memory that is not pinned: MemAllocHost gives such memory", len(b))
}

func (m *Machine) copyToDevice(dst driver.Ptr, src []byte) error {
	return m.in("CopyToDevice", "cuMemcpyHtoD", func(c *context) error {
		if err := c.refuse(captureImplicit, "a copy that waits cannot be made"); err != nil {
			return err
		}
		a, off, err := m.mem.span(dst, uint64(len(src)))
		if err != nil {
			return err
		}
		copy(a.data[off:], src)
		a.written(off, uint64(len(src)))
		return nil
	})
}

func (m *Machine) copyToHost(dst []byte, src driver.Ptr) error {
	return m.in("CopyToHost", "cuMemcpyDtoH", func(c *context) error {
		if err := c.refuse(captureImplicit, "a copy that waits cannot be made"); err != nil {
			return err
		}
		a, off, err := m.mem.span(src, uint64(len(dst)))
		if err != nil {
			return err
		}
		if unset := a.unset(off, uint64(len(dst))); unset < uint64(len(dst)) {
			return failure(invalidValue, "copy of %d bytes at %#x to the host: nobody has written byte %d of them (was the stream waited for?)", len(dst), uint64(src), unset)
		}
		copy(dst, a.data[off:])
		return nil
	})
}

// copyToAsync compares the source with what it was when the copy was asked for.
func (m *Machine) copyToAsync(dst driver.Ptr, src []byte, s driver.Stream) error {
	return m.in("CopyToAsync", "cuMemcpyHtoDAsync", func(c *context) error {
		p, err := m.pinnedWith(src)
		if err != nil {
			return err
		}
		if _, _, err := m.mem.span(dst, uint64(len(src))); err != nil {
			return err
		}
		what := describe("copy of %d bytes to the device", len(src))
		return c.enqueue(s, node{what, func() func() *fault {
			was := maphash.Bytes(hashSeed, src)
			p.sources++
			return func() *fault {
				m.mu.Lock()
				p.sources--
				m.mu.Unlock()
				if maphash.Bytes(hashSeed, src) != was {
					return &fault{launchFailed, what + ": its pinned source was changed before the copy happened"}
				}
				a, off, err := m.mem.span(dst, uint64(len(src)))
				if err != nil {
					return &fault{illegalAddress, what + ": " + err.Error()}
				}
				copy(a.data[off:], src)
				a.written(off, uint64(len(src)))
				return nil
			}
		}})
	})
}

// copyFromAsync fills the destination with poison that is looked for when the copy happens.
func (m *Machine) copyFromAsync(dst []byte, src driver.Ptr, s driver.Stream) error {
	return m.in("CopyFromAsync", "cuMemcpyDtoHAsync", func(c *context) error {
		p, err := m.pinnedWith(dst)
		if err != nil {
			return err
		}
		if _, _, err := m.mem.span(src, uint64(len(dst))); err != nil {
			return err
		}
		what := describe("copy of %d bytes from the device", len(dst))
		return c.enqueue(s, node{what, func() func() *fault {
			if p.sources == 0 { // else the memory still has to hold what a copy takes from it
				for i := range dst {
					dst[i] = poisonByte
				}
			}
			return func() *fault {
				a, off, err := m.mem.span(src, uint64(len(dst)))
				if err != nil {
					return &fault{illegalAddress, what + ": " + err.Error()}
				}
				if unset := a.unset(off, uint64(len(dst))); unset < uint64(len(dst)) {
					return &fault{launchFailed, describe("%s: nobody has written byte %d at %#x", what, unset, uint64(src))}
				}
				copy(dst, a.data[off:])
				return nil
			}
		}})
	})
}

func (m *Machine) copyAsync(dst, src driver.Ptr, bytes uint64, s driver.Stream) error {
	return m.in("CopyAsync", "cuMemcpyDtoDAsync", func(c *context) error {
		if _, _, err := m.mem.span(dst, bytes); err != nil {
			return err
		}
		if _, _, err := m.mem.span(src, bytes); err != nil {
			return err
		}
		what := describe("copy of %d bytes in the device", bytes)
		return c.enqueue(s, node{what, func() func() *fault {
			return func() *fault {
				from, at, err := m.mem.span(src, bytes)
				if err != nil {
					return &fault{illegalAddress, what + ": " + err.Error()}
				}
				to, off, err := m.mem.span(dst, bytes)
				if err != nil {
					return &fault{illegalAddress, what + ": " + err.Error()}
				}
				copy(to.data[off:off+bytes], from.data[at:])
				copy(to.shadow[off:off+bytes], from.shadow[at:]) // what nobody wrote stays so
				return nil
			}
		}})
	})
}

func (m *Machine) setAsync(dst driver.Ptr, value byte, bytes uint64, s driver.Stream) error {
	return m.in("SetAsync", "cuMemsetD8Async", func(c *context) error {
		if _, _, err := m.mem.span(dst, bytes); err != nil {
			return err
		}
		what := describe("filling of %d bytes", bytes)
		return c.enqueue(s, node{what, func() func() *fault {
			return func() *fault {
				a, off, err := m.mem.span(dst, bytes)
				if err != nil {
					return &fault{illegalAddress, what + ": " + err.Error()}
				}
				for i := range a.data[off : off+bytes] {
					a.data[off+uint64(i)] = value
				}
				a.written(off, bytes)
				return nil
			}
		}})
	})
}
