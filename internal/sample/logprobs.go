package sample

import (
	"math"
	"slices"
)

// Run is how many ids a Softmax adds up before it adds the sum to those of the ids ahead.
const Run = 1 << 10

// A Softmax makes log probabilities of the logits of one place: what is said of all ids together.
type Softmax struct {
	best     float32 // the largest logit
	logTotal float64 // logarithm of the sum of exp(logit - best)
}

// NewSoftmax is for logits of which best is the largest, -Inf if no number exceeds it, and total
// the sum of exp(logit - best): of the 1,024 ids from each multiple of Run in their order, these
// sums in theirs, in float64. Exponentials are those of Pick's weights, 0 below -708 and
// for NaN, 1 for all that equal best. Devices may add runs up at the same time.
func NewSoftmax(best float32, total float64) Softmax { return Softmax{best, math.Log(total)} }

// softmaxOf computes a Softmax from the logits.
func softmaxOf(logits []float32) Softmax {
	best := float32(math.Inf(-1))
	if at := argmax(logits); at >= 0 {
		best = logits[at]
	}
	total := 0.0
	for ; len(logits) > 0; logits = logits[min(Run, len(logits)):] {
		run := 0.0
		for _, logit := range logits[:min(Run, len(logits))] {
			if below := float64(logit) - float64(best); logit == best { // Inf - Inf is not 0
				run++
			} else if below > -708 {
				run += exponential(below)
			}
		}
		total += run
	}
	return NewSoftmax(best, total)
}

// Logprob returns the log probability of an id with that logit.
func (s Softmax) Logprob(id int32, logit float32) Logprob {
	switch {
	case !(logit > float32(math.Inf(-1))): // or NaN
		return Logprob{id, float32(math.Inf(-1))}
	case logit == s.best:
		return Logprob{id, float32(-s.logTotal)}
	}
	return Logprob{id, float32(float64(logit) - float64(s.best) - s.logTotal)}
}

// Ranked appends the log probabilities of ids, the most likely first. It sorts ranks: one for each
// id, what orders its logit in the upper 32 bits (that of a positive one with bit 31 set, of
// another one inverted; -0 as 0, NaN as -Inf), the id inverted in the lower ones.
func (s Softmax) Ranked(dst []Logprob, ranks []uint64) []Logprob {
	slices.Sort(ranks)
	for _, ranked := range slices.Backward(ranks) {
		dst = append(dst, s.Logprob(rankID(ranked), rankLogit(ranked)))
	}
	return dst
}

// Logprobs returns the log probability of id, then those of the top most likely
// ids in descending order, ties to the lowest id; id may be among them.
//
// They are of softmax(logits): what the model said, before mask, bias, penalties
// and temperature, as vLLM reports by default. A masked or penalized choice may
// therefore be unlikely, and values of requests with different settings compare.
// NaN counts as -Inf; without any number above -Inf all are -Inf. NewSoftmax says
// in which order the exponentials are added.
func Logprobs(logits []float32, id int32, top int) []Logprob {
	return new(Sampler).Logprobs(nil, logits, id, top)
}

// Logprobs appends what the function Logprobs returns to dst.
func (s *Sampler) Logprobs(dst []Logprob, logits []float32, id int32, top int) []Logprob {
	of := softmaxOf(logits)
	dst = append(dst, of.Logprob(id, logits[id]))
	if top <= 0 {
		return dst
	}
	s.keys = largest(s.keys, logits, min(top, len(logits)))
	return of.Ranked(dst, s.keys)
}

// Score says how likely id was: its rank, and what Logprobs appends to dst.
func (s *Sampler) Score(dst []Logprob, logits []float32, id int32, top int) Score {
	own, place := rank(logits[id], id), 1
	for other, logit := range logits {
		if rank(logit, int32(other)) > own {
			place++
		}
	}
	return Score{place, s.Logprobs(dst, logits, id, top)}
}

// rank orders ids by logit, ties to the lowest id: the largest rank is the most
// likely id. NaN ranks as -Inf, -0 as 0.
func rank(logit float32, id int32) uint64 {
	switch {
	case logit != logit:
		logit = float32(math.Inf(-1))
	case logit == 0:
		logit = 0
	}
	// Order as an unsigned number: negative ones are larger the smaller they are, and come first.
	pattern := math.Float32bits(logit)
	if pattern>>31 != 0 {
		pattern = ^pattern
	} else {
		pattern |= 1 << 31
	}
	return uint64(pattern)<<32 | uint64(^uint32(id))
}

// rankID returns the id of a rank.
func rankID(rank uint64) int32 { return int32(^uint32(rank)) }

// rankLogit returns the logit of a rank, -Inf for one of NaN.
func rankLogit(rank uint64) float32 {
	pattern := uint32(rank >> 32)
	if pattern>>31 != 0 {
		return math.Float32frombits(pattern &^ (1 << 31))
	}
	return math.Float32frombits(^pattern)
}

// largest returns the n largest ranks of logits in dst, unordered; 0 < n <= len(logits).
// One pass over a binary heap whose root is the smallest of the n so far.
func largest(dst []uint64, logits []float32, n int) []uint64 {
	heap := grow(dst, n)
	for id, logit := range logits[:n] {
		heap[id] = rank(logit, int32(id))
	}
	for i := n/2 - 1; i >= 0; i-- {
		sink(heap, i)
	}
	worst := rankLogit(heap[0])
	for id := n; id < len(logits); id++ {
		if logit := logits[id]; logit > worst { // an equal one of a higher id never replaces
			heap[0] = rank(logit, int32(id))
			sink(heap, 0)
			worst = rankLogit(heap[0])
		}
	}
	return heap
}

// sink restores the heap order below i.
func sink(heap []uint64, i int) {
	for {
		child := 2*i + 1
		if child >= len(heap) {
			return
		}
		if child+1 < len(heap) && heap[child+1] < heap[child] {
			child++
		}
		if heap[i] <= heap[child] {
			return
		}
		heap[i], heap[child] = heap[child], heap[i]
		i = child
	}
}
