package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"ossian/internal/cuda/driver"
	"ossian/internal/model"
	"ossian/internal/runner"
	"ossian/internal/sample"
	"ossian/internal/soak"
)

// A sampleRig runs steps through a sampler as a device does, and knows what they must give.
type sampleRig struct {
	*rig
	*sampler
	block  driver.Ptr
	pinned [][]byte // blocks of steps in a ring
	record [][]byte // results likewise
	steps  int
	want   []*runner.Result  // of steps that are not collected
	change func(*samplePlan) // what was planned, before it is packed
}

func newSampleRig(t *testing.T, vocab int, lim model.Limits) *sampleRig {
	t.Helper()
	r := &sampleRig{rig: newRig(t)}
	host := func(bytes int) ([]byte, error) {
		pinned, err := r.drv.MemAllocHost(max(bytes, 1))
		if err == nil {
			t.Cleanup(func() { r.must(r.drv.MemFreeHost(pinned)) })
		}
		return pinned, err
	}
	card := func(bytes int64) (driver.Ptr, error) { return r.alloc(int(bytes)), nil }
	var err error
	r.sampler, err = newSampler(card, host, vocab, lim)
	r.must(err)
	r.block = r.alloc(r.blockBytes())
	for range lim.Depth + 1 {
		block, err := host(r.blockBytes())
		r.must(err)
		records, err := host(r.resultBytes())
		r.must(err)
		r.pinned, r.record = append(r.pinned, block), append(r.record, records)
	}
	return r
}

// start begins a step up to the point where its tokens are known, and returns where they are.
func (r *sampleRig) start(batch *runner.Batch) driver.Ptr {
	r.t.Helper()
	bytes, err := r.begin(batch)
	r.must(err)
	if r.change != nil {
		r.change(&r.plan)
	}
	block := r.pinned[r.steps%len(r.pinned)]
	r.pack(batch, block[:bytes], r.block, r.record[r.steps%len(r.record)])
	r.steps++
	if bytes > 0 {
		r.must(r.drv.CopyToAsync(r.block, block[:bytes], r.q.stream))
	}
	var pos, row, slot []int32
	for i := range batch.Rows {
		slot = append(slot, int32(batch.Rows[i].Slot))
		for k := range batch.Rows[i].Len {
			pos, row = append(pos, int32(batch.Rows[i].Start+k)), append(row, int32(i))
		}
	}
	tokens := upload(r.rig, batch.Tokens)
	r.resolve(r.q, tokens, upload(r.rig, pos), upload(r.rig, row), upload(r.rig, slot), len(batch.Tokens))
	return tokens
}

// feed samples by logits, a few rows at a time, and checks that they are afterwards what they were.
func (r *sampleRig) feed(logits [][]float32, atOnce int) {
	r.t.Helper()
	stride := (r.vocab + 63) / 64 * 64
	at := r.alloc(min(atOnce, len(logits)) * stride * 4)
	for from := 0; from < len(logits); from += atOnce {
		part := logits[from:min(from+atOnce, len(logits))]
		for i, row := range part { // what lies behind the ids of a row is never written
			r.must(r.drv.CopyToDevice(at+driver.Ptr(i*stride*4), bytesOf(row)))
		}
		r.sample(r.q, at, stride, from, atOnce)
		for i, row := range part {
			after := download[uint32](r.rig, at+driver.Ptr(i*stride*4), r.vocab)
			for id, bits := range after {
				if bits != math.Float32bits(row[id]) {
					r.t.Fatalf("logit of id %d is %v after sampling, was %v", id, math.Float32frombits(bits), row[id])
				}
			}
		}
	}
}

// finish ends the step.
func (r *sampleRig) finish(want *runner.Result) {
	r.end(r.q)
	r.want = append(r.want, want)
}

