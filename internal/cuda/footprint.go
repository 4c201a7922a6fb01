package cuda

import (
	"maps"

	"ossian/internal/model"
	"ossian/internal/tensor"
)

// Memory is what a device with its decoder takes of a card, in bytes.
type Memory struct {
	Weights     int64                  // matrices, tables and vectors
	KV          int64                  // pools of keys and values
	Activations int64                  // buffers of a step, its inputs and results, and what kernels keep between them
	Types       map[tensor.DType]int64 // Weights of matrices and tables by the type they are kept in
}

// Total returns the sum.
func (m Memory) Total() int64 { return m.Weights + m.KV + m.Activations }

// Footprint returns what New, the upload of params and NewDecoder with these arguments will take
// of a card, from shapes and types alone: no weight is read and no card is asked. A type that
// there are no kernels for is an error. What the driver takes for itself is not counted.
func Footprint(s *model.Spec, lim model.Limits, cfg Config, params map[string]tensor.Tensor) (Memory, error) {
	return Counted(s, lim, cfg, func(device *Device) error {
		_, err := model.NewDecoder(s, params, device, lim, nil)
		return err
	})
}

// Counted is Footprint for what build makes on a device, which uploads and allocates only.
func Counted(s *model.Spec, lim model.Limits, cfg Config, build func(*Device) error) (Memory, error) {
	cfg, err := cfg.resolve()
	if err != nil {
		return Memory{}, err
	}
	device, err := newDevice(s, lim, cfg, nil)
	if err != nil {
		return Memory{}, err
	}
	if err := build(device); err != nil {
		return Memory{}, err
	}
	return device.Memory(), nil
}

// Memory returns what the device has taken so far.
func (d *Device) Memory() Memory {
	return Memory{Weights: d.weights, KV: d.pools, Activations: d.memory.bytes - d.weights - d.pools, Types: maps.Clone(d.types)}
}
