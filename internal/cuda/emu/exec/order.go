package exec

import "sync/atomic"

// This file is the order of accesses to global memory by different blocks of a launch and by different
// cards. A word remembers who wrote it last: launch, block, and how many fences the block had passed. What
// is written before a fence is published by a later atomic access, or store with .release; whoever reads
// that place by an atomic access and then passes a fence, or by .acquire, knows it. An ordinary load of
// what another block wrote in the same launch, and which the block does not know, is a fault.
//
// Towards others a block counts as one party: a fence of one warp covers what all have written by then,
// for warps that know of the fence by a barrier.
// Inside of it barriers order warps, as they do for shared memory. Between cards,
// words that are published may not be written or read by ordinary accesses, and a kernel with accesses
// of system scope may read memory of other cards only behind an .acquire of its own, or a barrier behind
// one.

// A stamp is, from the top: launch (24 bits) and card (4), block + 1 (20), fences (15), 1 for accesses of
// which others take notice (atomic, relaxed, acquire, release, volatile).
const (
	stampBlock  = 16
	stampLaunch = 36
	stampCard   = 15 << stampLaunch
	lastEpoch   = 1<<15 - 1
	strongBit   = 1
)

// stampOf returns the stamp of a block; fences and strength are added where it is used.
func (g *Grid) stampOf(launch uint64, index int64) uint64 {
	return launch<<(stampLaunch+4) | uint64(g.Device.Ordinal&15)<<stampLaunch | uint64(index+1)&(1<<20-1)<<stampBlock
}

// stamps are those of the words of an allocation; when is warp and lane (5 bits each), the warp's time
// and how often its lanes had synchronised (27 bits each).
type stamps struct{ by, when []uint64 }

const whenBits = 27

// A clock says for blocks, by stamp, up to how many fences what they wrote is known.
type clock map[uint64]uint64

// add learns what other knows.
func (c *clock) add(other clock) {
	if *c == nil && len(other) > 0 {
		*c = clock{}
	}
	for block, epoch := range other {
		(*c)[block] = max((*c)[block], epoch)
	}
}

// An order is what blocks of a launch publish, by address.
type order struct{ published map[uint64]clock }

// Fence is membar or fence beyond the block.
func (w *Warp) Fence() {
	b := w.Block
	if b.order == nil {
		return
	}
	b.known.add(w.pending)
	w.pending = nil
	b.epoch++
	w.know[b.released()] = uint32(b.epoch)
	if b.epoch == lastEpoch {
		b.stamp = 0 // too many to follow
	}
}

// acquired is the index in Warp.know of whether another card has been waited for.
func (b *Block) acquired() int { return len(b.warps[0].know) - 1 }

// released is the index in Warp.know of how many fences of the block the warp knows of.
func (b *Block) released() int { return len(b.warps[0].know) - 2 }

// learn takes what is published at an address: at once, or with the next fence.
func (w *Warp) learn(at uint64, acquire bool) {
	b := w.Block
	if acquire && b.Kernel.System {
		w.know[b.acquired()] = 1
	}
	if b.order == nil || len(b.order.published) == 0 {
		return
	}
	if acquire {
		b.known.add(b.order.published[at])
	} else {
		w.pending.add(b.order.published[at])
	}
}

// publish makes known at an address what the block wrote and knew before the last fence that the warp knows
// of.
func (w *Warp) publish(at uint64) {
	b := w.Block
	if b.order == nil || w.know[b.released()] == 0 {
		return
	}
	c := b.order.published[at]
	c.add(b.known)
	c.add(clock{b.stamp: uint64(w.know[b.released()]) - 1})
	b.order.published[at] = c
}

// StrongRead is GlobalRead for accesses that may see what others do meanwhile.
func (w *Warp) StrongRead(site, lane int, at uint64, n int, acquire bool) []byte {
	a, off := w.global(site, lane, at, n, "read")
	w.written(a, off, uint64(n), lane, reader{what: "read"})
	if s := w.Block.abroad(a, off); acquire && s != 0 && s&strongBit == 0 {
		w.FailLane(LaunchFailed, lane, "read of %d bytes at %#x by .acquire: card %d wrote them by an ordinary store, which publishes nothing", n, at, s&stampCard>>stampLaunch)
	}
	w.learn(at, acquire)
	return a.Data[off : off+uint64(n)]
}

// StrongWrite is GlobalWrite for such accesses.
func (w *Warp) StrongWrite(site, lane int, at uint64, n int, release bool) []byte {
	if release {
		w.Fence()
	}
	room := w.GlobalWrite(site, lane, at, n)
	a, off := w.global(site, lane, at, n, "write")
	w.mark(lane, a, off, uint64(n), true)
	w.publish(at)
	return room
}

// A reader is who reads memory, for errors: text is made where it is needed.
type reader struct {
	what string
	line int // of the instruction, if it is not the one being executed
}

// String names it.
func (r reader) String() string {
	if r.line == 0 {
		return r.what
	}
	return describe("%s of line %d,", r.what, r.line)
}

