package emu

import (
	"fmt"
	"hash/maphash"
	"slices"
	"unsafe"

	"ossian/internal/cuda/driver"
	"ossian/internal/cuda/emu/exec"
)

// This file is memory as the host sees it: allocations, pinned buffers, copies.

// A pinned is memory of the host that copies of streams may use.
type pinned struct {
	context *context // with which it is lost
	data    []byte
	sources int // copies to a device that have not happened
	landed  int // copies from a device that have happened
}

var hashSeed = maphash.MakeSeed()

// A node is work for a stream. issue is called when it is queued (for graphs: with each launch of
// one) and returns what is done when its turn comes.
type node struct {
	what  string
	issue func() func() *exec.Fault
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
		at = c.keep(m.mem.Alloc(c.card.device, bytes))
		return nil
	})
	return at, err
}

// keep makes an allocation one of the context's.
func (c *context) keep(a *exec.Alloc) driver.Ptr {
	c.used += a.Size
	c.allocs[driver.Ptr(a.Base)] = a
	return driver.Ptr(a.Base)
}

func (m *Machine) memFree(at driver.Ptr) error {
	return m.in("MemFree", "cuMemFree", func(c *context) error {
		if err := c.refuse(captureUnsupported, "memory cannot be freed"); err != nil {
			return err
		}
		a := c.allocs[at]
		if a == nil {
			if old := m.mem.Find(uint64(at)); old != nil && old.Base == uint64(at) && old.Size != old.Was {
				return failure(invalidValue, "%#x: the memory of %d bytes there was freed before", uint64(at), old.Was)
			}
			return failure(invalidValue, "%#x is not the beginning of an allocation of this context", uint64(at))
		}
		c.drop(a)
		return nil
	})
}

func (c *context) drop(a *exec.Alloc) {
	delete(c.allocs, driver.Ptr(a.Base))
	c.used -= a.Size
	c.card.machine.mem.Free(a)
}

func (m *Machine) memAllocHost(bytes int) (b []byte, err error) {
	err = m.in("MemAllocHost", "cuMemAllocHost", func(c *context) error {
		if err := c.refuse(captureUnsupported, "pinned memory cannot be allocated"); err != nil {
			return err
		}
		if bytes <= 0 {
			return failure(invalidValue, "an allocation of %d bytes", bytes)
		}
		b = make([]byte, bytes)
		exec.Fill(b, exec.PoisonByte)
		m.pinned = append(m.pinned, &pinned{context: c, data: b})
		return nil
	})
	return b, err
}

