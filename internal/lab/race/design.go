package race

import "fmt"

// mostFactors is the largest number of options that one design takes (lab.md 4, item 5).
const mostFactors = 6

// A Design says which combinations of two-level options to measure. Every point is
// measured once in each block, on the prompts of that block, in random order.
type Design struct {
	Options    []string
	Points     [][]bool // of each point, which options are on (as in the winner) and off (as in the baseline)
	Resolution int      // effects of fewer options than half of it are not mixed up with each other; 0: complete, no mixing
	Around     bool     // the winner and one change each: a race of its neighbours, no design for pairs
}

// NewDesign returns the smallest two-level design in which no main effect and no pair is
// mixed up with another: all combinations of two to four options, half of them for five
// (16 points, resolution V) and six (32, resolution VI). The halves are those that hold
// the point with everything on, which is the winner (Box and Hunter, Technometrics 3,
// 1961). From seven options on it is the winner with one option changed at a time; with
// winner nil everything is on in it.
func NewDesign(options []string, winner []bool) (Design, error) {
	seen := map[string]bool{}
	for _, option := range options {
		if seen[option] {
			return Design{}, fmt.Errorf("race: option %q is twice in a design", option)
		}
		seen[option] = true
	}
	if winner == nil {
		winner = make([]bool, len(options))
		for i := range winner {
			winner[i] = true
		}
	}
	switch {
	case len(winner) != len(options):
		return Design{}, fmt.Errorf("race: a winner of %d settings for %d options", len(winner), len(options))
	case len(options) < 2:
		return Design{}, fmt.Errorf("race: a design of %d options: interactions need 2 or more", len(options))
	case len(options) > mostFactors:
		return around(options, winner), nil
	}
	design := Design{Options: options}
	if len(options) > 4 { // the word of the half is that of all options
		design.Resolution = len(options)
	}
	for code := range 1 << len(options) {
		point := make([]bool, len(options))
		differ := 0 // from the winner
		for i := range point {
			point[i] = code>>i&1 == 1
			if point[i] != winner[i] {
				differ++
			}
		}
		if design.Resolution == 0 || differ%2 == 0 {
			design.Points = append(design.Points, point)
		}
	}
	return design, nil
}

// around is the winner and, for each option, the winner with that one changed.
func around(options []string, winner []bool) Design {
	design := Design{Options: options, Around: true, Points: [][]bool{winner}}
	for i := range options {
		point := append([]bool(nil), winner...)
		point[i] = !point[i]
		design.Points = append(design.Points, point)
	}
	return design
}

// Name returns a point in words: the options that are on, "none" without any.
func (d Design) Name(point []bool) string {
	name := ""
	for i, on := range point {
		if !on {
			continue
		}
		if name != "" {
			name += " + "
		}
		name += d.Options[i]
	}
	if name == "" {
		return "none"
	}
	return name
}

// Suspected returns the options, in their order of first mention, of pairs whose predicted
// effect or its interval reaches beyond least to either side: those worth measuring
// together. A prediction without an interval says nothing and is suspected.
func Suspected(predicted []Effect, least float64) []string {
	var options []string
	seen := map[string]bool{}
	for _, effect := range predicted {
		inside := effect.Formed && effect.Interval.Low >= -least && effect.Interval.High <= least && effect.Gain >= -least && effect.Gain <= least
		if len(effect.Options) < 2 || inside {
			continue
		}
		for _, option := range effect.Options {
			if !seen[option] {
				seen[option] = true
				options = append(options, option)
			}
		}
	}
	return options
}