// collect compares what the oldest step gave with what it must.
func (r *sampleRig) collect(describe func(row int) string) {
	r.t.Helper()
	r.sync()
	got, want := r.results(), r.want[0]
	r.want = r.want[1:]
	if len(got.Tokens) != len(want.Tokens) || (got.Logprobs == nil) != (want.Logprobs == nil) || (got.Scores == nil) != (want.Scores == nil) {
		r.t.Fatalf("result of %d rows, want %d; log probabilities %v, scores %v", len(got.Tokens), len(want.Tokens), got.Logprobs, got.Scores)
	}
	for i := range want.Tokens {
		if !slices.Equal(got.Tokens[i], want.Tokens[i]) {
			r.t.Errorf("row %d: ids %v, want %v: %s", i, got.Tokens[i], want.Tokens[i], describe(i))
		}
		if want.Logprobs != nil && !sameLogprobs(got.Logprobs[i], want.Logprobs[i]) {
			r.t.Errorf("row %d: log probabilities %v, want %v: %s", i, got.Logprobs[i], want.Logprobs[i], describe(i))
		}
		if want.Scores == nil {
			continue
		}
		if len(got.Scores[i]) != len(want.Scores[i]) {
			r.t.Fatalf("row %d: %d scores, want %d", i, len(got.Scores[i]), len(want.Scores[i]))
		}
		for k, score := range want.Scores[i] {
			if found := got.Scores[i][k]; found.Rank != score.Rank || !sameLogprobs(found.Logprobs, score.Logprobs) {
				r.t.Errorf("row %d, target %d: %+v, want %+v", i, k, found, score)
			}
		}
	}
}

// sameLogprobs compares to the bit.
func sameLogprobs(a, b []sample.Logprob) bool {
	return slices.EqualFunc(a, b, func(a, b sample.Logprob) bool {
		return a.ID == b.ID && math.Float32bits(a.Logprob) == math.Float32bits(b.Logprob)
	})
}

// expect is what a step must give when the host knows all ids: histories are those of the rows, or
// the given ones.
func expect(batch *runner.Batch, logits [][]float32, histories [][]int32) *runner.Result {
	result := &runner.Result{Tokens: make([][]int32, len(batch.Rows))}
	scores, asked := make([][]sample.Score, len(batch.Rows)), false
	logprobs := make([][]sample.Logprob, len(batch.Rows))
	var sampler sample.Sampler
	for i := range batch.Rows {
		row := &batch.Rows[i]
		for _, target := range row.Targets {
			scores[i] = append(scores[i], sampler.Score(nil, logits[0], target, row.Params.TopPromptLogprobs))
			result.Scores, logits = scores, logits[1:]
		}
		if !row.Sample {
			continue
		}
		history := row.History
		if histories != nil {
			history = histories[i]
		}
		id := sampler.Pick(logits[0], row.Mask, row.Params, history, row.OutputIndex)
		result.Tokens[i] = []int32{id}
		if row.Params.Logprobs {
			logprobs[i], asked = sampler.Logprobs(nil, logits[0], id, row.Params.TopLogprobs), true
		}
		logits = logits[1:]
	}
	if asked {
		result.Logprobs = logprobs
	}
	return result
}

// oneOf chooses.
func oneOf[T any](rng *rand.Rand, of ...T) T { return of[rng.IntN(len(of))] }

// hostile fills logits in one of the ways that sampling may stumble over.
func hostile(rng *rand.Rand, logits []float32) {
	spread := math.Exp(rng.Float64()*5 - 2)
	for i := range logits {
		logits[i] = float32(rng.NormFloat64() * spread)
	}
	at := func() *float32 { return &logits[rng.IntN(len(logits))] }
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	switch rng.IntN(14) {
	case 0: // ties
		for i := range logits {
			logits[i] = float32(rng.IntN(5))
		}
	case 1: // all equal
		value := oneOf[float32](rng, 0, -3.5, 1e30, -inf, nan, inf)
		for i := range logits {
			logits[i] = value
		}
	case 2: // one of all
		for i := range logits {
			logits[i] = 0
		}
		*at() = 40
	case 3:
		for range 1 + rng.IntN(5) {
			*at() = oneOf[float32](rng, inf, -inf, nan)
		}
	case 4: // hardly anything allowed
		for i := range logits {
			logits[i] = oneOf[float32](rng, -inf, -inf, -inf, nan)
		}
		*at() = oneOf[float32](rng, 1, 1e-45, -math.MaxFloat32)
	case 5: // huge
		for i := range logits {
			logits[i] = (rng.Float32() - 0.5) * math.MaxFloat32
		}
	case 6: // hardly above nothing, of both signs
		for i := range logits {
			logits[i] = math.Float32frombits(rng.Uint32() & 0x80000003)
		}
	case 7: // near each other
		for i := range logits {
			logits[i] = 20 + float32(rng.IntN(8))*0x1p-19
		}
	case 8: // falling by id, and rising
		for i := range logits {
			logits[i] = float32(i) * float32(spread) * oneOf[float32](rng, -1, 1, 1, 1)
		}
	case 9: // any bits
		for i := range logits {
			logits[i] = math.Float32frombits(rng.Uint32())
		}
	}
}

