package cuda

import (
	"fmt"
	"math"

	"ossian/internal/cuda/driver"
)

// Attention on the device: kernels/attend.cuh says how it is computed, and that no result depends on
// how it is cut. Here it is cut: rows of the batch with few queries go to blocks of one warp, whose
// splits of 256 keys are computed side by side where there are not too many, long chunks of prompts to
// blocks of eight warps, which share what they read.

const (
	// warpPairs is how many (token, head) pairs of a kv head a warp has, manyPairs a block of eight.
	warpPairs, manyPairs = 16, 128
	// fewPairs is the most pairs of a row of the batch that go to blocks of one warp.
	fewPairs = 64
	// splitKeys is how many keys, counted from position 0, have a softmax of their own.
	splitKeys = 256
	// mostPieces bounds the pieces (tile, kv head, split) that wait to be joined: more than that keep
	// a card busy with blocks that join theirs themselves.
	mostPieces = 4096
	// mostDim is the largest head that has kernels.
	mostDim = 256
)

// A headShape is what attention needs to know of a model and its cache.
type headShape struct {
	heads, kvHeads, dim int // dim is even
	blockSize           int // tokens of a block
}

// padded is the length of a vector in the cache: what is behind dim is zero.
func (h *headShape) padded() int {
	padded := 64
	for padded < h.dim {
		padded *= 2
	}
	return padded
}

// parts is how many blocks share the values of a head: those of 256 elements need too many registers
// for one.
func (h *headShape) parts() int {
	if h.padded() == 256 {
		return 4
	}
	return 1
}

// check reports what the kernels cannot do. blocks is the size of the largest pool.
func (h *headShape) check(blocks int) error {
	if h.dim > mostDim || h.dim%2 != 0 {
		return fmt.Errorf("heads of %d elements: attention on the device takes even numbers up to %d", h.dim, mostDim)
	}
	if vectors := blocks * h.kvHeads * h.blockSize; vectors > math.MaxInt32 {
		return fmt.Errorf("%d blocks of %d tokens and %d kv heads are %d vectors, a pool has at most %d: give it fewer blocks",
			blocks, h.blockSize, h.kvHeads, vectors, math.MaxInt32)
	}
	return nil
}

// kvBytes returns the bytes of a pool of keys, as of one of values, and those of its scales, which
// only codes have.
func (h *headShape) kvBytes(blocks int, codes bool) (vectors, scales int) {
	count := blocks * h.kvHeads * h.blockSize
	if codes {
		return count * h.padded(), count
	}
	return 2 * count * h.padded(), 0
}

// A kvLayer is the cache of a layer: [block][kvHead][token in block][padded], in bf16, or as E4M3 codes
// with an exponent for each vector (devicetest.Subject.KV).
type kvLayer struct {
	keys, values           driver.Ptr
	keyScales, valueScales driver.Ptr // uint8 [block][kvHead][token in block]; 0 = bf16
	group                  int        // whose blocks it uses
	window                 int        // tokens that a token sees, itself included; 0 = all
}

// A blockTable is the block ids of a KV group, int32 [R][stride].
type blockTable struct {
	ids    driver.Ptr
	stride int
}

// stepArrays is where a step lies in the memory of the device: T tokens in R rows.
type stepArrays struct {
	tokens, pos, row        driver.Ptr // int32 [T]: id, position, index of the row
	first, start, len, slot driver.Ptr // int32 [R]: index of the first token, its position, tokens, slot
	turn                    driver.Ptr // float32 [T][dim]: cos of each pair, then sin
	tiles                   driver.Ptr // of work
	tables                  []blockTable
	count                   int // T
	work                    *attendWork
}

// An attendTile is work of a block: the pairs of a row of the batch from one on. The kernels' AttendTile.
type attendTile struct{ row, pair int32 }

// attendWork is how the attention of a step is cut.
type attendWork struct {
	tiles     []attendTile // few ones of one warp, then many of eight; to be copied to the device
	few, many int
	splits    []int // [group] most splits that a tile of one warp sees keys of
}

// mostTiles is how many tiles a step can have.
func (h *headShape) mostTiles(rows, tokens int) int {
	group := h.heads / h.kvHeads
	few := int(ceilDiv(fewPairs, warpPairs))
	return min(rows*few, tokens*group) + tokens*group/manyPairs + rows
}

// plan cuts a step whose rows begin at positions start and have length tokens; windows are those of
// the groups. It uses the memory of the step before.
func (w *attendWork) plan(h *headShape, start, length []int32, windows []int) {
	group := int32(h.heads / h.kvHeads)
	w.tiles, w.splits = w.tiles[:0], append(w.splits[:0], make([]int, len(windows))...)
	for row, n := range length {
		if n*group > fewPairs {
			continue
		}
		for pair := int32(0); pair < n*group; pair += warpPairs {
			w.tiles = append(w.tiles, attendTile{int32(row), pair})
		}
		for i, window := range windows {
			w.splits[i] = max(w.splits[i], splitsOf(int(start[row]), int(start[row]+n-1), window))
		}
	}
	w.few = len(w.tiles)
	// The last tiles of a chunk see most keys: they begin first.
	for row, n := range length {
		if n*group <= fewPairs {
			continue
		}
		for pair := (n*group - 1) / manyPairs * manyPairs; pair >= 0; pair -= manyPairs {
			w.tiles = append(w.tiles, attendTile{int32(row), pair})
		}
	}
	w.many = len(w.tiles) - w.few
}

