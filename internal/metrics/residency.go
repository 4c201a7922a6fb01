package metrics

import "time"

// A Residency observes how long blocks of KV stay cached and are of use (engine.PrefixObserver): of
// each loop of an engine one. It is used by one goroutine.
type Residency struct {
	model  func() *Model
	clock  func() time.Time
	blocks map[uint64]stay // by serial: one block in sampled
}

// sampled is of how many blocks one is observed, as vLLM's names say; all would cost more than they
// tell.
const sampled = 16

// A stay is since when a block is cached, and when it was last made or found.
type stay struct{ stored, used time.Time }

// NewResidency returns an observer of blocks. model is asked when there is something to observe.
func NewResidency(model func() *Model, clock func() time.Time) *Residency {
	return &Residency{model: model, clock: clock, blocks: map[uint64]stay{}}
}

// Stored tells of a block that is cached from now on.
func (r *Residency) Stored(serial, _, _ uint64, _ []int32) {
	if serial%sampled == 0 {
		now := r.clock()
		r.blocks[serial] = stay{now, now}
	}
}

// Found tells that a sequence begins with what is in a block.
func (r *Residency) Found(serial uint64) {
	if block, known := r.blocks[serial]; known {
		now := r.clock()
		r.model().gap.Observe(max(now.Sub(block.used), 0).Seconds())
		block.used = now
		r.blocks[serial] = block
	}
}

// Removed tells that what was in a block is cached no longer.
func (r *Residency) Removed(serial uint64) {
	if block, known := r.blocks[serial]; known {
		now := r.clock()
		r.model().lifetime.Observe(max(now.Sub(block.stored), 0).Seconds())
		r.model().idle.Observe(max(now.Sub(block.used), 0).Seconds())
		delete(r.blocks, serial)
	}
}

// Flush has nothing to do: what was told is observed already.
func (r *Residency) Flush() {}
