package cuda

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"ossian/internal/cuda/driver"
	"ossian/internal/cuda/emu"
)

// peers are cards that reach each other's memory, with what allreduce needs on each: two parts that
// take turns, flags, sums.
type peers struct {
	*driver.Driver
	machine  *emu.Machine
	devices  []driver.Device
	contexts []driver.Context
	queues   []*queue
	parts    [2][]driver.Ptr
	flags    []driver.Ptr
	sums     []driver.Ptr
}

// newPeers opens so many emulated cards with memory for count floats.
func newPeers(t *testing.T, cards, count int) *peers {
	t.Helper()
	machine := emu.New(slices.Repeat([]emu.Card{limited(emu.Card{})}, cards)...)
	p := &peers{Driver: machine.Driver(), machine: machine}
	must(t, p.Init())
	for card := range cards {
		device, err := p.DeviceGet(card)
		must(t, err)
		context, err := p.ContextRetain(device)
		must(t, err)
		p.devices, p.contexts = append(p.devices, device), append(p.contexts, context)
	}
	for _, context := range p.contexts {
		must(t, p.SetCurrent(context))
		for _, other := range p.contexts {
			if other != context {
				must(t, p.EnablePeer(other))
			}
		}
		stream, err := p.StreamCreate()
		must(t, err)
		p.queues = append(p.queues, newQueue(p.Driver, stream))
		alloc := func(bytes int) driver.Ptr {
			at, err := p.MemAlloc(uint64(bytes))
			must(t, err)
			return at
		}
		p.parts[0], p.parts[1] = append(p.parts[0], alloc(4*count)), append(p.parts[1], alloc(4*count))
		p.flags, p.sums = append(p.flags, alloc(allReduceFlags(cards))), append(p.sums, alloc(4*count))
		must(t, p.CopyToDevice(p.flags[len(p.flags)-1], make([]byte, allReduceFlags(cards))))
	}
	return p
}

// close gives everything back.
func (p *peers) close(t *testing.T) {
	t.Helper()
	for card, context := range p.contexts {
		must(t, p.SetCurrent(context))
		must(t, errors.Join(p.queues[card].close(), p.StreamDestroy(p.queues[card].stream), p.MemFree(p.parts[0][card]), p.MemFree(p.parts[1][card]),
			p.MemFree(p.flags[card]), p.MemFree(p.sums[card]), p.ContextRelease(p.devices[card])))
	}
	must(t, p.machine.Close())
}

// must ends the test with an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestAllReduce adds up what cards have that run at the same time, over several steps: all have the
// same bits, those of the sum in the order of ranks.
func TestAllReduce(t *testing.T) {
	rng := rand.New(rand.NewPCG(19, 20))
	for _, cards := range []int{1, 2, 4} {
		t.Run(fmt.Sprint(cards, " cards"), func(t *testing.T) {
			runtime.LockOSThread() // a context is current for a thread
			defer runtime.UnlockOSThread()
			const count = 4*128*allReduceBlocks + 36 // more than one turn for some threads
			p := newPeers(t, cards, count)
			defer p.close(t)
			for step := range uint32(3) {
				want := make([]float32, count)
				for card, context := range p.contexts {
					part := normals(rng, count, 1)
					for i, v := range part {
						want[i] += v
					}
					must(t, p.SetCurrent(context))
					must(t, p.CopyToDevice(p.parts[step%2][card], bytesOf(part)))
				}
				// The last card is given its work first: all wait for all.
				for card := cards - 1; card >= 0; card-- {
					must(t, p.SetCurrent(p.contexts[card]))
					p.queues[card].allReduce(p.sums[card], p.parts[step%2], p.flags, card, count, step+1)
					must(t, p.queues[card].err)
				}
				for card, context := range p.contexts {
					got := make([]float32, count)
					must(t, errors.Join(p.SetCurrent(context), p.StreamSync(p.queues[card].stream), p.CopyToHost(bytesOf(got), p.sums[card])))
					if !slices.Equal(got, want) {
						t.Fatalf("step %d, card %d: sums differ", step, card)
					}
				}
			}
		})
	}
}

// TestAllReduceWaits has a card alone, with flags of the others as they may be before they have come
// as far: its kernel may not end.
func TestAllReduceWaits(t *testing.T) {
	for _, test := range []struct {
		flag, step uint32
		ends       bool
	}{{7, 7, true}, {8, 7, true}, {6, 7, false}, {0, 1, false}, {1<<32 - 1, 0, false}, {0, 1<<32 - 1, true}} {
		t.Run(fmt.Sprintf("%d at step %d", test.flag, test.step), func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			machine := emu.New(emu.Card{Limit: 100_000})
			drv := machine.Driver()
			must(t, drv.Init())
			device, err := drv.DeviceGet(0)
			must(t, err)
			context, err := drv.ContextRetain(device)
			must(t, err)
			must(t, drv.SetCurrent(context))
			stream, err := drv.StreamCreate()
			must(t, err)
			const count = 64
			memory, err := drv.MemAlloc(4*(3*count) + 2*uint64(allReduceFlags(2)))
			must(t, err)
			sums, parts, flags := memory, []driver.Ptr{memory + 4*count, memory + 8*count}, []driver.Ptr{memory + 12*count, memory + 12*count + driver.Ptr(allReduceFlags(2))}
			words := slices.Repeat([]uint32{test.flag}, allReduceFlags(2)/2)
			must(t, errors.Join(drv.CopyToDevice(parts[0], make([]byte, 8*count)), drv.CopyToDevice(flags[0], bytesOf(words))))
			q := newQueue(drv, stream)
			q.allReduce(sums, parts, flags, 0, count, test.step)
			must(t, q.err)
			err = drv.StreamSync(stream)
			if (err == nil) != test.ends {
				t.Errorf("the kernel ended: %v, want %v", err == nil, test.ends)
			}
			// What is behind a hanging kernel cannot be given back, as on a card.
			if test.ends {
				must(t, errors.Join(q.close(), drv.StreamDestroy(stream), drv.MemFree(memory), drv.ContextRelease(device), machine.Close()))
			}
		})
	}
}
