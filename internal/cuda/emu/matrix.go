package emu

// This file is what feeds the tensor cores and what they do: cp.async, ldmatrix, mma.

// An asyncCopy is on its way from global to shared memory. Its bytes are read and written when
// somebody waits for its group, not a moment earlier, so that a missing wait shows.
type asyncCopy struct {
	lane, site int
	dst        uint64
	src        uint64
	bytes      int
	take       int // of them from memory, the others become zero
	line       int // of the instruction that asked
}

// cp is cp.async and its groups.
func (p *parser) cp() {
	if !p.has("async") {
		return
	}
	p.in.kind = effect
	switch {
	case p.has("commit_group"):
		p.want(0, 0)
		p.in.run = func(w *warp, m uint32) {
			w.wholeGroup(m)
			w.groups = append(w.groups, len(w.copies))
		}
	case p.has("wait_group"):
		p.want(1, 1)
		n := p.immediate(p.args[0])
		p.in.run = func(w *warp, m uint32) {
			w.wholeGroup(m)
			w.settle(n)
		}
	case p.has("wait_all"):
		p.want(0, 0)
		p.in.run = func(w *warp, m uint32) {
			w.wholeGroup(m)
			w.groups = append(w.groups, len(w.copies))
			w.settle(0)
		}
	default:
		p.copyAsync()
	}
}

// wholeGroup ends the launch where only some lanes count a group of copies.
func (w *warp) wholeGroup(m uint32) {
	if m != w.live {
		w.fail(launchFailed, "executed by lanes %08x of %08x: groups of copies are counted for whole warps here", m, w.live)
	}
}

// copyAsync is the copy itself.
func (p *parser) copyAsync() {
	p.one("ca", "cg")
	p.one("shared", "shared::cta")
	if !p.has("global") {
		return
	}
	for _, hint := range cacheHints {
		p.has(hint)
	}
	p.want(3, 4)
	dst, src := p.address(p.args[0]), p.address(p.args[1])
	bytes, take := p.immediate(p.args[2]), -1
	if len(p.args) > 3 {
		take = p.src(p.args[3], 32)
	}
	if bytes != 4 && bytes != 8 && bytes != 16 {
		p.fail("a copy of %d bytes: 4, 8 and 16 are possible", bytes)
	}
	p.k.grain = min(p.k.grain, bytes)
	site, line := p.site(false, false), p.line
	p.in.run = func(w *warp, m uint32) {
		w.trafficTaken(&src, bytes, take, m)
		w.banks(&dst, bytes, m)
		for lane := range 32 {
			if m>>lane&1 == 0 {
				continue
			}
			c := asyncCopy{lane: lane, site: site, dst: dst.of(w, lane), src: src.of(w, lane), bytes: bytes, take: bytes, line: line}
			if take >= 0 {
				c.take = min(int(w.r[take][lane]), bytes)
			}
			w.depart(c)
		}
	}
}

// trafficTaken counts the sectors of a copy for the lanes that take something from memory.
func (w *warp) trafficTaken(src *address, bytes, take int, m uint32) {
	if take >= 0 {
		for lane := range 32 {
			if w.r[take][lane] == 0 {
				m &^= 1 << lane
			}
		}
	}
	if m != 0 {
		w.traffic(src, bytes, m)
	}
}

// depart begins a copy.
func (w *warp) depart(c asyncCopy) {
	w.sharedWrite(c.lane, c.dst, c.bytes)
	if w.block.checks {
		at, grain := w.place(c.lane, c.dst, c.bytes, "copy"), w.block.k.grain
		for i := at / grain; i < (at+c.bytes)/grain; i++ {
			w.block.cells[i].flight = true
		}
	}
	if c.take > 0 {
		w.copySource(&c)
	}
	w.copies = append(w.copies, c)
	w.block.count.Async++
}

// copySource returns the bytes that a copy takes.
func (w *warp) copySource(c *asyncCopy) []byte {
	a, off := w.global(c.site, c.lane, c.src, c.bytes, "asynchronous copy")
	if unset := a.unset(off, uint64(c.take)); unset < uint64(c.take) {
		w.failLane(launchFailed, c.lane, "asynchronous copy of line %d, %d bytes at %#x: nobody has written byte %d of them", c.line, c.take, c.src, unset)
	}
	return a.data[off : off+uint64(c.take)]
}

