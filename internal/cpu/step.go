package cpu

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"ossian/internal/model"
	"ossian/internal/runner"
	"ossian/internal/sample"
)

// A step is the batch being executed, one line per token where operations need it.
type step struct {
	batch  *runner.Batch
	began  time.Time
	tokens []int32     // [T] ids, none pending
	pos    []int32     // [T] position in the sequence
	row    []int32     // [T] index in batch.Rows
	first  []int32     // [rows] index of the row's first token
	wanted []output    // tokens whose logits are wanted
	turn   []float32   // [T,HeadDim] cos of the rotated pairs, then sin
	tiles  []queryTile // units of attention

	inv    []float64 // [HeadDim/2] angle per position
	factor float64   // on cos and sin
}

// An output is a token whose logits are wanted: for its target, or to sample.
type output struct {
	row, token int32 // its row in the batch, its place among the row's new tokens
	place      int32 // how many guesses the row has up to it: where it samples; or forTarget
}

const forTarget = -1

// reserve makes room for the largest step, so that Begin allocates nothing.
func (s *step) reserve(spec *model.Spec, lim model.Limits, tileTokens int, mem *arena) error {
	tokens := lim.MaxTokens
	var errs [4]error
	s.tokens, errs[0] = carve[int32](mem, tokens)
	s.pos, errs[1] = carve[int32](mem, tokens)
	s.row, errs[2] = carve[int32](mem, tokens)
	s.turn, errs[3] = carve[float32](mem, tokens*spec.HeadDim)
	s.first = make([]int32, 0, lim.MaxSeqs)
	s.wanted = make([]output, 0, lim.Outputs())
	s.tiles = make([]queryTile, 0, tokens/tileTokens+lim.MaxSeqs)
	s.inv, s.factor = model.Frequencies(spec.RoPE, spec.HeadDim)
	return errors.Join(errs[:]...)
}

// results hold what ended steps gave until Wait hands it out, and what slots
// sampled last. One more than Depth, so that the result handed out last stays
// untouched while Depth others are under way.
type results struct {
	ring         []result
	head, queued int

	// The ids that each slot sampled last, by position: slot·depth + position
	// mod depth. They stand for ids that the host does not know yet.
	known []sampled
	depth int
}

// sampled is an id and the position it was drawn for, -1 = none.
type sampled struct{ pos, id int32 }

// A result is what one step gives, in memory that later steps use again: empty → filled by
// Sample → queued by End → handed out by Wait.
type result struct {
	runner.Result
	drawn    []int32            // [step.wanted] the id of each output that samples; Tokens are parts of it
	likely   [][]sample.Logprob // [step.wanted] and its log probabilities, reused
	tokens   [][]int32
	logprobs [][]sample.Logprob // [MaxSeqs], reused
	scores   [][]sample.Score   // [MaxSeqs] parts of scored
	scored   []sample.Score     // of all rows, one after another, reused
}

// reserve makes the ring; what a step needs beyond it grows once and is used again.
func (r *results) reserve(lim model.Limits) {
	r.ring = make([]result, lim.Depth+1)
	for i := range r.ring {
		r.ring[i] = result{tokens: make([][]int32, lim.MaxSeqs), drawn: make([]int32, lim.Outputs()),
			likely: make([][]sample.Logprob, lim.Outputs()), logprobs: make([][]sample.Logprob, lim.MaxSeqs), scores: make([][]sample.Score, lim.MaxSeqs)}
	}
	r.depth = lim.Depth + 1
	r.known = make([]sampled, lim.MaxSeqs*r.depth)
	for i := range r.known {
		r.known[i].pos = -1
	}
}

// reset prepares r for a step of these rows with so many outputs.
func (r *result) reset(rows []runner.Row, outputs int) {
	for len(r.drawn) < outputs { // of prompts with targets
		r.drawn, r.likely = append(r.drawn, 0), append(r.likely, nil)
	}
	r.Result = runner.Result{Tokens: r.tokens[:len(rows)]}
	clear(r.Tokens)
	targets := 0
	for i := range rows {
		targets += len(rows[i].Targets)
		r.logprobs[i] = r.logprobs[i][:0]
		if rows[i].Sample && rows[i].Params.Logprobs {
			r.Logprobs = r.logprobs[:len(rows)]
		}
	}
	if targets == 0 {
		return
	}
	// The scores of all rows are one slice, so that their memory is used again.
	r.Scores, r.scored = r.scores[:len(rows)], slices.Grow(r.scored[:0], targets)[:targets]
	rest := r.scored
	for i := range rows {
		count := len(rows[i].Targets)
		r.Scores[i], rest = rest[:count], rest[count:]
	}
}

