package cuda

import (
	"fmt"
	"math/bits"
	"unsafe"

	"ossian/internal/cuda/driver"
	"ossian/internal/model"
	"ossian/internal/runner"
	"ossian/internal/sample"
)

// Sampling on the card. A sampler belongs to one device and is called in this order, once per step
// where nothing else is said:
//
//	newSampler   once: takes memory of the card and of the host
//	begin        plans a batch; returns how many bytes of the step's one pinned block it needs, at
//	             most blockBytes
//	pack         fills them, knowing where they will lie on the card; takes the pinned memory of
//	             resultBytes that end copies to
//	             (the block is copied to the card by the caller)
//	resolve      gives the kernel that puts ids into the place of pending ones in the step's tokens
//	sample       any number of times, without gaps: gives the kernels that choose and score
//	end          gives the copy of what they found to the host
//	results      after the caller has waited for that copy: what the oldest ended step found
//
// A step that begin has refused does not exist; one that is begun and packed ends with end.
//
// The card chooses exactly the ids of sample.Pick and finds exactly the scores of sample.Score:
// sums of weights are sums of integers, and the exponentials of log probabilities are added in
// the order that sample.NewSoftmax states. What is cheap and once per row is done here, in Go: random
// numbers, limits of weights, logarithms.

// Sizes that internal/cuda/kernels/sample.cu has as well.
const (
	sampleThreads    = 256
	sampleTile       = 8 * sampleThreads // ids of a block
	sampleDigit      = 11                // bits that a pass of a selection fixes at most
	sampleRowBytes   = 88                // what kernels know of a row while they work on it
	sampleRuns       = 32                // runs of a block of sample_score
	samplePending    = 64                // ids of a row that the host may not know
	sampleWeightBits = 45                // of the key of a weight, above the id
	sampleMaxIDBits  = 18
)

// sampleRows is how many rows of logits one round of kernels takes: enough to fill any card, few
// enough to keep their histograms in two megabytes.
const sampleRows = 64

// Kinds of selections, of which sample_peak knows the first and the last.
const (
	byLogit  = iota // the top-k largest logits after mask, bias and penalties
	byWeight        // the largest weights that weigh top-p together
	byRaw           // the most likely ids, before mask, bias and penalties
)

// sampleArgs are those of all kernels but sample_resolve.
type sampleArgs struct {
	Logits, Outputs, Rows, Counts, Masses, Sums, Runs, Powers, Ring, Tops, Records, Extra driver.Ptr

	Stride, Vocab, IDBits, Kind, Width, Rest int32
}

// resolveArgs are those of sample_resolve.
type resolveArgs struct {
	Tokens, Pos, Row, Slot, Ring driver.Ptr

	Count, Depth int32
}

// A sampleOutput is what one row of logits is for.
type sampleOutput struct {
	Random          uint64
	Scale, Reach    float64 // sample.Params.Weighing
	Octave          float64 // how far apart logits are of which one weighs twice the other
	Least           uint64
	Mask, List      int64 // offsets into the memory of masks and lists, -1 = none
	Listed, Pending int32
	TopK            int32
	TopP            float32
	Repetition      float32 // 0 = none
	Frequency       float32
	Presence        float32
	Target          int32 // id to be scored, -1 = one is sampled
	Flags           uint32
	Remember        int32 // index of the ring, where the id that is sampled is kept
	Top, TopAt      int32 // how many of the most likely ids are listed, and where
}

// Flags of a sampleOutput.
const (
	sampleGreedy uint32 = 1 << iota // the largest logit is taken
	sampleScored                    // total, rank and the most likely ids are wanted
)

// A sampleEntry is what bias and penalties do to one id.
type sampleEntry struct {
	ID    int32  // or an index of the ring
	Count uint32 // occurrences in the output, and entrySeen
	Bias  float32
	Raw   float32 // the card keeps the logit here
}

// entrySeen marks ids of the history in Count.
const entrySeen = 1 << 31

