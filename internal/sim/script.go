// Package sim executes batches without a model, so that whoever tests or measures
// what lies above runner.Runner needs neither weights nor arithmetic: a Script
// plays token ids that a pure function prescribes, at the pace and with the
// faults the test asks for.
package sim

import (
	"errors"
	"fmt"
	"math/bits"
	"time"

	"ossian/internal/runner"
	"ossian/internal/sample"
)

// A Next returns the id that follows history: a prompt and the first step ids of
// the output. It is a pure function, so that a sequence computed again after
// preemption continues as it began, and it does not keep history.
type Next func(history []int32, step uint64) int32

// Hash returns a Next whose ids depend on every earlier token, in [0, vocab): one
// wrong token changes all that follow. Each call costs time proportional to the
// history.
func Hash(vocab int) Next {
	return func(history []int32, _ uint64) int32 {
		hash := uint64(0)
		for _, id := range history {
			hash = chain(hash, id)
		}
		return int32(hash % uint64(vocab))
	}
}

// List returns a Next that plays ids whatever the prompt, then the last one again.
// That is usually an id that ends the sequence. There must be one id at least.
func List(ids ...int32) Next {
	return Reply(func([]int32) []int32 { return ids })
}

// Reply returns a Next that plays the ids that script gives for the prompt, then
// the last one again. script is a pure function, called for every token.
func Reply(script func(prompt []int32) []int32) Next {
	return func(history []int32, step uint64) int32 {
		ids := script(history[:len(history)-int(step)])
		if len(ids) == 0 {
			return -1 // which Launch refuses
		}
		return ids[min(step, uint64(len(ids)-1))]
	}
}

