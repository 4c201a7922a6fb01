package cuda

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"ossian/internal/cuda/cost"
	"ossian/internal/cuda/driver"
	"ossian/internal/model"
	"ossian/internal/runner"
	"ossian/internal/sample"
	"ossian/internal/tensor"
)

// Times of kernels on a card, by its own events, at the shapes of models (cuda.md 12). They go to the
// file that OSSIAN_KERNELS names, a row each; on the emulator the shapes are small and the times mean
// nothing. Weights lie in memory several times and take turns, so that no cache of the card has them.

// A stopwatch measures launches of a rig and writes rows.
type stopwatch struct {
	*rig
	out        *os.File
	begin, end driver.Event
	small      bool // the shapes that an emulator can do
}

// coldBytes is how much is read before the same memory is read again: several times the largest
// second level cache.
const coldBytes = 512 << 20

// newStopwatch returns one on a card of its own, whose memory is freed with the test.
func newStopwatch(t *testing.T, out *os.File) *stopwatch {
	t.Helper()
	r := newRig(t)
	s := &stopwatch{rig: r, out: out, small: smallShapes()}
	r.q.hopper = onRealCard() && r.major() == 9
	for _, event := range []*driver.Event{&s.begin, &s.end} {
		var err error
		*event, err = r.drv.EventCreate(true)
		r.must(err)
		t.Cleanup(func() { r.must(r.drv.EventDestroy(*event)) })
	}
	return s
}

// measure times work, which gets the number of the round to choose its memory by. read are the bytes
// that it has to move, flop the operations that it has to do.
//
// Rounds are recorded as a graph and launched together: given one by one, the host takes longer over a
// launch than the card over most kernels, and events would tell how fast the host is. A time is that
// of a graph over its rounds.
func (s *stopwatch) measure(kernel, shape string, tokens, context int, read, flop float64, work func(round int)) {
	s.t.Helper()
	alone := s.timed(func() { work(0) }) // the first time modules are loaded, which cannot be recorded
	if !s.small {
		alone = s.timed(func() { work(1) })
	}
	rounds, samples := s.rounds(alone)
	s.must(s.drv.CaptureBegin(s.q.stream))
	for round := range rounds {
		work(round)
	}
	s.must(s.q.err)
	graph, err := s.drv.CaptureEnd(s.q.stream)
	s.must(err)
	exec, err := s.drv.GraphInstantiate(graph)
	s.must(err)
	var times []float64
	for sample := range 1 + samples {
		took := s.timed(func() { s.must(s.drv.GraphLaunch(exec, s.q.stream)) })
		if sample > 0 { // the first launch brings the graph to the card
			times = append(times, took/float64(rounds))
		}
	}
	s.must(s.drv.GraphExecDestroy(exec))
	s.must(s.drv.GraphDestroy(graph))
	slices.Sort(times)
	median, rates := times[len(times)/2], [2]float64{}
	if median > 0 {
		rates = [2]float64{read / median / 1e3, flop / median / 1e6}
	}
	fmt.Fprintf(s.out, "%s,%s,%d,%d,%.2f,%.2f,%.0f,%.1f,%.0f,%.2f\n", kernel, shape, tokens, context, median, times[0], read, rates[0], flop, rates[1])
}

// rounds returns how many rounds a graph has, and how often it is measured, for work that takes so many
// microseconds alone: some 50 rounds in all, fewer of what takes long.
func (s *stopwatch) rounds(alone float64) (rounds, samples int) {
	if s.small {
		return 2, 1
	}
	return max(min(int(2000/max(alone, 1)), 24), 2), max(min(int(100_000/max(alone, 1)), 9), 3)
}

// timed returns the microseconds that the card takes for work, by its own events.
func (s *stopwatch) timed(work func()) float64 {
	s.t.Helper()
	s.must(s.drv.EventRecord(s.begin, s.q.stream))
	work()
	s.must(s.q.err)
	s.must(s.drv.EventRecord(s.end, s.q.stream))
	s.must(s.drv.EventSync(s.end))
	took, err := s.drv.EventElapsed(s.begin, s.end)
	s.must(err)
	return 1e3 * float64(took)
}

