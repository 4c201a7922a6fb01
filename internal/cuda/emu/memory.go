package emu

import (
	"encoding/binary"
	"slices"
	"sync"
	"sync/atomic"

	"ossian/internal/cuda/driver"
)

var le = binary.LittleEndian

// The address space. Generic addresses of a block's own memory lie in windows that no allocation
// reaches; addresses of global memory are never given twice, so that a stale pointer is seen.
const (
	globalBase   = uint64(0x7f00_0000_0000)
	sharedBase   = uint64(1) << 56
	localBase    = uint64(1) << 57
	paramBase    = uint64(1) << 58
	moduleBase   = uint64(1) << 59 // marks variables of modules until they have a place
	windowSize   = uint64(1) << 32
	allocGap     = 256 // bytes between allocations that nobody may touch
	byteAbsent   = 0
	byteUnset    = 1 // allocated, never written
	byteWritten  = 2
	allWritten   = 0x0202020202020202
	poisonByte   = 0xA5
	allocsMargin = 256 // addresses of allocations are multiples of this
)

// An alloc is one allocation of global memory. Its shadow has a byte for each byte of data that says
// whether somebody has written it. A freed one stays known, with size 0.
type alloc struct {
	base, size   uint64
	was          uint64 // size before it was freed
	data, shadow []byte
	card         *card
	constant     bool // of .const: kernels may not write it
	module       bool // belongs to a module
}

// memory is the address space that all cards of a machine share.
type memory struct {
	mu     sync.Mutex               // guards next and changes of allocs
	next   uint64                   // address of the next allocation
	allocs atomic.Pointer[[]*alloc] // by address; replaced, never changed

	peers atomic.Bool // cards use each other's memory: their accesses take turns
	turn  sync.Mutex  // held for each instruction that accesses memory while peers is set
}

// alloc makes room for size bytes.
func (m *memory) alloc(c *card, size uint64) *alloc {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.next == 0 {
		m.next = globalBase
		m.allocs.Store(&[]*alloc{})
	}
	a := &alloc{base: m.next, size: size, was: size, data: make([]byte, size), shadow: make([]byte, size), card: c}
	for i := range a.shadow {
		a.shadow[i] = byteUnset
	}
	m.next += (size+allocsMargin-1)/allocsMargin*allocsMargin + allocGap
	list := append(slices.Clone(*m.allocs.Load()), a)
	m.allocs.Store(&list)
	return a
}

// free makes an allocation unusable; its addresses stay taken.
func (m *memory) free(a *alloc) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a.size, a.data, a.shadow = 0, nil, nil
}

// find returns the allocation that an address lies in, or the one in front of it; nil if there is none.
func (m *memory) find(at uint64) *alloc {
	list := m.allocs.Load()
	if list == nil {
		return nil
	}
	i, found := slices.BinarySearchFunc(*list, at, func(a *alloc, at uint64) int {
		switch {
		case a.base < at:
			return -1
		case a.base > at:
			return 1
		}
		return 0
	})
	if !found {
		i--
	}
	if i < 0 {
		return nil
	}
	return (*list)[i]
}

// span returns the allocation that holds all of [at, at+n), for the host and for copies.
func (m *memory) span(at driver.Ptr, n uint64) (*alloc, uint64, error) {
	a := m.find(uint64(at))
	if a == nil || (uint64(at)-a.base >= a.was && !(n == 0 && uint64(at)-a.base == a.was)) {
		return nil, 0, failure(invalidValue, "%#x is no address of device memory", uint64(at))
	}
	off := uint64(at) - a.base
	if a.size != a.was {
		return nil, 0, failure(invalidValue, "%#x lies in memory of %d bytes that was freed", uint64(at), a.was)
	}
	if n > a.size-off {
		return nil, 0, failure(invalidValue, "%d bytes at %#x: the allocation of %d bytes ends %d bytes earlier", n, uint64(at), a.size, n-(a.size-off))
	}
	return a, off, nil
}

// unset returns the index of the first byte in [off, off+n) that nobody has written; n if all are.
func (a *alloc) unset(off, n uint64) uint64 {
	switch n { // what kernels read at once
	case 4:
		if le.Uint32(a.shadow[off:]) == allWritten&0xffff_ffff {
			return n
		}
	case 16:
		if le.Uint64(a.shadow[off:]) == allWritten && le.Uint64(a.shadow[off+8:]) == allWritten {
			return n
		}
	}
	for i, s := range a.shadow[off : off+n] {
		if s != byteWritten {
			return uint64(i)
		}
	}
	return n
}

// written marks bytes.
func (a *alloc) written(off, n uint64) {
	s := a.shadow[off : off+n]
	for i := range s {
		s[i] = byteWritten
	}
}

// global returns where n bytes at an address of a kernel lie, having checked that they may be
// touched. site says which instruction asks: it remembers the allocation it found last.
func (w *warp) global(site int, lane int, at uint64, n int, what string) (*alloc, uint64) {
	a := w.found[site]
	if a == nil || at-a.base >= a.size {
		if a = w.block.card.machine.mem.find(at); a == nil || at-a.base >= a.was {
			w.failLane(illegalAddress, lane, "%s of %d bytes at %#x: no memory there%s", what, n, at, near(a, at))
		}
		if at-a.base >= a.size {
			w.failLane(illegalAddress, lane, "%s of %d bytes at %#x: the memory of %d bytes there was freed", what, n, at, a.was)
		}
		if a.card != w.block.card && !w.block.card.peer(a.card) {
			w.failLane(illegalAddress, lane, "%s of %d bytes at %#x: it is memory of card %d, for which EnablePeer was not called", what, n, at, a.card.ordinal)
		}
		w.found[site] = a
	}
	off := at - a.base
	if off&uint64(n-1) != 0 {
		w.failLane(misalignedAddress, lane, "%s of %d bytes at %#x: misaligned", what, n, at)
	}
	if off+uint64(n) > a.size {
		w.failLane(illegalAddress, lane, "%s of %d bytes at %#x: the allocation of %d bytes ends before", what, n, at, a.size)
	}
	return a, off
}

// near says where an address lies beside an allocation.
func near(a *alloc, at uint64) string {
	if a == nil || at-a.base > a.was+1<<20 {
		return ""
	}
	return describe(" (%d bytes behind the end of an allocation of %d)", at-a.base-a.was, a.was)
}

// globalRead returns n bytes that were written.
func (w *warp) globalRead(site, lane int, at uint64, n int) []byte {
	a, off := w.global(site, lane, at, n, "read")
	if unset := a.unset(off, uint64(n)); unset < uint64(n) {
		w.failLane(launchFailed, lane, "read of %d bytes at %#x (byte %d of an allocation of %d): nobody has written byte %d of them", n, at, off, a.size, unset)
	}
	return a.data[off : off+uint64(n)]
}

// globalWrite returns room for n bytes and marks them as written.
func (w *warp) globalWrite(site, lane int, at uint64, n int) []byte {
	a, off := w.global(site, lane, at, n, "write")
	if a.constant {
		w.failLane(illegalAddress, lane, "write of %d bytes at %#x: a constant of the module", n, at)
	}
	a.written(off, uint64(n))
	return a.data[off : off+uint64(n)]
}
