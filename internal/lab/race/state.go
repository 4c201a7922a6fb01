package race

import (
	"fmt"
	"math"

	"ossian/internal/stat"
)

// A Verdict is what a race says of a candidate.
type Verdict string

// Verdicts of candidates (lab.md 4, item 6).
const (
	Accepted   Verdict = "accepted"
	Rejected   Verdict = "rejected"
	NotDecided Verdict = "not decided"
)

// An End says why a race is over.
type End string

// Ends of races (lab.md 4, item 4).
const (
	Running     End = ""              // it is not
	OneLeft     End = "one left"      // of each group one candidate is better than the baseline and its rivals
	NoneLeft    End = "none left"     // no candidate is worth keeping; the baseline wins
	Indifferent End = "indifferent"   // what is left differs by less than the least gain
	Contradict  End = "contradiction" // nothing is left to race, and ratios changed during the campaign
	Budget      End = "budget"        // the last block was spent
	Unheard     End = "baseline"      // the baseline failed block after block
)

// A Standing is what the blocks so far say of one candidate. Gains are shares: 0.03 is 3 %
// better than the baseline. Without Formed there is no interval yet.
type Standing struct {
	Candidate
	Verdict  Verdict       `json:"verdict"`
	Reason   string        `json:"reason"` // the part of the rule that gave the verdict, with its figures
	Gain     float64       `json:"gain"`   // the middle: of the mean of log ratios
	Interval stat.Interval `json:"interval"`
	Formed   bool          `json:"formed"`
	Level    float64       `json:"level,omitempty"` // chance that this interval ever misses
	Blocks   int           `json:"blocks"`          // with a value of both
	Failures int           `json:"failures,omitempty"`
	Since    int           `json:"since,omitempty"`  // block after which the verdict was this one
	Racing   bool          `json:"racing"`           // due in the next block
	Beaten   string        `json:"beaten,omitempty"` // the rival that turned out better; what is accepted may be beaten too
}

// A Comparison is of the best accepted candidate of a group with the next one.
type Comparison struct {
	Group     string        `json:"group,omitempty"`
	Best      string        `json:"best"`
	Second    string        `json:"second,omitempty"` // empty: no other was accepted
	Gain      float64       `json:"gain"`             // best over second, a share
	Interval  stat.Interval `json:"interval"`
	Formed    bool          `json:"formed"`
	Blocks    int           `json:"blocks"`
	Separated bool          `json:"separated"` // the interval excludes 0
	Equal     bool          `json:"equal"`     // the interval lies within the zone of indifference
}

// A State is what the blocks so far say.
type State struct {
	Blocks    int          `json:"blocks"`
	End       End          `json:"end,omitempty"`
	Standings []Standing   `json:"standings"` // in the order of New
	Best      []Comparison `json:"best"`      // one for each group with an accepted candidate, in the order of New
	Rule      string       `json:"rule"`
}

// State returns what the blocks so far say.
func (r *Race) State() State {
	state := State{Blocks: len(r.blocks), End: r.end(), Rule: r.Rule()}
	for _, runner := range r.runners {
		standing := Standing{Candidate: runner.Candidate, Verdict: runner.verdict, Reason: runner.reason, Blocks: runner.pairs,
			Failures: runner.failures, Since: runner.since, Beaten: runner.beaten, Racing: runner.racing && state.End == Running}
		if runner.pairs > 0 {
			standing.Gain = math.Expm1(runner.mean)
		}
		if runner.level > 0 {
			standing.Formed, standing.Level = true, runner.level
			low, high := runner.low, runner.high
			if runner.torn() { // they have nothing in common: the latest
				low, high = runner.mean-runner.reach, runner.mean+runner.reach
			}
			standing.Interval = stat.Interval{Low: math.Expm1(low), High: math.Expm1(high)}
		}
		state.Standings = append(state.Standings, standing)
	}
	for _, group := range r.groups() {
		if comparison, ok := r.best(group); ok {
			state.Best = append(state.Best, comparison)
		}
	}
	return state
}

