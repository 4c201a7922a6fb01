// Package race decides from measured numbers which settings are better than a baseline
// (lab.md 4): races of candidates in blocks, intervals that are valid at whichever block
// one stops, drift of the baseline, designs for interactions, what a prediction may drop,
// what a percentile certifies, the frontier, and what a token costs. Callers measure and
// keep records; here numbers come in and decisions come out. There is no clock, no chance
// and no file in it: what is random is asked of the caller, and every state is a function
// of the blocks that were added, in their order. Going on with a cut campaign is adding
// its blocks again.
package race

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Rules are what a race goes by. Zero values stand for the defaults of lab.md 4.
type Rules struct {
	LowerIsBetter bool    // of the objective: times, cost. A gain is then baseline/candidate - 1
	Level         float64 // chance that any interval of the race ever misses its ratio; 0.05
	Least         float64 // smallest gain worth keeping, and the zone of indifference; 0.01
	Planned       int     // blocks that the intervals are made for; 20
	Most          int     // blocks after which the race ends, its budget; Planned
	Failures      int     // failed trials that end a candidate's race, and, one after the other, the baseline's; 2
}

// normal returns the rules with defaults in place of zeros.
func (r Rules) normal() (Rules, error) {
	if r.Level == 0 {
		r.Level = 0.05
	}
	if r.Least == 0 {
		r.Least = 0.01
	}
	if r.Planned == 0 {
		r.Planned = 20
	}
	if r.Most == 0 {
		r.Most = r.Planned
	}
	if r.Failures == 0 {
		r.Failures = 2
	}
	switch {
	case !(r.Level > 0 && r.Level < 1):
		return r, fmt.Errorf("race: level %v: want a chance between 0 and 1, such as 0.05", r.Level)
	case !(r.Least > 0 && r.Least < 1):
		return r, fmt.Errorf("race: least gain %v: want a share between 0 and 1, such as 0.01", r.Least)
	case r.Planned < firstLook:
		return r, fmt.Errorf("race: %d planned blocks: want %d or more, fewer give no interval", r.Planned, firstLook)
	case r.Most < 1:
		return r, fmt.Errorf("race: a budget of %d blocks: want 1 or more", r.Most)
	case r.Failures < 1:
		return r, fmt.Errorf("race: ended by %d failures: want 1 or more", r.Failures)
	}
	return r, nil
}

// A Candidate is one setting in a race. Candidates of one group are rivals, of which one
// at most can be used (values of one option, engines); a group of its own is what an
// option has that can be kept beside the others. The same empty Group makes rivals of all.
type Candidate struct {
	Name  string `json:"name"`
	Group string `json:"group,omitempty"`
}

// A Block is one turn: the objective of the baseline and of each candidate by name, all
// measured on the same prompts. Who was due and is missing has failed.
type Block map[string]float64

// A Hold says what keeps a candidate from winning that is no part of the objective, such as
// a bound on another metric.
type Hold int

// Holds of candidates. Who is not free may not end the race of a rival: it may turn out
// that only the rival can be used.
const (
	Free   Hold = iota // nothing does
	Unsure             // whether it can win is not known yet
	Barred             // it cannot
)

// A Turn is the block to measure next: its number, from 1, and who runs in which order.
// The baseline is among them.
type Turn struct {
	Number int
	Order  []string
}

// A Race compares candidates with a baseline by successive elimination (lab.md 4, item 4).
// It is a function of its rules and of the blocks that were added. A Race belongs to one
// goroutine.
type Race struct {
	rules    Rules
	baseline string
	runners  []*runner
	blocks   []Block
	unheard  int // the latest blocks, one after the other, in which the baseline failed
	limits   map[float64]*limit
}

// A runner is a candidate with what the blocks said of it. Logarithms are of gains: above
// 0 is better than the baseline, whichever way the objective goes.
type runner struct {
	Candidate
	pairs    int     // blocks with a value of both, it and the baseline
	mean     float64 // of the log gains
	squares  float64 // their squared distances from the mean, summed
	failures int
	shown    bool    // its interval excluded 0
	level    float64 // of its latest interval
	reach    float64 // of its latest interval, to each side of the mean
	low      float64 // intersection of its intervals so far
	high     float64
	beaten   string     // the rival that turned out better
	defeat   Comparison // with that rival, where it came from comparing the two
	verdict  Verdict
	reason   string
	since    int  // block of the verdict
	racing   bool // due in the next block
	equal    bool // within the zone of indifference of the best of its group
	hold     Hold
}

// torn says that intervals of earlier and later blocks exclude each other.
func (r *runner) torn() bool { return r.low > r.high }

// New returns a race without blocks. Names must differ.
func New(rules Rules, baseline string, candidates []Candidate) (*Race, error) {
	rules, err := rules.normal()
	if err != nil {
		return nil, err
	}
	if len(candidates) == 0 {
		return nil, errors.New("race: no candidates: nothing to compare the baseline with")
	}
	race := &Race{rules: rules, baseline: baseline, limits: map[float64]*limit{}}
	seen := map[string]bool{baseline: true}
	for _, candidate := range candidates {
		if seen[candidate.Name] {
			return nil, fmt.Errorf("race: %q is there twice; every candidate and the baseline need a name of their own", candidate.Name)
		}
		seen[candidate.Name] = true
		race.runners = append(race.runners, newRunner(candidate))
	}
	return race, nil
}

