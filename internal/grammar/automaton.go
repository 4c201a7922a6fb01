package grammar

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
)

// unlimited is the room of a loop without upper bound.
const unlimited = -1

// A counting is what an edge does with the counts, in this order; 0 = nothing.
type counting uint8

const (
	countMore  counting = 1 << iota // begins one more repetition: needs room
	countLeave                      // leaves the loop: needs nothing more
	countEnter                      // enters the loop whose head it leads to, with its bounds
	countCheck                      // leads to a state with as many repetitions to its end as the counts still allow
)

// An edge is taken by the bytes lo to hi.
type edge struct {
	lo, hi byte
	count  counting
	to     int32
}

// A call is taken by whatever matches rule.
type call struct{ rule, to int32 }

// A state has disjoint edges in ascending order.
type state struct {
	edges   []edge
	calls   []call
	accept  bool   // the rule has matched, if nothing more is needed
	counted bool   // counts matter, as in a loop
	first   uint32 // bit b/8 for each byte b that edges or called rules may begin with

	// Of the head of a loop, its bounds behind the first repetition; where countCheck
	// leads, how many repetitions are left to the end, at least and at most.
	low, high int32
	slack     int32 // counts beyond a token's length by so much are as good as any larger ones
}

// An automaton is the compiled form of all grammars: one deterministic byte
// automaton for each rule, with calls of rules as further steps. From every state a
// text leads to acceptance.
//
// A rule may have counted loops, of which one at a time counts. Its repetitions left to
// need and to have room for are no part of the state, so a bound of a billion costs what
// one of two costs.
type automaton struct {
	states     []state
	start      []int32 // by rule; -1 = never called
	need, room []int32 // by rule, before its loop
}

var errNoMatch = errors.New("no text can match")

// A clash says that a loop cannot be counted: after some text its counts may be several,
// or it and what is beside it go on alike.
type clash struct{ loop *expr }

func (clash) Error() string {
	return "a counted repetition and what follows it begin alike"
}

// determinizer makes sets of NFA states into states of an automaton.
type determinizer struct {
	n        *nfa
	b        *budget
	a        *automaton
	ids      map[string]int32
	sets     [][]int32 // by state; nil = of a machine, complete
	owner    []int32   // by NFA state: the head of the loop whose body it is in, 0 = none
	heads    []int32   // by state: the NFA's head it is, 0 = none
	behind   []int32   // by NFA state: the state for it alone, -1 = not made yet
	nullable []bool    // by rule
	seen     []uint32  // by NFA state: the last closure that met it
	stamp    uint32
	stack    []int32
	out      []int32 // of the last closure
	key      []byte
	buckets  [256][]int32
}

// determinize compiles the rules of n. The error is b's, or errNoMatch.
func determinize(n *nfa, b *budget) (*automaton, error) {
	d := &determinizer{n: n, b: b, a: &automaton{}, ids: map[string]int32{}, nullable: make([]bool, len(n.rules)), seen: make([]uint32, len(n.states)),
		behind: slices.Repeat([]int32{-1}, len(n.states))}
	if b.err != nil {
		return nil, b.err
	}
	d.owner = make([]int32, len(n.states))
	for h, l := range n.loops {
		for i := l.from; i < l.to; i++ {
			d.owner[i] = h
		}
	}
	d.findNullable()
	d.a.need, d.a.room, d.a.start = make([]int32, len(n.rules)), make([]int32, len(n.rules)), slices.Repeat([]int32{-1}, len(n.rules))
	d.begin(0)
	for i := 0; i < len(d.a.states) && b.err == nil; i++ {
		d.expand(int32(i))
	}
	if b.err != nil {
		return nil, b.err
	}
	return d.a, d.a.trim(b)
}

func (d *determinizer) findNullable() {
	for changed := true; changed && d.b.err == nil; {
		changed = false
		for i := range d.n.rules {
			if !d.nullable[i] && slices.Contains(d.closure([]int32{int32(i)}, edgeOfText{begin: true}), d.n.final) {
				d.nullable[i] = true
				changed = true
			}
		}
	}
}

