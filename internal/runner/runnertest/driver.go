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

func mask(last int32, vocab int) []uint64 {
	m := make([]uint64, (vocab+63)/64)
	for id := range int32(vocab) {
		if allowed(last, id) {
			m[id/64] |= 1 << (id % 64)
		}
	}
	return m
}

// A seq is a request on its way.
type seq struct {
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

func newSeq(q *request) *seq {
	return &seq{req: q, tokens: slices.Clone(q.prompt), slot: -1}
}

// unscored reports whether scores are asked for that have not come.
func (s *seq) unscored() bool {
	return s.req.params.PromptLogprobs && len(s.got.scores) < len(s.req.prompt)-1
}

// targets returns the prompt tokens behind those from start to launched, if a score of
// one of them has not come.
func (s *seq) targets(start int) []int32 {
	end := min(s.launched+1, len(s.req.prompt))
	if !s.unscored() || end <= max(start, len(s.got.scores))+1 {
		return nil
	}
	return s.req.prompt[start+1 : end]
}

func (s *seq) planned() bool  { return len(s.got.ids)+s.pending >= s.req.output }
func (s *seq) finished() bool { return s.inFlight == 0 && (s.aborted || s.planned()) }

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
	seqs   []*seq
	flight []launch
	number int // of the next batch

	shared, preempted int // tokens that were not computed, sequences that were computed again
}

type launch struct {
	batch *runner.Batch
	rows  []*seq
}

func newDriver(r runner.Runner, k knobs, seed uint64) *driver {
	d := &driver{r: r, info: r.Info(), knobs: k, rng: rand.New(rand.NewPCG(seed, 1))}
	d.knobs.depth = max(k.depth, 1)
	if d.knobs.slots == 0 {
		d.knobs.slots = d.info.MaxSeqs
	}
	for i := range d.knobs.slots {
		d.slots = append(d.slots, d.knobs.slots-1-i)
	}
	for _, g := range d.info.Groups {
		ids := make([]runner.BlockID, g.Blocks)
		for i := range ids {
			ids[i] = runner.BlockID(i)
		}
		if k.blocks == shuffle {
			d.rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		}
		d.free = append(d.free, ids)
		d.refs = append(d.refs, make([]int, g.Blocks))
	}
	return d
}

// run executes the requests and returns their traces; that of an aborted one is
// what it got until then.
func (d *driver) run(requests []*request) ([]trace, error) {
	for _, q := range requests {
		d.seqs = append(d.seqs, newSeq(q))
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
		if launched, err := d.launch(false); err != nil {
			return nil, err
		} else if !launched && !d.preempt() {
			return nil, fmt.Errorf("no request fits into the pool of %+v", d.info.Groups)
		}
	}
	traces := make([]trace, len(d.seqs))
	for i, s := range d.seqs {
		traces[i] = s.got
	}
	return traces, nil
}

// leave gives back what finished sequences hold and reports whether all have.
func (d *driver) leave() bool {
	all := true
	for i, s := range d.seqs {
		if d.knobs.aborts && i%4 == 3 && s.slot >= 0 && d.rng.IntN(6) == 0 {
			s.aborted = true
		}
		if !s.finished() {
			all = false
		} else if s.slot >= 0 {
			d.evict(s)
		}
	}
	return all
}

// preempt evicts the last resident sequence that is not in flight, unless it is
// the only one. It will be computed again, with what it has sampled.
func (d *driver) preempt() bool {
	var resident []*seq
	for _, s := range d.seqs {
		if s.slot >= 0 && s.inFlight == 0 {
			resident = append(resident, s)
		}
	}
	if len(resident) < 2 {
		return false
	}
	d.evict(resident[len(resident)-1])
	d.preempted++
	return true
}

func (d *driver) evict(s *seq) {
	for g := range s.tables {
		for k := range slices.Backward(s.tables[g]) {
			d.release(s, g, k)
		}
	}
	d.slots = append(d.slots, s.slot)
	s.slot, s.tables, s.launched = -1, nil, 0
}