// splitsOf returns in how many splits the keys lie that tokens at positions first..last see.
func splitsOf(first, last, window int) int {
	from := 0
	if window > 0 {
		from = max(first-window+1, 0)
	}
	return last/splitKeys - from/splitKeys + 1
}

// attendScratch returns the bytes that attend needs beside its buffers, for steps of so many rows with
// sequences of at most maxLen tokens.
func (h *headShape) attendScratch(rows, maxLen int) int {
	tiles := rows * int(ceilDiv(fewPairs, warpPairs))
	pieces := min(mostPieces, tiles*h.kvHeads*splitsOf(0, maxLen-1, 0))
	return pieces * h.pieceBytes()
}

// pieceBytes is the size of a piece: the values of each pair, then its largest score and its sum.
func (h *headShape) pieceBytes() int { return warpPairs * (h.padded() + 2) * 4 }

type attendArgs struct {
	dst, q                               driver.Ptr
	keys, values, keyScales, valueScales driver.Ptr
	table, first, start, len             driver.Ptr
	tiles, sinks                         driver.Ptr
	planes, ends                         driver.Ptr
	qStride, dstStride, tableStride      int32
	heads, kvHeads, dim, padded          int32
	blockSize, window, splits            int32
	scale                                float32
	_                                    int32
}

// attendKernels are the names of kernels by padded length, for bf16 and for codes.
var attendKernels = map[int][2]struct{ few, many string }{
	64:  {{"attend_64_bf16", "attend_prefill_64_bf16"}, {"attend_64_e4m3", "attend_prefill_64_e4m3"}},
	128: {{"attend_128_bf16", "attend_prefill_128_bf16"}, {"attend_128_e4m3", "attend_prefill_128_e4m3"}},
	256: {{"attend_256_bf16", "attend_prefill_256_bf16"}, {"attend_256_e4m3", "attend_prefill_256_e4m3"}},
}

// attend: dst, bf16, becomes the attention of float32 queries over a layer's cache (models.md 1.2,
// cuda.md 6.3). sinks are float32 [heads], 0 = none. scratch has attendScratch bytes; without any, blocks of one warp go
// through all their splits.
func (q *queue) attend(dst driver.Ptr, queries floatRows, layer *kvLayer, sinks driver.Ptr, h *headShape, step *stepArrays, scratch driver.Ptr) {
	work, table := step.work, step.tables[layer.group]
	kernel := attendKernels[h.padded()][0]
	if layer.keyScales != 0 {
		kernel = attendKernels[h.padded()][1]
	}
	stride := int32(rowStride(h.heads * h.dim))
	args := attendArgs{dst: dst, q: queries.at,
		keys: layer.keys, values: layer.values, keyScales: layer.keyScales, valueScales: layer.valueScales,
		table: table.ids, first: step.first, start: step.start, len: step.len, tiles: step.tiles, sinks: sinks,
		qStride: int32(queries.stride), dstStride: stride, tableStride: int32(table.stride),
		heads: int32(h.heads), kvHeads: int32(h.kvHeads), dim: int32(h.dim), padded: int32(h.padded()),
		blockSize: int32(h.blockSize), window: int32(layer.window),
		scale: float32(math.Log2E / math.Sqrt(float64(h.dim)))}
	blocks := uint32(h.kvHeads * h.parts())
	if work.few > 0 {
		splits, grid := work.splits[layer.group], driver.Dim3{X: uint32(work.few), Y: blocks, Z: 1}
		pieces := work.few * h.kvHeads * splits
		apart := splits > 1 && pieces <= mostPieces && scratch != 0
		if apart {
			grid.Z, args.splits = uint32(splits), int32(splits)
			args.planes, args.ends = scratch, scratch+driver.Ptr(pieces*warpPairs*h.padded()*4)
		}
		launch(q, kernel.few, grid, 32, 0, &args)
		if apart {
			launch(q, "attend_merge", driver.Dim3{X: uint32(work.few), Y: uint32(h.kvHeads), Z: 1}, 128, 0, &args)
		}
	}
	if work.many > 0 {
		args.tiles += driver.Ptr(work.few * 8) // bytes of an attendTile
		args.planes, args.ends, args.splits = 0, 0, 0
		launch(q, kernel.many, driver.Dim3{X: uint32(work.many), Y: blocks, Z: 1}, manyPairs/warpPairs*32, 0, &args)
	}
}
