package cuda

import (
	"errors"
	"fmt"

	"ossian/internal/cuda/driver"
	"ossian/internal/model"
	"ossian/internal/tensor"
)

// Config is which card a device computes on, and how.
type Config struct {
	Driver  *driver.Driver // through which cards are reached
	Ordinal int            // the card, as the driver counts them
	KV      tensor.DType   // type of cached keys and values: BF16 or F8_E4M3; Invalid = BF16
	// Blocking waits for every kernel before the next one is given to the card, so that an error
	// names the kernel that made it. It costs most of the speed.
	Blocking bool
	// Beside is a device whose card and stream this one shares, for a head that reads its buffers: Driver
	// and Ordinal are then its. It is closed after this one. nil = none.
	Beside *Device

	// dirty leaves pools of keys and values as they came, so that the emulator tells a test of
	// reads of what nobody has written.
	dirty bool
}

// resolve fills in what zero fields stand for, and refuses what there is not.
func (c Config) resolve() (Config, error) {
	if c.Beside != nil {
		c.Driver, c.Ordinal, c.Blocking = c.Beside.cfg.Driver, c.Beside.cfg.Ordinal, c.Beside.cfg.Blocking
	}
	if c.Ordinal < 0 {
		return c, fmt.Errorf("cuda: card %d: a number from 0 expected", c.Ordinal)
	}
	if c.KV == tensor.Invalid {
		c.KV = tensor.BF16
	}
	if c.KV != tensor.BF16 && c.KV != tensor.F8_E4M3 {
		return c, fmt.Errorf("cuda: keys and values as %v (--kv-cache-dtype): bf16 or fp8 expected; f32 is there with --device cpu", c.KV)
	}
	return c, nil
}

// leastMajor is the compute capability that kernels need: that of Ampere, 8.0.
const leastMajor = 8

// checkSpec reports what the kernels cannot compute of a model.
func checkSpec(s *model.Spec) error {
	if err := s.Validate(); err != nil {
		return fmt.Errorf("cuda: model %s: %w", s.Name, err)
	}
	if s.HeadDim > mostDim {
		return fmt.Errorf("cuda: model %s: head dim %d, kernels go up to %d; --device cpu computes it", s.Name, s.HeadDim, mostDim)
	}
	if s.FFN.TopK > maxTopK {
		return fmt.Errorf("cuda: model %s: %d experts for each token, kernels go up to %d; --device cpu computes it", s.Name, s.FFN.TopK, maxTopK)
	}
	return nil
}

// A Card is what a driver says of a card.
type Card struct {
	Name         string // "NVIDIA H100 80GB HBM3"
	Major, Minor int    // compute capability
	Free, Total  int64  // bytes of memory; other programs take of what is free
	// Bandwidth is what clock and bus of the memory make, in bytes per second, of which kernels reach
	// nine tenths at best; 0 = the driver does not tell.
	Bandwidth float64
}

// Probe asks a driver for the card of that number. An error says why no device can be opened on it.
func Probe(drv *driver.Driver, ordinal int) (Card, error) {
	opened, err := openCard(drv, ordinal)
	if err != nil {
		return Card{}, err
	}
	defer opened.enter()()
	free, total, err := drv.MemInfo()
	if err != nil {
		return Card{}, errors.Join(fmt.Errorf("cuda: %w", err), opened.close())
	}
	about := opened.about
	about.Free, about.Total = int64(free), int64(total)
	return about, opened.close()
}