// anyParams returns parameters of which each is at random left out, within its range or at its end.
func anyParams(rng *rand.Rand, vocab int) *sample.Params {
	p := &sample.Params{
		Temperature:       oneOf[float32](rng, 0, 1, rng.Float32()*2, rng.Float32()*2, 0.01, 1e-30, 1e30, 5),
		TopK:              oneOf(rng, 0, 0, 1, 1+rng.IntN(10), 1+rng.IntN(vocab), vocab, vocab+1),
		TopP:              oneOf[float32](rng, 0, 0, 1, rng.Float32(), 0.9, 1e-10, 0.99999994),
		MinP:              oneOf[float32](rng, 0, 0, 0, rng.Float32(), 0.05, 1, 1e-11, 1e-9, 1e-30),
		RepetitionPenalty: oneOf[float32](rng, 0, 0, 1, 1.1, 0.5+rng.Float32(), -1, 1000),
		FrequencyPenalty:  oneOf[float32](rng, 0, 0, rng.Float32()*4-2),
		PresencePenalty:   oneOf[float32](rng, 0, 0, rng.Float32()*4-2, 100),
		Seed:              rng.Uint64(),
		Logprobs:          rng.IntN(3) == 0,
		TopPromptLogprobs: rng.IntN(4),
	}
	if p.Logprobs {
		p.TopLogprobs = oneOf(rng, 0, 1+rng.IntN(20), vocab)
	}
	if rng.IntN(3) == 0 {
		p.LogitBias = map[int32]float32{-1: 5, int32(vocab): 5} // no ids
		for range rng.IntN(20) {
			p.LogitBias[int32(rng.IntN(vocab))] = rng.Float32()*200 - 100
		}
	}
	if rng.IntN(6) == 0 {
		wild(rng, p, vocab)
	}
	return p
}

// wild puts one of the parameters outside its range: Pick is defined there too.
func wild(rng *rand.Rand, p *sample.Params, vocab int) {
	inf := float32(math.Inf(1))
	odd := oneOf(rng, inf, -inf, float32(math.NaN()), -1, math.MaxFloat32, math.SmallestNonzeroFloat32)
	switch rng.IntN(8) {
	case 0:
		p.Temperature = odd
	case 1:
		p.TopK = -1
	case 2:
		p.TopP = odd
	case 3:
		p.MinP = odd
	case 4:
		p.RepetitionPenalty = odd
	case 5:
		p.FrequencyPenalty = odd
	case 6:
		p.PresencePenalty = odd
	case 7:
		p.LogitBias = map[int32]float32{int32(rng.IntN(vocab)): odd, int32(rng.IntN(vocab)): 1}
	}
}

// anyMask returns nil or a mask of few, many, all or no ids, sometimes too short.
func anyMask(rng *rand.Rand, vocab int) []uint64 {
	if rng.IntN(2) == 0 {
		return nil
	}
	mask := make([]uint64, (vocab+63)/64)
	dense := rng.IntN(5)
	for i := range mask {
		switch dense {
		case 0:
			mask[i] = rng.Uint64()
		case 1:
			mask[i] = rng.Uint64() & rng.Uint64() & rng.Uint64() & rng.Uint64() & rng.Uint64() & rng.Uint64()
		case 2:
			mask[i] = math.MaxUint64
		}
	}
	if dense == 3 {
		id := rng.IntN(vocab)
		mask[id/64] = 1 << (id % 64)
	}
	if rng.IntN(8) == 0 {
		mask = mask[:rng.IntN(len(mask)+1)]
	}
	return mask
}

