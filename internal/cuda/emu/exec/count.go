package exec

import (
	"slices"
	"sync/atomic"
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

// Add adds other to c.
func (c *Count) Add(other *Count) {
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
		c.Multiplied(kind, n)
	}
}

// Multiplied counts matrix products of a kind.
func (c *Count) Multiplied(kind string, n int64) {
	if c.MMA == nil {
		c.MMA = map[string]int64{}
	}
	c.MMA[kind] += n
}

// A Watch is a region of memory whose traffic is counted apart.
type Watch struct {
	Name     string
	from, to uint64
	sectors  atomic.Int64
	ideal    atomic.Int64
}

// Watch begins to count accesses to a region.
func (m *Memory) Watch(name string, at, bytes uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := append(slices.Clone(m.watching()), &Watch{Name: name, from: at, to: at + bytes})
	m.watches.Store(&list)
}

// watching returns the regions.
func (m *Memory) watching() []*Watch {
	if list := m.watches.Load(); list != nil {
		return *list
	}
	return nil
}

// Watched returns what was counted, by name.
func (m *Memory) Watched() map[string]Count {
	out := map[string]Count{}
	for _, w := range m.watching() {
		c := out[w.Name]
		c.Sectors += w.sectors.Load()
		c.Ideal += w.ideal.Load()
		out[w.Name] = c
	}
	return out
}

// Traffic counts the 32-byte sectors that an access of n bytes per lane touches.
func (w *Warp) Traffic(a *Address, n int, m uint32) {
	if at, ok := w.consecutive(a, n, m); ok {
		w.note(at, int((at+uint64(32*n)-1)/32-at/32+1), n)
		return
	}
	var seen [64]uint64
	sectors, bytes := 0, 0
	at := uint64(0)
	for lane := range 32 {
		if m>>lane&1 == 0 {
			continue
		}
		at = a.Of(w, lane)
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
func (w *Warp) note(at uint64, sectors, ideal int) {
	w.Block.Count.Sectors += int64(sectors)
	w.Block.Count.Ideal += int64(min(ideal, sectors))
	for _, region := range w.Block.watches {
		if at >= region.from && at < region.to {
			region.sectors.Add(int64(sectors))
			region.ideal.Add(int64(min(ideal, sectors)))
		}
	}
}

// Banks counts the wavefronts of an access to shared memory of n bytes per lane: lanes go together
// as far as 128 bytes, different words of one bank take turns.
func (w *Warp) Banks(a *Address, n int, m uint32) {
	if _, ok := w.consecutive(a, n, m); ok {
		w.Block.Count.Shared += int64(max(n/4, 1))
		return
	}
	together := 32
	if n > 4 {
		together = 128 / n
	}
	for from := 0; from < 32; from += together {
		if m>>from<<(32-together) == 0 {
			continue
		}
		var word [32]uint64
		var count [32]uint8
		most := uint8(0)
		for lane := from; lane < from+together; lane++ {
			if m>>lane&1 == 0 {
				continue
			}
			at := a.Of(w, lane) / 4
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
			w.Block.Count.Shared += int64(most)
			w.Block.Count.Conflicts += int64(most - 1)
		}
	}
}
