package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"ossian/internal/cuda/driver"
	"ossian/internal/cuda/emu"
	"ossian/internal/model"
	"ossian/internal/model/modeltest"
	"ossian/internal/runner"
	"ossian/internal/sample"
	"ossian/internal/tensor"
)

// These tests hold kernels that do what two do to the bits of the two.

// TestAddNormExperts: widths of one group, within a warp, at its border and behind, with more groups than
// threads; a token whose experts made what is no number.
func TestAddNormExperts(t *testing.T) {
	const rows, eps = 2, 1e-5
	rng := rand.New(rand.NewPCG(41, 42))
	for _, topK := range []int{4, 8} {
		for _, width := range []int{4, 96, 128, 132, 576, 2880, 4096, 4100, 8200, 12292} {
			r := newRig(t)
			stride := rowStride(width)
			planes, shares, sum := normals(rng, rows*topK*stride, 1), normals(rng, rows*64, 1), normal(rng, rows*width, 3)
			planes[(topK+1)*stride+width-1] = float32(math.NaN())
			weight := upload(r, normal(rng, width, 1))
			c := &combineArgs{dst: r.alloc(4 * rows * stride), planes: upload(r, planes), weights: upload(r, shares), dstStride: int32(stride),
				planeStride: int32(stride), weightStride: 64, width: int32(width), topK: int32(topK)}
			one, other := r.uploadRows(sum, width), r.uploadRows(sum, width)
			dst, want := r.alloc(2*rows*stride), r.alloc(2*rows*stride)
			r.q.combine(c, rows)
			r.q.addNorm(want, other, c.dst, weight, width, rows, eps)
			c.dst = 0
			r.q.addNormExperts(dst, one, weight, c, rows, eps)
			what := fmt.Sprintf("%d experts, width %d", topK, width)
			sameBits(t, what+": sum", r.floatRows(one, rows, width), r.floatRows(other, rows, width))
			if got, want := download[uint16](r, dst, rows*stride), download[uint16](r, want, rows*stride); !slices.Equal(got, want) {
				t.Errorf("%s: %v, want %v", what, got, want)
			}
		}
	}
}

// TestRotateAndStore: every kind of head, with and without norms, in both types of the cache; a value and a
// key that are no numbers.
func TestRotateAndStore(t *testing.T) {
	const tokens = 3
	rng := rand.New(rand.NewPCG(43, 44))
	for i, h := range []headShape{{heads: 4, kvHeads: 2, dim: 2}, {heads: 3, kvHeads: 3, dim: 6}, {heads: 7, kvHeads: 1, dim: 40}, {heads: 8, kvHeads: 1, dim: 64},
		{heads: 2, kvHeads: 1, dim: 66}, {heads: 2, kvHeads: 1, dim: 128}, {heads: 2, kvHeads: 2, dim: 130}, {heads: 1, kvHeads: 1, dim: 256}} {
		h.blockSize = 2
		for _, codes := range []bool{false, true} {
			r := newRig(t)
			width := func(heads int) int { return rowStride(heads*h.dim) + 64 } // rows that lie beside others
			rows := func(heads int, spoilt float32) (floatRows, []float32) {
				x := normal(rng, tokens*width(heads), 1)
				x[width(heads)+h.dim-1] = spoilt
				return floatRows{upload(r, x), width(heads)}, x
			}
			queries, q := rows(h.heads, 1)
			keys, k := rows(h.kvHeads, 1e38)
			values, _ := rows(h.kvHeads, float32(math.Inf(1)))
			turn := rotation{queries: queries, keys: keys, eps: 1e-6}
			if i%2 == 0 {
				turn.qNorm, turn.kNorm = upload(r, normal(rng, h.dim, 1)), upload(r, normal(rng, h.dim, 1))
			}
			step := &stepArrays{count: tokens, turn: upload(r, normal(rng, tokens*h.dim, 1)), pos: upload(r, []int32{1, 3, 4}), row: upload(r, []int32{0, 1, 1}),
				tables: []blockTable{{upload(r, []int32{0, -1, -1, -1, 3, 1}), 3}}}
			vectors, scales := h.kvBytes(4, codes)
			var layers [2]kvLayer
			for i := range layers {
				l := &layers[i]
				for _, pool := range []struct {
					at    *driver.Ptr
					bytes int
				}{{&l.keys, vectors}, {&l.values, vectors}, {&l.keyScales, scales}, {&l.valueScales, scales}} {
					if pool.bytes > 0 {
						*pool.at = r.alloc(pool.bytes)
						r.must(r.drv.SetAsync(*pool.at, 0x55, uint64(pool.bytes), r.q.stream))
					}
				}
			}
			r.q.rotateAndStore(turn, values, &layers[0], &h, step)
			got := download[float32](r, queries.at, len(q))
			sameBits(t, "keys outside of the cache", download[float32](r, keys.at, len(k)), k)
			r.must(r.drv.CopyToDevice(queries.at, floatBytes(q)))
			r.q.rotate(turn, &h, step)
			r.q.store(keys, values, &layers[1], &h, step)
			what := fmt.Sprintf("%+v, codes %v", h, codes)
			sameBits(t, what+": queries", got, download[float32](r, queries.at, len(q)))
			pools := func(l *kvLayer) []byte {
				all := append(download[byte](r, l.keys, vectors), download[byte](r, l.values, vectors)...)
				if codes {
					all = append(append(all, download[byte](r, l.keyScales, scales)...), download[byte](r, l.valueScales, scales)...)
				}
				return all
			}
			if !slices.Equal(pools(&layers[0]), pools(&layers[1])) {
				t.Errorf("%s: the cache differs", what)
			}
		}
	}
}

