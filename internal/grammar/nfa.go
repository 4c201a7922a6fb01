package grammar

import (
	"encoding/binary"
	"slices"

	"ossian/internal/grammar/runes"
)

// maxDepth bounds recursion over expressions; front ends nest less deep, except for
// long tuples.
const maxDepth = 20_000

// An nkind is what an NFA state does before matching goes on.
type nkind uint8

const (
	nBytes nkind = iota // one byte lo to hi, then out
	nTable              // one byte, then what table alt says
	nSplit              // out or alt
	nCall               // what rule alt matches, then out; lo = 1: an element of a list whose elements differ
	nBegin              // out, at the beginning only
	nEnd                // out, at the end only
	nLoop               // out (one more) or alt (enough)
	nFinal              // the rule has matched
)

// An nstate is a state of an NFA. Its number is its place in nfa.states.
type nstate struct {
	kind     nkind
	lo, hi   byte
	out, alt int32
}

// A rule is a named expression. Rules call each other, also themselves.
type rule struct {
	name    string
	body    *expr  // nil until defined
	at      *value // of a rule for a schema: the first schema
	call    bool   // it is always called: many such rules together would make a large automaton
	quoted  bool   // as in nfa
	copied  bool   // it is copied where it is called, if it is small
	differs bool   // a list whose elements must differ
}

// counted reports whether the rule's counts begin with it.
func (r rule) counted() bool { return r.body != nil && (r.body.op == opLoop || r.body.op == opCounted) }

// An nfa has the bytes of all rules in one graph (Thompson's construction, made from the
// end: a state is made when the one behind it is there). State i, below len(rules), is the
// entry of rule i; the state after them is final, where every rule ends.
//
// A rule that ends with a call of another one goes there instead of calling: what
// recursion to the right says is a loop, and costs no memory while matching.
type nfa struct {
	states []nstate
	rules  []rule
	final  int32                 // where every rule ends
	dead   int32                 // reads nothing: what cannot match, or comes after an error
	quoted bool                  // characters of the current rule are spelled as inside a JSON string, in the shortest way
	tables [][]edge              // by alt of an nTable state: edges that are disjoint and in order
	loops  map[int32]countedLoop // by nLoop state
	count  map[*expr]bool        // repetitions to count
	budget *budget

	weights []int                        // by rule: 1 + what copying it would take, large; 0 = not known
	current int                          // the rule being built
	depth   int                          // of build
	shared  map[string]int32             // tables of one class, by what is in them
	spelled [2]map[*expr][][]runes.Bytes // classes in bytes; second: quoted
}

// A countedLoop has the bounds of a loop, and the states of its body from, to - 1.
type countedLoop struct {
	min, max int
	from, to int32
	of       *expr // the repetition, for clash; nil for opLoop
}

// newNFA builds the graph of all rules. Repetitions in count are counted, others copied.
func newNFA(rules []rule, quoted bool, count map[*expr]bool, b *budget) *nfa {
	graph := &nfa{rules: rules, quoted: quoted, count: count, budget: b, shared: map[string]int32{}, spelled: [2]map[*expr][][]runes.Bytes{{}, {}}}
	graph.states = make([]nstate, len(rules)+2)
	graph.final = int32(len(rules))
	graph.dead = graph.final + 1
	graph.states[graph.final] = nstate{kind: nFinal}
	graph.states[graph.dead] = nstate{kind: nBytes, lo: 1, hi: 0}
	graph.loops = map[int32]countedLoop{}
	graph.weights = make([]int, len(rules))
	heads := map[loopKey]int{}
	// An entry is a state of its own, since rules built before may lead to it.
	for i, rule := range rules {
		graph.current, graph.quoted = i, quoted || rule.quoted
		// Rules that repeat the same with other bounds share a loop: these begin with the rule.
		if rule.body.op == opLoop {
			key := loopKey{rule.body.sub[0], rule.body.sub[1], graph.quoted}
			if first, ok := heads[key]; ok {
				graph.states[i] = graph.states[first]
				continue
			}
			heads[key] = i
		}
		start := graph.build(rule.body, graph.final)
		graph.states[i] = nstate{kind: nSplit, out: start, alt: start}
	}
	return graph
}

// add makes a state and returns its number, dead when the budget is used up.
func (n *nfa) add(state nstate) int32 {
	if len(n.states) >= maxNFA {
		n.budget.fail(errTooLarge)
	}
	if n.budget.spend(1) {
		return n.dead
	}
	n.states = append(n.states, state)
	return int32(len(n.states) - 1)
}

func (n *nfa) split(out, alt int32) int32 {
	return n.add(nstate{kind: nSplit, out: out, alt: alt})
}