// fill returns new memory of a size with random bytes that are repeated: never zeros, which take less
// power, and no more of them than the host can make at once.
func (s *stopwatch) fill(size int, pattern []byte) driver.Ptr {
	s.t.Helper()
	at := s.alloc(size)
	s.must(s.drv.CopyToDevice(at, pattern[:min(size, len(pattern))]))
	for done := len(pattern); done < size; done *= 2 {
		s.must(s.drv.CopyAsync(at+driver.Ptr(done), at, uint64(min(done, size-done)), s.q.stream))
	}
	return at
}

// weights returns copies of a matrix, enough to read coldBytes before the first again. Groups of rows
// repeat: 64 of them are packed.
func (s *stopwatch) weights(dtype tensor.DType, experts, rows, cols int, paired bool) (copies []*matrix, bytes int) {
	s.t.Helper()
	some := min(rows, 1024)
	source, _ := encoded(s.t, dtype, normals(rand.New(rand.NewPCG(1, 2)), some*cols, 0.05), 1, some, cols)
	p, pattern := whole(s.t, source, paired)
	all := *p.in(0, 0)
	all.experts, all.rows = experts, rows
	bytes = experts * all.groups() * p.groupBytes()
	count := 1
	if !s.small {
		count = min(1+coldBytes/bytes, 16)
	}
	for range count {
		one := all
		one.data = s.fill(bytes, pattern)
		copies = append(copies, &one)
	}
	return copies, bytes
}

// TestKernelTimes writes the file; without one it has nothing to do.
func TestKernelTimes(t *testing.T) {
	file := os.Getenv("OSSIAN_KERNELS")
	if file == "" {
		t.Skip("OSSIAN_KERNELS names no file for the times; _tools/cuda/gpu.sh does")
	}
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(out, "kernel,shape,tokens,context,median_us,best_us,bytes,gb_per_s,flop,tflop_per_s")
	t.Run("linear", func(t *testing.T) { timeLinear(t, out) })
	t.Run("experts", func(t *testing.T) { timeExperts(newStopwatch(t, out)) })
	t.Run("attend", func(t *testing.T) { timeAttend(t, out) })
	t.Run("rows", func(t *testing.T) { timeRows(newStopwatch(t, out)) })
	t.Run("sample", func(t *testing.T) { timeSample(t, out) })
	if err := out.Close(); err != nil {
		t.Error(err)
	}
	written, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer written.Close()
	if records, err := cost.ReadRecords(written, "", cost.Products{}); err != nil || len(records) == 0 {
		t.Errorf("%d rows that constants can be fitted to: %v", len(records), err)
	}
}

// smallShapes reports whether shapes are those that an emulator can do.
func smallShapes() bool { return !onRealCard() }

// timeLinear times the products of gpt-oss-20b and Qwen3-8B outside mixtures.
func timeLinear(t *testing.T, out *os.File) {
	names := slices.Sorted(maps.Keys(cost.Matrices))
	counts := []int{1, 2, 8, 16, 32, 64, 128, 256, 512, 2048, 8192}
	if smallShapes() {
		names, counts = names[:1], []int{1}
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			shape, watch := cost.Matrices[name], newStopwatch(t, out)
			if watch.small {
				shape.Rows, shape.Cols = 40, 96
			}
			copies, bytes := watch.weights(dtypeOf(shape.Format), 1, shape.Rows, shape.Cols, false)
			x := watch.fill(2*counts[len(counts)-1]*pad64(shape.Cols), activationBytes(shape.Cols))
			for _, tokens := range counts {
				if 4*tokens*shape.Rows > 4<<30 {
					continue // logits of that many tokens are asked for in no step
				}
				dst := watch.alloc(4 * tokens * pad64(shape.Rows))
				moved := float64(bytes) + float64(tokens)*(2*float64(shape.Cols)+4*float64(shape.Rows))
				watch.measure("linear", name, tokens, 0, moved, 2*float64(tokens)*float64(shape.Rows)*float64(shape.Cols), func(round int) {
					watch.q.linear(dst, pad64(shape.Rows), x, pad64(shape.Cols), copies[round%len(copies)], 0, tokens)
				})
			}
		})
	}
}

