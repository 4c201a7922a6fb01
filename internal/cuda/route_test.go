package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// chosen returns the experts of a token and their weights by models.md 1.2 and 2.2, in float64.
func chosen(logits []float32, topK int, renorm bool) (ids []int, weights []float64) {
	for expert := range logits {
		ids = append(ids, expert)
	}
	slices.SortStableFunc(ids, func(a, b int) int {
		x, y := logits[a], logits[b]
		switch {
		case x > y || (x == x && y != y):
			return -1
		case y > x || (y == y && x != x):
			return 1
		}
		return 0
	})
	all := ids
	ids = slices.Sorted(slices.Values(ids[:topK]))
	if renorm {
		all = ids
	}
	sum := 0.0
	for _, expert := range all {
		if v := float64(logits[expert]); v == v {
			sum += math.Exp(v)
		}
	}
	for _, expert := range ids {
		weights = append(weights, math.Exp(float64(logits[expert]))/sum)
	}
	return ids, weights
}

// TestRoute compares experts and weights with the definition: ties, NaN, infinities, more experts
// than lanes, tokens that do not fill a block.
func TestRoute(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	special := [][]float32{
		{0, 3, -1, 2, 1, -5, 0.5},
		{1, 2, 1, 2, 1, 2, 2},
		{4, 4, 4, 4, 4, 4, 4},
		{-90, 80, -100, 0, 90, -3, -2},
		{nan, -9, nan, -8, -7, nan, -10},
		{-inf, 1, -inf, -inf, -inf, 0, -inf},
		{nan, -inf, nan, 5, nan, nan, 4},
		{0, float32(math.Copysign(0, -1)), -1, 0, float32(math.Copysign(0, -1)), -1, -1},
	}
	for _, renorm := range []bool{false, true} {
		for i, logits := range special {
			t.Run(fmt.Sprintf("%d/renorm=%v", i, renorm), func(t *testing.T) { routeCase(t, [][]float32{logits}, 3, renorm) })
		}
		for _, experts := range []int{4, 32, 33, 128, 300} {
			t.Run(fmt.Sprintf("%d experts/renorm=%v", experts, renorm), func(t *testing.T) {
				var tokens [][]float32
				for range 9 {
					row := normals(rng, experts, 3)
					row[rng.IntN(experts)] = row[rng.IntN(experts)] // a tie now and then
					tokens = append(tokens, row)
				}
				routeCase(t, tokens, min(8, experts), renorm)
			})
		}
	}
	t.Run("no number", func(t *testing.T) {
		ids, _ := routed(newRig(t), [][]float32{{nan, nan, nan, nan}}, 3, true)
		if !slices.Equal(ids[0], []float32{0, 1, 2}) {
			t.Errorf("experts %v, want the first three", ids[0])
		}
	})
}

// routed returns what route chooses.
func routed(r *rig, tokens [][]float32, topK int, renorm bool) (ids, weights [][]float32) {
	r.t.Helper()
	experts := len(tokens[0])
	logits := make([]float32, 0, len(tokens)*pad64(experts))
	for _, row := range tokens {
		logits = append(append(logits, row...), make([]float32, pad64(experts)-experts)...)
	}
	const stride = 64
	idsAt, weightsAt := r.alloc(4*stride*len(tokens)), r.alloc(4*stride*len(tokens))
	r.must(r.drv.SetAsync(idsAt, 0xff, uint64(4*stride*len(tokens)), r.q.stream))
	r.must(r.drv.SetAsync(weightsAt, 0xff, uint64(4*stride*len(tokens)), r.q.stream))
	r.q.route(&routing{ids: idsAt, weights: weightsAt, stride: stride, logits: floatRows{upload(r, logits), pad64(experts)}, tokens: len(tokens), experts: experts, topK: topK, renorm: renorm})
	return rowsOf(download[float32](r, idsAt, stride*len(tokens)), topK, stride), rowsOf(download[float32](r, weightsAt, stride*len(tokens)), topK, stride)
}

func routeCase(t *testing.T, tokens [][]float32, topK int, renorm bool) {
	t.Helper()
	ids, weights := routed(newRig(t), tokens, topK, renorm)
	for i, logits := range tokens {
		wantIDs, want := chosen(logits, topK, renorm)
		for k, expert := range wantIDs {
			if ids[i][k] != float32(expert) {
				t.Fatalf("token %d: experts %v, want %v", i, ids[i], wantIDs)
			}
			// A weight is within 1e-6 of itself, or a few units of the smallest float32.
			if math.Abs(float64(weights[i][k])-want[k]) > 1e-6*want[k]+1e-44 {
				t.Errorf("token %d, expert %d: weight %v, want %v", i, expert, weights[i][k], want[k])
			}
		}
	}
}

// TestRouteRefuses holds the error for more experts than a warp has lanes.
func TestRouteRefuses(t *testing.T) {
	q := &queue{}
	q.route(&routing{tokens: 1, experts: 64, topK: maxTopK + 1})
	if q.err == nil || !strings.Contains(q.err.Error(), "33 of 64 experts for each token: 1 to 32 can be chosen") {
		t.Errorf("error %v", q.err)
	}
}
