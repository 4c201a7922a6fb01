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

// route tests which experts are chosen, ties and NaN included, and their weights.
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
		for _, test := range cases {
			t.Run(fmt.Sprintf("%s/renorm=%v", test.name, renorm), func(t *testing.T) {
				ids, weights := s.routed(t, renorm, test.logits)
				near(t, "experts", ids, asFloats(test.want), make([]float64, len(test.want)))
				want := routeWeights(test.logits, test.want, renorm)
				near(t, "weights", weights, want, relative(want, 1e-5))
			})
		}
		// Without any number the lowest ones: what matters is that there are topK.
		t.Run(fmt.Sprintf("no number/renorm=%v", renorm), func(t *testing.T) {
			ids, _ := s.routed(t, renorm, slices.Repeat([]float32{nan}, 7))
			near(t, "experts", ids, []float64{0, 1, 2}, make([]float64, 3))
		})
	}
}

// asFloats converts ids, which devices keep as floats.
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
	experts := len(logits)
	bench := s.open(t, mixture(experts, topK, renorm), limits(spec()))
	data := slices.Concat(bench.normal(experts, 1), logits, bench.normal(experts, 1))
	idb, wb, lb := bench.buf(0, topK, nil), bench.buf(0, topK, nil), bench.buf(0, experts, data)
	bench.begin(3)
	bench.dev.Write(lb, data)
	bench.dev.Route(idb, wb, lb)
	ids, weights = bench.dev.Read(idb), bench.dev.Read(wb)
	bench.end()
	return ids[topK : 2*topK], weights[topK : 2*topK]
}

// routeWeights is models.md 1.2 and 2.2.
func routeWeights(logits []float32, chosen []int, renorm bool) (w []float64) {
	sum := 0.0
	for expert, logit := range logits {
		if logit == logit && (!renorm || slices.Contains(chosen, expert)) {
			sum += math.Exp(float64(logit))
		}
	}
	for _, expert := range chosen {
		w = append(w, math.Exp(float64(logits[expert]))/sum)
	}
	return w
}

// experts tests Experts with several types and numbers of rows.
func (s Subject) experts(t *testing.T) {
	for _, dt := range []tensor.DType{tensor.F32, tensor.BF16, tensor.MXFP4HF, tensor.Q8_0, tensor.Q4_K} {
		for _, bias := range []bool{false, true} {
			for _, rows := range []int{1, 2, 19, 64} {
				t.Run(fmt.Sprintf("%s/bias=%v/%d", label(dt), bias, rows), func(t *testing.T) { s.expertsCase(t, dt, bias, rows) })
			}
		}
	}
}

// expertsCase holds random experts of one type to expert.
func (s Subject) expertsCase(t *testing.T, dt tensor.DType, bias bool, rows int) {
	const experts, topK = 6, 2
	sp := mixture(experts, topK, true)
	block, _ := dt.Block()
	sp.Hidden, sp.FFN.Inner, sp.FFN.Bias, sp.FFN.Activation = max(block, 48)/block*block, max(block, 32), bias, model.SwiGLU
	bench := s.open(t, sp, limits(sp))
	hidden, inner := sp.Hidden, sp.FFN.Inner
	upT, up := s.encode("up", dt, bench.normal(experts*2*inner*hidden, 0.2), experts, 2*inner, hidden)
	downT, down := s.encode("down", dt, bench.normal(experts*hidden*inner, 0.2), experts, hidden, inner)
	if bench.lacks(upT, model.AsMatrix) {
		return
	}
	upB, downB := make([]float32, experts*2*inner), make([]float32, experts*hidden)
	var upBias, downBias model.Weight
	if bias {
		upB, downB = bench.normal(len(upB), 1), bench.normal(len(downB), 1)
		upBias, downBias = bench.vector(upB, experts, 2*inner), bench.vector(downB, experts, hidden)
	}
	upW, downW := bench.upload(upT, model.AsMatrix), bench.upload(downT, model.AsMatrix)
	acts, ids, weights := bench.normal(rows*hidden, 1), []float32(nil), []float32(nil)
	for i := range rows {
		first := bench.rng.IntN(experts - 2) // the last expert is never chosen: nothing may depend on it
		second := first + 1 + bench.rng.IntN(experts-2-first)
		ids = append(ids, float32(first), float32(second))
		weights = append(weights, 0.25+float32(i%3)/8, 0.75-float32(i%3)/8)
	}
	xb, ib, wb, dst := bench.buf(0, hidden, acts), bench.buf(0, topK, ids), bench.buf(0, topK, weights), bench.buf(0, hidden, nil)
	bench.begin(rows)
	bench.dev.Write(xb, acts)
	bench.dev.Write(ib, ids)
	bench.dev.Write(wb, weights)
	bench.dev.Experts(dst, xb, ib, wb, upW, upBias, downW, downBias)
	got := bench.dev.Read(dst)
	bench.end()
	acts = s.acts(acts)
	for i := range rows {
		want, tol := make([]float64, hidden), make([]float64, hidden)
		for j := range topK {
			expert, weight := int(ids[i*topK+j]), float64(weights[i*topK+j])
			y, bound := s.expert(dt, acts[i*hidden:][:hidden], up[expert*2*inner*hidden:], upB[expert*2*inner:][:2*inner], down[expert*hidden*inner:], downB[expert*hidden:][:hidden])
			for k := range y {
				want[k] += weight * y[k]
				tol[k] += weight * bound[k]
			}
		}
		near(t, fmt.Sprintf("token %d", i), got[i*hidden:][:hidden], want, tol)
	}
}

