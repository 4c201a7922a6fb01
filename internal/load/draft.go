package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"ossian/internal/ckpt"
	"ossian/internal/ckpt/eagle"
	"ossian/internal/model"
	"ossian/internal/plan"
	"ossian/internal/runner"
	"ossian/internal/shadow"
)

// A Draft is what guesses beside a model.
type Draft struct {
	Head   bool   // it is an EAGLE3 head; otherwise a small model
	Either bool   // its files say what it is
	Name   string // of the head, or of the model that guesses, as of any model
	Offset int    // of a head: what is added to the layers that it names, see eagle.Open
	Tokens int    // most ids that it guesses behind a sequence
	MaxLen int    // tokens of a sequence within which it guesses; 0 = as many as it can
}

// A drafter is what guesses, on its way to the device beside the model that it guesses for.
type drafter interface {
	// limits returns the limits of what guesses beside a target with these.
	limits(of model.Limits) model.Limits
	// need returns what it takes with limits, its own, of a target with those of its own.
	need(own, of model.Limits) (plan.Footprint, error)
	// prepare looks for damage, and brings packed weights into use.
	prepare(ctx context.Context, status io.Writer) error
	// open returns what guesses beside target, whose device uses the machine as chosen.
	open(ctx context.Context, target runner.Runner, own model.Limits, choice Choice, status io.Writer) (runner.Runner, error)
	// shares returns for each of its KV groups the target's whose blocks it takes.
	shares() []int
}

// beginDraft begins to load what guesses beside a checkpoint; nil = nothing does. What cannot guess for
// it is an error.
func (o *Options) beginDraft(checkpoint *ckpt.Model, device Device, note func(string)) (drafter, error) {
	switch {
	case o.Draft == nil:
		return nil, nil
	case device.simulated != nil:
		return nil, draftError("%s: a device that plays another has no model to guess with; methods ngram and suffix guess on it", o.Draft.Name)
	}
	path, head, err := o.Draft.find()
	switch {
	case err != nil:
		return nil, fmt.Errorf("--speculative-config: %w", err)
	case head && !o.Draft.Head && !o.Draft.Either:
		return nil, draftError("%s is an EAGLE3 head: method eagle3 is for it", o.Draft.Name)
	case !head && o.Draft.Head:
		return nil, draftError("%s: its config.json is missing or not that of an EAGLE3 head; a whole model guesses with method draft_model", o.Draft.Name)
	case head:
		return o.beginHead(path, checkpoint, device)
	}
	return o.beginSmall(checkpoint, device, note)
}

// draftError is an error about what guesses.
func draftError(format string, args ...any) error {
	return fmt.Errorf("--speculative-config: model "+format, args...)
}

// find returns where the files are, "" = in the program, and whether they are a head's.
func (d *Draft) find() (path string, head bool, err error) {
	if BuiltIn(d.Name) {
		return "", false, nil
	}
	if path, err = Resolve(d.Name); err != nil {
		return "", false, err
	}
	config, err := os.ReadFile(filepath.Join(path, "config.json"))
	return path, err == nil && eagle.Is(config), nil // a GGUF file has none
}

// IsHead reports whether what guesses is an EAGLE3 head; without Draft it is false.
func (l *Loading) IsHead() bool {
	_, is := l.drafter.(*headDrafter)
	return is
}

// withDraft adds what guessing takes to the cost of a target.
func (l *Loading) withDraft(target plan.Cost) plan.Cost {
	return func(lim model.Limits) (plan.Footprint, error) {
		need, err := target(lim)
		if err != nil {
			return need, err
		}
		own, err := l.drafter.need(l.drafter.limits(lim), lim)
		if err != nil {
			return need, draftError("%s: %w", l.options.Draft.Name, err)
		}
		need.Weights, need.Mapped, need.KV = need.Weights+own.Weights, need.Mapped+own.Mapped, need.KV+own.KV
		need.Activations, need.Runtime = need.Activations+own.Activations, need.Runtime+own.Runtime
		need.Draft = own.Weights + own.Mapped + own.KV + own.Activations
		return need, nil
	}
}

