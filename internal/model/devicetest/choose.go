package devicetest

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"ossian/internal/model"
	"ossian/internal/runner"
	"ossian/internal/sample"
	"ossian/internal/tensor"
)

// mixture is a spec with experts.
func mixture(experts, topK int, renorm bool) *model.Spec {
	sp := spec()
	sp.FFN = model.FFN{Inner: 32, Experts: experts, TopK: topK, Renorm: renorm}
	return sp
}

func (s Subject) route(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	cases := []struct {
		name   string
		logits []float32
		want   []int
	}{
		{"distinct", []float32{0, 3, -1, 2, 1, -5, 0.5}, []int{1, 3, 4}},
		{"ties to the lowest", []float32{1, 2, 1, 2, 1, 2, 2}, []int{1, 3, 5}},
		{"all equal", []float32{4, 4, 4, 4, 4, 4, 4}, []int{0, 1, 2}},
		{"far apart", []float32{-90, 80, -100, 0, 90, -3, -2}, []int{1, 3, 4}},
		{"NaN loses", []float32{nan, -9, nan, -8, -7, nan, -10}, []int{1, 3, 4}},
		{"minus infinity", []float32{-inf, 1, -inf, -inf, -inf, 0, -inf}, []int{0, 1, 5}},
	}
	for _, renorm := range []bool{false, true} {
		for _, c := range cases {
			t.Run(fmt.Sprintf("%s/renorm=%v", c.name, renorm), func(t *testing.T) {
				ids, weights := s.routed(t, renorm, c.logits)
				near(t, "experts", ids, asFloats(c.want), make([]float64, len(c.want)))
				want := routeWeights(c.logits, c.want, renorm)
				near(t, "weights", weights, want, relative(want, 1e-5))
			})
		}
		t.Run(fmt.Sprintf("no number/renorm=%v", renorm), func(t *testing.T) {
			ids, _ := s.routed(t, renorm, slices.Repeat([]float32{nan}, 7))
			near(t, "experts", ids, []float64{0, 1, 2}, make([]float64, 3))
		})
	}
}

func asFloats(x []int) (y []float64) {
	for _, v := range x {
		y = append(y, float64(v))
	}
	return y
}

// routed routes the middle one of three tokens by logits, the others by noise.
func (s Subject) routed(t *testing.T, renorm bool, logits []float32) (ids, weights []float32) {
	t.Helper()
	const topK = 3
	e := len(logits)
	b := s.open(t, mixture(e, topK, renorm), limits(spec()))
	x := slices.Concat(b.normal(e, 1), logits, b.normal(e, 1))
	idb, wb, lb := b.buf(0, topK, nil), b.buf(0, topK, nil), b.buf(0, e, x)
	b.begin(3)
	b.dev.Write(lb, x)
	b.dev.Route(idb, wb, lb)
	ids, weights = b.dev.Read(idb), b.dev.Read(wb)
	b.end()
	return ids[topK : 2*topK], weights[topK : 2*topK]
}

// routeWeights is models.md 1.2 and 2.2.
func routeWeights(logits []float32, chosen []int, renorm bool) (w []float64) {
	sum := 0.0
	for e, l := range logits {
		if l == l && (!renorm || slices.Contains(chosen, e)) {
			sum += math.Exp(float64(l))
		}
	}
	for _, e := range chosen {
		w = append(w, math.Exp(float64(logits[e]))/sum)
	}
	return w
}

func (s Subject) experts(t *testing.T) {
	for _, dt := range []tensor.DType{tensor.F32, tensor.BF16, tensor.MXFP4HF, tensor.Q8_0, tensor.Q4_K} {
		for _, bias := range []bool{false, true} {
			for _, rows := range []int{1, 2, 19, 64} {
				t.Run(fmt.Sprintf("%s/bias=%v/%d", label(dt), bias, rows), func(t *testing.T) { s.expertsCase(t, dt, bias, rows) })
			}
		}
	}
}