// expert is one expert of models.md 1.2. The bound propagates that of the first
// product through the activation, whose slope is below 9 (up+1 <= 8, and below
// 1.13·gate <= 8 in up), and the step of int8 activations of the second.
func (s Subject) expert(dt tensor.DType, x, up, upB, down, downB []float32) (y, tol []float64) {
	inner := len(upB) / 2
	act, actTol := make([]float32, inner), make([]float64, inner)
	for i := range inner {
		gate, gTol := s.product(dt, up[2*i*len(x):][:len(x)], x, upB[2*i])
		value, uTol := s.product(dt, up[(2*i+1)*len(x):][:len(x)], x, upB[2*i+1])
		act[i] = float32(activate(model.SwiGLU, gate, value))
		actTol[i] = 9 * (gTol + uTol)
	}
	if s.Acts == tensor.BF16 { // most values are surely rounded to the same
		for i, v := range act {
			low, mid, high := inBF16(float64(v), actTol[i])
			act[i], actTol[i] = float32(mid), max(mid-low, high-mid)
		}
	}
	for k, b := range downB {
		row := down[k*inner:][:inner]
		sum, vTol := s.product(dt, row, act, b)
		for i, e := range actTol {
			vTol += e * math.Abs(float64(row[i])) * 1.01
		}
		y, tol = append(y, sum), append(tol, vTol)
	}
	return y, tol
}

// join tests, of devices that have it, rows side by side, whole rows, and rows by number, of what was
// written and of norms.
func (s Subject) join(t *testing.T) {
	for _, width := range []int{1, 33, 64, 300} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			bench := s.open(t, spec(), limits(spec()))
			joiner, ok := bench.dev.(model.Joiner)
			if !ok {
				t.Skip("no model.Joiner")
			}
			const rows = 3
			x, y := bench.normal(rows*width, 1), bench.normal(rows*width, 1)
			from, normed, both, whole := bench.buf(0, width, x), bench.buf(0, width, nil), bench.buf(0, 2*width, nil), bench.buf(0, width, nil)
			sum, ones := bench.buf(0, width, y), bench.vector(slices.Repeat([]float32{1}, width), width)
			numbers := [][]int32{nil, {2, 0, 2}}
			bench.begin(rows)
			bench.dev.Write(from, x)
			bench.dev.Write(sum, y)
			bench.dev.AddNorm(normed, sum, nil, ones)
			norms := bench.dev.Read(normed)
			for _, index := range numbers {
				joiner.Join(both, width, from, index)
				joiner.Join(both, 0, normed, nil)
				var want []float32
				for i := range rows {
					row := i
					if index != nil {
						row = int(index[i])
					}
					want = slices.Concat(want, norms[i*width:][:width], s.acts(x[row*width:][:width]))
				}
				near(t, fmt.Sprint("side by side, ", index), bench.dev.Read(both), wide(want), make([]float64, len(want)))
				joiner.Join(whole, 0, from, index)
				picked := slices.Clone(x)
				if index != nil {
					picked = slices.Concat(x[2*width:], x[:width], x[2*width:])
				}
				near(t, fmt.Sprint("whole, ", index), bench.dev.Read(whole), wide(picked), make([]float64, len(x)))
			}
			joiner.Join(whole, 0, normed, nil)
			near(t, "a norm", bench.dev.Read(whole), wide(norms), make([]float64, len(x)))
			bench.end()
		})
	}
}

