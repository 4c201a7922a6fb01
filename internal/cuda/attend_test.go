package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"ossian/internal/cuda/driver"
	"ossian/internal/tensor"
)

// An attendCase is a shape of attention and its cache.
type attendCase struct {
	headShape
	window       int
	codes, sinks bool
}

func (c *attendCase) String() string {
	return fmt.Sprintf("%dx%dx%d/block=%d/window=%d/codes=%v/sinks=%v", c.heads, c.kvHeads, c.dim, c.blockSize, c.window, c.codes, c.sinks)
}

// An attendSeq is what attention reads of a sequence: float32 rows of each token, as rotation and
// products leave them.
type attendSeq struct {
	tokens       int
	q, k, v      []float32 // [tokens][heads·dim], [tokens][kvHeads·dim]
	keys, values []float64 // as the cache keeps k and v
}

// newSeq makes a sequence of random queries, keys and values.
func (c *attendCase) newSeq(rng *rand.Rand, tokens int) attendSeq {
	seq := attendSeq{tokens: tokens, q: normal(rng, tokens*c.heads*c.dim, 1.5), k: normal(rng, tokens*c.kvHeads*c.dim, 1), v: normal(rng, tokens*c.kvHeads*c.dim, 1)}
	for i := 0; i < len(seq.k); i += c.dim {
		seq.keys, seq.values = append(seq.keys, c.cached(seq.k[i:][:c.dim])...), append(seq.values, c.cached(seq.v[i:][:c.dim])...)
	}
	return seq
}

// An attendSpan is the next tokens of a sequence.
type attendSpan struct{ seq, tokens int }

// An attendBench is a cache on the device with some sequences in it. Blocks are handed out in random
// order; those that no later token sees are taken back, and their ids with them. Nothing in the pool
// is written before a token is stored there, and the emulator refuses to read it. Block 0 is never
// handed out: what the kernels do not read is addressed there.
type attendBench struct {
	*rig
	attendCase
	rng      *rand.Rand
	seqs     []attendSeq
	done     []int     // tokens stored, by sequence
	tables   [][]int32 // by sequence
	free     []int32
	layer    kvLayer
	scratch  driver.Ptr
	sinks    []float32
	sinksPtr driver.Ptr
}

func newAttendBench(r *rig, c attendCase, seqs []attendSeq, seed uint64) *attendBench {
	b := &attendBench{rig: r, attendCase: c, rng: rand.New(rand.NewPCG(7, seed)), seqs: seqs, done: make([]int, len(seqs)), tables: make([][]int32, len(seqs))}
	blocks, longest := 3, 0
	for _, seq := range seqs {
		blocks += int(ceilDiv(seq.tokens, c.blockSize))
		longest = max(longest, seq.tokens)
	}
	for _, id := range b.rng.Perm(blocks) {
		b.free = append(b.free, int32(id)+1)
	}
	vectors, scales := c.kvBytes(1+blocks, c.codes)
	b.layer = kvLayer{keys: r.alloc(vectors), values: r.alloc(vectors), window: c.window}
	if c.codes {
		b.layer.keyScales, b.layer.valueScales = r.alloc(scales), r.alloc(scales)
	}
	if c.sinks {
		b.sinks = normal(rand.New(rand.NewPCG(7, 7)), c.heads, 3)
		b.sinksPtr = upload(r, b.sinks)
	}
	b.scratch = r.alloc(c.attendScratch(len(seqs), longest))
	return b
}

