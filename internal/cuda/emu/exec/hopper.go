package exec

import "slices"

// This file is what sm_90 adds to the order between warps: barriers in shared memory that count
// arrivals and bytes (PTX ISA: mbarrier), and the two ways to shared memory, that of ordinary
// accesses and that of the asynchronous units (PTX ISA: proxies), which a fence joins.
//
// Each mbarrier is a party of its own among those whose times warps know (shared.go): what copies
// bring is written by the mbarrier they report to, at the time of its phase. A warp that has waited
// for the phase knows that time. Besides, warps know up to which time the writes of each warp were
// put in order with the asynchronous units by fence.proxy.async.

// mostBarriers is how many mbarriers of a block are told apart.
const mostBarriers = 64

// An mbarrier is one of them. Its phase ends when all arrivals and all bytes have come.
type mbarrier struct {
	party     int // whose time its phases are
	count     int // arrivals that a phase has
	left      int // of them, still to come
	bytes     int // still to come; negative while more have come than are expected so far
	phase     uint32
	maker     int      // warp
	made      uint32   // its time then
	announced bool     // to the asynchronous units
	coming    []uint32 // what those know who have arrived
	past      []uint32 // what is known of all phases that have ended
}

// An async is what the asynchronous units of sm_90 have to do for a block.
type async struct {
	barriers map[uint64]*mbarrier // by address
	made     int                  // of them, so far
	late     []func()             // copies that have not landed
	failed   int                  // waits in vain since a copy landed
	groups   [8]warpgroup
}

// parties returns how many times a warp keeps track of: those of warps and, where there are mbarriers,
// theirs and what was fenced of the warps; and two more (order.go).
func (k *Kernel) parties(warps int) int {
	if k.Async {
		warps = 2*warps + mostBarriers
	}
	return warps + 2 // fences, and whether other cards were waited for
}

// fenced is the index of what is known of fences behind writes of a warp.
func (b *Block) fenced(warp int) int { return len(b.warps) + mostBarriers + warp }

// author names who wrote a cell.
func (b *Block) author(party uint8) string {
	if int(party) > len(b.warps) {
		return "an asynchronous copy"
	}
	return describe("warp %d", party-1)
}

// asynchronous returns the state of the block's asynchronous units.
func (b *Block) asynchronous() *async {
	if b.async == nil {
		b.async = &async{barriers: map[uint64]*mbarrier{}}
	}
	return b.async
}

// MakeBarrier makes an mbarrier for one lane.
func (w *Warp) MakeBarrier(lane int, at uint64, count uint32) {
	b := w.Block
	if count == 0 || count >= 1<<20 {
		w.FailLane(LaunchFailed, lane, "an mbarrier of %d arrivals: 1 to %d are possible", count, 1<<20-1)
	}
	i := w.place(lane, at, 8, "mbarrier")
	units := b.asynchronous()
	if units.barriers[uint64(i)] != nil {
		w.FailLane(LaunchFailed, lane, "there is an mbarrier at %#x already", at)
	}
	if units.made == mostBarriers {
		w.FailLane(LaunchFailed, lane, "more than %d mbarriers of a block are too many for the emulator", mostBarriers)
	}
	w.SharedWrite(lane, at, 8)
	w.markBarrier(i, true)
	bar := &mbarrier{party: len(b.warps) + units.made, count: int(count), left: int(count), maker: w.ID, made: w.own}
	bar.coming, bar.past = make([]uint32, len(w.know)), make([]uint32, len(w.know))
	units.barriers[uint64(i)] = bar
	units.made++
}

// EndBarrier gives the memory of an mbarrier back.
func (w *Warp) EndBarrier(lane int, at uint64) {
	w.barrier(lane, at)
	i := w.place(lane, at, 8, "mbarrier")
	delete(w.Block.async.barriers, uint64(i))
	w.markBarrier(i, false)
}

