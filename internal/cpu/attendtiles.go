package cpu

import (
	"errors"
	"unsafe"

	"ossian/internal/cpu/kern"
	"ossian/internal/tensor"
)

// On machines with tiles, attention with keys and values in BF16 is products of row groups
// (kern/attend.go): of each piece the keys, then the values, are packed once for all queries of a
// tile; a token alone takes them as they lie. Queries and weights of values become BF16, so this
// is for models whose activations do.
//
// Sums go by blocks of 32 tokens from position 0, so that a query's own bits do not depend on
// what its tile sees: tokens that it does not see have the weight 0, which adds nothing.

// A packing is what a worker packs for a piece, and the rows that it reads for that.
type packing struct {
	rows   []*uint16 // [2·splitKeys + kern.FetchRows] keys, values, and keys that come next
	keys   []uint8   // [splitKeys, HeadDim] packed
	values []uint8
	tile   []uint8   // of kern.MulRows
	halves []uint16  // [16, HeadDim] queries of a token alone
	groups []*uint16 // [splitKeys / 16 + kern.KeysGroups] keys of it
	none   []uint16  // a row that nobody sees
}

// packs reports whether attention is products of row groups.
func (d *Device) packs() bool {
	return kern.PairsAttention() && d.rounds() && !d.cfg.Exact && d.cfg.KV == tensor.BF16 && d.spec.HeadDim%kern.AttendBlock == 0
}

// reserve takes the memory of a packing.
func (p *packing) reserve(device *Device) error {
	if !device.packs() {
		return nil
	}
	dim := device.spec.HeadDim
	var errs [5]error
	p.groups = make([]*uint16, splitKeys/groupKeys+kern.KeysGroups)
	p.rows = make([]*uint16, 2*splitKeys+kern.FetchRows)
	p.keys, errs[0] = carve[uint8](&device.mem, 2*splitKeys*dim)
	p.values, errs[1] = carve[uint8](&device.mem, 2*splitKeys*dim)
	p.tile, errs[2] = carve[uint8](&device.mem, kern.RowsScratch(device.tileTokens()*device.group(), max(dim, splitKeys)))
	p.none, errs[3] = carve[uint16](&device.mem, dim)
	p.halves, errs[4] = carve[uint16](&device.mem, groupKeys*dim)
	return errors.Join(errs[:]...)
}

// attendPacked is attendPiece for the tokens begin..end-1, which see keys of the split.
func (d *Device) attendPacked(mem *scratch, tile queryTile, begin, end, head, split int, out piece) {
	dim, group, level, pack := d.spec.HeadDim, d.group(), d.opt.Level, &mem.packing
	lo, _ := d.sees(tile, begin, split) // ranges of later tokens begin and end later
	_, hi := d.sees(tile, end-1, split)
	base := lo &^ (kern.AttendBlock - 1)
	count := (hi - base + kern.AttendBlock - 1) &^ (kern.AttendBlock - 1)
	d.listRows(mem, tile, head, base, lo, hi, count)
	if d.alone(begin, end) {
		d.attendAlone(mem, tile, begin, head, split, base, count, out)
		return
	}

	kern.PackKeys(level, pack.keys, pack.rows[:count+kern.FetchRows], dim)
	d.scaleQueries(mem, tile, begin, end, head)
	rows, queries := (end-begin)*group, mem.queries[begin*group*dim:]
	kern.MulRows(level, mem.scores, splitKeys, queries, dim, rows, dim, pack.keys, count/groupKeys, pack.tile)
	d.softmax(mem, tile, begin, split, base, rows, count, out)

	finite := kern.PackValues(level, pack.values, pack.rows[count:2*count+kern.FetchRows], dim)
	if !finite && end-begin > 1 { // 0 times infinity: each token may meet what it sees, and nothing else
		for token := begin; token < end; token++ {
			d.attendPacked(mem, tile, token, token+1, head, split, out)
		}
		return
	}
	kern.MulRows(level, out.acc[begin*group*dim:], dim, mem.scores, splitKeys, rows, count, pack.values, dim/groupKeys, pack.tile)
}

// softmax makes weights of the scores of so many queries from token begin on, 0 for keys that a
// token does not see.
func (d *Device) softmax(mem *scratch, tile queryTile, begin, split, base, rows, count int, out piece) {
	group, level := d.group(), d.opt.Level
	for i := range rows {
		query, scores := begin*group+i, mem.scores[i*splitKeys:][:count]
		from, to := d.sees(tile, begin+i/group, split)
		seen := scores[from-base : to-base]
		out.tops[query] = kern.Max(level, seen) // a NaN shows in the sum
		out.sums[query] = kern.ExpSum(level, seen, out.tops[query])
		clear(scores[:from-base])
		clear(scores[to-base:])
	}
}