// next is the result of the step being executed.
func (r *results) next() *result { return &r.ring[(r.head+r.queued)%len(r.ring)] }

// sampledAt returns the id that slot sampled for a position, if it is one of
// the last.
func (r *results) sampledAt(slot int, pos int32) (id int32, ok bool) {
	last := r.known[slot*r.depth+int(pos)%r.depth]
	return last.id, last.pos == pos
}

// remember notes what a slot sampled for a position, over what lies depth before it.
func (r *results) remember(slot int, pos, id int32) {
	r.known[slot*r.depth+int(pos)%r.depth] = sampled{pos, id}
}

// Begin implements model.Device. It refuses what would read or write outside
// the device's memory; runner.Check finds more.
func (d *Device) Begin(batch *runner.Batch) error {
	if d.results.queued == d.lim.Depth {
		return fmt.Errorf("cpu: %d steps await collection, depth is %d", d.results.queued, d.lim.Depth)
	}
	if err := d.check(batch); err != nil {
		return fmt.Errorf("cpu: %w", err)
	}
	if d.owed.to != nil { // by a step that was cut off
		d.owed.cancel()
	}
	step := &d.step
	count := len(batch.Tokens)
	step.batch, step.began = batch, time.Now()
	step.tokens, step.pos, step.row, step.turn = step.tokens[:count], step.pos[:count], step.row[:count], step.turn[:count*d.spec.HeadDim]
	step.first, step.wanted, step.tiles = step.first[:0], step.wanted[:0], step.tiles[:0]
	copy(step.tokens, batch.Tokens)
	// One line for each token, and the ids that the host did not know.
	token := 0
	for i := range batch.Rows {
		row := &batch.Rows[i]
		step.first = append(step.first, int32(token))
		for k := range row.Len {
			step.pos[token+k], step.row[token+k] = int32(row.Start+k), int32(i)
		}
		if last := token + row.Len - 1; step.tokens[last] == runner.Pending {
			id, ok := d.results.sampledAt(row.Slot, step.pos[last])
			if !ok {
				return fmt.Errorf("cpu: row %d: token of position %d is pending, slot %d sampled none for it", i, step.pos[last], row.Slot)
			}
			step.tokens[last] = id
		}
		for k, n := 0, d.tileTokens(); k < row.Len; k += n {
			step.tiles = append(step.tiles, queryTile{first: token + k, count: min(n, row.Len-k)})
		}
		// As model.Device orders them: row after row, in a row the targets first.
		for k := range row.Targets {
			step.wanted = append(step.wanted, output{row: int32(i), token: int32(k), place: forTarget})
		}
		for place := 0; row.Sample && place <= row.Guessed; place++ {
			step.wanted = append(step.wanted, output{int32(i), int32(row.Len - 1 - row.Guessed + place), int32(place)})
		}
		token += row.Len
	}
	d.results.next().reset(batch.Rows, len(step.wanted))
	d.each(count, d.spec.HeadDim*16, d.run.angles)
	return nil
}

// anglesRow computes cos and sin for a token in float64: models.md 1.3.
func (d *Device) anglesRow(_, token int) {
	step := &d.step
	half := len(step.inv)
	turn := step.turn[token*2*half:][:2*half]
	for pair, inv := range step.inv {
		sin, cos := math.Sincos(float64(step.pos[token]) * inv)
		turn[pair], turn[half+pair] = float32(cos*step.factor), float32(sin*step.factor)
	}
}

