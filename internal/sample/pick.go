package sample

import (
	"math"
	"math/bits"
)

// Pick chooses an id. (Seed, step) fixes the draw whatever else is in the batch.
//
// In this order, which is vLLM's: ids outside the mask (one bit each, nil = all)
// are removed; biases, then the repetition, frequency and presence penalties
// change the logits, in float32; temperature 0 takes the largest. Otherwise each
// id has the probability softmax(logits/Temperature), of which MinP, TopK (by
// logit) and TopP (by probability among what is left) keep the most likely, ties
// to the lowest id, and one is drawn from the rest.
//
// A NaN logit counts as -Inf, which is never chosen; several +Inf are equally
// likely. When nothing is left the result is the lowest id of the mask, or 0.
//
// logits is not changed. Ids of history that are no ids of the vocabulary, such
// as pending ones, are skipped.
func Pick(logits []float32, mask []uint64, params *Params, history []int32, step uint64) int32 {
	return new(Sampler).Pick(logits, mask, params, history, step)
}

// A Sampler computes Pick and Logprobs without allocating: it keeps their
// scratch space, about 16 bytes per id of the vocabulary. The zero value is
// ready. It is used by one goroutine.
type Sampler struct {
	adjusted []float32 // [vocab] logits after mask, bias and penalties
	counts   []uint32  // [vocab] occurrences in the history, all zero between calls
	keys     []uint64  // candidates, at most [vocab]

	// Weights does what the function Weights does, perhaps faster; nil is that function.
	Weights func(keys []uint64, x []float32, w Weighing) (n int, total uint64)
}

// A Weighing says what Weights computes.
type Weighing struct {
	Top, Scale float64 // of a logit l: the weight of (l-Top)*Scale
	Bound      float32 // logits below it weigh nothing
	Least      uint64  // weights below it do not count
	First      int     // the id of the first logit
}

// Pick is the function Pick.
func (s *Sampler) Pick(logits []float32, mask []uint64, params *Params, history []int32, step uint64) int32 {
	adjusted := s.adjust(logits, mask, params, history)
	best := argmax(adjusted)
	if best < 0 {
		return lowest(mask, len(logits))
	}
	if !(params.Temperature > 0) {
		return int32(best)
	}
	return s.sample(adjusted, adjusted[best], params, Draw(params.Seed, step))
}

// argmax returns the first index of the largest number, -1 if nothing exceeds -Inf.
func argmax(values []float32) int {
	best, at := float32(math.Inf(-1)), -1
	i := 0
	for ; i+8 <= len(values); i += 8 { // one rarely taken branch per number: several per cycle
		eight := values[i : i+8 : i+8]
		if eight[0] > best || eight[1] > best || eight[2] > best || eight[3] > best || eight[4] > best || eight[5] > best || eight[6] > best || eight[7] > best {
			for k, value := range eight {
				if value > best {
					best, at = value, i+k
				}
			}
		}
	}
	for ; i < len(values); i++ {
		if values[i] > best {
			best, at = values[i], i
		}
	}
	return at
}

// lowest returns the first id that the mask allows, 0 if there is none.
func lowest(mask []uint64, vocab int) int32 {
	for i, word := range mask {
		if id := i*64 + bits.TrailingZeros64(word); word != 0 && id < vocab {
			return int32(id)
		}
	}
	return 0
}

// sample draws one of the ids whose weights are left, in ascending order of ids.
func (s *Sampler) sample(logits []float32, top float32, params *Params, random uint64) int32 {
	// MinP and TopK, then TopP: s.keys are the candidates that are left.
	total := s.weigh(logits, top, params)
	ordered := params.TopK <= 0 || params.TopK >= len(logits)
	if params.TopP > 0 && params.TopP < 1 {
		need := min(max(uint64(math.Ceil(float64(params.TopP)*float64(total))), 1), total)
		s.keys = atLeast(s.keys, (total-need)/uint64(len(s.keys)))
		var count int // of the most likely ids that weigh need together
		count, total = cut(s.keys, need, idBits)
		s.keys, ordered = s.keys[:count], false
	}
	drawn, _ := bits.Mul64(random, total) // uniform in [0, total)
	// The id in whose part of the sum of all weights, laid out by ids, the drawn one lies.
	if !ordered {
		for i, key := range s.keys {
			s.keys[i] = bits.RotateLeft64(key, weightBits) // id above weight: ordered by id
		}
		count, _ := cut(s.keys, drawn+1, 0)
		return idOf(bits.RotateLeft64(s.keys[count-1], idBits))
	}
	for _, key := range s.keys {
		if weight := key >> idBits; drawn >= weight {
			drawn -= weight
			continue
		}
		return idOf(key)
	}
	panic("sample: drawn beyond the sum of all weights")
}