// dtypeOf is a type of weights that is packed in a format.
func dtypeOf(format cost.Format) tensor.DType {
	for _, f := range formats {
		if f.format == format {
			return f.dtype
		}
	}
	panic(format)
}

// activationBytes are rows of bf16, random, with their zeros behind them.
func activationBytes(cols int) []byte {
	rng, stride := rand.New(rand.NewPCG(3, 4)), pad64(cols)
	data := make([]byte, 64*2*stride)
	for row := range 64 {
		for k := range cols {
			bits := tensor.ToBF16(float32(rng.NormFloat64()))
			data[2*(row*stride+k)], data[2*(row*stride+k)+1] = byte(bits), byte(bits>>8)
		}
	}
	return data
}

// timeExperts times the mixture of a layer of gpt-oss-20b: 32 experts, of which a token has 4, chosen
// evenly.
func timeExperts(s *stopwatch) {
	hidden, inner, experts, topK := 2880, 2880, 32, 4
	counts := []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 2048, 8192}
	if s.small {
		hidden, inner, experts, topK, counts = 96, 32, 4, 2, []int{1, 3}
	}
	up, upBytes := s.weights(tensor.MXFP4HF, experts, 2*inner, hidden, true)
	down, downBytes := s.weights(tensor.MXFP4HF, experts, hidden, inner, false)
	most := counts[len(counts)-1]
	x := s.fill(2*most*pad64(hidden), activationBytes(hidden))
	const stride = 64
	rng := rand.New(rand.NewPCG(5, 6))
	ids, weights := make([]float32, most*stride), make([]float32, most*stride)
	chosen := make([]map[int]bool, most) // of each token
	for token := range most {
		chosen[token] = map[int]bool{}
		picked := rng.Perm(experts)[:topK]
		slices.Sort(picked)
		for i, expert := range picked {
			ids[token*stride+i], weights[token*stride+i], chosen[token][expert] = float32(expert), 1/float32(topK), true
		}
	}
	args := expertArgs{dst: s.alloc(4 * most * pad64(hidden)), dstStride: pad64(hidden), x: x, xStride: pad64(hidden), ids: upload(s.rig, ids),
		weights: upload(s.rig, weights), stride: stride, scratch: s.alloc(expertScratch(up[0], down[0], most, topK)), topK: topK, activation: swigluLimited}
	used := map[int]bool{}
	for _, tokens := range counts {
		for _, of := range chosen[:tokens] {
			for expert := range of {
				used[expert] = true
			}
		}
		read := float64(upBytes+downBytes) * float64(len(used)) / float64(experts)
		s.measure("experts", fmt.Sprintf("%dx%dx%d", experts, hidden, inner), tokens, 0, read, 6*float64(tokens*topK)*float64(hidden)*float64(inner), func(round int) {
			one := args
			one.tokens, one.up, one.down = tokens, up[round%len(up)], down[round%len(down)]
			s.q.experts(&one)
		})
	}
}

