package cuda

import (
	"slices"
	"unsafe"

	"ossian/internal/model"
	"ossian/internal/runner"
	"ossian/internal/sample"
)

// A sampleFlight is the host's part of a step from its plan to the next results: free → planned by
// begin → ended → handed out by results. There is one more than Depth, so that what was handed out
// stays while Depth others are under way.
type sampleFlight struct {
	outputs []sampleWanted
	done    int // outputs that were sampled
	ranked  int // ids in tops

	records []byte // pinned, the caller's: [done] sampleRecord
	extra   []byte // pinned: lists, then masks
	tops    []byte // pinned: ranks of the most likely ids, output after output

	// What is handed out, in memory that later steps use again.
	result   runner.Result
	ids      []int32 // [outputs] of those that sample; Tokens are parts of it
	tokens   [][]int32
	logprobs [][]sample.Logprob // [MaxSeqs]
	scores   [][]sample.Score   // [MaxSeqs] parts of scored
	scored   []sample.Score     // of all rows, one after another
}

func (f *sampleFlight) reserve(lim model.Limits) {
	f.ids, f.tokens = make([]int32, lim.Outputs()), make([][]int32, lim.MaxSeqs)
	f.logprobs, f.scores = make([][]sample.Logprob, lim.MaxSeqs), make([][]sample.Score, lim.MaxSeqs)
}

// begin prepares the flight for a step of these rows.
func (f *sampleFlight) begin(rows []runner.Row) {
	f.outputs, f.done, f.ranked = f.outputs[:0], 0, 0
	f.result = runner.Result{Tokens: f.tokens[:len(rows)]}
	clear(f.result.Tokens)
	targets := 0
	for i := range rows {
		targets += len(rows[i].Targets)
		f.logprobs[i] = f.logprobs[i][:0]
		if rows[i].Sample && rows[i].Params.Logprobs {
			f.result.Logprobs = f.logprobs[:len(rows)]
		}
	}
	if targets == 0 {
		return
	}
	// The scores of all rows are one slice, so that their memory is used again.
	f.result.Scores, f.scored = f.scores[:len(rows)], slices.Grow(f.scored[:0], targets)[:targets]
	rest := f.scored
	for i := range rows {
		count := len(rows[i].Targets)
		f.result.Scores[i], rest = rest[:count], rest[count:]
	}
}

// collect puts what the card found into the result: of a row with guesses the ids up to the first that is
// not the guess in its place.
func (f *sampleFlight) collect() *runner.Result {
	records := valuesOf[sampleRecord](f.records, f.done)
	ranks := valuesOf[uint64](f.tops, f.ranked)
	f.ids = slices.Grow(f.ids[:0], len(records))[:len(records)]
	held := false // all guesses of the row so far
	for i, record := range records {
		wanted := &f.outputs[i]
		of := sample.NewSoftmax(record.Best, record.Total)
		most := ranks[:wanted.top]
		ranks = ranks[wanted.top:]
		if !wanted.sample {
			score := &f.result.Scores[wanted.row][wanted.token]
			score.Rank = int(record.Rank)
			score.Logprobs = of.Ranked(append(score.Logprobs[:0], of.Logprob(record.ID, record.Logit)), most)
			continue
		}
		if wanted.place > 0 && !held {
			continue
		}
		held = record.ID == wanted.guess
		f.ids[i] = record.ID
		f.result.Tokens[wanted.row] = f.ids[i-wanted.place : i+1 : i+1]
		if wanted.logprobs {
			f.logprobs[wanted.row] = of.Ranked(append(f.logprobs[wanted.row], of.Logprob(record.ID, record.Logit)), most)
		}
	}
	return &f.result
}

// valuesOf returns memory as values of a fixed-size type.
func valuesOf[T any](memory []byte, count int) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(memory))), count)
}