// choose selects the tokens whose logits are wanted, all at once and in parts.
func (s Subject) choose(t *testing.T) {
	sp := spec()
	bench := s.open(t, sp, limits(sp))
	lay := newLayout(bench, 4)
	batch := lay.batch([]span{{0, 3}, {1, 1}, {2, 4}, {3, 2}})
	batch.Rows[1].Sample = false
	batch.Rows[2].Targets = []int32{5, 6, 7, 8} // the last one is sampled as well
	batch.Rows[3].Targets, batch.Rows[3].Sample = []int32{9}, false
	tokens := []int{2, 4, 5, 6, 7, 7, 8}
	data := bench.normal(10*sp.Hidden, 1)
	xb := bench.buf(0, sp.Hidden, data)
	bench.beginBatch(batch)
	bench.dev.Write(xb, data)
	for _, rows := range []int{1, 3, len(tokens), 20} {
		dsts, err := bench.dev.Alloc(rows, sp.Hidden)
		if err != nil {
			t.Fatal(err)
		}
		dst := dsts[0]
		for from := 0; from < len(tokens); from += rows {
			var want []float64
			for _, token := range tokens[from:min(from+rows, len(tokens))] {
				want = append(want, wide(s.acts(data[token*sp.Hidden:][:sp.Hidden]))...)
			}
			bench.dev.Select(dst, xb, from)
			near(t, fmt.Sprintf("tokens from %d, %d at a time", from, rows), bench.dev.Read(dst), want, make([]float64, len(want)))
		}
	}
	bench.end()
}

