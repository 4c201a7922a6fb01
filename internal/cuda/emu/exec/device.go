package exec

import (
	"runtime"
	"sync"
)

// A Device is a card as kernels see it.
type Device struct {
	Ordinal         int
	Memory          *Memory
	Multiprocessors int
	Workers         int    // blocks that run at a time; 0: as many as there are processors
	Limit           int64  // warp instructions of a block before it counts as hanging
	Seed            uint64 // of the errors of approximations
	Unchecked       bool   // no checks of races in shared memory

	mu    sync.Mutex // guards pool and peers
	pool  map[shape][]*Block
	peers map[*Device]bool
}

// A shape is what a block was made for.
type shape struct {
	kernel  *Kernel
	threads int
	shared  int
}

// EnablePeer lets the card use memory of another one; false: it may already.
func (d *Device) EnablePeer(other *Device) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.peers[other] {
		return false
	}
	if d.peers == nil {
		d.peers = map[*Device]bool{}
	}
	d.peers[other] = true
	d.Memory.Peers.Store(true)
	return true
}

// peer says whether the card may use memory of another one.
func (d *Device) peer(other *Device) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.peers[other]
}

// Forget drops the blocks that are kept for later launches.
func (d *Device) Forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pool = nil
}

// take returns a block of a shape that was used before; nil if there is none.
func (d *Device) take(key shape) *Block {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := d.pool[key]
	if len(list) == 0 {
		return nil
	}
	d.pool[key] = list[:len(list)-1]
	return list[len(list)-1]
}

// keep stores a block for later launches.
func (d *Device) keep(key shape, b *Block) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pool == nil {
		d.pool = map[shape][]*Block{}
	}
	if list := d.pool[key]; len(list) < runtime.GOMAXPROCS(0) {
		d.pool[key] = append(list, b)
	}
}

func (d *Device) workers() int64 {
	if d.Workers > 0 {
		return int64(d.Workers)
	}
	return int64(runtime.GOMAXPROCS(0))
}
