package grammar

import (
	"errors"
	"fmt"
)

// A budget bounds a compilation (reliability.md GRM-1). One unit is an NFA state, an
// element of a DFA state or a step over one: 20 to 60 ns and at most 24 bytes. The
// first error stays.
type budget struct {
	left int
	stop func() error // of the caller's context
	err  error
}

// checkEvery is how many units may pass between two looks at the context.
const checkEvery = 1 << 12

// spend takes n units and reports whether there is an error.
func (b *budget) spend(n int) bool {
	if b.err != nil {
		return true
	}
	if (b.left-n)/checkEvery != b.left/checkEvery {
		b.fail(b.stop())
	}
	if b.left -= n; b.left < 0 {
		b.fail(errTooLarge)
	}
	return b.err != nil
}

func (b *budget) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

var errTooLarge = errors.New("too large to compile: fewer alternatives, shorter repetitions or smaller bounds are needed")

// maxDepth bounds recursion over expressions; front ends nest less deep, except for
// long tuples.
const maxDepth = 20_000

type nkind uint8

const (
	nBytes nkind = iota // one byte lo to hi, then out
	nSplit              // out or alt
	nCall               // what rule alt matches, then out
	nBegin              // out, at the beginning only
	nEnd                // out, at the end only
	nLoop               // out (one more) or alt (enough)
	nFinal              // the rule has matched
)

type nstate struct {
	kind     nkind
	lo, hi   byte
	out, alt int32
}

// A rule is a named expression. Rules call each other, also themselves.
type rule struct {
	name   string
	body   *expr  // nil until defined
	at     *value // of a rule for a schema: the first schema
	call   bool   // it is always called: many such rules together would make a large automaton
	quoted bool   // as in nfa
}

func (r rule) counted() bool { return r.body != nil && r.body.op == opLoop }

// An nfa has the bytes of all rules in one graph. State i, below len(rules), is the
// entry of rule i; the state after them is final, where every rule ends.
//
// A rule that ends with a call of another one goes there instead of calling: what
// recursion to the right says is a loop, and costs no memory while matching.
type nfa struct {
	states []nstate
	rules  []rule
	final  int32
	dead   int32
	quoted bool               // characters of the current rule are spelled as inside a JSON string, in the shortest way
	bodies map[int32][2]int32 // of nLoop states: the states of the counted part, first to last + 1
	b      *budget

	current int
	depth   int
	shared  map[nstate]int32 // of one class
}

func newNFA(rules []rule, quoted bool, b *budget) *nfa {
	n := &nfa{rules: rules, quoted: quoted, b: b, shared: map[nstate]int32{}}
	n.states = make([]nstate, len(rules)+2)
	n.final = int32(len(rules))
	n.dead = n.final + 1
	n.states[n.final] = nstate{kind: nFinal}
	n.states[n.dead] = nstate{kind: nBytes, lo: 1, hi: 0}
	n.bodies = map[int32][2]int32{}
	for i, r := range rules {
		n.current, n.quoted = i, quoted || r.quoted
		start := n.build(r.body, n.final)
		n.states[i] = nstate{kind: nSplit, out: start, alt: start}
	}
	return n
}

func (n *nfa) add(s nstate) int32 {
	if len(n.states) >= maxNFA {
		n.b.fail(errTooLarge)
	}
	if n.b.spend(1) {
		return n.dead
	}
	n.states = append(n.states, s)
	return int32(len(n.states) - 1)
}

func (n *nfa) split(out, alt int32) int32 {
	return n.add(nstate{kind: nSplit, out: out, alt: alt})
}

// build returns a state that matches e and goes on with next.
func (n *nfa) build(e *expr, next int32) int32 {
	if n.depth++; n.depth > maxDepth {
		n.b.fail(errTooLarge)
	}
	defer func() { n.depth-- }()
	if n.b.err != nil {
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
		return n.class(e.class, next)
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
		return n.repeat(e, next)
	case opRef:
		for i := 0; i < maxNesting && n.rules[e.rule].body.op == opRef; i++ {
			e = n.rules[e.rule].body
		}
		if body := n.rules[e.rule].body; (body.op == opLit || body.op == opEmpty) && n.rules[e.rule].quoted == n.rules[n.current].quoted {
			return n.build(body, next)
		}
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
		return n.loop(e, next)
	case opObject:
		return n.object(e.object, next)
	}
	return n.dead
}

func (n *nfa) bytes(s string, next int32) int32 {
	for i := len(s) - 1; i >= 0; i-- {
		next = n.add(nstate{kind: nBytes, lo: s[i], hi: s[i], out: next})
	}
	return next
}

