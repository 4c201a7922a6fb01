package runnertest

import (
	"fmt"
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
	guessed   int // guesses of the one of them that has any
	aborted   bool
	got       trace
	truth     []int32 // what it will get, nil = not known
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
	guess   int  // guesses of a row behind all that is known, as far as they fit; -1 = random
	wrong   int  // of these the first that does not hold; -1 = random
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
	held, refused     int // guesses that held; rows whose guesses did not all hold
}

// A launch is a batch in flight, with the sequence of each row.
type launch struct {
	batch *runner.Batch
	rows  []*sequence
}

func newDriver(r runner.Runner, chosen knobs, seed uint64) *driver {
	playing := &driver{r: r, info: r.Info(), knobs: chosen, rng: rand.New(rand.NewPCG(seed, 1))}
	playing.knobs.depth = max(chosen.depth, 1)
	if playing.knobs.slots == 0 {
		playing.knobs.slots = playing.info.MaxSeqs
	}
	// Slots in ascending order from the end; blocks in order, or shuffled.
	for i := range playing.knobs.slots {
		playing.slots = append(playing.slots, playing.knobs.slots-1-i)
	}
	for _, group := range playing.info.Groups {
		ids := make([]runner.BlockID, group.Blocks)
		for i := range ids {
			ids[i] = runner.BlockID(i)
		}
		if chosen.blocks == shuffle {
			playing.rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		}
		playing.free = append(playing.free, ids)
		playing.refs = append(playing.refs, make([]int, group.Blocks))
	}
	return playing
}

// run executes the requests and returns their traces; that of an aborted one is
// what it got until then. truth is what each will get, for guesses; without it they are random.
func (d *driver) run(requests []*request, truth ...[]int32) ([]trace, error) {
	for i, req := range requests {
		seq := newSeq(req)
		if len(truth) > 0 {
			seq.truth = truth[i]
		}
		d.seqs = append(d.seqs, seq)
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
	need := (end + d.info.BlockSize - 1) / d.info.BlockSize
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
		room := d.info.MaxTokens - len(batch.Tokens)
		n := d.size(seq, room)
		guesses := d.guesses(seq, n, room-n)
		if n > 0 && len(guesses) > 0 && !d.grow(seq, seq.launched+n+len(guesses)) {
			guesses = nil
		}
		if n > 0 && d.grow(seq, seq.launched+n) {
			d.row(batch, seq, n, guesses)
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
	// Pending names the previous batch, a mask needs the last id, and guesses leave open where it is.
	return seq.sampledIn == d.number-1 && !seq.req.masked && seq.guessed == 0
}

// size returns how many tokens seq takes in a step with room for that many.
func (d *driver) size(seq *sequence, room int) int {
	count := min(len(seq.tokens)+seq.pending-seq.launched, room)
	switch {
	case d.knobs.chunk > 0:
		count = min(count, d.knobs.chunk)
	case d.knobs.chunk < 0:
		count = min(count, 1+d.rng.IntN(2*d.info.BlockSize+1))
	}
	return count
}

// guesses returns what may follow the next n tokens of seq, if these are all that is known of it.
func (d *driver) guesses(seq *sequence, n, room int) []int32 {
	if d.knobs.guess == 0 || seq.pending > 0 || seq.unscored() || seq.launched+n < len(seq.tokens) {
		return nil
	}
	room = min(room, d.info.Lookahead, seq.req.output-len(seq.got.ids)-1)
	count, wrong := d.knobs.guess, d.knobs.wrong
	if count < 0 {
		count = d.rng.IntN(d.info.Lookahead + 1)
	}
	if wrong < 0 {
		wrong = d.rng.IntN(d.info.Lookahead + 1)
	}
	var guesses []int32
	for at := range min(count, room) {
		id := d.rng.Int32N(int32(d.info.Vocab)) // behind a wrong one anything
		if at <= wrong && len(seq.truth) > 0 {
			id = seq.truth[len(seq.got.ids)+at]
		}
		if at == wrong {
			id = (id + 1) % int32(d.info.Vocab)
		}
		guesses = append(guesses, id)
	}
	return guesses
}

// row appends the next n tokens of seq to batch, and guesses behind them.
func (d *driver) row(batch *runner.Batch, seq *sequence, n int, guesses []int32) {
	row := runner.Row{Slot: seq.slot, Start: seq.launched, Len: n + len(guesses), Guessed: len(guesses)}
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
	batch.Tokens = append(batch.Tokens, guesses...)
	seq.guessed = len(guesses)
	seq.launched += n
	seq.inFlight++
	// A row that reaches the end samples, and one with targets needs its history too.
	if row.Targets = seq.targets(row.Start); row.Targets != nil {
		row.Params, row.History = seq.req.params, seq.tokens
	}
	if d.info.Ahead > 0 && seq.pending == 0 {
		row.Ahead, row.History = d.rng.IntN(d.info.Ahead+1), seq.tokens
	}
	if seq.launched == len(seq.tokens)+seq.pending {
		row.Sample, row.Params, row.OutputIndex, row.History = true, seq.req.params, uint64(len(seq.got.ids)+seq.pending), seq.tokens
		if seq.req.masked {
			row.Mask = mask(seq.tokens[len(seq.tokens)-1], d.info.Vocab)
			for _, id := range guesses {
				row.Masks = append(row.Masks, mask(id, d.info.Vocab))
			}
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
		if guessed := oldest.batch.Rows[i].Guessed; guessed > 0 {
			seq.guessed = 0
			d.held += len(ids) - 1
			d.refused += min(guessed+1-len(ids), 1)
		}
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
