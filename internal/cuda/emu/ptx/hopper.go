package ptx

import "ossian/internal/cuda/emu/exec"

// This file is what sm_90 adds: mbarriers, fences between proxies, copies of boxes, and what says
// something about clusters and registers. A block is a cluster of its own.

// since ends the reading of instructions that older cards do not have; exact ones belong to the
// architecture with an "a" alone.
func (p *parser) since(arch int, exact bool) {
	if p.mod.Arch < arch || (exact && !p.mod.Exact) {
		a := ""
		if exact {
			a = "a"
		}
		p.fail("%s needs .target sm_%d%s: %s", p.op, arch, a, p.in.Text)
	}
}

// eachLane runs f for every lane of the mask.
func eachLane(m uint32, f func(lane int)) {
	for lane := range 32 {
		if m>>lane&1 != 0 {
			f(lane)
		}
	}
}

// mbarrier is all that is done with barriers that count arrivals and bytes.
func (p *parser) mbarrier() {
	p.since(80, false)
	p.one("shared", "shared::cta")
	p.has("b64")
	p.in.Kind = exec.Effect
	p.k.Async = true
	p.k.Grain = min(p.k.Grain, 8)
	switch do := p.next(); do {
	case "init":
		p.want(2, 2)
		at, count := p.address(p.args[0]), p.src(p.args[1], 32)
		p.in.Run = func(w *exec.Warp, m uint32) {
			eachLane(m, func(lane int) { w.MakeBarrier(lane, at.Of(w, lane), w.R[count][lane]) })
		}
	case "inval":
		p.want(1, 1)
		at := p.address(p.args[0])
		p.in.Run = func(w *exec.Warp, m uint32) {
			eachLane(m, func(lane int) { w.EndBarrier(lane, at.Of(w, lane)) })
		}
	case "expect_tx":
		p.order("relaxed")
		p.want(2, 2)
		p.arrive(p.args[0], -1, -1, p.src(p.args[1], 32), 0)
	case "arrive":
		p.arriving()
	case "try_wait", "test_wait":
		p.since(90, false)
		p.waiting(do == "try_wait")
	default:
		p.fail("mbarrier.%s is not known to the emulator: %s", do, p.in.Text)
	}
}

// order takes the order that an instruction has without saying so, and its scope.
func (p *parser) order(usual string) {
	if p.has(usual) {
		p.one("cta", "cluster")
	}
}

// arriving is mbarrier.arrive, with or without bytes.
func (p *parser) arriving() {
	p.order("release")
	least := 2
	expect := p.has("expect_tx")
	if expect {
		p.since(90, false)
		least = 3
	}
	p.want(least, 3)
	state, count, bytes := -1, -1, -1
	if p.args[0] != "_" {
		state = p.dst(p.args[0], 64)
	}
	if len(p.args) == 3 {
		count = p.src(p.args[2], 32)
	}
	if expect {
		count, bytes = -1, count
	}
	p.arrive(p.args[1], state, count, bytes, 1)
}

// arrive leaves the closure of arrivals, by registers: what tells the phase later (-1: nothing), count of
// arrivals (-1: so many as usual) and bytes (-1: none).
func (p *parser) arrive(where string, state, count, bytes, usual int) {
	at := p.address(where)
	p.in.Run = func(w *exec.Warp, m uint32) {
		if usual > 0 {
			w.Arriving(m)
		}
		eachLane(m, func(lane int) {
			arrivals, expected := usual, 0
			if count >= 0 {
				arrivals = int(w.R[count][lane])
			}
			if bytes >= 0 {
				expected = int(w.R[bytes][lane])
			}
			phase := w.ArriveAt(lane, at.Of(w, lane), arrivals, expected)
			if state >= 0 {
				w.D[state][lane] = uint64(phase)
			}
		})
		w.Released()
	}
}

// waiting is a question whether a phase has ended. Where the answer is no, others have their turn
// before the program goes on with it.
func (p *parser) waiting(hint bool) {
	parity := p.has("parity")
	p.order("acquire")
	most := 3
	if hint {
		most = 4
	}
	p.want(3, most)
	d := p.predDst(p.args[0])
	if d < 0 {
		p.fail("%s without a result", p.op)
	}
	at := p.address(p.args[1])
	if len(p.args) == 4 {
		p.src(p.args[3], 32) // how long to wait at most
	}
	var ended func(w *exec.Warp, lane int) func(phases uint32) bool
	if parity {
		which := p.src(p.args[2], 32)
		ended = func(w *exec.Warp, lane int) func(uint32) bool {
			return func(phases uint32) bool { return phases&1 != w.R[which][lane]&1 }
		}
	} else {
		state := p.src(p.args[2], 64)
		ended = func(w *exec.Warp, lane int) func(uint32) bool {
			return func(phases uint32) bool { return uint64(phases) > w.D[state][lane] }
		}
	}
	p.in.Kind = exec.Spin
	p.in.Try = func(w *exec.Warp, m uint32) bool {
		var passed uint32
		eachLane(m, func(lane int) {
			if w.Passed(lane, at.Of(w, lane), ended(w, lane)) {
				passed |= 1 << lane
			}
		})
		switch {
		case passed == m:
			w.Waited()
		case w.Yield():
			return false
		}
		w.P[d] = w.P[d]&^m | passed
		return true
	}
}

