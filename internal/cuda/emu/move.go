package emu

import "strings"

// mov copies registers, packs and unpacks them, and reads special ones.
func (p *parser) mov() {
	t := p.last()
	p.want(2, 2)
	if t == "pred" {
		p.in.kind, p.in.dst = purePred, p.predDst(p.args[0])
		if p.in.dst < 0 {
			p.fail("mov without a result")
		}
		if v := p.args[1]; v == "0" || v == "1" || v == "-1" {
			constant := allLanes
			if v == "0" {
				constant = 0
			}
			p.in.run = func(w *warp, _ uint32) { w.out = constant }
			return
		}
		q, neg := p.pred(p.args[1])
		p.in.run = func(w *warp, _ uint32) { w.out = flip(w.p[q], neg) }
		return
	}
	size := typeBits(t)
	if size < 16 {
		p.fail("type .%s of mov is not known", t)
	}
	switch {
	case strings.HasPrefix(p.args[0], "{"):
		p.unpack(size)
		return
	case strings.HasPrefix(p.args[1], "{"):
		p.pack(size)
		return
	}
	p.result(size)
	d := p.in.dst
	if _, ok := p.lookup(p.args[1]); !ok && strings.HasPrefix(p.args[1], "%") {
		p.special(p.args[1], size)
		return
	}
	x := p.src(p.args[1], size)
	if size == 64 {
		p.in.run = func(w *warp, _ uint32) { w.d[d] = w.d[x] }
	} else {
		p.in.run = func(w *warp, _ uint32) { w.r[d] = w.r[x] }
	}
}

// pack makes one register of several.
func (p *parser) pack(size int) {
	parts := vector(p.args[1])
	part := size / len(parts)
	if part*len(parts) != size || part < 8 {
		p.fail("%d parts of %d bits: %s", len(parts), size, p.in.text)
	}
	p.result(size)
	var src [8]int
	for i, s := range parts {
		src[i] = p.src(s, part)
	}
	d, get, put, n := p.in.dst, p.get(part), p.put(size), len(parts)
	if size == 32 && part == 16 {
		p.lanes2(src[0], src[1], func(a, b uint32) uint32 { return a | b<<16 })
		return
	}
	p.in.run = func(w *warp, _ uint32) {
		for lane := range 32 {
			v := uint64(0)
			for i := range n {
				v |= get(w, src[i], lane) & (^uint64(0) >> (64 - part)) << (part * i)
			}
			put(w, d, lane, v)
		}
	}
}

// unpack makes several registers of one. "_" stands for a part that nobody wants.
func (p *parser) unpack(size int) {
	parts := vector(p.args[0])
	part := size / max(len(parts), 1)
	if part*len(parts) != size || part < 8 {
		p.fail("%d parts of %d bits: %s", len(parts), size, p.in.text)
	}
	p.in.kind = effect
	x := p.src(p.args[1], size)
	var dst [8]int
	for i, s := range parts {
		if dst[i] = -1; s != "_" {
			dst[i] = p.dst(s, part)
		}
	}
	get, put, n := p.get(size), p.put(part), len(parts)
	p.in.run = func(w *warp, m uint32) {
		for lane := range 32 {
			if m>>lane&1 == 0 {
				continue
			}
			v := get(w, x, lane)
			for i := range n {
				if dst[i] >= 0 {
					put(w, dst[i], lane, v>>(part*i))
				}
			}
		}
	}
}

// special decodes a mov from a special register.
func (p *parser) special(name string, size int) {
	base, axis, _ := strings.Cut(name, ".")
	k := strings.Index("xyz", axis)
	if len(axis) > 1 || k < 0 {
		p.fail("register %q is not known", name)
	}
	perLane := map[string]func(w *warp, lane int) uint64{
		"%tid": func(w *warp, lane int) uint64 {
			n, size := uint32(w.id*32+lane), &w.block.size
			return uint64([3]uint32{n % size[0], n / size[0] % size[1], n / size[0] / size[1]}[k])
		},
		"%ctaid":       func(w *warp, _ int) uint64 { return uint64(w.block.at[k]) },
		"%ntid":        func(w *warp, _ int) uint64 { return uint64(w.block.size[k]) },
		"%nctaid":      func(w *warp, _ int) uint64 { return uint64(w.block.grid[k]) },
		"%laneid":      func(_ *warp, lane int) uint64 { return uint64(lane) },
		"%warpid":      func(w *warp, _ int) uint64 { return uint64(w.id) },
		"%nwarpid":     func(w *warp, _ int) uint64 { return 64 },
		"%smid":        func(w *warp, _ int) uint64 { return uint64(w.block.index) % uint64(w.block.card.Multiprocessors) },
		"%nsmid":       func(w *warp, _ int) uint64 { return uint64(w.block.card.Multiprocessors) },
		"%gridid":      func(*warp, int) uint64 { return 1 },
		"%lanemask_eq": func(_ *warp, lane int) uint64 { return 1 << lane },
		"%lanemask_lt": func(_ *warp, lane int) uint64 { return 1<<lane - 1 },
		"%lanemask_le": func(_ *warp, lane int) uint64 { return 2<<lane - 1 },
		"%lanemask_gt": func(_ *warp, lane int) uint64 { return uint64(allLanes) &^ (2<<lane - 1) },
		"%lanemask_ge": func(_ *warp, lane int) uint64 { return uint64(allLanes) &^ (1<<lane - 1) },
		"%clock":       func(w *warp, _ int) uint64 { return uint64(w.block.count.Warp) },
		"%clock64":     func(w *warp, _ int) uint64 { return uint64(w.block.count.Warp) },
		"%globaltimer": func(w *warp, _ int) uint64 { return uint64(w.block.count.Warp) },
		"%dynamic_smem_size": func(w *warp, _ int) uint64 {
			return uint64(len(w.block.shared) - w.block.k.shared)
		},
		"%total_smem_size": func(w *warp, _ int) uint64 { return uint64(len(w.block.shared)) },
	}
	f := perLane[base]
	if f == nil || (axis != "") != (base == "%tid" || base == "%ctaid" || base == "%ntid" || base == "%nctaid") {
		p.fail("register %q is not known", name)
	}
	d, put := p.in.dst, p.put(size)
	p.in.run = func(w *warp, _ uint32) {
		for lane := range 32 {
			put(w, d, lane, f(w, lane))
		}
	}
}

// cvta turns an address of a space into a generic one, or back.
func (p *parser) cvta() {
	back := p.has("to")
	space := p.one("global", "shared", "local", "const", "param")
	p.one("cta", "entry")
	_, size := p.lastType()
	p.want(2, 2)
	if size != 64 || space == "" {
		p.fail("form of cvta is not known: %s", p.in.text)
	}
	p.result(64)
	base := map[string]uint64{"shared": sharedBase, "local": localBase, "param": paramBase}[space]
	x := p.src(p.args[1], 64)
	d := p.in.dst
	switch {
	case base == 0 || space == "param": // parameters have generic addresses everywhere
		p.in.run = func(w *warp, _ uint32) { w.d[d] = w.d[x] }
	case back:
		p.wide1(x, func(a uint64) uint64 { return a - base })
	default:
		p.wide1(x, func(a uint64) uint64 { return a + base })
	}
}
