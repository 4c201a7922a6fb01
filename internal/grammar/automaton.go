package grammar

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
)

// unlimited is the room of a loop without upper bound.
const unlimited = -1

type counting uint8

const (
	countNone  counting = iota
	countMore           // begins one more repetition: needs room
	countLeave          // leaves the loop: needs nothing more
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
	edges  []edge
	calls  []call
	accept bool   // the rule has matched
	first  uint32 // bit b/8 for each byte b that edges or called rules may begin with
}

// An automaton is the compiled form of all grammars: one deterministic byte
// automaton for each rule, with calls of rules as further steps. From every state a
// text leads to acceptance.
//
// A rule may have one counted loop. Its repetitions left to need and to have room
// for are no part of the state, so a bound of a billion costs what one of two costs.
type automaton struct {
	states     []state
	start      []int32 // by rule; -1 = never called
	need, room []int32 // by rule, before its loop
}

var errNoMatch = errors.New("no text can match")

// determinizer makes sets of NFA states into states of an automaton.
type determinizer struct {
	n        *nfa
	b        *budget
	a        *automaton
	ids      map[string]int32
	sets     [][]int32 // by state
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
	d.findNullable()
	for _, r := range n.rules {
		need, room := 0, 0
		if r.counted() {
			need, room = r.body.min, r.body.max
		}
		d.a.need = append(d.a.need, int32(need))
		d.a.room = append(d.a.room, int32(room))
		d.a.start = append(d.a.start, -1)
	}
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

// An edgeOfText says which ends of the text a closure is at.
type edgeOfText struct{ begin, end bool }

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
			forth, aside = true, true
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
		d.a.states = append(d.a.states, state{accept: d.accepts(set)})
		d.b.spend(12 + 2*len(set))
	}
	return id
}

// reached returns the state for what follows targets. Where a loop over many
// characters begins anew, nearly every edge leads.
func (d *determinizer) reached(targets []int32) int32 {
	if len(targets) > 1 {
		return d.state(d.closure(targets, edgeOfText{}))
	}
	known := &d.behind[targets[0]]
	if *known < 0 {
		*known = d.state(d.closure(targets, edgeOfText{}))
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
	if d.a.start[rule] < 0 {
		d.a.start[rule] = d.state(d.closure([]int32{rule}, edgeOfText{begin: true}))
	}
}

// expand fills in edges and calls of state id.
func (d *determinizer) expand(id int32) {
	set := d.sets[id]
	var bounds [257]bool
	var body [2]int32 // NFA states of the counted part
	counted := false
	var calls []call
	for _, i := range set {
		switch s := d.n.states[i]; s.kind {
		case nBytes:
			bounds[s.lo] = true
			bounds[int(s.hi)+1] = true
		case nCall:
			calls = append(calls, call{rule: s.alt, to: s.out})
		case nLoop:
			counted = true
			body = d.n.bodies[i]
		}
	}
	more := d.fill(set, &bounds, body)
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
		switch {
		case counted && more[lo] == len(d.buckets[lo]):
			e.count = countMore
		case counted && more[lo] > 0:
			d.b.fail(errors.New("a counted repetition and what follows it begin alike"))
		case counted:
			e.count = countLeave
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
// cuts, at the range's first byte; more counts those from the counted part.
func (d *determinizer) fill(set []int32, bounds *[257]bool, body [2]int32) (more [256]int) {
	for i := range d.buckets {
		d.buckets[i] = d.buckets[i][:0]
	}
	for _, i := range set {
		s := d.n.states[i]
		if s.kind != nBytes {
			continue
		}
		for lo := int(s.lo); lo <= int(s.hi); lo++ {
			if !bounds[lo] {
				continue
			}
			d.buckets[lo] = append(d.buckets[lo], s.out)
			if i >= body[0] && i < body[1] {
				more[lo]++
			}
		}
		d.b.spend(1 + int(s.hi-s.lo)/16)
	}
	return more
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
