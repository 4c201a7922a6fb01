package run

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"testing"

	"ossian/internal/model"
	"ossian/internal/plan"
	"ossian/internal/runner"
	"ossian/internal/sample"
)

// A poolRunner keeps in each place of its KV pools a hash of the tokens up to the
// one stored there, and refuses a row that would read anything else.
type poolRunner struct {
	info  runner.Info
	seed  maphash.Seed
	pools [][]uint64 // [group][block·BlockSize + token in block]
	next  int32
}

func newPoolRunner(window int, lim model.Limits) *poolRunner {
	windows := []int{0, window}
	blocks := plan.Blocks(&model.Spec{Layers: 2, Windows: windows}, lim)
	r := &poolRunner{seed: maphash.MakeSeed(), info: runner.Info{Vocab: 2, BlockSize: lim.BlockSize, MaxSeqs: 1, MaxTokens: lim.MaxTokens, MaxLen: lim.MaxLen, Depth: 1}}
	for g, w := range windows {
		r.info.Groups = append(r.info.Groups, runner.Group{Blocks: blocks[g], Window: w})
		r.pools = append(r.pools, make([]uint64, blocks[g]*lim.BlockSize))
	}
	return r
}

func (r *poolRunner) Info() runner.Info { return r.info }
func (r *poolRunner) Close() error      { return nil }

func (r *poolRunner) Launch(b *runner.Batch) error {
	if err := runner.Check(b, r.info); err != nil {
		return err
	}
	row := &b.Rows[0]
	end := row.Start + row.Len
	var text maphash.Hash
	text.SetSeed(r.seed)
	sums := make([]uint64, end)
	for i, id := range row.History[:end] {
		text.WriteByte(byte(id))
		sums[i] = text.Sum64()
	}
	for g, pool := range r.pools {
		place := func(pos int) *uint64 {
			return &pool[int(row.Tables[g][pos/r.info.BlockSize])*r.info.BlockSize+pos%r.info.BlockSize]
		}
		for pos := row.Start; pos < end; pos++ {
			*place(pos) = sums[pos]
		}
		first := 0
		if w := r.info.Groups[g].Window; w > 0 {
			first = max(row.Start-w+1, 0)
		}
		for pos := first; pos < end; pos++ {
			if *place(pos) != sums[pos] {
				return fmt.Errorf("group %d: a row at %d finds something else at position %d", g, row.Start, pos)
			}
		}
	}
	r.next = int32(sums[end-1] >> 63)
	return nil
}

func (r *poolRunner) Collect() (*runner.Result, error) {
	return &runner.Result{Tokens: [][]int32{{r.next}}}, nil
}

// Whatever prompts follow each other, no row may read keys and values of an
// earlier one, and what can be kept is kept.
func TestSequenceReuse(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	kept := 0
	for trial := range 3000 {
		lim := model.Limits{MaxSeqs: 1, MaxTokens: 1 + rng.IntN(12), MaxLen: 120, BlockSize: 1 + rng.IntN(5)}
		s := newSequence(newPoolRunner(1+rng.IntN(12), lim))
		var said []int32
		for range 6 {
			said = said[:rng.IntN(len(said)+1)]
			for range 1 + rng.IntN(100-len(said)) {
				said = append(said, rng.Int32N(2))
			}
			g := generation{Prompt: said, Max: 1 + rng.IntN(10), Emit: func(id int32, _ []sample.Logprob) bool { said = append(said, id); return false }}
			tm, err := s.generate(t.Context(), g)
			if err != nil {
				t.Fatalf("trial %d: %v", trial, err)
			}
			kept += tm.Cached
			said = said[:min(len(said), 99)]
		}
	}
	if kept < 50_000 {
		t.Errorf("%d tokens kept in 18,000 prompts", kept)
	}
}
