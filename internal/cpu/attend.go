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
	// share each read of a key or value; tileTokens is the most tokens. Where keys and values are
	// packed for them, packedQueries and packedTokens.
	tileQueries, tileTokens     = 32, 16
	packedQueries, packedTokens = 128, 64
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

// A queryTile is some neighbouring tokens of a row of the batch, one unit of attention for each
// kv head.
type queryTile struct{ first, count int }

// attention is what Attend needs beside the KV pools.
type attention struct {
	pieces []float32 // [partials, pieceLen]
}

// reserveKV carves the pools of all layers, each as large as its group's.
func (d *Device) reserveKV() error {
	var errs []error
	before := d.mem.size
	d.kv = make([]layerKV, d.spec.Layers)
	for i := range d.kv {
		elems := d.lim.Blocks[d.groupOf[i]] * d.lim.BlockSize * d.spec.KVDim()
		for _, cached := range []*cache{&d.kv[i].k, &d.kv[i].v} {
			var err, err2 error
			// Codes of E4M3 have a scale for each head of each token.
			switch d.cfg.KV {
			case tensor.F8_E4M3:
				cached.codes, err = carve[uint8](&d.mem, elems)
				cached.scales, err2 = carve[uint8](&d.mem, elems/d.spec.HeadDim)
			case tensor.F32:
				cached.full, err = carve[float32](&d.mem, elems)
			default:
				cached.half, err = carve[uint16](&d.mem, elems)
			}
			errs = append(errs, err, err2)
		}
	}
	d.used.KV = d.mem.size - before
	return errors.Join(errs...)
}

// reserve takes the memory of partials; one thread has nobody to share pieces with.
func (a *attention) reserve(d *Device) (err error) {
	if d.cfg.Threads > 1 {
		a.pieces, err = carve[float32](&d.mem, partials*d.pieceLen())
	}
	return err
}

// group is the number of query heads of a kv head.
func (d *Device) group() int { return d.spec.Heads / d.spec.KVHeads }

// tileTokens is how many tokens of a row make a tile.
func (d *Device) tileTokens() int {
	if d.packs() {
		return min(max(packedQueries/d.group(), 1), packedTokens)
	}
	return min(max(tileQueries/d.group(), 1), tileTokens)
}

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

// storeRow stores the keys and values of a token.
func (d *Device) storeRow(_, token int) {
	at := d.place(d.table(token), int(d.step.pos[token]))
	kv := &d.kv[d.op.layer]
	key, value, dim := d.op.x.row(token), d.op.y.row(token), d.spec.HeadDim
	for head := range d.spec.KVHeads {
		kv.k.put(d, at, key[head*dim:][:dim])
		kv.v.put(d, at, value[head*dim:][:dim])
		at += d.lim.BlockSize * dim
	}
}

// put stores the vector x at element at, in the form of the cache.
func (c *cache) put(device *Device, at int, x []float32) {
	switch {
	case c.codes != nil:
		c.scales[at/len(x)] = kern.ToE4M3(device.opt.Level, c.codes[at:][:len(x)], x)
	case c.full != nil:
		copy(c.full[at:], x)
	default:
		kern.ToBF16(device.opt.Level, c.half[at:][:len(x)], x)
	}
}

// Attend implements model.Device: models.md 1.2. Queries of one kv head share
// each read of a key or value. Keys of the step are read from the pool like all
// others.
func (d *Device) Attend(dst, q model.Buf, layer int, sinks model.Weight) {
	d.op.dst, d.op.x, d.op.layer, d.op.w = at(dst), at(q), layer, vector(sinks)
	tokens, heads := len(d.step.tokens), d.spec.KVHeads
	units := len(d.step.tiles) * heads
	d.op.splits = 0
	for token := range tokens {
		from, to := d.splits(token)
		d.op.splits = max(d.op.splits, to-from)
	}
	// Too few tiles to go round, as in decoding, and long contexts: the pieces are computed side
	// by side and merged afterwards. Both ways merge the same pieces in the same order.
	pieces := tokens * heads * d.op.splits
	tooFew := units < 4*d.cfg.Threads && d.cfg.Threads > 1
	if d.op.splits > 1 && tooFew && pieces <= partials {
		d.pool.Run(pieces, d.run.attendSplit)
		d.pool.Run(tokens*heads, d.run.attendMerge)
	} else {
		d.pool.Run(units, d.run.attend)
	}
	d.op.dst.wrote(tokens)
}

