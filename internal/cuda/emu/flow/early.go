package flow

import (
	"slices"

	"ossian/internal/cuda/emu/exec"
)

// Early says of each register whether some path reads it before that path has surely set it, for the
// lane that takes the path: what the register holds when a kernel begins may then matter, and cannot
// for all others. A guarded instruction sets nothing surely. Registers are numbered from 0.
func Early(k *exec.Kernel, uses []Use, registers int) (early []bool) {
	early = make([]bool, registers)
	check := false
	w := &walk[[]uint64]{k: k, copied: slices.Clone[[]uint64], join: intersectSets}
	w.pass = func(pc int, set []uint64) {
		for _, r := range uses[pc].Reads {
			early[r] = early[r] || (check && set[r/64]>>(r%64)&1 == 0)
		}
		if k.Code[pc].Guard >= 0 {
			return
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
	return early
}

// intersectSets leaves what another set has too.
func intersectSets(into, from []uint64) (news bool) {
	for i, v := range from {
		news = news || into[i]&^v != 0
		into[i] &= v
	}
	return news
}
