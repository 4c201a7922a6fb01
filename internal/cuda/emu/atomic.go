package emu

// atom reads and writes memory in one step; red does so without a result. Blocks of kernels that do
// this to global memory run one after another.
func (p *parser) atom() {
	space, site := p.atomFields()
	p.has("noftz")
	t, bits := p.lastType()
	op := p.one("add", "min", "max", "inc", "dec", "exch", "cas", "and", "or", "xor")
	args := p.args
	to := ""
	if p.op == "atom" {
		p.want(3, 4)
		to, args = args[0], args[1:]
	}
	if want := map[bool]int{true: 3, false: 2}[op == "cas"]; len(args) != want || bits < 32 {
		p.fail("form of %s is not known: %s", p.op, p.in.text)
	}
	a := &access{space: space, address: p.address(args[0]), size: bits / 8, total: bits / 8, site: site}
	if space != "global" {
		p.k.grain = min(p.k.grain, a.total)
	}
	change := p.change(op, t)
	if change == nil {
		return
	}
	d, b, c := -1, p.src(args[1], bits), 0
	if to != "" && to != "_" {
		d = p.dst(to, bits)
	}
	if op == "cas" {
		c = p.src(args[2], bits)
	}
	get, put := p.get(bits), p.put(bits)
	p.in.kind = effect
	p.in.run = func(w *warp, m uint32) {
		a.count(w, m)
		for lane := range 32 {
			if m>>lane&1 == 0 {
				continue
			}
			w.block.count.Atomics++
			room := w.atomic(a, lane, a.of(w, lane))
			old := a.value(room)
			third := uint64(0)
			if op == "cas" {
				third = get(w, c, lane)
			}
			a.set(room, change(old, get(w, b, lane), third))
			if d >= 0 {
				put(w, d, lane, old)
			}
		}
	}
}

// atomic returns the bytes that an atomic access changes, which somebody has to have written.
func (w *warp) atomic(a *access, lane int, at uint64) []byte {
	if a.space == "shared" || (a.space == "" && spaceOf(at) == "shared") {
		return w.sharedAtomic(lane, at, a.total)
	}
	w.globalRead(a.site, lane, at, a.total)
	return w.globalWrite(a.site, lane, at, a.total)
}

// sharedAtomic checks an atomic access to shared memory. Such accesses are no races among
// themselves: they leave a mark as the writer that each of them recognises.
func (w *warp) sharedAtomic(lane int, at uint64, n int) []byte {
	i := w.place(lane, at, n, "atomic access")
	if w.block.checks {
		grain := w.block.k.grain
		for index := i / grain; index < (i+n+grain-1)/grain; index++ {
			c := &w.block.cells[index]
			if !c.atomic || c.flight {
				w.checkRead(lane, i, c)
				w.checkWrite(lane, i, index)
			}
			w.noteWrite(lane, index)
			c.atomic = true
		}
	}
	return w.block.shared[i : i+n]
}

func (a *access) value(b []byte) uint64 {
	if a.size == 8 {
		return le.Uint64(b)
	}
	return uint64(le.Uint32(b))
}

func (a *access) set(b []byte, v uint64) {
	if a.size == 8 {
		le.PutUint64(b, v)
		return
	}
	le.PutUint32(b, uint32(v))
}

// change returns what an operation makes of the old value.
func (p *parser) change(op, t string) func(old, b, c uint64) uint64 {
	key := op + "." + t
	if op == "add" && (t == "f32" || t == "f64") {
		if t == "f64" {
			return func(old, b, _ uint64) uint64 { return bits64(f64(old) + f64(b)) }
		}
		return func(old, b, _ uint64) uint64 { return uint64(bits32(f32(uint32(old)) + f32(uint32(b)))) }
	}
	switch key {
	case "exch.b32", "exch.b64":
		return func(_, b, _ uint64) uint64 { return b }
	case "cas.b32", "cas.b64":
		return func(old, b, c uint64) uint64 {
			if old == b {
				return c
			}
			return old
		}
	case "inc.u32":
		return func(old, b, _ uint64) uint64 {
			if old >= b {
				return 0
			}
			return old + 1
		}
	case "dec.u32":
		return func(old, b, _ uint64) uint64 {
			if old == 0 || old > b {
				return b
			}
			return old - 1
		}
	}
	if f, ok := combine64[key]; ok {
		return func(old, b, _ uint64) uint64 { return f(old, b) }
	}
	if f, ok := combine32[key]; ok {
		return func(old, b, _ uint64) uint64 { return uint64(f(uint32(old), uint32(b))) }
	}
	return nil
}
