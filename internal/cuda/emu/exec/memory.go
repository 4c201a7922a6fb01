package exec

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
)

var le = binary.LittleEndian

// The address space. Generic addresses of a block's own memory lie in windows that no allocation
// reaches; addresses of global memory are never given twice, so that a stale pointer is seen.
const (
	GlobalBase = uint64(0x7f00_0000_0000)
	SharedBase = uint64(1) << 56
	LocalBase  = uint64(1) << 57
	ParamBase  = uint64(1) << 58
	WindowSize = uint64(1) << 32

	allocAlign = 256 // addresses of allocations are multiples of this
	allocGap   = 256 // bytes between them that nobody may touch
)

// The shadow of a byte is 0 until somebody writes it: fresh memory costs nothing.
const (
	byteWritten = 2
	allWritten  = 0x0202020202020202
)

// PoisonByte is what memory that nobody wrote reads as where reading it is no fault.
const PoisonByte = 0xA5

// Codes of faults: those of the driver's errors.
const (
	IllegalAddress     = 700
	LaunchTimeout      = 702
	IllegalInstruction = 715
	MisalignedAddress  = 716
	LaunchFailed       = 719
)

// An Alloc is one allocation of global memory. Its shadow has a byte for each byte of data that says
// whether somebody has written it. A freed one stays known, with Size 0.
type Alloc struct {
	Base, Size uint64
	Was        uint64 // Size before it was freed
	Data       []byte
	Device     *Device
	Constant   bool // kernels may not write it
	shadow     []byte
	stamps     atomic.Pointer[stamps] // who wrote each word (order.go); nil: no kernel has
}

// Memory is the address space that all cards of a machine share.
type Memory struct {
	mu      sync.Mutex               // guards next and changes of allocs and watches
	next    uint64                   // address of the next allocation
	allocs  atomic.Pointer[[]*Alloc] // by address; replaced, never changed
	watches atomic.Pointer[[]*Watch] // likewise

	launches atomic.Uint64 // so far

	Peers atomic.Bool // cards use each other's memory: their accesses take turns
	turn  sync.Mutex  // held for each instruction that accesses memory while Peers is set
}

// Alloc makes room for size bytes that nobody has written.
func (m *Memory) Alloc(d *Device, size uint64) *Alloc {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []*Alloc
	if old := m.allocs.Load(); old != nil {
		list = slices.Clone(*old)
	} else {
		m.next = GlobalBase
	}
	a := &Alloc{Base: m.next, Size: size, Was: size, Data: make([]byte, size), shadow: make([]byte, size), Device: d}
	m.next += (size+allocAlign-1)/allocAlign*allocAlign + allocGap
	list = append(list, a)
	m.allocs.Store(&list)
	return a
}

// Free makes an allocation unusable; its addresses stay taken.
func (m *Memory) Free(a *Alloc) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a.Size, a.Data, a.shadow = 0, nil, nil
}

