package cuda

import (
	"fmt"

	"ossian/internal/cuda/driver"
)

// Products for many tokens on Hopper (kernels/product_wgmma.cuh): the bits of product, at about twice
// its speed. Their tokens are copied as boxes, which a tensor map describes to the card.

// tensorProductArgs is TensorProductArgs of kernels/product_wgmma.cuh.
type tensorProductArgs struct {
	x       driver.TensorMap
	product productArgs
	_       [10]int32
}

// bf16Rows are rows of bf16.
type bf16Rows struct {
	at     driver.Ptr
	stride int // elements
	count  int
}

// warpgroupStages is how many stages there are for tokens in shared memory.
const warpgroupStages = 8

// warpgroups reports whether this card has products by warpgroups for a matrix.
func (q *queue) warpgroups(w *matrix) bool { return q.hopper && w.format.warpgroups }

// warpgroupTile returns the tokens of a tile of w by warpgroups, 0 where those of product are as fast or
// faster. An H100 decided (docs/measurements): tiles of 128 tokens read weights least often, but most of
// its multiprocessors need blocks to do; up to 64 tokens the weights decide, of which more than one tile
// reads too much if they are many.
func (q *queue) warpgroupTile(w *matrix, tokens int) int {
	rows := ceil(w.groups(), prefillGroups)
	switch {
	case !q.warpgroups(w):
		return 0
	case q.tile > 0:
		return q.tile
	case tokens <= 32, tokens <= 64 && rows < largeCard, tokens <= 256 && rows*ceil(tokens, 32) < largeCard/2:
		return 0
	case tokens <= 64:
		return 64
	case rows*ceil(tokens, 128) < 80:
		return 32
	}
	return 128
}

// warpgroupProduct launches a product of rows of x for tiles of up to tile of them: 32, 64 or 128; see
// product. Rows of up and down lie in the order of experts.
func (q *queue) warpgroupProduct(use string, w *matrix, tile int, x bf16Rows, tiles, groups int, args productArgs) {
	if q.err != nil {
		return
	}
	described, err := q.drv.EncodeTensor(&driver.TensorBox{Base: x.at, Size: [2]uint64{uint64(x.stride), uint64(x.count)}, Stride: uint64(2 * x.stride),
		Box: [2]uint32{64, uint32(tile)}, Swizzle128: true, ElementType: driver.BFloat16})
	if err != nil {
		q.fail(fmt.Errorf("rows of a product: %w", err))
		return
	}
	args.weights, args.lift = w.data, w.lift
	args.rows, args.units, args.chunks = int32(w.rows), int32(w.units()), int32(w.chunks())
	launch(q, fmt.Sprintf("wgmma_%s_%s_%d", use, w.format.name, tile), driver.Dim3{X: uint32(ceil(groups, prefillGroups)), Y: uint32(tiles), Z: 1},
		256, uint32(warpgroupStages*tile*128), &tensorProductArgs{x: described, product: args})
}