// An edgeOfText says which ends of the text a closure is at, and whether it goes on
// behind the heads of loops.
type edgeOfText struct{ begin, end, loops bool }

// closure returns the states that matter among those reachable from seeds without a
// byte, in ascending order; they are overwritten by the next closure. What follows a
// rule that may be empty is reachable, so that no call ever returns where it began.
func (d *determinizer) closure(seeds []int32, at edgeOfText) []int32 {
	d.stamp++
	d.stack = append(d.stack[:0], seeds...)
	out := d.out[:0]
	steps := 0
	for len(d.stack) > 0 {
		i := d.stack[len(d.stack)-1]
		d.stack = d.stack[:len(d.stack)-1]
		if d.seen[i] == d.stamp {
			continue
		}
		d.seen[i] = d.stamp
		steps++
		s := d.n.states[i]
		keep, forth, aside := i != d.n.dead, false, false // and go on with out, and alt
		switch s.kind {
		case nSplit:
			keep, forth, aside = false, true, true
		case nBegin:
			keep, forth = false, at.begin
		case nEnd:
			forth = at.end
		case nLoop:
			forth, aside = at.loops, at.loops
		case nCall:
			forth = d.nullable[s.alt]
		}
		if keep {
			out = append(out, i)
		}
		if aside {
			d.stack = append(d.stack, s.alt)
		}
		if forth {
			d.stack = append(d.stack, s.out)
		}
	}
	d.b.spend(steps + len(out))
	slices.Sort(out)
	d.out = out
	return out
}

// state returns the state for a set.
func (d *determinizer) state(set []int32) int32 {
	d.key = d.key[:0]
	for _, i := range set {
		d.key = binary.LittleEndian.AppendUint32(d.key, uint32(i))
	}
	id, ok := d.ids[string(d.key)]
	if !ok {
		set = slices.Clone(set)
		id = int32(len(d.a.states))
		d.ids[string(d.key)] = id
		d.sets = append(d.sets, set)
		d.heads = append(d.heads, 0)
		d.a.states = append(d.a.states, state{accept: d.accepts(set)})
		d.b.spend(12 + 2*len(set))
	}
	return id
}

// closed returns the state for what seeds reach. Where a loop counts there is nothing
// beside it, so that one pair of counts is enough.
func (d *determinizer) closed(seeds []int32, at edgeOfText) int32 {
	set := d.closure(seeds, at)
	for _, i := range set {
		switch {
		case d.n.states[i].kind != nLoop:
			if d.owner[i] != d.owner[set[0]] {
				d.clash(max(d.owner[i], d.owner[set[0]]))
			}
		case len(set) > 1:
			d.clash(i)
		default:
			at.loops = true
			q := d.state(d.closure([]int32{i}, at))
			l := d.n.loops[i]
			d.heads[q] = i
			s := &d.a.states[q]
			s.counted, s.low, s.high = true, int32(l.min), int32(l.max)
			return q
		}
	}
	q := d.state(set)
	d.a.states[q].counted = len(set) > 0 && d.owner[set[0]] != 0
	return q
}

func (d *determinizer) clash(head int32) { d.b.fail(clash{d.n.loops[head].of}) }

// reached returns the state for what follows targets. Where a loop over many
// characters begins anew, nearly every edge leads.
func (d *determinizer) reached(targets []int32) int32 {
	if len(targets) > 1 {
		return d.closed(targets, edgeOfText{})
	}
	known := &d.behind[targets[0]]
	if *known < 0 {
		*known = d.closed(targets, edgeOfText{})
	}
	return *known
}

// accepts reports whether a rule ends in set, possibly only at the end of the text.
func (d *determinizer) accepts(set []int32) bool {
	if slices.Contains(set, d.n.final) {
		return true
	}
	isEnd := func(i int32) bool { return d.n.states[i].kind == nEnd }
	return slices.ContainsFunc(set, isEnd) && slices.Contains(d.closure(set, edgeOfText{end: true}), d.n.final)
}

