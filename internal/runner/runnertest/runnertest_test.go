package runnertest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"ossian/internal/runner"
	"ossian/internal/sample"
)

// A bug makes the fake runner wrong in one way.
type bug int

const (
	none bug = iota
	firstBlock
	privateCache
	staleTable
	chunkPosition
	chunkLength
	neighbours
	rowIndex
	windowLeak
	windowShort
	readsAhead
	pendingOlder
	pendingByRow
	pendingHistory
	ignoresStep
	ignoresSeed
	ignoresMask
	ignoresBias
	foreignLogprobs
	unaskedLogprobs
	scoresLate
	scoresBiased
	scoresLast
	foreignScores
	samplesAlways
	stackOrder
	unboundedDepth
	guessMask
	guessStep
	guessHistory
	guessCells
	guessLogprobs
	guessAll
	numBugs
)

var bugNames = [numBugs]string{
	none:            "none",
	firstBlock:      "takes blocks to lie one after another",
	privateCache:    "keeps tokens per slot instead of in blocks",
	staleTable:      "keeps the table of the slot's last sequence",
	chunkPosition:   "counts positions from the start of the chunk",
	chunkLength:     "computes chunks of more than 8 tokens differently",
	neighbours:      "computes batches of more than 4 rows differently",
	rowIndex:        "computes the last row of a batch differently",
	windowLeak:      "sees one token behind the window",
	windowShort:     "sees a window from the start of the chunk",
	readsAhead:      "reads the rest of the last block",
	pendingOlder:    "takes a pending id from the batch before the previous one",
	pendingByRow:    "takes a pending id from the same row instead of the same slot",
	pendingHistory:  "does not penalise pending ids",
	ignoresStep:     "counts draws itself",
	ignoresSeed:     "has one seed for all",
	ignoresMask:     "ignores masks",
	ignoresBias:     "ignores biases",
	foreignLogprobs: "reports the log probabilities of the first row",
	unaskedLogprobs: "reports log probabilities unasked",
	scoresLate:      "scores each target one token late",
	scoresBiased:    "adds biases to what it scores",
	scoresLast:      "scores targets only in a row that samples",
	foreignScores:   "scores with the alternatives of the first row's",
	samplesAlways:   "samples in every row",
	stackOrder:      "returns the youngest result first",
	unboundedDepth:  "launches any number of batches",
	guessMask:       "has one mask for all places of a row",
	guessStep:       "has one random number for all places of a row",
	guessHistory:    "does not penalise guesses",
	guessCells:      "keeps what refused guesses have written",
	guessLogprobs:   "reports the log probabilities of the first place",
	guessAll:        "goes on behind a guess that does not hold",
}

// A fake writes into each cell of the cache a hash of everything before it that
// attention may see, so that one wrong cell changes all later output.
type fake struct {
	bug     bug
	info    runner.Info
	cells   [][]uint64              // [group][block·BlockSize + offset]
	private map[[3]int]uint64       // by group, slot and position
	tables  [][][]runner.BlockID    // [slot][group]
	sampled []map[int]pendingSample // per launched batch, by slot
	byRow   [][]int32               // per launched batch
	results []*runner.Result
	draws   uint64
	guessed map[[2]int]bool // by slot and position
}

type pendingSample struct {
	position int
	id       int32
}

func newFake(c Config, b bug) *fake {
	f := &fake{bug: b, private: make(map[[3]int]uint64), guessed: make(map[[2]int]bool), tables: make([][][]runner.BlockID, c.MaxSeqs), info: runner.Info{
		Name: "fake", Vocab: 101, BlockSize: c.BlockSize, Groups: []runner.Group{{Blocks: c.Blocks}, {Blocks: c.Blocks, Window: 7}},
		MaxSeqs: c.MaxSeqs, MaxTokens: c.MaxTokens, MaxLen: c.MaxLen, Depth: c.Depth, Lookahead: c.Lookahead}}
	for range f.info.Groups {
		f.cells = append(f.cells, make([]uint64, c.Blocks*c.BlockSize))
	}
	return f
}

