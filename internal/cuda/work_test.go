package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"ossian/internal/cuda/cost"
	"ossian/internal/cuda/driver"
	"ossian/internal/cuda/emu"
	"ossian/internal/cuda/emu/exec"
	"ossian/internal/model"
	"ossian/internal/model/modeltest"
	"ossian/internal/runner"
	"ossian/internal/sample"
	"ossian/internal/soak"
	"ossian/internal/tensor"
)

// These tests hold the closed forms of package cost to what the emulator counts.

// counted runs a part of a test and returns what its kernels did.
func (r *rig) counted(run func()) map[string]exec.Count {
	r.t.Helper()
	r.sync()
	before := r.machine.Counters().Kernels
	run()
	r.sync()
	after := map[string]exec.Count{}
	for name, c := range r.machine.Counters().Kernels {
		b := before[name]
		c.Launches, c.Warp, c.Sectors, c.Shared = c.Launches-b.Launches, c.Warp-b.Warp, c.Sectors-b.Sectors, c.Shared-b.Shared
		for kind, n := range b.MMA {
			c.MMA[kind] -= n
		}
		if c.Launches > 0 {
			after[name] = c
		}
	}
	return after
}

// allowed is by how much a closed form may differ from what was counted: shares.
type allowed struct{ sectors, warp, shared float64 }

// compareWork compares a closed form with the counters of its kernel. Matrix products are exact always.
func compareWork(t *testing.T, what string, counted map[string]exec.Count, w cost.Work, most allowed) {
	t.Helper()
	c, ok := counted[w.Kernel]
	if !ok {
		t.Errorf("%s: %s did not run; there ran %v", what, w.Kernel, counted)
		return
	}
	mma := int64(0)
	for _, n := range c.MMA {
		mma += n
	}
	check := func(name string, got float64, want int64, share float64) {
		t.Helper()
		if math.Abs(got-float64(want)) > share*float64(want)+1e-6 {
			t.Errorf("%s: %s: %s %.1f, the emulator counts %d (%+.1f %%, at most %.0f %%)", what, w.Kernel, name, got, want, 100*(got/float64(want)-1), 100*share)
		}
	}
	check("products", w.MMA, mma, 0)
	check("sectors", w.Sectors, c.Sectors, most.sectors)
	check("warp instructions", w.Warp, c.Warp, most.warp)
	check("wavefronts", w.Shared, c.Shared, most.shared)
}

// formats are the types of weights with the closed forms' names.
var formats = []struct {
	dtype  tensor.DType
	format cost.Format
}{{tensor.MXFP4HF, cost.MXFP4}, {tensor.BF16, cost.BF16}, {tensor.Q8_0, cost.Q8}}

// TestWorkLinear: sectors, products and wavefronts of products are exact; instructions within 6 %, those of
// products for many tokens within 15 % where blocks are not full.
func TestWorkLinear(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 6))
	for _, f := range formats {
		for _, shape := range [][2]int{{16, 64}, {144, 512}, {40, 1088}, {136, 2048}} {
			rows, cols := shape[0], shape[1]
			for i, tokens := range []int{1, 6, 16, 17, 40, 65, 130} {
				if (i+rows/8)%3 > 0 && soak.Cases(t, 0, 1) == 0 {
					continue
				}
				r := newRig(t)
				source, _ := encoded(t, f.dtype, normals(rng, rows*cols, 1), rows, cols)
				w, x := onCard(r, source, false), newActivations(r, normals(rng, tokens*cols, 1), cols)
				var bias driver.Ptr
				if i%2 == 0 {
					bias = upload(r, normals(rng, rows, 1))
				}
				dst := r.alloc(4 * tokens * pad64(rows))
				counted := r.counted(func() { r.q.linear(dst, pad64(rows), x.at, x.stride, w, bias, tokens) })
				most := allowed{warp: 0.06}
				if tokens > 64 {
					most.warp = 0.15
				}
				compareWork(t, fmt.Sprintf("%s %d×%d, %d tokens", f.format, rows, cols, tokens), counted,
					cost.Linear(cost.Matrix{Format: f.format, Rows: rows, Cols: cols}, bias != 0, tokens), most)
			}
		}
	}
}

// warpgroupsDone turns products by warpgroups into those of mma.sync, which closed forms count.
func warpgroupsDone(c exec.Count) exec.Count {
	total := int64(0)
	for kind, n := range c.MMA {
		var wide int64
		if _, err := fmt.Sscanf(kind, "wgmma.m64n%dk16", &wide); err == nil {
			n *= wide / 8 // the emulator counts one for each of a warpgroup's warps
		}
		total += n
	}
	c.MMA = map[string]int64{"all": total}
	return c
}

