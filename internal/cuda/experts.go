package cuda

import "ossian/internal/cuda/driver"

// Activations of experts, numbered as in kernels/product.cuh.
const (
	swigluLimited int32 = iota // models.md 1.2: limit 7, alpha 1.702, up + 1
	silu                       // silu(gate) · up
)

// expertArgs says what experts does: dst = Σ weight · down(activation(up(x))) over each token's experts.
type expertArgs struct {
	dst, x       driver.Ptr // float32 rows; bf16 rows, zero from the hidden size up to a multiple of 64
	ids, weights driver.Ptr // float32 rows of topK, as route writes them: ids ascending
	up, down     *matrix    // [experts, 2·inner, hidden], paired; [experts, hidden, inner]
	upBias       driver.Ptr // float32 [experts][2·inner] in the order of the checkpoint, or 0
	downBias     driver.Ptr // float32 [experts][hidden], or 0
	scratch      driver.Ptr // expertScratch bytes
	dstStride    int        // elements, as all strides
	xStride      int
	stride       int // of ids and weights
	tokens, topK int
	activation   int32
	warpgroups   bool // products are those of warpgroup.go where there are many tokens
	wide         int  // queue.tile
}

// expertPiece is the most tokens that experts computes at a time: what lies between products is
// float32 for each expert of a token, 377 MB for 8,192 tokens of gpt-oss.
const expertPiece = 2048

// planArgs is PlanArgs, combineArgs CombineArgs of kernels/experts.cu.
type planArgs struct {
	ids, order, tiles                    driver.Ptr
	stride, tokens, topK, tile, numTiles int32
}

type combineArgs struct {
	dst, planes, weights                              driver.Ptr
	dstStride, planeStride, weightStride, width, topK int32
}

// expertSpace is what experts keeps between its kernels for some tokens: byte offsets in scratch.
type expertSpace struct {
	tile, tiles                    int // tokens of a tile; tiles at most
	innerStride, planeStride       int // elements
	order, list, activated, planes int
	bytes                          int
}

// space returns how scratch is used for up to expertPiece tokens.
func (a *expertArgs) space(tokens int) expertSpace {
	experts, assignments := a.up.experts, tokens*a.topK
	s := expertSpace{innerStride: pad64(a.up.rows / 2), planeStride: pad64(a.down.rows)}
	// The tile is chosen by what an expert has on average, so that most have one. Sums do not depend on it.
	switch average := ceil(assignments, experts); {
	case a.warpgroups && a.wide > 0:
		s.tile = a.wide
	case average <= 4:
		s.tile = 8
	case average <= 10:
		s.tile = 16
	case a.warpgroups && average <= 20:
		s.tile = 32
	case a.warpgroups && average <= 96:
		s.tile = 64
	case average <= 48:
		s.tile = 32
	default:
		s.tile = 128
	}
	// Every expert may leave its last tile unfilled.
	s.tiles = assignments/s.tile + min(experts, assignments)
	take := func(bytes int) (at int) {
		at = s.bytes
		s.bytes += (bytes + 255) &^ 255
		return at
	}
	s.order = take(4 * assignments)
	s.list = take(16 * (assignments/8 + min(experts, assignments))) // for any tile: fewer tokens never need more
	s.activated = take(2 * assignments * s.innerStride)
	s.planes = take(4 * assignments * s.planeStride)
	return s
}

// expertScratch returns the bytes that experts needs for steps of up to so many tokens.
func expertScratch(up, down *matrix, tokens, topK int) int {
	a := expertArgs{up: up, down: down, topK: topK}
	return a.space(min(tokens, expertPiece)).bytes
}

// pad64 rounds up to a multiple of 64.
func pad64(n int) int { return (n + 63) &^ 63 }

// experts computes a layer's experts. A token's result depends on nothing but the token: not on who
// else is in the step, nor on tiles (cuda.md 6).
func (q *queue) experts(a *expertArgs) {
	if !a.up.paired || a.down.paired {
		panic("cuda: experts take gates and ups in the paired order, and rows of the other product as they are")
	}
	a.chooseProducts(q)
	for first := 0; first < a.tokens; first += expertPiece {
		piece := *a
		piece.tokens = min(expertPiece, a.tokens-first)
		piece.dst += driver.Ptr(4 * first * a.dstStride)
		piece.x += driver.Ptr(2 * first * a.xStride)
		piece.ids += driver.Ptr(4 * first * a.stride)
		piece.weights += driver.Ptr(4 * first * a.stride)
		q.expertPlan(&piece)
		q.expertProducts(&piece)
		q.combine(piece.combined(), piece.tokens)
	}
}