// arrays hands out blocks and makes the arrays of a step.
func (b *attendBench) arrays(spans []attendSpan) *stepArrays {
	var pos, row, first, start, length, ids []int32
	stride := 0
	for i, span := range spans {
		seq := span.seq
		first, start, length = append(first, int32(len(pos))), append(start, int32(b.done[seq])), append(length, int32(span.tokens))
		for k := range span.tokens {
			pos, row = append(pos, int32(b.done[seq]+k)), append(row, int32(i))
		}
		for len(b.tables[seq])*b.blockSize < b.done[seq]+span.tokens {
			last := len(b.free) - 1
			b.tables[seq], b.free = append(b.tables[seq], b.free[last]), b.free[:last]
		}
		stride = max(stride, len(b.tables[seq]))
	}
	for _, span := range spans {
		table := b.tables[span.seq]
		ids = append(append(ids, table...), slices.Repeat([]int32{-1}, stride-len(table))...)
	}
	work := &attendWork{}
	work.plan(&b.headShape, start, length, []int{b.window})
	return &stepArrays{pos: upload(b.rig, pos), row: upload(b.rig, row), first: upload(b.rig, first), start: upload(b.rig, start),
		len: upload(b.rig, length), tiles: upload(b.rig, work.tiles), tables: []blockTable{{upload(b.rig, ids), stride}}, count: len(pos), work: work}
}

// step stores the next tokens of some sequences and returns their attention as bits, a row for each
// token, one span after the other.
func (b *attendBench) step(spans ...attendSpan) [][]uint16 {
	b.t.Helper()
	step := b.store(spans)
	var queries []float32
	for _, span := range spans {
		width := b.heads * b.dim
		queries = append(queries, b.seqs[span.seq].q[b.done[span.seq]*width:][:span.tokens*width]...)
	}
	width, stride := b.heads*b.dim, rowStride(b.heads*b.dim)
	dst := b.alloc(step.count * stride * 2)
	b.q.attend(dst, floatRows{b.uploadRows(queries, width), stride}, &b.layer, b.sinksPtr, &b.headShape, step, b.scratch)
	var rows [][]uint16
	for row := range slices.Chunk(download[uint16](b.rig, dst, step.count*stride), stride) {
		for i, v := range row[width:] {
			if v != 0 {
				b.t.Fatalf("row %d: element %d behind width %d is %#04x, want 0", len(rows), width+i, width, v)
			}
		}
		rows = append(rows, row[:width])
	}
	b.advance(spans)
	return rows
}

// store stores the next tokens.
func (b *attendBench) store(spans []attendSpan) *stepArrays {
	b.t.Helper()
	step := b.arrays(spans)
	var keys, values []float32
	width := b.kvHeads * b.dim
	for _, span := range spans {
		seq, from := &b.seqs[span.seq], b.done[span.seq]*width
		keys, values = append(keys, seq.k[from:][:span.tokens*width]...), append(values, seq.v[from:][:span.tokens*width]...)
	}
	b.q.store(floatRows{b.uploadRows(keys, width), rowStride(width)}, floatRows{b.uploadRows(values, width), rowStride(width)}, &b.layer, &b.headShape, step)
	return step
}

// advance takes note of a step, and takes blocks back.
func (b *attendBench) advance(spans []attendSpan) {
	for _, span := range spans {
		b.done[span.seq] += span.tokens
		for i := 0; b.window > 0 && (i+1)*b.blockSize <= b.done[span.seq]-b.window+1; i++ {
			if id := b.tables[span.seq][i]; id >= 0 {
				b.tables[span.seq][i] = -1
				b.free = append(b.free, id)
			}
		}
	}
}

// skip stores tokens without their attention.
func (b *attendBench) skip(spans ...attendSpan) {
	b.store(spans)
	b.sync()
	b.advance(spans)
}

// half rounds to bf16 and back.
func half(x float32) float32 { return tensor.BF16ToFloat(tensor.ToBF16(x)) }

// cached returns what the cache keeps of a vector: devicetest.Subject.KV.
func (c *attendCase) cached(x []float32) []float64 {
	y, top := make([]float64, len(x)), 0.0
	for i, v := range x {
		y[i], top = float64(half(v)), max(top, math.Abs(float64(v)))
	}
	if c.codes && top > 0 {
		scale := math.Ldexp(1, min(max(math.Ilogb(top)-7, -127), 119)) // it and its inverse are normal numbers
		for i, v := range x {
			y[i] = float64(tensor.E4M3ToFloat(tensor.ToE4M3(float32(float64(v)/scale)))) * scale
		}
	}
	return y
}