// TestWorkWarpgroups: sectors and products of products by warpgroups are exact, instructions within 7 %.
func TestWorkWarpgroups(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 16))
	for _, f := range formats[:2] {
		for _, shape := range [][2]int{{128, 512}, {40, 1088}, {272, 2048}} {
			rows, cols := shape[0], shape[1]
			r := newHopper(t)
			r.q.hopper = true
			source, _ := encoded(t, f.dtype, normals(rng, rows*cols, 1), rows, cols)
			const tokens = 130
			w, x := onCard(r, source, false), newActivations(r, normals(rng, tokens*cols, 1), cols)
			dst := r.alloc(4 * tokens * pad64(rows))
			for _, r.q.tile = range warpgroupTiles() {
				counted := r.counted(func() { r.q.linear(dst, pad64(rows), x.at, x.stride, w, 0, tokens) })
				for name, c := range counted {
					counted[name] = warpgroupsDone(c)
				}
				by := cost.Products{Warpgroups: true, Tile: r.q.tile}
				compareWork(t, fmt.Sprintf("%s %d×%d, tiles of %d", f.format, rows, cols, r.q.tile), counted,
					by.Linear(cost.Matrix{Format: f.format, Rows: rows, Cols: cols}, false, tokens), allowed{warp: 0.07})
			}
		}
	}
}

// TestWorkExpertsByWarpgroups: the kernels of experts by warpgroups are those that run.
func TestWorkExpertsByWarpgroups(t *testing.T) {
	rng := rand.New(rand.NewPCG(17, 18))
	const experts, topK, hidden, inner, tokens = 4, 2, 1088, 96, 260
	r := newHopper(t)
	r.q.hopper = true
	m, a := newMixture(r, rng, tensor.MXFP4HF, hidden, inner, experts, 0), newAssigned(rng, tokens, experts, topK)
	x := newActivations(r, normals(rng, tokens*hidden, 1), hidden)
	counts := make([]int, experts)
	for _, id := range a.ids {
		counts[int(id)]++
	}
	shape := cost.Experts{Up: cost.Matrix{Format: cost.MXFP4, Rows: 2 * inner, Cols: hidden}, Down: cost.Matrix{Format: cost.MXFP4, Rows: hidden, Cols: inner},
		Count: experts, TopK: topK, Bias: true, Products: cost.Products{Warpgroups: true}}
	for _, r.q.tile = range []int{0, 64} {
		counted := r.counted(func() { m.run(r, x, a, 0, tokens) })
		for name, c := range counted {
			counted[name] = warpgroupsDone(c)
		}
		shape.Products.Tile = r.q.tile
		works := shape.WorksOf(tokens, counts)
		if len(works) != len(counted) {
			t.Errorf("tile %d: %d kernels, there ran %v", r.q.tile, len(works), counted)
			continue
		}
		compareWork(t, "rows in order", counted, works[1], allowed{sectors: 0.05, warp: 0.1})
		for _, w := range works[2:4] {
			compareWork(t, fmt.Sprint("tile ", r.q.tile), counted, w, allowed{sectors: 0.1, warp: 0.15})
		}
	}
}

// TestWorkTiles: the closed forms choose the tiles that queues do.
func TestWorkTiles(t *testing.T) {
	r := newHopper(t)
	r.q.hopper = true
	by := cost.Products{Warpgroups: true}
	name := func(w cost.Work) (tile int) {
		if _, err := fmt.Sscanf(w.Kernel, "wgmma_linear_bf16_%d", &tile); err != nil {
			return 0
		}
		return tile
	}
	for tokens := 1; tokens < 3000; tokens += 1 + tokens/9 {
		for _, rows := range []int{32, 512, 2880, 5120, 24576, 201088} {
			w := &matrix{format: formatBF16, experts: 1, rows: rows, cols: 2880}
			if got, want := name(by.Linear(cost.Matrix{Format: cost.BF16, Rows: rows, Cols: 2880}, false, tokens)), r.q.warpgroupTile(w, tokens); got != want {
				t.Errorf("%d rows, %d tokens: a tile of %d, the queue takes %d", rows, tokens, got, want)
			}
		}
	}
}

