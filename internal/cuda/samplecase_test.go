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

// Where weights differ little, a wrong sum of a few of them moves what top-p keeps.
func TestSampleTopPFlat(t *testing.T) {
	const vocab, rows = 3 * sampleTile / 2, 16
	rng := rand.New(rand.NewPCG(9, 5))
	r := newSampleRig(t, vocab, model.Limits{MaxSeqs: rows, MaxTokens: rows, Depth: 1})
	batch, logits := &runner.Batch{Tokens: make([]int32, rows)}, make([][]float32, rows)
	for i := range rows {
		batch.Rows = append(batch.Rows, runner.Row{Slot: i, Len: 1, Sample: true, OutputIndex: rng.Uint64(),
			Params: &sample.Params{Temperature: 1, TopP: 0.2 + 0.7*rng.Float32(), TopK: oneOf(rng, 0, vocab/2)}})
		logits[i] = make([]float32, vocab)
		for id := range logits[i] {
			logits[i][id] = float32(rng.NormFloat64()) / 4
		}
	}
	r.start(batch)
	r.feed(logits, rows)
	r.finish(expect(batch, logits, nil))
	r.collect(func(i int) string { return fmt.Sprintf("%+v", batch.Rows[i].Params) })
}

// Weights of a few units, where rounding counts most: the largest random number draws the last id that
// top-p keeps.
func TestSampleTopPSmall(t *testing.T) {
	const vocab, rows = 3000, 12
	rng := rand.New(rand.NewPCG(6, 22))
	r := newSampleRig(t, vocab, model.Limits{MaxSeqs: rows, MaxTokens: rows, Depth: 1})
	batch, logits := &runner.Batch{Tokens: make([]int32, rows)}, make([][]float32, rows)
	want := &runner.Result{}
	for i := range rows {
		params := &sample.Params{Temperature: 1, TopP: 1 - 0x1p-24}
		batch.Rows = append(batch.Rows, runner.Row{Slot: i, Len: 1, Sample: true, Params: params})
		logits[i] = make([]float32, vocab)
		low := 23 + 3*rng.Float32()
		for id := range logits[i] {
			logits[i][id] = -low - rng.Float32()*1.5 // exp(-23) is 56 units, exp(-26.5) two
		}
		logits[i][rng.IntN(vocab)] = 0
		// Weights above ids that are the larger the lower they are, from the largest on, up to TopP of the sum.
		keys := make([]uint64, vocab)
		count, total := sample.Weights(keys, logits[i], sample.Weighing{Scale: 1, Bound: -28, Least: 1})
		keys = keys[:count]
		slices.Sort(keys)
		last, need := int32(0), int64(math.Ceil(float64(params.TopP)*float64(total)))
		for at := count - 1; need > 0; at-- {
			need -= int64(keys[at] >> 24)
			last = max(last, int32(sample.MaxVocab-1-keys[at]%sample.MaxVocab))
		}
		want.Tokens = append(want.Tokens, []int32{last})
	}
	r.change = func(plan *samplePlan) {
		for i := range plan.outputs {
			plan.outputs[i].Random = math.MaxUint64
		}
	}
	r.start(batch)
	r.feed(logits, rows)
	r.finish(want)
	r.collect(func(int) string { return "" })
}

// Runs are added in order: what each of them adds up to is lost beside the first, together it
// would not be.
func TestSampleRuns(t *testing.T) {
	const vocab = (sampleRuns+1)*sample.Run + 1
	logits := slices.Repeat([]float32{-44}, vocab) // 1024·exp(-44) is less than half a unit of 1
	logits[0] = 0
	r := newSampleRig(t, vocab, model.Limits{MaxSeqs: 1, MaxTokens: 1, Depth: 1})
	batch := &runner.Batch{Tokens: []int32{0}, Rows: []runner.Row{{Len: 1, Sample: true, Params: &sample.Params{Logprobs: true}}}}
	want := expect(batch, [][]float32{logits}, nil)
	if want.Logprobs[0][0].Logprob != 0 {
		t.Fatalf("log probability %v, want 0: nothing is tested", want.Logprobs[0][0])
	}
	r.start(batch)
	r.feed([][]float32{logits}, 1)
	r.finish(want)
	r.collect(func(int) string { return "" })
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
		Temperature: oneOf[float32](rng, 0, 1), Prompt: len(prompt) + oneOf(rng, 0, 0, 2), Seed: rng.Uint64(), PresencePenalty: oneOf[float32](rng, 0, 0.5, 20),
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

// An id that was sampled twice while the host did not know it counts twice.
func TestSamplePendingTwice(t *testing.T) {
	const vocab, twice, other = 20, 7, 8
	r := newSampleRig(t, vocab, model.Limits{MaxSeqs: 1, MaxTokens: 2, Depth: 3})
	params := &sample.Params{Prompt: 1, PresencePenalty: 0.5, FrequencyPenalty: 0.3}
	logits := make([]float32, vocab)
	logits[twice], logits[other] = 10, 9 // 10 - 0.5 - 0.3 is above 9, 10 - 0.5 - 2·0.3 is not
	for step, want := range []int32{twice, twice, other} {
		batch := &runner.Batch{Tokens: []int32{runner.Pending}, Rows: []runner.Row{{Start: step, Len: 1, Sample: true, Params: params, History: []int32{3}}}}
		if step == 0 {
			batch.Tokens[0] = 3
		}
		r.start(batch)
		r.feed([][]float32{logits}, 1)
		r.finish(&runner.Result{Tokens: [][]int32{{want}}})
	}
	for range 3 {
		r.collect(func(int) string { return "" })
	}
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
