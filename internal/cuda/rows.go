package cuda

import (
	"fmt"
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
	dst, sum, add, weight, planes, shares   driver.Ptr
	width, stride, planeStride, shareStride int32
	eps                                     float32
	_                                       int32
}

// normThreads are the threads of a block of add_norm: what a row has of groups of 4, in whole warps.
func normThreads(width int) uint32 { return uint32(min((width+127)/128*32, 1024)) }

// addNorm: sum += add, both float32 (add may be 0: none); dst = bf16(sum/sqrt(mean(sum²)+eps)·weight),
// the weight float32 [width]. models.md 1.2, cuda.md 6.5.
func (q *queue) addNorm(dst, sum, add, weight driver.Ptr, width, rows int, eps float32) {
	if rows == 0 {
		return
	}
	launch(q, "add_norm", driver.Dim3{X: uint32(rows), Y: 1, Z: 1}, normThreads(width), 0,
		&addNormArgs{dst: dst, sum: sum, add: add, weight: weight, width: int32(width), stride: int32(rowStride(width)), eps: eps})
}

// addNormExperts is combine and then addNorm of what it made, with the same bits, in one kernel: where
// normsExperts says so.
func (q *queue) addNormExperts(dst, sum, weight driver.Ptr, a *combineArgs, rows int, eps float32) {
	launch(q, fmt.Sprintf("add_norm_experts_%d", a.topK), driver.Dim3{X: uint32(rows), Y: 1, Z: 1}, normThreads(int(a.width)), 0,
		&addNormArgs{dst: dst, sum: sum, weight: weight, planes: a.planes, shares: a.weights, width: a.width, stride: int32(rowStride(int(a.width))),
			planeStride: a.planeStride, shareStride: a.weightStride, eps: eps})
}

// normsExperts reports whether there is an addNormExperts for so many experts of a token and such a width.
func normsExperts(topK, width int) bool { return (topK == 4 || topK == 8) && width%4 == 0 }

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

// rotateStoreArgs is RotateStoreArgs of kernels/rotate.cu.
type rotateStoreArgs struct {
	keys, values, keyScales, valueScales   driver.Ptr
	q, k, v                                driver.Ptr
	qNorm, kNorm, turn                     driver.Ptr
	table, pos, row                        driver.Ptr
	qStride, kStride, vStride, tableStride int32
	heads, kvHeads, dim, padded, blockSize int32
	eps                                    float32
}

// headsOfBlock is how many heads share a block of rotate_store.
const headsOfBlock = 4

// floatRows are float32 rows, so many elements apart.
type floatRows struct {
	at     driver.Ptr
	stride int
}

// A rotation is what is done to queries and keys of a step: turned in place by the angles of their tokens
// (models.md 1.3), after a norm of each head where qNorm and kNorm are given, float32 [dim].
type rotation struct {
	queries, keys floatRows
	qNorm, kNorm  driver.Ptr
	eps           float32
}

// rotate is a rotation alone.
func (q *queue) rotate(r rotation, h *headShape, step *stepArrays) {
	q.rotateStore(&rotateStoreArgs{q: r.queries.at, k: r.keys.at, qNorm: r.qNorm, kNorm: r.kNorm, turn: step.turn,
		qStride: int32(r.queries.stride), kStride: int32(r.keys.stride), heads: int32(h.heads), eps: r.eps}, h, step)
}

// store writes the float32 keys and values of a step's tokens into their blocks, in the type of the
// layer. In a bf16 cache a vector of values that has one beyond its range or no number is stored as
// zeros, with a key that is no number: see the kernel.
func (q *queue) store(keys, values floatRows, layer *kvLayer, h *headShape, step *stepArrays) {
	q.rotateStore(stored(&rotateStoreArgs{k: keys.at, kStride: int32(keys.stride)}, values, layer, h, step), h, step)
}

// rotateAndStore is rotate and then store of its keys, with the same bits, in one kernel. What becomes of
// keys outside of the cache is not defined.
func (q *queue) rotateAndStore(r rotation, values floatRows, layer *kvLayer, h *headShape, step *stepArrays) {
	args := &rotateStoreArgs{q: r.queries.at, k: r.keys.at, qNorm: r.qNorm, kNorm: r.kNorm, turn: step.turn,
		qStride: int32(r.queries.stride), kStride: int32(r.keys.stride), heads: int32(h.heads), eps: r.eps}
	q.rotateStore(stored(args, values, layer, h, step), h, step)
}

// stored adds to args what store needs.
func stored(args *rotateStoreArgs, values floatRows, layer *kvLayer, h *headShape, step *stepArrays) *rotateStoreArgs {
	table := step.tables[layer.group]
	args.keys, args.values, args.keyScales, args.valueScales = layer.keys, layer.values, layer.keyScales, layer.valueScales
	args.v, args.vStride = values.at, int32(values.stride)
	args.table, args.tableStride, args.pos, args.row = table.ids, int32(table.stride), step.pos, step.row
	args.padded, args.blockSize = int32(h.padded()), int32(h.blockSize)
	return args
}

// rotateStore launches the kernel for the heads of queries in args, and those of keys.
func (q *queue) rotateStore(args *rotateStoreArgs, h *headShape, step *stepArrays) {
	if step.count == 0 {
		return
	}
	args.kvHeads, args.dim = int32(h.kvHeads), int32(h.dim)
	launch(q, "rotate_store", driver.Dim3{X: uint32(step.count), Y: ceilDiv(int(args.heads)+h.kvHeads, headsOfBlock), Z: 1}, 32*headsOfBlock, 0, args)
}
