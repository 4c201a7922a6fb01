package cuda

import (
	"errors"
	"fmt"
	"math"

	"time"
	"unsafe"

	"ossian/internal/cuda/driver"
	"ossian/internal/model"
	"ossian/internal/runner"
)

// A step is the batch being executed.
type step struct {
	arrays stepArrays
	rows   int        // R
	wanted int        // tokens whose logits are wanted
	picks  driver.Ptr // int32 [wanted]: index of each among the step's tokens
	work   attendWork
	packed packer // of the flight's block

	indexed []int32    // what Join has named last, nil = nothing
	index   driver.Ptr // where the card has it
}

// A flight is the memory of a step between Begin and the Wait behind its own: a pinned block that
// is copied to the card at once, and the results that come back. Free → begun → ended → handed
// out by Wait → free with the next Wait.
type flight struct {
	block   []byte // pinned
	results []byte // pinned
	done    driver.Event
	began   time.Time
	tokens  int
}

// flights are Depth+1 flights in a ring, so that what Wait has handed out stays while Depth others
// are under way.
type flights struct {
	ring         []flight
	head, queued int        // the oldest ended one; how many are ended
	block        driver.Ptr // the card's copy of the block of the step at hand: the stream orders its users
	collected    time.Time  // when the last step was
}

// reserve takes the memory of flights.
func (f *flights) reserve(d *Device) (err error) {
	bytes := d.blockBytes()
	if f.block, err = d.memory.card(int64(bytes)); err != nil {
		return err
	}
	f.ring = make([]flight, d.lim.Depth+1)
	for i := range f.ring {
		flight := &f.ring[i]
		if flight.block, err = d.memory.host(bytes); err != nil {
			return err
		}
		if flight.results, err = d.memory.host(d.sampler.resultBytes()); err != nil {
			return err
		}
		if d.card == nil {
			continue
		}
		if flight.done, err = d.card.drv.EventCreate(false); err != nil {
			return fmt.Errorf("cuda: %w", err)
		}
	}
	return nil
}

// close destroys the events.
func (f *flights) close(d *Device) (first error) {
	for i := range f.ring {
		if f.ring[i].done == 0 {
			continue
		}
		if err := d.card.drv.EventDestroy(f.ring[i].done); err != nil && first == nil {
			first = err
		}
		f.ring[i].done = 0
	}
	return first
}

// next is the flight of the step at hand.
func (f *flights) next() *flight { return &f.ring[(f.head+f.queued)%len(f.ring)] }

// A packer lays arrays into a pinned block one after another, each at a multiple of packUnit
// bytes, and knows where they will lie on the card.
type packer struct {
	host []byte
	card driver.Ptr
	used int
}

const packUnit = 256 // as memory of the card is aligned

// array returns room for n elements, and where that will be on the card.
func array[T byte | int32 | float32 | attendTile](p *packer, n int) ([]T, driver.Ptr) {
	at, size := p.used, n*int(unsafe.Sizeof(*new(T)))
	p.used += (size + packUnit - 1) / packUnit * packUnit
	if n == 0 {
		return nil, 0
	}
	room := p.host[at : at+size] // beyond the block it panics: a promise of blockBytes was broken
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(room))), n), p.card + driver.Ptr(at)
}

// blocksOf returns how many blocks n tokens take.
func (d *Device) blocksOf(n int) int { return (n + d.lim.BlockSize - 1) / d.lim.BlockSize }

// blockBytes is what the largest step packs.
func (d *Device) blockBytes() int {
	tokens, rows := 4*d.lim.MaxTokens, 4*d.lim.MaxSeqs                                                              // bytes of an array of one number for each
	arrays := []int{tokens, tokens, tokens, tokens * d.spec.HeadDim, rows, rows, rows, rows, tokens + rows, tokens, // the last for Join
		8 * d.heads.mostTiles(d.lim.MaxSeqs, d.lim.MaxTokens), d.sampler.blockBytes()}
	for range d.windows {
		arrays = append(arrays, rows*d.blocksOf(d.lim.MaxLen))
	}
	total := 0
	for _, size := range arrays {
		total += (size + packUnit - 1) / packUnit * packUnit
	}
	return total
}

