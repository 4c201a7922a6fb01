package sample

import "math"

// adjust returns the logits after mask, bias and penalties: logits itself when
// there are none.
func (s *Sampler) adjust(logits []float32, mask []uint64, p *Params, history []int32) []float32 {
	penalties := p.FrequencyPenalty != 0 || p.PresencePenalty != 0 || p.repeats()
	if mask == nil && len(p.LogitBias) == 0 && !penalties {
		return logits
	}
	s.adjusted = grow(s.adjusted, len(logits))
	x := s.adjusted
	if mask == nil {
		copy(x, logits)
	} else {
		allow(x, logits, mask)
	}
	for id, b := range p.LogitBias {
		if uint(id) < uint(len(x)) {
			x[id] += b
		}
	}
	if penalties {
		s.counts = grow(s.counts, len(x))
		penalize(x, s.counts, p, history)
	}
	return x
}

// repeats requires more than 0: a negative factor would make the -Inf of a masked id +Inf.
func (p *Params) repeats() bool { return p.RepetitionPenalty > 0 && p.RepetitionPenalty != 1 }

// allow copies the allowed logits; the others, and those for which the mask has
// no word, become -Inf.
func allow(dst, logits []float32, mask []uint64) {
	never := float32(math.Inf(-1))
	for i := 0; i < len(dst); i += 64 {
		d, word := dst[i:min(i+64, len(dst))], uint64(0)
		if i/64 < len(mask) {
			word = mask[i/64]
		}
		copy(d, logits[i:])
		for k := 0; word != math.MaxUint64 && k < len(d); k++ {
			if word>>k&1 == 0 {
				d[k] = never
			}
		}
	}
}

// penalize applies the penalties once per id of the history. counts must be
// zero and is again zero afterwards.
func penalize(x []float32, counts []uint32, p *Params, history []int32) {
	const seen = 1 << 31 // distinguishes ids of the prompt, which have no count
	for i, id := range history {
		if uint(id) >= uint(len(x)) {
			continue
		}
		counts[id] |= seen
		if i >= p.Prompt {
			counts[id]++
		}
	}
	for _, id := range history {
		if uint(id) >= uint(len(x)) || counts[id] == 0 {
			continue
		}
		n := counts[id] &^ seen
		counts[id] = 0
		l := x[id]
		switch {
		case p.repeats() && l > 0:
			l /= p.RepetitionPenalty
		case p.repeats():
			l *= p.RepetitionPenalty
		}
		if n > 0 {
			l -= float32(p.FrequencyPenalty * float32(n)) // converted: not fused, the same everywhere
			l -= p.PresencePenalty
		}
		x[id] = l
	}
}
