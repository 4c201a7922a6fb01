package exec

// This file is copies by the tensor memory accelerator (PTX ISA: cp.async.bulk, cp.async.bulk.tensor).

// A TensorMap is what the emulator keeps in the 128 opaque bytes of a tensor map: an array of two
// dimensions, and the box that is copied at once.
type TensorMap struct {
	Base    uint64
	Size    [2]uint64 // elements: inner, outer
	Stride  uint64    // bytes from one outer index to the next
	Box     [2]uint32
	Element uint32 // bytes of one
	Swizzle bool   // by 128 bytes
}

// mapMark tells a tensor map from other bytes.
const mapMark = 0x70616d20726f736e // "nsor map"

// Encode returns the bytes of m.
func (m *TensorMap) Encode() (out [128]byte) {
	flags := uint32(0)
	if m.Swizzle {
		flags = 1
	}
	b := le.AppendUint64(out[:0], mapMark)
	for _, v := range []uint64{m.Base, m.Size[0], m.Size[1], m.Stride} {
		b = le.AppendUint64(b, v)
	}
	for _, v := range []uint32{m.Box[0], m.Box[1], m.Element, flags} {
		b = le.AppendUint32(b, v)
	}
	return out
}

// decodeMap is the reverse of Encode; ok says that b was a tensor map.
func decodeMap(b []byte) (m TensorMap, ok bool) {
	word := func(i int) uint64 { return le.Uint64(b[8*i:]) }
	half := func(i int) uint32 { return le.Uint32(b[40+4*i:]) }
	return TensorMap{Base: word(1), Size: [2]uint64{word(2), word(3)}, Stride: word(4), Box: [2]uint32{half(0), half(1)}, Element: half(2), Swizzle: half(3) == 1}, word(0) == mapMark
}

// Swizzle returns where the byte at an address lies under a swizzle of 128 bytes: the 16-byte pieces of
// each row of 128 bytes change places by the row modulo 8, as the address says them.
func Swizzle(at uint64) uint64 { return at ^ at>>7&7<<4 }

// tensorMap reads a tensor map at a generic address.
func (w *Warp) tensorMap(site, lane int, at uint64) TensorMap {
	if at%64 != 0 {
		w.FailLane(MisalignedAddress, lane, "tensor map at %#x: it has to be at a multiple of 64", at)
	}
	var b []byte
	for half := uint64(0); half < 128; half += 64 {
		if at >= ParamBase {
			b = append(b, w.ParamRead(lane, at+half, 64)...)
		} else {
			b = append(b, w.GlobalRead(site, lane, at+half, 64)...)
		}
	}
	m, ok := decodeMap(b)
	if !ok {
		w.FailLane(LaunchFailed, lane, "what is at %#x is no tensor map", at)
	}
	return m
}

// CopyBox begins the copy of the box at column x and row y, which reports to an mbarrier.
func (w *Warp) CopyBox(site, lane int, dst, at uint64, x, y int32, barrier uint64) {
	m := w.tensorMap(site, lane, at)
	if align := uint64(128); dst%align != 0 {
		w.FailLane(MisalignedAddress, lane, "copy of a box to %#x of shared memory: a multiple of %d is needed", dst, align)
	}
	if from := int64(x) * int64(m.Element); from%16 != 0 {
		w.FailLane(IllegalInstruction, lane, "copy of a box from column %d on, %d bytes: an H100 takes multiples of 16", x, from)
	}
	width := int(m.Box[0] * m.Element)
	rows := make([][]byte, m.Box[1]) // what there is of each, and zeros
	for r := range rows {
		rows[r] = w.boxRow(site, lane, &m, int64(x), int64(y)+int64(r))
	}
	w.launchCopy(lane, dst, width*len(rows), barrier, func(room []byte) {
		for r, row := range rows {
			copyRow(room, dst, r*width, row, &m, int64(x))
		}
	})
}

