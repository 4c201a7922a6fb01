package flow

import (
	"slices"

	"ossian/internal/cuda/emu/exec"
)

// Unset finds the instruction with the lowest line that reads a register which no path has set before;
// -1 is none. Registers are numbered from 0.
func Unset(k *exec.Kernel, uses []Use, registers int) (found int) {
	found = -1
	check := false
	w := &walk[[]uint64]{k: k, copied: slices.Clone[[]uint64], join: joinSets}
	w.pass = func(pc int, set []uint64) {
		for _, r := range uses[pc].Reads {
			if check && set[r/64]>>(r%64)&1 == 0 && (found < 0 || k.Code[pc].Line < k.Code[found].Line) {
				found = pc
			}
		}
		for _, r := range uses[pc].Writes {
			set[r/64] |= 1 << (r % 64)
		}
	}
	w.run(make([]uint64, (registers+63)/64))
	check = true // now that sets are what they will be
	for pc := range w.states {
		w.follow(pc)
	}
	return found
}

// joinSets adds a set to another one.
func joinSets(into, from []uint64) (news bool) {
	for i, v := range from {
		news = news || v&^into[i] != 0
		into[i] |= v
	}
	return news
}