// begin makes the first state of a rule. Rules that nobody calls have none.
func (d *determinizer) begin(rule int32) {
	if d.a.start[rule] >= 0 {
		return
	}
	if body := d.n.rules[rule].body; body.op == opCounted {
		d.link(rule, body.machine)
		return
	}
	q := d.closed([]int32{rule}, edgeOfText{begin: true})
	if !d.a.states[q].accept && slices.Contains(d.closure([]int32{rule}, edgeOfText{begin: true, end: true}), d.n.final) {
		d.sets, d.heads = append(d.sets, d.sets[q]), append(d.heads, d.heads[q]) // $ before ^: the empty text, and no other that leads here
		q = int32(len(d.a.states))
		d.a.states = append(d.a.states, state{accept: true})
	}
	d.a.start[rule] = q
	if d.heads[q] != 0 {
		d.a.need[rule], d.a.room[rule] = d.a.states[q].low, d.a.states[q].high
	}
}

// link makes m the automaton of a rule.
func (d *determinizer) link(rule int32, m *automaton) {
	base := int32(len(d.a.states))
	for _, s := range m.states {
		s.edges = slices.Clone(s.edges)
		for i := range s.edges {
			s.edges[i].to += base
		}
		d.a.states, d.sets, d.heads = append(d.a.states, s), append(d.sets, nil), append(d.heads, 0)
		d.b.spend(12 + 2*len(s.edges))
	}
	d.a.start[rule], d.a.need[rule], d.a.room[rule] = base+m.start[0], m.need[0], m.room[0]
}

// expand fills in edges and calls of state id.
func (d *determinizer) expand(id int32) {
	set := d.sets[id]
	if set == nil {
		return
	}
	var bounds [257]bool
	var calls []call
	for _, i := range set {
		switch s := d.n.states[i]; s.kind {
		case nBytes:
			bounds[s.lo] = true
			bounds[int(s.hi)+1] = true
		case nTable:
			for _, e := range d.n.tables[s.alt] {
				bounds[e.lo] = true
				bounds[int(e.hi)+1] = true
			}
		case nCall:
			calls = append(calls, call{rule: s.alt, to: s.out})
		}
	}
	from := d.fill(set, &bounds)
	var edges []edge
	for lo := 0; lo < 256; lo++ {
		if len(d.buckets[lo]) == 0 {
			continue
		}
		hi := lo
		for hi < 255 && !bounds[hi+1] {
			hi++
		}
		e := edge{lo: byte(lo), hi: byte(hi), to: d.reached(d.buckets[lo])}
		if h := d.heads[id]; h != 0 && from[lo] == h {
			e.count = countMore
		} else if h != 0 {
			e.count = countLeave
		}
		if h := d.heads[e.to]; h != 0 && from[lo] != h {
			e.count |= countEnter
		}
		if n := len(edges); n > 0 && edges[n-1].to == e.to && edges[n-1].count == e.count && int(edges[n-1].hi)+1 == lo {
			edges[n-1].hi = e.hi
		} else {
			edges = append(edges, e)
		}
	}
	d.a.states[id].edges = edges
	d.a.states[id].calls = d.calls(calls)
	d.b.spend(2 * len(edges))
}

// fill sorts the targets of set into one bucket for each range of bytes that bounds
// cuts, at the range's first byte. It returns whose body each of them comes from.
func (d *determinizer) fill(set []int32, bounds *[257]bool) (from [256]int32) {
	for i := range d.buckets {
		d.buckets[i] = d.buckets[i][:0]
	}
	put := func(i int32, e edge) {
		owner := d.owner[i]
		for lo := int(e.lo); lo <= int(e.hi); lo++ {
			if !bounds[lo] {
				continue
			}
			if len(d.buckets[lo]) > 0 && from[lo] != owner {
				d.clash(max(from[lo], owner))
			}
			from[lo] = owner
			d.buckets[lo] = append(d.buckets[lo], e.to)
		}
		d.b.spend(1 + int(e.hi-e.lo)/16)
	}
	for _, i := range set {
		switch s := d.n.states[i]; s.kind {
		case nBytes:
			put(i, edge{lo: s.lo, hi: s.hi, to: s.out})
		case nTable:
			for _, e := range d.n.tables[s.alt] {
				put(i, e)
			}
		}
	}
	return from
}