// score checks what is said about targets, beside rows that sample, in two parts.
func (s Subject) score(t *testing.T) {
	sp := spec()
	bench := s.open(t, sp, limits(sp))
	lay := newLayout(bench, 3)
	for range 2 { // results are reused
		batch := lay.batch([]span{{0, 4}, {1, 1}, {2, 3}})
		batch.Rows[0].Targets = []int32{3, 70, 0}
		batch.Rows[0].Params = &sample.Params{Logprobs: true, PromptLogprobs: true, TopPromptLogprobs: 2, Temperature: 1, LogitBias: map[int32]float32{70: 50}}
		batch.Rows[0].Mask = []uint64{1 << 9, 0} // counts for the sample only
		batch.Rows[2].Targets, batch.Rows[2].Sample = []int32{11, 12, 13}, false
		logits := bench.normal(8*sp.Vocab, 3)
		logits[5], logits[6] = 40, 40 // a tie
		logits[1*sp.Vocab+70] = float32(math.NaN())
		part := bench.buf(0, sp.Vocab, nil)
		bench.beginBatch(batch)
		for _, span := range [][2]int{{0, 5}, {5, 8}} {
			bench.dev.Write(part, logits[span[0]*sp.Vocab:span[1]*sp.Vocab])
			bench.dev.Sample(part, span[0])
		}
		lay.advance(batch)
		result := bench.end()
		if len(result.Scores) != 3 || len(result.Scores[0]) != 3 || len(result.Scores[1]) != 0 || len(result.Scores[2]) != 3 {
			t.Fatalf("scores %v, want 3, none and 3", result.Scores)
		}
		if len(result.Tokens[0]) != 1 || result.Tokens[0][0] != 9 || len(result.Logprobs[0]) != 1 || len(result.Tokens[2]) != 0 {
			t.Errorf("ids %v, log probabilities %v, want 9 first and none last", result.Tokens, result.Logprobs)
		}
		at := 0
		var sampler sample.Sampler
		for i, row := range batch.Rows {
			for k, target := range row.Targets {
				want := sampler.Score(nil, logits[at*sp.Vocab:][:sp.Vocab], target, row.Params.TopPromptLogprobs)
				if got := result.Scores[i][k]; got.Rank != want.Rank || !slices.Equal(got.Logprobs, want.Logprobs) {
					t.Errorf("row %d, target %d: %+v, want %+v", i, k, got, want)
				}
				at++
			}
			if row.Sample {
				at++
			}
		}
	}
	if result := bench.chosen(lay, []span{{1, 1}}, nil, bench.normal(sp.Vocab, 1)); result.Scores != nil {
		t.Errorf("scores %v unasked", result.Scores)
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

// sample tests Sample beside sample.Pick, with rows that must not disturb each other.
func (s Subject) sample(t *testing.T) {
	sp := spec()
	bench := s.open(t, sp, limits(sp))
	lay := newLayout(bench, 4)
	logits := bench.normal(4*sp.Vocab, 1)
	logits[7], logits[9] = 50, 50                                                      // row 0: a tie
	logits[1*sp.Vocab+3] = 99                                                          // row 1: masked away
	copy(logits[2*sp.Vocab:], slices.Repeat([]float32{float32(math.NaN())}, sp.Vocab)) // row 2: no number
	logits[3*sp.Vocab+70] = 60                                                         // row 3: nothing allowed
	result := bench.chosen(lay, []span{{0, 1}, {1, 2}, {2, 1}, {3, 3}}, func(batch *runner.Batch) {
		batch.Rows[0].Params = &sample.Params{Logprobs: true, TopLogprobs: 2}
		batch.Rows[1].Mask = []uint64{1 << 20, 0}
		batch.Rows[2].Params = &sample.Params{Temperature: 1, Seed: 3}
		batch.Rows[3].Mask = []uint64{0, 0}
	}, logits)
	for i, ids := range result.Tokens {
		if len(ids) != 1 || ids[0] < 0 || int(ids[0]) >= sp.Vocab {
			t.Errorf("row %d: ids %v", i, ids)
		}
	}
	if result.Tokens[0][0] != 7 || result.Tokens[1][0] != 20 {
		t.Errorf("ids %v, want 7 and 20 first", result.Tokens)
	}
	if len(result.Logprobs) != 4 || len(result.Logprobs[0]) != 3 || len(result.Logprobs[1]) != 0 {
		t.Fatalf("log probabilities %v, want three for row 0 only", result.Logprobs)
	}
	for k, want := range []int32{7, 7, 9} {
		if lp := result.Logprobs[0][k]; lp.ID != want || math.Abs(float64(lp.Logprob)+math.Ln2) > 1e-6 {
			t.Errorf("log probability %d is %v, want id %d at -ln 2", k, lp, want)
		}
	}
	result = bench.chosen(lay, []span{{0, 1}, {1, 1}}, func(batch *runner.Batch) { batch.Rows[0].Sample = false }, logits[sp.Vocab:2*sp.Vocab])
	if len(result.Tokens) != 2 || len(result.Tokens[0]) != 0 || len(result.Tokens[1]) != 1 || result.Tokens[1][0] != 3 || result.Logprobs != nil {
		t.Errorf("ids %v, log probabilities %v, want [[] [3]] and none", result.Tokens, result.Logprobs)
	}
	random := &sample.Params{Temperature: 1.5, TopP: 0.9, Seed: 42}
	row := bench.normal(sp.Vocab, 1)
	for step := range uint64(20) {
		result := bench.chosen(lay, []span{{2, 1}}, func(batch *runner.Batch) { batch.Rows[0].Params, batch.Rows[0].OutputIndex = random, step }, row)
		if want := sample.Pick(row, nil, random, nil, step); result.Tokens[0][0] != want {
			t.Errorf("step %d: id %d, sample.Pick gives %d", step, result.Tokens[0][0], want)
		}
	}
}

// oneHot makes logits whose largest is id.
func (b *bench) oneHot(id int32) []float32 {
	logits := make([]float32, b.spec.Vocab)
	logits[id] = 9
	return logits
}

// pending checks that a pending token stands for what the same slot sampled
// last, at every depth, and that results come in order.
func (s Subject) pending(t *testing.T) {
	for depth := 1; depth <= 3; depth++ {
		t.Run(fmt.Sprintf("depth=%d", depth), func(t *testing.T) {
			sp := spec()
			lim := limits(sp)
			lim.Depth = depth
			bench := s.open(t, sp, lim)
			table, rows := s.encode("table", tensor.F32, bench.normal(sp.Vocab*sp.Hidden, 1), sp.Vocab, sp.Hidden)
			weight, dst, lb := bench.upload(table, model.AsTable), bench.buf(0, sp.Hidden, nil), bench.buf(0, sp.Vocab, nil)
			lay := newLayout(bench, 2)
			var want [][2]int32
			collect := func() {
				result, err := bench.dev.Wait()
				if err != nil {
					t.Fatal(err)
				}
				if got := [2]int32{result.Tokens[0][0], result.Tokens[1][0]}; got != want[0] {
					t.Fatalf("ids %v, want %v", got, want[0])
				}
				want = want[1:]
			}
			for step := range 9 {
				batch := lay.batch([]span{{step & 1, 1}, {1 - step&1, 1}}) // rows change places, slots do not
				var fed [2]int32
				for i, result := range batch.Rows {
					if fed[i] = 1; step > 0 {
						batch.Tokens[i] = runner.Pending
						fed[i] = int32(10*result.Slot + step - 1)
					}
				}
				bench.beginBatch(batch)
				bench.dev.Embed(dst, weight)
				near(t, "embedding of pending tokens", bench.dev.Read(dst), append(wide(rows[int(fed[0])*sp.Hidden:][:sp.Hidden]),
					wide(rows[int(fed[1])*sp.Hidden:][:sp.Hidden])...), make([]float64, 2*sp.Hidden))
				ids := [2]int32{int32(10*batch.Rows[0].Slot + step), int32(10*batch.Rows[1].Slot + step)}
				bench.dev.Write(lb, slices.Concat(bench.oneHot(ids[0]), bench.oneHot(ids[1])))
				bench.dev.Sample(lb, 0)
				if err := bench.dev.End(); err != nil {
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
	bench := s.open(t, sp, lim)
	lay := newLayout(bench, 1)
	logits := make([]float32, sp.Vocab)
	for i := range logits {
		logits[i] = 10 - float32(i) // each penalty makes the next id the best
	}
	prompt := []int32{65, 66}
	lb := bench.buf(0, sp.Vocab, nil)
	for step := range 3 {
		tokens := 1
		if step == 0 {
			tokens = len(prompt)
		}
		batch := lay.batch([]span{{0, tokens}})
		copy(batch.Tokens, prompt)
		if step > 0 {
			batch.Tokens[0] = runner.Pending
		}
		batch.Rows[0].Params = &sample.Params{PresencePenalty: 100, Prompt: len(prompt)}
		batch.Rows[0].History = prompt // all that the host knows until the first collection
		bench.beginBatch(batch)
		bench.dev.Write(lb, logits)
		bench.dev.Sample(lb, 0)
		if err := bench.dev.End(); err != nil {
			t.Fatal(err)
		}
		lay.advance(batch)
	}
	for want := range int32(3) {
		result, err := bench.dev.Wait()
		if err != nil {
			t.Fatal(err)
		}
		if got := result.Tokens[0][0]; got != want {
			t.Errorf("id %d, want %d: ids sampled before were not penalised", got, want)
		}
	}
}

// refuses lists batches that would reach outside the device's memory.
func (s Subject) refuses(t *testing.T) {
	sp := spec()
	bench := s.open(t, sp, limits(sp))
	for name, change := range map[string]func(*runner.Batch){
		"id":               func(x *runner.Batch) { x.Tokens[0] = int32(sp.Vocab) },
		"negative id":      func(x *runner.Batch) { x.Tokens[0] = -2 },
		"pending inside":   func(x *runner.Batch) { x.Tokens[0] = runner.Pending },
		"nothing pending":  func(x *runner.Batch) { x.Tokens[1] = runner.Pending },
		"slot":             func(x *runner.Batch) { x.Rows[0].Slot = bench.lim.MaxSeqs },
		"block":            func(x *runner.Batch) { x.Rows[0].Tables[0][0] = runner.BlockID(bench.lim.Blocks[0]) },
		"no block":         func(x *runner.Batch) { x.Rows[0].Tables[0][0] = runner.NoBlock },
		"short table":      func(x *runner.Batch) { x.Rows[0].Tables[0] = nil },
		"no table":         func(x *runner.Batch) { x.Rows[0].Tables = nil },
		"too long":         func(x *runner.Batch) { x.Rows[0].Start = bench.lim.MaxLen },
		"length":           func(x *runner.Batch) { x.Rows[0].Len = 3 },
		"tokens without":   func(x *runner.Batch) { x.Rows[0].Len = 1 },
		"no rows":          func(x *runner.Batch) { x.Rows = nil },
		"no parameters":    func(x *runner.Batch) { x.Rows[0].Params = nil },
		"target":           func(x *runner.Batch) { x.Rows[0].Targets = []int32{int32(sp.Vocab)} },
		"pending target":   func(x *runner.Batch) { x.Rows[0].Targets = []int32{runner.Pending} },
		"too many targets": func(x *runner.Batch) { x.Rows[0].Targets = []int32{1, 2, 3} },
		"too many tokens":  func(x *runner.Batch) { x.Tokens = make([]int32, bench.lim.MaxTokens+1) },
		"negative start":   func(x *runner.Batch) { x.Rows[0].Start = -1 },
		"negative overrun": func(x *runner.Batch) { x.Rows[0].Len = -1 },
	} {
		batch := newLayout(bench, 1).batch([]span{{0, 2}})
		change(batch)
		if err := bench.dev.Begin(batch); err == nil {
			t.Errorf("%s: batch accepted", name)
		}
	}
	bench.begin(2) // refusals leave the device usable
	bench.end()
}
