package dataset

import (
	"math"
	"math/bits"
)

// Rust draws what StdRng of Rust's rand 0.9 draws, on which vLLM's compiled client is
// built: ChaCha with 12 rounds.
type Rust struct {
	key     [8]uint32
	counter uint64 // of blocks
	block   [16]uint32
	next    int // word of block that comes next
}

// NewRust returns StdRng::seed_from_u64(seed).
func NewRust(seed uint64) *Rust {
	g := &Rust{next: 16}
	for i := range g.key { // the key is the output of a PCG32
		seed = seed*6364136223846793005 + 11634580027462260723
		g.key[i] = bits.RotateLeft32(uint32((seed>>18^seed)>>27), -int(seed>>59))
	}
	return g
}

// Uint32 returns the next 32 bits.
func (g *Rust) Uint32() uint32 {
	if g.next == len(g.block) {
		g.fill()
	}
	g.next++
	return g.block[g.next-1]
}

// fill makes the next block (RFC 8439, with 12 rounds and a counter of 64 bits).
func (g *Rust) fill() {
	start := [16]uint32{0x61707865, 0x3320646e, 0x79622d32, 0x6b206574}
	copy(start[4:], g.key[:])
	start[12], start[13] = uint32(g.counter), uint32(g.counter>>32)
	state := start // the state that the rounds change; start is added in the end
	quarter := func(a, b, c, d int) {
		state[a] += state[b]
		state[d] = bits.RotateLeft32(state[d]^state[a], 16)
		state[c] += state[d]
		state[b] = bits.RotateLeft32(state[b]^state[c], 12)
		state[a] += state[b]
		state[d] = bits.RotateLeft32(state[d]^state[a], 8)
		state[c] += state[d]
		state[b] = bits.RotateLeft32(state[b]^state[c], 7)
	}
	for range 12 / 2 {
		for i := range 4 { // columns, then diagonals
			quarter(i, 4+i, 8+i, 12+i)
		}
		for i := range 4 {
			quarter(i, 4+(i+1)%4, 8+(i+2)%4, 12+(i+3)%4)
		}
	}
	for i := range state {
		g.block[i] = state[i] + start[i]
	}
	g.counter, g.next = g.counter+1, 0
}

// Float64 is random::<f64>(), a number in [0, 1).
func (g *Rust) Float64() float64 {
	low := uint64(g.Uint32())
	return float64((uint64(g.Uint32())<<32|low)>>11) / (1 << 53)
}

// Below is random_range(0..count); count is 1 to 2^32-1. A product is cut; where its lower
// half is so large that a longer draw might carry into the upper one, that is made up for.
func (g *Rust) Below(count int) int {
	high, low := bits.Mul32(g.Uint32(), uint32(count))
	if low > -uint32(count) {
		more, _ := bits.Mul32(g.Uint32(), uint32(count))
		_, carry := bits.Add32(low, more, 0)
		high += carry
	}
	return int(high)
}

// within is random_range(low..=high) where there is a choice, and draws nothing else.
func (g *Rust) within(within span) int {
	if within.low == within.high {
		return within.low
	}
	return within.low + g.Below(within.high-within.low+1)
}

// Shuffle is shuffle of so many things. One draw serves as many steps as its 32 bits do.
func (g *Rust) Shuffle(count int, swap func(i, j int)) {
	chunk, left := 0, 1 // what is left of a draw, and for how many steps
	for i := range count {
		if left == 0 { // as many of the coming bounds as their product stays below 2^32
			bound, last := i+1, i+2
			for ; bound*last <= math.MaxUint32; last++ {
				bound *= last
			}
			chunk, left = g.Below(bound), last-i-1
		}
		j := chunk % (i + 1)
		if left--; left == 0 {
			j = chunk
		}
		chunk /= i + 1
		swap(i, j)
	}
}