// written ends the launch where nobody has written some bytes.
func (w *Warp) written(a *Alloc, off, n uint64, lane int, what reader) {
	if unset := a.Unset(off, n); unset < n {
		w.FailLane(LaunchFailed, lane, "%s of %d bytes at %#x (byte %d of an allocation of %d): nobody has written byte %d of them", what, n, a.Base+off, off, a.Size, unset)
	}
}

// readable ends the launch where bytes of an allocation may not be read by an ordinary access.
func (w *Warp) readable(a *Alloc, off, n uint64, lane int, what reader) {
	w.written(a, off, n, lane, what)
	if other := w.Block.foreign(a, off, n, false); other != 0 {
		w.FailLane(LaunchFailed, lane, "%s of %d bytes at %#x (byte %d of an allocation of %d): block %d of the same launch wrote them, and nothing orders the blocks",
			what, n, a.Base+off, off, a.Size, int64(other>>stampBlock&(1<<20-1))-1)
	}
	if thread := w.racing(a, off, n, lane); thread >= 0 && w.Block.checks {
		w.FailLane(LaunchFailed, lane, "%s of %d bytes at %#x (byte %d of an allocation of %d): thread %d of this block wrote them, without a barrier in between",
			what, n, a.Base+off, off, a.Size, thread)
	}
	if s := w.Block.abroad(a, off); s&strongBit != 0 {
		w.FailLane(LaunchFailed, lane, "%s of %d bytes at %#x: card %d publishes something there, which an ordinary load may never see", what, n, a.Base+off, s&stampCard>>stampLaunch)
	}
	if a.Device != w.Block.Device && w.Block.Kernel.System && w.know[w.Block.acquired()] == 0 {
		w.FailLane(LaunchFailed, lane, "%s of %d bytes at %#x, of card %d: the warp has not waited for that card", what, n, a.Base+off, a.Device.Ordinal)
	}
}

// plain says whether words may be read without a closer look.
func (w *Warp) plain(a *Alloc, off, n uint64, lane int, constant bool) bool {
	b := w.Block
	return b.foreign(a, off, n, constant) == 0 && w.racing(a, off, n, lane) < 0 && !(b.Kernel.System && (a.Device != b.Device || b.abroad(a, off) != 0))
}

// racing returns another thread of this block that wrote one of the words in this launch, without a barrier
// since; -1: none did.
func (w *Warp) racing(a *Alloc, off, n uint64, lane int) int {
	written := a.stamps.Load()
	if written == nil || w.Block.stamp == 0 {
		return -1
	}
	for i := off / 4; i < (off+n+3)/4; i++ {
		if s := written.by[i]; s>>stampBlock != w.Block.stamp>>stampBlock || s&strongBit != 0 {
			continue
		}
		when := written.when[i]
		warp, other, own, syncs := int(when>>(2*whenBits+5)), int(when>>(2*whenBits)&31), uint32(when>>whenBits)&(1<<whenBits-1), uint32(when)&(1<<whenBits-1)
		if (warp != w.ID && own > w.know[warp]) || (warp == w.ID && other != lane && syncs == w.Syncs) {
			return warp*32 + other
		}
	}
	return -1
}

// abroad returns the stamp of the word at off if another card wrote it, else 0.
func (b *Block) abroad(a *Alloc, off uint64) uint64 {
	written := a.stamps.Load()
	if written == nil || !b.Kernel.System {
		return 0
	}
	if s := written.by[off/4]; s != 0 && int(s&stampCard>>stampLaunch) != b.Device.Ordinal&15 {
		return s
	}
	return 0
}

// foreign returns the stamp of another block of this launch, or with own of any, that wrote one of the
// words without this block knowing of it; 0: none did.
func (b *Block) foreign(a *Alloc, off, n uint64, own bool) uint64 {
	written := a.stamps.Load()
	if written == nil || b.stamp == 0 {
		return 0
	}
	for _, s := range written.by[off/4 : (off+n+3)/4] {
		if s>>stampLaunch != b.stamp>>stampLaunch || (!own && s>>stampBlock == b.stamp>>stampBlock) {
			continue
		}
		if epoch, known := b.known[s>>stampBlock<<stampBlock]; own || !known || s>>1&lastEpoch > epoch {
			return s
		}
	}
	return 0
}

// mark notes that this warp wrote words; parts of words are not followed.
func (w *Warp) mark(lane int, a *Alloc, off, n uint64, strong bool) {
	b, written := w.Block, a.stamps.Load()
	if written == nil {
		words := (a.Size + 3) / 4
		a.stamps.CompareAndSwap(nil, &stamps{make([]uint64, words), make([]uint64, words)})
		written = a.stamps.Load()
	}
	stamp, when := b.stamp, uint64(w.ID<<5|lane)<<(2*whenBits)|uint64(w.own)<<whenBits|uint64(w.Syncs)
	if stamp != 0 {
		stamp |= b.epoch << 1
		if strong {
			stamp |= strongBit
		}
	}
	if n < 4 { // other blocks may write the rest of the word meanwhile
		if by := &written.by[off/4]; atomic.LoadUint64(by) != 0 {
			atomic.StoreUint64(by, 0)
		}
		return
	}
	for i := off / 4; i < (off+n+3)/4; i++ {
		written.by[i], written.when[i] = stamp, when
	}
}
