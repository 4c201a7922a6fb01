package cuda

import (
	"math"

	"ossian/internal/cuda/driver"
	"ossian/internal/model"
)

// Launches of kernels/rows.cu and kernels/rotate.cu: what is done to rows of activations between
// products. A buffer's rows lie rowStride(width) elements apart; the tail of a bf16 row is zero.

// rowStride is the distance of rows of a width, in elements: the next multiple of 64.
func rowStride(width int) int { return (width + 63) &^ 63 }

// ceilDiv is how many pieces of a size cover n.
func ceilDiv(n, size int) uint32 { return uint32((n + size - 1) / size) }

type narrowArgs struct {
	dst, src      driver.Ptr
	width, stride int32
}

// narrow rounds rows of float32 to bf16.
func (q *queue) narrow(dst, src driver.Ptr, width, rows int) {
	if rows == 0 {
		return
	}
	launch(q, "narrow", driver.Dim3{X: uint32(rows), Y: 1, Z: 1}, 128, 0,
		&narrowArgs{dst: dst, src: src, width: int32(width), stride: int32(rowStride(width))})
}

type addNormArgs struct {
	dst, sum, add, weight driver.Ptr
	width, stride         int32
	eps                   float32
	_                     int32
}

// addNorm: sum += add, both float32 (add may be 0: none); dst = bf16(sum/sqrt(mean(sum²)+eps)·weight),
// the weight float32 [width]. models.md 1.2, cuda.md 6.5.
func (q *queue) addNorm(dst, sum, add, weight driver.Ptr, width, rows int, eps float32) {
	if rows == 0 {
		return
	}
	launch(q, "add_norm", driver.Dim3{X: uint32(rows), Y: 1, Z: 1}, 256, 0,
		&addNormArgs{dst: dst, sum: sum, add: add, weight: weight, width: int32(width), stride: int32(rowStride(width)), eps: eps})
}

type selectArgs struct {
	dst, src, index driver.Ptr
	stride, _       int32
}

// selectRows copies bf16 rows: row i of dst becomes row index[i] (int32) of src.
func (q *queue) selectRows(dst, src, index driver.Ptr, width, rows int) {
	if rows == 0 {
		return
	}
	launch(q, "select_rows", driver.Dim3{X: uint32(rows), Y: 1, Z: 1}, 128, 0,
		&selectArgs{dst: dst, src: src, index: index, stride: int32(rowStride(width))})
}

// A gateShape is an activation as kernels compute it: gate·sigmoid(alpha·gate)·(up+shift), the gate at
// most limit and up within ±limit.
type gateShape struct{ alpha, limit, shift float32 }

// gateOf returns the numbers of an activation: models.md 1.2 and 2.2.
func gateOf(a model.Activation) gateShape {
	if a == model.SwiGLU {
		return gateShape{alpha: model.SwiGLUAlpha, limit: model.SwiGLULimit, shift: 1}
	}
	return gateShape{alpha: 1, limit: float32(math.Inf(1))}
}

type gluArgs struct {
	dst, gateUp                 driver.Ptr
	width, dstStride, srcStride int32
	gate                        gateShape
}

// glu makes bf16 rows of a width from float32 rows of twice as many gates and ups by turns.
func (q *queue) glu(dst, gateUp driver.Ptr, width, rows int, a model.Activation) {
	if rows == 0 {
		return
	}
	stride := rowStride(width)
	launch(q, "glu", driver.Dim3{X: uint32(rows), Y: ceilDiv(stride, 2*128), Z: 1}, 128, 0,
		&gluArgs{dst: dst, gateUp: gateUp, width: int32(width), dstStride: int32(stride), srcStride: int32(rowStride(2 * width)), gate: gateOf(a)})
}

type rotateArgs struct {
	q, k, qNorm, kNorm, turn driver.Ptr
	qStride, kStride         int32
	heads, kvHeads, dim      int32
	eps                      float32
}

// headsOfBlock is how many heads share a block of rotate and of store.
const headsOfBlock = 4

// rotate turns the float32 heads of queries and keys in place by the angles of their tokens
// (models.md 1.3), after a norm of each head where qNorm and kNorm are given, float32 [dim].
func (q *queue) rotate(queries, keys, qNorm, kNorm driver.Ptr, h *headShape, step *stepArrays, eps float32) {
	if step.count == 0 {
		return
	}
	launch(q, "rotate", driver.Dim3{X: uint32(step.count), Y: ceilDiv(h.heads+h.kvHeads, headsOfBlock), Z: 1}, 32*headsOfBlock, 0,
		&rotateArgs{q: queries, k: keys, qNorm: qNorm, kNorm: kNorm, turn: step.turn,
			qStride: int32(rowStride(h.heads * h.dim)), kStride: int32(rowStride(h.kvHeads * h.dim)),
			heads: int32(h.heads), kvHeads: int32(h.kvHeads), dim: int32(h.dim), eps: eps})
}

type storeArgs struct {
	keys, values, keyScales, valueScales driver.Ptr
	k, v                                 driver.Ptr
	table, pos, row                      driver.Ptr
	stride, tableStride                  int32
	kvHeads, dim, padded, blockSize      int32
}

// store writes the float32 keys and values of a step's tokens into their blocks, in the type of the
// layer. In a bf16 cache a vector of values that has one beyond its range or no number is stored as
// zeros, with a key that is no number: see the kernel.
func (q *queue) store(keys, values driver.Ptr, layer *kvLayer, h *headShape, step *stepArrays) {
	if step.count == 0 {
		return
	}
	table := step.tables[layer.group]
	launch(q, "store", driver.Dim3{X: uint32(step.count), Y: ceilDiv(h.kvHeads, headsOfBlock), Z: 1}, 32*headsOfBlock, 0,
		&storeArgs{keys: layer.keys, values: layer.values, keyScales: layer.keyScales, valueScales: layer.valueScales,
			k: keys, v: values, table: table.ids, pos: step.pos, row: step.row,
			stride: int32(rowStride(h.kvHeads * h.dim)), tableStride: int32(table.stride),
			kvHeads: int32(h.kvHeads), dim: int32(h.dim), padded: int32(h.padded()), blockSize: int32(h.blockSize)})
}
