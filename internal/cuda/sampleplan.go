package cuda

import (
	"fmt"
	"math"
	"unsafe"

	"ossian/internal/cuda/driver"
	"ossian/internal/runner"
	"ossian/internal/sample"
)

// A samplePlan is what the step at hand will ask the card for, in memory that is used again.
type samplePlan struct {
	outputs []sampleOutput
	entries []sampleEntry // of all lists
	pending bool          // some token is
	at      driver.Ptr    // outputs on the card
	extra   int           // bytes of lists and masks
	tops    int           // ids that are listed as the most likely ones

	// Scratch of the list of one row: occurrences by id, all zero between lists.
	counts []uint32
}

// sampleNeeds are kernels that a row of logits needs.
type sampleNeeds uint8

const (
	needScores sampleNeeds = 1 << iota // what the model said of all ids
	needTop                            // the most likely ids
	needAdjust
	needSample
	needTopK
	needTopP
	needDraw
)

// A sampleWanted is an output of a step as the host remembers it until it has the results.
type sampleWanted struct {
	row, token int // in the batch, among the row's new tokens
	sample     bool
	place      int   // how many guesses the row has up to it
	guess      int32 // the one behind it, -1 = none
	slot, next int   // where the id is remembered, and for which position; position 0 = it is not
	logprobs   bool
	top        int // most likely ids that are listed
	needs      sampleNeeds
}

// begin plans a step of a batch that has been checked but for its pending tokens. Nothing changes where it
// returns an error.
func (s *sampler) begin(batch *runner.Batch) (bytes int, err error) {
	plan, flight := &s.plan, s.next()
	plan.outputs, plan.entries, plan.pending, plan.extra, plan.tops = plan.outputs[:0], plan.entries[:0], false, 0, 0
	flight.begin(batch.Rows)
	tokens, masks := batch.Tokens, 0
	for i := range batch.Rows {
		row := &batch.Rows[i]
		own := tokens[:row.Len]
		tokens = tokens[row.Len:]
		if pos := row.Start + row.Len - 1; own[row.Len-1] == runner.Pending {
			if !s.sampled(row.Slot, pos) {
				return 0, fmt.Errorf("row %d: token of position %d is pending, slot %d sampled none for it", i, pos, row.Slot)
			}
			plan.pending = true
		}
		for k := range row.Targets {
			s.planTarget(flight, row, i, k)
		}
		for place := 0; row.Sample && place <= row.Guessed; place++ {
			s.planSample(flight, row, i, place, own)
			if ownMask(row, place) {
				masks++
			}
		}
	}
	plan.extra = len(plan.entries)*int(unsafe.Sizeof(sampleEntry{})) + masks*8*s.maskWords()
	return len(plan.outputs) * int(unsafe.Sizeof(sampleOutput{})), s.grow(flight)
}

// ownMask reports whether a place of a row has a mask that is not that of the place before it.
func ownMask(row *runner.Row, place int) bool {
	return row.MaskAt(place) != nil && (place == 0 || row.Masks != nil)
}

// maskWords is how many words the mask of a row has on the card.
func (s *sampler) maskWords() int { return (s.vocab + 63) / 64 }

// planTarget adds the output that scores target k of row i.
func (s *sampler) planTarget(flight *sampleFlight, row *runner.Row, i, k int) {
	out := sampleOutput{Mask: -1, List: -1, Target: row.Targets[k], Flags: sampleScored}
	wanted := sampleWanted{row: i, token: k, needs: needScores}
	s.planTop(&out, &wanted, row.Params.TopPromptLogprobs)
	s.plan.outputs, flight.outputs = append(s.plan.outputs, out), append(flight.outputs, wanted)
}

// planTop asks for the most likely ids.
func (s *sampler) planTop(out *sampleOutput, wanted *sampleWanted, top int) {
	wanted.top = max(min(top, s.vocab), 0)
	if wanted.top > 0 {
		wanted.needs |= needTop
	}
	out.Top, out.TopAt = int32(wanted.top), int32(s.plan.tops)
	s.plan.tops += wanted.top
}

// planSample adds the output that samples in a place of row i, of which tokens are new: behind the last
// known one of them, or behind a guess.
func (s *sampler) planSample(flight *sampleFlight, row *runner.Row, i, place int, tokens []int32) {
	params, tokens := row.Params, tokens[:row.Len-row.Guessed+place]
	pos := row.Start + len(tokens)
	out := sampleOutput{Mask: -1, List: -1, Target: -1, Remember: int32(row.Slot*s.depth + pos%s.depth)}
	wanted := sampleWanted{row: i, token: len(tokens) - 1, sample: true, place: place, guess: -1, slot: row.Slot, next: pos, needs: needSample}
	if row.Guessed > 0 {
		// Where its next token is the host knows before the next step, so nobody asks the card. What is drawn
		// goes where nothing else of a round does.
		out.Remember, wanted.next = int32(len(s.known)+len(flight.outputs)%sampleRows), 0
	}
	if place < row.Guessed {
		wanted.guess = tokens[:row.Len][len(tokens)]
	}
	if params.Temperature > 0 {
		out.Random = sample.Draw(params.Seed, row.OutputIndex+uint64(place))
		out.Scale, out.Reach, out.Least = params.Weighing()
		out.Octave = float64(params.Temperature) * math.Ln2
		wanted.needs |= needDraw
		if params.TopK > 0 && params.TopK < s.vocab {
			out.TopK = int32(params.TopK)
			wanted.needs |= needTopK
		}
		if params.TopP > 0 && params.TopP < 1 {
			out.TopP = params.TopP
			wanted.needs |= needTopP
		}
	} else {
		out.Flags |= sampleGreedy
	}
	if params.Logprobs {
		out.Flags |= sampleScored
		wanted.logprobs = true
		wanted.needs |= needScores
		s.planTop(&out, &wanted, params.TopLogprobs)
	}
	s.planList(&out, row, tokens)
	if out.Listed+out.Pending > 0 {
		wanted.needs |= needAdjust
	}
	s.plan.outputs, flight.outputs = append(s.plan.outputs, out), append(flight.outputs, wanted)
}

