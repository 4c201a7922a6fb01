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
	return newSampleRigOn(newRig(t), vocab, lim)
}

// newSampleRigOn is newSampleRig on a card that is open.
func newSampleRigOn(on *rig, vocab int, lim model.Limits) *sampleRig {
	t := on.t
	t.Helper()
	r := &sampleRig{rig: on}
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
		r.sample(r.q, floatRows{at, stride}, r.vocab, from, atOnce)
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
	t.Parallel()
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
