package grammar

// Bounded repetitions without copies. {3,1000} as states would be a thousand copies of what
// is repeated; counted, it is one loop and two numbers in each item (item.need and room).
// That works where the text so far says how many repetitions there were: otherwise one
// state would have several counts at once, which the determinizer reports as a clash.
//
// Two kinds of repetitions are counted: those in a pattern (countable), and the characters
// of a string under minLength and maxLength beside a pattern (lengths).

import "slices"

// minCount is the smallest bound of a repetition that is counted, not copied.
const minCount = 16

// countable builds the automaton of e with counts for repetitions of least or more,
// where these are clear from the text so far.
func countable(e *expr, quoted bool, least int, budget *budget) (*automaton, error) {
	count := map[*expr]bool{}
	e.large(least, count)
	// Each clash copies one loop more, so this ends.
	for {
		out, err := build(e, quoted, count, budget)
		if unclear, ok := err.(clash); ok {
			budget.err = nil
			delete(count, unclear.loop)
			continue
		}
		return out, err
	}
}

// large adds repetitions of e to count, none inside another one (one pair of counts is all
// an item has), larger ones first.
func (e *expr) large(least int, count map[*expr]bool) {
	if n := e.bound(); n >= least && !e.sub[0].anchored() && e.sub[0].widest() <= n {
		count[e] = true
		return
	}
	for _, part := range e.sub {
		part.large(least, count)
	}
}

// bound is how often e, a repetition, copies what it repeats.
func (e *expr) bound() int {
	if e.op != opRepeat || e.sub[0].nullable() {
		return 0
	}
	return max(e.min, e.max)
}

// widest is the largest bound in e.
func (e *expr) widest() int {
	most := e.bound()
	for _, part := range e.sub {
		most = max(most, part.widest())
	}
	return most
}

// lengths returns what a accepts of lo to hi characters; hi < 0 = no limit. chars
// accepts any text and is at its start between characters. The lengths are counted, if
// they may be and every number between the fewest and the most characters to the end is
// possible in all states, or so few are missing that one of lo to hi is always there; otherwise
// each length has states of its own.
func lengths(a, chars *automaton, lo, hi int, count bool, budget *budget) (*automaton, error) {
	if !count {
		return layers(a, chars, lo, hi, true, budget)
	}
	out, err := layers(a, chars, lo, hi, false, budget)
	if err != nil {
		return nil, err
	}
	// With wide gaps the counts would allow ways that lead to no end. As long as characters
	// are needed, hi - lo + 1 numbers in a row are allowed; afterwards the fewest are.
	gap := unlimited
	if lo > 0 && hi >= 0 {
		gap = hi - lo
	}
	if !out.remaining(gap, budget) {
		return layers(a, chars, lo, hi, true, budget)
	}
	// The bounds may leave nothing, or cut nothing away.
	switch state := &out.states[out.start[0]]; {
	case hi >= 0 && int(state.low) > hi, state.high >= 0 && int(state.high) < lo:
		return nil, errNoMatch
	case int(state.low) >= lo && (hi < 0 || (state.high >= 0 && int(state.high) <= hi)):
		return a, nil
	}
	// Otherwise every edge checks that the end can still be reached with an allowed number.
	for i := range out.states {
		state := &out.states[i]
		state.counted = true
		for k := range state.edges {
			state.edges[k].count |= countCheck
		}
	}
	out.need[0], out.room[0] = int32(lo), int32(hi)
	return out, budget.err
}

// layers is a where chars is beside it, which knows where characters begin. Edges that
// begin one are marked with countMore; with copies, there is instead a copy of the states
// for each number of characters.
func layers(a, chars *automaton, lo, hi int, copies bool, budget *budget) (*automaton, error) {
	type pair struct {
		inside, char int32 // states of a and of chars
		length       int   // characters so far, 0 where they are not told apart
	}
	ids := map[pair]int32{}
	var todo []pair
	out := &automaton{start: []int32{0}, need: []int32{0}, room: []int32{0}}
	id := func(at pair) int32 {
		if hi < 0 {
			at.length = min(at.length, lo) // enough is enough
		}
		number, ok := ids[at]
		if !ok {
			number = int32(len(todo))
			ids[at] = number
			todo = append(todo, at)
			long := !copies || at.length >= lo
			out.states = append(out.states, state{accept: a.states[at.inside].accept && chars.states[at.char].accept && long})
			budget.spend(8)
		}
		return number
	}
	id(pair{a.start[0], chars.start[0], 0})
	for i := 0; i < len(todo) && budget.err == nil; i++ {
		at := todo[i]
		// Between two characters the next byte begins one: it is counted on the edge, or
		// by going on among the states for one character more.
		length, count := at.length, counting(0)
		if begins := chars.states[at.char].accept; begins && copies {
			if length++; length > hi && hi >= 0 {
				continue
			}
		} else if begins {
			count = countMore
		}
		var edges []edge
		for _, inside := range a.states[at.inside].edges {
			edges = overlay(edges, inside, chars.states[at.char].edges, func(char int32) (int32, bool) {
				if char < 0 {
					return 0, false
				}
				return id(pair{inside.to, char, length}), true
			})
		}
		for k := range edges {
			edges[k].count = count
		}
		out.states[i].edges = edges
		if len(todo) > 2*maxStates {
			return nil, errTooLarge
		}
	}
	if budget.err != nil {
		return nil, budget.err
	}
	return out, out.trim(budget)
}

