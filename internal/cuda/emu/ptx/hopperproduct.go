package ptx

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ossian/internal/cuda/emu/exec"
)

// This file is wgmma: products by warpgroups, and the proof that no register of one is touched while
// it is under way. That is settled when a kernel is read, for all paths: a register of a product may
// be touched when its group has been waited for, and wgmma.fence has to follow any such access before
// another product uses the register. Products of the same shape may share their sums.

// A step is what an instruction means to products.
type step struct {
	kind stepKind
	keep int    // groups that a wait leaves under way
	sums []reg  // of a product
	a    []reg  // likewise
	set  string // names the sums of a product together
}

type stepKind uint8

const (
	otherStep stepKind = iota
	fenceStep
	productStep
	commitStep
	waitStep
)

// wgmma is the product itself and what orders products.
func (p *parser) wgmma() {
	p.since(90, true)
	what := p.next()
	if !p.has("sync") || !p.has("aligned") {
		p.fail("wgmma without .sync.aligned: %s", p.in.Text)
	}
	p.in.Kind = exec.Effect
	p.k.Async = true
	switch what {
	case "fence":
		p.want(0, 0)
		p.steps[len(p.k.Code)] = step{kind: fenceStep}
		p.in.Run = func(w *exec.Warp, m uint32) { w.All(m) }
	case "commit_group":
		p.want(0, 0)
		p.steps[len(p.k.Code)] = step{kind: commitStep}
		p.in.Run = func(w *exec.Warp, m uint32) { w.CommitProducts(m) }
	case "wait_group":
		p.want(1, 1)
		n := p.immediate(p.args[0])
		if n < 0 || n > 7 {
			p.fail("wgmma.wait_group %d: 0 to 7 are possible", n)
		}
		p.steps[len(p.k.Code)] = step{kind: waitStep, keep: n}
		p.in.Run = func(w *exec.Warp, m uint32) { w.WaitProducts(m, n) }
	case "mma_async":
		p.asyncProduct()
	default:
		p.fail("wgmma.%s is not known to the emulator: %s", what, p.in.Text)
	}
}

// asyncProduct is wgmma.mma_async of 16-bit floats with sums of float32.
func (p *parser) asyncProduct() {
	shape := p.next()
	text, ok := strings.CutPrefix(shape, "m64n")
	text, deep := strings.CutSuffix(text, "k16")
	n, err := strconv.Atoi(text)
	if !ok || !deep || err != nil || n < 8 || n > 256 || n%8 != 0 {
		p.fail("shape %s of wgmma is not known: %s", shape, p.in.Text)
	}
	sum, a, b := p.next(), p.next(), p.next()
	if sum != "f32" || a != b || (a != "bf16" && a != "f16") {
		p.fail("types of wgmma are not known: %s", p.in.Text)
	}
	registers := strings.HasPrefix(p.args[1], "{")
	operands := 8 // sums, A, B, scale-d, signs of A and B, transpositions
	if registers {
		operands = 7
	}
	p.want(operands, operands)
	product := &exec.Product{BDesc: p.src(p.args[2], 64), Widen: widen(a), Kind: fmt.Sprintf("wgmma.%s.%s", shape, a)}
	product.Sums = p.list(p.args[0], n/2, p.dst)
	for _, s := range vector(p.args[0]) {
		p.src(s, 32) // they are read, too
	}
	if registers {
		product.A = p.list(p.args[1], 4, p.src)
	} else {
		product.ADesc = p.src(p.args[1], 64)
	}
	p.scale(product, p.args[3])
	product.NegA, product.NegB = p.sign(p.args[4]), p.sign(p.args[5])
	for _, transposed := range p.args[6:] {
		if transposed != "0" {
			p.fail("transposed operands of wgmma are not known to the emulator: %s", p.in.Text)
		}
	}
	s := step{kind: productStep, set: p.args[0]}
	for _, r := range product.Sums {
		s.sums = append(s.sums, reg{32, r})
	}
	for _, r := range product.A {
		s.a = append(s.a, reg{32, r})
	}
	p.steps[len(p.k.Code)] = s
	p.in.Run = func(w *exec.Warp, m uint32) { w.BeginProduct(product, m) }
}

// scale reads whether the product is added to what there is: a constant or a predicate.
func (p *parser) scale(product *exec.Product, s string) {
	product.Scale = -1
	switch s {
	case "0", "1":
		product.Add = s == "1"
	default:
		product.Scale, product.Negated = p.pred(s)
	}
}

