package grammar

import "slices"

// simple builds the automaton of an expression without references.
func simple(e *expr, quoted bool, b *budget) (*automaton, error) {
	a, err := determinize(newNFA([]rule{{body: e}}, quoted, b), b)
	if err == nil && len(a.states) > maxStates {
		err = errTooLarge
	}
	return a, err
}

// matches reports whether a, which has no calls, accepts text.
func (a *automaton) matches(text string) bool {
	q := a.start[0]
	for i := range len(text) {
		e, ok := a.states[q].edge(text[i])
		if !ok {
			return false
		}
		q = e.to
	}
	return a.states[q].accept
}

// product combines two automata without calls: texts that both accept, or with not,
// those that a accepts and c does not.
func product(a, c *automaton, not bool, b *budget) (*automaton, error) {
	type pair struct{ a, c int32 } // c < 0: c has failed
	ids := map[pair]int32{}
	var todo []pair
	out := &automaton{start: []int32{0}, need: []int32{0}, room: []int32{0}}
	id := func(p pair) int32 {
		n, ok := ids[p]
		if !ok {
			n = int32(len(todo))
			ids[p] = n
			todo = append(todo, p)
			both := p.c >= 0 && c.states[p.c].accept
			out.states = append(out.states, state{accept: a.states[p.a].accept && both != not})
			b.spend(8)
		}
		return n
	}
	id(pair{a.start[0], c.start[0]})
	for i := 0; i < len(todo) && b.err == nil; i++ {
		p := todo[i]
		var edges []edge
		for _, e := range a.states[p.a].edges {
			var other []edge
			if p.c >= 0 {
				other = c.states[p.c].edges
			}
			edges = overlay(edges, e, other, func(to int32) (int32, bool) {
				if to < 0 && !not {
					return 0, false
				}
				return id(pair{e.to, to}), true
			})
			b.spend(1 + len(other)/4)
		}
		out.states[i].edges = edges
	}
	if b.err != nil {
		return nil, b.err
	}
	if err := out.trim(b); err != nil {
		return nil, err
	}
	if len(out.states) > maxStates {
		return nil, errTooLarge
	}
	return out, nil
}

// overlay appends the parts into which other cuts e. target gives the state of a
// part from the state of other's, -1 for none.
func overlay(edges []edge, e edge, other []edge, target func(int32) (int32, bool)) []edge {
	emit := func(lo, hi int, to int32) {
		if lo > hi {
			return
		}
		if t, ok := target(to); ok {
			edges = append(edges, edge{lo: byte(lo), hi: byte(hi), to: t})
		}
	}
	lo := int(e.lo)
	first, _ := slices.BinarySearchFunc(other, e.lo, func(o edge, b byte) int { return int(o.hi) - int(b) })
	for _, o := range other[first:] {
		if o.lo > e.hi {
			break
		}
		emit(lo, int(o.lo)-1, -1)
		emit(max(lo, int(o.lo)), min(int(o.hi), int(e.hi)), o.to)
		lo = int(o.hi) + 1
	}
	emit(lo, int(e.hi), -1)
	return edges
}

// lengths returns what a accepts of lo to hi characters; hi < 0 = no limit. chars
// accepts any text and is at its start between characters.
func lengths(a, chars *automaton, lo, hi int, b *budget) (*automaton, error) {
	type place struct {
		a, char int32
		n       int
	}
	ids := map[place]int32{}
	var todo []place
	out := &automaton{start: []int32{0}, need: []int32{0}, room: []int32{0}}
	id := func(p place) int32 {
		if hi < 0 {
			p.n = min(p.n, lo)
		}
		i, ok := ids[p]
		if !ok {
			i = int32(len(todo))
			ids[p] = i
			todo = append(todo, p)
			out.states = append(out.states, state{accept: a.states[p.a].accept && chars.states[p.char].accept && p.n >= lo})
			b.spend(8)
		}
		return i
	}
	id(place{a.start[0], chars.start[0], 0})
	for i := 0; i < len(todo) && b.err == nil; i++ {
		p := todo[i]
		n := p.n
		if chars.states[p.char].accept {
			if n++; n > hi && hi >= 0 {
				continue
			}
		}
		var edges []edge
		for _, e := range a.states[p.a].edges {
			edges = overlay(edges, e, chars.states[p.char].edges, func(to int32) (int32, bool) {
				if to < 0 {
					return 0, false
				}
				return id(place{e.to, to, n}), true
			})
		}
		out.states[i].edges = edges
		if len(todo) > 2*maxStates {
			return nil, errTooLarge
		}
	}
	if b.err != nil {
		return nil, b.err
	}
	return out, out.trim(b)
}