// A sampleRecord is what the card says of one row of logits.
type sampleRecord struct {
	Total       float64 // sum of exp(logit - best)
	Best, Logit float32 // the largest, that of the id; both before mask, bias and penalties
	ID, Rank    int32   // Rank where a target was given
}

// A sampler chooses and scores ids on the card.
type sampler struct {
	vocab, idBits int
	lim           model.Limits
	mem           sampleMemory
	primed        bool // the parts of the memory that need it have their first contents

	// The ids that each slot sampled last, by position: slot·depth + position mod depth. They stand
	// for ids that the host does not know yet. The ids are on the card, here are the positions.
	known []int32 // -1 = none
	depth int

	plan    samplePlan
	flights []sampleFlight // in a ring
	head    int            // the oldest ended one
	queued  int            // how many are ended
}

// sampleMemory is what a sampler has on the card. The stream orders its users.
type sampleMemory struct {
	card func(bytes int64) (driver.Ptr, error)
	host func(bytes int) ([]byte, error)

	rows, counts, masses, sums, runs driver.Ptr // of sampleRows rows
	powers                           driver.Ptr
	ring                             driver.Ptr // int32 [slots][depth], then for each of sampleRows rows an id that is not remembered
	records                          driver.Ptr // [rows of a step]

	// These grow with what steps ask for. What they outgrow is freed with everything else: together
	// it is no more than what is used.
	extra, tops           driver.Ptr // lists and masks; ranks of the most likely ids
	extraBytes, topsBytes int
}