// weigh fills s.keys with weight<<idBits + (MaxVocab-1-id) for the ids that MinP
// and TopK keep and whose weight is not 0: sorted downwards they are in the order
// of probability, ties to the lowest id. Without TopK they are in the order of ids. It
// returns the sum of the weights.
func (s *Sampler) weigh(logits []float32, top float32, params *Params) (total uint64) {
	scale, reach, least := params.Weighing()
	count := 0
	// With TopK only the ids that it keeps are weighed: their ranks give logit and id back.
	if params.TopK > 0 && params.TopK < len(logits) {
		s.keys = largest(s.keys, logits, params.TopK)
		for _, ranked := range s.keys {
			s.keys[count] = key(rankLogit(ranked), top, scale, rankID(ranked))
			if weight := s.keys[count] >> idBits; weight >= least {
				count++
				total += weight
			}
		}
		s.keys = s.keys[:count]
		return total
	}
	bound := float32(float64(top) - reach) // spares most exponentials
	s.keys = grow(s.keys, len(logits))
	if math.IsInf(float64(top), 1) {
		s.keys = s.keys[:infinite(s.keys, logits)]
		return uint64(len(s.keys)) * one
	}
	weights := s.Weights
	if weights == nil {
		weights = Weights
	}
	count, total = weights(s.keys, logits, Weighing{Top: float64(top), Scale: scale, Bound: bound, Least: least})
	s.keys = s.keys[:count]
	return total
}

// Weighing returns what turns logits into weights when p samples: that of a logit l below the
// largest one is the weight of (l-largest)*scale. Those below least do not count; all that are more
// than reach below the largest are such, which spares their exponentials.
func (p *Params) Weighing() (scale, reach float64, least uint64) {
	least, reach = 1, 28 // at exp(-28) weights are 0
	if p.MinP > 0 {
		minP := min(float64(p.MinP), 1)
		// The margin covers the rounding of weights and the last digits of Log: not of a few units.
		if least = uint64(math.Ceil(minP * one)); least > 64 {
			reach = 0.01 - math.Log(minP)
		}
	}
	return 1 / float64(p.Temperature), reach * float64(p.Temperature), least
}

// Weights fills keys, which has room for all of them, with weight<<24 + (MaxVocab-1-id) for
// the logits that a Weighing keeps, in the order of ids. It returns their number and the
// sum of their weights.
func Weights(keys []uint64, logits []float32, w Weighing) (n int, total uint64) {
	for i, logit := range logits { // key, in a loop of its own: a call per id would double the time
		exponent := (float64(logit) - w.Top) * w.Scale
		if !(logit >= w.Bound) || !(exponent > -28) { // or NaN
			continue
		}
		weight := uint64(int64(exponential(exponent)*one + 0.5))
		keys[n] = weight<<idBits | uint64(MaxVocab-1-w.First-i)
		if weight >= w.Least {
			n++
			total += weight
		}
	}
	return n, total
}

// infinite fills keys with those of the logits that are +Inf and returns their number.
func infinite(keys []uint64, logits []float32) (n int) {
	for id, logit := range logits {
		if math.IsInf(float64(logit), 1) {
			keys[n] = one<<idBits | uint64(MaxVocab-1-id)
			n++
		}
	}
	return n
}

// key returns what weigh says of one logit: its weight above its id.
func key(logit, top float32, scale float64, id int32) uint64 {
	weighed := uint64(one)
	if logit != top { // Inf - Inf is not 0
		weighed = weight((float64(logit) - float64(top)) * scale)
	}
	return weighed<<idBits | uint64(MaxVocab-1-id)
}

// idOf returns the id of a key.
func idOf(key uint64) int32 { return int32(MaxVocab - 1 - key%MaxVocab) }

// atLeast drops the keys of less than that weight. With least = (total-need)/n they
// weigh less than total-need together, so the most likely ids that weigh need are
// all among the rest: usually a few, which makes the cut cheap.
func atLeast(keys []uint64, least uint64) []uint64 {
	kept := 0
	for _, key := range keys {
		keys[kept] = key
		if key>>idBits >= least {
			kept++
		}
	}
	return keys[:kept]
}

// cut reorders keys so that the largest come first and returns the least n for
// which the n largest weigh at least need together, and what they weigh;
// keys[n-1] is the smallest of them. need must be in [1, weight of all keys].
// The weight of a key is in the weightBits above shift. Weighted quickselect.
func cut(keys []uint64, need uint64, shift uint) (n int, mass uint64) {
	lo, hi := 0, len(keys)
	// keys[:lo], which weigh mass, are among the largest; the one searched for is in keys[lo:hi].
	for hi-lo > 1 {
		at, above := partition(keys[lo:hi], shift)
		at += lo
		with := mass + above + weightOf(keys[at], shift)
		switch {
		case mass+above >= need:
			hi = at
		case with >= need:
			return at + 1, with
		default:
			lo, mass = at+1, with
		}
	}
	return lo + 1, mass + weightOf(keys[lo], shift)
}

// weightOf returns the weight in the weightBits of key above shift.
func weightOf(key uint64, shift uint) uint64 { return key >> shift % (1 << weightBits) }

// partition puts larger keys before and smaller ones behind keys[at] and returns
// the weight of the larger ones. Keys are distinct.
func partition(keys []uint64, shift uint) (at int, above uint64) {
	last := len(keys) - 1
	first, middle, end := keys[0], keys[last/2], keys[last]
	switch pivot := max(min(first, middle), min(max(first, middle), end)); pivot { // the median
	case first:
		keys[0], keys[last] = end, first
	case middle:
		keys[last/2], keys[last] = end, middle
	}
	// The pivot is last. keys[:at] are larger, keys[at:i] smaller.
	pivot := keys[last]
	for i, key := range keys[:last] {
		if key > pivot {
			keys[i], keys[at] = keys[at], key
			at++
			above += weightOf(key, shift)
		}
	}
	keys[at], keys[last] = pivot, keys[at]
	return at, above
}

// grow returns b with length n, reallocated if it is too short.
func grow[T any](b []T, n int) []T {
	if cap(b) < n {
		return make([]T, n)
	}
	return b[:n]
}
