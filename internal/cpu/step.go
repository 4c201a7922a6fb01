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
	tokens []int32   // [T] ids, none pending
	pos    []int32   // [T] position in the sequence
	row    []int32   // [T] index in batch.Rows
	first  []int32   // [rows] index of the row's first token
	wanted []output  // tokens whose logits are wanted
	turn   []float32 // [T,HeadDim] cos of the rotated pairs, then sin
	tiles  []tile    // units of attention

	inv    []float64 // [HeadDim/2] angle per position
	factor float64   // on cos and sin
}

// An output is a token whose logits are wanted: for its target, or to sample.
type output struct {
	row, token int32 // its row in the batch, its place among the row's new tokens
	sample     bool
}

func (s *step) reserve(spec *model.Spec, lim model.Limits, tileTokens int, mem *arena) error {
	n := lim.MaxTokens
	var errs [4]error
	s.tokens, errs[0] = carve[int32](mem, n)
	s.pos, errs[1] = carve[int32](mem, n)
	s.row, errs[2] = carve[int32](mem, n)
	s.turn, errs[3] = carve[float32](mem, n*spec.HeadDim)
	s.first = make([]int32, 0, lim.MaxSeqs)
	s.wanted = make([]output, 0, lim.MaxSeqs)
	s.tiles = make([]tile, 0, n/tileTokens+lim.MaxSeqs)
	s.inv, s.factor = model.Frequencies(spec.RoPE, spec.HeadDim)
	return errors.Join(errs[:]...)
}

// Results holds what ended steps gave until Wait hands it out, and what slots
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

type sampled struct{ pos, id int32 }

type result struct {
	runner.Result
	ids      []int32 // [MaxSeqs] backing of Tokens
	tokens   [][]int32
	logprobs [][]sample.Logprob // [MaxSeqs], reused
	scores   [][]sample.Score   // [MaxSeqs] parts of scored
	scored   []sample.Score     // of all rows, one after another, reused
}

func (r *results) reserve(lim model.Limits) {
	r.ring = make([]result, lim.Depth+1)
	for i := range r.ring {
		r.ring[i] = result{ids: make([]int32, lim.MaxSeqs), tokens: make([][]int32, lim.MaxSeqs),
			logprobs: make([][]sample.Logprob, lim.MaxSeqs), scores: make([][]sample.Score, lim.MaxSeqs)}
	}
	r.depth = lim.Depth + 1
	r.known = make([]sampled, lim.MaxSeqs*r.depth)
	for i := range r.known {
		r.known[i].pos = -1
	}
}

// reset prepares r for a step of these rows.
func (r *result) reset(rows []runner.Row) {
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
	r.Scores, r.scored = r.scores[:len(rows)], slices.Grow(r.scored[:0], targets)[:targets]
	rest := r.scored
	for i := range rows {
		n := len(rows[i].Targets)
		r.Scores[i], rest = rest[:n], rest[n:]
	}
}

// next is the result of the step being executed.
func (r *results) next() *result { return &r.ring[(r.head+r.queued)%len(r.ring)] }

// sampledAt returns the id that slot sampled for a position, if it is one of
// the last.
func (r *results) sampledAt(slot int, pos int32) (id int32, ok bool) {
	k := r.known[slot*r.depth+int(pos)%r.depth]
	return k.id, k.pos == pos
}

func (r *results) remember(slot int, pos, id int32) {
	r.known[slot*r.depth+int(pos)%r.depth] = sampled{pos, id}
}

// Begin implements model.Device. It refuses what would read or write outside
// the device's memory; runner.Check finds more.
func (d *Device) Begin(b *runner.Batch) error {
	if d.results.queued == d.lim.Depth {
		return fmt.Errorf("cpu: %d steps await collection, depth is %d", d.results.queued, d.lim.Depth)
	}
	if err := d.check(b); err != nil {
		return fmt.Errorf("cpu: %w", err)
	}
	s := &d.step
	n := len(b.Tokens)
	s.batch, s.began = b, time.Now()
	s.tokens, s.pos, s.row, s.turn = s.tokens[:n], s.pos[:n], s.row[:n], s.turn[:n*d.spec.HeadDim]
	s.first, s.wanted, s.tiles = s.first[:0], s.wanted[:0], s.tiles[:0]
	copy(s.tokens, b.Tokens)
	t := 0
	for i := range b.Rows {
		r := &b.Rows[i]
		s.first = append(s.first, int32(t))
		for k := range r.Len {
			s.pos[t+k], s.row[t+k] = int32(r.Start+k), int32(i)
		}
		if last := t + r.Len - 1; s.tokens[last] == runner.Pending {
			id, ok := d.results.sampledAt(r.Slot, s.pos[last])
			if !ok {
				return fmt.Errorf("cpu: row %d: token of position %d is pending, slot %d sampled none for it", i, s.pos[last], r.Slot)
			}
			s.tokens[last] = id
		}
		for k, n := 0, d.tileTokens(); k < r.Len; k += n {
			s.tiles = append(s.tiles, tile{first: t + k, n: min(n, r.Len-k)})
		}
		for k := range r.Targets {
			s.wanted = append(s.wanted, output{row: int32(i), token: int32(k)})
		}
		if r.Sample {
			s.wanted = append(s.wanted, output{int32(i), int32(r.Len - 1), true})
		}
		t += r.Len
	}
	d.results.next().reset(b.Rows)
	d.each(n, d.spec.HeadDim*16, d.run.angles)
	return nil
}

