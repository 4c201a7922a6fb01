package exec

// This file is the shared memory of a block, the order between its warps, and the checks of both.
//
// Order. Each warp has a time of its own, which advances when it passes a barrier, and knows up to
// which time of each other warp everything happened before its present. A barrier joins what its
// participants know. An access that conflicts with one which the warp does not know of is a race.
// Lanes of a warp are ordered by bar.warp.sync and by barriers, and by nothing else.

// A cell is what is known of one grain of shared memory: of the last write, and of the reads since.
type cell struct {
	wrote, read  uint32 // the warp's own time
	wsync, rsync uint32 // how often its lanes had synchronised
	writer       uint8  // warp + 1; 0: never written
	reader       uint8  // warp + 1; several: more than one
	wlane, rlane uint8  // several: more than one
	flight       bool   // an asynchronous copy is on its way
	atomic       bool   // the last write was an atomic one
	barrier      bool   // with flight: an mbarrier is here instead
}

const several = 255

// place checks that an access of n bytes lies in shared memory, and returns where.
func (w *Warp) place(lane int, at uint64, n int, what string) int {
	if at >= SharedBase && at < SharedBase+WindowSize {
		at -= SharedBase
	}
	size := uint64(len(w.Block.Shared))
	if at >= size || at+uint64(n) > size {
		w.FailLane(IllegalAddress, lane, "%s of %d bytes of shared memory at %#x: the block has %#x", what, n, at, size)
	}
	if at&uint64(n-1) != 0 {
		w.FailLane(MisalignedAddress, lane, "%s of %d bytes of shared memory at %#x: misaligned", what, n, at)
	}
	return int(at)
}

// span returns the cells of n bytes.
func (b *Block) span(at, n int) (from, end int) {
	return at >> b.shift, (at + n + b.Kernel.Grain - 1) >> b.shift
}

// SharedRead returns n bytes, having checked that they are there and that no race is possible.
func (w *Warp) SharedRead(lane int, at uint64, n int) []byte {
	i := w.place(lane, at, n, "read")
	if w.Block.checks {
		for c, end := w.Block.span(i, n); c < end; c++ {
			w.checkRead(lane, i, &w.Block.cells[c])
			w.noteRead(lane, c)
		}
	}
	return w.Block.Shared[i : i+n]
}

// checkRead ends the launch where a read of a cell may race.
func (w *Warp) checkRead(lane, at int, c *cell) {
	me := uint8(w.ID + 1)
	switch {
	case c.barrier:
		w.FailLane(LaunchFailed, lane, "read of shared memory at %#x: an mbarrier is there", at)
	case c.flight:
		w.FailLane(LaunchFailed, lane, "read of shared memory at %#x: an asynchronous copy to it is not waited for", at)
	case c.writer == 0:
		w.FailLane(LaunchFailed, lane, "read of shared memory at %#x: nobody has written it", at)
	case c.writer == me:
		if c.wsync == w.Syncs && int(c.wlane) != lane {
			w.FailLane(LaunchFailed, lane, "read of shared memory at %#x: lane %d wrote it, without a barrier in between", at, c.wlane)
		}
	case c.wrote > w.know[c.writer-1]:
		w.FailLane(LaunchFailed, lane, "read of shared memory at %#x: %s wrote it, without a barrier in between", at, w.Block.author(c.writer))
	}
}

// noteRead remembers a read.
func (w *Warp) noteRead(lane, index int) {
	c, me := &w.Block.cells[index], uint8(w.ID+1)
	if w.Block.reads != nil {
		w.Block.reads[index*len(w.Block.warps)+w.ID] = w.own
		w.touches(lane)
	}
	switch {
	case c.reader == me:
		if c.rsync == w.Syncs && int(c.rlane) != lane {
			c.rlane = several
		} else {
			c.rlane = uint8(lane)
		}
	case c.reader != 0 && c.reader != several && c.read <= w.know[c.reader-1], c.reader == 0, c.reader == several && c.read < w.own:
		c.reader, c.rlane = me, uint8(lane)
	default:
		c.reader = several
	}
	c.read, c.rsync = w.own, w.Syncs
}

// SharedWrite returns room for n bytes, having checked that no race is possible.
func (w *Warp) SharedWrite(lane int, at uint64, n int) []byte {
	i := w.place(lane, at, n, "write")
	if w.Block.checks {
		for c, end := w.Block.span(i, n); c < end; c++ {
			w.checkWrite(lane, i, c)
			w.noteWrite(lane, c)
		}
	}
	return w.Block.Shared[i : i+n]
}

func (w *Warp) noteWrite(lane, index int) {
	c := &w.Block.cells[index]
	c.wrote, c.writer, c.wlane, c.wsync, c.atomic = w.own, uint8(w.ID+1), uint8(lane), w.Syncs, false
	if w.Block.reads != nil {
		w.touches(lane)
	}
}