// expect holds the attention of a token to float64: within 4e-3 of the largest value that it sees.
func (b *attendBench) expect(seq *attendSeq, pos int, got []uint16) {
	b.t.Helper()
	first := 0
	if b.window > 0 {
		first = max(pos-b.window+1, 0)
	}
	for head := range b.heads {
		q := make([]float64, b.dim)
		for i, v := range seq.q[(pos*b.heads+head)*b.dim:][:b.dim] {
			q[i] = float64(half(v))
		}
		at, width := head/(b.heads/b.kvHeads)*b.dim, b.kvHeads*b.dim
		var weights, sum []float64
		top, total, size := math.Inf(-1), 0.0, 0.0
		for key := first; key <= pos; key++ {
			score := 0.0
			for i, v := range seq.keys[key*width+at:][:b.dim] {
				score += q[i] * v
			}
			score /= math.Sqrt(float64(b.dim))
			weights, top = append(weights, score), max(top, score)
		}
		if b.sinks != nil {
			top = max(top, float64(b.sinks[head]))
			total = math.Exp(float64(b.sinks[head]) - top)
		}
		sum = make([]float64, b.dim)
		for i, score := range weights {
			weight := math.Exp(score - top)
			total += weight
			for d, v := range seq.values[(first+i)*width+at:][:b.dim] {
				sum[d] += weight * v
				size = max(size, math.Abs(v))
			}
		}
		for d := range sum {
			want, value := sum[d]/total, float64(tensor.BF16ToFloat(got[head*b.dim+d]))
			if !(math.Abs(value-want) <= 4e-3*size) {
				b.t.Fatalf("%v: position %d, head %d, element %d is %v, want %v ± %.2g", &b.attendCase, pos, head, d, value, want, 4e-3*size)
			}
		}
	}
}

// shapes are those of devicetest and of models: groups of 1 to 16, heads below, at and above each
// padded length, blocks that divide a tile and others.
var attendShapes = []headShape{{4, 2, 6, 16}, {8, 1, 64, 16}, {3, 3, 16, 8}, {7, 1, 40, 64}, {6, 2, 128, 16}, {16, 1, 80, 13}, {2, 1, 250, 32}}

// TestAttend holds steps of prompts and single tokens to float64, past windows and past a split.
func TestAttend(t *testing.T) {
	t.Parallel()
	for i, shape := range attendShapes {
		for j, window := range []int{0, 1, 33, 300} {
			c := attendCase{headShape: shape, window: window, codes: (i+j)%2 == 1, sinks: j%2 == i/2%2}
			t.Run(c.String(), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(8, uint64(i)))
				seqs := []attendSeq{c.newSeq(rng, 9), c.newSeq(rng, 70), c.newSeq(rng, 320)}
				b := newAttendBench(newRig(t), c, seqs, 1)
				b.check(attendSpan{0, 5}, attendSpan{2, 200})
				b.check(attendSpan{1, 33}, attendSpan{2, 1}, attendSpan{0, 1})
				b.check(attendSpan{2, 97}, attendSpan{1, 7})
				b.check(attendSpan{2, 1}, attendSpan{1, 1})
				b.check(attendSpan{0, 3}, attendSpan{1, 29}, attendSpan{2, 13})
			})
		}
	}
}

// check holds some tokens of a step to float64: the first and last ones of each span and a few others.
func (b *attendBench) check(spans ...attendSpan) {
	b.t.Helper()
	before := slices.Clone(b.done)
	rows := b.step(spans...)
	for _, span := range spans {
		for k := range span.tokens {
			if k < 2 || k > span.tokens-3 || k%37 == 17 {
				b.expect(&b.seqs[span.seq], before[span.seq]+k, rows[k])
			}
		}
		rows = rows[span.tokens:]
	}
}