// anyRequests fills a batch of that many rows, of one token each and all known, and their logits.
func anyRequests(rng *rand.Rand, rows, vocab int) (*runner.Batch, [][]float32) {
	batch := &runner.Batch{}
	var logits [][]float32
	for i := range rows {
		params := anyParams(rng, vocab)
		history := make([]int32, 1+rng.IntN(40))
		few := oneOf(rng, 5, vocab) // ids occur more than once
		for k := range history {
			history[k] = int32(rng.IntN(min(few, vocab)))
		}
		if rng.IntN(4) == 0 {
			history[rng.IntN(len(history))] = oneOf(rng, runner.Pending, int32(vocab))
		}
		params.Prompt = rng.IntN(len(history) + 1)
		row := runner.Row{Slot: i, Start: len(history) - 1, Len: 1, Params: params, History: history,
			Sample: rng.IntN(8) > 0, OutputIndex: rng.Uint64(), Mask: anyMask(rng, vocab)}
		if rng.IntN(4) == 0 {
			row.Targets = []int32{int32(rng.IntN(vocab))}
		}
		outputs := len(row.Targets)
		if row.Sample {
			outputs++
		}
		for range outputs {
			of := make([]float32, vocab)
			hostile(rng, of)
			logits = append(logits, of)
		}
		batch.Tokens, batch.Rows = append(batch.Tokens, int32(rng.IntN(vocab))), append(batch.Rows, row)
	}
	return batch, logits
}

// The card chooses the ids of sample.Pick and finds the scores of sample.Score, whatever the
// parameters and the logits are.
func TestSampleAsDefined(t *testing.T) {
	const rows = 50
	rng := rand.New(rand.NewPCG(31, 41))
	for n := range soak.Cases(t, 20, 200) {
		vocab := oneOf(rng, 1+rng.IntN(8), 1+rng.IntN(200), 1+rng.IntN(1000), 1+rng.IntN(2100))
		t.Run(fmt.Sprintf("%d/%d", n, vocab), func(t *testing.T) {
			r := newSampleRig(t, vocab, model.Limits{MaxSeqs: rows, MaxTokens: rows, Depth: 1})
			batch, logits := anyRequests(rng, rows, vocab)
			r.start(batch)
			r.feed(logits, 1+rng.IntN(2*rows))
			r.finish(expect(batch, logits, nil))
			r.collect(func(i int) string {
				row := batch.Rows[i]
				return fmt.Sprintf("%+v, step %d, mask %x, history %v", row.Params, row.OutputIndex, row.Mask, row.History)
			})
		})
	}
}

// Sizes around every border of tiles, runs, words and warps.
func TestSampleBorders(t *testing.T) {
	sizes := []int{1, 2, 31, 32, 33, 63, 64, 65, 255, 256, 257, 1023, 1024, 1025, 2047, 2048, 2049, 4097}
	if soak.Cases(t, 1, 2) > 1 {
		sizes = append(sizes, 32767, 32768, 32769, 65537, 128256, 151936, 201088, 262143, 262144)
	}
	rng := rand.New(rand.NewPCG(27, 18))
	for _, vocab := range sizes {
		t.Run(fmt.Sprint(vocab), func(t *testing.T) {
			r := newSampleRig(t, vocab, model.Limits{MaxSeqs: 4, MaxTokens: 8, Depth: 1})
			batch, logits := anyRequests(rng, 4, vocab)
			// The first row draws among all, the second ends up with the last id of all.
			batch.Rows[0].Params, batch.Rows[0].Mask, batch.Rows[0].Sample = &sample.Params{Temperature: 1, Logprobs: true, TopLogprobs: 2}, nil, true
			batch.Rows[1].Params = &sample.Params{Temperature: 1, TopK: 2, TopP: 0.1, LogitBias: map[int32]float32{int32(vocab - 1): 100}}
			batch.Rows[1].Mask, batch.Rows[1].Sample = nil, true
			logits = logits[:0]
			for i := range batch.Rows {
				for range len(batch.Rows[i].Targets) + 1 {
					logits = append(logits, make([]float32, vocab))
					hostile(rng, logits[len(logits)-1])
				}
				batch.Rows[i].Sample = true
			}
			r.start(batch)
			r.feed(logits, 3)
			r.finish(expect(batch, logits, nil))
			r.collect(func(i int) string { return fmt.Sprintf("%+v", batch.Rows[i].Params) })
		})
	}
}

