package cuda

import (
	"fmt"

	"ossian/internal/cuda/driver"
	"ossian/internal/tensor"
)

// reserveKV takes the pools of all layers, each as large as its group's. They are cleared, so that
// no kernel can meet what another program left in the card's memory.
func (d *Device) reserveKV() error {
	for group := range d.windows {
		if err := d.heads.check(d.lim.Blocks[group]); err != nil {
			return fmt.Errorf("cuda: KV group %d: %w", group, err)
		}
	}
	before, codes := d.memory.bytes, d.cfg.KV == tensor.F8_E4M3
	d.layers = make([]kvLayer, d.spec.Layers)
	for i := range d.layers {
		layer := &d.layers[i]
		layer.group, layer.window = d.groupOf[i], d.spec.Windows[i]
		vectors, scales := d.heads.kvBytes(d.lim.Blocks[layer.group], codes)
		for _, pool := range []struct {
			at    *driver.Ptr
			bytes int
		}{{&layer.keys, vectors}, {&layer.values, vectors}, {&layer.keyScales, scales}, {&layer.valueScales, scales}} {
			if pool.bytes == 0 {
				continue
			}
			var err error
			if *pool.at, err = d.memory.card(int64(pool.bytes)); err != nil {
				return err
			}
			if d.card == nil || d.cfg.dirty {
				continue
			}
			if err := d.card.drv.SetAsync(*pool.at, 0, uint64(pool.bytes), d.queue.stream); err != nil {
				return err
			}
		}
	}
	d.pools = d.memory.bytes - before
	return nil
}