// Begin implements model.Device. It refuses what would read or write outside the device's memory;
// runner.Check finds more.
func (d *Device) Begin(batch *runner.Batch) error {
	if d.flights.queued == d.lim.Depth {
		return fmt.Errorf("cuda: %d steps await collection, depth is %d", d.flights.queued, d.lim.Depth)
	}
	if d.inStep != nil {
		return errors.New("cuda: a step is begun and has not ended")
	}
	if err := d.check(batch); err != nil {
		return fmt.Errorf("cuda: %w", err)
	}
	leave := d.card.enter()
	d.waiting = nil         // of a step that was given up
	err := d.stage.close(d) // the model is loaded
	if err == nil {
		err = d.pack(batch)
	}
	if err != nil {
		leave()
		return err
	}
	d.inStep = leave
	return nil
}

// pack fills the pinned block of a step and has it copied.
func (d *Device) pack(batch *runner.Batch) error {
	flight := d.flights.next()
	flight.began, flight.tokens = time.Now(), len(batch.Tokens)
	sampling, err := d.sampler.begin(batch)
	if err != nil {
		return fmt.Errorf("cuda: %w", err)
	}
	d.step.packed, d.step.indexed = packer{host: flight.block, card: d.flights.block}, nil
	p := &d.step.packed
	start, length := d.packRows(p, batch)
	d.packTables(p, batch)
	d.packTiles(p, start, length)
	block, blockAt := array[byte](p, sampling)
	d.sampler.pack(batch, block, blockAt, flight.results)
	if d.queue.err == nil {
		d.queue.fail(d.card.drv.CopyToAsync(d.flights.block, flight.block[:p.used], d.queue.stream))
	}
	arrays := &d.step.arrays
	d.sampler.resolve(d.queue, arrays.tokens, arrays.pos, arrays.row, arrays.slot, arrays.count)
	if d.queue.err != nil {
		return fmt.Errorf("cuda: %w", d.queue.err)
	}
	return nil
}

// packRows packs what there is for each token and for each row, and returns where rows start and
// how long they are.
func (d *Device) packRows(p *packer, batch *runner.Batch) (start, length []int32) {
	step, arrays := &d.step, &d.step.arrays
	arrays.count, step.rows, step.wanted = len(batch.Tokens), len(batch.Rows), 0
	var tokens, pos, row, first, slot []int32
	var turn []float32
	tokens, arrays.tokens = array[int32](p, arrays.count)
	pos, arrays.pos = array[int32](p, arrays.count)
	row, arrays.row = array[int32](p, arrays.count)
	turn, arrays.turn = array[float32](p, arrays.count*d.spec.HeadDim)
	first, arrays.first = array[int32](p, step.rows)
	start, arrays.start = array[int32](p, step.rows)
	length, arrays.len = array[int32](p, step.rows)
	slot, arrays.slot = array[int32](p, step.rows)
	copy(tokens, batch.Tokens)
	token := 0
	for i := range batch.Rows {
		r := &batch.Rows[i]
		first[i], start[i], length[i], slot[i] = int32(token), int32(r.Start), int32(r.Len), int32(r.Slot)
		for k := range r.Len {
			pos[token], row[token] = int32(r.Start+k), int32(i)
			copy(turn[token*d.spec.HeadDim:], d.angles.at(r.Start+k))
			token++
		}
		step.wanted += len(r.Targets)
		if r.Sample {
			step.wanted += 1 + r.Guessed
		}
	}
	// As model.Device orders them: row after row, in a row the targets first.
	var picks []int32
	picks, step.picks = array[int32](p, step.wanted)
	picks = picks[:0]
	for i := range batch.Rows {
		r := &batch.Rows[i]
		for k := range r.Targets {
			picks = append(picks, first[i]+int32(k))
		}
		for k := r.Len - 1 - r.Guessed; r.Sample && k < r.Len; k++ {
			picks = append(picks, first[i]+int32(k))
		}
	}
	return start, length
}

