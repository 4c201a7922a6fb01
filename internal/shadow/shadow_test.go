package shadow

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"ossian/internal/draft"
	"ossian/internal/runner"
	"ossian/internal/sample"
	"ossian/internal/sched"
	"ossian/internal/sim"
	"ossian/internal/soak"
)

const vocab = 97

// next is the model of target and shadow: an id that depends on all tokens of a sequence.
func next(history []int32) int32 {
	hash := uint64(len(history))
	for _, id := range history {
		hash = (hash ^ uint64(id) + 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9
		hash ^= hash >> 31
	}
	return int32(hash % vocab)
}

// A reader is a shadow whose cells hold nothing but the tokens it was given: what it guesses is right
// if it finds its sequence there, whole and in order, whatever else has been where. One that is a
// head also finds there what the target had in the token before.
type reader struct {
	info   runner.Info
	cells  [][][2]int32 // [group][block·BlockSize + offset] token, and of a head the one before
	result runner.Result
	target func() []int32 // tokens of the target's last step, for a head
	taken  []int32
	own    bool
	last   []int32                            // of a head: the tokens behind the rows that drew
	fail   func(batch *runner.Batch) error    // nil = never
	wrong  func(id int32, position int) int32 // nil = guesses are right
	tokens int                                // read so far
}

func newReader(target runner.Info, cfg Config) *reader {
	r := &reader{info: target}
	r.info.Groups = slices.Clone(target.Groups)
	for group := range r.info.Groups {
		r.info.Groups[group].Blocks += target.MaxSeqs * ScratchBlocks(cfg.Tokens, target.BlockSize)
		cells := make([][2]int32, r.info.Groups[group].Blocks*target.BlockSize)
		for i := range cells {
			cells[i] = [2]int32{-1, -1}
		}
		r.cells = append(r.cells, cells)
	}
	return r
}

func (r *reader) Info() runner.Info { return r.info }
func (r *reader) Close() error      { return nil }

func (r *reader) Collect() (*runner.Result, error) { return &r.result, nil }

// Launch computes at once.
func (r *reader) Launch(batch *runner.Batch) error {
	if r.fail != nil {
		if err := r.fail(batch); err != nil {
			return err
		}
	}
	if err := runner.Check(batch, r.info); err != nil {
		return err
	}
	r.result.Tokens = make([][]int32, len(batch.Rows))
	tokens, before := batch.Tokens, r.before(batch)
	var last []int32
	for i := range batch.Rows {
		row := &batch.Rows[i]
		for k, id := range tokens[:row.Len] {
			for group := range r.cells {
				cell := [2]int32{id, -1}
				if before != nil {
					cell[1] = before[k]
				}
				*r.cell(row, group, row.Start+k) = cell
			}
		}
		if row.Sample {
			id, err := r.guess(row)
			if err != nil {
				return err
			}
			r.result.Tokens[i], last = []int32{id}, append(last, tokens[row.Len-1])
		}
		if before != nil {
			before = before[row.Len:]
		}
		tokens, r.tokens = tokens[row.Len:], r.tokens+row.Len
	}
	r.last = last
	return nil
}

// guess reads the sequence of a row out of the cells.
func (r *reader) guess(row *runner.Row) (int32, error) {
	var history []int32
	end := row.Start + row.Len
	for position := range end {
		cell := *r.cell(row, 0, position)
		if r.target == nil {
			history = append(history, cell[0])
		} else {
			// The last entry of a block that others read, too, may have been made by one of these, who
			// had another token behind it.
			if position > 0 && position%r.info.BlockSize > 0 && cell[1] != history[position] {
				return 0, fmt.Errorf("position %d: read token %d beside what the target made of %d", position, history[position], cell[1])
			}
			history = append(history[:position], cell[1], cell[0])
		}
		for group := 1; group < len(r.cells); group++ { // windows see the same
			if position <= end-1-r.info.Groups[group].Window {
				continue
			}
			seen := *r.cell(row, group, position)
			if seen == cell || (r.target != nil && position%r.info.BlockSize == r.info.BlockSize-1 && seen[1] == cell[1]) {
				continue
			}
			return 0, fmt.Errorf("position %d: group %d has %v, group 0 %v", position, group, seen, cell)
		}
	}
	id := next(history)
	if r.wrong != nil {
		id = r.wrong(id, end)
	}
	return id, nil
}

func (r *reader) cell(row *runner.Row, group, position int) *[2]int32 {
	return &r.cells[group][int(row.Tables[group][position/r.info.BlockSize])*r.info.BlockSize+position%r.info.BlockSize]
}

// before returns the token before each of a batch's as a head knows it, nil if it is none.
func (r *reader) before(batch *runner.Batch) (before []int32) {
	if r.target == nil {
		return nil
	}
	of := r.last
	if !r.own {
		of = r.target()
	}
	for _, place := range r.taken {
		before = append(before, of[place])
	}
	if len(before) != len(batch.Tokens) {
		panic(fmt.Sprintf("%d features for %d tokens", len(before), len(batch.Tokens)))
	}
	return before
}

// A headReader is a reader that is a head.
type headReader struct{ *reader }

func (r headReader) Take(places []int32, own bool) { r.taken, r.own = places, own }

// A spied target remembers the tokens of its last step.
type spied struct {
	runner.Runner
	tokens []int32
}

func (s *spied) Launch(batch *runner.Batch) error {
	s.tokens = slices.Clone(batch.Tokens)
	return s.Runner.Launch(batch)
}

// A world is a scheduler on a target with a shadow.
type world struct {
	sched  *sched.Scheduler
	runner runner.Runner
	reader *reader
	seqs   []*sched.Seq
	faults []*runner.GuessFault
}

// newWorld makes one whose shadow guesses so many ids; 0 = there is none.
func newWorld(t *testing.T, tokens int, head bool, blocks int) *world {
	t.Helper()
	info := runner.Info{Vocab: vocab, BlockSize: 4, MaxSeqs: 5, MaxTokens: 24, MaxLen: 160, Lookahead: 7,
		Groups: []runner.Group{{Blocks: blocks}, {Blocks: blocks, Window: 6}}}
	script, err := sim.NewScript(sim.Config{Info: info, Verify: true, Next: func(history []int32, _ uint64) int32 { return next(history) }})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{runner: script}
	cfg := sched.Config{}
	if tokens > 0 {
		target, with := &spied{Runner: script}, Config{Tokens: tokens, Groups: []int{0, 1}}
		w.reader = newReader(script.Info(), with)
		var beside runner.Runner = w.reader
		if head {
			w.reader.target = func() []int32 { return target.tokens }
			beside = headReader{w.reader}
		}
		if w.runner, err = New(target, beside, with); err != nil {
			t.Fatal(err)
		}
		settings := &draft.Settings{Method: draft.Model, Tokens: tokens}
		cfg.Guesses = &sched.Guesses{Settings: settings, Chooser: settings.NewChooser()}
	}
	if w.sched, err = sched.New(cfg, w.runner.Info()); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) add(t *testing.T, prompt []int32, output int) {
	t.Helper()
	seq := &sched.Seq{ID: uint64(len(w.seqs) + 1), Tokens: prompt, MaxTokens: output, Params: &sample.Params{}}
	if err := w.sched.Add(seq); err != nil {
		t.Fatal(err)
	}
	w.seqs = append(w.seqs, seq)
}

// step runs a step and reports whether there was one. change may alter the batch.
func (w *world) step(t *testing.T, change func(*runner.Batch)) bool {
	t.Helper()
	batch := w.sched.Plan(time.Unix(0, 0))
	if batch == nil {
		return false
	}
	if change != nil {
		change(batch)
	}
	if err := runner.Check(batch, w.runner.Info()); err != nil {
		t.Fatal(err)
	}
	if err := w.runner.Launch(batch); err != nil {
		t.Fatal(err)
	}
	result, err := w.runner.Collect()
	if err != nil {
		t.Fatal(err)
	}
	w.sched.Commit(batch, result, time.Unix(0, 0))
	if fault := w.sched.GuessFault(); fault != nil {
		w.faults = append(w.faults, fault)
	}
	if err := w.sched.Check(); err != nil {
		t.Fatal(err)
	}
	return true
}

// play runs random sequences, with prompts in common, to their ends and compares them with next.
func (w *world) play(t *testing.T, rng *rand.Rand, sequences int, change func(*runner.Batch)) {
	t.Helper()
	common := make([]int32, 60)
	for i := range common {
		common[i] = rng.Int32N(vocab)
	}
	for len(w.seqs) < sequences || !w.sched.Idle() {
		for len(w.seqs) < sequences && rng.IntN(3) == 0 {
			prompt := slices.Clone(common[:1+rng.IntN(len(common))])
			prompt[len(prompt)-1] = rng.Int32N(vocab)
			w.add(t, prompt, 1+rng.IntN(40))
		}
		if len(w.seqs) > 0 && rng.IntN(60) == 0 {
			w.sched.Abort(uint64(1 + rng.IntN(len(w.seqs))))
		}
		w.step(t, change)
	}
	for _, seq := range w.seqs {
		for at := seq.Prompt; at < len(seq.Tokens); at++ {
			if want := next(seq.Tokens[:at]); seq.Tokens[at] != want {
				t.Fatalf("sequence %d: output %d is %d, want %d", seq.ID, at-seq.Prompt, seq.Tokens[at], want)
			}
		}
	}
}

// Whatever happens to sequences, a shadow that computes what the target does guesses right: it has
// read each token once, in its place. Prompts in chunks, cached prefixes, windows, preemption,
// aborts; steps that are not followed, which a small model catches up on and a head guesses nothing
// behind.
func TestGuessesAreRight(t *testing.T) {
	for _, head := range []bool{false, true} {
		for _, skips := range []bool{false, true} {
			t.Run(fmt.Sprintf("head=%v/skips=%v", head, skips), func(t *testing.T) {
				stats := sched.Stats{}
				for seed := range uint64(soak.Cases(t, 60, 3000)) {
					rng := rand.New(rand.NewPCG(seed, 7))
					w := newWorld(t, 1+rng.IntN(7), head, 40+rng.IntN(60))
					w.play(t, rng, 12, func(batch *runner.Batch) {
						for i := range batch.Rows {
							if skips && rng.IntN(4) == 0 {
								batch.Rows[i].Ahead = 0
							}
						}
					})
					for _, fault := range w.faults {
						t.Fatalf("seed %d: %v\n%s", seed, fault.Value, fault.Stack)
					}
					now := w.sched.Stats()
					stats.Guesses.Add(&now.Guesses)
					stats.Preemptions, stats.CacheHits, stats.Steps, stats.Rows = stats.Preemptions+now.Preemptions, stats.CacheHits+now.CacheHits, stats.Steps+now.Steps, stats.Rows+now.Rows
				}
				of := &stats.Guesses
				t.Logf("%d steps, %d preemptions, %d tokens from the cache, %d guesses", stats.Steps, stats.Preemptions, stats.CacheHits, of.Guessed[draft.FromModel])
				if of.Accepted[draft.FromModel] != of.Guessed[draft.FromModel] {
					t.Errorf("of %d guesses %d were right", of.Guessed[draft.FromModel], of.Accepted[draft.FromModel])
				}
				if of.Guessed[draft.FromModel] < 2*stats.Rows/3 && !skips || of.Guessed[draft.FromModel] < stats.Rows/8 || stats.Preemptions == 0 || stats.CacheHits == 0 {
					t.Errorf("%d guesses in %d rows, %d preemptions, %d tokens from the cache: too few to show anything", of.Guessed[draft.FromModel], stats.Rows, stats.Preemptions, stats.CacheHits)
				}
			})
		}
	}
}

// Guesses that are wrong change nothing, and what follows the first of them is guessed anew.
func TestWrongGuesses(t *testing.T) {
	for _, head := range []bool{false, true} {
		for seed := range uint64(20) {
			rng := rand.New(rand.NewPCG(seed, 8))
			w := newWorld(t, 5, head, 70)
			w.reader.wrong = func(id int32, position int) int32 {
				if position%3 == 0 {
					return (id + 1) % vocab
				}
				return id
			}
			w.play(t, rng, 12, nil)
			of := w.sched.Stats().Guesses
			if len(w.faults) > 0 || of.Accepted[draft.FromModel] == 0 || of.Accepted[draft.FromModel]*5 < of.Guessed[draft.FromModel] {
				t.Errorf("head %v, seed %d: %d of %d guesses held, faults %v", head, seed, of.Accepted[draft.FromModel], of.Guessed[draft.FromModel], w.faults)
			}
		}
	}
}

// What fails in a shadow ends guessing, says so once, and nothing else.
func TestFaults(t *testing.T) {
	for name, fail := range map[string]func() error{
		"error": func() error { return errors.New("no more memory") },
		"panic": func() error { panic("no more memory") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 4, false, 80)
			steps := 0
			w.reader.fail = func(*runner.Batch) error {
				if steps++; steps == 20 {
					return fail()
				}
				return nil
			}
			w.play(t, rand.New(rand.NewPCG(1, 1)), 10, nil)
			if len(w.faults) != 1 || !strings.Contains(fmt.Sprint(w.faults[0].Value), "no more memory") || steps != 20 {
				t.Errorf("faults %v after %d launches, want one after 20", w.faults, steps)
			}
		})
	}
}

