package cpu

import (
	"errors"
	"math"

	"ossian/internal/cpu/kern"
	"ossian/internal/model"
	"ossian/internal/runner"
	"ossian/internal/tensor"
)

const (
	// splitKeys is the number of keys, counted from position 0, whose softmax is
	// computed in one piece. Pieces are merged in the order of positions, so
	// neither chunking nor threads move a rounding (models.md 5.1).
	splitKeys = 256
	// tileTokens is how many tokens of a row share each read of a split.
	tileTokens = 16
	// partials bounds the (token, kv head, split) pieces that wait to be merged
	// when a step is too small to occupy all workers otherwise.
	partials = 4096
)

// layerKV holds the keys and values of a layer, [block, kv head, token in block,
// HeadDim]: what a head reads of a block is one piece. Keys are rotated.
type layerKV struct {
	k, v cache
}

// A cache is bfloat16 or float32, the other slice is nil.
type cache struct {
	half []uint16
	full []float32
}

// A tile is n tokens of a row of the batch, one unit of attention per kv head.
type tile struct{ row, first, n int }

// attention is what Attend needs beside the KV pools.
type attention struct {
	pieces []float32 // [partials, heads per kv head, HeadDim+2]
}

func (d *Device) reserveKV() error {
	var errs []error
	before := d.mem.size
	d.kv = make([]layerKV, d.spec.Layers)
	for i := range d.kv {
		n := d.lim.Blocks[d.groupOf[i]] * d.lim.BlockSize * d.spec.KVDim()
		for _, c := range []*cache{&d.kv[i].k, &d.kv[i].v} {
			var err error
			if d.cfg.KV == tensor.F32 {
				c.full, err = carve[float32](&d.mem, n)
			} else {
				c.half, err = carve[uint16](&d.mem, n)
			}
			errs = append(errs, err)
		}
	}
	d.used.KV = d.mem.size - before
	return errors.Join(errs...)
}

func (a *attention) reserve(d *Device) (err error) {
	if d.cfg.Threads > 1 {
		a.pieces, err = carve[float32](&d.mem, partials*d.pieceLen())
	}
	return err
}

// group is the number of query heads of a kv head.
func (d *Device) group() int { return d.spec.Heads / d.spec.KVHeads }

// pieceLen is the length of the unnormalised attention output of a kv head's
// queries: for each HeadDim sums, the largest score, and the sum of exponentials.
func (d *Device) pieceLen() int { return d.group() * (d.spec.HeadDim + 2) }

// place returns where a token's key or value of kv head 0 begins; heads follow at
// a distance of BlockSize·HeadDim.
func (d *Device) place(table []runner.BlockID, pos int) int {
	bs := d.lim.BlockSize
	return (int(table[pos/bs])*d.spec.KVHeads*bs + pos%bs) * d.spec.HeadDim
}

// table returns the block table of a token in the current layer.
func (d *Device) table(token int) []runner.BlockID {
	return d.step.batch.Rows[d.step.row[token]].Tables[d.groupOf[d.op.layer]]
}

// Store implements model.Device.
func (d *Device) Store(layer int, k, v model.Buf) {
	d.op.layer, d.op.x, d.op.y = layer, at(k), at(v)
	d.each(d.op.x.rows, d.op.x.width, d.run.store)
}

func (d *Device) storeRow(_, i int) {
	at := d.place(d.table(i), int(d.step.pos[i]))
	kv := &d.kv[d.op.layer]
	k, v, n := d.op.x.row(i), d.op.y.row(i), d.spec.HeadDim
	for h := range d.spec.KVHeads {
		kv.k.put(d, at, k[h*n:][:n])
		kv.v.put(d, at, v[h*n:][:n])
		at += d.lim.BlockSize * n
	}
}

func (c *cache) put(d *Device, at int, x []float32) {
	if c.full != nil {
		copy(c.full[at:], x)
		return
	}
	kern.ToBF16(d.opt.Level, c.half[at:][:len(x)], x)
}

// Attend implements model.Device: models.md 1.2. Queries of one kv head share
// each read of a key or value. Keys of the step are read from the pool like all
// others.
func (d *Device) Attend(dst, q model.Buf, layer int, sinks model.Weight) {
	d.op.dst, d.op.x, d.op.layer, d.op.w = at(dst), at(q), layer, vector(sinks)
	n, heads := len(d.step.tokens), d.spec.KVHeads
	units := len(d.step.tiles) * heads
	d.op.splits = 0
	for t := range n {
		from, to := d.splits(t)
		d.op.splits = max(d.op.splits, to-from)
	}
	if pieces := n * heads * d.op.splits; d.op.splits > 1 && units < 4*d.cfg.Threads && pieces <= partials && d.cfg.Threads > 1 {
		d.pool.Run(pieces, d.run.attendSplit)
		d.pool.Run(n*heads, d.run.attendMerge)
	} else {
		d.pool.Run(units, d.run.attend)
	}
	d.op.dst.wrote(n)
}

// keys returns the first position that a token sees, and its own + 1.
func (d *Device) keys(token int) (from, to int) {
	pos := int(d.step.pos[token])
	if w := d.spec.Windows[d.op.layer]; w > 0 {
		from = max(pos-w+1, 0)
	}
	return from, pos + 1
}

// splits returns the pieces in which a token's keys lie.
func (d *Device) splits(token int) (from, to int) {
	from, to = d.keys(token)
	return from / splitKeys, (to-1)/splitKeys + 1
}

