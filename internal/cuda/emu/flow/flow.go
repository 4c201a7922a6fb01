// Package flow follows the paths through a kernel before it runs, and finds what goes wrong with
// registers on one of them: reads of what nothing has set, and registers of products that are touched
// while those are under way. It also says which registers have to begin as poison, so that the others
// need not. It knows registers as numbers and nothing of PTX.
package flow

import "ossian/internal/cuda/emu/exec"

// A Use is what an instruction reads and writes.
type Use struct{ Reads, Writes []int }

// A walk carries a state along all paths until it does not change any more.
type walk[S any] struct {
	k      *exec.Kernel
	copied func(S) S
	join   func(into, from S) bool // adds what is so on another path, and says whether that was news
	pass   func(pc int, state S)   // changes the state by an instruction
	starts []bool                  // where branches lead
	states map[int]S               // by beginning of a stretch without branches
	work   []int                   // beginnings whose state has changed
}

// run follows all paths from the beginning of the kernel.
func (w *walk[S]) run(start S) {
	w.starts, w.states = make([]bool, len(w.k.Code)+1), map[int]S{}
	for i := range w.k.Code {
		if in := &w.k.Code[i]; in.Kind == exec.Branch {
			for _, to := range append(in.Targets, in.Target) {
				w.starts[to] = true
			}
		}
	}
	w.reach(0, start)
	for len(w.work) > 0 {
		pc := w.work[len(w.work)-1]
		w.work = w.work[:len(w.work)-1]
		w.follow(pc)
	}
}

// reach brings a state to a beginning.
func (w *walk[S]) reach(pc int, state S) {
	if known, ok := w.states[pc]; !ok {
		w.states[pc] = w.copied(state)
	} else if !w.join(known, state) {
		return
	}
	w.work = append(w.work, pc)
}

// follow goes on from a beginning to where the code branches or meets another one. Guarded
// instructions count as executed, and as passed by.
func (w *walk[S]) follow(pc int) {
	state := w.copied(w.states[pc])
	for first := true; pc < len(w.k.Code); pc, first = pc+1, false {
		if !first && w.starts[pc] {
			w.reach(pc, state)
			return
		}
		in := &w.k.Code[pc]
		w.pass(pc, state)
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
				w.reach(next, state)
			}
			if in.Guard < 0 {
				return
			}
		}
	}
}
