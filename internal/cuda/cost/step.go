package cost

import (
	"maps"
	"math"
	"slices"
)

// A Model is the shape of a decoder as package cuda runs it (model/decoder.go).
type Model struct {
	Hidden, Vocab int
	Heads         Heads
	Windows       []int  // of each layer, 0 = none
	Dense         Format // of projections and of feed-forward parts without experts
	Router        Format
	Head          Format // of the output projection
	Table         Format // of the embedding
	Bias          bool   // of projections
	Inner         int    // of feed-forward parts without experts
	Experts       *Experts
	Products      Products // of all matrices but those of Experts
}

// A Step is a batch.
type Step struct {
	Rows     []Row
	Sampled  int      // rows whose next token is chosen
	Drawn    bool     // not greedily
	Assigned Assigned // how many of the step's tokens each expert of a layer has; nil = all alike
}

// tokens returns how many tokens a step has.
func (s *Step) tokens() (n int) {
	for _, row := range s.Rows {
		n += row.Len
	}
	return n
}

// A Part is what of a decoder a kernel belongs to.
type Part uint8

// The parts of a decoder.
const (
	Projections Part = iota // of attention, dense feed-forward parts, the router
	ExpertProducts
	Attention
	Output
	Others // norms, rotation, the cache, choosing and joining experts, sampling
	NumParts
)

// A Launch is a kernel of a step, and how often it runs in it.
type Launch struct {
	Work
	Part  Part
	Times int
}

// Launches are the kernels of a step in the order in which they first run.
func (m *Model) Launches(s Step) (all []Launch) {
	tokens, layers := s.tokens(), len(m.Windows)
	add := func(part Part, times int, works ...Work) {
		for _, w := range works {
			all = append(all, Launch{w, part, times})
		}
	}
	query, kv := m.Heads.Heads*m.Heads.Dim, m.Heads.KV*m.Heads.Dim
	dense := func(rows, cols int, bias bool) Work {
		return m.Products.Linear(Matrix{m.Dense, rows, cols}, bias, tokens)
	}
	add(Others, 1, Embed(Matrix{m.Table, m.Vocab, m.Hidden}, tokens), AddNorm(m.Hidden, tokens, true))
	add(Others, layers, AddNorm(m.Hidden, tokens, false)) // behind attention
	if query%16 == 0 && kv%16 == 0 {                      // one behind the other
		add(Projections, layers, dense(query+2*kv, m.Hidden, m.Bias))
	} else {
		add(Projections, layers, dense(query, m.Hidden, m.Bias))
		add(Projections, 2*layers, dense(kv, m.Hidden, m.Bias))
	}
	add(Others, layers, m.Heads.RotateStore(tokens))
	perWindow := m.perWindow()
	for _, window := range slices.Sorted(maps.Keys(perWindow)) {
		add(Attention, perWindow[window], m.Heads.Attend(s.Rows, window)...)
	}
	add(Projections, layers, dense(m.Hidden, query, m.Bias))
	if e := m.Experts; e != nil {
		add(Projections, layers, m.Products.Linear(Matrix{m.Router, e.Count, m.Hidden}, m.Bias, tokens))
		m.experts(e, tokens, &s, func(part Part, w Work) { add(part, layers, w) })
	} else {
		add(Projections, layers, dense(2*m.Inner, m.Hidden, false))
		add(Others, layers, GLU(m.Inner, tokens))
		add(Projections, layers, dense(m.Hidden, m.Inner, false))
		add(Others, layers, AddNorm(m.Hidden, tokens, false))
	}
	if s.Sampled > 0 {
		add(Others, 1, Select(m.Hidden, s.Sampled))
		add(Output, 1, m.Products.Linear(Matrix{m.Head, m.Vocab, m.Hidden}, false, s.Sampled))
		add(Others, 1, Sample(m.Vocab, s.Sampled, s.Drawn)...)
	}
	return all
}

// experts are the kernels of a layer of experts from the choice to the norm behind, of which some do what
// others do alone.
func (m *Model) experts(e *Experts, tokens int, s *Step, add func(Part, Work)) {
	if e.planned(tokens) {
		add(Others, RoutePlan(e.Count, e.TopK, tokens))
	} else {
		add(Others, Route(e.Count, e.TopK, tokens))
	}
	for _, w := range e.Works(tokens, m.assigned(s, tokens)) {
		switch w.Kernel {
		case "experts_plan":
			if !e.planned(tokens) {
				add(Others, w)
			}
		case "experts_combine":
			if !e.normed(tokens) {
				add(Others, w)
			}
		case "experts_gather":
			add(Others, w)
		default:
			add(ExpertProducts, w)
		}
	}
	if e.normed(tokens) {
		add(Others, AddNormExperts(m.Hidden, e.TopK, tokens))
	} else {
		add(Others, AddNorm(m.Hidden, tokens, false))
	}
}

// perWindow counts the layers of each window.
func (m *Model) perWindow() map[int]int {
	counts := map[int]int{}
	for _, window := range m.Windows {
		counts[window]++
	}
	return counts
}

// assigned is how many tokens experts have where nobody says it: all alike.
func (m *Model) assigned(s *Step, tokens int) Assigned {
	if s.Assigned != nil {
		return s.Assigned
	}
	return evenly(tokens, m.Experts.Count, m.Experts.TopK)
}

// evenly is how many tokens each of some experts has where tokens choose topK of them, all alike.
func evenly(tokens, experts, topK int) Assigned {
	even := make(Assigned, experts)
	for i := range even {
		even[i] = float64(tokens*topK) / float64(experts)
	}
	return even
}

// A Total is what the kernels of a step take together.
type Total struct {
	Parts    [NumParts]float64 // seconds of kernels, without gaps
	Kernels  int               // launches
	Device   float64           // seconds of the card, gaps included
	Launched float64           // seconds in which the host gives the kernels
	Host     float64           // seconds of the host beside that
}

// Seconds is how long a step takes that waits for the one before: the host runs ahead of the card, so
// that the longer of the two decides.
func (t Total) Seconds() float64 { return math.Max(t.Device, t.Launched) + t.Host }

// Total adds launches up.
func (c *Constants) Total(card *Card, launches []Launch, rows int) (total Total) {
	for i := range launches {
		one := &launches[i]
		seconds, _ := c.Seconds(card, &one.Work)
		total.Parts[one.Part] += float64(one.Times) * seconds
		total.Kernels += one.Times
	}
	for _, seconds := range total.Parts {
		total.Device += seconds
	}
	total.Device += float64(total.Kernels) * c.Gap
	total.Launched = float64(total.Kernels) * c.Launch
	total.Host = c.Step + float64(rows)*c.Row
	return total
}
