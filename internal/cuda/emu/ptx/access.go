package ptx

import (
	"strings"

	"ossian/internal/cuda/emu/exec"
)

// This file is ld and st in all spaces.

// An access is one load or store, decoded.
type access struct {
	space string // "" = generic
	exec.Address
	size  int   // bytes of an element
	regs  []reg // elements
	total int   // bytes
	site  int
	fixed bool // .nc: the launch does not write what is read
	sign  bool // elements shorter than their registers are widened with their sign

	strong, acquire, release bool // others may see it meanwhile; and in which order
}

// cacheHints are modifiers that change no result.
var cacheHints = []string{"ca", "cg", "cs", "lu", "cv", "wb", "wt", "L1::evict_normal", "L1::evict_unchanged", "L1::evict_first",
	"L1::evict_last", "L1::no_allocate", "L2::evict_first", "L2::evict_last", "L2::evict_normal", "L2::64B", "L2::128B", "L2::256B"}

// access takes what ld and st have in common.
func (p *parser) access(where string) *access {
	a := &access{}
	order := p.one("weak", "volatile", "relaxed", "acquire", "release")
	a.strong, a.acquire, a.release = order != "" && order != "weak", order == "acquire", order == "release"
	scope := p.one("cta", "cluster", "gpu", "sys")
	a.space = p.one("global", "shared", "local", "param", "const")
	if a.space == "" && p.one("shared::cta") != "" {
		a.space = "shared"
	}
	a.fixed = p.has("nc")
	for _, hint := range cacheHints {
		p.has(hint)
	}
	count := map[string]int{"v2": 2, "v4": 4, "": 1}[p.one("v2", "v4")]
	t, bits := p.lastType()
	a.size, a.sign = bits/8, t[0] == 's'
	a.total = a.size * count
	if a.total > 16 {
		p.fail("%d bytes at once: 16 are possible", a.total)
	}
	a.Address = p.address(where)
	if (order == "relaxed" || order == "acquire" || order == "release") != (scope != "") {
		p.fail("order and scope do not fit: %s", p.in.Text)
	}
	if a.space == "" || a.space == "global" || a.space == "const" {
		a.site = p.site(a.strong, scope == "sys")
	}
	if a.space == "" || a.space == "shared" {
		p.k.Grain = min(p.k.Grain, a.total)
	}
	p.in.Kind = exec.Effect
	return a
}

// site notes an instruction that may touch global memory. shared says that it may see what other
// blocks do meanwhile, system that it may see what other cards do.
func (p *parser) site(shared, system bool) int {
	p.in.Global = true
	p.k.Serial = p.k.Serial || shared
	p.k.System = p.k.System || system
	p.k.Sites++
	return p.k.Sites - 1
}

// elements looks up the registers of an access.
func (p *parser) elements(a *access, list string, find func(s string, bits int) reg) {
	parts := vector(list)
	if len(parts) != a.total/a.size {
		p.fail("%d registers for %d elements", len(parts), a.total/a.size)
	}
	for _, s := range parts {
		if s == "_" {
			a.regs = append(a.regs, reg{0, -1})
			continue
		}
		a.regs = append(a.regs, find(s, a.size*8))
	}
}

// ld loads.
func (p *parser) ld() {
	p.want(2, 2)
	a := p.access(p.args[1])
	p.elements(a, p.args[0], p.dstWide)
	if a.space == "param" && a.constantIn(p) {
		p.loadParam(a)
		return
	}
	if regs := a.wholeWords(); regs != nil {
		p.loadWords(a, regs)
		return
	}
	fetch := a.fetcher()
	p.in.Run = func(w *exec.Warp, m uint32) {
		a.count(w, m)
		eachLane(m, func(lane int) { a.put(w, lane, fetch(w, lane, a.Of(w, lane))) })
	}
}

// st stores.
func (p *parser) st() {
	p.want(2, 2)
	a := p.access(p.args[0])
	p.elements(a, p.args[1], p.wide)
	if a.space == "param" || a.space == "const" {
		p.fail("st.%s is not possible", a.space)
	}
	if regs := a.wholeWords(); regs != nil {
		p.storeWords(a, regs)
		return
	}
	room := a.storer()
	p.in.Run = func(w *exec.Warp, m uint32) {
		a.count(w, m)
		eachLane(m, func(lane int) { a.get(w, lane, room(w, lane, a.Of(w, lane))) })
	}
}