// TestWorkExperts: products are exact, sectors of the products within 8 % (what is read of the order depends
// on where experts begin in it).
func TestWorkExperts(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 8))
	for _, f := range formats[:2] {
		for i, tokens := range []int{1, 7, 20, 60, 260} {
			if f.format == cost.BF16 && i%2 == 1 {
				continue
			}
			const experts, topK, hidden, inner = 4, 2, 1088, 96
			activation := int32(i % 2)
			r := newRig(t)
			m := newMixture(r, rng, f.dtype, hidden, inner, experts, activation)
			a := newAssigned(rng, tokens, experts, topK)
			x := newActivations(r, normals(rng, tokens*hidden, 1), hidden)
			counted := r.counted(func() { m.run(r, x, a, 0, tokens) })
			counts := make([]int, experts)
			for _, id := range a.ids {
				counts[int(id)]++
			}
			shape := cost.Experts{Up: cost.Matrix{Format: f.format, Rows: 2 * inner, Cols: hidden}, Down: cost.Matrix{Format: f.format, Rows: hidden, Cols: inner},
				Count: experts, TopK: topK, Bias: activation == swigluLimited}
			what := fmt.Sprintf("%s, %d tokens", f.format, tokens)
			works := shape.WorksOf(tokens, counts)
			compareWork(t, what, counted, works[0], allowed{sectors: 0.15, warp: 0.15, shared: 0.2})
			products := allowed{sectors: 0.08, warp: 0.1, shared: 0.1}
			if tokens == 260 { // tiles of 128, blocks with groups that are not there
				products.warp = 0.18
			}
			compareWork(t, what, counted, works[1], products)
			compareWork(t, what, counted, works[2], products)
			compareWork(t, what, counted, works[3], allowed{sectors: 0.05, warp: 0.1})
		}
	}
}

// TestWorkRows: what is done to rows.
func TestWorkRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for _, width := range []int{1024, 2880, 5120} {
		r := newRig(t)
		const rows = 2
		x, y, w := r.uploadRows(normal(rng, width*rows, 1), width), r.uploadRows(normal(rng, width*rows, 1), width), upload(r, normal(rng, width, 1))
		gateUp, d := r.uploadRows(normal(rng, 2*width*rows, 1), 2*width), r.alloc(2*rows*rowStride(width))
		counted := r.counted(func() {
			r.q.addNorm(d, x, y, w, width, rows, 1e-5)
			r.q.glu(d, gateUp, width, rows, model.SwiGLU)
			r.q.selectRows(r.alloc(2*rows*rowStride(width)), d, upload(r, []int32{1, 0}), width, rows)
		})
		what := fmt.Sprintf("width %d", width)
		compareWork(t, what, counted, cost.AddNorm(width, rows, false), allowed{warp: 0.03})
		for _, topK := range []int{4, 8} {
			combine := &combineArgs{planes: upload(r, normal(rng, rows*topK*rowStride(width), 1)), weights: upload(r, normal(rng, rows*64, 1)),
				planeStride: int32(rowStride(width)), weightStride: 64, width: int32(width), topK: int32(topK)}
			counted := r.counted(func() { r.q.addNormExperts(d, x, w, combine, rows, 1e-5) })
			compareWork(t, what, counted, cost.AddNormExperts(width, topK, rows), allowed{warp: 0.03})
		}
		compareWork(t, what, counted, cost.GLU(width, rows), allowed{warp: 0.03})
		compareWork(t, what, counted, cost.Select(width, rows), allowed{warp: 0.05})
	}
	for _, f := range formats {
		r := newRig(t)
		source, _ := encoded(t, f.dtype, normals(rng, 32*2880, 1), 32, 2880)
		table := onCard(r, source, false)
		counted := r.counted(func() { r.q.embed(r.alloc(4*3*2880), 2880, table, upload(r, []int32{1, 2, 3}), 3) })
		compareWork(t, string(f.format), counted, cost.Embed(cost.Matrix{Format: f.format, Rows: 32, Cols: 2880}, 3), allowed{sectors: 0.02, warp: 0.03})
	}
	for _, experts := range []int{32, 128, 256} {
		for _, tokens := range []int{1, 3, 8} {
			r := newRig(t)
			x := r.uploadRows(normal(rng, experts*8, 1), experts)
			route := &routing{ids: r.alloc(4 * 8 * 64), weights: r.alloc(4 * 8 * 64), stride: 64, logits: floatRows{x, rowStride(experts)}, tokens: tokens, experts: experts, topK: 4, renorm: true}
			shape := &matrix{experts: experts, rows: 128, cols: 64}
			plan := &expertArgs{tokens: tokens, topK: 4, up: shape, down: shape}
			plan.scratch = r.alloc(expertScratch(shape, shape, tokens, 4))
			counted := r.counted(func() {
				r.q.route(route)
				r.q.routePlan(route, plan)
			})
			what := fmt.Sprint(experts, " experts, ", tokens, " tokens")
			if tokens == 8 { // where experts lie in sectors is chance
				compareWork(t, what, counted, cost.Route(experts, 4, tokens), allowed{sectors: 0.05, warp: 0.03})
			}
			compareWork(t, what, counted, cost.RoutePlan(experts, 4, tokens), allowed{sectors: 0.15, warp: 0.06, shared: 0.15})
		}
	}
}