// TestAttendInvariance: a token's attention has the same bits whole and in chunks, alone and in
// company, in blocks of any size, with splits joined in registers or through memory.
func TestAttendInvariance(t *testing.T) {
	t.Parallel()
	const length, tail = 530, 78 // beyond two splits; the tokens that are compared
	for _, c := range []attendCase{
		{headShape: headShape{8, 1, 64, 16}, sinks: true},
		{headShape: headShape{8, 1, 64, 16}, window: 128, sinks: true, codes: true},
		{headShape: headShape{3, 1, 40, 16}, window: 290},
		{headShape: headShape{7, 1, 128, 16}, codes: true},
		{headShape: headShape{2, 1, 200, 16}, window: 20},
	} {
		t.Run(c.String(), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(9, 9))
			seqs := []attendSeq{c.newSeq(rng, length), c.newSeq(rng, 150)}
			want := newAttendBench(newRig(t), c, seqs[:1], 1).step(attendSpan{0, length})[length-tail:]
			for i, variant := range []struct {
				block  int
				joined bool // in registers, whatever the step
				chunks []int
			}{
				{16, false, []int{1, 1, 1, 33, 13, 29}},
				{8, true, []int{1, 2, 9, 1, 64, 1}},
				{5, false, []int{45, 33}},
				{64, false, []int{200}},
			} {
				c := c
				c.blockSize = variant.block
				b := newAttendBench(newRig(t), c, seqs, uint64(i))
				if variant.joined {
					b.scratch = 0
				}
				count := min(tail, sum(variant.chunks))
				b.skip(attendSpan{1, 100}, attendSpan{0, length - sum(variant.chunks)})
				var got [][]uint16
				for _, n := range variant.chunks {
					company := min(1+n%3, seqs[1].tokens-b.done[1])
					got = append(got, b.step(attendSpan{1, company}, attendSpan{0, n})[company:]...)
				}
				for k, row := range got[len(got)-count:] {
					if pos := length - count + k; !slices.Equal(row, want[tail-count+k]) {
						t.Fatalf("variant %d: position %d differs from the whole prompt:\n%x\n%x", i, pos, row, want[tail-count+k])
					}
				}
			}
		})
	}
}

// TestAttendLong: splits of a long sequence give the same bits joined in registers and through memory,
// and are right.
func TestAttendLong(t *testing.T) {
	for _, c := range []attendCase{
		{headShape: headShape{6, 2, 64, 32}, sinks: true},
		{headShape: headShape{2, 1, 20, 64}, window: 1100},
		{headShape: headShape{3, 1, 96, 16}, codes: true},
	} {
		const length = 1590
		seqs := []attendSeq{c.newSeq(rand.New(rand.NewPCG(14, 1)), length)}
		var want [][]uint16
		for i := range 2 {
			b := newAttendBench(newRig(t), c, seqs, 1)
			if i == 1 {
				b.scratch = 0
			}
			var got [][]uint16
			for _, at := range []int{1279, 1281, 1411, length - 3} { // 5, 6 and 7 splits
				b.skip(attendSpan{0, at - b.done[0]})
				got = append(got, b.step(attendSpan{0, 1})...)
				b.expect(&seqs[0], at, got[len(got)-1])
			}
			if i == 1 && !slices.EqualFunc(got, want, slices.Equal) {
				t.Errorf("%v: splits joined in registers and through memory differ", &c)
			}
			want = got
		}
	}
}

func sum(x []int) (total int) {
	for _, v := range x {
		total += v
	}
	return total
}

