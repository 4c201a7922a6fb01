package ptx

import (
	"math/bits"

	"ossian/internal/cuda/emu/exec"
)

// decoders are the opcodes that are known, by their first word. A decoder takes the modifiers it
// knows, looks up operands and leaves a closure.
var decoders map[string]func(p *parser)

func init() {
	decoders = map[string]func(p *parser){
		"bra": (*parser).bra, "brx": (*parser).brx, "ret": (*parser).ret, "exit": (*parser).ret, "trap": (*parser).trap,
		"bar": (*parser).bar, "barrier": (*parser).bar, "membar": (*parser).fence, "fence": (*parser).fence, "nanosleep": (*parser).nothing,
		"mov": (*parser).mov, "cvta": (*parser).cvta, "cvt": (*parser).cvt, "selp": (*parser).selp, "slct": (*parser).slct,
		"setp": (*parser).setp, "set": (*parser).set, "isspacep": (*parser).isspacep, "testp": (*parser).testp,
		"ld": (*parser).ld, "ldu": (*parser).ld, "st": (*parser).st, "atom": (*parser).atom, "red": (*parser).atom,
		"prefetch": (*parser).nothing, "prefetchu": (*parser).nothing, "applypriority": (*parser).nothing,
		"cp": (*parser).cp, "mbarrier": (*parser).mbarrier, "wgmma": (*parser).wgmma, "setmaxnreg": (*parser).setmaxnreg, "elect": (*parser).elect,
		"griddepcontrol": (*parser).griddepcontrol, "ldmatrix": (*parser).ldmatrix, "mma": (*parser).mma,
		"shfl": (*parser).shfl, "vote": (*parser).vote, "match": (*parser).match, "activemask": (*parser).activemask, "redux": (*parser).redux,

		"add": (*parser).arithmetic, "sub": (*parser).arithmetic, "mul": (*parser).arithmetic, "mad": (*parser).arithmetic, "fma": (*parser).arithmetic,
		"div": (*parser).arithmetic, "rem": (*parser).arithmetic, "min": (*parser).arithmetic, "max": (*parser).arithmetic,
		"abs": (*parser).arithmetic, "neg": (*parser).arithmetic, "sad": (*parser).arithmetic,
		"and": (*parser).logic, "or": (*parser).logic, "xor": (*parser).logic, "not": (*parser).logic, "cnot": (*parser).arithmetic,
		"shl": (*parser).shift, "shr": (*parser).shift, "shf": (*parser).funnel, "lop3": (*parser).lop3, "prmt": (*parser).prmt,
		"popc": (*parser).bits, "clz": (*parser).bits, "brev": (*parser).bits, "bfind": (*parser).bfind, "bfe": (*parser).bfe, "bfi": (*parser).bfi,
		"dp4a": (*parser).dp4a, "addc": (*parser).carried, "subc": (*parser).carried, "madc": (*parser).carried,
		"mul24": (*parser).arithmetic, "copysign": (*parser).arithmetic,
		"rcp": (*parser).approximate, "sqrt": (*parser).approximate, "rsqrt": (*parser).approximate, "ex2": (*parser).approximate,
		"lg2": (*parser).approximate, "sin": (*parser).approximate, "cos": (*parser).approximate, "tanh": (*parser).approximate,
	}
}

// lanes1 makes the instruction compute its result of up to 32 bits from one register.
func (p *parser) lanes1(x int, f func(a uint32) uint32) {
	d := p.in.Dst
	p.in.Run = func(w *exec.Warp, _ uint32) {
		D, X := &w.R[d], &w.R[x]
		for i := range D {
			D[i] = f(X[i])
		}
	}
}

// lanes2 does so from two registers.
func (p *parser) lanes2(x, y int, f func(a, b uint32) uint32) {
	d := p.in.Dst
	p.in.Run = func(w *exec.Warp, _ uint32) {
		D, X, Y := &w.R[d], &w.R[x], &w.R[y]
		for i := range D {
			D[i] = f(X[i], Y[i])
		}
	}
}

// lanes3 does so from three.
func (p *parser) lanes3(x, y, z int, f func(a, b, c uint32) uint32) {
	d := p.in.Dst
	p.in.Run = func(w *exec.Warp, _ uint32) {
		D, X, Y, Z := &w.R[d], &w.R[x], &w.R[y], &w.R[z]
		for i := range D {
			D[i] = f(X[i], Y[i], Z[i])
		}
	}
}

// wide1 makes the instruction compute its result of 64 bits from one register of 64.
func (p *parser) wide1(x int, f func(a uint64) uint64) {
	d := p.in.Dst
	p.in.Run = func(w *exec.Warp, _ uint32) {
		D, X := &w.D[d], &w.D[x]
		for i := range D {
			D[i] = f(X[i])
		}
	}
}

// wide2 does so from two registers.
func (p *parser) wide2(x, y int, f func(a, b uint64) uint64) {
	d := p.in.Dst
	p.in.Run = func(w *exec.Warp, _ uint32) {
		D, X, Y := &w.D[d], &w.D[x], &w.D[y]
		for i := range D {
			D[i] = f(X[i], Y[i])
		}
	}
}

// wide3 does so from three.
func (p *parser) wide3(x, y, z int, f func(a, b, c uint64) uint64) {
	d := p.in.Dst
	p.in.Run = func(w *exec.Warp, _ uint32) {
		D, X, Y, Z := &w.D[d], &w.D[x], &w.D[y], &w.D[z]
		for i := range D {
			D[i] = f(X[i], Y[i], Z[i])
		}
	}
}