// Find returns the allocation that an address lies in or behind; nil if there is none.
func (m *Memory) Find(at uint64) *Alloc {
	list := m.allocs.Load()
	if list == nil {
		return nil
	}
	i, found := slices.BinarySearchFunc(*list, at, func(a *Alloc, at uint64) int {
		switch {
		case a.Base < at:
			return -1
		case a.Base > at:
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

// Span returns the allocation that holds all of [at, at+n) and where in it that is, for the host and
// for copies.
func (m *Memory) Span(at, n uint64) (a *Alloc, off uint64, err error) {
	if a = m.Find(at); a == nil || (at-a.Base >= a.Was && !(n == 0 && at-a.Base == a.Was)) {
		return nil, 0, fmt.Errorf("%#x is no address of device memory", at)
	}
	off = at - a.Base
	switch {
	case a.Size != a.Was:
		return nil, 0, fmt.Errorf("%#x lies in memory of %d bytes that was freed", at, a.Was)
	case n > a.Size-off:
		return nil, 0, fmt.Errorf("%d bytes at %#x: the allocation of %d bytes ends %d bytes earlier", n, at, a.Size, n-(a.Size-off))
	}
	return a, off, nil
}

// CopyTo makes n bytes of to what they are in a, written or not.
func (a *Alloc) CopyTo(to *Alloc, off, from, n uint64) {
	copy(to.Data[off:off+n], a.Data[from:])
	copy(to.shadow[off:off+n], a.shadow[from:])
}

// Unset returns the index of the first byte in [off, off+n) that nobody has written; n if all are.
func (a *Alloc) Unset(off, n uint64) uint64 {
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

// Written marks bytes.
func (a *Alloc) Written(off, n uint64) { Fill(a.shadow[off:off+n], byteWritten) }

// Fill sets all bytes to v.
func Fill(b []byte, v byte) {
	if len(b) <= 16 { // what kernels write at once
		for i := range b {
			b[i] = v
		}
		return
	}
	b[0] = v
	for done := 1; done < len(b); done *= 2 {
		copy(b[done:], b[:done])
	}
}

// global returns where n bytes at an address of a kernel lie, having checked that they may be
// touched. site says which instruction asks: it remembers the allocation it found last.
func (w *Warp) global(site int, lane int, at uint64, n int, what string) (*Alloc, uint64) {
	a := w.found[site]
	if a == nil || at-a.Base >= a.Size {
		if a = w.Block.Device.Memory.Find(at); a == nil || at-a.Base >= a.Was {
			w.FailLane(IllegalAddress, lane, "%s of %d bytes at %#x: no memory there%s", what, n, at, near(a, at))
		}
		if at-a.Base >= a.Size {
			w.FailLane(IllegalAddress, lane, "%s of %d bytes at %#x: the memory of %d bytes there was freed", what, n, at, a.Was)
		}
		if a.Device != w.Block.Device && !w.Block.Device.peer(a.Device) {
			w.FailLane(IllegalAddress, lane, "%s of %d bytes at %#x: it is memory of card %d, for which EnablePeer was not called", what, n, at, a.Device.Ordinal)
		}
		w.found[site] = a
	}
	off := at - a.Base
	if off&uint64(n-1) != 0 {
		w.FailLane(MisalignedAddress, lane, "%s of %d bytes at %#x: misaligned", what, n, at)
	}
	if off+uint64(n) > a.Size {
		w.FailLane(IllegalAddress, lane, "%s of %d bytes at %#x: the allocation of %d bytes ends before", what, n, at, a.Size)
	}
	return a, off
}

// near says where an address lies beside an allocation.
func near(a *Alloc, at uint64) string {
	if a == nil || at-a.Base > a.Was+1<<20 {
		return ""
	}
	return describe(" (%d bytes behind the end of an allocation of %d)", at-a.Base-a.Was, a.Was)
}

// GlobalRead returns n bytes that were written, not by another block of the same launch.
func (w *Warp) GlobalRead(site, lane int, at uint64, n int) []byte {
	a, off := w.global(site, lane, at, n, "read")
	w.readable(a, off, uint64(n), lane, reader{what: "read"})
	return a.Data[off : off+uint64(n)]
}

// GlobalReadConst is GlobalRead for loads that promise that the launch does not write what they read
// (.nc): such loads may see what was there before.
func (w *Warp) GlobalReadConst(site, lane int, at uint64, n int) []byte {
	if a, off := w.global(site, lane, at, n, "read"); w.Block.foreign(a, off, uint64(n), true) != 0 {
		w.FailLane(LaunchFailed, lane, "read of %d bytes at %#x by .nc: the block wrote them before in the same launch", n, at)
	}
	return w.GlobalRead(site, lane, at, n)
}

// GlobalWrite returns room for n bytes and marks them as written.
func (w *Warp) GlobalWrite(site, lane int, at uint64, n int) []byte {
	a, off := w.global(site, lane, at, n, "write")
	if a.Constant {
		w.FailLane(IllegalAddress, lane, "write of %d bytes at %#x: a constant of the module", n, at)
	}
	a.Written(off, uint64(n))
	w.mark(lane, a, off, uint64(n), false)
	return a.Data[off : off+uint64(n)]
}
