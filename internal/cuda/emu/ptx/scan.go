package ptx

import (
	"fmt"

	"ossian/internal/cuda/emu/exec"
)

// A scanner follows which registers may have been written at each instruction of a kernel.
type scanner struct {
	k      *exec.Kernel
	uses   []use
	starts []bool           // where branches lead
	sets   map[int][]uint64 // by beginning of a stretch without branches: registers, a bit each
	work   []int            // beginnings whose set has grown
}

// scan finds reads of registers that no path has set before. The first such read is an error.
func scan(k *exec.Kernel, uses []use) *Error {
	s := &scanner{k: k, uses: uses, starts: make([]bool, len(k.Code)+1), sets: map[int][]uint64{}}
	for i := range k.Code {
		if in := &k.Code[i]; in.Kind == exec.Branch {
			for _, to := range append(in.Targets, in.Target) {
				s.starts[to] = true
			}
		}
	}
	s.merge(0, make([]uint64, (len(k.Regs32)+len(k.Regs64)+k.Preds+63)/64))
	for len(s.work) > 0 {
		pc := s.work[len(s.work)-1]
		s.work = s.work[:len(s.work)-1]
		s.pass(pc, func(int, []uint64) {})
	}
	var found *Error
	for pc := range s.sets {
		s.pass(pc, func(at int, set []uint64) {
			in := &k.Code[at]
			for _, r := range uses[at].reads {
				if n := s.index(r); set[n/64]>>(n%64)&1 == 0 && (found == nil || in.Line < found.Line) {
					found = &Error{in.Line, fmt.Sprintf("a register is read that nothing has set before: %s", in.Text)}
				}
			}
		})
	}
	return found
}

// index returns the bit of a register.
func (s *scanner) index(r reg) int {
	switch r.bits {
	case 1:
		return r.n
	case 64:
		return s.k.Preds + r.n
	}
	return s.k.Preds + len(s.k.Regs64) + r.n
}

// merge adds what is set on one of the ways to a beginning.
func (s *scanner) merge(pc int, from []uint64) {
	set, known := s.sets[pc]
	if !known {
		set = make([]uint64, len(from))
		s.sets[pc] = set
	}
	grew := !known
	for i, v := range from {
		grew = grew || v&^set[i] != 0
		set[i] |= v
	}
	if grew {
		s.work = append(s.work, pc)
	}
}

// pass follows the code from a beginning to where it branches or meets another one. Guarded
// instructions count as executed.
func (s *scanner) pass(pc int, visit func(at int, set []uint64)) {
	set := append([]uint64(nil), s.sets[pc]...)
	for first := true; pc < len(s.k.Code); pc, first = pc+1, false {
		if !first && s.starts[pc] {
			s.merge(pc, set)
			return
		}
		in := &s.k.Code[pc]
		visit(pc, set)
		for _, r := range s.uses[pc].writes {
			n := s.index(r)
			set[n/64] |= 1 << (n % 64)
		}
		if in.Kind != exec.Branch {
			if in.Kind == exec.Leave && in.Guard < 0 {
				return
			}
			continue
		}
		to := in.Targets
		if to == nil {
			to = []int{in.Target}
		}
		for _, pc := range to {
			s.merge(pc, set)
		}
		if in.Guard < 0 {
			return
		}
	}
}
