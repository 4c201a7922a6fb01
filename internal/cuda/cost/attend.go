package cost

import "math"

// Closed forms of attention (kernels/attend.cuh). What warps do depends on where rows begin and end, so the
// tiles of a step are gone through as package cuda cuts them; matrix products are exact.

// A Row is the tokens that a step adds to one sequence: Len of them from position Start on.
type Row struct{ Start, Len int }

const (
	warpPairs, manyPairs, fewPairs = 16, 128, 64
	keyTile, splitKeys             = 16, 256
	mostPieces                     = 4096
	stageBytes                     = 28 << 10 // of shared memory for keys and values under way
)

// attendSlots are those of Work: ptxas 13 makes 1.31 to 1.4 instructions of one in attention.
const attendSlots = 1.35

// loneClocks are those of an instruction of a warp that has a scheduler to itself: as an H100 and an H200
// took for 8,000 keys a block.
const loneClocks = 3.5

// attendCode are the instructions and wavefronts of attention for one length of heads and type of cache: of
// a warp, of a split's table, of a stage of keys and of a tile of 16 keys in it.
type attendCode struct {
	few, many struct{ warp, table, stage, tile, stageShared, tileShared float64 }
}

type attendForm struct {
	padded int
	codes  bool
}

var attendCodes = func() map[attendForm]attendCode {
	type numbers = struct{ warp, table, stage, tile, stageShared, tileShared float64 }
	return map[attendForm]attendCode{
		{64, false}:  {few: numbers{550, 275, 247, 158, 36, 36}, many: numbers{673, 249, 108, 158, 10, 32}},
		{64, true}:   {few: numbers{558, 279, 146, 465, 21, 21}, many: numbers{712, 253, 72, 465, 5.5, 20}},
		{128, false}: {few: numbers{753, 376, 377, 252, 72, 72}, many: numbers{1010, 372, 64, 252, 10, 64}},
		{128, true}:  {few: numbers{742, 371, 225, 708, 39, 39}, many: numbers{1035, 369, 83, 708, 10.5, 36}},
	}
}()

// Counted reports whether there is a closed form for these heads: for up to 128 elements.
func (h *Heads) Counted() bool { return h.Dim <= 128 && h.Dim%2 == 0 && h.KV > 0 }

// attention gathers what one kernel of attention does for one kv head.
type attention struct {
	h      *Heads
	warps  int // of a block
	apart  bool
	window int
	work   Work
	waits  float64 // trips of all blocks
	code   struct{ warp, table, stage, tile, stageShared, tileShared float64 }
}

// Attend are the kernels of attention over a layer's cache.
func (h *Heads) Attend(rows []Row, window int) []Work {
	group := h.Heads / h.KV
	few, tiles, splits := 0, 0, 1
	for _, row := range rows {
		if row.Len*group <= fewPairs {
			few++
			tiles += (row.Len*group + warpPairs - 1) / warpPairs
			splits = max(splits, splitsOf(row.Start, row.Start+row.Len-1, window))
		}
	}
	var all []Work
	if few > 0 {
		apart := splits > 1 && tiles*h.KV*splits <= mostPieces
		a := h.attention("attend_", 1, window, apart)
		for _, row := range rows {
			if row.Len*group <= fewPairs {
				a.row(row)
			}
		}
		if apart {
			a.work.Blocks = float64(tiles * splits) // those without keys end at once
		}
		all = append(all, a.finish())
		if apart {
			all = append(all, h.merge(rows, window, tiles))
		}
	}
	if few < len(rows) {
		a := h.attention("attend_prefill_", manyPairs/warpPairs, window, false)
		for _, row := range rows {
			if row.Len*group > fewPairs {
				a.row(row)
			}
		}
		all = append(all, a.finish())
	}
	return all
}

// splitsOf returns in how many splits the keys lie that tokens at positions first..last see.
func splitsOf(first, last, window int) int {
	return last/splitKeys - firstKey(first, window)/splitKeys + 1
}

// firstKey is the first key that the token at a position sees.
func firstKey(pos, window int) int {
	if window == 0 {
		return 0
	}
	return max(pos-window+1, 0)
}

// perKey is what a key and its value take in a stage.
func (h *Heads) perKey() int {
	if h.Codes {
		return 2 * h.padded()
	}
	return 4 * h.padded()
}

// attention begins to count a kernel.
func (h *Heads) attention(name string, warps, window int, apart bool) *attention {
	kind := "_bf16"
	if h.Codes {
		kind = "_e4m3"
	}
	a := &attention{h: h, warps: warps, apart: apart, window: window}
	a.work = Work{Kernel: name + itoa(h.padded()) + kind, Threads: 32 * warps, SharedBytes: 27 << 10, Slots: attendSlots}
	a.work.Registers = registersOf[a.work.Kernel]
	code := attendCodes[attendForm{h.padded(), h.Codes}]
	a.code = code.many
	if warps == 1 {
		a.code = code.few
	}
	return a
}

