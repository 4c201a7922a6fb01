package exec

// This file is the most frequent accesses without a call per lane: whole words to and from registers
// of 32 bits. Whatever is not plainly right goes the ordinary way, which says what is wrong.

// LoadWords loads a register per word from global memory for the lanes of m. constant says that the
// launch writes nothing of it.
func (w *Warp) LoadWords(site int, a *Address, m uint32, regs []int, constant bool) {
	n := uint64(4 * len(regs))
	for lane := range 32 {
		if m>>lane&1 == 0 {
			continue
		}
		at := a.Of(w, lane)
		b := w.words(site, lane, at, n, constant)
		switch {
		case b != nil:
		case constant:
			b = w.GlobalReadConst(site, lane, at, int(n))
		default:
			b = w.GlobalRead(site, lane, at, int(n))
		}
		for i, r := range regs {
			w.R[r][lane] = le.Uint32(b[4*i:])
		}
	}
}

// words returns n bytes of the allocation that was touched last, if all is well with them.
func (w *Warp) words(site, lane int, at, n uint64, constant bool) []byte {
	found := w.found[site]
	if found == nil {
		return nil
	}
	off := at - found.Base
	if off >= found.Size || off&(n-1) != 0 || off+n > found.Size {
		return nil
	}
	switch shadow := found.shadow[off : off+n]; n {
	case 4:
		if le.Uint32(shadow) != allWritten&0xffff_ffff {
			return nil
		}
	case 8:
		if le.Uint64(shadow) != allWritten {
			return nil
		}
	default:
		if le.Uint64(shadow) != allWritten || le.Uint64(shadow[8:]) != allWritten {
			return nil
		}
	}
	if !w.plain(found, off, n, lane, constant) {
		return nil
	}
	return found.Data[off : off+n]
}

// StoreWords stores a register per word to global memory for the lanes of m.
func (w *Warp) StoreWords(site int, a *Address, m uint32, regs []int) {
	n := 4 * len(regs)
	for lane := range 32 {
		if m>>lane&1 == 0 {
			continue
		}
		b := w.GlobalWrite(site, lane, a.Of(w, lane), n)
		for i, r := range regs {
			le.PutUint32(b[4*i:], w.R[r][lane])
		}
	}
}

// LoadSharedWords loads a register per word from shared memory for the lanes of m.
func (w *Warp) LoadSharedWords(a *Address, m uint32, regs []int) {
	n := 4 * len(regs)
	for lane := range 32 {
		if m>>lane&1 == 0 {
			continue
		}
		b := w.SharedRead(lane, a.Of(w, lane), n)
		for i, r := range regs {
			w.R[r][lane] = le.Uint32(b[4*i:])
		}
	}
}

// StoreSharedWords stores a register per word to shared memory for the lanes of m.
func (w *Warp) StoreSharedWords(a *Address, m uint32, regs []int) {
	n := 4 * len(regs)
	for lane := range 32 {
		if m>>lane&1 == 0 {
			continue
		}
		b := w.SharedWrite(lane, a.Of(w, lane), n)
		for i, r := range regs {
			le.PutUint32(b[4*i:], w.R[r][lane])
		}
	}
}

// consecutive says whether the lanes of m, all of a warp, are n bytes apart, and where they begin.
func (w *Warp) consecutive(a *Address, n int, m uint32) (at uint64, ok bool) {
	if m != AllLanes {
		return 0, false
	}
	at = a.Of(w, 0)
	if a.Wide {
		r, want := &w.D[a.Reg], w.D[a.Reg][0]
		for _, v := range r {
			if v != want {
				return 0, false
			}
			want += uint64(n)
		}
		return at, true
	}
	r, want := &w.R[a.Reg], w.R[a.Reg][0]
	for _, v := range r {
		if v != want {
			return 0, false
		}
		want += uint32(n)
	}
	return at, true
}
