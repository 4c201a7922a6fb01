// Package cost says how long kernels of package cuda take on a card, from what they do and what the
// card's data sheet offers. Work is counted by closed forms, one for each kernel, which tests of
// package cuda hold to the emulator's counters; so no kernel has to run, and none has to be timed.
//
// The form (cuda.md 5.5): a kernel takes as long as the slowest of memory, second-level cache, tensor
// cores, issue of instructions, shared memory, and the trips to memory that its blocks make one after
// another; then the gap to the next kernel. How much of each rate a kernel reaches are the few numbers of
// Constants. Until kernels.csv of a card has been read (Refit), they are assumptions.
package cost

import "math"

// Work is what one launch of a kernel does. Numbers are expectations where they depend on data, as
// on which experts tokens choose, hence not whole.
type Work struct {
	Kernel      string
	Blocks      float64
	Threads     int // of a block
	Registers   int // of a thread, as ptxas 12.9 allots them for sm_80
	SharedBytes int // of a block

	Sectors float64 // 32-byte sectors that warps ask for, of cache or memory
	MMA     float64 // m16n8k16 instructions of warps
	Warp    float64 // instructions of warps
	Shared  float64 // wavefronts of shared memory
	// Slots are the clocks of a scheduler that an instruction of PTX takes on average, 0 = 1: what ptxas
	// makes of it, integer logic counted twice, since half of a scheduler's lanes do it.
	Slots float64

	// Memory is the bytes that come from memory or go there if what several blocks ask for comes once,
	// Again those that are asked for again after Between other bytes: the cache has them still, or
	// they come from memory once more.
	Memory, Again, Between float64
	// Trips is how often the longest block waits for memory, one time after another; Waits are those of
	// all blocks, 0 = all are alike.
	Trips, Waits float64
	// Alone and Beside are the clocks that a block takes for what it does one after another, with a
	// multiprocessor to itself and beside others; 0 = other limits say it.
	Alone, Beside float64
	Warpgroups    bool // its matrix products are wgmma
	// FLOPs are those that the result needs, without what fills up tiles.
	FLOPs float64
}

// flopsOfMMA are those of an m16n8k16 product.
const flopsOfMMA = 2 * 16 * 8 * 16

// Constants are what data sheets do not tell. Shares are of the rates of a Card.
type Constants struct {
	Memory float64 `json:"memory"` // share of the bandwidth that a stream of reads reaches
	Cache  float64 `json:"cache"`  // of what the second-level cache may give
	MMA    float64 `json:"mma"`    // of what mma.sync or wgmma can reach
	Issue  float64 `json:"issue"`  // of four instructions a clock
	Shared float64 `json:"shared"` // of one wavefront a clock
	Chain  float64 `json:"chain"`  // of the speed of blocks that was assumed (Work.Alone)
	Trip   float64 `json:"trip"`   // seconds of a read that misses the cache, under load
	Gap    float64 `json:"gap"`    // seconds from the end of a kernel to the begin of the next one in its stream
	Launch float64 `json:"launch"` // seconds of the host to give a kernel
	Step   float64 `json:"step"`   // seconds of the host for a step, beside its kernels
	Row    float64 `json:"row"`    // and for each of its rows
}

// Assumed are the constants of cards that were not measured. The cache of an H200 was seen at 0.99 of what it
// may give (products in tiles of 32 tokens), copies on Hopper at 0.9 of the data sheet (cuda.md 8), products
// at 0.8 of it. Of an instruction of PTX ptxas 12.9 makes 0.86 to 1.2 in the
// products, 1.1 to 1.4 in attention. A call of the driver takes one to two microseconds and 0.5 through
// purego (cuda.md 4). The others are round numbers of the right size.
func Assumed() Constants {
	return Constants{Memory: 0.9, Cache: 1.0, MMA: 0.8, Issue: 0.7, Shared: 0.8, Chain: 1, Trip: 0.7e-6, Gap: 1.2e-6, Launch: 2.5e-6, Step: 150e-6, Row: 2e-6}
}

// A Limit is what a kernel waits for.
type Limit uint8

// The limits of a kernel.
const (
	ByMemory Limit = iota
	ByCache
	ByMMA
	ByIssue
	ByShared
	ByChain
	ByTrips
	numLimits
)

// String names l as in tables.
func (l Limit) String() string {
	return [numLimits]string{"memory", "cache", "mma", "issue", "shared", "chain", "trips"}[l]
}

// shares are the constants that limits are divided by, in the order of limits; that of trips is 1.
func (c *Constants) shares() [numLimits]float64 {
	return [numLimits]float64{c.Memory, c.Cache, c.MMA, c.Issue, c.Shared, c.Chain, 1 / c.Trip}
}

// Demands returns the seconds of each limit on a card at its full rates, and the number of trips.
func (w *Work) Demands(card *Card) (demands [numLimits]float64) {
	processors := float64(card.Multiprocessors)
	// The fullest multiprocessor decides where blocks do not come out even.
	busy := processors
	if w.Blocks > 0 {
		busy = w.Blocks / math.Ceil(w.Blocks/processors)
	}
	memory := w.Memory
	if w.Between > card.Cache {
		memory += w.Again
	}
	demands[ByMemory] = memory / card.Bandwidth
	demands[ByCache] = w.Sectors * 32 / (cacheBytes * card.Clock * busy)
	rate := card.BF16
	if !w.Warpgroups {
		rate *= card.Sync
	}
	demands[ByMMA] = w.MMA * flopsOfMMA / rate * processors / busy
	demands[ByIssue] = w.Warp * math.Max(w.Slots, 1) / (schedulers * card.Clock * busy)
	demands[ByShared] = w.Shared / (card.Clock * busy)
	room := processors * card.resident(w)
	demands[ByTrips] = w.Trips * math.Ceil(w.Blocks/room)
	if w.Waits > 0 {
		demands[ByTrips] = math.Max(w.Trips, w.Waits/room)
	}
	demands[ByChain] = w.chained(room, processors) / card.Clock
	return demands
}

// chained returns the clocks of a grid whose blocks take Alone or Beside: as often as it fills the card's
// room, then once more for the blocks that are left.
func (w *Work) chained(room, processors float64) float64 {
	full := math.Floor(w.Blocks / room)
	clocks := full * w.Beside
	switch left := w.Blocks - full*room; {
	case left > processors:
		clocks += w.Beside
	case left > 0:
		clocks += w.Alone
	}
	return clocks
}

// Seconds returns how long a kernel runs on a card, without the gap behind it, and what limits it.
func (c *Constants) Seconds(card *Card, w *Work) (seconds float64, by Limit) {
	demands, shares := w.Demands(card), c.shares()
	for limit := range numLimits {
		if s := demands[limit] / shares[limit]; s > seconds {
			seconds, by = s, limit
		}
	}
	return seconds, by
}

// Bound returns the seconds that memory or arithmetic need at the rates of the data sheet, whatever
// the kernel: the roofline.
func (w *Work) Bound(card *Card) float64 {
	return math.Max(w.Memory/card.Bandwidth, w.FLOPs/card.BF16)
}