// chain extends the hash of a sequence by one token.
func chain(hash uint64, id int32) uint64 {
	hash = (hash ^ uint64(id) + 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9
	return hash ^ hash>>31
}

// A Config describes a Script. The zero value plays hashes of the history.
type Config struct {
	Info runner.Info // zero fields get defaults, but for Lookahead
	Next Next        // nil = Hash of the vocabulary

	// Cost is how long a step takes; nil = no time. Steps run one after another,
	// as on a device: a step begins when it is launched and the one before it is
	// done. Collect sleeps until the end.
	Cost func(*runner.Batch) time.Duration

	// Verify applies runner.Check to every batch and keeps in each KV cell a hash
	// of all tokens up to it. Launch then refuses a row that would read a cell
	// that does not hold its own history: a wrong block, a stale slot, a false
	// prefix hit. It costs time proportional to the history of each row that samples.
	Verify bool

	// OnLaunch and OnCollect, where not nil, are called first with the number of
	// the batch, counted from 0. They inject faults: an error is returned as it
	// is and the batch stays where it was, a panic passes through, blocking is a hang.
	OnLaunch, OnCollect func(step int, b *runner.Batch) error
}

// A Script is a runner.Runner that plays prescribed ids: sampling parameters
// change nothing but which log probabilities are reported. Where a mask forbids an
// id, the next larger allowed one is played instead, after the largest the
// smallest. The prescribed id has probability 1, log probability 0; the k-th other
// id has -20-k. In a target's place that is prescribed which would be played if the
// prompt ended there.
type Script struct {
	cfg      Config
	info     runner.Info
	ring     []step     // one more than Depth: what Collect returned last stays valid
	head     int        // oldest launched step
	queued   int        // launched and uncollected steps
	launched int        // steps so far
	free     time.Time  // when the last launched step ends
	known    []sampled  // [slot·(Depth+1) + position mod (Depth+1)] ids sampled last
	history  []int32    // scratch
	cells    [][]uint64 // [group][block·BlockSize + offset] hash of all tokens up to that one, with Verify
}

// A sampled id, and the position of its token; -1 = none.
type sampled struct{ pos, id int32 }

// A step is a launched batch and what Collect will return, or has returned last.
type step struct {
	number   int
	batch    *runner.Batch
	end      time.Time
	result   runner.Result
	ids      []int32 // of all rows, one after another: backing of result.Tokens
	tokens   [][]int32
	logprobs [][]sample.Logprob
}

// NewScript returns a runner for cfg. Defaults: a vocabulary of 512, blocks of 16,
// 64 sequences of up to 1024 tokens, 1024 tokens per batch, depth 1, one group
// with blocks for all sequences.
func NewScript(cfg Config) (*Script, error) {
	info := cfg.Info
	// What the zero values of Info mean.
	setDefault(&info.Vocab, 512)
	setDefault(&info.BlockSize, 16)
	setDefault(&info.MaxSeqs, 64)
	setDefault(&info.MaxTokens, 1024)
	setDefault(&info.MaxLen, 1024)
	setDefault(&info.Depth, 1)
	if info.Name == "" {
		info.Name = "sim/script"
	}
	if info.Groups == nil {
		info.Groups = []runner.Group{{Blocks: info.MaxSeqs * ((info.MaxLen + info.BlockSize - 1) / info.BlockSize)}}
	}
	if min(info.Vocab, info.BlockSize, info.MaxSeqs, info.MaxTokens, info.MaxLen, info.Depth) < 1 || info.Lookahead < 0 {
		return nil, fmt.Errorf("script: %+v: numbers must be positive", info)
	}
	if cfg.Next == nil {
		cfg.Next = Hash(info.Vocab)
	}
	script := &Script{cfg: cfg, info: info, ring: make([]step, info.Depth+1), known: make([]sampled, info.MaxSeqs*(info.Depth+1))}
	for n := range script.ring {
		script.ring[n] = step{ids: make([]int32, 0, min(info.MaxSeqs*(1+info.Lookahead), info.MaxTokens)), tokens: make([][]int32, info.MaxSeqs)}
	}
	for n := range script.known {
		script.known[n].pos = -1
	}
	for number, group := range info.Groups {
		if group.Window == 1 || group.Window < 0 || group.Blocks < 1 {
			return nil, fmt.Errorf("script: group %d: %+v: blocks must be positive, the window 0 or at least 2", number, group)
		}
		if cfg.Verify {
			script.cells = append(script.cells, make([]uint64, group.Blocks*info.BlockSize))
		}
	}
	return script, nil
}

func setDefault(p *int, v int) {
	if *p == 0 {
		*p = v
	}
}

// Info implements runner.Runner.
func (s *Script) Info() runner.Info { return s.info }

// Close implements runner.Runner.
func (s *Script) Close() error { return nil }

// Launch implements runner.Runner. The ids are chosen here; the time passes in Collect.
func (s *Script) Launch(batch *runner.Batch) error {
	if s.queued == s.info.Depth {
		return fmt.Errorf("script: %d steps are uncollected, depth is %d", s.queued, s.info.Depth)
	}
	if s.cfg.OnLaunch != nil {
		if err := s.cfg.OnLaunch(s.launched, batch); err != nil {
			return err
		}
	}
	if s.cfg.Verify {
		if err := runner.Check(batch, s.info); err != nil {
			return fmt.Errorf("script: batch %d: %w", s.launched, err)
		}
	}
	// Nothing counts as launched until every row is right.
	step := &s.ring[(s.head+s.queued)%len(s.ring)]
	step.number, step.batch, step.ids = s.launched, batch, step.ids[:0]
	step.result = runner.Result{Tokens: step.tokens[:len(batch.Rows)]}
	clear(step.result.Tokens)
	at := 0
	for i := range batch.Rows {
		length := batch.Rows[i].Len
		if err := s.row(step, i, batch.Tokens[at:at+length]); err != nil {
			return fmt.Errorf("script: batch %d, row %d: %w", s.launched, i, err)
		}
		at += length
	}
	if s.cfg.Cost != nil {
		step.result.Elapsed = s.cfg.Cost(batch)
		if now := time.Now(); s.free.Before(now) {
			s.free = now
		}
		s.free = s.free.Add(step.result.Elapsed)
		step.end = s.free
	}
	s.launched++
	s.queued++
	return nil
}

// Collect implements runner.Runner. The result is valid until the next Collect.
func (s *Script) Collect() (*runner.Result, error) {
	if s.queued == 0 {
		return nil, errors.New("script: no step to collect")
	}
	step := &s.ring[s.head]
	if s.cfg.OnCollect != nil {
		if err := s.cfg.OnCollect(step.number, step.batch); err != nil {
			return nil, err
		}
	}
	if s.cfg.Cost != nil {
		time.Sleep(time.Until(step.end))
	}
	s.head, s.queued = (s.head+1)%len(s.ring), s.queued-1
	step.batch = nil
	return &step.result, nil
}

// row computes one row of a step from its new tokens.
func (s *Script) row(st *step, number int, tokens []int32) error {
	row := &st.batch.Rows[number]
	if s.cfg.Verify {
		if err := s.store(row, tokens); err != nil {
			return err
		}
	}
	if len(row.Targets) > 0 {
		if err := s.score(st, number); err != nil {
			return err
		}
	}
	if !row.Sample {
		return nil
	}
	history, err := s.complete(row, tokens)
	if err != nil {
		return err
	}
	if s.cfg.Verify {
		if err := s.verify(row, history); err != nil {
			return err
		}
	}
	// One id behind the last known token, and one more for each guess that was played.
	first, known := len(st.ids), len(history)-row.Guessed
	for place := 0; place <= row.Guessed; place++ {
		id, err := s.play(st, number, place, history[:known+place])
		if err != nil {
			return err
		}
		st.ids = append(st.ids, id)
		if place < row.Guessed && id != history[known+place] {
			break
		}
	}
	st.result.Tokens[number] = st.ids[first:len(st.ids):len(st.ids)]
	if row.Guessed == 0 {
		s.known[s.place(row.Slot, known)] = sampled{int32(known), st.ids[first]}
	}
	return nil
}

// play returns the id of one place of a row behind history, and reports how likely it was.
func (s *Script) play(st *step, number, place int, history []int32) (int32, error) {
	row := &st.batch.Rows[number]
	want, err := s.next(history, row.OutputIndex+uint64(place))
	if err != nil {
		return 0, err
	}
	id := want
	if mask := row.MaskAt(place); mask != nil {
		var some bool
		if id, some = nextAllowed(mask, want, int32(s.info.Vocab)); !some {
			return 0, errors.New("mask allows nothing")
		}
	}
	if p := row.Params; p != nil && p.Logprobs {
		st.report(number, want, id, p.TopLogprobs, s.info)
	}
	return id, nil
}

// nextAllowed returns the id itself if a mask allows it, else the next larger one that it does, behind
// the last of the vocabulary the first; some = there is one.
func nextAllowed(mask []uint64, id, vocab int32) (found int32, some bool) {
	if found, some = firstAllowed(mask, id, vocab); !some {
		found, some = firstAllowed(mask, 0, id)
	}
	return found, some
}

// firstAllowed returns the smallest id from one on and below another that a mask allows.
func firstAllowed(mask []uint64, from, below int32) (found int32, some bool) {
	for id := from; id < below; id = (id/64 + 1) * 64 {
		if word := mask[id/64] >> (id % 64); word != 0 {
			id += int32(bits.TrailingZeros64(word))
			return id, id < below
		}
	}
	return 0, false
}

// next returns the prescribed id.
func (s *Script) next(history []int32, step uint64) (int32, error) {
	id := s.cfg.Next(history, step)
	if id < 0 || int(id) >= s.info.Vocab {
		return 0, fmt.Errorf("plays id %d, vocabulary has %d", id, s.info.Vocab)
	}
	return id, nil
}

// score fills in the scores of one row.
func (s *Script) score(st *step, number int) error {
	row := &st.batch.Rows[number]
	if len(row.History) < row.Start+len(row.Targets) {
		return fmt.Errorf("history of %d tokens, targets follow %d", len(row.History), row.Start+len(row.Targets))
	}
	if st.result.Scores == nil {
		st.result.Scores = make([][]sample.Score, len(st.batch.Rows))
	}
	for at, id := range row.Targets {
		want, err := s.next(row.History[:row.Start+at+1], 0)
		if err != nil {
			return err
		}
		// The prescribed id has rank 1, the others follow in the order of ids.
		score := sample.Score{Rank: 1, Logprobs: logprobs(nil, want, id, row.Params.TopPromptLogprobs, s.info.Vocab)}
		if id != want {
			score.Rank += 1 + other(id, want)
		}
		st.result.Scores[number] = append(st.result.Scores[number], score)
	}
	return nil
}

// complete returns the history of a row that samples up to its last new token, filled up with
// what the host did not know and with the row's guesses.
func (s *Script) complete(row *runner.Row, tokens []int32) ([]int32, error) {
	length := row.Start + row.Len
	known := length - row.Guessed
	if row.Guessed == 0 && len(row.History) >= length {
		return row.History[:length], nil
	}
	s.history = append(s.history[:0], row.History[:min(len(row.History), known)]...)
	for position := len(s.history); position < known; position++ {
		id, err := s.sampledAt(row.Slot, position)
		if err != nil {
			return nil, err
		}
		s.history = append(s.history, id)
	}
	return append(s.history, tokens[row.Len-row.Guessed:]...), nil
}

// place returns where in known the id at a position of a slot is kept.
func (s *Script) place(slot, pos int) int { return slot*(s.info.Depth+1) + pos%(s.info.Depth+1) }

// sampledAt returns the id that was sampled for a position, while it is kept.
func (s *Script) sampledAt(slot, pos int) (int32, error) {
	if known := s.known[s.place(slot, pos)]; int(known.pos) == pos {
		return known.id, nil
	}
	return 0, fmt.Errorf("token at position %d is neither known nor pending in slot %d", pos, slot)
}

// store writes the cells of a row's new tokens.
func (s *Script) store(row *runner.Row, tokens []int32) (err error) {
	hash := uint64(0)
	if row.Start > 0 {
		hash = *s.cell(row, 0, row.Start-1)
	}
	for at, id := range tokens {
		if id == runner.Pending {
			if id, err = s.sampledAt(row.Slot, row.Start+at); err != nil {
				return err
			}
		}
		hash = chain(hash, id)
		for group := range s.cells {
			*s.cell(row, group, row.Start+at) = hash
		}
	}
	return nil
}

// verify holds every cell that attention reads for a row to its history.
func (s *Script) verify(row *runner.Row, history []int32) error {
	hash := uint64(0)
	for position, id := range history {
		hash = chain(hash, id)
		for number, group := range s.info.Groups {
			if group.Window > 0 && position <= row.Start-group.Window {
				continue
			}
			if *s.cell(row, number, position) != hash {
				return fmt.Errorf("group %d, block %d does not hold the row's own token at position %d",
					number, row.Tables[number][position/s.info.BlockSize], position)
			}
		}
	}
	return nil
}

// cell returns the KV cell of a row's token at a position.
func (s *Script) cell(row *runner.Row, group, pos int) *uint64 {
	return &s.cells[group][int(row.Tables[group][pos/s.info.BlockSize])*s.info.BlockSize+pos%s.info.BlockSize]
}

// report fills in the log probabilities of one row.
func (st *step) report(number int, want, id int32, top int, info runner.Info) {
	if st.result.Logprobs == nil {
		if st.logprobs == nil {
			st.logprobs = make([][]sample.Logprob, info.MaxSeqs)
		}
		st.result.Logprobs = st.logprobs[:len(st.batch.Rows)]
		for row := range st.result.Logprobs {
			st.result.Logprobs[row] = st.result.Logprobs[row][:0]
		}
	}
	st.result.Logprobs[number] = logprobs(st.result.Logprobs[number], want, id, top, info.Vocab)
}

// other returns which of the ids that are not want id is, from 0.
func other(id, want int32) int {
	if id > want {
		id--
	}
	return int(id)
}

// logprobs appends to dst the log probability of id, then those of the top most likely
// ids, when want has all the probability.
func logprobs(dst []sample.Logprob, want, id int32, top, vocab int) []sample.Logprob {
	of := func(id int32) sample.Logprob {
		if id == want {
			return sample.Logprob{ID: id}
		}
		return sample.Logprob{ID: id, Logprob: float32(-20 - other(id, want))}
	}
	top = min(top, vocab)
	end := len(dst) + 1 + top
	dst = append(dst, of(id))
	if top > 0 {
		dst = append(dst, of(want))
	}
	for id := int32(0); len(dst) < end; id++ {
		if id != want {
			dst = append(dst, of(id))
		}
	}
	return dst
}