// packTables packs the block tables of each KV group, as wide as the longest sequence of the step
// needs them.
func (d *Device) packTables(p *packer, batch *runner.Batch) {
	stride := 1
	for i := range batch.Rows {
		stride = max(stride, d.blocksOf(batch.Rows[i].Start+batch.Rows[i].Len))
	}
	arrays := &d.step.arrays
	arrays.tables = arrays.tables[:0]
	for group := range d.windows {
		tables, tablesAt := array[int32](p, len(batch.Rows)*stride)
		arrays.tables = append(arrays.tables, blockTable{ids: tablesAt, stride: stride})
		for i := range batch.Rows {
			r := &batch.Rows[i]
			line, blocks := tables[i*stride:][:stride], r.Tables[group][:d.blocksOf(r.Start+r.Len)]
			for k, id := range blocks {
				line[k] = int32(id)
			}
			for k := len(blocks); k < stride; k++ {
				line[k] = int32(runner.NoBlock)
			}
		}
	}
}

// packTiles cuts the attention of the step.
func (d *Device) packTiles(p *packer, start, length []int32) {
	arrays, work := &d.step.arrays, &d.step.work
	work.plan(&d.heads, start, length, d.windows)
	var tiles []attendTile
	tiles, arrays.tiles = array[attendTile](p, len(work.tiles))
	copy(tiles, work.tiles)
	arrays.work = work
}

// angles are cos and sin of positions, made in float64 (models.md 1.3) as positions are first met
// and kept by anglesPer neighbours.
type angles struct {
	inverse []float64 // [HeadDim/2] angle per position
	factor  float64   // on cos and sin
	dim     int
	made    map[int][]float32
}

// anglesPer is how many positions are made at once: a quarter of a millisecond for a head of 64.
const anglesPer = 256

func newAngles(s *model.Spec) angles {
	inverse, factor := model.Frequencies(s.RoPE, s.HeadDim)
	return angles{inverse: inverse, factor: factor, dim: s.HeadDim, made: map[int][]float32{}}
}

// at returns cos of each pair at a position, then sin, times the factor of the spec.
func (a *angles) at(pos int) []float32 {
	made, ok := a.made[pos/anglesPer]
	if !ok {
		made = make([]float32, anglesPer*a.dim)
		for i := range anglesPer {
			turn := made[i*a.dim:][:a.dim]
			for pair, inv := range a.inverse {
				sin, cos := math.Sincos(float64(pos-pos%anglesPer+i) * inv)
				turn[pair], turn[len(a.inverse)+pair] = float32(cos*a.factor), float32(sin*a.factor)
			}
		}
		a.made[pos/anglesPer] = made
	}
	return made[pos%anglesPer*a.dim:][:a.dim]
}

// End implements model.Device.
func (d *Device) End() error {
	if d.inStep == nil {
		return errors.New("cuda: no step has begun")
	}
	defer func() { d.inStep(); d.inStep = nil }()
	flight := d.flights.next()
	d.settle()
	d.sampler.end(d.queue)
	if d.queue.err == nil {
		d.queue.fail(d.card.drv.EventRecord(flight.done, d.queue.stream))
	}
	if d.queue.err != nil {
		return fmt.Errorf("cuda: %w", d.queue.err)
	}
	d.flights.queued++
	return nil
}

// Wait implements model.Device. The result is valid until the next Wait.
func (d *Device) Wait() (*runner.Result, error) {
	flights := &d.flights
	if flights.queued == 0 {
		return nil, errors.New("cuda: no ended step to wait for")
	}
	defer d.card.enter()()
	flight := &flights.ring[flights.head]
	flights.head, flights.queued = (flights.head+1)%len(flights.ring), flights.queued-1
	if err := d.card.drv.EventSync(flight.done); err != nil {
		d.queue.fail(fmt.Errorf("a step of %d tokens: %w; --device cuda with OSSIAN_CUDA_BLOCKING=1 names the kernel", flight.tokens, err))
		return nil, fmt.Errorf("cuda: %w", d.queue.err)
	}
	result := d.sampler.results()
	// Of steps that overlap the later one has taken from the end of the earlier one on.
	now := time.Now()
	began := flight.began
	if flights.collected.After(began) {
		began = flights.collected
	}
	result.Elapsed, flights.collected = now.Sub(began), now
	return result, nil
}