// settle completes all groups of copies but the last n.
func (w *warp) settle(n int) {
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
func (w *warp) land(c *asyncCopy) {
	at := w.place(c.lane, c.dst, c.bytes, "copy")
	room := w.block.shared[at : at+c.bytes]
	clear(room)
	if c.take > 0 {
		copy(room, w.copySource(c))
	}
	if !w.block.checks {
		return
	}
	grain := w.block.k.grain
	for i := at / grain; i < (at+c.bytes)/grain; i++ {
		w.block.cells[i].flight = false
		w.noteWrite(c.lane, i)
	}
}

// ldmatrix loads 8×8 matrices of 16 bits; lane i of each eight gives the address of a row.
func (p *parser) ldmatrix() {
	if !p.has("sync") || !p.has("aligned") || !p.has("m8n8") {
		p.fail("form of ldmatrix is not known: %s", p.in.text)
	}
	trans := p.has("trans")
	count := map[string]int{"x1": 1, "x2": 2, "x4": 4}[p.one("x1", "x2", "x4")]
	p.one("shared", "shared::cta")
	p.has("b16")
	p.want(2, 2)
	parts := vector(p.args[0])
	if len(parts) != count {
		p.fail("%d registers for %d matrices", len(parts), count)
	}
	var dst []int
	for _, s := range parts {
		dst = append(dst, p.dst(s, 32))
	}
	a := p.address(p.args[1])
	p.in.kind = effect
	p.in.run = func(w *warp, m uint32) {
		w.all(m)
		var out [4]lanes32
		for k := range dst {
			var rows [8][]byte
			for i := range rows {
				rows[i] = w.sharedRead(k*8+i, a.of(w, k*8+i), 16)
			}
			w.banks(&a, 16, 0xff<<(8*k))
			for lane := range 32 {
				if trans {
					from := lane / 4 * 2
					out[k][lane] = uint32(le.Uint16(rows[lane%4*2][from:])) | uint32(le.Uint16(rows[lane%4*2+1][from:]))<<16
				} else {
					out[k][lane] = le.Uint32(rows[lane/4][lane%4*4:])
				}
			}
		}
		for k, d := range dst {
			w.r[d] = out[k]
		}
	}
}

// mma multiplies a matrix of 16 rows with one of 8 columns and adds a third.
func (p *parser) mma() {
	p.has("sync")
	p.has("aligned")
	shape := p.one("m16n8k16", "m16n8k8")
	if !p.has("row") || !p.has("col") || shape == "" {
		p.fail("form of mma is not known: %s", p.in.text)
	}
	types := [4]string{p.next(), p.next(), p.next(), p.next()}
	if types[0] != "f32" || types[3] != "f32" || types[1] != types[2] || (types[1] != "f16" && types[1] != "bf16") {
		p.fail("types of mma are not known: %s", p.in.text)
	}
	deep := 2
	if shape == "m16n8k8" {
		deep = 1
	}
	p.want(4, 4)
	list := func(s string, n int, find func(s string, bits int) int) (regs []int) {
		for _, part := range vector(s) {
			regs = append(regs, find(part, 32))
		}
		if len(regs) != n {
			p.fail("%d registers, not %d: %s", len(regs), n, p.in.text)
		}
		return regs
	}
	d, a, b, c := list(p.args[0], 4, p.dst), list(p.args[1], 2*deep, p.src), list(p.args[2], deep, p.src), list(p.args[3], 4, p.src)
	kind := shape + "." + types[1]
	widen := func(v uint32) (low, high float32) { return f32(v << 16), f32(v &^ 0xffff) }
	if types[1] == "f16" {
		widen = func(v uint32) (low, high float32) { return fromF16(v & 0xffff), fromF16(v >> 16) }
	}
	p.in.kind = effect
	p.in.run = func(w *warp, m uint32) {
		w.all(m)
		var x [16][16]float32
		var y [8][16]float32
		for lane := range 32 {
			row, col := lane/4, lane%4*2
			for k, r := range a {
				at := &x[row+k&1*8]
				at[col+k>>1*8], at[col+1+k>>1*8] = widen(w.r[r][lane])
			}
			for k, r := range b {
				y[row][col+8*k], y[row][col+1+8*k] = widen(w.r[r][lane])
			}
		}
		w.multiply(d, c, &x, &y)
		w.block.count.mma(kind, 1)
	}
}

// multiply adds the products of x and y to c. Each element is a sum of its own row and column alone;
// the products are exact, and the sums are float32 in an order that is the emulator's own, as
// hardware has one of its own.
func (w *warp) multiply(d, c []int, x *[16][16]float32, y *[8][16]float32) {
	var out [4]lanes32
	for lane := range 32 {
		row, col := lane/4, lane%4*2
		for k := range 4 {
			a, b := &x[row+k>>1*8], &y[col+k&1]
			var s0, s1, s2, s3 float32
			for i := 0; i < 16; i += 4 {
				s0 += a[i] * b[i]
				s1 += a[i+1] * b[i+1]
				s2 += a[i+2] * b[i+2]
				s3 += a[i+3] * b[i+3]
			}
			out[k][lane] = bits32(f32(w.r[c[k]][lane]) + ((s0 + s1) + (s2 + s3)))
		}
	}
	for k, r := range d {
		w.r[r] = out[k]
	}
}
