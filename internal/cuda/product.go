package cuda

import (
	"fmt"

	"ossian/internal/cuda/driver"
)

// A matrix is what a packed tensor is in device memory.
type matrix struct {
	format              *format
	data                driver.Ptr // groups of 16 rows, see packed
	lift                driver.Ptr // float32 [experts][rows] (packed.lifts); 0: none
	experts, rows, cols int
	paired              bool
}

// in returns p as it is at data, and its lifts at lift.
func (p *packed) in(data, lift driver.Ptr) *matrix {
	return &matrix{format: p.format, data: data, lift: lift, experts: p.experts, rows: p.rows, cols: p.cols, paired: p.paired}
}

// groups returns the groups of 16 rows of an expert, units the units of 64 k of a group.
func (m *matrix) groups() int { return (m.rows + 15) / 16 }
func (m *matrix) units() int  { return (m.cols + 63) / 64 }

// chunks returns in how many parts sums over k are cut, by the shape alone (cuda.md 6.1): the same
// sums come of any number of tokens.
func (m *matrix) chunks() int {
	switch {
	case m.rows >= 65536:
		return 1
	case m.cols >= 1024:
		return 4
	case m.cols >= 512:
		return 2
	}
	return 1
}

// productArgs is ProductArgs of kernels/product.cuh.
type productArgs struct {
	dst, weights, lift, x, bias, tiles, order driver.Ptr
	rows, units, chunks, tokens               int32
	dstStride, xStride, topK, activation      int32
}

// prefillGroups is how many groups a block of a product for 128 tokens has.
const prefillGroups = 8

// A decoding is how product_decode goes through a chunk: Decoding of kernels/product.cuh.
type decoding struct {
	groups int // of 16 rows of a warp
	stages int // units that are under way or computed
}

// decodings are those of each format, for tiles of 8, 16 and 32 tokens.
var decodings = map[*format]map[int]decoding{
	formatMXFP4: {8: {2, 6}, 16: {2, 6}, 32: {2, 4}},
	formatQ8:    {8: {2, 6}, 16: {2, 5}, 32: {2, 4}},
	formatBF16:  {8: {1, 6}, 16: {1, 4}, 32: {1, 3}},
}

const (
	decodeWarps  = 8        // of a block, at most
	decodeShared = 99 << 10 // bytes of shared memory that every card has for a block
)

// shared returns the bytes of shared memory of a block with so many warps for each of its chunks.
func (d decoding) shared(w *matrix, tile, members int) int {
	return w.chunks() * d.stages * (tile*128 + members*d.groups*w.format.unitBytes)
}

// members returns how many warps of a block share the tokens of a chunk, of so many tiles on a card with so
// many multiprocessors. More of them ask the cache for less, but then there are fewer blocks: for tiles of 8
// tokens, where weights are most of what is read, there should be four for each multiprocessor.
func (d decoding) members(w *matrix, tile, tiles, groups, multiprocessors int) int {
	least := multiprocessors / 2
	if tile == 8 {
		least = 4 * multiprocessors
	}
	for n := decodeWarps / w.chunks(); n > 1; n /= 2 {
		if d.shared(w, tile, n) <= decodeShared && ceil(groups, n*d.groups)*tiles >= least {
			return n
		}
	}
	return 1
}

// product launches a product of kernels/product.cuh: use is "linear", "up" or "down", tile the tokens of
// a tile (8, 16, 32 or 128), tiles their number, groups the groups of rows that are written.
func (q *queue) product(use string, w *matrix, tile, tiles, groups int, args productArgs) {
	args.weights, args.lift = w.data, w.lift
	args.rows, args.units, args.chunks = int32(w.rows), int32(w.units()), int32(w.chunks())
	var threads, shared int
	grid := driver.Dim3{Y: uint32(tiles), Z: 1}
	if tile == 128 {
		grid.X, threads, shared = uint32(ceil(groups, prefillGroups)), 256, 3*(128*128+prefillGroups*w.format.unitBytes)
	} else {
		d := decodings[w.format][tile]
		members := d.members(w, tile, tiles, groups, q.multiprocessors)
		grid.X, threads, shared = uint32(ceil(groups, members*d.groups)), 32*members*w.chunks(), d.shared(w, tile, members)
		if use == "linear" {
			grid.X, grid.Y = grid.Y, grid.X // tiles that read the same rows run side by side
		}
	}
	launch(q, fmt.Sprintf("%s_%s_%d", use, w.format.name, tile), grid, uint32(threads), uint32(shared), &args)
}

// ceil returns how many parts of a size n takes.
func ceil(n, size int) int { return (n + size - 1) / size }

// linear sets row t of dst, float32, to w · (row t of x) + bias. x is bf16, zero from w's columns up
// to a multiple of 64; bias float32 [rows] or 0. Strides are in elements. Which kernel runs depends on the
// number of tokens and rows, what a token gets does not (cuda.md 6.1). Rows of a paired matrix come in its order.
func (q *queue) linear(dst driver.Ptr, dstStride int, x driver.Ptr, xStride int, w *matrix, bias driver.Ptr, tokens int) {
	if tokens == 0 {
		return
	}
	if tile := q.warpgroupTile(w, tokens); tile > 0 {
		q.warpgroupProduct("linear", w, tile, bf16Rows{x, xStride, tokens}, ceil(tokens, tile), w.groups(), productArgs{dst: dst, bias: bias,
			tokens: int32(tokens), dstStride: int32(dstStride)})
		return
	}
	tile := tileOf(w.rows, tokens, q.multiprocessors)
	q.product("linear", w, tile, ceil(tokens, tile), w.groups(), productArgs{dst: dst, x: x, bias: bias,
		tokens: int32(tokens), dstStride: int32(dstStride), xStride: int32(xStride)})
}

// tileOf returns which tile is best for so many tokens of a matrix with so many rows. Up to 64 tokens the
// weights decide, of which two tiles of 32 read the second time from the cache. So do up to eight where
// tiles of 128 tokens would leave half of the multiprocessors without a block.
func tileOf(rows, tokens, multiprocessors int) int {
	switch {
	case tokens <= 8:
		return 8
	case tokens <= 16:
		return 16
	case tokens <= 64, tokens <= 256 && 2*ceil(rows, 16*prefillGroups)*ceil(tokens, 128) < multiprocessors:
		return 32
	}
	return 128
}

// embedArgs is EmbedArgs of kernels/embed.cu.
type embedArgs struct {
	dst, weights, lift, ids driver.Ptr
	units, stride           int32
}

// embed sets row t of dst, float32, to row ids[t] of table, exactly; ids are int32 below its rows. Columns
// from the table's up to a multiple of 64 become zero, so stride must have room for them.
func (q *queue) embed(dst driver.Ptr, stride int, table *matrix, ids driver.Ptr, tokens int) {
	if tokens == 0 {
		return
	}
	launch(q, "embed_"+table.format.name, driver.Dim3{X: uint32(tokens), Y: ceilDiv(table.units(), 4), Z: 1}, 128, 0, &embedArgs{dst: dst, weights: table.data,
		lift: table.lift, ids: ids, units: int32(table.units()), stride: int32(stride)})
}
