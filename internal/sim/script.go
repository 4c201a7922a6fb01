// Package sim executes batches without a model, so that whoever tests or measures
// what lies above runner.Runner needs neither weights nor arithmetic: a Script
// plays token ids that a pure function prescribes, at the pace and with the
// faults the test asks for.
package sim

import (
	"errors"
	"fmt"
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
		h := uint64(0)
		for _, id := range history {
			h = chain(h, id)
		}
		return int32(h % uint64(vocab))
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
func chain(h uint64, id int32) uint64 {
	h = (h ^ uint64(id) + 0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9
	return h ^ h>>31
}

// A Config describes a Script. The zero value plays hashes of the history.
type Config struct {
	Info runner.Info // zero fields get defaults; Lookahead must be 0
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
	ring     []step // one more than Depth: what Collect returned last stays valid
	head     int    // oldest launched step
	queued   int    // launched and uncollected steps
	launched int
	free     time.Time // when the last launched step ends
	known    []sampled // [slot·(Depth+1) + position mod (Depth+1)] ids sampled last
	history  []int32   // scratch
	cells    [][]uint64
}

type sampled struct{ pos, id int32 }

type step struct {
	number   int
	batch    *runner.Batch
	end      time.Time
	result   runner.Result
	ids      []int32 // [MaxSeqs] backing of result.Tokens
	tokens   [][]int32
	logprobs [][]sample.Logprob
}

// NewScript returns a runner for cfg. Defaults: a vocabulary of 512, blocks of 16,
// 64 sequences of up to 1024 tokens, 1024 tokens per batch, depth 1, one group
// with blocks for all sequences.
func NewScript(cfg Config) (*Script, error) {
	i := cfg.Info
	setDefault(&i.Vocab, 512)
	setDefault(&i.BlockSize, 16)
	setDefault(&i.MaxSeqs, 64)
	setDefault(&i.MaxTokens, 1024)
	setDefault(&i.MaxLen, 1024)
	setDefault(&i.Depth, 1)
	if i.Name == "" {
		i.Name = "sim/script"
	}
	if i.Groups == nil {
		i.Groups = []runner.Group{{Blocks: i.MaxSeqs * ((i.MaxLen + i.BlockSize - 1) / i.BlockSize)}}
	}
	if min(i.Vocab, i.BlockSize, i.MaxSeqs, i.MaxTokens, i.MaxLen, i.Depth) < 1 || i.Lookahead != 0 {
		return nil, fmt.Errorf("script: %+v: numbers must be positive, Lookahead 0", i)
	}
	if cfg.Next == nil {
		cfg.Next = Hash(i.Vocab)
	}
	s := &Script{cfg: cfg, info: i, ring: make([]step, i.Depth+1), known: make([]sampled, i.MaxSeqs*(i.Depth+1))}
	for n := range s.ring {
		s.ring[n] = step{ids: make([]int32, i.MaxSeqs), tokens: make([][]int32, i.MaxSeqs)}
	}
	for n := range s.known {
		s.known[n].pos = -1
	}
	for g, group := range i.Groups {
		if group.Window == 1 || group.Window < 0 || group.Blocks < 1 {
			return nil, fmt.Errorf("script: group %d: %+v: blocks must be positive, the window 0 or at least 2", g, group)
		}
		if cfg.Verify {
			s.cells = append(s.cells, make([]uint64, group.Blocks*i.BlockSize))
		}
	}
	return s, nil
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
func (s *Script) Launch(b *runner.Batch) error {
	if s.queued == s.info.Depth {
		return fmt.Errorf("script: %d steps are uncollected, depth is %d", s.queued, s.info.Depth)
	}
	if s.cfg.OnLaunch != nil {
		if err := s.cfg.OnLaunch(s.launched, b); err != nil {
			return err
		}
	}
	if s.cfg.Verify {
		if err := runner.Check(b, s.info); err != nil {
			return fmt.Errorf("script: batch %d: %w", s.launched, err)
		}
	}
	st := &s.ring[(s.head+s.queued)%len(s.ring)]
	st.number, st.batch = s.launched, b
	st.result = runner.Result{Tokens: st.tokens[:len(b.Rows)]}
	clear(st.result.Tokens)
	at := 0
	for i := range b.Rows {
		n := b.Rows[i].Len
		if err := s.row(st, i, b.Tokens[at:at+n]); err != nil {
			return fmt.Errorf("script: batch %d, row %d: %w", s.launched, i, err)
		}
		at += n
	}
	if s.cfg.Cost != nil {
		st.result.Elapsed = s.cfg.Cost(b)
		if now := time.Now(); s.free.Before(now) {
			s.free = now
		}
		s.free = s.free.Add(st.result.Elapsed)
		st.end = s.free
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
	st := &s.ring[s.head]
	if s.cfg.OnCollect != nil {
		if err := s.cfg.OnCollect(st.number, st.batch); err != nil {
			return nil, err
		}
	}
	if s.cfg.Cost != nil {
		time.Sleep(time.Until(st.end))
	}
	s.head, s.queued = (s.head+1)%len(s.ring), s.queued-1
	st.batch = nil
	return &st.result, nil
}

// row computes row i of a step from its new tokens.
func (s *Script) row(st *step, i int, tokens []int32) error {
	r := &st.batch.Rows[i]
	if s.cfg.Verify {
		if err := s.store(r, tokens); err != nil {
			return err
		}
	}
	if len(r.Targets) > 0 {
		if err := s.score(st, i); err != nil {
			return err
		}
	}
	if !r.Sample {
		return nil
	}
	history, err := s.complete(r)
	if err != nil {
		return err
	}
	if s.cfg.Verify {
		if err := s.verify(r, history); err != nil {
			return err
		}
	}
	want, err := s.next(history, r.Step)
	if err != nil {
		return err
	}
	id := want
	for r.Mask != nil && r.Mask[id/64]>>(id%64)&1 == 0 {
		if id = (id + 1) % int32(s.info.Vocab); id == want {
			return errors.New("mask allows nothing")
		}
	}
	st.ids[i] = id
	st.result.Tokens[i] = st.ids[i : i+1]
	s.known[s.place(r.Slot, len(history))] = sampled{int32(len(history)), id}
	if p := r.Params; p != nil && p.Logprobs {
		st.report(i, want, id, p.TopLogprobs, s.info)
	}
	return nil
}

// next returns the prescribed id.
func (s *Script) next(history []int32, step uint64) (int32, error) {
	id := s.cfg.Next(history, step)
	if id < 0 || int(id) >= s.info.Vocab {
		return 0, fmt.Errorf("plays id %d, vocabulary has %d", id, s.info.Vocab)
	}
	return id, nil
}

// score fills in the scores of row i.
func (s *Script) score(st *step, i int) error {
	r := &st.batch.Rows[i]
	if len(r.History) < r.Start+len(r.Targets) {
		return fmt.Errorf("history of %d tokens, targets follow %d", len(r.History), r.Start+len(r.Targets))
	}
	if st.result.Scores == nil {
		st.result.Scores = make([][]sample.Score, len(st.batch.Rows))
	}
	for k, id := range r.Targets {
		want, err := s.next(r.History[:r.Start+k+1], 0)
		if err != nil {
			return err
		}
		score := sample.Score{Rank: 1, Logprobs: logprobs(nil, want, id, r.Params.TopPromptLogprobs, s.info.Vocab)}
		if id != want {
			score.Rank += 1 + other(id, want)
		}
		st.result.Scores[i] = append(st.result.Scores[i], score)
	}
	return nil
}

// complete returns the history of a row that samples, filled up with what the
// host did not know.
func (s *Script) complete(r *runner.Row) ([]int32, error) {
	n := r.Start + r.Len
	if len(r.History) >= n {
		return r.History[:n], nil
	}
	s.history = append(s.history[:0], r.History...)
	for p := len(r.History); p < n; p++ {
		id, err := s.sampledAt(r.Slot, p)
		if err != nil {
			return nil, err
		}
		s.history = append(s.history, id)
	}
	return s.history, nil
}

func (s *Script) place(slot, pos int) int { return slot*(s.info.Depth+1) + pos%(s.info.Depth+1) }

func (s *Script) sampledAt(slot, pos int) (int32, error) {
	if k := s.known[s.place(slot, pos)]; int(k.pos) == pos {
		return k.id, nil
	}
	return 0, fmt.Errorf("token at position %d is neither known nor pending in slot %d", pos, slot)
}

// store writes the cells of a row's new tokens.
func (s *Script) store(r *runner.Row, tokens []int32) (err error) {
	h := uint64(0)
	if r.Start > 0 {
		h = *s.cell(r, 0, r.Start-1)
	}
	for k, id := range tokens {
		if id == runner.Pending {
			if id, err = s.sampledAt(r.Slot, r.Start+k); err != nil {
				return err
			}
		}
		h = chain(h, id)
		for g := range s.cells {
			*s.cell(r, g, r.Start+k) = h
		}
	}
	return nil
}

// verify holds every cell that attention reads for a row to its history.
func (s *Script) verify(r *runner.Row, history []int32) error {
	h := uint64(0)
	for p, id := range history {
		h = chain(h, id)
		for g, group := range s.info.Groups {
			if group.Window > 0 && p <= r.Start-group.Window {
				continue
			}
			if *s.cell(r, g, p) != h {
				return fmt.Errorf("group %d, block %d does not hold the row's own token at position %d",
					g, r.Tables[g][p/s.info.BlockSize], p)
			}
		}
	}
	return nil
}

func (s *Script) cell(r *runner.Row, group, pos int) *uint64 {
	return &s.cells[group][int(r.Tables[group][pos/s.info.BlockSize])*s.info.BlockSize+pos%s.info.BlockSize]
}

// report fills in the log probabilities of row i.
func (st *step) report(i int, want, id int32, top int, info runner.Info) {
	if st.result.Logprobs == nil {
		if st.logprobs == nil {
			st.logprobs = make([][]sample.Logprob, info.MaxSeqs)
		}
		st.result.Logprobs = st.logprobs[:len(st.batch.Rows)]
		for k := range st.result.Logprobs {
			st.result.Logprobs[k] = st.result.Logprobs[k][:0]
		}
	}
	st.result.Logprobs[i] = logprobs(st.result.Logprobs[i], want, id, top, info.Vocab)
}

// other returns which of the ids that are not want id is, from 0.
func other(id, want int32) int {
	if id > want {
		id--
	}
	return int(id)
}

// logprobs appends to the empty dst the log probability of id, then those of the
// top most likely ids, when want has all the probability.
func logprobs(dst []sample.Logprob, want, id int32, top, vocab int) []sample.Logprob {
	of := func(id int32) sample.Logprob {
		if id == want {
			return sample.Logprob{ID: id}
		}
		return sample.Logprob{ID: id, Logprob: float32(-20 - other(id, want))}
	}
	dst = append(dst, of(id))
	if top = min(top, vocab); top > 0 {
		dst = append(dst, of(want))
	}
	for id := int32(0); len(dst) < 1+top; id++ {
		if id != want {
			dst = append(dst, of(id))
		}
	}
	return dst
}