// TestWorkAttend: matrix products of attention are exact, sectors within 5 %, instructions within 8 %.
func TestWorkAttend(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(11, 12))
	for i, c := range []attendCase{
		{headShape: headShape{heads: 16, kvHeads: 2, dim: 64, blockSize: 16}, sinks: true},
		{headShape: headShape{heads: 8, kvHeads: 2, dim: 128, blockSize: 16}, window: 128},
		{headShape: headShape{heads: 16, kvHeads: 2, dim: 64, blockSize: 16}, window: 128, codes: true},
		{headShape: headShape{heads: 8, kvHeads: 2, dim: 128, blockSize: 16}, codes: true},
	} {
		for k, span := range [][3]int{{1, 90, 1}, {2, 600, 1}, {1, 300, 90}, {1, 0, 150}} {
			if (i+k)%2 > 0 && soak.Cases(t, 0, 1) == 0 {
				continue
			}
			r := newRig(t)
			var seqs []attendSeq
			var rows []cost.Row
			var before, now []attendSpan
			for seq := range span[0] {
				seqs = append(seqs, c.newSeq(rng, span[1]+span[2]))
				rows = append(rows, cost.Row{Start: span[1], Len: span[2]})
				before, now = append(before, attendSpan{seq, span[1]}), append(now, attendSpan{seq, span[2]})
			}
			b := newAttendBench(r, c, seqs, 1)
			if span[1] > 0 {
				b.skip(before...)
			}
			counted := r.counted(func() { b.step(now...) })
			heads := cost.Heads{Heads: c.heads, KV: c.kvHeads, Dim: c.dim, Codes: c.codes}
			for _, w := range heads.Attend(rows, c.window) {
				most := allowed{sectors: 0.05, warp: 0.08, shared: 0.05}
				if w.Kernel == "attend_merge" {
					most = allowed{sectors: 0.15, warp: 0.15}
				}
				compareWork(t, fmt.Sprintf("%v, %v", &c, span), counted, w, most)
			}
		}
	}
}

// TestWorkRotate: rotation with and without norms, and the store of what it makes.
func TestWorkRotate(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	for i, dim := range []int{64, 64, 128, 128} {
		for _, norm := range []bool{false, true} {
			r, codes := newRig(t), i%2 == 1
			h := headShape{heads: 8, kvHeads: 2, dim: dim, blockSize: 16}
			const tokens = 3
			rows := func(heads int) floatRows {
				return floatRows{r.uploadRows(normal(rng, tokens*heads*dim, 1), heads*dim), heads * dim}
			}
			turn := rotation{queries: rows(8), keys: rows(2), eps: 1e-6}
			if norm {
				turn.qNorm = upload(r, normal(rng, dim, 1))
				turn.kNorm = turn.qNorm
			}
			vectors, scales := h.kvBytes(4, codes)
			layer := &kvLayer{keys: r.alloc(vectors), values: r.alloc(vectors)}
			if codes {
				layer.keyScales, layer.valueScales = r.alloc(scales), r.alloc(scales)
			}
			step := &stepArrays{count: tokens, turn: upload(r, normal(rng, tokens*dim, 1)), pos: upload(r, []int32{3, 4, 5}), row: upload(r, []int32{0, 0, 0}),
				tables: []blockTable{{upload(r, []int32{2}), 1}}}
			counted := r.counted(func() { r.q.rotateAndStore(turn, rows(2), layer, &h, step) })
			heads := cost.Heads{Heads: 8, KV: 2, Dim: dim, Norm: norm, Codes: codes}
			compareWork(t, fmt.Sprint(dim, norm, codes), counted, heads.RotateStore(tokens), allowed{sectors: 0.02, warp: 0.05})
		}
	}
}