// openDraft returns target, which computes on decoder, with what guesses beside it.
func (l *Loading) openDraft(ctx context.Context, decoder, target runner.Runner, lim model.Limits, choice Choice, status io.Writer) (runner.Runner, error) {
	beside, err := l.drafter.open(ctx, decoder, l.drafter.limits(lim), choice, status)
	if err != nil {
		return nil, fmt.Errorf("--speculative-config: %w", err)
	}
	both, err := shadow.New(target, beside, shadow.Config{Tokens: l.options.Draft.Tokens, Groups: l.drafter.shares()})
	if err != nil {
		return nil, errors.Join(err, beside.Close())
	}
	return both, nil
}

// limits returns the limits of what guesses beside a target with these, in groups of it that share
// blocks with those, and has read so many tokens at most. A step of it has room for the tokens that
// each row has drawn, besides those of the target's.
func (d *Draft) limits(of model.Limits, groups []int, most int) model.Limits {
	lim := of
	lim.MaxTokens, lim.Depth, lim.Lookahead, lim.Blocks = of.MaxTokens+of.MaxSeqs, 1, 0, nil
	lim.MaxLen = min(of.MaxLen, most)
	if d.MaxLen > 0 {
		lim.MaxLen = min(lim.MaxLen, d.MaxLen)
	}
	for _, group := range groups {
		lim.Blocks = append(lim.Blocks, of.Blocks[group]+of.MaxSeqs*shadow.ScratchBlocks(d.Tokens, of.BlockSize))
	}
	return lim
}

// besideGroups returns for each KV group of what guesses the group of the target whose block tables it
// takes: the one with its window, or the one that keeps all.
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

// A smallDrafter is a small model that guesses.
type smallDrafter struct {
	*Loading
	draft  *Draft
	target *ckpt.Model
	groups []int
	match  bool // its vocabulary was compared
}

// beginSmall begins to load a small model that guesses beside a checkpoint, on the same device.
func (o *Options) beginSmall(checkpoint *ckpt.Model, device Device, note func(string)) (drafter, error) {
	small, err := StartModel(o.Draft.Name)
	if err != nil {
		return nil, fmt.Errorf("--speculative-config: %w", err)
	}
	checkpoint.Attach(small) // whoever watches the target's files watches these, too
	own := *o                // as the target is loaded, but with nothing to guess for it in turn
	own.Draft, own.Device = nil, "cpu"
	loading := &Loading{options: &own, checkpoint: small, note: note}
	if device.gpu != nil {
		loading.device, err = device.gpu.supporting(device.gpu.kind(), small)
	} else {
		loading, err = own.Begin(small, note)
	}
	if err != nil {
		return nil, fmt.Errorf("--speculative-config: %w", err)
	}
	d := &smallDrafter{Loading: loading, draft: o.Draft, target: checkpoint}
	d.groups, err = besideGroups(checkpoint.Spec, small.Spec)
	return d, err
}

func (d *smallDrafter) shares() []int { return d.groups }

func (d *smallDrafter) limits(of model.Limits) model.Limits {
	return d.draft.limits(of, d.groups, d.checkpoint.Spec.MaxLen)
}

func (d *smallDrafter) need(own, _ model.Limits) (plan.Footprint, error) { return d.Cost()(own) }

func (d *smallDrafter) prepare(ctx context.Context, status io.Writer) error {
	return d.Prepare(ctx, status)
}

// open computes with as many threads and instructions as wide as were chosen for the target.
func (d *smallDrafter) open(ctx context.Context, _ runner.Runner, own model.Limits, choice Choice, status io.Writer) (runner.Runner, error) {
	if err := d.compare(); err != nil {
		return nil, err
	}
	d.Keep(choice)
	small, _, err := d.Open(ctx, own, status)
	return small, err
}

// compare refuses a model whose ids mean something else than those of the target. Ids that one of
// them alone has are fillers.
func (d *smallDrafter) compare() error {
	if d.match {
		return nil
	}
	small := d.checkpoint
	if err := small.Finish(); err != nil {
		return err
	}
	ours, theirs := small.Tokenizer, d.target.Tokenizer
	for id := range int32(max(ours.Vocab(), theirs.Vocab())) {
		a, b := ours.Text(id), theirs.Text(id)
		if a != "" && b != "" && a != b {
			return fmt.Errorf("model %s: id %d is %.40q in its vocabulary, %.40q in that of %s: a model guesses for one of its own family, with the same tokenizer", d.draft.Name, id, a, b, d.target.Spec.Name)
		}
	}
	d.match = true
	small.Tokenizer = nil // large, and of no use here
	return nil
}
