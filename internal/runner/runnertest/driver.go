package runnertest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"ossian/internal/runner"
	"ossian/internal/sample"
)

// A request is what a client would ask for.
type request struct {
	prompt []int32
	output int // ids to sample
	params *sample.Params
	masked bool // allow only ids that allowed permits after the last one
}

// A trace is what came back. logprobs is parallel to ids.
type trace struct {
	ids      []int32
	logprobs [][]sample.Logprob
	scores   []sample.Score // of the prompt's tokens but the first, if they are asked for
}

// allowed is a stand-in for a grammar: a third of the ids, by the previous one.
func allowed(last, id int32) bool { return (id+last)%3 == 0 }

// mask returns the ids that may follow last, one bit each.
func mask(last int32, vocab int) []uint64 {
	mask := make([]uint64, (vocab+63)/64)
	for id := range int32(vocab) {
		if allowed(last, id) {
			mask[id/64] |= 1 << (id % 64)
		}
	}
	return mask
}

// A seq is a request on its way.
type sequence struct {
	req       *request
	tokens    []int32 // prompt, then what was sampled and collected
	launched  int     // leading tokens that have been given to the runner
	pending   int     // sampled but not collected
	sampledIn int     // number of the batch that samples the last pending id
	slot      int     // -1 = not resident
	tables    [][]runner.BlockID
	inFlight  int // launched and uncollected rows
	aborted   bool
	got       trace
}

func newSeq(req *request) *sequence {
	return &sequence{req: req, tokens: slices.Clone(req.prompt), slot: -1}
}

// unscored reports whether scores are asked for that have not come.
func (seq *sequence) unscored() bool {
	return seq.req.params.PromptLogprobs && len(seq.got.scores) < len(seq.req.prompt)-1
}

// targets returns the prompt tokens behind those from start to launched, if a score of
// one of them has not come.
func (seq *sequence) targets(start int) []int32 {
	end := min(seq.launched+1, len(seq.req.prompt))
	if !seq.unscored() || end <= max(start, len(seq.got.scores))+1 {
		return nil
	}
	return seq.req.prompt[start+1 : end]
}

func (seq *sequence) planned() bool  { return len(seq.got.ids)+seq.pending >= seq.req.output }
func (seq *sequence) finished() bool { return seq.inFlight == 0 && (seq.aborted || seq.planned()) }

// policy says which free block is taken next.
type policy int

const (
	fifo    policy = iota // the one that has been free longest
	lifo                  // the one freed last: overwritten at once
	shuffle               // any
)

// knobs vary a schedule. The zero value runs sequences side by side with whole
// prompts, one batch at a time.
type knobs struct {
	depth   int // uncollected batches, 0 = 1
	chunk   int // tokens per row and step, 0 = no limit, -1 = random
	slots   int // 0 = all of the runner's
	blocks  policy
	share   bool // take over full blocks of sequences with the same beginning
	stagger bool // admit a sequence only when the one before has its prompt computed
	skip    bool // leave out rows, collect early, reorder rows and preempt at random
	aborts  bool // drop every fourth sequence somewhere
}

// A driver is a small scheduler: it makes batches that keep to the contract and
// otherwise as they come. It is deterministic for a seed.
type driver struct {
	r      runner.Runner
	info   runner.Info
	knobs  knobs
	rng    *rand.Rand
	free   [][]runner.BlockID // [group], taken from the front
	refs   [][]int            // [group][block]
	slots  []int              // free ones, the next last
	seqs   []*sequence
	flight []launch
	number int // of the next batch

	shared, preempted int // tokens that were not computed, sequences that were computed again
}

// A launch is a batch in flight, with the sequence of each row.
type launch struct {
	batch *runner.Batch
	rows  []*sequence
}

func newDriver(r runner.Runner, chosen knobs, seed uint64) *driver {
	d := &driver{r: r, info: r.Info(), knobs: chosen, rng: rand.New(rand.NewPCG(seed, 1))}
	d.knobs.depth = max(chosen.depth, 1)
	if d.knobs.slots == 0 {
		d.knobs.slots = d.info.MaxSeqs
	}
	// Slots in ascending order from the end; blocks in order, or shuffled.
	for i := range d.knobs.slots {
		d.slots = append(d.slots, d.knobs.slots-1-i)
	}
	for _, group := range d.info.Groups {
		ids := make([]runner.BlockID, group.Blocks)
		for i := range ids {
			ids[i] = runner.BlockID(i)
		}
		if chosen.blocks == shuffle {
			d.rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		}
		d.free = append(d.free, ids)
		d.refs = append(d.refs, make([]int, group.Blocks))
	}
	return d
}