// TestRoutePlan: one expert and several of few and of many, from one token to as many as there may be.
func TestRoutePlan(t *testing.T) {
	rng := rand.New(rand.NewPCG(45, 46))
	for _, test := range [][2]int{{1, 1}, {4, 4}, {32, 4}, {128, 8}, {130, 32}, {33, 5}} {
		experts, topK := test[0], test[1]
		for _, tokens := range []int{1, 2, 7, planTokens} {
			r := newRig(t)
			logits := normal(rng, tokens*experts, 1)
			shape := &matrix{experts: experts, rows: 128, cols: 64}
			var results [2][]int32
			for i := range results {
				route := &routing{ids: r.alloc(4 * tokens * 64), weights: r.alloc(4 * tokens * 64), stride: 64,
					logits: floatRows{r.uploadRows(logits, experts), rowStride(experts)}, tokens: tokens, experts: experts, topK: topK, renorm: true}
				plan := &expertArgs{ids: route.ids, stride: 64, tokens: tokens, topK: topK, up: shape, down: shape, scratch: r.alloc(expertScratch(shape, shape, tokens, topK))}
				if i == 0 {
					r.q.routePlan(route, plan)
				} else {
					r.q.route(route)
					r.q.expertPlan(plan)
				}
				space := plan.space(tokens)
				all := append(download[int32](r, plan.scratch+driver.Ptr(space.order), tokens*topK), download[int32](r, plan.scratch+driver.Ptr(space.list), 4*space.tiles)...)
				for token := range tokens {
					all = append(all, download[int32](r, route.ids+driver.Ptr(256*token), topK)...)
					all = append(all, download[int32](r, route.weights+driver.Ptr(256*token), topK)...)
				}
				results[i] = all
			}
			if !slices.Equal(results[0], results[1]) {
				t.Errorf("%d of %d experts, %d tokens: order, tiles, ids and weights %v, want %v", topK, experts, tokens, results[0], results[1])
			}
		}
	}
}

// eager is a device on which no operation waits and matrices are multiplied one by one.
type eager struct{ *capture }

func (e *eager) Rotate(q, k model.Buf, qNorm, kNorm model.Weight) {
	e.probe.Rotate(q, k, qNorm, kNorm)
	e.settle()
}

func (e *eager) Route(ids, weights, logits model.Buf) {
	e.probe.Route(ids, weights, logits)
	e.settle()
}

func (e *eager) Experts(dst, x, ids, weights model.Buf, up, upBias, down, downBias model.Weight) {
	e.probe.Experts(dst, x, ids, weights, up, upBias, down, downBias)
	e.settle()
}

func (e *eager) Linears(dst []model.Buf, x model.Buf, w, bias []model.Weight) {
	for i := range dst {
		e.Linear(dst[i], x, w[i], bias[i])
	}
}

// TestWaiting: a model whose operations wait for the next has the bits of one whose operations do not, in
// steps of many tokens and of few, and launches other kernels.
func TestWaiting(t *testing.T) {
	for _, matrix := range []tensor.DType{tensor.BF16, tensor.Q8_0} {
		s, params := modeltest.Tiny("gpt-oss", modeltest.Options{Matrix: matrix})
		lim := smallLimits(s, 1)
		var logits [2][]float32
		var products [2]int64 // for few tokens
		for i := range logits {
			device := &capture{probe: openOn(t, emu.Card{Unchecked: true}, s, lim, Config{dirty: true})}
			var on model.Device = device
			if i == 1 {
				on = &eager{device}
			}
			decoder, err := model.NewDecoder(s, params, on, lim, nil)
			if err != nil {
				t.Fatal(err)
			}
			start := 0
			for _, length := range []int{planTokens + 1, planTokens, 1} {
				batch := &runner.Batch{Rows: []runner.Row{{Start: start, Len: length, Sample: true, Params: &sample.Params{}}}}
				for range s.Windows[:2] {
					batch.Rows[0].Tables = append(batch.Rows[0].Tables, []runner.BlockID{0, 1, 2, 3})
				}
				for k := range length {
					batch.Tokens = append(batch.Tokens, int32(3*k+start))
				}
				batch.Rows[0].History = batch.Tokens
				start += length
				if err := decoder.Launch(batch); err != nil {
					t.Fatal(err)
				}
				if _, err := decoder.Collect(); err != nil {
					t.Fatal(err)
				}
				logits[i] = append(logits[i], device.logits...)
			}
			if !onRealCard() {
				together := device.machine.Counters().Kernels
				for _, kernel := range []string{"add_norm_experts_4", "route_plan"} {
					if ran := together[kernel].Launches > 0; ran == (i == 1) {
						t.Errorf("%v: device %d: %s ran: %v", matrix, i, kernel, ran)
					}
				}
				products[i] = together["linear_"+string(formatNamed(t, params, "layers.0.q"))+"_8"].Launches
			}
			if err := decoder.Close(); err != nil {
				t.Error(err)
			}
		}
		sameBits(t, fmt.Sprint(matrix), logits[0], logits[1])
		if more, want := products[1]-products[0], int64(2*2*s.Layers); more != want && !onRealCard() { // k and v, in two steps
			t.Errorf("%v: one by one there are %d products more, want %d", matrix, more, want)
		}
	}
}
