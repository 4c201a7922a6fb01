package grammar

import "slices"

// simple builds the automaton of an expression without references and without counts.
func simple(e *expr, quoted bool, b *budget) (*automaton, error) {
	return build(e, quoted, nil, b)
}

// build builds the automaton of an expression; repetitions in count are counted.
func build(e *expr, quoted bool, count map[*expr]bool, b *budget) (*automaton, error) {
	out, err := determinize(newNFA([]rule{{body: e}}, quoted, count, b), b)
	if err == nil && len(out.states) > maxStates {
		err = errTooLarge
	}
	return out, err
}

// matches reports whether a, which has no calls, accepts text.
func (a *automaton) matches(text string) bool {
	it := item{state: a.start[0], need: a.need[0], room: a.room[0]}
	for i := range len(text) {
		next, ok := a.states[it.state].edge(text[i])
		if !ok || !it.take(next, &a.states[next.to]) {
			return false
		}
	}
	return a.states[it.state].accept && it.need == 0
}

// product combines two automata without calls: texts that both accept, or with not,
// those that left accepts and right does not. Its states are pairs of theirs.
func product(left, right *automaton, not bool, budget *budget) (*automaton, error) {
	type pair struct{ left, right int32 } // right < 0: it has failed
	ids := map[pair]int32{}
	var todo []pair
	out := &automaton{start: []int32{0}, need: []int32{0}, room: []int32{0}}
	id := func(at pair) int32 {
		number, ok := ids[at]
		if !ok {
			number = int32(len(todo))
			ids[at] = number
			todo = append(todo, at)
			accepted := at.right >= 0 && right.states[at.right].accept
			out.states = append(out.states, state{accept: left.states[at.left].accept && accepted != not})
			budget.spend(8)
		}
		return number
	}
	id(pair{left.start[0], right.start[0]})
	for i := 0; i < len(todo) && budget.err == nil; i++ {
		at := todo[i]
		var edges []edge
		for _, whole := range left.states[at.left].edges {
			var other []edge
			if at.right >= 0 {
				other = right.states[at.right].edges
			}
			edges = overlay(edges, whole, other, func(to int32) (int32, bool) {
				if to < 0 && !not { // what right does not read, both do not
					return 0, false
				}
				return id(pair{whole.to, to}), true
			})
			budget.spend(1 + len(other)/4)
		}
		out.states[i].edges = edges
	}
	if budget.err != nil {
		return nil, budget.err
	}
	if err := out.trim(budget); err != nil {
		return nil, err
	}
	if len(out.states) > maxStates {
		return nil, errTooLarge
	}
	return out, nil
}

// overlay appends the parts into which other cuts whole, an edge. target gives the state
// of a part from the state of other's, -1 for none.
func overlay(edges []edge, whole edge, other []edge, target func(int32) (int32, bool)) []edge {
	emit := func(lo, hi int, to int32) {
		if lo > hi {
			return
		}
		if t, ok := target(to); ok {
			edges = append(edges, edge{lo: byte(lo), hi: byte(hi), to: t})
		}
	}
	lo := int(whole.lo)
	first, _ := slices.BinarySearchFunc(other, whole.lo, func(part edge, b byte) int { return int(part.hi) - int(b) })
	// A gap before the part, then the part.
	for _, part := range other[first:] {
		if part.lo > whole.hi {
			break
		}
		emit(lo, int(part.lo)-1, -1)
		emit(max(lo, int(part.lo)), min(int(part.hi), int(whole.hi)), part.to)
		lo = int(part.hi) + 1
	}
	emit(lo, int(whole.hi), -1)
	return edges
}

// quotedEnd is a with the quote behind the inside of a JSON string, which leaves the loop:
// there its counts are checked. Inside, quotes are escaped, so no edge has one yet.
func (a *automaton) quotedEnd() *automaton {
	out := *a
	out.states = slices.Clone(a.states)
	for i := range out.states {
		state := &out.states[i]
		if !state.accept {
			continue
		}
		quote := edge{lo: '"', hi: '"', to: int32(len(a.states))}
		if state.counted {
			quote.count = countLeave
		}
		at, _ := slices.BinarySearchFunc(state.edges, '"', func(x edge, b byte) int { return int(x.lo) - int(b) })
		state.accept, state.edges = false, slices.Insert(slices.Clone(state.edges), at, quote)
	}
	out.states = append(out.states, state{accept: true})
	return &out
}