// TestWorkSample: kernels that go through logits. A flat distribution, which has most to draw from, takes
// more than one with a clear favourite: instructions are those of logits with a deviation of 3.
func TestWorkSample(t *testing.T) {
	const vocab, rows = 2 * 2048, 3
	rng := rand.New(rand.NewPCG(15, 16))
	for _, temperature := range []float32{0, 1} {
		r := newSampleRig(t, vocab, model.Limits{MaxSeqs: rows, MaxTokens: rows, Depth: 1})
		batch := &runner.Batch{}
		var logits [][]float32
		for i := range rows {
			batch.Tokens = append(batch.Tokens, 1)
			batch.Rows = append(batch.Rows, runner.Row{Slot: i, Len: 1, Sample: true, Params: &sample.Params{Temperature: temperature, Seed: uint64(i)}})
			logits = append(logits, normal(rng, vocab, 3))
		}
		r.start(batch)
		counted := r.rig.counted(func() { r.feed(logits, rows) })
		r.finish(expect(batch, logits, nil))
		r.collect(func(i int) string { return fmt.Sprint(i) })
		for _, w := range cost.Sample(vocab, rows, temperature > 0) {
			most := allowed{sectors: 0.1, warp: 0.15, shared: 0.3}
			if w.Kernel == "sample_finish" { // a few hundred instructions
				most = allowed{sectors: 1, warp: 1}
			}
			compareWork(t, fmt.Sprint("temperature ", temperature), counted, w, most)
		}
	}
}

// formatNamed is the closed forms' name for how a parameter is packed; empty: there is no such parameter.
func formatNamed(t *testing.T, params map[string]tensor.Tensor, name string) cost.Format {
	t.Helper()
	param, ok := params[name]
	if !ok {
		return ""
	}
	f, err := formatOf(param.DType)
	if err != nil {
		t.Fatal(err)
	}
	return cost.Format(f.name)
}

// TestWorkStep: the kernels of a step are those that the device launches, each as often; a prompt and rows
// of one token, of models with experts and without.
func TestWorkStep(t *testing.T) {
	for _, family := range []string{"gpt-oss", "qwen3"} {
		s, params := modeltest.Tiny(family, small()[family])
		lim := smallLimits(s, 1)
		device := openOn(t, emu.Card{Unchecked: true}, s, lim, Config{})
		decoder, err := model.NewDecoder(s, params, device, lim, nil)
		if err != nil {
			t.Fatal(err)
		}
		shape := cost.Model{Hidden: s.Hidden, Vocab: s.Vocab, Windows: s.Windows, Bias: s.QKVBias, Inner: s.FFN.Inner,
			Heads: cost.Heads{Heads: s.Heads, KV: s.KVHeads, Dim: s.HeadDim, Norm: s.QKNorm},
			Dense: formatNamed(t, params, "layers.0.q"), Router: formatNamed(t, params, "layers.0.router"), Table: formatNamed(t, params, "embed"), Head: formatNamed(t, params, "head")}
		if s.Tied {
			shape.Head = shape.Table
		}
		if s.FFN.Experts > 0 {
			format := formatNamed(t, params, "layers.0.up")
			shape.Experts = &cost.Experts{Up: cost.Matrix{Format: format, Rows: 2 * s.FFN.Inner, Cols: s.Hidden}, Down: cost.Matrix{Format: format, Rows: s.Hidden, Cols: s.FFN.Inner},
				Count: s.FFN.Experts, TopK: s.FFN.TopK, Bias: s.FFN.Bias}
		}
		windows, _ := s.Groups()
		for _, lengths := range [][]int{{30, 1}, {1, 1, 1}} {
			batch, step := &runner.Batch{}, cost.Step{}
			for slot, length := range lengths {
				row := runner.Row{Slot: slot, Len: length, Sample: true, Params: &sample.Params{}}
				for range windows {
					row.Tables = append(row.Tables, []runner.BlockID{runner.BlockID(8 * slot), runner.BlockID(8*slot + 1), runner.BlockID(8*slot + 2), runner.BlockID(8*slot + 3)})
				}
				for i := range length {
					batch.Tokens = append(batch.Tokens, int32(i))
				}
				row.History = batch.Tokens[len(batch.Tokens)-length:]
				batch.Rows, step.Rows = append(batch.Rows, row), append(step.Rows, cost.Row{Len: length})
				step.Sampled++
			}
			before := device.machine.Counters().Kernels
			if err := decoder.Launch(batch); err != nil {
				t.Fatal(err)
			}
			if _, err := decoder.Collect(); err != nil {
				t.Fatal(err)
			}
			left := map[string]int64{}
			for name, c := range device.machine.Counters().Kernels {
				left[name] = c.Launches - before[name].Launches
			}
			for _, one := range shape.Launches(step) {
				left[one.Kernel] -= int64(one.Times)
			}
			for name, n := range left {
				if n != 0 {
					t.Errorf("%s, rows of %v: %s: the device launches it %d times more than counted", family, lengths, name, n)
				}
			}
		}
		if err := decoder.Close(); err != nil {
			t.Error(err)
		}
	}
}
