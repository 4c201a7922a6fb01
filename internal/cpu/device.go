package cpu

import (
	"errors"
	"fmt"

	"ossian/internal/cpu/kern"
	"ossian/internal/model"
	"ossian/internal/sample"
	"ossian/internal/tensor"
)

// A Device executes one model.Spec; see model.Device. It is used by one
// goroutine. An operation has finished when its method returns.
type Device struct {
	spec *model.Spec
	lim  model.Limits
	cfg  Config
	opt  kern.Options
	pool *kern.Pool

	windows []int // [group] attention window
	groupOf []int // [layer] KV group
	mem     arena // of buffers, pools and vectors

	weights []*weight
	mapped  int              // matrices taken from Config.Packed so far
	seen    func(packedPart) // is told of matrices that are packed; nil = nobody
	used    Memory           // Activations and vectors left out
	halves  int              // floats of the results of two matrices before they are one
	vectors int64            // bytes of all norms, biases and sinks

	kv      []layerKV // [layer]
	step    step      // from Begin to End
	results results   // from End to Wait
	acts    kern.Acts
	actsOf  *buf   // what acts holds, as of
	epoch   uint64 // this write
	attn    attention
	last    *weight // multiplied last
	lastTo  *buf    // where its results are
	owed    owed    // a product that waits for its gate
	experts experts
	workers []scratch // [worker]; a chunk touches that of its worker only

	op  operands
	run bound
}

// scratch is the private memory of a worker.
type scratch struct {
	queries []float32  // [tile queries, HeadDim] scaled
	scores  []float32  // [tile queries, splitKeys]
	scales  []float32  // [2, splitKeys] of keys, of values; nil if they have none
	pieces  []float32  // [2] pieces of a tile: those merged so far, the newest
	then    pieceStart // what will probably be read after the piece at hand
	history []int32    // [MaxLen]
	sampler sample.Sampler
	packing packing
}

// operands are the arguments of the operation that the pool is running: chunks
// read them here because a closure for each call would be garbage in each step.
type operands struct {
	rows, per     int     // rows in all, rows in a chunk
	from          int     // the first of step.wanted, or of the columns that are written
	picks         []int32 // rows of x; nil = each
	f             func(worker, row int)
	dst, x, y, z  *buf
	w, w2         []float32
	layer, splits int
	table         *weight
}

// bound are the bodies of the operations as function values, made once.
type bound struct {
	chunk                                           func(worker, chunk int)
	embed, norm, glu, rotate, store, route, combine func(worker, row int)
	pick, sample, angles, join                      func(worker, row int)
	attend, attendSplit, attendMerge                func(worker, chunk int)
	gate                                            func(dst, pairs []float32)
}

// A buf is an activation buffer, [cap, width] float32.
type buf struct {
	x     []float32
	width int
	rows  int    // rows that the last operation wrote
	epoch uint64 // changes with every write
	owed  *owed  // what has to be computed before anybody looks at x or writes it; nil = nothing
}

func (b *buf) row(i int) []float32 { return b.x[i*b.width:][:b.width:b.width] }

// wrote records that an operation filled the first rows.
func (b *buf) wrote(rows int) {
	b.rows = rows
	b.epoch++
}

// New returns a device for s. It reserves every buffer and KV pool; memory is
// taken as it is first touched. Footprint says how much that will be.
func New(s *model.Spec, lim model.Limits, cfg Config) (*Device, error) {
	device, err := newDevice(s, lim, cfg, false)
	if err != nil {
		return nil, err
	}
	device.pool = kern.NewPool(device.cfg.Threads)
	return device, nil
}

// newDevice makes a device without workers; a dry one only counts its memory.
func newDevice(s *model.Spec, lim model.Limits, cfg Config, dry bool) (*Device, error) {
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("cpu: model %s: %w", s.Name, err)
	}
	cfg, opt, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	if err := lim.Check(s); err != nil {
		return nil, fmt.Errorf("cpu: %w", err)
	}
	lim.Depth = max(lim.Depth, 1)
	device := &Device{spec: s, lim: lim, cfg: cfg, opt: opt, mem: arena{dry: dry}}
	device.windows, device.groupOf = s.Groups()
	device.bind()
	if err := device.reserve(); err != nil {
		return nil, errors.Join(err, device.mem.close())
	}
	return device, nil
}