// build returns a state that matches e and goes on with next.
func (n *nfa) build(e *expr, next int32) int32 {
	if n.depth++; n.depth > maxDepth {
		n.budget.fail(errTooLarge)
	}
	defer func() { n.depth-- }()
	if n.budget.err != nil {
		return n.dead
	}
	switch e.op {
	case opEmpty:
		return next
	case opLit:
		if n.quoted {
			return n.bytes(quoted(e.lit), next)
		}
		return n.bytes(e.lit, next)
	case opClass:
		return n.class(e, next)
	case opCat:
		for i := len(e.sub) - 1; i >= 0; i-- {
			next = n.build(e.sub[i], next)
		}
		return next
	case opAlt:
		start := n.build(e.sub[len(e.sub)-1], next)
		for i := len(e.sub) - 2; i >= 0; i-- {
			start = n.split(n.build(e.sub[i], next), start)
		}
		return start
	case opRepeat:
		if n.count[e] {
			return n.counted(e, next)
		}
		return n.repeat(e, next)
	case opRef:
		if e.element {
			return n.add(nstate{kind: nCall, lo: 1, out: next, alt: int32(e.rule)})
		}
		// A rule that only calls another one, as $ref makes them, is passed over.
		for i := 0; i < maxNesting && n.rules[e.rule].body.op == opRef; i++ {
			e = n.rules[e.rule].body
		}
		// Short texts are copied: a call costs more.
		if body := n.rules[e.rule].body; (body.op == opLit || body.op == opEmpty || n.small(e.rule)) && n.rules[e.rule].quoted == n.rules[n.current].quoted {
			return n.build(body, next)
		}
		// The last call of a rule is a jump, but counts begin with a call.
		if next == n.final && !n.rules[n.current].counted() && !n.rules[e.rule].counted() && !n.rules[e.rule].call {
			return int32(e.rule)
		}
		return n.add(nstate{kind: nCall, out: next, alt: int32(e.rule)})
	case opMachine:
		return n.embed(e.machine, next)
	case opBegin:
		return n.add(nstate{kind: nBegin, out: next})
	case opEnd:
		return n.add(nstate{kind: nEnd, out: next})
	case opLoop:
		return n.loop(e.sub[0], e.min, e.max, n.build(e.sub[1], next), nil)
	case opObject:
		return n.object(e.object, next)
	}
	return n.dead
}

// A loopKey is what opLoop says but for its bounds.
type loopKey struct {
	repeated, behind *expr
	quoted           bool
}

// maxCopied is the most states, about, of a rule that is copied where it is called. large is
// more than any sum of smaller ones.
const maxCopied, large = 64, 1 << 20

// small reports whether a rule is to be copied where it is called.
func (n *nfa) small(rule int) bool {
	return n.rules[rule].copied && n.ruleWeight(rule) <= maxCopied
}

// ruleWeight is about how many states a copy of a rule takes; large for those that are not
// copied, call themselves or call such rules.
func (n *nfa) ruleWeight(rule int) int {
	if n.weights[rule] == 0 {
		n.weights[rule] = 1 + large // while it is looked at
		if n.rules[rule].copied {
			n.weights[rule] = 1 + n.weight(n.rules[rule].body, 0)
		}
	}
	return n.weights[rule] - 1
}

// weight is ruleWeight of an expression.
func (n *nfa) weight(e *expr, depth int) int {
	if n.budget.spend(1) || depth > maxNesting {
		return large
	}
	total := 1
	switch e.op {
	case opLit:
		return len(e.lit)
	case opClass:
		return 1 + len(e.class)/8
	case opRef:
		return n.ruleWeight(e.rule)
	case opMachine, opCounted, opLoop, opObject:
		return large
	}
	for _, part := range e.sub {
		total = min(total+n.weight(part, depth+1), large)
	}
	if e.op == opRepeat {
		total = min(total*max(1, e.min, e.max), large)
	}
	return total
}

// bytes matches s and goes on with next.
func (n *nfa) bytes(s string, next int32) int32 {
	for i := len(s) - 1; i >= 0; i-- {
		next = n.add(nstate{kind: nBytes, lo: s[i], hi: s[i], out: next})
	}
	return next
}

// repeat copies what e repeats, the repetitions that may be left out behind the others.
func (n *nfa) repeat(e *expr, next int32) int32 {
	body := e.sub[0]
	if e.max < 0 { // a ring: once more, or on to next
		loop := n.split(next, next)
		again := n.build(body, loop)
		if n.budget.err != nil {
			return n.dead
		}
		n.states[loop].out = again
		next = loop
	}
	// From the end: a repetition that is left out leaves out those behind it.
	for i := e.max; i > e.min && n.budget.err == nil; i-- {
		next = n.split(n.build(body, next), n.end(e, next, i))
	}
	for i := 0; i < e.min && n.budget.err == nil; i++ {
		next = n.build(body, next)
	}
	return next
}

// end is where the i-th repetition goes when it is left out: to the first state
// behind all of them, so that chains of empty steps stay short.
func (n *nfa) end(e *expr, next int32, i int) int32 {
	if i == e.max {
		return next
	}
	return n.states[next].alt
}