// gatherArgs is GatherArgs of kernels/gather.cu.
type gatherArgs struct {
	dst, x, order driver.Ptr
	pieces, topK  int32
}

// chooseProducts decides by which kernels a queue computes experts; what space returns depends on it.
func (a *expertArgs) chooseProducts(q *queue) {
	a.warpgroups, a.wide = q.warpgroups(a.up) && q.warpgroups(a.down), q.tile
}

// expertPlan finds out which tokens each expert has: order, by expert, cut into tiles.
func (q *queue) expertPlan(a *expertArgs) {
	s, experts := a.space(a.tokens), a.up.experts
	launch(q, "experts_plan", driver.Dim3{X: uint32(experts), Y: 1, Z: 1}, 1024, uint32(4*experts), &planArgs{ids: a.ids,
		order: a.scratch + driver.Ptr(s.order), tiles: a.scratch + driver.Ptr(s.list), stride: int32(a.stride), tokens: int32(a.tokens),
		topK: int32(a.topK), tile: int32(s.tile), numTiles: int32(s.tiles)})
}

// expertProducts computes the planes: what each expert makes of each of its tokens.
func (q *queue) expertProducts(a *expertArgs) {
	s := a.space(a.tokens)
	order, tiles, activated, planes := a.scratch+driver.Ptr(s.order), a.scratch+driver.Ptr(s.list), a.scratch+driver.Ptr(s.activated), a.scratch+driver.Ptr(s.planes)
	if s.tile >= 32 && a.warpgroups {
		q.expertsByWarpgroups(a, &s)
		return
	}
	// Columns of the activation are written up to its stride, 8 a group.
	q.product("up", a.up, s.tile, s.tiles, s.innerStride/8, productArgs{dst: activated, x: a.x, bias: a.upBias, tiles: tiles, order: order,
		dstStride: int32(s.innerStride), xStride: int32(a.xStride), topK: int32(a.topK), activation: a.activation})
	q.product("down", a.down, s.tile, s.tiles, a.down.groups(), productArgs{dst: planes, x: activated, bias: a.downBias, tiles: tiles, order: order,
		dstStride: int32(s.planeStride), xStride: int32(s.innerStride)})
}

// combined says how the planes become dst.
func (a *expertArgs) combined() *combineArgs {
	s := a.space(a.tokens)
	return &combineArgs{dst: a.dst, planes: a.scratch + driver.Ptr(s.planes), weights: a.weights, dstStride: int32(a.dstStride),
		planeStride: int32(s.planeStride), weightStride: int32(a.stride), width: int32(a.down.rows), topK: int32(a.topK)}
}

// combine adds the planes up.
func (q *queue) combine(a *combineArgs, tokens int) {
	launch(q, "experts_combine", driver.Dim3{X: uint32(tokens), Y: ceilDiv(int(a.width), 512), Z: 1}, 128, 0, a)
}

// expertsByWarpgroups is both products for rows that lie in the order of experts. The tokens' rows in that
// order take the room of the planes, which are not written before all of them have been read.
func (q *queue) expertsByWarpgroups(a *expertArgs, s *expertSpace) {
	order, tiles, activated, planes := a.scratch+driver.Ptr(s.order), a.scratch+driver.Ptr(s.list), a.scratch+driver.Ptr(s.activated), a.scratch+driver.Ptr(s.planes)
	places := a.tokens * a.topK
	launch(q, "experts_gather", driver.Dim3{X: uint32(places), Y: 1, Z: 1}, 128, 0, &gatherArgs{dst: planes, x: a.x, order: order,
		pieces: int32(a.xStride / 8), topK: int32(a.topK)})
	q.warpgroupProduct("up", a.up, s.tile, bf16Rows{planes, a.xStride, places}, s.tiles, s.innerStride/8, productArgs{dst: activated, bias: a.upBias,
		tiles: tiles, order: order, dstStride: int32(s.innerStride), activation: a.activation})
	q.warpgroupProduct("down", a.down, s.tile, bf16Rows{activated, s.innerStride, places}, s.tiles, a.down.groups(), productArgs{dst: planes, bias: a.downBias,
		tiles: tiles, order: order, dstStride: int32(s.planeStride)})
}