// groups returns the candidates by group, in the order of New.
func (r *Race) groups() [][]*runner {
	var groups [][]*runner
	place := map[string]int{}
	for _, runner := range r.runners {
		at, known := place[runner.Group]
		if !known {
			at = len(groups)
			place[runner.Group] = at
			groups = append(groups, nil)
		}
		groups[at] = append(groups[at], runner)
	}
	return groups
}

// judge gives every candidate its verdict and says who runs on.
func (r *Race) judge() {
	before := make([]Verdict, len(r.runners))
	for i, runner := range r.runners {
		before[i] = runner.verdict
		runner.verdict, runner.reason = r.verdict(runner)
	}
	for _, group := range r.groups() {
		r.eliminate(group)
		r.contend(group)
	}
	for i, runner := range r.runners {
		if runner.verdict != before[i] {
			runner.since = len(r.blocks)
		}
	}
}

// verdict is the rule of lab.md 4, item 6, for one candidate against the baseline alone.
func (r *Race) verdict(runner *runner) (Verdict, string) {
	least := math.Log1p(r.rules.Least)
	share := fmt.Sprintf("%.1f %%", 100*math.Expm1(least)) // in words that are true of rates and of times
	switch {
	case runner.failures >= r.rules.Failures:
		return Rejected, fmt.Sprintf("unstable: failed in %d blocks", runner.failures)
	case runner.pairs < firstLook:
		return NotDecided, fmt.Sprintf("an interval needs %d blocks, there are %d", firstLook, runner.pairs)
	case runner.torn():
		return NotDecided, "intervals of earlier and later blocks exclude each other: its ratio to the baseline changed during the campaign"
	case runner.high < 0:
		return Rejected, "worse, by all of its interval"
	case runner.high < least:
		return Rejected, fmt.Sprintf("all of its interval is below a gain of %s", share)
	case runner.low > 0 && runner.mean >= least:
		return Accepted, fmt.Sprintf("better by all of its interval, and in the middle by at least %s", share)
	case runner.low > 0:
		return NotDecided, fmt.Sprintf("better by all of its interval, but in the middle by less than %s", share)
	}
	return NotDecided, "its interval holds no effect and gains worth keeping"
}

// eliminate drops who cannot be the best of a group: its whole interval lies below the
// lower end of a rival's that can win. Who was beaten by one that no longer can is back.
func (r *Race) eliminate(group []*runner) {
	for _, runner := range group {
		for _, rival := range group {
			if rival.Name == runner.beaten && rival.hold != Free {
				runner.beaten, runner.defeat = "", Comparison{}
			}
		}
	}
	for _, runner := range group {
		for _, rival := range group {
			stands := !rival.torn() && rival.failures < r.rules.Failures && rival.hold == Free
			if runner.beaten == "" && stands && rival.low > runner.high && !runner.torn() {
				runner.beaten = rival.Name
			}
		}
		if runner.beaten != "" && runner.verdict == NotDecided {
			runner.verdict = Rejected
			runner.reason = fmt.Sprintf("all of its interval is worse than that of %s", runner.beaten)
		}
	}
}

// contend says who of a group is due in the next block: who is undecided, and accepted
// ones as long as another one may still turn out better.
func (r *Race) contend(group []*runner) {
	undecided := false
	for _, runner := range group {
		runner.equal = false
		runner.racing = runner.verdict == NotDecided && !runner.torn()
		undecided = undecided || runner.racing
	}
	accepted := standing(group)
	if len(accepted) == 0 {
		return
	}
	contested := false
	best := accepted[0]
	for _, other := range accepted[1:] {
		comparison := r.compare(best, other, len(accepted))
		other.equal = comparison.Equal
		other.racing = !comparison.Separated && !comparison.Equal
		if comparison.Separated && best.hold == Free { // final: it gets no more blocks, and the best one's mean moves on
			other.beaten, other.defeat = best.Name, comparison
		}
		contested = contested || other.racing
	}
	// That it is unsure whether the best one can win is no reason to go on: to look until it is sure would
	// find it sure by chance.
	best.racing = contested || undecided
}