func (s Subject) expertsCase(t *testing.T, dt tensor.DType, bias bool, rows int) {
	const experts, topK = 6, 2
	sp := mixture(experts, topK, true)
	n, _ := dt.Block()
	sp.Hidden, sp.FFN.Inner, sp.FFN.Bias, sp.FFN.Activation = max(n, 48)/n*n, max(n, 32), bias, model.SwiGLU
	b := s.open(t, sp, limits(sp))
	h, inner := sp.Hidden, sp.FFN.Inner
	upT, up := encode("up", dt, b.normal(experts*2*inner*h, 0.2), experts, 2*inner, h)
	downT, down := encode("down", dt, b.normal(experts*h*inner, 0.2), experts, h, inner)
	upB, downB := make([]float32, experts*2*inner), make([]float32, experts*h)
	var upBias, downBias model.Weight
	if bias {
		upB, downB = b.normal(len(upB), 1), b.normal(len(downB), 1)
		upBias, downBias = b.vector(upB, experts, 2*inner), b.vector(downB, experts, h)
	}
	upW, downW := b.upload(upT, model.AsMatrix), b.upload(downT, model.AsMatrix)
	x, ids, weights := b.normal(rows*h, 1), []float32(nil), []float32(nil)
	for i := range rows {
		first := b.rng.IntN(experts - 2) // the last expert is never chosen: nothing may depend on it
		second := first + 1 + b.rng.IntN(experts-2-first)
		ids = append(ids, float32(first), float32(second))
		weights = append(weights, 0.25+float32(i%3)/8, 0.75-float32(i%3)/8)
	}
	xb, ib, wb, dst := b.buf(0, h, x), b.buf(0, topK, ids), b.buf(0, topK, weights), b.buf(0, h, nil)
	b.begin(rows)
	b.dev.Write(xb, x)
	b.dev.Write(ib, ids)
	b.dev.Write(wb, weights)
	b.dev.Experts(dst, xb, ib, wb, upW, upBias, downW, downBias)
	got := b.dev.Read(dst)
	b.end()
	for i := range rows {
		want, tol := make([]float64, h), make([]float64, h)
		for j := range topK {
			e, weight := int(ids[i*topK+j]), float64(weights[i*topK+j])
			y, bound := s.expert(dt, x[i*h:][:h], up[e*2*inner*h:], upB[e*2*inner:][:2*inner], down[e*h*inner:], downB[e*h:][:h])
			for k := range y {
				want[k] += weight * y[k]
				tol[k] += weight * bound[k]
			}
		}
		near(t, fmt.Sprintf("token %d", i), got[i*h:][:h], want, tol)
	}
}

// expert is one expert of models.md 1.2. The bound propagates that of the first
// product through the activation, whose slope is below 9 (up+1 <= 8, and below
// 1.13·gate <= 8 in up), and the step of int8 activations of the second.
func (s Subject) expert(dt tensor.DType, x, up, upB, down, downB []float32) (y, tol []float64) {
	inner := len(upB) / 2
	act, actTol := make([]float32, inner), make([]float64, inner)
	for i := range inner {
		g, gTol := s.product(dt, up[2*i*len(x):][:len(x)], x, upB[2*i])
		u, uTol := s.product(dt, up[(2*i+1)*len(x):][:len(x)], x, upB[2*i+1])
		act[i] = float32(activate(model.SwiGLU, g, u))
		actTol[i] = 9 * (gTol + uTol)
	}
	for k, b := range downB {
		w := down[k*inner:][:inner]
		v, vTol := s.product(dt, w, act, b)
		for i, e := range actTol {
			vTol += e * math.Abs(float64(w[i])) * 1.01
		}
		y, tol = append(y, v), append(tol, vTol)
	}
	return y, tol
}

// choose selects the tokens whose logits are wanted, all at once and in parts.
func (s Subject) choose(t *testing.T) {
	sp := spec()
	b := s.open(t, sp, limits(sp))
	lay := newLayout(b, 4)
	batch := lay.batch([]span{{0, 3}, {1, 1}, {2, 4}, {3, 2}})
	batch.Rows[1].Sample = false
	batch.Rows[2].Targets = []int32{5, 6, 7, 8} // the last one is sampled as well
	batch.Rows[3].Targets, batch.Rows[3].Sample = []int32{9}, false
	tokens := []int{2, 4, 5, 6, 7, 7, 8}
	x := b.normal(10*sp.Hidden, 1)
	xb := b.buf(0, sp.Hidden, x)
	b.beginBatch(batch)
	b.dev.Write(xb, x)
	for _, rows := range []int{1, 3, len(tokens), 20} {
		dst, err := b.dev.Alloc(rows, sp.Hidden)
		if err != nil {
			t.Fatal(err)
		}
		for from := 0; from < len(tokens); from += rows {
			var want []float64
			for _, token := range tokens[from:min(from+rows, len(tokens))] {
				want = append(want, wide(x[token*sp.Hidden:][:sp.Hidden])...)
			}
			b.dev.Select(dst, xb, from)
			near(t, fmt.Sprintf("tokens from %d, %d at a time", from, rows), b.dev.Read(dst), want, make([]float64, len(want)))
		}
	}
	b.end()
}