// timeAttend times attention of gpt-oss-20b's full layers: one token of many sequences, and prompts.
func timeAttend(t *testing.T, out *os.File) {
	shape := headShape{heads: 64, kvHeads: 8, dim: 64, blockSize: 16}
	cases := [][3]int{{1, 1, 1000}, {8, 1, 1000}, {32, 1, 1000}, {128, 1, 1000}, {256, 1, 1000}, {1, 1, 8000}, {32, 1, 8000}, {1, 1, 32000}, {1, 2048, 2048}, {4, 512, 4096}, {1, 2048, 32000}}
	if smallShapes() {
		shape, cases = headShape{heads: 4, kvHeads: 2, dim: 6, blockSize: 16}, [][3]int{{2, 1, 20}, {1, 17, 20}}
	}
	for _, c := range cases {
		rows, length, context := c[0], c[1], c[2] // new tokens of a row, keys that its last one sees
		t.Run(fmt.Sprintf("%dx%d/%d", rows, length, context), func(t *testing.T) {
			watch := newStopwatch(t, out)
			perRow := ceil(context, shape.blockSize)
			vectors, _ := shape.kvBytes(rows*perRow, false)
			pattern := activationBytes(shape.padded()) // no NaN among keys and values
			copies := 1                                // as weights have them: other layers come in between
			if !watch.small {
				copies = min(1+coldBytes/(2*vectors), 64)
			}
			keys, values := watch.fill(copies*vectors, pattern), watch.fill(copies*vectors, pattern)
			var first, start, lengths, table []int32
			for row := range rows {
				first, start, lengths = append(first, int32(row*length)), append(start, int32(context-length)), append(lengths, int32(length))
			}
			for _, block := range rand.New(rand.NewPCG(7, 8)).Perm(rows * perRow) {
				table = append(table, int32(block))
			}
			work := &attendWork{}
			work.plan(&shape, start, lengths, []int{0})
			step := &stepArrays{first: upload(watch.rig, first), start: upload(watch.rig, start), len: upload(watch.rig, lengths), tiles: upload(watch.rig, work.tiles),
				tables: []blockTable{{upload(watch.rig, table), perRow}}, count: rows * length, work: work}
			width := rowStride(shape.heads * shape.dim)
			queries := upload(watch.rig, normals(rand.New(rand.NewPCG(9, 10)), step.count*width, 1))
			dst, scratch := watch.alloc(2*step.count*width), watch.alloc(shape.attendScratch(rows, context))
			seen := float64(length) * (float64(context) - float64(length-1)/2) // keys, summed over a row's tokens
			watch.measure("attend", fmt.Sprintf("%dx%dx%d", shape.heads, shape.kvHeads, shape.dim), step.count, context, 2*float64(vectors), 4*float64(rows)*seen*float64(shape.heads*shape.dim), func(round int) {
				at := driver.Ptr(round % copies * vectors)
				layer := kvLayer{keys: keys + at, values: values + at}
				watch.q.attend(dst, floatRows{queries, width}, &layer, 0, &shape, step, scratch)
			})
		})
	}
}