// Weights are those of package sample to the last unit: drawing hardly ever shows one.
func TestSampleWeights(t *testing.T) {
	const vocab, rows = 3 * sampleTile / 2, 8
	rng := rand.New(rand.NewPCG(14, 42))
	r := newSampleRig(t, vocab, model.Limits{MaxSeqs: rows, MaxTokens: rows, Depth: 1})
	batch := &runner.Batch{Tokens: make([]int32, rows)}
	logits := make([][]float32, rows)
	for i := range rows {
		batch.Rows = append(batch.Rows, runner.Row{Slot: i, Len: 1, Sample: true,
			Params: &sample.Params{Temperature: 0.1 + rng.Float32()*2, MinP: oneOf[float32](rng, 0, 0, 0.001, 1e-9)}})
		logits[i] = make([]float32, vocab)
		for id := range logits[i] {
			logits[i][id] = float32(rng.NormFloat64() * 4)
		}
	}
	r.start(batch)
	r.feed(logits, rows)
	got := download[uint64](r.rig, r.mem.sums, rows*r.tiles())
	for i, row := range logits {
		scale, reach, least := batch.Rows[i].Params.Weighing()
		top := float64(slices.Max(row))
		for tile := range r.tiles() {
			first := tile * sampleTile
			_, want := sample.Weights(make([]uint64, sampleTile), row[first:min(first+sampleTile, vocab)],
				sample.Weighing{Top: top, Scale: scale, Bound: float32(top - reach), Least: least, First: first})
			if sum := got[i*r.tiles()+tile]; sum != want {
				t.Errorf("row %d, tile %d: weights add up to %d, want %d", i, tile, sum, want)
			}
		}
	}
	r.finish(expect(batch, logits, nil))
	r.collect(func(i int) string { return fmt.Sprintf("%+v", batch.Rows[i].Params) })
}

// The sum that top-p asks for is rounded up: with two weights, of which the smaller is a third of the
// larger and a bit, three quarters of their sum are a quarter of a unit above the larger one.
func TestSampleTopPUnit(t *testing.T) {
	const one, rows = 1 << 39, 30
	rng := rand.New(rand.NewPCG(3, 4))
	logits, params := []float32{0, 0}, &sample.Params{TopP: 0.75}
	for keys := [2]uint64{}; keys[1]>>24 != (one+1)/3; {
		params.Temperature = 0.5 + rng.Float32()
		logits[1] = params.Temperature * float32(math.Log(1.0/3))
		sample.Weights(keys[:], logits, sample.Weighing{Scale: 1 / float64(params.Temperature), Bound: -100, Least: 1})
	}
	r := newSampleRig(t, 2, model.Limits{MaxSeqs: rows, MaxTokens: rows, Depth: 1})
	batch, all := &runner.Batch{Tokens: make([]int32, rows)}, [][]float32{}
	for i := range rows {
		batch.Rows = append(batch.Rows, runner.Row{Slot: i, Len: 1, Sample: true, Params: params, OutputIndex: uint64(i)})
		all = append(all, logits)
	}
	want := expect(batch, all, nil)
	if !slices.ContainsFunc(want.Tokens, func(ids []int32) bool { return ids[0] == 1 }) {
		t.Fatal("the second id is not drawn: nothing is tested")
	}
	r.start(batch)
	r.feed(all, rows)
	r.finish(want)
	r.collect(func(int) string { return "" })
}

// Numbers at the borders of an id's part of the sum, where an id, a thread's ids and a tile begin.
func TestSampleDrawBorders(t *testing.T) {
	const vocab = 2 * sampleTile // equal weights of 2^39: an id takes 2^52 of the 2^64 random numbers
	var random []uint64
	want := &runner.Result{}
	for _, id := range []int32{0, 1, 7, 8, 9, 255, 256, sampleTile - 1, sampleTile, sampleTile + 8, vocab - 1} {
		random = append(random, uint64(id)<<52, uint64(id+1)<<52-1)
		want.Tokens = append(want.Tokens, []int32{id}, []int32{id})
	}
	r := newSampleRig(t, vocab, model.Limits{MaxSeqs: len(random), MaxTokens: len(random), Depth: 1})
	batch, logits := &runner.Batch{Tokens: make([]int32, len(random))}, make([][]float32, len(random))
	for i := range random {
		batch.Rows = append(batch.Rows, runner.Row{Slot: i, Len: 1, Sample: true, Params: &sample.Params{Temperature: 1}})
		logits[i] = make([]float32, vocab)
	}
	r.change = func(plan *samplePlan) {
		for i := range random {
			plan.outputs[i].Random = random[i]
		}
	}
	r.start(batch)
	r.feed(logits, len(random))
	r.finish(want)
	r.collect(func(i int) string { return fmt.Sprintf("random number %x", random[i]) })
}