// TestAttendNaN: a token whose key or value is no number spoils those that see it and no other, also
// where they share a tile.
func TestAttendNaN(t *testing.T) {
	const length, bad = 40, 21
	for _, codes := range []bool{false, true} {
		for i, spoilt := range []struct {
			key   bool
			value float32
		}{{true, float32(math.NaN())}, {false, float32(math.NaN())}, {false, float32(math.Inf(-1))}, {false, math.MaxFloat32}} {
			c := attendCase{headShape: headShape{2, 1, 20, 16}, window: 9, codes: codes}
			seq := c.newSeq(rand.New(rand.NewPCG(10, 1)), length)
			r := newRig(t)
			want := newAttendBench(r, c, []attendSeq{seq}, 1).step(attendSpan{0, length})
			if spoilt.key {
				seq.k[bad*c.dim+3] = spoilt.value
			} else {
				seq.v[bad*c.dim+3] = spoilt.value
			}
			number := codes && spoilt.value == math.MaxFloat32 // a code has it, bf16 has not
			got := newAttendBench(r, c, []attendSeq{seq}, 1).step(attendSpan{0, length})
			for pos, row := range got {
				value := tensor.BF16ToFloat(row[3])
				switch {
				case pos < bad || pos >= bad+c.window:
					if !slices.Equal(row, want[pos]) {
						t.Fatalf("codes %v, case %d: position %d, which does not see position %d, differs", codes, i, pos, bad)
					}
				case (value != value) == number:
					t.Fatalf("codes %v, case %d: position %d sees position %d and is %v", codes, i, pos, bad, value)
				}
			}
		}
	}
}

// TestStore holds what is stored to what the CPU stores, for vectors of every size of exponent.
func TestStore(t *testing.T) {
	const tokens = 40
	for _, c := range []attendCase{{headShape: headShape{2, 2, 6, 8}}, {headShape: headShape{3, 3, 40, 16}, codes: true},
		{headShape: headShape{5, 5, 128, 16}, codes: true}, {headShape: headShape{1, 1, 256, 5}}, {headShape: headShape{2, 2, 192, 7}},
		{headShape: headShape{2, 2, 192, 16}, codes: true}, {headShape: headShape{1, 1, 250, 64}, codes: true}} {
		rng := rand.New(rand.NewPCG(11, 1))
		seq := c.newSeq(rng, tokens)
		for i := range seq.k { // from subnormal numbers to the largest
			seq.k[i] *= float32(math.Ldexp(1, i/c.dim*7%255-130))
		}
		clear(seq.v[:c.dim])
		if c.codes {
			seq.v[c.dim] = -math.MaxFloat32
			for i := range c.dim { // halfway between two codes
				tie := float32(math.Ldexp(1+(float64(i%8)+0.5)/8, -i/8%12))
				seq.k[2*c.dim+i], seq.v[2*c.dim+i] = tie, -tie
			}
		}
		b := newAttendBench(newRig(t), c, []attendSeq{seq}, 1)
		b.skip(attendSpan{0, tokens})
		for pos := range tokens {
			for head := range c.kvHeads {
				place := (int(b.tables[0][pos/c.blockSize])*c.kvHeads+head)*c.blockSize + pos%c.blockSize
				from := (pos*c.kvHeads + head) * c.dim
				what := fmt.Sprintf("%v: position %d, head %d", &c, pos, head)
				within(t, what+": key", b.vector(b.layer.keys, b.layer.keyScales, place), c.cached(seq.k[from:][:c.dim]), 0, 0)
				within(t, what+": value", b.vector(b.layer.values, b.layer.valueScales, place), c.cached(seq.v[from:][:c.dim]), 0, 0)
			}
		}
	}
}

// vector reads a vector of the cache back, and fails where its padding is not zero.
func (b *attendBench) vector(pool, scales driver.Ptr, place int) (x []float32) {
	b.t.Helper()
	padded := b.padded()
	if b.codes {
		scale := float64(math.Float32frombits(uint32(download[uint8](b.rig, scales+driver.Ptr(place), 1)[0]) << 23))
		for _, code := range download[uint8](b.rig, pool+driver.Ptr(place*padded), padded) {
			x = append(x, float32(float64(tensor.E4M3ToFloat(code))/256*scale))
		}
	} else {
		for _, v := range download[uint16](b.rig, pool+driver.Ptr(2*place*padded), padded) {
			x = append(x, tensor.BF16ToFloat(v))
		}
	}
	for i, v := range x[b.dim:] {
		if v != 0 {
			b.t.Fatalf("element %d of a head of %d is %v, want 0", b.dim+i, b.dim, v)
		}
	}
	return x[:b.dim]
}