func (m *Machine) memFreeHost(b []byte) error {
	return m.in("MemFreeHost", "cuMemFreeHost", func(c *context) error {
		if err := c.refuse(captureUnsupported, "pinned memory cannot be freed"); err != nil {
			return err
		}
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

// span is exec.Memory.Span with an error of the driver.
func (m *Machine) span(at driver.Ptr, n uint64) (*exec.Alloc, uint64, error) {
	a, off, err := m.mem.Span(uint64(at), n)
	if err != nil {
		return nil, 0, failure(invalidValue, "%v", err)
	}
	return a, off, nil
}

func (m *Machine) copyToDevice(dst driver.Ptr, src []byte) error {
	return m.in("CopyToDevice", "cuMemcpyHtoD", func(c *context) error {
		if err := c.refuse(captureImplicit, "a copy that waits cannot be made"); err != nil {
			return err
		}
		a, off, err := m.span(dst, uint64(len(src)))
		if err != nil {
			return err
		}
		copy(a.Data[off:], src)
		a.Written(off, uint64(len(src)))
		return nil
	})
}

func (m *Machine) copyToHost(dst []byte, src driver.Ptr) error {
	return m.in("CopyToHost", "cuMemcpyDtoH", func(c *context) error {
		if err := c.refuse(captureImplicit, "a copy that waits cannot be made"); err != nil {
			return err
		}
		a, off, err := m.span(src, uint64(len(dst)))
		if err != nil {
			return err
		}
		if unset := a.Unset(off, uint64(len(dst))); unset < uint64(len(dst)) {
			return failure(invalidValue, "copy of %d bytes at %#x to the host: nobody has written byte %d of them (was the stream waited for?)", len(dst), uint64(src), unset)
		}
		copy(dst, a.Data[off:])
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
		if _, _, err := m.span(dst, uint64(len(src))); err != nil {
			return err
		}
		what := fmt.Sprintf("copy of %d bytes to the device", len(src))
		return c.enqueue(s, node{what, func() func() *exec.Fault {
			was := maphash.Bytes(hashSeed, src)
			p.sources++
			return func() *exec.Fault {
				m.mu.Lock()
				p.sources--
				m.mu.Unlock()
				if maphash.Bytes(hashSeed, src) != was {
					return &exec.Fault{Code: exec.LaunchFailed, Text: what + ": its pinned source was changed before the copy happened"}
				}
				a, off, err := m.span(dst, uint64(len(src)))
				if err != nil {
					return &exec.Fault{Code: exec.IllegalAddress, Text: what + ": " + err.Error()}
				}
				copy(a.Data[off:], src)
				a.Written(off, uint64(len(src)))
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
		if _, _, err := m.span(src, uint64(len(dst))); err != nil {
			return err
		}
		what := fmt.Sprintf("copy of %d bytes from the device", len(dst))
		return c.enqueue(s, node{what, func() func() *exec.Fault {
			poisoned, landed := p.sources == 0, p.landed // else the memory still has to hold what a copy takes from it
			if poisoned {
				exec.Fill(dst, exec.PoisonByte)
			}
			return func() *exec.Fault {
				m.mu.Lock()
				alone := p.landed == landed
				p.landed++
				m.mu.Unlock()
				if poisoned && alone && slices.ContainsFunc(dst, func(b byte) bool { return b != exec.PoisonByte }) {
					return &exec.Fault{Code: exec.LaunchFailed, Text: what + ": its pinned destination was written before the copy happened"}
				}
				a, off, err := m.span(src, uint64(len(dst)))
				if err != nil {
					return &exec.Fault{Code: exec.IllegalAddress, Text: what + ": " + err.Error()}
				}
				if unset := a.Unset(off, uint64(len(dst))); unset < uint64(len(dst)) {
					return &exec.Fault{Code: exec.LaunchFailed, Text: fmt.Sprintf("%s: nobody has written byte %d at %#x", what, unset, uint64(src))}
				}
				copy(dst, a.Data[off:])
				return nil
			}
		}})
	})
}

func (m *Machine) copyAsync(dst, src driver.Ptr, bytes uint64, s driver.Stream) error {
	return m.in("CopyAsync", "cuMemcpyDtoDAsync", func(c *context) error {
		if _, _, err := m.span(dst, bytes); err != nil {
			return err
		}
		if _, _, err := m.span(src, bytes); err != nil {
			return err
		}
		what := fmt.Sprintf("copy of %d bytes in the device", bytes)
		return c.enqueue(s, node{what, func() func() *exec.Fault {
			return func() *exec.Fault {
				from, at, err := m.span(src, bytes)
				if err != nil {
					return &exec.Fault{Code: exec.IllegalAddress, Text: what + ": " + err.Error()}
				}
				to, off, err := m.span(dst, bytes)
				if err != nil {
					return &exec.Fault{Code: exec.IllegalAddress, Text: what + ": " + err.Error()}
				}
				from.CopyTo(to, off, at, bytes) // what nobody wrote stays so
				return nil
			}
		}})
	})
}

func (m *Machine) setAsync(dst driver.Ptr, value byte, bytes uint64, s driver.Stream) error {
	return m.in("SetAsync", "cuMemsetD8Async", func(c *context) error {
		if _, _, err := m.span(dst, bytes); err != nil {
			return err
		}
		what := fmt.Sprintf("filling of %d bytes", bytes)
		return c.enqueue(s, node{what, func() func() *exec.Fault {
			return func() *exec.Fault {
				a, off, err := m.span(dst, bytes)
				if err != nil {
					return &exec.Fault{Code: exec.IllegalAddress, Text: what + ": " + err.Error()}
				}
				exec.Fill(a.Data[off:off+bytes], value)
				a.Written(off, bytes)
				return nil
			}
		}})
	})
}