// newSampler takes the memory of a sampler: card and host give what the device's plan counts. Lists
// of penalties and biases, masks and lists of the most likely ids take more when they are first used.
func newSampler(card func(bytes int64) (driver.Ptr, error), host func(bytes int) ([]byte, error), vocab int, lim model.Limits) (*sampler, error) {
	s := &sampler{vocab: vocab, idBits: bits.Len(uint(vocab - 1)), lim: lim, depth: lim.Depth + 1}
	if vocab < 1 || s.idBits > sampleMaxIDBits {
		return nil, fmt.Errorf("vocabulary of %d ids, the card samples from 1 to %d; use --device cpu for this model", vocab, 1<<sampleMaxIDBits)
	}
	if s.depth+1 > samplePending {
		return nil, fmt.Errorf("depth %d, the card penalizes at most %d ids that the host does not know; lower the depth", lim.Depth, samplePending-2)
	}
	s.known = make([]int32, lim.MaxSeqs*s.depth)
	for i := range s.known {
		s.known[i] = -1
	}
	s.plan.counts = make([]uint32, vocab)
	s.flights = make([]sampleFlight, s.depth)
	for i := range s.flights {
		s.flights[i].reserve(lim)
	}
	s.mem.card, s.mem.host = card, host
	rows := min(sampleRows, s.maxOutputs())
	for _, part := range []struct {
		at    *driver.Ptr
		bytes int
	}{
		{&s.mem.rows, rows * sampleRowBytes},
		{&s.mem.counts, rows * 4 << sampleDigit},
		{&s.mem.masses, rows * 8 << sampleDigit},
		{&s.mem.sums, rows * 8 * s.tiles()},
		{&s.mem.runs, rows * 8 * s.runs()},
		{&s.mem.powers, int(unsafe.Sizeof(sample.Powers()))},
		{&s.mem.ring, (len(s.known) + sampleRows) * 4},
		{&s.mem.records, s.resultBytes()},
	} {
		var err error
		if *part.at, err = card(int64(part.bytes)); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// maxOutputs is how many rows of logits a step may have.
func (s *sampler) maxOutputs() int { return s.lim.MaxTokens + s.lim.MaxSeqs }

// tiles and runs cover the vocabulary.
func (s *sampler) tiles() int { return (s.vocab + sampleTile - 1) / sampleTile }
func (s *sampler) runs() int  { return (s.vocab + sample.Run - 1) / sample.Run }

// blockBytes is how much of a step's pinned block begin asks for at most.
func (s *sampler) blockBytes() int { return s.maxOutputs() * int(unsafe.Sizeof(sampleOutput{})) }

// resultBytes is how much pinned memory pack has to be given.
func (s *sampler) resultBytes() int { return s.maxOutputs() * int(unsafe.Sizeof(sampleRecord{})) }

// sampled reports whether the card knows the id that slot sampled for a position.
func (s *sampler) sampled(slot, pos int) bool {
	return s.known[slot*s.depth+pos%s.depth] == int32(pos)
}

// resolve puts ids into the place of the pending ones among the step's count tokens. The arrays are
// int32: positions and rows (in the batch) of tokens, slots of rows.
func (s *sampler) resolve(q *queue, tokens, pos, row, slot driver.Ptr, count int) {
	s.prime(q)
	flight := s.next()
	if q.err == nil && s.plan.extra > 0 {
		if err := q.drv.CopyToAsync(s.mem.extra, flight.extra[:s.plan.extra], q.stream); err != nil {
			q.err = fmt.Errorf("copy of penalties and masks: %w", err)
		}
	}
	if s.plan.pending {
		launch(q, "sample_resolve", driver.Dim3{X: uint32((count + sampleThreads - 1) / sampleThreads), Y: 1, Z: 1}, sampleThreads, 0,
			&resolveArgs{Tokens: tokens, Pos: pos, Row: row, Slot: slot, Ring: s.mem.ring, Count: int32(count), Depth: int32(s.depth)})
	}
}

// prime gives memory its first contents, with the first step.
func (s *sampler) prime(q *queue) {
	if q.err != nil || s.primed {
		return
	}
	rows := uint64(min(sampleRows, s.maxOutputs()))
	powers := sample.Powers()
	err := q.drv.CopyToDevice(s.mem.powers, unsafe.Slice((*byte)(unsafe.Pointer(&powers)), unsafe.Sizeof(powers)))
	if err == nil {
		err = q.drv.SetAsync(s.mem.counts, 0, rows*4<<sampleDigit, q.stream)
	}
	if err == nil {
		err = q.drv.SetAsync(s.mem.masses, 0, rows*8<<sampleDigit, q.stream)
	}
	if err != nil {
		q.err = fmt.Errorf("memory of sampling: %w", err)
	}
	s.primed = err == nil
}

// sample chooses and scores ids by logits of so many ids, all or, of a head, the first ones, which are of
// the outputs of the step from that one on: row after row of the batch, in a row the targets first, guesses
// in their order. Logits are changed and changed back.
func (s *sampler) sample(q *queue, logits floatRows, ids, from, rows int) {
	flight := s.next()
	outputs := flight.outputs
	rows = min(rows, len(outputs)-from)
	if from > flight.done && q.err == nil {
		q.err = fmt.Errorf("logits from %d sampled where %d were next: a step samples them in order", from, flight.done)
	}
	for at := from; at < from+rows; at += sampleRows {
		n := min(sampleRows, from+rows-at)
		args := sampleArgs{Logits: logits.at + driver.Ptr((at-from)*logits.stride*4), Stride: int32(logits.stride), Vocab: int32(ids), IDBits: int32(s.idBits),
			Outputs: s.plan.at + driver.Ptr(at*int(unsafe.Sizeof(sampleOutput{}))), Records: s.mem.records + driver.Ptr(at*int(unsafe.Sizeof(sampleRecord{}))),
			Rows: s.mem.rows, Counts: s.mem.counts, Masses: s.mem.masses, Sums: s.mem.sums, Runs: s.mem.runs,
			Powers: s.mem.powers, Ring: s.mem.ring, Tops: s.mem.tops, Extra: s.mem.extra}
		s.round(q, args, outputs[at:at+n])
	}
	for i := from; i < from+rows; i++ {
		if out := &outputs[i]; out.next > 0 {
			s.known[out.slot*s.depth+out.next%s.depth] = int32(out.next)
		}
	}
	flight.done = max(flight.done, from+rows)
}

// round gives the kernels for at most sampleRows rows, without those that none of them needs.
func (s *sampler) round(q *queue, args sampleArgs, outputs []sampleWanted) {
	if q.err == nil {
		if err := q.drv.SetAsync(args.Rows, 0, uint64(len(outputs)*sampleRowBytes), q.stream); err != nil {
			q.err = fmt.Errorf("memory of sampling: %w", err)
		}
	}
	var needs sampleNeeds
	for i := range outputs {
		needs |= outputs[i].needs
	}
	rows := uint32(len(outputs))
	tiles := driver.Dim3{X: ceilDiv(int(args.Vocab), sampleTile), Y: rows, Z: 1}
	each := driver.Dim3{X: rows, Y: 1, Z: 1}
	if needs&needScores != 0 {
		args.Kind = byRaw
		launch(q, "sample_peak", tiles, sampleThreads, 0, &args)
		launch(q, "sample_score", driver.Dim3{X: ceilDiv(int(args.Vocab), sample.Run*sampleRuns), Y: rows, Z: 1}, sampleThreads, 0, &args)
	}
	if needs&needTop != 0 {
		s.choose(q, args, byRaw, 32+s.idBits, tiles)
		launch(q, "sample_top", tiles, sampleThreads, 0, &args)
	}
	args.Kind = byLogit
	if needs&needAdjust != 0 {
		launch(q, "sample_adjust", each, sampleThreads, 0, &args)
	}
	if needs&needSample != 0 {
		launch(q, "sample_peak", tiles, sampleThreads, 0, &args)
	}
	if needs&needTopK != 0 {
		s.choose(q, args, byLogit, 32+s.idBits, tiles)
	}
	if needs&needTopP != 0 {
		s.choose(q, args, byWeight, sampleWeightBits+s.idBits, tiles)
	}
	if needs&needDraw != 0 {
		launch(q, "sample_draw", tiles, sampleThreads, 0, &args)
	}
	launch(q, "sample_finish", each, sampleThreads, 0, &args)
}

// choose gives the passes of a selection by keys of that many bits.
func (s *sampler) choose(q *queue, args sampleArgs, kind int32, keyBits int, tiles driver.Dim3) {
	args.Kind = kind
	for args.Rest = int32(keyBits); args.Rest > 0; {
		args.Width = min(args.Rest, sampleDigit)
		args.Rest -= args.Width
		launch(q, "sample_select", tiles, sampleThreads, 0, &args)
	}
}

// end gives the copy of what the step found.
func (s *sampler) end(q *queue) {
	flight := s.next()
	bytes := flight.done * int(unsafe.Sizeof(sampleRecord{}))
	if q.err == nil && bytes > 0 {
		if err := q.drv.CopyFromAsync(flight.records[:bytes], s.mem.records, q.stream); err != nil {
			q.err = fmt.Errorf("copy of sampled ids: %w", err)
		}
	}
	// Ranks of the most likely ids lie in the order of outputs.
	flight.ranked = 0
	for i := range flight.outputs[:flight.done] {
		flight.ranked += flight.outputs[i].top
	}
	if q.err == nil && flight.ranked > 0 {
		if err := q.drv.CopyFromAsync(flight.tops[:flight.ranked*8], s.mem.tops, q.stream); err != nil {
			q.err = fmt.Errorf("copy of likely ids: %w", err)
		}
	}
	s.queued++
}

// next is the flight of the step at hand.
func (s *sampler) next() *sampleFlight { return &s.flights[(s.head+s.queued)%len(s.flights)] }

// results returns what the oldest ended step found, valid until the next call. Its copies must have ended.
func (s *sampler) results() *runner.Result {
	flight := &s.flights[s.head]
	s.head, s.queued = (s.head+1)%len(s.flights), s.queued-1
	return flight.collect()
}