// bind makes the function values of d.run.
func (d *Device) bind() {
	d.run = bound{
		chunk: d.chunk, embed: d.embedRow, norm: d.normRow, glu: d.gluRow, rotate: d.rotateRow, store: d.storeRow,
		route: d.routeRow, combine: d.combineRow, pick: d.pickRow, sample: d.sampleRow, angles: d.anglesRow, join: d.joinRow,
		attend: d.attendTile, attendSplit: d.attendSplit, attendMerge: d.attendMerge,
		gate: d.gate,
	}
}

// reserve takes all memory that a step needs: no operation allocates.
func (d *Device) reserve() error {
	spec := d.spec
	queries := d.tileTokens() * d.group()
	d.workers = make([]scratch, d.cfg.Threads) // as many as there may ever be: Choose only lowers Threads
	for i := range d.workers {
		mem := &d.workers[i]
		mem.sampler.Weights = d.weighIDs
		var errs [6]error
		mem.queries, errs[0] = carve[float32](&d.mem, queries*spec.HeadDim)
		mem.scores, errs[1] = carve[float32](&d.mem, queries*splitKeys)
		mem.pieces, errs[2] = carve[float32](&d.mem, 2*d.tileTokens()*d.pieceLen())
		mem.history, errs[3] = carve[int32](&d.mem, d.lim.MaxLen)
		if d.cfg.KV == tensor.F8_E4M3 {
			mem.scales, errs[4] = carve[float32](&d.mem, 2*splitKeys)
		}
		errs[5] = mem.packing.reserve(d)
		if err := errors.Join(errs[:]...); err != nil {
			return err
		}
	}
	d.results.reserve(d.lim)
	return errors.Join(d.reserveKV(), d.step.reserve(spec, d.lim, d.tileTokens(), &d.mem), d.attn.reserve(d), d.experts.reserve(d))
}

// Name implements model.Device: "cpu/avx512", "cpu/go exact", "cpu/avx2 8-bit".
func (d *Device) Name() string {
	name := "cpu/" + d.opt.Level.String()
	switch {
	case d.cfg.Exact:
		name += " exact"
	case d.cfg.Activations != 0:
		name += fmt.Sprintf(" %d-bit", d.cfg.Activations)
	}
	if d.cfg.Weights != "auto" {
		name += " " + d.cfg.Weights + " weights"
	}
	return name
}

// Alloc implements model.Device: rows of each buffer lie apart.
func (d *Device) Alloc(rows int, widths ...int) (all []model.Buf, err error) {
	for _, width := range widths {
		data, err := carve[float32](&d.mem, rows*width)
		if err != nil {
			return nil, err
		}
		all = append(all, &buf{x: data, width: width})
	}
	return all, nil
}

// Beside implements model.Device: products of several matrices are several products.
func (d *Device) Beside([]tensor.Tensor, model.Use) error { return nil }

// Close implements model.Device: it ends the workers and frees all memory.
func (d *Device) Close() error {
	if d.pool != nil {
		d.pool.Close()
	}
	for _, weight := range d.weights {
		weight.close()
	}
	d.weights = nil
	return d.mem.close()
}

// each runs f for the rows 0..rows-1, whose elements number width; f must be one
// of d.run. Chunks are large enough to outweigh the pool's counters.
func (d *Device) each(rows, width int, f func(worker, row int)) {
	d.op.rows, d.op.per, d.op.f = rows, max(1, chunkElems/width), f
	d.pool.Run((rows+d.op.per-1)/d.op.per, d.run.chunk)
}

// chunkElems is the size of a chunk of an elementwise operation, about 1 µs of work.
const chunkElems = 8192

// chunk runs d.op.f for the rows of a chunk.
func (d *Device) chunk(worker, chunk int) {
	first := chunk * d.op.per
	for i := first; i < min(first+d.op.per, d.op.rows); i++ {
		d.op.f(worker, i)
	}
}

// at returns the buffer behind b, nil for none.
func at(b model.Buf) *buf {
	p, _ := b.(*buf)
	if p != nil && p.owed != nil {
		p.owed.settle()
	}
	return p
}

// vector returns the elements of a norm, bias or sink, nil for none.
func vector(w model.Weight) []float32 {
	p, ok := w.(*weight)
	if !ok {
		return nil
	}
	return p.vector
}
