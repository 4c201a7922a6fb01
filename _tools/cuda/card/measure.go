package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"unsafe"

	"ossian/internal/cuda/driver"
	"ossian/internal/cuda/kernels"
)

// This file measures what kernels reach at best (internal/cuda/kernels/measure.cu): the figures that
// times of other kernels are compared with.

// A rate is operations in a time.
type rate struct {
	FLOP     float64 `json:"flop"` // of one launch
	Median   float64 `json:"median_ms"`
	TFLOPPer float64 `json:"tflop_per_s,omitempty"`
}

// measureArgs is MeasureArgs of kernels/measure.cu.
type measureArgs struct {
	src, dst driver.Ptr
	pieces   uint64 // of 16 bytes
	rounds   int32
	_        int32
}

// A loop is a kernel of measure.cu with its launch.
type loop struct {
	module, arch, kernel string
	blocks               int // for each multiprocessor
	rounds               int32
	perRound             float64 // operations of a block in a round
}

// Loops of products: eight warps of eight products of 16×8×16, and two warpgroups of four products of
// 64×128×16.
var loops = map[string]loop{
	"mma_bf16":   {"measure", "80", "measure_mma", 2, 256, 8 * 8 * 2 * 16 * 8 * 16},
	"wgmma_bf16": {"measure90", "90a", "measure_wgmma", 2, 16384, 2 * 4 * 2 * 64 * 128 * 16},
}

// threads is a block of every loop.
const threads = 256

// measure adds rates of kernels to the report; memory is read and copied in pieces of so many bytes. Few
// rounds are for the emulator.
func (c *card) measure(about *report, size int, few bool) (err error) {
	src, err := c.random(max(size, 1<<16)) // products read some of it as well
	if err != nil {
		return err
	}
	multiprocessors := about.Attributes["multiprocessors"]
	blocks := 8 * multiprocessors
	// Room for a copy, for a piece of each thread, and for what products write: 16 pieces a thread.
	dst, err := c.drv.MemAlloc(uint64(max(size, 2*multiprocessors*threads*16*16)))
	if err != nil {
		return err
	}
	for _, way := range []struct {
		name, kernel string
		bytes        int // moved
	}{{"read_by_kernel", "measure_read", size}, {"copy_by_kernel", "measure_copy", 2 * size}} {
		took, err := c.loop("measure", "80", way.kernel, blocks, &measureArgs{src: src, dst: dst, pieces: uint64(size / 16)})
		if err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
		about.Copies[way.name] = speedOf(way.bytes, took)
	}
	about.Rates = map[string]rate{}
	for name, l := range loops {
		if l.arch == "90a" && about.Major != 9 {
			continue
		}
		if few {
			l.rounds = 2
		}
		took, err := c.loop(l.module, l.arch, l.kernel, l.blocks*multiprocessors, &measureArgs{src: src, dst: dst, rounds: l.rounds})
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		one := rate{FLOP: l.perRound * float64(l.rounds) * float64(l.blocks*multiprocessors), Median: took}
		if took > 0 {
			one.TFLOPPer = one.FLOP / took / 1e9
		}
		about.Rates[name] = one
	}
	return errors.Join(c.drv.MemFree(src), c.drv.MemFree(dst))
}

// random returns memory filled with random bf16 of magnitude 0.5 to 2: zeros take less power, and a
// memory may compress what repeats.
func (c *card) random(size int) (driver.Ptr, error) {
	at, err := c.drv.MemAlloc(uint64(size))
	if err != nil {
		return 0, err
	}
	rng, some := rand.New(rand.NewPCG(1, 2)), make([]uint32, min(size, 64<<20)/4)
	for i := range some {
		some[i] = rng.Uint32()&0x80ff80ff | 0x3f003f00
	}
	bytes := unsafe.Slice((*byte)(unsafe.Pointer(&some[0])), 4*len(some))
	for done := 0; done < size; done += len(bytes) {
		if err := c.drv.CopyToDevice(at+driver.Ptr(done), bytes[:min(len(bytes), size-done)]); err != nil {
			return 0, err
		}
	}
	return at, nil
}

// loop returns the middle of the times of a kernel, in milliseconds.
func (c *card) loop(name, arch, kernel string, blocks int, args *measureArgs) (milliseconds float64, err error) {
	for _, module := range kernels.Modules() {
		if module.Name != name || module.Arch != arch {
			continue
		}
		loaded, err := c.drv.ModuleLoad(module.PTX)
		if err != nil {
			return 0, err
		}
		function, err := c.drv.GetFunction(loaded, kernel)
		if err != nil {
			return 0, err
		}
		launch := &driver.Launch{Function: function, Grid: driver.Dim3{X: uint32(blocks), Y: 1, Z: 1}, Block: driver.Dim3{X: threads, Y: 1, Z: 1},
			Stream: c.stream, Params: unsafe.Slice((*byte)(unsafe.Pointer(args)), unsafe.Sizeof(*args))}
		milliseconds, err = c.median(func() error { return c.drv.Launch(launch) })
		return milliseconds, errors.Join(err, c.drv.ModuleUnload(loaded))
	}
	return 0, fmt.Errorf("there is no module %s.sm_%s", name, arch)
}