// run executes the requests and returns their traces; that of an aborted one is
// what it got until then.
func (d *driver) run(requests []*request) ([]trace, error) {
	for _, req := range requests {
		d.seqs = append(d.seqs, newSeq(req))
	}
	for !d.leave() {
		if d.knobs.skip && d.rng.IntN(8) == 0 {
			d.preempt()
		}
		for len(d.flight) < d.knobs.depth && !(d.knobs.skip && len(d.flight) > 0 && d.rng.IntN(4) == 0) {
			launched, err := d.launch(d.knobs.skip)
			if err != nil {
				return nil, err
			}
			if !launched {
				break
			}
		}
		if len(d.flight) > 0 {
			if err := d.collect(); err != nil {
				return nil, err
			}
			continue
		}
		// Nothing is in flight: without leaving rows out something must go on, or make room.
		if launched, err := d.launch(false); err != nil {
			return nil, err
		} else if !launched && !d.preempt() {
			return nil, fmt.Errorf("no request fits into the pool of %+v", d.info.Groups)
		}
	}
	traces := make([]trace, len(d.seqs))
	for i, seq := range d.seqs {
		traces[i] = seq.got
	}
	return traces, nil
}

// leave gives back what finished sequences hold and reports whether all have.
func (d *driver) leave() bool {
	all := true
	for i, seq := range d.seqs {
		if d.knobs.aborts && i%4 == 3 && seq.slot >= 0 && d.rng.IntN(6) == 0 {
			seq.aborted = true
		}
		if !seq.finished() {
			all = false
		} else if seq.slot >= 0 {
			d.evict(seq)
		}
	}
	return all
}

// preempt evicts the last resident sequence that is not in flight, unless it is
// the only one. It will be computed again, with what it has sampled.
func (d *driver) preempt() bool {
	var resident []*sequence
	for _, seq := range d.seqs {
		if seq.slot >= 0 && seq.inFlight == 0 {
			resident = append(resident, seq)
		}
	}
	if len(resident) < 2 {
		return false
	}
	d.evict(resident[len(resident)-1])
	d.preempted++
	return true
}

// evict takes slot and blocks of a sequence; what it has is computed again.
func (d *driver) evict(seq *sequence) {
	for group := range seq.tables {
		for at := range slices.Backward(seq.tables[group]) {
			d.release(seq, group, at)
		}
	}
	d.slots = append(d.slots, seq.slot)
	seq.slot, seq.tables, seq.launched = -1, nil, 0
}

// release gives back the block of a table's entry, which the last holder makes free.
func (d *driver) release(seq *sequence, group, at int) {
	id := seq.tables[group][at]
	if id == runner.NoBlock {
		return
	}
	seq.tables[group][at] = runner.NoBlock
	if d.refs[group][id]--; d.refs[group][id] > 0 {
		return
	}
	if d.knobs.blocks == lifo {
		d.free[group] = slices.Insert(d.free[group], 0, id)
		return
	}
	d.free[group] = append(d.free[group], id)
	if free := len(d.free[group]); d.knobs.blocks == shuffle {
		i := d.rng.IntN(free)
		d.free[group][i], d.free[group][free-1] = d.free[group][free-1], d.free[group][i]
	}
}

// grow gives seq blocks for end tokens and takes back those that its next row,
// which starts at launched, cannot see; it reports whether there were enough.
func (d *driver) grow(seq *sequence, end int) bool {
	need := (end + d.info.Lookahead + d.info.BlockSize - 1) / d.info.BlockSize
	for group := range seq.tables {
		for at := range min(runner.FirstBlock(seq.launched, d.info.Groups[group].Window, d.info.BlockSize), len(seq.tables[group])) {
			d.release(seq, group, at)
		}
		if need-len(seq.tables[group]) > len(d.free[group]) {
			return false
		}
	}
	for group := range seq.tables {
		for len(seq.tables[group]) < need {
			id := d.free[group][0]
			d.free[group] = d.free[group][1:]
			d.refs[group][id]++
			seq.tables[group] = append(seq.tables[group], id)
		}
	}
	return true
}