// sign reads 1 or -1; true: negative.
func (p *parser) sign(s string) bool {
	if s != "1" && s != "-1" {
		p.fail("%q is neither 1 nor -1", s)
	}
	return s == "-1"
}

// A flight is what is known of a register of products at a place.
type flight struct {
	age     uint8  // 0: not under way; 1: group not committed; else 1 + commits since
	touched bool   // since the last fence
	set     string // whose sums it is one of, while under way
}

// oldest is where ages end.
const oldest = 10

// A flights is a flight for each register of a kernel that products use.
type flights map[reg]flight

// join adds what may be on another path, and says whether that was news.
func (f flights) join(other flights) (news bool) {
	for r, o := range other {
		had := f[r]
		now := had
		now.touched = had.touched || o.touched
		switch {
		case had.age == 0:
			now.age, now.set = o.age, o.set
		case o.age != 0:
			now.age = min(had.age, o.age)
			if o.set != had.set {
				now.set = ""
			}
		}
		if now != had {
			f[r], news = now, true
		}
	}
	return news
}

// proveProducts ends the reading of a kernel in which a register of a product may be touched too
// early, or without a fence.
func (p *parser) proveProducts() {
	start := flights{}
	for _, s := range p.steps {
		for _, r := range slices.Concat(s.sums, s.a) {
			start[r] = flight{touched: true}
		}
	}
	if len(start) == 0 {
		return
	}
	starts := make([]bool, len(p.k.Code)+1)
	for i := range p.k.Code {
		if in := &p.k.Code[i]; in.Kind == exec.Branch {
			for _, to := range append(in.Targets, in.Target) {
				starts[to] = true
			}
		}
	}
	at, work := map[int]flights{0: start}, []int{0}
	reach := func(pc int, state flights) {
		known := at[pc]
		if known == nil {
			known = flights{}
			at[pc] = known
			known.join(state)
		} else if !known.join(state) {
			return
		}
		work = append(work, pc)
	}
	for len(work) > 0 {
		pc := work[len(work)-1]
		work = work[:len(work)-1]
		state := flights{}
		state.join(at[pc])
		p.follow(pc, state, starts, reach)
	}
}

// follow goes on from a place to where the code branches or meets other code.
func (p *parser) follow(pc int, state flights, starts []bool, reach func(pc int, state flights)) {
	for first := true; pc < len(p.k.Code); pc, first = pc+1, false {
		if !first && starts[pc] {
			reach(pc, state)
			return
		}
		p.line = p.k.Code[pc].Line
		p.pass(pc, state)
		in := &p.k.Code[pc]
		switch in.Kind {
		case exec.Leave:
			if in.Guard < 0 {
				return
			}
		case exec.Branch:
			to := in.Targets
			if to == nil {
				to = []int{in.Target}
			}
			for _, next := range to {
				reach(next, state)
			}
			if in.Guard < 0 {
				return
			}
		}
	}
}

// pass changes the state by an instruction.
func (p *parser) pass(pc int, state flights) {
	in, s := &p.k.Code[pc], p.steps[pc]
	switch s.kind {
	case fenceStep:
		for r, f := range state {
			f.touched = false
			state[r] = f
		}
	case commitStep:
		for r, f := range state {
			if f.age > 0 {
				f.age = min(f.age+1, oldest)
			}
			state[r] = f
		}
	case waitStep:
		for r, f := range state {
			if int(f.age) >= s.keep+2 {
				f.age, f.set = 0, ""
			}
			state[r] = f
		}
	case productStep:
		p.passProduct(in, s, state)
	default:
		for _, r := range slices.Concat(p.uses[pc].reads, p.uses[pc].writes) {
			r.bits = max(r.bits, 32)
			f, used := state[r]
			if !used {
				continue
			}
			if f.age > 0 {
				p.fail("a register of a product that is not waited for is touched: %s", in.Text)
			}
			f.touched = true
			state[r] = f
		}
	}
}

// passProduct changes the state by a product.
func (p *parser) passProduct(in *exec.Inst, s step, state flights) {
	for i, r := range slices.Concat(s.sums, s.a) {
		f, set := state[r], s.set
		if i >= len(s.sums) {
			set = "A"
		}
		switch {
		case f.touched:
			p.fail("a register of a product was touched since the last wgmma.fence: %s", in.Text)
		case f.age > 0 && f.set != set:
			p.fail("a register of a product that is not waited for becomes one of another: %s", in.Text)
		}
		state[r] = flight{age: 1, set: set}
	}
}