// remaining fills in low and high of a's states, the fewest and the most edges with
// countMore on a way to the end, and slack. It reports whether no more than gap numbers in a
// row are missing between.
func (a *automaton) remaining(gap int, budget *budget) bool {
	const far = 1 << 30
	weight := func(e edge) int32 { return int32(e.count & countMore) }
	ahead := make([]int, len(a.states)) // edges whose ends have no high yet
	before := make([][]int32, len(a.states))
	var done []int32
	for id := range a.states {
		state := &a.states[id]
		if state.low, state.high, ahead[id] = far, unlimited, len(state.edges); state.accept {
			state.low = 0
		}
		if len(state.edges) == 0 {
			done = append(done, int32(id))
		}
		for _, e := range state.edges {
			before[e.to] = append(before[e.to], int32(id))
		}
	}
	// The fewest, in rounds. Edges mostly lead to higher states: going down takes few.
	for changed := true; changed; {
		changed = false
		for id := len(a.states) - 1; id >= 0; id-- {
			state := &a.states[id]
			for _, e := range state.edges {
				if n := a.states[e.to].low + weight(e); n < state.low {
					state.low, changed = n, true
				}
			}
			if budget.spend(1 + len(state.edges)/4) {
				return false
			}
		}
	}
	// The most, from the ends backwards: a state is done when all its edges lead to states
	// that are. Those before or on a ring never are, and have no upper limit.
	for len(done) > 0 {
		id := done[len(done)-1]
		done = done[:len(done)-1]
		state := &a.states[id]
		state.high = 0
		for _, e := range state.edges {
			state.high = max(state.high, a.states[e.to].high+weight(e))
		}
		for _, previous := range before[id] {
			if ahead[previous]--; ahead[previous] == 0 {
				done = append(done, previous)
			}
		}
	}
	return a.seamless(gap, budget)
}

// seamless reports whether the numbers of repetitions to the end have no gaps wider than
// gap, unlimited = any, and fills in slack. A wider gap of a number's way on would lead back
// along the edges to one between two spans of some state.
func (a *automaton) seamless(gap int, budget *budget) bool {
	slack, margin := int32(0), int32(0)
	for i := range a.states {
		state := &a.states[i]
		if state.low >= 1<<30 { // left over, behind no edge
			continue
		}
		slack, margin = max(slack, state.low, state.high), max(margin, state.low)
		// The numbers possible from here: 0 where it ends, and those of each edge's end,
		// plus what the edge counts. Sorted, each must be near the ones before.
		var spans [][2]int32 // a high of unlimited counts as very large
		if state.accept {
			spans = append(spans, [2]int32{0, 0})
		}
		for _, e := range state.edges {
			to, weight := &a.states[e.to], int32(e.count&countMore)
			span := [2]int32{to.low + weight, to.high + weight}
			if to.high == unlimited {
				span[1] = 1 << 30
			}
			spans = append(spans, span)
		}
		slices.SortFunc(spans, func(x, y [2]int32) int { return int(x[0] - y[0]) })
		most := spans[0][1]
		for _, span := range spans {
			if gap != unlimited && int(span[0]-most) > gap+1 {
				return false
			}
			most = max(most, span[1])
		}
		if budget.spend(1 + len(spans)/4) {
			return false
		}
	}
	for i := range a.states {
		a.states[i].slack, a.states[i].margin = slack, margin
	}
	return true
}

// counts reports whether a has counts.
func (a *automaton) counts() bool {
	return slices.ContainsFunc(a.states, func(s state) bool { return s.counted })
}