// admit gives seq a slot and, when sharing, the blocks of a resident sequence with
// the same beginning.
func (d *driver) admit(seq *sequence) {
	last := len(d.slots) - 1
	if d.knobs.skip {
		i := d.rng.IntN(last + 1)
		d.slots[i], d.slots[last] = d.slots[last], d.slots[i]
	}
	seq.slot, d.slots = d.slots[last], d.slots[:last]
	seq.tables = make([][]runner.BlockID, len(d.info.Groups))
	if !d.knobs.share {
		return
	}
	for _, other := range d.seqs {
		if other != seq && other.slot >= 0 && d.take(seq, other) {
			return
		}
	}
}

// take shares the full blocks that other and seq have in common; one token of seq must
// remain to be computed.
func (d *driver) take(seq, other *sequence) bool {
	same, most := 0, len(seq.tokens)-1
	if seq.unscored() { // others' tokens bring no scores
		most = len(seq.got.scores)
	}
	for same < min(other.launched, len(other.tokens), most) && other.tokens[same] == seq.tokens[same] {
		same++
	}
	blocks := same / d.info.BlockSize
	if blocks == 0 {
		return false
	}
	start := blocks * d.info.BlockSize
	for number, group := range d.info.Groups {
		if slices.Contains(other.tables[number][runner.FirstBlock(start, group.Window, d.info.BlockSize):blocks], runner.NoBlock) {
			return false // the other has given back what seq would see
		}
	}
	for number := range seq.tables {
		seq.tables[number] = slices.Clone(other.tables[number][:blocks])
		for _, id := range seq.tables[number] {
			if id != runner.NoBlock {
				d.refs[number][id]++
			}
		}
	}
	seq.launched = start
	d.shared += start
	return true
}