// alone reports whether the tokens begin..end-1 are one that needs nothing packed.
func (d *Device) alone(begin, end int) bool {
	return end-begin == 1 && d.opt.Level.OneToken(d.group()) && d.lim.BlockSize%groupKeys == 0
}

// attendAlone is attendPacked for one token, in the same bits: keys are tiles as they lie, its
// queries what is packed for them, and values are multiplied as they lie.
func (d *Device) attendAlone(mem *scratch, tile queryTile, token, head, split, base, count int, out piece) {
	dim, group, pack := d.spec.HeadDim, d.group(), &mem.packing
	queries := d.packQueries(mem, tile, token, head)
	lo, hi := d.sees(tile, token, split)
	d.listGroups(mem, tile, head, lo, hi, base, count)
	kern.Keys(mem.scores, splitKeys, queries, pack.groups[:count/groupKeys+kern.KeysGroups], dim)
	d.softmax(mem, tile, token, split, base, group, count, out)
	for query := range group {
		kern.AsBF16(mem.scores[query*splitKeys:][:count])
	}
	kern.WeighRows(out.acc[token*group*dim:], group, dim, mem.scores, splitKeys, pack.rows[count:2*count+kern.FetchRows])
}

// packQueries rounds the queries of a token and returns them as kern.Keys takes them.
func (d *Device) packQueries(mem *scratch, tile queryTile, token, head int) []byte {
	dim, group, level, pack := d.spec.HeadDim, d.group(), d.opt.Level, &mem.packing
	d.scaleQueries(mem, tile, token, token+1, head)
	kern.ToBF16(level, pack.halves[:group*dim], mem.queries[token*group*dim:][:group*dim])
	return kern.PackQueries(level, pack.keys, pack.halves, group, dim)
}

// listGroups lists groups of the keys base..base+count-1 of a head, of which lo..hi-1 are seen,
// and behind them of values. Where nobody sees a group it is one that somebody does.
func (d *Device) listGroups(mem *scratch, tile queryTile, head, lo, hi, base, count int) {
	groups, kv, n := mem.packing.groups, &d.kv[d.op.layer], count/groupKeys
	for i := range n + kern.KeysGroups {
		pool := kv.k.half
		if i >= n {
			pool = kv.v.half
		}
		key := min(max(base+i%n*groupKeys, lo), hi-1)
		groups[i] = &pool[d.at(tile, head, key-key%groupKeys)]
	}
}

// groupKeys is the rows of a row group.
const groupKeys = 16

// listRows lists the keys and values base..base+count-1 of a head, of which lo..hi-1 are seen, and
// behind them the keys that the worker will probably read next.
func (d *Device) listRows(mem *scratch, tile queryTile, head, base, lo, hi, count int) {
	rows, kv, none := mem.packing.rows, &d.kv[d.op.layer], unsafe.SliceData(mem.packing.none)
	// Tiles are read whole, and with them rows that no query of theirs sees.
	for i := range lo - base {
		rows[i], rows[count+i] = none, none
	}
	for key := lo; key < hi; {
		run, at := min(d.lim.BlockSize-key%d.lim.BlockSize, hi-key), d.at(tile, head, key)
		d.listRun(rows[key-base:][:run], kv.k.half, at)
		d.listRun(rows[count+key-base:][:run], kv.v.half, at)
		key += run
	}
	for i := hi - base; i < count; i++ {
		rows[i], rows[count+i] = none, none
	}
	// What the worker reads next is fetched ahead, as far as it is known.
	next, then := rows[2*count:][:kern.FetchRows], &mem.then
	end := min(then.end, then.key+len(next))
	for key := then.key; key < end; {
		run := min(d.lim.BlockSize-key%d.lim.BlockSize, end-key)
		d.listRun(next[key-then.key:][:run], kv.k.half, d.at(then.tile, then.head, key))
		key += run
	}
	for i := max(end-then.key, 0); i < len(next); i++ {
		next[i] = none
	}
}

// listRun lists vectors that lie one behind the other from element at on.
func (d *Device) listRun(rows []*uint16, pool []uint16, at int) {
	dim := d.spec.HeadDim
	pool = pool[at:][:len(rows)*dim]
	for i := range rows {
		rows[i] = &pool[i*dim]
	}
}
