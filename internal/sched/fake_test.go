package sched

import (
	"fmt"
	"slices"

	"ossian/internal/runner"
	"ossian/internal/sample"
)

// A fake is a runner whose model is a hash: every cell of its cache holds a hash of
// all that its token may see, so one wrong, stale or unwritten cell changes all
// later output. It also refuses cells that were written for another position.
type fake struct {
	info    runner.Info
	groups  [][]cell         // [group][block·BlockSize + offset]
	sampled map[int]int32    // slot: the last id that the last batch sampled for it
	results []*runner.Result // launched and not collected
	tokens  int              // computed
}

type cell struct {
	hash     uint64
	position int // -1 = poisoned
}

func newFake(info runner.Info) *fake {
	f := &fake{info: info}
	for _, g := range info.Groups {
		f.groups = append(f.groups, slices.Repeat([]cell{{position: -1}}, g.Blocks*info.BlockSize))
	}
	return f
}

func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// forward returns the hash of a token at position p that sees what see returns for
// each group and position.
func forward(groups []runner.Group, p int, id int32, see func(g, p int) uint64) uint64 {
	h := mix(uint64(id)<<32 | uint64(p) + 1)
	for g, group := range groups {
		first := 0
		if group.Window > 0 {
			first = max(p-group.Window+1, 0)
		}
		for q := first; q < p; q++ {
			h = mix(h ^ see(g, q))
		}
	}
	return h
}

// pick chooses the id of a step among the allowed ones.
func pick(h uint64, vocab int, step uint64, p *sample.Params, mask []uint64) int32 {
	h = mix(h ^ p.Seed ^ step<<40)
	for i := range uint64(vocab) {
		id := (h + i) % uint64(vocab)
		if mask == nil || mask[id/64]>>(id%64)&1 == 1 {
			return int32(id)
		}
	}
	panic("nothing allowed")
}

// score is what the model says about a target behind the token with that hash.
func score(h uint64, target int32, top int) sample.Score {
	h = mix(h ^ uint64(target))
	s := sample.Score{Rank: 1 + int(h%1000)}
	for k := range 1 + top {
		s.Logprobs = append(s.Logprobs, sample.Logprob{ID: target + int32(k), Logprob: -float32(h >> 40)})
	}
	return s
}

func (f *fake) at(r *runner.Row, g, p int) *cell {
	return &f.groups[g][int(r.Tables[g][p/f.info.BlockSize])*f.info.BlockSize+p%f.info.BlockSize]
}

// run computes one token and writes its cells.
func (f *fake) run(r *runner.Row, p int, id int32) (h uint64, err error) {
	f.tokens++
	h = forward(f.info.Groups, p, id, func(g, q int) uint64 {
		c := f.at(r, g, q)
		if c.position != q {
			err = fmt.Errorf("slot %d, position %d: group %d block %d: reads position %d, cell has %d", r.Slot, p, g, r.Tables[g][q/f.info.BlockSize], q, c.position)
		}
		return c.hash
	})
	for g := range f.info.Groups {
		if p%f.info.BlockSize == 0 { // whatever a reused block held is gone
			for i := range f.info.BlockSize {
				*f.at(r, g, p+i) = cell{position: -1}
			}
		}
		*f.at(r, g, p) = cell{h, p}
	}
	return h, err
}

// Launch computes at once; Collect only hands out.
func (f *fake) Launch(b *runner.Batch) error {
	if err := runner.Check(b, f.info); err != nil {
		return err
	}
	if len(f.results) == f.info.Depth {
		return fmt.Errorf("%d batches are uncollected", len(f.results))
	}
	res, sampled := &runner.Result{Tokens: make([][]int32, len(b.Rows))}, make(map[int]int32)
	next := 0
	for n := range b.Rows {
		r := &b.Rows[n]
		var h uint64
		var places []uint64 // hashes behind which ids are sampled
		for p := r.Start; p < r.Start+r.Len; p++ {
			id := b.Tokens[next]
			next++
			switch {
			case id == runner.Pending:
				var ok bool
				if id, ok = f.sampled[r.Slot]; !ok {
					return fmt.Errorf("row %d: the previous batch sampled nothing for slot %d", n, r.Slot)
				}
			case p < r.Start+r.Len-r.Guessed && (p >= len(r.History) || r.History[p] != id):
				return fmt.Errorf("row %d: history lacks token %d at position %d", n, id, p)
			}
			var err error
			if h, err = f.run(r, p, id); err != nil {
				return err
			}
			if k := p - r.Start; k < len(r.Targets) {
				if res.Scores == nil {
					res.Scores = make([][]sample.Score, len(b.Rows))
				}
				res.Scores[n] = append(res.Scores[n], score(h, r.Targets[k], r.Params.TopPromptLogprobs))
			}
			if p >= r.Start+r.Len-1-r.Guessed {
				places = append(places, h)
			}
		}
		if r.Sample {
			for place, h := range places {
				res.Tokens[n] = append(res.Tokens[n], pick(h, f.info.Vocab, r.OutputIndex+uint64(place), r.Params, r.MaskAt(place)))
			}
			res.Tokens[n] = res.Tokens[n][:runner.Held(res.Tokens[n], b.Tokens[next-r.Guessed:next])]
			sampled[r.Slot] = res.Tokens[n][len(res.Tokens[n])-1]
			f.logprobs(res, b, n)
		}
	}
	f.results, f.sampled = append(f.results, res), sampled
	return nil
}

// logprobs reports each id with its own number, so that mixing them up shows.
func (f *fake) logprobs(res *runner.Result, b *runner.Batch, n int) {
	p := b.Rows[n].Params
	if !p.Logprobs {
		return
	}
	if res.Logprobs == nil {
		res.Logprobs = make([][]sample.Logprob, len(b.Rows))
	}
	for _, id := range res.Tokens[n] {
		for range 1 + p.TopLogprobs {
			res.Logprobs[n] = append(res.Logprobs[n], sample.Logprob{ID: id, Logprob: -float32(id)})
		}
	}
}

func (f *fake) Collect() (*runner.Result, error) {
	if len(f.results) == 0 {
		return nil, fmt.Errorf("nothing was launched")
	}
	res := f.results[0]
	f.results = f.results[1:]
	return res, nil
}