// launch plans a batch and gives it to the runner. It reports whether there was
// anything to do.
func (d *driver) launch(skip bool) (bool, error) {
	batch := &runner.Batch{}
	var rows []*sequence
	// Sequences are asked in order, or at random with some left out.
	order := make([]int, len(d.seqs))
	for i := range order {
		order[i] = i
	}
	if skip {
		d.rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	for _, i := range order {
		if !d.ready(i) || (skip && d.rng.IntN(3) == 0) {
			continue
		}
		seq := d.seqs[i]
		if seq.slot < 0 {
			d.admit(seq)
		}
		if n := d.size(seq, d.info.MaxTokens-len(batch.Tokens)); n > 0 && d.grow(seq, seq.launched+n) {
			d.row(batch, seq, n)
			rows = append(rows, seq)
		}
	}
	if len(rows) == 0 {
		return false, nil
	}
	if err := runner.Check(batch, d.info); err != nil {
		return false, fmt.Errorf("the suite made a bad batch: %w", err)
	}
	if err := d.r.Launch(batch); err != nil {
		return false, fmt.Errorf("launch of batch %d: %w", d.number, err)
	}
	d.flight = append(d.flight, launch{batch, rows})
	d.number++
	return true, nil
}

// ready reports whether sequence i may have a row in the next batch.
func (d *driver) ready(i int) bool {
	seq := d.seqs[i]
	switch {
	case seq.aborted || seq.planned():
		return false
	case seq.slot < 0:
		return len(d.slots) > 0 && !(d.knobs.stagger && i > 0 && d.seqs[i-1].launched < len(d.seqs[i-1].req.prompt) && !d.seqs[i-1].finished())
	case seq.pending == 0:
		return true
	}
	// Pending names the previous batch, and a mask needs the last id.
	return seq.sampledIn == d.number-1 && !seq.req.masked
}

// size returns how many tokens seq takes in a step with room for that many.
func (d *driver) size(seq *sequence, room int) int {
	n := min(len(seq.tokens)+seq.pending-seq.launched, room)
	switch {
	case d.knobs.chunk > 0:
		n = min(n, d.knobs.chunk)
	case d.knobs.chunk < 0:
		n = min(n, 1+d.rng.IntN(2*d.info.BlockSize+1))
	}
	return n
}

// row appends the next n tokens of seq to batch.
func (d *driver) row(batch *runner.Batch, seq *sequence, n int) {
	row := runner.Row{Slot: seq.slot, Start: seq.launched, Len: n}
	for _, table := range seq.tables {
		row.Tables = append(row.Tables, slices.Clone(table))
	}
	for position := seq.launched; position < seq.launched+n; position++ {
		id := runner.Pending
		if position < len(seq.tokens) {
			id = seq.tokens[position]
		}
		batch.Tokens = append(batch.Tokens, id)
	}
	seq.launched += n
	seq.inFlight++
	// A row that reaches the end samples, and one with targets needs its history too.
	if row.Targets = seq.targets(row.Start); row.Targets != nil {
		row.Params, row.History = seq.req.params, seq.tokens
	}
	if seq.launched == len(seq.tokens)+seq.pending {
		row.Sample, row.Params, row.OutputIndex, row.History = true, seq.req.params, uint64(len(seq.got.ids)+seq.pending), seq.tokens
		if seq.req.masked {
			row.Mask = mask(seq.tokens[len(seq.tokens)-1], d.info.Vocab)
		}
		seq.pending++
		seq.sampledIn = d.number
	}
	batch.Rows = append(batch.Rows, row)
}

// collect records the oldest batch's result.
func (d *driver) collect() error {
	oldest := d.flight[0]
	d.flight = d.flight[1:]
	number := d.number - len(d.flight) - 1
	res, err := d.r.Collect()
	if err != nil {
		return fmt.Errorf("collect of batch %d: %w", number, err)
	}
	if err := checkShape(oldest.batch, res, d.info); err != nil {
		return fmt.Errorf("batch %d: %w", number, err)
	}
	for i, seq := range oldest.rows {
		seq.inFlight--
		if row := &oldest.batch.Rows[i]; len(row.Targets) > 0 {
			for _, score := range res.Scores[i][min(len(seq.got.scores)-row.Start, len(row.Targets)):] {
				seq.got.scores = append(seq.got.scores, sample.Score{Rank: score.Rank, Logprobs: slices.Clone(score.Logprobs)})
			}
		}
		if !oldest.batch.Rows[i].Sample {
			continue
		}
		seq.pending--
		ids := res.Tokens[i]
		seq.tokens = append(seq.tokens, ids...)
		seq.launched += len(ids) - 1
		for at, id := range ids {
			if len(seq.got.ids) == seq.req.output {
				break
			}
			seq.got.ids = append(seq.got.ids, id)
			var logprobs []sample.Logprob
			if each := 1 + seq.req.params.TopLogprobs; seq.req.params.Logprobs {
				logprobs = slices.Clone(res.Logprobs[i][at*each:][:each])
			}
			seq.got.logprobs = append(seq.got.logprobs, logprobs)
		}
	}
	// A collected batch belongs to the planner again, which reuses it.
	for i := range oldest.batch.Tokens {
		oldest.batch.Tokens[i] = 0
	}
	for i := range oldest.batch.Rows {
		for _, table := range oldest.batch.Rows[i].Tables {
			clear(table)
		}
	}
	clear(oldest.batch.Rows)
	return nil
}

// checkShape holds a result to what Result promises.
func checkShape(batch *runner.Batch, result *runner.Result, info runner.Info) error {
	if len(result.Tokens) != len(batch.Rows) {
		return fmt.Errorf("result has ids of %d rows, batch has %d", len(result.Tokens), len(batch.Rows))
	}
	// Log probabilities come for all rows or for none.
	asked := false
	for i := range batch.Rows {
		asked = asked || (batch.Rows[i].Sample && batch.Rows[i].Params.Logprobs)
	}
	if asked != (result.Logprobs != nil) || (asked && len(result.Logprobs) != len(batch.Rows)) {
		return fmt.Errorf("result has log probabilities of %d rows, batch has %d, asked for: %v", len(result.Logprobs), len(batch.Rows), asked)
	}
	if err := checkScores(batch, result); err != nil {
		return err
	}
	for i := range batch.Rows {
		row, ids := &batch.Rows[i], result.Tokens[i]
		if !row.Sample {
			if len(ids) != 0 {
				return fmt.Errorf("row %d: %d ids without sampling", i, len(ids))
			}
			continue
		}
		if len(ids) < 1 || len(ids) > 1+info.Lookahead {
			return fmt.Errorf("row %d: %d ids, want 1 to %d", i, len(ids), 1+info.Lookahead)
		}
		for _, id := range ids {
			if id < 0 || int(id) >= info.Vocab {
				return fmt.Errorf("row %d: id %d, vocabulary has %d", i, id, info.Vocab)
			}
		}
		if row.Mask != nil && row.Mask[ids[0]/64]>>(ids[0]%64)&1 == 0 {
			return fmt.Errorf("row %d: id %d is masked", i, ids[0])
		}
		if asked {
			if err := checkLogprobs(row.Params, ids, result.Logprobs[i]); err != nil {
				return fmt.Errorf("row %d: %w", i, err)
			}
		}
	}
	return nil
}

// checkScores holds scores to the targets of each row.
func checkScores(batch *runner.Batch, result *runner.Result) error {
	asked := slices.ContainsFunc(batch.Rows, func(row runner.Row) bool { return len(row.Targets) > 0 })
	if asked != (result.Scores != nil) || (asked && len(result.Scores) != len(batch.Rows)) {
		return fmt.Errorf("result has scores of %d rows, batch has %d, asked for: %v", len(result.Scores), len(batch.Rows), asked)
	}
	for i, scores := range result.Scores {
		row := &batch.Rows[i]
		if len(scores) != len(row.Targets) {
			return fmt.Errorf("row %d: %d scores of %d targets", i, len(scores), len(row.Targets))
		}
		for at, score := range scores {
			params := &sample.Params{Logprobs: true, TopLogprobs: row.Params.TopPromptLogprobs}
			if err := checkLogprobs(params, row.Targets[at:at+1], score.Logprobs); err != nil {
				return fmt.Errorf("row %d, target %d: %w", i, at, err)
			}
			place := 1 + slices.IndexFunc(score.Logprobs[1:], func(logprob sample.Logprob) bool { return logprob.ID == row.Targets[at] })
			if score.Rank < 1 || (place > 0 && score.Rank != place) || (place == 0 && score.Rank <= params.TopLogprobs) {
				return fmt.Errorf("row %d, target %d: rank %d, but place %d of the most likely %d", i, at, score.Rank, place, params.TopLogprobs)
			}
		}
	}
	return nil
}

// checkLogprobs holds the log probabilities of a row to its ids and parameters.
func checkLogprobs(params *sample.Params, ids []int32, logprobs []sample.Logprob) error {
	if !params.Logprobs {
		if len(logprobs) != 0 {
			return fmt.Errorf("%d log probabilities, none asked for", len(logprobs))
		}
		return nil
	}
	each := 1 + params.TopLogprobs
	if len(logprobs) != each*len(ids) {
		return fmt.Errorf("%d log probabilities for %d ids, want %d each", len(logprobs), len(ids), each)
	}
	for i, logprob := range logprobs {
		switch {
		case !(logprob.Logprob <= 0):
			return fmt.Errorf("log probability %d is %v", i, logprob.Logprob)
		case i%each == 0 && logprob.ID != ids[i/each]:
			return fmt.Errorf("log probability %d is of id %d, chosen was %d", i, logprob.ID, ids[i/each])
		case i%each > 1 && logprob.Logprob > logprobs[i-1].Logprob:
			return fmt.Errorf("log probability %d is larger than the one before", i)
		}
	}
	return nil
}

// compare reports the first difference between what a request got and what it got
// alone; a part is enough.
func compare(got, want trace, part bool) error {
	if len(got.ids) > len(want.ids) || (!part && len(got.ids) != len(want.ids)) {
		return fmt.Errorf("%d ids, alone %d", len(got.ids), len(want.ids))
	}
	if len(got.scores) > len(want.scores) || (!part && len(got.scores) != len(want.scores)) {
		return fmt.Errorf("%d scores, alone %d", len(got.scores), len(want.scores))
	}
	same := func(a, b sample.Logprob) bool {
		return a.ID == b.ID && math.Float32bits(a.Logprob) == math.Float32bits(b.Logprob)
	}
	for i, score := range got.scores {
		if alone := want.scores[i]; score.Rank != alone.Rank || !slices.EqualFunc(score.Logprobs, alone.Logprobs, same) {
			return fmt.Errorf("prompt token %d has score %+v, alone %+v", i+1, score, alone)
		}
	}
	for i, id := range got.ids {
		if id != want.ids[i] {
			return fmt.Errorf("output %d is id %d, alone %d", i, id, want.ids[i])
		}
		if !slices.EqualFunc(got.logprobs[i], want.logprobs[i], same) {
			return fmt.Errorf("output %d has log probabilities %v, alone %v", i, got.logprobs[i], want.logprobs[i])
		}
	}
	return nil
}
