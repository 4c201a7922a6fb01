package sample

import (
	"math"
	"slices"
)

// Logprobs returns the log probability of id, then those of the top most likely
// ids in descending order, ties to the lowest id; id may be among them.
//
// They are of softmax(logits): what the model said, before mask, bias, penalties
// and temperature, as vLLM reports by default. A masked or penalized choice may
// therefore be unlikely, and values of requests with different settings compare.
// NaN counts as -Inf; without any number above -Inf all are -Inf. Sums are in
// float64 in the order of ids.
func Logprobs(logits []float32, id int32, top int) []Logprob {
	return new(Sampler).Logprobs(nil, logits, id, top)
}

// Logprobs appends what the function Logprobs returns to dst.
func (s *Sampler) Logprobs(dst []Logprob, logits []float32, id int32, top int) []Logprob {
	best := float32(math.Inf(-1))
	if at := argmax(logits); at >= 0 {
		best = logits[at]
	}
	total := 0.0
	for _, l := range logits {
		if x := float64(l) - float64(best); l == best { // Inf - Inf is not 0
			total++
		} else if x > -708 {
			total += exponential(x)
		}
	}
	logTotal := math.Log(total)
	logprob := func(id int32) Logprob {
		l := logits[id]
		switch {
		case !(l > float32(math.Inf(-1))):
			return Logprob{id, float32(math.Inf(-1))}
		case l == best:
			return Logprob{id, float32(-logTotal)}
		}
		return Logprob{id, float32(float64(l) - float64(best) - logTotal)}
	}
	dst = append(dst, logprob(id))
	if top <= 0 {
		return dst
	}
	s.keys = largest(s.keys, logits, min(top, len(logits)))
	slices.Sort(s.keys)
	for _, k := range slices.Backward(s.keys) {
		dst = append(dst, logprob(rankID(k)))
	}
	return dst
}

// Score says how likely id was: its rank, and what Logprobs appends to dst.
func (s *Sampler) Score(dst []Logprob, logits []float32, id int32, top int) Score {
	own, place := rank(logits[id], id), 1
	for other, l := range logits {
		if rank(l, int32(other)) > own {
			place++
		}
	}
	return Score{place, s.Logprobs(dst, logits, id, top)}
}

// rank orders ids by logit, ties to the lowest id: the largest rank is the most
// likely id. NaN ranks as -Inf, -0 as 0.
func rank(l float32, id int32) uint64 {
	switch {
	case l != l:
		l = float32(math.Inf(-1))
	case l == 0:
		l = 0
	}
	b := math.Float32bits(l)
	if b>>31 != 0 {
		b = ^b
	} else {
		b |= 1 << 31
	}
	return uint64(b)<<32 | uint64(^uint32(id))
}

func rankID(rank uint64) int32 { return int32(^uint32(rank)) }

// rankLogit returns the logit of a rank, -Inf for one of NaN.
func rankLogit(rank uint64) float32 {
	b := uint32(rank >> 32)
	if b>>31 != 0 {
		return math.Float32frombits(b &^ (1 << 31))
	}
	return math.Float32frombits(^b)
}

// largest returns the n largest ranks of x in dst, unordered; 0 < n <= len(x).
// One pass over a binary heap whose root is the smallest of the n so far.
func largest(dst []uint64, x []float32, n int) []uint64 {
	h := grow(dst, n)
	for id, l := range x[:n] {
		h[id] = rank(l, int32(id))
	}
	for i := n/2 - 1; i >= 0; i-- {
		sink(h, i)
	}
	worst := rankLogit(h[0])
	for id := n; id < len(x); id++ {
		if l := x[id]; l > worst { // an equal one of a higher id never replaces
			h[0] = rank(l, int32(id))
			sink(h, 0)
			worst = rankLogit(h[0])
		}
	}
	return h
}

// sink restores the heap order below i.
func sink(h []uint64, i int) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && h[child+1] < h[child] {
			child++
		}
		if h[i] <= h[child] {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}