// wholeWords returns the registers of an access to global or shared memory that moves words between
// registers of 32 bits, nil for all others.
func (a *access) wholeWords() (regs []int) {
	if a.size != 4 || (a.strong && a.space != "shared") || (a.space != "global" && a.space != "shared") {
		return nil
	}
	for _, r := range a.regs {
		if r.bits != 32 {
			return nil
		}
		regs = append(regs, r.n)
	}
	return regs
}

func (p *parser) loadWords(a *access, regs []int) {
	p.in.Run = func(w *exec.Warp, m uint32) {
		w.Traffic(&a.Address, a.total, m)
		w.LoadWords(a.site, &a.Address, m, regs, a.fixed)
	}
	if a.space == "shared" {
		p.in.Run = func(w *exec.Warp, m uint32) {
			w.Banks(&a.Address, a.total, m)
			w.LoadSharedWords(&a.Address, m, regs)
		}
	}
}

func (p *parser) storeWords(a *access, regs []int) {
	p.in.Run = func(w *exec.Warp, m uint32) {
		w.Traffic(&a.Address, a.total, m)
		w.StoreWords(a.site, &a.Address, m, regs)
	}
	if a.space == "shared" {
		p.in.Run = func(w *exec.Warp, m uint32) {
			w.Banks(&a.Address, a.total, m)
			w.StoreSharedWords(&a.Address, m, regs)
		}
	}
}

// count counts the traffic of an access.
func (a *access) count(w *exec.Warp, m uint32) {
	switch a.space {
	case "global":
		w.Traffic(&a.Address, a.total, m)
	case "shared":
		w.Banks(&a.Address, a.total, m)
	case "":
		if at := a.Of(w, first(m)); at < exec.SharedBase {
			w.Traffic(&a.Address, a.total, m)
		} else if at < exec.SharedBase+exec.WindowSize {
			w.Banks(&a.Address, a.total, m)
		}
	}
}

// fetcher returns how the bytes of a lane are found.
func (a *access) fetcher() func(w *exec.Warp, lane int, at uint64) []byte {
	total, site := a.total, a.site
	switch a.space {
	case "global", "const":
		if a.fixed {
			return func(w *exec.Warp, lane int, at uint64) []byte { return w.GlobalReadConst(site, lane, at, total) }
		}
		return a.read
	case "shared":
		return func(w *exec.Warp, lane int, at uint64) []byte { return w.SharedRead(lane, at, total) }
	case "local":
		return func(w *exec.Warp, lane int, at uint64) []byte { return w.LocalRead(lane, at, total) }
	case "param":
		return func(w *exec.Warp, lane int, at uint64) []byte { return w.ParamRead(lane, at, total) }
	}
	return func(w *exec.Warp, lane int, at uint64) []byte {
		switch spaceOf(at) {
		case "shared":
			return w.SharedRead(lane, at, total)
		case "local":
			return w.LocalRead(lane, at-exec.LocalBase, total)
		case "param":
			return w.ParamRead(lane, at, total)
		}
		return a.read(w, lane, at)
	}
}

// storer returns how room for the bytes of a lane is found.
func (a *access) storer() func(w *exec.Warp, lane int, at uint64) []byte {
	total := a.total
	switch a.space {
	case "global":
		return a.write
	case "shared":
		return func(w *exec.Warp, lane int, at uint64) []byte { return w.SharedWrite(lane, at, total) }
	case "local":
		return func(w *exec.Warp, lane int, at uint64) []byte { return w.LocalWrite(lane, at, total) }
	}
	return func(w *exec.Warp, lane int, at uint64) []byte {
		switch spaceOf(at) {
		case "shared":
			return w.SharedWrite(lane, at, total)
		case "local":
			return w.LocalWrite(lane, at-exec.LocalBase, total)
		case "param":
			w.FailLane(exec.IllegalAddress, lane, "write of a parameter")
		}
		return a.write(w, lane, at)
	}
}

