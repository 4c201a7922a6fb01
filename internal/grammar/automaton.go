package grammar

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"

	"ossian/internal/grammar/runes"
)

// unlimited is the room of a loop without upper bound.
const unlimited = -1

// A counting is what an edge does with the two counts of an item: need, the repetitions
// that are still to come before the loop may be left, and room, those that may still come.
// 0 = nothing, as for most edges. What is set is done in the order below.
type counting uint8

const (
	countMore  counting = 1 << iota // begins one more repetition: needs room
	countLeave                      // leaves the loop: needs nothing more
	countEnter                      // enters the loop whose head it leads to, with its bounds
	countCheck                      // leads to a state with as many repetitions to its end as the counts still allow
)

// An edge is taken by the bytes lo to hi, both included.
type edge struct {
	lo, hi byte
	count  counting
	to     int32
}

// A call is taken by whatever matches rule; behind it the caller is at to. Calls are not
// edges: a state's calls are all begun at once, where the state is reached.
type call struct {
	rule, to int32
	element  bool // while states are made
}

// A state has disjoint edges in ascending order.
type state struct {
	edges   []edge
	calls   []call
	accept  bool   // the rule has matched, if nothing more is needed
	counted bool   // counts matter, as in a loop
	element bool   // an element of a list whose elements differ has ended, where a call of it returns
	first   uint32 // bit b/8 for each byte b that edges or called rules may begin with

	// Of the head of a loop, its bounds behind the first repetition; where countCheck
	// leads, how many repetitions are left to the end, at least and at most.
	low, high int32
	slack     int32 // counts beyond a token's length by so much are as good as any larger ones
	margin    int32 // the same of room alone, where nothing is needed
}

// An automaton is the compiled form of all grammars: one deterministic byte automaton for
// each rule, with calls of rules as further steps. From every state a text leads to
// acceptance: trim saw to it, and masks rely on it.
//
// A rule may have counted loops, of which one at a time counts. Its repetitions left to
// need and to have room for are no part of the state, so a bound of a billion costs what
// one of two costs.
type automaton struct {
	states     []state
	start      []int32 // by rule; -1 = never called
	need, room []int32 // by rule, before its loop
	differ     []bool  // by rule: a list whose elements must differ; nil = there is none
}

var errNoMatch = errors.New("no text can match")

// A clash says that a loop cannot be counted: after some text its counts may be several,
// or it and what is beside it go on alike.
type clash struct{ loop *expr }

// Error says why; countable copies such a loop instead of counting it.
func (clash) Error() string {
	return "a counted repetition and what follows it begin alike"
}

// A determinizer makes sets of NFA states into states of an automaton (the subset
// construction). It differs from the textbook in two ways: an NFA state may call a rule
// instead of reading a byte, and a set in a counted loop keeps the loop's head apart from
// all else, so that an edge knows whether it begins a repetition (owner, heads).
type determinizer struct {
	nfa      *nfa
	budget   *budget
	out      *automaton
	ids      map[string]int32 // state by set, as determinizer.state spells it
	sets     [][]int32        // by state; nil = linked from elsewhere, nothing to expand
	owner    []int32          // by NFA state: the head of the loop whose body it is in, 0 = none
	heads    []int32          // by state: the NFA's head it is, 0 = none
	alone    []int32          // by NFA state: the state for it alone, -1 = not made yet
	nullable []bool           // by rule
	seen     []uint32         // by NFA state: the last closure that met it
	stamp    uint32           // number of the last closure; saves clearing seen
	stack    []int32          // of closure
	last     []int32          // what the last closure returned
	key      []byte           // of state
	buckets  [256][]int32     // of fill: NFA states to go to, by first byte of a range
	from     [256]int32       // of fill: the head of the loop whose body they come from
}

// determinize compiles the rules of a graph. The error is that of the budget, or errNoMatch.
func determinize(graph *nfa, budget *budget) (*automaton, error) {
	determinizer := &determinizer{nfa: graph, budget: budget, out: &automaton{}, ids: map[string]int32{}, nullable: make([]bool, len(graph.rules)),
		seen: make([]uint32, len(graph.states)), alone: slices.Repeat([]int32{-1}, len(graph.states))}
	if budget.err != nil {
		return nil, budget.err
	}
	determinizer.owner = make([]int32, len(graph.states))
	// Bodies do not nest (large), so a state is in one at most.
	for head, loop := range graph.loops {
		for id := loop.from; id < loop.to; id++ {
			determinizer.owner[id] = head
		}
	}
	determinizer.findNullable()
	determinizer.out.need, determinizer.out.room, determinizer.out.start = make([]int32, len(graph.rules)), make([]int32, len(graph.rules)), slices.Repeat([]int32{-1}, len(graph.rules))
	// Expanding a state may make further ones, and begin the rules it calls: rules that the
	// root does not reach cost nothing.
	if slices.ContainsFunc(graph.rules, func(r rule) bool { return r.differs }) {
		determinizer.out.differ = make([]bool, len(graph.rules))
		for i, r := range graph.rules {
			determinizer.out.differ[i] = r.differs
		}
	}
	determinizer.begin(0)
	for id := 0; id < len(determinizer.out.states) && budget.err == nil; id++ {
		determinizer.expand(int32(id))
	}
	if budget.err != nil {
		return nil, budget.err
	}
	return determinizer.out, determinizer.out.trim(budget)
}

