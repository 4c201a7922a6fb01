package emu

import (
	"sync/atomic"

	"ossian/internal/cuda/driver"
)

// A Count is what launches did: the raw material of a cost model.
type Count struct {
	Launches  int64
	Warp      int64 // instructions, per warp
	Lane      int64 // instructions, per thread
	Diverged  int64 // warp instructions with lanes missing
	Sectors   int64 // 32-byte sectors of global memory touched
	Ideal     int64 // fewest sectors that hold the bytes asked for
	Shared    int64 // wavefronts of shared memory
	Conflicts int64 // of those, the ones that bank conflicts added
	MMA       map[string]int64
	Barriers  int64 // completed by blocks
	Async     int64 // copies from global to shared memory, per thread
	Atomics   int64 // per thread
}

// add adds other to c.
func (c *Count) add(other *Count) {
	c.Launches += other.Launches
	c.Warp += other.Warp
	c.Lane += other.Lane
	c.Diverged += other.Diverged
	c.Sectors += other.Sectors
	c.Ideal += other.Ideal
	c.Shared += other.Shared
	c.Conflicts += other.Conflicts
	c.Barriers += other.Barriers
	c.Async += other.Async
	c.Atomics += other.Atomics
	for kind, n := range other.MMA {
		c.mma(kind, n)
	}
}

func (c *Count) mma(kind string, n int64) {
	if c.MMA == nil {
		c.MMA = map[string]int64{}
	}
	c.MMA[kind] += n
}

// Counters are what a machine has done since it was made.
type Counters struct {
	Kernels map[string]Count // by name
	Calls   map[string]int64 // of driver functions, by the name of the field in driver.Driver
	Watched map[string]Count // by name of the region: Sectors and Ideal
}

// A watch is a region of memory whose traffic is counted apart.
type watch struct {
	name     string
	from, to uint64
	sectors  int64
	ideal    int64
}

// watching returns the regions.
func (c *card) watching() []*watch {
	c.machine.mu.Lock()
	defer c.machine.mu.Unlock()
	return c.machine.watches
}

// Watch counts accesses to a region of memory apart, under a name: Counters().Watched.
func (m *Machine) Watch(name string, at driver.Ptr, bytes uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watches = append(m.watches[:len(m.watches):len(m.watches)], &watch{name: name, from: uint64(at), to: uint64(at) + bytes})
}

// traffic counts the 32-byte sectors that an access of n bytes per lane touches.
func (w *warp) traffic(a *address, n int, m uint32) {
	var seen [64]uint64
	sectors, bytes := 0, 0
	at := uint64(0)
	for lane := range 32 {
		if m>>lane&1 == 0 {
			continue
		}
		at = a.of(w, lane)
		bytes += n
		sector := at / 32
		if sectors > 0 && seen[sectors-1] == sector {
			continue
		}
		known := false
		for i := sectors - 2; i >= 0 && !known; i-- {
			known = seen[i] == sector
		}
		if !known {
			seen[sectors] = sector
			sectors++
		}
	}
	w.note(at, sectors, (bytes+31)/32)
}

// note adds sectors to the counters of the block and of the region that at lies in.
func (w *warp) note(at uint64, sectors, ideal int) {
	w.block.count.Sectors += int64(sectors)
	w.block.count.Ideal += int64(min(ideal, sectors))
	for _, region := range w.block.watches {
		if at >= region.from && at < region.to {
			atomic.AddInt64(&region.sectors, int64(sectors))
			atomic.AddInt64(&region.ideal, int64(min(ideal, sectors)))
		}
	}
}

// banks counts the wavefronts of an access to shared memory of n bytes per lane: lanes go together
// as far as 128 bytes, different words of one bank take turns.
func (w *warp) banks(a *address, n int, m uint32) {
	together := 32
	if n > 4 {
		together = 128 / n
	}
	for from := 0; from < 32; from += together {
		var word [32]uint64
		var count [32]uint8
		most := uint8(0)
		for lane := from; lane < from+together; lane++ {
			if m>>lane&1 == 0 {
				continue
			}
			at := a.of(w, lane) / 4
			for end := at + uint64(max(n/4, 1)); at < end; at++ {
				bank := at % 32
				if count[bank] == 0 || word[bank] != at {
					word[bank] = at
					count[bank]++
					most = max(most, count[bank])
				}
			}
		}
		if most > 0 {
			w.block.count.Shared += int64(most)
			w.block.count.Conflicts += int64(most - 1)
		}
	}
}
