package plan

import (
	"sort"

	"ossian/internal/model"
)

// DefaultServed is how many sequences a server runs at once when not told.
const DefaultServed = 256

// Serve is Fit for a server, whose sequences are seldom all as long as the context.
// MaxSeqs is DefaultServed unless asked for, one sequence of MaxLen tokens always
// fits, and the pools of keys and values take what memory is left, up to what
// MaxSeqs sequences of MaxLen can use: with less, sequences wait for each other.
func Serve(s *model.Spec, ask model.Limits, available int64, cost Cost) (Plan, error) {
	if ask.MaxSeqs == 0 {
		ask.MaxSeqs = DefaultServed
	}
	if ask.Blocks != nil {
		return Fit(s, ask, available, cost)
	}
	pools := func(lim model.Limits, share int) model.Limits {
		full := Blocks(s, lim)
		alone := lim
		alone.MaxSeqs = 1
		lim.Blocks = Blocks(s, alone)
		for g, n := range full {
			lim.Blocks[g] = max(lim.Blocks[g], n/steps*share+n%steps*share/steps)
		}
		return lim
	}
	p, err := Fit(s, ask, available, func(lim model.Limits) (Footprint, error) { return cost(pools(lim, 0)) })
	if err != nil {
		return p, err
	}
	lim := p.Limits
	share := sort.Search(steps, func(i int) bool {
		f, err := cost(pools(lim, i+1))
		return err != nil || available > 0 && f.Total() > available
	})
	p.Limits = pools(lim, share)
	p.Footprint, err = cost(p.Limits)
	return p, err
}

// steps is how finely Serve divides the memory for keys and values.
const steps = 1 << 20