func (f *fake) Info() runner.Info { return f.info }
func (f *fake) Close() error      { return nil }

func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// cell returns where position p of a row lies in a group.
func (f *fake) cell(r *runner.Row, group, p int) *uint64 {
	table := r.Tables[group]
	if f.bug == staleTable {
		table = f.tables[r.Slot][group]
	}
	block := table[p/f.info.BlockSize]
	if f.bug == firstBlock && group == 0 {
		block = (table[0] + runner.BlockID(p/f.info.BlockSize)) % runner.BlockID(f.info.Groups[0].Blocks)
	}
	if block == runner.NoBlock {
		return new(uint64)
	}
	return &f.cells[group][int(block)*f.info.BlockSize+p%f.info.BlockSize]
}

// forward computes the cells of one token and returns a hash of all it sees.
func (f *fake) forward(b *runner.Batch, n int, p int, id int32) uint64 {
	r := &b.Rows[n]
	position := p
	if f.bug == chunkPosition && r.Len > 1 {
		position = p - r.Start
	}
	h := mix(uint64(id)<<32 | uint64(position) + 1)
	for g, group := range f.info.Groups {
		first := 0
		if group.Window > 0 {
			first = max(p-group.Window+1, 0)
			switch f.bug {
			case windowLeak:
				first = max(first-1, 0)
			case windowShort:
				first = max(r.Start-group.Window+1, 0)
			}
		}
		for q := first; q < p; q++ {
			if v := *f.cell(r, g, q); f.bug != privateCache {
				h = mix(h ^ v)
				continue
			}
			h = mix(h ^ f.private[[3]int{g, r.Slot, q}])
		}
	}
	switch {
	case f.bug == chunkLength && r.Len > 8, f.bug == neighbours && len(b.Rows) > 4, f.bug == rowIndex && n > 0 && n == len(b.Rows)-1:
		h++
	case f.bug == readsAhead && (p+1)%f.info.BlockSize != 0:
		h = mix(h ^ *f.cell(r, 0, p+1))
	}
	if key := [2]int{r.Slot, p}; f.bug == guessCells && f.guessed[key] {
		delete(f.guessed, key)
		return h
	} else if f.bug == guessCells && p >= r.Start+r.Len-r.Guessed {
		f.guessed[key] = true
	}
	for g := range f.info.Groups {
		*f.cell(r, g, p) = h
		f.private[[3]int{g, r.Slot, p}] = h
	}
	return h
}

func (f *fake) Launch(b *runner.Batch) error {
	if len(f.results) == f.info.Depth && f.bug != unboundedDepth {
		return fmt.Errorf("fake: %d batches are uncollected", len(f.results))
	}
	res := &runner.Result{Tokens: make([][]int32, len(b.Rows))}
	sampled, byRow := make(map[int]pendingSample), make([]int32, len(b.Rows))
	next := 0
	for n := range b.Rows {
		r := &b.Rows[n]
		f.keepTables(r)
		var h, before uint64
		var places []uint64 // hashes behind which ids are sampled
		first := next
		for p := r.Start; p < r.Start+r.Len; p++ {
			id := b.Tokens[next]
			next++
			if id == runner.Pending {
				id = f.resolve(n, r.Slot)
			}
			before, h = h, f.forward(b, n, p, id)
			if k := p - r.Start; k < len(r.Targets) && (f.bug != scoresLast || r.Sample) {
				f.score(res, b, n, k, before, h)
			}
			if p >= r.Start+r.Len-1-r.Guessed {
				places = append(places, h)
			}
		}
		if !r.Sample && f.bug != samplesAlways {
			continue
		}
		guesses := b.Tokens[next-r.Guessed : next]
		for place, h := range places {
			byRow[n] = f.sample(res, b, n, h, place, b.Tokens[first:next])
			if f.bug != guessAll && place < len(guesses) && byRow[n] != guesses[place] {
				break
			}
		}
		sampled[r.Slot] = pendingSample{r.Start + r.Len, byRow[n]}
	}
	f.sampled, f.byRow, f.results = append(f.sampled, sampled), append(f.byRow, byRow), append(f.results, res)
	return nil
}

