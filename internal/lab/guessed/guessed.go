// Package guessed says what guesses of tokens have brought a server, from what it counts: how many
// tokens its steps with guesses gave, and how many times as fast answers came. Its users need not know
// by which names guesses are counted, nor how costs of steps are told.
//
// Invariant: nothing is assumed. Where a server does not say what steps cost, as vLLM does not, how many
// times as fast is not known.
package guessed

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"ossian/internal/lab/check/exposition"
)

// Counts are those of a server since its start, of all its models.
type Counts struct {
	Drafts   float64         // rows of steps that had guesses
	Guesses  float64         // in all of them
	Accepted float64         // of these, the tokens that were drawn
	Tokens   float64         // of answers, in all steps
	AtOnce   float64         // answers that run now
	Places   []float64       // accepted, by place in a row
	costs    map[int]float64 // times as long as with one token a step takes, by tokens
}

// Read takes what /metrics says, counters of vLLM's names with their prefix; nil = nothing is guessed.
func Read(metrics *exposition.Metrics, server, prefix string) *Counts {
	c := &Counts{costs: map[int]float64{1: 1}}
	var guesses bool
	if c.Guesses, guesses = metrics.Sum(prefix + "num_draft_tokens_total"); !guesses {
		return nil
	}
	c.Drafts, _ = metrics.Sum(prefix + "num_drafts_total")
	c.Accepted, _ = metrics.Sum(prefix + "num_accepted_tokens_total")
	c.Tokens, _ = metrics.Sum(server + ":generation_tokens_total")
	c.AtOnce, _ = metrics.Sum(server + ":num_requests_running")
	for place, held := range metrics.By(prefix+"num_accepted_tokens_per_pos_total", "position") {
		if at, err := strconv.Atoi(place); err == nil && at >= 0 && at < 64 {
			c.Places = append(c.Places, make([]float64, max(at+1-len(c.Places), 0))...)
			c.Places[at] = held
		}
	}
	for tokens, cost := range metrics.By("ossian_speculation_cost_ratio", "tokens") {
		if n, err := strconv.Atoi(tokens); err == nil && n > 1 && cost > 0 && !math.IsInf(cost, 0) {
			c.costs[n] = cost
		}
	}
	return c
}

// Length is how many tokens a row with guesses gave, on average; 0 = there were none.
func (c *Counts) Length() float64 {
	if c.Drafts <= 0 {
		return 0
	}
	return 1 + c.Accepted/c.Drafts
}

// Times is how many times as fast answers came as they would have without guesses, each of them alone,
// or, if several run, with as many as run now: tokens without guesses cost a step each, rows with
// guesses one that many times as long as their tokens make it. ok is false where costs are not told or
// nothing was guessed.
func (c *Counts) Times() (times float64, ok bool) {
	rows := math.Max(c.AtOnce, 1)
	if len(c.costs) < 2 || c.Drafts <= 0 || c.Tokens <= 0 {
		return 0, false
	}
	dearer := c.cost(rows*(1+c.Guesses/c.Drafts)) / c.cost(rows)
	alone := math.Max(c.Tokens-c.Drafts-c.Accepted, 0) // tokens of rows without guesses
	return (alone + c.Drafts + c.Accepted) / (alone + c.Drafts*dearer), true
}

// cost is that of a step with so many tokens, between those that are told by a straight line.
func (c *Counts) cost(tokens float64) float64 {
	var sizes []int
	for size := range c.costs {
		sizes = append(sizes, size)
	}
	slices.Sort(sizes)
	at, _ := slices.BinarySearch(sizes, int(math.Ceil(tokens)))
	at = min(max(at, 1), len(sizes)-1)
	below, above := sizes[at-1], sizes[at]
	share := (tokens - float64(below)) / float64(above-below)
	return math.Max(c.costs[below]*(1-share)+c.costs[above]*share, 1)
}

// ByPlace says in how many of a hundred rows each guess held, behind a comma; "" where that is not told.
func (c *Counts) ByPlace() string {
	if c.Drafts <= 0 || len(c.Places) == 0 {
		return ""
	}
	var out []string
	for _, held := range c.Places {
		out = append(out, strconv.FormatFloat(math.Round(100*held/c.Drafts), 'f', -1, 64))
	}
	return ", by place " + strings.Join(out, ", ") + " % of them held"
}

// even is how far from 1 a number of times has to be to count as a gain or a loss: costs are learned
// from few steps.
const even = 0.02

// Verdict says in a clause whether guesses pay here, and by which figures; "" where that is not known.
func (c *Counts) Verdict() string {
	times, known := c.Times()
	switch {
	case c.Drafts == 0:
		return "no step has had guesses so far"
	case !known:
		return ""
	}
	how := "answers came " + strconv.FormatFloat(times, 'f', 2, 64) + " times as fast as without guesses"
	if c.AtOnce > 1 {
		how += fmt.Sprintf(" with %.0f at once", c.AtOnce)
	}
	switch {
	case times > 1+even:
		return "it pays here: " + how
	case times < 1-even:
		return "it does not pay here: " + how
	}
	return "it neither gains nor costs here: " + how
}