// anglesRow computes cos and sin for token i in float64: models.md 1.3.
func (d *Device) anglesRow(_, i int) {
	s := &d.step
	half := len(s.inv)
	c := s.turn[i*2*half:][:2*half]
	for k, inv := range s.inv {
		sin, cos := math.Sincos(float64(s.pos[i]) * inv)
		c[k], c[half+k] = float32(cos*s.factor), float32(sin*s.factor)
	}
}

// check reports what no operation could survive.
func (d *Device) check(b *runner.Batch) error {
	if len(b.Rows) == 0 || len(b.Rows) > d.lim.MaxSeqs || len(b.Tokens) > d.lim.MaxTokens {
		return fmt.Errorf("batch of %d rows and %d tokens, limits are %d and %d", len(b.Rows), len(b.Tokens), d.lim.MaxSeqs, d.lim.MaxTokens)
	}
	left := b.Tokens
	for i := range b.Rows {
		r := &b.Rows[i]
		if r.Len < 1 || r.Len > len(left) || r.Start < 0 || r.Start+r.Len > d.lim.MaxLen {
			return fmt.Errorf("row %d: %d tokens at position %d, %d left in the batch, limit %d", i, r.Len, r.Start, len(left), d.lim.MaxLen)
		}
		for k, id := range left[:r.Len] {
			if (id < 0 || int(id) >= d.spec.Vocab) && (id != runner.Pending || k != r.Len-1) {
				return fmt.Errorf("row %d: token %d has id %d, vocabulary has %d", i, k, id, d.spec.Vocab)
			}
		}
		left = left[r.Len:]
		if r.Slot < 0 || r.Slot >= d.lim.MaxSeqs {
			return fmt.Errorf("row %d: slot %d outside [0, %d)", i, r.Slot, d.lim.MaxSeqs)
		}
		if ((r.Sample || len(r.Targets) > 0) && r.Params == nil) || len(r.Targets) > r.Len {
			return fmt.Errorf("row %d: samples: %v, %d targets for %d tokens, parameters %v", i, r.Sample, len(r.Targets), r.Len, r.Params)
		}
		for k, id := range r.Targets {
			if id < 0 || int(id) >= d.spec.Vocab {
				return fmt.Errorf("row %d: target %d has id %d, vocabulary has %d", i, k, id, d.spec.Vocab)
			}
		}
		if err := d.checkTables(r); err != nil {
			return fmt.Errorf("row %d: %w", i, err)
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("%d tokens belong to no row", len(left))
	}
	return nil
}

func (d *Device) checkTables(r *runner.Row) error {
	if len(r.Tables) != len(d.windows) {
		return fmt.Errorf("%d block tables for %d groups", len(r.Tables), len(d.windows))
	}
	need := (r.Start + r.Len + d.lim.BlockSize - 1) / d.lim.BlockSize
	for g, t := range r.Tables {
		if len(t) < need {
			return fmt.Errorf("group %d: table of %d blocks, %d needed", g, len(t), need)
		}
		for k := runner.FirstBlock(r.Start, d.windows[g], d.lim.BlockSize); k < need; k++ {
			if t[k] < 0 || int(t[k]) >= d.lim.Blocks[g] {
				return fmt.Errorf("group %d: block %d is %d, pool has %d", g, k, t[k], d.lim.Blocks[g])
			}
		}
	}
	return nil
}

// End implements model.Device.
func (d *Device) End() error {
	r := d.results.next()
	r.Elapsed = time.Since(d.step.began)
	d.results.queued++
	d.step.batch = nil
	return nil
}

// Wait implements model.Device. The result is valid until the next Wait.
func (d *Device) Wait() (*runner.Result, error) {
	q := &d.results
	if q.queued == 0 {
		return nil, errors.New("cpu: no ended step to wait for")
	}
	r := &q.ring[q.head]
	q.head, q.queued = (q.head+1)%len(q.ring), q.queued-1
	return &r.Result, nil
}