// boxRow returns the bytes that memory has of a row of a box, nil for none.
func (w *Warp) boxRow(site, lane int, m *TensorMap, x, y int64) []byte {
	from, to := max(x, 0), min(x+int64(m.Box[0]), int64(m.Size[0]))
	if y < 0 || y >= int64(m.Size[1]) || from >= to {
		return nil
	}
	at, n := m.Base+uint64(y)*m.Stride+uint64(from)*uint64(m.Element), uint64(to-from)*uint64(m.Element)
	w.note(at, int((at+n-1)/32-at/32+1), int(n+31)/32)
	return w.source(site, lane, at, n, "copy of a box")
}

// source returns n bytes of one allocation that were written.
func (w *Warp) source(site, lane int, at, n uint64, what string) []byte {
	a, off := w.global(site, lane, at, 1, what)
	if off+n > a.Size {
		w.FailLane(IllegalAddress, lane, "%s: %d bytes at %#x, the allocation of %d bytes ends before", what, n, at, a.Size)
	}
	w.readable(a, off, n, lane, reader{what: what})
	return a.Data[off : off+n]
}

// copyRow puts a row of a box in place, whose first byte is the one at begin of the box; room is the
// box, at dst of shared memory.
func copyRow(room []byte, dst uint64, begin int, row []byte, m *TensorMap, x int64) {
	width, skip := int(m.Box[0]*m.Element), int(max(-x, 0))*int(m.Element)
	for i := range width {
		v := byte(0)
		if i >= skip && i-skip < len(row) {
			v = row[i-skip]
		}
		to := dst + uint64(begin+i)
		if m.Swizzle {
			to = Swizzle(to)
		}
		room[to-dst] = v
	}
}

// CopyBulk begins the copy of contiguous bytes, which reports to an mbarrier.
func (w *Warp) CopyBulk(site, lane int, dst, src uint64, bytes uint32, barrier uint64) {
	if (dst|src|uint64(bytes))%16 != 0 || bytes == 0 {
		w.FailLane(MisalignedAddress, lane, "copy of %d bytes from %#x to %#x of shared memory: all have to be multiples of 16", bytes, src, dst)
	}
	from := w.source(site, lane, src, uint64(bytes), "copy")
	w.note(src, int((src+uint64(bytes)-1)/32-src/32+1), int(bytes+31)/32)
	w.launchCopy(lane, dst, int(bytes), barrier, func(room []byte) { copy(room, from) })
}

// launchCopy begins a copy of n bytes to shared memory: others may not touch them until it has landed
// and they have waited for the mbarrier, and the copy may not touch what somebody still uses. fill takes
// what is in memory when the copy lands.
func (w *Warp) launchCopy(lane int, dst uint64, n int, barrier uint64, fill func(room []byte)) {
	b := w.Block
	bar := w.barrier(lane, barrier)
	if !bar.announced {
		w.FailLane(LaunchFailed, lane, "mbarrier at %#x: a copy reports to it without fence.mbarrier_init or fence.proxy.async behind its making", barrier)
	}
	i := w.place(lane, dst, 1, "copy")
	if i+n > len(b.Shared) {
		w.FailLane(IllegalAddress, lane, "copy of %d bytes to %#x of shared memory: the block has %#x", n, dst, len(b.Shared))
	}
	from, end := b.span(i, n)
	if b.checks {
		for c := from; c < end; c++ {
			w.checkWrite(lane, i, c)
			w.foreignProxy(lane, c, "overwriting")
			b.cells[c].flight = true
		}
	}
	b.Count.Async++
	units := b.asynchronous()
	units.late = append(units.late, func() {
		fill(b.Shared[i : i+n])
		if b.checks {
			b.landed(from, end, bar)
		}
		bar.bytes -= n
		bar.settle()
	})
}

// landed marks cells as written in the phase of an mbarrier. Nobody has read them since.
func (b *Block) landed(from, end int, bar *mbarrier) {
	for c := from; c < end; c++ {
		b.cells[c] = cell{writer: uint8(bar.party + 1), wrote: bar.phase + 1}
	}
	if b.reads != nil {
		clear(b.reads[from*len(b.warps) : end*len(b.warps)])
	}
}