// findNullable finds the rules that match the empty text. A closure goes on behind calls
// of those known so far, so it takes rounds until nothing changes.
func (d *determinizer) findNullable() {
	for changed := true; changed && d.budget.err == nil; {
		changed = false
		for i := range d.nfa.rules {
			if !d.nullable[i] && slices.Contains(d.closure([]int32{int32(i)}, edgeOfText{begin: true}), d.nfa.final) {
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
	out := d.last[:0]
	steps := 0
	for len(d.stack) > 0 {
		id := d.stack[len(d.stack)-1]
		d.stack = d.stack[:len(d.stack)-1]
		if d.seen[id] == d.stamp {
			continue
		}
		d.seen[id] = d.stamp
		steps++
		from := d.nfa.states[id]
		// Kept are states that read, call or end: a split says nothing by itself.
		keep, forth, aside := id != d.nfa.dead, false, false // and go on with out, and alt
		switch from.kind {
		case nSplit:
			keep, forth, aside = false, true, true
		case nBegin:
			keep, forth = false, at.begin
		case nEnd:
			forth = at.end
		case nLoop:
			forth, aside = at.loops, at.loops
		case nCall:
			forth = d.nullable[from.alt]
		}
		if keep {
			out = append(out, id)
		}
		if aside {
			d.stack = append(d.stack, from.alt)
		}
		if forth {
			d.stack = append(d.stack, from.out)
		}
	}
	d.budget.spend(steps + len(out))
	slices.Sort(out)
	d.last = out
	return out
}

// state returns the state for a set, which must be sorted: equal sets have one state.
func (d *determinizer) state(set []int32) int32 {
	d.key = d.key[:0]
	for _, i := range set {
		d.key = binary.LittleEndian.AppendUint32(d.key, uint32(i))
	}
	id, ok := d.ids[string(d.key)]
	if !ok {
		set = slices.Clone(set)
		id = int32(len(d.out.states))
		d.ids[string(d.key)] = id
		d.sets = append(d.sets, set)
		d.heads = append(d.heads, 0)
		d.out.states = append(d.out.states, state{accept: d.accepts(set)})
		d.budget.spend(12 + 2*len(set))
	}
	return id
}

// closed returns the state for what seeds reach. Where a loop counts there is nothing
// beside it, so that one pair of counts is enough.
func (d *determinizer) closed(seeds []int32, at edgeOfText) int32 {
	set := d.closure(seeds, at)
	for _, member := range set {
		// A set that holds the head of a loop must hold nothing else, and one within a body
		// nothing of another body: else two items with different counts would be one state.
		switch {
		case d.nfa.states[member].kind != nLoop:
			if d.owner[member] != d.owner[set[0]] {
				d.clash(max(d.owner[member], d.owner[set[0]]))
			}
		case len(set) > 1:
			d.clash(member)
		default:
			// The state is that of the head with what can follow it, body and exit. fill
			// tells the two apart by owner.
			at.loops = true
			id := d.state(d.closure([]int32{member}, at))
			loop := d.nfa.loops[member]
			d.heads[id] = member
			state := &d.out.states[id]
			state.counted, state.low, state.high = true, int32(loop.min), int32(loop.max)
			return id
		}
	}
	id := d.state(set)
	d.out.states[id].counted = len(set) > 0 && d.owner[set[0]] != 0
	return id
}

// clash ends the compilation because the loop at head cannot be counted.
func (d *determinizer) clash(head int32) { d.budget.fail(clash{d.nfa.loops[head].of}) }

// reached returns the state for what follows targets. Where a loop over many
// characters begins anew, nearly every edge leads.
func (d *determinizer) reached(targets []int32) int32 {
	if len(targets) > 1 {
		return d.closed(targets, edgeOfText{})
	}
	known := &d.alone[targets[0]]
	if *known < 0 {
		*known = d.closed(targets, edgeOfText{})
	}
	return *known
}

// accepts reports whether a rule ends in set, possibly only at the end of the text.
func (d *determinizer) accepts(set []int32) bool {
	if slices.Contains(set, d.nfa.final) {
		return true
	}
	isEnd := func(i int32) bool { return d.nfa.states[i].kind == nEnd }
	return slices.ContainsFunc(set, isEnd) && slices.Contains(d.closure(set, edgeOfText{end: true}), d.nfa.final)
}

// begin makes the first state of a rule. Rules that nobody calls have none.
func (d *determinizer) begin(rule int32) {
	if d.out.start[rule] >= 0 {
		return
	}
	// Its counts begin with the rule, and its automaton has them already.
	if body := d.nfa.rules[rule].body; body.op == opCounted {
		d.link(rule, body.machine)
		return
	}
	first := d.closed([]int32{rule}, edgeOfText{begin: true})
	if !d.out.states[first].accept && slices.Contains(d.closure([]int32{rule}, edgeOfText{begin: true, end: true}), d.nfa.final) {
		// $ before ^: the empty text, in a state of its own that no other text leads to.
		d.sets, d.heads = append(d.sets, d.sets[first]), append(d.heads, d.heads[first])
		first = int32(len(d.out.states))
		d.out.states = append(d.out.states, state{accept: true})
	}
	d.out.start[rule] = first
	if d.heads[first] != 0 {
		d.out.need[rule], d.out.room[rule] = d.out.states[first].low, d.out.states[first].high
	}
	if body := d.nfa.rules[rule].body; body.op == opLoop { // its loop may be another rule's
		d.out.need[rule], d.out.room[rule] = int32(body.min), int32(body.max)
	}
}

// link makes linked, which is complete, the automaton of a rule. Its states are copied.
func (d *determinizer) link(rule int32, linked *automaton) {
	base := int32(len(d.out.states))
	for _, copied := range linked.states {
		copied.edges = slices.Clone(copied.edges)
		for i := range copied.edges {
			copied.edges[i].to += base
		}
		d.out.states, d.sets, d.heads = append(d.out.states, copied), append(d.sets, nil), append(d.heads, 0)
		d.budget.spend(12 + 2*len(copied.edges))
	}
	d.out.start[rule], d.out.need[rule], d.out.room[rule] = base+linked.start[0], linked.need[0], linked.room[0]
}

// expand fills in edges and calls of state id.
func (d *determinizer) expand(id int32) {
	set := d.sets[id]
	if set == nil {
		return
	}
	// Between two neighbouring bounds all bytes are alike.
	var bounds runes.Cuts
	var calls []call
	for _, id := range set {
		switch from := d.nfa.states[id]; from.kind {
		case nBytes:
			bounds.Add(int(from.lo))
			bounds.Add(int(from.hi) + 1)
		case nTable:
			for _, next := range d.nfa.tables[from.alt] {
				bounds.Add(int(next.lo))
				bounds.Add(int(next.hi) + 1)
			}
		case nCall:
			calls = append(calls, call{rule: from.alt, to: from.out, element: from.lo == 1})
		}
	}
	d.fill(set, &bounds)
	var edges []edge
	for lo := bounds.Next(0); lo < 256; lo = bounds.Next(lo + 1) {
		if len(d.buckets[lo]) == 0 {
			continue
		}
		hi := bounds.Next(lo+1) - 1
		next := edge{lo: byte(lo), hi: byte(hi), to: d.reached(d.buckets[lo])}
		// Out of a head, bytes of its body begin a repetition and all others leave the loop.
		// Into a head from outside of its body, the loop begins: its bounds are loaded.
		if h := d.heads[id]; h != 0 && d.from[lo] == h {
			next.count = countMore
		} else if h != 0 {
			next.count = countLeave
		}
		if h := d.heads[next.to]; h != 0 && d.from[lo] != h {
			next.count |= countEnter
		}
		// Join with the edge before where nothing but the bound between them differs.
		if n := len(edges); n > 0 && edges[n-1].to == next.to && edges[n-1].count == next.count && int(edges[n-1].hi)+1 == lo {
			edges[n-1].hi = next.hi
		} else {
			edges = append(edges, next)
		}
	}
	d.out.states[id].edges = edges
	d.out.states[id].calls = d.calls(calls)
	d.budget.spend(2 * len(edges))
}

// fill sorts the targets of set into one bucket for each range of bytes that bounds
// cuts, at the range's first byte, and notes in from whose body each of them comes from.
func (d *determinizer) fill(set []int32, bounds *runes.Cuts) {
	// Buckets are used again: expansion is where compilation spends its time.
	for lo := bounds.Next(0); lo < 256; lo = bounds.Next(lo + 1) {
		d.buckets[lo] = d.buckets[lo][:0]
	}
	// Two bodies for one byte would want two pairs of counts.
	put := func(id int32, by edge) {
		owner := d.owner[id]
		for lo := int(by.lo); lo <= int(by.hi); lo = bounds.Next(lo + 1) {
			if len(d.buckets[lo]) > 0 && d.from[lo] != owner {
				d.clash(max(d.from[lo], owner))
			}
			d.from[lo] = owner
			d.buckets[lo] = append(d.buckets[lo], by.to)
		}
		d.budget.spend(1 + int(by.hi-by.lo)/16)
	}
	for _, id := range set {
		switch from := d.nfa.states[id]; from.kind {
		case nBytes:
			put(id, edge{lo: from.lo, hi: from.hi, to: from.out})
		case nTable:
			for _, by := range d.nfa.tables[from.alt] {
				put(id, by)
			}
		}
	}
}

// calls merges calls of the same rule, whose callers go on in one state, and begins it.
func (d *determinizer) calls(calls []call) []call {
	slices.SortFunc(calls, func(a, b call) int { return cmp.Compare(a.rule, b.rule) })
	var out []call
	for i := 0; i < len(calls); {
		var to []int32
		element := false
		rule := calls[i].rule
		for ; i < len(calls) && calls[i].rule == rule; i++ {
			to = append(to, calls[i].to)
			element = element || calls[i].element
		}
		d.begin(rule)
		behind := d.reached(to)
		d.out.states[behind].element = d.out.states[behind].element || element
		out = append(out, call{rule: rule, to: behind})
	}
	return out
}

// trim removes what leads nowhere. It returns errNoMatch when nothing is left of
// the first rule.
func (a *automaton) trim(budget *budget) error {
	// Backwards from the accepting states: what can reach one is live. A call needs both,
	// the state behind it and a live beginning of the rule called.
	before := make([][]int32, len(a.states)) // by state: from where it is reached, or called
	var work []int32
	live := make([]bool, len(a.states))
	for id, from := range a.states {
		for _, e := range from.edges {
			before[e.to] = append(before[e.to], int32(id))
		}
		for _, c := range from.calls {
			before[c.to] = append(before[c.to], int32(id))
			before[a.start[c.rule]] = append(before[a.start[c.rule]], int32(id))
		}
		if from.accept {
			live[id] = true
			work = append(work, int32(id))
		}
		if budget.spend(1 + len(from.edges)) {
			return budget.err
		}
	}
	alive := func(from state) bool {
		return slices.ContainsFunc(from.edges, func(e edge) bool { return live[e.to] }) ||
			slices.ContainsFunc(from.calls, func(c call) bool { return live[c.to] && live[a.start[c.rule]] })
	}
	for len(work) > 0 {
		id := work[len(work)-1]
		work = work[:len(work)-1]
		for _, previous := range before[id] {
			if !live[previous] && alive(a.states[previous]) {
				live[previous] = true
				work = append(work, previous)
			}
		}
		if budget.spend(1 + len(before[id])) {
			return budget.err
		}
	}
	if !live[a.start[0]] {
		return errNoMatch
	}
	for id := range a.states {
		from := &a.states[id]
		from.edges = slices.DeleteFunc(from.edges, func(e edge) bool { return !live[e.to] })
		from.calls = slices.DeleteFunc(from.calls, func(c call) bool { return !live[c.to] || !live[a.start[c.rule]] })
	}
	return nil
}

// findFirst fills in first, which is the FIRST set of textbooks in groups of eight bytes,
// and removes calls of rules that are always empty. After some rounds it makes do with
// more than is true, which costs time while matching and nothing else.
func (a *automaton) findFirst() {
	defer func() {
		for i := range a.states {
			state := &a.states[i]
			state.calls = slices.DeleteFunc(state.calls, func(c call) bool { return a.states[a.start[c.rule]].first == 0 })
		}
	}()
	// A call adds what the rule called begins with, so it takes rounds until nothing changes.
	for round := 0; ; round++ {
		changed := false
		for i := range a.states {
			state := &a.states[i]
			first := state.first
			for _, e := range state.edges {
				for b := e.lo / 8; b <= e.hi/8; b++ {
					first |= 1 << b
				}
			}
			for _, c := range state.calls {
				if first |= a.states[a.start[c.rule]].first; first != 0 && round > maxNesting {
					first = anyByte
				}
			}
			changed = changed || first != state.first
			state.first = first
		}
		if !changed {
			return
		}
	}
}

// first is the item that a's root begins with.
func (a *automaton) first(base *origin) item {
	return item{state: a.start[0], need: a.need[0], room: a.room[0], origin: base}
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