// planList adds the list of what bias and penalties do to ids, as sample.Pick does it with the history
// that a device has filled in: behind what the host knows come ids of steps under way, which
// the card has, then tokens of this step, guesses among them.
func (s *sampler) planList(out *sampleOutput, row *runner.Row, tokens []int32) {
	plan, params := &s.plan, row.Params
	first := len(plan.entries)
	for id, bias := range params.LogitBias {
		if uint(id) < uint(s.vocab) {
			plan.entries = append(plan.entries, sampleEntry{ID: id, Bias: bias})
		}
	}
	pending := [samplePending]sampleEntry{}
	if params.Penalizes() {
		out.Frequency, out.Presence = params.FrequencyPenalty, params.PresencePenalty
		if params.Repeats() {
			out.Repetition = params.RepetitionPenalty
		}
		biased := len(plan.entries)
		for pos, id := range row.History {
			s.count(id, pos >= params.Prompt)
		}
		for pos := len(row.History); pos < row.Start+len(tokens); pos++ {
			output := uint32(0)
			if pos >= params.Prompt {
				output = 1
			}
			if pos >= row.Start && tokens[pos-row.Start] != runner.Pending {
				s.count(tokens[pos-row.Start], output == 1)
				continue
			}
			if !s.sampled(row.Slot, pos) {
				break // the host chose to pass no history
			}
			pending[out.Pending] = sampleEntry{ID: int32(row.Slot*s.depth + pos%s.depth), Count: output}
			out.Pending++
		}
		s.counted(first, biased)
	}
	out.Listed = int32(len(plan.entries) - first)
	plan.entries = append(plan.entries, pending[:out.Pending]...)
	if len(plan.entries) > first {
		out.List = int64(first * int(unsafe.Sizeof(sampleEntry{})))
	}
}

// count counts an id of the history; the first time it gets an entry.
func (s *sampler) count(id int32, output bool) {
	if uint(id) >= uint(s.vocab) {
		return
	}
	counts := s.plan.counts
	if counts[id] == 0 {
		s.plan.entries = append(s.plan.entries, sampleEntry{ID: id})
	}
	counts[id] |= entrySeen
	if output {
		counts[id]++
	}
}

// counted moves the counts into the entries of the list that starts at first, in which those from
// biased on are of counted ids. An id has one entry afterwards.
func (s *sampler) counted(first, biased int) {
	plan := &s.plan
	for i := range plan.entries[first:biased] {
		entry := &plan.entries[first+i]
		entry.Count = plan.counts[entry.ID]
		plan.counts[entry.ID] = 0
	}
	kept := plan.entries[:biased]
	for _, entry := range plan.entries[biased:] {
		if entry.Count = plan.counts[entry.ID]; entry.Count == 0 {
			continue // its bias is first in the list
		}
		plan.counts[entry.ID] = 0
		kept = append(kept, entry)
	}
	plan.entries = kept
}

// grow makes room for lists, masks and likely ids, half as much again as needed.
func (s *sampler) grow(flight *sampleFlight) (err error) {
	mem, plan := &s.mem, &s.plan
	if plan.extra > mem.extraBytes {
		bytes := plan.extra + plan.extra/2
		if mem.extra, err = mem.card(int64(bytes)); err != nil {
			return err
		}
		mem.extraBytes = bytes
	}
	if plan.extra > len(flight.extra) {
		if flight.extra, err = mem.host(mem.extraBytes); err != nil {
			return err
		}
	}
	bytes := plan.tops * 8
	if bytes > mem.topsBytes {
		if bytes > 1<<33 {
			return fmt.Errorf("%d most likely ids asked for in one step; lower top_logprobs or prompt_logprobs", plan.tops)
		}
		if mem.tops, err = mem.card(int64(bytes + bytes/2)); err != nil {
			return err
		}
		mem.topsBytes = bytes + bytes/2
	}
	if bytes > len(flight.tops) {
		flight.tops, err = mem.host(mem.topsBytes)
	}
	return err
}

// pack fills the bytes that begin asked for, which will lie at that address of the card; results is
// pinned memory that nothing else uses until results has been called for this step.
func (s *sampler) pack(batch *runner.Batch, block []byte, at driver.Ptr, results []byte) {
	plan, flight := &s.plan, s.next()
	plan.at, flight.records = at, results
	// Lists first, then masks, which are multiples of 8 bytes either.
	used := copy(flight.extra, bytesOf(plan.entries))
	for i := range plan.outputs {
		out, wanted := &plan.outputs[i], &flight.outputs[i]
		row := &batch.Rows[wanted.row]
		switch mask := row.MaskAt(wanted.place); {
		case !wanted.sample || mask == nil:
		case ownMask(row, wanted.place):
			words := unsafe.Slice((*uint64)(unsafe.Pointer(&flight.extra[used])), s.maskWords())
			clear(words[copy(words, mask):]) // ids without a word are not allowed
			out.Mask = int64(used)
			used += len(words) * 8
		default:
			out.Mask = plan.outputs[i-1].Mask
		}
	}
	copy(block, bytesOf(plan.outputs))
}

// bytesOf returns the memory of values of a fixed-size type.
func bytesOf[T any](values []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(values))), len(values)*int(unsafe.Sizeof(*new(T))))
}
