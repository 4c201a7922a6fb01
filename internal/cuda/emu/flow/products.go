package flow

import (
	"maps"
	"slices"

	"ossian/internal/cuda/emu/exec"
)

// A Step is what an instruction means to products by warpgroups (PTX ISA: wgmma).
type Step struct {
	Kind StepKind
	Keep int    // groups that a wait leaves under way
	Sums []int  // registers of a product
	A    []int  // likewise, of its first factor
	Set  string // names the sums of a product together
}

// A StepKind says what a Step does.
type StepKind uint8

// Kinds of steps.
const (
	Fence   StepKind = iota // puts registers in order with products
	Product                 // begins one
	Commit                  // makes a group of those since the last one
	Wait                    // until all groups but the last Keep are done
)

// A flight is what is known of a register of products at a place.
type flight struct {
	age     uint8  // 0: not under way; 1: group not committed; else 1 + commits since
	touched bool   // since the last fence
	set     string // whose sums it is one of, while under way
}

const (
	oldest    = 10  // where ages end
	ofFactors = "A" // the set of registers of a product that are no sums
)

// A products looks for registers that are touched too early.
type products struct {
	k     *exec.Kernel
	uses  []Use
	steps map[int]Step
	at    int // instruction at fault
	fault string
}

// Products finds an instruction that touches a register of a product before the product was waited
// for, or a product whose registers were touched since the last fence; fault "" is none. Products
// with the same sums may follow each other. steps are those of instructions, by index.
func Products(k *exec.Kernel, uses []Use, steps map[int]Step) (at int, fault string) {
	start := map[int]flight{}
	for _, s := range steps {
		for _, r := range slices.Concat(s.Sums, s.A) {
			start[r] = flight{touched: true}
		}
	}
	if len(start) == 0 {
		return 0, ""
	}
	p := &products{k: k, uses: uses, steps: steps}
	w := &walk[map[int]flight]{k: k, copied: maps.Clone[map[int]flight], join: joinFlights, pass: p.pass}
	w.run(start)
	return p.at, p.fault
}

// joinFlights adds what is known of registers on another path.
func joinFlights(into, from map[int]flight) (news bool) {
	for r, other := range from {
		had := into[r]
		now := had
		now.touched = had.touched || other.touched
		switch {
		case had.age == 0:
			now.age, now.set = other.age, other.set
		case other.age != 0:
			now.age = min(had.age, other.age)
			if other.set != had.set {
				now.set = ""
			}
		}
		if now != had {
			into[r], news = now, true
		}
	}
	return news
}

// wrong notes the fault with the lowest line.
func (p *products) wrong(pc int, fault string) {
	if p.fault == "" || p.k.Code[pc].Line < p.k.Code[p.at].Line {
		p.at, p.fault = pc, fault
	}
}

// pass changes the state by an instruction.
func (p *products) pass(pc int, state map[int]flight) {
	s, ok := p.steps[pc]
	if !ok {
		p.ordinary(pc, state)
		return
	}
	if s.Kind == Product {
		p.product(pc, s, state)
		return
	}
	for r, f := range state {
		switch {
		case s.Kind == Fence:
			f.touched = false
		case s.Kind == Commit && f.age > 0:
			f.age = min(f.age+1, oldest)
		case s.Kind == Wait && int(f.age) >= s.Keep+2:
			f.age, f.set = 0, ""
		}
		state[r] = f
	}
}

// ordinary is an instruction that is no part of products.
func (p *products) ordinary(pc int, state map[int]flight) {
	for _, list := range [][]int{p.uses[pc].Reads, p.uses[pc].Writes} {
		for _, r := range list {
			f, used := state[r]
			if !used {
				continue
			}
			if f.age > 0 {
				p.wrong(pc, "a register of a product that is not waited for is touched")
			}
			f.touched = true
			state[r] = f
		}
	}
}

// product begins one.
func (p *products) product(pc int, s Step, state map[int]flight) {
	for i, r := range slices.Concat(s.Sums, s.A) {
		f, set := state[r], s.Set
		if i >= len(s.Sums) {
			set = ofFactors
		}
		switch {
		case f.touched:
			p.wrong(pc, "a register of a product was touched since the last wgmma.fence")
		case f.age > 0 && f.set != set:
			p.wrong(pc, "a register of a product that is not waited for becomes one of another")
		}
		state[r] = flight{age: 1, set: set}
	}
}