// class matches one of the characters of e. Its states are few: what comes next after
// some bytes is one state, and so is what ends alike.
func (n *nfa) class(e *expr, next int32) int32 {
	clear(n.shared)
	return n.table(n.spellings(e), 0, next)
}

// spellings returns the byte sequences of the characters of e, sorted and apart.
func (n *nfa) spellings(e *expr) [][]runes.Bytes {
	known := n.spelled[0]
	if n.quoted {
		known = n.spelled[1]
	}
	all, ok := known[e]
	if ok {
		return all
	}
	plain := func(lo, hi rune) { runes.UTF8(lo, hi, func(seq []runes.Bytes) { all = append(all, seq) }) }
	// Inside quotes characters that need an escape are cut out of the range; up to the
	// backslash there are few, and behind it none.
	for i := 0; i < len(e.class) && n.budget.err == nil; i += 2 {
		lo, hi := e.class[i], e.class[i+1]
		for char := lo; n.quoted && char <= hi && char <= '\\'; char++ {
			esc := runes.Escape(char)
			if esc == "" {
				continue
			}
			if lo < char {
				plain(lo, char-1)
			}
			var seq []runes.Bytes
			for _, letter := range []byte(esc) {
				seq = append(seq, runes.Bytes{letter, letter})
			}
			all = append(all, seq)
			lo = char + 1
		}
		if lo <= hi {
			plain(lo, hi)
		}
	}
	slices.SortFunc(all, func(a, b []runes.Bytes) int {
		return slices.CompareFunc(a, b, func(x, y runes.Bytes) int { return int(x[0]) - int(y[0]) })
	})
	n.budget.spend(2 * len(all))
	known[e] = all
	return all
}

// table matches what follows the first depth bytes of all, then next.
func (n *nfa) table(all [][]runes.Bytes, depth int, next int32) int32 {
	var edges []edge
	var key []byte
	for i := 0; i < len(all); {
		first, from := all[i][depth], i
		for i < len(all) && all[i][depth] == first {
			i++
		}
		to := next
		if len(all[from]) > depth+1 {
			to = n.table(all[from:i], depth+1, next)
		}
		// Neighbours that lead to the same state become one edge.
		if k := len(edges); k > 0 && edges[k-1].to == to && edges[k-1].hi+1 == first[0] {
			edges[k-1].hi = first[1]
		} else {
			edges = append(edges, edge{lo: first[0], hi: first[1], to: to})
		}
	}
	// vocab.Characters that differ in their first bytes alone share the tables behind these.
	for _, e := range edges {
		key = binary.LittleEndian.AppendUint32(append(key, e.lo, e.hi), uint32(e.to))
	}
	table, ok := n.shared[string(key)]
	if !ok {
		table = n.choose(edges)
		n.shared[string(key)] = table
	}
	return table
}

// choose makes a state that goes where one of edges leads.
func (n *nfa) choose(edges []edge) int32 {
	switch len(edges) {
	case 0:
		return n.dead
	case 1:
		return n.add(nstate{kind: nBytes, lo: edges[0].lo, hi: edges[0].hi, out: edges[0].to})
	}
	n.budget.spend(4 + len(edges))
	n.tables = append(n.tables, edges)
	return n.add(nstate{kind: nTable, alt: int32(len(n.tables) - 1)})
}

// embed copies an automaton without calls and counts, so that its ends go on with next.
func (n *nfa) embed(machine *automaton, next int32) int32 {
	// The states first, for edges lead forth and back: state i of it is a split that reads
	// on, or ends too where it accepts.
	base := int32(len(n.states))
	for range machine.states {
		n.split(n.dead, n.dead)
	}
	for i, state := range machine.states {
		edges := slices.Clone(state.edges)
		for k := range edges {
			edges[k].to += base
		}
		start := n.choose(edges)
		if n.budget.err != nil {
			return n.dead
		}
		if n.states[base+int32(i)].out, n.states[base+int32(i)].alt = start, start; state.accept {
			n.states[base+int32(i)].alt = next
		}
	}
	return base + machine.start[0]
}

// loop matches repeated min to max times, counted, then next. of is the repetition it was
// made of, if there is one to be copied instead.
func (n *nfa) loop(repeated *expr, min, max int, next int32, of *expr) int32 {
	loop := n.add(nstate{kind: nLoop, alt: next})
	// All states made from here to the end of build are the body's.
	from := int32(len(n.states))
	body := n.build(repeated, loop)
	if n.budget.err != nil {
		return n.dead
	}
	n.states[loop].out = body
	n.loops[loop] = countedLoop{min, max, from, int32(len(n.states)), of}
	return loop
}

// counted is repeat with counts instead of copies. The first repetition is outside the
// loop, so that nothing else has to end where it begins.
func (n *nfa) counted(e *expr, next int32) int32 {
	first := n.build(e.sub[0], n.loop(e.sub[0], max(e.min-1, 0), max(e.max-1, -1), next, e))
	if e.min == 0 {
		return n.split(first, next)
	}
	return first
}
