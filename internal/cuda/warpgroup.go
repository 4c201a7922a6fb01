package cuda

import (
	"fmt"

	"ossian/internal/cuda/driver"
)

// Products for many tokens on Hopper (kernels/product_wgmma.cu): the bits of product, at more than twice
// its speed. Their tokens are copied as boxes, which a tensor map describes to the card.

// tensorProductArgs is TensorProductArgs of kernels/product_wgmma.cu.
type tensorProductArgs struct {
	x       driver.TensorMap
	product productArgs
	_       [10]int32
}

// rowsOf16 are rows of bf16.
type rowsOf16 struct {
	at     driver.Ptr
	stride int // elements
	count  int
}

// Sizes of kernels/product_wgmma.cu: rows of a box, bytes of the stages that boxes go through.
const (
	boxRows         = 64
	warpgroupStages = 6 * 128 * 128
)

// warpgroups reports whether this card has products by warpgroups for a matrix.
func (q *queue) warpgroups(w *matrix) bool { return q.hopper && w.format.warpgroups }

// warpgroupProduct launches a product of rows of x for tiles of up to 128 of them; see product. Rows of up
// and down lie in the order of experts.
func (q *queue) warpgroupProduct(use string, w *matrix, x rowsOf16, tiles, groups int, args productArgs) {
	if q.err != nil {
		return
	}
	described, err := q.drv.EncodeTensor(&driver.TensorBox{Base: x.at, Size: [2]uint64{uint64(x.stride), uint64(x.count)}, Stride: uint64(2 * x.stride),
		Box: [2]uint32{64, boxRows}, Swizzle128: true, ElementType: driver.BFloat16})
	if err != nil {
		q.fail(fmt.Errorf("rows of a product: %w", err))
		return
	}
	args.weights, args.lift = w.data, w.lift
	args.rows, args.units, args.chunks = int32(w.rows), int32(w.units()), int32(w.chunks())
	launch(q, fmt.Sprintf("wgmma_%s_%s", use, w.format.name), driver.Dim3{X: uint32(ceil(groups, prefillGroups)), Y: uint32(tiles), Z: 1},
		256, warpgroupStages, &tensorProductArgs{x: described, product: args})
}