// proxyFence is what joins ordinary accesses with those of the asynchronous units.
func (p *parser) proxyFence() {
	p.since(90, false)
	if p.one("async") == "" {
		return
	}
	p.one("shared::cta", "global")
	p.in.Kind = exec.Effect
	p.k.Async = true
	p.in.Run = func(w *exec.Warp, m uint32) { w.FenceProxies() }
}

// initFence makes mbarriers known to the asynchronous units.
func (p *parser) initFence() {
	p.since(90, false)
	if !p.has("release") || !p.has("cluster") {
		return
	}
	p.in.Kind = exec.Effect
	p.k.Async = true
	p.in.Run = func(w *exec.Warp, m uint32) { w.Announce() }
}

// bulk is copies by the tensor memory accelerator that report to an mbarrier.
func (p *parser) bulk() {
	p.since(90, false)
	tensor := p.has("tensor")
	if tensor && !p.has("2d") {
		p.fail("copies of tensors that are not of 2 dimensions are not known to the emulator: %s", p.in.Text)
	}
	p.has("tile")
	p.one("shared::cluster", "shared::cta")
	most := 4
	if tensor {
		most = 3
	}
	hint := p.has("L2::cache_hint")
	if !p.has("global") || !p.has("mbarrier::complete_tx::bytes") {
		p.fail("form of cp.async.bulk is not known to the emulator: %s", p.in.Text)
	}
	if hint {
		p.want(most+1, most+1)
		p.src(p.args[most], 64)
	} else {
		p.want(most, most)
	}
	p.in.Kind = exec.Effect
	p.k.Async = true
	dst, barrier, site := p.address(p.args[0]), p.address(p.args[most-1]), p.site(false, false)
	if !tensor {
		src, bytes := p.address(p.args[1]), p.src(p.args[2], 32)
		p.in.Run = func(w *exec.Warp, m uint32) {
			eachLane(m, func(lane int) {
				w.CopyBulk(site, lane, dst.Of(w, lane), src.Of(w, lane), w.R[bytes][lane], barrier.Of(w, lane))
			})
		}
		return
	}
	described := operands(p.args[1][1 : len(p.args[1])-1]) // "[map, {x, y}]"
	if len(described) != 2 {
		p.fail("%q is no box of a tensor", p.args[1])
	}
	corner := vector(described[1])
	if len(corner) != 2 {
		p.fail("a box of 2 dimensions at %d coordinates: %s", len(corner), p.in.Text)
	}
	at, x, y := p.address("["+described[0]+"]"), p.src(corner[0], 32), p.src(corner[1], 32)
	p.in.Run = func(w *exec.Warp, m uint32) {
		eachLane(m, func(lane int) {
			w.CopyBox(site, lane, dst.Of(w, lane), at.Of(w, lane), int32(w.R[x][lane]), int32(w.R[y][lane]), barrier.Of(w, lane))
		})
	}
}

// setmaxnreg moves registers between warpgroups, which here has no effect.
func (p *parser) setmaxnreg() {
	p.since(90, true)
	if p.one("inc", "dec") == "" || !p.has("sync") || !p.has("aligned") || !p.has("u32") {
		p.fail("form of setmaxnreg is not known: %s", p.in.Text)
	}
	p.want(1, 1)
	if n := p.immediate(p.args[0]); n < 24 || n > 256 || n%8 != 0 {
		p.fail("%d registers: multiples of 8 from 24 to 256 are possible", n)
	}
	p.in.Kind = exec.Effect
	p.in.Run = func(w *exec.Warp, m uint32) { w.WholeWarpgroup(m) }
}

// elect chooses a lane.
func (p *parser) elect() {
	p.since(90, false)
	p.want(2, 2)
	to, chosen := p.pair(p.args[0])
	d, q := -1, p.predDst(chosen)
	if to != "_" {
		d = p.dst(to, 32)
	}
	if q < 0 {
		p.fail("%s without a result", p.op)
	}
	p.collective("sync", p.args[1], func(w *exec.Warp, m uint32) {
		leader := first(m)
		w.P[q] = w.P[q]&^m | 1<<leader
		if d >= 0 {
			eachLane(m, func(lane int) { w.R[d][lane] = uint32(leader) })
		}
	})
}

// griddepcontrol is about launches that overlap, which launches here do not.
func (p *parser) griddepcontrol() {
	p.since(90, false)
	if p.one("wait", "launch_dependents") == "" {
		return
	}
	p.want(0, 0)
	p.in.Kind = exec.Effect
	p.in.Run = func(*exec.Warp, uint32) {}
}
