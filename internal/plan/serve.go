package plan

import (
	"errors"
	"fmt"
	"slices"
	"sort"

	"ossian/internal/model"
)

// DefaultServed is how many sequences a server runs at once when not told.
const DefaultServed = 256

// leastServed is how many sequences a server runs at once, where nobody has said how many,
// before it has a shorter context than the model.
const leastServed = 16

// Serve is Fit for a server, whose sequences are seldom all as long as the context.
// MaxSeqs, unless asked for, is what fits up to DefaultServed, one sequence of MaxLen tokens always
// fits, and the pools of keys and values take what memory is left, up to what
// MaxSeqs sequences of MaxLen can use: with less, sequences wait for each other.
// Pools that are asked for must have room for one sequence of MaxLen.
func Serve(spec *model.Spec, ask model.Limits, available int64, cost Cost) (Plan, error) {
	if ask.MaxSeqs == 0 {
		most := DefaultServed
		if ask.MaxTokens > 0 {
			most = min(most, ask.MaxTokens)
		}
		return serveMost(spec, ask, most, available, cost)
	}
	if ask.Blocks != nil {
		plan, err := Fit(spec, ask, available, cost)
		if err == nil {
			err = enough(spec, plan.Limits)
		}
		return plan, err
	}
	// First with the smallest pools, for which only the length may have to shrink; then the largest
	// share that still fits, by halving: costs only grow with it.
	pools := func(lim model.Limits, share int) model.Limits {
		lim.Blocks = pools(spec, lim, share)
		return lim
	}
	plan, err := Fit(spec, ask, available, func(lim model.Limits) (Footprint, error) { return cost(pools(lim, 0)) })
	if err != nil {
		return plan, err
	}
	lim := plan.Limits
	share := sort.Search(steps, func(i int) bool {
		footprint, err := cost(pools(lim, i+1))
		return err != nil || !footprint.fits(available)
	})
	plan.Limits = pools(lim, share)
	plan.Footprint, err = cost(plan.Limits)
	return plan, err
}

// serveMost is Serve with as many sequences as fit with the whole context, up to most. With
// fewer than leastServed the context is shortened first, if nobody has asked for one.
func serveMost(spec *model.Spec, ask model.Limits, most int, available int64, cost Cost) (Plan, error) {
	try := func(seqs int) (Plan, error) {
		few := ask
		few.MaxSeqs = seqs
		return Serve(spec, few, available, cost)
	}
	plan, err := try(most)
	whole := func(plan Plan, err error) bool {
		return err == nil && (ask.MaxLen > 0 || plan.Limits.MaxLen == spec.MaxLen)
	}
	if _, narrow := errors.AsType[*FitError](err); whole(plan, err) || (err != nil && !narrow) {
		return plan, err
	}
	few := min(leastServed, most)
	if ask.MaxLen == 0 {
		plan, err := try(few)
		for seqs := few / 2; err != nil && seqs > 0; seqs /= 2 {
			plan, err = try(seqs)
		}
		if !whole(plan, err) {
			return plan, err // with a shorter context, or not at all
		}
		few = plan.Limits.MaxSeqs
	} else {
		few = 1
	}
	// Costs only grow with the number: few fits, most does not.
	more := sort.Search(most-few, func(i int) bool { return !whole(try(few + i + 1)) })
	return try(few + more)
}

// steps is how finely Serve divides the memory for keys and values.
const steps = 1 << 20

// conversation is the length, in tokens, for which no group of layers lets
// conversations wait, or forgets them, before another one does.
const conversation = 1024

// pools returns the pool of each KV group when those without a window have that
// share, in steps, of what MaxSeqs sequences of MaxLen can use, and room for one in
// any case. Those with a window get what goes with it: windows for as many
// conversations as the others hold, with room to go on for those that run and as
// they were left for those that are only cached. A prefix is found where every group
// has its part; windows for the running ones alone would be what limits the cache.
func pools(spec *model.Spec, lim model.Limits, share int) []int {
	part := func(blocks int) int { return blocks/steps*share + blocks%steps*share/steps }
	one := lim
	one.MaxSeqs = 1
	windows, _ := spec.Groups()
	least, whole := Blocks(spec, one), blocksOf(lim.MaxLen, lim.BlockSize)
	room := max(part(lim.MaxSeqs*whole), whole) // blocks of a group without a window
	held := max(room/blocksOf(min(conversation, lim.MaxLen), lim.BlockSize), 1)
	run := lim
	run.MaxSeqs = min(held, lim.MaxSeqs)
	running := Blocks(spec, run)
	for group, window := range windows {
		blocks := room
		if window > 0 {
			blocks = min(blocks, running[group]+(held-run.MaxSeqs)*touched(window, lim.BlockSize))
		}
		least[group] = max(least[group], blocks)
	}
	return least
}

// enough reports pools that do not hold one sequence of MaxLen tokens.
func enough(s *model.Spec, lim model.Limits) error {
	one := lim
	one.MaxSeqs = 1
	for group, need := range Blocks(s, one) {
		if lim.Blocks[group] < need {
			return fmt.Errorf("model %s: %d KV blocks of %d tokens in group %d, one sequence of --max-model-len %d needs %d: raise --num-gpu-blocks-override to %d or lower --max-model-len to %d",
				s.Name, lim.Blocks[group], lim.BlockSize, group, lim.MaxLen, need, slices.Max(Blocks(s, one)), slices.Min(lim.Blocks)*lim.BlockSize)
		}
	}
	return nil
}