// score checks what is said about targets, beside rows that sample, in two parts.
func (s Subject) score(t *testing.T) {
	sp := spec()
	b := s.open(t, sp, limits(sp))
	lay := newLayout(b, 3)
	for range 2 { // results are reused
		batch := lay.batch([]span{{0, 4}, {1, 1}, {2, 3}})
		batch.Rows[0].Targets = []int32{3, 70, 0}
		batch.Rows[0].Params = &sample.Params{Logprobs: true, PromptLogprobs: true, TopPromptLogprobs: 2, Temperature: 1, LogitBias: map[int32]float32{70: 50}}
		batch.Rows[0].Mask = []uint64{1 << 9, 0} // counts for the sample only
		batch.Rows[2].Targets, batch.Rows[2].Sample = []int32{11, 12, 13}, false
		logits := b.normal(8*sp.Vocab, 3)
		logits[5], logits[6] = 40, 40 // a tie
		logits[1*sp.Vocab+70] = float32(math.NaN())
		part := b.buf(0, sp.Vocab, nil)
		b.beginBatch(batch)
		for _, p := range [][2]int{{0, 5}, {5, 8}} {
			b.dev.Write(part, logits[p[0]*sp.Vocab:p[1]*sp.Vocab])
			b.dev.Sample(part, p[0])
		}
		lay.advance(batch)
		r := b.end()
		if len(r.Scores) != 3 || len(r.Scores[0]) != 3 || len(r.Scores[1]) != 0 || len(r.Scores[2]) != 3 {
			t.Fatalf("scores %v, want 3, none and 3", r.Scores)
		}
		if len(r.Tokens[0]) != 1 || r.Tokens[0][0] != 9 || len(r.Logprobs[0]) != 1 || len(r.Tokens[2]) != 0 {
			t.Errorf("ids %v, log probabilities %v, want 9 first and none last", r.Tokens, r.Logprobs)
		}
		at := 0
		var sampler sample.Sampler
		for i, row := range batch.Rows {
			for k, target := range row.Targets {
				want := sampler.Score(nil, logits[at*sp.Vocab:][:sp.Vocab], target, row.Params.TopPromptLogprobs)
				if got := r.Scores[i][k]; got.Rank != want.Rank || !slices.Equal(got.Logprobs, want.Logprobs) {
					t.Errorf("row %d, target %d: %+v, want %+v", i, k, got, want)
				}
				at++
			}
			if row.Sample {
				at++
			}
		}
	}
	if r := b.chosen(lay, []span{{1, 1}}, nil, b.normal(sp.Vocab, 1)); r.Scores != nil {
		t.Errorf("scores %v unasked", r.Scores)
	}
}

// chosen samples from logits, one row for each, and returns the result.
func (b *bench) chosen(lay *layout, rows []span, change func(r *runner.Batch), logits []float32) *runner.Result {
	b.t.Helper()
	batch := lay.batch(rows)
	if change != nil {
		change(batch)
	}
	lb := b.buf(0, b.spec.Vocab, nil)
	b.beginBatch(batch)
	b.dev.Write(lb, logits)
	b.dev.Sample(lb, 0)
	lay.advance(batch)
	return b.end()
}