// More rows than a round of kernels takes.
func TestSampleRounds(t *testing.T) {
	const vocab = 3
	rows := soak.Cases(t, 2*sampleRows+1, 1024)
	rng := rand.New(rand.NewPCG(16, 18))
	r := newSampleRig(t, vocab, model.Limits{MaxSeqs: rows, MaxTokens: rows, Depth: 1})
	batch, logits := anyRequests(rng, rows, vocab)
	r.start(batch)
	r.feed(logits, sampleRows+7)
	r.finish(expect(batch, logits, nil))
	r.collect(func(i int) string { return fmt.Sprintf("%+v", batch.Rows[i].Params) })
}

// Vocabularies that the card does not sample from are refused, with the limit.
func TestSampleVocabulary(t *testing.T) {
	none := func(int64) (driver.Ptr, error) { return 512, nil }
	host := func(int) ([]byte, error) { return nil, nil }
	for _, vocab := range []int{0, 1<<18 + 1} {
		if _, err := newSampler(none, host, vocab, model.Limits{MaxSeqs: 1, MaxTokens: 1, Depth: 1}); err == nil {
			t.Errorf("vocabulary of %d ids accepted", vocab)
		}
	}
	if _, err := newSampler(none, host, 1<<18, model.Limits{MaxSeqs: 1, MaxTokens: 1, Depth: 1}); err != nil {
		t.Error(err)
	}
}

// A talk is a sequence in a slot as the test knows it.
type talk struct {
	params *sample.Params
	ids    []int32 // prompt, then all that was sampled
	known  int     // of which the host knows that many
	fed    int     // of which the device has been given that many
}

// Steps under way: pending tokens become what the slot sampled, and penalties see ids that the host
// does not know, at every depth.
func TestSamplePending(t *testing.T) {
	for depth := 1; depth <= 3; depth++ {
		t.Run(fmt.Sprint(depth), func(t *testing.T) { pendingSteps(t, depth, rand.New(rand.NewPCG(5, uint64(depth)))) })
	}
}

func pendingSteps(t *testing.T, depth int, rng *rand.Rand) {
	const vocab, slots = 40, 4
	r := newSampleRig(t, vocab, model.Limits{MaxSeqs: slots, MaxTokens: 64, Depth: depth})
	talks := make([]*talk, slots)
	var open [][]*talk // rows of steps under way, nil where nothing was sampled
	collect := func() {
		r.collect(func(int) string { return "" })
		for _, talk := range open[0] {
			if talk != nil {
				talk.known++
			}
		}
		open = open[1:]
	}
	for step := range 40 {
		batch := &runner.Batch{}
		var logits [][]float32
		var histories [][]int32
		var fed []int32
		var rows []*talk
		for _, slot := range rng.Perm(slots)[:1+rng.IntN(slots)] {
			if talks[slot] == nil || rng.IntN(12) == 0 { // another sequence takes the slot
				talks[slot] = newTalk(rng, vocab)
			}
			talk := talks[slot]
			row, tokens := talk.row(slot, rng, step)
			batch.Tokens, batch.Rows = append(batch.Tokens, tokens...), append(batch.Rows, row)
			fed = append(fed, talk.ids[row.Start:row.Start+row.Len]...)
			histories = append(histories, slices.Clone(talk.ids))
			rows = append(rows, nil)
			if row.Sample {
				logits = append(logits, make([]float32, vocab))
				for i := range logits[len(logits)-1] {
					logits[len(logits)-1][i] = float32(rng.IntN(20)) / 4
				}
				rows[len(rows)-1] = talk
			}
		}
		want := expect(batch, logits, histories)
		for i, talk := range rows {
			if talk != nil {
				talk.ids = append(talk.ids, want.Tokens[i][0])
			}
		}
		tokens := r.start(batch)
		if len(logits) > 0 {
			r.feed(logits, slots)
		}
		if got := download[int32](r.rig, tokens, len(fed)); !slices.Equal(got, fed) {
			t.Fatalf("step %d: tokens %v, want %v", step, got, fed)
		}
		r.finish(want)
		if open = append(open, rows); len(open) == depth {
			collect()
		}
	}
	for len(open) > 0 {
		collect()
	}
}