// keepTables remembers a slot's blocks and, as a device would that uploads only
// what is new, takes longer tables to begin with what it knows.
func (f *fake) keepTables(r *runner.Row) {
	if f.tables[r.Slot] == nil {
		f.tables[r.Slot] = make([][]runner.BlockID, len(r.Tables))
	}
	for g, t := range r.Tables {
		known := f.tables[r.Slot][g]
		f.tables[r.Slot][g] = append(known, t[min(len(known), len(t)):]...)
	}
}

func (f *fake) resolve(row, slot int) int32 {
	last := len(f.sampled) - 1
	switch {
	case f.bug == pendingByRow:
		return f.byRow[last][min(row, len(f.byRow[last])-1)]
	case f.bug == pendingOlder && last > 0:
		if older, ok := f.sampled[last-1][slot]; ok {
			return older.id
		}
	}
	return f.sampled[last][slot].id
}

func (f *fake) logits(h uint64) []float32 {
	logits := make([]float32, f.info.Vocab)
	for i := range logits {
		logits[i] = float32(mix(h+uint64(i))%1024) / 128
	}
	return logits
}

// score records how likely target k of a row is behind the token of hash h.
func (f *fake) score(res *runner.Result, b *runner.Batch, n, k int, before, h uint64) {
	if res.Scores == nil {
		res.Scores = make([][]sample.Score, len(b.Rows))
	}
	if f.bug == scoresLate && k > 0 {
		h = before
	}
	r, logits := &b.Rows[n], f.logits(h)
	top := r.Params.TopPromptLogprobs
	if f.bug == scoresBiased {
		for id, bias := range r.Params.LogitBias {
			logits[id] += bias
		}
	}
	score := new(sample.Sampler).Score(nil, logits, r.Targets[k], top)
	if f.bug == foreignScores && n > 0 && len(res.Scores[0]) > 0 {
		copy(score.Logprobs[1:], res.Scores[0][0].Logprobs[1:])
	}
	res.Scores[n] = append(res.Scores[n], score)
}

// sample chooses the id of a place of a row with these tokens and records it.
func (f *fake) sample(res *runner.Result, b *runner.Batch, n int, h uint64, place int, tokens []int32) int32 {
	r := &b.Rows[n]
	p := sample.Params{}
	if r.Params != nil {
		p = *r.Params
	}
	logits := f.logits(h)
	mask, step := r.MaskAt(place), r.OutputIndex+uint64(place)
	history := append(f.history(r), tokens[r.Len-r.Guessed:r.Len-r.Guessed+place]...)
	switch f.bug {
	case guessMask:
		mask = r.Mask
	case guessStep:
		step = r.OutputIndex
	case guessHistory:
		history = f.history(r)
	case ignoresMask:
		mask = nil
	case ignoresBias:
		p.LogitBias = nil
	case ignoresSeed:
		p.Seed = 1
	case ignoresStep:
		step = f.draws
		f.draws++
	}
	id := sample.Pick(logits, mask, &p, history, step)
	res.Tokens[n] = append(res.Tokens[n], id)
	if p.Logprobs || f.bug == unaskedLogprobs {
		if res.Logprobs == nil {
			res.Logprobs = make([][]sample.Logprob, len(b.Rows))
		}
		logprobs := sample.Logprobs(logits, id, p.TopLogprobs)
		if f.bug == guessLogprobs && place > 0 {
			copy(logprobs[1:], res.Logprobs[n][1:])
		}
		res.Logprobs[n] = append(res.Logprobs[n], logprobs...)
		if f.bug == foreignLogprobs && res.Logprobs[0] != nil {
			res.Logprobs[n] = res.Logprobs[0]
		}
	}
	return id
}