// attendTile computes one kv head of one tile, the later tiles of a prompt
// first because they take longest. Split by split, so that its keys and values
// come from the cache for all tokens but the first.
func (d *Device) attendTile(worker, c int) {
	heads, size := d.spec.KVHeads, d.pieceLen()
	t := d.step.tiles[len(d.step.tiles)-1-c/heads]
	head := c % heads
	acc := d.workers[worker].acc
	first, _ := d.splits(t.first)
	_, last := d.splits(t.first + t.n - 1)
	for split := first; split < last; split++ {
		for i := range t.n {
			from, to := d.splits(t.first + i)
			switch run := acc[i*size:][:size]; {
			case split == from:
				d.piece(worker, t.first+i, head, split, run)
			case split > from && split < to:
				next := acc[tileTokens*size:][:size]
				d.piece(worker, t.first+i, head, split, next)
				d.merge(run, next)
			}
		}
	}
	for i := range t.n {
		d.finish(t.first+i, head, acc[i*size:][:size])
	}
}

// attendSplit computes one piece of one token and kv head.
func (d *Device) attendSplit(worker, c int) {
	heads := d.spec.KVHeads
	split, head, token := c%d.op.splits, c/d.op.splits%heads, c/d.op.splits/heads
	if from, to := d.splits(token); from+split < to {
		d.piece(worker, token, head, from+split, d.attn.pieces[c*d.pieceLen():][:d.pieceLen()])
	}
}

// attendMerge merges the pieces of one token and kv head as attendTile does.
func (d *Device) attendMerge(_, c int) {
	size := d.pieceLen()
	token, head := c/d.spec.KVHeads, c%d.spec.KVHeads
	from, to := d.splits(token)
	pieces := d.attn.pieces[c*d.op.splits*size:]
	for i := 1; i < to-from; i++ {
		d.merge(pieces[:size], pieces[i*size:][:size])
	}
	d.finish(token, head, pieces[:size])
}

// piece computes the attention of a token's queries of one kv head over the keys
// of one split.
func (d *Device) piece(worker, token, head, split int, out []float32) {
	from, to := d.keys(token)
	from, to = max(from, split*splitKeys), min(to, (split+1)*splitKeys)
	s := &d.workers[worker]
	n, g := d.spec.HeadDim, d.group()
	q := s.row[:g*n]
	d.scale(q, d.op.x.row(token)[head*g*n:])
	kv, table := &d.kv[d.op.layer], d.table(token)
	for j := from; j < to; {
		run := min(d.lim.BlockSize-j%d.lim.BlockSize, to-j)
		at := d.place(table, j) + head*d.lim.BlockSize*n
		if kv.k.full != nil {
			kern.Scores(d.opt.Level, s.scores[j-from:], splitKeys, q, g, n, kv.k.full[at:], n, run)
		} else {
			kern.Scores(d.opt.Level, s.scores[j-from:], splitKeys, q, g, n, kv.k.half[at:], n, run)
		}
		j += run
	}
	acc, tops, sums := out[:g*n], out[g*n:g*n+g], out[g*n+g:]
	for h := range g {
		x := s.scores[h*splitKeys:][:to-from]
		tops[h] = maximum(x)
		sums[h] = kern.ExpSum(d.opt.Level, x, tops[h])
	}
	clear(acc)
	for j := from; j < to; {
		run := min(d.lim.BlockSize-j%d.lim.BlockSize, to-j)
		at := d.place(table, j) + head*d.lim.BlockSize*n
		if kv.v.full != nil {
			kern.Weigh(d.opt.Level, acc, g, n, s.scores[j-from:], splitKeys, kv.v.full[at:], n, run)
		} else {
			kern.Weigh(d.opt.Level, acc, g, n, s.scores[j-from:], splitKeys, kv.v.half[at:], n, run)
		}
		j += run
	}
}

// scale writes the queries times 1/sqrt(HeadDim).
func (d *Device) scale(dst, q []float32) {
	f := float32(1 / math.Sqrt(float64(d.spec.HeadDim)))
	for i := range dst {
		dst[i] = q[i] * f
	}
}

// merge adds a piece of later keys to run.
func (d *Device) merge(run, next []float32) {
	n, g := d.spec.HeadDim, d.group()
	for h := range g {
		top, sum := &run[g*n+h], &run[g*n+g+h]
		t, u := next[g*n+h], next[g*n+g+h]
		m := max(*top, t)
		a, b := shrink(*top, m), shrink(t, m)
		*top, *sum = m, float32(*sum*a)+float32(u*b)
		x, y := run[h*n:][:n], next[h*n:][:n]
		for i := range x {
			x[i] = float32(x[i]*a) + float32(y[i]*b)
		}
	}
}

// finish adds the sinks and writes the normalised output of a token's queries.
func (d *Device) finish(token, head int, run []float32) {
	n, g := d.spec.HeadDim, d.group()
	dst := d.op.dst.row(token)[head*g*n:]
	for h := range g {
		top, sum := run[g*n+h], run[g*n+g+h]
		a := float32(1)
		if d.op.w != nil {
			sink := d.op.w[head*g+h]
			m := max(top, sink)
			a = shrink(top, m)
			sum = float32(sum*a) + shrink(sink, m)
		}
		a /= sum
		x, y := run[h*n:][:n], dst[h*n:][:n]
		for i, v := range x {
			y[i] = v * a
		}
	}
}

// shrink is exp(from-to), 1 for equal infinities.
func shrink(from, to float32) float32 {
	if from == to {
		return 1
	}
	return float32(math.Exp(float64(from) - float64(to)))
}

// maximum returns the largest number of x; a NaN shows in the sum of exponentials.
func maximum(x []float32) float32 {
	m := x[0]
	for _, v := range x[1:] {
		if v > m {
			m = v
		}
	}
	return m
}