func newTalk(rng *rand.Rand, vocab int) *talk {
	prompt := make([]int32, 2+rng.IntN(6))
	for i := range prompt {
		prompt[i] = int32(rng.IntN(vocab))
	}
	return &talk{ids: prompt, known: len(prompt), params: &sample.Params{
		Temperature: oneOf[float32](rng, 0, 1), Prompt: len(prompt), Seed: rng.Uint64(), PresencePenalty: oneOf[float32](rng, 0, 0.5, 20),
		FrequencyPenalty: oneOf[float32](rng, 0, 0.3), RepetitionPenalty: oneOf[float32](rng, 0, 1.3), Logprobs: rng.IntN(3) == 0,
		LogitBias: map[int32]float32{int32(rng.IntN(vocab)): 3, int32(rng.IntN(vocab)): -1}}}
}

// row returns the next row of a talk: a part of its prompt, or what was sampled last, which is
// pending where the host does not know it.
func (s *talk) row(slot int, rng *rand.Rand, step int) (runner.Row, []int32) {
	row := runner.Row{Slot: slot, Start: s.fed, Len: len(s.ids) - s.fed, Params: s.params, OutputIndex: uint64(step), Sample: true}
	if row.Len > 1 && rng.IntN(3) == 0 {
		row.Len, row.Sample = 1+rng.IntN(row.Len-1), false
	}
	s.fed += row.Len
	tokens := slices.Clone(s.ids[row.Start:s.fed])
	if s.fed > s.known {
		tokens[row.Len-1] = runner.Pending
	}
	row.History = slices.Clone(s.ids[:s.known])
	return row, tokens
}

// What penalties count when the host passes less than it knows: the ids of the step, if nothing is
// missing ahead of them.
func TestSampleShortHistory(t *testing.T) {
	const vocab = 20
	r := newSampleRig(t, vocab, model.Limits{MaxSeqs: 2, MaxTokens: 8, Depth: 1})
	params := &sample.Params{PresencePenalty: 100}
	batch := &runner.Batch{Tokens: []int32{0, 1, 0, 1}, Rows: []runner.Row{
		{Slot: 0, Start: 0, Len: 2, Params: params, Sample: true},
		{Slot: 1, Start: 5, Len: 2, Params: params, Sample: true, History: []int32{2}},
	}}
	logits := [][]float32{make([]float32, vocab), make([]float32, vocab)}
	for id := range vocab {
		logits[0][id], logits[1][id] = float32(-id), float32(-id)
	}
	r.start(batch)
	r.feed(logits, 2)
	r.finish(expect(batch, logits, [][]int32{{0, 1}, {2}}))
	r.collect(func(int) string { return "" })
}

// A token that nothing was sampled for is refused, and the sampler goes on.
func TestSampleRefuses(t *testing.T) {
	r := newSampleRig(t, 10, model.Limits{MaxSeqs: 2, MaxTokens: 8, Depth: 1})
	batch := &runner.Batch{Tokens: []int32{3, runner.Pending}, Rows: []runner.Row{{Slot: 1, Start: 4, Len: 2, Params: &sample.Params{}, Sample: true}}}
	if _, err := r.begin(batch); err == nil {
		t.Fatal("a pending token was accepted that its slot has not sampled")
	}
	batch.Tokens[1] = 4
	logits := [][]float32{{0, 1, 2, 3, 4, 5, 4, 3, 2, 1}}
	r.start(batch)
	r.feed(logits, 1)
	r.finish(expect(batch, logits, nil))
	r.collect(func(int) string { return "" })
	// What a step does not sample it does not give: its logits were not computed.
	r.start(batch)
	r.finish(&runner.Result{Tokens: make([][]int32, 1)})
	r.collect(func(int) string { return "" })
}