func (s Subject) sample(t *testing.T) {
	sp := spec()
	b := s.open(t, sp, limits(sp))
	lay := newLayout(b, 4)
	logits := b.normal(4*sp.Vocab, 1)
	logits[7], logits[9] = 50, 50                                                      // row 0: a tie
	logits[1*sp.Vocab+3] = 99                                                          // row 1: masked away
	copy(logits[2*sp.Vocab:], slices.Repeat([]float32{float32(math.NaN())}, sp.Vocab)) // row 2: no number
	logits[3*sp.Vocab+70] = 60                                                         // row 3: nothing allowed
	r := b.chosen(lay, []span{{0, 1}, {1, 2}, {2, 1}, {3, 3}}, func(batch *runner.Batch) {
		batch.Rows[0].Params = &sample.Params{Logprobs: true, TopLogprobs: 2}
		batch.Rows[1].Mask = []uint64{1 << 20, 0}
		batch.Rows[2].Params = &sample.Params{Temperature: 1, Seed: 3}
		batch.Rows[3].Mask = []uint64{0, 0}
	}, logits)
	for i, ids := range r.Tokens {
		if len(ids) != 1 || ids[0] < 0 || int(ids[0]) >= sp.Vocab {
			t.Errorf("row %d: ids %v", i, ids)
		}
	}
	if r.Tokens[0][0] != 7 || r.Tokens[1][0] != 20 {
		t.Errorf("ids %v, want 7 and 20 first", r.Tokens)
	}
	if len(r.Logprobs) != 4 || len(r.Logprobs[0]) != 3 || len(r.Logprobs[1]) != 0 {
		t.Fatalf("log probabilities %v, want three for row 0 only", r.Logprobs)
	}
	for k, want := range []int32{7, 7, 9} {
		if lp := r.Logprobs[0][k]; lp.ID != want || math.Abs(float64(lp.Logprob)+math.Ln2) > 1e-6 {
			t.Errorf("log probability %d is %v, want id %d at -ln 2", k, lp, want)
		}
	}
	r = b.chosen(lay, []span{{0, 1}, {1, 1}}, func(batch *runner.Batch) { batch.Rows[0].Sample = false }, logits[sp.Vocab:2*sp.Vocab])
	if len(r.Tokens) != 2 || len(r.Tokens[0]) != 0 || len(r.Tokens[1]) != 1 || r.Tokens[1][0] != 3 || r.Logprobs != nil {
		t.Errorf("ids %v, log probabilities %v, want [[] [3]] and none", r.Tokens, r.Logprobs)
	}
	random := &sample.Params{Temperature: 1.5, TopP: 0.9, Seed: 42}
	row := b.normal(sp.Vocab, 1)
	for step := range uint64(20) {
		r := b.chosen(lay, []span{{2, 1}}, func(batch *runner.Batch) { batch.Rows[0].Params, batch.Rows[0].Step = random, step }, row)
		if want := sample.Pick(row, nil, random, nil, step); r.Tokens[0][0] != want {
			t.Errorf("step %d: id %d, sample.Pick gives %d", step, r.Tokens[0][0], want)
		}
	}
}

// oneHot makes logits whose largest is id.
func (b *bench) oneHot(id int32) []float32 {
	x := make([]float32, b.spec.Vocab)
	x[id] = 9
	return x
}

// pending checks that a pending token stands for what the same slot sampled
// last, at every depth, and that results come in order.
func (s Subject) pending(t *testing.T) {
	for depth := 1; depth <= 3; depth++ {
		t.Run(fmt.Sprintf("depth=%d", depth), func(t *testing.T) {
			sp := spec()
			lim := limits(sp)
			lim.Depth = depth
			b := s.open(t, sp, lim)
			table, rows := encode("table", tensor.F32, b.normal(sp.Vocab*sp.Hidden, 1), sp.Vocab, sp.Hidden)
			w, dst, lb := b.upload(table, model.AsTable), b.buf(0, sp.Hidden, nil), b.buf(0, sp.Vocab, nil)
			lay := newLayout(b, 2)
			var want [][2]int32
			collect := func() {
				r, err := b.dev.Wait()
				if err != nil {
					t.Fatal(err)
				}
				if got := [2]int32{r.Tokens[0][0], r.Tokens[1][0]}; got != want[0] {
					t.Fatalf("ids %v, want %v", got, want[0])
				}
				want = want[1:]
			}
			for step := range 9 {
				batch := lay.batch([]span{{step & 1, 1}, {1 - step&1, 1}}) // rows change places, slots do not
				var fed [2]int32
				for i, r := range batch.Rows {
					if fed[i] = 1; step > 0 {
						batch.Tokens[i] = runner.Pending
						fed[i] = int32(10*r.Slot + step - 1)
					}
				}
				b.beginBatch(batch)
				b.dev.Embed(dst, w)
				near(t, "embedding of pending tokens", b.dev.Read(dst), append(wide(rows[int(fed[0])*sp.Hidden:][:sp.Hidden]),
					wide(rows[int(fed[1])*sp.Hidden:][:sp.Hidden])...), make([]float64, 2*sp.Hidden))
				ids := [2]int32{int32(10*batch.Rows[0].Slot + step), int32(10*batch.Rows[1].Slot + step)}
				b.dev.Write(lb, slices.Concat(b.oneHot(ids[0]), b.oneHot(ids[1])))
				b.dev.Sample(lb, 0)
				if err := b.dev.End(); err != nil {
					t.Fatal(err)
				}
				lay.advance(batch)
				if want = append(want, ids); len(want) == depth {
					collect()
				}
			}
			for len(want) > 0 {
				collect()
			}
		})
	}
}

