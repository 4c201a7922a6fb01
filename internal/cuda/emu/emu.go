// Package emu is a driver.Driver without a GPU: it runs the PTX that ships on the CPU, slowly and
// distrustfully. It exists to find faults, so what a GPU leaves undefined is an error here, and what
// a GPU may do at any time it does as late as the program allows.
//
// # Machine
//
// A Machine has one or several cards that share an address space. Kernels are decoded into closures
// over the registers of a warp, 32 lanes at a time; lanes that diverge run apart and join where they
// meet. Blocks of a grid run at the same time where they cannot see each other's work, and one after
// another where they can (atomics, volatile and ordered accesses); results never depend on the number
// of processors. Streams are queues: nothing in them happens before a synchronising call, or, a
// piece at a time, before a query.
//
// # Checks
//
//   - Global memory has a byte of shadow for each byte: written or not. Reading what
//     nobody wrote, leaving an allocation (256 bytes behind each belong to nobody), using freed
//     memory and misaligned addresses are faults.
//   - What one block wrote may not be read by another one of the same launch, unless fences and atomic
//     or ordered accesses put the two in order; and a kernel of several cards has to have waited for a
//     card whose memory it reads. Every second launch begins with the last block,
//     and every second pair of them with the last warp of each; of kernels with mbarriers, every
//     second block begins with its last warp.
//   - Shared memory starts as 0xA5. Accesses of warps that no barrier orders, and of lanes that
//     neither a barrier nor bar.warp.sync orders, are faults where one of them writes.
//   - cp.async lands when its group is waited for; touching its target before is a fault.
//   - Copies of boxes (cp.async.bulk.tensor) land when nothing else happens in the block: the last one
//     first, and in blocks that begin with their first warp three at a time, in order. A wait for an
//     mbarrier that is in vain says so at once. What copies bring may be touched by warps that have
//     waited for their mbarrier's phase, and they may touch only what all others are done with.
//     mbarriers need a barrier behind their making, fewer arrivals than they were told are a hang, more
//     are faults.
//   - wgmma is computed when its group is waited for. That its registers are left alone until then, and
//     fenced before, is settled by ModuleLoad.
//   - Collective instructions (shfl, vote, mma, ldmatrix, barriers) with lanes missing are faults.
//   - Registers that no path has set, unknown opcodes, modifiers and directives are errors of
//     ModuleLoad that name the line.
//   - Pinned memory is compared with what it was when a copy to the device was asked for, and holds
//     poison until a copy from the device has happened.
//   - Close names what was not given back.
//
// A fault names kernel, block, warp, lane and the line of PTX. It becomes the error a driver would
// give, with these details in Text, and like there the context is lost with it.
//
// # Numbers
//
// Integer and exactly rounded floating operations give the bits of a GPU. Approximations
// (ex2.approx and its kin) are off by a unit in the last place for half of their inputs, in a way
// that repeats and that Card.Seed changes; ex2 of whole numbers is exact, since CUDA's own functions
// build on it. Sums inside mma are made in an order of the emulator's own. EventElapsed counts
// executed instructions, not time.
//
// # Limits
//
// PTX for sm_80 and sm_90a as nvcc makes it of kernels without calls; no textures, no device-side
// launches, no clusters of several blocks. cp.async groups and barriers are those of whole warps. Memory
// changes in the order of the interleaving that is executed; that fences are missing is seen by who knows
// of what was written, where a block counts as one party. Host threads are told apart on Linux only, and
// only where there is more than one card.
package emu

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"ossian/internal/cuda/driver"
	"ossian/internal/cuda/emu/exec"
)

// A Card says what an emulated card is like. Zero fields get the values of an A100 with 16 GiB.
type Card struct {
	Name            string
	Major, Minor    int    // compute capability; 8.0
	Memory          uint64 // bytes
	Multiprocessors int    // 108
	SharedOptin     int    // bytes of shared memory that a block may ask for; 166912
	Seed            uint64 // of the errors of approximations
	Unchecked       bool   // leaves out the checks of races in shared memory, which cost an eighth to a third of the time
	Workers         int    // blocks that run at a time; 0: as many as there are processors
	Limit           int64  // warp instructions of a block before it counts as hanging; 0: 2^32
}

// A Machine is what a Driver drives.
type Machine struct {
	mem   exec.Memory
	cards []*card

	mu       sync.Mutex // guards all that follows and the cards' contexts
	inited   bool
	handles  uintptr // last one given
	contexts map[driver.Context]*context
	current  map[int]*context // by thread
	pinned   []*pinned
	kernels  map[string]exec.Count
	calls    map[string]int64
	lost     []error // left behind by contexts that were released
}

// A card is one device.
type card struct {
	Card
	machine *Machine
	device  *exec.Device
	context *context   // the primary one; nil: not retained
	running sync.Mutex // held by whoever executes work of this card
}

// New returns a machine with these cards.
func New(cards ...Card) *Machine {
	m := &Machine{contexts: map[driver.Context]*context{}, current: map[int]*context{}, kernels: map[string]exec.Count{}, calls: map[string]int64{}}
	for i, c := range cards {
		if c.Name == "" {
			c.Name = "Emulated A100"
		}
		if c.Major == 0 {
			c.Major, c.Minor = 8, 0
		}
		if c.Memory == 0 {
			c.Memory = 16 << 30
		}
		if c.Multiprocessors == 0 {
			c.Multiprocessors = 108
		}
		if c.SharedOptin == 0 {
			c.SharedOptin = 163 << 10
		}
		if c.Limit == 0 {
			c.Limit = 1 << 32
		}
		device := &exec.Device{Ordinal: i, Memory: &m.mem, Multiprocessors: c.Multiprocessors, Workers: c.Workers, Limit: c.Limit,
			Seed: c.Seed, Unchecked: c.Unchecked}
		m.cards = append(m.cards, &card{Card: c, machine: m, device: device})
	}
	return m
}

// Counters are what a machine has done since it was made.
type Counters struct {
	Kernels map[string]exec.Count // by name
	Calls   map[string]int64      // of driver functions, by the name of the field in driver.Driver
	Watched map[string]exec.Count // by name of the region: Sectors and Ideal
}

// Counters returns what has been counted so far.
func (m *Machine) Counters() Counters {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := Counters{Kernels: map[string]exec.Count{}, Calls: maps.Clone(m.calls), Watched: m.mem.Watched()}
	for name, count := range m.kernels {
		var copied exec.Count
		copied.Add(&count)
		out.Kernels[name] = copied
	}
	return out
}

// Watch counts accesses of kernels to a region of memory apart, under a name: Counters().Watched.
func (m *Machine) Watch(name string, at driver.Ptr, bytes uint64) {
	m.mem.Watch(name, uint64(at), bytes)
}

// Close ends the machine and names what was not given back: contexts and all they hold, and pinned
// memory. What a lost context holds cannot be given back and is not named.
func (m *Machine) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	errs := slices.Clone(m.lost)
	for _, c := range m.cards {
		if c.context == nil {
			continue
		}
		if c.context.broken == nil {
			errs = append(errs, fmt.Errorf("the context of card %d was retained and not released", c.device.Ordinal))
			errs = append(errs, c.context.left()...)
		}
	}
	for _, p := range m.pinned {
		if p.context.broken != nil {
			continue
		}
		errs = append(errs, fmt.Errorf("%d bytes of pinned memory were not freed", len(p.data)))
	}
	return errors.Join(errs...)
}

// handle returns a new one.
func (m *Machine) handle() uintptr {
	m.handles++
	return 0x1000 + 16*m.handles
}