// stages returns how many keys a stage has, and how many stages are under way.
func (a *attention) stages() (keys, ahead int) {
	keys = keyTile
	if a.warps > 1 && 3*2*keyTile*a.h.perKey() <= stageBytes {
		keys *= 2
	}
	return keys, min(max(stageBytes/(keys*a.h.perKey()), 2), 4) - 1
}

// row adds the blocks of a row of the batch.
func (a *attention) row(row Row) {
	group := a.h.Heads / a.h.KV
	pairs, step := row.Len*group, a.warps*warpPairs
	read := 0
	for first := 0; first < pairs; first += step {
		last := min(first+step, pairs) - 1
		begin, end := firstKey(row.Start+first/group, a.window), row.Start+last/group+1
		read += end - begin
		for from := begin; from < end; {
			to := end
			if a.apart {
				to = min(end, (from/splitKeys+1)*splitKeys)
			}
			a.block(row, first, pairs, from, to)
			from = to
		}
	}
	// Keys and values come from memory once for all tiles of the row; queries and results once.
	once := float64(row.Start + row.Len - firstKey(row.Start, a.window))
	bytes := 2 * a.h.vector()
	a.work.Memory += once*bytes + float64(pairs*a.h.Dim*(4+2))
	a.work.Again += (float64(read) - once) * bytes
	a.work.Between = math.Max(a.work.Between, once*bytes)
	for pos := row.Start; pos < row.Start+row.Len; pos++ {
		a.work.FLOPs += float64(4*a.h.Dim*group) * float64(pos+1-firstKey(pos, a.window))
	}
}

// block adds a block whose pairs are from first on, for keys from..to-1.
func (a *attention) block(row Row, first, pairs, from, to int) {
	w, dim, warps := &a.work, float64(a.h.padded()), float64(a.warps)
	group := a.h.Heads / a.h.KV
	keys, ahead := a.stages()
	tables := float64((to-1)/splitKeys - from/splitKeys + 1)
	stages := float64((to-1)/keys - from/keys + 1)
	w.Blocks++
	w.Warp += warps * (a.code.warp + tables*a.code.table + stages*a.code.stage)
	w.Shared += warps * (8 + tables + stages*a.code.stageShared)
	w.Sectors += float64(to-from)*float64(a.h.perKey())/32 + warps*(16+2*tables)
	if a.h.Codes {
		w.Sectors += 2 * stages
	}
	queries := 1.0 // times that a sector of queries is asked for
	if a.h.Codes {
		queries = 2
	}
	for number := first; number < min(first+a.warps*warpPairs, pairs); number += warpPairs {
		last := min(number+warpPairs, pairs) - 1
		low := max(firstKey(row.Start+number/group, a.window), from) / keyTile
		high := min(row.Start+last/group, to-1) / keyTile
		tiles := math.Max(float64(high-low+1), 0)
		w.MMA += tiles * dim / 4
		w.Warp += tiles * a.code.tile
		w.Shared += tiles * a.code.tileShared
		valid := last - number + 1
		rows := float64(min(valid, 8) + max(valid-8, 1)) // the last pair stands in for those that are not there
		w.Sectors += dim / 8 * (queries*rows + float64(valid))
	}
	trips := 3 + tables + stages/float64(ahead)
	w.Trips = math.Max(w.Trips, trips)
	a.waits += trips
	if a.warps == 1 { // nothing else hides what its instructions wait for
		w.Alone = math.Max(w.Alone, loneClocks*(a.code.warp+tables*a.code.table+stages*(a.code.stage+a.code.tile)))
		w.Beside = w.Alone
	}
}

// finish makes the work of one kv head that of all.
func (a *attention) finish() Work {
	w, kv := a.work, float64(a.h.KV)
	w.Blocks, w.MMA, w.Warp, w.Shared, w.Sectors = w.Blocks*kv, w.MMA*kv, w.Warp*kv, w.Shared*kv, w.Sectors*kv
	w.Memory, w.Again, w.FLOPs = w.Memory*kv, w.Again*kv, w.FLOPs*kv
	w.Waits = a.waits * kv
	return w
}

// merge is attend_merge.
func (h *Heads) merge(rows []Row, window, tiles int) Work {
	group, dim := h.Heads/h.KV, float64(h.padded())
	w := Work{Kernel: "attend_merge", Blocks: float64(tiles * h.KV), Threads: 128, Registers: registersOf["attend_merge"]}
	for _, row := range rows {
		pairs := float64(row.Len * group)
		if int(pairs) > fewPairs {
			continue
		}
		splits := float64(splitsOf(row.Start, row.Start+row.Len-1, window))
		lines := pairs * dim / 128 // warps' iterations
		w.Warp += float64(h.KV) * (lines*(90+52*splits) + 4*60*math.Ceil(pairs/warpPairs))
		w.Sectors += float64(h.KV) * (pairs*splits*(dim/8+2*dim/128) + pairs*dim/8 + 24*math.Ceil(pairs/warpPairs))
		w.Memory += float64(h.KV) * pairs * (splits*(4*dim+8) + 2*dim)
		w.Trips = math.Max(w.Trips, 4+0.35*splits) // parts of splits are in the cache, which is nearer
	}
	return w
}
