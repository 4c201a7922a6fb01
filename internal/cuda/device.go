package cuda

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"ossian/internal/cuda/driver"
	"ossian/internal/cuda/kernels"
	"ossian/internal/model"
	"ossian/internal/tensor"
)

// A Device executes one model.Spec on one card; see model.Device. Any goroutine may use it, one
// at a time; the one that calls Begin calls the operations and End. Operations are given to one
// stream and return before they have happened.
//
// Life of a step: Begin packs what the host knows into a pinned block and has it copied,
// operations are kernels, End has the results copied back and records an event, Wait waits for
// it. Each of Depth+1 flights has memory of its own for that.
type Device struct {
	spec *model.Spec
	lim  model.Limits
	cfg  Config

	windows []int // [group] attention window
	groupOf []int // [layer] KV group

	card   *card // nil = dry: memory is counted only
	memory memory
	queue  *queue
	stage  stage

	needs   map[string]bool        // a kernel of each module that the parameters need
	weights int64                  // bytes of the card that parameters take
	types   map[tensor.DType]int64 // those of matrices and tables, by the type they are kept in
	pools   int64                  // bytes of keys and values

	heads   headShape
	layers  []kvLayer // [layer]
	step    step      // from Begin to End
	flights flights
	angles  angles
	rounded *buffer // rows that are to be read in bf16 and were written in float32
	inStep  func()  // from Begin to End: lets the goroutine off its thread
	sampler *sampler
	waiting waiting // asked for and not launched; nil = nothing
	kept    []room  // for the next uploads
	// What kernels keep between them: of experts, of attention.
	expertScratch, attendScratch driver.Ptr
}

// New opens a card and reserves every pool and block of a device for s there; Alloc and Upload
// take the rest. Footprint says how much that will be.
func New(s *model.Spec, lim model.Limits, cfg Config) (*Device, error) {
	cfg, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	opened, err := openCard(cfg.Driver, cfg.Ordinal)
	if err != nil {
		return nil, err
	}
	device, err := newDevice(s, lim, cfg, opened)
	if err != nil {
		return nil, errors.Join(err, opened.close())
	}
	return device, nil
}

// newDevice makes a device on a card, which the device closes unless there is an error; without a
// card a dry one.
func newDevice(s *model.Spec, lim model.Limits, cfg Config, on *card) (*Device, error) {
	if err := checkSpec(s); err != nil {
		return nil, err
	}
	if err := lim.Check(s); err != nil {
		return nil, fmt.Errorf("cuda: %w", err)
	}
	lim.Depth = max(lim.Depth, 1)
	device := &Device{spec: s, lim: lim, cfg: cfg, card: on, types: map[tensor.DType]int64{}, needs: map[string]bool{}}
	device.windows, device.groupOf = s.Groups()
	device.heads = headShape{heads: s.Heads, kvHeads: s.KVHeads, dim: s.HeadDim, blockSize: lim.BlockSize}
	device.queue = newQueue(nil, 0)
	if on != nil {
		defer on.enter()()
		device.memory.drv = on.drv
		if err := device.openQueue(); err != nil {
			return nil, err
		}
	}
	if err := device.reserve(); err != nil {
		return nil, errors.Join(err, device.free())
	}
	return device, nil
}

// openQueue gives the device a stream, its own or that of the device beside it with what is loaded there.
func (d *Device) openQueue() error {
	if d.cfg.Beside != nil {
		shared := *d.cfg.Beside.queue
		shared.err = nil
		d.queue = &shared
		return nil
	}
	stream, err := d.card.drv.StreamCreate()
	if err != nil {
		return fmt.Errorf("cuda: %w", err)
	}
	d.queue = newQueue(d.card.drv, stream)
	d.queue.blocking, d.queue.hopper = d.cfg.Blocking, d.card.hopper()
	return nil
}

// reserve takes all memory that a step needs beside buffers: no operation of a model allocates.
func (d *Device) reserve() (err error) {
	if err = d.reserveKV(); err != nil {
		return err
	}
	if d.attendScratch, err = d.memory.card(int64(d.heads.attendScratch(d.lim.MaxSeqs, d.lim.MaxLen))); err != nil {
		return err
	}
	if d.sampler, err = newSampler(d.memory.card, d.memory.host, d.spec.Vocab, d.lim); err != nil {
		return fmt.Errorf("cuda: model %s: %w", d.spec.Name, err)
	}
	if err = d.reserveExperts(); err != nil {
		return err
	}
	d.angles = newAngles(d.spec)
	return d.flights.reserve(d)
}

// Preload has the driver compile what the model needs, which takes it some seconds the first time.
// Otherwise that happens as kernels are first launched, while a request waits.
func (d *Device) Preload() error {
	defer d.card.enter()()
	attend := attendKernels[d.heads.padded()][0]
	if d.cfg.KV == tensor.F8_E4M3 {
		attend = attendKernels[d.heads.padded()][1]
	}
	names := []string{"add_norm", "rotate_store", attend.few, "attend_merge", "sample_peak"}
	if d.spec.FFN.Experts > 0 {
		names = append(names, "route", "experts_plan")
	}
	if d.cfg.Beside != nil {
		names = append(names, "join_float")
	}
	for _, name := range slices.Sorted(maps.Keys(d.needs)) {
		names = append(names, name)
		// That is the smallest tile, as "linear_bf16_8". Hopper has modules of its own for many tokens.
		wide := "wgmma_" + strings.TrimSuffix(name, "8") + "128"
		if _, err := kernels.Find(wide); err == nil && d.queue.hopper {
			names = append(names, wide)
		}
	}
	for _, name := range names {
		if _, err := d.queue.function(name); err != nil {
			return fmt.Errorf("cuda: kernel %s: %w", name, err)
		}
	}
	return nil
}

// Name implements model.Device: "cuda/sm90", "cuda/sm80 emulated".
func (d *Device) Name() string {
	if d.card == nil {
		return "cuda"
	}
	name := fmt.Sprintf("cuda/sm%d%d", d.card.about.Major, d.card.about.Minor)
	if d.card.drv.Name == emulatorName {
		name += " emulated"
	}
	return name
}

// emulatorName is what the emulator calls itself.
const emulatorName = "emulator"

// Close implements model.Device: it waits for the card and frees everything.
func (d *Device) Close() error {
	if d.card == nil {
		return nil
	}
	// A step was begun and given up. This comes before enter: what Begin has locked counts for the
	// goroutine that unlocks, which may be another one and would lose the thread it is about to need.
	if d.inStep != nil {
		d.inStep()
		d.inStep = nil
	}
	defer d.card.enter()()
	err := d.free()
	closed := d.card.close()
	d.card = nil
	return errors.Join(err, closed)
}

// free waits for the card and gives back all but its context. An error of kernels that nobody has
// waited for is told here.
func (d *Device) free() error {
	if d.card == nil {
		return nil
	}
	err := errors.Join(d.card.drv.StreamSync(d.queue.stream), d.flights.close(d), d.stage.close(d), d.memory.close())
	if d.cfg.Beside != nil {
		return err // the stream and what is loaded are of the other device
	}
	return errors.Join(err, d.queue.close(), d.card.drv.StreamDestroy(d.queue.stream))
}

// vector returns where a norm, bias or sink lies, 0 for none.
func vector(w model.Weight) driver.Ptr {
	p, ok := w.(*weight)
	if !ok {
		return 0
	}
	return p.vector
}