// history checks that penalties see ids that the host does not know yet.
func (s Subject) history(t *testing.T) {
	sp := spec()
	lim := limits(sp)
	lim.Depth = 3
	b := s.open(t, sp, lim)
	lay := newLayout(b, 1)
	logits := make([]float32, sp.Vocab)
	for i := range logits {
		logits[i] = 10 - float32(i) // each penalty makes the next id the best
	}
	prompt := []int32{65, 66}
	lb := b.buf(0, sp.Vocab, nil)
	for step := range 3 {
		n := 1
		if step == 0 {
			n = len(prompt)
		}
		batch := lay.batch([]span{{0, n}})
		copy(batch.Tokens, prompt)
		if step > 0 {
			batch.Tokens[0] = runner.Pending
		}
		batch.Rows[0].Params = &sample.Params{PresencePenalty: 100, Prompt: len(prompt)}
		batch.Rows[0].History = prompt // all that the host knows until the first collection
		b.beginBatch(batch)
		b.dev.Write(lb, logits)
		b.dev.Sample(lb, 0)
		if err := b.dev.End(); err != nil {
			t.Fatal(err)
		}
		lay.advance(batch)
	}
	for want := range int32(3) {
		r, err := b.dev.Wait()
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Tokens[0][0]; got != want {
			t.Errorf("id %d, want %d: ids sampled before were not penalised", got, want)
		}
	}
}

// refuses lists batches that would reach outside the device's memory.
func (s Subject) refuses(t *testing.T) {
	sp := spec()
	b := s.open(t, sp, limits(sp))
	for name, change := range map[string]func(*runner.Batch){
		"id":               func(x *runner.Batch) { x.Tokens[0] = int32(sp.Vocab) },
		"negative id":      func(x *runner.Batch) { x.Tokens[0] = -2 },
		"pending inside":   func(x *runner.Batch) { x.Tokens[0] = runner.Pending },
		"nothing pending":  func(x *runner.Batch) { x.Tokens[1] = runner.Pending },
		"slot":             func(x *runner.Batch) { x.Rows[0].Slot = b.lim.MaxSeqs },
		"block":            func(x *runner.Batch) { x.Rows[0].Tables[0][0] = runner.BlockID(b.lim.Blocks[0]) },
		"no block":         func(x *runner.Batch) { x.Rows[0].Tables[0][0] = runner.NoBlock },
		"short table":      func(x *runner.Batch) { x.Rows[0].Tables[0] = nil },
		"no table":         func(x *runner.Batch) { x.Rows[0].Tables = nil },
		"too long":         func(x *runner.Batch) { x.Rows[0].Start = b.lim.MaxLen },
		"length":           func(x *runner.Batch) { x.Rows[0].Len = 3 },
		"tokens without":   func(x *runner.Batch) { x.Rows[0].Len = 1 },
		"no rows":          func(x *runner.Batch) { x.Rows = nil },
		"no parameters":    func(x *runner.Batch) { x.Rows[0].Params = nil },
		"target":           func(x *runner.Batch) { x.Rows[0].Targets = []int32{int32(sp.Vocab)} },
		"pending target":   func(x *runner.Batch) { x.Rows[0].Targets = []int32{runner.Pending} },
		"too many targets": func(x *runner.Batch) { x.Rows[0].Targets = []int32{1, 2, 3} },
		"too many tokens":  func(x *runner.Batch) { x.Tokens = make([]int32, b.lim.MaxTokens+1) },
		"negative start":   func(x *runner.Batch) { x.Rows[0].Start = -1 },
		"negative overrun": func(x *runner.Batch) { x.Rows[0].Len = -1 },
	} {
		batch := newLayout(b, 1).batch([]span{{0, 2}})
		change(batch)
		if err := b.dev.Begin(batch); err == nil {
			t.Errorf("%s: batch accepted", name)
		}
	}
	b.begin(2) // refusals leave the device usable
	b.end()
}