// read and write are accesses to global memory.
func (a *access) read(w *exec.Warp, lane int, at uint64) []byte {
	if a.strong {
		return w.StrongRead(a.site, lane, at, a.total, a.acquire)
	}
	return w.GlobalRead(a.site, lane, at, a.total)
}

func (a *access) write(w *exec.Warp, lane int, at uint64) []byte {
	if a.strong {
		return w.StrongWrite(a.site, lane, at, a.total, a.release)
	}
	return w.GlobalWrite(a.site, lane, at, a.total)
}

// put moves loaded bytes to the registers of a lane.
func (a *access) put(w *exec.Warp, lane int, b []byte) {
	for i, r := range a.regs {
		if r.n < 0 {
			continue
		}
		var v uint64
		switch a.size {
		case 4:
			if r.bits == 32 {
				w.R[r.n][lane] = le.Uint32(b[4*i:])
				continue
			}
			v = uint64(le.Uint32(b[4*i:]))
		case 2:
			v = uint64(le.Uint16(b[2*i:]))
		case 8:
			w.D[r.n][lane] = le.Uint64(b[8*i:])
			continue
		case 1:
			v = uint64(b[i])
		}
		if a.sign {
			v = uint64(int64(v<<(64-8*a.size)) >> (64 - 8*a.size))
		}
		switch r.bits {
		case 64:
			w.D[r.n][lane] = v
		case 32:
			w.R[r.n][lane] = uint32(v)
		default:
			w.R[r.n][lane] = uint32(v) & 0xffff
		}
	}
}

// get moves registers of a lane to memory.
func (a *access) get(w *exec.Warp, lane int, b []byte) {
	for i, r := range a.regs {
		if r.bits == 64 {
			v := w.D[r.n][lane]
			for k := range a.size {
				b[i*a.size+k] = byte(v >> (8 * k))
			}
			continue
		}
		v := w.R[r.n][lane]
		switch a.size {
		case 4:
			le.PutUint32(b[4*i:], v)
		case 2:
			le.PutUint16(b[2*i:], uint16(v))
		default:
			b[i] = byte(v)
		}
	}
}

// constantIn says whether the address is a constant.
func (a *access) constantIn(p *parser) bool {
	for c, n := range p.consts {
		if c.bits == 64 && n == a.Reg && a.Wide {
			return true
		}
	}
	return false
}

// loadParam loads a parameter by name: all lanes get the same.
func (p *parser) loadParam(a *access) {
	at := p.k.Regs64[a.Reg][0] + a.Off - exec.ParamBase
	if at+uint64(a.total) > uint64(p.k.ParamBytes) || at%uint64(a.total) != 0 {
		p.fail("%d bytes at %d of %d bytes of parameters: %s", a.total, int64(at), p.k.ParamBytes, p.in.Text)
	}
	p.in.Run = func(w *exec.Warp, m uint32) {
		a.put(w, first(m), w.Block.Params[at:])
		for _, r := range a.regs {
			if r.n >= 0 {
				spread(w, r, m)
			}
		}
	}
}

// spread gives the lanes of m what the first of them has.
func spread(w *exec.Warp, r reg, m uint32) {
	if r.bits == 64 {
		d, v := &w.D[r.n], w.D[r.n][first(m)]
		for lane := range d {
			if m>>lane&1 != 0 {
				d[lane] = v
			}
		}
		return
	}
	d, v := &w.R[r.n], w.R[r.n][first(m)]
	for lane := range d {
		if m>>lane&1 != 0 {
			d[lane] = v
		}
	}
}

// atomFields takes what atom and red have in common: order, space, serial blocks.
func (p *parser) atomFields() *access {
	order := p.one("relaxed", "acquire", "release", "acq_rel")
	a := &access{strong: true, acquire: order == "acquire" || order == "acq_rel", release: order == "release" || order == "acq_rel"}
	scope := p.one("cta", "cluster", "gpu", "sys")
	a.space, _, _ = strings.Cut(p.one("global", "shared", "shared::cta"), "::")
	if a.space != "shared" {
		a.site = p.site(true, scope == "sys")
	}
	return a
}