// nothing accepts what has no effect that a program could see.
func (p *parser) nothing() {
	p.mods = nil
	p.in.Kind = exec.Effect
	p.in.Run = func(*exec.Warp, uint32) {}
}

func (p *parser) bra() {
	p.has("uni")
	p.want(1, 1)
	p.in.Kind = exec.Branch
	p.fixes = append(p.fixes, fix{at: len(p.k.Code), line: p.line, label: p.args[0], scopes: p.scopes})
}

// brx is a branch whose target stands in a table.
func (p *parser) brx() {
	if !p.has("idx") {
		return
	}
	p.has("uni")
	p.want(2, 2)
	table, ok := p.tables[p.args[1]]
	if !ok {
		p.fail("no .branchtargets are called %q", p.args[1])
	}
	index := p.src(p.args[0], 32)
	targets := make([]int, len(table))
	for i, label := range table {
		p.fixes = append(p.fixes, fix{line: p.line, label: label, scopes: p.scopes, set: func(pc int) { targets[i] = pc }})
	}
	p.in.Kind, p.in.Targets = exec.Branch, targets
	p.in.Run = func(w *exec.Warp, m uint32) {
		w.Groups[0].Mask &^= m
		if w.Groups[0].Mask == 0 {
			w.Groups = append(w.Groups[:0], w.Groups[1:]...)
		}
		for lane := range 32 {
			if m>>lane&1 == 0 {
				continue
			}
			to := w.R[index][lane]
			if uint64(to) >= uint64(len(targets)) {
				w.FailLane(exec.LaunchFailed, lane, "target %d of %d", to, len(targets))
			}
			w.Groups = append(w.Groups, exec.Group{PC: targets[to], Mask: 1 << lane})
		}
		w.Sort()
	}
}

func (p *parser) ret() {
	p.has("uni")
	p.want(0, 0)
	p.in.Kind = exec.Leave
}

func (p *parser) trap() {
	p.in.Kind = exec.Effect
	p.in.Run = func(w *exec.Warp, m uint32) { w.Fail(exec.LaunchFailed, "the kernel gave up") }
}

// bar is a barrier of the block, or of a warp's lanes.
func (p *parser) bar() {
	if p.has("warp") {
		p.want(1, 1)
		p.collective("sync", p.args[0], func(w *exec.Warp, m uint32) { w.Syncs++ })
		return
	}
	p.has("cta")
	p.has("aligned")
	p.in.Kind = exec.Barrier
	if p.has("red") {
		p.barVote()
		return
	}
	wait := p.one("sync", "arrive") == "sync"
	p.want(1, 2)
	place := p.barrier(p.args)
	p.in.Run = func(w *exec.Warp, m uint32) {
		id, wanted := place(w, m)
		w.Arrive(id, wanted, wait)
	}
}

// barrier reads the number of a barrier and of its threads, if it is there.
func (p *parser) barrier(args []string) func(w *exec.Warp, m uint32) (id, wanted int) {
	id, threads := p.src(args[0], 32), -1
	if len(args) > 1 {
		threads = p.src(args[1], 32)
		p.k.Named = true
	}
	return func(w *exec.Warp, m uint32) (int, int) {
		if m != w.Live || len(w.Groups) != 1 {
			w.Fail(exec.LaunchFailed, "barrier reached by lanes %08x of %08x: all lanes of a warp come together", m, w.Live)
		}
		wanted := (w.Block.Threads + 31) / 32 * 32
		if threads >= 0 {
			wanted = int(int32(w.R[threads][first(m)]))
		}
		return int(w.R[id][first(m)]), wanted
	}
}

// barVote is a barrier at which threads vote.
func (p *parser) barVote() {
	how := p.one("popc", "and", "or")
	t := p.one("pred", "u32")
	if how == "" || (how == "popc") != (t == "u32") {
		p.fail("form of bar.red is not known: %s", p.in.Text)
	}
	p.want(3, 4)
	last := len(p.args) - 1
	q, neg := p.pred(p.args[last])
	place := p.barrier(p.args[1:last])
	d := -1
	if how == "popc" {
		d = p.dst(p.args[0], 32)
	} else if d = p.predDst(p.args[0]); d < 0 {
		p.fail("%s without a result", p.op)
	}
	p.in.Run = func(w *exec.Warp, m uint32) {
		id, wanted := place(w, m)
		w.Vote(id, wanted, bits.OnesCount32(flip(w.P[q], neg)&m), bits.OnesCount32(m), func(yes, votes int) {
			switch {
			case how == "popc":
				for lane := range 32 {
					if m>>lane&1 != 0 {
						w.R[d][lane] = uint32(yes)
					}
				}
			case (how == "or" && yes > 0) || yes == votes:
				w.P[d] |= m
			default:
				w.P[d] &^= m
			}
		})
	}
}

// first returns the lowest lane of a mask.
func first(m uint32) int { return bits.TrailingZeros32(m) & 31 }

// fence orders memory.
func (p *parser) fence() {
	switch p.one("proxy", "mbarrier_init") {
	case "proxy":
		p.proxyFence()
		return
	case "mbarrier_init":
		p.initFence()
		return
	}
	p.one("sc", "acq_rel")
	wide := p.one("cta", "cluster", "gpu", "gl", "sys") != "cta"
	p.in.Kind = exec.Effect
	p.in.Run = func(w *exec.Warp, _ uint32) {
		if wide {
			w.Fence()
		}
	}
}
