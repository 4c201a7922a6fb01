package serve

import (
	"ossian/internal/config"
	"ossian/internal/limits"
	"ossian/internal/load"
	"ossian/internal/plan"
	"ossian/internal/server"
)

// A room is the memory that the models of a server plan with. Those that are in it at once have
// equal parts; what clients may make the process hold is planned for with each, and is there
// once. It is used by one goroutine.
type room struct {
	parts int              // models in memory at once
	whole map[string]int64 // bytes by device, before a model was loaded
	heap  int64            // bytes of the largest plan that lie on the heap
}

func newRoom(cfg *config.Config) *room {
	return &room{parts: max(min(cfg.Resident, len(cfg.Models)), 1), whole: map[string]int64{}}
}

// part returns the bytes that a model may take whatever else is in memory, 0 = unknown.
func (r *room) part(cfg *config.Config, device load.Device) int64 {
	name := device.Name()
	if _, known := r.whole[name]; !known {
		r.whole[name] = device.Memory(cfg.MemoryShare, true)
	}
	shared := int64(0)
	if device.Card() == "" {
		shared = clientBytes(cfg)
	}
	if whole := r.whole[name]; whole > shared {
		return (whole-shared)/int64(r.parts) + shared
	}
	return r.whole[name]
}

// now returns the bytes that a model may take that is loaded now, 0 = unknown: its part, or less
// if others have taken memory meanwhile.
func (r *room) now(cfg *config.Config, device load.Device) int64 {
	part, free := r.part(cfg, device), device.Memory(cfg.MemoryShare, true)
	if part == 0 || free == 0 {
		return max(part, free)
	}
	return min(part, free)
}

// heapOf returns the bytes of the heap of a process whose models have plans no larger than this
// one and the earlier ones.
func (r *room) heapOf(cfg *config.Config, need *plan.Footprint) int64 {
	r.heap = max(r.heap, need.Runtime+need.Connections+need.Replies+need.Grammars)
	shared := min(clientBytes(cfg), r.heap)
	return (r.heap-shared)*int64(r.parts) + shared
}

// clientBytes is what clients may make the process hold, whichever model they ask for.
func clientBytes(cfg *config.Config) int64 {
	return plan.RequestBytes(cfg.Limits[limits.BodiesInFlight]) + archiveBytes(cfg) + server.Connections(cfg.Limits)*connectionBytes(cfg) + plan.ReplyBytes(cfg.Limits[limits.Replies])
}