func (d *driver) release(s *seq, group, k int) {
	id := s.tables[group][k]
	if id == runner.NoBlock {
		return
	}
	s.tables[group][k] = runner.NoBlock
	if d.refs[group][id]--; d.refs[group][id] > 0 {
		return
	}
	if d.knobs.blocks == lifo {
		d.free[group] = slices.Insert(d.free[group], 0, id)
		return
	}
	d.free[group] = append(d.free[group], id)
	if n := len(d.free[group]); d.knobs.blocks == shuffle {
		i := d.rng.IntN(n)
		d.free[group][i], d.free[group][n-1] = d.free[group][n-1], d.free[group][i]
	}
}

// grow gives s blocks for end tokens and takes back those that its next row,
// which starts at launched, cannot see; it reports whether there were enough.
func (d *driver) grow(s *seq, end int) bool {
	need := (end + d.info.Lookahead + d.info.BlockSize - 1) / d.info.BlockSize
	for g := range s.tables {
		for k := range min(runner.FirstBlock(s.launched, d.info.Groups[g].Window, d.info.BlockSize), len(s.tables[g])) {
			d.release(s, g, k)
		}
		if need-len(s.tables[g]) > len(d.free[g]) {
			return false
		}
	}
	for g := range s.tables {
		for len(s.tables[g]) < need {
			id := d.free[g][0]
			d.free[g] = d.free[g][1:]
			d.refs[g][id]++
			s.tables[g] = append(s.tables[g], id)
		}
	}
	return true
}

// admit gives s a slot and, when sharing, the blocks of a resident sequence with
// the same beginning.
func (d *driver) admit(s *seq) {
	n := len(d.slots) - 1
	if d.knobs.skip {
		i := d.rng.IntN(n + 1)
		d.slots[i], d.slots[n] = d.slots[n], d.slots[i]
	}
	s.slot, d.slots = d.slots[n], d.slots[:n]
	s.tables = make([][]runner.BlockID, len(d.info.Groups))
	if !d.knobs.share {
		return
	}
	for _, o := range d.seqs {
		if o != s && o.slot >= 0 && d.take(s, o) {
			return
		}
	}
}

// take shares the full blocks that o and s have in common; one token of s must
// remain to be computed.
func (d *driver) take(s, o *seq) bool {
	same, most := 0, len(s.tokens)-1
	if s.unscored() { // others' tokens bring no scores
		most = len(s.got.scores)
	}
	for same < min(o.launched, len(o.tokens), most) && o.tokens[same] == s.tokens[same] {
		same++
	}
	blocks := same / d.info.BlockSize
	if blocks == 0 {
		return false
	}
	start := blocks * d.info.BlockSize
	for g, group := range d.info.Groups {
		if slices.Contains(o.tables[g][runner.FirstBlock(start, group.Window, d.info.BlockSize):blocks], runner.NoBlock) {
			return false // the other has given back what s would see
		}
	}
	for g := range s.tables {
		s.tables[g] = slices.Clone(o.tables[g][:blocks])
		for _, id := range s.tables[g] {
			if id != runner.NoBlock {
				d.refs[g][id]++
			}
		}
	}
	s.launched = start
	d.shared += start
	return true
}

// launch plans a batch and gives it to the runner. It reports whether there was
// anything to do.
func (d *driver) launch(skip bool) (bool, error) {
	b := &runner.Batch{}
	var rows []*seq
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
		s := d.seqs[i]
		if s.slot < 0 {
			d.admit(s)
		}
		if n := d.size(s, d.info.MaxTokens-len(b.Tokens)); n > 0 && d.grow(s, s.launched+n) {
			d.row(b, s, n)
			rows = append(rows, s)
		}
	}
	if len(rows) == 0 {
		return false, nil
	}
	if err := runner.Check(b, d.info); err != nil {
		return false, fmt.Errorf("the suite made a bad batch: %w", err)
	}
	if err := d.r.Launch(b); err != nil {
		return false, fmt.Errorf("launch of batch %d: %w", d.number, err)
	}
	d.flight = append(d.flight, launch{b, rows})
	d.number++
	return true, nil
}

