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
	spare           uint32 // of the last number, comes next
	held            bool   // half is there
}

// NewPCG64 returns default_rng(seed), which takes no negative seed.
func NewPCG64(seed int64) (*PCG64, error) {
	if seed < 0 {
		return nil, fmt.Errorf("--seed %d: numpy's generator takes 0 and above", seed)
	}
	words := seedWords(uint64(seed))
	g := &PCG64{incHigh: words[2]<<1 | words[3]>>63, incLow: words[3]<<1 | 1}
	g.step()
	var carry uint64
	g.low, carry = bits.Add64(g.low, words[1], 0)
	g.high, _ = bits.Add64(g.high, words[0], carry)
	g.step()
	return g, nil
}

// seedWords is SeedSequence(seed).generate_state(4, uint64).
func seedWords(seed uint64) [4]uint64 {
	const pools = 4
	// The factor changes with every use, so equal words become different ones.
	factor := uint32(0x43b0d7e5)
	hash := func(value, by uint32) uint32 {
		value ^= factor
		factor *= by
		value *= factor
		return value ^ value>>16
	}
	var pool [pools]uint32
	entropy := [pools]uint32{uint32(seed), uint32(seed >> 32)}
	for i := range pool {
		pool[i] = hash(entropy[i], 0x931e8875)
	}
	for src := range pool { // each word is mixed into all others
		for dst := range pool {
			if src == dst {
				continue
			}
			mixed := 0xca01f9dd*pool[dst] - 0x4973f715*hash(pool[src], 0x931e8875)
			pool[dst] = mixed ^ mixed>>16
		}
	}
	factor = 0x8b51f9dd // another sequence for what goes out
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
		return g.spare
	}
	word := g.Uint64()
	g.spare, g.held = uint32(word>>32), true
	return uint32(word)
}

// Integers is integers(low, high): at least low, below high; high-low is 1 to 2^32-1
// (Lemire's method).
func (g *PCG64) Integers(low, high int) int {
	width := uint32(high - low)
	if width == 1 {
		return low
	}
	product := uint64(g.uint32()) * uint64(width)
	for uint32(product) < -width%width { // 2^32 modulo n
		product = uint64(g.uint32()) * uint64(width)
	}
	return low + int(product>>32)
}
