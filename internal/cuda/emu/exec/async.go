package exec

// An AsyncCopy is on its way from global to shared memory. Its bytes are read and written when
// somebody waits for its group, not a moment earlier, so that a missing wait shows.
type AsyncCopy struct {
	Lane, Site int
	Dst, Src   uint64
	Bytes      int
	Take       int // of them from memory, the others become zero
	Line       int // of the instruction that asked
}

// Commit ends a group of copies.
func (w *Warp) Commit(m uint32) {
	w.wholeGroup(m)
	w.groups = append(w.groups, len(w.copies))
}

// wholeGroup ends the launch where only some lanes count a group of copies.
func (w *Warp) wholeGroup(m uint32) {
	if m != w.Live {
		w.Fail(LaunchFailed, "executed by lanes %08x of %08x: groups of copies are counted for whole warps here", m, w.Live)
	}
}

// TrafficTaken counts the sectors of a copy for the lanes that take something from memory.
func (w *Warp) TrafficTaken(src *Address, bytes, take int, m uint32) {
	if take >= 0 {
		for lane := range 32 {
			if w.R[take][lane] == 0 {
				m &^= 1 << lane
			}
		}
	}
	if m != 0 {
		w.Traffic(src, bytes, m)
	}
}

// Depart begins a copy.
func (w *Warp) Depart(c AsyncCopy) {
	w.SharedWrite(c.Lane, c.Dst, c.Bytes)
	if w.Block.checks {
		from, end := w.Block.span(w.place(c.Lane, c.Dst, c.Bytes, "copy"), c.Bytes)
		for i := from; i < end; i++ {
			w.Block.cells[i].flight = true
		}
	}
	if c.Take > 0 {
		w.copySource(&c)
	}
	w.copies = append(w.copies, c)
	w.Block.Count.Async++
}

// copySource returns the bytes that a copy takes.
func (w *Warp) copySource(c *AsyncCopy) []byte {
	a, off := w.global(c.Site, c.Lane, c.Src, c.Bytes, "asynchronous copy")
	w.readable(a, off, uint64(c.Take), c.Lane, reader{"asynchronous copy", c.Line})
	return a.Data[off : off+uint64(c.Take)]
}

// Settle completes all groups of copies but the last n.
func (w *Warp) Settle(m uint32, n int) {
	w.wholeGroup(m)
	k := len(w.groups) - n
	if k <= 0 {
		return
	}
	upto := w.groups[k-1]
	w.groups = append(w.groups[:0], w.groups[k:]...)
	for i := range w.copies[:upto] {
		w.land(&w.copies[i])
	}
	w.copies = append(w.copies[:0], w.copies[upto:]...)
	for i := range w.groups {
		w.groups[i] -= upto
	}
}

// land puts the bytes of a copy in place: from now on the lane that asked for them may read them.
func (w *Warp) land(c *AsyncCopy) {
	at := w.place(c.Lane, c.Dst, c.Bytes, "copy")
	room := w.Block.Shared[at : at+c.Bytes]
	clear(room)
	if c.Take > 0 {
		copy(room, w.copySource(c))
	}
	if !w.Block.checks {
		return
	}
	for i, end := w.Block.span(at, c.Bytes); i < end; i++ {
		w.Block.cells[i].flight = false
		w.noteWrite(c.Lane, i)
	}
}