// markBarrier makes memory of an mbarrier untouchable for ordinary accesses, or touchable again.
func (w *Warp) markBarrier(i int, is bool) {
	if !w.Block.checks {
		return
	}
	for c, end := w.Block.span(i, 8); c < end; c++ {
		w.Block.cells[c].flight, w.Block.cells[c].barrier = is, is
	}
}

// barrier finds an mbarrier that the warp may use.
func (w *Warp) barrier(lane int, at uint64) *mbarrier {
	i := w.place(lane, at, 8, "mbarrier")
	bar := w.Block.asynchronous().barriers[uint64(i)]
	if bar == nil {
		w.FailLane(LaunchFailed, lane, "there is no mbarrier at %#x", at)
	}
	if bar.maker != w.ID && bar.made > w.know[bar.maker] {
		w.FailLane(LaunchFailed, lane, "mbarrier at %#x: warp %d made it, without a barrier in between", at, bar.maker)
	}
	return bar
}

// touches notes that a lane has touched shared memory.
func (w *Warp) touches(lane int) {
	if w.touchedAt != w.Syncs {
		w.touched, w.touchedAt = 0, w.Syncs
	}
	w.touched |= 1 << lane
}

// Arriving ends the launch where lanes of m arrive at mbarriers behind accesses of other lanes, which
// nothing puts in order with the arrival. It does not look at what the accesses were to.
func (w *Warp) Arriving(m uint32) {
	if others := w.touched &^ m; w.touchedAt == w.Syncs && others != 0 && w.Block.checks {
		w.Fail(LaunchFailed, "lanes %08x arrive: lanes %08x have touched shared memory, without bar.warp.sync in between", m, others)
	}
}

// ArriveAt counts arrivals and expected bytes, and returns the phase that they belong to. What the
// lane did before has happened for whoever waits for the phase.
func (w *Warp) ArriveAt(lane int, at uint64, arrivals, bytes int) (phase uint32) {
	bar := w.barrier(lane, at)
	phase = bar.phase
	if arrivals > bar.left {
		w.FailLane(LaunchFailed, lane, "mbarrier at %#x: arrivals by %d more, %d of %d are left in this phase", at, arrivals, bar.left, bar.count)
	}
	if bytes < 0 || bytes >= 1<<20 {
		w.FailLane(LaunchFailed, lane, "mbarrier at %#x: %d bytes are expected, %d are possible", at, bytes, 1<<20-1)
	}
	bar.bytes += bytes
	if arrivals > 0 {
		merge(bar.coming, w.know)
		bar.coming[w.ID] = w.own
		bar.left -= arrivals
	}
	bar.settle()
	return phase
}

// Released begins a new time of the warp, behind arrivals.
func (w *Warp) Released() { w.own++ }

// settle ends the phase if all has come.
func (bar *mbarrier) settle() {
	if bar.left != 0 || bar.bytes != 0 {
		return
	}
	bar.phase++
	bar.left = bar.count
	merge(bar.past, bar.coming)
	bar.past[bar.party] = bar.phase
}

// merge raises times to those of other.
func merge(times, other []uint32) {
	for i, t := range other {
		times[i] = max(times[i], t)
	}
}

// Passed says whether the phase before the present one is that which a lane waits for; ended tells
// from the number of phases that have ended. If so the lane knows what has happened in it.
func (w *Warp) Passed(lane int, at uint64, ended func(phases uint32) bool) bool {
	bar := w.barrier(lane, at)
	if !ended(bar.phase) {
		return false
	}
	merge(w.know, bar.past)
	return true
}

// Yield says whether a warp that waits in vain gives way to others now; then it is to ask again.
// First it is told no at once, as a wait may say it, and gives way when it asks again: so what goes on
// without having waited is ahead of others.
func (w *Warp) Yield() bool {
	w.refused = !w.refused
	if !w.refused {
		w.Block.asynchronous().failed++
	}
	return !w.refused
}

// Waited ends a wait that was not in vain.
func (w *Warp) Waited() { w.refused = false }

