package grammar

import (
	"slices"
	"unicode/utf8"
)

// An op is what an expression does.
type op uint8

const (
	opEmpty    op = iota // the empty text
	opNever              // no text at all
	opLit                // lit
	opClass              // one character of class
	opCat                // sub one after the other
	opAlt                // one of sub
	opRepeat             // sub[0], min to max times; max < 0 = no limit
	opRef                // what rule matches
	opMachine            // what the automaton machine accepts; it has no calls and no counts
	opCounted            // the same with counts; alone in its rule
	opBegin              // at the beginning (patterns only)
	opEnd                // at the end (patterns only)
	opLoop               // sub[0] min to max times, counted while matching, then sub[1]; alone in its rule
	opObject             // a JSON object
	opAhead              // what follows begins with sub[0] (patterns only, until ahead)
	opNotAhead           // what follows does not
)

// An expr is what every front end makes: a regular expression with references to
// rules. It says which texts are allowed, in characters; the nfa turns it into bytes.
type expr struct {
	op       op
	lit      string // of opNever: why, if that is known
	class    []rune // pairs first, last; sorted, disjoint
	sub      []*expr
	min, max int
	rule     int
	machine  *automaton
	object   *object
	at       *value // of opNever and opMachine: the schema or keyword that it is of, if that is known
	element  bool   // of opRef: an element of a list whose elements differ
}

var (
	empty = &expr{op: opEmpty}
	never = &expr{op: opNever}
)

// anyRune is every character that UTF-8 can express.
var anyRune = []rune{0, 0xd7ff, 0xe000, utf8.MaxRune}

func lit(text string) *expr {
	if text == "" {
		return empty
	}
	return &expr{op: opLit, lit: text}
}

// class matches one of the characters of pairs, which are sorted and disjoint.
func class(pairs ...rune) *expr {
	if len(pairs) == 0 {
		return never
	}
	return &expr{op: opClass, class: pairs}
}

func ref(rule int) *expr { return &expr{op: opRef, rule: rule} }

func machine(a *automaton) *expr { return &expr{op: opMachine, machine: a} }

func cat(sub ...*expr) *expr {
	var out []*expr
	for _, part := range sub {
		switch {
		case part.op == opNever:
			return part
		case part.op == opEmpty:
		case part.op == opCat && len(part.sub) <= 8: // copies of what is long would add up
			out = append(out, part.sub...)
		default:
			out = append(out, part)
		}
	}
	switch len(out) {
	case 0:
		return empty
	case 1:
		return out[0]
	}
	return &expr{op: opCat, sub: out}
}

// alt matches one of sub. Of several that match nothing it keeps the first that says why.
func alt(sub ...*expr) *expr {
	var out []*expr
	dead := never
	for _, part := range sub {
		switch part.op {
		case opNever:
			if dead.at == nil {
				dead = part
			}
		case opAlt:
			out = append(out, part.sub...)
		default:
			out = append(out, part)
		}
	}
	switch len(out) {
	case 0:
		return dead
	case 1:
		return out[0]
	}
	return &expr{op: opAlt, sub: out}
}

// repeat matches e min to max times; max < 0 is no limit.
func repeat(e *expr, min, max int) *expr {
	if max == 0 || (e.op == opNever && min == 0) {
		return empty
	}
	if e.op == opNever || e.op == opEmpty || (min == 1 && max == 1) {
		return e
	}
	return &expr{op: opRepeat, sub: []*expr{e}, min: min, max: max}
}

func opt(e *expr) *expr  { return repeat(e, 0, 1) }
func star(e *expr) *expr { return repeat(e, 0, -1) }

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

// has reports whether e is, or holds, one of ops.
func (e *expr) has(ops ...op) bool {
	return slices.Contains(ops, e.op) || slices.ContainsFunc(e.sub, func(part *expr) bool { return part.has(ops...) })
}

// anchored reports whether e asks for the beginning or the end of the text.
func (e *expr) anchored() bool { return e.has(opBegin, opEnd) }
