package sample

import "math/bits"

// Randomness without a state: a draw is a function of seed and step, so that it is the
// same whatever else is in the batch, after a preemption and on every machine.

// Draw returns the 64 random bits of (seed, step): the first half of a block of
// Philox4x32-10 with key seed and counter step. Salmon et al., "Parallel random
// numbers: as easy as 1, 2, 3", SC 2011.
func Draw(seed, step uint64) uint64 {
	out := philox([4]uint32{uint32(step), uint32(step >> 32)}, [2]uint32{uint32(seed), uint32(seed >> 32)})
	return uint64(out[0]) | uint64(out[1])<<32
}

// philox is the bijection of counters that a key selects: ten rounds of two
// multiplications whose halves change places, with the key's Weyl sequence between them.
// The constants are the paper's.
func philox(counter [4]uint32, key [2]uint32) [4]uint32 {
	for range 10 {
		hi0, lo0 := bits.Mul32(0xD2511F53, counter[0])
		hi1, lo1 := bits.Mul32(0xCD9E8D57, counter[2])
		counter = [4]uint32{hi1 ^ counter[1] ^ key[0], lo1, hi0 ^ counter[3] ^ key[1], lo0}
		key[0] += 0x9E3779B9
		key[1] += 0xBB67AE85
	}
	return counter
}
