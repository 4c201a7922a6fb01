package ptx

import (
	"strings"

	"ossian/internal/cuda/emu/arith"
	"ossian/internal/cuda/emu/exec"
)

// mov copies registers, packs and unpacks them, and reads special ones.
func (p *parser) mov() {
	t := p.last()
	p.want(2, 2)
	if t == "pred" {
		p.in.Kind, p.in.Dst = exec.PurePred, p.predDst(p.args[0])
		if p.in.Dst < 0 {
			p.fail("mov without a result")
		}
		if v := p.args[1]; v == "0" || v == "1" || v == "-1" {
			constant := exec.AllLanes
			if v == "0" {
				constant = 0
			}
			p.in.Run = func(w *exec.Warp, _ uint32) { w.Out = constant }
			return
		}
		q, neg := p.pred(p.args[1])
		p.in.Run = func(w *exec.Warp, _ uint32) { w.Out = flip(w.P[q], neg) }
		return
	}
	size := arith.TypeBits(t)
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
	d := p.in.Dst
	if _, ok := p.lookup(p.args[1]); !ok && strings.HasPrefix(p.args[1], "%") {
		p.special(p.args[1], size)
		return
	}
	x := p.src(p.args[1], size)
	if size == 64 {
		p.in.Run = func(w *exec.Warp, _ uint32) { w.D[d] = w.D[x] }
	} else {
		p.in.Run = func(w *exec.Warp, _ uint32) { w.R[d] = w.R[x] }
	}
}

// pack makes one register of several.
func (p *parser) pack(size int) {
	parts := vector(p.args[1])
	part := p.part(len(parts), size)
	p.result(size)
	var src [4]int
	for i, s := range parts {
		src[i] = p.src(s, part)
	}
	d, get, put, n := p.in.Dst, p.get(part), p.put(size), len(parts)
	if size == 32 && part == 16 {
		p.lanes2(src[0], src[1], func(a, b uint32) uint32 { return a | b<<16 })
		return
	}
	p.in.Run = func(w *exec.Warp, _ uint32) {
		for lane := range 32 {
			v := uint64(0)
			for i := range n {
				v |= get(w, src[i], lane) & (^uint64(0) >> (64 - part)) << (part * i)
			}
			put(w, d, lane, v)
		}
	}
}

// part returns the bits of each of so many parts of a register.
func (p *parser) part(count, size int) int {
	if (count != 2 && count != 4) || size/count < 16 {
		p.fail("%d parts of %d bits: %s", count, size, p.in.Text)
	}
	return size / count
}

// unpack makes several registers of one. "_" stands for a part that nobody wants.
func (p *parser) unpack(size int) {
	parts := vector(p.args[0])
	part := p.part(len(parts), size)
	p.in.Kind = exec.Effect
	x := p.src(p.args[1], size)
	var dst [4]int
	for i, s := range parts {
		if dst[i] = -1; s != "_" {
			dst[i] = p.dst(s, part)
		}
	}
	get, put, n := p.get(size), p.put(part), len(parts)
	p.in.Run = func(w *exec.Warp, m uint32) {
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
	f := exec.Special(base, axis != "", k)
	if f == nil {
		p.fail("register %q is not known", name)
	}
	if strings.Contains(base, "cluster") {
		p.since(90, false)
	}
	d, put := p.in.Dst, p.put(size)
	if size == 32 && !exec.SpecialOfLane(base) {
		p.in.Run = func(w *exec.Warp, _ uint32) { w.R[d] = fill32(uint32(f(w, 0))) }
		return
	}
	p.in.Run = func(w *exec.Warp, _ uint32) {
		if name == "%tid.x" && size == 32 && w.Block.Threads == int(w.Block.Size[0]) { // in a row
			for lane := range 32 {
				w.R[d][lane] = uint32(w.ID*32 + lane)
			}
			return
		}
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
		p.fail("form of cvta is not known: %s", p.in.Text)
	}
	p.result(64)
	base := map[string]uint64{"shared": exec.SharedBase, "local": exec.LocalBase, "param": exec.ParamBase}[space]
	x := p.src(p.args[1], 64)
	d := p.in.Dst
	switch {
	case base == 0 || space == "param": // parameters have generic addresses everywhere
		p.in.Run = func(w *exec.Warp, _ uint32) { w.D[d] = w.D[x] }
	case back:
		p.wide1(x, func(a uint64) uint64 { return a - base })
	default:
		p.wide1(x, func(a uint64) uint64 { return a + base })
	}
}