// ready reports whether sequence i may have a row in the next batch.
func (d *driver) ready(i int) bool {
	s := d.seqs[i]
	switch {
	case s.aborted || s.planned():
		return false
	case s.slot < 0:
		return len(d.slots) > 0 && !(d.knobs.stagger && i > 0 && d.seqs[i-1].launched < len(d.seqs[i-1].req.prompt) && !d.seqs[i-1].finished())
	case s.pending == 0:
		return true
	}
	// Pending names the previous batch, and a mask needs the last id.
	return s.sampledIn == d.number-1 && !s.req.masked
}

// size returns how many tokens s takes in a step with room for that many.
func (d *driver) size(s *seq, room int) int {
	n := min(len(s.tokens)+s.pending-s.launched, room)
	switch {
	case d.knobs.chunk > 0:
		n = min(n, d.knobs.chunk)
	case d.knobs.chunk < 0:
		n = min(n, 1+d.rng.IntN(2*d.info.BlockSize+1))
	}
	return n
}

// row appends the next n tokens of s to b.
func (d *driver) row(b *runner.Batch, s *seq, n int) {
	r := runner.Row{Slot: s.slot, Start: s.launched, Len: n}
	for _, t := range s.tables {
		r.Tables = append(r.Tables, slices.Clone(t))
	}
	for p := s.launched; p < s.launched+n; p++ {
		id := runner.Pending
		if p < len(s.tokens) {
			id = s.tokens[p]
		}
		b.Tokens = append(b.Tokens, id)
	}
	s.launched += n
	s.inFlight++
	if r.Targets = s.targets(r.Start); r.Targets != nil {
		r.Params, r.History = s.req.params, s.tokens
	}
	if s.launched == len(s.tokens)+s.pending {
		r.Sample, r.Params, r.Step, r.History = true, s.req.params, uint64(len(s.got.ids)+s.pending), s.tokens
		if s.req.masked {
			r.Mask = mask(s.tokens[len(s.tokens)-1], d.info.Vocab)
		}
		s.pending++
		s.sampledIn = d.number
	}
	b.Rows = append(b.Rows, r)
}

// collect records the oldest batch's result.
func (d *driver) collect() error {
	l := d.flight[0]
	d.flight = d.flight[1:]
	number := d.number - len(d.flight) - 1
	res, err := d.r.Collect()
	if err != nil {
		return fmt.Errorf("collect of batch %d: %w", number, err)
	}
	if err := checkShape(l.batch, res, d.info); err != nil {
		return fmt.Errorf("batch %d: %w", number, err)
	}
	for i, s := range l.rows {
		s.inFlight--
		if row := &l.batch.Rows[i]; len(row.Targets) > 0 {
			for _, score := range res.Scores[i][min(len(s.got.scores)-row.Start, len(row.Targets)):] {
				s.got.scores = append(s.got.scores, sample.Score{Rank: score.Rank, Logprobs: slices.Clone(score.Logprobs)})
			}
		}
		if !l.batch.Rows[i].Sample {
			continue
		}
		s.pending--
		ids := res.Tokens[i]
		s.tokens = append(s.tokens, ids...)
		s.launched += len(ids) - 1
		for k, id := range ids {
			if len(s.got.ids) == s.req.output {
				break
			}
			s.got.ids = append(s.got.ids, id)
			var lps []sample.Logprob
			if n := 1 + s.req.params.TopLogprobs; s.req.params.Logprobs {
				lps = slices.Clone(res.Logprobs[i][k*n:][:n])
			}
			s.got.logprobs = append(s.got.logprobs, lps)
		}
	}
	// A collected batch belongs to the planner again, which reuses it.
	for i := range l.batch.Tokens {
		l.batch.Tokens[i] = 0
	}
	for i := range l.batch.Rows {
		for _, t := range l.batch.Rows[i].Tables {
			clear(t)
		}
	}
	clear(l.batch.Rows)
	return nil
}

