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
	// tileQueries is about how many queries of a kv head, of neighbouring tokens,
	// share each read of a key or value; tileTokens is the most tokens.
	tileQueries, tileTokens = 32, 16
	// fetchKeys is how many keys ahead memory is asked for keys, then values: blocks lie
	// scattered, and what comes from memory takes longer than a block is used.
	fetchKeys = 64
	// partials bounds the (token, kv head, split) pieces that wait to be merged
	// when a step is too small to occupy all workers otherwise.
	partials = 4096
)

// layerKV holds the keys and values of a layer, [block, kv head, token in block,
// HeadDim]: what a head reads of a block is one piece. Keys are rotated.
type layerKV struct {
	k, v cache
}

// A cache is bfloat16, float32, or E4M3 codes with a scale for each vector of
// HeadDim: a function of its own values, which batch invariance needs. The other
// slices are nil.
type cache struct {
	half   []uint16
	full   []float32
	codes  []uint8
	scales []uint8 // [block, kv head, token in block], see kern.ToE4M3
}

// A tile is n tokens of a row of the batch, one unit of attention per kv head.
type tile struct{ first, n int }

// attention is what Attend needs beside the KV pools.
type attention struct {
	pieces []float32 // [partials, pieceLen]
}

func (d *Device) reserveKV() error {
	var errs []error
	before := d.mem.size
	d.kv = make([]layerKV, d.spec.Layers)
	for i := range d.kv {
		n := d.lim.Blocks[d.groupOf[i]] * d.lim.BlockSize * d.spec.KVDim()
		for _, c := range []*cache{&d.kv[i].k, &d.kv[i].v} {
			var err, err2 error
			switch d.cfg.KV {
			case tensor.F8_E4M3:
				c.codes, err = carve[uint8](&d.mem, n)
				c.scales, err2 = carve[uint8](&d.mem, n/d.spec.HeadDim)
			case tensor.F32:
				c.full, err = carve[float32](&d.mem, n)
			default:
				c.half, err = carve[uint16](&d.mem, n)
			}
			errs = append(errs, err, err2)
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

// tileTokens is how many tokens of a row make a tile.
func (d *Device) tileTokens() int { return min(max(tileQueries/d.group(), 1), tileTokens) }

// pieceLen is the length of a piece of one token.
func (d *Device) pieceLen() int { return d.group() * (d.spec.HeadDim + 2) }

// A piece is the unnormalised attention of some queries over some keys.
type piece struct {
	acc  []float32 // [queries, HeadDim] sums of values, weighted by exp(score-top)
	tops []float32 // [queries] largest score
	sums []float32 // [queries] of the exponentials
}

// pieceOf lays a piece for n tokens of a kv head over memory of n·pieceLen.
func (d *Device) pieceOf(mem []float32, n int) piece {
	q, dim := n*d.group(), d.spec.HeadDim
	return piece{acc: mem[:q*dim], tops: mem[q*dim:][:q], sums: mem[q*dim+q:][:q]}
}

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
	switch {
	case c.codes != nil:
		c.scales[at/len(x)] = kern.ToE4M3(d.opt.Level, c.codes[at:][:len(x)], x)
	case c.full != nil:
		copy(c.full[at:], x)
	default:
		kern.ToBF16(d.opt.Level, c.half[at:][:len(x)], x)
	}
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
// first because they take longest.
func (d *Device) attendTile(worker, c int) {
	t, head := d.unit(c)
	size := t.n * d.pieceLen()
	mem := d.workers[worker].pieces
	run, next := d.pieceOf(mem[:size], t.n), d.pieceOf(mem[size:2*size], t.n)
	first, _ := d.splits(t.first)
	_, last := d.splits(t.first + t.n - 1)
	for split := first; split < last; split++ {
		switch {
		case split+1 < last:
			d.workers[worker].then = d.begin(t, head, split+1)
		case c+1 < len(d.step.tiles)*d.spec.KVHeads:
			t, head := d.unit(c + 1)
			d.workers[worker].then = d.begin(t, head, 0)
		default:
			d.workers[worker].then = pieceStart{}
		}
		if split == first { // nothing to merge with; tokens that see none of it begin at a later one
			d.attendPiece(worker, t, head, split, run)
			continue
		}
		a, b := d.attendPiece(worker, t, head, split, next)
		for i := a; i < b; i++ {
			from, _ := d.splits(t.first + i)
			d.merge(run, next, i, split == from)
		}
	}
	for i := range t.n {
		d.finish(t.first+i, head, run, i)
	}
}

// unit returns the tile and kv head of a chunk of attendTile.
func (d *Device) unit(c int) (t tile, head int) {
	heads := d.spec.KVHeads
	return d.step.tiles[len(d.step.tiles)-1-c/heads], c % heads
}

// attendSplit computes one piece of one token and kv head.
func (d *Device) attendSplit(worker, c int) {
	t, head, split, ok := d.splitUnit(c)
	if !ok {
		return
	}
	w := &d.workers[worker]
	w.then = pieceStart{}
	if t, head, split, ok := d.splitUnit(c + 1); ok {
		w.then = d.begin(t, head, split)
	}
	d.attendPiece(worker, t, head, split, d.pieceOf(d.attn.pieces[c*d.pieceLen():], 1))
}

// splitUnit returns the token, kv head and split of a chunk of attendSplit, if there is one.
func (d *Device) splitUnit(c int) (t tile, head, split int, ok bool) {
	heads := d.spec.KVHeads
	split, head, t = c%d.op.splits, c/d.op.splits%heads, tile{first: c / d.op.splits / heads, n: 1}
	if t.first >= len(d.step.tokens) {
		return t, 0, 0, false
	}
	from, to := d.splits(t.first)
	return t, head, from + split, from+split < to
}

// A pieceStart is where the keys of a piece begin.
type pieceStart struct {
	t        tile
	head     int
	key, end int // its first key, and the last of the tile + 1; no piece if they are equal
}

// begin returns where the piece of a split begins, or the first piece if the split is before it.
func (d *Device) begin(t tile, head, split int) pieceStart {
	from, _ := d.keys(t.first)
	_, to := d.keys(t.first + t.n - 1)
	return pieceStart{t: t, head: head, key: max(from, split*splitKeys), end: to}
}

// attendMerge merges the pieces of one token and kv head as attendTile does.
func (d *Device) attendMerge(_, c int) {
	size := d.pieceLen()
	token, head := c/d.spec.KVHeads, c%d.spec.KVHeads
	from, to := d.splits(token)
	pieces := d.attn.pieces[c*d.op.splits*size:]
	run := d.pieceOf(pieces, 1)
	for i := 1; i < to-from; i++ {
		d.merge(run, d.pieceOf(pieces[i*size:], 1), 0, false)
	}
	d.finish(token, head, run, 0)
}

// attendPiece computes, for the queries of a kv head of the tokens a..b-1 of a
// tile, those that see keys of the split, the attention over these keys.
func (d *Device) attendPiece(worker int, t tile, head, split int, out piece) (a, b int) {
	seen := func(i int) (from, to int) {
		from, to = d.keys(t.first + i)
		return max(from, split*splitKeys), min(to, (split+1)*splitKeys)
	}
	visible := func(i int) bool { from, to := seen(i); return from < to }
	for a = 0; !visible(a); a++ {
	}
	for b = t.n; !visible(b - 1); b-- {
	}
	w := &d.workers[worker]
	n, g := d.spec.HeadDim, d.group()
	lo, _ := seen(a) // ranges of later tokens begin and end later
	_, hi := seen(b - 1)
	d.scoreKeys(w, t, a, b, head, lo, hi)
	d.gatherScales(w, t, head, lo, hi)
	for i := a; i < b; i++ {
		from, to := seen(i)
		for q := i * g; q < i*g+g; q++ {
			x := w.scores[q*splitKeys+from-lo:][:to-from]
			if w.scales != nil {
				kern.ScaleMul(d.opt.Level, x, x, w.scales[from-lo:][:len(x)], 1)
			}
			out.tops[q] = kern.Max(d.opt.Level, x) // a NaN shows in the sum
			out.sums[q] = kern.ExpSum(d.opt.Level, x, out.tops[q])
			if w.scales != nil {
				kern.ScaleMul(d.opt.Level, x, x, w.scales[splitKeys+from-lo:][:len(x)], 1)
			}
		}
	}
	// The values that all tokens see are read once for all. A token's own come
	// before and behind: each query adds its values in the order of positions.
	allFrom, _ := seen(b - 1)
	_, allTo := seen(a)
	allTo = max(allTo, allFrom)
	clear(out.acc[a*g*n : b*g*n])
	for i := a; i < b; i++ {
		from, to := seen(i)
		d.weighValues(w, t, i, i+1, head, lo, from, min(allFrom, to), out)
	}
	if _, to := seen(a); allFrom < to {
		d.weighValues(w, t, a, b, head, lo, allFrom, allTo, out)
	}
	for i := a; i < b; i++ {
		_, to := seen(i)
		d.weighValues(w, t, i, i+1, head, lo, allTo, to, out)
	}
	return a, b
}

// gatherScales fills w.scales for the keys and values lo..hi-1, if they have scales.
func (d *Device) gatherScales(w *scratch, t tile, head, lo, hi int) {
	if w.scales == nil {
		return
	}
	bs, kv := d.lim.BlockSize, &d.kv[d.op.layer]
	for j := lo; j < hi; {
		run := min(bs-j%bs, hi-j)
		at := d.place(d.table(t.first), j)/d.spec.HeadDim + head*bs
		for i := range run {
			w.scales[j-lo+i] = kern.Scale(kv.k.scales[at+i])
			w.scales[splitKeys+j-lo+i] = kern.Scale(kv.v.scales[at+i])
		}
		j += run
	}
}

// scoreKeys fills w.scores, [queries, splitKeys], for the tokens a..b-1 and the
// keys lo..hi-1, also where a token does not see the key; scales are left out.
func (d *Device) scoreKeys(w *scratch, t tile, a, b, head, lo, hi int) {
	n, g := d.spec.HeadDim, d.group()
	scale := float32(1 / math.Sqrt(float64(n)))
	for i := a; i < b; i++ {
		q := d.op.x.row(t.first + i)[head*g*n:][:g*n]
		kern.Times(d.opt.Level, w.queries[i*g*n:][:g*n], q, scale)
	}
	queries, keys := w.queries[a*g*n:b*g*n], &d.kv[d.op.layer].k
	for j := lo; j < hi; {
		run := min(d.lim.BlockSize-j%d.lim.BlockSize, hi-j)
		at, dst := d.at(t, head, j), w.scores[a*g*splitKeys+j-lo:]
		c, next := keys, j+fetchKeys
		if next >= hi { // all keys are asked for
			c, next = &d.kv[d.op.layer].v, min(lo+next-hi, hi-1)
		}
		next = d.at(t, head, next-next%d.lim.BlockSize)
		switch {
		case keys.codes != nil:
			kern.Scores(d.opt.Level, dst, splitKeys, queries, (b-a)*g, n, keys.codes[at:], n, run, &c.codes[next])
		case keys.full != nil:
			kern.Scores(d.opt.Level, dst, splitKeys, queries, (b-a)*g, n, keys.full[at:], n, run, &c.full[next])
		default:
			kern.Scores(d.opt.Level, dst, splitKeys, queries, (b-a)*g, n, keys.half[at:], n, run, &c.half[next])
		}
		j += run
	}
}

// at returns where the key or value of a head at position pos of a tile's sequence begins.
func (d *Device) at(t tile, head, pos int) int {
	return d.place(d.table(t.first), pos) + head*d.lim.BlockSize*d.spec.HeadDim
}

// weighValues adds the values from..to-1 to the queries of the tokens a..b-1;
// w.scores, which the scales have multiplied, begin at key lo.
func (d *Device) weighValues(w *scratch, t tile, a, b, head, lo, from, to int, out piece) {
	n, g := d.spec.HeadDim, d.group()
	acc, values, then := out.acc[a*g*n:b*g*n], &d.kv[d.op.layer].v, &w.then
	for j := from; j < to; {
		run := min(d.lim.BlockSize-j%d.lim.BlockSize, to-j)
		at, p := d.at(t, head, j), w.scores[a*g*splitKeys+j-lo:]
		c, next := values, min(j+fetchKeys, to-1)
		if far := then.key + j + fetchKeys - to; j+fetchKeys >= to && far < then.end {
			c, next = &d.kv[d.op.layer].k, d.at(then.t, then.head, far-far%d.lim.BlockSize)
		} else {
			next = d.at(t, head, next-next%d.lim.BlockSize)
		}
		switch {
		case values.codes != nil:
			kern.Weigh(d.opt.Level, acc, (b-a)*g, n, p, splitKeys, values.codes[at:], n, run, &c.codes[next])
		case values.full != nil:
			kern.Weigh(d.opt.Level, acc, (b-a)*g, n, p, splitKeys, values.full[at:], n, run, &c.full[next])
		default:
			kern.Weigh(d.opt.Level, acc, (b-a)*g, n, p, splitKeys, values.half[at:], n, run, &c.half[next])
		}
		j += run
	}
}

// merge adds token i of next, of later keys, to that of run, or begins with it. Products with
// the sums of run are rounded, those with next's are not, whatever is merged.
func (d *Device) merge(run, next piece, i int, begin bool) {
	n, g := d.spec.HeadDim, d.group()
	for r := i * g; r < i*g+g; r++ {
		x, y := run.acc[r*n:][:n], next.acc[r*n:][:n]
		if begin {
			copy(x, y)
			run.tops[r], run.sums[r] = next.tops[r], next.sums[r]
			continue
		}
		m := max(run.tops[r], next.tops[r])
		a, b := shrink(run.tops[r], m), shrink(next.tops[r], m)
		run.tops[r], run.sums[r] = m, float32(run.sums[r]*a)+float32(next.sums[r]*b)
		kern.Times(d.opt.Level, x, x, a)
		kern.MulAdd(d.opt.Level, x, y, b)
	}
}

// finish adds the sinks and writes the normalised output of token i of run.
func (d *Device) finish(token, head int, run piece, i int) {
	n, g := d.spec.HeadDim, d.group()
	dst := d.op.dst.row(token)[head*g*n:]
	for h := range g {
		top, sum := run.tops[i*g+h], run.sums[i*g+h]
		a := float32(1)
		if d.op.w != nil {
			sink := d.op.w[head*g+h]
			m := max(top, sink)
			a = shrink(top, m)
			sum = float32(sum*a) + shrink(sink, m)
		}
		a /= sum
		kern.Times(d.opt.Level, dst[h*n:][:n], run.acc[(i*g+h)*n:][:n], a)
	}
}

// shrink is exp(from-to), 1 for equal infinities.
func shrink(from, to float32) float32 {
	if from == to {
		return 1
	}
	return float32(math.Exp(float64(from) - float64(to)))
}
