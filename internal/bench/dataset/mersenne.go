package dataset

import (
	"fmt"
	"math"
	"math/bits"
)

// twister is the Mersenne Twister MT19937 (Matsumoto and Nishimura 1998), which
// CPython and numpy's legacy generator both draw from.
type twister struct {
	key  [624]uint32
	next int // word of key that comes next; 624 = they are used up
}

// init seeds t with one word (init_genrand).
func (t *twister) init(seed uint32) {
	for i := range t.key {
		t.key[i] = seed
		seed = 1812433253*(seed^seed>>30) + uint32(i) + 1
	}
	t.next = len(t.key)
}

// initArray seeds t with several words (init_by_array).
func (t *twister) initArray(words []uint32) {
	t.init(19650218)
	// i goes over the key from its second word on and begins again there, j over the words;
	// the first word of the key repeats the last.
	i, j := 1, 0
	last := func() uint32 { return t.key[i-1] ^ t.key[i-1]>>30 }
	step := func() {
		if i++; i == len(t.key) {
			t.key[0], i = t.key[i-1], 1
		}
	}
	for range max(len(t.key), len(words)) {
		t.key[i] = (t.key[i] ^ last()*1664525) + words[j] + uint32(j)
		step()
		j = (j + 1) % len(words)
	}
	for range len(t.key) - 1 {
		t.key[i] = (t.key[i] ^ last()*1566083941) - uint32(i)
		step()
	}
	t.key[0] = 1 << 31
}