// Announce makes the mbarriers that the warp has made known to the asynchronous units.
func (w *Warp) Announce() {
	for _, bar := range w.Block.asynchronous().barriers {
		if bar.maker == w.ID {
			bar.announced = true
		}
	}
}

// FenceProxies puts what happened before the warp's present in order with what the asynchronous units
// do for those who know of the fence.
func (w *Warp) FenceProxies() {
	n := len(w.Block.warps)
	w.know[w.ID] = w.own
	merge(w.know[w.Block.fenced(0):][:n], w.know[:n])
	w.own++
	for _, bar := range w.Block.asynchronous().barriers {
		if bar.maker == w.ID || bar.made <= w.know[bar.maker] {
			bar.announced = true
		}
	}
}

// foreignProxy ends the launch where an asynchronous unit would touch what an ordinary write made,
// without a fence in between.
func (w *Warp) foreignProxy(lane, index int, what string) {
	c := &w.Block.cells[index]
	if n := int(c.writer); n > 0 && n <= len(w.Block.warps) && c.wrote > w.know[w.Block.fenced(n-1)] {
		w.FailLane(LaunchFailed, lane, "%s of shared memory that warp %d wrote by ordinary stores, without fence.proxy.async in between", what, n-1)
	}
}

// AsyncRead returns n bytes of shared memory that a warp's product reads, having checked that they are
// there, that no race is possible, and that ordinary writes were fenced.
func (w *Warp) AsyncRead(at uint64, n int) []byte {
	i := w.place(0, at, n, "read")
	if w.Block.checks {
		for c, end := w.Block.span(i, n); c < end; c++ {
			w.checkRead(int(w.Block.cells[c].wlane), i, &w.Block.cells[c])
			w.foreignProxy(-1, c, "read")
			touched := w.touched
			w.noteRead(0, c)
			w.touched = touched // the unit reads, for the warp as a whole
		}
	}
	return w.Block.Shared[i : i+n]
}

// landOne lets one of the copies that are on their way land: the one that was asked for last, or first,
// since no order is promised.
func (u *async) landOne(first bool) {
	at := len(u.late) - 1
	if first {
		at = 0
	}
	copied := u.late[at]
	u.late = slices.Delete(u.late, at, at+1)
	u.failed = 0
	copied()
}

// land lets copies land when nothing else happens in the block, or much waiting was in vain, and says
// whether any did. In blocks whose first warp runs first they land in order and three at a time, so that
// each stage of a ring has its turn to be waited for, whether it has 2, 4 or 8.
func (b *Block) land(idle int) bool {
	if b.async == nil || len(b.async.late) == 0 || (idle < 3 && b.async.failed < 100*len(b.warps)) {
		return false
	}
	count := 1
	if !b.backwards {
		count = min(3, len(b.async.late))
	}
	for range count {
		b.async.landOne(!b.backwards)
	}
	return true
}

// endAsync checks what a block leaves behind.
func (b *Block) endAsync() {
	if b.async == nil {
		return
	}
	w := b.warps[0]
	w.inst = nil
	if n := len(b.async.late); n > 0 {
		w.Fail(LaunchFailed, "%d copies of boxes are on their way at the end: nobody waits for them", n)
	}
	for at, bar := range b.async.barriers {
		if bar.bytes != 0 {
			w.Fail(LaunchFailed, "mbarrier at %#x: %d bytes are expected at the end that did not come", at, bar.bytes)
		}
	}
	for i := range b.async.groups {
		if g := &b.async.groups[i]; slices.Max(g.done[:]) != slices.Min(g.done[:]) {
			w.Fail(LaunchFailed, "warps %d to %d have begun %v products: all four of a warpgroup take part in each", 4*i, 4*i+3, g.done)
		}
	}
	for _, w := range b.warps {
		if len(w.products) > 0 {
			w.Fail(LaunchFailed, "%d products are under way at the end: nobody waits for them", len(w.products))
		}
	}
}