func newRunner(candidate Candidate) *runner {
	return &runner{Candidate: candidate, low: math.Inf(-1), high: math.Inf(1), verdict: NotDecided, reason: "not measured yet", racing: true}
}

// Again returns a race with the same rules and candidates and without blocks. It shares
// the critical values, which take some milliseconds to compute.
func (r *Race) Again() *Race {
	fresh := &Race{rules: r.rules, baseline: r.baseline, limits: r.limits}
	for _, runner := range r.runners {
		fresh.runners = append(fresh.runners, newRunner(runner.Candidate))
	}
	return fresh
}

// Next returns the block to measure next; false when the race has ended. below(n) gives a
// random whole number from 0 to n-1, n > 0: rand.IntN of a generator seeded by campaign
// and block number makes the order repeatable.
func (r *Race) Next(below func(n int) int) (Turn, bool) {
	if r.end() != Running {
		return Turn{}, false
	}
	turn := Turn{Number: len(r.blocks) + 1, Order: append(r.due(), r.baseline)}
	for last := len(turn.Order) - 1; last > 0; last-- {
		other := below(last + 1)
		turn.Order[last], turn.Order[other] = turn.Order[other], turn.Order[last]
	}
	return turn, true
}

// due returns the candidates that belong in the next block, in the order of New.
func (r *Race) due() []string {
	var names []string
	for _, runner := range r.runners {
		if runner.racing {
			names = append(names, runner.Name)
		}
	}
	return names
}

// Add takes a measured block. An error leaves the race as it was: a name that is not in
// the race, or a value that is no objective (zero, negative, not finite).
func (r *Race) Add(block Block) error { return r.AddHeld(block, nil) }

// AddHeld is Add with what keeps candidates from winning, by name, as all blocks up to this
// one have it; who is not named is free.
func (r *Race) AddHeld(block Block, holds map[string]Hold) error {
	for name, value := range block {
		if name != r.baseline && !slices.ContainsFunc(r.runners, func(runner *runner) bool { return runner.Name == name }) {
			return fmt.Errorf("race: block %d: %q is neither the baseline nor a candidate", len(r.blocks)+1, name)
		}
		if !(value > 0) || math.IsInf(value, 0) {
			return fmt.Errorf("race: block %d: %s is %v: want a finite number above 0; leave out what failed", len(r.blocks)+1, name, value)
		}
	}
	kept := Block{}
	for name, value := range block {
		kept[name] = value
	}
	r.blocks = append(r.blocks, kept)
	own, heard := kept[r.baseline]
	r.unheard++
	if heard {
		r.unheard = 0
	}
	fresh := map[*runner]bool{}
	for _, runner := range r.runners {
		runner.hold = holds[runner.Name]
		value, measured := kept[runner.Name]
		switch {
		case measured && heard:
			runner.take(r.gain(value, own))
			fresh[runner] = true
		case !measured && runner.racing:
			runner.failures++
		}
	}
	r.measure(fresh)
	r.judge()
	return nil
}

// gain is the logarithm of how much better a value is than another.
func (r *Race) gain(value, than float64) float64 {
	if r.rules.LowerIsBetter {
		return math.Log(than / value)
	}
	return math.Log(value / than)
}

// take adds one log gain to mean and squares (Welford, Technometrics 4, 1962).
func (r *runner) take(gain float64) {
	r.pairs++
	away := gain - r.mean
	r.mean += away / float64(r.pairs)
	r.squares += away * (gain - r.mean)
}

// leastSpread is the least standard deviation of a log gain that is believed. A simulated
// server without noise repeats itself exactly, and so do three coarse readings now and
// then; an interval of no width would call any difference certain.
const leastSpread = 5e-4

// reach is half the width of the interval of a mean after n values whose squared
// distances from it sum to squares.
func (r *Race) reach(level float64, n int, squares float64) float64 {
	spread := max(math.Sqrt(squares/float64(n-1)), leastSpread)
	return r.limit(level).at(n) * spread / math.Sqrt(float64(n))
}

func (r *Race) limit(level float64) *limit {
	known, ok := r.limits[level]
	if !ok {
		known = newLimit(level, r.rules.Planned)
		r.limits[level] = known
	}
	return known
}

// measure forms the intervals of those with a fresh value. Holm's procedure: as many
// shares of the level as candidates whose interval does not exclude 0 yet; whoever's does
// gives its share to the others, which are looked at again. Its own level stays.
func (r *Race) measure(fresh map[*runner]bool) {
	open := 0
	for _, runner := range r.runners {
		if !runner.shown {
			open++
		}
	}
	for again := true; again; {
		again = false
		level := r.rules.Level / float64(max(open, 1))
		for _, runner := range r.runners {
			if !fresh[runner] || runner.pairs < firstLook || runner.shown {
				continue
			}
			reach := r.reach(level, runner.pairs, runner.squares)
			runner.level = level
			if runner.shown = math.Abs(runner.mean) > reach; runner.shown {
				open--
				again = true
			}
		}
	}
	for _, runner := range r.runners {
		if fresh[runner] && runner.pairs >= firstLook {
			runner.reach = r.reach(runner.level, runner.pairs, runner.squares)
			runner.low = max(runner.low, runner.mean-runner.reach)
			runner.high = min(runner.high, runner.mean+runner.reach)
		}
	}
}
