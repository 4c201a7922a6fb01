package dataset

import (
	"fmt"
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
	w := start
	quarter := func(a, b, c, d int) {
		w[a] += w[b]
		w[d] = bits.RotateLeft32(w[d]^w[a], 16)
		w[c] += w[d]
		w[b] = bits.RotateLeft32(w[b]^w[c], 12)
		w[a] += w[b]
		w[d] = bits.RotateLeft32(w[d]^w[a], 8)
		w[c] += w[d]
		w[b] = bits.RotateLeft32(w[b]^w[c], 7)
	}
	for range 12 / 2 {
		for i := range 4 {
			quarter(i, 4+i, 8+i, 12+i)
		}
		for i := range 4 {
			quarter(i, 4+(i+1)%4, 8+(i+2)%4, 12+(i+3)%4)
		}
	}
	for i := range w {
		g.block[i] = w[i] + start[i]
	}
	g.counter, g.next = g.counter+1, 0
}

// Float64 is random::<f64>(), a number in [0, 1).
func (g *Rust) Float64() float64 {
	low := uint64(g.Uint32())
	return float64((uint64(g.Uint32())<<32|low)>>11) / (1 << 53)
}

// Below is random_range(0..n); n is 1 to 2^32-1.
func (g *Rust) Below(n int) int {
	high, low := bits.Mul32(g.Uint32(), uint32(n))
	if low > -uint32(n) {
		more, _ := bits.Mul32(g.Uint32(), uint32(n))
		_, carry := bits.Add32(low, more, 0)
		high += carry
	}
	return int(high)
}

// within is random_range(low..=high) where there is a choice, and draws nothing else.
func (g *Rust) within(s span) int {
	if s.low == s.high {
		return s.low
	}
	return s.low + g.Below(s.high-s.low+1)
}

// Shuffle is shuffle of n things. One draw serves as many steps as its 32 bits do.
func (g *Rust) Shuffle(n int, swap func(i, j int)) {
	chunk, left := 0, 1
	for i := range n {
		if left == 0 {
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

// rust is what the compiled client does otherwise with its tokenizer: added tokens
// that are no control tokens may be drawn, control tokens are not decoded.
type rust struct {
	*coder
	ids  int     // with added tokens
	pool []int32 // ids to draw from
}

func newRust(c *coder) *rust {
	r := &rust{coder: c, ids: c.bpe.Vocab()}
	for r.ids > 0 && c.bpe.Text(int32(r.ids-1)) == "" {
		r.ids--
	}
	for id := range int32(r.ids) {
		if !c.bpe.IsControl(id) && c.bpe.Text(id) != "" {
			r.pool = append(r.pool, id)
		}
	}
	return r
}

func (r *rust) decode(ids []int32) string {
	shown := make([]int32, 0, len(ids))
	for _, id := range ids {
		if !r.bpe.IsControl(id) {
			shown = append(shown, id)
		}
	}
	return r.bpe.Decode(shown)
}

// exact returns want random ids whose text encodes to as many.
func (r *rust) exact(seed int64, want int) ([]int32, error) {
	g, ids := NewRust(uint64(seed)), make([]int32, want)
	for i := range ids {
		ids[i] = r.pool[g.Below(len(r.pool))]
	}
	if ids = r.refit(ids, want); len(ids) != want {
		return nil, fmt.Errorf("no text of %d random tokens encodes to as many; take another length or --prompt-token-ids", want)
	}
	return ids, nil
}

// refit decodes and encodes ids until there are want, if 21 times are enough.
func (r *rust) refit(ids []int32, want int) []int32 {
	for left := 20; ; left-- {
		ids = r.encode(r.decode(ids))
		if left == 0 || len(ids) == want {
			return ids
		}
		for j := 0; len(ids) < want; j++ {
			ids = append(ids, r.pool[(len(ids)+j)%len(r.pool)])
		}
		ids = ids[:want]
	}
}

// randomRust follows vLLM's compiled client.
func randomRust(o *RandomOptions, in, out span, c *coder) ([]Query, error) {
	r, g := newRust(c), NewRust(uint64(o.Seed))
	cached, shared := o.CacheHits > 0 && o.CacheShare > 0, o.Prefix
	if cached {
		shared = int(math.Ceil(float64(in.high) * o.CacheShare))
	}
	prefix, err := r.exact(o.Seed+0xdead, shared)
	if err != nil {
		return nil, err
	}
	queries := make([]Query, o.Prompts)
	for i := range queries {
		output, offset, own := g.within(out), g.Below(r.ids), g.within(in)
		if cached {
			shared = 0
			if g.Float64() < o.CacheHits {
				shared = min(int(math.Round(float64(own)*o.CacheShare)), len(prefix))
			}
			own -= shared
		}
		ids := append(make([]int32, 0, shared+own), prefix[:shared]...)
		for j := range own {
			ids = append(ids, r.pool[(offset+i+j)%len(r.pool)])
		}
		q := Query{IDs: ids, Input: len(ids), Output: output, ID: o.id(i)}
		if !o.IDs {
			ids = r.encode(r.decode(ids))
			ids = ids[:min(len(ids), shared+own)]
			q.IDs, q.Prompt, q.Input = nil, r.decode(ids), len(ids)
		}
		queries[i] = q
	}
	return queries, nil
}

// prefixRust follows vLLM's compiled client.
func prefixRust(o *PrefixRepetitionOptions, each int, c *coder) ([]Query, error) {
	r, queries := newRust(c), make([]Query, each*o.Prefixes)
	var prefix []int32
	for i := range queries {
		var err error
		if i%each == 0 {
			if prefix, err = r.exact(o.Seed+0xf1f0+int64(i/each), o.Prefix); err != nil {
				return nil, err
			}
		}
		suffix, err := r.exact(o.Seed+0xbeef+int64(i), o.Suffix)
		if err != nil {
			return nil, err
		}
		ids := append(prefix[:len(prefix):len(prefix)], suffix...)
		queries[i] = Query{Prompt: r.decode(ids), Input: len(ids), Output: o.Output, ID: o.id(i)}
	}
	return queries, nil
}
