package sample

import "math"

// adjust returns the logits after mask, bias and penalties: logits itself when
// there are none.
func (s *Sampler) adjust(logits []float32, mask []uint64, params *Params, history []int32) []float32 {
	penalties := params.Penalizes()
	if mask == nil && len(params.LogitBias) == 0 && !penalties {
		return logits
	}
	// The logits belong to the caller: everything below changes a copy.
	s.adjusted = grow(s.adjusted, len(logits))
	adjusted := s.adjusted
	if mask == nil {
		copy(adjusted, logits)
	} else {
		allow(adjusted, logits, mask)
	}
	for id, bias := range params.LogitBias {
		if uint(id) < uint(len(adjusted)) {
			adjusted[id] += bias
		}
	}
	if penalties {
		s.counts = grow(s.counts, len(adjusted))
		penalize(adjusted, s.counts, params, history)
	}
	return adjusted
}

// Penalizes reports whether the history of a sequence changes its logits.
func (p *Params) Penalizes() bool {
	return p.FrequencyPenalty != 0 || p.PresencePenalty != 0 || p.Repeats()
}

// Repeats reports whether the repetition penalty changes logits. It requires more than 0: a negative factor would make the -Inf of a masked id +Inf.
func (p *Params) Repeats() bool { return p.RepetitionPenalty > 0 && p.RepetitionPenalty != 1 }

// allow copies the allowed logits; the others, and those for which the mask has
// no word, become -Inf.
func allow(dst, logits []float32, mask []uint64) {
	never := float32(math.Inf(-1))
	for i := 0; i < len(dst); i += 64 {
		chunk, word := dst[i:min(i+64, len(dst))], uint64(0)
		if i/64 < len(mask) {
			word = mask[i/64]
		}
		copy(chunk, logits[i:])
		for k := 0; word != math.MaxUint64 && k < len(chunk); k++ {
			if word>>k&1 == 0 {
				chunk[k] = never
			}
		}
	}
}

// penalize applies the penalties once per id of the history. counts must be
// zero and is again zero afterwards.
func penalize(logits []float32, counts []uint32, params *Params, history []int32) {
	const seen = 1 << 31 // distinguishes ids of the prompt, which have no count
	for i, id := range history {
		if uint(id) >= uint(len(logits)) {
			continue
		}
		counts[id] |= seen
		if i >= params.Prompt {
			counts[id]++
		}
	}
	// Taking the count away leaves the scratch zero, and makes this the only visit of id.
	for _, id := range history {
		if uint(id) >= uint(len(logits)) || counts[id] == 0 {
			continue
		}
		occurrences := counts[id] &^ seen
		counts[id] = 0
		logit := logits[id]
		switch {
		case params.Repeats() && logit > 0:
			logit /= params.RepetitionPenalty
		case params.Repeats():
			logit *= params.RepetitionPenalty
		}
		if occurrences > 0 {
			logit -= float32(params.FrequencyPenalty * float32(occurrences)) // converted: not fused, the same everywhere
			logit -= params.PresencePenalty
		}
		logits[id] = logit
	}
}