// calls merges calls of the same rule.
func (d *determinizer) calls(calls []call) []call {
	slices.SortFunc(calls, func(a, b call) int { return cmp.Compare(a.rule, b.rule) })
	var out []call
	for i := 0; i < len(calls); {
		var to []int32
		rule := calls[i].rule
		for ; i < len(calls) && calls[i].rule == rule; i++ {
			to = append(to, calls[i].to)
		}
		d.begin(rule)
		out = append(out, call{rule: rule, to: d.reached(to)})
	}
	return out
}

// trim removes what leads nowhere. It returns errNoMatch when nothing is left of
// the first rule.
func (a *automaton) trim(b *budget) error {
	before := make([][]int32, len(a.states)) // by state: from where it is reached, or called
	var work []int32
	live := make([]bool, len(a.states))
	for i, s := range a.states {
		for _, e := range s.edges {
			before[e.to] = append(before[e.to], int32(i))
		}
		for _, c := range s.calls {
			before[c.to] = append(before[c.to], int32(i))
			before[a.start[c.rule]] = append(before[a.start[c.rule]], int32(i))
		}
		if s.accept {
			live[i] = true
			work = append(work, int32(i))
		}
		if b.spend(1 + len(s.edges)) {
			return b.err
		}
	}
	alive := func(s state) bool {
		return slices.ContainsFunc(s.edges, func(e edge) bool { return live[e.to] }) ||
			slices.ContainsFunc(s.calls, func(c call) bool { return live[c.to] && live[a.start[c.rule]] })
	}
	for len(work) > 0 {
		i := work[len(work)-1]
		work = work[:len(work)-1]
		for _, p := range before[i] {
			if !live[p] && alive(a.states[p]) {
				live[p] = true
				work = append(work, p)
			}
		}
		if b.spend(1 + len(before[i])) {
			return b.err
		}
	}
	if !live[a.start[0]] {
		return errNoMatch
	}
	for i := range a.states {
		s := &a.states[i]
		s.edges = slices.DeleteFunc(s.edges, func(e edge) bool { return !live[e.to] })
		s.calls = slices.DeleteFunc(s.calls, func(c call) bool { return !live[c.to] || !live[a.start[c.rule]] })
	}
	return nil
}

// findFirst fills in first, and removes calls of rules that are always empty. After
// some rounds it makes do with more than is true.
func (a *automaton) findFirst() {
	defer func() {
		for i := range a.states {
			s := &a.states[i]
			s.calls = slices.DeleteFunc(s.calls, func(c call) bool { return a.states[a.start[c.rule]].first == 0 })
		}
	}()
	for round := 0; ; round++ {
		changed := false
		for i := range a.states {
			s := &a.states[i]
			first := s.first
			for _, e := range s.edges {
				for b := e.lo / 8; b <= e.hi/8; b++ {
					first |= 1 << b
				}
			}
			for _, c := range s.calls {
				if first |= a.states[a.start[c.rule]].first; first != 0 && round > maxNesting {
					first = anyByte
				}
			}
			changed = changed || first != s.first
			s.first = first
		}
		if !changed {
			return
		}
	}
}

// edge returns the edge of s that b takes.
func (s *state) edge(b byte) (edge, bool) {
	lo, hi := 0, len(s.edges)
	for lo < hi {
		mid := (lo + hi) / 2
		if s.edges[mid].hi < b {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo < len(s.edges) && s.edges[lo].lo <= b {
		return s.edges[lo], true
	}
	return edge{}, false
}