// standing returns the accepted, unbeaten candidates of a group that may win, the best first.
func standing(group []*runner) []*runner {
	var accepted []*runner
	for _, runner := range group {
		if runner.verdict == Accepted && runner.beaten == "" && runner.hold != Barred {
			accepted = append(accepted, runner)
		}
	}
	for at, runner := range accepted { // equal means leave the order of New
		if runner.mean > accepted[0].mean {
			accepted[0], accepted[at] = accepted[at], accepted[0]
		}
	}
	return accepted
}

// best compares the best of a group with the accepted one that comes next, beaten or not;
// false where none was accepted.
func (r *Race) best(group []*runner) (Comparison, bool) {
	left := standing(group)
	if len(left) == 0 {
		return Comparison{}, false
	}
	best := left[0]
	var second *runner
	accepted := 0
	for _, other := range group {
		if other.verdict != Accepted {
			continue
		}
		accepted++
		if other != best && (second == nil || other.mean > second.mean) {
			second = other
		}
	}
	if second == nil {
		return Comparison{Group: best.Group, Best: best.Name, Separated: true}, true
	}
	if second.defeat.Best == best.Name {
		return second.defeat, true
	}
	comparison := r.compare(best, second, accepted)
	comparison.Separated = comparison.Separated || second.beaten == best.Name
	return comparison, true
}

// compare sets two candidates against each other on the blocks that both were in. Of the
// accepted ones the best is known from the same data, so that the level is shared among
// all pairs of them.
func (r *Race) compare(best, second *runner, accepted int) Comparison {
	pair := newRunner(Candidate{})
	for _, block := range r.blocks {
		ours, have := block[best.Name]
		theirs, too := block[second.Name]
		if have && too {
			pair.take(r.gain(ours, theirs))
		}
	}
	comparison := Comparison{Group: best.Group, Best: best.Name, Second: second.Name, Blocks: pair.pairs}
	if pair.pairs > 0 {
		comparison.Gain = math.Expm1(pair.mean)
	}
	if pair.pairs >= firstLook {
		reach := r.reach(r.rules.Level/float64(accepted*(accepted-1)/2), pair.pairs, pair.squares)
		low, high, least := pair.mean-reach, pair.mean+reach, math.Log1p(r.rules.Least)
		comparison.Formed = true
		comparison.Interval = stat.Interval{Low: math.Expm1(low), High: math.Expm1(high)}
		comparison.Separated = low > 0
		comparison.Equal = low > -least && high < least
	}
	return comparison
}

// end says whether the race is over and why.
func (r *Race) end() End {
	racing, left, crowded, equal, lost := false, 0, false, false, false
	for _, group := range r.groups() {
		accepted := standing(group)
		left += len(accepted)
		crowded = crowded || len(accepted) > 1
		for _, runner := range group {
			racing = racing || runner.racing
			equal = equal || runner.equal
			lost = lost || runner.torn()
		}
	}
	switch {
	case r.unheard >= r.rules.Failures:
		return Unheard
	case !racing && left > 0 && crowded && equal:
		return Indifferent
	case !racing && left > 0:
		return OneLeft
	case !racing && lost:
		return Contradict
	case !racing:
		return NoneLeft
	case len(r.blocks) >= r.rules.Most:
		return Budget
	}
	return Running
}

// Rule states the method for the report, with its figures.
func (r *Race) Rule() string {
	rules := r.rules
	return fmt.Sprintf("A block runs the baseline and every candidate that is still in the race once, in random order, on prompts of its own. "+
		"Compared are logarithms of ratios to the baseline of the same block. From block %d on each candidate has a Student interval "+
		"whose width is such that all of them together ever miss, at whichever block one stops, with a chance of %.3g %% at most "+
		"(%d candidates; the level is spent with the fourth power of the share of %d planned blocks; Holm: who excludes 0 leaves its share to the others); "+
		"it is cut to what the intervals of earlier blocks hold. Accepted: the interval excludes 0 and the middle is %.3g %% or more. "+
		"Rejected: the whole interval lies below %.3g %%, or below a rival's, or %d trials failed. Everything else is not decided. "+
		"Blocks go to what is not decided, until one is left, what is left lies within %.3g %% of each other, or %d blocks were run.",
		firstLook, 100*rules.Level, len(r.runners), rules.Planned, 100*rules.Least, 100*rules.Least, rules.Failures, 100*rules.Least, rules.Most)
}