// keys returns the first position that a token sees, and its own + 1.
func (d *Device) keys(token int) (from, to int) {
	pos := int(d.step.pos[token])
	if window := d.spec.Windows[d.op.layer]; window > 0 {
		from = max(pos-window+1, 0)
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
func (d *Device) attendTile(worker, chunk int) {
	tile, head := d.unit(chunk)
	size := tile.count * d.pieceLen()
	mem := d.workers[worker].pieces
	run, next := d.pieceOf(mem[:size], tile.count), d.pieceOf(mem[size:2*size], tile.count)
	first, _ := d.splits(tile.first)
	_, last := d.splits(tile.first + tile.count - 1)
	for split := first; split < last; split++ {
		// What the worker will read next is asked for while it weighs the values of this piece.
		switch {
		case split+1 < last:
			d.workers[worker].then = d.begin(tile, head, split+1)
		case chunk+1 < len(d.step.tiles)*d.spec.KVHeads:
			tile, head := d.unit(chunk + 1)
			d.workers[worker].then = d.begin(tile, head, 0)
		default:
			d.workers[worker].then = pieceStart{}
		}
		if split == first { // nothing to merge with; tokens that see none of it begin at a later one
			d.attendPiece(worker, tile, head, split, run)
			continue
		}
		a, b := d.attendPiece(worker, tile, head, split, next)
		for i := a; i < b; i++ {
			from, _ := d.splits(tile.first + i)
			d.merge(run, next, i, split == from)
		}
	}
	for i := range tile.count {
		d.finish(tile.first+i, head, run, i)
	}
}

// unit returns the tile and kv head of a chunk of attendTile.
func (d *Device) unit(chunk int) (tile queryTile, head int) {
	heads := d.spec.KVHeads
	return d.step.tiles[len(d.step.tiles)-1-chunk/heads], chunk % heads
}

// attendSplit computes one piece of one token and kv head.
func (d *Device) attendSplit(worker, chunk int) {
	tile, head, split, ok := d.splitUnit(chunk)
	if !ok {
		return
	}
	mem := &d.workers[worker]
	mem.then = pieceStart{}
	if tile, head, split, ok := d.splitUnit(chunk + 1); ok {
		mem.then = d.begin(tile, head, split)
	}
	d.attendPiece(worker, tile, head, split, d.pieceOf(d.attn.pieces[chunk*d.pieceLen():], 1))
}

// splitUnit returns the token, kv head and split of a chunk of attendSplit, if there is one.
func (d *Device) splitUnit(chunk int) (tile queryTile, head, split int, ok bool) {
	heads := d.spec.KVHeads
	split, head, tile = chunk%d.op.splits, chunk/d.op.splits%heads, queryTile{first: chunk / d.op.splits / heads, count: 1}
	if tile.first >= len(d.step.tokens) {
		return tile, 0, 0, false
	}
	from, to := d.splits(tile.first)
	return tile, head, from + split, from+split < to
}

// A pieceStart is where the keys of a piece begin.
type pieceStart struct {
	tile     queryTile
	head     int
	key, end int // its first key, and the last of the tile + 1; no piece if they are equal
}

// begin returns where the piece of a split begins, or the first piece if the split is before it.
func (d *Device) begin(tile queryTile, head, split int) pieceStart {
	from, _ := d.keys(tile.first)
	_, to := d.keys(tile.first + tile.count - 1)
	return pieceStart{tile: tile, head: head, key: max(from, split*splitKeys), end: to}
}

// attendMerge merges the pieces of one token and kv head as attendTile does.
func (d *Device) attendMerge(_, chunk int) {
	size := d.pieceLen()
	token, head := chunk/d.spec.KVHeads, chunk%d.spec.KVHeads
	from, to := d.splits(token)
	pieces := d.attn.pieces[chunk*d.op.splits*size:]
	run := d.pieceOf(pieces, 1)
	for i := 1; i < to-from; i++ {
		d.merge(run, d.pieceOf(pieces[i*size:], 1), 0, false)
	}
	d.finish(token, head, run, 0)
}

// attendPiece computes, for the queries of a kv head of the tokens begin..end-1 of a
// tile, those that see keys of the split, the attention over these keys.
func (d *Device) attendPiece(worker int, tile queryTile, head, split int, out piece) (begin, end int) {
	seen := func(token int) (from, to int) { return d.sees(tile, token, split) }
	visible := func(token int) bool { from, to := seen(token); return from < to }
	// A window hides early keys from the tile's later tokens, causality late ones from its
	// earlier tokens: those that see some of the split are neighbours.
	for begin = 0; !visible(begin); begin++ {
	}
	for end = tile.count; !visible(end - 1); end-- {
	}
	if d.packs() {
		d.attendPacked(&d.workers[worker], tile, begin, end, head, split, out)
		return begin, end
	}
	mem := &d.workers[worker]
	dim, group := d.spec.HeadDim, d.group()
	lo, _ := seen(begin) // ranges of later tokens begin and end later
	_, hi := seen(end - 1)
	// Each query's softmax within the split: the scales of keys before it, those of values with
	// the weights that come of it.
	d.scoreKeys(mem, tile, begin, end, head, lo, hi)
	d.gatherScales(mem, tile, head, lo, hi)
	for token := begin; token < end; token++ {
		from, to := seen(token)
		for query := token * group; query < token*group+group; query++ {
			scores := mem.scores[query*splitKeys+from-lo:][:to-from]
			if mem.scales != nil {
				kern.ScaleMul(d.opt.Level, scores, scores, mem.scales[from-lo:][:len(scores)], 1)
			}
			out.tops[query] = kern.Max(d.opt.Level, scores) // a NaN shows in the sum
			out.sums[query] = kern.ExpSum(d.opt.Level, scores, out.tops[query])
			if mem.scales != nil {
				kern.ScaleMul(d.opt.Level, scores, scores, mem.scales[splitKeys+from-lo:][:len(scores)], 1)
			}
		}
	}
	// The values that all tokens see are read once for all. A token's own come
	// before and behind: each query adds its values in the order of positions.
	allFrom, _ := seen(end - 1)
	_, allTo := seen(begin)
	allTo = max(allTo, allFrom)
	clear(out.acc[begin*group*dim : end*group*dim])
	for token := begin; token < end; token++ {
		from, to := seen(token)
		d.weighValues(mem, tile, token, token+1, head, lo, from, min(allFrom, to), out)
	}
	if _, to := seen(begin); allFrom < to {
		d.weighValues(mem, tile, begin, end, head, lo, allFrom, allTo, out)
	}
	for token := begin; token < end; token++ {
		_, to := seen(token)
		d.weighValues(mem, tile, token, token+1, head, lo, allTo, to, out)
	}
	return begin, end
}

// sees returns the keys of a split that token i of a tile sees; none if they are not in order.
func (d *Device) sees(tile queryTile, i, split int) (from, to int) {
	from, to = d.keys(tile.first + i)
	return max(from, split*splitKeys), min(to, (split+1)*splitKeys)
}

// gatherScales fills mem.scales for the keys and values lo..hi-1, if they have scales.
func (d *Device) gatherScales(mem *scratch, tile queryTile, head, lo, hi int) {
	if mem.scales == nil {
		return
	}
	bs, kv := d.lim.BlockSize, &d.kv[d.op.layer]
	for key := lo; key < hi; {
		run := min(bs-key%bs, hi-key)
		at := d.place(d.table(tile.first), key)/d.spec.HeadDim + head*bs
		for i := range run {
			mem.scales[key-lo+i] = kern.Scale(kv.k.scales[at+i])
			mem.scales[splitKeys+key-lo+i] = kern.Scale(kv.v.scales[at+i])
		}
		key += run
	}
}

// scoreKeys fills mem.scores, [queries, splitKeys], for the tokens begin..end-1 and the
// keys lo..hi-1, also where a token does not see the key; scales are left out.
func (d *Device) scoreKeys(mem *scratch, tile queryTile, begin, end, head, lo, hi int) {
	dim, group := d.spec.HeadDim, d.group()
	d.scaleQueries(mem, tile, begin, end, head)
	queries, keys := mem.queries[begin*group*dim:end*group*dim], &d.kv[d.op.layer].k
	// The keys of a block lie in one piece: a call for each.
	for key := lo; key < hi; {
		run := min(d.lim.BlockSize-key%d.lim.BlockSize, hi-key)
		at, dst := d.at(tile, head, key), mem.scores[begin*group*splitKeys+key-lo:]
		ahead, next := keys, key+fetchKeys
		if next >= hi { // all keys are asked for
			ahead, next = &d.kv[d.op.layer].v, min(lo+next-hi, hi-1)
		}
		next = d.at(tile, head, next-next%d.lim.BlockSize)
		switch {
		case keys.codes != nil:
			kern.Scores(d.opt.Level, dst, splitKeys, queries, (end-begin)*group, dim, keys.codes[at:], dim, run, &ahead.codes[next])
		case keys.full != nil:
			kern.Scores(d.opt.Level, dst, splitKeys, queries, (end-begin)*group, dim, keys.full[at:], dim, run, &ahead.full[next])
		default:
			kern.Scores(d.opt.Level, dst, splitKeys, queries, (end-begin)*group, dim, keys.half[at:], dim, run, &ahead.half[next])
		}
		key += run
	}
}

// scaleQueries fills mem.queries for the tokens begin..end-1 of a tile.
func (d *Device) scaleQueries(mem *scratch, tile queryTile, begin, end, head int) {
	dim, group := d.spec.HeadDim, d.group()
	scale := float32(1 / math.Sqrt(float64(dim)))
	for token := begin; token < end; token++ {
		query := d.op.x.row(tile.first + token)[head*group*dim:][:group*dim]
		kern.Times(d.opt.Level, mem.queries[token*group*dim:][:group*dim], query, scale)
	}
}

// at returns where the key or value of a head at position pos of a tile's sequence begins.
func (d *Device) at(tile queryTile, head, pos int) int {
	return d.place(d.table(tile.first), pos) + head*d.lim.BlockSize*d.spec.HeadDim
}

// weighValues adds the values from..to-1 to the queries of the tokens begin..end-1;
// mem.scores, which the scales have multiplied, begin at key lo.
func (d *Device) weighValues(mem *scratch, tile queryTile, begin, end, head, lo, from, to int, out piece) {
	dim, group := d.spec.HeadDim, d.group()
	// Meanwhile memory fetchKeys ahead is asked for: values of this piece, then the keys of the
	// worker's next one.
	acc, values, then := out.acc[begin*group*dim:end*group*dim], &d.kv[d.op.layer].v, &mem.then
	for key := from; key < to; {
		run := min(d.lim.BlockSize-key%d.lim.BlockSize, to-key)
		at, probs := d.at(tile, head, key), mem.scores[begin*group*splitKeys+key-lo:]
		ahead, next := values, min(key+fetchKeys, to-1)
		if far := then.key + key + fetchKeys - to; key+fetchKeys >= to && far < then.end {
			ahead, next = &d.kv[d.op.layer].k, d.at(then.tile, then.head, far-far%d.lim.BlockSize)
		} else {
			next = d.at(tile, head, next-next%d.lim.BlockSize)
		}
		switch {
		case values.codes != nil:
			kern.Weigh(d.opt.Level, acc, (end-begin)*group, dim, probs, splitKeys, values.codes[at:], dim, run, &ahead.codes[next])
		case values.full != nil:
			kern.Weigh(d.opt.Level, acc, (end-begin)*group, dim, probs, splitKeys, values.full[at:], dim, run, &ahead.full[next])
		default:
			kern.Weigh(d.opt.Level, acc, (end-begin)*group, dim, probs, splitKeys, values.half[at:], dim, run, &ahead.half[next])
		}
		key += run
	}
}

// merge adds a token of next, of later keys, to that of run, or begins with it. Products with
// the sums of run are rounded, those with next's are not, whatever is merged.
func (d *Device) merge(run, next piece, token int, begin bool) {
	dim, group := d.spec.HeadDim, d.group()
	for query := token * group; query < token*group+group; query++ {
		sum, part := run.acc[query*dim:][:dim], next.acc[query*dim:][:dim]
		if begin {
			copy(sum, part)
			run.tops[query], run.sums[query] = next.tops[query], next.sums[query]
			continue
		}
		top := max(run.tops[query], next.tops[query])
		scale, partScale := shrink(run.tops[query], top), shrink(next.tops[query], top)
		run.tops[query], run.sums[query] = top, float32(run.sums[query]*scale)+float32(next.sums[query]*partScale)
		kern.Times(d.opt.Level, sum, sum, scale)
		kern.MulAdd(d.opt.Level, sum, part, partScale)
	}
}

// finish adds the sinks and writes the normalised output of a token, token i of run.
func (d *Device) finish(token, head int, run piece, i int) {
	dim, group := d.spec.HeadDim, d.group()
	dst := d.op.dst.row(token)[head*group*dim:]
	for query := range group {
		top, sum := run.tops[i*group+query], run.sums[i*group+query]
		scale := float32(1)
		if d.op.w != nil {
			sink := d.op.w[head*group+query] // one more key, without a value
			largest := max(top, sink)
			scale = shrink(top, largest)
			sum = float32(sum*scale) + shrink(sink, largest)
		}
		scale /= sum
		kern.Times(d.opt.Level, dst[query*dim:][:dim], run.acc[(i*group+query)*dim:][:dim], scale)
	}
}

// shrink is exp(from-to), 1 for equal infinities.
func shrink(from, to float32) float32 {
	if from == to {
		return 1
	}
	return float32(math.Exp(float64(from) - float64(to)))
}
