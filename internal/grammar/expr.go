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
	at       *value // of opNever: the schema or keyword whose fault it is
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
	for _, e := range sub {
		switch {
		case e.op == opNever:
			return e
		case e.op == opEmpty:
		case e.op == opCat && len(e.sub) <= 8: // copies of what is long would add up
			out = append(out, e.sub...)
		default:
			out = append(out, e)
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
	for _, e := range sub {
		switch e.op {
		case opNever:
			if dead.at == nil {
				dead = e
			}
		case opAlt:
			out = append(out, e.sub...)
		default:
			out = append(out, e)
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

// negate returns what class leaves out; pairs must be sorted and disjoint.
func negate(pairs []rune) []rune {
	var out []rune
	next := rune(0)
	for at := 0; at < len(pairs); at += 2 {
		if pairs[at] > next {
			out = append(out, next, pairs[at]-1)
		}
		next = pairs[at+1] + 1
	}
	if next <= utf8.MaxRune {
		out = append(out, next, utf8.MaxRune)
	}
	return out
}

// A byteRange is an inclusive range of bytes.
type byteRange struct{ lo, hi byte }

// utf8Ranges calls emit with sequences of byte ranges that together spell the characters
// lo to hi, surrogates left out: they have no UTF-8. A range is cut until its first and
// last character differ in one byte and full ranges behind it.
func utf8Ranges(lo, hi rune, emit func([]byteRange)) {
	// Around the surrogates, D800 to DFFF.
	if lo < 0xd800 && hi > 0xd7ff {
		utf8Ranges(lo, 0xd7ff, emit)
		lo = 0xd800
	}
	if lo >= 0xd800 && lo <= 0xdfff {
		lo = 0xe000
	}
	if hi >= 0xd800 && hi <= 0xdfff {
		hi = 0xd7ff
	}
	if lo > hi {
		return
	}
	for _, last := range []rune{0x7f, 0x7ff, 0xffff} { // by length
		if lo <= last && hi > last {
			utf8Ranges(lo, last, emit)
			utf8Ranges(last+1, hi, emit)
			return
		}
	}
	length := utf8.RuneLen(lo)
	for i := 1; i < length; i++ { // until all continuation bytes below the first difference are full ranges
		low := rune(1)<<(6*i) - 1
		if lo&^low == hi&^low {
			continue
		}
		if lo&low != 0 {
			utf8Ranges(lo, lo|low, emit)
			utf8Ranges((lo|low)+1, hi, emit)
			return
		}
		if hi&low != low {
			utf8Ranges(lo, hi&^low-1, emit)
			utf8Ranges(hi&^low, hi, emit)
			return
		}
	}
	var first, last [utf8.UTFMax]byte
	utf8.EncodeRune(first[:], lo)
	utf8.EncodeRune(last[:], hi)
	seq := make([]byteRange, length)
	for i := range seq {
		seq[i] = byteRange{first[i], last[i]}
	}
	emit(seq)
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

// has reports whether e is, or holds, one of ops.
func (e *expr) has(ops ...op) bool {
	return slices.Contains(ops, e.op) || slices.ContainsFunc(e.sub, func(part *expr) bool { return part.has(ops...) })
}

// anchored reports whether e asks for the beginning or the end of the text.
func (e *expr) anchored() bool { return e.has(opBegin, opEnd) }