func (n *nfa) repeat(e *expr, next int32) int32 {
	x := e.sub[0]
	if e.max < 0 {
		loop := n.split(next, next)
		body := n.build(x, loop)
		if n.b.err != nil {
			return n.dead
		}
		n.states[loop].out = body
		next = loop
	}
	for i := e.max; i > e.min && n.b.err == nil; i-- {
		next = n.split(n.build(x, next), n.end(e, next, i))
	}
	for i := 0; i < e.min && n.b.err == nil; i++ {
		next = n.build(x, next)
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

// class matches one of the characters in pairs. Byte sequences with the same rest
// share it.
func (n *nfa) class(pairs []rune, next int32) int32 {
	clear(n.shared)
	start := n.dead
	either := func(s int32) {
		if start == n.dead {
			start = s
		} else {
			start = n.split(s, start)
		}
	}
	plain := func(lo, hi rune) {
		utf8Ranges(lo, hi, func(seq []byteRange) {
			at := next
			for i := len(seq) - 1; i >= 0; i-- {
				key := nstate{kind: nBytes, lo: seq[i].lo, hi: seq[i].hi, out: at}
				s, ok := n.shared[key]
				if !ok {
					s = n.add(key)
					n.shared[key] = s
				}
				at = s
			}
			either(at)
		})
	}
	for i := 0; i < len(pairs) && n.b.err == nil; i += 2 {
		lo, hi := pairs[i], pairs[i+1]
		for r := lo; n.quoted && r <= hi && r <= '\\'; r++ {
			if esc := escape(r); esc != "" {
				if lo < r {
					plain(lo, r-1)
				}
				either(n.bytes(esc, next))
				lo = r + 1
			}
		}
		if lo <= hi {
			plain(lo, hi)
		}
	}
	return start
}

// embed copies an automaton without calls.
func (n *nfa) embed(a *automaton, next int32) int32 {
	base := int32(len(n.states))
	for range a.states {
		n.split(n.dead, n.dead)
	}
	for i, s := range a.states {
		start := n.dead
		if s.accept {
			start = next
		}
		for _, e := range s.edges {
			to := n.add(nstate{kind: nBytes, lo: e.lo, hi: e.hi, out: base + e.to})
			start = n.split(to, start)
		}
		if n.b.err != nil {
			return n.dead
		}
		n.states[base+int32(i)] = nstate{kind: nSplit, out: start, alt: start}
	}
	return base + a.start[0]
}

// loop marks which states belong to the counted part.
func (n *nfa) loop(e *expr, next int32) int32 {
	tail := n.build(e.sub[1], next)
	loop := n.add(nstate{kind: nLoop, alt: tail})
	lo := int32(len(n.states))
	body := n.build(e.sub[0], loop)
	if n.b.err != nil {
		return n.dead
	}
	n.states[loop].out = body
	n.bodies[loop] = [2]int32{lo, int32(len(n.states))}
	return loop
}

// An object is a JSON object whose members come in a fixed order.
type object struct {
	members  []member
	extra    *expr // a member with any other name, without comma; nil = none
	min, max int   // members in all; max < 0 = no limit
	space    *expr
	at       *value     // minProperties, where it counts
	differ   [][2]*expr // by number: so many members or more with other names that differ, the first without comma and with
}

type member struct {
	key      string // "name": as it is written
	value    *expr  // with the space before it
	required bool
}

// object goes through the members in order. What comes next depends on how many
// there were: at least on whether a comma is due, at most on the exact number.
func (n *nfa) object(o *object, next int32) int32 {
	last := len(o.members)
	most := max(1, min(last, max(o.min, o.max)))
	heads := make([]int32, most+1) // by number of members so far: what may follow
	for c := range heads {
		heads[c] = n.build(o.rest(c), next)
	}
	comma := cat(lit(","), o.space)
	for i := last - 1; i >= 0 && n.b.err == nil; i-- {
		m := o.members[i]
		taken := make([]int32, most+1) // by number after it
		for c := 1; c <= most; c++ {
			taken[c] = n.bytes(m.key, n.build(m.value, heads[c]))
		}
		before := make([]int32, most+1)
		for c := range before {
			before[c] = n.dead
			if !m.required {
				before[c] = heads[c]
			}
			if o.max >= 0 && c >= o.max {
				continue
			}
			take := taken[min(c+1, most)]
			if c > 0 {
				take = n.build(comma, take)
			}
			before[c] = n.split(take, before[c])
		}
		heads = before
	}
	return n.bytes("{", n.build(o.space, heads[0]))
}

// rest is what may follow c members when all known names are behind: others, and
// the end.
func (o *object) rest(c int) *expr {
	closing := cat(o.space, lit("}"))
	least, most := max(o.min-c, 0), -1
	if o.max >= 0 {
		most = o.max - c
	}
	if o.extra == nil {
		switch {
		case least > 0 || o.max >= 0 && most < 0:
			return never
		case c == 0:
			return lit("}")
		}
		return closing
	}
	if most == 0 {
		o := object{min: o.min, max: o.max, space: o.space}
		return o.rest(c)
	}
	more := cat(lit(","), o.space, o.extra)
	if least > 1 { // and two others could be the same twice
		if least >= len(o.differ) || o.differ[least][0] == nil {
			return never
		}
		return cat(o.differ[least][min(c, 1)], repeat(more, 0, max(most-least, -1)), closing)
	}
	if c > 0 {
		return cat(repeat(more, least, most), closing)
	}
	some := cat(o.extra, repeat(more, max(least-1, 0), max(most-1, -1)), closing)
	if least > 0 {
		return some
	}
	return alt(lit("}"), some)
}

// quoted spells s as the inside of a JSON string.
func quoted(s string) string {
	var out []byte
	for _, r := range s {
		if esc := escape(r); esc != "" {
			out = append(out, esc...)
		} else {
			out = append(out, string(r)...)
		}
	}
	return string(out)
}

// escape returns the escape that r needs in a JSON string, or "".
func escape(r rune) string {
	switch r {
	case '"', '\\':
		return `\` + string(r)
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	case '\b':
		return `\b`
	case '\f':
		return `\f`
	}
	if r < 0x20 {
		return fmt.Sprintf(`\u%04x`, r)
	}
	return ""
}