// checkShape holds a result to what Result promises.
func checkShape(b *runner.Batch, res *runner.Result, info runner.Info) error {
	if len(res.Tokens) != len(b.Rows) {
		return fmt.Errorf("result has ids of %d rows, batch has %d", len(res.Tokens), len(b.Rows))
	}
	asked := false
	for i := range b.Rows {
		asked = asked || (b.Rows[i].Sample && b.Rows[i].Params.Logprobs)
	}
	if asked != (res.Logprobs != nil) || (asked && len(res.Logprobs) != len(b.Rows)) {
		return fmt.Errorf("result has log probabilities of %d rows, batch has %d, asked for: %v", len(res.Logprobs), len(b.Rows), asked)
	}
	if err := checkScores(b, res); err != nil {
		return err
	}
	for i := range b.Rows {
		r, ids := &b.Rows[i], res.Tokens[i]
		if !r.Sample {
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
		if r.Mask != nil && r.Mask[ids[0]/64]>>(ids[0]%64)&1 == 0 {
			return fmt.Errorf("row %d: id %d is masked", i, ids[0])
		}
		if asked {
			if err := checkLogprobs(r.Params, ids, res.Logprobs[i]); err != nil {
				return fmt.Errorf("row %d: %w", i, err)
			}
		}
	}
	return nil
}

func checkScores(b *runner.Batch, res *runner.Result) error {
	asked := slices.ContainsFunc(b.Rows, func(r runner.Row) bool { return len(r.Targets) > 0 })
	if asked != (res.Scores != nil) || (asked && len(res.Scores) != len(b.Rows)) {
		return fmt.Errorf("result has scores of %d rows, batch has %d, asked for: %v", len(res.Scores), len(b.Rows), asked)
	}
	for i, scores := range res.Scores {
		r := &b.Rows[i]
		if len(scores) != len(r.Targets) {
			return fmt.Errorf("row %d: %d scores of %d targets", i, len(scores), len(r.Targets))
		}
		for k, s := range scores {
			p := &sample.Params{Logprobs: true, TopLogprobs: r.Params.TopPromptLogprobs}
			if err := checkLogprobs(p, r.Targets[k:k+1], s.Logprobs); err != nil {
				return fmt.Errorf("row %d, target %d: %w", i, k, err)
			}
			place := 1 + slices.IndexFunc(s.Logprobs[1:], func(l sample.Logprob) bool { return l.ID == r.Targets[k] })
			if s.Rank < 1 || (place > 0 && s.Rank != place) || (place == 0 && s.Rank <= p.TopLogprobs) {
				return fmt.Errorf("row %d, target %d: rank %d, but place %d of the most likely %d", i, k, s.Rank, place, p.TopLogprobs)
			}
		}
	}
	return nil
}

func checkLogprobs(p *sample.Params, ids []int32, lps []sample.Logprob) error {
	if !p.Logprobs {
		if len(lps) != 0 {
			return fmt.Errorf("%d log probabilities, none asked for", len(lps))
		}
		return nil
	}
	n := 1 + p.TopLogprobs
	if len(lps) != n*len(ids) {
		return fmt.Errorf("%d log probabilities for %d ids, want %d each", len(lps), len(ids), n)
	}
	for i, l := range lps {
		switch {
		case !(l.Logprob <= 0):
			return fmt.Errorf("log probability %d is %v", i, l.Logprob)
		case i%n == 0 && l.ID != ids[i/n]:
			return fmt.Errorf("log probability %d is of id %d, chosen was %d", i, l.ID, ids[i/n])
		case i%n > 1 && l.Logprob > lps[i-1].Logprob:
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
	for i, s := range got.scores {
		if w := want.scores[i]; s.Rank != w.Rank || !slices.EqualFunc(s.Logprobs, w.Logprobs, same) {
			return fmt.Errorf("prompt token %d has score %+v, alone %+v", i+1, s, w)
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