// A shadow with a shorter context or a smaller vocabulary guesses as far as these go.
func TestBounds(t *testing.T) {
	w := newWorld(t, 4, false, 80)
	p := w.runner.(*pair)
	p.limits.MaxLen, w.reader.info.MaxLen = 40, 40
	w.add(t, []int32{1, 2, 3}, 100)
	for w.step(t, nil) {
	}
	if of := w.sched.Stats().Guesses; of.Guessed[draft.FromModel] < 25 || of.Guessed[draft.FromModel] > 37 || len(w.faults) > 0 {
		t.Errorf("%d guesses within 40 tokens, faults %v", of.Guessed[draft.FromModel], w.faults)
	}
	w = newWorld(t, 4, false, 80)
	p = w.runner.(*pair)
	p.limits.Vocab, w.reader.info.Vocab = 50, 50
	w.play(t, rand.New(rand.NewPCG(1, 1)), 10, nil)
	if len(w.faults) > 0 {
		t.Errorf("ids beyond the vocabulary: %v", w.faults[0].Value)
	}
}

func TestNewRefuses(t *testing.T) {
	w := newWorld(t, 4, false, 80)
	target := w.runner.(*pair).Runner
	for name, change := range map[string]func(*reader, *Config){
		"nothing to guess": func(_ *reader, c *Config) { c.Tokens = 0 },
		"fewer slots":      func(r *reader, _ *Config) { r.info.MaxSeqs-- },
		"other blocks":     func(r *reader, _ *Config) { r.info.BlockSize++ },
		"fewer blocks":     func(r *reader, _ *Config) { r.info.Groups[1].Blocks-- },
		"no group":         func(_ *reader, c *Config) { c.Groups = []int{0, 2} },
		"too few groups":   func(_ *reader, c *Config) { c.Groups = []int{0} },
	} {
		cfg := Config{Tokens: 4, Groups: []int{0, 1}}
		beside := newReader(target.Info(), cfg)
		change(beside, &cfg)
		if _, err := New(target, beside, cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
