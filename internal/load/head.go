package load

import (
	"context"
	"errors"
	"io"

	"ossian/internal/ckpt"
	"ossian/internal/ckpt/eagle"
	"ossian/internal/model"
	"ossian/internal/plan"
	"ossian/internal/runner"
)

// A headDrafter is an EAGLE3 head that guesses. It computes on a device of its own, with the buffers of
// the target's.
type headDrafter struct {
	draft  *Draft
	head   *eagle.Head
	device Device // as of the target
	groups []int
}

// beginHead opens a head for a checkpoint that is computed on a device.
func (o *Options) beginHead(path string, checkpoint *ckpt.Model, device Device) (drafter, error) {
	head, err := eagle.Open(path, checkpoint.Spec, o.Draft.Offset)
	if err != nil {
		return nil, draftError("%s: %w", o.Draft.Name, err)
	}
	checkpoint.Attach(head.Files)
	d := &headDrafter{draft: o.Draft, head: head, device: device}
	cfg := &d.device.cfg
	cfg.Packed = nil
	if cfg.Weights == "" || cfg.Weights == "auto" { // its bytes are what a guess costs, and a guess need not be exact
		cfg.Weights = "q8"
	}
	d.groups, err = besideGroups(checkpoint.Spec, &head.Spec.Spec)
	return d, err
}

func (d *headDrafter) shares() []int { return d.groups }

// limits lets a head read as far as the target does: what its configuration says is mostly how long the
// texts were that it was trained on.
func (d *headDrafter) limits(of model.Limits) model.Limits {
	return d.draft.limits(of, d.groups, of.MaxLen)
}

func (d *headDrafter) need(own, of model.Limits) (plan.Footprint, error) {
	return d.device.headCost(d.head.Spec, d.head.Params, own, of)
}

// prepare has nothing to do: what a damaged head guesses does not hold.
func (d *headDrafter) prepare(ctx context.Context, _ io.Writer) error { return ctx.Err() }

func (d *headDrafter) open(_ context.Context, target runner.Runner, own model.Limits, choice Choice, _ io.Writer) (runner.Runner, error) {
	beside := d.device
	beside.keep(choice)
	device, err := beside.beside(model.DeviceOf(target), &d.head.Spec.Spec, own)
	if err != nil {
		return nil, err
	}
	var head *model.Head
	err = d.head.Files.Guard(func() (err error) {
		if head, err = model.NewHead(d.head.Spec, d.head.Params, device, own); err == nil {
			err = head.Follow(target)
		}
		if err == nil {
			err = beside.preload(device)
		}
		return err
	})
	if err != nil {
		return nil, errors.Join(err, device.Close())
	}
	return &watchedHead{head, d.head.Files}, nil
}

// A watchedHead gives no guesses that were computed while a file of the head was changed.
type watchedHead struct {
	*model.Head
	files *ckpt.Model
}

// Launch implements runner.Runner.
func (w *watchedHead) Launch(batch *runner.Batch) error {
	return w.files.Guard(func() error { return w.Head.Launch(batch) })
}
