package grammar

import "slices"

// simple builds the automaton of an expression without references.
func simple(e *expr, quoted bool, b *budget) (*automaton, error) {
	return build(e, quoted, nil, b)
}

func build(e *expr, quoted bool, count map[*expr]bool, b *budget) (*automaton, error) {
	a, err := determinize(newNFA([]rule{{body: e}}, quoted, count, b), b)
	if err == nil && len(a.states) > maxStates {
		err = errTooLarge
	}
	return a, err
}

// minCount is the smallest bound of a repetition that is counted, not copied.
const minCount = 16

// countable builds the automaton of e with counts for repetitions of least or more,
// where these are clear from the text so far.
func countable(e *expr, quoted bool, least int, b *budget) (*automaton, error) {
	count := map[*expr]bool{}
	e.large(least, count)
	for {
		a, err := build(e, quoted, count, b)
		if c, ok := err.(clash); ok {
			b.err = nil
			delete(count, c.loop)
			continue
		}
		return a, err
	}
}

// large adds repetitions of e to count, none inside another one, larger ones first.
func (e *expr) large(least int, count map[*expr]bool) {
	if n := e.bound(); n >= least && !e.sub[0].anchored() && e.sub[0].widest() <= n {
		count[e] = true
		return
	}
	for _, s := range e.sub {
		s.large(least, count)
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
	n := e.bound()
	for _, s := range e.sub {
		n = max(n, s.widest())
	}
	return n
}

// nullable reports whether e matches the empty text.
func (e *expr) nullable() bool {
	switch e.op {
	case opCat:
		return !slices.ContainsFunc(e.sub, func(s *expr) bool { return !s.nullable() })
	case opAlt:
		return slices.ContainsFunc(e.sub, (*expr).nullable)
	case opRepeat:
		return e.min == 0 || e.sub[0].nullable()
	}
	return e.op != opLit && e.op != opClass && e.op != opNever
}

// matches reports whether a, which has no calls, accepts text.
func (a *automaton) matches(text string) bool {
	it := item{q: a.start[0], need: a.need[0], room: a.room[0]}
	for i := range len(text) {
		e, ok := a.states[it.q].edge(text[i])
		if !ok || !it.take(e, &a.states[e.to]) {
			return false
		}
	}
	return a.states[it.q].accept && it.need == 0
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
// accepts any text and is at its start between characters. The lengths are counted, if
// they may be and every number between the fewest and the most characters to the end is
// possible in all states; otherwise each length has states of its own.
func lengths(a, chars *automaton, lo, hi int, count bool, b *budget) (*automaton, error) {
	if !count {
		return layers(a, chars, lo, hi, true, b)
	}
	out, err := layers(a, chars, lo, hi, false, b)
	if err != nil {
		return nil, err
	}
	if !out.remaining(b) {
		return layers(a, chars, lo, hi, true, b)
	}
	switch s := &out.states[out.start[0]]; {
	case hi >= 0 && int(s.low) > hi, s.high >= 0 && int(s.high) < lo:
		return nil, errNoMatch
	case int(s.low) >= lo && (hi < 0 || (s.high >= 0 && int(s.high) <= hi)):
		return a, nil
	}
	for i := range out.states {
		s := &out.states[i]
		s.counted = true
		for k := range s.edges {
			s.edges[k].count |= countCheck
		}
	}
	out.need[0], out.room[0] = int32(lo), int32(hi)
	return out, b.err
}

// layers is a where chars is beside it, its edges at the beginning of characters marked
// with countMore; with copies once for each number of characters.
func layers(a, chars *automaton, lo, hi int, copies bool, b *budget) (*automaton, error) {
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
			out.states = append(out.states, state{accept: a.states[p.a].accept && chars.states[p.char].accept && (!copies || p.n >= lo)})
			b.spend(8)
		}
		return i
	}
	id(place{a.start[0], chars.start[0], 0})
	for i := 0; i < len(todo) && b.err == nil; i++ {
		p := todo[i]
		n, count := p.n, counting(0)
		if first := chars.states[p.char].accept; first && copies {
			if n++; n > hi && hi >= 0 {
				continue
			}
		} else if first {
			count = countMore
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
		for k := range edges {
			edges[k].count = count
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

// remaining fills in low and high of a's states from its edges with countMore, and
// slack. It reports whether every number between them is possible.
func (a *automaton) remaining(b *budget) bool {
	const far = 1 << 30
	weight := func(e edge) int32 { return int32(e.count & countMore) }
	ahead := make([]int, len(a.states)) // edges whose ends have no high yet
	before := make([][]int32, len(a.states))
	var done []int32
	for i := range a.states {
		s := &a.states[i]
		if s.low, s.high, ahead[i] = far, unlimited, len(s.edges); s.accept {
			s.low = 0
		}
		if len(s.edges) == 0 {
			done = append(done, int32(i))
		}
		for _, e := range s.edges {
			before[e.to] = append(before[e.to], int32(i))
		}
	}
	for changed := true; changed; {
		changed = false
		for i := len(a.states) - 1; i >= 0; i-- {
			s := &a.states[i]
			for _, e := range s.edges {
				if n := a.states[e.to].low + weight(e); n < s.low {
					s.low, changed = n, true
				}
			}
			if b.spend(1 + len(s.edges)/4) {
				return false
			}
		}
	}
	for len(done) > 0 { // what is on no way to a ring has a most
		i := done[len(done)-1]
		done = done[:len(done)-1]
		s := &a.states[i]
		s.high = 0
		for _, e := range s.edges {
			s.high = max(s.high, a.states[e.to].high+weight(e))
		}
		for _, p := range before[i] {
			if ahead[p]--; ahead[p] == 0 {
				done = append(done, p)
			}
		}
	}
	return a.seamless(b)
}

// seamless reports whether the numbers of repetitions to the end have no gaps, and fills
// in slack.
func (a *automaton) seamless(b *budget) bool {
	slack := int32(0)
	for i := range a.states {
		s := &a.states[i]
		if s.low >= 1<<30 { // left over, behind no edge
			continue
		}
		slack = max(slack, s.low, s.high)
		var spans [][2]int32 // a high of unlimited counts as very large
		if s.accept {
			spans = append(spans, [2]int32{0, 0})
		}
		for _, e := range s.edges {
			to, w := &a.states[e.to], int32(e.count&countMore)
			span := [2]int32{to.low + w, to.high + w}
			if to.high == unlimited {
				span[1] = 1 << 30
			}
			spans = append(spans, span)
		}
		slices.SortFunc(spans, func(x, y [2]int32) int { return int(x[0] - y[0]) })
		most := spans[0][1]
		for _, x := range spans {
			if x[0] > most+1 {
				return false
			}
			most = max(most, x[1])
		}
		if b.spend(1 + len(spans)/4) {
			return false
		}
	}
	for i := range a.states {
		a.states[i].slack = slack
	}
	return true
}

// counts reports whether a has counts.
func (a *automaton) counts() bool {
	return slices.ContainsFunc(a.states, func(s state) bool { return s.counted })
}

// quotedEnd adds the quote behind the inside of a JSON string.
func (a *automaton) quotedEnd() *automaton {
	out := *a
	out.states = slices.Clone(a.states)
	for i := range out.states {
		s := &out.states[i]
		if !s.accept {
			continue
		}
		e := edge{lo: '"', hi: '"', to: int32(len(a.states))}
		if s.counted {
			e.count = countLeave
		}
		at, _ := slices.BinarySearchFunc(s.edges, '"', func(x edge, b byte) int { return int(x.lo) - int(b) })
		s.accept, s.edges = false, slices.Insert(slices.Clone(s.edges), at, e)
	}
	out.states = append(out.states, state{accept: true})
	return &out
}