// timeRows times what lies between the products of gpt-oss-20b, by its closed forms' bytes. Operands stay
// in the second level cache where they are small, as in a step.
func timeRows(s *stopwatch) {
	heads := headShape{heads: 64, kvHeads: 8, dim: 64, blockSize: 16}
	hidden, experts, counts := 2880, 32, []int{1, 8, 32, 2048}
	const topK, stride = 4, 64
	if s.small {
		heads, hidden, experts, counts = headShape{heads: 4, kvHeads: 2, dim: 6, blockSize: 16}, 96, 8, []int{1, 9}
	}
	most := counts[len(counts)-1]
	rng := rand.New(rand.NewPCG(11, 12))
	table, _ := s.weights(tensor.BF16, 1, 1024, hidden, false)
	floats := func(rows, width int) driver.Ptr {
		return upload(s.rig, normals(rng, rows*rowStride(width), 1))
	}
	sum, add, weight, dst := floats(most, hidden), floats(most, hidden), floats(1, hidden), s.alloc(2*most*rowStride(hidden))
	up, down := &matrix{experts: experts, rows: 2 * hidden, cols: hidden}, &matrix{experts: experts, rows: hidden, cols: hidden}
	plan := &expertArgs{dst: add, dstStride: rowStride(hidden), ids: s.alloc(4 * most * stride), weights: floats(most, stride), stride: stride,
		up: up, down: down, scratch: s.alloc(expertScratch(up, down, most, topK)), topK: topK}
	route := &routing{ids: plan.ids, weights: plan.weights, stride: stride, logits: floatRows{floats(most, experts), rowStride(experts)}, experts: experts, topK: topK, renorm: true}
	turn := rotation{queries: floatRows{floats(most, heads.heads*heads.dim), rowStride(heads.heads * heads.dim)},
		keys: floatRows{floats(most, heads.kvHeads*heads.dim), rowStride(heads.kvHeads * heads.dim)}}
	blocks := ceil(most, heads.blockSize)
	vectors, _ := heads.kvBytes(blocks, false)
	layer := &kvLayer{keys: s.alloc(vectors), values: s.alloc(vectors)}
	var pos, tokens, ids []int32
	for i := range most {
		pos, tokens = append(pos, int32(i)), append(tokens, int32(i%1000))
	}
	for i := range blocks {
		ids = append(ids, int32(i))
	}
	step := &stepArrays{tokens: upload(s.rig, tokens), pos: upload(s.rig, pos), row: upload(s.rig, make([]int32, most)),
		turn:   upload(s.rig, slices.Repeat([]float32{math.Sqrt2 / 2}, most*heads.dim)), // by 45 degrees, again and again
		tables: []blockTable{{upload(s.rig, ids), blocks}}}
	s.must(s.drv.SetAsync(plan.scratch, 0, uint64(expertScratch(up, down, most, topK)), s.q.stream))
	for _, count := range counts {
		plan.tokens, route.tokens, step.count = count, count, count
		form := cost.Experts{Up: cost.Matrix{Format: cost.BF16, Rows: 2 * hidden, Cols: hidden}, Down: cost.Matrix{Format: cost.BF16, Rows: hidden, Cols: hidden}, Count: experts, TopK: topK}
		layerWorks := form.Works(count, slices.Repeat(cost.Assigned{float64(count*topK) / float64(experts)}, experts))
		shape := cost.Heads{Heads: heads.heads, KV: heads.kvHeads, Dim: heads.dim}
		one := func(what string, w cost.Work, work func()) {
			s.measure(w.Kernel, what, count, 0, w.Memory, w.FLOPs, func(int) { work() })
		}
		width, chosen := fmt.Sprint("width=", hidden), fmt.Sprintf("experts=%d topk=%d", experts, topK)
		one(width, cost.Embed(cost.Matrix{Format: cost.BF16, Rows: 1024, Cols: hidden}, count), func() { s.q.embed(sum, rowStride(hidden), table[0], step.tokens, count) })
		one(width, cost.AddNorm(hidden, count, false), func() { s.q.addNorm(dst, sum, add, weight, hidden, count, 1e-5) })
		one(width, cost.AddNormExperts(hidden, topK, count), func() { s.q.addNormExperts(dst, sum, weight, plan.combined(), count, 1e-5) })
		one(fmt.Sprintf("heads=%d kv=%d dim=%d", heads.heads, heads.kvHeads, heads.dim), shape.RotateStore(count), func() {
			s.q.rotateAndStore(turn, turn.keys, layer, &heads, step)
		})
		one(chosen, cost.Route(experts, topK, count), func() { s.q.route(route) })
		if count <= planTokens {
			one(chosen, cost.RoutePlan(experts, topK, count), func() { s.q.routePlan(route, plan) })
		}
		one(chosen, layerWorks[0], func() { s.q.expertPlan(plan) })
		one(chosen, layerWorks[3], func() { s.q.combine(plan.combined(), count) })
	}
}

// timeSample times the choice of ids out of gpt-oss' vocabulary, the largest and by drawing from all, for
// logits with a deviation of 3.
func timeSample(t *testing.T, out *os.File) {
	vocab, counts := 201088, []int{1, 16, 64}
	if smallShapes() {
		vocab, counts = 2100, []int{1}
	}
	for _, temperature := range []float32{0, 1} {
		for _, rows := range counts {
			t.Run(fmt.Sprint(temperature, rows), func(t *testing.T) {
				watch := newStopwatch(t, out)
				r := newSampleRigOn(watch.rig, vocab, model.Limits{MaxSeqs: rows, MaxTokens: rows, Depth: 1})
				batch := &runner.Batch{}
				for i := range rows {
					batch.Tokens = append(batch.Tokens, 1)
					batch.Rows = append(batch.Rows, runner.Row{Slot: i, Len: 1, Sample: true, Params: &sample.Params{Temperature: temperature, Seed: uint64(i)}})
				}
				r.start(batch)
				stride := pad64(vocab)
				logits := upload(watch.rig, normal(rand.New(rand.NewPCG(13, 14)), rows*stride, 3))
				name := "sample greedy"
				if temperature > 0 {
					name = "sample drawn"
				}
				watch.measure(name, fmt.Sprint("vocab=", vocab), rows, 0, 4*float64(rows)*float64(vocab), 0, func(int) { r.sample(r.q, floatRows{logits, stride}, r.vocab, 0, rows) })
			})
		}
	}
}
