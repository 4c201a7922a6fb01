package load

import (
	"ossian/internal/ckpt"
	"ossian/internal/runner"
)

// A watched runner gives no results that were computed while a file of its model was changed,
// and no panic where that took pages away, but a *ckpt.ChangedError. After that it can only
// be closed.
type watched struct {
	runner.Runner
	checkpoint *ckpt.Model
}

// Launch implements runner.Runner.
func (w *watched) Launch(batch *runner.Batch) error {
	return w.checkpoint.Guard(func() error { return w.Runner.Launch(batch) })
}

// Collect implements runner.Runner. Files are looked at when the step has been computed: what
// it has read was sound.
func (w *watched) Collect() (result *runner.Result, err error) {
	err = w.checkpoint.Guard(func() error {
		result, err = w.Runner.Collect()
		return err
	})
	if err != nil {
		return nil, err
	}
	return result, nil
}
