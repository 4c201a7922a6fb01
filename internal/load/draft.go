package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"ossian/internal/ckpt"
	"ossian/internal/model"
	"ossian/internal/plan"
	"ossian/internal/runner"
	"ossian/internal/shadow"
)

// A Draft is what guesses beside a model.
type Draft struct {
	Name   string // of the model that guesses, as of any model
	Tokens int    // most ids that it guesses behind a sequence
	MaxLen int    // tokens of a sequence within which it guesses; 0 = as many as both models promise
}

// A drafter is a model that guesses, on its way to the device beside the one it guesses for.
type drafter struct {
	*Loading
	draft  Draft
	groups []int // [KV group] the target's group whose blocks it takes
	match  bool  // its vocabulary was compared
}

// beginDraft begins to load what guesses beside a checkpoint; nil = the device guesses nothing. What
// cannot guess for it is an error.
func (o *Options) beginDraft(checkpoint *ckpt.Model, device Device, note func(string)) (*drafter, error) {
	if o.Draft == nil || device.Lookahead(1) == 0 {
		return nil, nil
	}
	if device.simulated != nil {
		return nil, draftError("%s: a device that plays another has no model to guess with; methods ngram and suffix guess on it", o.Draft.Name)
	}
	small, err := StartModel(o.Draft.Name)
	if err != nil {
		return nil, fmt.Errorf("--speculative-config: %w", err)
	}
	checkpoint.Attach(small)
	own := *o
	own.Draft, own.Device = nil, "cpu"
	loading, err := own.Begin(small, note)
	if err != nil {
		return nil, fmt.Errorf("--speculative-config: %w", err)
	}
	d := &drafter{Loading: loading, draft: *o.Draft}
	d.groups, err = besideGroups(checkpoint.Spec, small.Spec)
	return d, err
}

// draftError is an error about what guesses.
func draftError(format string, args ...any) error {
	return fmt.Errorf("--speculative-config: model "+format, args...)
}

// besideGroups returns for each KV group of a model that guesses the group of the target whose block
// tables it takes: the one with its window, or the one that keeps all.
func besideGroups(target, small *model.Spec) (groups []int, err error) {
	ours, _ := small.Groups()
	theirs, _ := target.Groups()
	for _, window := range ours {
		group := slices.Index(theirs, window)
		if group < 0 {
			group = slices.Index(theirs, 0)
		}
		if group < 0 {
			return nil, draftError("%s: its layers see %d tokens, those of %s at most %d, whose blocks it would share: another model is needed", small.Name, window, target.Name, slices.Max(theirs))
		}
		groups = append(groups, group)
	}
	return groups, nil
}

// limits returns the limits of what guesses beside a target with these. A step of it has room for the
// tokens that each row has drawn, besides those of the target's.
func (d *drafter) limits(of model.Limits) model.Limits {
	lim := of
	lim.MaxTokens, lim.Depth, lim.Lookahead, lim.Blocks = of.MaxTokens+of.MaxSeqs, 1, 0, nil
	lim.MaxLen = min(of.MaxLen, d.checkpoint.Spec.MaxLen)
	if d.draft.MaxLen > 0 {
		lim.MaxLen = min(lim.MaxLen, d.draft.MaxLen)
	}
	for _, group := range d.groups {
		lim.Blocks = append(lim.Blocks, of.Blocks[group]+of.MaxSeqs*shadow.ScratchBlocks(d.draft.Tokens, of.BlockSize))
	}
	return lim
}

// beside adds what guessing takes to the cost of a target.
func (d *drafter) beside(target plan.Cost) plan.Cost {
	own := d.Cost()
	return func(lim model.Limits) (plan.Footprint, error) {
		need, err := target(lim)
		if err != nil {
			return need, err
		}
		small, err := own(d.limits(lim))
		if err != nil {
			return need, draftError("%s: %w", d.draft.Name, err)
		}
		need.Weights, need.Mapped, need.KV = need.Weights+small.Weights, need.Mapped+small.Mapped, need.KV+small.KV
		need.Activations, need.Runtime = need.Activations+small.Activations, need.Runtime+small.Runtime
		need.Draft = small.Weights + small.Mapped + small.KV + small.Activations
		return need, nil
	}
}

// open returns target with what guesses beside it, which computes with as many threads and
// instructions as wide as chosen for that.
func (d *drafter) open(ctx context.Context, target runner.Runner, of *ckpt.Model, lim model.Limits, choice Choice, status io.Writer) (runner.Runner, error) {
	if err := d.compare(of); err != nil {
		return nil, err
	}
	d.Keep(choice)
	small, _, err := d.Loading.Open(ctx, d.limits(lim), status)
	if err != nil {
		return nil, fmt.Errorf("--speculative-config: %w", err)
	}
	both, err := shadow.New(target, small, shadow.Config{Tokens: d.draft.Tokens, Groups: d.groups})
	if err != nil {
		return nil, errors.Join(err, small.Close())
	}
	return both, nil
}

// compare refuses a model whose ids mean something else than those of the target. Ids that one of
// them alone has are fillers.
func (d *drafter) compare(target *ckpt.Model) error {
	if d.match {
		return nil
	}
	small := d.checkpoint
	if err := small.Finish(); err != nil {
		return fmt.Errorf("--speculative-config: %w", err)
	}
	ours, theirs := small.Tokenizer, target.Tokenizer
	for id := range int32(max(ours.Vocab(), theirs.Vocab())) {
		a, b := ours.Text(id), theirs.Text(id)
		if a != "" && b != "" && a != b {
			return draftError("%s: id %d is %.40q in its vocabulary, %.40q in that of %s: a model guesses for one of its own family, with the same tokenizer", d.draft.Name, id, a, b, target.Spec.Name)
		}
	}
	d.match = true
	small.Tokenizer = nil // large, and of no use here
	return nil
}