// history fills in what the host did not know, the id of the previous batch last.
func (f *fake) history(r *runner.Row) []int32 {
	h := slices.Clone(r.History)
	if f.bug == pendingHistory {
		return h
	}
	for n := len(h); r.Sample && n < r.Start+r.Len-r.Guessed; n++ {
		for _, s := range f.sampled {
			if p, ok := s[r.Slot]; ok && p.position == n {
				h = append(h[:n], p.id) // the latest batch wins: earlier ones are of earlier sequences
			}
		}
	}
	return h
}

func (f *fake) Collect() (*runner.Result, error) {
	if len(f.results) == 0 {
		return nil, fmt.Errorf("fake: nothing was launched")
	}
	at := 0
	if f.bug == stackOrder {
		at = len(f.results) - 1
	}
	res := f.results[at]
	f.results = slices.Delete(f.results, at, at+1)
	return res, nil
}

func TestFake(t *testing.T) {
	Run(t, func(_ *testing.T, c Config) runner.Runner { return newFake(c, none) })
}

// Every bug must be caught, and where a check exists for it, by that check: this
// is what shows that the suite can fail.
func TestSuiteCatches(t *testing.T) {
	by := [numBugs]string{
		firstBlock: "Tables", privateCache: "Prefix", staleTable: "Tables", chunkPosition: "Chunks", chunkLength: "Chunks", neighbours: "Neighbours",
		rowIndex: "Neighbours", windowLeak: "Windows", windowShort: "Chunks", readsAhead: "Poison", pendingOlder: "Pending", pendingByRow: "Pending",
		pendingHistory: "Pending", ignoresStep: "Sampling", ignoresSeed: "Sampling", ignoresMask: "", ignoresBias: "Sampling", foreignLogprobs: "Neighbours",
		unaskedLogprobs: "", scoresLate: "Scores", scoresBiased: "Scores", scoresLast: "Chunks", foreignScores: "Neighbours", samplesAlways: "Chunks", stackOrder: "Order", unboundedDepth: "Order",
		guessMask: "Guesses", guessStep: "Guesses", guessHistory: "Guesses", guessCells: "Guesses", guessLogprobs: "Guesses", guessAll: "Guesses",
	}
	for b := none + 1; b < numBugs; b++ {
		t.Run(bugNames[b], func(t *testing.T) {
			s, err := newSuite(t, func(_ *testing.T, c Config) runner.Runner { return newFake(c, b) }, usual)
			if by[b] == "" { // wrong even alone
				if err == nil {
					t.Error("not caught")
				}
				return
			}
			if err != nil {
				t.Fatalf("wrong even alone: %v", err)
			}
			s.schedules = 100
			var caught []string
			for _, c := range checks {
				if err := c.run(s); err != nil {
					caught = append(caught, c.name)
				}
			}
			if !slices.Contains(caught, by[b]) {
				t.Errorf("caught by %s, not by %s", strings.Join(caught, ", "), by[b])
			}
			t.Logf("caught by %s", strings.Join(caught, ", "))
		})
	}
}

// Schedules that never share, preempt or abort would prove nothing about these.
func TestSchedulesAreVaried(t *testing.T) {
	s, err := newSuite(t, func(_ *testing.T, c Config) runner.Runner { return newFake(c, none) }, usual)
	if err != nil {
		t.Fatal(err)
	}
	shared, preempted, aborted := 0, 0, 0
	for seed := range uint64(200) {
		d, err := s.schedule(s.open(t, s.config()), seed, seed%2 == 0)
		if err != nil {
			t.Fatal(err)
		}
		shared += d.shared
		preempted += d.preempted
		for _, q := range d.seqs {
			if q.aborted {
				aborted++
			}
		}
	}
	if shared < 1000 || preempted < 100 || aborted < 50 {
		t.Errorf("200 schedules share %d tokens, preempt %d and abort %d sequences, want 1000, 100 and 50", shared, preempted, aborted)
	}
}
