package cuda

import (
	"fmt"

	"ossian/internal/cuda/driver"
)

// routeArgs is RouteArgs of kernels/route.cu.
type routeArgs struct {
	ids, weights, logits, order, tiles driver.Ptr
	stride, logitStride, tokens        int32
	experts, topK, renormaliseOverTopK int32
	numTiles, _                        int32
}

// maxTopK is the most experts of a token that route can choose.
const maxTopK = 32

// A routing says what route does: it chooses the topK experts of each token with the largest logits, ties
// to the lowest number, NaN last (topK from 1 to maxTopK): ids ascending, and weights, the softmax over the
// chosen logits (renorm) or over all, both float32 rows of stride elements (models.md 1.2, 2.2).
type routing struct {
	ids, weights          driver.Ptr
	stride                int
	logits                floatRows
	tokens, experts, topK int
	renorm                bool
}

// args are those of the kernels; what cannot be chosen is the queue's error.
func (r *routing) args(q *queue) *routeArgs {
	if r.topK < 1 || r.topK > min(r.experts, maxTopK) {
		q.fail(fmt.Errorf("%d of %d experts for each token: 1 to %d can be chosen on a CUDA device; use --device cpu", r.topK, r.experts, min(r.experts, maxTopK)))
	}
	args := &routeArgs{ids: r.ids, weights: r.weights, logits: r.logits.at, stride: int32(r.stride), logitStride: int32(r.logits.stride),
		tokens: int32(r.tokens), experts: int32(r.experts), topK: int32(r.topK)}
	if r.renorm {
		args.renormaliseOverTopK = 1
	}
	return args
}

// route is a routing.
func (q *queue) route(r *routing) {
	if r.tokens > 0 {
		launch(q, "route", driver.Dim3{X: ceilDiv(r.tokens, 4), Y: 1, Z: 1}, 128, 0, r.args(q))
	}
}

// planTokens is the most tokens that routePlan takes.
const planTokens = 8

// routePlan is route and then expertPlan of what it chose, in one kernel, for 1 to planTokens tokens.
func (q *queue) routePlan(r *routing, a *expertArgs) {
	args, s := r.args(q), a.space(a.tokens)
	args.order, args.tiles, args.numTiles = a.scratch+driver.Ptr(s.order), a.scratch+driver.Ptr(s.list), int32(s.tiles)
	launch(q, "route_plan", driver.Dim3{X: 1, Y: 1, Z: 1}, uint32(32*r.tokens), 0, args)
}