// TestAttendPlan checks that tiles cover every pair once, within the number that is promised.
func TestAttendPlan(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 1))
	var work attendWork
	for range 200 {
		h := headShape{kvHeads: 1 + rng.IntN(3)}
		h.heads = h.kvHeads * (1 + rng.IntN(20))
		group, tokens := h.heads/h.kvHeads, 0
		var start, length []int32
		for range 1 + rng.IntN(5) {
			n := 1 + rng.IntN(1+rng.IntN(300))
			start, length, tokens = append(start, int32(rng.IntN(1000))), append(length, int32(n)), tokens+n
		}
		windows := []int{0, 1 + rng.IntN(500)}
		work.plan(&h, start, length, windows)
		seen := map[attendTile]int{}
		for i, tile := range work.tiles {
			count, pairs := warpPairs, int(length[tile.row])*group
			if i >= work.few {
				count = manyPairs
			}
			for k := range min(count, pairs-int(tile.pair)) {
				seen[attendTile{tile.row, tile.pair + int32(k)}]++
			}
			for g, window := range windows {
				first := int(tile.pair) / group
				last := min(int(tile.pair)+count, pairs)/group - 1
				if n := splitsOf(int(start[tile.row])+first, int(start[tile.row])+max(first, last), window); i < work.few && n > work.splits[g] {
					t.Fatalf("a tile sees %d splits, %d are planned", n, work.splits[g])
				}
			}
		}
		if len(seen) != tokens*group || len(work.tiles) != work.few+work.many || len(work.tiles) > h.mostTiles(len(length), tokens) {
			t.Fatalf("%d of %d pairs in %d + %d tiles of at most %d", len(seen), tokens*group, work.few, work.many, h.mostTiles(len(length), tokens))
		}
		for tile, n := range seen {
			if n != 1 {
				t.Fatalf("%v is covered %d times", tile, n)
			}
		}
	}
}

// TestAttendCounters holds attention at the shape of gpt-oss to what it should cost: no bank conflicts
// to speak of, and each key and value read once for all query heads of a decoding row.
func TestAttendCounters(t *testing.T) {
	for _, c := range []attendCase{{headShape: headShape{16, 2, 64, 16}}, {headShape: headShape{16, 2, 64, 16}, codes: true},
		{headShape: headShape{8, 2, 128, 16}}, {headShape: headShape{8, 2, 128, 16}, codes: true}} {
		const length = 600
		rng := rand.New(rand.NewPCG(13, 1))
		r := newRig(t)
		b := newAttendBench(r, c, []attendSeq{c.newSeq(rng, length)}, 1)
		b.skip(attendSpan{0, length - 66})
		b.step(attendSpan{0, 65})
		vectors, _ := c.kvBytes(1+len(b.tables[0])+len(b.free), c.codes)
		r.machine.Watch("keys", b.layer.keys, uint64(vectors))
		r.machine.Watch("values", b.layer.values, uint64(vectors))
		b.step(attendSpan{0, 1})
		counters := r.machine.Counters()
		for name, count := range counters.Kernels {
			t.Logf("%v: %s: %d warp instructions, %d sectors of ideal %d, %d wavefronts with %d conflicts, mma %v, %d barriers", &c, name,
				count.Warp, count.Sectors, count.Ideal, count.Shared, count.Conflicts, count.MMA, count.Barriers)
			if count.Conflicts*20 > count.Shared {
				t.Errorf("%v: %s: %d of %d wavefronts are conflicts, want at most 5 %%", &c, name, count.Conflicts, count.Shared)
			}
		}
		once := int64(length * c.kvHeads * c.padded() * 2 / 32)
		if c.codes {
			once /= 2
		}
		for _, name := range []string{"keys", "values"} {
			t.Logf("%v: %s: %d sectors, once are %d", &c, name, counters.Watched[name].Sectors, once)
			if got := counters.Watched[name].Sectors; got > once+once/20 {
				t.Errorf("%v: a decoding row reads %d sectors of %s, want %d", &c, got, name, once)
			}
		}
	}
}