// check reports what no operation could survive.
func (d *Device) check(batch *runner.Batch) error {
	if len(batch.Rows) == 0 || len(batch.Rows) > d.lim.MaxSeqs || len(batch.Tokens) > d.lim.MaxTokens {
		return fmt.Errorf("batch of %d rows and %d tokens, limits are %d and %d", len(batch.Rows), len(batch.Tokens), d.lim.MaxSeqs, d.lim.MaxTokens)
	}
	left := batch.Tokens // those of the rows not yet looked at
	for i := range batch.Rows {
		row := &batch.Rows[i]
		if row.Len < 1 || row.Len > len(left) || row.Start < 0 || row.Start+row.Len > d.lim.MaxLen {
			return fmt.Errorf("row %d: %d tokens at position %d, %d left in the batch, limit %d", i, row.Len, row.Start, len(left), d.lim.MaxLen)
		}
		for k, id := range left[:row.Len] {
			if (id < 0 || int(id) >= d.spec.Vocab) && (id != runner.Pending || k != row.Len-1) {
				return fmt.Errorf("row %d: token %d has id %d, vocabulary has %d", i, k, id, d.spec.Vocab)
			}
		}
		left = left[row.Len:]
		if row.Slot < 0 || row.Slot >= d.lim.MaxSeqs {
			return fmt.Errorf("row %d: slot %d outside [0, %d)", i, row.Slot, d.lim.MaxSeqs)
		}
		if row.Guessed < 0 || row.Guessed >= row.Len || (row.Masks != nil && len(row.Masks) != row.Guessed) {
			return fmt.Errorf("row %d: %d guesses among %d tokens, %d masks", i, row.Guessed, row.Len, len(row.Masks))
		}
		if ((row.Sample || len(row.Targets) > 0) && row.Params == nil) || len(row.Targets) > row.Len {
			return fmt.Errorf("row %d: samples: %v, %d targets for %d tokens, parameters %v", i, row.Sample, len(row.Targets), row.Len, row.Params)
		}
		for k, id := range row.Targets {
			if id < 0 || int(id) >= d.spec.Vocab {
				return fmt.Errorf("row %d: target %d has id %d, vocabulary has %d", i, k, id, d.spec.Vocab)
			}
		}
		if err := d.checkTables(row); err != nil {
			return fmt.Errorf("row %d: %w", i, err)
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("%d tokens belong to no row", len(left))
	}
	return nil
}

// checkTables reports a row whose block tables do not reach all tokens that it sees.
func (d *Device) checkTables(row *runner.Row) error {
	if len(row.Tables) != len(d.windows) {
		return fmt.Errorf("%d block tables for %d groups", len(row.Tables), len(d.windows))
	}
	need := (row.Start + row.Len + d.lim.BlockSize - 1) / d.lim.BlockSize
	for group, table := range row.Tables {
		if len(table) < need {
			return fmt.Errorf("group %d: table of %d blocks, %d needed", group, len(table), need)
		}
		for k := runner.FirstBlock(row.Start, d.windows[group], d.lim.BlockSize); k < need; k++ {
			if table[k] < 0 || int(table[k]) >= d.lim.Blocks[group] {
				return fmt.Errorf("group %d: block %d is %d, pool has %d", group, k, table[k], d.lim.Blocks[group])
			}
		}
	}
	return nil
}

// End implements model.Device.
func (d *Device) End() error {
	d.settle()
	result := d.results.next()
	result.Elapsed = time.Since(d.step.began)
	d.results.queued++
	d.step.batch = nil
	return nil
}

// settle gives each row that samples its ids: those drawn up to the first that is not the guess
// in its place.
func (d *Device) settle() {
	step, result := &d.step, d.results.next()
	for at := 0; at < len(step.wanted); at++ {
		index := step.wanted[at].row
		row := &step.batch.Rows[index]
		if step.wanted[at].place == forTarget {
			continue
		}
		// Guesses are the last tokens of a row.
		guesses := step.tokens[int(step.first[index])+row.Len-row.Guessed:][:row.Guessed]
		held := runner.Held(result.drawn[at:], guesses)
		result.Tokens[index] = result.drawn[at : at+held : at+held]
		for _, likely := range result.likely[at : at+held] {
			if row.Params.Logprobs {
				result.logprobs[index] = append(result.logprobs[index], likely...)
			}
		}
		// Without guesses the next step may be planned before this one is collected, so the slot
		// remembers.
		if row.Guessed == 0 {
			d.results.remember(row.Slot, int32(row.Start+row.Len), result.drawn[at])
		}
		at += row.Guessed
	}
}

// Wait implements model.Device. The result is valid until the next Wait.
func (d *Device) Wait() (*runner.Result, error) {
	queue := &d.results
	if queue.queued == 0 {
		return nil, errors.New("cpu: no ended step to wait for")
	}
	result := &queue.ring[queue.head]
	queue.head, queue.queued = (queue.head+1)%len(queue.ring), queue.queued-1
	return &result.Result, nil
}
