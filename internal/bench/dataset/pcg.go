package dataset

import (
	"fmt"
	"math/bits"
)

// PCG64 draws what numpy's default_rng draws: PCG-XSL-RR with 128 bits of state,
// seeded through SeedSequence (bench.md 2.1c).
type PCG64 struct {
	high, low       uint64 // state
	incHigh, incLow uint64
	half            uint32 // of the last number, comes next
	held            bool   // half is there
}

// NewPCG64 returns default_rng(seed), which takes no negative seed.
func NewPCG64(seed int64) (*PCG64, error) {
	if seed < 0 {
		return nil, fmt.Errorf("--seed %d: numpy's generator takes 0 and above", seed)
	}
	w := seedWords(uint64(seed))
	g := &PCG64{incHigh: w[2]<<1 | w[3]>>63, incLow: w[3]<<1 | 1}
	g.step()
	var carry uint64
	g.low, carry = bits.Add64(g.low, w[1], 0)
	g.high, _ = bits.Add64(g.high, w[0], carry)
	g.step()
	return g, nil
}

// seedWords is SeedSequence(seed).generate_state(4, uint64).
func seedWords(seed uint64) [4]uint64 {
	const pools = 4
	h := uint32(0x43b0d7e5)
	hash := func(v, by uint32) uint32 {
		v ^= h
		h *= by
		v *= h
		return v ^ v>>16
	}
	var pool [pools]uint32
	entropy := [pools]uint32{uint32(seed), uint32(seed >> 32)}
	for i := range pool {
		pool[i] = hash(entropy[i], 0x931e8875)
	}
	for src := range pool {
		for dst := range pool {
			if src == dst {
				continue
			}
			r := 0xca01f9dd*pool[dst] - 0x4973f715*hash(pool[src], 0x931e8875)
			pool[dst] = r ^ r>>16
		}
	}
	h = 0x8b51f9dd
	var out [4]uint64
	for i := range 2 * len(out) {
		out[i/2] |= uint64(hash(pool[i%pools], 0x58f38ded)) << (32 * (i % 2))
	}
	return out
}

// step moves the state on: state·multiplier + increment modulo 2^128.
func (g *PCG64) step() {
	const mulHigh, mulLow = 0x2360ed051fc65da4, 0x4385df649fccf645
	high, low := bits.Mul64(g.low, mulLow)
	high += g.high*mulLow + g.low*mulHigh
	var carry uint64
	g.low, carry = bits.Add64(low, g.incLow, 0)
	g.high, _ = bits.Add64(high, g.incHigh, carry)
}

// Uint64 returns the next 64 bits.
func (g *PCG64) Uint64() uint64 {
	g.step()
	return bits.RotateLeft64(g.high^g.low, -int(g.high>>58))
}

// uint32 returns the low half of the next 64 bits, and then the high one.
func (g *PCG64) uint32() uint32 {
	if g.held {
		g.held = false
		return g.half
	}
	v := g.Uint64()
	g.half, g.held = uint32(v>>32), true
	return uint32(v)
}

// Integers is integers(low, high): at least low, below high; high-low is 1 to 2^32-1
// (Lemire's method).
func (g *PCG64) Integers(low, high int) int {
	n := uint32(high - low)
	if n == 1 {
		return low
	}
	m := uint64(g.uint32()) * uint64(n)
	for uint32(m) < -n%n { // 2^32 modulo n
		m = uint64(g.uint32()) * uint64(n)
	}
	return low + int(m>>32)
}
