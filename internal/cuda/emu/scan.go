package emu

// A scanner follows which registers may have been written at each instruction of a kernel.
type scanner struct {
	k      *kernel
	starts []bool           // where branches lead
	sets   map[int][]uint64 // by beginning of a stretch without branches: registers, a bit each
	work   []int            // beginnings whose set has grown
}

// scan finds reads of registers that no path has set before. The first such read is an error.
func (k *kernel) scan() *parseError {
	s := &scanner{k: k, starts: make([]bool, len(k.code)+1), sets: map[int][]uint64{}}
	for i := range k.code {
		if in := &k.code[i]; in.kind == branch {
			for _, to := range append(in.targets, in.target) {
				s.starts[to] = true
			}
		}
	}
	s.merge(0, make([]uint64, (len(k.regs32)+len(k.regs64)+k.preds+63)/64))
	for len(s.work) > 0 {
		pc := s.work[len(s.work)-1]
		s.work = s.work[:len(s.work)-1]
		s.pass(pc, func(*inst, []uint64) {})
	}
	var found *parseError
	for pc := range s.sets {
		s.pass(pc, func(in *inst, set []uint64) {
			for _, r := range in.reads {
				if n := s.index(r); set[n/64]>>(n%64)&1 == 0 && (found == nil || in.line < found.line) {
					found = &parseError{in.line, describe("a register is read that nothing has set before: %s", in.text)}
				}
			}
		})
	}
	for i := range k.code {
		k.code[i].reads, k.code[i].writes = nil, nil
	}
	return found
}

// index returns the bit of a register.
func (s *scanner) index(r reg) int {
	switch r.bits {
	case 1:
		return r.n
	case 64:
		return s.k.preds + r.n
	}
	return s.k.preds + len(s.k.regs64) + r.n
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
func (s *scanner) pass(pc int, visit func(in *inst, set []uint64)) {
	set := append([]uint64(nil), s.sets[pc]...)
	for first := true; pc < len(s.k.code); pc, first = pc+1, false {
		if !first && s.starts[pc] {
			s.merge(pc, set)
			return
		}
		in := &s.k.code[pc]
		visit(in, set)
		for _, r := range in.writes {
			n := s.index(r)
			set[n/64] |= 1 << (n % 64)
		}
		if in.kind != branch {
			if in.kind == leave && in.guard < 0 {
				return
			}
			continue
		}
		to := in.targets
		if to == nil {
			to = []int{in.target}
		}
		for _, pc := range to {
			s.merge(pc, set)
		}
		if in.guard < 0 {
			return
		}
	}
}
