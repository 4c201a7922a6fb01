package cuda

import (
	"fmt"

	"ossian/internal/cuda/driver"
)

// routeArgs is RouteArgs of kernels/route.cu.
type routeArgs struct {
	ids, weights, logits               driver.Ptr
	stride, logitStride, tokens        int32
	experts, topK, renormaliseOverTopK int32
}

// maxTopK is the most experts of a token that route can choose.
const maxTopK = 32

// route chooses the topK experts of each token with the largest logits, ties to the lowest number,
// NaN last (topK from 1 to maxTopK): ids ascending, and weights, the softmax over the chosen logits (renorm) or over all, both
// float32 rows of stride elements (models.md 1.2, 2.2).
func (q *queue) route(ids, weights driver.Ptr, stride int, logits driver.Ptr, logitStride, tokens, experts, topK int, renorm bool) {
	if tokens == 0 || q.err != nil {
		return
	}
	if topK < 1 || topK > min(experts, maxTopK) {
		q.err = fmt.Errorf("%d of %d experts for each token: 1 to %d can be chosen on a CUDA device; use --device cpu", topK, experts, min(experts, maxTopK))
		return
	}
	args := routeArgs{ids: ids, weights: weights, logits: logits, stride: int32(stride), logitStride: int32(logitStride), tokens: int32(tokens),
		experts: int32(experts), topK: int32(topK)}
	if renorm {
		args.renormaliseOverTopK = 1
	}
	launch(q, "route", driver.Dim3{X: uint32(ceil(tokens, 4)), Y: 1, Z: 1}, 128, 0, &args)
}