// checkWrite ends the launch where a write of a cell may race.
func (w *Warp) checkWrite(lane, at, index int) {
	c, me := &w.Block.cells[index], uint8(w.ID+1)
	switch {
	case c.barrier:
		w.FailLane(LaunchFailed, lane, "write of shared memory at %#x: an mbarrier is there", at)
	case c.flight:
		w.FailLane(LaunchFailed, lane, "write of shared memory at %#x: an asynchronous copy to it is on its way", at)
	case c.writer == me:
		if c.wsync == w.Syncs && int(c.wlane) != lane {
			w.FailLane(LaunchFailed, lane, "write of shared memory at %#x: lane %d wrote it, without a barrier in between", at, c.wlane)
		}
	case c.writer != 0 && c.wrote > w.know[c.writer-1]:
		w.FailLane(LaunchFailed, lane, "write of shared memory at %#x: %s wrote it, without a barrier in between", at, w.Block.author(c.writer))
	}
	switch {
	case c.reader == me:
		if c.rsync == w.Syncs && int(c.rlane) != lane {
			w.FailLane(LaunchFailed, lane, "write of shared memory at %#x: lane %d read it, without a barrier in between", at, int8(c.rlane))
		}
	case w.Block.reads != nil:
		for other, when := range w.Block.reads[index*len(w.Block.warps):][:len(w.Block.warps)] {
			if other != w.ID && when > w.know[other] {
				w.FailLane(LaunchFailed, lane, "write of shared memory at %#x: warp %d read it, without a barrier in between", at, other)
			}
		}
	case c.reader == several:
		if c.read >= w.own {
			w.FailLane(LaunchFailed, lane, "write of shared memory at %#x: several warps read it, without a barrier in between", at)
		}
	case c.reader != 0 && c.read > w.know[c.reader-1]:
		w.FailLane(LaunchFailed, lane, "write of shared memory at %#x: warp %d read it, without a barrier in between", at, c.reader-1)
	}
}

// A named is one of the sixteen barriers of a block.
type named struct {
	threads int      // that have come
	wanted  int      // that have to; 0: nobody has come yet
	know    []uint32 // what those know who have come
	yes     int      // lanes that have voted so
	votes   int
}

// Arrive brings the warp to a barrier of so many threads; wait says whether it stays there.
func (w *Warp) Arrive(id, wanted int, wait bool) {
	b := w.Block
	if id < 0 || id > 15 || wanted <= 0 || wanted%32 != 0 || wanted > whole(b.Threads) {
		w.Fail(LaunchFailed, "barrier %d of %d threads is not possible in a block of %d", id, wanted, b.Threads)
	}
	bar := &b.bars[id]
	if bar.wanted == 0 {
		bar.wanted = wanted
		bar.know = append(bar.know[:0], make([]uint32, len(w.know))...)
	}
	if bar.wanted != wanted {
		w.Fail(LaunchFailed, "barrier %d of %d threads: others came for %d", id, wanted, bar.wanted)
	}
	if bar.threads += 32; bar.threads > bar.wanted {
		w.Fail(LaunchFailed, "barrier %d of %d threads: more have come", id, wanted)
	}
	for i, t := range w.know {
		bar.know[i] = max(bar.know[i], t)
	}
	bar.know[w.ID] = w.own
	w.own++
	w.waits, w.wanted = wait, id
}

// Vote brings the warp to a barrier at which lanes vote. then gets the votes of all warps when the
// barrier completes.
func (w *Warp) Vote(id, wanted, yes, votes int, then func(yes, votes int)) {
	w.Arrive(id, wanted, true)
	bar := &w.Block.bars[id]
	bar.yes += yes
	bar.votes += votes
	w.then = then
}

// meet completes barriers for which everybody has come, and says whether there was one.
func (b *Block) meet() (met bool) {
	for id := range b.bars {
		bar := &b.bars[id]
		if bar.wanted == 0 || bar.threads < bar.wanted {
			continue
		}
		met = true
		b.Count.Barriers++
		for _, w := range b.warps {
			if !w.waits || w.wanted != id {
				continue
			}
			for i, t := range bar.know {
				w.know[i] = max(w.know[i], t)
			}
			w.waits = false
			w.Syncs++
			if w.then != nil {
				w.then(bar.yes, bar.votes)
				w.then = nil
			}
		}
		bar.threads, bar.wanted, bar.yes, bar.votes = 0, 0, 0, 0
	}
	return met
}

// stuck ends the launch: all warps that are left wait at barriers that do not complete.
func (b *Block) stuck() {
	for _, w := range b.warps {
		if w.waits {
			bar := &b.bars[w.wanted]
			w.Fail(LaunchTimeout, "barrier %d: %d of %d threads have come, the others have ended or wait elsewhere", w.wanted, bar.threads, bar.wanted)
		}
	}
}

// SharedAtomic checks an atomic access to shared memory. Such accesses are no races among
// themselves: they leave a mark as the writer that each of them recognises.
func (w *Warp) SharedAtomic(lane int, at uint64, n int) []byte {
	i := w.place(lane, at, n, "atomic access")
	if w.Block.checks {
		for index, end := w.Block.span(i, n); index < end; index++ {
			c := &w.Block.cells[index]
			if !c.atomic || c.flight {
				w.checkRead(lane, i, c)
				w.checkWrite(lane, i, index)
			}
			w.noteWrite(lane, index)
			c.atomic = true
		}
	}
	return w.Block.Shared[i : i+n]
}