// uint32 returns the next 32 bits: a word of the key, tempered.
func (t *twister) uint32() uint32 {
	if t.next == len(t.key) {
		t.twist()
	}
	y := t.key[t.next]
	t.next++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

// twist makes the next 624 words.
func (t *twister) twist() {
	const n, m = len(t.key), 397
	for i := range t.key {
		y := t.key[i]&(1<<31) | t.key[(i+1)%n]&(1<<31-1)
		t.key[i] = t.key[(i+m)%n] ^ y>>1 ^ y&1*0x9908b0df
	}
	t.next = 0
}

// float64 returns a number in [0, 1) of 53 bits.
func (t *twister) float64() float64 {
	high := uint64(t.uint32() >> 5)
	return float64(high<<26|uint64(t.uint32()>>6)) / (1 << 53)
}

// Python draws what CPython's module random draws (bench.md 2.1a). It belongs to one
// goroutine, like the generators below.
type Python struct{ t twister }

// NewPython returns the generator after random.seed(seed).
func NewPython(seed int64) *Python {
	size := uint64(seed)
	if seed < 0 {
		size = -size
	}
	words := []uint32{uint32(size), uint32(size >> 32)}
	if words[1] == 0 {
		words = words[:1]
	}
	var g Python
	g.t.initArray(words)
	return &g
}

// Uint32 is getrandbits(32).
func (g *Python) Uint32() uint32 { return g.t.uint32() }

// Float64 is random(), a number in [0, 1).
func (g *Python) Float64() float64 { return g.t.float64() }

// Below is randrange(count), the index that choice takes of so many things; count is 1 to
// 2^32-1. It draws again while a number of as many bits is too large.
func (g *Python) Below(count int) int {
	shift := 32 - bits.Len32(uint32(count))
	for {
		if v := int(g.t.uint32() >> shift); v < count {
			return v
		}
	}
}

// Pick is the index that choices takes of so many things, each time it takes one.
func (g *Python) Pick(count int) int { return int(g.t.float64() * float64(count)) }

// Shuffle is shuffle of so many things.
func (g *Python) Shuffle(count int, swap func(i, j int)) {
	for i := count - 1; i > 0; i-- {
		swap(i, g.Below(i+1))
	}
}

// Sample is sample(range(count), size): so many different indices in the order in which they are
// drawn; size is 0 to count.
func (g *Python) Sample(count, size int) []int {
	// Of few, CPython draws from a list whose end takes the place of what is drawn; of many, again
	// and again until the index is a new one. What counts as few is its estimate of the memory.
	few := 21
	if size > 5 {
		for power := 1; ; power *= 4 {
			if power >= size*3 {
				few += power
				break
			}
		}
	}
	drawn := make([]int, size)
	if count <= few {
		pool := make([]int, count)
		for i := range pool {
			pool[i] = i
		}
		for i := range drawn {
			j := g.Below(count - i)
			drawn[i], pool[j] = pool[j], pool[count-i-1]
		}
		return drawn
	}
	taken := map[int]bool{}
	for i := range drawn {
		j := g.Below(count)
		for taken[j] {
			j = g.Below(count)
		}
		taken[j], drawn[i] = true, j
	}
	return drawn
}

// Legacy draws what numpy's global functions draw, np.random.seed and so on (bench.md
// 2.1b). Real numbers can differ from numpy's in the last bits, as logarithms do from
// one C library to the next.
type Legacy struct {
	t     twister
	spare float64 // drawn too early, comes next
	held  bool    // gauss is there
}

// NewLegacy returns the generator after np.random.seed(seed), which takes 0 to 2^32-1.
func NewLegacy(seed int64) (*Legacy, error) {
	if seed < 0 || seed > math.MaxUint32 {
		return nil, fmt.Errorf("--seed %d: numpy's generator takes 0 to %d", seed, uint32(math.MaxUint32))
	}
	var g Legacy
	g.t.init(uint32(seed))
	return &g, nil
}

// Float64 is random_sample(), a number in [0, 1).
func (g *Legacy) Float64() float64 { return g.t.float64() }

// Randint is randint(low, high): at least low, below high; high-low is 1 to 2^32.
func (g *Legacy) Randint(low, high int) int {
	span := uint32(high - low - 1)
	if span == 0 {
		return low
	}
	mask := uint32(1)<<bits.Len32(span) - 1
	for {
		if v := g.t.uint32() & mask; v <= span {
			return low + int(v)
		}
	}
}

// Permutation is permutation(count): 0 to count-1 in random order.
func (g *Legacy) Permutation(count int) []int {
	list := make([]int, count)
	for i := range list {
		list[i] = i
	}
	for i := count - 1; i > 0; i-- {
		j := g.Randint(0, i+1)
		list[i], list[j] = list[j], list[i]
	}
	return list
}

// exponential is exponential(), which gamma of shape 1 is too.
func (g *Legacy) exponential() float64 { return -math.Log(1 - g.t.float64()) }

// Gamma is gamma(shape, scale): Marsaglia and Tsang's method above shape 1 ("A simple method
// for generating gamma variables", 2000), with their names. Products are rounded before they are added to, so that
// no processor contracts them and draws something else.
func (g *Legacy) Gamma(shape, scale float64) float64 {
	switch {
	case shape == 0:
		return 0
	case shape < 1:
		return g.gammaSmall(shape) * scale
	case shape == 1:
		return g.exponential() * scale
	}
	b := shape - 1.0/3
	c := 1 / math.Sqrt(9*b)
	for {
		x, v := 0.0, 0.0
		for v <= 0 {
			x = g.normal()
			v = 1 + float64(c*x)
		}
		v *= v * v
		// The first bound is cheap and lets nearly all through, the logarithm decides the rest.
		u := g.t.float64()
		if u < 1-float64(float64(0.0331*float64(x*x))*float64(x*x)) ||
			math.Log(u) < float64(0.5*x*x)+float64(b*(1-v+math.Log(v))) {
			return b * v * scale
		}
	}
}

// gammaSmall draws for shapes below 1, by rejection.
func (g *Legacy) gammaSmall(shape float64) float64 {
	for {
		u, v := g.t.float64(), g.exponential()
		if u <= 1-shape {
			if x := math.Pow(u, 1/shape); x <= v {
				return x
			}
			continue
		}
		y := -math.Log((1 - u) / shape)
		if x := math.Pow(1-shape+float64(shape*y), 1/shape); x <= v+y {
			return x
		}
	}
}

// normal draws from the normal distribution by the polar method, two at a time.
func (g *Legacy) normal() float64 {
	if g.held {
		g.held = false
		return g.spare
	}
	for {
		x1, x2 := 2*g.t.float64()-1, 2*g.t.float64()-1
		r := float64(x1*x1) + float64(x2*x2)
		if r >= 1 || r == 0 {
			continue
		}
		f := math.Sqrt(-2 * math.Log(r) / r)
		g.spare, g.held = f*x1, true
		return f * x2
	}
}
